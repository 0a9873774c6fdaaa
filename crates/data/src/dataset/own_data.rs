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
    /// The instant of every row; empty where the file has none.
    pub instants: &'a [Timestamp],
    /// The instant at which training ends for everybody, if the split goes by one.
    pub training_ends: Option<Timestamp>,
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
            instants: &[],
            training_ends: None,
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

    /// Returns how many days old every row is when training ends or, if the split goes by no instant,
    /// when the user rated for the last time in training. `None` unless every row has an instant.
    pub fn ages_in_days(&self) -> Option<impl Iterator<Item = f64> + use<'a>> {
        let instants = self.instants;
        let has_all = instants.len() == self.items.len()
            && instants.iter().all(|instant| instant.known().is_some());
        let last = instants.iter().max().copied();
        let present = self.training_ends.or(last).unwrap_or(Timestamp::UNKNOWN);
        has_all.then(|| instants.iter().map(move |at| present.days_since(*at)))
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

    /// If this fails, weights by age go by another present than that of the split, or a rating without
    /// a timestamp counts as one from the beginning of time.
    #[test]
    fn ages_count_from_the_end_of_training_or_the_last_own_rating() {
        let day = |day: i64| Timestamp(day * 86_400_000_000_000);
        let ages = |own: OwnData<'_>| own.ages_in_days().map(Vec::from_iter);
        let instants = [day(10), day(14), day(12)];
        let own = OwnData {
            instants: &instants,
            ..OwnData::new(&[2, 5, 9])
        };
        assert_eq!(ages(own), Some(vec![4.0, 0.0, 2.0]));
        let by_cut = OwnData {
            training_ends: Some(day(20)),
            ..own
        };
        assert_eq!(ages(by_cut), Some(vec![10.0, 6.0, 8.0]));
        assert_eq!(ages(OwnData::new(&[2, 5, 9])), None);
        assert_eq!(ages(OwnData::new(&[])), Some(vec![]));
        let unknown = [day(10), Timestamp::UNKNOWN, day(12)];
        let instants = &unknown;
        assert_eq!(ages(OwnData { instants, ..own }), None);
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
