//! A rule about what goes wrong, as it may be written: a preset, and keys that replace its own.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use super::super::presets;
use super::super::spec::{FaultEffect, FaultSpec, FaultUsers};
use super::environment::preset_schema;
use fedrecsim_core::units::Direction;

/// A rule that spoils transfers, or an outage that keeps users away: a preset, and keys that
/// replace its own, or an effect. Keys that are not given concern every transfer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Fault")]
pub(crate) struct RawFault {
    /// The rule to start from; `fedrecsim presets` lists them with their sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "fault_preset_schema")]
    pub preset: Option<String>,
    /// What it does to a transfer or to users. Required without a preset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<FaultEffect>,
    /// Which transfers it concerns; both directions if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
    /// It concerns transfers that start at this virtual time or later, in seconds; 0 if absent.
    /// Outages begin then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1e9))]
    pub from_s: Option<f64>,
    /// It concerns transfers that start before this virtual time, in seconds; for ever if absent.
    /// Outages end then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1e-9, max = 1e9))]
    pub until_s: Option<f64>,
    /// Whom it concerns; everybody if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<FaultUsers>,
    /// Probability that it hits a transfer that it concerns, drawn for each; 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0.0))]
    pub probability: Option<f64>,
}

fn fault_preset_schema(_: &mut SchemaGenerator) -> Schema {
    preset_schema(
        presets::faults()
            .iter()
            .map(|preset| (preset.name, preset.source)),
    )
}

impl From<&FaultSpec> for RawFault {
    fn from(rule: &FaultSpec) -> Self {
        Self {
            preset: rule.preset.clone(),
            effect: Some(rule.effect),
            direction: rule.direction,
            from_s: Some(rule.from_s),
            until_s: rule.until_s,
            users: rule.users.clone(),
            probability: Some(rule.probability),
        }
    }
}
