//! Who watches a run from outside the simulated world: a progress bar, a stop-watch, a test that interrupts.
//!
//! An observer is told, and never asked, so it cannot reach a result.

use super::outcome::{ByDirection, Flow, RoundRecord};

/// Hears of every finished round.
pub trait RoundObserver {
    /// `round` is over; `total` are the bytes of the run so far.
    fn round_finished(&mut self, round: &RoundRecord, total: ByDirection<Flow>);
}

/// Nobody listens.
impl RoundObserver for () {
    fn round_finished(&mut self, _round: &RoundRecord, _total: ByDirection<Flow>) {}
}
