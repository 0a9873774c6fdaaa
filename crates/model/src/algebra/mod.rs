//! Implements dense linear algebra in double precision, with the same bits on every machine.
//!
//! Least-squares, spectral and second-order methods need a handful of routines on matrices of up to
//! about 128 columns, and regressions between items a few on those of thousands. Every sum here has
//! a fixed order, nothing uses a fused multiply-add, and the only function beyond arithmetic is the
//! correctly rounded square root, so that results do not depend on the processor (contract 1).
//! Arguments are `ndarray` arrays. The products of `ndarray` are not called, because they choose
//! their instructions by processor.
//!
//! `blocked` adds products of matrices to matrices, for an inverse by several threads.
//! `product` multiplies by it, `gram` adds rows up, and `cholesky` solves positive definite systems
//! and inverts their matrices. `eigen` and `svd` decompose by Jacobi rotations, `qr` makes columns
//! orthonormal, `nystroem` finds leading eigenvectors, `principal` the principal components of rows,
//! `distances` how far points are apart, and `weighted_sums` adds rows up by weights.
//!
//! Symmetric matrices are described by their upper triangle. Elements below the diagonal are not
//! read, except where a function says so. Wrong shapes are defects of the caller, and panic.

mod arrays;
mod blocked;
mod cholesky;
mod distances;
mod eigen;
mod gram;
mod nystroem;
mod principal;
mod product;
mod qr;
mod svd;
#[cfg(test)]
mod tests;
mod triangle;
mod vector;
mod weighted_sums;

pub use {
    cholesky::invert,
    distances::squared_distances,
    eigen::{SymmetricEigen, symmetric_eigen},
    gram::{add_gram, add_pair_products, mirror_upper},
    nystroem::{Spectrum, nystroem},
    principal::Principal,
    product::{product, product_by_pool},
    qr::{ThinQr, thin_qr},
    triangle::{packed_triangle, triangle_values, upper_triangular},
    weighted_sums::weighted_sums,
};
pub(crate) use {
    cholesky::{factorise, invert_factor, solve},
    triangle::write_triangle,
    vector::{add_scaled, dot, mixed_dot},
};

/// Says why a matrix cannot be factorised or decomposed.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AlgebraError {
    /// An element is infinite or not a number.
    #[error("the matrix has an element that is infinite or not a number")]
    NotFinite,
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

/// The result of an operation of the algebra.
pub type Result<T, E = AlgebraError> = std::result::Result<T, E>;
