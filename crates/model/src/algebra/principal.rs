//! Finds the principal components of the rows of a table.

use ndarray::Array2;

use super::{Result, add_gram, symmetric_eigen};

/// The leading principal components of rows, with the rows' mean.
#[derive(Clone, Debug)]
pub struct Principal {
    mean: Vec<f64>,
    /// The components, each a unit vector. The row with the score of largest magnitude has a
    /// positive one; the first of equal ones decides.
    components: Vec<Vec<f64>>,
}

impl Principal {
    /// Finds this many components of `rows`, of `dimension` columns. Each row counts as often as
    /// `counts` says, one number from 0 on for each, or once. Costs n k^2 multiply-adds for n rows, n k
    /// values in double precision, and the decomposition.
    ///
    /// # Errors
    /// As [`symmetric_eigen`].
    ///
    /// # Panics
    /// If there are not as many counts as rows, a defect of the caller.
    pub fn of(
        rows: &[f32],
        dimension: usize,
        counts: Option<&[f64]>,
        number: usize,
    ) -> Result<Self> {
        let count = |row: usize| counts.map_or(1.0, |counts| counts[row]);
        let each = || rows.chunks_exact(dimension).enumerate();
        let (mut mean, mut total) = (vec![0.0; dimension], 0.0);
        for (at, row) in each() {
            total += count(at);
            let sums = mean.iter_mut().zip(row);
            sums.for_each(|(sum, value)| *sum += count(at) * f64::from(*value));
        }
        mean.iter_mut().for_each(|sum| *sum /= f64::max(total, 1.0));
        let centred = |(row, column)| f64::from(rows[row * dimension + column]) - mean[column];
        let centred = Array2::from_shape_fn((rows.len() / dimension, dimension), centred);
        let mut scatter = Array2::zeros((dimension, dimension));
        add_gram(&mut scatter, &centred.view(), counts);
        let eigen = symmetric_eigen(&scatter.view())?;
        let vectors = eigen.vectors.rows().into_iter().take(number);
        let mut found = Self {
            mean,
            components: vectors.map(|vector| vector.to_vec()).collect(),
        };
        for number in 0..found.components.len() {
            let scores = found.scores(number, rows);
            let counted = scores.iter().enumerate().filter(|(at, _)| count(*at) > 0.0);
            let largest = counted.fold(0.0f64, |largest, (_, score)| {
                match score.abs() > largest.abs() {
                    true => *score,
                    false => largest,
                }
            });
            let sign = if largest < 0.0 { -1.0 } else { 1.0 };
            let component = found.components[number].iter_mut();
            component.for_each(|value| *value *= sign);
        }
        Ok(found)
    }

    /// Returns the scores of `rows` on a component, which are the products of the centred rows with it.
    #[must_use]
    pub fn scores(&self, component: usize, rows: &[f32]) -> Vec<f64> {
        let component = &self.components[component];
        let mut centred = vec![0.0; self.mean.len()];
        let score = |row: &[f32]| {
            centre(row, &self.mean, &mut centred);
            let products = centred.iter().zip(component);
            products.map(|(value, weight)| value * weight).sum()
        };
        rows.chunks_exact(self.mean.len()).map(score).collect()
    }

    /// Returns the components, one after the other.
    #[must_use]
    pub fn directions(&self) -> Vec<f32> {
        let values = self.components.iter().flatten();
        values.map(|value| *value as f32).collect()
    }
}

fn centre(row: &[f32], mean: &[f64], centred: &mut [f64]) {
    for ((centred, value), mean) in centred.iter_mut().zip(row).zip(mean) {
        *centred = f64::from(*value) - mean;
    }
}
