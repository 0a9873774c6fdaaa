//! Implements FedGram, federated implicit least squares with the exact gradient of all negatives.
//!
//! The item table Y and its Gram matrix Y^T Y are shared, and a device keeps no state. A device solves for its vector
//! x, and uploads the gradients of its positives' rows and the matrix x x^T. The sum of these matrices represents all
//! pairs of a user and an item that is not a positive, so that the server can make a Newton-like step of the whole
//! table without sampled negatives. The objective is that of FCF. The step is of second order instead of first order,
//! and uploads are not dense. For scoring, a device solves for x again, optionally with more weight on recent
//! positives. Times never leave the device.
//!
//! An upload discloses the user's positives, which are its rows, and x up to its sign, which x x^T determines. The
//! server only adds uploads up, so that secure aggregation could hide both, at the price of a dense table of gradients.
//!
//! Source: This method is the project's own. The closest prior work is FCF (arXiv 1901.09888).

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::numerics::{Constants, outer_triangle, packed_triangle, row_gradients, triangle_values, unpacked_triangle};
use super::recency::{self, weighted_positives};
use super::user_vector::{
    DistinctPositives, checked_vector, score_items, single_precision, singular, times, unscorable,
};
use super::{
    Client, Entry, LocalTask, LocalUpdate, Method, Phase, Placement, Problem, Scorer, ScoringContext, Scratch, Server,
    parameters, sizes_by,
};
use crate::error::{Error, Result};
use crate::ids::UserId;
use crate::model::algebra;
use crate::model::blocks::{Model, ModelUpdate};
use crate::model::kernel::MAX_DIMENSION;
use crate::model::layout::{BlockLayout, Layout};
use crate::model::least_squares::{LeastSquares, Positives, Weights, gram_of_table};
use crate::model::state::StateVisitor;
use crate::model::table::{Table, TableShape, TableUpdate};
use crate::rng::{PortableDraws, Purpose, Streams};

pub mod numerics;
mod server;
#[cfg(test)]
mod tests;

/// Describes the method to the registry.
pub const ENTRY: Entry = Entry {
    name: "fedgram",
    summary: "implicit least squares: devices send their positives' gradients and x x^T, the server makes Newton steps",
    source: "an own method of this project (FCF's objective, arXiv 1901.09888, with a second-order server)",
    schema: &|| schemars::schema_for!(FedGramParameters),
    resolve: &|_| Vec::new(),
    placement: Placement::Federated,
    draws_negatives: false,
    sizes: &|value, size| sizes_by(value, |p: FedGramParameters| p.layout(size.items)),
    build: &|value, problem| Ok(Box::new(FedGram::new(parameters("fedgram", value)?, problem))),
};

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
    /// Factor of the server's rate after every step; below 1 where cohorts are a small part of the users.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0.0))]
    pub server_rate_decay: f64,
    /// The rows of Y start as normal draws of this length, about.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub initial_length: f64,
    /// Weight beta of an item's popularity, the share of the last step's participants who sent its row, in its score.
    #[schemars(range(min = 0))]
    pub popularity_weight: f64,
    /// Lets recent positives count more when a device scores. Left out: all count alike.
    pub recency: Option<Recency>,
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
    /// To 0, like every other item: an old positive comes to count like an item that was never seen.
    AllAtZero,
}

impl Default for Recency {
    fn default() -> Self {
        let recency::Recency { tau, floor } = recency::Recency::default();
        Self { tau, floor, background: Background::PositivesAtOne }
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
            recency: None,
        }
    }
}

impl FedGramParameters {
    /// Returns the shape of the block that holds the upper triangle of a k x k matrix.
    fn triangle(&self) -> TableShape {
        TableShape { rows: 1, dimension: triangle_values(self.latent_dimension as usize) }
    }

    /// Returns the layout of the model for this many items: Y, Y^T Y and, if it has a weight, the items' popularity.
    pub(super) fn layout(&self, items: usize) -> Layout {
        let mut blocks = vec![
            BlockLayout::item_table("Y", TableShape::of_items(items, self.latent_dimension)),
            BlockLayout::weights("Y^T Y", self.triangle()),
        ];
        if self.popularity_weight > 0.0 {
            blocks.push(BlockLayout::weights("popularity", TableShape { rows: items, dimension: 1 }));
        }
        Layout::new(blocks)
    }
}

/// Holds what all clients share.
#[derive(Debug)]
pub struct FedGram {
    pub(super) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    parameters: FedGramParameters,
    pub constants: Constants,
    pub shape: TableShape,
    streams: Streams,
}

/// The positions of the model's blocks.
pub(super) const TABLE: usize = 0;
const GRAM: usize = 1;
const POPULARITY: usize = 2;

impl FedGram {
    /// Makes the method for a problem of this size. The rows of Y are drawn from N(0, length^2 / k).
    pub fn new(parameters: FedGramParameters, problem: &Problem) -> Self {
        Self::with_exponent(parameters, 1.0, problem)
    }

    /// Makes the method with this exponent of the sum of weights that the regulariser is multiplied by.
    pub(super) fn with_exponent(parameters: FedGramParameters, exponent: f64, problem: &Problem) -> Self {
        let shape = TableShape::of_items(problem.items, parameters.latent_dimension);
        let constants = Constants {
            unobserved_weight: parameters.unobserved_weight,
            regularization: parameters.regularization,
            regularization_exponent: exponent,
            server_rate: parameters.server_rate,
        };
        Self { shared: Arc::new(Shared { parameters, constants, shape, streams: problem.streams }) }
    }

    /// Returns the device of any user.
    pub(super) fn device(&self) -> FedGramClient {
        FedGramClient { shared: Arc::clone(&self.shared) }
    }
}

impl Shared {
    fn triangle_shape(&self) -> TableShape {
        self.parameters.triangle()
    }

    /// Returns the model with this item table.
    ///
    /// # Errors
    /// [`Error::Update`] if the table has another shape.
    pub fn model(&self, table: Table, popularity: Vec<f32>) -> Result<Model> {
        let gram = gram_of_table(&table.view()).map_err(|cause| Error::Update(cause.to_string()))?;
        let mut tables = vec![table, Table::new(self.triangle_shape(), packed_triangle(&gram))];
        if self.parameters.popularity_weight > 0.0 {
            let shape = TableShape { rows: self.shape.rows, dimension: 1 };
            tables.push(Table::new(shape, popularity));
        }
        Model::of_tables(self.parameters.layout(self.shape.rows), tables)
    }

    /// Returns x for these positives with these weights. `target_offset` is that of [`Positives`].
    fn solve(
        &self,
        model: &Model,
        positives: &[u32],
        (weights, target_offset): (Weights<'_>, f64),
        solver: &mut LeastSquares,
    ) -> algebra::Result<Vec<f64>> {
        let gram = unpacked_triangle(model.table(GRAM).as_slice(), self.shape.dimension)?;
        let weighted_gram = times(&gram, self.parameters.unobserved_weight);
        let ridge = self.constants.ridge(positives.len() as f64, self.shape.rows as f64);
        let positives = Positives { items: positives, weights, target_offset };
        solver.user_vector(&weighted_gram, &model.table(TABLE).view(), positives, ridge)
    }
}

impl Method for FedGram {
    fn initial(&self) -> Model {
        let Shared { parameters, shape, streams, .. } = &*self.shared;
        let mut stream = streams.stream(Purpose::GlobalInit, 0, 0);
        let deviation = parameters.initial_length / crate::math::sqrt(shape.dimension as f64);
        let table = Table::from_fn(*shape, || (deviation * stream.standard_normal()) as f32);
        // The table has the shape that the model is made for, so that this cannot fail.
        self.shared.model(table, vec![0.0; shape.rows]).unwrap_or_else(|error| unreachable!("{error}"))
    }

    fn upload_layout(&self, _phase: Phase) -> Layout {
        let rows = BlockLayout::item_table("gradient", self.shared.shape).statistic();
        Layout::new(vec![rows, BlockLayout::weights("x x^T", self.shared.triangle_shape()).statistic()])
    }

    fn client(&self, _user: UserId) -> Box<dyn Client> {
        Box::new(self.device())
    }

    fn server(&self) -> Box<dyn Server> {
        Box::new(server::GramServer::new(Arc::clone(&self.shared), self.initial()))
    }
}

/// Implements a device, which keeps no state from one participation to the next.
#[derive(Clone)]
pub struct FedGramClient {
    shared: Arc<Shared>,
}

impl Client for FedGramClient {
    fn train(&mut self, task: &LocalTask<'_>, scratch: &mut Scratch) -> Result<LocalUpdate> {
        let (shape, positives) = (self.shared.shape, DistinctPositives::of(&task.own).items);
        let solver = &mut scratch.least_squares;
        let vector = self.shared.solve(task.model, &positives, (Weights::Equal(1.0), 0.0), solver);
        let vector = vector.map_err(|cause| singular(task, cause))?;
        checked_vector(task, "x", &vector)?;
        let gradients = row_gradients(&vector, &task.model.table(TABLE).view(), &positives);
        task.check_magnitude("gradient", super::largest_magnitude(&gradients))?;
        // A gradient is an error times x, so that its squared length divided by that of x is the squared error.
        let squares = |values: &[f32]| values.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>();
        let length: f64 = vector.iter().map(|value| value * value).sum();
        let loss = squares(&gradients) / (length * positives.len().max(1) as f64).max(f64::MIN_POSITIVE);
        let (count, k) = (positives.len(), shape.dimension);
        let rows = TableUpdate::listed(shape, positives, &gradients, 1.0)?;
        let triangle = TableUpdate::whole(&Table::new(self.shared.triangle_shape(), outer_triangle(&vector)));
        let work = LeastSquares::multiply_adds(count, k) + 2 * (count * k) as u64 + triangle_values(k) as u64;
        let update = ModelUpdate::of_blocks(vec![rows, triangle]);
        Ok(LocalUpdate::new(update, loss, 2 * count as u64).with_multiply_adds(work))
    }

    fn scorer<'a>(&'a self, context: &ScoringContext<'a>, scratch: &mut Scratch) -> Result<Box<dyn Scorer + 'a>> {
        let parameters = &self.shared.parameters;
        let recency = parameters.recency.as_ref();
        let weighting = recency.map(|Recency { tau, floor, .. }| recency::Recency { tau: *tau, floor: *floor });
        let (positives, weights) = weighted_positives(&context.own, weighting.as_ref());
        let target_offset = match recency.map(|recency| recency.background) {
            Some(Background::PositivesAtOne) => parameters.unobserved_weight,
            Some(Background::AllAtZero) | None => 0.0,
        };
        let solver = &mut scratch.least_squares;
        let vector = self.shared.solve(context.model, &positives, (Weights::Each(&weights), target_offset), solver);
        let vector = vector.map_err(|cause| unscorable(context, cause))?;
        let vector = single_precision(&vector);
        let (model, beta) = (context.model, parameters.popularity_weight as f32);
        Ok(Box::new(move |items: &[u32], scores: &mut [f32]| {
            score_items(&vector, model.table(TABLE), items, scores);
            if beta > 0.0 {
                let popularity = model.table(POPULARITY).as_slice();
                items.iter().zip(scores).for_each(|(item, score)| *score += beta * popularity[*item as usize]);
            }
        }))
    }

    fn visit_state(&mut self, _state: &mut StateVisitor<'_>) -> Result<()> {
        Ok(())
    }
}
