//! `[availability]`: when users can take part.

use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::super::check::Checker;
use super::super::presets;
use super::{Scenario, without_default};

/// When users can take part; at any time if absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Availability")]
pub struct AvailabilitySpec {
    /// The pattern to start from; `fedrecsim presets` lists them with their sources.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "availability_presets")]
    pub preset: Option<String>,
    /// The pattern.
    pub pattern: AvailabilityPattern,
}

fn availability_presets(_: &mut SchemaGenerator) -> Schema {
    presets::names("availability")
}

/// When users can take part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AvailabilityPattern {
    /// At any time.
    #[default]
    Always,
    /// In a window of the local day.
    Daily(DailySpec),
    /// In stays of random length with random gaps between them.
    OnOff(OnOffSpec),
    /// In the stays that a file lists.
    Trace(AvailabilityTraceSpec),
}

/// A window of local time, every day. Virtual time 0 is midnight in the time zone with offset 0.
/// Keys that are not given are those of the preset, or of `night-charging` without one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Daily")]
pub struct DailySpec {
    /// Length of the window, in hours; 24 is always.
    #[schemars(range(max = 24), extend("exclusiveMinimum" = 0))]
    pub hours_on: f64,
    /// The local hour at which the window opens.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 24))]
    pub starts_at_hour: f64,
    /// Each user's window opens earlier or later by up to so many hours, uniformly, and every day
    /// alike.
    #[schemars(range(min = 0, max = 12))]
    pub jitter_hours: f64,
    /// The users' time zones as hours ahead of offset 0, equally likely. Without it, the 24 whole
    /// hours from -11 to 12.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 64),
        inner(range(min = -24, max = 24)),
        transform = without_default
    )]
    pub utc_offsets: Vec<f64>,
}

impl Default for DailySpec {
    fn default() -> Self {
        Self {
            hours_on: 8.0,
            starts_at_hour: 22.0,
            jitter_hours: 2.0,
            utc_offsets: Vec::new(),
        }
    }
}

impl DailySpec {
    /// Returns the time zones, each of which is equally likely.
    pub fn offsets(&self) -> Vec<f64> {
        if self.utc_offsets.is_empty() {
            (-11..=12).map(f64::from).collect()
        } else {
            self.utc_offsets.clone()
        }
    }
}

/// Alternation of stays and gaps, both exponential: a two-state Markov chain, stationary from the
/// start. Without a preset it needs both means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "OnOff")]
pub struct OnOffSpec {
    /// Mean length of a stay, in seconds.
    #[schemars(range(min = 1, max = 1e9), transform = without_default)]
    pub mean_on_s: f64,
    /// Mean length of a gap, in seconds.
    #[schemars(range(min = 1, max = 1e9), transform = without_default)]
    pub mean_off_s: f64,
}

/// A file with a line per stay: `user,on,off`, both in seconds.
///
/// Users are numbered from 0 without gaps; those beyond the last one start again with the first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "AvailabilityTrace")]
pub struct AvailabilityTraceSpec {
    /// The file, as it is or below a data folder.
    #[schemars(length(min = 1))]
    pub path: PathBuf,
    /// The trace starts again after so many seconds. Without it, at its last `off`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1e-9, max = 1e9))]
    pub period_s: Option<f64>,
}

pub(in super::super) fn check(scenario: &Scenario, checker: &mut Checker<'_>) {
    let AvailabilitySpec { preset, pattern } = &scenario.availability;
    let under = presets::under("availability", &json!({ "preset": preset }));
    let is_of_preset = under
        .and_then(|keys| serde_json::from_value(Json::Object(keys.clone())).ok())
        .is_none_or(|under: AvailabilitySpec| {
            std::mem::discriminant(&under.pattern) == std::mem::discriminant(pattern)
        });
    if let (false, Some(preset)) = (is_of_preset, preset) {
        let message =
            format!("`pattern` would leave nothing of the preset `{preset}`: keep one of them");
        checker.fault("availability.pattern", message);
    }
    match pattern {
        AvailabilityPattern::Always => checker.idle_if(
            true,
            "training.waiting_limit_s",
            "all users are always available, so that the server waits for nobody",
        ),
        AvailabilityPattern::Daily(daily) => {
            for key in ["starts_at_hour", "jitter_hours", "utc_offsets"] {
                checker.idle_if(
                    daily.hours_on == 24.0,
                    &format!("availability.pattern.daily.{key}"),
                    "`hours_on` is 24, so that users are always available",
                );
            }
        }
        AvailabilityPattern::OnOff(on_off) => {
            let means = [
                ("mean_on_s", on_off.mean_on_s),
                ("mean_off_s", on_off.mean_off_s),
            ];
            for (key, _) in means.iter().filter(|(_, mean)| *mean == 0.0) {
                checker.fault(
                    "availability.pattern.on-off",
                    format!("missing key `{key}` in `on-off`"),
                );
            }
        }
        AvailabilityPattern::Trace(_) => {}
    }
}
