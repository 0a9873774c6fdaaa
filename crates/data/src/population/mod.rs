//! Describes the users as machines: device, link and dropout, when they are available, and what
//! goes wrong with their transfers.
//!
//! Properties without a trace are drawn from the user's own streams on request, so a population of
//! any size costs no memory, and one more user changes nobody else (contract 1).

use std::path::Path;
use std::sync::Arc;

use fedrecsim_core::{Bytes, Error, InvitationId, Result, Streams, UserId};
use fedrecsim_scenario::{AvailabilityPattern, Scenario};

mod availability;
mod carbon;
mod columns;
mod device;
mod device_trace;
mod faults;
mod link;
mod speed;
mod traces;

#[cfg(test)]
mod tests;

pub use {
    availability::{Availability, AvailabilityClock},
    carbon::Carbon,
    device::Device,
    faults::{FaultRules, Hit, Verdict},
    link::{Link, LinkShare, shared_capacity},
    speed::Speed,
    traces::Traces,
};

use availability::Daily;
use availability::Groups;
use device::Devices;
use link::Links;

/// The users of a run.
#[derive(Clone, Debug)]
pub struct Population {
    links: Links,
    devices: Devices,
    /// When users can take part.
    pub availability: Arc<Availability>,
    /// What goes wrong with transfers.
    pub faults: FaultRules,
    /// What electricity emits, if the scenario says that.
    pub carbon: Option<Carbon>,
}

/// The properties of one participation before training: speeds, and when a dropout ends it.
#[derive(Clone, Debug, PartialEq)]
pub struct Conditions {
    /// The link of the download.
    pub down: Link,
    /// The link of the upload.
    pub up: Link,
    /// The speed of the device.
    pub speed: Speed,
    /// When a dropout ends the participation, as a share of its whole duration; `None` if none does.
    pub dropout_at: Option<f64>,
}

impl Population {
    /// Makes a population of `users` users in the world of `scenario`, with the traces that it
    /// names.
    ///
    /// # Errors
    /// [`Error::Usage`] for a trace that the scenario names and `traces` does not have, and for a
    /// rule of faults about a user who does not exist.
    pub fn new(
        scenario: &Scenario,
        users: usize,
        traces: &Traces,
        streams: Streams,
    ) -> Result<Self> {
        // Data sets with 2^32 users or more are refused on reading.
        let users = users as u32;
        let (spec, trace) = (&scenario.availability, traces.availability.clone());
        let generator = scenario.dataset.generator.as_ref();
        let taste_correlation = generator.map_or(0.0, |spec| spec.device_correlation);
        let trace_of_devices = traces.devices.clone();
        let devices = Devices::new(
            &scenario.devices,
            trace_of_devices,
            taste_correlation,
            streams,
        )?;
        let (daily, offsets) = match &spec.pattern {
            AvailabilityPattern::Daily(daily) => {
                (Some(Daily::new(daily, streams)), daily.offsets())
            }
            _ => (None, vec![0.0]),
        };
        let zones = (daily.clone(), offsets);
        let groups = Arc::new(Groups {
            devices: devices.clone(),
            daily,
            streams,
        });
        let faults = &scenario.faults;
        let availability = Availability::new(spec, faults, users, trace, &groups, streams)?;
        Ok(Self {
            links: Links::new(&scenario.network, traces.links.clone(), streams)?,
            devices,
            availability: Arc::new(availability),
            faults: FaultRules::new(faults, users, &groups, streams)?,
            carbon: Carbon::new(&scenario.carbon, traces.carbon.clone(), zones)?,
        })
    }

    /// Returns the conditions of a participation of `user`, which `invitation_id` tells apart from
    /// the user's other participations.
    ///
    /// Device speed and link belong to the user; the variation of a transfer and a dropout to the
    /// participation.
    pub fn conditions(&self, user: UserId, invitation_id: InvitationId) -> Conditions {
        self.links
            .conditions(user, invitation_id, self.devices.speed(user).0)
    }

    /// Returns the device of `user`.
    pub(crate) fn device(&self, user: UserId) -> Device {
        self.devices.device(user)
    }

    /// Returns those of the first `users` users whose device has no room for `needed`, ascending.
    pub fn too_small_for(&self, needed: Bytes, users: usize) -> Vec<UserId> {
        if !self.devices.limit_memory() {
            return Vec::new();
        }
        let too_small = |user: &UserId| {
            self.device(*user)
                .memory
                .is_some_and(|memory| memory < needed)
        };
        (0..users).map(UserId::from).filter(too_small).collect()
    }
}

/// Returns the trace that a scenario names, if it was read.
fn was_read<T>(trace: Option<T>, path: &Path) -> Result<T> {
    trace.ok_or_else(|| {
        Error::Usage(format!(
            "the scenario names the trace {}, which was not read",
            path.display()
        ))
    })
}
