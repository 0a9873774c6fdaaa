//! Packs the upper triangles of square matrices, which is how they travel.

use ndarray::Array2;

use super::arrays::square_mut;

/// Returns the number of values in the upper triangle of a k x k matrix.
pub const fn triangle_values(dimension: usize) -> usize {
    dimension * (dimension + 1) / 2
}

/// Returns the upper triangle of a square matrix, row after row, in single precision, as it is
/// sent.
pub fn packed_triangle(matrix: &Array2<f64>) -> Vec<f32> {
    let upper = matrix
        .indexed_iter()
        .filter(|((row, column), _)| row <= column);
    upper.map(|(_, value)| *value as f32).collect()
}

/// Returns the k x k matrix whose upper triangle has these values, row after row, with zeros below
/// the diagonal.
///
/// # Panics
/// If there are not k (k + 1) / 2 values, a defect of the caller.
pub fn upper_triangular<V: Copy + Into<f64>>(values: &[V], dimension: usize) -> Array2<f64> {
    assert_eq!(
        values.len(),
        triangle_values(dimension),
        "the values of a triangle"
    );
    let mut matrix = Array2::zeros((dimension, dimension));
    write_triangle(&mut matrix, values, |value| (*value).into());
    matrix
}

/// Writes what `of` makes of these values, row after row, to the upper triangle of a square matrix.
pub(crate) fn write_triangle<V>(matrix: &mut Array2<f64>, values: &[V], of: impl Fn(&V) -> f64) {
    let (elements, dimension) = square_mut(matrix);
    let mut rest = values;
    for (at, row) in elements.chunks_exact_mut(dimension.max(1)).enumerate() {
        let (own, others) = rest.split_at(dimension - at);
        let places = row[at..].iter_mut().zip(own);
        places.for_each(|(place, value)| *place = of(value));
        rest = others;
    }
}
