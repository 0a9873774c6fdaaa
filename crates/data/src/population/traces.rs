//! Reads traces, which are files that say what users' devices and links are and when users are
//! available.
//!
//! They are comma-separated with a header line that names the columns, in any order. Users are
//! numbered from 0 without gaps; users of the run beyond the last one of the trace start again with
//! its first.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::availability::AvailabilityTrace;
use super::columns;
use super::link::LinkTrace;
use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::ids::UserId;
use fedrecsim_scenario::scenario::{AvailabilityPattern, RatesSpec, Scenario, SpeedSpec};

/// What was read of the files that a scenario names for its population.
#[derive(Clone, Debug, Default)]
pub struct Traces {
    pub(super) devices: Option<Arc<DeviceTrace>>,
    pub(super) availability: Option<Arc<AvailabilityTrace>>,
    pub(super) links: Option<Arc<LinkTrace>>,
}

impl Traces {
    /// Reads the files that `scenario` names, if it names any. A relative path is tried as given,
    /// then below each of `data_directories`.
    ///
    /// # Errors
    /// [`Error::Read`] for a file that is missing, unreadable or empty, [`Error::MalformedLine`]
    /// for a line that does not have the right form.
    pub fn load(scenario: &Scenario, data_directories: &[PathBuf]) -> Result<Self> {
        let mut traces = Self::default();
        if let SpeedSpec::Trace(spec) = &scenario.devices.speed {
            let (path, text) = read(&spec.path, data_directories)?;
            traces.devices = Some(Arc::new(DeviceTrace::parse(&text, &path)?));
        }
        if let AvailabilityPattern::Trace(spec) = &scenario.availability.pattern {
            let (path, text) = read(&spec.path, data_directories)?;
            traces.availability = Some(Arc::new(AvailabilityTrace::parse(
                &text,
                &path,
                spec.period_s,
            )?));
        }
        if let RatesSpec::Trace(spec) = &scenario.network.rates {
            let (path, text) = read(&spec.path, data_directories)?;
            traces.links = Some(Arc::new(LinkTrace::parse(&text, &path, spec.period_s)?));
        }
        Ok(traces)
    }

    /// Feeds everything that a run can depend on to `sink`, as little-endian bytes in a fixed
    /// order.
    pub fn visit_bytes(&self, sink: &mut dyn FnMut(&[u8])) {
        if let Some(trace) = &self.devices {
            for device in &trace.devices {
                sink(&device.ns_per_row_visit.to_bits().to_le_bytes());
                for number in [
                    device.memory_mb,
                    device.ns_per_multiply_add,
                    device.fixed_ms,
                ] {
                    sink(&number.map_or(u64::MAX, f64::to_bits).to_le_bytes());
                }
            }
        }
        if let Some(trace) = &self.availability {
            trace.visit_bytes(sink);
        }
        if let Some(trace) = &self.links {
            trace.visit_bytes(sink);
        }
    }
}

fn read(path: &Path, data_directories: &[PathBuf]) -> Result<(PathBuf, String)> {
    // If the path is absolute, joining it would discard the folder.
    let below = data_directories
        .iter()
        .filter(|_| path.is_relative())
        .map(|folder| folder.join(path));
    let places: Vec<PathBuf> = std::iter::once(path.to_owned()).chain(below).collect();
    let Some(found) = places.iter().find(|place| place.is_file()) else {
        let tried: Vec<String> = places
            .iter()
            .map(|place| place.display().to_string())
            .collect();
        return Err(Error::read(
            path,
            format!("there is no such file; looked for {}", tried.join(", ")),
        ));
    };
    let bytes = std::fs::read(found).map_err(|reason| Error::read(found, reason))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let sound = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = sound.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
        columns::Fault::new("the line is not UTF-8; save the file as UTF-8").at(found, line)
    })?;
    Ok((found.clone(), text))
}

/// The devices of a trace, by user.
#[derive(Debug, PartialEq)]
pub(super) struct DeviceTrace {
    devices: Vec<TracedDevice>,
}

/// A device as a line of the file describes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TracedDevice {
    pub ns_per_row_visit: f64,
    pub memory_mb: Option<f64>,
    pub ns_per_multiply_add: Option<f64>,
    /// Milliseconds that every participation takes.
    pub fixed_ms: Option<f64>,
}

impl DeviceTrace {
    /// Reads `text`, whose faults are reported under `path`.
    pub(super) fn parse(text: &str, path: &Path) -> Result<Self> {
        let mut rows: Vec<(u32, u64, TracedDevice)> = Vec::new();
        let names = [
            "user",
            "ns_per_row_visit",
            "memory_mb",
            "ns_per_multiply_add",
            "fixed_ms_per_participation",
        ];
        columns::read(text, path, names, 2, |row| {
            let ns_per_row_visit = row.positive(1, 1e12)?;
            let memory_mb = row.has(2).then(|| row.positive(2, 1e9)).transpose()?;
            let ns_per_multiply_add = row.has(3).then(|| row.not_negative(3, 1e9)).transpose()?;
            let fixed_ms = row.has(4).then(|| row.not_negative(4, 1e9)).transpose()?;
            let device = TracedDevice {
                ns_per_row_visit,
                memory_mb,
                ns_per_multiply_add,
                fixed_ms,
            };
            rows.push((row.user()?, row.line, device));
            Ok(())
        })?;
        rows.sort_by_key(|(user, line, _)| (*user, *line));
        for (index, (user, line, _)) in rows.iter().enumerate() {
            let twice = index > 0 && rows[index - 1].0 == *user;
            let fault = if twice {
                columns::twice(*user, rows[index - 1].1)
            } else {
                columns::gap(*user, index as u32)
            };
            if twice || *user as usize != index {
                return Err(fault.at(path, *line));
            }
        }
        Ok(Self {
            devices: rows.into_iter().map(|(_, _, device)| device).collect(),
        })
    }

    /// Returns the device of `user`.
    pub(super) fn of(&self, user: UserId) -> TracedDevice {
        self.devices[user.index() % self.devices.len()]
    }
}
