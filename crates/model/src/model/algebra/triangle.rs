//! Packs the upper triangles of square matrices, which is how they travel.

use ndarray::Array2;

use super::{AlgebraError, Result};

/// Returns the number of values in the upper triangle of a k x k matrix.
pub const fn triangle_values(dimension: usize) -> usize {
    dimension * (dimension + 1) / 2
}

/// Returns the upper triangle of a square matrix, row after row, in single precision, which is the
/// form in which it travels.
pub fn packed_triangle(matrix: &Array2<f64>) -> Vec<f32> {
    let upper = matrix
        .indexed_iter()
        .filter(|((row, column), _)| row <= column);
    upper.map(|(_, value)| *value as f32).collect()
}

/// Returns the k x k matrix with this upper triangle, and zeros below the diagonal.
///
/// # Errors
/// [`AlgebraError::Shape`] if there are not k (k + 1) / 2 values.
pub fn unpacked_triangle(values: &[f32], dimension: usize) -> Result<Array2<f64>> {
    if values.len() != triangle_values(dimension) {
        return Err(AlgebraError::Shape {
            what: "a packed triangle",
            rows: values.len(),
            columns: 1,
        });
    }
    Ok(upper_triangular(
        values.iter().map(|value| f64::from(*value)),
        dimension,
    ))
}

/// Returns the k x k matrix whose upper triangle has these values, row after row, with zeros below
/// the diagonal.
pub fn upper_triangular(values: impl Iterator<Item = f64>, dimension: usize) -> Array2<f64> {
    let mut matrix = Array2::zeros((dimension, dimension));
    let places = matrix
        .indexed_iter_mut()
        .filter(|((row, column), _)| row <= column);
    places
        .zip(values)
        .for_each(|((_, place), value)| *place = value);
    matrix
}
