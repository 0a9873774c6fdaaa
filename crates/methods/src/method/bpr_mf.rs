//! Implements matrix factorisation by Bayesian personalised ranking at the server, which learns to
//! score the positives of a user above other items.
//!
//! The score of item j for user u is U_u . V_j. A pass goes through triples of a user u, one of its
//! positives i and a negative j in random order, and makes a step of stochastic gradient descent on
//!
//! ```text
//! -ln sigmoid(U_u . V_i - U_u . V_j) + (lambda / 2) (|U_u|^2 + |V_i|^2 + |V_j|^2)
//! ```
//!
//! for each. The paper draws triples with replacement. Here every positive stands in a pass once
//! with each of its negatives, as in the other methods, so that `dataset.negatives` says how many
//! triples there are and which items may be negatives.
//!
//! Source: Rendle et al., BPR: Bayesian Personalized Ranking from Implicit Feedback, UAI 2009.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::central::{CentralMethod, CentralTrainer, ScoreFunction, UserRatings};
use super::pairs::{self, Triple, loss_and_slope};
use super::server::{StepContext, StepReport};
use super::{Entry, Placement, Problem, largest_magnitude, mf, parameters, sizes_by};
use fedrecsim_core::error::Result;
use fedrecsim_core::rng::{PortableDraws, Purpose};
use fedrecsim_model::model::blocks::Model;
use fedrecsim_model::model::kernel::MAX_DIMENSION;
use fedrecsim_model::model::neural::dense::dot;
use fedrecsim_model::per_instruction_set;

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry {
    name: "bpr-mf",
    summary: "centralised matrix factorisation by pairwise ranking (BPR): users send their ratings once",
    source: "Rendle et al., BPR: Bayesian Personalized Ranking from Implicit Feedback, UAI 2009",
    schema: &|| schemars::schema_for!(BprMfParameters),
    resolve: &|_| Vec::new(),
    placement: Placement::Central,
    draws_negatives: true,
    sizes: &|value, size| {
        sizes_by(value, |p: BprMfParameters| {
            mf::layout([size.users, size.items], p.latent_dimension as usize)
        })
    },
    build: &|value, problem| {
        Ok(Box::new(BprMf {
            parameters: parameters("bpr-mf", value)?,
            problem: problem.clone(),
        }))
    },
};

/// Parameters of matrix factorisation by pairwise ranking.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct BprMfParameters {
    /// Latent dimension k.
    #[schemars(range(min = 1, max = MAX_DIMENSION))]
    pub latent_dimension: u32,
    /// Learning rate of a step on one triple.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub learning_rate: f64,
    /// Weight lambda of the regulariser of the three rows of a triple.
    #[schemars(range(min = 0))]
    pub regularization: f64,
    /// Standard deviation of both tables at the start.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub deviation: f64,
}

impl Default for BprMfParameters {
    fn default() -> Self {
        Self {
            latent_dimension: 32,
            learning_rate: 0.05,
            regularization: 0.01,
            deviation: 0.1,
        }
    }
}

/// Holds the parameters of the method and the problem.
#[derive(Debug)]
pub(crate) struct BprMf {
    parameters: BprMfParameters,
    problem: Problem,
}

impl CentralMethod for BprMf {
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
        let draw = |_| (stream.standard_normal() * self.parameters.deviation) as f32;
        let values: Vec<f32> = (0..(users + items) * dimension).map(draw).collect();
        let model = mf::model([users, items], dimension, &values);
        Box::new(Trainer {
            parameters: self.parameters.clone(),
            problem: self.problem.clone(),
            values,
            model,
        })
    }

    fn scoring(&self) -> ScoreFunction {
        mf::score
    }
}

/// Trains the server's tables on triples.
struct Trainer {
    parameters: BprMfParameters,
    problem: Problem,
    /// The rows of the users and then those of the items, one after the other.
    values: Vec<f32>,
    /// The model of the tables after the last pass.
    model: Model,
}

impl Trainer {
    /// Makes the step on one triple, and returns the loss before it without its regulariser.
    fn step(&mut self, triple: &Triple) -> f64 {
        let BprMfParameters {
            latent_dimension,
            learning_rate,
            regularization,
            ..
        } = self.parameters;
        let (dimension, users) = (latent_dimension as usize, self.problem.users);
        let row = |row: usize| row * dimension..(row + 1) * dimension;
        let Triple {
            user,
            positive,
            negative,
        } = *triple;
        let rows = [
            user as usize,
            users + positive as usize,
            users + negative as usize,
        ]
        .map(row);
        // A negative is another item than the positive, so that the three rows are apart.
        let Ok([user, positive, negative]) = self.values.get_disjoint_mut(rows) else {
            return 0.0;
        };
        let (loss, slope) = loss_and_slope(dot(user, positive) - dot(user, negative));
        descend(
            [user, positive, negative],
            slope,
            learning_rate as f32,
            regularization as f32,
        );
        loss
    }
}

per_instruction_set! {
    /// Moves the rows of a user, a positive and a negative against the gradient of their
    /// regularised loss. `slope` is its slope with respect to the difference of the scores.
    fn descend(rows: [&mut [f32]; 3], slope: f32, rate: f32, regularization: f32) {
        let [user, positive, negative] = rows;
        for ((u, i), j) in user.iter_mut().zip(positive).zip(negative) {
            let (of_user, of_item) = (slope * (*i - *j), slope * *u);
            *u -= rate * (of_user + regularization * *u);
            *i -= rate * (of_item + regularization * *i);
            *j -= rate * (regularization * *j - of_item);
        }
    }
}

impl CentralTrainer for Trainer {
    fn model(&self) -> &Model {
        &self.model
    }

    fn set_model(&mut self, model: Model) -> Result<()> {
        self.model.check_same_layout(&model)?;
        self.values = [0, 1].map(|block| model.table(block).as_slice()).concat();
        self.model = model;
        Ok(())
    }

    fn pass(&mut self, ratings: &[UserRatings], step: &StepContext<'_>) -> Result<StepReport> {
        let Problem { users, items, .. } = self.problem;
        let triples = pairs::draw(&self.problem.protocol, (ratings, items), step, "bpr-mf")?;
        let loss: f64 = triples.iter().map(|triple| self.step(triple)).sum();
        step.check_magnitude("U or V", largest_magnitude(&self.values))?;
        self.model = mf::model(
            [users, items],
            self.parameters.latent_dimension as usize,
            &self.values,
        );
        Ok(pairs::report(&triples, loss))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::method::tests::{problem_of, sent, with_step};
    use fedrecsim_core::math::gradient::gradient_check_within;
    use fedrecsim_scenario::scenario::NegativesSpec;

    const USERS: usize = 3;
    const DIMENSION: usize = 5;

    fn trainer(learning_rate: f64) -> Trainer {
        let parameters = BprMfParameters {
            latent_dimension: DIMENSION as u32,
            learning_rate,
            regularization: 0.5,
            deviation: 0.8,
        };
        let method = BprMf {
            parameters: parameters.clone(),
            problem: problem_of(USERS, 6),
        };
        let model = method.trainer().model().clone();
        let values = [0, 1].map(|block| model.table(block).as_slice()).concat();
        Trainer {
            parameters,
            problem: method.problem,
            values,
            model,
        }
    }

    /// If this fails, the rows of a triple do not follow the gradient of their loss, or others
    /// move.
    #[test]
    fn a_step_is_the_rate_times_the_slope() {
        let triple = Triple {
            user: 1,
            positive: 4,
            negative: 2,
        };
        let mut trainer = trainer(0.125);
        let before: Vec<f64> = trainer
            .values
            .iter()
            .map(|value| f64::from(*value))
            .collect();
        let loss = |at: &[f64]| {
            let [u, i, j] =
                [1, USERS + 4, USERS + 2].map(|row| &at[row * DIMENSION..(row + 1) * DIMENSION]);
            let d: f64 = u
                .iter()
                .zip(i.iter().zip(j))
                .map(|(u, (i, j))| u * (i - j))
                .sum();
            let squares: f64 = [u, i, j].concat().iter().map(|value| value * value).sum();
            libm::log1p(libm::exp(-d)) + 0.25 * squares
        };
        let unregularised = trainer.step(&triple);
        assert!(unregularised > 0.0 && unregularised < loss(&before));
        let moved = trainer.values.iter().zip(&before);
        let gradient: Vec<f64> = moved
            .map(|(after, before)| (before - f64::from(*after)) / 0.125)
            .collect();
        gradient_check_within(1e-4, &before, &gradient, loss)
            .unwrap_or_else(|wrong| panic!("{wrong}"));
    }

    /// If this fails, passes do not learn what users have sent, or a model that is set does not
    /// take part in them.
    #[test]
    fn passes_lower_the_loss_and_go_on_from_a_model_that_is_set() {
        let ratings = sent(&[&[0, 2], &[1, 3], &[0, 4]]);
        let mut one = trainer(0.05);
        one.parameters.regularization = 0.0;
        one.problem = one.problem.with_negatives(&NegativesSpec {
            per_positive: 2,
            ..NegativesSpec::default()
        });
        let losses: Vec<f64> = (0..60)
            .map(|pass| {
                with_step(pass, |step| one.pass(&ratings, step))
                    .unwrap()
                    .loss
                    .unwrap()
            })
            .collect();
        assert!(
            losses[59] < 0.5 * losses[0],
            "{} to {}",
            losses[0],
            losses[59]
        );
        let mut other = trainer(0.05);
        other.set_model(one.model.clone()).unwrap();
        assert_eq!(other.values, one.values);
        assert_eq!(
            with_step(60, |step| one.pass(&ratings, step))
                .unwrap()
                .row_visits,
            3 * 6 * 2
        );
    }
}
