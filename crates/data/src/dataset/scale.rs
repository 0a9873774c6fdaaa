//! Computes the range and the mean of explicit ratings.

use super::Dataset;
use super::held_out::HeldOut;
use super::user_rows::UserRows;

/// The public facts about the ratings of a data set with explicit ratings.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct RatingScale {
    /// The lowest rating in the data set, the test part included, because the scale is public.
    pub minimum: f32,
    /// The highest rating in the data set.
    pub maximum: f32,
    /// Mean of the training ratings, as [`Dataset::mean_training_rating`] returns it.
    pub training_mean: f64,
}

impl RatingScale {
    /// Returns the rating of the scale that is nearest to `score`, or NaN if the score is NaN.
    pub fn clip(&self, score: f32) -> f32 {
        score.clamp(self.minimum, self.maximum)
    }
}

/// Returns the scale of these ratings; `None` if all of them are equal, as they are if a file has
/// none.
pub(super) fn of(dataset: &Dataset, train: &UserRows, held_out: &HeldOut) -> Option<RatingScale> {
    let (minimum, maximum) = range_of(train, held_out).filter(|(low, high)| low < high)?;
    Some(RatingScale {
        minimum,
        maximum,
        training_mean: dataset.mean_training_rating(),
    })
}

/// Returns the lowest and the highest of these ratings, if there are any.
pub(super) fn range_of(train: &UserRows, held_out: &HeldOut) -> Option<(f32, f32)> {
    let test = match held_out {
        HeldOut::Ratings(rows) => Some(rows.all_ratings()),
        HeldOut::Items { .. } => None,
    };
    let training = train.all_ratings();
    let mut range: Option<(f32, f32)> = None;
    for rating in training
        .iter()
        .chain(test.iter().flat_map(|ratings| ratings.iter()))
    {
        range = range
            .map(|(low, high)| (low.min(rating), high.max(rating)))
            .or(Some((rating, rating)));
    }
    range
}
