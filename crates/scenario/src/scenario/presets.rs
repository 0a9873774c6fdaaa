//! Named sets of numbers for links, devices, availability and faults, each with where the numbers
//! come from.

use super::spec::{
    AvailabilityPattern, AvailabilitySpec, DailySpec, DeviceClassSpec, DevicesSpec, FaultEffect,
    FaultSpec, FaultUsers, NetworkSpec, OnOffSpec, ServerLinkSpec, Sharing, SpeedSpec,
};
use fedrecsim_core::units::BitsPerSecond;

/// A named set of numbers.
#[derive(Clone, Debug)]
pub struct Preset<T> {
    /// Name, as a scenario's `preset` key gives it.
    pub name: &'static str,
    /// Where the numbers come from, and which of them nobody has measured.
    pub source: &'static str,
    /// The numbers.
    pub values: T,
}

/// Median time of a row visit in every device preset. It is not measured: see the sources.
const REFERENCE_NS_PER_ROW_VISIT: f64 = 50.0;

/// The time of a multiply-add in the device presets that state one. It is an assumption: see
/// `phone-all-times`.
const REFERENCE_NS_PER_MULTIPLY_ADD: f64 = 0.5;

/// The fixed time of a participation in the device presets that state one. It is an assumption: see
/// `phone-all-times`.
const REFERENCE_MS_PER_PARTICIPATION: f64 = 800.0;

/// The power that a phone which trains is assumed to take beyond an idle one. 1 W is 1 nJ for each
/// nanosecond.
const TRAINING_WATTS: f64 = 1.0;

/// Returns the network presets. The first one is what a scenario without a preset starts from.
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
        trace: None,
        sharing: Sharing::Equal,
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

/// Returns the presets of the server's link. Without one, that link has no limit.
pub(crate) fn server_links() -> [Preset<ServerLinkSpec>; 3] {
    let port = |name: &'static str, gbit: u64, source| {
        let rate = Some(BitsPerSecond::new(gbit * 1_000_000_000));
        let values = ServerLinkSpec {
            preset: Some(name.to_owned()),
            downlink: rate,
            uplink: rate,
            connections: None,
        };
        Preset {
            name,
            source,
            values,
        }
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
        Preset {
            name: "nginx-worker",
            source: "One worker process of the web server nginx as its documentation has it (core functionality): \
                     `worker_connections` is 512 by default, `worker_processes` 1. Packages of it often ship with \
                     other values; where it passes requests on, every transfer takes two connections. No limit of \
                     the rate.",
            values: ServerLinkSpec {
                preset: Some("nginx-worker".to_owned()),
                connections: Some(512),
                ..ServerLinkSpec::default()
            },
        },
    ]
}

/// Returns the device presets. The first one is what a scenario without a preset starts from.
pub(crate) fn devices() -> [Preset<DevicesSpec>; 8] {
    let [uniform, lognormal, wide, classes, wifi, lte] = devices_of_speeds();
    let [all_times, classes_with_all_times] = devices_with_all_times();
    [
        uniform,
        lognormal,
        wide,
        classes,
        wifi,
        lte,
        all_times,
        classes_with_all_times,
    ]
}

fn devices_of(name: &str, speed: SpeedSpec) -> DevicesSpec {
    DevicesSpec {
        preset: Some(name.to_owned()),
        ..DevicesSpec::with_speed(speed)
    }
}

fn lognormal(log_sigma: f64) -> SpeedSpec {
    SpeedSpec::Lognormal {
        median_ns_per_row_visit: REFERENCE_NS_PER_ROW_VISIT,
        log_sigma,
    }
}

/// Returns the classes of phones, without a time for anything but row visits.
fn phone_classes() -> Vec<DeviceClassSpec> {
    let class = |name: &str, share, ns_per_row_visit, memory_mb| DeviceClassSpec {
        name: name.to_owned(),
        share,
        ns_per_row_visit,
        log_sigma: 0.0,
        ns_per_multiply_add: None,
        fixed_ms_per_participation: None,
        memory_mb: Some(memory_mb),
    };
    vec![
        class("fast", 0.2, 25.0, 2048.0),
        class("middle", 0.5, 50.0, 1024.0),
        class("slow", 0.3, 125.0, 512.0),
    ]
}

/// Returns the presets that state the time of a row visit only.
fn devices_of_speeds() -> [Preset<DevicesSpec>; 6] {
    let with_energy = |name, nj_per_byte| DevicesSpec {
        energy_nj_per_byte: Some(nj_per_byte),
        energy_nj_per_row_visit: Some(REFERENCE_NS_PER_ROW_VISIT * TRAINING_WATTS),
        ..devices_of(name, lognormal(0.6))
    };
    [
        Preset {
            name: "uniform",
            source: "Defined, not measured: every device takes the same time. The median of 50 ns per row visit \
                     is a made-up reference value; replace it by what your devices need.",
            values: devices_of("uniform", lognormal(0.0)),
        },
        Preset {
            name: "phone-lognormal",
            source: "This project's central assumption for phones: lognormal speeds, log-sigma 0.6, so the \
                     slowest tenth takes 2.2 times the median or more. The median of 50 ns per row visit is a \
                     made-up reference value; replace it by what your devices need.",
            values: devices_of("phone-lognormal", lognormal(0.6)),
        },
        Preset {
            name: "phone-lognormal-wide",
            source: "The sensitivity case of phone-lognormal: log-sigma 0.93, so the slowest tenth takes 3.3 \
                     times the median or more. The median of 50 ns per row visit is a made-up reference value; \
                     replace it by what your devices need.",
            values: devices_of("phone-lognormal-wide", lognormal(0.93)),
        },
        Preset {
            name: "phone-classes",
            source: "An assumption, made up as a whole: three classes of phones, of which the slow one takes five \
                     times as long as the fast one, with the memory that an app in the background might have. Take \
                     it as a pattern for the classes of your own fleet.",
            values: devices_of("phone-classes", SpeedSpec::Classes(phone_classes())),
        },
        Preset {
            name: "phone-wifi",
            source: "The speeds of phone-lognormal, and energy. A byte: the power model of Huang et al. (A Close \
                     Examination of Performance and Power Characteristics of 4G LTE Networks, MobiSys 2012, table 4; \
                     numbers from memory, unchecked) for WiFi, 137.01 mW per Mbit/s down, 283.17 up, and 132.86 mW on \
                     top, at the median rates of wifi-2020: 141 nJ per bit down, 288 up; at lower ones, as behind a \
                     busy server, a bit takes more. One number serves both directions: their mean, 8 x 214.5 = 1716 \
                     nJ per byte. A row visit: an assumption, 1 W for the reference's 50 ns: 50 nJ.",
            values: with_energy("phone-wifi", 1716.0),
        },
        Preset {
            name: "phone-lte",
            source: "The same with the model of that paper for LTE, as unchecked: 51.97 mW per Mbit/s down, 438.39 \
                     up, and 1288.04 mW on top, at the median rates that it found (13 and 6 Mbit/s): 151 nJ per bit \
                     down, 653 up. One number serves both directions: their mean, 8 x 402 = 3216 nJ per byte; a run \
                     that mostly uploads needs more. Not counted is the tail after a transfer, which the paper found \
                     to be a large part. A row visit: the assumption of phone-wifi, 50 nJ.",
            values: with_energy("phone-lte", 3216.0),
        },
    ]
}

/// Returns the presets that state the times of multiply-adds and of participations as well.
fn devices_with_all_times() -> [Preset<DevicesSpec>; 2] {
    let with_all_times = |class: DeviceClassSpec| {
        // A class that is slower at row visits is slower at everything else by the same factor.
        let factor = class.ns_per_row_visit / REFERENCE_NS_PER_ROW_VISIT;
        DeviceClassSpec {
            ns_per_multiply_add: Some(REFERENCE_NS_PER_MULTIPLY_ADD * factor),
            fixed_ms_per_participation: Some(REFERENCE_MS_PER_PARTICIPATION * factor),
            ..class
        }
    };
    let classes = phone_classes().into_iter().map(with_all_times).collect();
    [
        Preset {
            name: "phone-all-times",
            source: "The speeds of phone-lognormal, and the two times that the other presets leave at 0. Both are \
                     assumptions. A multiply-add: a Cortex-A76 core has two vector pipelines (Arm Cortex-A76 Software \
                     Optimization Guide), hence at most 8 of them per cycle, and is assumed to run at 2.4 GHz and to \
                     reach a tenth of that: 0.5 ns. A participation: Android vitals calls the start of an app \
                     excessive from 5 s on if it is cold, 2 s if it is warm and 1.5 s if it is hot (App startup time, \
                     developer.android.com); 0.8 s is assumed for start and load of the table, the same for everyone.",
            values: DevicesSpec {
                ns_per_multiply_add: REFERENCE_NS_PER_MULTIPLY_ADD,
                fixed_ms_per_participation: REFERENCE_MS_PER_PARTICIPATION,
                ..devices_of("phone-all-times", lognormal(0.6))
            },
        },
        Preset {
            name: "phone-classes-all-times",
            source: "An assumption, made up as a whole: the classes of phone-classes, and for each of them the two times \
                     that phone-classes leaves at 0. The middle class has those of phone-all-times, 0.5 ns per \
                     multiply-add and 0.8 s per participation; the fast one takes half and the slow one 2.5 times as \
                     long, as for row visits.",
            values: devices_of("phone-classes-all-times", SpeedSpec::Classes(classes)),
        },
    ]
}

/// Returns whether the times per multiply-add and per participation are those that the preset of
/// `devices` assumes.
pub fn assumes_times(devices: &DevicesSpec) -> bool {
    let preset = self::devices()
        .into_iter()
        .find(|preset| devices.preset.as_deref() == Some(preset.name));
    preset
        .map(|preset| times_of(&preset.values))
        .is_some_and(|assumed| {
            assumed.iter().flatten().any(|time| *time > 0.0) && assumed == times_of(devices)
        })
}

/// Returns the times per multiply-add and per participation, of all devices and then of each class.
fn times_of(devices: &DevicesSpec) -> Vec<Option<f64>> {
    let mut times = vec![
        Some(devices.ns_per_multiply_add),
        Some(devices.fixed_ms_per_participation),
    ];
    if let SpeedSpec::Classes(classes) = &devices.speed {
        times.extend(
            classes
                .iter()
                .flat_map(|class| [class.ns_per_multiply_add, class.fixed_ms_per_participation]),
        );
    }
    times
}

/// Returns the presets of availability. Without one, users are always available.
pub(crate) fn availabilities() -> [Preset<AvailabilitySpec>; 3] {
    let spec = |name: &str, pattern| AvailabilitySpec {
        preset: Some(name.to_owned()),
        pattern,
    };
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
            values: spec(
                "night-charging",
                AvailabilityPattern::Daily(night_charging()),
            ),
        },
        Preset {
            name: "short-stays",
            source: "An assumption, made up as a whole: stays of 10 minutes on average, and 50 minutes between them, \
                     so that a sixth of the users is there at any time. For trying out what users who leave in the \
                     middle of a round cost.",
            values: spec(
                "short-stays",
                AvailabilityPattern::OnOff(OnOffSpec {
                    mean_on_s: 600.0,
                    mean_off_s: 3000.0,
                }),
            ),
        },
    ]
}

/// Returns the presets of fault rules. Without any rule, nothing goes wrong.
pub(crate) fn faults() -> [Preset<FaultSpec>; 3] {
    let rule = |name: &str, effect| FaultSpec {
        preset: Some(name.to_owned()),
        ..FaultSpec::always(effect)
    };
    [
        Preset {
            name: "lost-transfers",
            source: "After Bonawitz et al. (Towards Federated Learning at Scale: System Design, MLSys 2019): on average \
                     6 to 10 % of the devices drop out of a round, for computation errors, failures of the network or \
                     because they may not take part any more. That all of it are lost transfers, in both directions \
                     alike, is an assumption: 1 - (1 - 0.04)^2 = 7.8 % of the participations. `network.dropout` is \
                     another way to say the same; take one of them.",
            values: FaultSpec {
                probability: 0.04,
                ..rule("lost-transfers", FaultEffect::Drop)
            },
        },
        Preset {
            name: "undetected-bit-errors",
            source: "After Stone and Partridge (When the CRC and TCP Checksum Disagree, SIGCOMM 2000): TCP's checksum \
                     fails to detect an error in about 1 of 16 million to 10 billion packets. The worse end, for \
                     transfers of 1 MB (an assumption) in packets of 1460 bytes: 685 / 16e6 = 4.3e-5. What is \
                     encrypted has a stronger check than this.",
            values: FaultSpec {
                probability: 4.3e-5,
                ..rule("undetected-bit-errors", FaultEffect::Corrupt)
            },
        },
        Preset {
            name: "regional-outage",
            source: "An assumption, made up as a whole: a tenth of the users has no network for half an hour, from one \
                     hour after the start on; what they start to send or to receive then is lost. For trying out what \
                     losing the same users for a while costs.",
            values: FaultSpec {
                from_s: 3600.0,
                until_s: Some(5400.0),
                users: Some(FaultUsers::Share(0.1)),
                ..rule("regional-outage", FaultEffect::Drop)
            },
        },
    ]
}

/// Returns the window that daily availability starts from.
pub(crate) fn night_charging() -> DailySpec {
    DailySpec {
        hours_on: 8.0,
        starts_at_hour: 22.0,
        jitter_hours: 2.0,
        utc_offsets: Vec::new(),
    }
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
        for preset in faults() {
            assert_eq!(preset.values.preset.as_deref(), Some(preset.name));
        }
    }

    /// If this fails, a preset whose point is the time of an app's start or of dense layers has
    /// none, or one that is not what its source works out.
    #[test]
    fn presets_of_all_times_state_them_and_the_older_ones_do_not() {
        let with_times: Vec<_> = devices()
            .into_iter()
            .filter(|preset| assumes_times(&preset.values))
            .map(|preset| preset.name)
            .collect();
        assert_eq!(with_times, ["phone-all-times", "phone-classes-all-times"]);
        let tenth_of_peak_ns = 10.0 / (8.0 * 2.4);
        assert!((REFERENCE_NS_PER_MULTIPLY_ADD - tenth_of_peak_ns).abs() < 0.05);
        let [.., phone, classes] = devices().map(|preset| preset.values);
        let SpeedSpec::Classes(classes) = classes.speed else {
            panic!("it has classes")
        };
        let times = classes
            .iter()
            .map(|class| (class.ns_per_multiply_add, class.fixed_ms_per_participation));
        assert!(
            times.eq([(0.25, 400.0), (0.5, 800.0), (1.25, 2000.0)]
                .map(|(one, other)| (Some(one), Some(other))))
        );
        assert!(
            !assumes_times(&DevicesSpec {
                fixed_ms_per_participation: 5.0,
                ..phone
            }),
            "a time of one's own"
        );
    }

    #[test]
    fn energy_per_byte_is_what_its_source_works_out() {
        // A mW per Mbit/s is a nJ per bit.
        let per_byte = |[down, up, on_top]: [f64; 3],
                        [down_mbit_per_s, up_mbit_per_s]: [f64; 2]| {
            8.0 * (down + on_top / down_mbit_per_s + up + on_top / up_mbit_per_s) / 2.0
        };
        let [_, wifi, _] = networks().map(|preset| preset.values);
        let rates = [
            wifi.downlink_median_mbit_per_s,
            wifi.uplink_median_mbit_per_s,
        ];
        let of = |name| {
            devices()
                .into_iter()
                .find_map(|preset| (preset.name == name).then_some(preset.values))
        };
        let stated = |name| {
            of(name)
                .and_then(|values| values.energy_nj_per_byte)
                .map(f64::round)
        };
        assert_eq!(
            stated("phone-wifi"),
            Some(per_byte([137.01, 283.17, 132.86], rates).round())
        );
        assert_eq!(
            stated("phone-lte"),
            Some(per_byte([51.97, 438.39, 1288.04], [13.0, 6.0]).round())
        );
    }
}
