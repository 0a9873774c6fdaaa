//! Multiplies matrices.

use ndarray::{Array2, ArrayView2};

use super::arrays::row_after_row;
use super::vector::add_scaled;
use crate::per_instruction_set;

/// Returns A B for A (m x k) and B (k x n). Every element is summed in the order of k.
///
/// # Panics
/// If the shapes do not fit, or if the elements are not stored row after row. Both are defects of
/// the caller.
pub fn product(a: &ArrayView2<'_, f64>, b: &ArrayView2<'_, f64>) -> Array2<f64> {
    summed(a, b, a.dim(), add_products)
}

/// Returns A^T B for A (m x k) and B (m x n). Every element is summed in the order of m.
///
/// # Panics
/// As [`product`].
pub(super) fn transposed_product(a: &ArrayView2<'_, f64>, b: &ArrayView2<'_, f64>) -> Array2<f64> {
    let (rows, columns) = a.dim();
    summed(a, b, (columns, rows), add_transposed_products)
}

/// Sums products of the elements of `a`, which counts as a matrix of `rows` x `inner`, and `b`. `add`
/// takes the result, both factors, and the lengths of the rows of `a` and `b`.
fn summed(
    a: &ArrayView2<'_, f64>,
    b: &ArrayView2<'_, f64>,
    (rows, inner): (usize, usize),
    add: impl Fn(&mut [f64], &[f64], &[f64], usize, usize),
) -> Array2<f64> {
    assert_eq!(b.nrows(), inner, "the rows of the right factor");
    let (left, right) = (row_after_row(a.as_slice()), row_after_row(b.as_slice()));
    let mut result = Array2::zeros((rows, b.ncols()));
    if !left.is_empty()
        && !right.is_empty()
        && let Some(result) = result.as_slice_mut()
    {
        add(result, left, right, a.ncols(), b.ncols());
    }
    result
}

per_instruction_set! {
    fn add_products(result: &mut [f64], a: &[f64], b: &[f64], inner: usize, columns: usize) {
        for (line, a) in result.chunks_exact_mut(columns).zip(a.chunks_exact(inner)) {
            for (factor, b) in a.iter().zip(b.chunks_exact(columns)) {
                add_scaled(line, *factor, b);
            }
        }
    }
}

per_instruction_set! {
    fn add_transposed_products(result: &mut [f64], a: &[f64], b: &[f64], columns: usize, width: usize) {
        for (a, b) in a.chunks_exact(columns).zip(b.chunks_exact(width)) {
            for (line, factor) in result.chunks_exact_mut(width).zip(a) {
                add_scaled(line, *factor, b);
            }
        }
    }
}
