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
    /// The number of users who were left out since the run cannot serve them.
    #[serde(default)]
    pub unusable_users: u64,
    /// The number of positives of a pair of user and item that is one in another row of the file too.
    #[serde(default)]
    pub repeated_rows: u64,
    /// The number of positives whose rating is 0 or less.
    #[serde(default)]
    pub positives_not_above_zero: u64,
    /// The number of positives that a column puts into a validation or test part, and that are not held out,
    /// since their user has the item in an earlier part as well.
    #[serde(default)]
    pub repeated_held_out_rows: u64,
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
        let positives = train.iter().filter(|row| row.is_positive);
        let end = positives.map(|row| row.time).max();
        for item in test {
            // Of rows that repeat a pair, the first one behind training is held out.
            let mut of_item = rows
                .iter()
                .filter(|row| row.is_positive && row.item == *item);
            let is_behind = |row: &&Interaction| end.is_none_or(|end| row.time >= end);
            let behind = of_item.clone().filter(is_behind);
            let of_item = behind.min_by_key(|row| row.time).or_else(|| of_item.next());
            let gaps = of_item.into_iter().flat_map(|row| {
                let both = |other: &&Interaction| {
                    other.instant.known().is_some() && row.instant.known().is_some()
                };
                let known = train.iter().filter(|row| row.is_positive).filter(both);
                known.map(|other| row.instant.days_since(other.instant).abs())
            });
            if let Some(gap) = gaps.min_by(f64::total_cmp) {
                self.timed_test_items += 1;
                self.test_items_within_a_day += u64::from(gap <= 1.0);
            }
        }
    }

    /// Counts what is unusual about the rows of a user.
    pub(super) fn add_rows(&mut self, rows: &[Interaction]) {
        let positives = rows.iter().filter(|row| row.is_positive);
        let mut items: Vec<u32> = positives.map(|row| row.item).collect();
        items.sort_unstable();
        let repeats = items.windows(2).filter(|two| two[0] == two[1]);
        self.repeated_rows += repeats.count() as u64;
        let is_low = |row: &&Interaction| row.is_positive && row.rating <= 0.0;
        self.positives_not_above_zero += rows.iter().filter(is_low).count() as u64;
    }

    /// Adds what was done for other users.
    pub(super) fn add(&mut self, other: &Self) {
        self.test_items += other.test_items;
        self.unrated_test_items += other.unrated_test_items;
        self.timed_test_items += other.timed_test_items;
        self.test_items_within_a_day += other.test_items_within_a_day;
        self.users_without_history += other.users_without_history;
        self.unusable_users += other.unusable_users;
        self.repeated_rows += other.repeated_rows;
        self.positives_not_above_zero += other.positives_not_above_zero;
        self.repeated_held_out_rows += other.repeated_held_out_rows;
    }
}
