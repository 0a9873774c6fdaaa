//! The raw mirror of a scenario file: what may be written, with its ranges, before presets and
//! defaults.
//!
//! The schema of these types holds the rules of the file. A checked scenario is printed through
//! them too, so that what is printed can be read again.

use std::borrow::Cow;
use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::spec::{
    AuditSpec, CodecSpec, DatasetSpec, DelimitedSpec, EvaluationSpec, GeneratorSpec, MethodSpec,
    NegativesSpec, OverheadsSpec, PrivacySpec, PublicDataset, ReportSpec, Scenario, ServerSpec,
    SourceSpec, SplitSpec, SubsetSpec, TrainingSpec,
};

mod environment;
mod fault;

pub(super) use environment::{
    RawAvailability, RawDaily, RawDevices, RawNetwork, RawOnOff, RawServerLink,
};
pub(super) use fault::RawFault;

/// A simulation: the data, the method, how it is trained, and the simulated world around it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawScenario {
    /// Seed of every stream of randomness.
    #[serde(default = "default_seed")]
    pub seed: u64,
    pub method: RawMethod,
    /// The ratings and how they are split.
    pub dataset: RawDataset,
    /// Rounds and participation.
    pub training: TrainingSpec,
    /// How accuracy is measured.
    #[serde(default)]
    pub evaluation: EvaluationSpec,
    /// How tables become bytes, per direction.
    #[serde(default)]
    pub codec: CodecSpec,
    /// Links between the server and the users' devices. Without a preset, keys that are not given
    /// are those of the preset `lan`.
    #[serde(default)]
    pub network: RawNetwork,
    /// The users' devices. Without a preset, keys that are not given are those of the preset
    /// `uniform`.
    #[serde(default)]
    pub devices: RawDevices,
    /// The server as a computer, for methods that run there.
    #[serde(default, skip_serializing_if = "is_default")]
    pub server: ServerSpec,
    /// When users can take part; at any time if absent.
    #[serde(default, skip_serializing_if = "RawAvailability::is_default")]
    pub availability: RawAvailability,
    /// What goes wrong with transfers: rules, of which the first one that hits a transfer counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub faults: Vec<RawFault>,
    /// Has a probe guess, from decoded uploads alone, which items their senders have rated; left
    /// out if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<AuditSpec>,
    /// Bytes that a deployment would send beside the frames; none if absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub overheads: OverheadsSpec,
    /// What is done to uploads to protect the users who send them; nothing if absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub privacy: PrivacySpec,
    /// What the report holds. Nothing here changes a result.
    #[serde(default, skip_serializing_if = "is_default")]
    pub report: ReportSpec,
}

fn is_default<T: Default + PartialEq>(table: &T) -> bool {
    *table == T::default()
}

fn default_seed() -> u64 {
    1
}

/// `method = "popularity"` or `[method.fedrap]`. Its schema is composed from the methods' own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum RawMethod {
    Name(String),
    Table(Map<String, Json>),
}

impl JsonSchema for RawMethod {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Method".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "$ref": "#/$defs/Method" })
    }
}

/// The ratings and how they are split.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Dataset")]
pub(super) struct RawDataset {
    /// Where the ratings come from.
    pub name: SourceName,
    /// The ratings file, which may be compressed with gzip or zstd (`ratings.csv.gz`,
    /// `ratings.csv.zst`). Required for `delimited`; a generated population has none; for the
    /// others the default is their usual place in a data folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub path: Option<PathBuf>,
    /// Users with fewer ratings are left out. The default is 10 for `lastfm-2k` (the filter of the
    /// FedRAP paper), 5 for `amazon-instant-video` (that of the PFedRec paper), else 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum_interactions: Option<u32>,
    /// A part of the users and items, to study other sizes and densities; not with
    /// `name = "generated"`. It is taken before users with few ratings are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subset: Option<SubsetSpec>,
    /// How the ratings are divided into a part to train on and a part to measure accuracy on.
    #[serde(default)]
    pub split: RawSplit,
    /// Whether the last but one rating is held out for validation too. The default is true with
    /// `leave-one-out`; with `k-fold` the key has no meaning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation_item: Option<bool>,
    /// Training negatives.
    #[serde(default)]
    pub negatives: NegativesSpec,
    /// The generated population; only with `name = "generated"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generator: Option<GeneratorSpec>,
    /// Layout of the file; only with `name = "delimited"`, and required there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub columns: Option<DelimitedSpec>,
}

/// The ways of splitting ratings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Split")]
pub(super) enum RawSplit {
    /// The latest rating of every user is held out, to be ranked against candidates.
    #[default]
    LeaveOneOut,
    /// One of several random equal parts of all ratings is held out, to be predicted: a run is one
    /// fold. The folds of one seed, or of one division, cover every rating once.
    KFold(RawKFold),
}

/// A k-fold split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "KFold")]
pub(super) struct RawKFold {
    /// Number of parts.
    #[schemars(range(min = 2, max = 1000))]
    pub folds: u32,
    /// The part that is held out, from 0.
    pub fold: u32,
    /// Number of a division that is the same with every seed. Runs whose seeds follow one another
    /// then hold out one part after the other: part `fold` plus seed, modulo `folds`. Left out: the
    /// seed draws the division.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub division: Option<u32>,
}

impl Default for RawKFold {
    fn default() -> Self {
        Self {
            folds: 5,
            fold: 0,
            division: None,
        }
    }
}

impl From<&SplitSpec> for RawSplit {
    fn from(split: &SplitSpec) -> Self {
        match *split {
            SplitSpec::LeaveOneOut { .. } => Self::LeaveOneOut,
            SplitSpec::KFold {
                folds,
                fold,
                division,
            } => Self::KFold(RawKFold {
                folds,
                fold,
                division,
            }),
        }
    }
}

/// The known sources of ratings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(super) enum SourceName {
    /// Made by the generator; no file.
    #[serde(rename = "generated")]
    Generated,
    /// MovieLens 100K, `u.data`.
    #[serde(rename = "ml-100k")]
    Ml100k,
    /// MovieLens 1M, `ratings.dat` or a `ratings.csv` with an `order` column.
    #[serde(rename = "ml-1m")]
    Ml1m,
    /// MovieLens 20M, `ratings.csv`.
    #[serde(rename = "ml-20m")]
    Ml20m,
    /// MovieLens 25M, `ratings.csv`.
    #[serde(rename = "ml-25m")]
    Ml25m,
    /// MovieLens 32M, `ratings.csv`.
    #[serde(rename = "ml-32m")]
    Ml32m,
    /// LastFM 2K (HetRec 2011), `user_artists.dat`.
    #[serde(rename = "lastfm-2k")]
    LastFm2k,
    /// LastFM 2K (HetRec 2011), who has given which artist a tag,
    /// `user_taggedartists-timestamps.dat`.
    #[serde(rename = "lastfm-2k-tags")]
    LastFm2kTags,
    /// Amazon Instant Video (2014), all ratings, `ratings_Amazon_Instant_Video.csv`.
    #[serde(rename = "amazon-instant-video")]
    AmazonInstantVideo,
    /// Amazon Instant Video (2014), ratings of users and items with at least five reviews, as
    /// `fedrecsim data fetch` writes them.
    #[serde(rename = "amazon-instant-video-5core")]
    AmazonInstantVideo5Core,
    /// Any delimited text file, as `[dataset.columns]` describes it.
    #[serde(rename = "delimited")]
    Delimited,
}

impl SourceName {
    /// Returns the public data set that has this name.
    pub(crate) fn public(self) -> Option<PublicDataset> {
        match self {
            Self::Generated | Self::Delimited => None,
            Self::Ml100k => Some(PublicDataset::Ml100k),
            Self::Ml1m => Some(PublicDataset::Ml1m),
            Self::Ml20m => Some(PublicDataset::Ml20m),
            Self::Ml25m => Some(PublicDataset::Ml25m),
            Self::Ml32m => Some(PublicDataset::Ml32m),
            Self::LastFm2k => Some(PublicDataset::LastFm2k),
            Self::LastFm2kTags => Some(PublicDataset::LastFm2kTags),
            Self::AmazonInstantVideo => Some(PublicDataset::AmazonInstantVideo),
            Self::AmazonInstantVideo5Core => Some(PublicDataset::AmazonInstantVideo5Core),
        }
    }
}

impl From<PublicDataset> for SourceName {
    fn from(dataset: PublicDataset) -> Self {
        match dataset {
            PublicDataset::Ml100k => Self::Ml100k,
            PublicDataset::Ml1m => Self::Ml1m,
            PublicDataset::Ml20m => Self::Ml20m,
            PublicDataset::Ml25m => Self::Ml25m,
            PublicDataset::Ml32m => Self::Ml32m,
            PublicDataset::LastFm2k => Self::LastFm2k,
            PublicDataset::LastFm2kTags => Self::LastFm2kTags,
            PublicDataset::AmazonInstantVideo => Self::AmazonInstantVideo,
            PublicDataset::AmazonInstantVideo5Core => Self::AmazonInstantVideo5Core,
        }
    }
}

impl From<&Scenario> for RawScenario {
    fn from(scenario: &Scenario) -> Self {
        Self {
            seed: scenario.seed,
            method: RawMethod::from(&scenario.method),
            dataset: RawDataset::from(&scenario.dataset),
            training: scenario.training.clone(),
            evaluation: scenario.evaluation.clone(),
            codec: scenario.codec.clone(),
            network: RawNetwork::from(&scenario.network),
            devices: RawDevices::from(&scenario.devices),
            server: scenario.server,
            availability: RawAvailability::from(&scenario.availability),
            faults: scenario.faults.iter().map(RawFault::from).collect(),
            audit: scenario.audit,
            overheads: scenario.overheads,
            privacy: scenario.privacy,
            report: scenario.report,
        }
    }
}

impl From<&MethodSpec> for RawMethod {
    fn from(method: &MethodSpec) -> Self {
        match method.parameters.as_object() {
            Some(parameters) if !parameters.is_empty() => Self::Table(Map::from_iter([(
                method.name.clone(),
                method.parameters.clone(),
            )])),
            _ => Self::Name(method.name.clone()),
        }
    }
}

impl From<&DatasetSpec> for RawDataset {
    fn from(dataset: &DatasetSpec) -> Self {
        let (name, generator, columns) = match &dataset.source {
            SourceSpec::Generated(generator) => {
                (SourceName::Generated, Some(generator.clone()), None)
            }
            SourceSpec::Public(dataset) => (SourceName::from(*dataset), None, None),
            SourceSpec::Delimited(columns) => (SourceName::Delimited, None, Some(columns.clone())),
        };
        Self {
            name,
            path: dataset.path.clone(),
            minimum_interactions: Some(dataset.minimum_interactions),
            subset: dataset.subset.clone(),
            split: RawSplit::from(&dataset.split),
            validation_item: match dataset.split {
                SplitSpec::LeaveOneOut { validation_item } => Some(validation_item),
                SplitSpec::KFold { .. } => None,
            },
            negatives: dataset.negatives.clone(),
            generator,
            columns,
        }
    }
}
