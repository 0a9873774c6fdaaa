//! Holds what a device knows of its own user: the training part of the user's ratings, and nothing
//! of anybody else's.

use super::column::{Ranks, Values};

/// The training ratings of one user, one row each, in the order of ascending items.
///
/// An item is repeated as often as in the file. Fields are read through methods, so that further
/// knowledge of a device (attributes of items, private attributes of the user) can be added without
/// changing a method.
#[derive(Clone, Copy, Debug)]
pub struct OwnData<'a> {
    items: &'a [u32],
    ratings: Values<'a>,
    recency_ranks: Ranks<'a>,
    weights: Values<'a>,
    labels: Option<&'a [bool]>,
}

impl<'a> OwnData<'a> {
    /// Returns the data of a user who likes `items` (ascending), of which nothing else is known:
    /// every rating and weight is 1, and all are equally recent.
    pub fn new(items: &'a [u32]) -> Self {
        let rows = items.len();
        let (ratings, weights) = (Values::constant(1.0, rows), Values::constant(1.0, rows));
        Self {
            items,
            ratings,
            recency_ranks: Ranks::zero(rows),
            weights,
            labels: None,
        }
    }

    /// Replaces the ratings; there is one for each item.
    pub fn with_ratings(self, ratings: impl Into<Values<'a>>) -> Self {
        Self {
            ratings: ratings.into(),
            ..self
        }
    }

    /// Replaces the recency ranks; there is one for each item.
    pub fn with_recency_ranks(self, ranks: impl Into<Ranks<'a>>) -> Self {
        Self {
            recency_ranks: ranks.into(),
            ..self
        }
    }

    /// Replaces the weights; there is one for each item.
    pub(crate) fn with_weights(self, weights: impl Into<Values<'a>>) -> Self {
        Self {
            weights: weights.into(),
            ..self
        }
    }

    /// Replaces the labels; there is one for each item.
    pub fn with_labels(self, labels: Option<&'a [bool]>) -> Self {
        Self { labels, ..self }
    }

    /// Returns the number of rows.
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns whether the user has no training rating.
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns the items, ascending.
    pub fn items(&self) -> &'a [u32] {
        self.items
    }

    /// Returns the rating of every row; 1 where the file has none.
    pub fn ratings(&self) -> Values<'a> {
        self.ratings
    }

    /// Returns the mean of the ratings, summed in double precision in the order of the rows; `None`
    /// without rows.
    pub fn mean_rating(&self) -> Option<f64> {
        (!self.is_empty())
            .then(|| self.ratings.iter().map(f64::from).sum::<f64>() / self.len() as f64)
    }

    /// Returns for every row how many of the user's training positives are strictly later: 0 for
    /// the latest, and equal ranks for equal times. This is the time that a device may use; see
    /// algorithms, section 12 (rho).
    pub fn recency_ranks(&self) -> Ranks<'a> {
        self.recency_ranks
    }

    /// Returns the weight of every row, as the file's `weight` column gives it; 1 where it has
    /// none.
    pub fn weights(&self) -> Values<'a> {
        self.weights
    }

    /// Returns for every row whether it is a positive, as the file's `label` column says; `None`
    /// where all are.
    pub fn labels(&self) -> Option<&'a [bool]> {
        self.labels
    }

    /// Returns whether the row at `position` is a positive.
    pub fn is_positive(&self, position: usize) -> bool {
        self.labels.is_none_or(|labels| labels[position])
    }

    /// Returns the items of the positive rows, ascending.
    pub fn positives(&self) -> impl Iterator<Item = u32> + use<'a> {
        let own = *self;
        (0..own.len())
            .filter(move |&position| own.is_positive(position))
            .map(move |position| own.items[position])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_alone_are_positives_of_equal_rating_weight_and_time() {
        let own = OwnData::new(&[2, 5, 5]);
        assert_eq!(own.positives().collect::<Vec<_>>(), [2, 5, 5]);
        assert_eq!(
            (
                own.mean_rating(),
                own.weights().get(2),
                own.recency_ranks().iter().nth(1)
            ),
            (Some(1.0), 1.0, Some(0))
        );
        assert_eq!(OwnData::new(&[]).mean_rating(), None);
    }

    #[test]
    fn a_label_says_which_rows_are_positives() {
        let own = OwnData::new(&[2, 5, 9])
            .with_labels(Some(&[true, false, true]))
            .with_ratings(&[5.0, 1.0, 3.0][..]);
        assert_eq!(own.positives().collect::<Vec<_>>(), [2, 9]);
        assert_eq!(
            own.mean_rating(),
            Some(3.0),
            "a rating counts whatever the label says"
        );
    }
}
