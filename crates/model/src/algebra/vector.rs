//! Implements operations on vectors in a fixed order. They are inlined into callers that are
//! compiled for several instruction sets.

use super::{AlgebraError, Result};

/// The most sweeps of Jacobi rotations. Matrices of a hundred rows need about ten.
const SWEEPS_MAX: usize = 64;

/// The number of partial sums of a scalar product, the same for any width of the machine's vectors.
const LANES: usize = 8;

/// Returns the scalar product, in eight partial sums that are added as ((0+4)+(2+6))+((1+5)+(3+7)).
///
/// Elements beyond the shorter length are left out.
#[allow(clippy::needless_range_loop)] // The form that becomes one vector operation per line.
#[inline(always)]
pub(crate) fn dot<B: Copy + Into<f64>>(a: &[f64], b: &[B]) -> f64 {
    let length = a.len().min(b.len());
    let mut sums = [0.0; LANES];
    let ((a_groups, a_rest), (b_groups, b_rest)) = (
        a[..length].as_chunks::<LANES>(),
        b[..length].as_chunks::<LANES>(),
    );
    for (a, b) in a_groups.iter().zip(b_groups) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane].into();
        }
    }
    for (lane, (a, b)) in a_rest.iter().zip(b_rest).enumerate() {
        sums[lane] += a * (*b).into();
    }
    // The tree is always the same.
    let four: [f64; 4] = std::array::from_fn(|lane| sums[lane] + sums[lane + 4]);
    (four[0] + four[2]) + (four[1] + four[3])
}

/// Returns the scalar product of a vector in double precision with one in single precision, in the
/// order of the algebra's other scalar products.
#[inline]
pub(crate) fn mixed_dot(a: &[f64], b: &[f32]) -> f64 {
    dot(a, b)
}

/// Adds `factor * x` to `y`.
#[inline(always)]
pub(crate) fn add_scaled(y: &mut [f64], factor: f64, x: &[f64]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += factor * x;
    }
}

/// Rotates the pair (x, y), so that x becomes cosine * x - sine * y, and y becomes sine * x +
/// cosine * y.
#[inline(always)]
pub(super) fn rotate(x: &mut [f64], y: &mut [f64], cosine: f64, sine: f64) {
    for (x, y) in x.iter_mut().zip(y) {
        let (old_x, old_y) = (*x, *y);
        *x = cosine * old_x - sine * old_y;
        *y = sine * old_x + cosine * old_y;
    }
}

/// Calls `rotate` for every pair out of `size`, sweep after sweep, until it returns for no pair of a
/// whole sweep that it has rotated it.
///
/// # Errors
/// [`AlgebraError::NoConvergence`] if that does not happen.
#[inline(always)]
pub(super) fn sweep(size: usize, mut rotate: impl FnMut(usize, usize) -> bool) -> Result<()> {
    for _ in 0..SWEEPS_MAX {
        let mut rotated = false;
        for p in 0..size {
            for q in p + 1..size {
                rotated |= rotate(p, q);
            }
        }
        if !rotated {
            return Ok(());
        }
    }
    Err(AlgebraError::NoConvergence { sweeps: SWEEPS_MAX })
}

/// Returns tangent, cosine and sine of the smaller angle whose rotation makes `off` zero in the
/// symmetric matrix ((first, off), (off, second)); `off` must not be 0 (Golub and Van Loan, Matrix
/// Computations, section 8.5.2).
#[inline(always)]
pub(super) fn jacobi_angle(first: f64, off: f64, second: f64) -> (f64, f64, f64) {
    let cotangent_twice = (second - first) / (2.0 * off);
    let magnitude =
        1.0 / (cotangent_twice.abs() + (cotangent_twice * cotangent_twice + 1.0).sqrt());
    let tangent = if cotangent_twice < 0.0 {
        -magnitude
    } else {
        magnitude
    };
    let cosine = 1.0 / (tangent * tangent + 1.0).sqrt();
    (tangent, cosine, tangent * cosine)
}
