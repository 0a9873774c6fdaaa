//! Computes the squared distances of points.

// Loops over the elements of a tile become vector operations.
#![allow(clippy::needless_range_loop)]

use ndarray::{Array2, Axis};
use rayon::prelude::*;

use super::blocked::{Packed, TILE};
use super::mirror_upper;
use crate::per_instruction_set;

/// Returns the squared distance of each two of n `points`, a symmetric matrix (n x n), by all threads of the
/// caller's pool. Every distance is a running sum in the order of the values, whatever the threads.
///
/// The caller's thread may do other work of the pool meanwhile, for which it must not hold memory.
///
/// # Panics
/// If the points do not have as many values each, a defect of the caller.
#[must_use]
pub fn squared_distances(points: &[Vec<f64>]) -> Array2<f64> {
    let is_alike = points.windows(2).all(|two| two[0].len() == two[1].len());
    assert!(is_alike, "points need as many values each");
    let panels: Vec<Vec<Packed>> = points.chunks(TILE).map(packed).collect();
    let mut squares = Array2::zeros((points.len(), points.len()));
    let stripes: Vec<_> = squares.axis_chunks_iter_mut(Axis(0), TILE).collect();
    let stripes = stripes.into_par_iter().zip(&panels).enumerate();
    stripes.for_each(|(above, (mut stripe, left))| {
        let columns = stripe.axis_chunks_iter_mut(Axis(1), TILE).zip(&panels);
        for (mut target, right) in columns.skip(above) {
            let tile = tile(left, right);
            let elements = target.indexed_iter_mut();
            elements.for_each(|((r, c), square)| *square = tile[r][c]);
        }
    });
    mirror_upper(&mut squares);
    squares
}

/// Returns the values of up to eight points side by side, column after column.
fn packed(points: &[Vec<f64>]) -> Vec<Packed> {
    let mut packed = vec![[0.0; TILE]; points[0].len()];
    for (at, point) in points.iter().enumerate() {
        let values = packed.iter_mut().zip(point);
        values.for_each(|(to, value)| to[at] = *value);
    }
    packed
}

per_instruction_set! {
    /// Returns the squared distances of eight points to eight others. The sums of half of the rows are in
    /// registers at a time, as in a product.
    fn tile(left: &[Packed], right: &[Packed]) -> [Packed; TILE] {
        const ROWS: usize = TILE / 2;
        let mut sums = [[0.0; TILE]; TILE];
        for top in [0, ROWS] {
            let mut own = [[0.0; TILE]; ROWS];
            for (left, right) in left.iter().zip(right) {
                for r in 0..ROWS {
                    for c in 0..TILE {
                        let apart = left[top + r] - right[c];
                        own[r][c] += apart * apart;
                    }
                }
            }
            sums[top..top + ROWS].copy_from_slice(&own);
        }
        sums
    }
}
