//! Draws the devices of users: how fast they train, and how much memory they have for it.

use std::sync::Arc;

use super::Speed;
use super::device_trace::{DeviceTrace, TracedDevice};
use super::speed::picoseconds;
use fedrecsim_core::{Bytes, PortableDraws, Purpose, Result, SimDuration, Streams, UserId, math};
use fedrecsim_scenario::{DeviceClassSpec, DevicesSpec, SpeedSpec};

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
    spec: DevicesSpec,
    /// The contents of the file that `spec` names, if it names one.
    trace: Option<Arc<DeviceTrace>>,
    /// The correlation between slowness and the first taste of a generated user.
    taste_correlation: f64,
    streams: Streams,
}

impl Devices {
    /// Makes the devices, whose slowness has this correlation with tastes. `trace` is what was read of
    /// the file that `spec` names, if it names one.
    ///
    /// # Errors
    /// [`Error::Usage`](fedrecsim_core::Error::Usage) if it names a file and that was not read.
    pub(super) fn new(
        spec: &DevicesSpec,
        trace: Option<Arc<DeviceTrace>>,
        taste_correlation: f64,
        streams: Streams,
    ) -> Result<Self> {
        let trace = match &spec.speed {
            SpeedSpec::Trace { path } => Some(super::was_read(trace, path)?),
            SpeedSpec::Lognormal(_) | SpeedSpec::Classes(_) => None,
        };
        Ok(Self {
            spec: spec.clone(),
            trace,
            taste_correlation,
            streams,
        })
    }

    /// Returns whether any device may have a limit of memory.
    pub(super) fn limit_memory(&self) -> bool {
        self.spec.memory.is_some()
            || match &self.spec.speed {
                SpeedSpec::Lognormal(_) => false,
                SpeedSpec::Classes(classes) => {
                    classes.iter().any(|class| class.memory_mb.is_some())
                }
                SpeedSpec::Trace { .. } => true,
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
        let lognormal =
            |median: f64, log_sigma: f64| median * math::exp(log_sigma * self.slowness(user));
        let (device, median) = match (&self.spec.speed, &self.trace) {
            (SpeedSpec::Lognormal(spec), _) => {
                let median = spec.median_ns_per_row_visit;
                let device = TracedDevice {
                    ns_per_row_visit: lognormal(median, spec.log_sigma),
                    ..TracedDevice::default()
                };
                (device, Some(median))
            }
            (SpeedSpec::Classes(classes), _) => {
                let class = self.class_of(user, classes);
                let device = TracedDevice {
                    ns_per_row_visit: lognormal(class.ns_per_row_visit, class.log_sigma),
                    memory_mb: class.memory_mb,
                    ns_per_multiply_add: class.ns_per_multiply_add,
                    fixed_ms: class.fixed_ms_per_participation,
                };
                (device, Some(class.ns_per_row_visit))
            }
            (SpeedSpec::Trace { .. }, None) => {
                unreachable!("`new` refuses a trace that was not read")
            }
            (SpeedSpec::Trace { .. }, Some(trace)) => (trace.of(user), None),
        };
        let factor = median.map_or(1.0, |median| device.ns_per_row_visit / median);
        let of_all = &self.spec;
        let ns_per_multiply_add = device.ns_per_multiply_add;
        let fixed_ms = device.fixed_ms;
        let speed = Speed {
            picoseconds_per_row_visit: picoseconds(device.ns_per_row_visit),
            picoseconds_per_multiply_add: picoseconds(
                ns_per_multiply_add.unwrap_or(of_all.ns_per_multiply_add) * factor,
            ),
            fixed: SimDuration::from_millis_f64(
                fixed_ms.unwrap_or(of_all.fixed_ms_per_participation),
            ),
        };
        (speed, device.memory_mb)
    }

    /// Returns the standard normal number by which the device of `user` is slower than the median. The
    /// generator's first draw for a user is the first number of its taste, before the vector gets its
    /// length.
    fn slowness(&self, user: UserId) -> f64 {
        let draw = |purpose| {
            let mut stream = self.streams.stream(purpose, u64::from(user.0), 0);
            stream.standard_normal()
        };
        let own = draw(Purpose::Device);
        match self.taste_correlation {
            0.0 => own,
            shared => {
                let rest = math::sqrt(1.0 - shared * shared);
                shared * draw(Purpose::GeneratedRatings) + rest * own
            }
        }
    }

    /// Returns the name of the user's class; `None` if devices come in no classes.
    pub(super) fn class_name(&self, user: UserId) -> Option<&str> {
        match &self.spec.speed {
            SpeedSpec::Classes(classes) => Some(&self.class_of(user, classes).name),
            SpeedSpec::Lognormal(_) | SpeedSpec::Trace { .. } => None,
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
        let memory = self.spec.memory.as_ref()?;
        let mut stream = self
            .streams
            .stream(Purpose::DeviceMemory, u64::from(user.0), 0);
        Some(stream.lognormal(memory.median_mb, memory.log_sigma))
    }
}
