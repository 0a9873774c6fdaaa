//! What deployed systems of this kind are reported to fail at.

use super::greeting::greeted;
use super::mutated::messages;
use super::ways::*;
use super::*;

/// If this fails, a device that comes back while the server still holds its old connection is not
/// invited until that has timed out.
#[test]
fn a_process_that_comes_back_beside_its_old_connection_trains_in_the_next_round() {
    let held = Mutex::new(None);
    let (outcome, heard) = served("training.rounds=4", |address| {
        thread::scope(|scope| {
            scope.spawn(move || device_process(address, 0..20).unwrap());
            on_a_way(
                address,
                20..30,
                usual,
                |number, device, server| match number {
                    0 => {
                        carry_until(&device, &server, |head| matches!(head, Head::Invite { .. }));
                        // The server sees no end of it.
                        *held.lock().unwrap() = Some(server);
                    }
                    _ => carry(device, server),
                },
            );
        });
    });
    assert!(outcome.stopped_by.is_none());
    assert_eq!(heard.cut_off, ["its process has connected again"]);
    let lost: Vec<u32> = outcome.rounds.iter().map(|round| round.lost).collect();
    assert!(lost[0] > 0 && lost[1..] == [0, 0, 0], "{lost:?}");
}

/// If this fails, a connection that is reset in the middle of a frame ends the run, or half a frame is
/// taken for one.
#[test]
fn a_reset_in_the_middle_of_a_frame_is_a_broken_connection() {
    let (outcome, heard) = served("training.rounds=2", |address| {
        let mut stream = TcpStream::connect(address).unwrap();
        let hello = Head::Hello {
            protocol: PROTOCOL,
            token: Digest::default(),
            build: BUILD,
        };
        let join = Head::Join {
            scenario: *blake3::hash(b"training.rounds=2").as_bytes(),
            data: DATA,
            first: 20,
            end: 30,
            run: 0,
        };
        for head in [hello, join] {
            stream
                .write_all(&Message::new(head).beginning().unwrap())
                .unwrap();
        }
        let upload = &messages()[3];
        stream.write_all(&upload.beginning().unwrap()).unwrap();
        stream.write_all(&upload.payload[..40]).unwrap();
        // A socket that is closed with bytes that nobody has read resets its connection.
        stream.peek(&mut [0]).unwrap();
        drop(stream);
        thread::scope(|scope| {
            for users in [0..20, 20..30] {
                scope.spawn(move || device_process(address, users).unwrap());
            }
        });
    });
    assert!(outcome.stopped_by.is_none());
    assert_eq!(heard.cut_off.len(), 1, "{:?}", heard.cut_off);
    let aggregated: Vec<u32> = outcome
        .rounds
        .iter()
        .map(|round| round.aggregated)
        .collect();
    assert_eq!(aggregated, [15, 15]);
}

/// If this fails, a process that is stopped for a while, so that neither side sees an end of the
/// connection, holds the run up for ever, or does not take part again.
#[test]
fn a_process_that_is_stopped_is_cut_off_and_takes_part_again() {
    let silence = Duration::from_millis(500);
    let kept = Kept {
        silence: Some(silence),
        ..Kept::default()
    };
    let process = move |address, users| {
        let joining = joining(users, None);
        join(&Joining { silence, ..joining }, address).unwrap();
    };
    let was_stopped = AtomicBool::default();
    let (outcome, heard) = served_keeping("training.rounds=4", kept, |address| {
        thread::scope(|scope| {
            scope.spawn(move || process(address, 0..20));
            on_a_way(address, 20..30, process, |_, mut device, mut server| {
                let (mut from, mut to) = (device.try_clone().unwrap(), server.try_clone().unwrap());
                let is_stopped = Arc::new(AtomicBool::default());
                let goes_up = Arc::clone(&is_stopped);
                let up = thread::spawn(move || {
                    while let Ok(whole) = whole_message(&mut from) {
                        if !goes_up.load(Ordering::Relaxed) && to.write_all(&whole).is_err() {
                            return;
                        }
                    }
                });
                while let Ok(whole) = whole_message(&mut server) {
                    if matches!(head(&whole), Head::Invite { .. })
                        && !was_stopped.swap(true, Ordering::Relaxed)
                    {
                        // From here on nothing goes up, not even a heartbeat, and nothing ends.
                        is_stopped.store(true, Ordering::Relaxed);
                    }
                    if device.write_all(&whole).is_err() {
                        break;
                    }
                }
                // The server has cut it off. The process goes on, and finds its connection broken.
                let _ = device.shutdown(Shutdown::Both);
                let _ = server.shutdown(Shutdown::Both);
                up.join().unwrap();
            });
        });
    });
    let outcome = outcome.unwrap();
    assert!(outcome.stopped_by.is_none());
    assert!(!heard.cut_off.is_empty());
    let lost: u32 = outcome.rounds.iter().map(|round| round.lost).sum();
    assert!(lost > 0, "nobody was stopped");
    assert!(uploads_of(&heard, 20..30) > 0, "it never took part again");
}

/// Returns the number of uploads of these users.
fn uploads_of(heard: &Heard, users: Range<u32>) -> u32 {
    let uploads = heard
        .arrivals
        .lines()
        .filter(|line| line.contains("\"uploaded\""));
    let is_of = |line: &&str| {
        let user = line.split("\"user\":").nth(1).unwrap();
        users.contains(&user.split(',').next().unwrap().parse().unwrap())
    };
    uploads.filter(is_of).count() as u32
}

/// If this fails, heartbeats are taken for a flood, or for nonsense.
#[test]
fn ten_thousand_heartbeats_are_signs_of_life_and_no_more() {
    let (outcome, heard) = served("training.rounds=1", |address| {
        let stream = TcpStream::connect(address).unwrap();
        let (mut reader, writer) =
            connection::open(stream, None, LARGEST_GREETING, SILENCE).unwrap();
        assert_eq!(greeted(&mut reader, &writer, 20..30).head, Head::Welcome);
        for _ in 0..10_000 {
            writer.send(Message::new(Head::Heartbeat));
        }
        writer.say_bye();
        while reader.next().is_ok() {}
        thread::scope(|scope| {
            for users in [0..20, 20..30] {
                scope.spawn(move || device_process(address, users).unwrap());
            }
        });
    });
    assert_eq!(heard.cut_off, ["the connection has ended"]);
    assert_eq!(outcome.rounds[0].aggregated, 15);
}

/// If this fails, a peer that sends one byte now and then holds up those who take part.
#[test]
fn a_peer_that_sends_byte_by_byte_holds_nobody_up() {
    let sent = AtomicUsize::default();
    let (outcome, heard) = served("training.rounds=2", |address| {
        let slow = TcpStream::connect(address).unwrap();
        let hello = Head::Hello {
            protocol: PROTOCOL,
            token: Digest::default(),
            build: BUILD,
        };
        let hello = Message::new(hello).beginning().unwrap();
        // The last byte does not come.
        let byte = || {
            let next = sent.fetch_add(1, Ordering::Relaxed).min(hello.len() - 2);
            (&slow).write_all(&hello[next..=next]).unwrap();
        };
        byte();
        thread::scope(|scope| {
            scope.spawn(move || device_process(address, 0..20).unwrap());
            on_a_way(address, 20..30, usual, |_, device, server| {
                carry_while(&device, &server, |whole, to| {
                    if sent.load(Ordering::Relaxed) + 1 < hello.len() {
                        byte();
                    }
                    to.write_all(whole).is_ok()
                });
            });
        });
    });
    // It was there in every round, and nobody was lost or cut off for it.
    assert!(sent.into_inner() > 10);
    assert_eq!(outcome.rounds.len(), 2);
    assert!(outcome.rounds.iter().all(|round| round.aggregated == 15));
    assert_eq!(heard.cut_off, [""; 0]);
}

/// If this fails, a server that nobody comes to gives up, or does not say whom it waits for.
#[test]
fn a_server_says_whom_it_waits_for_and_goes_on_when_they_come() {
    let kept = Kept::default();
    let waited_for = Arc::clone(&kept.waited_for);
    let (outcome, _) = served_keeping("training.rounds=3", kept, |address| {
        thread::scope(|scope| {
            scope.spawn(move || device_process(address, 0..10).unwrap());
            on_a_way(address, 10..30, usual, |number, device, server| {
                if number == 0 {
                    return carry_until(&device, &server, |head| {
                        matches!(head, Head::Invite { .. })
                    });
                }
                // It comes back once the server waits for it, however long that takes.
                while waited_for
                    .lock()
                    .unwrap()
                    .last()
                    .is_none_or(|users| users != "10..29")
                {
                    thread::yield_now();
                }
                carry(device, server);
            });
        });
    });
    assert!(outcome.unwrap().stopped_by.is_none());
    assert_eq!(waited_for.lock().unwrap()[0], "0..29");
}

/// If this fails, a server that is interrupted while it waits for a process that is away never ends,
/// or forgets the rounds before.
#[test]
fn a_server_that_waits_for_a_process_can_be_interrupted() {
    for (text, question, rounds) in [
        // The questions are: begin, the baselines, an evaluation after each round, and digests.
        ("training.rounds=3", 4, 1),
        ("training.rounds=3", 6, 3),
    ] {
        let kept = Kept {
            stops_without: "10..29",
            ..Kept::default()
        };
        let asked = AtomicUsize::default();
        let (outcome, _) = served_keeping(text, kept, |address| {
            thread::scope(|scope| {
                scope.spawn(move || device_process(address, 0..10));
                on_a_way(address, 10..30, unlucky, |_, device, server| {
                    carry_while(&device, &server, |whole, to| {
                        // The last question is not brought, so that it has no answer.
                        let is_last = head(whole) == Head::Question
                            && asked.fetch_add(1, Ordering::Relaxed) + 1 == question;
                        !is_last && to.write_all(whole).is_ok()
                    });
                });
            });
        });
        let outcome = outcome.unwrap();
        assert!(matches!(outcome.stopped_by, Some(Error::Interrupted)));
        assert_eq!(outcome.rounds.len(), rounds);
    }
}

/// Is a process with these users. Its first connection ends where the first upload would go up, and
/// the second one brings that twice.
fn with_a_late_upload(address: SocketAddr, users: Range<u32>) {
    let late = Mutex::new(None);
    on_a_way(address, users, usual, |number, mut device, mut server| {
        let (from, to) = (server.try_clone().unwrap(), device.try_clone().unwrap());
        let down = thread::spawn(move || pass(from, to, usize::MAX));
        while let Ok(message) = whole_message(&mut device) {
            let head = head(&message);
            if number == 0 && matches!(head, Head::Upload { .. }) {
                *late.lock().unwrap() = Some(message);
                break;
            }
            // The server may have hung up.
            let _ = server.write_all(&message);
            if matches!(head, Head::Join { .. }) {
                let late = late.lock().unwrap().take().unwrap_or_default();
                let _ = server.write_all(&late.repeat(2));
            }
        }
        let _ = server.shutdown(Shutdown::Both);
        let _ = device.shutdown(Shutdown::Both);
        down.join().unwrap();
    });
}

/// If this fails, an update counts that was lost with its connection, or one that comes twice.
#[test]
fn an_upload_of_a_participation_that_was_lost_changes_nothing() {
    let (outcome, heard) = served("training.rounds=4", |address| {
        thread::scope(|scope| {
            scope.spawn(move || device_process(address, 0..20).unwrap());
            with_a_late_upload(address, 20..30);
        });
    });
    assert!(outcome.stopped_by.is_none());
    for round in &outcome.rounds {
        assert_eq!(round.aggregated + round.lost, round.invited, "{round:?}");
    }
    assert!(outcome.rounds[0].lost > 0);
    let aggregated: u32 = outcome.rounds.iter().map(|round| round.aggregated).sum();
    let came = heard.arrivals.matches("\"uploaded\"").count();
    assert_eq!(came, aggregated as usize + 2, "the late one came twice");
    check_replay("training.rounds=4", &outcome, &heard);
}

/// If this fails, a connection on which nothing happens for minutes is taken for a dead one.
#[test]
fn a_connection_that_is_idle_stays() {
    // Ten times the silence that is allowed, in heartbeats.
    const HEARTBEATS: u32 = 60;
    let silence = Duration::from_millis(600);
    let kept = Kept {
        silence: Some(silence),
        ..Kept::default()
    };
    let (outcome, heard) = served_keeping("training.rounds=1", kept, |address| {
        let device = |address, users| {
            let joining = joining(users, None);
            join(&Joining { silence, ..joining }, address).unwrap();
        };
        let is_idle = AtomicBool::default();
        thread::scope(|scope| {
            on_a_way(address, 0..10, device, |_, device_end, server| {
                let beats = AtomicUsize::default();
                carry_while(&device_end, &server, |whole, to| {
                    if head(whole) == Head::Heartbeat
                        && beats.fetch_add(1, Ordering::Relaxed) + 1 == HEARTBEATS as usize
                        && !is_idle.swap(true, Ordering::Relaxed)
                    {
                        // The others come, and the run begins.
                        scope.spawn(move || device(address, 10..30));
                    }
                    to.write_all(whole).is_ok()
                });
            });
        });
    });
    assert_eq!(outcome.unwrap().rounds[0].aggregated, 15);
    assert_eq!(heard.cut_off, [""; 0]);
}
