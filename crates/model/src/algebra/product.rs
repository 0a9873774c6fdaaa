//! Multiplies matrices.

use ndarray::{Array2, ArrayView2};

use super::blocked::{Factors, Part, Threads, whole_columns};

/// Returns A B for A (m x k) and B (k x n). Every element is summed in the order of k.
///
/// # Panics
/// If the shapes do not fit, a defect of the caller.
pub fn product(a: &ArrayView2<'_, f64>, b: &ArrayView2<'_, f64>) -> Array2<f64> {
    product_by(Threads::One, a, b)
}

/// Returns the bits of [`product`], by all threads of the caller's pool. Its thread may do other work
/// of the pool meanwhile, for which it must not hold memory.
///
/// # Panics
/// As [`product`].
pub fn product_by_pool(a: &ArrayView2<'_, f64>, b: &ArrayView2<'_, f64>) -> Array2<f64> {
    product_by(Threads::Pool, a, b)
}

fn product_by(threads: Threads, a: &ArrayView2<'_, f64>, b: &ArrayView2<'_, f64>) -> Array2<f64> {
    let mut result = Array2::zeros((a.nrows(), b.ncols()));
    Factors {
        left: *a,
        sign: 1.0,
        right: *b,
        first: whole_columns,
    }
    .add_to(result.view_mut(), Part::Whole, threads);
    result
}

/// Returns A^T B for A (m x k) and B (m x n). Every element is summed in the order of m.
///
/// # Panics
/// As [`product`].
pub(super) fn transposed_product(a: &ArrayView2<'_, f64>, b: &ArrayView2<'_, f64>) -> Array2<f64> {
    product(&a.t(), b)
}
