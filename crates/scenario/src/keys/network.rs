//! `[network]`: the links between the server and the users' devices.

use std::path::PathBuf;

use super::{Scenario, is_default};
use crate::check::Checker;
use crate::{choices, keys, presets, variants};

keys! {
    /// Links between the server and the users' devices. Without a preset, keys that are not given
    /// are those of the preset `lan`.
    pub struct NetworkSpec {
        /// The numbers to start from; `fedrecsim presets` lists them with their sources.
        #[schemars(extend("oneOf" = presets::names("network")))]
        preset: Option<String> = None;
        /// The rates of users' links.
        rates: RatesSpec = RatesSpec::Lognormal(LognormalRatesSpec::default());
        /// Median round-trip time of a user; a transfer starts to arrive after half of it.
        rtt_ms: f64 = 1.0, >= 0.0, <= 1e9;
        /// Standard deviation of the logarithm of a user's round-trip time.
        rtt_log_sigma: f64 = 0.0, >= 0.0, <= 5.0;
        /// Probability that a participation is lost, at a uniformly random instant of it.
        dropout: f64 = 0.0, >= 0.0, <= 1.0;
        /// How transfers share the server's link.
        #[serde(skip_serializing_if = "is_default")]
        sharing: Sharing = Sharing::Equal;
        /// The server's own link, which all transfers in progress share; no limit if absent.
        #[serde(skip_serializing_if = "is_default")]
        server: ServerLinkSpec = ServerLinkSpec::default();
    }
}

variants! {
    /// Where the rates of users' links come from.
    pub enum RatesSpec {
        /// Drawn for each user, lognormal.
        Lognormal(LognormalRatesSpec),
        /// Measured rates of every user, from a file with a line per change of a user's rates:
        /// `user,time_s,down_mbit_per_s,up_mbit_per_s`.
        /// The rates of a line hold until the user's next line; at 0 nothing moves, and the least rate
        /// beside it is 1e-6. A user's first line is of time 0.
        /// Users are numbered from 0 without gaps; those beyond the last one start again with the
        /// first. A column `name` in place of `user` has names of the ratings file; every user of the run is then there.
        Trace {
            /// The file, as it is or below a data folder.
            #[schemars(length(min = 1))]
            path: PathBuf,
            /// The lines of every user begin again after this many seconds. Without it, a user's last
            /// line holds as long as the one before.
            #[schemars(range(max = 1e9), extend("exclusiveMinimum" = 0.0))]
            period_s: Option<f64>,
        },
    }
}

keys! {
    /// Lognormal rates. Without a preset, keys that are not given are those of the preset `lan`.
    pub struct LognormalRatesSpec {
        /// Median downlink rate of a user.
        downlink_median_mbit_per_s: f64 = 1000.0, >= 1e-6, <= 1e9;
        /// Standard deviation of the logarithm of a user's downlink rate.
        downlink_log_sigma: f64 = 0.0, >= 0.0, <= 5.0;
        /// Median uplink rate of a user.
        uplink_median_mbit_per_s: f64 = 1000.0, >= 1e-6, <= 1e9;
        /// Standard deviation of the logarithm of a user's uplink rate.
        uplink_log_sigma: f64 = 0.0, >= 0.0, <= 5.0;
        /// Correlation of the logarithms of a user's two rates.
        correlation: f64 = 0.0, >= -1.0, <= 1.0;
        /// Standard deviation of the logarithm of a single transfer's rate around its user's.
        transfer_log_sigma: f64 = 0.0, >= 0.0, <= 5.0;
    }
}

choices! {
    /// How transfers share a link.
    #[derive(Default)]
    pub enum Sharing {
        /// Equally, as far as their own links let them. A link carries its whole rate, and a frame
        /// arrives after half a round trip.
        #[default]
        Equal,
        /// As TCP does, after SimGrid's model LV08: in inverse proportion to the round-trip time,
        /// with a window of 4 MiB and 97 percent of a link's rate. The first byte leaves after
        /// 13.01 times half a round trip.
        Tcp,
    }
}

keys! {
    /// The server's link, which all transfers in progress share. By default it is no limit at all.
    pub struct ServerLinkSpec {
        /// The numbers to start from; `fedrecsim presets` lists them with their sources.
        #[schemars(extend("oneOf" = presets::names("network.server")))]
        preset: Option<String> = None;
        /// What all downloads (server to clients) in progress share; no limit if absent.
        downlink_mbit_per_s: Option<f64> = None, >= 1e-6, <= 1e9;
        /// What all uploads (clients to server) in progress share; no limit if absent.
        uplink_mbit_per_s: Option<f64> = None, >= 1e-6, <= 1e9;
        /// Transfers at once, both directions together; more wait in line. No limit if absent.
        connections: Option<u32> = None, >= 1;
    }
}

pub(super) fn check(scenario: &Scenario, checker: &mut Checker<'_>) {
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
