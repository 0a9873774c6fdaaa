//! Adds up outer products, for normal equations and Gram matrices.

use ndarray::{Array2, ArrayView2, Axis, aview1};

use super::arrays::square_mut;
use super::blocked::{Factors, Part, Threads, whole_columns};

/// Adds the sum over r of `w_r x_r x_r^T` to the upper triangle of `matrix` (k x k), where x_r is
/// row r of `rows` (n x k). This is a symmetric update of rank n. Without weights every w_r is 1.
///
/// The bits are those of n updates of rank one, in the order of the rows.
///
/// # Panics
/// If the rows do not have k elements, or if there are not as many weights as rows. Both are defects
/// of the caller.
pub fn add_gram(matrix: &mut Array2<f64>, rows: &ArrayView2<'_, f64>, weights: Option<&[f64]>) {
    let count = weights.map_or(rows.nrows(), <[f64]>::len);
    let shape = (count, matrix.ncols());
    assert_eq!(rows.dim(), shape, "the shape of the rows");
    let weighted = weights.map(|weights| rows * &aview1(weights).insert_axis(Axis(1)));
    Factors {
        left: weighted
            .as_ref()
            .map_or(*rows, |rows| rows.view())
            .reversed_axes(),
        sign: 1.0,
        right: *rows,
        first: whole_columns,
    }
    .add_to(matrix.view_mut(), Part::Upper, Threads::One);
}

/// Copies the upper triangle of a square matrix to the lower one.
///
/// # Panics
/// If it is not square, a defect of the caller.
pub fn mirror_upper(matrix: &mut Array2<f64>) {
    let (elements, dimension) = square_mut(matrix);
    for row in 1..dimension {
        for column in 0..row {
            elements[row * dimension + column] = elements[column * dimension + row];
        }
    }
}
