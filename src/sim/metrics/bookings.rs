//! What happens on links and devices, booked: bytes, durations, row visits, and what was spent on nothing.

use serde::{Deserialize, Serialize};

use super::{Books, defect};
use crate::error::Result;
use crate::ids::UserId;
use crate::sim::messages::{Booking, Direction, Ending, LinkEvent};
use crate::work::Work;

/// What a participation has taken so far: whether it was for nothing shows at its end.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Spent {
    download_bytes: u64,
    work: Work,
}

impl Books {
    pub(super) fn book(&mut self, booking: &Booking) -> Result<()> {
        let Booking { invitation_id, user, event, .. } = *booking;
        match event {
            LinkEvent::Sent(direction, parts) => self.ledger.sent(invitation_id, user, direction, parts)?,
            // The frame was booked when it was sent, and is again when its way ends.
            LinkEvent::InLine(_) | LinkEvent::Connected(_) => {}
            LinkEvent::TransferEnded { direction, ending, carried, received, took_ns } => {
                let bytes = self.ledger.ended((invitation_id, user), direction, ending, (carried, received))?;
                if ending.is_arrival() {
                    self.record_duration(if direction == Direction::Down { 0 } else { 2 }, took_ns)?;
                }
                match (direction, ending) {
                    (Direction::Down, Ending::Done) => {
                        self.under_way.insert(user, Spent { download_bytes: bytes, work: Work::default() });
                    }
                    _ => self.book_end(user, ending),
                }
            }
            LinkEvent::TrainingEnded { ending: Ending::Done, work, took_ns } => {
                self.work.finished += work.row_visits;
                self.work.finished_multiply_adds += work.multiply_adds;
                self.under_way.get_or_insert_with(user, Spent::default).work += work;
                self.record_duration(1, took_ns)?;
            }
            LinkEvent::TrainingEnded { ending, work, .. } => {
                self.work.lost += work.row_visits;
                self.work.lost_multiply_adds += work.multiply_adds;
                self.book_end(user, ending);
            }
        }
        Ok(())
    }

    /// Books what a participation has taken as spent on nothing if it ends without an update that is used.
    fn book_end(&mut self, user: UserId, ending: Ending) {
        if let Some(spent) = self.under_way.remove(&user).filter(|_| ending != Ending::Done) {
            self.work.unused += spent.work.row_visits;
            self.work.unused_multiply_adds += spent.work.multiply_adds;
            self.work.unused_download_bytes += spent.download_bytes;
        }
    }

    pub(super) fn record_duration(&mut self, phase: usize, nanoseconds: u64) -> Result<()> {
        self.durations_ns[phase].record(nanoseconds).map_err(|reason| defect(&reason))
    }
}
