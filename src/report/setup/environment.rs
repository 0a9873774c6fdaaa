//! Describes the environment of the clients in words: links, devices, availability and faults.

use crate::population::shared_capacity;
use crate::report::record::RunRecord;
use crate::report::words::{counted, share, thousands};
use crate::scenario::{
    AvailabilityPattern, AvailabilitySpec, DeviceClassSpec, DevicesSpec, FaultEffect, FaultSpec, FaultUsers,
    MemorySpec, NetworkSpec, RecurringOutageSpec, ServerLinkSpec, Sharing, SpeedSpec, presets,
};
use crate::units::{BitsPerSecond, Direction};

/// Returns the beginning of a description, which names the preset if there is one.
fn preset(name: Option<&String>) -> String {
    name.map_or_else(String::new, |name| format!("preset `{name}`; "))
}

pub(super) fn network(network: &NetworkSpec) -> String {
    let rates = match &network.trace {
        None => format!(
            "down {} Mbit/s median (log-sigma {}), up {} Mbit/s median (log-sigma {}), correlation {}, \
             log-sigma per transfer {}",
            network.downlink_median_mbit_per_s,
            network.downlink_log_sigma,
            network.uplink_median_mbit_per_s,
            network.uplink_log_sigma,
            network.correlation,
            network.transfer_log_sigma,
        ),
        Some(trace) => format!("rates from the trace `{}`{}", trace.path.display(), again(trace.period_s)),
    };
    let sharing = match network.sharing {
        Sharing::Equal => "",
        Sharing::Tcp => "; start-up, rates and shares as TCP's (LV08)",
    };
    format!(
        "{}{rates}; round trip {} ms median (log-sigma {}); dropout {} per participation{sharing}",
        preset(network.preset.as_ref()),
        network.rtt_ms,
        network.rtt_log_sigma,
        share(network.dropout),
    )
}

/// Returns the words for the period of a trace; none if the scenario does not state it.
fn again(period_s: Option<f64>) -> String {
    period_s.map_or_else(String::new, |period_s| format!(", over again every {period_s} s"))
}

/// Describes the server's link; `None` if it limits nothing.
pub(super) fn server_link(server: &ServerLinkSpec) -> Option<String> {
    if *server == ServerLinkSpec::default() {
        return None;
    }
    let rate = |rate: Option<BitsPerSecond>| match rate {
        Some(rate) => format!("{} Mbit/s", rate.as_mbit_f64()),
        None => "unlimited".to_owned(),
    };
    let connections = match server.connections {
        Some(connections) => format!("at most {} at once", counted(connections.into(), "transfer")),
        None => "any number of transfers at once".to_owned(),
    };
    let (down, up) = (rate(server.downlink), rate(server.uplink));
    Some(format!(
        "{}down {down}, up {up}, shared by the transfers in progress; {connections}",
        preset(server.preset.as_ref())
    ))
}

/// Returns how much of its capacity the server's link carried, on average over the run; `None` if it has no limit, or
/// if the run stopped between the rounds whose time is known.
pub(in crate::report) fn server_link_use(record: &RunRecord) -> Option<String> {
    let capacity = |direction| shared_capacity(&record.scenario.network, direction);
    let elsewhere = record.third_party_bytes.unwrap_or_default();
    let sides = [
        ("down", capacity(Direction::Down), record.bytes.down.sent - elsewhere.down.sent),
        ("up", capacity(Direction::Up), record.bytes.up.sent - elsewhere.up.sent),
    ];
    let used = |(direction, capacity, sent): (&str, Option<BitsPerSecond>, u64)| {
        let could_carry = capacity?.get() as f64 / 8.0 * record.virtual_time_s;
        Some(format!("{direction} {} of what it can carry", share(sent as f64 / could_carry)))
    };
    let used: Vec<String> = sides.into_iter().filter_map(used).collect();
    (record.complete && record.virtual_time_s > 0.0 && !used.is_empty()).then(|| used.join(", "))
}

pub(super) fn devices(devices: &DevicesSpec) -> String {
    let mut words = preset(devices.preset.as_ref());
    match &devices.speed {
        SpeedSpec::Lognormal { median_ns_per_row_visit, log_sigma } => {
            words += &format!("{median_ns_per_row_visit} ns per row visit median (log-sigma {log_sigma})");
        }
        SpeedSpec::Classes(classes) => {
            let class = |class: &DeviceClassSpec| {
                let part =
                    |number: Option<f64>, unit| number.map_or_else(String::new, |number| format!(", {number} {unit}"));
                let others = [
                    part(class.ns_per_multiply_add, "ns per multiply-add"),
                    part(class.fixed_ms_per_participation, "ms per participation"),
                    part(class.memory_mb, "MB"),
                ]
                .concat();
                format!(
                    "{} `{}` with {} ns per row visit median (log-sigma {}){others}",
                    share(class.share),
                    class.name,
                    class.ns_per_row_visit,
                    class.log_sigma
                )
            };
            words += &classes.iter().map(class).collect::<Vec<_>>().join("; ");
        }
        SpeedSpec::Trace(path) => words += &format!("from the trace `{}`", path.display()),
    }
    let times = [
        (devices.ns_per_multiply_add, "ns per multiply-add"),
        (devices.fixed_ms_per_participation, "ms per participation"),
    ];
    for (time, unit) in times.into_iter().filter(|(time, _)| *time > 0.0) {
        words += &format!("; {time} {unit}");
    }
    if presets::assumes_times(devices) {
        words += "; assumption: the times per multiply-add and per participation, which are the preset's";
    }
    match devices.memory {
        None => {}
        Some(MemorySpec { median_mb, log_sigma: 0.0 }) => words += &format!("; {median_mb} MB of memory"),
        Some(MemorySpec { median_mb, log_sigma }) => {
            words += &format!("; {median_mb} MB of memory median (log-sigma {log_sigma})");
        }
    }
    let energies = [
        (devices.energy_nj_per_byte, "byte"),
        (devices.energy_nj_per_row_visit, "row visit"),
        (devices.energy_nj_per_multiply_add, "multiply-add"),
    ];
    for (energy, unit) in energies {
        if let Some(energy) = energy {
            words += &format!("; {energy} nJ per {unit}");
        }
    }
    words
}

/// Describes when users are available; `None` if they always are.
pub(super) fn availability(availability: &AvailabilitySpec) -> Option<String> {
    let words = match &availability.pattern {
        AvailabilityPattern::Always => return None,
        AvailabilityPattern::Daily(daily) => {
            let zones = match daily.utc_offsets.len() {
                0 => "24 time zones".to_owned(),
                count => counted(count as u64, "time zone"),
            };
            format!(
                "{} hours a day from {} o'clock, give or take {} hours by user, in {zones}",
                daily.hours_on, daily.starts_at_hour, daily.jitter_hours
            )
        }
        AvailabilityPattern::OnOff(on_off) => {
            format!("stays of {} s and gaps of {} s on average, exponential", on_off.mean_on_s, on_off.mean_off_s)
        }
        AvailabilityPattern::Trace(trace) => {
            format!("from the trace `{}`{}", trace.path.display(), again(trace.period_s))
        }
    };
    Some(preset(availability.preset.as_ref()) + &words)
}

/// Describes the fault rules; `None` if there is none.
pub(super) fn faults(rules: &[FaultSpec]) -> Option<String> {
    (!rules.is_empty()).then(|| rules.iter().map(fault).collect::<Vec<_>>().join("; "))
}

fn fault(rule: &FaultSpec) -> String {
    let what = match rule.direction {
        None if rule.effect.is_outage() => "nobody",
        None => "transfers",
        Some(Direction::Up) => "uploads",
        Some(Direction::Down) => "downloads",
    };
    let effect = match rule.effect {
        FaultEffect::Delay(seconds) => format!("arrive {seconds} s later"),
        FaultEffect::Drop => "are lost".to_owned(),
        FaultEffect::CutAtByte(bytes) => format!("are cut at byte {bytes}"),
        FaultEffect::Corrupt => "are corrupted".to_owned(),
        FaultEffect::Outage => "is there".to_owned(),
        FaultEffect::RecurringOutage(RecurringOutageSpec { mean_gap_s, mean_duration_s }) => {
            format!("is there during outages of {mean_duration_s} s with {mean_gap_s} s between them on average")
        }
    };
    let whose = match &rule.users {
        None => String::new(),
        Some(FaultUsers::Share(of_all)) => format!(" of {} of the users", share(*of_all)),
        Some(FaultUsers::Numbers(numbers)) => format!(" of {}", counted(numbers.len() as u64, "named user")),
        Some(FaultUsers::DeviceClasses(names)) => {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            format!(" of the users with devices {}", names.join(", "))
        }
        Some(FaultUsers::UtcOffsets(offsets)) => {
            let offsets: Vec<String> = offsets.iter().map(|offset| format!("{offset:+}")).collect();
            format!(" of the users in the time zones {}", offsets.join(", "))
        }
    };
    let when = match (rule.from_s, rule.until_s) {
        (0.0, None) => String::new(),
        (from_s, None) => format!(" from {from_s} s on"),
        (from_s, Some(until_s)) => format!(" from {from_s} s to {until_s} s"),
    };
    let all = match rule.probability {
        1.0 => String::new(),
        rare if rare < 0.001 => format!("1 in {} of the ", thousands((1.0 / rare).round() as u64)),
        probability => format!("{} of the ", share(probability)),
    };
    format!("{}{all}{what}{whose} {effect}{when}", preset(rule.preset.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;
    use crate::scenario::{AvailabilityTraceSpec, LinkTraceSpec, OnOffSpec};

    #[test]
    fn what_limits_nothing_needs_no_line() {
        assert_eq!(server_link(&ServerLinkSpec::default()), None);
        assert_eq!(availability(&AvailabilitySpec::default()), None);
        assert_eq!(faults(&[]), None);
    }

    /// If this fails, an engineer is told that a full link has room, or the other way round.
    #[test]
    fn the_use_of_the_server_link_is_what_it_carried_of_what_it_could() {
        let mut record = sample::run(4);
        assert_eq!(server_link_use(&record), None, "it has no limit");
        record.virtual_time_s = 100.0;
        record.bytes.down.sent = 1_000_000;
        record.bytes.up.sent = 250;
        record.scenario.network.server.downlink = Some(BitsPerSecond::new(100_000));
        assert_eq!(server_link_use(&record).as_deref(), Some("down 80.0 % of what it can carry"));
        record.scenario.network.server.uplink = Some(BitsPerSecond::new(1_000));
        assert_eq!(
            server_link_use(&record).as_deref(),
            Some("down 80.0 % of what it can carry, up 2.0 % of what it can carry")
        );
        record.complete = false;
        assert_eq!(server_link_use(&record), None, "bytes of a round whose time is not known");
    }

    #[test]
    fn the_server_link_is_told_with_what_it_shares() {
        let [one_gbit, ..] = presets::server_links();
        let words = server_link(&ServerLinkSpec { uplink: None, connections: Some(1), ..one_gbit.values });
        let expected = "preset `port-1-gbit`; down 1000 Mbit/s, up unlimited, shared by the transfers in progress; \
                        at most 1 transfer at once";
        assert_eq!(words.as_deref(), Some(expected));
    }

    #[test]
    fn devices_are_told_by_distribution_class_or_file() {
        let base = DevicesSpec {
            memory: Some(MemorySpec { median_mb: 64.0, log_sigma: 0.0 }),
            energy_nj_per_byte: Some(3.0),
            energy_nj_per_row_visit: Some(0.5),
            ..DevicesSpec::with_speed(SpeedSpec::Trace("d.csv".into()))
        };
        assert_eq!(devices(&base), "from the trace `d.csv`; 64 MB of memory; 3 nJ per byte; 0.5 nJ per row visit");
        let class = |name: &str, share, memory_mb| DeviceClassSpec {
            name: name.to_owned(),
            share,
            ns_per_row_visit: 25.0,
            log_sigma: 0.1,
            ns_per_multiply_add: None,
            fixed_ms_per_participation: memory_mb,
            memory_mb,
        };
        let classes = DevicesSpec {
            speed: SpeedSpec::Classes(vec![class("fast", 0.25, Some(9.0)), class("slow", 0.75, None)]),
            memory: Some(MemorySpec { median_mb: 64.0, log_sigma: 0.3 }),
            energy_nj_per_byte: None,
            energy_nj_per_row_visit: None,
            ..base
        };
        assert_eq!(
            devices(&classes),
            "25.0 % `fast` with 25 ns per row visit median (log-sigma 0.1), 9 ms per participation, 9 MB; 75.0 % `slow` with 25 ns per row visit \
             median (log-sigma 0.1); 64 MB of memory median (log-sigma 0.3)"
        );
    }

    /// If this fails, a reader takes a time that nobody has measured for a measured one.
    #[test]
    fn times_that_a_preset_assumes_are_told_to_be_assumptions() {
        let [.., phone, classes] = presets::devices().map(|preset| preset.values);
        let expected = "preset `phone-all-times`; 50 ns per row visit median (log-sigma 0.6); 0.5 ns per multiply-add; 800 \
                        ms per participation; assumption: the times per multiply-add and per participation, which are \
                        the preset's";
        assert_eq!(devices(&phone), expected);
        assert!(devices(&classes).contains("assumption: the times per multiply-add"));
        assert!(!devices(&DevicesSpec { ns_per_multiply_add: 2.0, ..phone }).contains("assumption"));
    }

    #[test]
    fn every_pattern_of_availability_is_told() {
        let words = |pattern| availability(&AvailabilitySpec { preset: None, pattern });
        let daily = AvailabilityPattern::Daily(presets::night_charging());
        let expected = "8 hours a day from 22 o'clock, give or take 2 hours by user, in 24 time zones";
        assert_eq!(words(daily).as_deref(), Some(expected));
        let on_off = AvailabilityPattern::OnOff(OnOffSpec { mean_on_s: 60.0, mean_off_s: 1.5 });
        assert_eq!(words(on_off).as_deref(), Some("stays of 60 s and gaps of 1.5 s on average, exponential"));
        let trace = AvailabilityTraceSpec { path: "a.csv".into(), period_s: Some(60.0) };
        let trace = words(AvailabilityPattern::Trace(trace));
        assert_eq!(trace.as_deref(), Some("from the trace `a.csv`, over again every 60 s"));
    }

    #[test]
    fn a_rule_of_faults_is_told_with_what_it_concerns() {
        let all = FaultSpec::always(FaultEffect::Drop);
        let [lost, bit_errors, _] = presets::faults().map(|preset| preset.values);
        let narrow = FaultSpec {
            preset: None,
            effect: FaultEffect::Delay(2.0),
            direction: Some(Direction::Up),
            from_s: 60.0,
            until_s: Some(120.0),
            users: Some(FaultUsers::Share(0.1)),
            probability: 0.25,
        };
        let expected =
            "transfers are lost; 25.0 % of the uploads of 10.0 % of the users arrive 2 s later from 60 s to 120 s";
        assert_eq!(faults(&[all, narrow]).as_deref(), Some(expected));
        let expected = "preset `lost-transfers`; 4.0 % of the transfers are lost; preset `undetected-bit-errors`; 1 in \
                        23,256 of the transfers are corrupted";
        assert_eq!(faults(&[lost, bit_errors]).as_deref(), Some(expected));
        let numbers = Some(FaultUsers::Numbers(vec![1, 2]));
        let outage = FaultSpec { users: numbers, from_s: 5.0, ..FaultSpec::always(FaultEffect::Outage) };
        let times = RecurringOutageSpec { mean_gap_s: 60.0, mean_duration_s: 9.0 };
        let expected = "nobody of 2 named users is there from 5 s on; nobody is there during outages of 9 s with 60 s \
                        between them on average";
        let again = FaultSpec::always(FaultEffect::RecurringOutage(times));
        assert_eq!(faults(&[outage, again]).as_deref(), Some(expected));
        let of = |users| FaultSpec { users: Some(users), ..FaultSpec::always(FaultEffect::Outage) };
        let rules = [
            of(FaultUsers::DeviceClasses(vec!["slow".to_owned(), "old".to_owned()])),
            of(FaultUsers::UtcOffsets(vec![5.5, -8.0])),
        ];
        let expected = "nobody of the users with devices `slow`, `old` is there; nobody of the users in the time zones \
                        +5.5, -8 is there";
        assert_eq!(faults(&rules).as_deref(), Some(expected));
    }

    #[test]
    fn a_network_is_told_with_its_trace_and_how_transfers_share() {
        let [lan, ..] = presets::networks();
        let trace = LinkTraceSpec { path: "l.csv".into(), period_s: Some(60.0) };
        let words = network(&NetworkSpec { trace: Some(trace), sharing: Sharing::Tcp, ..lan.values });
        let expected = "preset `lan`; rates from the trace `l.csv`, over again every 60 s; round trip 1 ms median \
                        (log-sigma 0); dropout 0.0 % per participation; start-up, rates and shares as TCP's (LV08)";
        assert_eq!(words, expected);
    }
}
