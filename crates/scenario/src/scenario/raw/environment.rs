//! The environment of the clients as it may be written: presets, and keys that replace their
//! numbers.

use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::super::presets;
use super::super::spec::{
    AvailabilityPattern, AvailabilitySpec, AvailabilityTraceSpec, DailySpec, DeviceClassSpec,
    DevicesSpec, LinkTraceSpec, MemorySpec, NetworkSpec, OnOffSpec, ServerLinkSpec, Sharing,
    SpeedSpec,
};
use fedrecsim_core::units::BitsPerSecond;

/// Links: a preset, and keys that replace its numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Network")]
pub(crate) struct RawNetwork {
    /// The numbers to start from; `fedrecsim presets` lists them with their sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "network_preset_schema")]
    pub preset: Option<String>,
    /// Median downlink rate of a user.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1e-6, max = 1e9))]
    pub downlink_median_mbit_per_s: Option<f64>,
    /// Standard deviation of the logarithm of a user's downlink rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 5))]
    pub downlink_log_sigma: Option<f64>,
    /// Median uplink rate of a user.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1e-6, max = 1e9))]
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
    /// A file with measured rates of every user, in place of the medians, sigmas and correlation of
    /// the keys above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<LinkTraceSpec>,
    /// How transfers share the server's link; equally if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sharing: Option<Sharing>,
    /// The server's own link, which all transfers in progress share; no limit if absent.
    #[serde(default, skip_serializing_if = "RawServerLink::is_default")]
    pub server: RawServerLink,
}

/// The server's link: a preset, and keys that replace its numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ServerLink")]
pub(crate) struct RawServerLink {
    /// The numbers to start from; `fedrecsim presets` lists them with their sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "server_preset_schema")]
    pub preset: Option<String>,
    /// What all downloads (server to clients) in progress share; no limit if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1e-6, max = 1e9))]
    pub downlink_mbit_per_s: Option<f64>,
    /// What all uploads (clients to server) in progress share; no limit if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1e-6, max = 1e9))]
    pub uplink_mbit_per_s: Option<f64>,
    /// Transfers at once, both directions together; more wait in line. No limit if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub connections: Option<u32>,
}

impl RawServerLink {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Devices: a preset, and keys that replace its numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Devices")]
pub(crate) struct RawDevices {
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
    /// Classes of devices, in place of the lognormal distribution of the two keys above.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100))]
    pub classes: Option<Vec<DeviceClassSpec>>,
    /// A file with the device of every user, in place of a distribution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<RawDeviceTrace>,
    /// Time of a multiplication with an addition outside row visits, on a device of median speed; 0
    /// if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1e9))]
    pub ns_per_multiply_add: Option<f64>,
    /// Time that every participation takes beside its operations: the start of the app, the load of
    /// the table; 0 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1e9))]
    pub fixed_ms_per_participation: Option<f64>,
    /// Memory for training of every device, in MB (10^6 bytes); no limit if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1e-6, max = 1e9))]
    pub memory_mb: Option<f64>,
    /// Median memory for training, in MB (10^6 bytes), where it varies over users.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1e-6, max = 1e9))]
    pub memory_median_mb: Option<f64>,
    /// Standard deviation of the logarithm of the memory over users.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 5), extend("exclusiveMinimum" = 0))]
    pub memory_log_sigma: Option<f64>,
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

/// A file with a line per user, numbered from 0: `user,ns_per_row_visit` and, if it has the
/// columns, `memory_mb`, `ns_per_multiply_add` and `fixed_ms_per_participation`. Users beyond the
/// last one start again with the first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "DeviceTrace")]
pub(crate) struct RawDeviceTrace {
    /// The file, as it is or below a data folder.
    #[schemars(length(min = 1))]
    pub path: PathBuf,
}

/// When users can take part: a preset or one of the patterns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Availability")]
pub(crate) struct RawAvailability {
    /// The pattern to start from; `fedrecsim presets` lists them with their sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "availability_preset_schema")]
    pub preset: Option<String>,
    /// In a window of the local day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub daily: Option<RawDaily>,
    /// In stays of random length with random gaps between them.
    #[serde(default, rename = "on-off", skip_serializing_if = "Option::is_none")]
    pub on_off: Option<RawOnOff>,
    /// In the stays that a file lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<AvailabilityTraceSpec>,
}

impl RawAvailability {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A window of local time, every day. Virtual time 0 is midnight in the time zone with offset 0.
/// Keys that are not given are those of the preset, or of `night-charging` without one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Daily")]
pub(crate) struct RawDaily {
    /// Length of the window, in hours; 24 is always.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 24), extend("exclusiveMinimum" = 0))]
    pub hours_on: Option<f64>,
    /// The local hour at which the window opens.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 24))]
    pub starts_at_hour: Option<f64>,
    /// Each user's window opens earlier or later by up to so many hours, uniformly, and every day
    /// alike.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 12))]
    pub jitter_hours: Option<f64>,
    /// The users' time zones as hours ahead of offset 0, equally likely. Without it, the 24 whole
    /// hours from -11 to 12.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), inner(range(min = -24, max = 24)))]
    pub utc_offsets: Option<Vec<f64>>,
}

/// Alternation of stays and gaps, both exponential: a two-state Markov chain, stationary from the
/// start. Without a preset it needs both means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "OnOff")]
pub(crate) struct RawOnOff {
    /// Mean length of a stay, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1e9))]
    pub mean_on_s: Option<f64>,
    /// Mean length of a gap, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1e9))]
    pub mean_off_s: Option<f64>,
}

fn network_preset_schema(_: &mut SchemaGenerator) -> Schema {
    preset_schema(
        presets::networks()
            .iter()
            .map(|preset| (preset.name, preset.source)),
    )
}

fn devices_preset_schema(_: &mut SchemaGenerator) -> Schema {
    preset_schema(
        presets::devices()
            .iter()
            .map(|preset| (preset.name, preset.source)),
    )
}

fn server_preset_schema(_: &mut SchemaGenerator) -> Schema {
    preset_schema(
        presets::server_links()
            .iter()
            .map(|preset| (preset.name, preset.source)),
    )
}

fn availability_preset_schema(_: &mut SchemaGenerator) -> Schema {
    preset_schema(
        presets::availabilities()
            .iter()
            .map(|preset| (preset.name, preset.source)),
    )
}

pub(super) fn preset_schema(presets: impl Iterator<Item = (&'static str, &'static str)>) -> Schema {
    let choice =
        |(name, source)| json_schema!({ "type": "string", "const": name, "description": source });
    json_schema!({ "oneOf": presets.map(choice).collect::<Vec<_>>() })
}

impl From<&NetworkSpec> for RawNetwork {
    fn from(network: &NetworkSpec) -> Self {
        // Numbers that a trace takes the place of are not written.
        let drawn = |number: f64| network.trace.is_none().then_some(number);
        Self {
            preset: network.preset.clone(),
            downlink_median_mbit_per_s: drawn(network.downlink_median_mbit_per_s),
            downlink_log_sigma: drawn(network.downlink_log_sigma),
            uplink_median_mbit_per_s: drawn(network.uplink_median_mbit_per_s),
            uplink_log_sigma: drawn(network.uplink_log_sigma),
            correlation: drawn(network.correlation),
            transfer_log_sigma: drawn(network.transfer_log_sigma),
            rtt_ms: Some(network.rtt_ms),
            rtt_log_sigma: Some(network.rtt_log_sigma),
            dropout: Some(network.dropout),
            trace: network.trace.clone(),
            sharing: (network.sharing != Sharing::default()).then_some(network.sharing),
            server: RawServerLink::from(&network.server),
        }
    }
}

impl From<&ServerLinkSpec> for RawServerLink {
    fn from(server: &ServerLinkSpec) -> Self {
        Self {
            preset: server.preset.clone(),
            downlink_mbit_per_s: server.downlink.map(BitsPerSecond::as_mbit_f64),
            uplink_mbit_per_s: server.uplink.map(BitsPerSecond::as_mbit_f64),
            connections: server.connections,
        }
    }
}

impl From<&DevicesSpec> for RawDevices {
    fn from(devices: &DevicesSpec) -> Self {
        let presets = presets::devices();
        let named = presets
            .iter()
            .find(|preset| devices.preset.as_deref() == Some(preset.name));
        let preset =
            |time: fn(&DevicesSpec) -> f64| named.map_or(0.0, |preset| time(&preset.values));
        let mut raw = Self {
            preset: devices.preset.clone(),
            energy_nj_per_byte: devices.energy_nj_per_byte,
            energy_nj_per_row_visit: devices.energy_nj_per_row_visit,
            energy_nj_per_multiply_add: devices.energy_nj_per_multiply_add,
            ns_per_multiply_add: unless_zero(
                devices.ns_per_multiply_add,
                preset(|preset| preset.ns_per_multiply_add),
            ),
            fixed_ms_per_participation: unless_zero(
                devices.fixed_ms_per_participation,
                preset(|preset| preset.fixed_ms_per_participation),
            ),
            ..Self::default()
        };
        match &devices.speed {
            SpeedSpec::Lognormal {
                median_ns_per_row_visit,
                log_sigma,
            } => {
                (raw.median_ns_per_row_visit, raw.log_sigma) =
                    (Some(*median_ns_per_row_visit), Some(*log_sigma));
            }
            SpeedSpec::Classes(classes) => raw.classes = Some(classes.clone()),
            SpeedSpec::Trace(path) => raw.trace = Some(RawDeviceTrace { path: path.clone() }),
        }
        match devices.memory {
            None => {}
            Some(MemorySpec {
                median_mb,
                log_sigma: 0.0,
            }) => raw.memory_mb = Some(median_mb),
            Some(MemorySpec {
                median_mb,
                log_sigma,
            }) => {
                (raw.memory_median_mb, raw.memory_log_sigma) = (Some(median_mb), Some(log_sigma));
            }
        }
        raw
    }
}

/// Returns a time, or `None` if it is zero and so is that of the preset, so that it is printed only
/// where it has an effect.
fn unless_zero(time: f64, of_preset: f64) -> Option<f64> {
    (time != 0.0 || of_preset != 0.0).then_some(time)
}

impl From<&AvailabilitySpec> for RawAvailability {
    fn from(availability: &AvailabilitySpec) -> Self {
        let mut raw = Self {
            preset: availability.preset.clone(),
            ..Self::default()
        };
        match &availability.pattern {
            AvailabilityPattern::Always => {}
            AvailabilityPattern::Daily(daily) => raw.daily = Some(RawDaily::from(daily)),
            AvailabilityPattern::OnOff(OnOffSpec {
                mean_on_s,
                mean_off_s,
            }) => {
                raw.on_off = Some(RawOnOff {
                    mean_on_s: Some(*mean_on_s),
                    mean_off_s: Some(*mean_off_s),
                });
            }
            AvailabilityPattern::Trace(trace) => raw.trace = Some(trace.clone()),
        }
        raw
    }
}

impl From<&DailySpec> for RawDaily {
    fn from(daily: &DailySpec) -> Self {
        Self {
            hours_on: Some(daily.hours_on),
            starts_at_hour: Some(daily.starts_at_hour),
            jitter_hours: Some(daily.jitter_hours),
            utc_offsets: (!daily.utc_offsets.is_empty()).then(|| daily.utc_offsets.clone()),
        }
    }
}
