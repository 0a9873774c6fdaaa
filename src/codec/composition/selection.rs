//! Selects which of the offered values are sent.

use super::Select;
use super::candidates::Candidates;
use crate::codec::Randomness;
use crate::model::table::TableShape;
use crate::rng::PortableDraws;

/// Returns the positions of the selected values among all values of the candidates, ascending; `None` if all are.
pub(super) fn select(
    select: Select,
    candidates: &Candidates,
    shape: TableShape,
    randomness: Randomness,
) -> Option<Vec<u32>> {
    let values = &candidates.values;
    let those = |is_wanted: &dyn Fn(f32) -> bool| {
        (0u32..).zip(values).filter(|(_, value)| is_wanted(**value)).map(|(place, _)| place).collect()
    };
    let share = |share: f64| ((share * shape.values() as f64).ceil() as usize).min(values.len());
    match select {
        Select::All | Select::TouchedRows => None,
        Select::NonZeros => Some(those(&|value| value != 0.0)),
        Select::AtLeast(least) => Some(those(&|value| value.abs() >= least)),
        Select::TopShare(part) => Some(largest(values, share(part))),
        Select::RandomShare(part) => {
            let mut stream = randomness.stream("codec/random-share");
            let mut places: Vec<u32> = (0..values.len() as u32).collect();
            let count = share(part);
            // The first places of a shuffled list, which is not shuffled further.
            for place in 0..count {
                let other = place + stream.below((places.len() - place) as u32) as usize;
                places.swap(place, other);
            }
            places.truncate(count);
            places.sort_unstable();
            Some(places)
        }
    }
}

/// Returns the positions of the `count` values of the greatest magnitude, ascending. Of equal ones, the first are taken.
fn largest(values: &[f32], count: usize) -> Vec<u32> {
    let mut places: Vec<u32> = (0..values.len() as u32).collect();
    let magnitude = |place: &u32| values[*place as usize].abs();
    if count > 0 && count < places.len() {
        places.select_nth_unstable_by(count - 1, |one, other| {
            magnitude(other).total_cmp(&magnitude(one)).then(one.cmp(other))
        });
    }
    places.truncate(count);
    places.sort_unstable();
    places
}
