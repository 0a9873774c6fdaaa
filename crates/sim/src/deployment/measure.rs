//! Measures what trainings take on this machine: rounds of a scenario in one process, in which one
//! device trains after the other.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use actix::System;

use super::in_memory::{InMemory, Makes, begin};
use super::{Coordinator, Devices, Event, Invite, Order, Told, remote_workers};
use crate::invitation::Participant;
use crate::world::World;
use fedrecsim_core::work::Work;
use fedrecsim_core::{Error, Result, SimTime};
use fedrecsim_model::codec::Frame;

/// A training that was measured.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Its work, that of its requests included.
    pub work: Work,
    /// The time from the download to the upload, without the time that it has waited for replies.
    pub took: Duration,
}

/// Runs rounds of `world` until `length` is over, or all of them, and returns what each training
/// took. The first round is left out, as it makes what later ones find.
///
/// # Errors
/// Those of a run.
pub fn measure(
    world: Arc<World>,
    interrupted: Arc<AtomicBool>,
    length: Duration,
) -> Result<Vec<Measured>> {
    let refused = |reason| Error::Usage(format!("cannot start the measurement: {reason}"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .map_err(refused)?;
    System::with_tokio_rt(move || runtime).block_on(async {
        let users = 0..world.dataset.users() as u32;
        let devices = Devices::new(Arc::clone(&world), 1, Arc::clone(&interrupted), users)?;
        let devices = Rc::new(devices);
        let workers = remote_workers(InMemory(Rc::clone(&devices)));
        let coordinator = Coordinator::start(world, 1, interrupted, workers, None).await?;
        let measuring = Measuring {
            coordinator,
            devices,
            invited: VecDeque::new(),
            replies: BTreeMap::new(),
            alarms: BTreeSet::new(),
            now: SimTime::ZERO,
            round_is_over: false,
            measured: Vec::new(),
        };
        measuring.run(length).await
    })
}

struct Measuring {
    coordinator: Coordinator,
    devices: Rc<Devices>,
    /// The invitations whose trainings have not begun.
    invited: VecDeque<Invite>,
    replies: BTreeMap<Participant, mpsc::Sender<Frame>>,
    alarms: BTreeSet<SimTime>,
    /// Events have numbers in the place of instants.
    now: SimTime,
    round_is_over: bool,
    measured: Vec<Measured>,
}

impl Measuring {
    async fn run(mut self, length: Duration) -> Result<Vec<Measured>> {
        let began = Instant::now();
        while !self.coordinator.is_over() && began.elapsed() < length {
            let orders = self.coordinator.begin_round(self.now)?;
            self.round_is_over = false;
            self.obey(orders)?;
            while !self.round_is_over {
                match (self.invited.pop_front(), self.alarms.pop_first()) {
                    (Some(invite), alarm) => {
                        self.alarms.extend(alarm);
                        self.train(invite).await?;
                    }
                    (None, Some(alarm)) => {
                        self.now = self.now.max(alarm);
                        self.tell(Event::AlarmRings)?;
                    }
                    (None, None) => return Err(Error::Interrupted),
                }
            }
            self.coordinator.end_round().await?;
        }
        Ok(self.measured)
    }

    async fn train(&mut self, invite: Invite) -> Result<()> {
        let participant = invite.participant;
        if !self.coordinator.is_under_way(participant) {
            return Ok(());
        }
        let has_download = !invite.frame.bytes.is_empty();
        let (mut makes, replies) = begin(&self.devices, invite);
        self.replies.insert(participant, replies);
        if has_download {
            self.tell(Event::Of(participant, Told::Received))?;
        }
        let mut work = Work::default();
        while let Some(made) = makes.recv().await {
            let told = match made {
                Makes::Request(peer, sent) => {
                    work += sent.work;
                    Told::Asked(peer, sent)
                }
                Makes::Upload(trained) => {
                    let Some(trained) = trained? else { break };
                    work += trained.sent.work;
                    if self.coordinator.rounds() > 0 {
                        let took = Duration::from_nanos(trained.sent.took_ns);
                        self.measured.push(Measured { work, took });
                    }
                    Told::Uploaded(trained.sent, trained.loss)
                }
            };
            self.tell(Event::Of(participant, told))?;
        }
        self.replies.remove(&participant);
        Ok(())
    }

    fn tell(&mut self, event: Event) -> Result<()> {
        self.now = SimTime::from_nanos(self.now.as_nanos() + 1);
        let orders = self.coordinator.happened(self.now, event)?;
        self.obey(orders)
    }

    fn obey(&mut self, orders: Vec<Order>) -> Result<()> {
        for order in orders {
            match order {
                Order::Invite(invite) => self.invited.push_back(invite),
                Order::Reply(participant, frame) => {
                    if let Some(replies) = self.replies.get(&participant) {
                        // If this fails, the training has failed, and says so.
                        let _ = replies.send(frame);
                    }
                    self.tell(Event::Of(participant, Told::Received))?;
                }
                Order::Taken(participant) => self.devices.taken(participant)?,
                Order::Cancel(participant) => self.devices.cancel(participant)?,
                Order::WakeAt(at) => drop(self.alarms.insert(at)),
                Order::EndRound => self.round_is_over = true,
            }
        }
        Ok(())
    }
}
