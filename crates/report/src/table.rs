//! Describes tables of parameters: how many of their values are small.

use ndarray::ArrayView2;

/// The thresholds of a [`Summary`], which counts the values above each, as in FedRAP's table of the
/// values of C (arXiv version 1, Table 3).
pub const THRESHOLDS: [f64; 6] = [0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2];

/// Describes the values of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The number of rows.
    pub rows: usize,
    /// The number of columns.
    pub columns: usize,
    /// The mean magnitude of a value.
    pub mean_magnitude: f64,
    /// The largest magnitude of a value.
    pub largest_magnitude: f64,
    /// The share of values whose magnitude is above each of [`THRESHOLDS`].
    pub shares_above: [f64; THRESHOLDS.len()],
    /// The share of rows that have a value other than 0.
    pub rows_in_use: f64,
}

impl Summary {
    /// Describes `table`, which has at least one value.
    pub fn of(table: &ArrayView2<'_, f64>) -> Self {
        let values = table.len() as f64;
        let share = |count: usize| count as f64 / values;
        let in_use = table
            .rows()
            .into_iter()
            .filter(|row| row.iter().any(|value| *value != 0.0))
            .count();
        Self {
            rows: table.nrows(),
            columns: table.ncols(),
            mean_magnitude: table.iter().map(|value| value.abs()).sum::<f64>() / values,
            largest_magnitude: table
                .iter()
                .fold(0.0, |largest, value| value.abs().max(largest)),
            shares_above: THRESHOLDS
                .map(|threshold| share(table.iter().filter(|v| v.abs() > threshold).count())),
            rows_in_use: in_use as f64 / table.nrows() as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    /// If this fails, a table is said to be sparser or denser than it is.
    #[test]
    fn shares_count_magnitudes_above_each_threshold() {
        let summary =
            Summary::of(&array![[0.0, 0.5], [-2e-3, 5e-7], [0.0, 0.0], [1e-2, -5e-5]].view());
        assert_eq!((summary.rows, summary.columns), (4, 2));
        assert_eq!(
            summary.shares_above,
            [5.0, 4.0, 4.0, 3.0, 3.0, 1.0].map(|count| count / 8.0)
        );
        assert_eq!(summary.rows_in_use, 0.75);
        assert_eq!(summary.largest_magnitude, 0.5);
    }
}
