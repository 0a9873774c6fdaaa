//! Defines the rules of a server's step: how updates are combined, and what the server does with
//! the result.
//!
//! Each block has a rule of its own. [`ServerRule::MEAN`], the default, averages whole tables. Every
//! other rule touches only the rows that somebody sent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use fedrecsim_core::{Result, math};
use fedrecsim_model::{StateVisitor, TableShape};

/// Says how the updates of a step are combined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Combine {
    /// The mean of the updates, with the weights that they carry.
    #[default]
    Mean,
    /// The sum of the updates.
    Sum,
    /// For each row, the mean over those who sent the row, as the server counts or as devices say
    /// (FedRec 2020, Eq. 9).
    MeanPerSender,
    /// The mean without the extremes, so that a few users who send nonsense move no row far. Every
    /// coordinate of a row leaves out this share of its senders at either end, rounded up to whole
    /// senders (Yin et al., Byzantine-Robust Distributed Learning, ICML 2018). A row that few have
    /// sent moves as far as in the mean.
    TrimmedMean {
        /// The share that is left out at either end.
        #[schemars(range(min = 0, max = 0.5))]
        share: f64,
    },
}

impl Combine {
    /// The median of every coordinate of a row over those who sent it.
    pub const MEDIAN: Self = Self::TrimmedMean { share: 0.5 };
}

/// Says what the server does with the combined update d of a row v. For a block that is a state of
/// the model, d is the combined difference to what the clients received. For a statistic, d is the
/// negative of what they sent, which counts as a gradient.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Optimizer {
    /// v + rate d, the rate falling by a factor from step to step.
    #[default]
    Plain,
    /// Momentum: m <- beta m + d; v + rate m (FedAvgM; Hsu et al. 2019).
    Momentum {
        /// The factor beta of the old direction.
        #[schemars(range(min = 0, max = 1))]
        beta: f64,
    },
    /// Adam (Kingma and Ba 2015; FedAdam of Reddi et al. 2021), with its moments corrected for
    /// their start. A row has a count of its own, so that one that is seldom sent starts as others
    /// did.
    Adam {
        /// The decay of the first moment.
        #[schemars(range(min = 0, max = 1))]
        beta1: f64,
        /// The decay of the second moment.
        #[schemars(range(min = 0, max = 1))]
        beta2: f64,
        /// The number that is added to the root of the second moment.
        #[schemars(extend("exclusiveMinimum" = 0.0))]
        epsilon: f64,
    },
    /// The signs of v + rate d, for codes of bits; a bit stays where that is 0.
    Sign,
}

impl Optimizer {
    /// Adam with the usual constants 0.9, 0.999 and 1e-8.
    pub const ADAM: Self = Self::Adam {
        beta1: 0.9,
        beta2: 0.999,
        epsilon: 1e-8,
    };
}

/// Describes the rule of one block.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ServerRule {
    /// How updates are combined.
    pub combine: Combine,
    /// The step that the server makes with the result.
    pub optimizer: Optimizer,
    /// The server's rate.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub rate: f64,
    /// The factor on the rate after every step.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0.0))]
    pub rate_decay: f64,
    /// The weight decay, which times a sent row is subtracted from its d.
    #[schemars(range(min = 0))]
    pub weight_decay: f64,
    /// The threshold of a proximal step that follows: values of the block that are nearer to 0 than
    /// this become 0, and the others move towards 0 by as much.
    #[schemars(range(min = 0))]
    pub threshold: f64,
}

impl Default for ServerRule {
    fn default() -> Self {
        Self::MEAN
    }
}

impl ServerRule {
    /// The rule that makes the block the mean of what clients made of it.
    pub const MEAN: Self = Self {
        combine: Combine::Mean,
        optimizer: Optimizer::Plain,
        rate: 1.0,
        rate_decay: 1.0,
        weight_decay: 0.0,
        threshold: 0.0,
    };

    /// Returns whether this is the plain mean, with or without a proximal step, which averages
    /// whole tables instead of the rows that were sent.
    pub(crate) fn is_mean(&self) -> bool {
        Self {
            threshold: 0.0,
            ..*self
        } == Self::MEAN
    }

    /// Makes the proximal step on `values`: S_t(v) = v - t for v > t, v + t for v < -t, and 0
    /// otherwise.
    pub(crate) fn soften(&self, values: &mut [f32]) {
        let threshold = self.threshold as f32;
        if threshold == 0.0 {
            return;
        }
        for value in values {
            *value = match *value {
                moved if moved > threshold => moved - threshold,
                moved if moved < -threshold => moved + threshold,
                // The product keeps a NaN, so a divergence is noticed.
                moved => moved * 0.0 + 0.0,
            };
        }
    }

    /// Returns the rate of step number `step`, from 0.
    pub(crate) fn rate_at(&self, step: u32) -> f64 {
        // Repeated multiplication gives the same bits on every platform. Without a decay it is not
        // needed.
        if self.rate_decay == 1.0 {
            return self.rate;
        }
        (0..step).fold(self.rate, |rate, _| rate * self.rate_decay)
    }

    /// Moves the row `values` of this number by the combined update `direction`, at `rate`.
    /// `moments` is the optimiser's memory of the block.
    pub(crate) fn apply(
        &self,
        rate: f64,
        direction: &[f64],
        moments: &mut Moments,
        (row, values): (usize, &mut [f32]),
    ) {
        let place = row * values.len()..(row + 1) * values.len();
        let decayed = |value: f32, d: f64| d - self.weight_decay * f64::from(value);
        match self.optimizer {
            Optimizer::Plain => {
                for (value, d) in values.iter_mut().zip(direction) {
                    *value = (f64::from(*value) + rate * decayed(*value, *d)) as f32;
                }
            }
            Optimizer::Sign => {
                for (value, d) in values.iter_mut().zip(direction) {
                    let moved = f64::from(*value) + rate * decayed(*value, *d);
                    // A pull that is not a number stays one, so that a divergence is noticed.
                    if moved != 0.0 {
                        *value = moved.signum() as f32;
                    }
                }
            }
            Optimizer::Momentum { beta } => {
                let memory = &mut moments.first[place];
                for ((value, d), first) in values.iter_mut().zip(direction).zip(memory) {
                    let m = beta * f64::from(*first) + decayed(*value, *d);
                    *first = m as f32;
                    *value = (f64::from(*value) + rate * m) as f32;
                }
            }
            Optimizer::Adam {
                beta1,
                beta2,
                epsilon,
            } => {
                moments.steps[row] += 1;
                let steps = f64::from(moments.steps[row]);
                let (unbias1, unbias2) =
                    (1.0 - math::pow(beta1, steps), 1.0 - math::pow(beta2, steps));
                let memory = moments.first[place.clone()].iter_mut();
                let memory = memory.zip(&mut moments.second[place]);
                for ((value, d), (first, second)) in values.iter_mut().zip(direction).zip(memory) {
                    let d = decayed(*value, *d);
                    let m = beta1 * f64::from(*first) + (1.0 - beta1) * d;
                    let v = beta2 * f64::from(*second) + (1.0 - beta2) * d * d;
                    (*first, *second) = (m as f32, v as f32);
                    *value = (f64::from(*value)
                        + rate * (m / unbias1) / (math::sqrt(v / unbias2) + epsilon))
                        as f32;
                }
            }
        }
    }
}

/// Holds what an optimiser remembers of a block: nothing, a first moment for each value, or two
/// moments for each value and a count of steps for each row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moments {
    first: Vec<f32>,
    second: Vec<f32>,
    steps: Vec<u32>,
}

impl Moments {
    /// Returns the memory that `rule` needs for a block of this shape, before the first step.
    pub(crate) fn of(rule: &ServerRule, shape: TableShape) -> Self {
        let (first, second, steps) = match rule.optimizer {
            Optimizer::Plain | Optimizer::Sign => (0, 0, 0),
            Optimizer::Momentum { .. } => (shape.values(), 0, 0),
            Optimizer::Adam { .. } => (shape.values(), shape.values(), shape.rows),
        };
        Self {
            first: vec![0.0; first],
            second: vec![0.0; second],
            steps: vec![0; steps],
        }
    }

    /// Visits the moments and the counts of steps.
    ///
    /// # Errors
    /// As [`StateVisitor::values`].
    pub(crate) fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        state.values(&mut self.first)?;
        state.values(&mut self.second)?;
        if self.steps.is_empty() {
            Ok(())
        } else {
            state.plain(&mut self.steps)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the row (1, -1) after three steps in the direction (0.5, -2).
    fn after_three_steps(rule: ServerRule) -> Vec<f32> {
        let shape = TableShape::new(1, 2);
        let mut moments = Moments::of(&rule, shape);
        let mut values = vec![1.0f32, -1.0];
        for step in 0..3 {
            let rate = rule.rate_at(step);
            rule.apply(rate, &[0.5, -2.0], &mut moments, (0, &mut values));
        }
        values
    }

    fn close(found: &[f32], expected: [f64; 2]) {
        for (found, expected) in found.iter().zip(expected) {
            assert!(
                (f64::from(*found) - expected).abs() < 1e-6,
                "{found} instead of {expected}"
            );
        }
    }

    #[test]
    fn a_plain_rate_falls_from_step_to_step() {
        let rule = ServerRule {
            rate: 0.1,
            rate_decay: 0.5,
            ..ServerRule::MEAN
        };
        close(
            &after_three_steps(rule),
            [1.0 + 0.175 * 0.5, -1.0 - 0.175 * 2.0],
        );
    }

    #[test]
    fn momentum_gathers_speed() {
        let rule = ServerRule {
            rate: 0.1,
            optimizer: Optimizer::Momentum { beta: 0.5 },
            ..ServerRule::MEAN
        };
        // m is d, 1.5 d and 1.75 d.
        close(
            &after_three_steps(rule),
            [1.0 + 0.425 * 0.5, -1.0 - 0.425 * 2.0],
        );
    }

    /// If this fails, codes get other values than bits, or a bit that nothing pulls at moves.
    #[test]
    fn bits_follow_the_sign_of_what_pulls_harder() {
        let rule = ServerRule {
            optimizer: Optimizer::Sign,
            ..ServerRule::MEAN
        };
        let mut bits = [1.0f32, 1.0, 1.0, -1.0, 1.0];
        let pulls = [-0.5, -1.0, -1.5, 2.0, f64::NAN];
        rule.apply(1.0, &pulls, &mut Moments::default(), (0, &mut bits));
        assert_eq!(bits[..4], [1.0, 1.0, -1.0, 1.0]);
        assert!(bits[4].is_nan());
    }

    #[test]
    fn adam_moves_every_value_by_its_rate_where_the_direction_stays() {
        let rule = ServerRule {
            rate: 0.1,
            optimizer: Optimizer::ADAM,
            ..ServerRule::MEAN
        };
        close(&after_three_steps(rule), [1.3, -1.3]);
    }

    /// If this fails, the server's proximal step leaves tiny values, or hides that the model has
    /// diverged.
    #[test]
    fn values_below_the_threshold_become_zero_and_the_others_come_nearer() {
        let mut values = [0.5, -0.5, 0.2, -0.2, 0.0, -0.0, f32::NAN];
        ServerRule {
            threshold: 0.25,
            ..ServerRule::MEAN
        }
        .soften(&mut values);
        let bits = values.map(f32::to_bits);
        assert_eq!(
            bits[..6],
            [0.25f32, -0.25, 0.0, 0.0, 0.0, 0.0].map(f32::to_bits)
        );
        assert!(values[6].is_nan());
        let mut same = [0.1f32, -0.0];
        ServerRule::MEAN.soften(&mut same);
        assert_eq!(same.map(f32::to_bits), [0.1f32, -0.0].map(f32::to_bits));
        assert!(
            ServerRule {
                threshold: 0.25,
                ..ServerRule::MEAN
            }
            .is_mean()
        );
    }

    #[test]
    fn weight_decay_pulls_a_row_towards_zero() {
        let rule = ServerRule {
            rate: 1.0,
            weight_decay: 0.5,
            ..ServerRule::MEAN
        };
        let mut values = [4.0f32];
        rule.apply(1.0, &[1.0], &mut Moments::default(), (0, &mut values));
        assert_eq!(values, [3.0]);
    }
}
