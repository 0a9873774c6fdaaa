//! The statistics of a device at the end of a period, which the server adds up.

use super::columns::StepColumns;
use super::history::History;
use super::learned::{COUNTS, HALF_LIVES};
use crate::prelude::*;
use fedrecsim_model::Layout;

/// The half-life of items that occur together or follow one another, in days.
const PAIR_HALF_LIFE: f64 = 200.0;

/// The most items before an item that it is said to follow.
pub(super) const STEP_WINDOW: usize = 20;

/// The positions of the blocks of an upload.
pub(super) const COUNTS_BLOCK: usize = 0;
pub(super) const PAIRS_BLOCK: usize = 1;
pub(super) const STEPS_BLOCK: usize = 2;
pub(super) const TARGETS_BLOCK: usize = 3;

/// Returns the layout of uploads, for this many items, columns of the basis and columns of steps.
pub(super) fn layout(items: usize, rank: usize, columns: usize) -> Layout {
    let blocks = [
        ("counts", COUNTS),
        ("pairs", rank),
        ("steps", columns + 1),
        ("targets", 1),
    ];
    let block = |(name, columns)| {
        BlockLayout::item_table(name, TableShape::new(items, columns)).statistic()
    };
    Layout::new(blocks.map(block).to_vec())
}

/// Returns .5^(age / half-life).
fn decayed(age: f64, half_life: f64) -> f64 {
    math::exp(-std::f64::consts::LN_2 * (age / half_life))
}

/// Returns the rows of the block of counts.
pub(super) fn counts(history: &History) -> Vec<[f64; COUNTS]> {
    let rows = history.ages.iter().zip(history.sessions());
    let row = |(age, (session, is_first)): (&f64, (u32, bool))| {
        let mut row = [0.0; COUNTS];
        for (at, half_life) in HALF_LIVES.iter().enumerate() {
            let count = decayed(*age, *half_life);
            let counts = [true, session > 0, session > 0 && is_first];
            for (kind, _) in counts.iter().enumerate().filter(|(_, counts)| **counts) {
                row[kind * HALF_LIVES.len() + at] = count;
            }
        }
        row[COUNTS - 1] = decayed(*age, PAIR_HALF_LIFE);
        row
    };
    rows.map(row).collect()
}

/// Returns x_i times the sum of x_j B_j over the user's items j, for each item i: the user's part of
/// C B, where C is the sum of x x^T over users and x_i^2 halves with age. `basis` has the rows B_j
/// of the user's items.
pub(super) fn pairs(history: &History, basis: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let x = history
        .ages
        .iter()
        .map(|age| decayed(*age, 2.0 * PAIR_HALF_LIFE));
    let x: Vec<f64> = x.collect();
    let mut sum = vec![0.0; basis.first().map_or(0, Vec::len)];
    for (row, x) in basis.iter().zip(&x) {
        sum.iter_mut()
            .zip(row)
            .for_each(|(sum, value)| *sum += x * value);
    }
    let row = |x: &f64| sum.iter().map(|sum| x * sum).collect();
    x.iter().map(row).collect()
}

/// Returns w_p in the column of every item p that follows item q, and their sum, for each item q: the
/// user's part of D and of the sums of its rows. An item follows those of the [`STEP_WINDOW`] items
/// before it that are strictly earlier. All is divided by that number, so that steps weigh no more
/// than counts where an upload is clipped.
pub(super) fn steps(history: &History, columns: &StepColumns) -> Vec<Vec<f64>> {
    let row = |q: usize| {
        let mut row = vec![0.0; columns.count() + 1];
        let next = q + 1..history.items.len().min(q + 1 + STEP_WINDOW);
        for p in next.filter(|p| history.ages[*p] < history.ages[q]) {
            let weight = decayed(history.ages[p], PAIR_HALF_LIFE) / STEP_WINDOW as f64;
            let (column, sign) = columns.of(history.items[p]);
            row[column] += sign * weight;
            row[columns.count()] += weight;
        }
        row
    };
    (0..history.items.len()).map(row).collect()
}

/// Takes noise off sums of what is never negative. The most negative sum of a column tells how large
/// the noise in that column is. Without a negative sum nothing changes.
pub(super) fn above_noise(sums: &[f64], columns: usize) -> Vec<f64> {
    let mut noise = vec![0.0f64; columns];
    for row in sums.chunks(columns) {
        for (noise, sum) in noise.iter_mut().zip(row) {
            *noise = noise.max(-sum);
        }
    }
    let all_noise = noise.iter().cycle();
    let above = |(sum, noise): (&f64, &f64)| (sum - noise).max(0.0);
    sums.iter().zip(all_noise).map(above).collect()
}
