//! Who watches a run from outside the simulated world: a progress bar, a stop-watch, a test that interrupts.
//!
//! An observer is told, and never asked, so it cannot reach a result.

use super::outcome::events::{Booking, RoundSpan};
use super::outcome::{ByDirection, Flow, RoundRecord};

/// Hears of every finished round.
pub trait RoundObserver {
    /// `round` is over; `total` are the bytes of the run so far.
    fn round_finished(&mut self, round: &RoundRecord, total: ByDirection<Flow>);

    /// All that happened on links and devices since this was called last, in the order of time: before
    /// [`round_finished`](Self::round_finished) while `round` was open, and with `None` in the midst of a round in which much happens, and when the run ends.
    fn happened(&mut self, round: Option<RoundSpan>, bookings: &[Booking]) {
        let _ = (round, bookings);
    }
}

/// Nobody listens.
impl RoundObserver for () {
    fn round_finished(&mut self, _round: &RoundRecord, _total: ByDirection<Flow>) {}
}

/// A list takes down the rounds.
impl RoundObserver for Vec<RoundRecord> {
    fn round_finished(&mut self, round: &RoundRecord, _total: ByDirection<Flow>) {
        self.push(round.clone());
    }
}
