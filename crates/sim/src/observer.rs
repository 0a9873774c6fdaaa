//! Observers, which watch a run from outside the simulated world: a progress bar, a stop-watch, a
//! test that interrupts.
//!
//! An observer is told what happens and is never asked anything, so it cannot affect a result.

use super::outcome::{Booking, ByDirection, Flow, GaugesSince, RoundRecord, RoundSpan};

/// An observer of every finished round.
pub trait RoundObserver {
    /// Takes note that `round` is over; `total` are the bytes of the run so far.
    fn round_finished(&mut self, round: &RoundRecord, total: ByDirection<Flow>);

    /// Takes note of what has happened on links and devices since the last call, in the order of
    /// time. For each round there is a call with its span before
    /// [`round_finished`](Self::round_finished). Calls with `None` come in the middle of a busy
    /// round, and when the run ends.
    fn happened(&mut self, round: Option<RoundSpan>, bookings: &[Booking]) {
        let _ = (round, bookings);
    }

    /// Takes note of the changes at the server's link since the last call, in the order of time,
    /// before what happened meanwhile is told. There is always at least one in a round that takes
    /// time. They are told only if [`Simulation::watch_server`](super::Simulation::watch_server)
    /// has asked for it.
    fn server_changed(&mut self, changes: &[GaugesSince]) {
        let _ = changes;
    }
}

/// The unit type stands for no observer.
impl RoundObserver for () {
    fn round_finished(&mut self, _round: &RoundRecord, _total: ByDirection<Flow>) {}
}

/// A list collects the records of the rounds.
impl RoundObserver for Vec<RoundRecord> {
    fn round_finished(&mut self, round: &RoundRecord, _total: ByDirection<Flow>) {
        self.push(round.clone());
    }
}
