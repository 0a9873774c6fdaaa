//! Implements the kernels of a dense layer, `z = W x + b`, for sixteen samples at a time and for a
//! single sample.
//!
//! Weights are row-major with a row for each output. A layer may read a part of each row only
//! ([`Weights`]): the other inputs are then the same for all samples, and the caller adds their
//! share to the bias.

use crate::instruction_sets::end_of_block;
use crate::kernel::Block;
use crate::kernel::lane_math::{LANES, Lanes, quad_sum};
use crate::per_instruction_set;

/// Describes the columns `first_input..first_input + inputs` of a row-major matrix with `stride`
/// columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weights<V> {
    /// All values of the matrix, row after row.
    pub values: V,
    /// The number of columns of the matrix.
    pub stride: usize,
    /// The first column that is used.
    pub first_input: usize,
    /// The number of columns that are used.
    pub inputs: usize,
}

impl<'a> Weights<&'a [f32]> {
    #[inline(always)]
    fn row(&self, output: usize) -> &'a [f32] {
        let start = output * self.stride + self.first_input;
        &self.values[start..start + self.inputs]
    }
}

per_instruction_set! {
    /// Replaces `z` (groups x outputs) by `W x + b` for every sample of `x` (groups x inputs), and
    /// negative results by zero where `rectified` is set.
    ///
    /// Each sum begins with the bias and goes through the inputs in ascending order.
    pub(crate) fn forward(
        weights: Weights<&[f32]>,
        bias: &[f32],
        x: &[Block],
        z: &mut [Block],
        rectified: bool,
    ) {
        let tiles = bias.len() / 4;
        for (x, z) in x
            .chunks_exact(weights.inputs)
            .zip(z.chunks_exact_mut(bias.len()))
        {
            for tile in 0..tiles {
                forward_tile::<4>(weights, bias, 4 * tile, x, z, rectified);
            }
            for output in 4 * tiles..bias.len() {
                forward_tile::<1>(weights, bias, output, x, z, rectified);
            }
        }
    }
}

/// Computes the outputs `first..first + T` of one group.
#[inline(always)]
fn forward_tile<const T: usize>(
    weights: Weights<&[f32]>,
    bias: &[f32],
    first: usize,
    x: &[Block],
    z: &mut [Block],
    rectified: bool,
) {
    let mut rows: [&[f32]; T] = [&[]; T];
    let mut sums = [[0f32; LANES]; T];
    for t in 0..T {
        rows[t] = weights.row(first + t);
        sums[t] = [bias[first + t]; LANES];
    }
    for (input, x) in x.iter().enumerate() {
        for t in 0..T {
            let weight = rows[t][input];
            for i in 0..LANES {
                sums[t][i] += weight * x.0[i];
            }
        }
    }
    for t in 0..T {
        if rectified {
            for i in 0..LANES {
                // The comparison keeps NaN, which `max` would turn into zero.
                sums[t][i] = if sums[t][i] < 0.0 { 0.0 } else { sums[t][i] };
            }
        }
        z[first + t].0 = sums[t];
    }
}

per_instruction_set! {
    /// Replaces `dx` (groups x inputs) by `W^T dz` for every sample of `dz` (groups x `outputs`).
    ///
    /// Each sum begins with zero and goes through the outputs in ascending order.
    pub(crate) fn input_gradient(
        weights: Weights<&[f32]>,
        outputs: usize,
        dz: &[Block],
        dx: &mut [Block],
    ) {
        let tiles = weights.inputs / 4;
        for (dz, dx) in dz
            .chunks_exact(outputs)
            .zip(dx.chunks_exact_mut(weights.inputs))
        {
            for tile in 0..tiles {
                input_gradient_tile::<4>(weights, 4 * tile, dz, dx);
            }
            for input in 4 * tiles..weights.inputs {
                input_gradient_tile::<1>(weights, input, dz, dx);
            }
        }
    }
}

/// Computes the gradients of the inputs `first..first + T` of one group.
///
/// Each column of the weights is a slice of its own: with the T weights side by side in one slice,
/// the compiler makes vectors of them instead of the samples, and takes 36 times as long.
#[inline(always)]
fn input_gradient_tile<const T: usize>(
    weights: Weights<&[f32]>,
    first: usize,
    dz: &[Block],
    dx: &mut [Block],
) {
    let mut columns: [&[f32]; T] = [&[]; T];
    let mut sums = [[0f32; LANES]; T];
    for t in 0..T {
        columns[t] = &weights.values[weights.first_input + first + t..];
    }
    for (output, dz) in dz.iter().enumerate() {
        for t in 0..T {
            let weight = columns[t][output * weights.stride];
            for i in 0..LANES {
                sums[t][i] += weight * dz.0[i];
            }
        }
    }
    for t in 0..T {
        dx[first + t].0 = sums[t];
    }
}

per_instruction_set! {
    /// Sets the gradient of `weights` to the sum of `dz x^T` over all samples, and that of the bias,
    /// which has an entry for each output, to the sum of `dz`.
    ///
    /// Sums have sixteen partial sums, one for each lane, that go through the groups in ascending
    /// order and are then added as one tree ([`quad_sum`]).
    pub(crate) fn weight_gradient(
        x: &[Block],
        dz: &[Block],
        weights: &mut Weights<&mut [f32]>,
        bias: &mut [f32],
    ) {
        let outputs = bias.len();
        for (output, bias) in bias.iter_mut().enumerate() {
            let mut sum = [0f32; LANES];
            for dz in dz.chunks_exact(outputs) {
                add_product(&mut sum, &dz[output].0, &[1.0; LANES]);
            }
            *bias = quad_sum(&sum);
        }
        let tiles = outputs / 2;
        for tile in 0..tiles {
            weight_gradient_rows::<2>(x, dz, outputs, 2 * tile, weights);
        }
        for output in 2 * tiles..outputs {
            weight_gradient_rows::<1>(x, dz, outputs, output, weights);
        }
    }
}

#[inline(always)]
fn weight_gradient_rows<const T: usize>(
    x: &[Block],
    dz: &[Block],
    outputs: usize,
    output: usize,
    weights: &mut Weights<&mut [f32]>,
) {
    let tiles = weights.inputs / 2;
    for tile in 0..tiles {
        weight_gradient_tile::<T, 2>(x, dz, outputs, output, 2 * tile, weights);
    }
    for input in 2 * tiles..weights.inputs {
        weight_gradient_tile::<T, 1>(x, dz, outputs, output, input, weights);
    }
}

/// Computes the gradient of T x S weights, whose sums stay in registers.
#[inline(always)]
fn weight_gradient_tile<const T: usize, const S: usize>(
    x: &[Block],
    dz: &[Block],
    outputs: usize,
    output: usize,
    input: usize,
    weights: &mut Weights<&mut [f32]>,
) {
    let mut sums = [[[0f32; LANES]; S]; T];
    for (x, dz) in x.chunks_exact(weights.inputs).zip(dz.chunks_exact(outputs)) {
        let (x, dz) = (&x[input..input + S], &dz[output..output + T]);
        for t in 0..T {
            for s in 0..S {
                add_product(&mut sums[t][s], &dz[t].0, &x[s].0);
            }
        }
    }
    for t in 0..T {
        let start = (output + t) * weights.stride + weights.first_input + input;
        for s in 0..S {
            weights.values[start + s] = quad_sum(&sums[t][s]);
        }
    }
}

#[inline(always)]
fn add_product(sum: &mut Lanes, a: &Lanes, b: &Lanes) {
    for i in 0..LANES {
        sum[i] += a[i] * b[i];
    }
}

per_instruction_set! {
    /// Adds `factor` times `x` to `y`, element by element, for outer products and transposed products
    /// of one sample.
    pub fn add_scaled(factor: f32, x: &[f32], y: &mut [f32]) {
        for (y, x) in y.iter_mut().zip(x) {
            *y += factor * x;
        }
    }
}

per_instruction_set! {
    /// Adds the product of `left` (rows x `inner`) and `right` (`inner` x columns), both row-major, to
    /// `product` (rows x columns). Each sum goes through the inner dimension in ascending order.
    pub fn multiply(left: &[f32], right: &[f32], inner: usize, product: &mut [f32]) {
        let columns = right.len() / inner;
        for (row, factors) in product
            .chunks_exact_mut(columns)
            .zip(left.chunks_exact(inner))
        {
            let (blocks, rest) = row.as_chunks_mut::<LANES>();
            let bases = || factors.iter().zip(right.chunks_exact(columns));
            for (number, block) in blocks.iter_mut().enumerate() {
                // The sums stay in a register until all factors are in them.
                let mut sums = *block;
                for (factor, basis) in bases() {
                    add_product(&mut sums, &[*factor; LANES], &basis.as_chunks().0[number]);
                }
                *block = sums;
            }
            let from = columns - rest.len();
            for (factor, basis) in bases() {
                for (value, basis) in rest.iter_mut().zip(&basis[from..]) {
                    *value += factor * basis;
                }
            }
        }
    }
}

per_instruction_set! {
    /// Returns the scalar product of `x` and `y`, in sixteen partial sums and one tree.
    pub fn dot(x: &[f32], y: &[f32]) -> f32 {
        let ((x, x_rest), (y, y_rest)) = (x.as_chunks::<LANES>(), y.as_chunks::<LANES>());
        let mut sums = [0f32; LANES];
        for (x, y) in x.iter().zip(y) {
            add_product(&mut sums, x, y);
        }
        for (sum, (x, y)) in sums.iter_mut().zip(x_rest.iter().zip(y_rest)) {
            *sum += x * y;
        }
        quad_sum(&sums)
    }
}

per_instruction_set! {
    /// Back-propagates the gradient `dz` of one output through its weights, for a single sample `x`:
    /// adds `dz` times the sample to `gradient`, and `dz` times the weights to `dx`. Returns the scalar
    /// product of weights and sample, as [`dot`] does.
    ///
    /// All slices have the same length. It reads them once, where [`dot`] and two times [`add_scaled`]
    /// would do so twice.
    pub fn backward_output(
        dz: f32,
        weights: &[f32],
        x: &[f32],
        gradient: &mut [f32],
        dx: &mut [f32],
    ) -> f32 {
        let ((weights, weights_rest), (x, x_rest)) =
            (weights.as_chunks::<LANES>(), x.as_chunks::<LANES>());
        let ((gradient, gradient_rest), (dx, dx_rest)) = (
            gradient.as_chunks_mut::<LANES>(),
            dx.as_chunks_mut::<LANES>(),
        );
        let mut sums = [0f32; LANES];
        for (((weights, x), gradient), dx) in weights.iter().zip(x).zip(gradient).zip(dx) {
            add_product(&mut sums, weights, x);
            add_product(gradient, &[dz; LANES], x);
            add_product(dx, &[dz; LANES], weights);
        }
        let rest = weights_rest
            .iter()
            .zip(x_rest)
            .zip(gradient_rest)
            .zip(dx_rest);
        for (sum, (((weight, x), gradient), dx)) in sums.iter_mut().zip(rest) {
            *sum += weight * x;
            *gradient += dz * x;
            *dx += dz * weight;
        }
        quad_sum(&sums)
    }
}

per_instruction_set! {
    /// Back-propagates through a rectifier, by setting the gradient to zero wherever the rectified
    /// activation is zero.
    pub(crate) fn rectifier_gradient(activations: &[Block], gradient: &mut [Block]) {
        for (gradient, activation) in gradient.iter_mut().zip(activations) {
            let mut next = [0.0; LANES];
            for i in 0..LANES {
                // A mask, since the compiler makes a branch of a choice, which is as often
                // predicted wrongly as not.
                let kept = u32::from(activation.0[i] != 0.0).wrapping_neg();
                next[i] = f32::from_bits(gradient.0[i].to_bits() & kept);
            }
            gradient.0 = next;
            end_of_block();
        }
    }
}
