//! Prefetching of participations.
//!
//! Events come in the order of time, so participations are visited in an order in which no near
//! cache has them. The calendar knows early which come next, so that several can be on their way
//! from memory at once.

use std::slice;

use super::Network;
use super::event::Event;
use fedrecsim_core::ids::UserId;
use fedrecsim_model::model::kernel::prefetch;

/// The number of events, or of invited users, by which prefetching is ahead.
pub(super) const AHEAD: usize = 4;

impl Network {
    /// Asks the processor for the participation to which something happens soon.
    pub(super) fn prefetch_upcoming(&self) {
        let Some(event) = self.traffic.calendar.upcoming(AHEAD) else {
            return;
        };
        if let Event::WorkEnded(user) = event {
            self.peers.workers.expect_end_of_training(*user);
        }
        event
            .user()
            .into_iter()
            .for_each(|user| self.prefetch(user));
    }

    /// Asks the processor for the participation of `user`.
    pub(super) fn prefetch(&self, user: UserId) {
        if let Some(participation) = self.taking_part.get(&user) {
            prefetch(slice::from_ref(&**participation));
        }
    }
}
