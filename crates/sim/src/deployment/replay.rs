//! Repeats a run of real time from what its coordinator was told, with the devices in this process.
//!
//! A device trains when the file says that something of it has come. Nothing that it is sent or that
//! it keeps changes in between, so it makes what it made then.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::{Arc, mpsc};

use actix::System;
use tokio::sync::mpsc::UnboundedReceiver;

use super::arrivals::{Line, Made, Recorded};
use super::in_memory::{InMemory, Makes, begin};
use super::{Coordinator, Devices, Event, Invite, Order, Sent, Told, remote_workers};
use crate::invitation::Participant;
use crate::observer::RoundObserver;
use crate::outcome::Outcome;
use crate::simulation::RunControl;
use crate::world::World;
use fedrecsim_core::{Error, InvitationId, Result, SimTime, UserId};
use fedrecsim_model::codec::Frame;

/// Repeats a run of `world`, and returns its outcome.
///
/// # Errors
/// [`Error::Usage`] where a device comes to something else than the file says, with the line, and
/// those of a run.
pub fn replay(
    world: Arc<World>,
    control: &RunControl,
    recorded: &Recorded,
    observer: &mut dyn RoundObserver,
) -> Result<Outcome> {
    let refused = |reason| Error::Usage(format!("cannot start the replay: {reason}"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .map_err(refused)?;
    let (threads, interrupted) = (control.threads, Arc::clone(&control.interrupted));
    System::with_tokio_rt(move || runtime).block_on(async {
        let users = 0..world.dataset.users() as u32;
        let devices = Devices::new(Arc::clone(&world), threads, Arc::clone(&interrupted), users)?;
        let devices = Rc::new(devices);
        let hosts = InMemory(Rc::clone(&devices));
        let workers = remote_workers(hosts);
        let coordinator = Coordinator::start(world, threads, interrupted, workers, None).await?;
        let replaying = Replay {
            recorded,
            coordinator,
            devices,
            parts: BTreeMap::new(),
            at: 0,
            end_round: false,
        };
        replaying.run(observer).await
    })
}

/// A participation on its device.
enum Part {
    /// It was invited, and nothing of it has been needed yet.
    Invited(Invite),
    Trains(UnboundedReceiver<Makes>, mpsc::Sender<Frame>),
}

struct Replay<'r> {
    recorded: &'r Recorded,
    coordinator: Coordinator,
    devices: Rc<Devices>,
    parts: BTreeMap<UserId, (InvitationId, Part)>,
    /// The place of the present line.
    at: usize,
    /// Whether the last step of the round is made.
    end_round: bool,
}

impl Replay<'_> {
    async fn run(mut self, observer: &mut dyn RoundObserver) -> Result<Outcome> {
        let recorded = self.recorded;
        let mut stopped_by = None;
        let mut now = SimTime::ZERO;
        let mut begun_anew = Vec::new();
        for (place, line) in recorded.lines.iter().enumerate() {
            self.at = place;
            if let Line::Anew {
                first,
                end,
                scored: false,
                ..
            } = line
                && self.end_round
            {
                // They were scored so. The server took note once the round was over.
                self.begin_anew(*first..*end).await?;
                begun_anew.push(line);
                continue;
            }
            if std::mem::take(&mut self.end_round) {
                let (record, total) = self.coordinator.end_round().await?;
                observer.round_finished(&record, total);
                for line in std::mem::take(&mut begun_anew) {
                    self.take(line, &mut now).await?;
                }
            }
            if stopped_by.is_some() && !matches!(line, Line::End { .. }) {
                continue;
            }
            match self.take(line, &mut now).await {
                Ok(orders) => {
                    orders.into_iter().try_for_each(|order| self.obey(order))?;
                }
                Err(error) if error.leaves_a_result() => stopped_by = Some(error),
                Err(error) => return Err(error),
            }
        }
        let outcome = self.coordinator.collect(now, stopped_by).await?;
        self.coordinator.end(now)?;
        Ok(outcome)
    }

    /// Tells the coordinator what a line says.
    async fn take(&mut self, line: &Line, now: &mut SimTime) -> Result<Vec<Order>> {
        let (at, told) = match line {
            Line::Run { .. } => return Ok(Vec::new()),
            Line::End { at, .. } => {
                *now = SimTime::from_nanos(*at);
                return Ok(Vec::new());
            }
            Line::Round { at } => {
                *now = SimTime::from_nanos(*at);
                return self.coordinator.begin_round(*now);
            }
            Line::Anew {
                first, end, scored, ..
            } => {
                self.begin_anew(*first..*end).await?;
                self.coordinator.begin_anew(*first..*end, *scored)?;
                return Ok(Vec::new());
            }
            Line::Alarm { at } => (at, None),
            Line::Received { at, .. } => (at, Some(Told::Received)),
            Line::Lost { at, .. } => (at, Some(Told::Lost)),
            Line::Asked { at, peer, made, .. } => match self.next_made(line).await? {
                Some(Makes::Request(asked, sent)) if asked == *peer => {
                    (at, Some(Told::Asked(asked, self.timed(made, sent)?)))
                }
                None => (at, None),
                Some(_) => return Err(self.other("it asks for nothing here")),
            },
            Line::Uploaded { at, made, loss, .. } => match self.next_made(line).await? {
                Some(Makes::Upload(trained)) => match trained? {
                    Some(trained) if trained.loss == *loss => {
                        let sent = self.timed(made, trained.sent)?;
                        (at, Some(Told::Uploaded(sent, trained.loss)))
                    }
                    _ => return Err(self.other("its local loss is another")),
                },
                None => (at, None),
                Some(Makes::Request(..)) => return Err(self.other("it asks for something first")),
            },
        };
        *now = SimTime::from_nanos(*at);
        match (told, line.participant()) {
            (Some(told), Some(participant)) => self
                .coordinator
                .happened(*now, Event::Of(participant, told)),
            // A message of a participation that was over changed nothing.
            (None, Some(_)) => Ok(Vec::new()),
            (_, None) => self.coordinator.happened(*now, Event::AlarmRings),
        }
    }

    /// Returns what the device of a line makes next; `None` if its participation is over.
    async fn next_made(&mut self, line: &Line) -> Result<Option<Makes>> {
        let Some(participant) = line.participant() else {
            return Ok(None);
        };
        if !self.coordinator.is_under_way(participant) {
            return Ok(None);
        }
        let Some((_, part)) = self.parts.remove(&participant.0) else {
            return Err(self.other("it was not invited"));
        };
        let (mut makes, replies) = match part {
            Part::Invited(invite) => begin(&self.devices, invite),
            Part::Trains(makes, replies) => (makes, replies),
        };
        let made = makes.recv().await;
        let part = Part::Trains(makes, replies);
        self.parts.insert(participant.0, (participant.1, part));
        made.map_or_else(
            || Err(self.other("it has uploaded before")),
            |made| Ok(Some(made)),
        )
    }

    fn obey(&mut self, order: Order) -> Result<()> {
        match order {
            Order::Invite(invite) => {
                let (user, id) = invite.participant;
                self.parts.insert(user, (id, Part::Invited(invite)));
            }
            Order::Reply((user, _), frame) => {
                if let Some((_, Part::Trains(_, replies))) = self.parts.get(&user) {
                    // If this fails, the training has failed, and will say so.
                    let _ = replies.send(frame);
                }
            }
            Order::Taken(participant) => {
                self.forget(participant);
                self.devices.taken(participant)?;
            }
            Order::Cancel(participant) => {
                self.forget(participant);
                self.devices.cancel(participant)?;
            }
            Order::WakeAt(_) => {}
            Order::EndRound => self.end_round = true,
        }
        Ok(())
    }

    /// Has these users begin anew. A training of theirs waits for nothing any more.
    async fn begin_anew(&mut self, users: Range<u32>) -> Result<()> {
        self.parts.retain(|user, _| !users.contains(&user.0));
        self.devices.forget(users).await
    }

    fn forget(&mut self, (user, id): Participant) {
        if self.parts.get(&user).is_some_and(|(own, _)| *own == id) {
            self.parts.remove(&user);
        }
    }

    fn timed(&self, made: &Made, sent: Sent) -> Result<Sent> {
        made.timed(sent)
            .ok_or_else(|| self.other("it makes another frame, or with other work"))
    }

    /// Returns the error of a device that does not do what the present line says.
    fn other(&self, reason: &str) -> Error {
        let reason =
            format!("the device of this line does something else than it did then: {reason}");
        self.recorded.at(self.at, &reason)
    }
}
