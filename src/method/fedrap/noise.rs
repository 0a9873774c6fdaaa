//! Clips what a client of FedRAP does to C and adds Gaussian noise to it (FedRAP-noise; section 3.3 of the paper).
//!
//! The paper limits the gradient with respect to C of every step to a length tau, and concludes that the averaged C can
//! change by 2 eta tau / n_s at most if one of the n_s participants is another one. The noise has z times this as its
//! standard deviation. Where it enters is not said, so that [`NoiseAt`] says it. It covers all rows of C, touched or
//! not, since those that are left out would tell what the user has rated; so all rows are sent. What (epsilon, delta)
//! follows is not worked out here.

use super::moving_rows::C;
use super::parameters::{Noise, NoiseAt};
use crate::method::{LocalTask, largest_magnitude};
use crate::model;
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
    /// Noise of standard deviation 1.
    normal: model::noise::Noise,
    dimension: usize,
    /// The standard deviation at the rate with which the participation begins.
    deviation: f64,
    /// C as it was before the present step, row-major.
    before: Vec<f32>,
}

impl<'a> Disturbance<'a> {
    /// Prepares the noise of a participation that begins with the learning rate `rate` of C.
    pub fn new(noise: &'a Noise, task: &LocalTask<'_>, rate: f32) -> Self {
        let table = task.model.table(0);
        Self {
            noise,
            normal: model::noise::Noise::new(Law::Gaussian { deviation: 1.0 }, task.named_stream("fedrap/noise")),
            dimension: table.shape().dimension,
            deviation: noise.deviation(rate),
            before: table.as_slice().to_vec(),
        }
    }

    /// Clips the step that C has just made with the learning rate `rate` and, if the noise enters there, adds it.
    pub fn disturb_step(&mut self, packed: &mut PackedRows, rate: f32) {
        let mut after = vec![0.0; self.before.len()];
        for (position, row) in after.chunks_exact_mut(self.dimension).enumerate() {
            unpack_into(packed.row(position, C), row);
        }
        // The step is the rate times the gradient, whatever the gradient consists of.
        let moved = after.iter().zip(&self.before).map(|(after, before)| f64::from(*after) - f64::from(*before));
        let length = crate::math::sqrt(moved.map(|moved| moved * moved).sum()) / f64::from(rate);
        // A NaN stays one, by which a divergence is noticed.
        let factor = if length <= self.noise.clip_norm { 1.0 } else { self.noise.clip_norm / length };
        let deviation = f64::from(rate) * self.noise.deviation(rate);
        let is_noisy = self.noise.at == NoiseAt::Gradient && deviation > 0.0;
        for (before, after) in self.before.iter_mut().zip(after) {
            let noise = if is_noisy { deviation * self.normal.draw() } else { 0.0 };
            *before = (f64::from(*before) + factor * (f64::from(after) - f64::from(*before)) + noise) as f32;
        }
        for (position, row) in self.before.chunks_exact(self.dimension).enumerate() {
            packed.set_row(position, C, row, 1.0);
        }
    }

    /// Adds the noise to the values of an upload, if it enters there, and returns the largest magnitude in them.
    pub fn disturb_upload(&mut self, values: &mut Vec<u8>) -> f32 {
        let mut table: Vec<f32> = floats(values).collect();
        if self.noise.at == NoiseAt::Upload {
            table.iter_mut().for_each(|value| *value += (self.deviation * self.normal.draw()) as f32);
            values.clear();
            extend_bytes(values, &table);
        }
        largest_magnitude(&table)
    }
}
