//! Implements losses over one column of outputs, with their gradients.

use super::SampleMatrix;
use crate::kernel::Targets;
use crate::kernel::lane_math::{LANES, cross_entropy, quad_sum};
use crate::per_instruction_set;

per_instruction_set! {
    /// Replaces `gradient` by `factor` times the derivative of the binary cross-entropy with respect
    /// to each logit, and returns the cross-entropy, summed over all occurrences. For the mean over a
    /// batch, `factor` is one over the number of occurrences.
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
            gradient.0 = cross_entropy(&z.0, count, sum, factor, &mut loss);
        }
        quad_sum(&loss)
    }
}
