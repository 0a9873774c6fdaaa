//! Clips what a client of FedRAP does to C and adds Gaussian noise to it (FedRAP-noise; section 3.3
//! of the paper).
//!
//! The paper limits the gradient of every step with respect to C to a length tau. It concludes that
//! replacing one of the n_s participants changes the averaged C by 2 eta tau / n_s at most. The
//! standard deviation of the noise is z times this. The paper does not say where the noise enters,
//! so [`NoiseAt`] does. The noise covers all rows of C, touched or not, and all rows are sent,
//! since the rows that an upload leaves out would tell what the user has rated. [`worth`] says how
//! much of a user this hides from somebody who sees the uploads. That is next to nothing: the noise
//! of one device is made for an average over n_s devices, and for one step of many.
//!
//! Rows that no sample touches only decay, all by the same factor. As long as no noise reaches
//! them, they are not packed with the others: one number says what has become of them.

use super::moving_rows::C;
use super::parameters::{FedRap, Noise, NoiseAt};
use crate::OwnNoise;
use crate::prelude::*;
use fedrecsim_model::kernel::{Block as Lanes, LANES, PackedRows};
use fedrecsim_model::noise::{self, Law};
use fedrecsim_model::noisy_sum::nearer;
use fedrecsim_model::{end_of_block, per_instruction_set};

/// What a step may be longer than it is measured or shortened to: its differences, the factor, the
/// products with it and the check of the ends are each rounded by 2^-24 at most.
const ROUNDING: f64 = 1.0 + 1.0 / (1 << 21) as f64;

impl Noise {
    /// Returns the standard deviation z 2 eta tau / n_s, where `rate` is eta.
    pub(super) fn deviation(&self, rate: f32) -> f64 {
        let participants = f64::from(self.participants.unwrap_or(1));
        self.multiplier * 2.0 * f64::from(rate) * self.clip_norm / participants
    }
}

/// Returns what the noise is worth where all ratings of a user are replaced; `None` if there is
/// none, or nothing travels.
///
/// A step with the rate eta_t moves C by eta_t tau at most, for any data and private parameters. So
/// the results of the step on two data sets are 2 eta_t tau apart at most.
///
/// - In an upload, steps add up: two uploads that begin with the same C are 2 tau (eta_1 + eta_2 +
///   ...) apart at most. An early stop leaves steps out, and the bound holds. The noise is z 2
///   eta_1 tau / n_s.
/// - In gradients, every step is a Gaussian mechanism of its own, and C is all that it takes from
///   the ones before that others see. The noise on C is eta_t z 2 eta_t tau / n_s, which is z eta_t
///   / n_s times 2 eta_t tau. The divergences of the steps add up, and with them the inverse
///   squares of these multipliers, if the number of steps is the same for all data.
pub(super) fn worth(plan: &FedRap) -> Option<OwnNoise> {
    let noise = plan.noise()?;
    if noise.multiplier == 0.0 {
        return Some(OwnNoise::Absent);
    }
    let of_each = noise.multiplier / f64::from(noise.participants.unwrap_or(1));
    let decay = f64::from(plan.batch_decay);
    // One batch holds all samples, however many there are, so that an epoch is one step.
    let has_one_batch = plan.batch_size == usize::MAX;
    // The rates of the steps are then these multiples of the first one.
    let rates = std::iter::successors(Some(1.0), |rate| Some(rate * decay));
    let rates = rates.take(plan.parameters.local_epochs as usize);
    let never_stops = has_one_batch && plan.tolerance == 0.0;
    Some(match noise.at {
        NoiseAt::Upload if has_one_batch => OwnNoise::Gaussian(of_each / rates.sum::<f64>()),
        NoiseAt::Upload if decay < 1.0 => OwnNoise::Gaussian(of_each * (1.0 - decay)),
        NoiseAt::Gradient if never_stops && plan.round_decay < 1.0 => OwnNoise::FallsByRound,
        NoiseAt::Gradient if never_stops => {
            let inverse_squares: f64 = rates.map(|rate| 1.0 / (rate * rate)).sum();
            let of_step = of_each * f64::from(plan.step.table_rate);
            OwnNoise::Gaussian(of_step / math::sqrt(inverse_squares))
        }
        _ => OwnNoise::StepsByData,
    })
}

/// Clips and disturbs the C of one participation.
pub(super) struct Disturbance<'a> {
    noise: &'a Noise,
    /// The draws: with standard deviation 1 for steps, whose rate varies, and with that of the
    /// noise for an upload.
    draws: noise::Noise,
    downloaded: &'a Table,
    /// The packed rows of C as they were before the present step.
    before: PackedRows,
    /// The draws of a row, padded with zeros as the row is.
    row_draws: Vec<f32>,
    /// The sum of the squares of the downloaded rows that are not packed.
    square_of_others: f64,
    /// The factor that the steps have scaled these rows by.
    others_scale: f64,
}

impl<'a> Disturbance<'a> {
    /// Prepares for a participation that packs `rows` (ascending) and begins with the learning rate
    /// `rate` of C.
    pub(crate) fn new(noise: &'a Noise, task: &LocalTask<'a>, rows: &[u32], rate: f32) -> Self {
        let downloaded = task.model.table(0);
        let dimension = downloaded.shape().dimension;
        let mut before = PackedRows::default();
        before.reset(rows.len(), dimension, 1);
        for (position, row) in rows.iter().enumerate() {
            before.set_row(position, 0, downloaded.row(*row as usize), 1.0);
        }
        let stream = task.named_stream("fedrap/noise");
        let deviation = match noise.at {
            NoiseAt::Gradient => 1.0,
            NoiseAt::Upload => noise.deviation(rate),
        };
        Self {
            noise,
            draws: noise::Noise::new(Law::Gaussian { deviation }, stream),
            downloaded,
            row_draws: vec![0.0; before.vectors() * LANES],
            before,
            square_of_others: square_of_others(downloaded, rows),
            others_scale: 1.0,
        }
    }

    /// Clips the step that C has just made with the learning rate `rate` and, if the noise enters
    /// there, adds it. The rows that are not packed have lost the share `decay` of their values.
    pub(crate) fn disturb_step(&mut self, packed: &mut PackedRows, rate: f32, decay: f32) {
        let (rate_of_c, decay) = (f64::from(rate), f64::from(decay));
        let of_others = self.others_scale * decay;
        let mut square = square_of_moves(packed, &self.before);
        square += of_others * of_others * self.square_of_others;
        // The step is the rate times the whole gradient.
        let (length, limit) = (
            ROUNDING * math::sqrt(square),
            rate_of_c * self.noise.clip_norm,
        );
        // A NaN stays one, so a divergence is noticed.
        let factor = match length <= limit {
            true => 1.0,
            false => limit / length,
        };
        self.others_scale *= 1.0 - factor * decay;
        let deviation = rate_of_c * self.noise.deviation(rate);
        let is_noisy = self.noise.at == NoiseAt::Gradient && deviation > 0.0;
        let is_unchanged = !is_noisy && factor == 1.0;
        let (factor, deviation) = (factor as f32, deviation as f32);
        for position in 0..self.before.rows() {
            let after = packed.row_mut(position, C);
            let before = self.before.row_mut(position, 0);
            if is_unchanged {
                before.copy_from_slice(after);
                continue;
            }
            if !is_noisy {
                shorten(after, before, factor);
                continue;
            }
            let dimension = self.downloaded.shape().dimension;
            self.draws.fill(&mut self.row_draws[..dimension]);
            shorten_and_disturb(after, before, factor, deviation, &self.row_draws);
        }
    }

    /// Returns the upload and the largest magnitude in it, given the update of the packed rows and
    /// the largest magnitude in these. Noise that enters there covers the whole C.
    pub(crate) fn upload(
        &mut self,
        mut packed: TableUpdate,
        largest: f32,
    ) -> Result<(TableUpdate, f32)> {
        if self.noise.at == NoiseAt::Gradient {
            return Ok((packed, largest));
        }
        packed.others_scale = 1.0;
        let mut table = packed.apply(Some(self.downloaded))?;
        shorten_others(&mut table, &packed, 1.0 - self.others_scale);
        self.draws.add_to(table.as_mut_slice());
        let largest = largest_magnitude(table.as_slice());
        Ok((TableUpdate::whole(table), largest))
    }
}

/// Returns the sum of the squares of the rows of a table that are not among `rows` (ascending).
fn square_of_others(table: &Table, rows: &[u32]) -> f64 {
    let mut rows = rows.iter().copied().peekable();
    let is_other = |row: &usize| rows.next_if_eq(&(*row as u32)).is_none();
    let square = |value: &f32| f64::from(*value) * f64::from(*value);
    let others = (0..table.shape().rows).filter(is_other);
    others.flat_map(|row| table.row(row)).map(square).sum()
}

/// Multiplies the rows of `table` that `packed` does not list by 1 - `decay`. Values are rounded
/// towards what they were, or many of them together would be longer than what was clipped.
fn shorten_others(table: &mut Table, packed: &TableUpdate, decay: f64) {
    let dimension = table.shape().dimension;
    let mut listed = packed.iter().map(|(row, _)| row).peekable();
    for (row, values) in table.as_mut_slice().chunks_exact_mut(dimension).enumerate() {
        if listed.next_if_eq(&row).is_none() {
            for value in values {
                *value = nearer(0.0, *value, decay);
            }
        }
    }
}

per_instruction_set! {
    /// Returns the sum of the squared changes of the packed rows of C. It has sixteen partial sums,
    /// one for each lane.
    fn square_of_moves(packed: &PackedRows, before: &PackedRows) -> f64 {
        let mut sums = [0.0f64; LANES];
        for position in 0..before.rows() {
            for (after, before) in packed.row(position, C).iter().zip(before.row(position, 0)) {
                for (sum, (after, before)) in sums.iter_mut().zip(after.0.iter().zip(&before.0)) {
                    let moved = f64::from(after - before);
                    *sum += moved * moved;
                }
            }
        }
        sums.iter().sum()
    }
}

per_instruction_set! {
    /// Makes a row end `factor` times the way from `before` to `after`, rounded towards `before`, in
    /// both. Rounded to the nearest, a step that is short beside its values would be longer than it
    /// may be.
    fn shorten(after: &mut [Lanes], before: &mut [Lanes], factor: f32) {
        for (after, before) in after.iter_mut().zip(before) {
            for (after, before) in after.0.iter_mut().zip(&mut before.0) {
                let step = factor * (*after - *before);
                let end = *before + step;
                let is_too_far = (end - *before).abs() > step.abs();
                *after = match is_too_far {
                    true if step > 0.0 => end.next_down(),
                    true => end.next_up(),
                    false => end,
                };
                *before = *after;
            }
        }
    }
}

per_instruction_set! {
    /// Makes a row end `factor` times the way from `before` to `after`, moved by `deviation` times
    /// the draws, in both.
    fn shorten_and_disturb(after: &mut [Lanes], before: &mut [Lanes], factor: f32, deviation: f32, draws: &[f32]) {
        for ((after, before), draws) in after.iter_mut().zip(before).zip(draws.as_chunks::<LANES>().0) {
            let mut next = before.0;
            for lane in 0..LANES {
                next[lane] += factor * (after.0[lane] - before.0[lane]) + deviation * draws[lane];
            }
            (after.0, before.0) = (next, next);
            end_of_block();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, a step that is clipped is longer than the noise is made for.
    #[test]
    fn a_step_that_is_shortened_is_within_its_limit() {
        let begins: [f32; LANES] = std::array::from_fn(|lane| 0.3 + 0.1 * lane as f32);
        let ends: [f32; LANES] =
            std::array::from_fn(|lane| begins[lane] + 0.01 * (lane as f32 - 6.5));
        let length = |values: &[f32; LANES]| {
            let moved = values
                .iter()
                .zip(&begins)
                .map(|(end, begin)| f64::from(*end) - f64::from(*begin));
            math::sqrt(moved.map(|moved| moved * moved).sum())
        };
        for limit in [1e-2, 1e-6, 1e-7, 1e-12] {
            let (mut after, mut before) = ([Lanes(ends)], [Lanes(begins)]);
            shorten(&mut after, &mut before, (limit / length(&ends)) as f32);
            assert!(length(&after[0].0) <= limit * (1.0 + 1e-6), "{limit}");
            assert_eq!(after[0].0, before[0].0);
        }
    }
}
