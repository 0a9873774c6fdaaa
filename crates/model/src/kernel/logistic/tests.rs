//! The logistic kernel against central differences in double precision.

// An index names the same parameter on both sides of a comparison.
#![allow(clippy::needless_range_loop)]

use super::*;
use crate::kernel::{packed_vector, unpack_into};
use fedrecsim_core::math::gradient::numeric_gradient;
use fedrecsim_core::rng::{PortableDraws, Purpose, Streams};

struct Problem {
    w: Vec<f64>,
    b: f64,
    rows: Vec<Vec<f64>>,
    samples: Vec<(u32, bool)>,
}

impl Problem {
    fn random(rows: usize, dimension: usize) -> Self {
        let mut stream = Streams::new(9).stream(Purpose::Negatives, rows as u64, dimension as u64);
        let mut vector = || {
            (0..dimension)
                .map(|_| f64::from(stream.standard_normal() as f32))
                .collect::<Vec<f64>>()
        };
        let w = vector();
        let rows: Vec<Vec<f64>> = (0..rows).map(|_| vector()).collect();
        // Unsorted, with repetitions, and the last row left out of the batch.
        let samples = (0..2 * rows.len() - 2)
            .map(|i| (((i * 7) % (rows.len() - 1)) as u32, i % 5 == 0))
            .collect();
        Self {
            w,
            b: -0.5,
            rows,
            samples,
        }
    }

    /// Mean binary cross-entropy.
    fn loss(&self) -> f64 {
        let sum: f64 = self
            .samples
            .iter()
            .map(|(row, positive)| {
                let z = self.b
                    + self
                        .w
                        .iter()
                        .zip(&self.rows[*row as usize])
                        .map(|(w, e)| w * e)
                        .sum::<f64>();
                z.max(0.0) + libm::log1p(libm::exp(-z.abs())) - if *positive { z } else { 0.0 }
            })
            .sum();
        sum / self.samples.len() as f64
    }

    /// Returns the loss's derivative by each parameter, by central differences: w, b, then the
    /// rows.
    fn numeric_gradient(&self) -> Vec<f64> {
        let width = self.w.len();
        let at: Vec<f64> = self
            .w
            .iter()
            .chain([&self.b])
            .chain(self.rows.iter().flatten())
            .copied()
            .collect();
        numeric_gradient(&at, |moved| {
            let rows = moved[width + 1..]
                .chunks_exact(width)
                .map(<[f64]>::to_vec)
                .collect();
            Self {
                w: moved[..width].to_vec(),
                b: moved[width],
                rows,
                samples: self.samples.clone(),
            }
            .loss()
        })
    }
}

fn check(target: Target, rows: usize, dimension: usize) {
    let problem = Problem::random(rows, dimension);
    let gradient = problem.numeric_gradient();
    let scalars = LogisticStep {
        target,
        vector_rate: 0.3,
        bias_rate: 0.2,
        row_rate: 40.0,
        weight_decay: 0.01,
    };
    let mut packed = PackedRows::default();
    packed.reset(rows + 1, dimension, 1);
    for (row, values) in problem.rows.iter().enumerate() {
        packed.set_row(
            row,
            0,
            &values.iter().map(|v| *v as f32).collect::<Vec<_>>(),
            1.0,
        );
    }
    let mut w = packed_vector(&problem.w.iter().map(|v| *v as f32).collect::<Vec<_>>());
    let mut b = problem.b as f32;
    let mut batch = BatchRows::default();
    batch.collect(&problem.samples, rows as u32);
    let loss = step(&mut packed, &batch, &mut w, &mut b, &scalars);
    let close = |value: f32, expected: f64| {
        (f64::from(value) - expected).abs() < 3e-5 * expected.abs().max(1.0)
    };
    assert!(
        close(loss / problem.samples.len() as f32, problem.loss()),
        "{target:?} loss"
    );
    let moves = |wanted: Target| target == wanted || target == Target::Both;
    let mut w_after = vec![0.0; dimension];
    unpack_into(&w, &mut w_after);
    let vector_rate = if moves(Target::Vector) { 0.3 } else { 0.0 };
    for i in 0..dimension {
        let expected = problem.w[i] * (1.0 - vector_rate * 0.01) - vector_rate * gradient[i];
        assert!(
            close(w_after[i], expected),
            "{target:?} w[{i}] is {} instead of {expected}",
            w_after[i]
        );
    }
    let bias_rate = if moves(Target::Vector) { 0.2 } else { 0.0 };
    let expected = problem.b * (1.0 - bias_rate * 0.01) - bias_rate * gradient[dimension];
    assert!(close(b, expected), "{target:?} b");
    let row_rate = if moves(Target::Rows) { 40.0 } else { 0.0 };
    for row in 0..rows {
        let mut after = vec![0.0; dimension];
        unpack_into(packed.row(row, 0), &mut after);
        for i in 0..dimension {
            // The kernel leaves rows outside the batch, here the last one, to its caller.
            let decay = if row + 1 < rows {
                1.0 - row_rate * 0.01
            } else {
                1.0
            };
            let expected = problem.rows[row][i] * decay
                - row_rate * gradient[dimension + 1 + row * dimension + i];
            assert!(
                close(after[i], expected),
                "{target:?} E[{row}][{i}] is {} instead of {expected}",
                after[i]
            );
        }
    }
    assert!(
        packed
            .row(rows, 0)
            .iter()
            .all(|block| *block == Block::ZERO),
        "the padding row moved"
    );
}

#[test]
fn every_target_follows_the_numeric_gradient_at_every_width() {
    for target in [Target::Vector, Target::Rows, Target::Both] {
        for (rows, dimension) in [
            (3, 1),
            (20, 8),
            (17, 16),
            (40, 32),
            (5, 45),
            (5, 64),
            (4, 65),
            (4, 130),
        ] {
            check(target, rows, dimension);
        }
    }
}

#[test]
fn a_batch_counts_each_row_once_with_its_occurrences() {
    let mut batch = BatchRows::default();
    batch.collect(&[(4, false), (2, true), (4, false), (4, true)], 9);
    assert_eq!(batch.padded[..3], [2, 4, 9]);
    assert_eq!((batch.targets.counts[0], batch.targets.sums[0]), (1.0, 1.0));
    assert_eq!((batch.targets.counts[1], batch.targets.sums[1]), (3.0, 1.0));
    assert_eq!(
        (batch.rows().len(), batch.padded.len(), batch.occurrences),
        (2, 16, 4)
    );
    assert!(batch.targets.counts[2..].iter().all(|count| *count == 0.0));
}

#[test]
fn a_batch_finds_rows_of_any_number_and_keeps_nothing_of_the_batch_before() {
    let mut batch = BatchRows::default();
    batch.collect(&[(0, true), (1, true), (150, true)], 200);
    for samples in [
        vec![(130, true), (63, false), (64, true), (130, false)],
        vec![(199, false)],
    ] {
        batch.collect(&samples, 200);
        let mut rows: Vec<u32> = samples.iter().map(|sample| sample.0).collect();
        rows.sort_unstable();
        rows.dedup();
        assert_eq!(batch.rows(), rows);
        for (place, row) in rows.iter().enumerate() {
            let own: Vec<bool> = samples
                .iter()
                .filter(|sample| sample.0 == *row)
                .map(|sample| sample.1)
                .collect();
            let positives = own.iter().filter(|positive| **positive).count();
            assert_eq!(
                (batch.targets.counts[place], batch.targets.sums[place]),
                (own.len() as f32, positives as f32),
                "row {row}"
            );
        }
    }
}
