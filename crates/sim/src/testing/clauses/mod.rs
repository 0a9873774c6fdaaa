//! The checks of the contract's clauses, by what they look at.

pub(super) mod parameters;
pub(super) mod privacy;
pub(super) mod runs;
pub(super) mod scores;
pub(super) mod state;
pub(super) mod training;
