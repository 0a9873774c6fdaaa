//! The simulated world: actors, calendar, links, ledger, workers, privacy, checkpoints.

pub mod checkpoint;
pub mod privacy;
pub mod sim;
pub mod testing;
