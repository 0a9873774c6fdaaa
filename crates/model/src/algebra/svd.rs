//! Computes singular values and left singular vectors of matrices with at most about 128 columns.

use ndarray::{Array2, ArrayView2};

use super::Result;
use super::arrays::{descending, rows_in_order, sign_of_largest, two_rows};
use super::product::product;
use super::qr::thin_qr;
use super::vector::{add_scaled, dot, jacobi_angle, rotate, sweep};
use crate::per_instruction_set;

/// Returns the left singular vectors of `matrix` (m x r, m at least r) as orthonormal columns (m x
/// r), and the singular values, in descending order. The element of largest magnitude of every
/// column is positive.
///
/// It rotates the columns of R of a QR decomposition until they are orthogonal (one-sided Jacobi
/// rotations; Golub and Van Loan, Matrix Computations, section 8.6.3). Costs 4 m r^2 multiply-adds
/// and about ten sweeps of 2 r^3. Squares of elements must neither overflow nor all vanish.
///
/// # Errors
/// [`NotFinite`](super::AlgebraError::NotFinite) for an element that is not a finite number, and
/// [`NoConvergence`](super::AlgebraError::NoConvergence) if rotations do not converge, which no matrix is known to cause.
///
/// # Panics
/// If there are fewer rows than columns, a defect of the caller.
pub(super) fn left_singular_vectors(
    matrix: &ArrayView2<'_, f64>,
) -> Result<(Array2<f64>, Vec<f64>)> {
    let size = matrix.ncols();
    let qr = thin_qr(matrix)?;
    let mut columns: Vec<f64> = qr.r.t().iter().copied().collect();
    make_orthogonal(&mut columns, size)?;
    let rounding = rounding_squared(&columns);
    let length = |column: &[f64]| {
        Some(dot(column, column))
            .filter(|square| *square > rounding)
            .map_or(0.0, f64::sqrt)
    };
    let lengths: Vec<f64> = columns.chunks_exact(size.max(1)).map(length).collect();
    let order = descending(&lengths);
    let values: Vec<f64> = order.iter().map(|&position| lengths[position]).collect();
    let mut left = rows_in_order(&columns, size, &order);
    normalise_rows(&mut left, &values);
    let mut vectors = product(&qr.q.view(), &left.t().as_standard_layout().view());
    for mut column in vectors.columns_mut() {
        let sign = sign_of_largest(column.iter().copied());
        column.mapv_inplace(|value| sign * value);
    }
    Ok((vectors, values))
}

/// Returns the largest squared length of a column of pure rounding error. The squares of such
/// columns may vanish, so that they never become orthogonal to others.
fn rounding_squared(columns: &[f64]) -> f64 {
    dot(columns, columns) * (f64::EPSILON * f64::EPSILON) * (f64::EPSILON * f64::EPSILON)
}

per_instruction_set! {
    /// Rotates pairs of columns until all of them are orthogonal to rounding.
    fn make_orthogonal(columns: &mut [f64], size: usize) -> Result<()> {
        let negligible = f64::EPSILON * size as f64;
        let rounding = rounding_squared(columns);
        sweep(size, #[inline(always)] |p, q| {
            let (x, y) = two_rows(columns, size, p, q);
            let (xx, xy, yy) = (dot(x, x), dot(x, y), dot(y, y));
            let is_rotated =
                xx.min(yy) > rounding && xy.abs() > negligible * (xx.sqrt() * yy.sqrt());
            if is_rotated {
                let (_, cosine, sine) = jacobi_angle(xx, xy, yy);
                rotate(x, y, cosine, sine);
            }
            is_rotated
        })
    }
}

/// Divides every row by its length. A row of length zero, which the matrix does not determine, is
/// replaced: of the unit vectors made orthogonal to the rows before, it becomes the first that is
/// long enough to be normalised safely.
fn normalise_rows(rows: &mut Array2<f64>, lengths: &[f64]) {
    let size = rows.ncols();
    for (index, &own) in lengths.iter().enumerate() {
        if own > 0.0 {
            rows.row_mut(index).mapv_inplace(|value| value / own);
            continue;
        }
        for axis in 0..size {
            let mut candidate = vec![0.0; size];
            candidate[axis] = 1.0;
            // Two passes make the candidate orthogonal to rounding.
            for _ in 0..2 {
                for earlier in 0..index {
                    let other = rows.row(earlier).to_vec();
                    let factor = -dot(&other, &candidate);
                    add_scaled(&mut candidate, factor, &other);
                }
            }
            let length = dot(&candidate, &candidate).sqrt();
            // Some axis has at least this length outside a space of fewer than `size` dimensions.
            if length > 0.5 / (size as f64).sqrt() {
                rows.row_mut(index)
                    .iter_mut()
                    .zip(candidate)
                    .for_each(|(to, value)| *to = value / length);
                break;
            }
        }
    }
}
