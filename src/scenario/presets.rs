//! Named sets of numbers for links and devices, each with where the numbers come from.

use super::spec::{DevicesSpec, NetworkSpec};

/// A named set of numbers.
#[derive(Clone, Debug)]
pub struct Preset<T> {
    /// Name, as a scenario's `preset` key gives it.
    pub name: &'static str,
    /// Where the numbers come from, and which of them are nobody's measurement.
    pub source: &'static str,
    /// The numbers.
    pub values: T,
}

/// Median time of a row visit in every device preset. No measurement stands behind it: see the sources.
const REFERENCE_NS_PER_ROW_VISIT: f64 = 50.0;

/// The network presets. The first one is what a scenario without a preset starts from.
pub fn networks() -> [Preset<NetworkSpec>; 3] {
    let lan = NetworkSpec {
        preset: Some("lan".to_owned()),
        downlink_median_mbit_per_s: 1000.0,
        downlink_log_sigma: 0.0,
        uplink_median_mbit_per_s: 1000.0,
        uplink_log_sigma: 0.0,
        correlation: 0.0,
        transfer_log_sigma: 0.0,
        rtt_ms: 1.0,
        rtt_log_sigma: 0.0,
        dropout: 0.0,
    };
    let wifi = NetworkSpec {
        preset: Some("wifi-2020".to_owned()),
        downlink_median_mbit_per_s: 34.5,
        downlink_log_sigma: 0.47,
        uplink_median_mbit_per_s: 26.3,
        uplink_log_sigma: 0.68,
        correlation: 0.45,
        transfer_log_sigma: 0.4,
        rtt_ms: 40.0,
        ..lan.clone()
    };
    let mobile = NetworkSpec {
        preset: Some("mobile-pessimistic".to_owned()),
        downlink_median_mbit_per_s: 6.1,
        downlink_log_sigma: 1.1,
        uplink_median_mbit_per_s: 6.1,
        uplink_log_sigma: 1.1,
        correlation: 1.0,
        rtt_ms: 60.0,
        ..lan.clone()
    };
    [
        Preset {
            name: "lan",
            source: "Defined, not measured: 1 Gbit/s both ways and 1 ms for everyone, so that virtual time is \
                     nearly all compute.",
            values: lan,
        },
        Preset {
            name: "wifi-2020",
            source: "Lognormal fit to the WiFi speed traces published with FLASH (Yang et al., Characterizing \
                     Impacts of Heterogeneity in Federated Learning upon Large-Scale Smartphone Data, WWW 2021): \
                     rates, their correlation, and the variation from transfer to transfer. No open data on \
                     round-trip times exists: rtt_ms = 40 is a placeholder for you to replace. Dropout is 0.",
            values: wifi,
        },
        Preset {
            name: "mobile-pessimistic",
            source: "The client bandwidth trace of FedScale (Lai et al., ICML 2022) as its users quote it: one \
                     rate per client, used for both directions, hence correlation 1 and no variation from \
                     transfer to transfer. No open data on round-trip times exists: rtt_ms = 60 is a placeholder \
                     for you to replace. Dropout is 0.",
            values: mobile,
        },
    ]
}

/// The device presets. The first one is what a scenario without a preset starts from.
pub fn devices() -> [Preset<DevicesSpec>; 3] {
    let values = |name: &str, log_sigma| DevicesSpec {
        preset: Some(name.to_owned()),
        median_ns_per_row_visit: REFERENCE_NS_PER_ROW_VISIT,
        log_sigma,
    };
    [
        Preset {
            name: "uniform",
            source: "Defined, not measured: every device takes the same time. The median of 50 ns per row visit \
                     is a made-up reference value; replace it by what your devices need.",
            values: values("uniform", 0.0),
        },
        Preset {
            name: "phone-lognormal",
            source: "This project's central assumption for phones: lognormal speeds, log-sigma 0.6, so the \
                     slowest tenth takes 2.2 times the median or more. The median of 50 ns per row visit is a \
                     made-up reference value; replace it by what your devices need.",
            values: values("phone-lognormal", 0.6),
        },
        Preset {
            name: "phone-lognormal-wide",
            source: "The sensitivity case of phone-lognormal: log-sigma 0.93, so the slowest tenth takes 3.3 \
                     times the median or more. The median of 50 ns per row visit is a made-up reference value; \
                     replace it by what your devices need.",
            values: values("phone-lognormal-wide", 0.93),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preset_names_itself() {
        for preset in networks() {
            assert_eq!(preset.values.preset.as_deref(), Some(preset.name));
        }
        for preset in devices() {
            assert_eq!(preset.values.preset.as_deref(), Some(preset.name));
        }
    }
}
