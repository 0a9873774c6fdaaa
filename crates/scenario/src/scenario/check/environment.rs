//! The rules for the environment of the clients: resolves the presets and refuses keys that exclude
//! one another.

use super::super::plain_schema::decimal;
use super::super::presets::{self, Preset};
use super::super::raw::{
    RawAvailability, RawDaily, RawDevices, RawNetwork, RawOnOff, RawScenario, RawServerLink,
};
use super::super::spec::{
    AvailabilityPattern, AvailabilitySpec, DailySpec, DeviceClassSpec, DevicesSpec, MemorySpec,
    NetworkSpec, OnOffSpec, ServerLinkSpec, SpeedSpec,
};
use super::Checker;
use fedrecsim_core::units::BitsPerSecond;

/// The largest distance from 1 that the sum of the shares of device classes may have.
const SHARES_TOLERANCE: f64 = 1e-6;

/// Returns the numbers of the preset called `name`, if one is named. The schema has refused unknown
/// names.
pub(super) fn named<T, const COUNT: usize>(
    presets: [Preset<T>; COUNT],
    name: Option<&str>,
) -> Option<T> {
    presets
        .into_iter()
        .find(|preset| Some(preset.name) == name)
        .map(|preset| preset.values)
}

pub(super) fn network(raw: RawNetwork) -> NetworkSpec {
    let [lan, ..] = presets::networks();
    let base = named(presets::networks(), raw.preset.as_deref()).unwrap_or(lan.values);
    NetworkSpec {
        preset: raw.preset,
        downlink_median_mbit_per_s: raw
            .downlink_median_mbit_per_s
            .unwrap_or(base.downlink_median_mbit_per_s),
        downlink_log_sigma: raw.downlink_log_sigma.unwrap_or(base.downlink_log_sigma),
        uplink_median_mbit_per_s: raw
            .uplink_median_mbit_per_s
            .unwrap_or(base.uplink_median_mbit_per_s),
        uplink_log_sigma: raw.uplink_log_sigma.unwrap_or(base.uplink_log_sigma),
        correlation: raw.correlation.unwrap_or(base.correlation),
        transfer_log_sigma: raw.transfer_log_sigma.unwrap_or(base.transfer_log_sigma),
        rtt_ms: raw.rtt_ms.unwrap_or(base.rtt_ms),
        rtt_log_sigma: raw.rtt_log_sigma.unwrap_or(base.rtt_log_sigma),
        dropout: raw.dropout.unwrap_or(base.dropout),
        trace: raw.trace.or(base.trace),
        sharing: raw.sharing.unwrap_or(base.sharing),
        server: server(raw.server),
    }
}

fn server(raw: RawServerLink) -> ServerLinkSpec {
    let base = named(presets::server_links(), raw.preset.as_deref()).unwrap_or_default();
    ServerLinkSpec {
        preset: raw.preset,
        downlink: raw
            .downlink_mbit_per_s
            .map(BitsPerSecond::from_mbit_f64)
            .or(base.downlink),
        uplink: raw
            .uplink_mbit_per_s
            .map(BitsPerSecond::from_mbit_f64)
            .or(base.uplink),
        connections: raw.connections.or(base.connections),
    }
}

impl Checker<'_> {
    /// Refuses numbers that rates would be drawn with where they are read from a trace.
    pub(super) fn rates_beside_trace(&mut self, raw: &RawNetwork) {
        if raw.trace.is_none() {
            return;
        }
        let written = [
            ("downlink_median_mbit_per_s", raw.downlink_median_mbit_per_s),
            ("downlink_log_sigma", raw.downlink_log_sigma),
            ("uplink_median_mbit_per_s", raw.uplink_median_mbit_per_s),
            ("uplink_log_sigma", raw.uplink_log_sigma),
            ("correlation", raw.correlation),
            ("transfer_log_sigma", raw.transfer_log_sigma),
        ];
        for (key, _) in written.into_iter().filter(|(_, value)| value.is_some()) {
            self.fault(
                &["network", key],
                format!("`{key}` has no meaning here: the rates come from a `trace`"),
            );
        }
    }

    /// Refuses times above 0 that the clock, which counts nanoseconds, would take for 0. Times that
    /// cannot be 0 have their least value in the schema.
    pub(super) fn times(&mut self, raw: &RawScenario) {
        let fixed = "fixed_ms_per_participation";
        let mut times = vec![
            (vec!["network", "rtt_ms"], raw.network.rtt_ms, 1e-6),
            (
                vec!["devices", fixed],
                raw.devices.fixed_ms_per_participation,
                1e-6,
            ),
        ];
        let numbers: Vec<String> = (0..100).map(|number: u32| number.to_string()).collect();
        for (class, number) in raw.devices.classes.iter().flatten().zip(&numbers) {
            times.push((
                vec!["devices", "classes", number, fixed],
                class.fixed_ms_per_participation,
                1e-6,
            ));
        }
        for (rule, number) in raw.faults.iter().zip(&numbers) {
            times.push((vec!["faults", number, "from_s"], rule.from_s, 1e-9));
        }
        for (path, time, least) in times {
            if let (Some(time), Some(key)) = (
                time.filter(|time| *time > 0.0 && *time < least),
                path.last(),
            ) {
                let (time, least) = (decimal(time), decimal(least));
                let message = format!(
                    "`{key}` is {time}, which is taken for 0: write 0 or at least {least}, a nanosecond"
                );
                self.fault(&path, message);
            }
        }
    }

    pub(super) fn devices(&mut self, raw: RawDevices) -> DevicesSpec {
        let memory = self.memory(&raw);
        let speed = self.speed(&raw);
        let base = named(presets::devices(), raw.preset.as_deref());
        let base = base.unwrap_or_else(|| DevicesSpec::with_speed(speed.clone()));
        DevicesSpec {
            preset: raw.preset,
            speed,
            ns_per_multiply_add: raw.ns_per_multiply_add.unwrap_or(base.ns_per_multiply_add),
            fixed_ms_per_participation: raw
                .fixed_ms_per_participation
                .unwrap_or(base.fixed_ms_per_participation),
            memory: memory.or(base.memory),
            energy_nj_per_byte: raw.energy_nj_per_byte.or(base.energy_nj_per_byte),
            energy_nj_per_row_visit: raw.energy_nj_per_row_visit.or(base.energy_nj_per_row_visit),
            energy_nj_per_multiply_add: raw
                .energy_nj_per_multiply_add
                .or(base.energy_nj_per_multiply_add),
        }
    }

    fn speed(&mut self, raw: &RawDevices) -> SpeedSpec {
        let [uniform, ..] = presets::devices();
        let base = named(presets::devices(), raw.preset.as_deref()).unwrap_or(uniform.values);
        let lognormal_keys = ["median_ns_per_row_visit", "log_sigma"];
        let written = [raw.median_ns_per_row_visit, raw.log_sigma].map(|value| value.is_some());
        let distribution = match (&raw.classes, &raw.trace, &base.speed) {
            (Some(classes), trace, _) => {
                if trace.is_some() {
                    self.fault(
                        &["devices", "trace"],
                        "devices come from `classes` or from a `trace`, not from both",
                    );
                }
                self.shares(classes);
                self.memory_beside_classes(raw, classes);
                SpeedSpec::Classes(classes.clone())
            }
            (None, Some(trace), _) => SpeedSpec::Trace(trace.path.clone()),
            (
                None,
                None,
                SpeedSpec::Lognormal {
                    median_ns_per_row_visit,
                    log_sigma,
                },
            ) => {
                return SpeedSpec::Lognormal {
                    median_ns_per_row_visit: raw
                        .median_ns_per_row_visit
                        .unwrap_or(*median_ns_per_row_visit),
                    log_sigma: raw.log_sigma.unwrap_or(*log_sigma),
                };
            }
            (None, None, other) => {
                if let SpeedSpec::Classes(classes) = other {
                    self.memory_beside_classes(raw, classes);
                }
                other.clone()
            }
        };
        let source = match &distribution {
            SpeedSpec::Trace(_) => "a `trace`",
            _ => "`classes`",
        };
        for (key, _) in lognormal_keys
            .iter()
            .zip(written)
            .filter(|(_, written)| *written)
        {
            self.fault(
                &["devices", key],
                format!("`{key}` has no meaning here: the speeds come from {source}"),
            );
        }
        distribution
    }

    fn shares(&mut self, classes: &[DeviceClassSpec]) {
        let sum: f64 = classes.iter().map(|class| class.share).sum();
        if (sum - 1.0).abs() > SHARES_TOLERANCE {
            let message = format!("the shares of the classes must add up to 1, found {sum}");
            self.fault(&["devices", "classes"], message);
        }
        for (index, class) in classes.iter().enumerate() {
            if classes[..index]
                .iter()
                .any(|other| other.name == class.name)
            {
                let message = format!(
                    "a class with the name `{}` stands here for the second time",
                    class.name
                );
                self.fault(&["devices", "classes", &index.to_string(), "name"], message);
            }
        }
    }

    /// Refuses a memory limit where every class has one of its own, as no device would heed it.
    fn memory_beside_classes(&mut self, raw: &RawDevices, classes: &[DeviceClassSpec]) {
        if !classes.iter().all(|class| class.memory_mb.is_some()) {
            return;
        }
        let written = [
            ("memory_mb", raw.memory_mb),
            ("memory_median_mb", raw.memory_median_mb),
        ];
        for (key, _) in written.into_iter().filter(|(_, value)| value.is_some()) {
            self.fault(
                &["devices", key],
                format!("`{key}` has no meaning here: every class has its own `memory_mb`"),
            );
        }
    }

    fn memory(&mut self, raw: &RawDevices) -> Option<MemorySpec> {
        match (raw.memory_mb, raw.memory_median_mb, raw.memory_log_sigma) {
            (Some(memory_mb), None, None) => Some(MemorySpec {
                median_mb: memory_mb,
                log_sigma: 0.0,
            }),
            (None, Some(median_mb), Some(log_sigma)) => Some(MemorySpec {
                median_mb,
                log_sigma,
            }),
            (None, None, None) => None,
            (Some(_), median, _) => {
                let key = if median.is_some() {
                    "memory_median_mb"
                } else {
                    "memory_log_sigma"
                };
                self.fault(
                    &["devices", key],
                    format!(
                        "`{key}` has no meaning beside `memory_mb`, which is the same for every device: give \
                         `memory_mb` alone, or `memory_median_mb` with `memory_log_sigma`"
                    ),
                );
                None
            }
            (None, median, _) => {
                let (given, missing) = match median {
                    Some(_) => ("memory_median_mb", "memory_log_sigma"),
                    None => ("memory_log_sigma", "memory_median_mb"),
                };
                self.fault(
                    &["devices", given],
                    format!("`{given}` needs the key `{missing}` beside it"),
                );
                None
            }
        }
    }

    pub(super) fn availability(&mut self, raw: RawAvailability) -> AvailabilitySpec {
        let written: Vec<&str> = [
            ("daily", raw.daily.is_some()),
            ("on-off", raw.on_off.is_some()),
            ("trace", raw.trace.is_some()),
        ]
        .into_iter()
        .filter_map(|(key, written)| written.then_some(key))
        .collect();
        if let [first, second, ..] = written[..] {
            let message =
                format!("availability follows one pattern, not several: `{first}` and `{second}`");
            self.fault(&["availability", second], message);
        }
        let base =
            named(presets::availabilities(), raw.preset.as_deref()).map(|preset| preset.pattern);
        // A preset goes only with the keys of its own pattern: the keys of another one would
        // replace all of it.
        let own = match &base {
            None => None,
            Some(AvailabilityPattern::Daily(_)) => Some("daily"),
            Some(AvailabilityPattern::OnOff(_)) => Some("on-off"),
            Some(AvailabilityPattern::Always | AvailabilityPattern::Trace(_)) => Some(""),
        };
        if let (Some(own), Some(preset), [written, ..]) = (own, &raw.preset, &written[..])
            && own != *written
        {
            let message = format!(
                "`{written}` would leave nothing of the preset `{preset}`: keep one of them"
            );
            self.fault(&["availability", written], message);
        }
        let pattern = match (raw.daily, raw.on_off, raw.trace) {
            (Some(daily), ..) => AvailabilityPattern::Daily(self::daily(daily, base)),
            (None, Some(on_off), _) => self.on_off(on_off, base),
            (None, None, Some(trace)) => AvailabilityPattern::Trace(trace),
            (None, None, None) => base.unwrap_or_default(),
        };
        AvailabilitySpec {
            preset: raw.preset,
            pattern,
        }
    }

    fn on_off(&mut self, raw: RawOnOff, base: Option<AvailabilityPattern>) -> AvailabilityPattern {
        let base = match base {
            Some(AvailabilityPattern::OnOff(base)) => Some(base),
            _ => None,
        };
        let mut mean = |key, written: Option<f64>, base: Option<f64>| {
            written.or(base).unwrap_or_else(|| {
                self.fault(
                    &["availability", "on-off"],
                    format!("missing key `{key}` in `on-off`"),
                );
                0.0
            })
        };
        AvailabilityPattern::OnOff(OnOffSpec {
            mean_on_s: mean("mean_on_s", raw.mean_on_s, base.map(|base| base.mean_on_s)),
            mean_off_s: mean(
                "mean_off_s",
                raw.mean_off_s,
                base.map(|base| base.mean_off_s),
            ),
        })
    }
}

fn daily(raw: RawDaily, base: Option<AvailabilityPattern>) -> DailySpec {
    let base = match base {
        Some(AvailabilityPattern::Daily(daily)) => daily,
        _ => presets::night_charging(),
    };
    DailySpec {
        hours_on: raw.hours_on.unwrap_or(base.hours_on),
        starts_at_hour: raw.starts_at_hour.unwrap_or(base.starts_at_hour),
        jitter_hours: raw.jitter_hours.unwrap_or(base.jitter_hours),
        utc_offsets: raw.utc_offsets.unwrap_or(base.utc_offsets),
    }
}
