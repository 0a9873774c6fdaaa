//! Runs over loopback sockets, held against the simulation.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::*;
use crate::connection::{self, Reader};
use crate::message::{Head, LARGEST_GREETING, LENGTH_BYTES, Made, Message, To};
use fedrecsim_core::legs::Peer;
use fedrecsim_core::{Error, Result, Streams};
use fedrecsim_data::dataset;
use fedrecsim_methods::registry::vocabulary;
use fedrecsim_model::ArchiveReader;
use fedrecsim_scenario as scenario;
use fedrecsim_sim::deployment::{Arrivals, Recorded, replay};
use fedrecsim_sim::{self as sim, CheckpointStore, Checkpoints, Outcome, RunControl, Stop, World};

mod anew;
mod failures;
mod peers;
mod restart;

const SMALL: &str = r#"
method = "fedmf"

[dataset]
name = "generated"

[dataset.generator]
users = 30
items = 120
ratings_per_user = 10

[training]
rounds = 3
participation = { share = 0.5 }

[codec]
uplink = "rows-f32"

[evaluation]
ranking.sampled.candidates = 20
"#;

const BUILD: Digest = [7; 32];
const DATA: Digest = [9; 32];
const RETRY: Duration = Duration::from_millis(1);

/// The world of a scenario's text, in which each line of `overrides` replaces a key.
fn world(text: &str) -> Result<(Arc<World>, Digest)> {
    let overrides: Vec<String> = text.lines().map(ToString::to_string).collect();
    // The asynchronous modes have no cohorts.
    let has_cohorts = !text.contains("fedbuff") && !text.contains("fedasync");
    let small = match has_cohorts {
        true => SMALL.to_owned(),
        false => SMALL.replace("participation = { share = 0.5 }", ""),
    };
    let scenario = scenario::parse(&small, "small.toml", &overrides, &vocabulary()).unwrap();
    let dataset = dataset::load(&scenario.dataset, &[], Streams::new(scenario.seed))?;
    Ok((Arc::new(World::new(scenario, Arc::new(dataset))?), DATA))
}

/// What the server said of its run.
#[derive(Default)]
struct Heard {
    cut_off: Vec<String>,
    waited_for: Vec<String>,
    begun_anew: Vec<Range<u32>>,
    /// The file of arrivals.
    arrivals: String,
}

/// What was written to a file, and after how many bytes there is no more room.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>, Option<usize>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut written = self.0.lock().unwrap();
        match written.len() < self.1.unwrap_or(usize::MAX) {
            true => written.write(bytes),
            false => Err(io::ErrorKind::StorageFull.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Serves the scenario on a port that `with` is told of.
fn served(text: &str, with: impl FnOnce(SocketAddr)) -> (Outcome, Heard) {
    let (outcome, heard) = served_keeping(text, Kept::default(), with);
    (outcome.unwrap(), heard)
}

/// What a server has left on the disk, and what is to become of it.
#[derive(Clone, Default)]
struct Kept {
    /// The checkpoint, with the rounds before it.
    checkpoint: Arc<Mutex<(u32, Vec<u8>)>>,
    /// The file of arrivals.
    arrivals: Written,
    /// The number of rounds from one checkpoint to the next; 0 for none.
    every: u32,
    /// The number of rounds after which the server stops; 0 for one that does not.
    stops_after: u32,
    /// The users without whom the server is interrupted; empty for a server that waits for them.
    stops_without: &'static str,
    /// Whom the server has waited for.
    waited_for: Arc<Mutex<Vec<String>>>,
    /// How long a peer may be silent, if not as long as usual.
    silence: Option<Duration>,
    /// The bytes that fit into a checkpoint, if not all do.
    room: Option<usize>,
    /// What is being written.
    partial: Vec<u8>,
}

impl CheckpointStore for Kept {
    fn is_due(&self, rounds: u32) -> bool {
        self.every > 0 && rounds.is_multiple_of(self.every)
    }

    fn begin(&mut self, rounds: u32) -> Result<()> {
        self.partial = rounds.to_le_bytes().to_vec();
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.partial.extend_from_slice(bytes);
        match self.partial.len() < self.room.unwrap_or(usize::MAX) {
            true => Ok(()),
            false => Err(Error::from(Stop::CheckpointUnwritten {
                path: "checkpoint".into(),
                rounds: self.every,
                left: None,
                source: io::ErrorKind::StorageFull.into(),
            })),
        }
    }

    fn commit(&mut self) -> Result<()> {
        let (rounds, whole) = self.partial.split_at(4);
        let rounds = u32::from_le_bytes(rounds.try_into().unwrap());
        *self.checkpoint.lock().unwrap() = (rounds, whole.to_vec());
        Ok(())
    }
}

impl Kept {
    fn silence(&self) -> Duration {
        self.silence.unwrap_or(SILENCE)
    }

    fn checkpoints(self) -> Checkpoints {
        let whole = self.checkpoint.lock().unwrap().1.clone();
        let resumed = (!whole.is_empty()).then(|| ArchiveReader::of_bytes(whole, Vec::new()));
        let store = Box::new(self);
        Checkpoints { resumed, store }
    }
}

/// Serves the scenario as [`served`] does, from what is kept on.
fn served_keeping(
    text: &str,
    kept: Kept,
    with: impl FnOnce(SocketAddr),
) -> (Result<Outcome>, Heard) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let text = text.to_owned();
    let server = thread::spawn(move || {
        let written = kept.arrivals.clone();
        let (stops_after, stops_without) = (kept.stops_after, kept.stops_without);
        let waited_for = Arc::clone(&kept.waited_for);
        let interrupted = Arc::<AtomicBool>::default();
        let serving = Serving {
            world: world(&text).unwrap().0,
            scenario: text.clone(),
            token: Digest::default(),
            build: BUILD,
            data: DATA,
            threads: 1,
            interrupted: Arc::clone(&interrupted),
            arrivals: Some(Box::new({
                let (to, text) = (written.clone(), text.clone());
                move |bytes| {
                    to.0.lock().unwrap().truncate(bytes as usize);
                    let lines = to.0.lock().unwrap().clone();
                    match bytes {
                        0 => Arrivals::begin(Box::new(to), &text),
                        _ => Ok(Arrivals::go_on(Box::new(to), &lines[..]).unwrap()),
                    }
                }
            })),
            checkpoints: kept.clone().checkpoints(),
            shape: false,
            pace: false,
            silence: kept.silence(),
        };
        let mut heard = Heard::default();
        let outcome = serve(serving, listener, &mut |news| match news {
            News::CutOff(reason) | News::Left(_, reason) => heard.cut_off.push(reason.to_owned()),
            News::WaitsFor(users) => {
                let mut waited_for = waited_for.lock().unwrap();
                // Before the run begins, they may be those who have not come yet.
                let were_there = waited_for.iter().any(String::is_empty);
                waited_for.push(users.to_owned());
                if were_there && users == stops_without {
                    interrupted.store(true, Ordering::Relaxed);
                }
            }
            News::BeginsAnew(users) => heard.begun_anew.push(users),
            News::Round(record, _) if record.round == stops_after => {
                interrupted.store(true, Ordering::Relaxed);
            }
            News::Complete => waited_for.lock().unwrap().push(String::new()),
            News::Round(..) | News::Joined(_) | News::Checkpoint(_) => {}
        });
        let arrivals = written.0.lock().unwrap().clone();
        heard.waited_for = waited_for.lock().unwrap().clone();
        heard.arrivals = String::from_utf8(arrivals).unwrap();
        (outcome, heard)
    });
    with(address);
    server.join().unwrap()
}

/// Is a process with these users.
fn device_process(address: SocketAddr, users: Range<u32>) -> Result<()> {
    keeping_process(address, users, None)
}

/// Is a process with these users, which keeps them in a folder.
fn keeping_process(address: SocketAddr, users: Range<u32>, keep: Option<PathBuf>) -> Result<()> {
    join(&joining(users, keep), address)
}

fn joining(users: Range<u32>, keep: Option<PathBuf>) -> Joining<'static> {
    Joining {
        users,
        token: Digest::default(),
        build: BUILD,
        threads: 1,
        interrupted: Arc::new(AtomicBool::default()),
        world: &world,
        keep,
        attempts: 20,
        retry: RETRY,
        silence: SILENCE,
    }
}

fn simulated(text: &str) -> Outcome {
    sim::run(
        world(text).unwrap().0,
        &RunControl::with_threads(1),
        &mut (),
    )
    .unwrap()
}

/// If this fails, sockets lead to another model than the simulation, or carry other frames than its
/// ledger has.
#[test]
fn a_run_over_sockets_comes_to_the_state_of_the_simulation() {
    for text in [
        "",
        "method=\"metamf\"",
        "method=\"fedpergnn\"",
        "codec.downlink={ select = \"needed-rows\" }",
        "codec.uplink={ delta = true, values = \"int4\", error_feedback = true }\n\
         codec.downlink={ delta = true, values = \"int8\" }",
    ] {
        let (outcome, heard) = served(text, |address| {
            thread::scope(|scope| {
                for users in [0..9, 9..10, 10..30] {
                    scope.spawn(move || device_process(address, users).unwrap());
                }
            });
        });
        let simulated = simulated(text);
        assert!(simulated.state_digest.is_some());
        assert_eq!(outcome.state_digest, simulated.state_digest, "{text}");
        assert_eq!(outcome.bytes, simulated.bytes, "{text}");
        assert_eq!(
            heard.waited_for[0], "0..29",
            "the server says whom it waits for"
        );
    }
}

/// Checks that what arrived leads to the same outcome again.
fn check_replay(text: &str, outcome: &Outcome, heard: &Heard) {
    let recorded = Recorded::read("arrivals.jsonl", heard.arrivals.as_bytes(), text).unwrap();
    let control = RunControl::with_threads(1);
    let replayed = replay(world(text).unwrap().0, &control, &recorded, &mut ()).unwrap();
    assert_eq!(replayed.state_digest, outcome.state_digest, "{text}");
    assert_eq!(replayed.bytes, outcome.bytes, "{text}");
    assert_eq!(replayed.rounds, outcome.rounds, "{text}");
}

/// The modes in which not all of a cohort are waited for.
const MODES: [&str; 5] = [
    "training.mode={ over-selection = { factor = 1.5, deadline_s = 60 } }",
    "training.mode={ over-selection = { factor = 1.5, deadline_s = 60, stragglers = \"late\" } }",
    "training.mode={ semi-synchronous = { deadline_s = 0.02 } }",
    "training.mode={ fedbuff = { concurrency = 12, buffer = 5 } }",
    "training.mode={ fedasync = { concurrency = 6 } }",
];

/// If this fails, a model of a deployment depends on something that its server does not see, or a
/// mode does not end where devices are other processes.
#[test]
fn every_mode_over_sockets_is_repeated_from_what_arrived() {
    for mode in MODES {
        let text = format!("{mode}\ntraining.rounds=5");
        let (outcome, heard) = served(&text, |address| {
            thread::scope(|scope| {
                for users in [0..9, 9..10, 10..30] {
                    scope.spawn(move || device_process(address, users).unwrap());
                }
            });
        });
        assert!(outcome.stopped_by.is_none(), "{text}");
        check_replay(&text, &outcome, &heard);
    }
}

/// If this fails, a connection that breaks ends a run that waits for nobody in particular, an update
/// counts twice, or a device comes back with another state than the server believes.
#[test]
fn in_every_mode_a_broken_connection_is_a_dropout_and_leaves_the_state_known() {
    for mode in MODES {
        let text = format!("{mode}\ntraining.rounds=12");
        let (outcome, heard) = served(&text, |address| {
            thread::scope(|scope| {
                scope.spawn(move || device_process(address, 0..10).unwrap());
                on_breaking_ways(address, 10..30, [1_500, 4_000]);
            });
        });
        assert!(outcome.stopped_by.is_none(), "{text}");
        let aggregated: u32 = outcome.rounds.iter().map(|round| round.aggregated).sum();
        let sound: u64 = outcome
            .rounds
            .iter()
            .map(|round| u64::from(round.late))
            .sum();
        assert!(
            u64::from(aggregated) + sound <= u64::from(uploads(&heard.arrivals)),
            "{text}"
        );
        check_replay(&text, &outcome, &heard);
    }
}

/// Returns the number of uploads in a file of arrivals, and checks that none is there twice.
fn uploads(arrivals: &str) -> u32 {
    let of = |line: &str| {
        let participation = line.split("\"user\":").nth(1)?.split(",\"made\"").next()?;
        line.contains("\"uploaded\"")
            .then(|| participation.to_owned())
    };
    let all: Vec<String> = arrivals.lines().filter_map(of).collect();
    let distinct: BTreeSet<&String> = all.iter().collect();
    assert_eq!(distinct.len(), all.len(), "an upload came twice");
    all.len() as u32
}

/// If this fails, a process takes part that computes something else, or that has users of another
/// one.
#[test]
fn a_process_that_does_not_fit_is_refused_with_the_reason() {
    let refusal = |result: Result<()>| match result {
        Err(Error::Usage(message)) => message,
        other => panic!("{other:?}"),
    };
    let (_, heard) = served("training.rounds=1", |address| {
        let other_world = |text: &str| world(text).map(|(world, _)| (world, [1; 32]));
        let joining = |build, world| Joining {
            users: 0..10,
            token: Digest::default(),
            build,
            threads: 1,
            interrupted: Arc::new(AtomicBool::default()),
            world,
            keep: None,
            attempts: 0,
            retry: RETRY,
            silence: SILENCE,
        };
        let other_build = refusal(join(&joining([8; 32], &world), address));
        assert!(other_build.contains("another build"), "{other_build}");
        let token = [1; 32];
        let other_token = Joining {
            token,
            ..joining([8; 32], &world)
        };
        let other_token = refusal(join(&other_token, address));
        assert!(other_token.contains("--token-file"), "{other_token}");
        let scenario_of = |offer: &Message| *blake3::hash(&offer.payload).as_bytes();
        let stream = TcpStream::connect(address).unwrap();
        let (mut reader, writer) = connection::open(stream, LARGEST_GREETING, SILENCE).unwrap();
        let other_scenario = greeted_with(&mut reader, &writer, 0..10, |offer| {
            scenario_of(offer).map(|byte| !byte)
        });
        let other_scenario = String::from_utf8_lossy(&other_scenario.payload).into_owned();
        assert!(
            other_scenario.contains("another scenario"),
            "{other_scenario}"
        );
        let other_data = refusal(join(&joining(BUILD, &other_world), address));
        assert!(other_data.contains("other ratings"), "{other_data}");
        let beyond = refusal(device_process(address, 20..31));
        assert!(beyond.contains("the users are 0..29"), "{beyond}");
        let stream = TcpStream::connect(address).unwrap();
        let (mut reader, writer) = connection::open(stream, LARGEST_GREETING, SILENCE).unwrap();
        assert_eq!(greeted(&mut reader, &writer, 0..10).head, Head::Welcome);
        let overlapping = refusal(device_process(address, 5..15));
        assert!(
            overlapping.contains("another process has the users 0..9"),
            "{overlapping}"
        );
        // A process with the same users takes its place.
        thread::scope(|scope| {
            scope.spawn(move || device_process(address, 0..10).unwrap());
            scope.spawn(move || device_process(address, 10..30).unwrap());
        });
        while reader.next().is_ok() {}
    });
    assert!(!heard.waited_for.is_empty());
}

fn greeted(reader: &mut Reader, writer: &connection::Writer, users: Range<u32>) -> Message {
    let scenario = |offer: &Message| *blake3::hash(&offer.payload).as_bytes();
    greeted_with(reader, writer, users, scenario)
}

/// Greets the server with a digest of the scenario that it offers.
fn greeted_with(
    reader: &mut Reader,
    writer: &connection::Writer,
    users: Range<u32>,
    scenario: impl Fn(&Message) -> Digest,
) -> Message {
    writer.send(Message::new(Head::Hello {
        protocol: PROTOCOL,
        token: Digest::default(),
        build: BUILD,
    }));
    let offer = reader.next().unwrap();
    writer.send(Message::new(Head::Join {
        scenario: scenario(&offer),
        data: DATA,
        first: users.start,
        end: users.end,
        run: 0,
    }));
    reader.next().unwrap()
}

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
                    connection::open(stream, LARGEST_GREETING, SILENCE).unwrap();
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

/// If this fails, a connection that breaks ends the run, or an update counts twice.
#[test]
fn a_process_whose_connection_breaks_comes_back_with_its_devices() {
    let (outcome, _) = served("training.rounds=6", |address| {
        thread::scope(|scope| {
            scope.spawn(move || device_process(address, 0..10).unwrap());
            on_breaking_ways(address, 10..30, [6_000, 9_000]);
        });
    });
    assert!(outcome.stopped_by.is_none());
    for round in &outcome.rounds {
        assert_eq!(round.aggregated + round.lost, round.invited, "{round:?}");
    }
    assert!(outcome.rounds.last().unwrap().aggregated > 0);
}

/// Is a process with these users, whose first connections break after so many bytes from it.
fn on_breaking_ways(address: SocketAddr, users: Range<u32>, after: [usize; 2]) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let detour = listener.local_addr().unwrap();
    let over = AtomicBool::default();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut after = after.into_iter();
            loop {
                let (device, _) = listener.accept().unwrap();
                if over.load(Ordering::Relaxed) {
                    return;
                }
                relay(device, address, after.next().unwrap_or(usize::MAX));
            }
        });
        device_process(detour, users).unwrap();
        over.store(true, Ordering::Relaxed);
        TcpStream::connect(detour).unwrap();
    });
}

/// Connects a device process with the server, until so many bytes have come from it.
fn relay(device: TcpStream, address: SocketAddr, most: usize) {
    let server = TcpStream::connect(address).unwrap();
    let (from, to) = (device.try_clone().unwrap(), server.try_clone().unwrap());
    let up = thread::spawn(move || pass(from, to, most));
    pass(server, device, usize::MAX);
    up.join().unwrap();
}

/// Passes on bytes until there are no more or `most` were passed, and ends both connections.
fn pass(mut from: TcpStream, mut to: TcpStream, most: usize) {
    let (mut passed, mut buffer) = (0, [0; 512]);
    while passed < most {
        match from.read(&mut buffer) {
            Ok(count) if count > 0 && to.write_all(&buffer[..count]).is_ok() => passed += count,
            _ => break,
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
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
        let mut bytes = [&message.beginning().unwrap()[..], &message.payload].concat();
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
fn messages() -> Vec<Message> {
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

/// If this fails, one message in a million ends an end, or an end keeps memory for what it has refused.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "takes minutes: cargo test --release -p fedrecsim-deploy million -- --ignored --nocapture"]
fn no_message_of_a_million_ends_an_end() {
    for (end, send) in [
        ("server", send_mutated_to_the_server as fn(usize)),
        ("process", send_mutated_to_a_process),
    ] {
        // The first ones take what is kept for later ones.
        send(20_000);
        let before = failures::resident_kib();
        send(1_000_000);
        let after = failures::resident_kib();
        println!("{end}: {before} KiB before 1,000,000 messages, {after} KiB after them");
        assert!(after < before + (32 << 10), "{end}");
    }
}

fn send_mutated_to_the_server(messages: usize) {
    let connections = messages / ON_A_CONNECTION;
    let (outcome, heard) = served("training.rounds=1", |address| {
        let (mut dice, messages) = (Dice(7), self::messages());
        for _ in 0..connections {
            let mut stream = TcpStream::connect(address).unwrap();
            let own = stream.try_clone().unwrap();
            let (mut reader, writer) = connection::open(own, LARGEST_GREETING, SILENCE).unwrap();
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
    assert!(
        heard.cut_off.len() >= connections / 2,
        "{}",
        heard.cut_off.len()
    );
}

fn send_mutated_to_a_process(messages: usize) {
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
            let (mut reader, writer) = connection::open(own, LARGEST_GREETING, SILENCE).unwrap();
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
