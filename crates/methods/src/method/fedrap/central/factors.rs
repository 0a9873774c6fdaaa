//! Makes CentRAP's steps, on plain slices.

use super::{B, C, D, W};
use crate::method::samples::Sample;
use fedrecsim_model::model::blocks::Model;
use fedrecsim_model::model::kernel::score::{ScaledSum, score_sums};
use fedrecsim_model::model::neural::SampleMatrix;
use fedrecsim_model::model::neural::dense::add_scaled;
use fedrecsim_model::model::neural::loss::{Targets, binary_cross_entropy};
use fedrecsim_model::per_instruction_set;

/// Holds the rates and weights of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rates {
    /// The learning rates of C, D, w and b.
    pub of_blocks: [f32; 4],
    /// The weight of the term that drives C and D apart.
    pub lambda: f32,
    /// The weight of the penalty on C.
    pub mu: f32,
}

/// Holds the parameters as slices, each row-major.
#[derive(Debug)]
pub struct Tables<'a> {
    /// C (m x k), D (n m x k), w (n x k) and b (n).
    pub values: [&'a mut [f32]; 4],
    /// The number m of items.
    pub items: usize,
    /// The latent dimension k.
    pub dimension: usize,
}

impl<'a> Tables<'a> {
    /// Returns the tables of `model`.
    pub(crate) fn of(model: &'a mut Model) -> Self {
        let shape = model.table(C).shape();
        let values = model
            .tables_mut([C, D, W, B])
            .map(|table| table.as_mut_slice());
        Self {
            values,
            items: shape.rows,
            dimension: shape.dimension,
        }
    }

    /// Returns where the rows of C, D and w stand that belong to a sample, and the position of its
    /// b.
    fn places(&self, sample: &Sample) -> ([std::ops::Range<usize>; 3], usize) {
        let (user, item) = (sample.user as usize, sample.item as usize);
        let row = |row: usize| row * self.dimension..(row + 1) * self.dimension;
        ([row(item), row(user * self.items + item), row(user)], user)
    }
}

/// Holds the memory of one batch. Nothing passes from one batch to the next.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    /// The gradients with respect to C, D, w and b of each sample: its own rows, one after the
    /// other.
    gradients: [Vec<f32>; 4],
    logits: SampleMatrix,
    by_logits: SampleMatrix,
    targets: Targets,
}

impl Batch {
    /// Makes one step of gradient descent on the loss of the batch `samples`, and returns its
    /// binary cross-entropy as a sum over the batch. All gradients are taken at the parameters
    /// before the step.
    ///
    /// With g = (p - y) / B and the logit w . (D + C) + b, the gradients of a sample are g (D + C)
    /// for w, g for b, g w - 2 lambda (D - C) / (B k) for D, and g w + 2 lambda (D - C) / (B k) +
    /// mu sign(C) / (B k) for C.
    pub(crate) fn step(
        &mut self,
        tables: &mut Tables<'_>,
        samples: &[Sample],
        rates: &Rates,
    ) -> f32 {
        let loss = self.differentiate(tables, samples, rates);
        let rate = rates.of_blocks;
        let dimension = tables.dimension;
        for (number, sample) in samples.iter().enumerate() {
            let (rows, user) = tables.places(sample);
            let of_sample = number * dimension..(number + 1) * dimension;
            for (block, row) in [C, D, W].into_iter().zip(rows) {
                add_scaled(
                    -rate[block],
                    &self.gradients[block][of_sample.clone()],
                    &mut tables.values[block][row],
                );
            }
            tables.values[B][user] -= rate[B] * self.gradients[B][number];
        }
        loss
    }

    /// Replaces the gradients by those of `samples`, and returns the binary cross-entropy as a sum
    /// over them.
    fn differentiate(&mut self, tables: &Tables<'_>, samples: &[Sample], rates: &Rates) -> f32 {
        let Self {
            gradients,
            logits,
            by_logits,
            targets,
        } = self;
        logits.reset(samples.len(), 1);
        targets.clear();
        for (number, sample) in samples.iter().enumerate() {
            let ([c, d, w], user) = tables.places(sample);
            let row = ScaledSum {
                scaled: &tables.values[D][d],
                scale: 1.0,
                plain: &tables.values[C][c],
            };
            let mut logit = [0.0];
            score_sums(
                &tables.values[W][w],
                tables.values[B][user],
                &[row],
                &mut logit,
            );
            logits.set_sample(number, &logit);
            targets.push(1.0, f32::from(sample.is_positive));
        }
        let mean = 1.0 / samples.len() as f32;
        let loss = binary_cross_entropy(logits, targets, mean, by_logits);
        let per_value = mean / tables.dimension as f32;
        let [by_c, by_d, by_w, by_b] = gradients;
        by_b.clear();
        [&mut *by_c, &mut *by_d, &mut *by_w]
            .into_iter()
            .for_each(|of| of.resize(samples.len() * tables.dimension, 0.0));
        let of_samples = by_c
            .chunks_exact_mut(tables.dimension)
            .zip(by_d.chunks_exact_mut(tables.dimension));
        let of_samples = of_samples.zip(by_w.chunks_exact_mut(tables.dimension));
        for ((number, sample), ((by_c, by_d), by_w)) in samples.iter().enumerate().zip(of_samples) {
            let ([c, d, w], _) = tables.places(sample);
            let mut g = [0.0];
            by_logits.read_sample(number, &mut g);
            by_b.push(g[0]);
            let rows = [
                &tables.values[C][c],
                &tables.values[D][d],
                &tables.values[W][w],
            ];
            differentiate_rows(
                g[0],
                2.0 * rates.lambda * per_value,
                rates.mu * per_value,
                rows,
                [by_c, by_d, by_w],
            );
        }
        loss
    }
}

per_instruction_set! {
    /// Replaces the gradients of the rows c, d and w of a sample, whose logit has the gradient `g`.
    /// The weights of the regularisers are those of a value.
    fn differentiate_rows(g: f32, apart: f32, sparse: f32, [c, d, w]: [&[f32]; 3], [by_c, by_d, by_w]: [&mut [f32]; 3]) {
        let by_rows = by_c.iter_mut().zip(by_d).zip(by_w);
        for (((c, d), w), ((by_c, by_d), by_w)) in c.iter().zip(d).zip(w).zip(by_rows) {
            let apart = apart * (d - c);
            // sign(0) is 0. The mask says so without a branch.
            let penalty = sparse.copysign(*c).to_bits() & u32::from(*c != 0.0).wrapping_neg();
            *by_c = g * w + apart + f32::from_bits(penalty);
            *by_d = g * w - apart;
            *by_w = g * (d + c);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedrecsim_core::math::gradient::gradient_check_within;
    use fedrecsim_core::rng::{PortableDraws, Purpose, Streams};

    const USERS: usize = 3;
    const ITEMS: usize = 4;
    const DIMENSION: usize = 2;
    const SIZES: [usize; 4] = [
        ITEMS * DIMENSION,
        USERS * ITEMS * DIMENSION,
        USERS * DIMENSION,
        USERS,
    ];
    const RATES: Rates = Rates {
        of_blocks: [0.0; 4],
        lambda: 0.3,
        mu: 0.7,
    };

    fn start() -> Vec<f32> {
        let mut stream = Streams::new(6).stream(Purpose::GlobalInit, 0, 0);
        (0..SIZES.iter().sum())
            .map(|_| stream.standard_normal() as f32)
            .collect()
    }

    fn tables(values: &mut [f32]) -> Tables<'_> {
        let (c, rest) = values.split_at_mut(SIZES[C]);
        let (d, rest) = rest.split_at_mut(SIZES[D]);
        let (w, b) = rest.split_at_mut(SIZES[W]);
        Tables {
            values: [c, d, w, b],
            items: ITEMS,
            dimension: DIMENSION,
        }
    }

    /// Returns a batch in which items, users and a pair of both occur twice.
    fn batch() -> Vec<Sample> {
        let sample = |number: u32| Sample {
            user: number % 3,
            item: number * 3 % 4,
            is_positive: number.is_multiple_of(4),
        };
        (0..13).map(sample).collect()
    }

    fn loss(values: &[f64]) -> f64 {
        let (c, rest) = values.split_at(SIZES[C]);
        let (d, rest) = rest.split_at(SIZES[D]);
        let (w, b) = rest.split_at(SIZES[W]);
        let batch = batch();
        let of_sample = |sample: &Sample| {
            let (user, item) = (sample.user as usize, sample.item as usize);
            let row = |row: usize| row * DIMENSION..(row + 1) * DIMENSION;
            let (c, d, w) = (&c[row(item)], &d[row(user * ITEMS + item)], &w[row(user)]);
            let z: f64 = b[user] + (0..DIMENSION).map(|i| w[i] * (d[i] + c[i])).sum::<f64>();
            let entropy = z.max(0.0) + libm::log1p(libm::exp(-z.abs()))
                - if sample.is_positive { z } else { 0.0 };
            let apart: f64 = (0..DIMENSION).map(|i| (d[i] - c[i]) * (d[i] - c[i])).sum();
            let sparse: f64 = c.iter().map(|c| c.abs()).sum();
            entropy
                + (-f64::from(RATES.lambda) * apart + f64::from(RATES.mu) * sparse)
                    / DIMENSION as f64
        };
        batch.iter().map(of_sample).sum::<f64>() / batch.len() as f64
    }

    /// If this fails, the centralised FedRAP does not follow the gradient of its loss.
    #[test]
    fn the_gradient_agrees_with_central_differences() {
        let start = start();
        let rates = Rates {
            of_blocks: [1.0; 4],
            ..RATES
        };
        let mut stepped = start.clone();
        Batch::default().step(&mut tables(&mut stepped), &batch(), &rates);
        let gradient: Vec<f64> = start
            .iter()
            .zip(&stepped)
            .map(|(before, after)| f64::from(before - after))
            .collect();
        let start: Vec<f64> = start.iter().map(|value| f64::from(*value)).collect();
        gradient_check_within(2e-4, &start, &gradient, loss)
            .unwrap_or_else(|wrong| panic!("{wrong}"));
    }

    /// If this fails, a learning rate is used for another block than its own.
    #[test]
    fn each_rate_moves_its_own_block() {
        let start = start();
        for block in [C, D, W, B] {
            let mut rates = RATES;
            rates.of_blocks[block] = 0.5;
            let mut stepped = start.clone();
            Batch::default().step(&mut tables(&mut stepped), &batch(), &rates);
            let (before, after) = (
                tables(&mut start.clone()).values.map(|v| v.to_vec()),
                tables(&mut stepped).values,
            );
            let has_moved = [C, D, W, B].map(|other| before[other] != *after[other]);
            assert_eq!(has_moved, [C, D, W, B].map(|other| other == block));
        }
    }

    /// If this fails, the centralised FedRAP does not learn, or a batch depends on the one before.
    #[test]
    fn steps_lower_the_loss() {
        let rates = Rates {
            of_blocks: [0.5; 4],
            lambda: 0.0,
            mu: 0.0,
        };
        let (mut values, mut memory) = (start(), Batch::default());
        let first = memory.step(&mut tables(&mut values), &batch(), &rates);
        let last = (0..300)
            .map(|_| memory.step(&mut tables(&mut values), &batch(), &rates))
            .fold(0.0, |_, loss| loss);
        assert!(last < 0.5 * first, "{first} to {last}");
    }
}
