//! Selects which of the offered values are sent.

use super::candidates::Candidates;
use crate::codec::{Randomness, positions};
use crate::table::TableShape;
use fedrecsim_scenario::SelectSpec;

use rand::Rng;

/// The values that are sent.
#[derive(Debug)]
pub(super) struct Selected {
    /// Their positions among all values of the candidates, ascending.
    pub places: Vec<u32>,
    /// The seed that drew the positions, if they were drawn.
    pub seed: Option<u64>,
}

/// Returns the selected values; `None` if all are.
pub(super) fn select(
    select: SelectSpec,
    candidates: &Candidates,
    shape: TableShape,
    randomness: Randomness,
) -> Option<Selected> {
    let values = &candidates.values;
    let those = |is_wanted: &dyn Fn(f32) -> bool| {
        (0u32..)
            .zip(values.iter())
            .filter(|(_, value)| is_wanted(**value))
            .map(|(place, _)| place)
            .collect()
    };
    let share = |share: f64| ((share * shape.values() as f64).ceil() as usize).min(values.len());
    let (places, seed) = match select {
        SelectSpec::All
        | SelectSpec::TouchedRows
        | SelectSpec::NeededRows
        | SelectSpec::LowRank(_) => return None,
        SelectSpec::NonZeros => (those(&|value| value != 0.0), None),
        SelectSpec::AtLeast(least) => (those(&|value| value.abs() >= least as f32), None),
        SelectSpec::TopShare(part) => (largest(values, share(part)), None),
        SelectSpec::RandomShare(part) => {
            let seed = randomness.stream("codec/random-share").next_u64();
            (
                positions::drawn(seed, share(part), values.len()),
                Some(seed),
            )
        }
    };
    Some(Selected { places, seed })
}

/// Returns the positions of the `count` values of the greatest magnitude, ascending. Of equal ones,
/// the first are taken.
fn largest(values: &[f32], count: usize) -> Vec<u32> {
    let mut places: Vec<u32> = (0..values.len() as u32).collect();
    let magnitude = |place: &u32| values[*place as usize].abs();
    if count > 0 && count < places.len() {
        places.select_nth_unstable_by(count - 1, |one, other| {
            magnitude(other)
                .total_cmp(&magnitude(one))
                .then(one.cmp(other))
        });
    }
    places.truncate(count);
    places.sort_unstable();
    places
}
