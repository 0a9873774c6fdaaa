//! Runs over loopback sockets, held against the simulation.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use super::*;
use crate::connection::{self, Reader};
use crate::message::{Head, LARGEST_GREETING, Message, To};
use fedrecsim_core::{Error, Result, Streams};
use fedrecsim_data::dataset;
use fedrecsim_methods::registry::vocabulary;
use fedrecsim_scenario as scenario;
use fedrecsim_sim::{self as sim, Outcome, RunControl, World};

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

/// The world of a scenario's text, in which each line of `overrides` replaces a key.
fn world(text: &str) -> Result<(Arc<World>, Digest)> {
    let overrides: Vec<String> = text.lines().map(ToString::to_string).collect();
    let scenario = scenario::parse(SMALL, "small.toml", &overrides, &vocabulary()).unwrap();
    let dataset = dataset::load(&scenario.dataset, &[], Streams::new(scenario.seed))?;
    Ok((Arc::new(World::new(scenario, Arc::new(dataset))?), DATA))
}

/// What the server said of its run.
#[derive(Default)]
struct Heard {
    cut_off: Vec<String>,
    waited_for: Vec<String>,
}

/// Serves the scenario on a port that `with` is told of.
fn served(text: &str, with: impl FnOnce(SocketAddr)) -> (Outcome, Heard) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let text = text.to_owned();
    let server = thread::spawn(move || {
        let serving = Serving {
            world: world(&text).unwrap().0,
            scenario: text,
            build: BUILD,
            data: DATA,
            threads: 1,
            interrupted: Arc::new(AtomicBool::default()),
        };
        let mut heard = Heard::default();
        let outcome = serve(serving, listener, &mut |news| match news {
            News::CutOff(reason) => heard.cut_off.push(reason.to_owned()),
            News::WaitsFor(users) => heard.waited_for.push(users.to_owned()),
            News::Complete | News::Round(..) => {}
        });
        (outcome.unwrap(), heard)
    });
    with(address);
    server.join().unwrap()
}

/// Is a process with these users.
fn device_process(address: SocketAddr, users: Range<u32>) -> Result<()> {
    let joining = Joining {
        users,
        build: BUILD,
        threads: 1,
        interrupted: Arc::new(AtomicBool::default()),
        world: &world,
        attempts: 20,
    };
    join(&joining, address)
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
            build,
            threads: 1,
            interrupted: Arc::new(AtomicBool::default()),
            world,
            attempts: 0,
        };
        let other_build = refusal(join(&joining([8; 32], &world), address));
        assert!(other_build.contains("another build"), "{other_build}");
        let other_data = refusal(join(&joining(BUILD, &other_world), address));
        assert!(other_data.contains("other ratings"), "{other_data}");
        let beyond = refusal(device_process(address, 20..31));
        assert!(beyond.contains("the users are 0..29"), "{beyond}");
        let stream = TcpStream::connect(address).unwrap();
        let (mut reader, writer) = connection::open(stream, LARGEST_GREETING).unwrap();
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
    writer.send(Message::new(Head::Hello {
        protocol: PROTOCOL,
        build: BUILD,
    }));
    let offer = reader.next().unwrap();
    writer.send(Message::new(Head::Join {
        scenario: *blake3::hash(&offer.payload).as_bytes(),
        data: DATA,
        first: users.start,
        end: users.end,
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
                Head::Offer { largest: 9 },
            ] {
                let stream = TcpStream::connect(address).unwrap();
                let (mut reader, writer) = connection::open(stream, LARGEST_GREETING).unwrap();
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
            let way = TcpListener::bind("127.0.0.1:0").unwrap();
            let detour = way.local_addr().unwrap();
            scope.spawn(move || breaking(&way, address));
            device_process(detour, 10..30).unwrap();
        });
    });
    assert!(outcome.stopped_by.is_none());
    for round in &outcome.rounds {
        assert_eq!(round.aggregated + round.lost, round.invited, "{round:?}");
    }
    assert!(outcome.rounds.last().unwrap().aggregated > 0);
}

/// Passes on the bytes of connections to `address`: breaks the first two after some kilobytes of
/// uploads, and leaves the third alone.
fn breaking(listener: &TcpListener, address: SocketAddr) {
    for broken_after in [6_000, 9_000, usize::MAX] {
        let (device, _) = listener.accept().unwrap();
        let server = TcpStream::connect(address).unwrap();
        let (from, to) = (device.try_clone().unwrap(), server.try_clone().unwrap());
        let up = thread::spawn(move || pass(from, to, broken_after));
        pass(server, device, usize::MAX);
        up.join().unwrap();
    }
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
