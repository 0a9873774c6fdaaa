//! Watches the server's link, the line for connections and the users who are waited for.
//!
//! Between two events no level changes, so the integral over time is exact: when the clock moves,
//! the values that have held since the event before count for the time that has passed. This takes
//! the same few operations for every event, and no memory.

use super::participation::{Transfer, Way};
use crate::durations::Durations;
use crate::outcome::{ByDirection, Gauges, GaugesSince, Level};
use fedrecsim_core::legs::Peer;
use fedrecsim_core::{Bytes, Result, SimDuration, SimTime};

/// The watched values of the open round.
#[derive(Default)]
pub(super) struct Watch {
    /// Time has been counted up to this instant.
    since: SimTime,
    levels: Gauges<Level>,
    /// The waits in the line that have ended; `None` before the first of them.
    waits: Option<Box<Durations>>,
    /// The changes of the values, in the order of time, if somebody has asked for them.
    changes: Option<Vec<GaugesSince>>,
    /// The latest of the changes in this round.
    latest: Option<Gauges<u64>>,
}

impl Watch {
    /// Begins to count at this instant.
    pub(crate) fn begin_at(&mut self, now: SimTime) {
        self.since = now;
    }

    /// Has changes kept from now on.
    pub(crate) fn keep_changes(&mut self) {
        self.changes.get_or_insert_default();
    }

    /// Returns whether time has passed by `now` that has not been counted.
    pub(crate) fn is_before(&self, now: SimTime) -> bool {
        self.since < now
    }

    /// Counts the time until `now`, during which the values were `gauges`.
    pub(crate) fn pass(&mut self, now: SimTime, gauges: Gauges<u64>) {
        let nanoseconds = now.since(self.since).as_nanos();
        for (level, value) in self
            .levels
            .as_mut_array()
            .into_iter()
            .zip(gauges.as_array())
        {
            level.pass(*value, nanoseconds);
        }
        if let Some(changes) = &mut self.changes
            && self.latest != Some(gauges)
        {
            changes.push(GaugesSince {
                at: self.since,
                gauges,
            });
            self.latest = Some(gauges);
        }
        self.since = now;
    }

    /// Records a wait in the line that has ended.
    ///
    /// # Errors
    /// `Error::Actor` if there is no room for it.
    pub(crate) fn waited(&mut self, wait: SimDuration) -> Result<()> {
        let waits = match self.waits.take() {
            Some(waits) => waits,
            None => Box::new(Durations::new()?),
        };
        self.waits.insert(waits).record(wait.as_nanos())
    }

    /// Removes and returns the changes of the values so far.
    pub(crate) fn take_changes(&mut self) -> Vec<GaugesSince> {
        self.changes
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Ends the round, and returns the levels over its time, and the waits that ended in it if
    /// there were any.
    pub(crate) fn end_round(&mut self) -> (Gauges<Level>, Option<Box<Durations>>) {
        self.latest = None;
        (std::mem::take(&mut self.levels), self.waits.take())
    }
}

/// The transfers between the server and users on links that each of them has for itself, since the
/// server's link has no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Unshared {
    pub transfers: u64,
    /// The sums of their mean rates.
    pub bits_per_s: ByDirection<u64>,
}

impl Unshared {
    /// Counts a transfer that starts and `arrives` then.
    pub(crate) fn enter(&mut self, transfer: &Transfer, arrives: SimTime) {
        if counts(transfer) {
            self.transfers += 1;
            *self.bits_per_s.of_mut(transfer.route.direction) +=
                mean_rate(transfer.size, arrives.since(transfer.began));
        }
    }

    /// Counts a transfer no longer, which `arrives` then or would have.
    pub(crate) fn leave(&mut self, transfer: &Transfer, arrives: SimTime) {
        if counts(transfer) {
            self.transfers -= 1;
            *self.bits_per_s.of_mut(transfer.route.direction) -=
                mean_rate(transfer.size, arrives.since(transfer.began));
        }
    }
}

/// Returns whether a transfer is one with the server that has its link for itself.
fn counts(transfer: &Transfer) -> bool {
    transfer.way == Way::Alone && transfer.route.peer == Peer::Server
}

/// Returns the mean rate of a transfer of `size` that takes so long, in bit/s, rounded down. A
/// transfer that takes no time has none.
fn mean_rate(size: Bytes, took: SimDuration) -> u64 {
    const BIT_NANOSECONDS: u64 = 8 * 1_000_000_000;
    let nanoseconds = took.as_nanos();
    // Up to 2.3 GB the product fits in 64 bits, where a division takes a fraction of what it takes
    // in 128.
    if let Some(product) = size.get().checked_mul(BIT_NANOSECONDS) {
        return product
            .checked_div(nanoseconds)
            .unwrap_or(0)
            .min(u64::MAX >> 32);
    }
    let product = u128::from(size.get()) * u128::from(BIT_NANOSECONDS);
    let rate = product.checked_div(u128::from(nanoseconds)).unwrap_or(0);
    // A sum of 2^32 of these fits.
    u64::try_from(rate).unwrap_or(u64::MAX).min(u64::MAX >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, a transfer without a limit counts as more or less than its bytes.
    #[test]
    fn a_mean_rate_times_its_time_is_the_bytes() {
        let rate = |bytes, ns| mean_rate(Bytes::new(bytes), SimDuration::from_nanos(ns));
        assert_eq!(
            [
                rate(125, 1_000_000_000),
                rate(125, 500_000_000),
                rate(1, 3_000_000_000)
            ],
            [1000, 2000, 2]
        );
        assert_eq!(
            (rate(5, 0), rate(u64::MAX, 0), rate(u64::MAX, 1)),
            (0, 0, u64::MAX >> 32)
        );
        // Rates are capped, so that 2^32 of them have a sum.
        assert_eq!(
            [
                rate(1_000_000_000, 1_000_000_000),
                rate(400_000_000, 1_000_000_000)
            ],
            [u64::MAX >> 32, 3_200_000_000]
        );
        // The largest size whose product fits in 64 bits, and the next one, which takes the other
        // way.
        let largest = u64::MAX / 8_000_000_000;
        assert_eq!(
            [largest, largest + 1].map(|bytes| rate(bytes, 8_000_000_000_000)),
            [largest / 1000, (largest + 1) / 1000]
        );
    }

    /// If this fails, a trace of the run begins a round without values, or repeats values that have
    /// not changed.
    #[test]
    fn changes_are_kept_if_asked_for_and_once_at_the_beginning_of_a_round() {
        let at = SimTime::from_nanos;
        let line = |line| Gauges {
            line,
            ..Gauges::default()
        };
        let mut watch = Watch::default();
        watch.pass(at(5), line(1));
        assert_eq!(watch.take_changes(), []);
        watch.keep_changes();
        for (now, value) in [(7, 1), (9, 1), (12, 4)] {
            watch.pass(at(now), line(value));
        }
        assert_eq!(
            watch.end_round().0.line,
            Level {
                integral: 9 + 12,
                max: 4
            }
        );
        watch.pass(at(20), line(4));
        let since = |nanoseconds, value| GaugesSince {
            at: at(nanoseconds),
            gauges: line(value),
        };
        assert_eq!(
            watch.take_changes(),
            [since(5, 1), since(9, 4), since(12, 4)]
        );
    }
}
