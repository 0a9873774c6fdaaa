//! The outcome of a run: accuracy, bytes and durations, for each round and in total.
//!
//! These types are plain data, and all that a report knows of the simulated world. Their field
//! names are those of `run.json`. The module [`metrics`](super::metrics) measures what is stored
//! here.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use fedrecsim_core::{Error, Timestamp};
use fedrecsim_data::dataset::SplitFacts;
use fedrecsim_model::Model;
use fedrecsim_scenario::Policy;

mod audit;
mod beyond_accuracy;
mod energy;
mod events;
mod flow;
mod losses;
mod model;
mod network;
mod newcomers;
mod users;

pub use self::{
    audit::{AuditFigures, AuditRecord},
    beyond_accuracy::BeyondAccuracy,
    energy::{Energy, Metered},
    events::{Booking, Ending, LinkEvent, RoundSpan},
    flow::{ByDirection, Flow},
    losses::Losses,
    model::{Sparsity, VersionsCost},
    network::{Gauges, GaugesSince, Level, NetworkRecord, Waits},
    newcomers::{AfterRatings, BeforeJoin, Joined, Newcomers, NewcomersRecord, Warm},
    users::{DeviceBytes, ItemRecord, UserAccount, UserRecord, UserTest, handled_bytes},
};
pub(crate) use energy::{Prices, nanograms};
pub(crate) use losses::LossCause;
pub use {
    crate::privacy::{NoEpsilon, PrivacyRecord, Sampling},
    fedrecsim_model::magnitude::MAGNITUDE_THRESHOLDS as SPARSITY_THRESHOLDS,
};

/// The outcome of a run.
#[derive(Debug)]
pub struct Outcome {
    /// How the server ran its steps.
    pub policy: Policy,
    /// Every finished round.
    pub rounds: Vec<RoundRecord>,
    /// The position in `rounds` of the selected round; `None` if none was evaluated.
    pub selected: Option<usize>,
    /// Whether the method drew negatives as the scenario says. If not, the pool of negatives says
    /// nothing about accuracy.
    pub draws_negatives: bool,
    /// The trivial baselines on the same split and candidates.
    pub baselines: BTreeMap<String, SplitAccuracy>,
    /// What the lists of items are like that users would be shown after the last round; `None` where no
    /// item is held out, and if the run was stopped before that.
    pub beyond_accuracy: Option<BeyondAccuracy>,
    /// What was found for the users who come in the course of the run, if any do.
    pub newcomers: Option<Newcomers>,
    /// The counts of participations of the round that was under way at the end, and nothing else of it.
    pub unfinished: RoundRecord,
    /// The bytes of the whole run, an unfinished round included.
    pub bytes: ByDirection<Flow>,
    /// Those of these bytes that were exchanged with the third party, if the method has one.
    pub third_party_bytes: Option<ByDirection<Flow>>,
    /// The training work of the whole run, an unfinished round included.
    pub work: WorkTotals,
    /// The time that devices took in the whole run, and what their electricity emits.
    pub metered: Metered,
    /// The durations by kind: of transfers, of computing and of rounds.
    pub durations: BTreeMap<String, Distribution>,
    /// The server's link, the line for connections and the users who were waited for, over the
    /// finished rounds.
    pub network: NetworkRecord,
    /// The bytes of single devices.
    pub device_bytes: DeviceBytes,
    /// The totals of every user, in the order of users, if the scenario has them kept for this many
    /// users.
    pub users: Option<Vec<UserRecord>>,
    /// Every item, in the order of items.
    pub items: Vec<ItemRecord>,
    /// The size of the problem.
    pub size: ProblemSize,
    /// The server's model after the last finished round, or the initial one if there is none.
    pub model: Model,
    /// The digest of the result, hexadecimal.
    pub digest: String,
    /// The digest of the state that the run has led to: the model, and what every device keeps,
    /// hexadecimal. Time is not part of it, so that a run in real time comes to the same. `None` if
    /// the run was stopped before its last round.
    pub state_digest: Option<String>,
    /// The reason why the run stopped before its last round, if it did.
    pub stopped_by: Option<Error>,
    /// Whether the run came to its end without one update that was used, or without one that
    /// carried a value, although its method learns from updates. A method without training, or one
    /// that trains at the server, never has this.
    pub learned_nothing: bool,
    /// Whether updates were used, and none of them carried a value.
    pub uploads_were_empty: bool,
}

/// The values of metrics by name: `hr@10`, `ndcg@10`, `mrr`, ...
pub type Accuracy = BTreeMap<String, f64>;

/// The accuracy on the two held-out items.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SplitAccuracy {
    /// The accuracy on the validation item; absent where none is held out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<Accuracy>,
    /// The accuracy on the test item.
    pub test: Accuracy,
}

/// A distribution of durations in seconds. The mean and the ends are exact to the nanosecond; the
/// quantiles have three significant digits, unless they are one of the ends.
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
    /// The number of training interactions of the users who are there from the start.
    pub training_ratings: u64,
    /// The number of users in the average of the accuracy.
    pub evaluated_users: u64,
    /// The number of users who take no part because their device has no room for the table.
    #[serde(default)]
    pub excluded_users: u64,
    /// What the split did.
    #[serde(default)]
    pub split: SplitFacts,
    /// The instant at which training ends for everybody, if the split goes by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub training_ends: Option<Timestamp>,
}

/// The training work in row visits (one item row in one local epoch), and what was spent on updates
/// that were not used because they were late, stale, lost, cancelled or not there when the run
/// ended. The latter is booked when it becomes known, which may be rounds after the download and
/// the training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkTotals {
    /// Row visits of trainings that were finished.
    pub finished: u64,
    /// Row visits of trainings that were lost, cancelled or still under way when the run ended.
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
    /// Multiplications with an addition outside row visits, of finished trainings whose update was
    /// not used.
    #[serde(default)]
    pub unused_multiply_adds: u64,
}

impl WorkTotals {
    /// Returns every count, for the digest of a run.
    pub(crate) fn counts(&self) -> [u64; 7] {
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

impl AddAssign for WorkTotals {
    fn add_assign(&mut self, other: Self) {
        self.counts_mut()
            .into_iter()
            .zip(other.counts())
            .for_each(|(count, more)| *count += more);
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
    /// The number of participations that were lost to a dropout, a departure or a fault.
    pub lost: u32,
    /// The number of participations that the server cancelled.
    pub cancelled: u32,
    /// The number of updates that came after their step was over, or from a model too old to be
    /// used.
    pub late: u32,
    /// Those of the late ones that came from a model too old to be used.
    #[serde(default)]
    pub stale: u32,
    /// The participations that were lost, by cause; their sum is `lost`.
    #[serde(default)]
    pub losses: Losses,
    /// The mean local loss over the averaged updates; absent where nothing was averaged.
    pub loss: Option<f64>,
    /// The accuracy after the round, where it was evaluated, of the users who are there from the start.
    pub accuracy: Option<SplitAccuracy>,
    /// What was found for the users who come in the course of the run, where the round was evaluated
    /// and any do.
    #[serde(default)]
    pub newcomers: Option<NewcomersRecord>,
    /// The bytes of this round.
    pub bytes: ByDirection<Flow>,
    /// Those of these bytes that were exchanged with the third party, if the method has one.
    #[serde(default)]
    pub third_party_bytes: Option<ByDirection<Flow>>,
    /// The bytes that the evaluated users would download in order to score after this round, where
    /// it was evaluated. They are not part of `bytes`, since evaluation is not part of the
    /// simulated world.
    #[serde(default)]
    pub inference_bytes: Option<u64>,
    /// The training work that ended in this round.
    #[serde(default)]
    pub work: WorkTotals,
    /// The time that devices took, and what their electricity emits, as far as it ended in this round.
    #[serde(default)]
    pub metered: Metered,
    /// The carbon dioxide of the server's electricity, in nanograms; 0 unless the scenario states its
    /// power and what electricity emits.
    #[serde(default)]
    pub server_co2_ng: u128,
    /// The server's link, the line for connections and the users who were waited for.
    #[serde(default)]
    pub network: NetworkRecord,
    /// The shares of values above thresholds; absent where the model has no values.
    pub sparsity: Option<Sparsity>,
    /// The server's cost of keeping versions of the model up to the end of the round; absent unless
    /// downloads are differences from versions.
    #[serde(default)]
    pub versions: Option<VersionsCost>,
    /// The findings of the audit on the uploads, where there is one.
    #[serde(default)]
    pub audit: Option<AuditRecord>,
    /// The privacy claim up to the end of the round; absent without a protection.
    #[serde(default)]
    pub privacy: Option<PrivacyRecord>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// If this fails, two runs that differ in one of these counts have one digest.
    #[test]
    fn the_digest_has_every_count() {
        let sum = |json: serde_json::Value| -> u64 {
            json.as_object()
                .unwrap()
                .values()
                .map(|count| count.as_u64().unwrap())
                .sum()
        };
        let work = WorkTotals {
            finished: 1,
            lost: 2,
            unused: 4,
            unused_download_bytes: 8,
            finished_multiply_adds: 16,
            lost_multiply_adds: 32,
            unused_multiply_adds: 64,
        };
        assert_eq!(
            work.counts().iter().sum::<u64>(),
            sum(serde_json::to_value(work).unwrap())
        );
    }
}
