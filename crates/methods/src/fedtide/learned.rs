//! What is learned of a period: mixtures of counts, the share of neighbours and the weights of
//! features.

use serde::{Deserialize, Serialize};

use crate::prelude::*;
use fedrecsim_model::algebra;

/// The half-lives of counts, in days. The last one keeps everything.
pub(super) const HALF_LIVES: [f64; 7] = [1.0, 3.0, 10.0, 30.0, 100.0, 400.0, 1e9];

/// The columns of counts: those of [`HALF_LIVES`] for all items, for those of returning users and
/// for the first of a return, and an item's share in what occurs together.
pub(super) const COUNTS: usize = 3 * HALF_LIVES.len() + 1;

/// The number of features.
pub(super) const FEATURES: usize = 6;

/// The least value of which a logarithm is taken.
pub(super) const LEAST: f64 = 1e-6;

/// The coefficients that are expected before anything is fitted.
const PRIOR: [f64; FEATURES] = [0.8, 0.3, 0.15, 0.05, -0.3, 0.0];

/// The weight of the distance from [`PRIOR`], in devices.
const PRIOR_WEIGHT: f64 = 20.0;

/// The longest Newton step.
const LONGEST_STEP: f64 = 2.0;

/// The part that is made of a step that was too long.
const SHORTER: f64 = 0.25;

/// What every part of a mixture has besides what devices report.
const PSEUDO_MASS: f64 = 0.05;

/// The number of steps in which the mixtures of counts are found.
const MIXTURE_STEPS: usize = 200;

/// The shares of counts, in a mixture with neighbours, that devices report on: logit^(-1) of evenly
/// spaced numbers.
pub(super) const GRID: usize = 33;
const GRID_REACH: f64 = 6.0;

/// The mixture and the weights with which a device scores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Coefficients {
    /// The shares of counts and of neighbours.
    pub(super) mixture: [f64; 2],
    /// The weights theta of the features.
    pub(super) weights: [f64; FEATURES],
}

impl Default for Coefficients {
    fn default() -> Self {
        Self {
            mixture: [0.5; 2],
            weights: PRIOR,
        }
    }
}

impl Coefficients {
    pub(super) fn read(values: &[f32]) -> Self {
        let value = |at: usize| f64::from(values[at]);
        Self {
            mixture: std::array::from_fn(|at| value(at).max(0.0)),
            weights: std::array::from_fn(|at| value(2 + at)),
        }
    }

    pub(super) fn write(&self, values: &mut [f32]) {
        let all = self.mixture.iter().chain(&self.weights);
        values
            .iter_mut()
            .zip(all)
            .for_each(|(value, of)| *value = *of as f32);
    }
}

/// What is learned of one period, or of several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Learned {
    /// The mixture of the counts of all users, over half-lives, and of those of returning users.
    all: Vec<f64>,
    returning: Vec<f64>,
    pub(super) coefficients: Coefficients,
    /// The best weights of which devices have reported so far, while weights are fitted.
    best: Option<Best>,
}

/// Weights with what they come to, and the Newton step from there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Best {
    loss: f64,
    weights: [f64; FEATURES],
    step: [f64; FEATURES],
}

impl Default for Learned {
    fn default() -> Self {
        let kinds = HALF_LIVES.len();
        Self {
            all: vec![1.0 / kinds as f64; kinds],
            returning: vec![0.5 / kinds as f64; 2 * kinds],
            coefficients: Coefficients::default(),
            best: None,
        }
    }
}

impl Learned {
    /// Learns the mixtures of counts from what devices have taken: `shares` has the share of each
    /// item in each column of counts, and `targets` what was taken of it.
    pub(super) fn from_targets(shares: &[Vec<f64>], targets: &[f64]) -> Self {
        let kinds = HALF_LIVES.len();
        Self {
            all: mixture(shares, targets, 0..kinds),
            returning: mixture(shares, targets, kinds..COUNTS - 1),
            coefficients: Coefficients::default(),
            best: None,
        }
    }

    /// Returns the two mixtures of an item's shares.
    pub(super) fn of_counts(&self, all: &[f64], returning: &[f64]) -> [f64; 2] {
        [dot(&self.all, all), dot(&self.returning, returning)]
    }

    /// Returns the weighted mean of what was learned in several periods, the last of which counts
    /// 1 and each one before it `carry` times as much. Without periods nothing is learned.
    pub(super) fn carried(periods: &[Self], carry: f64) -> Self {
        if periods.is_empty() {
            return Self::default();
        }
        let weights = (0..periods.len())
            .rev()
            .map(|back| math::pow(carry, back as f64));
        let weights: Vec<f64> = weights.collect();
        let total: f64 = weights.iter().sum();
        let mean = |of: &dyn Fn(&Self) -> f64| {
            let values = periods.iter().zip(&weights);
            values
                .map(|(period, weight)| weight * of(period))
                .sum::<f64>()
                / total
        };
        let kinds = HALF_LIVES.len();
        Self {
            all: (0..kinds).map(|at| mean(&|of| of.all[at])).collect(),
            returning: (0..2 * kinds)
                .map(|at| mean(&|of| of.returning[at]))
                .collect(),
            coefficients: Coefficients {
                mixture: std::array::from_fn(|at| mean(&|of| of.coefficients.mixture[at])),
                weights: std::array::from_fn(|at| mean(&|of| of.coefficients.weights[at])),
            },
            best: None,
        }
    }

    /// Finds the mixture of counts and neighbours from the sum of devices' reports.
    pub(super) fn mix(&mut self, reports: &[f64]) {
        let devices = reports[GRID].max(0.0);
        // Where a report is above the share of counts, more of them would be likelier.
        let excess = |at: usize| {
            (reports[at] + PSEUDO_MASS) / (devices + 2.0 * PSEUDO_MASS) - share_of_counts(at as f64)
        };
        let last = (0..GRID).rev().find(|at| excess(*at) > 0.0);
        let by_count = match last {
            None => share_of_counts(0.0),
            Some(at) if at + 1 == GRID => share_of_counts(at as f64),
            Some(at) => {
                let (above, below) = (excess(at), -excess(at + 1));
                share_of_counts(at as f64 + above / (above + below))
            }
        };
        self.coefficients.mixture = [by_count, 1.0 - by_count];
    }

    /// Makes a Newton step of the weights with the sum of devices' terms. Where the step before it has
    /// made the loss larger, a part of that step is made in its place; the last step of a period
    /// then goes back to the best weights.
    ///
    /// # Errors
    /// As [`algebra::symmetric_eigen`].
    pub(super) fn step(&mut self, terms: &[f64], is_last: bool) -> algebra::Result<()> {
        let weights = self.coefficients.weights;
        let from_prior: [f64; FEATURES] = std::array::from_fn(|at| weights[at] - PRIOR[at]);
        let loss = terms[0] + PRIOR_WEIGHT / 2.0 * dot(&from_prior, &from_prior);
        let best = match self.best.take() {
            // A loss that is not a number is none that is better.
            Some(best) if best.loss.total_cmp(&loss).is_lt() => Best {
                step: best.step.map(|step| match is_last {
                    true => 0.0,
                    false => SHORTER * step,
                }),
                ..best
            },
            _ => Best {
                loss,
                weights,
                step: newton_step(terms, &from_prior)?,
            },
        };
        self.coefficients.weights = std::array::from_fn(|at| best.weights[at] - best.step[at]);
        self.best = Some(best);
        Ok(())
    }
}

/// Returns the Newton step from weights at this distance from the prior ones.
///
/// # Errors
/// As [`algebra::symmetric_eigen`].
fn newton_step(terms: &[f64], from_prior: &[f64]) -> algebra::Result<[f64; FEATURES]> {
    let (gradient, curvature) = terms[1..].split_at(FEATURES);
    let gradient = gradient.iter().zip(from_prior);
    let gradient: Vec<f64> = gradient
        .map(|(sum, away)| sum + PRIOR_WEIGHT * away)
        .collect();
    let curvature = algebra::upper_triangular(curvature, FEATURES);
    let spectrum = algebra::symmetric_eigen(&curvature.view())?;
    let mut step = [0.0; FEATURES];
    for (direction, value) in spectrum.vectors.rows().into_iter().zip(&spectrum.values) {
        let direction = direction.to_vec();
        // Noise in the sums can make a curvature negative.
        let along = dot(&direction, &gradient) / (value.max(0.0) + PRIOR_WEIGHT);
        for (step, of) in step.iter_mut().zip(&direction) {
            *step += along * of;
        }
    }
    let length = math::sqrt(dot(&step, &step));
    let scale = (LONGEST_STEP / length.max(LONGEST_STEP)).min(1.0);
    Ok(step.map(|step| scale * step))
}

/// Finds the mixture of some columns of shares under which the targets are likeliest, by expectation
/// and maximisation.
fn mixture(shares: &[Vec<f64>], targets: &[f64], columns: std::ops::Range<usize>) -> Vec<f64> {
    let least = LEAST / shares.len().max(1) as f64;
    let parts = columns.len();
    let taken: Vec<(f64, &[f64])> = targets
        .iter()
        .zip(shares)
        .filter(|(target, _)| **target > 0.0)
        .map(|(target, shares)| (*target, &shares[columns.clone()]))
        .collect();
    let mut mixture = vec![1.0 / parts as f64; parts];
    for _ in 0..MIXTURE_STEPS {
        let mut next = vec![PSEUDO_MASS; parts];
        for (target, shares) in &taken {
            let likely = mixture
                .iter()
                .zip(*shares)
                .map(|(part, share)| part * (share + least));
            let likely: Vec<f64> = likely.collect();
            let total: f64 = likely.iter().sum();
            next.iter_mut()
                .zip(likely)
                .for_each(|(next, of)| *next += target * of / total);
        }
        let total: f64 = next.iter().sum();
        mixture = next.iter().map(|part| part / total).collect();
    }
    mixture
}

/// Returns whether anybody has taken the item of these counts.
pub(super) fn is_taken(counts: &[f64]) -> bool {
    counts[HALF_LIVES.len() - 1] > 0.0
}

/// Returns the share of counts at a place of the grid.
pub(super) fn share_of_counts(at: f64) -> f64 {
    let logit = GRID_REACH * (2.0 * at / (GRID - 1) as f64 - 1.0);
    1.0 / (1.0 + math::exp(-logit))
}

/// Returns the scalar product of two lists of equal length.
pub(super) fn dot(left: &[f64], right: &[f64]) -> f64 {
    left.iter()
        .zip(right)
        .map(|(left, right)| left * right)
        .sum()
}
