//! Defines how recent positives count more when a device scores with its own positives.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::user_vector::DistinctPositives;
use fedrecsim_data::dataset::OwnData;

/// How recent positives count more: w_i = floor + exp(-rho_i / tau), rho_i being the number of the
/// user's positives strictly later than i, scaled to the sum of the user's positives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Recency {
    /// Number tau of positives after which a weight has fallen to 1/e.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub tau: f64,
    /// Weight that remains of the oldest positives.
    #[schemars(range(min = 0))]
    pub floor: f64,
}

impl Default for Recency {
    fn default() -> Self {
        Self {
            tau: 5.0,
            floor: 0.1,
        }
    }
}

impl Recency {
    /// Returns the weights w_i of a user's positives, scaled so that their sum is their number.
    /// `later` holds rho_i for each of them. The weights stay on the device.
    fn weights(&self, later: &[u32]) -> Vec<f64> {
        let weight =
            |rank: &u32| self.floor + fedrecsim_core::math::exp(-f64::from(*rank) / self.tau);
        let mut weights: Vec<f64> = later.iter().map(weight).collect();
        let sum: f64 = weights.iter().sum();
        let scale = weights.len() as f64 / sum;
        weights.iter_mut().for_each(|weight| *weight *= scale);
        weights
    }
}

/// Returns the positives of a user, ascending and each once, and the weight of each, which is 1
/// without `recency`.
pub(super) fn weighted_positives(
    own: &OwnData<'_>,
    recency: Option<&Recency>,
) -> (Vec<u32>, Vec<f64>) {
    let DistinctPositives { items, later } = DistinctPositives::of(own);
    let weights = match recency {
        Some(recency) => recency.weights(&later),
        None => vec![1.0; items.len()],
    };
    (items, weights)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, old positives count more than recent ones, or all of them together more than
    /// without recency.
    #[test]
    fn weights_fall_with_age_and_keep_their_sum() {
        let weights = Recency {
            tau: 5.0,
            floor: 0.1,
        }
        .weights(&[0, 1, 1, 40]);
        assert!((weights.iter().sum::<f64>() - 4.0).abs() < 1e-12);
        assert!(weights[0] > weights[1] && weights[1] == weights[2] && weights[2] > weights[3]);
        assert!((weights[3] / weights[0] - (0.1 + (-8f64).exp()) / 1.1).abs() < 1e-12);
    }
}
