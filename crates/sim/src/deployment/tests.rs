//! Holds a run whose devices are in other processes against the simulation of it. Here the
//! processes are tasks, and their connections are channels.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, mpsc};

use actix::System;
use bytes::Bytes;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use super::*;
use crate::testing::Contract;
use crate::workers::Working;
use crate::{Outcome, RunControl, World};
use fedrecsim_core::Result;
use fedrecsim_methods::Placement;
use fedrecsim_methods::registry::METHODS;

/// What goes down a connection.
enum Down {
    Invite(Invite),
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
            Down::Invite(invite) => {
                let (devices, up) = (Rc::clone(&devices), Arc::clone(&up));
                actix::spawn(async move {
                    let participant = invite.participant;
                    if !invite.frame.bytes.is_empty() {
                        up.events.send(Event::Of(participant, Told::Received)).ok();
                    }
                    let told = match devices.train(invite, Arc::clone(&up) as Peers).await {
                        Ok(Some(Trained { sent, loss })) => Told::Uploaded(sent, loss),
                        Ok(None) => return,
                        Err(error) => Told::Failed(error),
                    };
                    up.events.send(Event::Of(participant, told)).ok();
                });
            }
        }
    }
}

/// Runs `world` with the users of three processes. Time is a counter of events.
fn deployed(world: &Arc<World>) -> Result<Outcome> {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
    };
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
        let mut coordinator = Coordinator::start(world, 1, interrupted, workers).await?;
        let mut now = 0;
        while !coordinator.is_over() {
            let mut orders = coordinator.begin_round(SimTime::from_nanos(now)).await?;
            let mut round_is_open = true;
            while round_is_open {
                for order in std::mem::take(&mut orders) {
                    match order {
                        Order::Invite(invite) => {
                            let user = invite.participant.0;
                            let mut ways = ways.iter();
                            let way = ways.find(|(own, _)| own.contains(&user.0)).unwrap();
                            way.1.send(Down::Invite(invite)).ok();
                        }
                        Order::Reply(participant, frame) => {
                            let way = waiting.lock().unwrap().remove(&participant).unwrap();
                            way.send(frame).unwrap();
                            events.send(Event::Of(participant, Told::Received)).ok();
                        }
                        Order::RoundOver(..) => round_is_open = false,
                        Order::Cancel(_) | Order::WakeAt(_) => panic!("nothing calls for it"),
                    }
                }
                if round_is_open {
                    let event = inbox.recv().await.unwrap();
                    now += 1000;
                    orders = coordinator
                        .happened(SimTime::from_nanos(now), event)
                        .await?;
                }
            }
        }
        coordinator.finish(SimTime::from_nanos(now), None).await
    })
}

/// Checks that devices in other processes lead to the simulation's state and to its bytes.
fn check(method: &str, overrides: &[&str]) {
    let entry = METHODS.iter().find(|entry| entry.name == method).unwrap();
    let world = Contract::of(entry).world(overrides);
    let world = Arc::new(world.unwrap_or_else(|seen| panic!("{method}: {seen:?}")));
    let simulated = crate::run(Arc::clone(&world), &RunControl::with_threads(2), &mut ()).unwrap();
    let deployed = deployed(&world).unwrap_or_else(|error| panic!("{method}: {error}"));
    let what = format!("{method} {overrides:?}");
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
        ("fedpergnn", &[INT4, CHANGES]),
    ] {
        check(method, &[overrides, &[share]].concat());
    }
}
