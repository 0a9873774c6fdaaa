//! Measures how far predicted ratings are from the true ones.

use serde::{Deserialize, Serialize};

use super::{Formula, Metric};

/// A mean error.
#[derive(Clone, Copy, Debug)]
pub struct ErrorMeasure {
    /// Function from the difference of one prediction to what it counts.
    pub of_difference: fn(f64) -> f64,
    /// Function from the mean of these to the figure.
    pub of_mean: fn(f64) -> f64,
}

/// The root of the mean square error.
pub(super) const ROOT_MEAN_SQUARE: ErrorMeasure = ErrorMeasure {
    of_difference: |difference| difference * difference,
    of_mean: crate::math::sqrt,
};

/// The mean of the errors' magnitudes.
pub(super) const MEAN_ABSOLUTE: ErrorMeasure = ErrorMeasure {
    of_difference: f64::abs,
    of_mean: |mean| mean,
};

/// Errors of some predictions, summed for each of a list of figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RatingErrors {
    /// Number of predictions.
    pub ratings: u64,
    /// One sum for each figure; 0 for a figure that is not an error.
    pub sums: Vec<f64>,
}

impl RatingErrors {
    /// Returns the errors of `predictions`, pairs of a predicted and a true rating, for each of
    /// `metrics`.
    pub fn of(metrics: &[Metric], predictions: impl IntoIterator<Item = (f32, f32)>) -> Self {
        let mut errors = Self {
            ratings: 0,
            sums: vec![0.0; metrics.len()],
        };
        for (predicted, rating) in predictions {
            errors.ratings += 1;
            let difference = f64::from(predicted) - f64::from(rating);
            for (metric, sum) in metrics.iter().zip(&mut errors.sums) {
                if let Formula::Error(measure) = metric.formula() {
                    *sum += (measure.of_difference)(difference);
                }
            }
        }
        errors
    }
}
