//! Implements dense linear algebra of small matrices in double precision, with the same bits on
//! every machine.
//!
//! Least-squares, spectral and second-order methods need a handful of routines on matrices of up to
//! about 128 columns. Every sum here has a fixed order, nothing uses a fused multiply-add, and the
//! only function beyond arithmetic is the correctly rounded square root, so that results do not
//! depend on the processor (contract 1). Arguments are `ndarray` arrays. The products of `ndarray`
//! are not called, because they choose their instructions by processor.
//!
//! [`cholesky`] solves positive definite systems and inverts their matrices, which [`gram`] adds up
//! from rows. [`eigen`] and [`svd`] decompose by Jacobi rotations, [`qr`] makes columns
//! orthonormal, [`product`] multiplies matrices, and [`nystroem`] finds leading eigenvectors.
//!
//! Symmetric matrices are described by their upper triangle. Elements below the diagonal are not
//! read, except where a function says so.

mod arrays;
pub mod cholesky;
pub mod eigen;
pub mod gram;
pub mod nystroem;
pub mod product;
pub mod qr;
mod svd;
#[cfg(test)]
mod tests;
pub mod triangle;
mod vector;

pub(crate) use vector::mixed_dot;

/// Says why a matrix cannot be factorised, decomposed or multiplied.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AlgebraError {
    /// Dimensions do not fit each other, or the elements of an array are not stored row after row.
    #[error(
        "{what}: {rows} x {columns} is not the shape that is needed here, or its rows are not contiguous"
    )]
    Shape {
        /// The array.
        what: &'static str,
        /// The number of its rows.
        rows: usize,
        /// The number of its columns.
        columns: usize,
    },
    /// An element is infinite or not a number.
    #[error("{what} has an element that is infinite or not a number")]
    NotFinite {
        /// The array.
        what: &'static str,
    },
    /// A matrix is not positive definite in double precision.
    #[error("the matrix is not positive definite: pivot {pivot} is {value:e}")]
    NotPositiveDefinite {
        /// The row of the pivot, from zero.
        pivot: usize,
        /// The value of the pivot, which is not a finite number above zero.
        value: f64,
    },
    /// Jacobi rotations did not converge.
    #[error("no convergence within {sweeps} sweeps of Jacobi rotations")]
    NoConvergence {
        /// The number of sweeps that were made.
        sweeps: usize,
    },
}

impl AlgebraError {
    pub(super) fn shape(what: &'static str, (rows, columns): (usize, usize)) -> Self {
        Self::Shape {
            what,
            rows,
            columns,
        }
    }
}

/// Is the result of an operation of the algebra.
pub type Result<T, E = AlgebraError> = std::result::Result<T, E>;
