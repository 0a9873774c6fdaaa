//! The time that devices spend, the tails of their radios, and what their electricity emits.

use std::sync::Arc;

use super::{ByUser, Metered, World};
use crate::outcome::{Booking, LinkEvent, Prices, nanograms};
use fedrecsim_core::legs::Job;
use fedrecsim_core::{Direction, SimTime, UserId};

/// Measures what devices take besides bytes and work.
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

    /// Adds what an event took its user's device to `metered`. A transfer that waits in line has begun
    /// for the radio.
    pub(super) fn measure(&mut self, booking: &Booking, metered: &mut Metered) {
        let (user, at, event) = (booking.user, booking.at, &booking.event);
        metered.taking_part_ns += u128::from(event.took_ns());
        if self.tail_ns.is_some() {
            match event {
                LinkEvent::Sent(..) => self.end_tail(user, at, metered),
                LinkEvent::TransferEnded { .. } => drop(self.awake_since.insert(user, at)),
                _ => {}
            }
        }
        if let Some(carbon) = &self.world.population.carbon {
            // An activity counts in the hour when it ends.
            metered.co2_ng += nanograms(carbon.of_device(user, at, self.joules_of(event)));
        }
    }

    /// Returns the energy that an event took its device, without the radio's tail.
    fn joules_of(&self, event: &LinkEvent) -> f64 {
        let prices = &self.prices;
        let of_event = match *event {
            LinkEvent::TransferEnded {
                route,
                carried,
                received,
                ..
            } if received || route.direction == Direction::Up => prices.bytes_j(carried),
            // The third party makes the reply.
            LinkEvent::WorkEnded { job, work, .. } if job != Job::Reply => prices.work_j(work),
            _ => 0.0,
        };
        of_event + prices.taking_part_j(event.took_ns().into())
    }

    /// Returns what the radios take until they rest that are awake at the end of a run, by user.
    pub(super) fn last_tails(&mut self) -> Vec<(UserId, Metered)> {
        let users: Vec<UserId> = self.awake_since.keys().into_iter().collect();
        let tail_of = |user: UserId| {
            let mut metered = Metered::default();
            self.end_tail(user, SimTime::END, &mut metered);
            (user, metered)
        };
        users.into_iter().map(tail_of).collect()
    }

    /// Ends the tail of a user's radio, if it has one, at an instant or before.
    fn end_tail(&mut self, user: UserId, at: SimTime, metered: &mut Metered) {
        let (Some(longest), Some(since)) = (self.tail_ns, self.awake_since.remove(&user)) else {
            return;
        };
        let tail_ns = at.since(since).as_nanos().min(longest).into();
        metered.radio_tail_ns += tail_ns;
        if let Some(carbon) = &self.world.population.carbon {
            let joules = self.prices.radio_tail_j(tail_ns);
            metered.co2_ng += nanograms(carbon.of_device(user, since, joules));
        }
    }
}

/// Returns what the server's electricity emits between two instants, in nanograms.
pub(super) fn server_co2_ng(world: &World, between: (SimTime, SimTime)) -> u128 {
    let power_w = world.scenario.server.power_w;
    let carbon = world.population.carbon.as_ref();
    let emitted = carbon
        .zip(power_w)
        .map(|(carbon, power_w)| carbon.of_server(power_w, between));
    emitted.map_or(0, nanograms)
}
