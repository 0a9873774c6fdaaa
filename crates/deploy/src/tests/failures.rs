//! What deployed systems of this kind are reported to fail at.

use super::peers::whole_message;
use super::*;

/// Is a process with these users, whose connections `way` carries to the server, each with its number.
pub(super) fn on_a_way(
    address: SocketAddr,
    users: Range<u32>,
    process: impl Fn(SocketAddr, Range<u32>),
    way: impl Fn(usize, TcpStream, TcpStream) + Sync,
) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let detour = listener.local_addr().unwrap();
    let over = Over(AtomicBool::default(), detour);
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0.. {
                let (device, _) = listener.accept().unwrap();
                if over.0.load(Ordering::Relaxed) {
                    return;
                }
                // A server that has ended leaves the process without a connection, and it says so.
                let Ok(server) = TcpStream::connect(address) else {
                    continue;
                };
                // Small messages would wait for acknowledgements.
                for stream in [&device, &server] {
                    stream.set_nodelay(true).unwrap();
                }
                way(number, device, server);
            }
        });
        let _ends = Ends(&over);
        process(detour, users);
    });
}

/// Whether a way is not used any more, and its address.
struct Over(AtomicBool, SocketAddr);

/// Ends a way with its process, even if that panics. The test would wait for it for ever.
struct Ends<'w>(&'w Over);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        let Over(is_over, address) = self.0;
        is_over.store(true, Ordering::Relaxed);
        // This wakes the thread that accepts.
        let _ = TcpStream::connect(address);
    }
}

fn usual(address: SocketAddr, users: Range<u32>) {
    device_process(address, users).unwrap();
}

/// Carries everything in both directions.
fn carry(device: TcpStream, server: TcpStream) {
    let (from, to) = (device.try_clone().unwrap(), server.try_clone().unwrap());
    let up = thread::spawn(move || pass(from, to, usize::MAX));
    pass(server, device, usize::MAX);
    up.join().unwrap();
}

/// Carries messages until one of this kind has come from the server and been brought to the device.
fn carry_until(device: &TcpStream, server: &TcpStream, is_last: impl Fn(Head) -> bool) {
    carry_while(device, server, |whole, to| {
        to.write_all(whole).unwrap();
        !is_last(head(whole))
    });
}

/// Carries messages to the server, and gives those from there to `bring` until it returns false.
pub(super) fn carry_while(
    device: &TcpStream,
    server: &TcpStream,
    bring: impl Fn(&[u8], &mut TcpStream) -> bool,
) {
    let (mut from, mut to) = (device.try_clone().unwrap(), server.try_clone().unwrap());
    let up = thread::spawn(move || {
        while whole_message(&mut from).is_ok_and(|whole| to.write_all(&whole).is_ok()) {}
    });
    let (mut from, mut to) = (server.try_clone().unwrap(), device.try_clone().unwrap());
    while whole_message(&mut from).is_ok_and(|whole| bring(&whole, &mut to)) {}
    let _ = device.shutdown(Shutdown::Both);
    up.join().unwrap();
}

pub(super) fn head(whole: &[u8]) -> Head {
    let message = whole[LENGTH_BYTES..].to_vec();
    Message::read(message.into()).unwrap().head
}

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
    let replaced = heard
        .cut_off
        .iter()
        .filter(|reason| reason.contains("connected again"));
    assert_eq!(replaced.count(), 1, "{:?}", heard.cut_off);
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

/// If this fails, a peer that sends a byte now and then keeps a thread of the other side for ever.
#[test]
fn a_greeting_has_to_be_over_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut slow = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (stream, _) = listener.accept().unwrap();
    let silence = Duration::from_millis(20);
    let (mut reader, writer) = connection::open(stream, LARGEST_GREETING, silence).unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            slow.write_all(&LARGEST_GREETING.to_le_bytes()).unwrap();
            while slow.write_all(&[0]).is_ok() {}
        });
        let kind = reader.next().unwrap_err().kind();
        // The other side would wait for ever with its bytes unread. It ends once nobody has the socket.
        writer.cut();
        drop((reader, writer));
        // A read that gives up by itself says that it would block.
        let in_time = [io::ErrorKind::TimedOut, io::ErrorKind::WouldBlock];
        assert!(in_time.contains(&kind), "{kind:?}");
    });
}

/// If this fails, a process that reads its ratings for longer than the greeting may take is cut off.
#[test]
fn a_peer_that_has_said_who_it_is_may_take_its_time() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (stream, _) = listener.accept().unwrap();
    let silence = Duration::from_millis(20);
    let (mut reader, _writer) = connection::open(stream, LARGEST_GREETING, silence).unwrap();
    // The time is over once this has failed.
    while reader.next().unwrap_err().kind() != io::ErrorKind::TimedOut {}
    reader.is_known().unwrap();
    let welcome = Message::new(Head::Welcome);
    peer.write_all(&welcome.beginning().unwrap()).unwrap();
    assert_eq!(reader.next().unwrap(), welcome);
}

/// If this fails, heartbeats are taken for a flood, or for nonsense.
#[test]
fn ten_thousand_heartbeats_are_signs_of_life_and_no_more() {
    let (outcome, heard) = served("training.rounds=1", |address| {
        let stream = TcpStream::connect(address).unwrap();
        let (mut reader, writer) = connection::open(stream, LARGEST_GREETING, SILENCE).unwrap();
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

/// Returns the number of threads and of open files of this process.
#[cfg(target_os = "linux")]
fn held_by_this_process() -> usize {
    let count = |path| std::fs::read_dir(path).unwrap().count();
    count("/proc/self/fd") + count("/proc/self/task")
}

/// Returns the memory of this process that is in the machine's, in KiB.
#[cfg(target_os = "linux")]
pub(super) fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let figure = line.unwrap().split_whitespace().nth(1);
    figure.unwrap().parse().unwrap()
}

/// If this fails, a process that comes back again and again takes all descriptors or threads, its own
/// or the server's.
#[cfg(target_os = "linux")]
#[test]
fn a_thousand_connections_leave_no_descriptor_and_no_thread() {
    const TIMES: usize = 1000;
    let held = Mutex::new([0; 2]);
    let (outcome, _) = served("training.rounds=1", |address| {
        thread::scope(|scope| {
            on_a_way(address, 10..30, usual, |number, device, server| {
                if number == 10 {
                    held.lock().unwrap()[0] = held_by_this_process();
                }
                if number < TIMES {
                    return carry_until(&device, &server, |head| head == Head::Welcome);
                }
                held.lock().unwrap()[1] = held_by_this_process();
                scope.spawn(move || device_process(address, 0..10).unwrap());
                carry(device, server);
            });
        });
    });
    assert!(outcome.stopped_by.is_none());
    let [before, after] = *held.lock().unwrap();
    // Other tests run beside this one, and have some of them.
    assert!(after < before + TIMES / 2, "{before} before, {after} after");
}

/// If this fails, the server keeps something of every process that was killed: memory, a descriptor or
/// a thread. A run of months then ends by it.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "has this process to itself: cargo test --release -p fedrecsim-deploy thousand_times -- --ignored --nocapture"]
fn a_process_that_is_killed_a_thousand_times_leaves_nothing_behind() {
    const TIMES: usize = 1000;
    // The first ones take what is kept for later ones.
    const FIRST: usize = 100;
    let held = Mutex::new([(0, 0); 2]);
    let note = |place: usize| {
        let now = (resident_kib(), held_by_this_process());
        held.lock().unwrap()[place] = now;
    };
    // Each kill costs a round the users of the process.
    // The usual rates diverge in so many rounds of so few users.
    let text = format!(
        "training.rounds={}\nmethod.fedmf.learning_rate_items=1",
        TIMES + 2
    );
    let (outcome, heard) = served(&text, |address| {
        thread::scope(|scope| {
            scope.spawn(move || device_process(address, 0..10).unwrap());
            let killed = |address: SocketAddr, users: Range<u32>| {
                for _ in 0..TIMES {
                    unlucky(address, users.clone());
                }
                usual(address, users);
            };
            on_a_way(address, 10..30, killed, |number, device, server| {
                match number {
                    FIRST => note(0),
                    TIMES => note(1),
                    _ => {}
                }
                match number < TIMES {
                    true => {
                        carry_until(&device, &server, |head| matches!(head, Head::Invite { .. }))
                    }
                    false => carry(device, server),
                }
            });
        });
    });
    assert!(outcome.stopped_by.is_none());
    assert_eq!(heard.begun_anew.len(), TIMES);
    let [before, after] = *held.lock().unwrap();
    println!(
        "KiB, and descriptors and threads: {before:?} after {FIRST} kills, {after:?} after {TIMES}"
    );
    assert!(after.0 < before.0 + (8 << 10), "memory");
    assert!(after.1 <= before.1 + 8, "descriptors or threads");
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

/// If this fails, a process whose server goes away stays for ever: its last question waits for its
/// trainings, and one of these for a reply.
#[test]
fn a_training_that_waits_for_a_reply_ends_with_the_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || unlucky(address, 0..30));
        let (stream, _) = listener.accept().unwrap();
        let (mut reader, writer) = connection::open(stream, LARGEST_GREETING, SILENCE).unwrap();
        reader.next().unwrap();
        let offer = Head::Offer {
            largest: LARGEST_GREETING,
            pace: false,
            keeps: false,
        };
        let needed = "codec.downlink={ select = \"needed-rows\" }";
        writer.send(Message::with(offer, needed));
        reader.next().unwrap();
        writer.send(Message::new(Head::Welcome));
        let to = To {
            user: 3,
            invitation: 0,
        };
        writer.send(Message::new(Head::Invite {
            to,
            step: 0,
            number: 0,
            phase: 0,
        }));
        assert!(matches!(reader.next().unwrap().head, Head::Request { .. }));
        writer.send(Message::new(Head::Question));
        drop(writer);
        while reader.next().is_ok() {}
    });
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

/// Is a process that does not come back.
pub(super) fn unlucky(address: SocketAddr, users: Range<u32>) {
    let joining = joining(users, None);
    let attempts = 0;
    let once = Joining {
        attempts,
        ..joining
    };
    join(&once, address).unwrap_err();
}
