//! Implements losses over one column of outputs, with their gradients.

use super::SampleMatrix;
use crate::model::kernel::Targets;
use crate::model::kernel::lane_math::{LANES, exp_neg_abs, quad_sum, sigmoid_from, softplus_from};
use crate::per_instruction_set;

per_instruction_set! {
    /// Replaces `gradient` by `factor` times the derivative of the binary cross-entropy with respect
    /// to each logit, and returns the cross-entropy, summed over all occurrences.
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
        let mut loss = [0f32; LANES];
        let (counts, sums) = (targets.counts.as_chunks::<LANES>().0, targets.sums.as_chunks::<LANES>().0);
        let outputs = logits.blocks.iter().zip(&mut gradient.blocks);
        for ((z, gradient), (count, sum)) in outputs.zip(counts.iter().zip(sums)) {
            let e = exp_neg_abs(&z.0);
            let p = sigmoid_from(&z.0, &e);
            let softplus = softplus_from(&z.0, &e);
            for i in 0..LANES {
                loss[i] += count[i] * softplus[i] - sum[i] * z.0[i];
                gradient.0[i] = (count[i] * p[i] - sum[i]) * factor;
            }
        }
        quad_sum(&loss)
    }
}
