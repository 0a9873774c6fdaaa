//! Clips what each user adds to a sum that the server computes, and adds noise to the sum.

use super::noise::{Law, Noise};
use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::math;
use fedrecsim_core::rng::Stream;

/// Clips the parts of a sum to a length, and adds Gaussian noise to the sum.
#[derive(Debug)]
pub struct NoisySum {
    limit: f64,
    noise: Noise,
}

impl NoisySum {
    /// Clips parts to an L2 norm of `limit`, and adds noise of this standard deviation. All draws
    /// come from `stream`.
    pub fn new(limit: f64, deviation: f64, stream: Stream) -> Self {
        Self {
            limit,
            noise: Noise::new(Law::Gaussian { deviation }, stream),
        }
    }

    /// Adds the part of one user to `sum`, clipped to the limit. Squares are added in their order,
    /// in double precision.
    ///
    /// # Errors
    /// [`Error::Update`] if the part has no finite length.
    pub fn add(&self, part: &[f32], sum: &mut [f32]) -> Result<()> {
        let length = math::sqrt(
            part.iter()
                .map(|value| f64::from(*value) * f64::from(*value))
                .sum(),
        );
        if !length.is_finite() {
            return Err(Error::Update(
                "what a user adds to a sum has no finite length, which could be clipped".to_owned(),
            ));
        }
        let factor = if length > self.limit {
            self.limit / length
        } else {
            1.0
        };
        for (sum, value) in sum.iter_mut().zip(part) {
            *sum += nearer(*value, 0.0, factor);
        }
        Ok(())
    }

    /// Adds the noise to `sum`, which has all parts.
    pub fn add_noise(mut self, sum: &mut [f32]) {
        self.noise.add_to(sum);
    }
}

/// Returns the value whose difference to `base` is `factor` times that of `value`, rounded towards
/// `base`. Rounded to the nearest, many values together would be longer than the limit where it is
/// not far above the distance of two numbers of single precision next to `base`.
pub fn nearer(value: f32, base: f32, factor: f64) -> f32 {
    let exact = f64::from(base);
    let change = factor * (f64::from(value) - exact);
    let nearest = (exact + change) as f32;
    if (f64::from(nearest) - exact).abs() <= change.abs() {
        return nearest;
    }
    match nearest > base {
        true => nearest.next_down(),
        false => nearest.next_up(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use fedrecsim_core::rng::Streams;

    fn sum(limit: f64, deviation: f64) -> NoisySum {
        NoisySum::new(limit, deviation, Streams::new(5).named("noisy sum", 0, 0))
    }

    /// If this fails, one user adds more than the noise is made for, or what is short enough is
    /// changed.
    #[test]
    fn parts_are_no_longer_than_the_limit() {
        let mut values = [1.0, 0.0];
        sum(5.0, 0.0).add(&[3.0, 4.0], &mut values).unwrap();
        assert_eq!(values, [4.0, 4.0]);
        sum(0.5, 0.0).add(&[-3.0, -4.0], &mut values).unwrap();
        assert_eq!(values, [3.7, 3.6]);
        assert!(
            sum(1.0, 0.0)
                .add(&[f32::INFINITY, 0.0], &mut values)
                .is_err()
        );
    }

    /// If this fails, the noise on a sum is not the one that was asked for.
    #[test]
    fn the_noise_has_its_deviation() {
        let mut values = vec![0.0; 100_000];
        sum(1.0, 3.0).add_noise(&mut values);
        let square = values
            .iter()
            .map(|value| f64::from(*value) * f64::from(*value))
            .sum::<f64>()
            / 1e5;
        assert!((square / 9.0 - 1.0).abs() < 0.02, "{square}");
    }
}
