//! Factorises symmetric positive definite matrices by Cholesky's method, solves their systems, and
//! inverts them.

use ndarray::{Array2, ArrayViewMut2, Axis, s};

use super::arrays::{row_after_row, slices_of_rows};
use super::blocked::{Factors, Part, TILE, Threads, whole_columns};
use super::vector::{add_scaled, dot};
use super::{AlgebraError, Result};
use crate::per_instruction_set;

/// Replaces the upper triangle of `matrix` by its Cholesky factor R with `matrix` = R^T R and a
/// positive diagonal.
///
/// Costs k^3 / 6 multiply-adds. Elements below the diagonal are neither read nor written.
///
/// # Errors
/// [`AlgebraError::NotPositiveDefinite`] at the first pivot that is not a finite number above zero,
/// which leaves the matrix half factorised.
pub(crate) fn factorise(matrix: &mut Array2<f64>) -> Result<()> {
    factorise_by(Threads::One, matrix)
}

fn factorise_by(threads: Threads, matrix: &mut Array2<f64>) -> Result<()> {
    assert!(matrix.is_square(), "the matrix has to be square");
    match factorise_rows(matrix.view_mut(), threads) {
        None => Ok(()),
        Some((pivot, value)) => Err(AlgebraError::NotPositiveDefinite { pivot, value }),
    }
}

/// Solves R^T R x = b for the factor R of [`factorise`] and replaces `b` by x. Costs k^2
/// multiply-adds.
///
/// # Panics
/// If `b` has another dimension than R, a defect of the caller.
pub(crate) fn solve(factor: &Array2<f64>, b: &mut [f64]) {
    assert_eq!(factor.dim(), (b.len(), b.len()), "the shape of the factor");
    solve_rows(row_after_row(factor.as_slice()), b);
}

/// Replaces the upper triangle of `matrix` by that of its inverse.
///
/// Costs k^3 / 2 multiply-adds, and is meant for matrices of thousands of rows as well, whose work
/// all threads of the caller's pool share. Elements below the diagonal are neither read nor written.
///
/// # Errors
/// Those of [`factorise`], which leave the matrix half factorised.
pub fn invert(matrix: &mut Array2<f64>) -> Result<()> {
    factorise_by(Threads::Pool, matrix)?;
    invert_factor_rows(matrix.view_mut(), Threads::Pool);
    multiply_by_transpose(matrix.view_mut());
    Ok(())
}

/// The number of rows up to which a matrix is not divided further. It changes no bit.
const UNDIVIDED: usize = 16;

/// The number of columns up to which dividing a matrix does not pay.
const NARROW: usize = 32;

/// Returns the number of the upper ones of so many rows, which are divided into two parts.
fn upper_half(rows: usize) -> usize {
    (rows / 2).next_multiple_of(TILE)
}

/// Factorises the first rows of a matrix as far as they go. Returns the row and the value of the
/// first pivot that is not a finite number above zero, if there is one.
///
/// An element is reduced by the products of the rows above in their order, however the matrix is
/// divided.
fn factorise_rows(mut matrix: ArrayViewMut2<'_, f64>, threads: Threads) -> Option<(usize, f64)> {
    let (rows, columns) = matrix.dim();
    if rows <= UNDIVIDED || columns <= NARROW {
        return factorise_undivided(&mut slices_of_rows(&mut matrix));
    }
    let half = upper_half(rows);
    let (mut top, mut bottom) = matrix.split_at(Axis(0), half);
    if let Some(pivot) = factorise_rows(top.view_mut(), threads) {
        return Some(pivot);
    }
    let mut bottom = bottom.slice_mut(s![.., half..]);
    Factors {
        left: top.slice(s![.., half..rows]).reversed_axes(),
        sign: -1.0,
        right: top.slice(s![.., half..]),
        first: whole_columns,
    }
    .add_to(bottom.view_mut(), Part::Upper, threads);
    factorise_rows(bottom, threads).map(|(pivot, value)| (half + pivot, value))
}

per_instruction_set! {
    /// Does what [`factorise_rows`] does. Step j subtracts multiples of row j from all rows below.
    fn factorise_undivided(rows: &mut [&mut [f64]]) -> Option<(usize, f64)> {
        for j in 0..rows.len() {
            let (above, below) = rows.split_at_mut(j + 1);
            let row = &mut above[j][j..];
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
            for (i, target) in below.iter_mut().enumerate() {
                let rest = &row[i + 1..];
                add_scaled(&mut target[j + 1 + i..], -rest[0], rest);
            }
        }
        None
    }
}

per_instruction_set! {
    fn solve_rows(factor: &[f64], b: &mut [f64]) {
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
}

/// Replaces the factor R of [`factorise`] in the upper triangle of `factor` by its inverse. Costs k^3
/// / 6 multiply-adds.
pub(crate) fn invert_factor(factor: &mut Array2<f64>) {
    invert_factor_rows(factor.view_mut(), Threads::One);
}

/// Replaces the factor R, which the first columns of `matrix` hold, by W = R^(-1). What the columns
/// behind it hold is the sum of what rows below these have added to W, and the sum is completed.
///
/// An element is the sum of its products from the last row to the first, however the matrix is
/// divided.
fn invert_factor_rows(mut matrix: ArrayViewMut2<'_, f64>, threads: Threads) {
    let (rows, columns) = matrix.dim();
    if rows <= UNDIVIDED || columns <= NARROW {
        return invert_undivided(&mut slices_of_rows(&mut matrix));
    }
    let half = upper_half(rows);
    let (mut top, mut bottom) = matrix.split_at(Axis(0), half);
    let mut bottom = bottom.slice_mut(s![.., half..]);
    invert_factor_rows(bottom.view_mut(), threads);
    let mut factors = top.slice(s![.., half..rows]).to_owned();
    for (i, mut row) in factors.rows_mut().into_iter().enumerate() {
        let inverse = 1.0 / top[(i, i)];
        row.mapv_inplace(|value| -value * inverse);
    }
    top.slice_mut(s![.., half..rows]).fill(0.0);
    let last = rows - half - 1;
    Factors {
        left: factors.slice(s![.., ..;-1]),
        sign: 1.0,
        right: bottom.slice(s![..;-1, ..]),
        first: |column| last.saturating_sub(column),
    }
    .add_to(top.slice_mut(s![.., half..]), Part::Whole, threads);
    invert_factor_rows(top, threads);
}

per_instruction_set! {
    /// Does what [`invert_factor_rows`] does.
    fn invert_undivided(rows: &mut [&mut [f64]]) {
        let count = rows.len();
        let mut factors = vec![0.0; count];
        for i in (0..count).rev() {
            let (above, below) = rows.split_at_mut(i + 1);
            let target = &mut above[i][i..];
            let inverse = 1.0 / target[0];
            let own = &mut target[..count - i];
            factors[i..].copy_from_slice(own);
            own.fill(0.0);
            own[0] = inverse;
            for (k, other) in (i + 1..count).zip(&*below).rev() {
                add_scaled(&mut target[k - i..], -factors[k] * inverse, &other[k..]);
            }
        }
    }
}

/// Replaces the upper triangle W of `matrix` by that of W W^T.
///
/// An element is the sum of its products in the order of the columns of W, however the matrix is
/// divided.
fn multiply_by_transpose(mut matrix: ArrayViewMut2<'_, f64>) {
    let (rows, columns) = matrix.dim();
    if rows <= UNDIVIDED || columns <= NARROW {
        return multiply_undivided(&mut slices_of_rows(&mut matrix));
    }
    let half = upper_half(rows);
    let (mut top, mut bottom) = matrix.split_at(Axis(0), half);
    let mut bottom = bottom.slice_mut(s![.., half..]);
    let (mut left, mut right) = top.view_mut().split_at(Axis(1), half);
    multiply_by_transpose(left.view_mut());
    let factors = right.to_owned();
    Factors {
        left: factors.view(),
        sign: 1.0,
        right: factors.t(),
        first: whole_columns,
    }
    .add_to(left, Part::Upper, Threads::Pool);
    right.fill(0.0);
    Factors {
        left: factors.view(),
        sign: 1.0,
        right: bottom.t(),
        first: |column| column,
    }
    .add_to(right, Part::Whole, Threads::Pool);
    multiply_by_transpose(bottom.view_mut());
}

/// Does what [`multiply_by_transpose`] does.
fn multiply_undivided(rows: &mut [&mut [f64]]) {
    for i in 0..rows.len() {
        let own = rows[i].to_vec();
        for j in i..rows.len() {
            let products = own[j..].iter().zip(&rows[j][j..]);
            rows[i][j] = products.fold(0.0, |sum, (a, b)| sum + a * b);
        }
    }
}
