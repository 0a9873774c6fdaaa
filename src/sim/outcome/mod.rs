//! The outcome of a run: accuracy, bytes and durations, for each round and in total.
//!
//! These types are plain data, and all that a report knows of the simulated world. Their field names are those of
//! `run.json`. The module [`metrics`](super::metrics) measures what is stored here.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::model::blocks::Model;
pub use crate::model::magnitude::MAGNITUDE_THRESHOLDS as SPARSITY_THRESHOLDS;
use crate::scenario::Policy;

mod audit;
pub mod events;
pub mod losses;
mod model;
pub mod network;
pub mod users;

pub use audit::{AuditFigures, AuditRecord};
use losses::Losses;
pub use model::{Sparsity, VersionsCost};
use network::NetworkRecord;
use users::{DeviceBytes, UserRecord};

/// The outcome of a run.
#[derive(Debug)]
pub struct Outcome {
    /// How the server ran its steps.
    pub policy: Policy,
    /// Every finished round.
    pub rounds: Vec<RoundRecord>,
    /// The position in `rounds` of the round by which the run is judged; `None` if none was evaluated.
    pub selected: Option<usize>,
    /// The trivial baselines on the same split and candidates.
    pub baselines: BTreeMap<String, SplitFigures>,
    /// The bytes of the whole run, an unfinished round included.
    pub bytes: ByDirection<Flow>,
    /// Those of these bytes that were exchanged with the third party, if the method has one.
    pub third_party_bytes: Option<ByDirection<Flow>>,
    /// The training work of the whole run, an unfinished round included.
    pub work: Work,
    /// The durations by kind: of transfers, of computing and of rounds.
    pub durations: BTreeMap<String, Distribution>,
    /// The server's link, the line for connections and the users who were waited for, over the finished rounds.
    pub network: NetworkRecord,
    /// The bytes of single devices.
    pub device_bytes: DeviceBytes,
    /// The totals of every user, in the order of users, if the scenario has them kept for so many users.
    pub users: Option<Vec<UserRecord>>,
    /// The size of the problem.
    pub size: ProblemSize,
    /// The server's model after the last finished round, or the initial one if there is none.
    pub model: Model,
    /// The digest of the result, hexadecimal.
    pub digest: String,
    /// The reason why the run stopped before its last round, if it did.
    pub stopped_by: Option<Error>,
    /// Whether the run came to its end without one update that was used, or without one that carried a value, although its
    /// method learns from updates. A method without training, or one that trains at the server, never has this.
    pub learned_nothing: bool,
    /// Whether updates were used, none of which carried a value.
    pub uploads_were_empty: bool,
}

/// Accuracy figures by name: `hr@10`, `ndcg@10`, `mrr`, ...
pub type Figures = BTreeMap<String, f64>;

/// The figures on the two held-out items.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SplitFigures {
    /// The figures on the validation item; absent where none is held out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<Figures>,
    /// The figures on the test item.
    pub test: Figures,
}

/// A value for each direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByDirection<T> {
    /// The value for the direction from the users.
    pub up: T,
    /// The value for the direction to the users.
    pub down: T,
}

impl<T: AddAssign> AddAssign for ByDirection<T> {
    fn add_assign(&mut self, other: Self) {
        self.up += other.up;
        self.down += other.down;
    }
}

/// The bytes of one direction by what became of them and by purpose. `sent = delivered + lost + cancelled + in_flight`,
/// `delivered = useful + late + stale`, and `sent = header + index + values`. Of a frame that was cut off, all of these
/// count only the bytes that were carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// Bytes that left the sender.
    pub sent: u64,
    /// Bytes of frames that arrived whole.
    pub delivered: u64,
    /// Bytes that were carried for frames that a dropout, a departure or a fault cut off.
    pub lost: u64,
    /// Bytes that were carried for frames that the server gave up.
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
    /// The number of frames sent.
    pub frames: u64,
}

impl Flow {
    /// Returns every count, for the digest of a run.
    pub fn counts(&self) -> [u64; 13] {
        let mut copy = *self;
        copy.counts_mut().map(|count| *count)
    }

    /// Returns every count, to be changed. This is the only list of the counts.
    fn counts_mut(&mut self) -> [&mut u64; 13] {
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
            frames,
        } = self;
        [sent, delivered, lost, cancelled, in_flight, unreceived, useful, late, stale, header, index, values, frames]
    }

    /// Returns whether the three equations above hold (contract 3): every byte that was sent went somewhere, every
    /// delivered byte was judged, and every byte had a purpose. Bytes that nobody received must not be delivered. Sums
    /// beyond 2^64 do not balance.
    pub fn is_balanced(&self) -> bool {
        let sum = |parts: &[u64]| parts.iter().try_fold(0u64, |total, &part| total.checked_add(part));
        sum(&[self.delivered, self.lost, self.cancelled, self.in_flight]) == Some(self.sent)
            && sum(&[self.useful, self.late, self.stale]) == Some(self.delivered)
            && sum(&[self.header, self.index, self.values]) == Some(self.sent)
            && self.unreceived <= self.sent - self.delivered
    }
}

impl AddAssign for Flow {
    fn add_assign(&mut self, other: Self) {
        self.counts_mut().into_iter().zip(other.counts()).for_each(|(count, more)| *count += more);
    }
}

/// A distribution of durations in seconds. The mean and the ends are exact to the nanosecond; the quantiles have three
/// significant digits, unless they are one of the ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// The number of values.
    pub count: u64,
    /// The arithmetic mean.
    pub mean_s: f64,
    /// The smallest value.
    pub min_s: f64,
    /// The median.
    pub p50_s: f64,
    /// The 90th percentile.
    pub p90_s: f64,
    /// The 99th percentile.
    pub p99_s: f64,
    /// The largest value.
    pub max_s: f64,
}

/// The size of the problem.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProblemSize {
    /// The number of users.
    pub users: u64,
    /// The number of items in the catalogue.
    pub items: u64,
    /// The number of training interactions.
    pub training_ratings: u64,
    /// The number of users over whom accuracy is averaged.
    pub evaluated_users: u64,
    /// The number of users who take no part because their device has no room for the table.
    #[serde(default)]
    pub excluded_users: u64,
}

/// The training work in row visits (one item row in one local epoch), and what was spent on updates that were not used
/// because they were late, stale, lost, cancelled or not there when the run ended. The latter is booked when it becomes
/// known, which may be rounds after the download and the training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// Row visits of trainings that were finished.
    pub finished: u64,
    /// Row visits of trainings that were cut off, given up, or still going on when the run ended.
    pub lost: u64,
    /// Row visits of finished trainings whose update was not used.
    #[serde(default)]
    pub unused: u64,
    /// Bytes of downloads that arrived and led to no update that was used.
    #[serde(default)]
    pub unused_download_bytes: u64,
    /// Multiplications with an addition outside row visits, of trainings that were finished.
    #[serde(default)]
    pub finished_multiply_adds: u64,
    /// Multiplications with an addition outside row visits, of trainings that were not finished.
    #[serde(default)]
    pub lost_multiply_adds: u64,
    /// Multiplications with an addition outside row visits, of finished trainings whose update was not used.
    #[serde(default)]
    pub unused_multiply_adds: u64,
}

impl Work {
    /// Returns every count, for the digest of a run.
    pub fn counts(&self) -> [u64; 7] {
        let mut copy = *self;
        copy.counts_mut().map(|count| *count)
    }

    /// Returns every count, to be changed. This is the only list of the counts.
    fn counts_mut(&mut self) -> [&mut u64; 7] {
        // The value is destructured, so that a field added later cannot be forgotten here.
        let Self {
            finished,
            lost,
            unused,
            unused_download_bytes,
            finished_multiply_adds,
            lost_multiply_adds,
            unused_multiply_adds,
        } = self;
        [
            finished,
            lost,
            unused,
            unused_download_bytes,
            finished_multiply_adds,
            lost_multiply_adds,
            unused_multiply_adds,
        ]
    }
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Self) {
        self.counts_mut().into_iter().zip(other.counts()).for_each(|(count, more)| *count += more);
    }
}

/// The record of a finished round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoundRecord {
    /// The number of the round, from 1.
    pub round: u32,
    /// The virtual time at its end.
    pub virtual_time_s: f64,
    /// The virtual time from its start to its end.
    pub duration_s: f64,
    /// The number of users invited.
    pub invited: u32,
    /// The number of updates that were averaged.
    pub aggregated: u32,
    /// The number of participations that a dropout, a departure or a fault cut off.
    pub dropped: u32,
    /// The number of participations that the server gave up.
    pub cancelled: u32,
    /// The number of updates that came after their step was over, or from a model too old to be used.
    pub late: u32,
    /// Those of the late ones that came from a model too old to be used.
    #[serde(default)]
    pub stale: u32,
    /// The participations that were cut off, by cause; their sum is `dropped`.
    #[serde(default)]
    pub losses: Losses,
    /// The mean local loss over the averaged updates; absent where nothing was averaged.
    pub loss: Option<f64>,
    /// The accuracy after the round, where it was evaluated.
    pub accuracy: Option<SplitFigures>,
    /// The bytes of this round.
    pub bytes: ByDirection<Flow>,
    /// Those of these bytes that were exchanged with the third party, if the method has one.
    #[serde(default)]
    pub third_party_bytes: Option<ByDirection<Flow>>,
    /// The bytes that the evaluated users would download in order to score after this round, where it was evaluated.
    /// They are not part of `bytes`, since evaluation is not part of the simulated world.
    #[serde(default)]
    pub inference_bytes: Option<u64>,
    /// The training work that ended in this round.
    #[serde(default)]
    pub work: Work,
    /// The server's link, the line for connections and the users who were waited for.
    #[serde(default)]
    pub network: NetworkRecord,
    /// The shares of values above thresholds; absent where the model has no values.
    pub sparsity: Option<Sparsity>,
    /// What it has cost the server up to the end of the round to keep versions of the model; absent unless downloads are
    /// differences from versions.
    #[serde(default)]
    pub versions: Option<VersionsCost>,
    /// What a server could have read out of the uploads, where that was asked.
    #[serde(default)]
    pub audit: Option<AuditRecord>,
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
        values: 80,
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
            Flow { unreceived: 31, ..FLOW },
            // With wrapping addition this one would balance.
            Flow { lost: u64::MAX, cancelled: 28, ..FLOW },
        ] {
            assert!(!unbalanced.is_balanced(), "{unbalanced:?}");
        }
    }

    /// If this fails, two runs that differ in one of these counts have one digest.
    #[test]
    fn the_digest_has_every_count() {
        let sum = |json: serde_json::Value| -> u64 {
            json.as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum()
        };
        assert_eq!(FLOW.counts().iter().sum::<u64>(), sum(serde_json::to_value(FLOW).unwrap()));
        let work = Work {
            finished: 1,
            lost: 2,
            unused: 4,
            unused_download_bytes: 8,
            finished_multiply_adds: 16,
            lost_multiply_adds: 32,
            unused_multiply_adds: 64,
        };
        assert_eq!(work.counts().iter().sum::<u64>(), sum(serde_json::to_value(work).unwrap()));
    }

    #[test]
    fn adding_flows_adds_every_field() {
        // The flows are serialised, so that a field which the addition leaves out is noticed without being named here.
        let fields = |flow: Flow| serde_json::to_value(flow).unwrap().as_object().unwrap().clone();
        let mut twice = ByDirection { up: FLOW, down: Flow::default() };
        twice += ByDirection { up: FLOW, down: FLOW };
        for (name, once) in fields(FLOW) {
            assert_eq!(fields(twice.up)[&name].as_u64(), once.as_u64().map(|v| 2 * v), "{name}");
        }
        assert_eq!(twice.down, FLOW);
    }
}
