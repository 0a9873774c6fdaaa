//! The additive kernel against a plain double-precision reference, and the reference against finite
//! differences.

use super::*;
use crate::kernel::{packed_vector, unpack_into};
use fedrecsim_core::math::gradient::numeric_gradient;
use fedrecsim_core::rng::{PortableDraws, Purpose, Streams};

/// Parameters and batch of one small problem, in double precision.
#[derive(Clone)]
struct Problem {
    w: Vec<f64>,
    b: f64,
    d: Vec<Vec<f64>>,
    c: Vec<Vec<f64>>,
    count: Vec<f64>,
    positive: Vec<f64>,
    row_penalty: Vec<f64>,
}

impl Problem {
    fn random(rows: usize, dimension: usize, whole_matrix: bool, seed: u64) -> Self {
        let mut stream = Streams::new(seed).stream(Purpose::Negatives, 0, 0);
        // Single-precision values, so that both sides start from the same numbers.
        let mut normal = || f64::from(stream.standard_normal() as f32);
        let mut table = || {
            (0..rows)
                .map(|_| (0..dimension).map(|_| normal()).collect())
                .collect::<Vec<Vec<f64>>>()
        };
        let (d, mut c) = (table(), table());
        // |C| has no derivative at 0; sign(0) = 0 there, which central differences give as well.
        c[0][0] = 0.0;
        let w = table()[0].clone();
        let count: Vec<f64> = (0..rows).map(|row| (row % 3) as f64).collect();
        let positive = count
            .iter()
            .map(|n| if *n == 1.0 { 1.0 } else { 0.0 })
            .collect();
        let batch: f64 = count.iter().sum();
        let per_value = 1.0 / (batch * dimension as f64);
        let row_penalty = count
            .iter()
            .map(|n| {
                if whole_matrix {
                    1.0
                } else {
                    f64::from((n * per_value) as f32)
                }
            })
            .collect();
        Self {
            w,
            b: 0.25,
            d,
            c,
            count,
            positive,
            row_penalty,
        }
    }

    fn loss(&self, step: &AdditiveStep) -> f64 {
        let mut data = 0.0;
        let mut penalty = 0.0;
        for row in 0..self.d.len() {
            let z = self.b
                + (0..self.w.len())
                    .map(|i| self.w[i] * (self.d[row][i] + self.c[row][i]))
                    .sum::<f64>();
            let softplus = z.max(0.0) + libm::log1p(libm::exp(-z.abs()));
            data += self.count[row] * softplus - self.positive[row] * z;
            for i in 0..self.w.len() {
                let (d, c) = (self.d[row][i], self.c[row][i]);
                let size = if step.penalty == Penalty::L2 {
                    c * c
                } else {
                    c.abs()
                };
                penalty += self.row_penalty[row]
                    * (f64::from(step.mu) * size - f64::from(step.lambda) * (d - c) * (d - c));
            }
        }
        f64::from(step.data_weight) * data + penalty
    }

    /// Every parameter in a fixed order: w, b, D, C.
    fn parameters(&mut self) -> Vec<&mut f64> {
        let Self { w, b, d, c, .. } = self;
        w.iter_mut()
            .chain(std::iter::once(b))
            .chain(d.iter_mut().flatten())
            .chain(c.iter_mut().flatten())
            .collect()
    }

    /// The loss's derivative by each parameter, by central differences.
    fn numeric_gradient(&self, step: &AdditiveStep) -> Vec<f64> {
        let at: Vec<f64> = self
            .clone()
            .parameters()
            .into_iter()
            .map(|parameter| *parameter)
            .collect();
        numeric_gradient(&at, |moved| {
            let mut problem = self.clone();
            problem
                .parameters()
                .into_iter()
                .zip(moved)
                .for_each(|(parameter, moved)| *parameter = *moved);
            problem.loss(step)
        })
    }

    fn run_kernel(&self, step_scalars: &AdditiveStep) -> (f32, Vec<f32>) {
        let dimension = self.w.len();
        let single = |values: &[f64]| values.iter().map(|v| *v as f32).collect::<Vec<f32>>();
        let mut rows = PackedRows::default();
        rows.reset(self.d.len(), dimension, 2);
        let mut weights = RowWeights::default();
        weights.count_batch(&[], self.d.len(), 0.0, None);
        for row in 0..self.d.len() {
            rows.set_row(row, 0, &single(&self.d[row]), 1.0);
            rows.set_row(row, 1, &single(&self.c[row]), 1.0);
            weights.count[row] = self.count[row] as f32;
            weights.positive[row] = self.positive[row] as f32;
            weights.penalty[row] = self.row_penalty[row] as f32;
        }
        let (mut w, mut b) = (packed_vector(&single(&self.w)), self.b as f32);
        let loss = step(&mut rows, &weights, &mut w, &mut b, step_scalars);
        let mut after = vec![0.0; dimension];
        unpack_into(&w, &mut after);
        after.push(b);
        for table in 0..2 {
            for row in 0..self.d.len() {
                let mut values = vec![0.0; dimension];
                unpack_into(rows.row(row, table), &mut values);
                after.extend(values);
            }
        }
        (loss, after)
    }
}

fn scalars(penalty: Penalty, batch: f64) -> AdditiveStep {
    AdditiveStep {
        data_weight: (1.0 / batch) as f32,
        network_rate: 0.1,
        table_rate: 0.2,
        weight_decay: 0.01,
        lambda: 0.3,
        mu: 0.4,
        penalty,
    }
}

#[test]
fn a_step_follows_the_numeric_gradient() {
    for (rows, dimension, penalty, whole_matrix) in [
        (5, 3, Penalty::L1, false),
        (20, 16, Penalty::L2, false),
        (17, 33, Penalty::L1, true),
        (33, 8, Penalty::L2, true),
        (3, 50, Penalty::L1, false),
        (3, 100, Penalty::L1, false),
        (2, 200, Penalty::L2, false),
    ] {
        let mut problem = Problem::random(rows, dimension, whole_matrix, rows as u64);
        let step = scalars(penalty, problem.count.iter().sum());
        let gradient = problem.numeric_gradient(&step);
        let (loss, after) = problem.run_kernel(&step);
        let expected_loss = problem.loss(&step);
        assert!(
            (f64::from(loss) - expected_loss).abs() < 1e-4 * expected_loss.abs().max(1.0),
            "loss at k = {dimension}"
        );
        for (which, parameter) in problem.parameters().into_iter().enumerate() {
            let rate = f64::from(if which <= dimension {
                step.network_rate
            } else {
                step.table_rate
            });
            let expected =
                *parameter * (1.0 - rate * f64::from(step.weight_decay)) - rate * gradient[which];
            let error = (f64::from(after[which]) - expected).abs();
            assert!(
                error < 2e-5 * expected.abs().max(1.0),
                "parameter {which} of k = {dimension}: off by {error:e}"
            );
        }
    }
}

#[test]
fn the_proximal_step_thresholds_what_the_plain_step_leaves() {
    let problem = Problem::random(20, 5, true, 3);
    let proximal = AdditiveStep {
        weight_decay: 0.0,
        ..scalars(Penalty::L1Proximal, 20.0)
    };
    let theta = proximal.table_rate * proximal.mu;
    let (_, after) = problem.run_kernel(&proximal);
    // Of another penalty, so that the reference does not go through the threshold that is tested.
    let (_, unpenalised) = problem.run_kernel(&AdditiveStep {
        mu: 0.0,
        penalty: Penalty::L1,
        ..proximal
    });
    let first_of_c = 5 + 1 + 20 * 5;
    let (mut zeros, mut above, mut below) = (0, 0, 0);
    for (after, before) in after[first_of_c..].iter().zip(&unpenalised[first_of_c..]) {
        let expected = (before - theta).max(0.0) - (-before - theta).max(0.0);
        assert!((after - expected).abs() < 1e-6);
        if expected == 0.0 {
            assert_eq!(
                after.to_bits(),
                0,
                "a thresholded value is +0.0, which the sparse codec omits"
            );
            zeros += 1;
        }
        above += u32::from(expected > 0.0);
        below += u32::from(expected < 0.0);
    }
    assert!(
        zeros > 0 && above > 0 && below > 0,
        "every branch must be taken for this test to mean anything"
    );
}

#[test]
fn a_non_finite_parameter_does_not_come_out_finite() {
    for penalty in [Penalty::L1, Penalty::L2, Penalty::L1Proximal] {
        let mut problem = Problem::random(4, 3, true, 1);
        problem.c[1][1] = f64::NAN;
        let (_, after) = problem.run_kernel(&scalars(penalty, 4.0));
        assert!(after.iter().any(|v| v.is_nan()), "{penalty:?} hides a NaN");
    }
}

#[test]
fn rows_without_weight_only_decay() {
    let mut problem = Problem::random(4, 3, false, 1);
    problem.count[3] = 0.0;
    problem.positive[3] = 0.0;
    problem.row_penalty[3] = 0.0;
    let step = scalars(Penalty::L1, 3.0);
    let (_, after) = problem.run_kernel(&step);
    let decay = 1.0 - step.table_rate * step.weight_decay;
    for i in 0..3 {
        assert_eq!(after[4 + 3 * 3 + i], decay * problem.d[3][i] as f32);
    }
}

/// Moves rows in from elsewhere, and out to a place of their own.
struct Elsewhere {
    before: Vec<Block>,
    after: Vec<Block>,
    moved_in: usize,
}

impl RowMover for Elsewhere {
    fn move_in(&mut self, first: usize, rows: &mut [Block]) {
        assert_eq!(first, self.moved_in, "in their order, each once");
        self.moved_in += LANES;
        let start = first / LANES * rows.len();
        rows.copy_from_slice(&self.before[start..start + rows.len()]);
    }

    fn move_out(&mut self, first: usize, rows: &[Block]) {
        assert_eq!(
            first / LANES * rows.len(),
            self.after.len(),
            "in their order, each once"
        );
        self.after.extend_from_slice(rows);
    }
}

/// If this fails, the first or the last step of a participation differs from what it would be with
/// all rows at hand.
#[test]
fn rows_that_move_on_the_way_are_trained_as_those_in_place_are() {
    for (rows, dimension, penalty) in [
        (1, 16, Penalty::L1),
        (16, 32, Penalty::L1),
        (50, 32, Penalty::L1Proximal),
        (37, 50, Penalty::L2),
    ] {
        let mut stream = Streams::new(9).stream(Purpose::GlobalInit, 0, 0);
        let mut in_place = PackedRows::default();
        in_place.reset(rows, dimension, 2);
        for (row, table) in (0..rows).flat_map(|row| [(row, 0), (row, 1)]) {
            let values: Vec<f32> = (0..dimension)
                .map(|_| stream.standard_normal() as f32)
                .collect();
            in_place.set_row(row, table, &values, 1.0);
        }
        let mut moving = in_place.clone();
        moving.blocks_mut().fill(Block([7.0; LANES]));
        let mut mover = Elsewhere {
            before: in_place.blocks().to_vec(),
            after: Vec::new(),
            moved_in: 0,
        };
        let batch: Vec<(u32, bool)> = (0..rows as u32).map(|row| (row, row % 3 == 0)).collect();
        let mut weights = RowWeights::default();
        weights.count_batch(&batch, rows, 0.01, None);
        let step = scalars(penalty, rows as f64);
        let start = (packed_vector(&vec![0.1; dimension]), 0.5);
        let ((mut w, mut b), (mut w_moving, mut b_moving)) = (start.clone(), start);
        let loss = super::step(&mut in_place, &weights, &mut w, &mut b, &step);
        let loss_moving = step_while_moving(
            &mut moving,
            &weights,
            &mut w_moving,
            &mut b_moving,
            &step,
            &mut mover,
        );
        assert_eq!(mover.moved_in, rows.next_multiple_of(LANES));
        assert_eq!(
            (loss.to_bits(), b.to_bits()),
            (loss_moving.to_bits(), b_moving.to_bits())
        );
        assert!(
            w == w_moving && in_place.blocks() == moving.blocks(),
            "{rows} x {dimension}"
        );
        assert!(in_place.blocks() == mover.after, "{rows} x {dimension}");
    }
}
