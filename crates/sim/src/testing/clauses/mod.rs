//! The checks of the contract's clauses, by what they look at.

pub mod parameters;
pub mod privacy;
pub mod runs;
pub mod scores;
pub mod state;
pub mod training;
