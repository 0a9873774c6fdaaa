//! Measures how far predicted ratings are from the true ones.

use serde::{Deserialize, Serialize};

use super::{Formula, Metric};

/// Errors of some predictions, summed for each of a list of metrics.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RatingErrors {
    /// Number of predictions.
    pub ratings: u64,
    /// One sum for each metric; 0 for a metric that is not an error.
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
                if let Formula::Error { of_difference, .. } = metric.family().of {
                    *sum += of_difference(difference);
                }
            }
        }
        errors
    }
}
