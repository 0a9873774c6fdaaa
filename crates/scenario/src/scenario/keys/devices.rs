//! `[devices]` and `[server]`: the computers, how fast they are and how much memory they have.

use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use super::super::check::Checker;
use super::super::presets;
use super::Scenario;

/// The users' devices. Without a preset, keys that are not given are those of the preset `uniform`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Devices")]
pub struct DevicesSpec {
    /// The numbers to start from; `fedrecsim presets` lists them with their sources.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "device_presets")]
    pub preset: Option<String>,
    /// How fast they are.
    pub speed: SpeedSpec,
    /// Time of a multiplication with an addition outside row visits, on a device of median speed,
    /// where the class or the trace does not say.
    #[schemars(range(min = 0, max = 1e9))]
    pub ns_per_multiply_add: f64,
    /// Time that every participation takes beside its operations (the start of the app, the load of
    /// the table), where the class or the trace does not say.
    #[schemars(range(min = 0, max = 1e9))]
    pub fixed_ms_per_participation: f64,
    /// Memory for training of a device whose class or trace does not say how much it has; no limit
    /// if absent. A user whose tables need more cannot take part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemorySpec>,
    /// Energy that a device needs for a byte sent or received, in nanojoules; not reported if
    /// absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1e12))]
    pub energy_nj_per_byte: Option<f64>,
    /// Energy that a device needs for a row visit, in nanojoules; not reported if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1e12))]
    pub energy_nj_per_row_visit: Option<f64>,
    /// Energy that a device needs for a multiplication with an addition, in nanojoules; not
    /// reported if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1e12))]
    pub energy_nj_per_multiply_add: Option<f64>,
}

fn device_presets(_: &mut SchemaGenerator) -> Schema {
    presets::names("devices")
}

/// How the speed of devices is spread over users.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "DeviceSpeed")]
pub enum SpeedSpec {
    /// Lognormal.
    Lognormal(LognormalSpeedSpec),
    /// Each device is of one of these classes.
    Classes(#[schemars(length(min = 1, max = 100))] Vec<DeviceClassSpec>),
    /// A file with the device of every user.
    Trace(DeviceTraceSpec),
}

impl Default for SpeedSpec {
    fn default() -> Self {
        Self::Lognormal(LognormalSpeedSpec::default())
    }
}

/// A lognormal speed. Keys that are not given are those of the preset, or of `uniform` without one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "LognormalSpeed")]
pub struct LognormalSpeedSpec {
    /// Median time that a device needs for one row visit (one item row in one local epoch).
    #[schemars(range(max = 1e12), extend("exclusiveMinimum" = 0))]
    pub median_ns_per_row_visit: f64,
    /// Standard deviation of the logarithm of that time over users.
    #[schemars(range(min = 0, max = 5))]
    pub log_sigma: f64,
}

impl Default for LognormalSpeedSpec {
    fn default() -> Self {
        Self {
            median_ns_per_row_visit: 50.0,
            log_sigma: 0.0,
        }
    }
}

/// A class of devices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "DeviceClass")]
pub struct DeviceClassSpec {
    /// What it is called in reports.
    #[schemars(length(min = 1, max = 64))]
    pub name: String,
    /// Share of the users with such a device. All shares together are 1, within 1e-6.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0.0))]
    pub share: f64,
    /// Median time that such a device needs for one row visit (one item row in one local epoch).
    #[schemars(range(max = 1e12), extend("exclusiveMinimum" = 0.0))]
    pub ns_per_row_visit: f64,
    /// Standard deviation of the logarithm of that time within the class.
    #[serde(default, skip_serializing_if = "super::is_default")]
    #[schemars(range(min = 0, max = 5))]
    pub log_sigma: f64,
    /// Time of a multiplication with an addition outside row visits. Without it that of `[devices]`
    /// counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1e9))]
    pub ns_per_multiply_add: Option<f64>,
    /// Time that every participation takes beside its operations. Without it that of `[devices]`
    /// counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1e9))]
    pub fixed_ms_per_participation: Option<f64>,
    /// Memory for training, in MB (10^6 bytes). Without it that of `[devices]` counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1e-6, max = 1e9))]
    pub memory_mb: Option<f64>,
}

/// A file with a line per user, numbered from 0: `user,ns_per_row_visit` and, if it has the
/// columns, `memory_mb`, `ns_per_multiply_add` and `fixed_ms_per_participation`. Users beyond the
/// last one start again with the first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "DeviceTrace")]
pub struct DeviceTraceSpec {
    /// The file, as it is or below a data folder.
    #[schemars(length(min = 1))]
    pub path: PathBuf,
}

/// Memory for training, lognormal over users.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Memory")]
pub struct MemorySpec {
    /// Median, in MB (10^6 bytes).
    #[schemars(range(min = 1e-6, max = 1e9))]
    pub median_mb: f64,
    /// Standard deviation of the logarithm over users; 0 gives every device the same.
    #[serde(default)]
    #[schemars(range(min = 0, max = 5))]
    pub log_sigma: f64,
}

/// The server as a computer, for methods that run there. The defaults are assumptions: one core at
/// the speed of this project's own kernels.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Server")]
pub struct ServerSpec {
    /// Time that the server needs for one row visit.
    #[schemars(range(min = 0, max = 1e9))]
    pub ns_per_row_visit: f64,
    /// Time that the server needs for one multiplication with an addition outside row visits.
    #[schemars(range(min = 0, max = 1e9))]
    pub ns_per_multiply_add: f64,
}

impl Default for ServerSpec {
    fn default() -> Self {
        Self {
            ns_per_row_visit: 10.0,
            ns_per_multiply_add: 0.1,
        }
    }
}

/// The largest distance from 1 that the sum of the shares of device classes may have.
const SHARES_TOLERANCE: f64 = 1e-6;

pub(in super::super) fn check(scenario: &Scenario, checker: &mut Checker<'_>) {
    if let SpeedSpec::Classes(classes) = &scenario.devices.speed {
        check_classes(classes, checker);
    }
    let method = checker.method;
    checker.idle_if(
        method.trains && !method.server_computes,
        "server",
        "the method computes on the devices, and what its server does takes no virtual time",
    );
}

fn check_classes(classes: &[DeviceClassSpec], checker: &mut Checker<'_>) {
    let sum: f64 = classes.iter().map(|class| class.share).sum();
    if (sum - 1.0).abs() > SHARES_TOLERANCE {
        let message = format!("the shares of the classes must add up to 1, found {sum}");
        checker.fault("devices.speed.classes", message);
    }
    for (index, class) in classes.iter().enumerate() {
        let name = &class.name;
        if classes[..index].iter().any(|other| other.name == *name) {
            checker.fault(
                &format!("devices.speed.classes.{index}.name"),
                format!("a class with the name `{name}` stands here for the second time"),
            );
        }
    }
    let every = |has: fn(&DeviceClassSpec) -> bool| classes.iter().all(has);
    if every(|class| class.memory_mb.is_some()) && checker.file.has("devices.memory") {
        checker.fault(
            "devices.memory",
            "`memory` has no meaning here: every class has its own `memory_mb`",
        );
    }
    checker.idle_if(
        every(|class| class.ns_per_multiply_add.is_some()),
        "devices.ns_per_multiply_add",
        "every class of devices has its own `ns_per_multiply_add`",
    );
    checker.idle_if(
        every(|class| class.fixed_ms_per_participation.is_some()),
        "devices.fixed_ms_per_participation",
        "every class of devices has its own `fixed_ms_per_participation`",
    );
}
