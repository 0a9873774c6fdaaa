//! What is known of users who have not come yet (`[joins]`): nothing, or their earliest ratings.

use std::cmp::Reverse;

use super::Dataset;
use super::ratings::Interaction;
use super::totals::Totals;
use fedrecsim_core::{Timestamp, UserId};

impl Dataset {
    /// Leaves the ratings of `newcomers` (ascending) out of all totals, such as popularity. The range of
    /// ratings stays, since a scale is public.
    pub fn leave_out_of_totals(&mut self, newcomers: &[UserId]) {
        let mut totals = Totals {
            ratings: 0,
            popularity: vec![0; self.items()],
            raters: vec![0; self.items()],
            rating_sum: 0.0,
            ..self.totals.clone()
        };
        let all = self.own_users().map(UserId);
        for user in all.filter(|user| newcomers.binary_search(user).is_err()) {
            let own = self.own_data(user);
            totals.ratings += own.items.len() as u64;
            totals.add_positives(own.positives());
            let ratings = own.ratings.iter();
            ratings.for_each(|rating| totals.rating_sum += f64::from(rating));
        }
        self.totals = totals;
    }

    /// Returns a data set in which each of `newcomers` (ascending) has its earliest `count` positives
    /// to train on, or fewer if it has no more, and nobody else has anything. The held-out part and
    /// the totals stay as they are.
    #[must_use]
    pub fn with_earliest_ratings(&self, newcomers: &[UserId], count: u32) -> Self {
        let mut train = self.train.of_users(0..0);
        for user in self.own_users().map(UserId) {
            let mut rows = match newcomers.binary_search(&user) {
                Ok(_) => self.earliest_ratings(user, count),
                Err(_) => Vec::new(),
            };
            train.push_user(&mut rows);
        }
        Self {
            train,
            ..self.clone()
        }
    }

    /// Returns the earliest `count` positives of `user`. Of those that are equally old, the items with
    /// the least numbers come first.
    fn earliest_ratings(&self, user: UserId, count: u32) -> Vec<Interaction> {
        let own = self.own_data(user);
        let ranks: Vec<u32> = own.recency_ranks.iter().collect();
        let mut rows: Vec<usize> = (0..own.items.len())
            .filter(|row| own.is_positive(*row))
            .collect();
        // A rank is the number of positives that are later.
        rows.sort_by_key(|row| Reverse(ranks[*row]));
        rows.truncate(count as usize);
        let row = |row: usize| Interaction {
            instant: own.instants.get(row).copied().unwrap_or(Timestamp::UNKNOWN),
            weight: own.weights.get(row),
            ..Interaction::new(own.items[row], own.ratings.get(row), -i64::from(ranks[row]))
        };
        rows.into_iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::dataset::ratings::{Ratings, names};
    use crate::dataset::split;
    use fedrecsim_core::Streams;
    use fedrecsim_scenario::SplitSpec;

    /// Returns a data set of users with these items, which they have rated in this order with 1, 2, and
    /// so on. The last one of each is held out.
    fn dataset(users: &[&[u32]]) -> Dataset {
        let rows = users.iter().enumerate().flat_map(|(user, items)| {
            let rows = (1i32..).zip(*items);
            rows.map(move |(place, item)| {
                (
                    user as u32,
                    Interaction::new(*item, place as f32, i64::from(place)),
                )
            })
        });
        let (of_rows, interactions) = rows.unzip();
        let ratings = Ratings {
            users: of_rows,
            interactions,
            user_names: names(users.len() as u32),
            item_names: names(10),
            ..Ratings::default()
        };
        split::split(ratings, &SplitSpec::leave_one_out(false), Streams::new(1)).unwrap()
    }

    /// If this fails, popularity or a mean of ratings knows users who have not come yet. Item
    /// 7 is only theirs.
    #[test]
    fn totals_know_nothing_of_newcomers() {
        let users: [&[u32]; 4] = [&[1, 2, 0], &[7, 1, 3, 4, 0], &[2, 3, 0], &[7, 5, 0]];
        let mut dataset = dataset(&users);
        assert_eq!(dataset.popularity()[7], 2);
        dataset.leave_out_of_totals(&[UserId(1), UserId(3)]);
        assert_eq!(dataset.popularity(), [0, 1, 2, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(dataset.raters(), [0, 1, 2, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(dataset.training_ratings(), 4);
        assert_eq!(dataset.mean_training_rating(), 1.5);
        assert_eq!(dataset.users(), 4);
        assert_eq!(dataset.train_items(UserId(3)), [5, 7]);
    }

    /// If this fails, a newcomer is scored with ratings that it has not made yet, or with the held-out
    /// one.
    #[test]
    fn a_newcomer_has_its_earliest_ratings_alone() {
        let users: [&[u32]; 3] = [&[1, 2, 0], &[9, 4, 6, 2, 0], &[2, 3, 0]];
        let dataset = dataset(&users);
        let newcomers = [UserId(1), UserId(2)];
        let items = |count| {
            let known = dataset.with_earliest_ratings(&newcomers, count);
            assert_eq!(known.test(UserId(1)).items, [0]);
            assert_eq!(known.train_items(UserId(0)), [0; 0]);
            newcomers.map(|user| known.train_items(user).to_vec())
        };
        assert_eq!(items(0), [vec![0; 0], vec![0; 0]]);
        assert_eq!(items(1), [vec![9], vec![2]]);
        assert_eq!(items(3), [vec![4, 6, 9], vec![2, 3]]);
        let known = dataset.with_earliest_ratings(&newcomers, 3);
        let own = known.own_data(UserId(1));
        assert_eq!(own.ratings.iter().collect::<Vec<_>>(), [2.0, 3.0, 1.0]);
        let ranks: Vec<u32> = own.recency_ranks.iter().collect();
        assert_eq!(ranks, [1, 0, 2], "the last one is the latest of three");
    }
}
