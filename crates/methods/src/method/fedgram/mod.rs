//! Implements FedGram, federated implicit least squares with the exact gradient of all negatives.
//!
//! The item table Y and its Gram matrix Y^T Y are shared, and a device keeps no state. A device
//! solves for its vector x, and uploads the gradients of its positives' rows and the matrix x x^T.
//! The sum of these matrices represents all pairs of a user and an item that is not a positive, so
//! that the server can make a Newton-like step of the whole table without sampled negatives. The
//! objective is that of FCF. The step is of second order instead of first order, and uploads are
//! not dense. For scoring, a device solves for x again, optionally with more weight on recent
//! positives. Times never leave the device.
//!
//! An upload discloses the user's positives, which are its rows, and x up to its sign, which x x^T
//! determines. With `sends_counts` the server only adds uploads up, so that secure aggregation can
//! hide both, at the price of a dense table of gradients and of counts.
//!
//! Source: This method is the project's own. The closest prior work is FCF (arXiv 1901.09888).

use std::sync::Arc;

use self::numerics::{
    Constants, outer_triangle, packed_triangle, row_gradients, triangle_values, unpacked_triangle,
};
pub use self::parameters::without_effect;
pub use self::parameters::{Background, ByDensity, FedGramParameters, Recency};
use super::listed_sums;
use super::recency::{self, weighted_positives};
use super::user_vector::{
    DistinctPositives, checked_vector, score_items, single_precision, singular, times, unscorable,
};
use super::{
    Client, Entry, LocalTask, LocalUpdate, Method, Phase, Placement, Problem, Scorer,
    ScoringContext, Scratch, Server, parameters, sizes_by,
};
use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::ids::UserId;
use fedrecsim_core::rng::{PortableDraws, Purpose, Streams};
use fedrecsim_model::model::algebra;
use fedrecsim_model::model::blocks::{Model, ModelUpdate};
use fedrecsim_model::model::layout::{BlockLayout, Layout};
use fedrecsim_model::model::least_squares::{LeastSquares, Positives, Weights, gram_of_table};
use fedrecsim_model::model::state::StateVisitor;
use fedrecsim_model::model::table::{Table, TableShape, TableUpdate};

pub mod numerics;
mod parameters;
mod server;
#[cfg(test)]
mod tests;

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry {
    name: "fedgram",
    summary: "implicit least squares: devices send their positives' gradients and x x^T, the server makes Newton steps",
    source: "an own method of this project (FCF's objective, arXiv 1901.09888, with a second-order server)",
    schema: &|| schemars::schema_for!(FedGramParameters),
    resolve: &without_effect,
    placement: Placement::Federated,
    draws_negatives: false,
    sizes: &|value, size| sizes_by(value, |p: FedGramParameters| p.layout(size.items)),
    build: &|value, problem| {
        Ok(Box::new(FedGram::new(
            parameters("fedgram", value)?,
            problem,
        )))
    },
};

/// Holds what all clients share.
#[derive(Debug)]
pub(crate) struct FedGram {
    pub(super) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    parameters: FedGramParameters,
    /// The constants of the loss, but for those that follow from the density of the data.
    fixed: Constants,
    pub shape: TableShape,
    streams: Streams,
}

/// The positions of the model's blocks, and the names of those that not every model has.
pub(super) const TABLE: usize = 0;
const GRAM: usize = 1;
const POPULARITY: &str = "popularity";
const MEAN_POSITIVES: &str = "positives of the mean user";

/// Holds what the server has counted in the last step with participants, as far as the model tells
/// it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Counts {
    /// The share of the participants who have each item among their positives; nothing before the
    /// first step.
    pub popularity: Vec<f32>,
    /// The number of positives of the mean participant, at least 1; 0 before the first step.
    pub mean_positives: f32,
}

impl Counts {
    /// Returns the counts that `model` tells.
    pub(crate) fn of(model: &Model) -> Self {
        let popularity = model
            .named(POPULARITY)
            .map_or_else(Vec::new, |table| table.as_slice().to_vec());
        Self {
            popularity,
            mean_positives: mean_positives_of(model),
        }
    }
}

/// Returns the number of positives of the mean participant that `model` tells; 0 before the first
/// step, and for a model that does not tell it.
fn mean_positives_of(model: &Model) -> f32 {
    model
        .named(MEAN_POSITIVES)
        .and_then(|table| table.as_slice().first().copied())
        .unwrap_or_default()
}

impl FedGram {
    /// Makes the method for a problem of this size. The rows of Y are drawn from N(0, length^2 /
    /// k).
    pub(crate) fn new(parameters: FedGramParameters, problem: &Problem) -> Self {
        Self::with_exponent(parameters, 1.0, problem)
    }

    /// Makes the method with this exponent of the sum of weights that the regulariser is multiplied
    /// by.
    pub(super) fn with_exponent(
        parameters: FedGramParameters,
        exponent: f64,
        problem: &Problem,
    ) -> Self {
        let shape = TableShape::of_items(problem.items, parameters.latent_dimension);
        let fixed = Constants {
            unobserved_weight: parameters.unobserved_weight,
            regularization: parameters.regularization,
            regularization_exponent: exponent,
            server_rate: parameters.server_rate,
        };
        Self {
            shared: Arc::new(Shared {
                parameters,
                fixed,
                shape,
                streams: problem.streams,
            }),
        }
    }

    /// Returns the device of any user.
    pub(super) fn device(&self) -> FedGramClient {
        FedGramClient {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl Shared {
    fn triangle_shape(&self) -> TableShape {
        self.parameters.triangle()
    }

    /// Returns the constants of the loss for this number of positives of the mean user.
    pub(crate) fn constants(&self, mean_positives: f64) -> Constants {
        let by_density = |weights: &ByDensity| {
            weights.constants(self.fixed, mean_positives, self.shape.rows as f64)
        };
        self.parameters
            .by_density
            .as_ref()
            .map_or(self.fixed, by_density)
    }

    /// Returns the constants of the loss that `model` tells. By density, before anything has been
    /// counted, those are for `own` positives.
    fn constants_of_model(&self, model: &Model, own: usize) -> Constants {
        let counted = f64::from(mean_positives_of(model));
        self.constants(if counted > 0.0 {
            counted
        } else {
            own.max(1) as f64
        })
    }

    /// Returns the model with this item table and these counts.
    ///
    /// # Errors
    /// [`Error::Update`] if the table has another shape.
    pub(crate) fn model(&self, table: Table, counts: Counts) -> Result<Model> {
        let gram =
            gram_of_table(&table.view()).map_err(|cause| Error::Update(cause.to_string()))?;
        let mut tables = vec![
            table,
            Table::new(self.triangle_shape(), packed_triangle(&gram)),
        ];
        if self.parameters.popularity_weight > 0.0 {
            let Counts { mut popularity, .. } = counts;
            popularity.resize(self.shape.rows, 0.0);
            tables.push(Table::new(
                TableShape {
                    rows: self.shape.rows,
                    dimension: 1,
                },
                popularity,
            ));
        }
        if self.parameters.by_density.is_some() {
            tables.push(Table::new(
                TableShape {
                    rows: 1,
                    dimension: 1,
                },
                vec![counts.mean_positives],
            ));
        }
        Model::of_tables(self.parameters.layout(self.shape.rows), tables)
    }

    /// Returns x for these positives with these weights, pulled to this background.
    fn solve(
        &self,
        model: &Model,
        positives: &[u32],
        (weights, background): (Weights<'_>, Background),
        solver: &mut LeastSquares,
    ) -> algebra::Result<Vec<f64>> {
        let gram = unpacked_triangle(model.table(GRAM).as_slice(), self.shape.dimension)?;
        let constants = self.constants_of_model(model, positives.len());
        let weighted_gram = times(&gram, constants.unobserved_weight);
        let ridge = constants.ridge(positives.len() as f64, self.shape.rows as f64);
        let target_offset = match background {
            Background::PositivesAtOne => constants.unobserved_weight,
            Background::AllAtZero => 0.0,
        };
        let positives = Positives {
            items: positives,
            weights,
            target_offset,
        };
        solver.user_vector(&weighted_gram, &model.table(TABLE).view(), positives, ridge)
    }
}

impl Method for FedGram {
    fn initial(&self) -> Model {
        let Shared {
            parameters,
            shape,
            streams,
            ..
        } = &*self.shared;
        let mut stream = streams.stream(Purpose::GlobalInit, 0, 0);
        let deviation =
            parameters.initial_length / fedrecsim_core::math::sqrt(shape.dimension as f64);
        let table = Table::from_fn(*shape, || (deviation * stream.standard_normal()) as f32);
        // The table has the shape that the model is made for, so that this cannot fail.
        self.shared
            .model(table, Counts::default())
            .unwrap_or_else(|error| unreachable!("{error}"))
    }

    fn upload_layout(&self, _phase: Phase) -> Layout {
        let rows = BlockLayout::item_table("gradient", self.shared.shape).statistic();
        let outer = BlockLayout::weights("x x^T", self.shared.triangle_shape()).statistic();
        let told = self
            .shared
            .parameters
            .sends_counts
            .then(|| listed_sums::told_layouts(self.shared.shape.rows));
        Layout::new(
            [rows, outer]
                .into_iter()
                .chain(told.into_iter().flatten())
                .collect(),
        )
    }

    fn client(&self, _user: UserId) -> Box<dyn Client> {
        Box::new(self.device())
    }

    fn server(&self) -> Box<dyn Server> {
        Box::new(server::GramServer::new(
            Arc::clone(&self.shared),
            self.initial(),
        ))
    }
}

/// Implements a device, which keeps no state from one participation to the next.
#[derive(Clone)]
pub(crate) struct FedGramClient {
    shared: Arc<Shared>,
}

impl Client for FedGramClient {
    fn train(&mut self, task: &LocalTask<'_>, scratch: &mut Scratch) -> Result<LocalUpdate> {
        let (shape, positives) = (self.shared.shape, DistinctPositives::of(&task.own).items);
        let solver = &mut scratch.least_squares;
        let vector = self.shared.solve(
            task.model,
            &positives,
            (Weights::Equal(1.0), Background::AllAtZero),
            solver,
        );
        let vector = vector.map_err(|cause| singular(task, cause))?;
        checked_vector(task, "x", &vector)?;
        let gradients = row_gradients(&vector, &task.model.table(TABLE).view(), &positives);
        task.check_magnitude("gradient", super::largest_magnitude(&gradients))?;
        // A gradient is an error times x, so that its squared length divided by that of x is the
        // squared error.
        let squares = |values: &[f32]| {
            values
                .iter()
                .map(|value| f64::from(*value).powi(2))
                .sum::<f64>()
        };
        let length: f64 = vector.iter().map(|value| value * value).sum();
        let loss =
            squares(&gradients) / (length * positives.len().max(1) as f64).max(f64::MIN_POSITIVE);
        let (count, k) = (positives.len(), shape.dimension);
        let sends_counts = self.shared.parameters.sends_counts;
        let told = sends_counts
            .then(|| listed_sums::told_by(shape.rows, &positives))
            .transpose()?;
        let rows = TableUpdate::listed(shape, positives, &gradients, 1.0)?;
        let triangle = TableUpdate::whole(&Table::new(
            self.shared.triangle_shape(),
            outer_triangle(&vector),
        ));
        let work = LeastSquares::multiply_adds(count, k)
            + 2 * (count * k) as u64
            + triangle_values(k) as u64;
        let update = ModelUpdate::of_blocks(
            [rows, triangle]
                .into_iter()
                .chain(told.into_iter().flatten())
                .collect(),
        );
        Ok(LocalUpdate::new(update, loss, 2 * count as u64).with_multiply_adds(work))
    }

    fn scorer<'a>(
        &'a self,
        context: &ScoringContext<'a>,
        scratch: &mut Scratch,
    ) -> Result<Box<dyn Scorer + 'a>> {
        let parameters = &self.shared.parameters;
        let recency = parameters.recency.as_ref();
        let weighting = recency.map(|Recency { tau, floor, .. }| recency::Recency {
            tau: *tau,
            floor: *floor,
        });
        let (positives, weights) = weighted_positives(&context.own, weighting.as_ref());
        let background = recency.map_or(Background::AllAtZero, |recency| recency.background);
        let solver = &mut scratch.least_squares;
        let vector = self.shared.solve(
            context.model,
            &positives,
            (Weights::Each(&weights), background),
            solver,
        );
        let vector = vector.map_err(|cause| unscorable(context, cause))?;
        let vector = single_precision(&vector);
        let (model, beta) = (context.model, parameters.popularity_weight as f32);
        Ok(Box::new(move |items: &[u32], scores: &mut [f32]| {
            score_items(&vector, model.table(TABLE), items, scores);
            if let Some(popularity) = model.named(POPULARITY).map(|table| table.as_slice()) {
                items
                    .iter()
                    .zip(scores)
                    .for_each(|(item, score)| *score += beta * popularity[*item as usize]);
            }
        }))
    }

    fn visit_state(&mut self, _state: &mut StateVisitor<'_>) -> Result<()> {
        Ok(())
    }
}
