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
    add(matrix, rows, weights, Threads::One);
}

/// Adds the scalar product of each pair of rows of `vectors` (n x k) to the upper triangle of
/// `matrix` (n x n), by all threads of the caller's pool. The bits are those of one thread.
///
/// The caller's thread may do other work of the pool meanwhile, for which it must not hold memory.
///
/// # Panics
/// If `matrix` has another shape, a defect of the caller.
pub fn add_pair_products(matrix: &mut Array2<f64>, vectors: &ArrayView2<'_, f64>) {
    add(matrix, &vectors.t(), None, Threads::Pool);
}

fn add(
    matrix: &mut Array2<f64>,
    rows: &ArrayView2<'_, f64>,
    weights: Option<&[f64]>,
    threads: Threads,
) {
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
    .add_to(matrix.view_mut(), Part::Upper, threads);
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
