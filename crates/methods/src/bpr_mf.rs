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

use super::declare::score::pairwise;
use super::mf;
use super::network;
use super::prelude::*;
use super::samples::Triple;
use fedrecsim_model::neural::dense::dot;
use fedrecsim_model::per_instruction_set;

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry::at_server::<BprMf>();

parameters! {
    /// Parameters of matrix factorisation by pairwise ranking.
    pub(crate) struct BprMf {
        /// Latent dimension k.
        latent_dimension: u32 = 32, >= 1, <= MAX_DIMENSION;
        /// Learning rate of a step on one triple.
        learning_rate: f64 = 0.05, > 0.0;
        /// Weight lambda of the regulariser of the three rows of a triple.
        regularization: f64 = 0.01, >= 0;
        /// Standard deviation of both tables at the start.
        deviation: f64 = 0.1, > 0.0;
    }
}

impl BprMf {
    /// Makes the step on one triple, and returns the loss before it without its regulariser.
    /// `values` are the rows of this many users and then those of items.
    fn step(&self, values: &mut [f32], users: usize, triple: &Triple) -> f64 {
        let rows = triple.rows(users, self.latent_dimension as usize);
        // A negative is another item than the positive, so that the three rows are apart.
        let Ok([user, positive, negative]) = values.get_disjoint_mut(rows) else {
            return 0.0;
        };
        let (loss, slope) = pairwise(dot(user, positive) - dot(user, negative));
        let (rate, regularization) = (self.learning_rate as f32, self.regularization as f32);
        descend([user, positive, negative], slope, rate, regularization);
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

impl Central for BprMf {
    type Parameters = Self;
    type Memory = ();

    const NAME: &str = "bpr-mf";
    const SUMMARY: &str = "centralised matrix factorisation by pairwise ranking (BPR): users send \
                           their ratings once";
    const SOURCE: &str = "Rendle et al., BPR: Bayesian Personalized Ranking from Implicit \
                          Feedback, UAI 2009";
    const FORMULA: &[&str] = &[
        "s_ui = U_u · V_i",
        "L = Σ −ln σ(s_ui − s_uj) + ½ λ (‖U_u‖² + ‖V_i‖² + ‖V_j‖²) over triples of a positive i and a negative j",
    ];
    const DIFFERS: &str = "The paper draws triples with replacement. Here a pass has every \
                           positive once with each of its negatives \
                           (`dataset.negatives.per_positive`).";

    fn new(parameters: Self, _problem: &Problem) -> Self {
        parameters
    }

    fn blocks(&self, size: ProblemSize) -> Vec<Block> {
        mf::tables(size, self.latent_dimension, self.deviation)
    }

    fn pass(&self, pass: Pass<'_, ()>) -> Result<StepReport> {
        let triples = pass.triples(pass.ratings, "bpr-mf")?;
        let (mut values, users) = (network::parameters(pass.model, 0), pass.problem.users);
        let step = |triple| self.step(&mut values, users, triple);
        let loss: f64 = triples.iter().map(step).sum();
        let report = pass.report(("U or V", &values), (loss, triples.len()), 3);
        network::set(pass.model, 0, &values);
        report
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::tests::{AtWork, problem_of, sent};
    use fedrecsim_core::math::gradient::gradient_check;
    use fedrecsim_scenario::NegativesSpec;

    const USERS: usize = 3;
    const DIMENSION: usize = 5;

    fn at_work(learning_rate: f64) -> AtWork<BprMf> {
        let method = BprMf {
            latent_dimension: DIMENSION as u32,
            learning_rate,
            regularization: 0.5,
            deviation: 0.8,
        };
        AtWork::new(method, problem_of(USERS, 6))
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
        let one = at_work(0.125);
        let mut values = network::parameters(&one.model, 0);
        let before: Vec<f64> = values.iter().map(|value| f64::from(*value)).collect();
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
        let unregularised = one.method.step(&mut values, USERS, &triple);
        assert!(unregularised > 0.0 && unregularised < loss(&before));
        let moved = values.iter().zip(&before);
        let gradient: Vec<f64> = moved
            .map(|(after, before)| (before - f64::from(*after)) / 0.125)
            .collect();
        gradient_check(1e-4, &before, &gradient, loss).unwrap_or_else(|wrong| panic!("{wrong}"));
    }

    /// If this fails, passes do not learn what users have sent, or a model that is set does not
    /// take part in them.
    #[test]
    fn passes_lower_the_loss_and_go_on_from_a_model_that_is_set() {
        let ratings = sent(&[&[0, 2], &[1, 3], &[0, 4]]);
        let mut one = at_work(0.05);
        one.method.regularization = 0.0;
        one.problem = one.problem.with_negatives(&NegativesSpec {
            per_positive: 2,
            ..NegativesSpec::default()
        });
        let passes = (0..60).map(|pass| one.pass(&ratings, pass).loss.unwrap());
        let losses: Vec<f64> = passes.collect();
        assert!(
            losses[59] < 0.5 * losses[0],
            "{} to {}",
            losses[0],
            losses[59]
        );
        let mut other = at_work(0.05);
        other.problem = one.problem.clone();
        other.method.regularization = 0.0;
        other.model = one.model.clone();
        let report = one.pass(&ratings, 60);
        assert_eq!(report.row_visits, 3 * 6 * 2);
        other.pass(&ratings, 60);
        assert_eq!(other.model, one.model);
    }
}
