//! Settings of how a simulation is carried out, and how far it goes.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fedrecsim_core::units::SimTime;

/// Settings of how a simulation is carried out. They do not affect the result.
#[derive(Clone, Debug)]
pub struct RunControl {
    /// The number of worker threads, at least 1.
    pub threads: usize,
    /// Set this to true to stop the simulation. The finished rounds remain.
    pub interrupted: Arc<AtomicBool>,
}

impl RunControl {
    /// Returns settings with so many worker threads, and no way to interrupt the simulation.
    pub fn with_threads(threads: usize) -> Self {
        Self {
            threads,
            interrupted: Arc::default(),
        }
    }
}

/// The point to which a simulation is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Everything up to this instant of virtual time has happened, and nothing later. A round may
    /// be open then.
    Time(SimTime),
    /// This number of rounds are over.
    Round(u32),
}
