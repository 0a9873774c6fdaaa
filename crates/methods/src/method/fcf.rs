//! Implements FCF, federated collaborative filtering by implicit least squares with the gradients
//! of all items.
//!
//! The user vector x_u is private. It has a closed form and is not kept after a participation. The
//! item table Y is shared. With c_ui = 1 + alpha y_ui (y_ui is 1 for the user's positives and 0 for
//! all other items) a device solves x_u = (Y^T C_u Y + lambda I)^(-1) Y^T C_u p_u and uploads c_ui
//! (x_u . y_i - p_ui) x_u for **all** items, so that the table of gradients does not list the
//! positives. The server adds up the gradients of a step's participants and moves Y by Adam. The
//! gradient is 2 sum + 2 lambda y_i in the paper and half of that here, which Adam's normalisation
//! cancels. For scoring, a device solves for x_u in the newest table, optionally with more weight
//! on recent positives: alpha is multiplied by their weights. Times never leave the device.
//!
//! Source: Ammad-ud-din et al., Federated Collaborative Filtering for Privacy-Preserving
//! Personalized Recommendation System, arXiv 1901.09888, sections 3.1 and 3.2; FedRec's slides,
//! equation 3.

use std::sync::Arc;

use ndarray::{Array2, ArrayView2};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::averager::Averager;
use super::recency::{Recency, weighted_positives};
use super::rule::{Combine, Optimizer, ServerRule};
use super::user_vector::{checked_vector, score_items, single_precision, singular, unscorable};
use super::{
    Client, Entry, LocalTask, LocalUpdate, Method, Phase, Placement, Problem, Scorer,
    ScoringContext, Scratch, Server, largest_magnitude, parameters, sizes_of_item_table,
};
use fedrecsim_core::error::Result;
use fedrecsim_core::ids::UserId;
use fedrecsim_core::rng::{PortableDraws, Purpose, Streams};
use fedrecsim_model::model::algebra;
use fedrecsim_model::model::blocks::{Model, ModelUpdate};
use fedrecsim_model::model::kernel::MAX_DIMENSION;
use fedrecsim_model::model::layout::{BlockLayout, Layout};
use fedrecsim_model::model::least_squares::{
    LeastSquares, Positives, Weights, gram_of_table, score,
};
use fedrecsim_model::model::state::StateVisitor;
use fedrecsim_model::model::table::{Table, TableShape, TableUpdate};

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry {
    name: "fcf",
    summary: "implicit least squares: gradients of the whole item table from everybody, Adam on the server",
    source: "Ammad-ud-din et al., Federated Collaborative Filtering, arXiv 1901.09888",
    schema: &|| schemars::schema_for!(FcfParameters),
    resolve: &|_| Vec::new(),
    placement: Placement::Federated,
    draws_negatives: false,
    sizes: &|value, size| {
        sizes_of_item_table("Y", (value, size), |p: FcfParameters| p.latent_dimension)
    },
    build: &|value, problem| Ok(Box::new(Fcf::new(parameters("fcf", value)?, problem))),
};

/// Parameters of FCF.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct FcfParameters {
    /// Latent dimension k.
    #[schemars(range(min = 1, max = MAX_DIMENSION))]
    pub latent_dimension: u32,
    /// Confidence alpha: a positive weighs 1 + alpha, any other item 1.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub confidence: f64,
    /// Weight lambda of the regulariser.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub regularization: f64,
    /// The server's learning rate.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub server_rate: f64,
    /// Adam's decay of the first moment.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1.0))]
    pub beta1: f64,
    /// Adam's decay of the second moment.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1.0))]
    pub beta2: f64,
    /// Added to the root of Adam's second moment.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub epsilon: f64,
    /// The rows of Y start as normal draws of this length, about.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub initial_length: f64,
    /// Lets recent positives count more when a device scores. Left out: all count alike.
    pub recency: Option<Recency>,
}

impl Default for FcfParameters {
    fn default() -> Self {
        Self {
            latent_dimension: 32,
            confidence: 4.0,
            regularization: 10.0,
            server_rate: 0.05,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            initial_length: 0.1,
            recency: None,
        }
    }
}

/// Holds what all clients share.
#[derive(Debug)]
pub(crate) struct Fcf {
    shared: Arc<Shared>,
    streams: Streams,
}

#[derive(Debug)]
struct Shared {
    parameters: FcfParameters,
    shape: TableShape,
}

impl Fcf {
    /// Makes the method for a problem of this size. The rows of Y are drawn from N(0, length^2 /
    /// k).
    pub(crate) fn new(parameters: FcfParameters, problem: &Problem) -> Self {
        let shape = TableShape::of_items(problem.items, parameters.latent_dimension);
        Self {
            shared: Arc::new(Shared { parameters, shape }),
            streams: problem.streams,
        }
    }
}

impl Shared {
    /// Returns x_u for this table, with this factor of alpha for each positive.
    fn solve(
        &self,
        table: &Table,
        (positives, factors): (&[u32], &[f64]),
        solver: &mut LeastSquares,
    ) -> algebra::Result<Vec<f64>> {
        let gram = gram_of_table(&table.view())?;
        let FcfParameters {
            confidence,
            regularization,
            ..
        } = self.parameters;
        let weights: Vec<f64> = factors.iter().map(|factor| confidence * factor).collect();
        user_vector(
            solver,
            &gram,
            &table.view(),
            (positives, &weights),
            regularization,
        )
    }

    /// Returns the number of multiply-adds of a participation with this many positives.
    fn multiply_adds(&self, positives: usize) -> u64 {
        let (m, k) = (self.shape.rows as u64, self.shape.dimension as u64);
        m * k * (k + 1) / 2
            + LeastSquares::multiply_adds(positives, self.shape.dimension)
            + 2 * m * k
    }
}

impl Method for Fcf {
    fn initial(&self) -> Model {
        let mut stream = self.streams.stream(Purpose::GlobalInit, 0, 0);
        let shape = self.shared.shape;
        let deviation = self.shared.parameters.initial_length
            / fedrecsim_core::math::sqrt(shape.dimension as f64);
        Model::of_table(
            "Y",
            Table::from_fn(shape, || (deviation * stream.standard_normal()) as f32),
        )
    }

    fn upload_layout(&self, _phase: Phase) -> Layout {
        Layout::new(vec![
            BlockLayout::item_table("Y", self.shared.shape).statistic(),
        ])
    }

    fn client(&self, _user: UserId) -> Box<dyn Client> {
        Box::new(FcfClient {
            shared: Arc::clone(&self.shared),
        })
    }

    fn server(&self) -> Box<dyn Server> {
        let FcfParameters {
            regularization,
            server_rate,
            beta1,
            beta2,
            epsilon,
            ..
        } = self.shared.parameters;
        let rule = ServerRule {
            combine: Combine::Sum,
            optimizer: Optimizer::Adam {
                beta1,
                beta2,
                epsilon,
            },
            rate: server_rate,
            weight_decay: regularization,
            ..ServerRule::MEAN
        };
        Box::new(Averager::with_rules(
            self.initial(),
            self.upload_layout(Phase::default()),
            &[rule],
        ))
    }
}

/// Implements a device, which keeps no state from one participation to the next.
#[derive(Clone)]
struct FcfClient {
    shared: Arc<Shared>,
}

impl Client for FcfClient {
    fn train(&mut self, task: &LocalTask<'_>, scratch: &mut Scratch) -> Result<LocalUpdate> {
        let Shared {
            parameters, shape, ..
        } = &*self.shared;
        let table = task.model.table(0);
        let (positives, equal) = weighted_positives(&task.own, None);
        let vector = self
            .shared
            .solve(table, (&positives, &equal), &mut scratch.least_squares);
        let vector = vector.map_err(|cause| singular(task, cause))?;
        checked_vector(task, "x", &vector)?;
        let squared =
            |&item: &u32| (1.0 - score(&vector, &table.view().row(item as usize))).powi(2);
        let loss = positives.iter().map(squared).sum::<f64>() / positives.len().max(1) as f64;
        let gradients = item_gradients(&vector, &table.view(), &positives, parameters.confidence);
        task.check_magnitude("gradient", largest_magnitude(&gradients))?;
        let update = ModelUpdate::of_table(TableUpdate::whole(&Table::new(*shape, gradients)));
        // Every row is read for Y^T Y and again for its gradient.
        let (row_visits, work) = (
            2 * shape.rows as u64,
            self.shared.multiply_adds(positives.len()),
        );
        Ok(LocalUpdate::new(update, loss, row_visits).with_multiply_adds(work))
    }

    fn scorer<'a>(
        &'a self,
        context: &ScoringContext<'a>,
        scratch: &mut Scratch,
    ) -> Result<Box<dyn Scorer + 'a>> {
        let table = context.model.table(0);
        let (positives, factors) =
            weighted_positives(&context.own, self.shared.parameters.recency.as_ref());
        let vector = self
            .shared
            .solve(table, (&positives, &factors), &mut scratch.least_squares);
        let vector = vector.map_err(|cause| unscorable(context, cause))?;
        let vector = single_precision(&vector);
        Ok(Box::new(move |items: &[u32], scores: &mut [f32]| {
            score_items(&vector, table, items, scores)
        }))
    }

    fn visit_state(&mut self, _state: &mut StateVisitor<'_>) -> Result<()> {
        Ok(())
    }
}

/// Returns x_u (k values) for a user's positives with these weights beyond 1, which are alpha where
/// all count alike. `gram` is Y^T Y, of which the upper triangle is read.
///
/// # Errors
/// Those of [`LeastSquares::user_vector`].
pub(crate) fn user_vector(
    solver: &mut LeastSquares,
    gram: &Array2<f64>,
    table: &ArrayView2<'_, f32>,
    (positives, weights): (&[u32], &[f64]),
    regularization: f64,
) -> algebra::Result<Vec<f64>> {
    // C_u is 1 plus its weight for each positive, and so is C_u p_u there.
    let positives = Positives {
        items: positives,
        weights: Weights::Each(weights),
        target_offset: 1.0,
    };
    solver.user_vector(gram, table, positives, regularization)
}

/// Returns c_ui (x_u . y_i - p_ui) x_u for every item (m k values). `positives` must ascend.
pub(crate) fn item_gradients(
    vector: &[f64],
    table: &ArrayView2<'_, f32>,
    positives: &[u32],
    confidence: f64,
) -> Vec<f32> {
    let mut gradients = Vec::with_capacity(table.len());
    let mut positives = positives.iter().copied().peekable();
    for (item, row) in table.rows().into_iter().enumerate() {
        let is_positive = positives.next_if_eq(&(item as u32)).is_some();
        while positives.next_if_eq(&(item as u32)).is_some() {}
        let (weight, target) = if is_positive {
            (1.0 + confidence, 1.0)
        } else {
            (1.0, 0.0)
        };
        let error = weight * (score(vector, &row) - target);
        gradients.extend(vector.iter().map(|value| (error * value) as f32));
    }
    gradients
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use fedrecsim_data::dataset::OwnData;
    use fedrecsim_model::model::least_squares::gram_of_table;

    const ALPHA: f64 = 4.0;
    const LAMBDA: f64 = 0.5;

    fn table() -> Array2<f32> {
        Array2::from_shape_fn((6, 3), |(item, column)| {
            ((item * 7 + column * 5) % 11) as f32 / 5.0 - 1.0
        })
    }

    /// Returns the loss of one user by equation 1 of the paper.
    fn loss(table: &Array2<f32>, positives: &[u32], x: &[f64]) -> f64 {
        let items = table.rows().into_iter().enumerate().map(|(item, row)| {
            let target = f64::from(u8::from(positives.contains(&(item as u32))));
            (1.0 + ALPHA * target) * (target - score(x, &row)).powi(2)
        });
        items.sum::<f64>() + LAMBDA * x.iter().map(|value| value * value).sum::<f64>()
    }

    /// If this fails, the closed form or the gradients are those of another loss.
    #[test]
    fn the_user_vector_is_the_minimum_and_the_gradients_are_half_the_slopes() {
        let (table, positives) = (table(), [1u32, 4]);
        let gram = gram_of_table(&table.view()).unwrap();
        let mut solver = LeastSquares::default();
        let x = user_vector(
            &mut solver,
            &gram,
            &table.view(),
            (&positives, &[ALPHA; 2]),
            LAMBDA,
        )
        .unwrap();
        for axis in 0..3 {
            let moved = |step: f64| {
                let mut other = x.clone();
                other[axis] += step;
                loss(&table, &positives, &other)
            };
            assert!(((moved(1e-4) - moved(-1e-4)) / 2e-4).abs() < 1e-7);
        }
        let gradients = item_gradients(&x, &table.view(), &positives, ALPHA);
        for item in 0..6 {
            for axis in 0..3 {
                let moved = |step: f32| {
                    let mut other = table.clone();
                    other[(item, axis)] += step;
                    loss(&other, &positives, &x)
                };
                let slope = (moved(0.015_625) - moved(-0.015_625)) / 0.031_25;
                assert!((slope / 2.0 - f64::from(gradients[item * 3 + axis])).abs() < 1e-6);
            }
        }
    }

    /// If this fails, a device that scores with recency does not weigh its positives, or weighs
    /// them the other way round.
    #[test]
    fn a_recent_positive_pulls_the_user_vector_more_than_an_old_one() {
        let table = Table::new(
            TableShape {
                rows: 2,
                dimension: 2,
            },
            vec![1.0, 0.0, 0.0, 1.0],
        );
        let vector = |recency| {
            let parameters = FcfParameters {
                regularization: LAMBDA,
                recency,
                ..FcfParameters::default()
            };
            let shared = Shared {
                parameters,
                shape: table.shape(),
            };
            // Item 1 is later than item 0.
            let own = OwnData::new(&[0, 1]).with_recency_ranks(&[1u32, 0][..]);
            let (positives, factors) = weighted_positives(&own, shared.parameters.recency.as_ref());
            shared
                .solve(&table, (&positives, &factors), &mut LeastSquares::default())
                .unwrap()
        };
        let (alike, recent) = (
            vector(None),
            vector(Some(Recency {
                tau: 1.0,
                floor: 0.0,
            })),
        );
        assert_eq!(alike[0], alike[1]);
        assert!(
            recent[1] > alike[1] && recent[0] < alike[0],
            "{recent:?} without recency {alike:?}"
        );
        // The factors e^(-1) and 1 are scaled to a sum of 2, and an item of its own dimension has
        // (1 + w) / (1 + w + lambda).
        let weight = ALPHA * 2.0 / (1.0 + (-1f64).exp());
        assert!((recent[1] - (1.0 + weight) / (1.0 + weight + LAMBDA)).abs() < 1e-12);
    }

    /// If this fails, the virtual time of a participation no longer follows from the arithmetic
    /// that it takes.
    #[test]
    fn the_work_is_that_of_the_gram_matrix_the_solution_and_the_gradients() {
        let shape = TableShape {
            rows: 150,
            dimension: 4,
        };
        let shared = Shared {
            parameters: FcfParameters::default(),
            shape,
        };
        // Y^T Y has 10 different values, each the sum of a product per item. A gradient takes an
        // inner product and a scaling.
        assert_eq!(
            shared.multiply_adds(7),
            150 * 10 + LeastSquares::multiply_adds(7, 4) + 150 * (4 + 4)
        );
    }

    /// If this fails, training starts from rows of another length than the one that the scenario
    /// states.
    #[test]
    fn rows_start_with_the_stated_length() {
        let parameters = FcfParameters {
            initial_length: 0.3,
            ..FcfParameters::default()
        };
        let shape = TableShape {
            rows: 2000,
            dimension: 4,
        };
        let method = Fcf {
            shared: Arc::new(Shared { parameters, shape }),
            streams: Streams::new(1),
        };
        let start = method.initial();
        let squares: f64 = start
            .table(0)
            .as_slice()
            .iter()
            .map(|value| f64::from(*value).powi(2))
            .sum();
        let length = (squares / 2000.0).sqrt();
        assert!((length / 0.3 - 1.0).abs() < 0.05, "{length}");
    }
}
