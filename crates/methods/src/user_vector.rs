//! Holds what methods with a user vector and an item table share: a user's positives and ratings
//! without repetitions, scores, and the checks of a user vector that was solved for.

use super::{LocalTask, largest_magnitude};
use fedrecsim_core::{Error, PortableDraws, Result, Round, Stream, UserId};
use fedrecsim_data::dataset::OwnData;
use fedrecsim_model::algebra::{self, AlgebraError};

/// Holds the positives of a user, each once.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct DistinctPositives {
    /// The items, ascending.
    pub items: Vec<u32>,
    /// For each item, the number of the user's positives that are strictly later than the item's
    /// latest occurrence.
    pub later: Vec<u32>,
}

impl DistinctPositives {
    /// Collects the positives of `own`.
    pub(crate) fn of(own: &OwnData<'_>) -> Self {
        let (items, later) = latest_positives(own, own.recency_ranks.iter());
        Self { items, later }
    }
}

/// Returns the positives of `own`, ascending and each once, and the least age of each. `ages` has
/// one for every row, in any unit.
pub(super) fn latest_positives<A: Copy + PartialOrd>(
    own: &OwnData<'_>,
    ages: impl Iterator<Item = A>,
) -> (Vec<u32>, Vec<A>) {
    let (mut items, mut least) = (Vec::new(), Vec::new());
    let rows = own.items.iter().zip(ages).enumerate();
    for (_, (&item, age)) in rows.filter(|(at, _)| own.is_positive(*at)) {
        match least.last_mut() {
            Some(least) if items.last() == Some(&item) => {
                if age < *least {
                    *least = age;
                }
            }
            _ => {
                items.push(item);
                least.push(age);
            }
        }
    }
    (items, least)
}

/// Returns the items that the user has rated, ascending and each once, and the last rating of each.
pub(super) fn last_ratings(own: &OwnData<'_>) -> (Vec<u32>, Vec<f32>) {
    let (mut items, mut ratings) = (Vec::new(), Vec::new());
    for (&item, rating) in own.items.iter().zip(own.ratings.iter()) {
        match ratings.last_mut() {
            Some(last) if items.last() == Some(&item) => *last = rating,
            _ => {
                items.push(item);
                ratings.push(rating);
            }
        }
    }
    (items, ratings)
}

/// Draws `count` items of the catalogue that are not `rated` (ascending), without replacement; all
/// of them if there are fewer.
pub(super) fn draw_unrated(
    rated: &[u32],
    (catalogue, count): (usize, usize),
    stream: &mut Stream,
) -> Vec<u32> {
    let mut rated = rated.iter().copied().peekable();
    let is_unrated = |item: &u32| rated.next_if_eq(item).is_none();
    let mut unrated: Vec<u32> = (0..catalogue as u32).filter(is_unrated).collect();
    stream.keep_drawn(&mut unrated, count);
    unrated
}

/// Checks the vector x that a participation has solved for.
///
/// # Errors
/// [`Error::Singular`] if its system of equations has no solution, and [`Error::Diverged`].
pub(super) fn solved(task: &LocalTask<'_>, x: algebra::Result<Vec<f64>>) -> Result<Vec<f64>> {
    let x = x.map_err(|cause| singular(Some(task.round), task.user, &cause))?;
    task.check_magnitude("x", largest_magnitude(&single_precision(&x)))?;
    Ok(x)
}

/// Returns the vector x that a user has solved for to score with, in single precision.
///
/// # Errors
/// [`Error::Singular`] if its system of equations has no solution.
pub(super) fn solved_to_score(user: UserId, x: algebra::Result<Vec<f64>>) -> Result<Vec<f32>> {
    let x = x.map_err(|cause| singular(None, user, &cause))?;
    Ok(single_precision(&x))
}

fn singular(round: Option<Round>, user: UserId, cause: &AlgebraError) -> Error {
    Error::Singular {
        round,
        user: Some(user.into()),
        system: "the user vector".into(),
        cause: cause.to_string(),
    }
}

/// Returns a vector in single precision.
pub(super) fn single_precision(vector: &[f64]) -> Vec<f32> {
    vector.iter().map(|value| *value as f32).collect()
}

/// Returns the standard deviation of `values`; 0 if there are none.
pub(super) fn deviation(values: &[f32]) -> f64 {
    let values = || values.iter().map(|value| f64::from(*value));
    let count = values().len().max(1) as f64;
    let mean = values().sum::<f64>() / count;
    let squares: f64 = values().map(|value| (value - mean) * (value - mean)).sum();
    fedrecsim_core::math::sqrt(squares / count)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, a listening history counts a positive twice, or by its earliest time.
    #[test]
    fn a_repeated_positive_stands_once_with_its_latest_time() {
        let own = OwnData {
            recency_ranks: (&[3u8, 2, 0, 1][..]).into(),
            labels: Some(&[true, true, true, false]),
            ..OwnData::new(&[2, 5, 5, 9])
        };
        let positives = DistinctPositives::of(&own);
        assert_eq!(
            positives,
            DistinctPositives {
                items: vec![2, 5],
                later: vec![3, 0]
            }
        );
    }
}
