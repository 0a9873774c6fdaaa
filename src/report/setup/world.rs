//! The simulated world in words.

use crate::report::words::{counted, share};
use crate::scenario::{
    AvailabilityPattern, AvailabilitySpec, DevicesSpec, FaultEffect, FaultSpec, FaultUsers, MemorySpec, NetworkSpec,
    ServerLinkSpec, SpeedSpec,
};
use crate::units::{BitsPerSecond, Direction};

/// What a description starts with where a preset was named.
fn preset(name: Option<&String>) -> String {
    name.map_or_else(String::new, |name| format!("preset `{name}`; "))
}

pub(super) fn network(network: &NetworkSpec) -> String {
    format!(
        "{}down {} Mbit/s median (log-sigma {}), up {} Mbit/s median (log-sigma {}), correlation {}, \
         log-sigma per transfer {}; round trip {} ms median (log-sigma {}); dropout {} per participation",
        preset(network.preset.as_ref()),
        network.downlink_median_mbit_per_s,
        network.downlink_log_sigma,
        network.uplink_median_mbit_per_s,
        network.uplink_log_sigma,
        network.correlation,
        network.transfer_log_sigma,
        network.rtt_ms,
        network.rtt_log_sigma,
        share(network.dropout),
    )
}

/// `None` if it limits nothing.
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

pub(super) fn devices(devices: &DevicesSpec) -> String {
    let mut words = preset(devices.preset.as_ref());
    match &devices.speed {
        SpeedSpec::Lognormal { median_ns_per_row_visit, log_sigma } => {
            words += &format!("{median_ns_per_row_visit} ns per row visit median (log-sigma {log_sigma})");
        }
        SpeedSpec::Classes(classes) => {
            let class = |class: &crate::scenario::DeviceClassSpec| {
                let memory = class.memory_mb.map_or_else(String::new, |memory| format!(", {memory} MB"));
                format!(
                    "{} `{}` with {} ns per row visit median (log-sigma {}){memory}",
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
    match devices.memory {
        None => {}
        Some(MemorySpec { median_mb, log_sigma: 0.0 }) => words += &format!("; {median_mb} MB of memory"),
        Some(MemorySpec { median_mb, log_sigma }) => {
            words += &format!("; {median_mb} MB of memory median (log-sigma {log_sigma})");
        }
    }
    for (energy, unit) in [(devices.energy_nj_per_byte, "byte"), (devices.energy_nj_per_row_visit, "row visit")] {
        if let Some(energy) = energy {
            words += &format!("; {energy} nJ per {unit}");
        }
    }
    words
}

/// `None` if users are always there.
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
            let period = trace.period_s.map_or_else(String::new, |period_s| format!(", over again every {period_s} s"));
            format!("from the trace `{}`{period}", trace.path.display())
        }
    };
    Some(preset(availability.preset.as_ref()) + &words)
}

/// `None` if there is no rule.
pub(super) fn faults(rules: &[FaultSpec]) -> Option<String> {
    (!rules.is_empty()).then(|| rules.iter().map(fault).collect::<Vec<_>>().join("; "))
}

fn fault(rule: &FaultSpec) -> String {
    let what = match rule.direction {
        None => "transfers",
        Some(Direction::Up) => "uploads",
        Some(Direction::Down) => "downloads",
    };
    let effect = match rule.effect {
        FaultEffect::Delay(seconds) => format!("arrive {seconds} s later"),
        FaultEffect::Drop => "are lost".to_owned(),
        FaultEffect::CutAtByte(bytes) => format!("are cut at byte {bytes}"),
        FaultEffect::Corrupt => "are corrupted".to_owned(),
    };
    let whose = match &rule.users {
        None => String::new(),
        Some(FaultUsers::Share(of_all)) => format!(" of {} of the users", share(*of_all)),
        Some(FaultUsers::Numbers(numbers)) => format!(" of {}", counted(numbers.len() as u64, "named user")),
    };
    let when = match (rule.from_s, rule.until_s) {
        (0.0, None) => String::new(),
        (from_s, None) => format!(" from {from_s} s on"),
        (from_s, Some(until_s)) => format!(" from {from_s} s to {until_s} s"),
    };
    let all = if rule.probability < 1.0 { format!("{} of the ", share(rule.probability)) } else { String::new() };
    format!("{all}{what}{whose} {effect}{when}")
}
