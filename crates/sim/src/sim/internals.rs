//! The parts of the simulation that the tests and benchmarks of this crate use one by one. Nothing
//! here is stable.
//!
//! This is a hidden module because benchmarks are programs of their own, which see only what is
//! public, and because the tests that train a client by hand compare it with whole runs, whose
//! fixtures are in the integration tests.

pub use super::calendar::Calendar;
pub use super::fair_link::{FairLink, FlowId};
