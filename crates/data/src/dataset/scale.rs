//! The range and the mean of explicit ratings.

/// The public facts about the ratings of a data set with explicit ratings.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct RatingScale {
    /// The lowest rating in the data set, the test part included, because the scale is public.
    pub minimum: f32,
    /// The highest rating in the data set.
    pub maximum: f32,
    /// Mean of the training ratings, as
    /// [`Dataset::mean_training_rating`](super::Dataset::mean_training_rating) returns it.
    pub training_mean: f64,
}

impl RatingScale {
    /// Returns the rating of the scale that is nearest to `score`, or NaN if the score is NaN.
    pub fn clip(&self, score: f32) -> f32 {
        score.clamp(self.minimum, self.maximum)
    }
}
