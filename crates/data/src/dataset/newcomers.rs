//! What is known of users or items that have not come yet (`[joins]`): nothing, or their earliest
//! ratings.

use std::cmp::Reverse;

use super::Dataset;
use super::own_data::OwnData;
use super::ratings::Interaction;
use super::totals::Totals;
use super::user_rows::UserRows;
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
        let train = self.rows_of_users(|user, own| match newcomers.binary_search(&user) {
            Ok(_) => earliest_positives(own, count),
            Err(_) => Vec::new(),
        });
        Self {
            train,
            ..self.clone()
        }
    }

    /// Returns this data set where `items` (ascending) come later: nobody has rated them in training,
    /// and they are no candidates and no negatives. The range of ratings stays.
    #[must_use]
    pub fn without_items(&self, items: &[u32]) -> Self {
        let train = self.rows_of_users(|_, own| {
            let is_there = |row: &usize| items.binary_search(&own.items[*row]).is_err();
            (0..own.items.len()).filter(is_there).collect()
        });
        let mut without = Self {
            train,
            absent: items.to_vec(),
            ..self.clone()
        };
        without.leave_out_of_totals(&[]);
        // The ratings that become known later tell data sets apart as well.
        without.totals.digest = Some(self.digest());
        without
    }

    /// Returns this data set of [`Self::without_items`] after these have come, and have their earliest
    /// `count` positives of those in `whole`; all of their ratings, without a count. The held-out part
    /// and the totals stay as they are.
    #[must_use]
    pub fn with_items(&self, whole: &Self, count: Option<u32>) -> Self {
        let train = match count {
            None => whole.train.clone(),
            Some(count) => {
                let earliest = whole.earliest_rows(&self.absent, count);
                whole.rows_of_users(|user, own| {
                    let is_there = |row: usize| {
                        self.absent.binary_search(&own.items[row]).is_err()
                            || earliest.binary_search(&(user, row)).is_ok()
                    };
                    (0..own.items.len()).filter(|row| is_there(*row)).collect()
                })
            }
        };
        Self {
            train,
            absent: Vec::new(),
            ..self.clone()
        }
    }

    /// Returns the users and rows of the earliest `count` positives of each of `items` (ascending),
    /// ascending. Without instants, or at the same one, the users with the least numbers come first.
    fn earliest_rows(&self, items: &[u32], count: u32) -> Vec<(UserId, usize)> {
        let mut of_items = vec![Vec::new(); items.len()];
        for user in self.own_users().map(UserId) {
            let own = self.own_data(user);
            for row in (0..own.items.len()).filter(|row| own.is_positive(*row)) {
                if let Ok(place) = items.binary_search(&own.items[row]) {
                    of_items[place].push((instant_of(&own, row), user, row));
                }
            }
        }
        let earliest = of_items.into_iter().flat_map(|mut rows| {
            rows.sort_unstable();
            rows.truncate(count as usize);
            rows.into_iter().map(|(_, user, row)| (user, row))
        });
        let mut earliest: Vec<_> = earliest.collect();
        earliest.sort_unstable();
        earliest
    }

    /// Returns those rows of every user that `rows` picks.
    fn rows_of_users(&self, rows: impl Fn(UserId, OwnData<'_>) -> Vec<usize>) -> UserRows {
        let mut train = self.train.of_users(0..0);
        for user in self.own_users().map(UserId) {
            let own = self.own_data(user);
            let ranks: Vec<u32> = own.recency_ranks.iter().collect();
            let row = |row: usize| Interaction {
                instant: instant_of(&own, row),
                weight: own.weights.get(row),
                is_positive: own.is_positive(row),
                // A rank is the number of positives that are later.
                ..Interaction::new(own.items[row], own.ratings.get(row), -i64::from(ranks[row]))
            };
            let mut rows: Vec<Interaction> = rows(user, own).into_iter().map(row).collect();
            train.push_user(&mut rows);
        }
        train
    }
}

fn instant_of(own: &OwnData<'_>, row: usize) -> Timestamp {
    own.instants.get(row).copied().unwrap_or(Timestamp::UNKNOWN)
}

/// Returns the rows of the earliest `count` positives. Of those that are equally old, the items with
/// the least numbers come first.
fn earliest_positives(own: OwnData<'_>, count: u32) -> Vec<usize> {
    let ranks: Vec<u32> = own.recency_ranks.iter().collect();
    let rows = 0..own.items.len();
    let mut rows: Vec<usize> = rows.filter(|row| own.is_positive(*row)).collect();
    rows.sort_by_key(|row| Reverse(ranks[*row]));
    rows.truncate(count as usize);
    rows
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::dataset::negatives::{self, NegativeSampler, Samples};
    use crate::dataset::ratings::{Ratings, names};
    use crate::dataset::split;
    use fedrecsim_core::{InvitationId, Streams};
    use fedrecsim_scenario::{NegativePool, NegativesSpec, SplitSpec};

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

    /// If this fails, somebody trains on an item before it comes, counts it as popular, or draws it as a
    /// negative or candidate.
    #[test]
    fn an_item_that_comes_later_is_unknown() {
        let users: [&[u32]; 4] = [&[1, 2, 0], &[7, 1, 3, 4, 0], &[2, 3, 7], &[7, 5, 0]];
        let whole = dataset(&users);
        let without = whole.without_items(&[3, 7]);
        assert_eq!(without.popularity(), [0, 2, 2, 0, 1, 1, 0, 0, 0, 0]);
        assert_eq!(without.training_ratings(), 6);
        assert_eq!(without.train_items(UserId(1)), [1, 4]);
        assert_eq!(
            without.test(UserId(2)).items,
            [7],
            "it is held out as before"
        );
        assert_eq!(without.digest(), whole.digest());
        let ranks = without.own_data(UserId(1)).recency_ranks;
        assert_eq!(ranks.iter().collect::<Vec<_>>(), [1, 0]);
        let mut unranked: Vec<u32> = without.items_without_rank(UserId(0)).collect();
        unranked.sort_unstable();
        assert_eq!(unranked, [0, 1, 2, 3, 7]);
        for pool in [NegativePool::Unrated, NegativePool::NotInTrain] {
            let left = |data: &Dataset, user: u32, per_positive: u32| {
                let spec = NegativesSpec { pool, per_positive };
                let mut sampler = NegativeSampler::new(10, &spec);
                let mut samples = Samples::default();
                let id = InvitationId(0);
                let drawn = sampler.draw(data, Streams::new(1), UserId(user), id, &mut samples);
                drawn.map(|()| samples.items[1..=per_positive as usize].to_vec())
            };
            // User 2 trains on item 2, and has item 7 held out, which counts once.
            let drawn = left(&without, 2, 7).unwrap();
            assert!(!drawn.contains(&3) && !drawn.contains(&7), "{drawn:?}");
            assert!(left(&without, 2, 8).is_err());
            let check = |per_positive| {
                let spec = NegativesSpec { pool, per_positive };
                negatives::check(&without, &spec).is_ok()
            };
            assert_eq!([5, 6].map(check), [true, pool == NegativePool::NotInTrain]);
            negatives::check(
                &without,
                &NegativesSpec {
                    pool,
                    per_positive: 1,
                },
            )
            .unwrap();
        }
    }

    /// If this fails, an item has ratings that nobody has made yet, or loses the other ratings of those
    /// who make them. Instants decide who is first, and then numbers of users.
    #[test]
    fn an_item_has_its_earliest_ratings_when_it_has_come() {
        let users: [&[u32]; 4] = [&[1, 2, 0], &[1, 7, 3, 4, 0], &[7, 2, 3, 0], &[7, 5, 0]];
        let whole = dataset(&users);
        let without = whole.without_items(&[7]);
        let who = |count| {
            let with = without.with_items(&whole, count);
            assert_eq!(with.train_items(UserId(0)), [1, 2]);
            assert_eq!(with.absent_items(), [0; 0]);
            let has_it = |user: &u32| with.train_items(UserId(*user)).contains(&7);
            (0..4).filter(has_it).collect::<Vec<u32>>()
        };
        assert_eq!(who(Some(0)), [0; 0]);
        assert_eq!(who(Some(1)), [1]);
        assert_eq!(who(Some(2)), [1, 2]);
        assert_eq!(who(Some(9)), [1, 2, 3]);
        assert_eq!(who(None), [1, 2, 3]);
        assert_eq!(without.with_items(&whole, Some(9)).train, whole.train);
    }
}
