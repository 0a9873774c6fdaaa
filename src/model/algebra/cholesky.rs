//! Factorises symmetric positive definite matrices by Cholesky's method, and solves their systems.

use ndarray::Array2;

use super::arrays::square_mut;
use super::vector::{add_scaled, dot};
use super::{AlgebraError, Result};
use crate::model::instruction_sets::per_instruction_set;

/// Replaces the upper triangle of `matrix` by its Cholesky factor R with `matrix` = R^T R and a positive diagonal.
///
/// Costs k^3 / 6 multiply-adds. Elements below the diagonal are neither read nor written.
///
/// # Errors
/// [`AlgebraError::NotPositiveDefinite`] at the first pivot that is not a finite number above zero, which leaves the
/// matrix half factorised, and [`AlgebraError::Shape`] if the matrix is not square.
pub fn factorise(matrix: &mut Array2<f64>) -> Result<()> {
    let (elements, dimension) = square_mut(matrix, "the matrix to factorise")?;
    match factorise_rows(elements, dimension) {
        None => Ok(()),
        Some((pivot, value)) => Err(AlgebraError::NotPositiveDefinite { pivot, value }),
    }
}

/// Solves R^T R x = b for the factor R of [`factorise`] and replaces `b` by x. Costs k^2 multiply-adds.
///
/// # Errors
/// [`AlgebraError::Shape`] if `b` has another dimension than R.
pub fn solve(factor: &Array2<f64>, b: &mut [f64]) -> Result<()> {
    let (rows, columns) = factor.dim();
    match factor.as_slice() {
        Some(elements) if rows == columns && b.len() == rows => {
            solve_rows(elements, b);
            Ok(())
        }
        _ => Err(AlgebraError::Shape { what: "the Cholesky factor", rows, columns }),
    }
}

per_instruction_set! {
    fn factorise_rows(elements: &mut [f64], dimension: usize) -> Option<(usize, f64)> {
        factorise_inline(elements, dimension)
    }
}

/// Returns the row and the value of the first pivot that is not a finite number above zero, if there is one. Step j
/// subtracts multiples of row j from all rows below.
#[inline(always)]
fn factorise_inline(elements: &mut [f64], dimension: usize) -> Option<(usize, f64)> {
    for j in 0..dimension {
        let (above, below) = elements.split_at_mut((j + 1) * dimension);
        let row = &mut above[j * dimension + j..];
        let pivot = row[0];
        // The negation refuses a pivot that is not a number as well.
        if !(pivot > 0.0 && pivot < f64::INFINITY) {
            return Some((j, pivot));
        }
        let root = pivot.sqrt();
        row[0] = root;
        let inverse = 1.0 / root;
        for value in &mut row[1..] {
            *value *= inverse;
        }
        for (i, target) in below.chunks_exact_mut(dimension).enumerate() {
            let rest = &row[i + 1..];
            add_scaled(&mut target[j + 1 + i..], -rest[0], rest);
        }
    }
    None
}

per_instruction_set! {
    fn solve_rows(factor: &[f64], b: &mut [f64]) {
        solve_inline(factor, b);
    }
}

#[inline(always)]
fn solve_inline(factor: &[f64], b: &mut [f64]) {
    let dimension = b.len();
    for j in 0..dimension {
        let row = &factor[j * dimension + j..(j + 1) * dimension];
        let value = b[j] / row[0];
        b[j] = value;
        add_scaled(&mut b[j + 1..], -value, &row[1..]);
    }
    for j in (0..dimension).rev() {
        let row = &factor[j * dimension + j..(j + 1) * dimension];
        b[j] = (b[j] - dot(&row[1..], &b[j + 1..])) / row[0];
    }
}
