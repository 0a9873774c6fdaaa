//! Defines FedGram's parameters.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::numerics::{Constants, triangle_values};
use super::{MEAN_POSITIVES, POPULARITY};
use crate::method::recency;
use fedrecsim_model::model::kernel::MAX_DIMENSION;
use fedrecsim_model::model::layout::{BlockLayout, Layout};
use fedrecsim_model::model::table::TableShape;
use fedrecsim_scenario::scenario::ParameterFault;

/// Parameters of FedGram.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FedGramParameters {
    /// Latent dimension k.
    #[schemars(range(min = 1, max = MAX_DIMENSION))]
    pub latent_dimension: u32,
    /// Weight a0 of every item as a negative; that of a positive is 1.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub unobserved_weight: f64,
    /// Weight lambda of the regulariser.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub regularization: f64,
    /// Share eta of a Newton step that the server makes.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0.0))]
    pub server_rate: f64,
    /// Factor of the server's rate after every step; below 1 where cohorts are a small part of the
    /// users.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0.0))]
    pub server_rate_decay: f64,
    /// The rows of Y start as normal draws of this length, about.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub initial_length: f64,
    /// Weight beta of an item's popularity, the share of the last step's participants who have it,
    /// in its score.
    #[schemars(range(min = 0))]
    pub popularity_weight: f64,
    /// Whether devices send a count of 1 for each of their positives and for themselves beside the
    /// rows, so that the server uses nothing but sums, which secure aggregation and noise on the
    /// sum need. Otherwise it counts who has sent which row.
    pub sends_counts: bool,
    /// Lets recent positives count more when a device scores. Left out: all count alike.
    pub recency: Option<Recency>,
    /// Lets `unobserved_weight` and `regularization` follow from the density of the data. Left out:
    /// they are as they are.
    pub by_density: Option<ByDensity>,
}

/// Weights of the loss that follow from the number of positives of the mean participant of the last
/// step, so that the same settings serve data of any density. The server counts the rows of each
/// upload, or adds up the counts that devices send, and sends the mean with the model. Before its
/// first step, a device takes its own number of positives instead. With small cohorts the weights
/// vary from step to step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ByDensity {
    /// Weight of all items together as negatives, for each positive of the mean participant: with a
    /// mean of p positives in a catalogue of m items, a0 is this times p / m.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub unobserved_per_positive: f64,
    /// Weight of the regulariser of the mean participant: lambda is this, divided by (p + a0 m)^nu,
    /// where nu is the regulariser's exponent, which is 1 in FedGram.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub regularization: f64,
}

impl Default for ByDensity {
    fn default() -> Self {
        Self {
            unobserved_per_positive: 40.0,
            regularization: 7.0,
        }
    }
}

impl ByDensity {
    /// Returns `fixed` with the weights for this number of positives of the mean user, which counts
    /// as 1 at least, and this number of items.
    pub(super) fn constants(&self, fixed: Constants, mean_positives: f64, items: f64) -> Constants {
        let mean_positives = mean_positives.max(1.0);
        let unobserved_weight = self.unobserved_per_positive * mean_positives / items;
        let of_lambda_one = Constants {
            unobserved_weight,
            regularization: 1.0,
            ..fixed
        };
        let regularization = self.regularization / of_lambda_one.ridge(mean_positives, items);
        Constants {
            unobserved_weight,
            regularization,
            ..fixed
        }
    }
}

/// How recent positives count more: [`recency::Recency`], and what becomes of the old ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Recency {
    /// Number tau of positives after which a weight has fallen to 1/e.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub tau: f64,
    /// Weight that remains of the oldest positives.
    #[schemars(range(min = 0))]
    pub floor: f64,
    /// What the weight among all items pulls an old positive to.
    pub background: Background,
}

/// What the term over all items pulls a user's positives to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Background {
    /// To 1: a positive never counts less than a0, however old it is.
    PositivesAtOne,
    /// To 0, like every other item: an old positive comes to count like an item that was never
    /// seen.
    AllAtZero,
}

impl Default for Recency {
    fn default() -> Self {
        let recency::Recency { tau, floor } = recency::Recency::default();
        Self {
            tau,
            floor,
            background: Background::PositivesAtOne,
        }
    }
}

impl Default for FedGramParameters {
    fn default() -> Self {
        Self {
            latent_dimension: 32,
            unobserved_weight: 0.3,
            regularization: 0.01,
            server_rate: 1.0,
            server_rate_decay: 1.0,
            initial_length: 0.1,
            popularity_weight: 0.0,
            sends_counts: false,
            recency: None,
            by_density: None,
        }
    }
}

impl FedGramParameters {
    /// Returns the shape of the block that holds the upper triangle of a k x k matrix.
    pub(super) fn triangle(&self) -> TableShape {
        TableShape {
            rows: 1,
            dimension: triangle_values(self.latent_dimension as usize),
        }
    }

    /// Returns the layout of the model for this many items: Y, Y^T Y, the items' popularity if it
    /// has a weight, and the number of positives of the mean user if the loss depends on it.
    pub(crate) fn layout(&self, items: usize) -> Layout {
        let mut blocks = vec![
            BlockLayout::item_table("Y", TableShape::of_items(items, self.latent_dimension)),
            BlockLayout::weights("Y^T Y", self.triangle()),
        ];
        if self.popularity_weight > 0.0 {
            blocks.push(BlockLayout::weights(
                POPULARITY,
                TableShape {
                    rows: items,
                    dimension: 1,
                },
            ));
        }
        if self.by_density.is_some() {
            blocks.push(BlockLayout::weights(
                MEAN_POSITIVES,
                TableShape {
                    rows: 1,
                    dimension: 1,
                },
            ));
        }
        Layout::new(blocks)
    }
}

/// Returns the parameters that others leave without an effect, of FedGram and of the central method
/// with its loss.
pub fn without_effect(value: &mut Value) -> Vec<ParameterFault> {
    if value.get("by_density").is_none_or(Value::is_null) {
        return Vec::new();
    }
    let usual = FedGramParameters::default();
    let replaced = [
        ("unobserved_weight", usual.unobserved_weight),
        ("regularization", usual.regularization),
    ];
    let is_written =
        |(key, usual): &(&str, f64)| value.get(*key).and_then(Value::as_f64) != Some(*usual);
    let because = "it follows from the data with `by_density`";
    replaced
        .iter()
        .filter(|entry| is_written(entry))
        .map(|(key, _)| ParameterFault::without_effect(key, because))
        .collect()
}
