//! Chooses rows by Thompson sampling, with normal beliefs of what each row is worth.

use crate::prelude::*;

/// What is believed of the reward of each row: its mean is normal.
#[derive(Clone, Debug)]
pub(super) struct Bandit {
    pub means: Vec<f64>,
    pub precisions: Vec<f64>,
}

impl Bandit {
    /// Believes the same of all rows: the mean 0, with a precision of 1.
    pub(super) fn new(rows: usize) -> Self {
        Self {
            means: vec![0.0; rows],
            precisions: vec![1.0; rows],
        }
    }

    /// Returns the `count` rows that have the largest draws of their means, ascending. Where it knows
    /// nothing yet, that is chance.
    pub(super) fn choose(&self, count: usize, stream: &mut Stream) -> Vec<u32> {
        let believed = self.means.iter().zip(&self.precisions);
        let draws: Vec<f64> = believed
            .map(|(mean, precision)| mean + stream.standard_normal() / math::sqrt(*precision))
            .collect();
        let mut rows: Vec<u32> = (0..draws.len() as u32).collect();
        // The sort is stable, so that the first of equal rows comes first.
        rows.sort_by(|one, other| draws[*other as usize].total_cmp(&draws[*one as usize]));
        rows.truncate(count);
        rows.sort_unstable();
        rows
    }

    /// Learns from a reward of this precision.
    pub(super) fn learn(&mut self, row: usize, reward: f64, precision: f64) {
        let before = self.precisions[row];
        let after = before + precision;
        self.means[row] = (self.means[row] * before + precision * reward) / after;
        self.precisions[row] = after;
    }
}
