//! Adds up outer products, for normal equations and Gram matrices.

use ndarray::{Array2, ArrayView2};

use super::arrays::{row_after_row, square_mut};
use crate::per_instruction_set;

/// Adds the sum over r of `w_r x_r x_r^T` to the upper triangle of `matrix` (k x k), where x_r is
/// row r of `rows` (n x k). This is a symmetric update of rank n. Without weights every w_r is 1.
///
/// The bits are those of n updates of rank one, in the order of the rows.
///
/// # Panics
/// If the rows do not have k elements, or if there are not as many weights as rows. Both are defects
/// of the caller.
pub fn add_gram(matrix: &mut Array2<f64>, rows: &ArrayView2<'_, f64>, weights: Option<&[f64]>) {
    let (target, dimension) = square_mut(matrix);
    let count = weights.map_or(rows.nrows(), <[f64]>::len);
    assert_eq!(rows.dim(), (count, dimension), "the shape of the rows");
    add_rows(target, dimension, row_after_row(rows.as_slice()), weights);
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

per_instruction_set! {
    /// Adds four rows at a time, so that the triangle is loaded and stored a quarter as often. The sums
    /// keep their order.
    fn add_rows(target: &mut [f64], dimension: usize, rows: &[f64], weights: Option<&[f64]>) {
        if dimension == 0 {
            return;
        }
        let weight = |row: usize| weights.map_or(1.0, |weights| weights[row]);
        let mut groups = rows.chunks_exact(4 * dimension);
        let mut row = 0;
        for group in &mut groups {
            let x: [&[f64]; 4] =
                std::array::from_fn(|r| &group[r * dimension..(r + 1) * dimension]);
            let w: [f64; 4] = std::array::from_fn(|r| weight(row + r));
            for i in 0..dimension {
                let factor: [f64; 4] = std::array::from_fn(|r| w[r] * x[r][i]);
                let line = &mut target[i * dimension + i..(i + 1) * dimension];
                let [a, b, c, d] = x.map(|x| &x[i..]);
                for ((((t, a), b), c), d) in line.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                    *t = (((*t + factor[0] * a) + factor[1] * b) + factor[2] * c) + factor[3] * d;
                }
            }
            row += 4;
        }
        for x in groups.remainder().chunks_exact(dimension) {
            for i in 0..dimension {
                let factor = weight(row) * x[i];
                super::vector::add_scaled(
                    &mut target[i * dimension + i..(i + 1) * dimension],
                    factor,
                    &x[i..],
                );
            }
            row += 1;
        }
    }
}
