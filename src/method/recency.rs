//! Defines how recent positives count more when a device scores with its own positives.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::user_vector::{DistinctPositives, recency_weights};
use crate::dataset::OwnData;

/// How recent positives count more: w_i = floor + exp(-rho_i / tau), rho_i being the number of the user's positives
/// strictly later than i.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Recency {
    /// Number tau of positives after which a weight has fallen to 1/e.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub tau: f64,
    /// Weight that remains of the oldest positives.
    #[schemars(range(min = 0))]
    pub floor: f64,
}

impl Default for Recency {
    fn default() -> Self {
        Self { tau: 5.0, floor: 0.1 }
    }
}

/// Returns the positives of a user, ascending and each once, and the weight of each, which is 1 without `recency`.
pub(super) fn weighted_positives(own: &OwnData<'_>, recency: Option<&Recency>) -> (Vec<u32>, Vec<f64>) {
    let DistinctPositives { items, later } = DistinctPositives::of(own);
    let weights = match recency {
        Some(recency) => recency_weights(&later, recency.floor, recency.tau),
        None => vec![1.0; items.len()],
    };
    (items, weights)
}
