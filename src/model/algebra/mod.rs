//! Dense linear algebra of small matrices in double precision: the same bits on every machine.
//!
//! Least-squares, spectral and second-order methods need a handful of routines on matrices of up to about 128 columns.
//! Every sum here has a fixed order, nothing uses a fused multiply-add, and the only function beyond arithmetic is the
//! correctly rounded square root, so results do not depend on the processor (contract 1). `ndarray` is the type of the
//! arguments; its own products are not called, because they choose their instructions by processor.
//!
//! [`cholesky`] solves positive definite systems, which [`gram`] adds up from rows; [`eigen`] and [`svd`] decompose
//! by Jacobi rotations; [`qr`] makes columns orthonormal; [`product`] multiplies.
//!
//! Symmetric matrices are described by their upper triangle: what stands below the diagonal is not read, except where a
//! function says so.

mod arrays;
pub mod cholesky;
pub mod eigen;
pub mod gram;
pub mod product;
pub mod qr;
pub mod svd;
#[cfg(test)]
mod tests;
mod vector;

pub use vector::mixed_dot;

/// What keeps a matrix from being factorised, decomposed or multiplied.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AlgebraError {
    /// Dimensions do not fit each other, or the elements of an array do not stand row after row.
    #[error("{what}: {rows} x {columns} is not the shape that is needed here, or its rows are not contiguous")]
    Shape {
        /// The array.
        what: &'static str,
        /// Its rows.
        rows: usize,
        /// Its columns.
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
        /// Row of the pivot, from zero.
        pivot: usize,
        /// The pivot, which is not above zero.
        value: f64,
    },
    /// Jacobi rotations did not end.
    #[error("no convergence within {sweeps} sweeps of Jacobi rotations")]
    NoConvergence {
        /// How many sweeps were made.
        sweeps: usize,
    },
}

/// Result of the algebra.
pub type Result<T, E = AlgebraError> = std::result::Result<T, E>;
