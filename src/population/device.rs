//! Devices of users: how fast they train, and how much memory they have for it.

use std::sync::Arc;

use super::traces::DeviceTrace;
use crate::error::Result;
use crate::ids::UserId;
use crate::rng::{PortableDraws, Purpose, Streams};
use crate::scenario::{DeviceClassSpec, DevicesSpec, MemorySpec, SpeedSpec};
use crate::units::Bytes;

const BYTES_PER_MB: f64 = 1e6;

/// A user's device, the same in every round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// Time per row visit, in picoseconds.
    pub picoseconds_per_row_visit: u64,
    /// Memory that it has for training; `None` is no limit.
    pub memory: Option<Bytes>,
}

/// The devices of all users.
#[derive(Clone, Debug)]
pub(super) struct Devices {
    speeds: Speeds,
    memory: Option<MemorySpec>,
    streams: Streams,
}

#[derive(Clone, Debug)]
enum Speeds {
    Lognormal { median_ns: f64, log_sigma: f64 },
    Classes(Vec<DeviceClassSpec>),
    Trace(Arc<DeviceTrace>),
}

impl Devices {
    /// `trace` is what was read of the file that `spec` names, if it names one.
    ///
    /// # Errors
    /// [`Error::Usage`](crate::error::Error::Usage) if it names one and that was not read.
    pub(super) fn new(spec: &DevicesSpec, trace: Option<Arc<DeviceTrace>>, streams: Streams) -> Result<Self> {
        let speeds = match &spec.speed {
            SpeedSpec::Lognormal { median_ns_per_row_visit, log_sigma } => {
                Speeds::Lognormal { median_ns: *median_ns_per_row_visit, log_sigma: *log_sigma }
            }
            SpeedSpec::Classes(classes) => Speeds::Classes(classes.clone()),
            SpeedSpec::Trace(path) => Speeds::Trace(super::was_read(trace, path)?),
        };
        Ok(Self { speeds, memory: spec.memory, streams })
    }

    /// Whether any device could have a limit of memory.
    pub(super) fn limit_memory(&self) -> bool {
        self.memory.is_some()
            || match &self.speeds {
                Speeds::Lognormal { .. } => false,
                Speeds::Classes(classes) => classes.iter().any(|class| class.memory_mb.is_some()),
                Speeds::Trace(_) => true,
            }
    }

    pub(super) fn device(&self, user: UserId) -> Device {
        let (picoseconds_per_row_visit, own_memory) = self.speed(user);
        let memory_mb = own_memory.or_else(|| self.memory_mb_of(user));
        let memory = memory_mb.map(|megabytes| Bytes::new((megabytes * BYTES_PER_MB + 0.5) as u64));
        Device { picoseconds_per_row_visit, memory }
    }

    /// Picoseconds per row visit, and the memory in MB that the class or the trace states.
    pub(super) fn speed(&self, user: UserId) -> (u64, Option<f64>) {
        let lognormal = |median: f64, log_sigma: f64| {
            self.streams.stream(Purpose::Device, u64::from(user.0), 0).lognormal(median, log_sigma)
        };
        let (nanoseconds, memory_mb) = match &self.speeds {
            Speeds::Lognormal { median_ns, log_sigma } => (lognormal(*median_ns, *log_sigma), None),
            Speeds::Classes(classes) => {
                let class = self.class_of(user, classes);
                (lognormal(class.ns_per_row_visit, class.log_sigma), class.memory_mb)
            }
            Speeds::Trace(trace) => trace.of(user),
        };
        ((nanoseconds * 1000.0 + 0.5) as u64, memory_mb)
    }

    /// The class whose part of (0, 1) holds the user's draw; the last one takes what rounding leaves over.
    fn class_of<'c>(&self, user: UserId, classes: &'c [DeviceClassSpec]) -> &'c DeviceClassSpec {
        let mut left = self.streams.stream(Purpose::DeviceClass, u64::from(user.0), 0).open_unit();
        let last = classes.len() - 1;
        let chosen = classes[..last].iter().position(|class| {
            left -= class.share;
            left < 0.0
        });
        &classes[chosen.unwrap_or(last)]
    }

    /// Memory by the distribution over all devices, in MB.
    fn memory_mb_of(&self, user: UserId) -> Option<f64> {
        let memory = self.memory?;
        let mut stream = self.streams.stream(Purpose::DeviceMemory, u64::from(user.0), 0);
        Some(stream.lognormal(memory.median_mb, memory.log_sigma))
    }
}
