//! What happens on links and devices, booked: bytes, durations, row visits, and what was spent on nothing.

use serde::{Deserialize, Serialize};

use super::{Books, defect};
use crate::error::Result;
use crate::ids::UserId;
use crate::sim::messages::{Booking, Direction, LinkEvent, Usefulness};

/// What a participation has taken so far: whether it was for nothing shows at its end.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Spent {
    download_bytes: u64,
    row_visits: u64,
}

impl Books {
    pub(super) fn book(&mut self, booking: &Booking) -> Result<()> {
        let Booking { invitation_id, user, event, .. } = *booking;
        match event {
            LinkEvent::Sent(direction, parts) => self.ledger.sent(invitation_id, user, direction, parts)?,
            LinkEvent::Lost(direction, carried) => self.ledger.lost(invitation_id, user, direction, carried)?,
            LinkEvent::Delivered(direction, usefulness, nanoseconds) => {
                self.record_duration(if direction == Direction::Down { 0 } else { 2 }, nanoseconds)?;
                let bytes = self.ledger.delivered(invitation_id, user, direction, usefulness)?;
                if direction == Direction::Down {
                    self.under_way.insert(user, Spent { download_bytes: bytes, row_visits: 0 });
                }
            }
            LinkEvent::Cancelled(direction, carried) => {
                self.ledger.cancelled(invitation_id, user, direction, carried)?
            }
            LinkEvent::Unfinished(direction, carried) => {
                self.ledger.unfinished(invitation_id, user, direction, carried)?
            }
            LinkEvent::Swallowed(direction, bytes) => self.ledger.swallowed(user, direction, bytes),
            LinkEvent::Computed(row_visits, nanoseconds) => {
                self.work.finished += row_visits;
                self.under_way.get_or_insert_with(user, Spent::default).row_visits += row_visits;
                self.record_duration(1, nanoseconds)?;
            }
            LinkEvent::ComputeLost(row_visits, _)
            | LinkEvent::ComputeCancelled(row_visits, _)
            | LinkEvent::ComputeUnfinished(row_visits, _) => self.work.lost += row_visits,
            // The frame was booked when it was sent, and is again when its way ends.
            LinkEvent::InLine(_) | LinkEvent::Connected(_) => {}
        }
        self.book_end(user, event);
        Ok(())
    }

    /// Books what a participation has taken as spent on nothing if `event` ends it without an update that is used.
    fn book_end(&mut self, user: UserId, event: LinkEvent) {
        let is_used = match event {
            LinkEvent::Delivered(Direction::Up, usefulness, _) => usefulness == Usefulness::Useful,
            LinkEvent::Lost(..)
            | LinkEvent::Cancelled(..)
            | LinkEvent::Unfinished(..)
            | LinkEvent::ComputeLost(..)
            | LinkEvent::ComputeCancelled(..)
            | LinkEvent::ComputeUnfinished(..) => false,
            LinkEvent::Sent(..)
            | LinkEvent::InLine(_)
            | LinkEvent::Connected(_)
            | LinkEvent::Delivered(Direction::Down, ..)
            | LinkEvent::Swallowed(..)
            | LinkEvent::Computed(..) => return,
        };
        if let (Some(spent), false) = (self.under_way.remove(&user), is_used) {
            self.work.unused += spent.row_visits;
            self.work.unused_download_bytes += spent.download_bytes;
        }
    }

    pub(super) fn record_duration(&mut self, phase: usize, nanoseconds: u64) -> Result<()> {
        self.durations_ns[phase].record(nanoseconds).map_err(|reason| defect(&reason))
    }
}
