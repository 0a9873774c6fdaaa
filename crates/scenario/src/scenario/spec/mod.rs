//! The checked form of a scenario: the types that every other layer reads.
//!
//! Types that are the same as written and as checked (training, evaluation, codecs, the generator)
//! carry their ranges as schema attributes and serve both stages; the others have a raw mirror in
//! `raw`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod audit;
mod codec;
mod environment;
mod evaluation;
mod overheads;
mod privacy;
mod report;
mod training;

pub use audit::AuditSpec;
pub use codec::{
    BlockCodecSpec, CodecChoice, CodecName, CodecSpec, CompositionSpec, DeadZoneSpec, EntropySpec,
    FirstDownload, PositionsSpec, RoundingSpec, ScaleSpec, SelectSpec, ValuesSpec,
};
pub use environment::{
    AvailabilityPattern, AvailabilitySpec, AvailabilityTraceSpec, DailySpec, DeviceClassSpec,
    DevicesSpec, FaultEffect, FaultSpec, FaultUsers, LinkTraceSpec, MemorySpec, NetworkSpec,
    OnOffSpec, RecurringOutageSpec, ServerLinkSpec, ServerSpec, Sharing, SpeedSpec,
};
pub use evaluation::{EvaluationSpec, ItemTable, Ranking, Selection};
pub use overheads::{OverheadsSpec, PaillierSpec, SecureAggregationSpec, TransportSpec};
pub use privacy::{
    Adjacency, GaussianSpec, LaplaceSpec, PrivacySpec, Trust, VirtualItemsSpec, usual_delta,
};
pub use report::ReportSpec;
pub use training::{Participation, TrainingSpec};

/// A checked scenario: complete, within its ranges, and consistent as far as the file alone can
/// tell. What depends on the data (a cohort larger than the population that was read) is checked
/// later.
///
/// It serialises in the layout of its file, without the name (see [`Scenario::to_toml`]).
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Name of the report folder; the file's stem.
    pub name: String,
    /// Seed of every stream of randomness.
    pub seed: u64,
    /// The ratings and how they are split.
    pub dataset: DatasetSpec,
    /// The method, by its registered name, and its parameters with defaults filled in.
    pub method: MethodSpec,
    /// Rounds and participation.
    pub training: TrainingSpec,
    /// How accuracy is measured.
    pub evaluation: EvaluationSpec,
    /// How tables become bytes.
    pub codec: CodecSpec,
    /// Links.
    pub network: NetworkSpec,
    /// Computing devices.
    pub devices: DevicesSpec,
    /// The server as a computer.
    pub server: ServerSpec,
    /// When users can take part.
    pub availability: AvailabilitySpec,
    /// What goes wrong with transfers; the first rule that hits counts.
    pub faults: Vec<FaultSpec>,
    /// What is asked of uploads, if anything is.
    pub audit: Option<AuditSpec>,
    /// Bytes that travel with the frames and are not made.
    pub overheads: OverheadsSpec,
    /// What is done to uploads to protect their senders.
    pub privacy: PrivacySpec,
    /// What the report holds.
    pub report: ReportSpec,
}

/// Where ratings come from and what is done to them before training.
#[derive(Clone, Debug, PartialEq)]
pub struct DatasetSpec {
    /// The source.
    pub source: SourceSpec,
    /// The ratings file as the scenario names it; `None` means the source's usual place in a data
    /// folder.
    pub path: Option<PathBuf>,
    /// Users with fewer ratings are left out (before renumbering).
    pub minimum_interactions: u32,
    /// The part of the users and items that is left, before users with few ratings are left out;
    /// `None` leaves all.
    pub subset: Option<SubsetSpec>,
    /// What accuracy is measured on.
    pub split: SplitSpec,
    /// Training negatives.
    pub negatives: NegativesSpec,
}

/// A part of the users and items of a file. Items are chosen first, and users by the ratings that
/// are then left to them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Subset")]
pub struct SubsetSpec {
    /// The number of users to keep; all if it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub users: Option<u32>,
    /// The number of items to keep; all if it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub items: Option<u32>,
    /// Which of them are kept.
    #[serde(default)]
    pub keep: Kept,
}

/// The users or items of a file that a part of it keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kept {
    /// Those with the most ratings.
    #[default]
    MostRated,
    /// Those with the fewest ratings.
    LeastRated,
    /// Some that are drawn at random, by the seed.
    Random,
}

impl DatasetSpec {
    /// Returns the number of users of a generated population. Those of a file are counted when it
    /// is read.
    pub(crate) fn generated_users(&self) -> Option<u32> {
        match &self.source {
            SourceSpec::Generated(generator) => Some(generator.users),
            _ => None,
        }
    }
}

/// How ratings are divided into a part to train on and a part to measure accuracy on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitSpec {
    /// The latest rating of every user is held out, to be ranked.
    LeaveOneOut {
        /// Whether the last but one rating is held out for validation too.
        validation_item: bool,
    },
    /// One of several random equal parts of all ratings is held out, to be predicted.
    KFold {
        /// Number of parts.
        folds: u32,
        /// The part that is held out, from 0, or what is added to the seed to find it if there is a
        /// division.
        fold: u32,
        /// The number of a division that does not depend on the seed.
        division: Option<u32>,
    },
}

impl SplitSpec {
    /// Returns the part that a run with this seed holds out, from 0; `None` if it holds single
    /// items out.
    pub fn part(&self, seed: u64) -> Option<u32> {
        match *self {
            Self::LeaveOneOut { .. } => None,
            Self::KFold {
                fold,
                division: None,
                ..
            } => Some(fold),
            Self::KFold { folds, fold, .. } => {
                let folds = u64::from(folds.max(1));
                Some(((u64::from(fold) + seed % folds) % folds) as u32)
            }
        }
    }

    /// Returns whether an item is held out for validation besides the test part.
    pub fn has_validation_item(&self) -> bool {
        matches!(
            self,
            Self::LeaveOneOut {
                validation_item: true
            }
        )
    }
}

/// The known sources of ratings.
#[derive(Clone, Debug, PartialEq)]
pub enum SourceSpec {
    /// Made by the generator; no file.
    Generated(GeneratorSpec),
    /// A public data set, whose files `dataset::public` knows.
    Public(PublicDataset),
    /// Any delimited text file.
    Delimited(DelimitedSpec),
}

/// The public data sets that a scenario can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublicDataset {
    /// MovieLens 100K.
    Ml100k,
    /// MovieLens 1M.
    Ml1m,
    /// MovieLens 20M.
    Ml20m,
    /// MovieLens 25M.
    Ml25m,
    /// MovieLens 32M.
    Ml32m,
    /// LastFM 2K (HetRec 2011).
    LastFm2k,
    /// LastFM 2K (HetRec 2011), which user has given which artist a tag.
    LastFm2kTags,
    /// Amazon Instant Video (2014), all ratings.
    AmazonInstantVideo,
    /// Amazon Instant Video (2014), users and items with at least five reviews.
    AmazonInstantVideo5Core,
}

impl PublicDataset {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Ml100k,
        Self::Ml1m,
        Self::Ml20m,
        Self::Ml25m,
        Self::Ml32m,
        Self::LastFm2k,
        Self::LastFm2kTags,
        Self::AmazonInstantVideo,
        Self::AmazonInstantVideo5Core,
    ];

    /// Returns the number of ratings below which users are left out if a scenario does not say
    /// otherwise.
    pub(crate) fn default_minimum_interactions(self) -> u32 {
        match self {
            // The filter of the FedRAP paper.
            Self::LastFm2k => 10,
            // The filter of the PFedRec paper. Most users of Amazon have a single rating, of which
            // nothing can be held out.
            Self::LastFm2kTags | Self::AmazonInstantVideo => 5,
            _ => 0,
        }
    }
}

/// Parameters of the generated population.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GeneratorSpec {
    /// Number of users.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub users: u32,
    /// Number of items.
    #[schemars(range(min = 4, max = 100_000_000))]
    pub items: u32,
    /// Mean number of ratings of a user; the counts are lognormal.
    #[schemars(range(min = 3))]
    pub ratings_per_user: f64,
    /// Standard deviation of the logarithm of that count; 0 gives every user the same count.
    #[schemars(range(min = 0, max = 3))]
    pub ratings_log_sigma: f64,
    /// Exponent of the Zipf law of item popularity; 0 makes all items equally popular.
    #[schemars(range(min = 0, max = 3))]
    pub popularity_exponent: f64,
    /// Dimension of the latent tastes.
    #[schemars(range(min = 1, max = 64))]
    pub taste_dimension: u32,
    /// How much tastes, rather than popularity, decide what a user rates; 0 means not at all.
    #[schemars(range(min = 0, max = 20))]
    pub taste_strength: f64,
}

impl Default for GeneratorSpec {
    fn default() -> Self {
        Self {
            users: 500,
            items: 1000,
            ratings_per_user: 40.0,
            ratings_log_sigma: 0.6,
            popularity_exponent: 0.8,
            taste_dimension: 4,
            taste_strength: 5.0,
        }
    }
}

/// Layout of a delimited text file, which may be compressed with gzip or zstd. A pair of user and
/// item may stand several times, as in a listening history: each row is a rating of its own, except
/// that further rows of a held-out item are left out of training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DelimitedSpec {
    /// What separates columns: `","`, `"\t"`, `"::"`, ...
    #[schemars(length(min = 1, max = 16))]
    pub separator: String,
    /// Whether the first line names the columns. A file in which this seems to be forgotten, or
    /// said of a line of numbers, is refused.
    #[serde(default)]
    pub header: bool,
    /// Column of the user, by name or by position from 1.
    pub user: ColumnRef,
    /// Column of the item.
    pub item: ColumnRef,
    /// Column of the rating; without it every row counts as 1. Only methods that predict ratings,
    /// and `k-fold`, use it: for all others every row is a positive, however low its rating is;
    /// `label` tells positives apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rating: Option<ColumnRef>,
    /// The lowest and the highest rating. A rating outside is refused with its line; without the
    /// key none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rating_range: Option<[f64; 2]>,
    /// Column that says whether the user liked the item (1) or was shown it and did not want it
    /// (0); without it every row is a positive. Only positives are trained on as such, counted as
    /// popular and held out; what is labelled 0 is neither a negative to be drawn nor a candidate,
    /// and methods that read labels are given it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<ColumnRef>,
    /// Column of a weight of at least 0, for methods that weigh ratings; without it every row
    /// weighs 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<ColumnRef>,
    /// Column that orders a user's rows in time (a number). Among equal times the row that stands
    /// first in the file counts as the latest, as in the papers' code. Without the column the order
    /// of the file is the order in time, so that the last row is the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<ColumnRef>,
}

/// A column, by position or by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ColumnRef {
    /// Position, counted from 1.
    Position(#[schemars(range(min = 1, max = 10_000))] u32),
    /// Name in the header line.
    Name(#[schemars(length(min = 1))] String),
}

/// Which items may serve as training negatives, and how many.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NegativesSpec {
    /// The pool that negatives are drawn from.
    pub pool: NegativePool,
    /// Negatives per positive, without replacement within one positive, redrawn every round.
    #[schemars(range(min = 1, max = 1000))]
    pub per_positive: u32,
}

impl Default for NegativesSpec {
    fn default() -> Self {
        Self {
            pool: NegativePool::NotInTrain,
            per_positive: 4,
        }
    }
}

/// The pool of training negatives: the switch that decides every accuracy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NegativePool {
    /// Items that the user never touched, the held-out ones excluded too: what the papers' code
    /// does. A client that remembers its negatives can find the held-out item by elimination.
    Unrated,
    /// Everything but the training positives: what a device can really know.
    NotInTrain,
}

/// A method and its parameters. What they may be is the method registry's business.
#[derive(Clone, Debug, PartialEq)]
pub struct MethodSpec {
    /// Registered name.
    pub name: String,
    /// The parameters, an object: as written, and filled up with the defaults that the method's
    /// schema states.
    pub parameters: serde_json::Value,
}
