//! Computes eigenvalues and eigenvectors of symmetric matrices.

use ndarray::{Array1, Array2, ArrayView2};

use super::Result;
use super::arrays::{check_finite, descending, identity, rows_in_order, sign_of_largest, two_rows};
use super::vector::{jacobi_angle, rotate, sweep};
use crate::per_instruction_set;

/// Holds a symmetric matrix as Q diag(values) Q^T.
#[derive(Clone, Debug, PartialEq)]
pub struct SymmetricEigen {
    /// The eigenvalues, in descending order.
    pub values: Array1<f64>,
    /// Q^T, whose row i is the eigenvector of `values[i]`, of length one and with its element of
    /// largest magnitude positive.
    pub vectors: Array2<f64>,
}

/// The share of the largest eigenvalue that counts as rounding, also of single precision.
pub(super) const ROUNDING_SHARE: f64 = 1e-6;

impl SymmetricEigen {
    /// Returns the noise level, or the error of a codec, in a matrix that would otherwise have no
    /// negative eigenvalue: the magnitude of the most negative one, or 0 if that is within
    /// rounding.
    #[must_use]
    pub fn noise(&self) -> f64 {
        let (Some(largest), Some(least)) = (self.values.first(), self.values.last()) else {
            return 0.0;
        };
        if -least > ROUNDING_SHARE * largest {
            -least
        } else {
            0.0
        }
    }
}

/// Decomposes the symmetric matrix whose upper triangle is that of `matrix` (k x k), by cyclic
/// Jacobi rotations (Golub and Van Loan, Matrix Computations, section 8.5).
///
/// An eigenvalue is exact to a few units of rounding of the one of largest magnitude. Costs about 4
/// k^3 multiply-adds a sweep, and about ten sweeps.
///
/// # Errors
/// [`NotFinite`](super::AlgebraError::NotFinite) for an element that is not a finite number, and
/// [`NoConvergence`](super::AlgebraError::NoConvergence) if rotations do not converge, which no matrix is known to cause.
///
/// # Panics
/// If the matrix is not square, a defect of the caller.
pub fn symmetric_eigen(matrix: &ArrayView2<'_, f64>) -> Result<SymmetricEigen> {
    let (rows, columns) = matrix.dim();
    assert_eq!(rows, columns, "the matrix to decompose has to be square");
    check_finite(matrix)?;
    let mut work: Vec<f64> = Vec::with_capacity(rows * rows);
    for i in 0..rows {
        work.extend((0..rows).map(|j| matrix[(i.min(j), i.max(j))]));
    }
    let mut vectors = identity(rows);
    make_diagonal(&mut work, &mut vectors, rows)?;
    let diagonal: Vec<f64> = work.iter().step_by(rows + 1).copied().collect();
    let order = descending(&diagonal);
    let mut vectors = rows_in_order(&vectors, rows, &order);
    for mut row in vectors.rows_mut() {
        let sign = sign_of_largest(row.iter().copied());
        row.mapv_inplace(|value| sign * value);
    }
    Ok(SymmetricEigen {
        values: order.iter().map(|&position| diagonal[position]).collect(),
        vectors,
    })
}

per_instruction_set! {
    /// Rotates until no element off the diagonal is above the rounding of the matrix.
    fn make_diagonal(work: &mut [f64], vectors: &mut [f64], dimension: usize) -> Result<()> {
        let squares: f64 = work.iter().map(|value| value * value).sum();
        let negligible = f64::EPSILON * squares.sqrt() / dimension.max(1) as f64;
        sweep(dimension, #[inline(always)] |p, q| {
            let off = work[p * dimension + q];
            let is_rotated = off.abs() > negligible;
            if is_rotated {
                rotate_pair(work, vectors, dimension, (p, q), off);
            }
            is_rotated
        })
    }
}

/// Rotates rows and columns p and q, so that the elements (p, q) and (q, p), which are `off`,
/// become zero.
#[inline(always)]
fn rotate_pair(
    work: &mut [f64],
    vectors: &mut [f64],
    dimension: usize,
    (p, q): (usize, usize),
    off: f64,
) {
    let (first, second) = (work[p * dimension + p], work[q * dimension + q]);
    let (tangent, cosine, sine) = jacobi_angle(first, off, second);
    let (row_p, row_q) = two_rows(work, dimension, p, q);
    rotate(row_p, row_q, cosine, sine);
    (row_p[p], row_p[q]) = (first - tangent * off, 0.0);
    (row_q[p], row_q[q]) = (0.0, second + tangent * off);
    // The columns are copied from the rows, which keeps the matrix symmetric to the bit.
    for i in (0..dimension).filter(|&i| i != p && i != q) {
        work[i * dimension + p] = work[p * dimension + i];
        work[i * dimension + q] = work[q * dimension + i];
    }
    let (vector_p, vector_q) = two_rows(vectors, dimension, p, q);
    rotate(vector_p, vector_q, cosine, sine);
}
