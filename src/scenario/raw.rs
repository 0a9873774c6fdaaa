//! The raw mirror of a scenario file: what may be written, with its ranges, before presets and defaults.
//!
//! Its schema is the rule book of the file, and printing a checked scenario goes through it too, so what is
//! printed can be read again.

use std::borrow::Cow;
use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::presets;
use super::spec::{
    CodecSpec, DatasetSpec, DelimitedSpec, DevicesSpec, EvaluationSpec, GeneratorSpec, MethodSpec, NegativesSpec,
    NetworkSpec, Scenario, SourceSpec, TrainingSpec,
};

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
    /// Links between the server and the users' devices. Without a preset, keys that are not given are those
    /// of the preset `lan`.
    #[serde(default)]
    pub network: RawNetwork,
    /// The users' devices. Without a preset, keys that are not given are those of the preset `uniform`.
    #[serde(default)]
    pub devices: RawDevices,
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
    /// The ratings file. Required for `delimited`; a generated population has none; for the others the
    /// default is their usual place in a data folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub path: Option<PathBuf>,
    /// Users with fewer ratings are left out. The default is 10 for `lastfm-2k` (the filter of the FedRAP
    /// paper), else 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum_interactions: Option<u32>,
    /// Whether the last but one rating is held out for validation too.
    #[serde(default = "default_validation_item")]
    pub validation_item: bool,
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

fn default_validation_item() -> bool {
    true
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
    /// LastFM 2K (HetRec 2011), `user_artists.dat`.
    #[serde(rename = "lastfm-2k")]
    LastFm2k,
    /// Any delimited text file, as `[dataset.columns]` describes it.
    #[serde(rename = "delimited")]
    Delimited,
}

/// Links: a preset, and keys that replace its numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Network")]
pub(super) struct RawNetwork {
    /// The numbers to start from; `fedrecsim presets` lists them with their sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "network_preset_schema")]
    pub preset: Option<String>,
    /// Median downlink rate of a user.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1e9), extend("exclusiveMinimum" = 0))]
    pub downlink_median_mbit_per_s: Option<f64>,
    /// Standard deviation of the logarithm of a user's downlink rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 5))]
    pub downlink_log_sigma: Option<f64>,
    /// Median uplink rate of a user.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1e9), extend("exclusiveMinimum" = 0))]
    pub uplink_median_mbit_per_s: Option<f64>,
    /// Standard deviation of the logarithm of a user's uplink rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 5))]
    pub uplink_log_sigma: Option<f64>,
    /// Correlation of the logarithms of a user's two rates.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -1, max = 1))]
    pub correlation: Option<f64>,
    /// Standard deviation of the logarithm of a single transfer's rate around its user's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 5))]
    pub transfer_log_sigma: Option<f64>,
    /// Median round-trip time of a user.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1e9))]
    pub rtt_ms: Option<f64>,
    /// Standard deviation of the logarithm of a user's round-trip time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 5))]
    pub rtt_log_sigma: Option<f64>,
    /// Probability that a participation is cut off, at a uniformly random instant of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1))]
    pub dropout: Option<f64>,
}

/// Devices: a preset, and keys that replace its numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Devices")]
pub(super) struct RawDevices {
    /// The numbers to start from; `fedrecsim presets` lists them with their sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "devices_preset_schema")]
    pub preset: Option<String>,
    /// Median time that a device needs for one row visit (one item row in one local epoch).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1e12), extend("exclusiveMinimum" = 0))]
    pub median_ns_per_row_visit: Option<f64>,
    /// Standard deviation of the logarithm of that time over users.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 5))]
    pub log_sigma: Option<f64>,
}

fn network_preset_schema(_: &mut SchemaGenerator) -> Schema {
    preset_schema(presets::networks().iter().map(|preset| (preset.name, preset.source)))
}

fn devices_preset_schema(_: &mut SchemaGenerator) -> Schema {
    preset_schema(presets::devices().iter().map(|preset| (preset.name, preset.source)))
}

fn preset_schema(presets: impl Iterator<Item = (&'static str, &'static str)>) -> Schema {
    let choice = |(name, source)| json_schema!({ "type": "string", "const": name, "description": source });
    json_schema!({ "oneOf": presets.map(choice).collect::<Vec<_>>() })
}

impl From<&Scenario> for RawScenario {
    fn from(scenario: &Scenario) -> Self {
        Self {
            seed: scenario.seed,
            method: RawMethod::from(&scenario.method),
            dataset: RawDataset::from(&scenario.dataset),
            training: scenario.training.clone(),
            evaluation: scenario.evaluation.clone(),
            codec: scenario.codec,
            network: RawNetwork::from(&scenario.network),
            devices: RawDevices::from(&scenario.devices),
        }
    }
}

impl From<&MethodSpec> for RawMethod {
    fn from(method: &MethodSpec) -> Self {
        match method.parameters.as_object() {
            Some(parameters) if !parameters.is_empty() => {
                Self::Table(Map::from_iter([(method.name.clone(), method.parameters.clone())]))
            }
            _ => Self::Name(method.name.clone()),
        }
    }
}

impl From<&DatasetSpec> for RawDataset {
    fn from(dataset: &DatasetSpec) -> Self {
        let (name, generator, columns) = match &dataset.source {
            SourceSpec::Generated(generator) => (SourceName::Generated, Some(generator.clone()), None),
            SourceSpec::Ml100k => (SourceName::Ml100k, None, None),
            SourceSpec::Ml1m => (SourceName::Ml1m, None, None),
            SourceSpec::LastFm2k => (SourceName::LastFm2k, None, None),
            SourceSpec::Delimited(columns) => (SourceName::Delimited, None, Some(columns.clone())),
        };
        Self {
            name,
            path: dataset.path.clone(),
            minimum_interactions: Some(dataset.minimum_interactions),
            validation_item: dataset.validation_item,
            negatives: dataset.negatives.clone(),
            generator,
            columns,
        }
    }
}

impl From<&NetworkSpec> for RawNetwork {
    fn from(network: &NetworkSpec) -> Self {
        Self {
            preset: network.preset.clone(),
            downlink_median_mbit_per_s: Some(network.downlink_median_mbit_per_s),
            downlink_log_sigma: Some(network.downlink_log_sigma),
            uplink_median_mbit_per_s: Some(network.uplink_median_mbit_per_s),
            uplink_log_sigma: Some(network.uplink_log_sigma),
            correlation: Some(network.correlation),
            transfer_log_sigma: Some(network.transfer_log_sigma),
            rtt_ms: Some(network.rtt_ms),
            rtt_log_sigma: Some(network.rtt_log_sigma),
            dropout: Some(network.dropout),
        }
    }
}

impl From<&DevicesSpec> for RawDevices {
    fn from(devices: &DevicesSpec) -> Self {
        Self {
            preset: devices.preset.clone(),
            median_ns_per_row_visit: Some(devices.median_ns_per_row_visit),
            log_sigma: Some(devices.log_sigma),
        }
    }
}
