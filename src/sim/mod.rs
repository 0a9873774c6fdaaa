//! The simulated world: actors on a virtual clock.

pub mod outcome;
