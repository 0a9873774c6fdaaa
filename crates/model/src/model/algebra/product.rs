//! Multiplies matrices.

use ndarray::{Array2, ArrayView2};

use super::arrays::elements;
use super::vector::add_scaled;
use super::{AlgebraError, Result};
use crate::per_instruction_set;

/// Returns A B for A (m x k) and B (k x n). Every element is summed in the order of k.
///
/// # Errors
/// [`AlgebraError::Shape`] if the shapes do not fit, or if the elements are not stored row after
/// row.
pub fn product(a: &ArrayView2<'_, f64>, b: &ArrayView2<'_, f64>) -> Result<Array2<f64>> {
    let ((rows, inner), (other, columns)) = (a.dim(), b.dim());
    if inner != other {
        return Err(AlgebraError::shape(
            "the right factor of a product",
            (other, columns),
        ));
    }
    let mut result = Array2::zeros((rows, columns));
    let (a, b) = (
        elements(a, "the left factor of a product")?,
        elements(b, "the right factor of a product")?,
    );
    if let Some(result) = result.as_slice_mut().filter(|_| columns > 0 && inner > 0) {
        add_products(result, a, b, inner, columns);
    }
    Ok(result)
}

/// Returns A^T B for A (m x k) and B (m x n). Every element is summed in the order of m.
///
/// # Errors
/// [`AlgebraError::Shape`] if the shapes do not fit, or if the elements are not stored row after
/// row.
pub fn transposed_product(a: &ArrayView2<'_, f64>, b: &ArrayView2<'_, f64>) -> Result<Array2<f64>> {
    let ((rows, columns), (other, width)) = (a.dim(), b.dim());
    if rows != other {
        return Err(AlgebraError::shape(
            "the right factor of a transposed product",
            (other, width),
        ));
    }
    let mut result = Array2::zeros((columns, width));
    let (a, b) = (
        elements(a, "the left factor of a product")?,
        elements(b, "the right factor of a product")?,
    );
    if let Some(result) = result.as_slice_mut().filter(|_| columns > 0 && width > 0) {
        add_transposed_products(result, a, b, columns, width);
    }
    Ok(result)
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
