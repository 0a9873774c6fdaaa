//! The bytes of a direction, by what became of them and by purpose.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use fedrecsim_core::Direction;

/// A value for each direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByDirection<T> {
    /// The value for the direction from the users.
    pub up: T,
    /// The value for the direction to the users.
    pub down: T,
}

impl<T> ByDirection<T> {
    /// Returns the value for a direction, to be changed.
    pub(crate) fn of_mut(&mut self, direction: Direction) -> &mut T {
        match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }
}

impl<T: AddAssign> AddAssign for ByDirection<T> {
    fn add_assign(&mut self, other: Self) {
        self.up += other.up;
        self.down += other.down;
    }
}

/// The bytes of one direction by what became of them and by purpose.
/// `sent = delivered + lost + cancelled + in_flight`, `delivered = useful + late + stale`, and
/// `sent = header + index + values + modelled`. Of a frame that was lost on its way, all of these count
/// only the bytes that were carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// Bytes that left the sender.
    pub sent: u64,
    /// Bytes of frames that arrived whole.
    pub delivered: u64,
    /// Bytes that were carried for frames that were lost to a dropout, a departure or a fault.
    pub lost: u64,
    /// Bytes that were carried for frames that the server cancelled.
    pub cancelled: u64,
    /// Bytes of transfers in progress when the run ended.
    pub in_flight: u64,
    /// Those of the last three kinds that nobody received, since a fault swallowed the frames.
    pub unreceived: u64,
    /// Delivered bytes that were used.
    pub useful: u64,
    /// Delivered bytes of updates that arrived after their step was over.
    pub late: u64,
    /// Delivered bytes of updates that were computed from a model too old to be used.
    pub stale: u64,
    /// Sent bytes that were frame headers.
    pub header: u64,
    /// Sent bytes that said which rows or values follow.
    pub index: u64,
    /// Sent bytes that were values.
    pub values: u64,
    /// Sent bytes that were in no frame, but travel with frames by the scenario's `[overheads]`.
    #[serde(default)]
    pub modelled: u64,
    /// The number of frames sent.
    pub frames: u64,
}

impl Flow {
    /// Returns every count. Modelled bytes come last.
    pub(crate) fn counts(&self) -> [u64; 14] {
        let mut copy = *self;
        copy.counts_mut().map(|count| *count)
    }

    /// Returns the counts for the digest of a run, which are all but what is modelled where nothing
    /// is.
    pub(crate) fn counts_for_digest(&self) -> impl Iterator<Item = u64> {
        let count = if self.modelled == 0 { 13 } else { 14 };
        self.counts().into_iter().take(count)
    }

    /// Returns the bytes that left the sender in frames.
    pub fn measured(&self) -> u64 {
        self.sent - self.modelled
    }

    /// Returns the bytes that were sent and were of no use. Transfers that were in progress when
    /// the run ended are among them.
    pub fn unused(&self) -> u64 {
        self.lost + self.cancelled + self.in_flight + self.late + self.stale
    }

    /// Returns every count, to be changed. This is the only list of the counts.
    fn counts_mut(&mut self) -> [&mut u64; 14] {
        // The value is destructured, so that a field added later cannot be forgotten here.
        let Self {
            sent,
            delivered,
            lost,
            cancelled,
            in_flight,
            unreceived,
            useful,
            late,
            stale,
            header,
            index,
            values,
            modelled,
            frames,
        } = self;
        [
            sent, delivered, lost, cancelled, in_flight, unreceived, useful, late, stale, header,
            index, values, frames, modelled,
        ]
    }

    /// Returns whether the three equations above hold (contract 3): every byte that was sent went
    /// somewhere, every delivered byte was judged, and every byte had a purpose. Bytes that nobody
    /// received must not be delivered. Sums beyond 2^64 do not balance.
    pub fn is_balanced(&self) -> bool {
        let sum = |parts: &[u64]| {
            parts
                .iter()
                .try_fold(0u64, |total, &part| total.checked_add(part))
        };
        sum(&[self.delivered, self.lost, self.cancelled, self.in_flight]) == Some(self.sent)
            && sum(&[self.useful, self.late, self.stale]) == Some(self.delivered)
            && sum(&[self.header, self.index, self.values, self.modelled]) == Some(self.sent)
            && self.unreceived <= self.sent - self.delivered
    }
}

impl AddAssign for Flow {
    fn add_assign(&mut self, other: Self) {
        self.counts_mut()
            .into_iter()
            .zip(other.counts())
            .for_each(|(count, more)| *count += more);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const FLOW: Flow = Flow {
        sent: 100,
        delivered: 70,
        lost: 20,
        cancelled: 7,
        in_flight: 3,
        unreceived: 30,
        useful: 60,
        late: 9,
        stale: 1,
        header: 5,
        index: 15,
        values: 73,
        modelled: 7,
        frames: 4,
    };

    #[test]
    fn a_flow_with_one_byte_unaccounted_for_is_not_balanced() {
        assert!(FLOW.is_balanced());
        assert!(Flow::default().is_balanced());
        for unbalanced in [
            Flow { lost: 19, ..FLOW },
            Flow { sent: 101, ..FLOW },
            Flow { late: 10, ..FLOW },
            Flow { index: 14, ..FLOW },
            Flow {
                unreceived: 31,
                ..FLOW
            },
            // With wrapping addition this one would balance.
            Flow {
                lost: u64::MAX,
                cancelled: 28,
                ..FLOW
            },
        ] {
            assert!(!unbalanced.is_balanced(), "{unbalanced:?}");
        }
    }

    /// If this fails, two runs that differ in one of these counts have one digest, or one without
    /// overheads has another digest than before there were any.
    #[test]
    fn the_digest_has_every_count_but_overheads_that_there_are_not() {
        let fields = serde_json::to_value(FLOW).unwrap();
        let sum: u64 = fields
            .as_object()
            .unwrap()
            .values()
            .map(|count| count.as_u64().unwrap())
            .sum();
        assert_eq!(
            (
                FLOW.counts_for_digest().sum::<u64>(),
                FLOW.counts_for_digest().count()
            ),
            (sum, 14)
        );
        assert_eq!(
            Flow {
                modelled: 0,
                ..FLOW
            }
            .counts_for_digest()
            .count(),
            13
        );
    }

    #[test]
    fn adding_flows_adds_every_field() {
        // The flows are serialised, so that a field which the addition leaves out is noticed
        // without being named here.
        let fields = |flow: Flow| {
            serde_json::to_value(flow)
                .unwrap()
                .as_object()
                .unwrap()
                .clone()
        };
        let mut twice = ByDirection {
            up: FLOW,
            down: Flow::default(),
        };
        twice += ByDirection {
            up: FLOW,
            down: FLOW,
        };
        for (name, once) in fields(FLOW) {
            assert_eq!(
                fields(twice.up)[&name].as_u64(),
                once.as_u64().map(|v| 2 * v),
                "{name}"
            );
        }
        assert_eq!(twice.down, FLOW);
    }
}
