//! Turns the samples of a participation into distinct rows and mini-batches.

use fedrecsim_core::rng::{PortableDraws, Stream};

use super::kernel::RowWeights;
use super::row_index::ones;

/// Holds the distinct items of a participation's samples, and the position of each sample's item
/// among them. The memory is reused.
#[derive(Clone, Debug, Default)]
pub struct RoundRows {
    rows: Vec<u32>,
    samples: Vec<(u32, bool)>,
    seen: Vec<u64>,
    position_of_item: Vec<u32>,
}

impl RoundRows {
    /// Collects the samples `items[i]`, `labels[i]` (1 positive, 0 negative) over a catalogue of
    /// `catalogue` items.
    pub fn collect(&mut self, items: &[u32], labels: &[f32], catalogue: usize) {
        self.seen.clear();
        self.seen.resize(catalogue.div_ceil(64), 0);
        for &item in items {
            self.seen[item as usize / 64] |= 1 << (item % 64);
        }
        self.rows.clear();
        // Entries of items that do not occur are stale but never read.
        self.position_of_item.resize(catalogue, 0);
        for (word, &bits) in self.seen.iter().enumerate() {
            for bit in ones(bits) {
                let item = (word * 64 + bit) as u32;
                self.position_of_item[item as usize] = self.rows.len() as u32;
                self.rows.push(item);
            }
        }
        self.index_samples(items, labels);
    }

    /// Collects samples as [`Self::collect`] does, with every item of the catalogue among the rows.
    pub fn collect_whole_catalogue(&mut self, items: &[u32], labels: &[f32], catalogue: usize) {
        self.rows.clear();
        self.rows.extend(0..catalogue as u32);
        self.position_of_item.clear();
        self.position_of_item.extend(0..catalogue as u32);
        self.index_samples(items, labels);
    }

    fn index_samples(&mut self, items: &[u32], labels: &[f32]) {
        let position = &self.position_of_item;
        self.samples.clear();
        self.samples.extend(
            items
                .iter()
                .zip(labels)
                .map(|(item, label)| (position[*item as usize], *label > 0.5)),
        );
    }

    /// Returns the distinct items, ascending.
    pub fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// Returns the samples, as (position in [`Self::rows`], whether it is a positive).
    pub fn samples(&self) -> &[(u32, bool)] {
        &self.samples
    }

    /// Returns the samples to put them into another order.
    pub fn samples_mut(&mut self) -> &mut [(u32, bool)] {
        &mut self.samples
    }

    /// Puts the samples into a new random order, for mini-batches.
    pub fn shuffle(&mut self, stream: &mut Stream) {
        stream.shuffle_portably(&mut self.samples);
    }
}

impl RowWeights {
    /// Replaces the weights by those of `batch` over `rows` rows. The penalty weight of a row is
    /// `penalty_per_occurrence` times its count or, if it is given, `penalty_per_row` for every
    /// row.
    pub fn count_batch(
        &mut self,
        batch: &[(u32, bool)],
        rows: usize,
        penalty_per_occurrence: f32,
        penalty_per_row: Option<f32>,
    ) {
        self.reset(rows);
        for &(row, is_positive) in batch {
            self.count[row as usize] += 1.0;
            if is_positive {
                self.positive[row as usize] += 1.0;
            }
        }
        match penalty_per_row {
            Some(penalty) => self.penalty[..rows].fill(penalty),
            None => {
                for (penalty, count) in self.penalty.iter_mut().zip(&self.count) {
                    *penalty = count * penalty_per_occurrence;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_distinct_ascending_and_samples_point_at_them() {
        let mut rows = RoundRows::default();
        for catalogue in [71, 500] {
            rows.collect(&[70, 3, 64, 3], &[1.0, 0.0, 0.0, 0.0], catalogue);
            assert_eq!(rows.rows(), [3, 64, 70]);
            assert_eq!(
                rows.samples(),
                [(2, true), (0, false), (1, false), (0, false)]
            );
        }
        rows.collect_whole_catalogue(&[2, 0], &[0.0, 1.0], 4);
        assert_eq!(rows.rows(), [0, 1, 2, 3]);
        assert_eq!(rows.samples(), [(2, false), (0, true)]);
    }

    #[test]
    fn duplicates_count_towards_the_batch_and_its_penalty() {
        let mut weights = RowWeights::default();
        weights.count_batch(&[(0, false), (1, true), (0, false)], 3, 0.5, None);
        assert_eq!(weights.count[..3], [2.0, 1.0, 0.0]);
        assert_eq!(weights.positive[..3], [0.0, 1.0, 0.0]);
        assert_eq!(weights.penalty[..3], [1.0, 0.5, 0.0]);
        weights.count_batch(&[(0, false)], 3, 0.5, Some(2.0));
        assert_eq!(
            weights.penalty[..4],
            [2.0, 2.0, 2.0, 0.0],
            "padding rows have no penalty"
        );
    }
}
