//! Messages that nobody sends: nonsense, and mutations of those that somebody does.

use super::counted::{held, most_held};
use super::greeting::greeted;
use super::ways::{head, on_a_way, whole_message};
use super::*;

/// If this fails, a peer that sends nonsense ends the run, takes memory for a length that it only
/// claims, or changes the model.
#[test]
fn nonsense_cuts_the_peer_off_and_changes_nothing() {
    let (outcome, heard) = served("", |address| {
        let mut seed = 1u64;
        let mut draw = move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as u8
        };
        for length in [0, 1, 3, 4, 5, 40, 300] {
            let mut stream = TcpStream::connect(address).unwrap();
            let nonsense: Vec<u8> = (0..length).map(|_| draw()).collect();
            // The server may hang up before all of it is written.
            let _ = stream.write_all(&nonsense);
            let _ = stream.shutdown(Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
        }
        // A message for a user of another process, and one that no device sends.
        thread::scope(|scope| {
            let processes: Vec<_> = [0..10, 10..20]
                .map(|users| scope.spawn(move || device_process(address, users).unwrap()))
                .into();
            for head in [
                Head::Received {
                    to: To {
                        user: 3,
                        invitation: 0,
                    },
                },
                Head::Offer {
                    largest: 9,
                    pace: false,
                    keeps: false,
                },
            ] {
                let stream = TcpStream::connect(address).unwrap();
                let (mut reader, writer) =
                    connection::open(stream, None, LARGEST_GREETING, SILENCE).unwrap();
                assert_eq!(greeted(&mut reader, &writer, 20..30).head, Head::Welcome);
                writer.send(Message::new(head));
                while reader.next().is_ok() {}
            }
            scope.spawn(move || device_process(address, 20..30).unwrap());
            for process in processes {
                process.join().unwrap();
            }
        });
    });
    assert!(heard.cut_off.len() >= 7, "{:?}", heard.cut_off);
    let aggregated: u32 = outcome.rounds.iter().map(|round| round.aggregated).sum();
    let lost: u32 = outcome.rounds.iter().map(|round| round.lost).sum();
    assert_eq!(aggregated + lost, 45);
}

/// Draws numbers for mutations.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % end
    }

    /// Returns the bytes of one of `messages` with a few changes.
    fn mutated(&mut self, messages: &[Message]) -> Vec<u8> {
        let message = &messages[self.below(messages.len())];
        self.changed([&message.beginning().unwrap()[..], &message.payload].concat())
    }

    /// Makes a few changes to the bytes of a message.
    fn changed(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        for _ in 0..1 + self.below(3) {
            let at = self.below(bytes.len());
            match self.below(4) {
                // The length is changed less often than what it is the length of.
                0 if at >= LENGTH_BYTES || self.below(8) == 0 => bytes[at] = self.below(256) as u8,
                1 => bytes[at.max(LENGTH_BYTES)] ^= 1 << self.below(8),
                2 => bytes.truncate(at.max(LENGTH_BYTES + 1)),
                _ => bytes.push(self.below(256) as u8),
            }
            let length = (bytes.len() - LENGTH_BYTES) as u32;
            if self.below(4) > 0 {
                bytes[..LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
            }
        }
        bytes
    }
}

/// The messages that are mutated, of both ends.
pub(super) fn messages() -> Vec<Message> {
    let to = To {
        user: 23,
        invitation: 0,
    };
    let made = Made {
        row_visits: 9,
        multiply_adds: 90,
        took_ns: 1000,
        header: 16,
        index: 4,
    };
    let heads = [
        Head::Received { to },
        Head::Request {
            to,
            peer: Peer::ThirdParty,
            made,
        },
        Head::Reply { to },
        Head::Upload {
            to,
            made,
            loss: 0.5,
        },
        Head::Invite {
            to,
            step: 0,
            number: 0,
            phase: 0,
        },
        Head::Taken { to },
        Head::Cancel { to },
        Head::Question,
        Head::Answer,
        Head::Heartbeat,
    ];
    let payload: Vec<u8> = (0..80).collect();
    heads
        .into_iter()
        .map(|head| Message::with(head, payload.clone()))
        .collect()
}

/// The mutated messages that go over one connection. An end does not read on after nonsense, so that
/// most of them are read only if they are few.
const ON_A_CONNECTION: usize = 5;

/// If this fails, one message ends the server, or a peer that sends nonsense is not counted.
#[test]
fn no_mutated_message_ends_the_server() {
    send_mutated_to_the_server(10_000);
}

/// If this fails, one message of somebody who stands in for the server ends a process with devices.
#[test]
fn no_mutated_message_ends_a_process_with_devices() {
    send_mutated_to_a_process(2_000);
}

/// If this fails, one message in a million ends the server, or it keeps memory for what it has refused.
#[test]
#[ignore = "takes minutes: cargo test --release -p fedrecsim-deploy million -- --ignored --nocapture --test-threads 1"]
fn no_message_of_a_million_ends_the_server() {
    send_a_million(send_mutated_to_the_server, mutate_on_the_way_to_the_server);
}

/// If this fails, one message in a million ends a process with devices, or it keeps memory for what it
/// has refused.
#[test]
#[ignore = "takes minutes: cargo test --release -p fedrecsim-deploy million -- --ignored --nocapture --test-threads 1"]
fn no_message_of_a_million_ends_a_process_with_devices() {
    send_a_million(send_mutated_to_a_process, mutate_on_the_way_to_a_process);
}

/// Sends a million messages, some of them in runs, and checks the memory that is kept for them, and that
/// was taken meanwhile.
fn send_a_million(before_runs: fn(usize), in_runs: fn(usize)) {
    // The first ones take what is kept for later ones.
    before_runs(20_000);
    in_runs(500);
    let before = held();
    most_held();
    for _ in 0..10 {
        before_runs(99_500);
    }
    in_runs(5_000);
    let (after, most) = (held(), most_held());
    let kib = [before, after, most].map(|bytes| bytes >> 10);
    println!("KiB before 1,000,000 messages, after them, and at most meanwhile: {kib:?}");
    assert!(after < before + (1 << 20), "it keeps something");
    assert!(most < before + (32 << 20), "it takes too much");
}

/// If this fails, a message that comes in a round or in an evaluation ends the server, although it is
/// none; or a run is not over in the end.
#[test]
fn no_message_that_is_mutated_on_its_way_ends_a_run() {
    mutate_on_the_way_to_the_server(150);
}

/// If this fails, a message of a round or an evaluation that is none ends a process with devices by a
/// defect.
#[test]
fn no_message_that_is_mutated_on_its_way_ends_a_process_with_devices() {
    mutate_on_the_way_to_a_process(150);
}

/// The runs whose messages are mutated: with and without requests, a third party, and changes.
const MUTATED: [&str; 4] = [
    "",
    "codec.downlink={ select = \"needed-rows\" }",
    "method=\"fedpergnn\"",
    "codec.downlink={ delta = true, values = \"int8\" }",
];

fn mutate_on_the_way_to_the_server(messages: usize) {
    for (run, stopped_by) in mutated_runs(messages, true) {
        // What is sound as a frame may be any number, and what is sound as an answer may be a failure.
        let is_said = |error: &Error| {
            use Error::*;
            matches!(error, Diverged { .. } | Unscorable { .. } | Told { .. })
        };
        assert!(stopped_by.iter().all(is_said), "{run}: {stopped_by:?}");
    }
}

fn mutate_on_the_way_to_a_process(messages: usize) {
    // The process says what was wrong with what it was told, which may end the run.
    mutated_runs(messages, false);
}

/// Runs in which messages of one process are mutated, those from it or those to it, until there were so
/// many. Returns what ended each of them early.
fn mutated_runs(messages: usize, from_process: bool) -> Vec<(String, Option<Error>)> {
    let mut ends = Vec::new();
    let (dice, mutated) = (Mutex::new(Dice(13)), AtomicUsize::default());
    while mutated.load(Ordering::Relaxed) < messages {
        // A round without a deadline waits for everybody, and a message that names another user is lost.
        let text = format!(
            "training.rounds=20\ntraining.mode={{ over-selection = {{ factor = 1.2, deadline_s = 0.2 }} }}\n{}",
            MUTATED[ends.len() % MUTATED.len()]
        );
        let kept = Kept {
            answer_within: Some(Duration::from_millis(500)),
            ..Kept::default()
        };
        let run = format!("run {} {text}", ends.len());
        let way = |from: &mut TcpStream, to: &mut TcpStream, mutates: bool| {
            let mut is_welcome = !mutates;
            while let Ok(mut whole) = whole_message(from) {
                let is_greeting =
                    !is_welcome || matches!(head(&whole), Head::Join { .. } | Head::Welcome);
                is_welcome |=
                    is_greeting && matches!(head(&whole), Head::Join { .. } | Head::Welcome);
                if mutates && !is_greeting && dice.lock().unwrap().below(8) == 0 {
                    mutated.fetch_add(1, Ordering::Relaxed);
                    whole = dice.lock().unwrap().changed(whole);
                }
                if to.write_all(&whole).is_err() {
                    break;
                }
            }
            let _ = from.shutdown(Shutdown::Both);
            let _ = to.shutdown(Shutdown::Both);
        };
        let until_the_server_is_gone = |address, users: Range<u32>| loop {
            match device_process(address, users.clone()) {
                Err(error) if error.to_string().contains("no way to the server") => break,
                // The server has said that the run is over, or has refused the process, which then comes again.
                _ => {}
            }
        };
        let (outcome, _) = served_keeping(&text, kept, |address| {
            thread::scope(|scope| {
                scope.spawn(move || device_process(address, 0..20).unwrap());
                on_a_way(
                    address,
                    20..30,
                    until_the_server_is_gone,
                    |_, mut device, mut server| {
                        let (mut from, mut to) =
                            (server.try_clone().unwrap(), device.try_clone().unwrap());
                        thread::scope(|scope| {
                            scope.spawn(|| way(&mut from, &mut to, !from_process));
                            way(&mut device, &mut server, from_process);
                        });
                    },
                );
            });
        });
        ends.push((run, outcome.map_or_else(Some, |outcome| outcome.stopped_by)));
    }
    ends
}

fn send_mutated_to_the_server(messages: usize) {
    let connections = messages / ON_A_CONNECTION;
    let (outcome, heard) = served("training.rounds=1", |address| {
        let (mut dice, messages) = (Dice(7), self::messages());
        for _ in 0..connections {
            let mut stream = TcpStream::connect(address).unwrap();
            let own = stream.try_clone().unwrap();
            let (mut reader, writer) =
                connection::open(own, None, LARGEST_GREETING, SILENCE).unwrap();
            assert_eq!(greeted(&mut reader, &writer, 20..30).head, Head::Welcome);
            for _ in 0..ON_A_CONNECTION {
                // The server may have hung up by now.
                let _ = stream.write_all(&dice.mutated(&messages));
            }
            let _ = stream.shutdown(Shutdown::Write);
            while reader.next().is_ok() {}
        }
        thread::scope(|scope| {
            for users in [0..20, 20..30] {
                scope.spawn(move || device_process(address, users).unwrap());
            }
        });
    });
    assert!(outcome.stopped_by.is_none());
    assert_eq!(outcome.rounds[0].aggregated, 15);
    assert!(heard.cut_offs >= connections / 2, "{}", heard.cut_offs);
}

fn send_mutated_to_a_process(messages: usize) {
    let _deadline = deadline();
    let connections = messages / ON_A_CONNECTION;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let is_over = AtomicBool::default();
    thread::scope(|scope| {
        scope.spawn(|| {
            // A process ends when the server says that the run is over. A mutated message may say so too.
            while !is_over.load(Ordering::Relaxed) {
                device_process(address, 20..30).ok();
            }
        });
        let (mut dice, messages) = (Dice(11), self::messages());
        for connection in 0..=connections {
            let (mut stream, _) = listener.accept().unwrap();
            is_over.store(connection == connections, Ordering::Relaxed);
            let own = stream.try_clone().unwrap();
            let (mut reader, writer) =
                connection::open(own, None, LARGEST_GREETING, SILENCE).unwrap();
            let hello = reader.next().unwrap();
            assert!(matches!(hello.head, Head::Hello { .. }), "{hello:?}");
            let offer = Head::Offer {
                largest: LARGEST_GREETING,
                pace: false,
                keeps: false,
            };
            writer.send(Message::with(offer, "training.rounds=1"));
            assert!(matches!(reader.next().unwrap().head, Head::Join { .. }));
            writer.send(Message::new(Head::Welcome));
            if connection == connections {
                writer.say_bye();
            } else {
                for _ in 0..ON_A_CONNECTION {
                    let _ = stream.write_all(&dice.mutated(&messages));
                }
                let _ = stream.shutdown(Shutdown::Write);
            }
            while reader.next().is_ok() {}
        }
    });
}

/// Returns the number of messages in `sent` before something that is none, heartbeats left out, by
/// the words of the protocol.
fn count_messages(mut sent: &[u8], largest: usize) -> usize {
    let mut count = 0;
    while let Some((length, rest)) = sent.split_first_chunk() {
        let length = u32::from_le_bytes(*length) as usize;
        if length > largest || length > rest.len() {
            break;
        }
        let (message, rest) = rest.split_at(length);
        let Ok(message) = Message::read(message.to_vec().into()) else {
            break;
        };
        count += usize::from(message.head != Head::Heartbeat);
        sent = rest;
    }
    count
}

proptest::proptest! {
    /// If this fails, a message is read that is none or too long, one that is sound is not, or bytes that
    /// were cut off anywhere end the process that reads them.
    #[test]
    fn what_a_peer_sends_is_read_up_to_nonsense(seed: u64, cut in 0usize..2000) {
        let (mut dice, messages) = (Dice(seed), messages());
        let mut sent: Vec<u8> = (0..20).flat_map(|_| dice.mutated(&messages)).collect();
        sent.truncate(cut);
        proptest::prop_assert_eq!(read_all(&sent, 90), count_messages(&sent, 90));
    }
}
