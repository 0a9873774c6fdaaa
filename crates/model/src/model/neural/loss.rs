//! Implements losses over one column of outputs, with their gradients.

use super::SampleMatrix;
use crate::model::kernel::lane_math::{LANES, exp_neg_abs, quad_sum, sigmoid_from, softplus_from};
use crate::model::kernel::{Block, Targets};
use crate::per_instruction_set;

/// Replaces `gradient` by `factor` times the derivative of the binary cross-entropy with respect to
/// each logit, and returns the cross-entropy, summed over all occurrences.
///
/// With a count c and t positives among them, a sample's loss is c ln(1 + exp(z)) - t z, and its
/// derivative is c sigmoid(z) - t. For the mean over a batch, `factor` is one over the number of
/// occurrences.
pub fn binary_cross_entropy(
    logits: &SampleMatrix,
    targets: &Targets,
    factor: f32,
    gradient: &mut SampleMatrix,
) -> f32 {
    gradient.reset_for_overwriting(logits.samples, 1);
    dispatch_cross_entropy(
        &logits.blocks,
        &targets.counts,
        &targets.sums,
        factor,
        &mut gradient.blocks,
    )
}

per_instruction_set! {
    fn dispatch_cross_entropy(
        logits: &[Block],
        weights: &[f32],
        targets: &[f32],
        factor: f32,
        gradient: &mut [Block],
    ) -> f32 {
        let mut loss = [0f32; LANES];
        let groups = weights
            .as_chunks::<LANES>()
            .0
            .iter()
            .zip(targets.as_chunks::<LANES>().0);
        for ((z, gradient), (weight, target)) in logits.iter().zip(gradient).zip(groups) {
            let e = exp_neg_abs(&z.0);
            let p = sigmoid_from(&z.0, &e);
            let softplus = softplus_from(&z.0, &e);
            for i in 0..LANES {
                loss[i] += weight[i] * softplus[i] - target[i] * z.0[i];
                gradient.0[i] = (weight[i] * p[i] - target[i]) * factor;
            }
        }
        quad_sum(&loss)
    }
}
