//! The keys of scenario files. Each file of this folder declares those of one table: type, default,
//! range, unit and documentation. Its `check` holds the rules between these keys and others.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value as Json};

mod audit;
pub(super) mod availability;
pub(super) mod codec;
pub(super) mod dataset;
pub(super) mod devices;
pub(super) mod evaluation;
pub(super) mod faults;
mod modes;
pub(super) mod network;
pub(super) mod overheads;
pub(super) mod privacy;
mod report;
pub(super) mod training;

pub use audit::AuditSpec;
pub use availability::{
    AvailabilityPattern, AvailabilitySpec, AvailabilityTraceSpec, DailySpec, OnOffSpec,
};
pub use codec::{
    BlockCodecSpec, CodecChoice, CodecName, CodecSpec, CompositionSpec, DeadZoneSpec, EntropySpec,
    FirstDownload, PositionsSpec, RoundingSpec, ScaleSpec, SelectSpec, ValuesSpec,
};
pub use dataset::{
    ColumnRef, DatasetSpec, DelimitedSpec, GeneratorSpec, Kept, NegativePool, NegativesSpec,
    PublicDataset, SourceSpec, SplitSpec, SubsetSpec,
};
pub use devices::{
    DeviceClassSpec, DeviceTraceSpec, DevicesSpec, LognormalSpeedSpec, MemorySpec, ServerSpec,
    SpeedSpec,
};
pub use evaluation::{EvaluationSpec, ItemTable, Ranking, SampledSpec, Selection};
pub use faults::{FaultEffect, FaultSpec, FaultUsers, RecurringOutageSpec};
pub use modes::{
    ClientSelection, FedAsyncSpec, FedBuffSpec, Mode, OortSpec, OverSelectionSpec,
    SemiSynchronousSpec, StalenessWeight, Stragglers,
};
pub use network::{
    LinkTraceSpec, LognormalRatesSpec, NetworkSpec, RatesSpec, ServerLinkSpec, Sharing,
};
pub use overheads::{OverheadsSpec, PaillierSpec, SecureAggregationSpec, TransportSpec};
pub use privacy::{
    Adjacency, GaussianSpec, LaplaceSpec, PrivacySpec, Trust, VirtualItemsSpec, usual_delta,
};
pub use report::ReportSpec;
pub use training::{Aggregation, Participation, TrainingSpec};

/// A simulation: the data, the method, how it is trained, and the simulated world around it.
///
/// A checked scenario is complete, within its ranges, and consistent as far as the file alone can
/// tell. What depends on the data (a cohort larger than the population that was read) is checked
/// later. It serialises in the layout of its file, without the name (see [`Scenario::to_toml`]).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    description = "A simulation: the data, the method, how it is trained, and the simulated world around it."
)]
pub struct Scenario {
    /// Name of the report folder; the file's stem.
    #[serde(skip)]
    pub name: String,
    /// Seed of every stream of randomness.
    #[serde(default = "default_seed")]
    pub seed: u64,
    pub method: MethodSpec,
    /// The ratings and how they are split.
    pub dataset: DatasetSpec,
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
    pub network: NetworkSpec,
    /// The users' devices. Without a preset, keys that are not given are those of the preset
    /// `uniform`.
    #[serde(default)]
    pub devices: DevicesSpec,
    /// The server as a computer, for methods that run there.
    #[serde(default, skip_serializing_if = "is_default")]
    pub server: ServerSpec,
    /// When users can take part; at any time if absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub availability: AvailabilitySpec,
    /// What goes wrong with transfers: rules, of which the first one that hits a transfer counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub faults: Vec<FaultSpec>,
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

fn default_seed() -> u64 {
    1
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Removes the default of a key that has none, or another one with other keys.
fn without_default(schema: &mut Schema) {
    schema.remove("default");
}

/// A method and its parameters: `method = "popularity"` or `[method.fedrap]`. What they may be is
/// the method registry's business.
#[derive(Clone, Debug, PartialEq)]
pub struct MethodSpec {
    /// Registered name.
    pub name: String,
    /// The parameters, an object: as written, and filled up with the defaults that the method's
    /// schema states.
    pub parameters: Json,
}

impl Serialize for MethodSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.parameters.as_object() {
            Some(parameters) if !parameters.is_empty() => {
                serializer.collect_map([(&self.name, parameters)])
            }
            _ => serializer.serialize_str(&self.name),
        }
    }
}

impl<'de> Deserialize<'de> for MethodSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let method = Map::deserialize(deserializer)?.into_iter().next();
        let (name, parameters) =
            method.ok_or_else(|| serde::de::Error::custom("no method is named"))?;
        Ok(Self { name, parameters })
    }
}

/// Refers to a schema that is composed of the methods' own.
impl JsonSchema for MethodSpec {
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
