//! The keys of scenario files. Each file of this folder declares those of one table: type, default,
//! range, unit and documentation. Its `check` holds the rules between these keys and others.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value as Json, json};

use super::check::Checker;
use super::traffic::Traffic;

mod audit;
mod availability;
mod carbon;
mod codec;
mod columns;
mod dataset;
mod devices;
mod evaluation;
mod faults;
mod joins;
mod modes;
mod network;
mod overheads;
pub(super) mod participants;
mod privacy;
mod report;
mod training;

pub use super::policy::{StalenessWeight, Stragglers};
pub use {
    audit::*, availability::*, carbon::*, codec::*, columns::*, dataset::*, devices::*,
    evaluation::*, faults::*, joins::*, modes::*, network::*, overheads::*, privacy::*, report::*,
    training::*,
};

// A checked scenario is complete, within its ranges, and consistent as far as the file alone can
// tell. What depends on the data (a cohort larger than the population that was read) is checked
// later. It serialises in the layout of its file, without the name (see [`Scenario::to_toml`]).
/// A simulation: the data, the method, how it is trained, and the simulated world around it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Name of the report folder; the file's stem.
    #[serde(skip)]
    pub name: String,
    /// Seed of every stream of randomness.
    #[schemars(extend("default" = 1))]
    pub seed: u64,
    #[schemars(schema_with = "method_schema")]
    pub method: MethodSpec,
    /// The ratings and how they are split.
    #[serde(serialize_with = "present")]
    pub dataset: DatasetSpec,
    /// Rounds and participation.
    #[serde(serialize_with = "present")]
    pub training: TrainingSpec,
    /// How accuracy is measured.
    #[serde(default, serialize_with = "present")]
    pub evaluation: EvaluationSpec,
    /// How tables become bytes, per direction.
    #[serde(default, serialize_with = "present")]
    pub codec: CodecSpec,
    /// Links between the server and the users' devices. Without a preset, keys that are not given
    /// are those of the preset `lan`.
    #[serde(default, serialize_with = "present")]
    pub network: NetworkSpec,
    /// The users' devices. Without a preset, keys that are not given are those of the preset
    /// `uniform`.
    #[serde(default, serialize_with = "present")]
    pub devices: DevicesSpec,
    /// The server as a computer.
    #[serde(
        default,
        skip_serializing_if = "is_default",
        serialize_with = "present"
    )]
    pub server: ServerSpec,
    /// The carbon dioxide that the electricity of devices and server stands for; not reported if
    /// absent.
    #[serde(
        default,
        skip_serializing_if = "is_default",
        serialize_with = "present"
    )]
    pub carbon: CarbonSpec,
    /// When users can take part; at any time if absent.
    #[serde(
        default,
        skip_serializing_if = "is_default",
        serialize_with = "present"
    )]
    pub availability: AvailabilitySpec,
    /// Users who come in the course of the run; nobody does if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub joins: Option<JoinsSpec>,
    /// What goes wrong with transfers: the first rule that hits a transfer counts.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        serialize_with = "present"
    )]
    #[schemars(length(max = 100))]
    pub faults: Vec<FaultSpec>,
    /// Has a probe guess, from decoded uploads alone, which items their senders have rated; left
    /// out if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit: Option<AuditSpec>,
    /// Bytes that a deployment would send beside the frames; none if absent.
    #[serde(
        default,
        skip_serializing_if = "is_default",
        serialize_with = "present"
    )]
    pub overheads: OverheadsSpec,
    /// What is done to uploads to protect the users who send them; nothing if absent.
    #[serde(
        default,
        skip_serializing_if = "is_default",
        serialize_with = "present"
    )]
    pub privacy: PrivacySpec,
    /// What the report holds. Nothing here changes a result.
    #[serde(default, skip_serializing_if = "is_default")]
    pub report: ReportSpec,
}

impl Scenario {
    /// Fills in the defaults that depend on other keys, and checks all rules between keys.
    pub(super) fn check(&mut self, checker: &mut Checker<'_>) {
        let method = &mut self.method;
        for fault in (checker.method.resolve)(&mut method.parameters) {
            let key = [&["method".to_owned(), method.name.clone()], &fault.path[..]].concat();
            let key = key.join(".");
            if fault.is_wrong {
                checker.fault(&key, fault.message);
            } else if checker.file.has(&key) {
                checker.warn(&key, fault.message);
            }
        }
        dataset::fill(self, checker);
        evaluation::fill(self, checker);
        let traffic = (checker.method.traffic)(&self.method.parameters);
        checker.traffic = traffic.map(|traffic| traffic.under(self.training.aggregation));
        for of_table in [
            dataset::check,
            training::check,
            evaluation::check,
            codec::check,
            network::check,
            devices::check,
            carbon::check,
            availability::check,
            joins::check,
            faults::check,
            overheads::check,
            privacy::check,
        ] {
            of_table(self, checker);
        }
        let contradictions = checker
            .traffic
            .as_ref()
            .map(|traffic| traffic.contradictions(self));
        for (key, message) in contradictions.unwrap_or_default() {
            // What cannot be hidden from a server that trains is told with the key itself.
            if key.starts_with("codec") || !checker.method.runs_at_server {
                checker.fault(&key, message);
            }
        }
        if !checker.method.trains {
            idle_without_rounds(checker);
        }
        checker.idle_if(
            checker.method.runs_at_server,
            "audit",
            "the server is sent all ratings, so that there is nothing to guess",
        );
    }
}

impl Traffic {
    /// Returns the traffic under this aggregation: none if every device trains alone.
    #[must_use]
    pub fn under(self, aggregation: Aggregation) -> Self {
        match aggregation {
            Aggregation::Method | Aggregation::Mean => self,
            Aggregation::None => Self {
                keeps_personal_tables: self.keeps_personal_tables,
                predicts_ratings: self.predicts_ratings,
                ..Self::default()
            },
        }
    }

    /// Returns the keys of `scenario` that ask for what this method cannot do, each with what is
    /// wrong, as a sentence without a full stop.
    pub fn contradictions(&self, scenario: &Scenario) -> Vec<(String, String)> {
        let mut found = Vec::new();
        self.refuse_codecs(&scenario.codec, &mut found);
        overheads::contradictions(self, &scenario.overheads, &mut found);
        privacy::contradiction(self, &scenario.privacy, &mut found);
        dataset::contradiction(self, &scenario.dataset.split, &mut found);
        found
    }
}

/// Warns of keys that say how rounds are run and what happens in them.
fn idle_without_rounds(checker: &mut Checker<'_>) {
    let name = checker.method.name;
    let because = format!("the method `{name}` trains nothing, so that no round is run");
    for key in [
        "training.participation",
        "training.aggregation",
        "training.steps_per_round",
        "training.empty_rounds_limit",
        "training.waiting_limit_s",
        "training.divergence_limit",
        "codec",
        "network",
        "devices",
        "server",
        "availability",
        "faults",
        "privacy",
        "overheads",
        "audit",
    ] {
        checker.idle_if(true, key, &because);
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Removes the default of a key that has none, or another one with other keys.
fn without_default(schema: &mut Schema) {
    schema.remove("default");
}

/// Writes a table without the keys that are absent.
fn present<S: Serializer>(table: &impl Serialize, serializer: S) -> Result<S::Ok, S::Error> {
    let table = serde_json::to_value(table).map_err(serde::ser::Error::custom)?;
    without_nulls(table).serialize(serializer)
}

/// Returns a value without the nulls in it, which stand for options without a value. TOML cannot
/// write them.
pub(super) fn without_nulls(json: Json) -> Json {
    match json {
        Json::Object(mut table) => {
            table.retain(|_, value| !value.is_null());
            let members = table.into_iter();
            Json::Object(
                members
                    .map(|(key, value)| (key, without_nulls(value)))
                    .collect(),
            )
        }
        Json::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

/// Returns the name of a choice, as scenario files write it.
fn name_of(choice: &impl Serialize) -> String {
    match serde_json::to_value(choice) {
        Ok(Json::String(name)) => name,
        Ok(Json::Object(table)) => table.keys().next().cloned().unwrap_or_default(),
        _ => String::new(),
    }
}

/// A method and its parameters: `method = "popularity"` or `[method.fedrap]`. What they may be is
/// the method registry's business.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Map<String, Json>", into = "Json")]
pub struct MethodSpec {
    /// Registered name.
    pub name: String,
    /// The parameters, an object: as written, and filled up with the defaults that the method's
    /// schema states.
    pub parameters: Json,
}

impl From<MethodSpec> for Json {
    fn from(MethodSpec { name, parameters }: MethodSpec) -> Self {
        match parameters {
            Self::Object(parameters) if !parameters.is_empty() => json!({ name: parameters }),
            _ => name.into(),
        }
    }
}

impl TryFrom<Map<String, Json>> for MethodSpec {
    type Error = &'static str;

    fn try_from(method: Map<String, Json>) -> Result<Self, Self::Error> {
        let (name, parameters) = method.into_iter().next().ok_or("no method is named")?;
        Ok(Self { name, parameters })
    }
}

/// Refers to a schema that is composed of the methods' own.
fn method_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "$ref": "#/$defs/Method" })
}
