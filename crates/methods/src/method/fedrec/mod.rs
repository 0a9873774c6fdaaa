//! Implements FedRec with probabilistic matrix factorisation and with SVD++, which predicts ratings
//! from explicit ratings and hides which items a user has rated among virtual ratings.
//!
//! The user vector U_u is private and the item table V is shared. Uploads are gradients of rows of
//! V. SVD++ has a second item table O, from which a device takes the rows of the rated items
//! ([`profile`]). It moves them itself, and uploads by how much, so that without virtual items this
//! reveals I_u once more. In the **batch** style all users take part in a step, and the server
//! moves a row by the mean over those who sent it (equation 9). In the **stochastic** style a step
//! has one participant, drawn with replacement, and an iteration has as many steps as there are
//! users (`training.participation = { cohort = 1 }` and `training.steps_per_round`). Learning rates
//! fall by a factor after every iteration. In the stochastic style, as in the authors' code, a
//! device's own rate falls with its participations. The authors have SVD++ in the stochastic style
//! only. In the batch style, a device moves O, like U, by the mean gradient over its items, and the
//! server takes the mean of this over those who sent a row.
//!
//! With rho > 0 a device also trains on unrated items, rho for every rated one, which are drawn
//! anew in every participation so that the server cannot tell which of the rows are rated. With
//! `sends_counts` devices say which rows they have sent, by a 1 for each, and the server uses
//! nothing but sums. [`central`] is the same without federation.
//!
//! Source: Lin, Liang, Pan and Ming, FedRec: Federated Recommendation with Explicit Feedback (IEEE
//! Intelligent Systems 2020), and the authors' code Guanyu-Lin/FedRec at 521b7cf. [`numerics`]
//! states the equations.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::client::FedRecScratch;
use self::numerics::{Filling, HybridFilling, Style, decayed};
use super::network::model_of;
use super::row_counts::counts_layout;
use super::{Client, Entry, Method, Phase, Placement, Problem, Server, parameters, sizes_by};
use fedrecsim_core::ids::UserId;
use fedrecsim_core::rng::{PortableDraws, Purpose, Stream, Streams};
use fedrecsim_model::model::blocks::Model;
use fedrecsim_model::model::kernel::MAX_DIMENSION;
use fedrecsim_model::model::layout::{BlockLayout, Layout};
use fedrecsim_model::model::table::{Table, TableShape};
use fedrecsim_scenario::scenario::ParameterFault;
use fedrecsim_scenario::scenario::sizes::{BlockSize, ProblemSize};

pub mod central;
mod client;
pub mod numerics;
pub mod profile;
mod server;
#[cfg(test)]
mod tests;

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry {
    name: "fedrec-pmf",
    summary: "rating prediction: private user vector, gradients of rated and of virtually rated item rows",
    source: "Lin et al., FedRec: Federated Recommendation with Explicit Feedback, IEEE Intelligent Systems 2020; \
             Guanyu-Lin/FedRec 521b7cf",
    schema: &|| schemars::schema_for!(FedRecParameters),
    resolve: &without_effect,
    placement: Placement::Federated,
    draws_negatives: false,
    sizes: &|value, size| sizes(Factors::Pmf, value, size),
    build: &|value, problem| {
        Ok(Box::new(FedRec::new(
            Factors::Pmf,
            parameters("fedrec-pmf", value)?,
            problem,
        )))
    },
};

/// Describes the method with SVD++ to the registry.
pub(crate) const SVD_PLUS_PLUS: Entry = Entry {
    name: "fedrec-svdpp",
    summary: "FedRec with SVD++: a second item table says what follows from which items a user has rated",
    source: "Lin et al., FedRec: Federated Recommendation with Explicit Feedback, IEEE Intelligent Systems 2020, with \
             the model of Koren, KDD 2008; Guanyu-Lin/FedRec 521b7cf",
    sizes: &|value, size| sizes(Factors::SvdPlusPlus, value, size),
    build: &|value, problem| {
        Ok(Box::new(FedRec::new(
            Factors::SvdPlusPlus,
            parameters("fedrec-svdpp", value)?,
            problem,
        )))
    },
    ..ENTRY
};

/// Says which model is trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Factors {
    /// Probabilistic matrix factorisation, with the item table V.
    Pmf,
    /// SVD++, with the item tables V and O.
    SvdPlusPlus,
}

impl Factors {
    /// Returns the names of the item tables.
    fn tables(self) -> &'static [&'static str] {
        match self {
            Self::Pmf => &["V"],
            Self::SvdPlusPlus => &["V", "O"],
        }
    }

    /// Returns the layout of the item tables.
    fn layout(self, shape: TableShape) -> Layout {
        Layout::new(
            self.tables()
                .iter()
                .map(|name| BlockLayout::item_table(*name, shape))
                .collect(),
        )
    }
}

fn sizes(factors: Factors, value: &Value, size: ProblemSize) -> Vec<BlockSize> {
    sizes_by(value, |p: FedRecParameters| {
        factors.layout(TableShape::of_items(size.items, p.latent_dimension))
    })
}

/// Where the ratings of unrated items come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Strategy {
    /// The user's mean rating (equation 5).
    UserAveraging,
    /// The user's mean rating at first, predicted ratings later (equation 6).
    HybridFilling,
}

/// Parameters of FedRec.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct FedRecParameters {
    /// Latent dimension d.
    #[schemars(range(min = 1, max = MAX_DIMENSION))]
    pub latent_dimension: u32,
    /// When the user vector moves, and how many users a step has.
    pub style: Style,
    /// Learning rate gamma of devices and server. Left out: 0.01 for `stochastic`; for `batch` 0.8
    /// with PMF, and 0.4 with SVD++, where 0.8 diverges, as U and O both take the step.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub learning_rate: Option<f64>,
    /// Factor of the learning rate after every iteration.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0.0))]
    pub learning_rate_decay: f64,
    /// Steps of the server that make an iteration. Left out: 1 for `batch`, the number of users for
    /// `stochastic`.
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
    /// U and the item tables start uniformly distributed over an interval of this length around 0.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub initial_range: f64,
    /// Whether devices send a count of 1 for each row beside the rows, so that the server uses
    /// nothing but sums, which secure aggregation and noise on the sum need. Otherwise it counts
    /// who has sent which row.
    pub sends_counts: bool,
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
            sends_counts: false,
        }
    }
}

/// Returns the parameters that others leave without an effect.
fn without_effect(value: &mut Value) -> Vec<ParameterFault> {
    let Ok(p) = serde_json::from_value::<FedRecParameters>(value.clone()) else {
        return Vec::new();
    };
    let usual = FedRecParameters::default();
    let is_hybrid = p.strategy == Strategy::HybridFilling;
    let of_hybrid = [
        ("hybrid_filling", p.hybrid_filling != usual.hybrid_filling),
        ("predict_from", p.predict_from != usual.predict_from),
        ("local_steps", p.local_steps != usual.local_steps),
    ];
    let of_hybrid = of_hybrid
        .into_iter()
        .filter(|(_, is_written)| *is_written && !is_hybrid);
    let mut found: Vec<ParameterFault> = of_hybrid
        .map(|(key, _)| ParameterFault::without_effect(key, "`strategy` is not `hybrid-filling`"))
        .collect();
    // The slides' reading takes its local steps over the rated items too.
    if is_hybrid && p.virtual_items_per_rated == 0 && p.hybrid_filling == HybridFilling::Code {
        let because =
            "`virtual_items_per_rated` is 0, so that there are no unrated items to give ratings to";
        found.push(ParameterFault::without_effect("strategy", because));
    }
    found
}

/// Holds what all clients share.
#[derive(Debug)]
pub(crate) struct FedRec {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    factors: Factors,
    parameters: FedRecParameters,
    shape: TableShape,
    learning_rate: f64,
    steps_per_iteration: u32,
    filling: Filling,
    streams: Streams,
}

impl FedRec {
    /// Makes the method for a problem of this size, and fills in the defaults of the style.
    pub(crate) fn new(factors: Factors, parameters: FedRecParameters, problem: &Problem) -> Self {
        let shape = TableShape::of_items(problem.items, parameters.latent_dimension);
        let (learning_rate, steps) = match (parameters.style, factors) {
            (Style::Batch, Factors::Pmf) => (0.8, 1),
            (Style::Batch, Factors::SvdPlusPlus) => (0.4, 1),
            // Data sets with 2^32 users or more are refused on reading.
            (Style::Stochastic, _) => (0.01, problem.users as u32),
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
                factors,
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
        decayed(
            self.learning_rate,
            self.parameters.learning_rate_decay,
            decays,
        )
    }

    fn initial_user_vector(&self, user: UserId) -> Box<[f32]> {
        let mut stream = self
            .streams
            .stream(Purpose::PrivateInit, u64::from(user.0), 0);
        (0..self.shape.dimension)
            .map(|_| self.initial_value(&mut stream))
            .collect()
    }

    fn initial_value(&self, stream: &mut Stream) -> f32 {
        ((stream.open_unit() - 0.5) * self.parameters.initial_range) as f32
    }
}

impl Method for FedRec {
    fn initial(&self) -> Model {
        let mut stream = self.shared.streams.stream(Purpose::GlobalInit, 0, 0);
        let layout = self.shared.factors.layout(self.shared.shape);
        let mut table = |block: &BlockLayout| {
            Table::from_fn(block.shape, || self.shared.initial_value(&mut stream))
        };
        let tables = layout.blocks().iter().map(&mut table).collect();
        model_of(layout, tables)
    }

    fn download_layout(&self, _phase: Phase) -> Layout {
        self.shared.factors.layout(self.shared.shape)
    }

    fn upload_layout(&self, _phase: Phase) -> Layout {
        let Shared {
            factors,
            shape,
            parameters,
            ..
        } = &*self.shared;
        let tables = factors.layout(*shape).statistics();
        let counts = parameters.sends_counts.then(|| counts_layout(shape.rows));
        Layout::new(tables.blocks().iter().cloned().chain(counts).collect())
    }

    fn client(&self, user: UserId) -> Box<dyn Client> {
        Box::new(client::FedRecClient::new(Arc::clone(&self.shared), user))
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
