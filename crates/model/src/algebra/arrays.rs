//! Gives access to arrays as plain memory.

use ndarray::{Array2, ArrayView2, ArrayViewMut2};

use super::{AlgebraError, Result};

/// Returns the elements of a square matrix, row after row, and its dimension.
///
/// # Panics
/// If it is not square, or stored column by column. Both are defects of the caller.
pub(super) fn square_mut(matrix: &mut Array2<f64>) -> (&mut [f64], usize) {
    let (rows, columns) = matrix.dim();
    assert_eq!(rows, columns, "the matrix has to be square");
    (row_after_row(matrix.as_slice_mut()), rows)
}

/// Returns the elements of a matrix, which `as_slice` has if they are stored row after row.
///
/// # Panics
/// If they are not, a defect of the caller.
pub(super) fn row_after_row<E>(elements: Option<E>) -> E {
    elements.unwrap_or_else(|| panic!("a matrix is not stored row after row"))
}

/// Returns the rows of a matrix, each of which must be stored element after element.
pub(super) fn slices_of_rows<'a>(matrix: &'a mut ArrayViewMut2<'_, f64>) -> Vec<&'a mut [f64]> {
    let rows = matrix.rows_mut().into_iter();
    rows.map(|row| row_after_row(row.into_slice())).collect()
}

/// Refuses a matrix with an element that is infinite or not a number.
///
/// # Errors
/// [`AlgebraError::NotFinite`] for such a matrix.
pub(super) fn check_finite(matrix: &ArrayView2<'_, f64>) -> Result<()> {
    let is_finite = matrix.iter().all(|value| value.is_finite());
    is_finite.then_some(()).ok_or(AlgebraError::NotFinite)
}

/// Returns the elements of the identity matrix of this size.
pub(super) fn identity(size: usize) -> Vec<f64> {
    let mut elements = vec![0.0; size * size];
    elements
        .iter_mut()
        .step_by(size + 1)
        .for_each(|value| *value = 1.0);
    elements
}

/// Returns two different rows of `elements`, each of `length` elements. `first` must be less than
/// `second`.
#[inline(always)]
pub(super) fn two_rows(
    elements: &mut [f64],
    length: usize,
    first: usize,
    second: usize,
) -> (&mut [f64], &mut [f64]) {
    let (head, tail) = elements.split_at_mut(second * length);
    (
        &mut head[first * length..(first + 1) * length],
        &mut tail[..length],
    )
}

/// Returns the matrix whose row i is row `order[i]` of `elements`, whose rows have `length`
/// elements.
pub(super) fn rows_in_order(elements: &[f64], length: usize, order: &[usize]) -> Array2<f64> {
    Array2::from_shape_fn((order.len(), length), |(row, column)| {
        elements[order[row] * length + column]
    })
}

/// Returns the positions of `values` in descending order of value. Equal values keep their order.
pub(super) fn descending(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[b].total_cmp(&values[a]));
    order
}

/// Returns the sign, 1 or -1, that makes the element of largest magnitude positive. The first of
/// equal ones decides.
pub(super) fn sign_of_largest(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut largest = 0.0f64;
    for value in values {
        if value.abs() > largest.abs() {
            largest = value;
        }
    }
    if largest < 0.0 { -1.0 } else { 1.0 }
}
