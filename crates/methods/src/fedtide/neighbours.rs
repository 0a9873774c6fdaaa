//! The items that follow an item most often, and their row of the model.

use super::columns::StepColumns;
use super::learned::is_taken;
use super::statistics::STEP_WINDOW;
use crate::prelude::*;

/// The number of items that are kept of those that follow an item.
pub(super) const NEIGHBOURS: usize = 10;

/// The base of the two digits of a neighbour's number, which small floating-point numbers hold
/// exactly.
pub(super) const DIGIT: u32 = 256;

/// The highest level of how much a neighbour follows an item.
pub(super) const LEVELS: f64 = 255.0;

/// Returns the items that follow an item most, and how much: of the sums D of steps from i to j, D'_ij =
/// D_ij / (1 + the sum of row i)^(1/2).
pub(super) fn neighbours(
    (item, row): (usize, &[f64]),
    columns: &StepColumns,
    counts: &[&[f64]],
) -> Vec<(usize, f64)> {
    let (row, total) = row.split_at(columns.count());
    let window = STEP_WINDOW as f64;
    let scale = window / math::sqrt(window * total[0].max(0.0) + 1.0);
    let all = columns.read(row).enumerate();
    let is_next =
        |(other, steps): &(usize, f64)| *steps > 0.0 && *other != item && is_taken(counts[*other]);
    let mut next: Vec<(usize, f64)> = all.filter(is_next).collect();
    next.sort_by(|(item, steps), (other, than)| than.total_cmp(steps).then(item.cmp(other)));
    next.truncate(NEIGHBOURS);
    next.iter_mut().for_each(|(_, steps)| *steps *= scale);
    next
}

/// Returns an item's row of the block of neighbours. Those that it had before keep their places, so that
/// the difference of the two rows is small.
pub(super) fn in_their_places(next: &[(usize, f64)], mut places: Vec<usize>) -> Vec<f32> {
    let mut levels = vec![0.0; NEIGHBOURS];
    let most = next.first().map_or(1.0, |(_, steps)| *steps);
    let level = |steps: f64| (LEVELS * steps / most).round();
    let place_of = |item: usize, places: &[usize]| places.iter().position(|at| *at == item);
    let (kept, new): (Vec<_>, Vec<_>) = next
        .iter()
        .partition(|(item, _)| place_of(*item, &places).is_some());
    for (item, steps) in kept {
        if let Some(at) = place_of(item, &places) {
            levels[at] = level(steps);
        }
    }
    let free: Vec<usize> = (0..NEIGHBOURS).filter(|at| levels[*at] == 0.0).collect();
    for ((item, steps), at) in new.into_iter().zip(free) {
        (places[at], levels[at]) = (item, level(steps));
    }
    let triple = |(item, level): (&usize, &f64)| {
        let digits = [item / DIGIT as usize, item % DIGIT as usize].map(|digit| digit as f32);
        [digits[0], digits[1], *level as f32]
    };
    places.iter().zip(&levels).flat_map(triple).collect()
}
