//! Holds a run whose devices are in other processes against the simulation of it. Here the
//! processes are tasks, and their connections are channels.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, mpsc};

use actix::System;
use bytes::Bytes;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use super::*;
use crate::testing::{Contract, parameters_for_few_users};
use crate::workers::Working;
use crate::{Outcome, RunControl, World};
use fedrecsim_core::Result;
use fedrecsim_methods::Placement;
use fedrecsim_methods::registry::METHODS;

mod shaped;

/// What goes down a connection.
enum Down {
    Invite(Invite),
    Taken(Participant),
    Cancel(Participant),
    Ask(Bytes, oneshot::Sender<Bytes>),
}

/// The replies that trainings wait for, each with the way to its device.
type Waiting = Arc<Mutex<BTreeMap<Participant, mpsc::Sender<Frame>>>>;

/// The way from devices to the server.
struct Up {
    events: UnboundedSender<Event>,
    waiting: Waiting,
}

impl AskPeers for Up {
    fn ask(&self, participant: Participant, peer: Peer, request: Message<'_>) -> Result<Frame> {
        let (reply, replied) = mpsc::channel();
        self.waiting.lock().unwrap().insert(participant, reply);
        let sent = Sent {
            frame: request.frame.clone(),
            work: request.work,
            took_ns: 0,
        };
        let asked = Event::Of(participant, Told::Asked(peer, sent));
        self.events.send(asked).map_err(|_| Error::Interrupted)?;
        replied.recv().map_err(|_| Error::Interrupted)
    }
}

struct Channels(Vec<(Range<u32>, UnboundedSender<Down>)>);

impl Hosts for Channels {
    fn users(&self) -> Vec<Range<u32>> {
        self.0.iter().map(|(users, _)| users.clone()).collect()
    }

    fn ask(&self, place: usize, question: Bytes) -> Working<'_, Bytes> {
        let (answer, answered) = oneshot::channel();
        self.0[place].1.send(Down::Ask(question, answer)).ok();
        Box::pin(async { answered.await.map_err(|_| Error::Interrupted) })
    }
}

/// Is a process with these devices, until nothing can come any more.
async fn host(devices: Rc<Devices>, mut inbox: UnboundedReceiver<Down>, up: Arc<Up>) {
    while let Some(message) = inbox.recv().await {
        match message {
            Down::Ask(question, answer) => {
                answer.send(devices.answer(question).await).unwrap();
            }
            Down::Taken(participant) => devices.taken(participant).unwrap(),
            Down::Cancel(participant) => {
                up.waiting.lock().unwrap().remove(&participant);
                devices.cancel(participant).unwrap();
            }
            Down::Invite(invite) => {
                let (devices, up) = (Rc::clone(&devices), Arc::clone(&up));
                actix::spawn(async move {
                    let participant = invite.participant;
                    if !invite.frame.bytes.is_empty() {
                        up.events.send(Event::Of(participant, Told::Received)).ok();
                    }
                    let told = match devices.train(invite, Arc::clone(&up) as Peers).await {
                        Ok(Some(Trained { sent, loss, .. })) => Told::Uploaded(sent, loss),
                        Ok(None) => return,
                        Err(error) => Told::Failed(error),
                    };
                    up.events.send(Event::Of(participant, told)).ok();
                });
            }
        }
    }
}

/// Makes the runtime of one thread that actors run on.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
}

/// Runs `world` with the users of three processes, and writes what the coordinator is told to
/// `arrivals`. Time is a counter of events.
fn deployed(world: &Arc<World>, arrivals: &Written) -> Result<Outcome> {
    let world = Arc::clone(world);
    System::with_tokio_rt(runtime).block_on(async move {
        let interrupted = Arc::new(AtomicBool::default());
        let (events, mut inbox) = unbounded_channel();
        let waiting = Waiting::default();
        let mut ways = Vec::new();
        let users = world.dataset.users() as u32;
        for own in [0..users / 3, users / 3..users / 3 + 1, users / 3 + 1..users] {
            let flag = Arc::clone(&interrupted);
            let devices = Devices::new(Arc::clone(&world), 2, flag, own.clone())?;
            let (way, commands) = unbounded_channel();
            let up = Up {
                events: events.clone(),
                waiting: Arc::clone(&waiting),
            };
            actix::spawn(host(Rc::new(devices), commands, Arc::new(up)));
            ways.push((own, way));
        }
        let hosts = Channels(ways.clone());
        let workers = remote_workers(hosts);
        let mut coordinator = Coordinator::start(world, 1, interrupted, workers, None).await?;
        coordinator.record(Arrivals::begin(Box::new(arrivals.clone()), SCENARIO)?);
        let mut now = 0;
        let mut alarms = BTreeSet::new();
        while !coordinator.is_over() {
            let mut orders = coordinator.begin_round(SimTime::from_nanos(now))?;
            'round: loop {
                for order in std::mem::take(&mut orders) {
                    let down = |participant: Participant, message| {
                        let mut ways = ways.iter();
                        let way = ways.find(|(own, _)| own.contains(&participant.0.0));
                        way.unwrap().1.send(message).ok();
                    };
                    match order {
                        Order::Invite(invite) => down(invite.participant, Down::Invite(invite)),
                        Order::Taken(participant) => down(participant, Down::Taken(participant)),
                        Order::Cancel(participant) => down(participant, Down::Cancel(participant)),
                        Order::Reply(participant, frame) => {
                            if let Some(way) = waiting.lock().unwrap().remove(&participant) {
                                way.send(frame).unwrap();
                                events.send(Event::Of(participant, Told::Received)).ok();
                            }
                        }
                        Order::WakeAt(at) => drop(alarms.insert(at)),
                        Order::EndRound => {
                            coordinator.end_round().await?;
                            break 'round;
                        }
                    }
                }
                // Each event takes as long as is left until the alarm, if nothing else comes.
                let event = match (inbox.try_recv(), alarms.first()) {
                    (Ok(event), _) => event,
                    (Err(_), Some(at)) if now + 1000 >= at.as_nanos() => Event::AlarmRings,
                    _ => inbox.recv().await.unwrap(),
                };
                now += 1000;
                alarms.retain(|at| at.as_nanos() > now);
                orders = coordinator.happened(SimTime::from_nanos(now), event)?;
            }
        }
        let outcome = coordinator.collect(SimTime::from_nanos(now), None).await?;
        coordinator.end(SimTime::from_nanos(now))?;
        Ok(outcome)
    })
}

/// The text that names the scenario in a file of arrivals.
const SCENARIO: &str = "a scenario";

/// What was written to a file.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Written {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

/// Checks that what the coordinator was told leads to the same outcome again.
fn check_replay(world: &Arc<World>, arrivals: &Written, deployed: &Outcome, what: &str) {
    let text = arrivals.text();
    let recorded = Recorded::read("arrivals.jsonl", text.as_bytes(), SCENARIO).unwrap();
    let control = RunControl::with_threads(2);
    let replayed = replay(Arc::clone(world), &control, &recorded, &mut ());
    let replayed = replayed.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(replayed.state_digest, deployed.state_digest, "{what}");
    assert_eq!(replayed.bytes, deployed.bytes, "{what}");
    assert_eq!(replayed.work, deployed.work, "{what}");
    assert_eq!(replayed.rounds, deployed.rounds, "{what}");
}

/// Checks that devices in other processes lead to the simulation's state and to its bytes.
fn check(method: &str, overrides: &[&str]) {
    let entry = METHODS.iter().find(|entry| entry.name == method).unwrap();
    let contract = Contract::of(entry).with_parameters(parameters_for_few_users(method));
    let world = contract.world(overrides);
    let world = Arc::new(world.unwrap_or_else(|seen| panic!("{method}: {seen:?}")));
    let simulated = crate::run(Arc::clone(&world), &RunControl::with_threads(2), &mut ()).unwrap();
    let what = format!("{method} {overrides:?}");
    let arrivals = Written::default();
    let deployed = deployed(&world, &arrivals).unwrap_or_else(|error| panic!("{what}: {error}"));
    check_replay(&world, &arrivals, &deployed, &what);
    assert!(simulated.state_digest.is_some(), "{what}");
    assert_eq!(deployed.state_digest, simulated.state_digest, "{what}");
    assert_eq!(deployed.bytes, simulated.bytes, "{what}");
    assert_eq!(deployed.work, simulated.work, "{what}");
    let accuracies = |outcome: &Outcome| -> Vec<_> {
        let rounds = outcome.rounds.iter();
        rounds
            .map(|round| (round.accuracy.clone(), round.loss))
            .collect()
    };
    assert_eq!(accuracies(&deployed), accuracies(&simulated), "{what}");
    assert_eq!(deployed.baselines, simulated.baselines, "{what}");
}

/// If this fails, a method learns something else where its devices are elsewhere: something goes
/// past the frames.
#[test]
fn every_method_comes_to_the_state_of_its_simulation() {
    let on_devices = |placement| matches!(placement, Placement::Federated | Placement::Assisted);
    for entry in METHODS.iter().filter(|entry| on_devices(entry.placement)) {
        check(entry.name, &["training.participation={ share = 0.5 }"]);
    }
}

/// If this fails, a frame means something else to a device than to the server: a codec has a memory
/// that only one of them has, or draws that both do not share.
#[test]
fn codecs_and_noise_come_to_the_state_of_the_simulation() {
    const ROWS: &str = "codec.uplink=\"rows-f32\"";
    const INT4: &str = "codec.uplink={ delta = true, values = \"int4\", error_feedback = true }";
    const CHANGES: &str = "codec.downlink={ delta = true, values = \"int8\" }";
    const NEEDED: &str = "codec.downlink={ select = \"needed-rows\" }";
    const NEEDED_INT8: &str = "codec.downlink={ select = \"needed-rows\", values = \"int8\" }";
    const NOISE: &str =
        "privacy.gaussian={ clip = 0.5, noise_multiplier = 0.7, trust = \"local\" }";
    let share = "training.participation={ share = 0.4 }";
    for (method, overrides) in [
        ("fedmf", &[INT4, "codec.downlink={ values = \"int8\" }"][..]),
        ("fedmf", &[ROWS, CHANGES]),
        ("fedmf", &[INT4, CHANGES, "codec.first_download=\"seed\""]),
        ("fedmf", &[ROWS, NEEDED]),
        ("fedmf", &[INT4, NEEDED_INT8]),
        ("fedmf", &[NOISE]),
        ("fedrap", &[INT4, CHANGES]),
        ("metamf", &[INT4, "codec.downlink={ values = \"int8\" }"]),
        ("adafedrec", &[INT4, "codec.downlink={ values = \"int8\" }"]),
        ("fedpergnn", &[INT4, CHANGES]),
    ] {
        check(method, &[overrides, &[share]].concat());
    }
}

/// If this fails, what the devices keep, or what an evaluation sees, depends on more than the order in
/// which the coordinator is told what has happened.
#[test]
fn every_mode_is_repeated_from_what_arrived() {
    const SHARE: &str = "training.participation={ share = 0.4 }";
    let entry = METHODS.iter().find(|entry| entry.name == "fedmf").unwrap();
    for overrides in [
        &[
            "over-selection = { factor = 1.5, deadline_s = 1e-4 }",
            SHARE,
        ][..],
        &[
            "over-selection = { factor = 1.5, deadline_s = 1e-4, stragglers = \"late\" }",
            SHARE,
        ],
        &["semi-synchronous = { deadline_s = 1e-5 }", SHARE],
        &["fedbuff = { concurrency = 6, buffer = 3 }"],
        &["fedasync = { concurrency = 4 }"],
    ] {
        let mode = format!("training.mode={{ {} }}", overrides[0]);
        let all = [&[mode.as_str(), "training.rounds=6"], &overrides[1..]].concat();
        let world = Contract::of(entry).world(&all);
        let world = Arc::new(world.unwrap_or_else(|seen| panic!("{mode}: {seen:?}")));
        let arrivals = Written::default();
        let deployed = deployed(&world, &arrivals).unwrap();
        assert!(deployed.state_digest.is_some(), "{mode}");
        check_replay(&world, &arrivals, &deployed, &mode);
    }
}

/// If this fails, a file that is not the one of the run leads to a result that nobody can place.
#[test]
fn a_file_of_another_run_or_one_that_was_changed_is_refused_with_its_line() {
    let entry = METHODS.iter().find(|entry| entry.name == "fedmf").unwrap();
    let world = Arc::new(Contract::of(entry).world(&[]).unwrap());
    let arrivals = Written::default();
    deployed(&world, &arrivals).unwrap();
    let whole = arrivals.text();
    let refusal = |text: &str, scenario| {
        let read = Recorded::read("a.jsonl", text.as_bytes(), scenario);
        read.unwrap_err().to_string()
    };
    let other = refusal(&whole, "another scenario");
    assert!(
        other.contains("a.jsonl:1:") && other.contains("another scenario"),
        "{other}"
    );
    // A report's scenario has its keys in another order when it is read again.
    let written = Written::default();
    let begun = Arrivals::begin(Box::new(written.clone()), "b = 2\na = [1]");
    begun.unwrap().end(SimTime::ZERO).unwrap();
    Recorded::read("a.jsonl", written.text().as_bytes(), "a = [1]\nb = 2\n").unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let cut = lines[..lines.len() - 1].join("\n") + "\n";
    assert!(refusal(&cut, SCENARIO).contains("cut off"));
    let half = &whole[..whole.len() / 2];
    let at = format!("a.jsonl:{}:", half.lines().count());
    assert!(
        refusal(half, SCENARIO).contains(&at),
        "{}",
        refusal(half, SCENARIO)
    );
    let swapped = [&lines[..2], &[lines[3], lines[2]], &lines[4..]]
        .concat()
        .join("\n")
        + "\n";
    let edited = refusal(&swapped, SCENARIO);
    assert!(
        edited.contains("edited") && edited.contains(&format!(":{}:", lines.len())),
        "{edited}"
    );
    // The digest fits, and a device does something else.
    let frame = whole.find("\"frame\":\"").unwrap() + 9;
    let mut changed = whole.clone().into_bytes();
    changed[frame] = if changed[frame] == b'0' { b'1' } else { b'0' };
    let changed = String::from_utf8(changed).unwrap();
    let body = &changed[..changed.trim_end().rfind('\n').unwrap() + 1];
    let end = lines[lines.len() - 1].rfind("\"digest\":\"").unwrap() + 10;
    let digest = blake3::hash(body.as_bytes()).to_hex();
    let forged = format!("{body}{}{digest}\"}}\n", &lines[lines.len() - 1][..end]);
    let recorded = Recorded::read("a.jsonl", forged.as_bytes(), SCENARIO).unwrap();
    let replayed = replay(world, &RunControl::with_threads(1), &recorded, &mut ());
    let error = replayed.unwrap_err().to_string();
    let line = whole[..frame].lines().count();
    assert!(error.contains(&format!("a.jsonl:{line}:")), "{error}");
}
