//! Collects the distinct item rows of a mini-batch as the samples of a network.

use super::SampleMatrix;
use super::loss::Targets;

/// Holds a mini-batch of one user, each item once with its numbers of occurrences and of positives.
///
/// All samples of a user share the user's vector, so that equal items have equal outputs, which are
/// computed only once.
#[derive(Clone, Debug, Default)]
pub struct RowBatch {
    rows: Vec<u32>,
    targets: Targets,
    occurrences: usize,
    /// The occurrences and positives of each row. They are all zero between batches.
    tally: Vec<[u32; 2]>,
}

impl RowBatch {
    /// Collects `samples`, each the position of its row among `rows` rows and whether it is a
    /// positive.
    pub fn collect(&mut self, samples: &[(u32, bool)], rows: usize) {
        self.tally.resize(rows, [0; 2]);
        for &(row, is_positive) in samples {
            let [count, positives] = &mut self.tally[row as usize];
            *count += 1;
            *positives += u32::from(is_positive);
        }
        self.rows.clear();
        self.targets.clear();
        self.occurrences = samples.len();
        for (row, tally) in self.tally.iter_mut().enumerate() {
            let [count, positives] = std::mem::take(tally);
            if count > 0 {
                self.rows.push(row as u32);
                self.targets.push(count as f32, positives as f32);
            }
        }
    }

    /// Returns the distinct rows, ascending.
    pub fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// Returns how often each of the rows occurs, and how often it is a positive.
    pub fn targets(&self) -> &Targets {
        &self.targets
    }

    /// Returns the number of samples, repetitions included.
    pub fn occurrences(&self) -> usize {
        self.occurrences
    }

    /// Replaces `matrix` by the distinct rows of `table`, which is row-major with `dimension`
    /// columns.
    pub fn gather(&self, table: &[f32], dimension: usize, matrix: &mut SampleMatrix) {
        matrix.reset(self.rows.len(), dimension);
        for (sample, &row) in self.rows.iter().enumerate() {
            let start = row as usize * dimension;
            matrix.set_sample(sample, &table[start..start + dimension]);
        }
    }

    /// Writes the rows of `matrix` to their places in `table`, which is row-major. Other rows stay
    /// as they are.
    pub fn scatter(&self, matrix: &SampleMatrix, table: &mut [f32]) {
        let dimension = matrix.features();
        for (sample, &row) in self.rows.iter().enumerate() {
            let start = row as usize * dimension;
            matrix.read_sample(sample, &mut table[start..start + dimension]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, an item that is in a batch twice counts once, or rows are written to other
    /// items' places.
    #[test]
    fn rows_are_distinct_and_come_back_to_their_places() {
        let mut batch = RowBatch::default();
        for _ in 0..2 {
            batch.collect(&[(3, true), (0, false), (3, false), (3, true)], 5);
            assert_eq!((batch.rows(), batch.occurrences()), (&[0, 3][..], 4));
            let mut expected = Targets::default();
            expected.push(1.0, 0.0);
            expected.push(3.0, 2.0);
            assert_eq!(*batch.targets(), expected);
        }
        let table: Vec<f32> = (0..10).map(|value| value as f32).collect();
        let mut matrix = SampleMatrix::default();
        batch.gather(&table, 2, &mut matrix);
        let mut back = vec![-1.0; 10];
        batch.scatter(&matrix, &mut back);
        assert_eq!(
            back,
            [0.0, 1.0, -1.0, -1.0, -1.0, -1.0, 6.0, 7.0, -1.0, -1.0]
        );
    }
}
