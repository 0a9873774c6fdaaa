//! Counts the work of a training in operations that a device has a speed for.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// Amounts of work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// Item rows visited: one row in one pass over a batch.
    pub row_visits: u64,
    /// Multiply-adds outside of row visits: dense layers, matrix products and systems of equations.
    pub multiply_adds: u64,
}

impl Work {
    /// Returns the work of `row_visits` row visits alone.
    pub fn of_row_visits(row_visits: u64) -> Self {
        Self {
            row_visits,
            multiply_adds: 0,
        }
    }
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Self) {
        let Self {
            row_visits,
            multiply_adds,
        } = other;
        self.row_visits += row_visits;
        self.multiply_adds += multiply_adds;
    }
}
