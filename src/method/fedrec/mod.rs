//! Implements FedRec with probabilistic matrix factorisation, which predicts ratings from explicit ratings and hides
//! which items a user has rated among virtual ratings.
//!
//! The user vector U_u is private and the item table V is shared. Uploads are gradients of rows of V. In the **batch**
//! style all users take part in a step, and the server moves a row by the mean over those who sent it (equation 9). In
//! the **stochastic** style a step has one participant, drawn with replacement, and an iteration has as many steps as
//! there are users (`training.participation = { cohort = 1 }` and `training.steps_per_round`). Learning rates fall by a
//! factor after every iteration. In the stochastic style, as in the authors' code, a device's own rate falls with its
//! participations.
//!
//! With rho > 0 a device also trains on unrated items, rho for every rated one, which are drawn anew in every
//! participation so that the server cannot tell which of the rows are rated. [`central`] is the same without
//! federation.
//!
//! Source: Lin, Liang, Pan and Ming, FedRec: Federated Recommendation with Explicit Feedback (IEEE Intelligent Systems
//! 2020), and the authors' code Guanyu-Lin/FedRec at 521b7cf. [`numerics`] states the equations.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::numerics::{Filling, HybridFilling, Memory, Participation, Style, decayed};
use super::user_vector::{collect_last_ratings, draw_unrated, score_items};
use super::{
    Client, Entry, LocalTask, LocalUpdate, Method, Phase, Placement, Problem, Scorer, ScoringContext, Scratch, Server,
    largest_magnitude, parameters, sizes_of_item_table,
};
use crate::error::Result;
use crate::ids::UserId;
use crate::model::blocks::{Model, ModelUpdate};
use crate::model::kernel::MAX_DIMENSION;
use crate::model::layout::{BlockLayout, Layout};
use crate::model::private::Private;
use crate::model::state::StateVisitor;
use crate::model::table::{Table, TableShape, TableUpdate};
use crate::rng::{PortableDraws, Purpose, Stream, Streams};
use crate::scenario::ParameterFault;

pub mod central;
pub mod numerics;
mod server;
#[cfg(test)]
mod tests;

/// Describes the method to the registry.
pub const ENTRY: Entry = Entry {
    name: "fedrec-pmf",
    summary: "rating prediction: private user vector, gradients of rated and of virtually rated item rows",
    source: "Lin et al., FedRec: Federated Recommendation with Explicit Feedback, IEEE Intelligent Systems 2020; \
             Guanyu-Lin/FedRec 521b7cf",
    schema: || schemars::schema_for!(FedRecParameters),
    resolve: without_effect,
    placement: Placement::Federated,
    draws_negatives: false,
    sizes: |value, size| sizes_of_item_table("V", (value, size), |p: FedRecParameters| p.latent_dimension),
    build: |value, problem| Ok(Box::new(FedRec::new(parameters("fedrec-pmf", value)?, problem))),
};

/// Where the ratings of unrated items come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// The user's mean rating (equation 5).
    UserAveraging,
    /// The user's mean rating at first, predicted ratings later (equation 6).
    HybridFilling,
}

/// Parameters of FedRec.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FedRecParameters {
    /// Latent dimension d.
    #[schemars(range(min = 1, max = MAX_DIMENSION))]
    pub latent_dimension: u32,
    /// When the user vector moves, and how many users a step has.
    pub style: Style,
    /// Learning rate gamma of devices and server. Left out: 0.8 for `batch`, 0.01 for `stochastic`.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub learning_rate: Option<f64>,
    /// Factor of the learning rate after every iteration.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0.0))]
    pub learning_rate_decay: f64,
    /// Steps of the server that make an iteration. Left out: 1 for `batch`, the number of users for `stochastic`.
    #[schemars(range(min = 1))]
    pub steps_per_iteration: Option<u32>,
    /// Weight lambda of the regulariser.
    #[schemars(range(min = 0))]
    pub regularization: f64,
    /// Number rho of unrated items for every rated one.
    #[schemars(range(min = 0, max = 1_000))]
    pub virtual_items_per_rated: u32,
    /// Where the ratings of unrated items come from.
    pub strategy: Strategy,
    /// Which reading of hybrid filling is followed.
    pub hybrid_filling: HybridFilling,
    /// T_predict: the iteration from which hybrid filling predicts.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub predict_from: u32,
    /// T_local: steps over the rated items that hybrid filling takes before it predicts.
    #[schemars(range(min = 0, max = 10_000))]
    pub local_steps: u32,
    /// U and V start uniformly distributed over an interval of this length around 0.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub initial_range: f64,
}

impl Default for FedRecParameters {
    fn default() -> Self {
        Self {
            latent_dimension: 20,
            style: Style::Batch,
            learning_rate: None,
            learning_rate_decay: 0.9,
            steps_per_iteration: None,
            regularization: 0.001,
            virtual_items_per_rated: 0,
            strategy: Strategy::UserAveraging,
            hybrid_filling: HybridFilling::Code,
            predict_from: 10,
            local_steps: 10,
            initial_range: 0.01,
        }
    }
}

/// Returns the parameters that others leave without an effect.
fn without_effect(value: &mut Value) -> Vec<ParameterFault> {
    let Ok(p) = serde_json::from_value::<FedRecParameters>(value.clone()) else { return Vec::new() };
    let usual = FedRecParameters::default();
    let is_hybrid = p.strategy == Strategy::HybridFilling;
    let of_hybrid = [
        ("hybrid_filling", p.hybrid_filling != usual.hybrid_filling),
        ("predict_from", p.predict_from != usual.predict_from),
        ("local_steps", p.local_steps != usual.local_steps),
    ];
    let of_hybrid = of_hybrid.into_iter().filter(|(_, is_written)| *is_written && !is_hybrid);
    let mut found: Vec<ParameterFault> =
        of_hybrid.map(|(key, _)| ParameterFault::without_effect(key, "`strategy` is not `hybrid-filling`")).collect();
    // The slides' reading takes its local steps over the rated items too.
    if is_hybrid && p.virtual_items_per_rated == 0 && p.hybrid_filling == HybridFilling::Code {
        let because = "`virtual_items_per_rated` is 0, so that there are no unrated items to give ratings to";
        found.push(ParameterFault::without_effect("strategy", because));
    }
    found
}

/// Holds what all clients share.
#[derive(Debug)]
pub struct FedRec {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    parameters: FedRecParameters,
    shape: TableShape,
    learning_rate: f64,
    steps_per_iteration: u32,
    filling: Filling,
    streams: Streams,
}

impl FedRec {
    /// Makes the method for a problem of this size, and fills in the defaults of the style.
    pub fn new(parameters: FedRecParameters, problem: &Problem) -> Self {
        let shape = TableShape::of_items(problem.items, parameters.latent_dimension);
        let (learning_rate, steps) = match parameters.style {
            Style::Batch => (0.8, 1),
            // Data sets with 2^32 users or more are refused on reading.
            Style::Stochastic => (0.01, problem.users as u32),
        };
        let filling = match parameters.strategy {
            Strategy::UserAveraging => Filling::UserAveraging,
            Strategy::HybridFilling => Filling::Hybrid {
                reading: parameters.hybrid_filling,
                predict_from: parameters.predict_from,
                local_steps: parameters.local_steps,
            },
        };
        Self {
            shared: Arc::new(Shared {
                learning_rate: parameters.learning_rate.unwrap_or(learning_rate),
                steps_per_iteration: parameters.steps_per_iteration.unwrap_or(steps).max(1),
                parameters,
                shape,
                filling,
                streams: problem.streams,
            }),
        }
    }
}

impl Shared {
    /// Returns the iteration (from 0) that the step of this number (from 0) belongs to.
    fn iteration(&self, step: u32) -> u32 {
        step / self.steps_per_iteration
    }

    /// Returns the learning rate after this many decays.
    fn rate(&self, decays: u32) -> f32 {
        decayed(self.learning_rate, self.parameters.learning_rate_decay, decays)
    }

    fn initial_user_vector(&self, user: UserId) -> Box<[f32]> {
        let mut stream = self.streams.stream(Purpose::PrivateInit, u64::from(user.0), 0);
        (0..self.shape.dimension).map(|_| self.initial_value(&mut stream)).collect()
    }

    fn initial_value(&self, stream: &mut Stream) -> f32 {
        ((stream.open_unit() - 0.5) * self.parameters.initial_range) as f32
    }
}

impl Method for FedRec {
    fn initial(&self) -> Model {
        let mut stream = self.shared.streams.stream(Purpose::GlobalInit, 0, 0);
        Model::of_table("V", Table::from_fn(self.shared.shape, || self.shared.initial_value(&mut stream)))
    }

    fn upload_layout(&self, _phase: Phase) -> Layout {
        Layout::new(vec![BlockLayout::item_table("V", self.shared.shape).statistic()])
    }

    fn client(&self, user: UserId) -> Box<dyn Client> {
        let vector = self.shared.initial_user_vector(user);
        Box::new(FedRecClient {
            shared: Arc::clone(&self.shared),
            user_vector: Private::new(vector),
            participations: 0,
        })
    }

    fn predicts_ratings(&self) -> bool {
        true
    }

    fn server(&self) -> Box<dyn Server> {
        Box::new(server::FedRecServer::new(
            Arc::clone(&self.shared),
            self.initial(),
            self.upload_layout(Phase::default()),
        ))
    }
}

#[derive(Clone)]
struct FedRecClient {
    shared: Arc<Shared>,
    user_vector: Private<Box<[f32]>>,
    /// The number of the user's participations, by which its own learning rate falls in the stochastic style.
    participations: u32,
}

/// Holds the items, rows and gradients of a participation. It is memory of a worker thread.
#[derive(Debug, Default)]
pub struct FedRecScratch {
    /// The rated items, then the virtual ones.
    items: Vec<u32>,
    ratings: Vec<f32>,
    unrated: Vec<u32>,
    rows: Vec<f32>,
    gradients: Vec<f32>,
    order: Vec<u32>,
    memory: Memory,
}

impl FedRecScratch {
    /// Collects the items of a participation: the rated items, each with its last rating, then `per_rated` times as
    /// many unrated items (or as many as there are), drawn without replacement.
    fn collect(&mut self, task: &LocalTask<'_>, catalogue: usize, per_rated: usize) {
        collect_last_ratings(&task.own, &mut self.items, &mut self.ratings);
        if per_rated == 0 {
            return;
        }
        let count = per_rated * self.items.len();
        let mut stream = task.named_stream("fedrec/virtual-items");
        draw_unrated(&self.items, (catalogue, count), &mut stream, &mut self.unrated);
        self.items.extend_from_slice(&self.unrated);
    }

    /// Returns the update that lists the items in ascending order with their gradients.
    fn update(&mut self, shape: TableShape) -> Result<TableUpdate> {
        let d = shape.dimension;
        if self.items.is_sorted() {
            return TableUpdate::listed(shape, self.items.clone(), &self.gradients, 1.0);
        }
        self.order.clear();
        self.order.extend(0..self.items.len() as u32);
        self.order.sort_unstable_by_key(|place| self.items[*place as usize]);
        let places = self.order.iter().map(|place| *place as usize);
        let items = places.clone().map(|place| self.items[place]).collect();
        self.rows.clear();
        places.for_each(|place| self.rows.extend_from_slice(&self.gradients[place * d..(place + 1) * d]));
        TableUpdate::listed(shape, items, &self.rows, 1.0)
    }
}

impl Client for FedRecClient {
    fn train(&mut self, task: &LocalTask<'_>, scratch: &mut Scratch) -> Result<LocalUpdate> {
        let Shared { parameters, shape, filling, .. } = &*self.shared;
        let scratch = &mut scratch.fedrec;
        scratch.collect(task, shape.rows, parameters.virtual_items_per_rated as usize);
        let table = task.model.table(0);
        scratch.rows.clear();
        table.append_rows(&scratch.items, &mut scratch.rows);
        scratch.gradients.clear();
        scratch.gradients.resize(scratch.rows.len(), 0.0);
        let iteration = self.shared.iteration(task.step.0);
        let decays = match parameters.style {
            Style::Batch => iteration,
            Style::Stochastic => self.participations,
        };
        let participation = Participation {
            style: parameters.style,
            rows: &scratch.rows,
            ratings: &scratch.ratings,
            filling: *filling,
            iteration,
            rate: self.shared.rate(decays),
            regularization: parameters.regularization as f32,
        };
        let row_visits = participation.row_visits(shape.dimension);
        let vector = self.user_vector.get_mut();
        let loss = participation.train(vector, &mut scratch.gradients, &mut scratch.memory);
        self.participations += 1;
        task.check_magnitude("U", largest_magnitude(vector))?;
        task.check_magnitude("gradient of V", largest_magnitude(&scratch.gradients))?;
        let update = ModelUpdate::of_table(scratch.update(*shape)?);
        Ok(LocalUpdate::new(update, loss, row_visits))
    }

    fn scorer<'a>(&'a self, context: &ScoringContext<'a>, _scratch: &mut Scratch) -> Result<Box<dyn Scorer + 'a>> {
        let table = context.model.table(0);
        Ok(Box::new(move |items: &[u32], scores: &mut [f32]| score_items(self.user_vector.get(), table, items, scores)))
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        state.values(self.user_vector.get_mut())?;
        state.plain(&mut self.participations)
    }
}
