//! The time that devices spend, the tails of their radios, and what their electricity emits.

use std::sync::Arc;

use super::{ByUser, WorkTotals, World};
use crate::outcome::{Booking, LinkEvent, Prices, nanograms};
use fedrecsim_core::legs::Job;
use fedrecsim_core::{Direction, SimTime, UserId};

/// What measures devices.
pub(super) struct Meter {
    world: Arc<World>,
    prices: Prices,
    /// The longest tail of a radio, in nanoseconds; `None` if the scenario states none.
    tail_ns: Option<u64>,
    /// When the last transfer of a user ended, if its radio may not rest yet.
    pub awake_since: ByUser<SimTime>,
}

impl Meter {
    pub(super) fn new(world: Arc<World>) -> Self {
        let devices = &world.scenario.devices;
        let tail_ns = |length_s: f64| (length_s * 1e9).round() as u64;
        Self {
            prices: Prices::of(devices),
            tail_ns: devices.radio_tail.map(|tail| tail_ns(tail.length_s)),
            awake_since: ByUser::default(),
            world,
        }
    }

    /// Adds what an event took its user's device to `done`. An activity counts in the hour when it ends,
    /// and a transfer that waits in line has begun for the radio.
    pub(super) fn measure(&mut self, booking: &Booking, done: &mut WorkTotals) {
        let (user, at) = (booking.user, booking.at);
        let took_us = microseconds(booking.event.took_ns());
        done.taking_part_us = done.taking_part_us.saturating_add(took_us);
        let mut joules = self.prices.taking_part_j(took_us);
        match booking.event {
            LinkEvent::Sent(..) => self.end_tail(user, at, done),
            LinkEvent::TransferEnded {
                route,
                carried,
                received,
                ..
            } => {
                if received || route.direction == Direction::Up {
                    joules += self.prices.bytes_j(carried);
                }
                if self.tail_ns.is_some() {
                    self.awake_since.insert(user, at);
                }
            }
            // The third party makes the reply.
            LinkEvent::WorkEnded { job, work, .. } if job != Job::Reply => {
                joules += self.prices.work_j(work);
            }
            LinkEvent::WorkEnded { .. }
            | LinkEvent::InLine(_)
            | LinkEvent::Connected(_)
            | LinkEvent::WorkBegan(_) => {}
        }
        self.emit(user, at, joules, done);
    }

    /// Returns what the radios take until they rest that are awake at the end of a run, by user.
    pub(super) fn last_tails(&mut self) -> Vec<(UserId, WorkTotals)> {
        let users: Vec<UserId> = self.awake_since.keys().into_iter().collect();
        let tail_of = |user: UserId| {
            let mut done = WorkTotals::default();
            self.end_tail(user, SimTime::END, &mut done);
            (user, done)
        };
        users.into_iter().map(tail_of).collect()
    }

    /// Ends the tail of a user's radio, if it has one, at an instant or before.
    fn end_tail(&mut self, user: UserId, at: SimTime, done: &mut WorkTotals) {
        let (Some(longest), Some(since)) = (self.tail_ns, self.awake_since.remove(&user)) else {
            return;
        };
        let tail_us = microseconds(at.since(since).as_nanos().min(longest));
        done.radio_tail_us += tail_us;
        self.emit(user, since, self.prices.radio_tail_j(tail_us), done);
    }

    fn emit(&self, user: UserId, at: SimTime, joules: f64, done: &mut WorkTotals) {
        if let Some(carbon) = &self.world.population.carbon {
            let emitted = nanograms(carbon.of_device(user, at, joules));
            done.co2_ng = done.co2_ng.saturating_add(emitted);
        }
    }
}

/// Returns nanoseconds in microseconds, rounded.
pub(super) fn microseconds(nanoseconds: u64) -> u64 {
    nanoseconds / 1000 + u64::from(nanoseconds % 1000 >= 500)
}

/// Returns what the server's electricity emits between two instants, in nanograms.
pub(super) fn server_co2_ng(world: &World, between: (SimTime, SimTime)) -> u64 {
    let power_w = world.scenario.server.power_w;
    let carbon = world.population.carbon.as_ref();
    let emitted = carbon
        .zip(power_w)
        .map(|(carbon, power_w)| carbon.of_server(power_w, between));
    emitted.map_or(0, nanograms)
}
