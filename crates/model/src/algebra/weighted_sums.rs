//! Adds rows up by weights of which most are zero, as servers do that mix the tables of users.

// Loops over the columns of a strip become vector operations.
#![allow(clippy::needless_range_loop)]

use ndarray::ArrayView2;
use rayon::prelude::*;

use crate::per_instruction_set;

/// The number of columns whose sums are in registers at a time.
const STRIP: usize = 64;

/// The values of a row in a strip.
type Strip = [f32; STRIP];

/// Writes to each of `sums` the sum of the `rows` with a row of `weights`, which has a column for each of
/// them, by all threads of the caller's pool. A sum is a running one in double precision, in the order of
/// the rows, and rounded once. A weight of zero costs nothing and leaves its row out, even one that is not
/// finite.
///
/// The caller's thread may do other work of the pool meanwhile, for which it must not hold memory.
///
/// # Panics
/// If rows and sums do not have as many values each, or the weights another shape, a defect of the caller.
pub fn weighted_sums(weights: &ArrayView2<'_, f64>, rows: &[&[f32]], sums: &mut [&mut [f32]]) {
    assert_eq!(
        weights.dim(),
        (sums.len(), rows.len()),
        "a weight for each sum and row"
    );
    let values = sums.first().map_or(0, |sum| sum.len());
    let of_rows = rows.iter().map(|row| row.len());
    let mut lengths = sums.iter().map(|sum| sum.len()).chain(of_rows);
    let is_alike = sums.is_empty() || lengths.all(|length| length == values);
    assert!(is_alike, "rows and sums need as many values each");
    let weights: Vec<Vec<(usize, f64)>> = weights
        .rows()
        .into_iter()
        .map(|row| {
            let all = row.iter().copied().enumerate();
            all.filter(|(_, weight)| *weight != 0.0).collect()
        })
        .collect();
    // Each thread packs all strips for itself, which is little beside the sums of many rows.
    let share = sums.len().div_ceil(rayon::current_num_threads()).max(1);
    let shares = sums.par_chunks_mut(share).zip(weights.par_chunks(share));
    shares.for_each(|(sums, weights)| {
        let mut packed = vec![[0.0; STRIP]; rows.len()];
        for first in (0..values).step_by(STRIP) {
            let columns = first..values.min(first + STRIP);
            for (packed, row) in packed.iter_mut().zip(rows) {
                packed[..columns.len()].copy_from_slice(&row[columns.clone()]);
            }
            for (sum, weights) in sums.iter_mut().zip(weights) {
                let of_strip = strip(weights, &packed);
                let sums = sum[columns.clone()].iter_mut().zip(of_strip);
                sums.for_each(|(sum, value)| *sum = value as f32);
            }
        }
    });
}

per_instruction_set! {
    /// Returns the sums of a strip.
    fn strip(weights: &[(usize, f64)], packed: &[Strip]) -> [f64; STRIP] {
        let mut sums = [0.0; STRIP];
        for (at, weight) in weights {
            let row = &packed[*at];
            for c in 0..STRIP {
                sums[c] += weight * f64::from(row[c]);
            }
        }
        sums
    }
}
