//! Records of the shared model: its sparsity, and the cost of keeping versions of it.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// The memory in bytes that the server needs to send differences between versions of the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionsCost {
    /// The bytes of the newest version, which the server keeps beside its own model.
    pub model_bytes: u64,
    /// The bytes of the differences that were kept, at most at a time.
    pub differences_bytes: u64,
    /// The bytes of the number of the version that each user has, four for each user.
    pub acknowledgement_bytes: u64,
}

impl AddAssign for VersionsCost {
    fn add_assign(&mut self, other: Self) {
        self.model_bytes += other.model_bytes;
        self.differences_bytes += other.differences_bytes;
        self.acknowledgement_bytes += other.acknowledgement_bytes;
    }
}

/// The shares of values whose magnitude is above each threshold of
/// [`SPARSITY_THRESHOLDS`](super::SPARSITY_THRESHOLDS).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sparsity {
    /// The shares over all uploads that were averaged.
    pub uploads: [f64; 7],
    /// The shares over the model's tables.
    pub averaged: [f64; 7],
    /// The share of values that are not 0 in at least one of the averaged uploads; absent where
    /// uploads are not averaged as whole tables.
    pub union: Option<f64>,
}
