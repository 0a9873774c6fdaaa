//! Reads traces, which are files that say what users' devices and links are and when users are
//! available.
//!
//! They are comma-separated with a header line that names the columns, in any order. Users are
//! numbered from 0 without gaps; users of the run beyond the last one of the trace start again with
//! its first. Or they go by their names in the ratings file, and every user of the run is there.

use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::availability::AvailabilityTrace;
use super::carbon::CarbonTrace;
use super::columns::Users;
use super::device_trace::DeviceTrace;
use super::link::LinkTrace;
use crate::dataset::registry::place_of;
use crate::dataset::{Dataset, compressed};
use fedrecsim_core::Result;
use fedrecsim_scenario::{AvailabilityPattern, RatesSpec, Scenario, SpeedSpec};

/// The contents of the files that a scenario names for its population.
#[derive(Clone, Debug, Default)]
pub struct Traces {
    pub(super) devices: Option<Arc<DeviceTrace>>,
    pub(super) availability: Option<Arc<AvailabilityTrace>>,
    pub(super) links: Option<Arc<LinkTrace>>,
    pub(super) carbon: Option<Arc<CarbonTrace>>,
}

impl Traces {
    /// Reads the files that `scenario` names for the users of `dataset`, if it names any. A relative path is tried as given,
    /// then below each of `data_directories`.
    ///
    /// # Errors
    /// [`Error::Read`](fedrecsim_core::Error::Read) for a file that is missing, unreadable or empty,
    /// [`Error::MalformedLine`](fedrecsim_core::Error::MalformedLine) for a line that does not have the
    /// right form.
    pub fn load(
        scenario: &Scenario,
        dataset: &Dataset,
        data_directories: &[PathBuf],
    ) -> Result<Self> {
        Self::read(scenario, dataset.user_names(), data_directories)
    }

    /// Does so for users of these `names`.
    pub(super) fn read(
        scenario: &Scenario,
        names: &[Box<str>],
        data_directories: &[PathBuf],
    ) -> Result<Self> {
        let mut traces = Self::default();
        let users = || Users::of(names);
        if let SpeedSpec::Trace { path } = &scenario.devices.speed {
            let (path, text) = open(path, data_directories)?;
            traces.devices = Some(Arc::new(DeviceTrace::parse((text, &users()), &path)?));
        }
        if let AvailabilityPattern::Trace { path, period_s } = &scenario.availability.pattern {
            let (path, text) = open(path, data_directories)?;
            let trace = AvailabilityTrace::parse((text, &users()), &path, *period_s)?;
            traces.availability = Some(Arc::new(trace));
        }
        if let RatesSpec::Trace { path, period_s } = &scenario.network.rates {
            let (path, text) = open(path, data_directories)?;
            traces.links = Some(Arc::new(LinkTrace::parse(
                (text, &users()),
                &path,
                *period_s,
            )?));
        }
        if let Some(path) = &scenario.carbon.path {
            let (path, text) = open(path, data_directories)?;
            traces.carbon = Some(Arc::new(CarbonTrace::parse(text, &path)?));
        }
        Ok(traces)
    }

    /// Feeds everything that a run can depend on to `sink`, as little-endian bytes in a fixed
    /// order.
    pub fn visit_bytes(&self, sink: &mut dyn FnMut(&[u8])) {
        if let Some(trace) = &self.devices {
            trace.visit_bytes(sink);
        }
        if let Some(trace) = &self.availability {
            trace.visit_bytes(sink);
        }
        if let Some(trace) = &self.links {
            trace.visit_bytes(sink);
        }
        if let Some(trace) = &self.carbon {
            trace.visit_bytes(sink);
        }
    }
}

fn open(path: &Path, data_directories: &[PathBuf]) -> Result<(PathBuf, Box<dyn BufRead>)> {
    let found = place_of(path, data_directories, Path::is_file)?;
    let text = compressed::open(&found)?;
    Ok((found, text))
}
