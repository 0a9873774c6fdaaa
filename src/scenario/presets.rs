//! Named sets of numbers for links, devices and availability, each with where the numbers come from.

use super::spec::{
    AvailabilityPattern, AvailabilitySpec, DailySpec, DeviceClassSpec, DevicesSpec, NetworkSpec, OnOffSpec,
    ServerLinkSpec, SpeedSpec,
};
use crate::units::BitsPerSecond;

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
        server: ServerLinkSpec::default(),
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

/// The presets of the server's link. Without one it is no limit.
pub fn server_links() -> [Preset<ServerLinkSpec>; 2] {
    let port = |name: &'static str, gbit: u64, source| {
        let rate = Some(BitsPerSecond::new(gbit * 1_000_000_000));
        let values = ServerLinkSpec { preset: Some(name.to_owned()), downlink: rate, uplink: rate, connections: None };
        Preset { name, source, values }
    };
    [
        port(
            "port-1-gbit",
            1,
            "Defined, not measured: one full-duplex port of 1 Gbit/s, shared by all transfers in progress, without a \
             cap on connections.",
        ),
        port(
            "port-10-gbit",
            10,
            "Defined, not measured: one full-duplex port of 10 Gbit/s, shared by all transfers in progress, without a \
             cap on connections.",
        ),
    ]
}

/// The device presets. The first one is what a scenario without a preset starts from.
pub fn devices() -> [Preset<DevicesSpec>; 4] {
    let values = |name: &str, speed| DevicesSpec {
        preset: Some(name.to_owned()),
        speed,
        memory: None,
        energy_nj_per_byte: None,
        energy_nj_per_row_visit: None,
    };
    let lognormal = |log_sigma| SpeedSpec::Lognormal { median_ns_per_row_visit: REFERENCE_NS_PER_ROW_VISIT, log_sigma };
    let class = |name: &str, share, ns_per_row_visit, memory_mb| DeviceClassSpec {
        name: name.to_owned(),
        share,
        ns_per_row_visit,
        log_sigma: 0.0,
        memory_mb: Some(memory_mb),
    };
    let classes =
        vec![class("fast", 0.2, 25.0, 2048.0), class("middle", 0.5, 50.0, 1024.0), class("slow", 0.3, 125.0, 512.0)];
    [
        Preset {
            name: "uniform",
            source: "Defined, not measured: every device takes the same time. The median of 50 ns per row visit \
                     is a made-up reference value; replace it by what your devices need.",
            values: values("uniform", lognormal(0.0)),
        },
        Preset {
            name: "phone-lognormal",
            source: "This project's central assumption for phones: lognormal speeds, log-sigma 0.6, so the \
                     slowest tenth takes 2.2 times the median or more. The median of 50 ns per row visit is a \
                     made-up reference value; replace it by what your devices need.",
            values: values("phone-lognormal", lognormal(0.6)),
        },
        Preset {
            name: "phone-lognormal-wide",
            source: "The sensitivity case of phone-lognormal: log-sigma 0.93, so the slowest tenth takes 3.3 \
                     times the median or more. The median of 50 ns per row visit is a made-up reference value; \
                     replace it by what your devices need.",
            values: values("phone-lognormal-wide", lognormal(0.93)),
        },
        Preset {
            name: "phone-classes",
            source: "An assumption, made up as a whole: three classes of phones, of which the slow one takes five \
                     times as long as the fast one, with the memory that an app in the background might have. Take \
                     it as a pattern for the classes of your own fleet.",
            values: values("phone-classes", SpeedSpec::Classes(classes)),
        },
    ]
}

/// The presets of availability. Without one, users are always available.
pub fn availabilities() -> [Preset<AvailabilitySpec>; 3] {
    let spec = |name: &str, pattern| AvailabilitySpec { preset: Some(name.to_owned()), pattern };
    [
        Preset {
            name: "always",
            source: "Defined, not measured: every user can take part at any time.",
            values: spec("always", AvailabilityPattern::Always),
        },
        Preset {
            name: "night-charging",
            source: "After the conditions of Bonawitz et al. (Towards Federated Learning at Scale: System Design, \
                     MLSys 2019): phones take part while they are idle, charging and on an unmetered network, which \
                     is mostly at night. The window itself (8 hours from 22:00 local time, up to 2 hours earlier or \
                     later by user) and users spread evenly over all time zones are assumptions, not measurements.",
            values: spec("night-charging", AvailabilityPattern::Daily(night_charging())),
        },
        Preset {
            name: "short-stays",
            source: "An assumption, made up as a whole: stays of 10 minutes on average, and 50 minutes between them, \
                     so that a sixth of the users is there at any time. For trying out what users who leave in the \
                     middle of a round cost.",
            values: spec("short-stays", AvailabilityPattern::OnOff(OnOffSpec { mean_on_s: 600.0, mean_off_s: 3000.0 })),
        },
    ]
}

/// The window that daily availability starts from.
pub fn night_charging() -> DailySpec {
    DailySpec { hours_on: 8.0, starts_at_hour: 22.0, jitter_hours: 2.0, utc_offsets: Vec::new() }
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
        for preset in server_links() {
            assert_eq!(preset.values.preset.as_deref(), Some(preset.name));
        }
        for preset in availabilities() {
            assert_eq!(preset.values.preset.as_deref(), Some(preset.name));
        }
    }
}
