//! Says how a device scores, what it minimises, and how it goes through its samples.

use crate::choices;
use crate::recent_step::RecentStep;
use fedrecsim_core::{PortableDraws, Stream, math};
use fedrecsim_model::neural::Perceptron;

/// Says how a device scores item j.
#[derive(Clone, Debug)]
pub enum Score {
    /// As the method's own [`Declare::scorer`](super::Declare::scorer) does.
    Own,
    /// By a product.
    Dot(Product),
    /// By a network that reads a private vector, if there is one, and row j of a shared item table.
    Perceptron {
        /// The network, whose blocks [`perceptron`](super::perceptron) declares as shared or
        /// private.
        network: Perceptron,
        /// The private vector.
        vector: Option<&'static str>,
        /// The shared item table. If it is sent as a gradient, so is the network, and the device
        /// makes no step.
        table: &'static str,
    },
}

/// Names the blocks of the product of a private vector with row j of a shared item table, plus
/// biases.
#[derive(Clone, Debug)]
pub struct Product {
    /// The private vector.
    pub vector: &'static str,
    /// The shared item table.
    pub table: &'static str,
    /// A private number that is added to every score.
    pub bias: Option<&'static str>,
    /// A shared item table of one column whose row j is added.
    pub item_bias: Option<&'static str>,
    /// How the vector steps before it scores.
    pub(crate) recency: Option<RecentStep>,
}

impl Score {
    /// Scores by the product of a private vector with the rows of a shared item table.
    pub fn dot(vector: &'static str, table: &'static str) -> Self {
        Self::Dot(Product {
            vector,
            table,
            bias: None,
            item_bias: None,
            recency: None,
        })
    }

    /// Adds a private number to every score of [`Self::dot`].
    pub fn biased(mut self, by: Option<&'static str>) -> Self {
        if let Self::Dot(product) = &mut self {
            product.bias = by;
        }
        self
    }

    /// Adds the rows of a shared item table of one column to the scores of [`Self::dot`].
    pub fn item_biased(mut self, by: &'static str) -> Self {
        if let Self::Dot(product) = &mut self {
            product.item_bias = Some(by);
        }
        self
    }

    /// Steps the vector of [`Self::dot`] towards recent positives before it scores.
    pub(crate) fn stepped(mut self, by: Option<RecentStep>) -> Self {
        if let Self::Dot(product) = &mut self {
            product.recency = by;
        }
        self
    }
}

choices! {
    /// What training minimises: the mean over the samples of a batch.
    pub enum Loss {
        /// ln(1 + exp(s)) - y s for the score s of an item whose label y is 1 or 0.
        BinaryCrossEntropy,
        /// (s - y)^2 / 2.
        Squared,
        /// -ln sigmoid(s - t) for the scores s of a positive and t of each of its negatives (Rendle et
        /// al., BPR, UAI 2009). The mean is over these pairs.
        Pairwise,
        /// ln sum exp(t) - s for the score s of a positive and the scores t of it and its negatives, a
        /// sampled softmax. The mean is over the positives. It gains by more negatives
        /// (`dataset.negatives.per_positive`) than the others do.
        Softmax,
    }
}

impl Loss {
    /// Replaces `slopes` by the derivatives with respect to the scores of a positive, which comes
    /// first, and its negatives, and returns the loss and the number of its terms.
    pub(super) fn of_group(self, scores: &[f32], slopes: &mut Vec<f32>) -> (f64, usize) {
        slopes.clear();
        let labels = [1.0].into_iter().chain(std::iter::repeat(0.0));
        match self {
            Self::Squared => {
                slopes.extend(
                    scores
                        .iter()
                        .zip(labels)
                        .map(|(score, label)| score - label),
                );
                let squares = slopes.iter().map(|error| f64::from(*error).powi(2));
                (squares.sum::<f64>() / 2.0, scores.len())
            }
            Self::BinaryCrossEntropy => {
                let mut loss = 0.0;
                for (score, label) in scores.iter().zip(labels) {
                    // With the label as the sign, this is the loss of a pair with a score of 0.
                    let sign = 2.0 * label - 1.0;
                    let (of_one, slope) = pairwise(sign * score);
                    loss += of_one;
                    slopes.push(sign * slope);
                }
                (loss, scores.len())
            }
            Self::Softmax => {
                let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let powers = scores
                    .iter()
                    .map(|score| math::exp(f64::from(score - largest)));
                let sum: f64 = powers.clone().sum();
                let share = |power: f64, label: f32| (power / sum) as f32 - label;
                slopes.extend(powers.zip(labels).map(|(power, label)| share(power, label)));
                (math::ln(sum) + f64::from(largest - scores[0]), 1)
            }
            Self::Pairwise => {
                let (mut loss, mut of_positive) = (0.0, 0.0);
                slopes.push(0.0);
                for negative in &scores[1..] {
                    let (of_pair, slope) = pairwise(scores[0] - negative);
                    loss += of_pair;
                    of_positive += slope;
                    slopes.push(-slope);
                }
                slopes[0] = of_positive;
                (loss, scores.len() - 1)
            }
        }
    }
}

/// Returns the loss -ln sigmoid(d) of the difference d between the scores of a positive and a
/// negative, and its slope.
pub(crate) fn pairwise(difference: f32) -> (f64, f32) {
    let d = f64::from(difference);
    let e = math::exp(-d.abs());
    let slope = if d >= 0.0 {
        -e / (1.0 + e)
    } else {
        -1.0 / (1.0 + e)
    };
    // A difference that is not a number stays one in both.
    let loss = math::ln(1.0 + e) + if d < 0.0 { -d } else { 0.0 };
    (loss, slope as f32)
}

choices! {
    /// How a client steps its parameters.
    pub enum Optimizer {
        /// Stochastic gradient descent.
        Sgd,
        /// Adam; its moments start at zero in every participation, since a device keeps none.
        Adam,
    }
}

/// Says how a device goes through its samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Training {
    /// The number of passes over the samples.
    pub epochs: u32,
    /// The number of samples in a batch.
    pub batch_size: usize,
    /// The optimiser, which networks can choose, and products without a bias of each item.
    pub optimizer: Optimizer,
    /// Ends the training after a pass that has changed the mean loss since its start by less than
    /// this share; 0: never.
    pub least_change: f64,
    /// Whether Adam's moments go on from one participation to the next. The method declares private
    /// blocks for them, and scores by a shared network that reads a private vector.
    pub(crate) keeps_moments: bool,
}

impl Default for Training {
    fn default() -> Self {
        Self::of(1, 256)
    }
}

impl Training {
    /// Makes this many passes in batches of this size, by gradient descent.
    pub fn of(epochs: u32, batch_size: u32) -> Self {
        Self {
            epochs,
            batch_size: batch_size as usize,
            optimizer: Optimizer::Sgd,
            least_change: 0.0,
            keeps_moments: false,
        }
    }

    /// Calls `step` for every batch of every pass, and returns the mean per sample of the losses
    /// that it returns. If there is more than one batch, `order` shuffles the samples before each
    /// pass.
    pub(crate) fn run<T>(
        &self,
        samples: &mut [T],
        order: &mut Stream,
        mut step: impl FnMut(&[T]) -> f32,
    ) -> f64 {
        let (mut loss, mut seen, mut mean) = (0.0, 0.0, 0.0);
        for epoch in 0..self.epochs {
            if samples.len() > self.batch_size {
                order.shuffle_portably(samples);
            }
            for batch in samples.chunks(self.batch_size) {
                loss += f64::from(step(batch));
            }
            seen += samples.len() as f64;
            let before = mean;
            // Without samples there is no loss.
            mean = loss / f64::max(seen, 1.0);
            if epoch > 0 && (mean - before).abs() < self.least_change * before.abs() {
                break;
            }
        }
        mean
    }
}
