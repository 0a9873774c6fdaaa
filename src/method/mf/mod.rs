//! Implements centralised matrix factorisation with the logistic loss (the `MF` of the PFedRec paper's Table 2), which
//! shows what a server could do that had the ratings of all users.
//!
//! The logit is U_u . V_j and the loss is the mean binary cross-entropy, which Adam minimises on both tables by
//! mini-batches over the samples of all users. A step is one pass over every positive with freshly drawn negatives. The
//! server draws them from the items that the user has not sent. It cannot tell which of those are held out, so that a
//! held-out item can be a negative whatever the scenario's pool is. The paper states neither the learning rate nor the
//! initial values. Those of He et al. (WWW 2017) are used.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::central::{CentralMethod, CentralTrainer, ScoreFunction, UserRatings};
use super::server::{StepContext, StepReport};
use super::user_vector::score_items;
use super::{Entry, Placement, Problem, ScoringContext, largest_magnitude, network, parameters, sizes_by};
use crate::error::Result;
use crate::model::blocks::Model;
use crate::model::kernel::MAX_DIMENSION;
use crate::model::layout::{BlockLayout, Layout};
use crate::model::neural::optimizer::AdamSettings;
use crate::model::state::StateVisitor;
use crate::model::table::TableShape;
use crate::rng::{PortableDraws, Purpose, Stream, Streams};
use factors::{Factors, Sample};

pub mod factors;

/// Describes the method to the registry.
pub const ENTRY: Entry = Entry {
    name: "mf",
    summary: "centralised matrix factorisation: users send their ratings once, the server trains by Adam",
    source: "Koren et al., Matrix Factorization Techniques for Recommender Systems, Computer 2009, with the logistic \
             loss that the PFedRec paper compares with; rate and start of He et al., WWW 2017",
    schema: &|| schemars::schema_for!(MfParameters),
    resolve: &|_| Vec::new(),
    placement: Placement::Central,
    draws_negatives: false,
    sizes: &|value, size| {
        sizes_by(value, |p: MfParameters| layout([size.users, size.items], p.latent_dimension as usize))
    },
    build: &|value, problem| Ok(Box::new(Mf::new(parameters("mf", value)?, problem))),
};

/// Parameters of centralised matrix factorisation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MfParameters {
    /// Latent dimension k.
    #[schemars(range(min = 1, max = MAX_DIMENSION))]
    pub latent_dimension: u32,
    /// Samples per batch.
    #[schemars(range(min = 1))]
    pub batch_size: u32,
    /// Negatives that the server draws for each positive.
    #[schemars(range(min = 1, max = 1000))]
    pub negatives_per_positive: u32,
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
            negatives_per_positive: 4,
            learning_rate: 1e-3,
            weight_decay: 0.0,
            deviation: 0.01,
        }
    }
}

/// Holds the parameters of the method and the sizes of the problem.
#[derive(Debug)]
pub struct Mf {
    parameters: MfParameters,
    users: usize,
    items: usize,
    streams: Streams,
}

impl Mf {
    /// Makes the method for a problem of this size.
    pub fn new(parameters: MfParameters, problem: &Problem) -> Self {
        Self { parameters, users: problem.users, items: problem.items, streams: problem.streams }
    }
}

impl CentralMethod for Mf {
    type Scoring = ScoreFunction;

    fn items(&self) -> usize {
        self.items
    }

    /// Draws both tables from N(0, deviation^2).
    fn trainer(&self) -> Box<dyn CentralTrainer> {
        let mut stream = self.streams.stream(Purpose::GlobalInit, 0, 0);
        let dimension = self.parameters.latent_dimension as usize;
        let draw = || (stream.standard_normal() * self.parameters.deviation) as f32;
        let factors = Factors::new(self.users, self.items, dimension, draw);
        let model = model([self.users, self.items], dimension, &factors.parameters.values);
        Box::new(Trainer { parameters: self.parameters.clone(), model, factors })
    }

    fn scoring(&self) -> ScoreFunction {
        score
    }
}

/// Returns the layout of both tables, with `dimension` values in a row.
pub(super) fn layout([users, items]: [usize; 2], dimension: usize) -> Layout {
    let shape = |rows| TableShape { rows, dimension };
    Layout::new(vec![BlockLayout::weights("U", shape(users)), BlockLayout::item_table("V", shape(items))])
}

/// Returns the model of both tables, whose rows stand in `values` one after the other, those of the users first.
pub(super) fn model(sizes: [usize; 2], dimension: usize, values: &[f32]) -> Model {
    network::model(layout(sizes, dimension), values)
}

/// Writes to `scores` the scalar products of the user's row of the first table with those of `items` in the second one.
pub(super) fn score(context: &ScoringContext<'_>, items: &[u32], scores: &mut [f32]) {
    let ScoringContext { user, model, .. } = *context;
    score_items(model.table(0).row(user.index()), model.table(1), items, scores);
}

/// Trains the server's tables on the ratings.
struct Trainer {
    parameters: MfParameters,
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
        let MfParameters { batch_size, negatives_per_positive, learning_rate, weight_decay, .. } = self.parameters;
        let items = self.model.table(1).shape().rows as u32;
        let mut negatives = step.named_stream("mf/negatives");
        let mut samples = Vec::new();
        for of_user in ratings {
            draw_samples(of_user, items, negatives_per_positive, &mut negatives, &mut samples);
        }
        step.named_stream("mf/order").shuffle_portably(&mut samples);
        let adam = AdamSettings { weight_decay, ..AdamSettings::with_rate(learning_rate) };
        let mut loss = 0.0;
        for batch in samples.chunks(batch_size as usize) {
            loss += f64::from(self.factors.step(batch, &adam));
        }
        step.check_magnitude("U or V", largest_magnitude(&self.factors.parameters.values))?;
        if !loss.is_finite() {
            return Err(step.diverged("the loss", loss as f32));
        }
        let users = self.model.table(0).shape().rows;
        self.model = model([users, items as usize], self.factors.dimension, &self.factors.parameters.values);
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

/// Appends to `samples` the positives of a user, each followed by its negatives, which are different items that the
/// user has not sent.
pub(super) fn draw_samples(
    ratings: &UserRatings,
    items: u32,
    per_positive: u32,
    stream: &mut Stream,
    samples: &mut Vec<Sample>,
) {
    let user = ratings.user.0;
    let left = items.saturating_sub(ratings.items.len() as u32);
    for &item in &ratings.items {
        samples.push(Sample { user, item, is_positive: true });
        let first = samples.len();
        while ((samples.len() - first) as u32) < per_positive.min(left) {
            let item = stream.below(items);
            let is_taken = samples[first..].iter().any(|sample| sample.item == item);
            if !is_taken && ratings.items.binary_search(&item).is_err() {
                samples.push(Sample { user, item, is_positive: false });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::UserId;

    /// If this fails, the server uses items as negatives that the user has sent, or never stops drawing.
    #[test]
    fn negatives_are_different_items_that_were_not_sent() {
        let mut stream = Streams::new(1).stream(Purpose::Negatives, 0, 0);
        let ratings = UserRatings { user: UserId(3), items: vec![1, 4, 5], ratings: vec![1.0; 3] };
        let mut samples = Vec::new();
        draw_samples(&ratings, 6, 4, &mut stream, &mut samples);
        assert_eq!(samples.len(), 3 * (1 + 3), "there are three other items");
        for group in samples.chunks(4) {
            assert!(group[0].is_positive && group.iter().all(|sample| sample.user == 3));
            let mut negatives: Vec<u32> = group[1..].iter().map(|sample| sample.item).collect();
            negatives.sort_unstable();
            assert_eq!(negatives, [0, 2, 3]);
        }
    }
}
