//! The links of a run in real time. A frame is held back for as long as the same transfer would
//! take in a simulation, by the code that tells it there: links of users, the server's link with its
//! line, and faults.

use std::ops::Range;
use std::sync::Arc;

use super::Event;
use super::participation::{Activity, Participation};
use super::transfers::{Traffic, absent};
use crate::by_user::ByUser;
use crate::invitation::{Invitation, Participant};
use crate::world::World;
use fedrecsim_core::legs::Route;
use fedrecsim_core::{Result, SimTime, UserId};
use fedrecsim_data::population::Conditions;
use fedrecsim_model::codec::FrameParts;

/// The links, with the frames that are on them. A frame is whatever its owner wants back when it
/// arrives.
pub(crate) struct ShapedLinks<F> {
    traffic: Traffic,
    on_their_way: ByUser<Box<Participation>>,
    frames: ByUser<F>,
}

/// A frame at the end of its way.
pub(crate) struct Arrival<F> {
    pub at: SimTime,
    pub participant: Participant,
    /// The frame; `None` if a fault has spoiled it.
    pub frame: Option<F>,
}

impl<F> ShapedLinks<F> {
    /// Makes the links of `world`, at time zero and without a frame.
    pub(crate) fn new(world: Arc<World>) -> Self {
        Self {
            traffic: Traffic::new(world),
            on_their_way: ByUser::default(),
            frames: ByUser::default(),
        }
    }

    /// Returns whether a frame of `user` is on its way.
    pub(crate) fn carry_one_of(&self, user: UserId) -> bool {
        self.frames.contains_key(&user)
    }

    /// Returns the participations of these users that have a frame on its way.
    pub(crate) fn carried_for(&self, users: Range<u32>) -> Vec<Participant> {
        let users = users.map(UserId);
        users
            .filter_map(|user| self.on_their_way.get(&user))
            .map(|participation| participation.participant())
            .collect()
    }

    /// Puts a frame of a participation on its way. The user must not have another one there.
    ///
    /// # Errors
    /// Defects of the simulator.
    pub(crate) fn send(
        &mut self,
        (user, invitation): (UserId, &Invitation),
        route: Route,
        parts: FrameParts,
        frame: F,
    ) -> Result<()> {
        let world = Arc::clone(&self.traffic.world);
        let conditions = Conditions {
            // It depends on the length of a training that nobody knows yet.
            dropout_at: None,
            ..world.population.conditions(user, invitation.id)
        };
        let parts = world.overheads.added_to(route, parts);
        let mut participation = Box::new(Participation::new(user, invitation.clone(), conditions));
        let transfer = self.traffic.start(&mut participation, route, parts)?;
        participation.activity = Activity::Transfer(transfer);
        self.on_their_way.insert(user, participation);
        self.frames.insert(user, frame);
        // What is on the links is booked by whoever takes part in the run.
        self.traffic.bookings.clear();
        Ok(())
    }

    /// Takes the frame of a participation off the links, if one is there.
    ///
    /// # Errors
    /// Defects of the simulator.
    pub(crate) fn stop(&mut self, (user, id): Participant) -> Result<()> {
        let on_its_way = self.on_their_way.get(&user);
        if on_its_way.is_none_or(|participation| participation.invitation.id != id) {
            return Ok(());
        }
        self.frames.remove(&user);
        let participation = self
            .on_their_way
            .remove(&user)
            .ok_or_else(|| absent(user))?;
        if let Activity::Transfer(transfer) = participation.activity {
            let links = &mut self.traffic;
            links.stop(&participation, &transfer, &mut self.on_their_way)?;
            links.cancel(participation.next);
        }
        Ok(())
    }

    /// Returns the instant at which something happens on the links, if nothing comes before.
    pub(crate) fn next(&mut self) -> Option<SimTime> {
        self.traffic.calendar.next_time()
    }

    /// Moves the clock to `now`, or to the next arrival if that comes first, and returns that.
    ///
    /// # Errors
    /// Defects of the simulator.
    pub(crate) fn advance(&mut self, now: SimTime) -> Result<Option<Arrival<F>>> {
        while self.next().is_some_and(|next| next <= now) {
            let Some((at, event)) = self.traffic.calendar.pop() else {
                break;
            };
            let participation = event
                .user()
                .and_then(|user| self.on_their_way.get_mut(&user));
            match (event, participation) {
                (Event::FrameArrived(user), _) => return self.arrived(at, user).map(Some),
                (Event::StartUpEnded(_), Some(participation)) => {
                    self.traffic.start_up_ended(participation);
                }
                (Event::RateChanges(_), Some(participation)) => {
                    self.traffic.change_rate(participation);
                }
                (Event::TransfersEnded(direction), _) => {
                    let taking_part = &mut self.on_their_way;
                    self.traffic.end_transfers(at, direction, taking_part)?;
                }
                // Nothing else is in this calendar.
                _ => {}
            }
            self.traffic.bookings.clear();
        }
        self.traffic.wait_until(now);
        Ok(None)
    }

    fn arrived(&mut self, at: SimTime, user: UserId) -> Result<Arrival<F>> {
        let participation = self
            .on_their_way
            .remove(&user)
            .ok_or_else(|| absent(user))?;
        let mut frame = self.frames.remove(&user);
        if let Activity::Transfer(transfer) = participation.activity {
            self.traffic.unshared.leave(&transfer, at);
            frame = frame.filter(|_| !transfer.is_spoiled());
        }
        Ok(Arrival {
            at,
            participant: participation.participant(),
            frame,
        })
    }
}
