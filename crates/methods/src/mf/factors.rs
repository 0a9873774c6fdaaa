//! Trains centralised matrix factorisation on plain slices, by mini-batches over the samples of all
//! users.

use crate::samples::{CrossEntropy, Sample};
use fedrecsim_model::kernel::score::score_sums;
use fedrecsim_model::neural::dense::add_scaled;
use fedrecsim_model::neural::optimizer::{AdamParameters, AdamSettings};

/// Makes one step of Adam on the mean binary cross-entropy of `batch`, and returns that loss as a
/// sum over the batch. The logit is the scalar product of the two vectors. `values` are the vectors
/// of this many users and then those of items, of `dimension` values each.
///
/// All rows are stepped. A row that is not in the batch has a gradient of zero and moves by its
/// moments, as a dense embedding does in PyTorch.
pub(super) fn step(
    parameters: &mut AdamParameters,
    loss: &mut CrossEntropy,
    (users, dimension): (usize, usize),
    batch: &[Sample],
    settings: &AdamSettings,
) -> f32 {
    let places = |sample: &Sample| [sample.user as usize, users + sample.item as usize];
    let AdamParameters {
        values, gradient, ..
    } = &mut *parameters;
    let row = |place: usize| place * dimension..(place + 1) * dimension;
    let of_batch = loss.of_samples(batch, |sample| {
        let [user, item] = places(sample).map(|place| &values[row(place)]);
        let mut score = [0.0];
        score_sums(user, 0.0, &[item.into()], &mut score);
        score[0]
    });
    // Adam goes through all of it anyway.
    gradient.fill(0.0);
    for (number, sample) in batch.iter().enumerate() {
        let [user, item] = places(sample);
        for (place, other) in [(user, item), (item, user)] {
            add_scaled(
                loss.slope(number),
                &values[row(other)],
                &mut gradient[row(place)],
            );
        }
    }
    parameters.step(settings);
    of_batch
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedrecsim_core::math::gradient::gradient_check;
    use fedrecsim_core::{PortableDraws, Purpose, Streams};

    /// Five users and six items of three values each.
    struct Factors {
        parameters: AdamParameters,
        loss: CrossEntropy,
    }

    impl Factors {
        fn step(&mut self, batch: &[Sample], settings: &AdamSettings) -> f32 {
            step(
                &mut self.parameters,
                &mut self.loss,
                (5, 3),
                batch,
                settings,
            )
        }
    }

    fn factors() -> Factors {
        let mut stream = Streams::new(6).stream(Purpose::GlobalInit, 0, 0);
        let values = (0..33).map(|_| stream.standard_normal() as f32).collect();
        Factors {
            parameters: AdamParameters::new(values),
            loss: CrossEntropy::default(),
        }
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
            gradient_check(2e-4, &start, &gradient, mean_loss)
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
    }
}
