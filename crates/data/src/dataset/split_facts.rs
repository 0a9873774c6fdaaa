//! Counts what a split did, so that reports can say what its accuracy stands on.

use serde::{Deserialize, Serialize};

use super::ratings::Interaction;

/// What a split did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitFacts {
    /// The number of test items of all users.
    pub test_items: u64,
    /// Those of them that nobody had rated before, which every method misses.
    pub unrated_test_items: u64,
    /// Those of them whose instant is known, and that of a training rating of their user.
    pub timed_test_items: u64,
    /// Those of these that were rated within a day of a training rating of their user.
    pub test_items_within_a_day: u64,
    /// The number of users who were left out, or counted alone, since they had no history.
    pub users_without_history: u64,
}

impl SplitFacts {
    /// Adds a user with these test items among `rows`, who trains on `train`.
    pub(super) fn add_targets(
        &mut self,
        rows: &[Interaction],
        test: &[u32],
        train: &[Interaction],
    ) {
        self.test_items += test.len() as u64;
        for item in test {
            let of_item = rows.iter().find(|row| row.is_positive && row.item == *item);
            let gaps = of_item.into_iter().flat_map(|row| {
                let both = |other: &&Interaction| {
                    other.instant.known().is_some() && row.instant.known().is_some()
                };
                let known = train.iter().filter(both);
                known.map(|other| row.instant.days_since(other.instant).abs())
            });
            if let Some(gap) = gaps.min_by(f64::total_cmp) {
                self.timed_test_items += 1;
                self.test_items_within_a_day += u64::from(gap <= 1.0);
            }
        }
    }

    /// Adds what was done for other users.
    pub(super) fn add(&mut self, other: &Self) {
        self.test_items += other.test_items;
        self.unrated_test_items += other.unrated_test_items;
        self.timed_test_items += other.timed_test_items;
        self.test_items_within_a_day += other.test_items_within_a_day;
        self.users_without_history += other.users_without_history;
    }
}
