//! Makes CentRAP's steps.

use super::{B, C, D, W};
use crate::samples::{CrossEntropy, Sample};
use fedrecsim_model::kernel::score::{ScaledSum, score_sums};
use fedrecsim_model::neural::dense::add_scaled;
use fedrecsim_model::{Table, per_instruction_set};

/// Holds the memory of one batch. Nothing passes from one batch to the next.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    /// The gradients of each sample: those of its own rows of C, D, w and b, side by side.
    gradients: Vec<f32>,
    loss: CrossEntropy,
}

impl Batch {
    /// Makes one step of gradient descent on the loss of the batch `samples`, and returns its
    /// binary cross-entropy as a sum over the batch. All gradients are taken at the parameters
    /// before the step. `tables` are C (m x k), D (n m x k), w (n x k) and b (n x 1), and `rates`
    /// are their learning rates.
    ///
    /// With g = (p - y) / B and the logit w . (D + C) + b, the gradients of a sample are g (D + C)
    /// for w and g for b. For D the gradient is g w - 2 lambda (D - C) / (B k); for C it is
    /// g w + 2 lambda (D - C) / (B k) + mu sign(C) / (B k).
    pub(crate) fn step(
        &mut self,
        tables: [&mut Table; 4],
        samples: &[Sample],
        rates: [f32; 4],
        (lambda, mu): (f32, f32),
    ) -> f32 {
        let shape = tables[C].shape();
        let (items, dimension) = (shape.rows, shape.dimension);
        let places = |sample: &Sample| {
            let (user, item) = (sample.user as usize, sample.item as usize);
            [item, user * items + item, user, user]
        };
        let loss = self.loss.of_samples(samples, |sample| {
            let [c, d, w, b] = places(sample);
            let row = ScaledSum {
                scaled: tables[D].row(d),
                scale: 1.0,
                plain: tables[C].row(c),
            };
            let mut logit = [0.0];
            score_sums(tables[W].row(w), tables[B].row(b)[0], &[row], &mut logit);
            logit[0]
        });
        let per_value = 1.0 / samples.len() as f32 / dimension as f32;
        let weights = (2.0 * lambda * per_value, mu * per_value);
        let width = 3 * dimension + 1;
        self.gradients.resize(samples.len() * width, 0.0);
        let gradients = self.gradients.chunks_exact_mut(width);
        for ((number, sample), gradients) in samples.iter().enumerate().zip(gradients) {
            let (by_rows, g) = gradients.split_at_mut(3 * dimension);
            g[0] = self.loss.slope(number);
            let [c, d, w, _] = places(sample);
            let rows = [tables[C].row(c), tables[D].row(d), tables[W].row(w)];
            differentiate_rows(g[0], weights, rows, by_rows);
        }
        for (sample, gradients) in samples.iter().zip(self.gradients.chunks_exact(width)) {
            // The gradient of b is the last chunk, of one value.
            let of_blocks = gradients.chunks(dimension);
            for ((block, row), gradient) in places(sample).into_iter().enumerate().zip(of_blocks) {
                add_scaled(-rates[block], gradient, tables[block].row_mut(row));
            }
        }
        loss
    }
}

per_instruction_set! {
    /// Replaces the gradients of the rows c, d and w of a sample, which stand side by side. The
    /// logit has the gradient `g`. The weights of the regularisers are those of a value.
    fn differentiate_rows(g: f32, (apart, sparse): (f32, f32), [c, d, w]: [&[f32]; 3], by_rows: &mut [f32]) {
        let (by_c, rest) = by_rows.split_at_mut(c.len());
        let (by_d, by_w) = rest.split_at_mut(c.len());
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
    use fedrecsim_core::math::gradient::gradient_check;
    use fedrecsim_core::{PortableDraws, Purpose, Streams};
    use fedrecsim_model::TableShape;

    const USERS: usize = 3;
    const ITEMS: usize = 4;
    const DIMENSION: usize = 2;
    const SIZES: [usize; 4] = [
        ITEMS * DIMENSION,
        USERS * ITEMS * DIMENSION,
        USERS * DIMENSION,
        USERS,
    ];
    const LAMBDA: f32 = 0.3;
    const MU: f32 = 0.7;

    fn start() -> Vec<f32> {
        let mut stream = Streams::new(6).stream(Purpose::GlobalInit, 0, 0);
        (0..SIZES.iter().sum())
            .map(|_| stream.standard_normal() as f32)
            .collect()
    }

    /// Returns C, D, w and b with these values.
    fn tables(mut values: &[f32]) -> [Table; 4] {
        [(C, DIMENSION), (D, DIMENSION), (W, DIMENSION), (B, 1)].map(|(block, dimension)| {
            let (of_block, rest) = values.split_at(SIZES[block]);
            values = rest;
            let rows = of_block.len() / dimension;
            Table::new(TableShape { rows, dimension }, of_block.to_vec())
        })
    }

    /// Makes a step from these values, and returns the values after it and the loss.
    fn stepped(
        values: &[f32],
        batch: &mut Batch,
        rates: [f32; 4],
        weights: (f32, f32),
    ) -> (Vec<f32>, f32) {
        let mut tables = tables(values);
        let loss = batch.step(tables.each_mut(), &self::batch(), rates, weights);
        let values = tables.iter().flat_map(|table| table.as_slice());
        (values.copied().collect(), loss)
    }

    /// Returns a batch where items, users and a pair of both occur twice.
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
            entropy + (-f64::from(LAMBDA) * apart + f64::from(MU) * sparse) / DIMENSION as f64
        };
        batch.iter().map(of_sample).sum::<f64>() / batch.len() as f64
    }

    /// If this fails, the centralised FedRAP does not follow the gradient of its loss.
    #[test]
    fn the_gradient_agrees_with_central_differences() {
        let start = start();
        let (moved, _) = stepped(&start, &mut Batch::default(), [1.0; 4], (LAMBDA, MU));
        let gradient: Vec<f64> = start
            .iter()
            .zip(&moved)
            .map(|(before, after)| f64::from(before - after))
            .collect();
        let start: Vec<f64> = start.iter().map(|value| f64::from(*value)).collect();
        gradient_check(2e-4, &start, &gradient, loss).unwrap_or_else(|wrong| panic!("{wrong}"));
    }

    /// If this fails, a learning rate is used for another block than its own.
    #[test]
    fn each_rate_moves_its_own_block() {
        let start = start();
        for block in [C, D, W, B] {
            let mut rates = [0.0; 4];
            rates[block] = 0.5;
            let (moved, _) = stepped(&start, &mut Batch::default(), rates, (LAMBDA, MU));
            let (before, after) = (tables(&start), tables(&moved));
            let has_moved = [C, D, W, B].map(|other| before[other] != after[other]);
            assert_eq!(has_moved, [C, D, W, B].map(|other| other == block));
        }
    }

    /// If this fails, the centralised FedRAP does not learn, or a batch depends on the one before.
    #[test]
    fn steps_lower_the_loss() {
        let (mut values, mut memory, mut losses) = (start(), Batch::default(), Vec::new());
        for _ in 0..301 {
            let (moved, loss) = stepped(&values, &mut memory, [0.5; 4], (0.0, 0.0));
            values = moved;
            losses.push(loss);
        }
        let (first, last) = (losses[0], losses[300]);
        assert!(last < 0.5 * first, "{first} to {last}");
    }
}
