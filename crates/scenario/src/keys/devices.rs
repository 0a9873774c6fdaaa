//! `[devices]` and `[server]`: the computers, how fast they are and how much memory they have.

use std::path::PathBuf;

use serde_json::{Value as Json, json};

use super::Scenario;
use crate::check::Checker;
use crate::{keys, presets, variants};

keys! {
    /// The users' devices. Without a preset, keys that are not given are those of the preset
    /// `uniform`.
    pub struct DevicesSpec {
        /// The numbers to start from; `fedrecsim presets` lists them with their sources.
        #[schemars(extend("oneOf" = presets::names("devices")))]
        preset: Option<String> = None;
        /// How fast they are.
        speed: SpeedSpec = SpeedSpec::Lognormal(LognormalSpeedSpec::default());
        /// Time of a multiplication with an addition outside row visits, on a device of median
        /// speed, where the class or the trace does not say.
        ns_per_multiply_add: f64 = 0.0, >= 0.0, <= 1e9;
        /// Time that every participation takes beside its operations (the start of the app, the
        /// load of the table), where the class or the trace does not say.
        fixed_ms_per_participation: f64 = 0.0, >= 0.0, <= 1e9;
        /// Memory for training of a device whose class or trace does not say how much it has; no
        /// limit if absent. A user whose tables need more cannot take part.
        memory: Option<MemorySpec> = None;
        /// Energy that a device needs for a byte sent or received, in nanojoules; not reported if
        /// absent.
        energy_nj_per_byte: Option<f64> = None, >= 0.0, <= 1e12;
        /// Energy that a device needs for a row visit, in nanojoules; not reported if absent.
        energy_nj_per_row_visit: Option<f64> = None, >= 0.0, <= 1e12;
        /// Energy that a device needs for a multiplication with an addition, in nanojoules; not
        /// reported if absent.
        energy_nj_per_multiply_add: Option<f64> = None, >= 0.0, <= 1e12;
        /// Power that a device needs while it takes part, waiting included, beside what bytes and
        /// operations need, in milliwatts; not reported if absent.
        power_mw: Option<f64> = None, >= 0.0, <= 1e9;
        /// What the radio needs after a transfer until it rests; not reported if absent.
        radio_tail: Option<RadioTailSpec> = None;
    }
}

keys! {
    /// The tail of a radio, which stays awake after a transfer in case that another one follows.
    #[derive(Copy)]
    pub struct RadioTailSpec with required keys {
        /// Power meanwhile, in milliwatts.
        power_mw: f64, >= 0.0, <= 1e9;
        /// Its length in seconds, unless the next transfer begins before.
        length_s: f64, >= 0.0, <= 1e6;
    }
}

variants! {
    /// How the speed of devices is spread over users.
    pub enum SpeedSpec {
        /// Lognormal.
        Lognormal(LognormalSpeedSpec),
        /// Each device is of one of these classes.
        Classes(#[schemars(length(min = 1, max = 100))] Vec<DeviceClassSpec>),
        /// A file with the device of every user: a line for each, numbered from 0, with
        /// `user,ns_per_row_visit` and, if it has the columns, `memory_mb`, `ns_per_multiply_add`
        /// and `fixed_ms_per_participation`. Users beyond the last one start again with the first.
        /// A column `name` in place of `user` has names of the ratings file; every user of the run is then there.
        Trace {
            /// The file, as it is or below a data folder.
            #[schemars(length(min = 1))]
            path: PathBuf,
        },
    }
}

keys! {
    /// A lognormal speed. Keys that are not given are those of the preset, or of `uniform` without
    /// one.
    #[derive(Copy)]
    pub struct LognormalSpeedSpec {
        /// Median time that a device needs for one row visit (one item row in one local epoch).
        median_ns_per_row_visit: f64 = 50.0, > 0.0, <= 1e12;
        /// Standard deviation of the logarithm of that time over users.
        log_sigma: f64 = 0.0, >= 0.0, <= 5.0;
    }
}

keys! {
    /// A class of devices.
    pub struct DeviceClassSpec with required keys {
        /// What it is called in reports.
        #[schemars(length(min = 1, max = 64))]
        name: String;
        /// Share of the users with such a device. All shares together are 1, within 1e-6.
        share: f64, > 0.0, <= 1.0;
        /// Median time that such a device needs for one row visit (one item row in one local
        /// epoch).
        ns_per_row_visit: f64, > 0.0, <= 1e12;
        /// Standard deviation of the logarithm of that time within the class.
        #[serde(default)]
        log_sigma: f64, >= 0.0, <= 5.0;
        /// Time of a multiplication with an addition outside row visits. Without it that of
        /// `[devices]` counts.
        ns_per_multiply_add: Option<f64>, >= 0.0, <= 1e9;
        /// Time that every participation takes beside its operations. Without it that of
        /// `[devices]` counts.
        fixed_ms_per_participation: Option<f64>, >= 0.0, <= 1e9;
        /// Memory for training, in MB (10^6 bytes). Without it that of `[devices]` counts.
        memory_mb: Option<f64>, >= 1e-6, <= 1e9;
    }
}

keys! {
    /// Memory for training, lognormal over users.
    #[derive(Copy)]
    pub struct MemorySpec with required keys {
        /// Median, in MB (10^6 bytes).
        median_mb: f64, >= 1e-6, <= 1e9;
        /// Standard deviation of the logarithm over users; 0 gives every device the same.
        log_sigma: f64 = 0.0, >= 0.0, <= 5.0;
    }
}

keys! {
    /// The server as a computer. Its speed is that of methods that run there, and the defaults are
    /// assumptions: one core at the speed of this project's own kernels.
    #[derive(Copy)]
    pub struct ServerSpec {
        /// Time that the server needs for one row visit.
        ns_per_row_visit: f64 = 10.0, >= 0.0, <= 1e9;
        /// Time that the server needs for one multiplication with an addition outside row visits.
        ns_per_multiply_add: f64 = 0.1, >= 0.0, <= 1e9;
        /// Power of the server for as long as the run takes in virtual time, in watts; its energy is
        /// not reported if absent.
        power_w: Option<f64> = None, >= 0.0, <= 1e9;
    }
}

impl DevicesSpec {
    /// Returns whether it states any energy.
    pub fn states_energy(&self) -> bool {
        self.energy_nj_per_byte
            .or(self.energy_nj_per_row_visit)
            .or(self.energy_nj_per_multiply_add)
            .or(self.power_mw)
            .is_some()
            || self.radio_tail.is_some()
    }

    /// Returns whether the times per multiply-add and per participation are those that the preset
    /// assumes.
    pub fn assumes_times(&self) -> bool {
        let preset = presets::under("devices", &json!({ "preset": self.preset }));
        let assumed = preset.and_then(|keys| {
            let preset: Self = serde_json::from_value(Json::Object(keys.clone())).ok()?;
            Some(preset.times())
        });
        assumed.is_some_and(|assumed| {
            assumed.iter().any(|time| *time > 0.0) && assumed == self.times()
        })
    }

    /// Returns the times per multiply-add and per participation, of all devices and then of each
    /// class.
    pub(crate) fn times(&self) -> Vec<f64> {
        let mut times = vec![self.ns_per_multiply_add, self.fixed_ms_per_participation];
        if let SpeedSpec::Classes(classes) = &self.speed {
            let of_classes = classes
                .iter()
                .flat_map(|class| [class.ns_per_multiply_add, class.fixed_ms_per_participation]);
            times.extend(of_classes.map(Option::unwrap_or_default));
        }
        times
    }
}

/// The largest distance from 1 that the sum of the shares of device classes may have.
const SHARES_TOLERANCE: f64 = 1e-6;

pub(super) fn check(scenario: &Scenario, checker: &mut Checker<'_>) {
    if let SpeedSpec::Classes(classes) = &scenario.devices.speed {
        check_classes(classes, checker);
    }
    let method = checker.method;
    for key in ["server.ns_per_row_visit", "server.ns_per_multiply_add"] {
        checker.idle_if(
            method.trains && !method.server_computes,
            key,
            "the method computes on the devices, and what its server does takes no virtual time",
        );
    }
}

fn check_classes(classes: &[DeviceClassSpec], checker: &mut Checker<'_>) {
    let sum: f64 = classes.iter().map(|class| class.share).sum();
    if (sum - 1.0).abs() > SHARES_TOLERANCE {
        checker.fault(
            "devices.speed.classes",
            format!("the shares of the classes must add up to 1, found {sum}"),
        );
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
    checker.refuse_if(
        every(|class| class.memory_mb.is_some()) && checker.file.has("devices.memory"),
        "devices.memory",
        "`memory` has no meaning here: every class has its own `memory_mb`",
    );
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
