//! Stores the rows of all users, user by user, with items ascending and beside each item its values
//! in the file.

use super::column::{Column, RankColumn, Values};
use super::own_data::OwnData;
use super::ratings::Interaction;
use fedrecsim_core::{Timestamp, UserId};

/// Rows of all users.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct UserRows {
    /// Offsets into the arrays below, one more than there are users.
    offsets: Vec<u64>,
    items: Vec<u32>,
    ratings: Column,
    recency_ranks: RankColumn,
    /// The instants; empty as long as none is known.
    instants: Vec<Timestamp>,
    /// Whether the split goes by the instants, so that they tell data sets apart.
    goes_by_instants: bool,
    weights: Column,
    /// The labels; absent as long as every row is a positive.
    labels: Option<Vec<bool>>,
}

impl UserRows {
    /// Makes a store without users.
    pub(crate) fn new() -> Self {
        Self {
            offsets: vec![0],
            items: Vec::new(),
            ratings: Column::new(),
            recency_ranks: RankColumn::default(),
            instants: Vec::new(),
            goes_by_instants: false,
            weights: Column::new(),
            labels: None,
        }
    }

    /// Makes a store without users for a split that goes by the instants of rows.
    pub(crate) fn by_instants() -> Self {
        Self {
            goes_by_instants: true,
            ..Self::new()
        }
    }

    /// Appends a user with these rows, which are sorted by item for this; equal items keep their
    /// order.
    pub(crate) fn push_user(&mut self, rows: &mut [Interaction]) {
        rows.sort_by_key(|row| row.item);
        let positives = rows.iter().filter(|row| row.is_positive);
        let mut times: Vec<i64> = positives.map(|row| row.time).collect();
        times.sort_unstable();
        for row in rows {
            let later = times.len() - times.partition_point(|time| *time <= row.time);
            if !row.is_positive {
                self.labels
                    .get_or_insert_with(|| vec![true; self.items.len()]);
            }
            if let Some(labels) = &mut self.labels {
                labels.push(row.is_positive);
            }
            if !self.instants.is_empty() || row.instant.known().is_some() {
                self.instants.resize(self.items.len(), Timestamp::UNKNOWN);
                self.instants.push(row.instant);
            }
            self.items.push(row.item);
            self.ratings.push(row.rating);
            self.weights.push(row.weight);
            self.recency_ranks.push(later as u32);
        }
        self.offsets.push(self.items.len() as u64);
    }

    /// Returns the number of users.
    pub(crate) fn users(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Returns the ratings of all users.
    pub(crate) fn all_ratings(&self) -> Values<'_> {
        self.ratings.all()
    }

    /// Returns the rows of `user` with all their values.
    pub(crate) fn own_data(&self, user: UserId) -> OwnData<'_> {
        let range = self.range(user);
        OwnData {
            items: &self.items[range.clone()],
            ratings: self.ratings.rows(range.clone()),
            recency_ranks: self.recency_ranks.rows(range.clone()),
            instants: self.instants.get(range.clone()).unwrap_or_default(),
            training_ends: None,
            weights: self.weights.rows(range.clone()),
            labels: self.labels.as_ref().map(|labels| &labels[range]),
        }
    }

    /// Feeds the rows of `user` with all their values to `sink`, as little-endian bytes in a fixed
    /// order.
    pub(crate) fn visit_user(&self, user: UserId, sink: &mut dyn FnMut(&[u8])) {
        let own = self.own_data(user);
        let mut bytes = Vec::with_capacity(16 * own.items.len());
        bytes.extend(own.items.iter().flat_map(|item| item.to_le_bytes()));
        let values = own.ratings.iter().chain(own.weights.iter());
        bytes.extend(values.flat_map(f32::to_le_bytes));
        bytes.extend(own.recency_ranks.iter().flat_map(u32::to_le_bytes));
        if self.goes_by_instants {
            let instants = own.instants.iter();
            bytes.extend(instants.flat_map(|instant| instant.0.to_le_bytes()));
        }
        let labels = own.labels.unwrap_or_default().iter();
        bytes.extend(labels.map(|label| u8::from(*label)));
        sink(&bytes);
    }

    /// Returns the rows of these users alone.
    pub(crate) fn of_users(&self, users: std::ops::Range<usize>) -> Self {
        let mut own = Self {
            goes_by_instants: self.goes_by_instants,
            ..Self::new()
        };
        for user in users.map(UserId::from) {
            let rows = self.own_data(user);
            own.items.extend_from_slice(rows.items);
            rows.ratings
                .iter()
                .for_each(|rating| own.ratings.push(rating));
            rows.weights
                .iter()
                .for_each(|weight| own.weights.push(weight));
            let ranks = rows.recency_ranks.iter();
            ranks.for_each(|rank| own.recency_ranks.push(rank));
            own.instants.extend_from_slice(rows.instants);
            if let Some(labels) = rows.labels {
                own.labels.get_or_insert_default().extend_from_slice(labels);
            }
            own.offsets.push(own.items.len() as u64);
        }
        own
    }

    fn range(&self, user: UserId) -> std::ops::Range<usize> {
        self.offsets[user.index()] as usize..self.offsets[user.index() + 1] as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: UserId = UserId(1);

    /// Returns the rows of a user after those of another one, so that offsets matter.
    fn rows(of_user: &[(u32, i64, bool)]) -> UserRows {
        let mut rows = UserRows::new();
        rows.push_user(&mut [Interaction::new(9, 1.0, 100), Interaction::new(3, 2.0, 50)]);
        let mut own: Vec<Interaction> = of_user
            .iter()
            .map(|&(item, time, is_positive)| Interaction {
                is_positive,
                ..Interaction::new(item, 4.0, time)
            })
            .collect();
        rows.push_user(&mut own);
        rows
    }

    /// If this fails, FedGram and FedSpec weigh the wrong items as recent: rho is the number of
    /// strictly later positives, as the prototype has it
    /// (`len - searchsorted(sorted, time, "right")`).
    #[test]
    fn a_recency_rank_counts_the_strictly_later_positives() {
        let rows = rows(&[(7, 30, true), (3, 10, true), (5, 40, true), (1, 30, true)]);
        let own = rows.own_data(USER);
        assert_eq!(own.items, [1, 3, 5, 7]);
        assert_eq!(own.recency_ranks.iter().collect::<Vec<_>>(), [1, 3, 0, 1]);
        assert_eq!(
            rows.own_data(UserId(0))
                .recency_ranks
                .iter()
                .collect::<Vec<_>>(),
            [1, 0]
        );
    }

    /// If this fails, a split that goes by no instant keeps no instants, which weights by age need, or
    /// it has another digest for having them.
    #[test]
    fn instants_are_kept_and_tell_apart_only_splits_that_go_by_them() {
        let with = |mut rows: UserRows, instants: [i64; 2]| {
            let row = |(item, instant)| Interaction {
                instant: Timestamp(instant),
                ..Interaction::new(item, 1.0, 0)
            };
            rows.push_user(&mut [Interaction::new(9, 1.0, 100)]);
            rows.push_user(
                &mut [4, 2]
                    .into_iter()
                    .zip(instants)
                    .map(row)
                    .collect::<Vec<_>>(),
            );
            let mut fed = Vec::new();
            rows.visit_user(USER, &mut |bytes| fed.extend_from_slice(bytes));
            let part = rows.of_users(1..2);
            for own in [rows.own_data(USER), part.own_data(UserId(0))] {
                assert_eq!(own.instants, [instants[1], instants[0]].map(Timestamp));
            }
            fed
        };
        let [new, clock] = [UserRows::new, UserRows::by_instants];
        assert_eq!(with(new(), [5, 6]), with(new(), [5, 7]));
        assert_ne!(with(clock(), [5, 6]), with(clock(), [5, 7]));
        assert_eq!(rows(&[(7, 30, true)]).own_data(USER).instants, []);
    }

    /// If this fails, what a user was shown and did not want makes the liked items look older.
    #[test]
    fn what_is_no_positive_is_labelled_and_makes_nothing_older() {
        let rows = rows(&[(7, 30, true), (3, 10, true), (5, 40, false)]);
        let own = rows.own_data(USER);
        assert_eq!(own.labels, Some(&[true, false, true][..]));
        assert_eq!(own.recency_ranks.iter().collect::<Vec<_>>(), [1, 0, 0]);
        assert_eq!(rows.own_data(UserId(0)).labels, Some(&[true, true][..]));
    }
}
