//! Trains centralised matrix factorisation on plain slices, by mini-batches over the samples of all
//! users.

use crate::method::samples::Sample;
use fedrecsim_model::model::kernel::score::{ScaledSum, score_sums};
use fedrecsim_model::model::neural::SampleMatrix;
use fedrecsim_model::model::neural::dense::add_scaled;
use fedrecsim_model::model::neural::loss::{Targets, binary_cross_entropy};
use fedrecsim_model::model::neural::optimizer::{AdamParameters, AdamSettings};

/// Holds both tables, and what it takes to train them.
#[derive(Clone, Debug)]
pub(crate) struct Factors {
    /// The latent dimension k.
    pub dimension: usize,
    /// The user vectors, then the item vectors, row-major, and the state of Adam for them.
    pub parameters: AdamParameters,
    users: usize,
    buffers: Buffers,
}

/// Holds the memory of one batch. Nothing passes from one batch to the next.
#[derive(Clone, Debug, Default)]
struct Buffers {
    /// The rows of the gradient that are not zero.
    touched: Vec<u32>,
    logits: SampleMatrix,
    by_logits: SampleMatrix,
    targets: Targets,
}

impl Factors {
    /// Makes tables whose values are taken from `draw`, first the users' and then the items', row
    /// by row.
    pub(crate) fn new(
        users: usize,
        items: usize,
        dimension: usize,
        draw: impl FnMut() -> f32,
    ) -> Self {
        let mut draw = draw;
        let parameters =
            AdamParameters::new((0..(users + items) * dimension).map(|_| draw()).collect());
        Self {
            dimension,
            parameters,
            users,
            buffers: Buffers::default(),
        }
    }

    /// Returns the vector of `user`.
    #[cfg(test)]
    pub(crate) fn user(&self, user: u32) -> &[f32] {
        &self.parameters.values[user as usize * self.dimension..][..self.dimension]
    }

    /// Returns the values of the item table, row-major.
    #[cfg(test)]
    pub(crate) fn items(&self) -> &[f32] {
        &self.parameters.values[self.users * self.dimension..]
    }

    /// Makes one step of Adam on the mean binary cross-entropy of `batch`, and returns that loss as
    /// a sum over the batch. The logit is the scalar product of the two vectors.
    ///
    /// All rows are stepped. A row that is not in the batch has a gradient of zero and moves by its
    /// moments, as a dense embedding does in PyTorch.
    pub(crate) fn step(&mut self, batch: &[Sample], settings: &AdamSettings) -> f32 {
        let (dimension, users) = (self.dimension, self.users);
        let places = |sample: &Sample| [sample.user as usize, users + sample.item as usize];
        let AdamParameters {
            values, gradient, ..
        } = &mut self.parameters;
        let Buffers {
            touched,
            logits,
            by_logits,
            targets,
        } = &mut self.buffers;
        let row = |place: usize| place * dimension..(place + 1) * dimension;
        logits.reset(batch.len(), 1);
        targets.clear();
        for (number, sample) in batch.iter().enumerate() {
            let [user, item] = places(sample).map(|place| &values[row(place)]);
            let mut score = [0.0];
            score_sums(
                user,
                0.0,
                &[ScaledSum {
                    scaled: &[],
                    scale: 0.0,
                    plain: item,
                }],
                &mut score,
            );
            logits.set_sample(number, &score);
            targets.push(1.0, f32::from(sample.is_positive));
        }
        let loss = binary_cross_entropy(logits, targets, 1.0 / batch.len() as f32, by_logits);
        for place in touched.drain(..) {
            gradient[row(place as usize)].fill(0.0);
        }
        for (number, sample) in batch.iter().enumerate() {
            let mut by_logit = [0.0];
            by_logits.read_sample(number, &mut by_logit);
            let [user, item] = places(sample);
            for (place, other) in [(user, item), (item, user)] {
                add_scaled(by_logit[0], &values[row(other)], &mut gradient[row(place)]);
                touched.push(place as u32);
            }
        }
        self.parameters.step(settings);
        loss
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedrecsim_core::math::gradient::gradient_check_within;
    use fedrecsim_core::rng::{PortableDraws, Purpose, Streams};

    fn factors() -> Factors {
        let mut stream = Streams::new(6).stream(Purpose::GlobalInit, 0, 0);
        Factors::new(5, 6, 3, move || stream.standard_normal() as f32)
    }

    fn batch() -> Vec<Sample> {
        let sample = |number: u32| Sample {
            user: number % 3,
            item: number * 5 % 6,
            is_positive: number.is_multiple_of(3),
        };
        (0..18).map(sample).collect()
    }

    fn mean_loss(values: &[f64]) -> f64 {
        let batch = batch();
        let loss = |sample: &Sample| {
            let [u, v] = [sample.user as usize, 5 + sample.item as usize]
                .map(|row| &values[3 * row..3 * row + 3]);
            let z: f64 = u.iter().zip(v).map(|(u, v)| u * v).sum();
            z.max(0.0) + libm::log1p(libm::exp(-z.abs())) - if sample.is_positive { z } else { 0.0 }
        };
        batch.iter().map(loss).sum::<f64>() / batch.len() as f64
    }

    /// If this fails, the centralised baseline does not follow the gradient of its loss.
    #[test]
    fn the_gradient_agrees_with_central_differences() {
        let mut factors = factors();
        let start: Vec<f64> = factors
            .parameters
            .values
            .iter()
            .map(|value| f64::from(*value))
            .collect();
        // The second step would show a row that is not cleared between batches. The rate of zero
        // keeps the parameters.
        for _ in 0..2 {
            let loss = factors.step(&batch(), &AdamSettings::with_rate(0.0));
            assert!((f64::from(loss) / 18.0 - mean_loss(&start)).abs() < 1e-6);
            let gradient: Vec<f64> = factors
                .parameters
                .gradient
                .iter()
                .map(|value| f64::from(*value))
                .collect();
            gradient_check_within(2e-4, &start, &gradient, mean_loss)
                .unwrap_or_else(|wrong| panic!("{wrong}"));
        }
    }

    /// If this fails, the centralised baseline does not learn.
    #[test]
    fn steps_lower_the_loss() {
        let mut factors = factors();
        let settings = AdamSettings::with_rate(0.02);
        let first = factors.step(&batch(), &settings);
        let last = (0..300)
            .map(|_| factors.step(&batch(), &settings))
            .fold(0.0, |_, loss| loss);
        assert!(last < 0.2 * first, "{first} to {last}");
        assert_eq!((factors.user(1).len(), factors.items().len()), (3, 18));
    }
}
