//! Holds a device's data: the training part of its own user's ratings, and nobody else's.

use super::column::{Ranks, Values};
use fedrecsim_core::Timestamp;

/// The training ratings of one user, one row each, in the order of ascending items.
///
/// An item is repeated as often as in the file.
#[derive(Clone, Copy, Debug)]
pub struct OwnData<'a> {
    /// The items, ascending.
    pub items: &'a [u32],
    /// The rating of every row; 1 where the file has none.
    pub ratings: Values<'a>,
    /// For every row, how many of the user's training positives are strictly later: 0 for the latest,
    /// and equal ranks for equal times. This is the time that a device may use; see algorithms,
    /// section 12 (rho).
    pub recency_ranks: Ranks<'a>,
    /// The instant of every row, where the split goes by a clock.
    pub instants: Option<&'a [Timestamp]>,
    /// The weight of every row, as the file's `weight` column gives it; 1 where it has none.
    pub weights: Values<'a>,
    /// For every row, whether it is a positive, as the file's `label` column says; `None` where all
    /// are.
    pub labels: Option<&'a [bool]>,
}

impl<'a> OwnData<'a> {
    /// Returns the data of a user who likes `items` (ascending), and nothing else: every rating and
    /// weight is 1, and all are equally recent.
    pub fn new(items: &'a [u32]) -> Self {
        let ones = Values::constant(1.0, items.len());
        Self {
            items,
            ratings: ones,
            recency_ranks: Ranks::zero(items.len()),
            instants: None,
            weights: ones,
            labels: None,
        }
    }

    /// Returns the mean of the ratings, summed in double precision in the order of the rows; `None`
    /// without rows.
    pub fn mean_rating(&self) -> Option<f64> {
        let sum: f64 = self.ratings.iter().map(f64::from).sum();
        (!self.items.is_empty()).then(|| sum / self.items.len() as f64)
    }

    /// Returns whether the row at `position` is a positive.
    pub fn is_positive(&self, position: usize) -> bool {
        self.labels.is_none_or(|labels| labels[position])
    }

    /// Returns the items of the positive rows, ascending.
    pub fn positives(&self) -> impl Iterator<Item = u32> + use<'a> {
        let own = *self;
        (0..own.items.len())
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
                own.weights.get(2),
                own.recency_ranks.iter().nth(1)
            ),
            (Some(1.0), 1.0, Some(0))
        );
        assert_eq!(OwnData::new(&[]).mean_rating(), None);
    }

    #[test]
    fn a_label_says_which_rows_are_positives() {
        let own = OwnData {
            labels: Some(&[true, false, true]),
            ratings: (&[5.0, 1.0, 3.0][..]).into(),
            ..OwnData::new(&[2, 5, 9])
        };
        assert_eq!(own.positives().collect::<Vec<_>>(), [2, 9]);
        assert_eq!(
            own.mean_rating(),
            Some(3.0),
            "a rating counts whatever the label says"
        );
    }
}
