//! Implements centralised matrix factorisation with the logistic loss (the `MF` of the PFedRec
//! paper's Table 2), which shows what a server could do that had the ratings of all users.
//!
//! The logit is U_u . V_j and the loss is the mean binary cross-entropy, which Adam minimises on
//! both tables by mini-batches over the samples of all users. A step is one pass over every
//! positive with freshly drawn negatives, from the pool that the scenario names. The paper states
//! neither the learning rate nor the initial values. Those of He et al. (WWW 2017) are used.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::central::{CentralMethod, CentralTrainer, ScoreFunction, UserRatings};
use super::server::{StepContext, StepReport};
use super::user_vector::score_items;
use super::{
    Entry, Placement, Problem, ScoringContext, largest_magnitude, network, parameters, samples,
    sizes_by,
};
use factors::Factors;
use fedrecsim_core::error::Result;
use fedrecsim_core::rng::{PortableDraws, Purpose};
use fedrecsim_model::model::blocks::Model;
use fedrecsim_model::model::kernel::MAX_DIMENSION;
use fedrecsim_model::model::layout::{BlockLayout, Layout};
use fedrecsim_model::model::neural::optimizer::AdamSettings;
use fedrecsim_model::model::state::StateVisitor;
use fedrecsim_model::model::table::TableShape;

pub mod factors;

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry {
    name: "mf",
    summary: "centralised matrix factorisation: users send their ratings once, the server trains by Adam",
    source: "Koren et al., Matrix Factorization Techniques for Recommender Systems, Computer 2009, with the logistic \
             loss that the PFedRec paper compares with; rate and start of He et al., WWW 2017",
    schema: &|| schemars::schema_for!(MfParameters),
    resolve: &|_| Vec::new(),
    placement: Placement::Central,
    draws_negatives: true,
    sizes: &|value, size| {
        sizes_by(value, |p: MfParameters| {
            layout([size.users, size.items], p.latent_dimension as usize)
        })
    },
    build: &|value, problem| Ok(Box::new(Mf::new(parameters("mf", value)?, problem))),
};

/// Parameters of centralised matrix factorisation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct MfParameters {
    /// Latent dimension k.
    #[schemars(range(min = 1, max = MAX_DIMENSION))]
    pub latent_dimension: u32,
    /// Samples per batch.
    #[schemars(range(min = 1))]
    pub batch_size: u32,
    /// Learning rate of Adam.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub learning_rate: f64,
    /// Weight decay, added to the gradient.
    #[schemars(range(min = 0))]
    pub weight_decay: f64,
    /// Standard deviation of both tables at the start.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub deviation: f64,
}

impl Default for MfParameters {
    fn default() -> Self {
        Self {
            latent_dimension: 32,
            batch_size: 256,
            learning_rate: 1e-3,
            weight_decay: 0.0,
            deviation: 0.01,
        }
    }
}

/// Holds the parameters of the method and the problem.
#[derive(Debug)]
pub(crate) struct Mf {
    parameters: MfParameters,
    problem: Problem,
}

impl Mf {
    /// Makes the method for a problem of this size.
    pub(crate) fn new(parameters: MfParameters, problem: &Problem) -> Self {
        Self {
            parameters,
            problem: problem.clone(),
        }
    }
}

impl CentralMethod for Mf {
    type Scoring = ScoreFunction;

    fn items(&self) -> usize {
        self.problem.items
    }

    /// Draws both tables from N(0, deviation^2).
    fn trainer(&self) -> Box<dyn CentralTrainer> {
        let Problem {
            users,
            items,
            streams,
            ..
        } = self.problem;
        let mut stream = streams.stream(Purpose::GlobalInit, 0, 0);
        let dimension = self.parameters.latent_dimension as usize;
        let draw = || (stream.standard_normal() * self.parameters.deviation) as f32;
        let factors = Factors::new(users, items, dimension, draw);
        let model = model([users, items], dimension, &factors.parameters.values);
        Box::new(Trainer {
            parameters: self.parameters.clone(),
            problem: self.problem.clone(),
            model,
            factors,
        })
    }

    fn scoring(&self) -> ScoreFunction {
        score
    }
}

/// Returns the layout of both tables, with `dimension` values in a row.
pub(super) fn layout([users, items]: [usize; 2], dimension: usize) -> Layout {
    let shape = |rows| TableShape { rows, dimension };
    Layout::new(vec![
        BlockLayout::weights("U", shape(users)),
        BlockLayout::item_table("V", shape(items)),
    ])
}

/// Returns the model of both tables, whose rows stand in `values` one after the other, those of the
/// users first.
pub(super) fn model(sizes: [usize; 2], dimension: usize, values: &[f32]) -> Model {
    network::model(layout(sizes, dimension), values)
}

/// Writes to `scores` the scalar products of the user's row of the first table with those of
/// `items` in the second one.
pub(super) fn score(context: &ScoringContext<'_>, items: &[u32], scores: &mut [f32]) {
    let ScoringContext { user, model, .. } = *context;
    score_items(
        model.table(0).row(user.index()),
        model.table(1),
        items,
        scores,
    );
}

/// Trains the server's tables on the ratings.
struct Trainer {
    parameters: MfParameters,
    problem: Problem,
    factors: Factors,
    /// The model of the tables after the last pass.
    model: Model,
}

impl CentralTrainer for Trainer {
    fn model(&self) -> &Model {
        &self.model
    }

    fn set_model(&mut self, model: Model) -> Result<()> {
        self.model.check_same_layout(&model)?;
        self.factors.parameters.values = [0, 1].map(|block| model.table(block).as_slice()).concat();
        self.model = model;
        Ok(())
    }

    fn pass(&mut self, ratings: &[UserRatings], step: &StepContext<'_>) -> Result<StepReport> {
        let MfParameters {
            batch_size,
            learning_rate,
            weight_decay,
            ..
        } = self.parameters;
        let Problem { users, items, .. } = self.problem;
        let samples = samples::draw(&self.problem.protocol, (ratings, items), step, "mf")?;
        let adam = AdamSettings {
            weight_decay,
            ..AdamSettings::with_rate(learning_rate)
        };
        let mut loss = 0.0;
        for batch in samples.chunks(batch_size as usize) {
            loss += f64::from(self.factors.step(batch, &adam));
        }
        step.check_magnitude("U or V", largest_magnitude(&self.factors.parameters.values))?;
        if !loss.is_finite() {
            return Err(step.diverged("the loss", loss as f32));
        }
        self.model = model(
            [users, items],
            self.factors.dimension,
            &self.factors.parameters.values,
        );
        let visits = 2 * samples.len() as u64;
        Ok(StepReport {
            row_visits: visits,
            loss: (!samples.is_empty()).then(|| loss / samples.len() as f64),
            ..StepReport::default()
        })
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        self.factors.parameters.visit_memory(state)
    }
}
