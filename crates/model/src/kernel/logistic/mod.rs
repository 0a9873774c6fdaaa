//! Trains the logistic model over one item table, logit = w . E_j + b, which PFedRec and FedMF use.

use super::{BatchRows, Block, PackedRows, for_vectors};
use crate::instruction_sets::end_of_block;
use crate::kernel::lane_math::{LANES, Lanes, cross_entropy, quad, quad_sum, quads_to_sums};
use crate::per_instruction_set;

/// Names the parameters that a step moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The vector w and the bias b only.
    Vector,
    /// The rows of E only.
    Rows,
    /// Vector and rows move at once, with all gradients taken at the parameters before the step.
    Both,
}

/// Holds the scalars of one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogisticStep {
    /// The parameters that move.
    pub target: Target,
    /// The learning rate of w.
    pub vector_rate: f32,
    /// The learning rate of b; 0 for models without a bias.
    pub bias_rate: f32,
    /// The learning rate of the rows.
    pub row_rate: f32,
    /// The weight decay of all trained parameters: each loses its learning rate times this times
    /// itself. Rows outside the batch decay too, which is the caller's business
    /// ([`PackedRows::scale_rows_except`]).
    pub weight_decay: f32,
}

impl LogisticStep {
    /// The factor that a step leaves of a row outside its batch.
    pub fn row_decay(&self) -> f32 {
        match self.target {
            Target::Vector => 1.0,
            Target::Rows | Target::Both => 1.0 - self.row_rate * self.weight_decay,
        }
    }
}

/// Takes one step on the mean binary cross-entropy of `batch`; returns the loss before it, as a sum
/// over the batch's occurrences.
pub fn step(
    rows: &mut PackedRows,
    batch: &BatchRows,
    w: &mut [Block],
    b: &mut f32,
    step: &LogisticStep,
) -> f32 {
    let vectors = rows.vectors();
    let blocks = rows.blocks_mut();
    match step.target {
        Target::Vector => for_vectors!(vectors, dispatch[true, false](blocks, batch, w, b, step)),
        Target::Rows => for_vectors!(vectors, dispatch[false, true](blocks, batch, w, b, step)),
        Target::Both => for_vectors!(vectors, dispatch[true, true](blocks, batch, w, b, step)),
    }
}

per_instruction_set! {
    fn dispatch<const V: usize, const VECTOR: bool, const ROWS: bool>(
        blocks: &mut [Block],
        batch: &BatchRows,
        w: &mut [Block],
        b: &mut f32,
        step: &LogisticStep,
    ) -> f32 {
        let mut w_before = [Block::ZERO; V];
        w_before.copy_from_slice(w);
        let mut w_gradient = [Block::ZERO; V];
        let mut b_gradient = [0f32; LANES];
        let mut loss = [0f32; LANES];
        let row_decay = step.row_decay();
        let per_occurrence = 1.0 / batch.occurrences as f32;
        let (groups, _) = batch.padded.as_chunks::<LANES>();
        let (counts, _) = batch.targets.counts.as_chunks::<LANES>();
        let (positives, _) = batch.targets.sums.as_chunks::<LANES>();
        // Direct calls throughout: a closure would not inherit the instruction set that this copy is
        // compiled for.
        let mut z = [0f32; LANES];
        if let Some(rows) = groups.first() {
            z = logits::<V>(blocks, rows, &w_before, *b);
        }
        for (group, rows) in groups.iter().enumerate() {
            let (count, positive) = (&counts[group], &positives[group]);
            let gradient = cross_entropy(&z, count, positive, per_occurrence, &mut loss);
            for i in 0..LANES {
                b_gradient[i] += gradient[i];
            }
            // The next group's logits before this group's update: the long chain of the logistic
            // function hides behind them. Groups have no rows in common but the padding row, which
            // stays zero.
            if let Some(rows) = groups.get(group + 1) {
                z = logits::<V>(blocks, rows, &w_before, *b);
            }
            for (row, g) in rows.iter().zip(gradient) {
                let start = *row as usize * V;
                let row = &mut blocks[start..start + V];
                let row_step = step.row_rate * g;
                for v in 0..V {
                    let (values, w, w_gradient) =
                        (&mut row[v].0, &w_before[v].0, &mut w_gradient[v].0);
                    for i in 0..LANES {
                        if VECTOR {
                            w_gradient[i] += g * values[i];
                        }
                        if ROWS {
                            values[i] = row_decay * values[i] - row_step * w[i];
                        }
                    }
                    end_of_block();
                }
            }
        }
        if VECTOR {
            let decay = 1.0 - step.vector_rate * step.weight_decay;
            for v in 0..V {
                for i in 0..LANES {
                    w[v].0[i] = decay * w_before[v].0[i] - step.vector_rate * w_gradient[v].0[i];
                }
            }
            *b = (1.0 - step.bias_rate * step.weight_decay) * *b
                - step.bias_rate * quad_sum(&b_gradient);
        }
        quad_sum(&loss)
    }
}

// Plain loops over sixteen lanes: the form that the compiler turns into one vector operation per
// line.

#[inline(always)]
fn logits<const V: usize>(blocks: &[Block], rows: &[u32; LANES], w: &[Block; V], b: f32) -> Lanes {
    let mut quads = [0f32; 4 * LANES];
    for (r, row) in rows.iter().enumerate() {
        let start = *row as usize * V;
        let row = &blocks[start..start + V];
        let mut dot = [0f32; LANES];
        for v in 0..V {
            for i in 0..LANES {
                dot[i] += row[v].0[i] * w[v].0[i];
            }
            end_of_block();
        }
        quads[4 * r..4 * r + 4].copy_from_slice(&quad(&dot));
    }
    let mut z = quads_to_sums(&quads);
    for z in &mut z {
        *z += b;
    }
    z
}

#[cfg(test)]
mod tests;
