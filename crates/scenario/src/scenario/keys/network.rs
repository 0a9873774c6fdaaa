//! `[network]`: the links between the server and the users' devices.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

use super::super::check::Checker;
use super::super::presets;
use super::{Scenario, is_default};
use fedrecsim_core::units::BitsPerSecond;

/// Links between the server and the users' devices. Without a preset, keys that are not given are
/// those of the preset `lan`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Network")]
pub struct NetworkSpec {
    /// The numbers to start from; `fedrecsim presets` lists them with their sources.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "network_presets")]
    pub preset: Option<String>,
    /// The rates of users' links.
    pub rates: RatesSpec,
    /// Median round-trip time of a user; a transfer starts to arrive after half of it.
    #[schemars(range(min = 0, max = 1e9))]
    pub rtt_ms: f64,
    /// Standard deviation of the logarithm of a user's round-trip time.
    #[schemars(range(min = 0, max = 5))]
    pub rtt_log_sigma: f64,
    /// Probability that a participation is cut off, at a uniformly random instant of it.
    #[schemars(range(min = 0, max = 1))]
    pub dropout: f64,
    /// How transfers share the server's link.
    #[serde(skip_serializing_if = "is_default")]
    pub sharing: Sharing,
    /// The server's own link, which all transfers in progress share; no limit if absent.
    #[serde(skip_serializing_if = "is_default")]
    pub server: ServerLinkSpec,
}

impl Default for NetworkSpec {
    fn default() -> Self {
        Self {
            preset: None,
            rates: RatesSpec::Lognormal(LognormalRatesSpec::default()),
            rtt_ms: 1.0,
            rtt_log_sigma: 0.0,
            dropout: 0.0,
            sharing: Sharing::Equal,
            server: ServerLinkSpec::default(),
        }
    }
}

fn network_presets(_: &mut SchemaGenerator) -> Schema {
    presets::names("network")
}

/// Where the rates of users' links come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Rates")]
pub enum RatesSpec {
    /// Drawn for each user, lognormal.
    Lognormal(LognormalRatesSpec),
    /// Measured rates of every user, from a file.
    Trace(LinkTraceSpec),
}

/// Lognormal rates. Without a preset, keys that are not given are those of the preset `lan`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "LognormalRates")]
pub struct LognormalRatesSpec {
    /// Median downlink rate of a user.
    #[schemars(range(min = 1e-6, max = 1e9))]
    pub downlink_median_mbit_per_s: f64,
    /// Standard deviation of the logarithm of a user's downlink rate.
    #[schemars(range(min = 0, max = 5))]
    pub downlink_log_sigma: f64,
    /// Median uplink rate of a user.
    #[schemars(range(min = 1e-6, max = 1e9))]
    pub uplink_median_mbit_per_s: f64,
    /// Standard deviation of the logarithm of a user's uplink rate.
    #[schemars(range(min = 0, max = 5))]
    pub uplink_log_sigma: f64,
    /// Correlation of the logarithms of a user's two rates.
    #[schemars(range(min = -1, max = 1))]
    pub correlation: f64,
    /// Standard deviation of the logarithm of a single transfer's rate around its user's.
    #[schemars(range(min = 0, max = 5))]
    pub transfer_log_sigma: f64,
}

impl Default for LognormalRatesSpec {
    fn default() -> Self {
        Self {
            downlink_median_mbit_per_s: 1000.0,
            downlink_log_sigma: 0.0,
            uplink_median_mbit_per_s: 1000.0,
            uplink_log_sigma: 0.0,
            correlation: 0.0,
            transfer_log_sigma: 0.0,
        }
    }
}

/// A file with a line per change of a user's rates: `user,time_s,down_mbit_per_s,up_mbit_per_s`.
///
/// The rates of a line hold until the user's next line. A user's first line is of time 0. Users are
/// numbered from 0 without gaps; those beyond the last one start again with the first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "LinkTrace")]
pub struct LinkTraceSpec {
    /// The file, as it is or below a data folder.
    #[schemars(length(min = 1))]
    pub path: PathBuf,
    /// The lines of every user begin again after so many seconds. Without it, a user's last line
    /// holds as long as the one before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1e9), extend("exclusiveMinimum" = 0.0))]
    pub period_s: Option<f64>,
}

/// How transfers share a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// Equally, as far as their own links let them. A link carries its whole rate, and a frame
    /// arrives after half a round trip.
    #[default]
    Equal,
    /// As TCP does, after SimGrid's model LV08: in inverse proportion to the round-trip time, with
    /// a window of 4 MiB, 97 percent of a link's rate, and 13.01 times half a round trip before the
    /// first byte leaves.
    Tcp,
}

/// The server's link, which all transfers in progress share. By default it is no limit at all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "ServerLink")]
pub struct ServerLinkSpec {
    /// The numbers to start from; `fedrecsim presets` lists them with their sources.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "server_presets")]
    pub preset: Option<String>,
    /// What all downloads (server to clients) in progress share; no limit if absent.
    #[serde(
        rename = "downlink_mbit_per_s",
        with = "mbit_per_s",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<f64>", range(min = 1e-6, max = 1e9))]
    pub downlink: Option<BitsPerSecond>,
    /// What all uploads (clients to server) in progress share; no limit if absent.
    #[serde(
        rename = "uplink_mbit_per_s",
        with = "mbit_per_s",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<f64>", range(min = 1e-6, max = 1e9))]
    pub uplink: Option<BitsPerSecond>,
    /// Transfers at once, both directions together; more wait in line. No limit if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub connections: Option<u32>,
}

fn server_presets(_: &mut SchemaGenerator) -> Schema {
    presets::names("network.server")
}

/// Reads and writes a rate as a number of megabits a second.
mod mbit_per_s {
    use fedrecsim_core::units::BitsPerSecond;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        rate: &Option<BitsPerSecond>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        rate.map(BitsPerSecond::as_mbit_f64).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<BitsPerSecond>, D::Error> {
        Ok(Option::deserialize(deserializer)?.map(BitsPerSecond::from_mbit_f64))
    }
}

pub(in super::super) fn check(scenario: &Scenario, checker: &mut Checker<'_>) {
    let network = &scenario.network;
    if let RatesSpec::Lognormal(rates) = &network.rates {
        checker.idle_if(
            rates.downlink_log_sigma == 0.0 || rates.uplink_log_sigma == 0.0,
            "network.rates.lognormal.correlation",
            "the rates of one direction are the same for every user, as its `log_sigma` is 0",
        );
    }
    checker.idle_if(
        network.rtt_ms == 0.0,
        "network.rtt_log_sigma",
        "`rtt_ms` is 0 for every user",
    );
}
