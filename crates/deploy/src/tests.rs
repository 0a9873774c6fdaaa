//! Runs over loopback sockets, held against the simulation.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
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
mod counted;
mod failures;
mod greeting;
#[cfg(target_os = "linux")]
mod leftovers;
mod mutated;
mod restart;
mod runs;
mod sealed;
mod waiting;
mod ways;

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
const ANSWER_WITHIN: Duration = Duration::from_secs(3600);
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
    /// The first reasons why peers were cut off, and how many were.
    cut_off: Vec<String>,
    cut_offs: usize,
    waited_for: Vec<String>,
    begun_anew: Vec<Range<u32>>,
    /// The file of arrivals.
    arrivals: String,
}

/// Keeps what was said, up to as much as a test looks at. A test that measures memory is not to keep
/// more the longer it runs.
fn note(list: &mut Vec<String>, said: &str) {
    if list.len() < 1000 {
        list.push(said.to_owned());
    }
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

/// The time after which a test hangs. None takes a minute on a busy machine.
const HANGS: Duration = Duration::from_secs(600);

/// Ends the tests with a failure unless this is dropped in time. A thread that hangs cannot be ended
/// alone.
struct Deadline(#[allow(dead_code)] Sender<()>);

fn deadline() -> Deadline {
    let (ends, ended) = channel();
    let test = thread::current().name().unwrap_or("a test").to_owned();
    thread::spawn(move || {
        if ended.recv_timeout(HANGS) == Err(RecvTimeoutError::Timeout) {
            eprintln!("{test} hangs: it is not over after {HANGS:?}");
            std::process::exit(101);
        }
    });
    Deadline(ends)
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
    /// How long a process may owe an answer, if not as long as usual.
    answer_within: Option<Duration>,
    /// What connections are sealed with, if they are.
    keys: Option<Keys>,
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
    let _deadline = deadline();
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
            answer_within: kept.answer_within.unwrap_or(ANSWER_WITHIN),
            keys: kept.keys.clone(),
        };
        let mut heard = Heard::default();
        let outcome = serve(serving, listener, &mut |news| match news {
            News::CutOff(reason) | News::Left(_, reason) => {
                note(&mut heard.cut_off, reason);
                heard.cut_offs += 1;
            }
            News::WaitsFor(users) => {
                let mut waited_for = waited_for.lock().unwrap();
                // Before the run begins, they may be those who have not come yet.
                let were_there = waited_for.iter().any(String::is_empty);
                note(&mut waited_for, users);
                if were_there && users == stops_without {
                    interrupted.store(true, Ordering::Relaxed);
                }
            }
            News::BeginsAnew(users) => heard.begun_anew.push(users),
            News::Round(record, _) if record.round == stops_after => {
                interrupted.store(true, Ordering::Relaxed);
            }
            News::Complete => note(&mut waited_for.lock().unwrap(), ""),
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
        insecure: false,
        build: BUILD,
        threads: 1,
        interrupted: Arc::new(AtomicBool::default()),
        world: &world,
        keep,
        attempts: 20,
        retry: RETRY,
        silence: SILENCE,
        keys: None,
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
