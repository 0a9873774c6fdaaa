//! Clips what a client of FedRAP does to C and adds Gaussian noise to it (FedRAP-noise; section 3.3 of the paper).
//!
//! The paper limits the gradient with respect to C of every step to a length tau, and concludes that the averaged C can
//! change by 2 eta tau / n_s at most if one of the n_s participants is another one. The noise has z times this as its
//! standard deviation. Where it enters is not said, so that [`NoiseAt`] says it. It covers all rows of C, touched or
//! not, since those that are left out would tell what the user has rated; so all rows are sent. What (epsilon, delta)
//! follows is not worked out here.

use super::moving_rows::C;
use super::parameters::{Noise, NoiseAt};
use crate::math::LANES;
use crate::method::{LocalTask, largest_magnitude};
use crate::model;
use crate::model::instruction_sets::per_instruction_set;
use crate::model::kernel::{PackedRows, unpack_into};
use crate::model::noise::Law;
use crate::model::table::{extend_bytes, floats};

impl Noise {
    /// Returns the standard deviation z 2 eta tau / n_s, where `rate` is eta.
    pub(super) fn deviation(&self, rate: f32) -> f64 {
        let participants = f64::from(self.participants.unwrap_or(1));
        self.multiplier * 2.0 * f64::from(rate) * self.clip_norm / participants
    }
}

/// Disturbs the C of one participation, of which every row is packed.
pub(super) struct Disturbance<'a> {
    noise: &'a Noise,
    /// The draws: with standard deviation 1 for steps, whose rate varies, and with that of the noise for an upload.
    draws: model::noise::Noise,
    dimension: usize,
    /// C as it was before the present step, row-major.
    before: Vec<f32>,
    /// C as it is after the present step, without noise.
    after: Vec<f32>,
}

impl<'a> Disturbance<'a> {
    /// Prepares the noise of a participation that begins with the learning rate `rate` of C.
    pub fn new(noise: &'a Noise, task: &LocalTask<'_>, rate: f32) -> Self {
        let table = task.model.table(0);
        let deviation = match noise.at {
            NoiseAt::Gradient => 1.0,
            NoiseAt::Upload => noise.deviation(rate),
        };
        Self {
            noise,
            draws: model::noise::Noise::new(Law::Gaussian { deviation }, task.named_stream("fedrap/noise")),
            dimension: table.shape().dimension,
            before: table.as_slice().to_vec(),
            after: vec![0.0; table.as_slice().len()],
        }
    }

    /// Clips the step that C has just made with the learning rate `rate` and, if the noise enters there, adds it.
    pub fn disturb_step(&mut self, packed: &mut PackedRows, rate: f32) {
        for (position, row) in self.after.chunks_exact_mut(self.dimension).enumerate() {
            unpack_into(packed.row(position, C), row);
        }
        // The step is the rate times the gradient, whatever the gradient consists of.
        let length = crate::math::sqrt(square_of_difference(&self.after, &self.before)) / f64::from(rate);
        // A NaN stays one, by which a divergence is noticed.
        let factor = if length <= self.noise.clip_norm { 1.0 } else { self.noise.clip_norm / length };
        let deviation = f64::from(rate) * self.noise.deviation(rate);
        let is_noisy = self.noise.at == NoiseAt::Gradient && deviation > 0.0;
        // Where there is no noise, all draws are 0.
        let mut draws = vec![0.0; self.dimension];
        let rows = self.before.chunks_exact_mut(self.dimension).zip(self.after.chunks_exact(self.dimension));
        for (position, (row, after)) in rows.enumerate() {
            if is_noisy {
                self.draws.fill(&mut draws);
            }
            shorten_and_disturb(row, after, factor, deviation, &draws);
            packed.set_row(position, C, row, 1.0);
        }
    }

    /// Adds the noise to the values of an upload, if it enters there, and returns the largest magnitude in them.
    pub fn disturb_upload(&mut self, values: &mut Vec<u8>) -> f32 {
        let mut table: Vec<f32> = floats(values).collect();
        if self.noise.at == NoiseAt::Upload {
            self.draws.add_to(&mut table);
            values.clear();
            extend_bytes(values, &table);
        }
        largest_magnitude(&table)
    }
}

per_instruction_set! {
    /// Returns the sum of the squares of the differences of two tables. It has sixteen partial sums, one for each lane.
    fn square_of_difference(one: &[f32], other: &[f32]) -> f64 {
        let ((one, one_rest), (other, other_rest)) = (one.as_chunks::<LANES>(), other.as_chunks::<LANES>());
        let mut sums = [0.0f64; LANES];
        for (one, other) in one.iter().zip(other) {
            for i in 0..LANES {
                let difference = f64::from(one[i]) - f64::from(other[i]);
                sums[i] += difference * difference;
            }
        }
        for (sum, (one, other)) in sums.iter_mut().zip(one_rest.iter().zip(other_rest)) {
            let difference = f64::from(*one) - f64::from(*other);
            *sum += difference * difference;
        }
        sums.iter().sum()
    }
}

per_instruction_set! {
    /// Moves `row` by `factor` times the way to `after`, and by `deviation` times the draws.
    fn shorten_and_disturb(row: &mut [f32], after: &[f32], factor: f64, deviation: f64, draws: &[f32]) {
        for ((before, after), draw) in row.iter_mut().zip(after).zip(draws) {
            let moved = factor * (f64::from(*after) - f64::from(*before));
            *before = (f64::from(*before) + moved + deviation * f64::from(*draw)) as f32;
        }
    }
}
