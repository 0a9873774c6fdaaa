//! Leaves a part of the users and items of a data set, as the FedRAP paper does to study sparsity
//! (Table 7).

use super::ratings::Ratings;
use fedrecsim_core::{Error, PortableDraws, Result, Streams};
use fedrecsim_scenario::{Kept, SubsetSpec};

impl Ratings {
    /// Leaves users with timestamps alone if `spec` says so, then the items that it keeps, then, by
    /// the ratings that are left, the users, and then the newest ratings of each. Users and items are
    /// numbered anew in the order of first appearance. Of those with as many ratings, the first to
    /// appear come first.
    ///
    /// # Errors
    /// [`Error::Dataset`] if nothing is left.
    pub(super) fn subset(mut self, spec: &SubsetSpec, streams: Streams) -> Result<Self> {
        if spec.with_timestamps {
            let mut has_all = vec![true; self.user_names.len()];
            for (user, row) in self.users.iter().zip(&self.interactions) {
                has_all[*user as usize] &= row.instant.known().is_some();
            }
            self = self.only(|user, _| has_all[user as usize]);
            if self.users.is_empty() {
                return Err(Error::Dataset(
                    "`dataset.subset` leaves no rating: with_timestamps is true, and no user has a timestamp for every rating"
                        .to_owned(),
                ));
            }
        }
        if let Some(wanted) = spec.items {
            let items = self.interactions.iter().map(|interaction| interaction.item);
            let kept = kept(
                items,
                self.items() as usize,
                wanted,
                (spec, streams, "dataset/subset-items"),
            );
            self = self.only(|_, item| kept[item as usize]);
        }
        if let Some(wanted) = spec.users {
            let users = self.users.iter().copied();
            let kept = kept(
                users,
                self.user_names.len(),
                wanted,
                (spec, streams, "dataset/subset-users"),
            );
            self = self.only(|user, _| kept[user as usize]);
        }
        if let Some(newest) = spec.newest_per_user {
            let older = self.older_rows(newest as usize);
            self = self.rows_only(|row, _, _| !older[row]);
        }
        if self.users.is_empty() {
            return Err(Error::Dataset(
                "`dataset.subset` leaves no rating".to_owned(),
            ));
        }
        Ok(self)
    }
}

impl Ratings {
    /// Returns which rows are not among the `newest` latest of their user. Among equal times the row
    /// that stands first in the file is the latest, as for the split.
    fn older_rows(&self, newest: usize) -> Vec<bool> {
        let mut order: Vec<usize> = (0..self.users.len()).collect();
        order.sort_by_key(|row| {
            (
                self.users[*row],
                std::cmp::Reverse(self.interactions[*row].time),
            )
        });
        let mut is_older = vec![false; order.len()];
        for of_user in order.chunk_by(|one, other| self.users[*one] == self.users[*other]) {
            let older = of_user.iter().skip(newest);
            older.for_each(|row| is_older[*row] = true);
        }
        is_older
    }
}

/// Returns which of `count` users or items are kept; `of_rows` has the one of each rating, and
/// `name` is the name of the stream that draws a random part.
fn kept(
    of_rows: impl Iterator<Item = u32>,
    count: usize,
    wanted: u32,
    (spec, streams, name): (&SubsetSpec, Streams, &str),
) -> Vec<bool> {
    let mut ratings = vec![0u64; count];
    of_rows.for_each(|one| ratings[one as usize] += 1);
    let mut order: Vec<u32> = (0..count as u32).collect();
    match spec.keep {
        Kept::MostRated => order.sort_by_key(|one| std::cmp::Reverse(ratings[*one as usize])),
        Kept::LeastRated => order.sort_by_key(|one| ratings[*one as usize]),
        Kept::Random => streams.named(name, 0, 0).shuffle_portably(&mut order),
    }
    let mut kept = vec![false; count];
    order
        .iter()
        .take(wanted as usize)
        .for_each(|one| kept[*one as usize] = true);
    kept
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::dataset::ratings::Interaction;

    /// Returns ratings of three users: 0 has rated four items, 1 two and 2 three.
    fn ratings() -> Ratings {
        let rows = [
            (0, 0),
            (1, 1),
            (2, 1),
            (0, 1),
            (0, 2),
            (2, 2),
            (1, 3),
            (2, 0),
            (0, 3),
        ];
        let (users, interactions) = rows
            .iter()
            .map(|(user, item)| (*user, Interaction::new(*item, 1.0, 0)))
            .unzip();
        let user_names = ["a", "b", "c"].map(Into::into).into();
        Ratings {
            users,
            interactions,
            user_names,
            item_names: crate::dataset::ratings::names(4),
            ..Ratings::default()
        }
    }

    fn names(spec: &SubsetSpec) -> (Vec<String>, u32, usize) {
        let left = ratings().subset(spec, Streams::new(5)).unwrap();
        (
            left.user_names.iter().map(ToString::to_string).collect(),
            left.items(),
            left.users.len(),
        )
    }

    /// If this fails, a study of sparsity runs on other users or items than it says.
    #[test]
    fn users_and_items_are_kept_by_their_ratings() {
        let of = |users, items, keep| SubsetSpec {
            users,
            items,
            keep,
            with_timestamps: false,
            newest_per_user: None,
        };
        assert_eq!(
            names(&of(Some(2), None, Kept::MostRated)),
            (vec!["a".into(), "c".into()], 4, 7)
        );
        assert_eq!(
            names(&of(Some(1), None, Kept::LeastRated)),
            (vec!["b".into()], 2, 2)
        );
        // Item 1 has three ratings, and item 0 is the first of those with two. With them user 0 has
        // two ratings, as user 2.
        assert_eq!(
            names(&of(None, Some(2), Kept::MostRated)),
            (vec!["a".into(), "b".into(), "c".into()], 2, 5)
        );
        assert_eq!(
            names(&of(Some(1), Some(2), Kept::MostRated)),
            (vec!["a".into()], 2, 2)
        );
        assert_eq!(
            names(&of(Some(9), Some(9), Kept::Random)),
            names(&of(None, None, Kept::MostRated))
        );
        let random = names(&of(Some(2), None, Kept::Random));
        assert_eq!(
            (random.0.len(), random),
            (2, names(&of(Some(2), None, Kept::Random)))
        );
    }
}
