//! Trains the additive model of FedRAP, logit = w . (D_j + C_j) + b, by simultaneous steps on w, b,
//! D and C.

use super::{Block, PackedRows, RowWeights, for_vectors};
use crate::kernel::lane_math::{
    LANES, Lanes, exp_neg_abs, quad, quad_sum, quads_to_sums, sigmoid_from, softplus_from,
};
use crate::per_instruction_set;

/// Names how C is penalised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Penalty {
    /// The term is mu |C| and its subgradient is taken, with sign(0) = 0, as in the published code.
    L1,
    /// The term is mu C^2.
    L2,
    /// The term is mu |C| and C is soft-thresholded after the step (FedRAP Eq. 13).
    L1Proximal,
}

/// Holds the scalars of one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdditiveStep {
    /// The weight of every occurrence in the data loss: 1 / B for a mean over the batch, 1 for a
    /// sum.
    pub data_weight: f32,
    /// The learning rate of w and b.
    pub network_rate: f32,
    /// The learning rate of D and C.
    pub table_rate: f32,
    /// The weight decay of every parameter.
    pub weight_decay: f32,
    /// The weight of the term that drives D and C apart, per unit of a row's penalty weight.
    pub lambda: f32,
    /// The weight of the penalty on C, per unit of a row's penalty weight.
    pub mu: f32,
    /// The penalty.
    pub penalty: Penalty,
}

/// Takes one step over `rows` (table 0 is D, table 1 is C), with all gradients taken at the
/// parameters before it:
///
/// loss = data_weight * sum_j (count_j softplus(z_j) - positive_j z_j)
///        + sum_j penalty_j (mu |C_j| - lambda (D_j - C_j)^2).
///
/// Rows with weight zero only decay. Returns the loss before the step. Source: mtics/FedRAP d6ee2ac
/// for the batch means and the subgradient; the paper's Eq. 3 and 13 for whole-matrix sums and
/// soft-thresholding.
pub fn step(
    rows: &mut PackedRows,
    weights: &RowWeights,
    w: &mut [Block],
    b: &mut f32,
    step: &AdditiveStep,
) -> f32 {
    step_while_moving(rows, weights, w, b, step, &mut InPlace)
}

/// Moves rows into place and away while a step goes through them, sixteen at a time, so that a row
/// is in the cache when it is trained and still there when it leaves.
pub trait RowMover {
    /// Puts the packed rows from position `first` into place, which the step reads next. The last
    /// ones may be padding.
    fn move_in(&mut self, first: usize, rows: &mut [Block]);

    /// Takes the packed rows from position `first` away, which the step has trained. The last ones
    /// may be padding.
    fn move_out(&mut self, first: usize, rows: &[Block]);
}

/// Leaves every row where it is.
struct InPlace;

impl RowMover for InPlace {
    #[inline(always)]
    fn move_in(&mut self, _first: usize, _rows: &mut [Block]) {}

    #[inline(always)]
    fn move_out(&mut self, _first: usize, _rows: &[Block]) {}
}

/// Takes a step as [`step`] does, over rows that `mover` moves.
pub fn step_while_moving<M: RowMover>(
    rows: &mut PackedRows,
    weights: &RowWeights,
    w: &mut [Block],
    b: &mut f32,
    step: &AdditiveStep,
    mover: &mut M,
) -> f32 {
    let vectors = rows.vectors();
    let blocks = rows.blocks_mut();
    match step.penalty {
        Penalty::L1 => for_vectors!(vectors, dispatch[0, M](blocks, weights, w, b, step, mover)),
        Penalty::L2 => for_vectors!(vectors, dispatch[1, M](blocks, weights, w, b, step, mover)),
        Penalty::L1Proximal => {
            for_vectors!(vectors, dispatch[2, M](blocks, weights, w, b, step, mover))
        }
    }
}

per_instruction_set! {
    fn dispatch<const V: usize, const PENALTY: u8, M: RowMover>(
        blocks: &mut [Block],
        weights: &RowWeights,
        w: &mut [Block],
        b: &mut f32,
        step: &AdditiveStep,
        mover: &mut M,
    ) -> f32 {
        let mut w_before = [Block::ZERO; V];
        w_before.copy_from_slice(w);
        let mut w_gradient = [Block::ZERO; V];
        let mut b_gradient = [0f32; LANES];
        let mut data_loss = [0f32; LANES];
        let mut penalty_loss = [0f32; LANES];
        let (counts, _) = weights.count.as_chunks::<LANES>();
        let (positives, _) = weights.positive.as_chunks::<LANES>();
        let (penalties, _) = weights.penalty.as_chunks::<LANES>();
        let (groups, _) = counts.split_at(blocks.len() / (LANES * 2 * V));
        // Direct calls throughout: a closure would not inherit the instruction set that this copy is
        // compiled for.
        let mut z = [0f32; LANES];
        if let Some((first, _)) = blocks.split_at_mut_checked(LANES * 2 * V) {
            mover.move_in(0, first);
            z = logits::<V, PENALTY>(first, &w_before, *b, &penalties[0], step, &mut penalty_loss);
        }
        for (group, count) in groups.iter().enumerate() {
            let positive = &positives[group];
            let e = exp_neg_abs(&z);
            let (p, softplus) = (sigmoid_from(&z, &e), softplus_from(&z, &e));
            let mut gradient = [0f32; LANES];
            // One loop takes all three sums. If the cross-entropy is a function of its own, its results
            // go through memory, and a step takes a twentieth longer.
            for i in 0..LANES {
                gradient[i] = (count[i] * p[i] - positive[i]) * step.data_weight;
                data_loss[i] += count[i] * softplus[i] - positive[i] * z[i];
                b_gradient[i] += gradient[i];
            }
            let coefficients = RowCoefficients::new::<PENALTY>(&gradient, &penalties[group], step);
            // The next group's logits before this group's update: the long chain of the logistic
            // function hides behind them. It saves a third of the time, and w does not change within a
            // step.
            let (rows, rest) = blocks[group * LANES * 2 * V..].split_at_mut(LANES * 2 * V);
            if let Some((next, _)) = rest.split_at_mut_checked(LANES * 2 * V) {
                mover.move_in((group + 1) * LANES, next);
                z = logits::<V, PENALTY>(
                    next,
                    &w_before,
                    *b,
                    &penalties[group + 1],
                    step,
                    &mut penalty_loss,
                );
            }
            update_rows::<V, PENALTY>(rows, &w_before, &gradient, &coefficients, &mut w_gradient);
            mover.move_out(group * LANES, rows);
        }
        let decay = 1.0 - step.network_rate * step.weight_decay;
        for v in 0..V {
            for i in 0..LANES {
                w[v].0[i] = decay * w_before[v].0[i] - step.network_rate * w_gradient[v].0[i];
            }
        }
        *b = decay * *b - step.network_rate * quad_sum(&b_gradient);
        step.data_weight * quad_sum(&data_loss) + quad_sum(&penalty_loss)
    }
}

/// Holds the coefficients of the update of sixteen rows.
///
/// With Q = pull (D + C) + move w, which the two tables share, it is D' = keep_d D - Q and C' =
/// keep_c C - Q - shrink sign(C). This is the gradient step with its terms collected so that an
/// element takes as few additions as possible, which is what bounds the speed of this kernel.
struct RowCoefficients {
    step_size: Lanes,
    pull: Lanes,
    keep_d: Lanes,
    keep_c: Lanes,
    shrink: Lanes,
}

impl RowCoefficients {
    #[inline(always)]
    fn new<const PENALTY: u8>(gradient: &Lanes, penalty: &Lanes, step: &AdditiveStep) -> Self {
        let rate = step.table_rate;
        let decay = 1.0 - rate * step.weight_decay;
        let mut c = Self {
            step_size: [0.0; LANES],
            pull: [0.0; LANES],
            keep_d: [0.0; LANES],
            keep_c: [0.0; LANES],
            shrink: [0.0; LANES],
        };
        for i in 0..LANES {
            c.step_size[i] = rate * gradient[i];
            c.pull[i] = 2.0 * rate * step.lambda * penalty[i];
            c.keep_d[i] = decay + 2.0 * c.pull[i];
            c.keep_c[i] = if PENALTY == 1 {
                c.keep_d[i] - 2.0 * rate * step.mu * penalty[i]
            } else {
                c.keep_d[i]
            };
            c.shrink[i] = rate * step.mu * penalty[i];
        }
        c
    }
}

// Plain loops over sixteen lanes: the form that the compiler turns into one vector operation per
// line.

/// Returns the logits of sixteen rows, and adds their share of the regularisers' loss to
/// `penalty_loss`.
#[inline(always)]
fn logits<const V: usize, const PENALTY: u8>(
    group: &[Block],
    w: &[Block; V],
    b: f32,
    penalty: &Lanes,
    step: &AdditiveStep,
    penalty_loss: &mut Lanes,
) -> Lanes {
    let mut quads = [0f32; 4 * LANES];
    for r in 0..LANES {
        let row = &group[r * 2 * V..(r + 1) * 2 * V];
        let mut dot = [0f32; LANES];
        let mut regularisers = [0f32; LANES];
        for v in 0..V {
            let (d, c, w) = (&row[v].0, &row[V + v].0, &w[v].0);
            for i in 0..LANES {
                let apart = d[i] - c[i];
                let size = if PENALTY == 1 {
                    c[i] * c[i]
                } else {
                    c[i].abs()
                };
                let along_w = (d[i] + c[i]) * w[i];
                // One accumulator for both terms: two would be paired lane by lane and not
                // vectorised.
                let regulariser = size * step.mu - apart * apart * step.lambda;
                dot[i] = if v == 0 { along_w } else { dot[i] + along_w };
                regularisers[i] = if v == 0 {
                    regulariser
                } else {
                    regularisers[i] + regulariser
                };
            }
        }
        let weight = penalty[r];
        for i in 0..LANES {
            penalty_loss[i] += weight * regularisers[i];
        }
        quads[4 * r..4 * r + 4].copy_from_slice(&quad(&dot));
    }
    let mut z = quads_to_sums(&quads);
    for z in &mut z {
        *z += b;
    }
    z
}

/// Updates sixteen rows of D and C and adds their share of the gradient of w.
#[inline(always)]
fn update_rows<const V: usize, const PENALTY: u8>(
    group: &mut [Block],
    w: &[Block; V],
    gradient: &Lanes,
    coefficients: &RowCoefficients,
    w_gradient: &mut [Block; V],
) {
    for r in 0..LANES {
        let (d_row, c_row) = group[r * 2 * V..(r + 1) * 2 * V].split_at_mut(V);
        let (g, move_by, pull) = (gradient[r], coefficients.step_size[r], coefficients.pull[r]);
        let (keep_d, keep_c, shrink) = (
            coefficients.keep_d[r],
            coefficients.keep_c[r],
            coefficients.shrink[r],
        );
        for v in 0..V {
            let (d_lanes, c_lanes) = (&mut d_row[v].0, &mut c_row[v].0);
            let (w, w_gradient) = (&w[v].0, &mut w_gradient[v].0);
            for i in 0..LANES {
                let (d, c) = (d_lanes[i], c_lanes[i]);
                let sum = d + c;
                w_gradient[i] += g * sum;
                let shared = pull * sum + move_by * w[i];
                d_lanes[i] = keep_d * d - shared;
                let moved = keep_c * c - shared;
                c_lanes[i] = match PENALTY {
                    // Where c is zero, less +0.0, which changes no value. The mask says it so that
                    // the vectors that can leave lanes out of a subtraction do: a choice between
                    // two results is an operation more.
                    0 => {
                        moved
                            - f32::from_bits(
                                shrink.copysign(c).to_bits() & u32::from(c != 0.0).wrapping_neg(),
                            )
                    }
                    1 => moved,
                    // S_theta(v) = max(v - theta, 0) - max(-v - theta, 0). Written with
                    // comparisons, since `max` would turn a NaN into a zero and hide a divergence.
                    _ if moved > shrink => moved - shrink,
                    _ if moved < -shrink => moved + shrink,
                    // A plain +0.0, which the sparse codec omits; the product keeps a NaN.
                    _ => moved * 0.0 + 0.0,
                };
            }
        }
    }
}

#[cfg(test)]
mod tests;
