//! Draws the devices of users: how fast they train, and how much memory they have for it.

use std::sync::Arc;

use super::Speed;
use super::speed::picoseconds;
use super::traces::{DeviceTrace, TracedDevice};
use fedrecsim_core::error::Result;
use fedrecsim_core::ids::UserId;
use fedrecsim_core::rng::{PortableDraws, Purpose, Streams};
use fedrecsim_core::units::{Bytes, SimDuration};
use fedrecsim_scenario::scenario::{DeviceClassSpec, DevicesSpec, MemorySpec, SpeedSpec};

const BYTES_PER_MB: f64 = 1e6;

/// A user's device, the same in every round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// How fast it works.
    pub speed: Speed,
    /// Memory that it has for training; `None` is no limit.
    pub memory: Option<Bytes>,
}

/// The devices of all users.
#[derive(Clone, Debug)]
pub(super) struct Devices {
    speeds: Speeds,
    /// The costs of devices whose class or trace does not state them.
    costs: Costs,
    memory: Option<MemorySpec>,
    streams: Streams,
}

/// The time that a participation takes beside its row visits.
#[derive(Clone, Copy, Debug)]
struct Costs {
    /// Time of a multiplication with an addition on a device of median speed.
    ns_per_multiply_add: f64,
    fixed_ms: f64,
}

#[derive(Clone, Debug)]
enum Speeds {
    Lognormal { median_ns: f64, log_sigma: f64 },
    Classes(Vec<DeviceClassSpec>),
    Trace(Arc<DeviceTrace>),
}

impl Devices {
    /// Makes the devices. `trace` is what was read of the file that `spec` names, if it names one.
    ///
    /// # Errors
    /// [`Error::Usage`](fedrecsim_core::error::Error::Usage) if it names a file and that was not read.
    pub(super) fn new(
        spec: &DevicesSpec,
        trace: Option<Arc<DeviceTrace>>,
        streams: Streams,
    ) -> Result<Self> {
        let speeds = match &spec.speed {
            SpeedSpec::Lognormal {
                median_ns_per_row_visit,
                log_sigma,
            } => Speeds::Lognormal {
                median_ns: *median_ns_per_row_visit,
                log_sigma: *log_sigma,
            },
            SpeedSpec::Classes(classes) => Speeds::Classes(classes.clone()),
            SpeedSpec::Trace(path) => Speeds::Trace(super::was_read(trace, path)?),
        };
        let costs = Costs {
            ns_per_multiply_add: spec.ns_per_multiply_add,
            fixed_ms: spec.fixed_ms_per_participation,
        };
        Ok(Self {
            speeds,
            costs,
            memory: spec.memory,
            streams,
        })
    }

    /// Returns whether any device may have a limit of memory.
    pub(super) fn limit_memory(&self) -> bool {
        self.memory.is_some()
            || match &self.speeds {
                Speeds::Lognormal { .. } => false,
                Speeds::Classes(classes) => classes.iter().any(|class| class.memory_mb.is_some()),
                Speeds::Trace(_) => true,
            }
    }

    pub(super) fn device(&self, user: UserId) -> Device {
        let (speed, own_memory) = self.speed(user);
        let memory_mb = own_memory.or_else(|| self.memory_mb_of(user));
        let memory = memory_mb.map(|megabytes| Bytes::new((megabytes * BYTES_PER_MB + 0.5) as u64));
        Device { speed, memory }
    }

    /// Returns the speed, and the memory in MB that the class or the trace states. A device that
    /// visits rows slower than the median is slower at other operations by the same factor.
    pub(super) fn speed(&self, user: UserId) -> (Speed, Option<f64>) {
        let lognormal = |median: f64, log_sigma: f64| {
            self.streams
                .stream(Purpose::Device, u64::from(user.0), 0)
                .lognormal(median, log_sigma)
        };
        let Costs {
            ns_per_multiply_add,
            fixed_ms,
        } = self.costs;
        let (ns_per_row_visit, ns_per_multiply_add, fixed_ms, memory_mb) = match &self.speeds {
            Speeds::Lognormal {
                median_ns,
                log_sigma,
            } => {
                let ns_per_row_visit = lognormal(*median_ns, *log_sigma);
                (
                    ns_per_row_visit,
                    ns_per_multiply_add * (ns_per_row_visit / median_ns),
                    fixed_ms,
                    None,
                )
            }
            Speeds::Classes(classes) => {
                let class = self.class_of(user, classes);
                let ns_per_row_visit = lognormal(class.ns_per_row_visit, class.log_sigma);
                let factor = ns_per_row_visit / class.ns_per_row_visit;
                let ns_per_multiply_add =
                    class.ns_per_multiply_add.unwrap_or(ns_per_multiply_add) * factor;
                let fixed_ms = class.fixed_ms_per_participation.unwrap_or(fixed_ms);
                (
                    ns_per_row_visit,
                    ns_per_multiply_add,
                    fixed_ms,
                    class.memory_mb,
                )
            }
            Speeds::Trace(trace) => {
                let TracedDevice {
                    ns_per_row_visit,
                    memory_mb,
                    ns_per_multiply_add: own,
                    fixed_ms: own_fixed,
                } = trace.of(user);
                (
                    ns_per_row_visit,
                    own.unwrap_or(ns_per_multiply_add),
                    own_fixed.unwrap_or(fixed_ms),
                    memory_mb,
                )
            }
        };
        let speed = Speed {
            picoseconds_per_row_visit: picoseconds(ns_per_row_visit),
            picoseconds_per_multiply_add: picoseconds(ns_per_multiply_add),
            fixed: SimDuration::from_millis_f64(fixed_ms),
        };
        (speed, memory_mb)
    }

    /// Returns the name of the user's class; `None` if devices come in no classes.
    pub(super) fn class_name(&self, user: UserId) -> Option<&str> {
        match &self.speeds {
            Speeds::Classes(classes) => Some(&self.class_of(user, classes).name),
            Speeds::Lognormal { .. } | Speeds::Trace(_) => None,
        }
    }

    /// Returns the class whose part of (0, 1) holds the user's draw. The last one takes what
    /// rounding leaves over.
    fn class_of<'c>(&self, user: UserId, classes: &'c [DeviceClassSpec]) -> &'c DeviceClassSpec {
        let mut left = self
            .streams
            .stream(Purpose::DeviceClass, u64::from(user.0), 0)
            .open_unit();
        let last = classes.len() - 1;
        let chosen = classes[..last].iter().position(|class| {
            left -= class.share;
            left < 0.0
        });
        &classes[chosen.unwrap_or(last)]
    }

    /// Draws the memory in MB from the distribution over all devices.
    fn memory_mb_of(&self, user: UserId) -> Option<f64> {
        let memory = self.memory?;
        let mut stream = self
            .streams
            .stream(Purpose::DeviceMemory, u64::from(user.0), 0);
        Some(stream.lognormal(memory.median_mb, memory.log_sigma))
    }
}
