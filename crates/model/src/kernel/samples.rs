//! Turns samples into the distinct rows that they touch, and into what a step needs of each row.

use crate::bits::ones;
use crate::kernel::lane_math::LANES;

/// Holds the distinct items of a participation's samples, and the position of each sample's item
/// among them. The memory is reused.
#[derive(Clone, Debug, Default)]
pub struct RoundRows {
    /// The distinct items, ascending.
    pub rows: Vec<u32>,
    /// The samples, as (position in `rows`, whether it is a positive).
    pub samples: Vec<(u32, bool)>,
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
        self.position_of_item.clone_from(&self.rows);
        self.index_samples(items, labels);
    }

    fn index_samples(&mut self, items: &[u32], labels: &[f32]) {
        let position = &self.position_of_item;
        let sample = |(item, label): (&u32, &f32)| (position[*item as usize], *label > 0.5);
        self.samples.clear();
        self.samples.extend(items.iter().zip(labels).map(sample));
    }
}

/// Holds what a loss needs of each sample beside its output, padded with zeros to a multiple of
/// sixteen.
#[derive(Clone, Debug, Default)]
pub struct Targets {
    /// For each sample, the number of its occurrences in the batch.
    pub(crate) counts: Vec<f32>,
    /// For each sample, the sum of the targets of its occurrences.
    pub(crate) sums: Vec<f32>,
}

impl Targets {
    /// Replaces the samples by these, each with the number of its occurrences and the sum of their
    /// targets.
    pub fn replace(&mut self, samples: impl IntoIterator<Item = (f32, f32)>) {
        self.counts.clear();
        self.sums.clear();
        for (count, sum) in samples {
            self.counts.push(count);
            self.sums.push(sum);
        }
        let padded = self.counts.len().next_multiple_of(LANES);
        self.counts.resize(padded, 0.0);
        self.sums.resize(padded, 0.0);
    }
}

/// Holds the distinct rows of a mini-batch of one user. Equal samples have equal outputs, which are
/// computed only once.
#[derive(Clone, Debug, Default)]
pub struct BatchRows {
    /// The rows, ascending, padded to a multiple of sixteen.
    pub(crate) padded: Vec<u32>,
    distinct: usize,
    /// How often each of the rows occurs, and how often it is a positive.
    pub targets: Targets,
    /// The number of samples, repetitions included.
    pub occurrences: u32,
    /// Has one bit for each row of the participation. All bits are zero between batches.
    seen: Vec<u64>,
    /// The number of times that each of these rows occurs, by label; all are zero between batches.
    tally: Vec<[u32; 2]>,
}

impl BatchRows {
    /// Collects the batch `samples` (position of the row among those of the participation, label),
    /// each row once, ascending.
    ///
    /// `padding_row` is the number of these rows. A packed row of that number is zero and belongs to
    /// no item: with weight zero it stays zero.
    pub fn collect(&mut self, samples: &[(u32, bool)], padding_row: u32) {
        self.occurrences = samples.len() as u32;
        self.tally.resize(padding_row as usize, [0; 2]);
        self.seen.resize((padding_row as usize).div_ceil(64), 0);
        for &(row, is_positive) in samples {
            self.seen[row as usize / 64] |= 1 << (row % 64);
            self.tally[row as usize][usize::from(is_positive)] += 1;
        }
        self.padded.clear();
        for (number, word) in self.seen.iter_mut().enumerate() {
            let bits = ones(std::mem::take(word));
            self.padded
                .extend(bits.map(|bit| (number * 64 + bit) as u32));
        }
        self.distinct = self.padded.len();
        let tally = &mut self.tally;
        self.targets.replace(self.padded.iter().map(|row| {
            let [negatives, positives] = std::mem::take(&mut tally[*row as usize]);
            ((negatives + positives) as f32, positives as f32)
        }));
        let padded = self.distinct.next_multiple_of(LANES);
        self.padded.resize(padded, padding_row);
    }

    /// Returns the positions of the distinct rows, ascending.
    pub fn rows(&self) -> &[u32] {
        &self.padded[..self.distinct]
    }
}

/// Holds what a training step needs of each row beside its values, padded like
/// [`PackedRows`](super::PackedRows).
#[derive(Clone, Debug, Default)]
pub struct RowWeights {
    /// The number of times that the row occurs in the batch.
    pub count: Vec<f32>,
    /// The number of times that it occurs there as a positive.
    pub positive: Vec<f32>,
    /// The weight of the row in the regularisers.
    pub penalty: Vec<f32>,
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
        for weights in [&mut self.count, &mut self.positive, &mut self.penalty] {
            weights.clear();
            weights.resize(rows.next_multiple_of(LANES), 0.0);
        }
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
            assert_eq!(rows.rows, [3, 64, 70]);
            assert_eq!(
                rows.samples,
                [(2, true), (0, false), (1, false), (0, false)]
            );
        }
        rows.collect_whole_catalogue(&[2, 0], &[0.0, 1.0], 4);
        assert_eq!(rows.rows, [0, 1, 2, 3]);
        assert_eq!(rows.samples, [(2, false), (0, true)]);
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
