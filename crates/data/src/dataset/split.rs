//! Splits ratings into a part to train on and a part to measure accuracy on, in one of two ways.
//!
//! **Leave-one-out**: a user's latest positive is the test item, the one before it (if asked for)
//! the validation item, the rest is for training. Ties in time go to the row that stands first in
//! the file, as with `rank(method="first", ascending=False)` in the authors' code. Among equal
//! latest timestamps the first row is the test item, the second the validation item. (In ML-100K
//! 415 of 943 users have such a tie.)
//!
//! A (user, item) pair may repeat, as in a listening history. Two rules then keep a held-out item
//! out of training, where the authors' code would let it in. The validation item is the latest
//! rating of an item *other than* the test item, and further rows with a held-out item are left out
//! of training.
//!
//! **K-fold**: all rows of all users are divided at random into equal parts; one part is the test part, the others are for training. See [`folds`](super::folds).

use std::ops::Range;

use super::Dataset;
use super::folds::FoldDraw;
use super::held_out::{HeldOut, ItemLists};
use super::ratings::{Interaction, Ratings};
use super::totals::Totals;
use super::user_rows::UserRows;
use fedrecsim_core::{Error, Result, Streams};
use fedrecsim_scenario::SplitSpec;

/// Splits all ratings of a file as `spec` says. Random draws come from `streams`.
///
/// # Errors
/// The same as those of [`Splitter::new`] and [`Splitter::finish`].
pub fn split(ratings: Ratings, spec: &SplitSpec, streams: Streams) -> Result<Dataset> {
    let users = ratings.user_names.len() as u32;
    let rows = ratings.interactions.len() as u64;
    split_part(ratings, 0..users, (rows, 0), spec, streams)
}

/// Splits the ratings of the users `own` of a file. `rows` counts the ratings of all its users, and
/// those of the users before these.
pub(super) fn split_part(
    mut ratings: Ratings,
    own: Range<u32>,
    (rows, before): (u64, u64),
    spec: &SplitSpec,
    streams: Streams,
) -> Result<Dataset> {
    let mut splitter = Splitter::new(ratings.items, spec, rows, streams)?;
    if let Some(draw) = &mut splitter.draw {
        (0..before).for_each(|_| {
            draw.next_is_test();
        });
    }
    ratings.users.iter_mut().for_each(|user| *user -= own.start);
    let (starts, grouped) = ratings.by_user(own.len());
    drop((ratings.users, ratings.interactions));
    let names = ratings.user_names[own.start as usize..].iter();
    for (bounds, name) in starts.windows(2).zip(names) {
        splitter.push_user(|| format!("user {name:?}"), &grouped[bounds[0]..bounds[1]]);
    }
    splitter.finish_part(
        own.start,
        ratings.user_names.len() as u32,
        ratings.user_names,
    )
}

/// Builds a split data set user by user, so that a generated population is never held unsplit.
pub struct Splitter {
    items: u32,
    train: UserRows,
    /// What was held out so far, in the way of the split.
    held_out: HeldOut,
    /// The draw of parts, in k-fold.
    draw: Option<FoldDraw>,
    /// Training rows of the current user.
    own: Vec<Interaction>,
    too_few: Option<TooFew>,
}

/// The users that cannot be split.
struct TooFew {
    first: String,
    first_different_items: usize,
    users: usize,
    most_rows: usize,
}

impl Splitter {
    /// Begins the split of users with `rows` rows in all, which only k-fold uses, in a catalogue of
    /// `items` items.
    ///
    /// # Errors
    /// [`Error::Dataset`] for more folds than rows.
    pub fn new(items: u32, spec: &SplitSpec, rows: u64, streams: Streams) -> Result<Self> {
        match *spec {
            SplitSpec::LeaveOneOut { validation_item } => {
                Ok(Self::leave_one_out(items, validation_item))
            }
            SplitSpec::KFold {
                folds, division, ..
            } => {
                let part = spec.part(streams.seed()).unwrap_or_default();
                let streams = division.map_or(streams, |number| Streams::new(number.into()));
                Ok(Self {
                    held_out: HeldOut::Ratings(Box::new(UserRows::new())),
                    draw: Some(FoldDraw::new(folds, part, rows, streams)?),
                    ..Self::leave_one_out(items, false)
                })
            }
        }
    }

    /// Begins leave-one-out for a catalogue of `items` items.
    pub fn leave_one_out(items: u32, validation_item: bool) -> Self {
        Self {
            items,
            train: UserRows::new(),
            held_out: HeldOut::Items {
                test: ItemLists::new(),
                validation: validation_item.then(ItemLists::new),
            },
            draw: None,
            own: Vec::new(),
            too_few: None,
        }
    }

    /// Returns whether no user was pushed yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.train.users() == 0 && self.too_few.is_none()
    }

    /// Splits the next user's ratings, given in the order of the file; `label` names the user in an
    /// error.
    pub fn push_user(&mut self, label: impl FnOnce() -> String, rows: &[Interaction]) {
        self.own.clear();
        let is_split = match (&mut self.held_out, &mut self.draw) {
            (HeldOut::Items { test, validation }, _) => {
                leave_one_out(rows, test, validation.as_mut(), &mut self.own)
            }
            (HeldOut::Ratings(test), draw) => {
                let mut next_is_test = || draw.as_mut().is_some_and(FoldDraw::next_is_test);
                let (mut own_test, own): (Vec<Interaction>, Vec<Interaction>) =
                    rows.iter().copied().partition(|_| next_is_test());
                self.own = own;
                test.push_user(&mut own_test);
                !self.own.is_empty()
            }
        };
        if is_split {
            self.train.push_user(&mut self.own);
        } else {
            self.note_too_few(label, rows);
        }
    }

    fn note_too_few(&mut self, label: impl FnOnce() -> String, rows: &[Interaction]) {
        let too_few = self.too_few.get_or_insert_with(|| {
            let positives = rows.iter().filter(|row| row.is_positive);
            let mut items: Vec<u32> = positives.map(|row| row.item).collect();
            items.sort_unstable();
            items.dedup();
            TooFew {
                first: label(),
                first_different_items: items.len(),
                users: 0,
                most_rows: 0,
            }
        });
        too_few.users += 1;
        too_few.most_rows = too_few.most_rows.max(rows.len());
    }

    /// Returns the split data set.
    ///
    /// # Errors
    /// [`Error::Dataset`] for users with too few ratings, naming the first of them and the
    /// `dataset.minimum_interactions` that would leave them out.
    pub fn finish(self) -> Result<Dataset> {
        let users = self.train.users() as u32;
        self.finish_part(0, users, Vec::new())
    }

    /// Returns the split data set of users from the number `first` on, of `users` users, who have
    /// these names.
    pub(super) fn finish_part(
        self,
        first: u32,
        users: u32,
        user_names: Vec<Box<str>>,
    ) -> Result<Dataset> {
        if let Some(too_few) = &self.too_few {
            return Err(Error::Dataset(self.too_few_message(too_few)));
        }
        let (items, train, held_out) = (self.items, self.train, self.held_out);
        let totals = Totals::of(items, (&train, &held_out), users);
        Ok(Dataset {
            items,
            train,
            held_out,
            user_names,
            first,
            totals,
        })
    }

    fn too_few_message(&self, too_few: &TooFew) -> String {
        let TooFew {
            first,
            first_different_items,
            users,
            most_rows,
        } = too_few;
        let why = match (&self.draw, &self.held_out) {
            (Some(draw), _) => format!(
                "{first} has no rating to train on: all of them are in the test part ({}); users without one",
                draw.part_in_words()
            ),
            (None, held_out) => {
                let (needed, held_out) = match held_out.has_validation_items() {
                    true => (3, "a test item, a validation item"),
                    false => (2, "a test item"),
                };
                format!(
                    "{first} has rated {first_different_items} different items, but leave-one-out needs at least \
                     {needed} ({held_out} and one to train on); users with too few"
                )
            }
        };
        format!(
            "{why}: {users}. Set dataset.minimum_interactions to {} to leave them out",
            most_rows + 1
        )
    }
}

/// Holds the latest positives of a user out, and leaves the rows to train on in `train`. Returns
/// whether the user has enough rows.
fn leave_one_out(
    rows: &[Interaction],
    test_items: &mut ItemLists,
    validation_items: Option<&mut ItemLists>,
    train: &mut Vec<Interaction>,
) -> bool {
    let test = latest_except(rows, None);
    let validation = test
        .filter(|_| validation_items.is_some())
        .and_then(|test| latest_except(rows, Some(test)));
    train.extend(
        rows.iter()
            .filter(|row| Some(row.item) != test && Some(row.item) != validation),
    );
    let (Some(test), true) = (test, train.iter().any(|row| row.is_positive)) else {
        return false;
    };
    test_items.push_user([test], 0);
    if let Some(items) = validation_items {
        items.push_user(validation, 0);
    }
    true
}

/// Returns the item of the latest positive, the first in the file among equals, of all rows with
/// another item than `item`.
fn latest_except(rows: &[Interaction], item: Option<u32>) -> Option<u32> {
    let mut latest: Option<&Interaction> = None;
    for row in rows
        .iter()
        .filter(|row| row.is_positive && Some(row.item) != item)
    {
        if latest.is_none_or(|best| row.time > best.time) {
            latest = Some(row);
        }
    }
    latest.map(|row| row.item)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;
    use fedrecsim_core::UserId;

    /// Splits one user's rows, given as (item, time); the rating is the row's position.
    fn one_user(rows: &[(u32, i64)], validation_item: bool) -> Result<Dataset> {
        let interactions = rows
            .iter()
            .enumerate()
            .map(|(position, &(item, time))| Interaction::new(item, position as f32, time))
            .collect();
        let ratings = Ratings {
            users: vec![0; rows.len()],
            interactions,
            user_names: vec!["ann".into()],
            items: 100,
        };
        split(
            ratings,
            &SplitSpec::LeaveOneOut { validation_item },
            Streams::new(1),
        )
    }

    const USER: UserId = UserId(0);

    /// Returns the test and the validation items of the user.
    fn held_out(dataset: &Dataset) -> (&[u32], &[u32]) {
        (dataset.test(USER).items, dataset.validation(USER).items)
    }

    #[test]
    fn the_latest_is_tested_and_the_one_before_validates() {
        let dataset = one_user(&[(7, 30), (3, 10), (5, 40), (1, 20)], true).unwrap();
        assert_eq!(held_out(&dataset), (&[5][..], &[7][..]));
        assert_eq!(dataset.train_items(USER), [1, 3]);
        assert_eq!(
            dataset.own_data(USER).ratings.iter().collect::<Vec<_>>(),
            [3.0, 1.0]
        );
        let dataset = one_user(&[(7, 30), (3, 10), (5, 40), (1, 20)], false).unwrap();
        assert_eq!(
            (dataset.validation(USER).items, dataset.train_items(USER)),
            (&[][..], &[1, 3, 7][..])
        );
    }

    #[test]
    fn ties_go_to_the_first_row_in_the_file() {
        // This is the authors' rank(method="first", ascending=False). The other way round would
        // change half of ML-100K's users.
        let dataset = one_user(&[(9, 5), (4, 8), (2, 8), (6, 8)], true).unwrap();
        assert_eq!(held_out(&dataset), (&[4][..], &[2][..]));
        assert_eq!(dataset.train_items(USER), [6, 9]);
    }

    #[test]
    fn a_repeated_held_out_item_is_no_training_positive() {
        let dataset = one_user(
            &[
                (4, 1),
                (2, 2),
                (6, 3),
                (2, 4),
                (4, 5),
                (4, 6),
                (8, 0),
                (8, 0),
            ],
            true,
        )
        .unwrap();
        // 4 is the latest; the next row is 4 again, so 2 validates; their earlier rows are dropped.
        assert_eq!(held_out(&dataset), (&[4][..], &[2][..]));
        assert_eq!(dataset.train_items(USER), [6, 8, 8]);
    }

    #[test]
    fn a_user_with_too_few_ratings_is_named_with_the_remedy() {
        let message = one_user(&[(4, 1), (2, 2)], true).unwrap_err().to_string();
        assert_eq!(
            message,
            "user \"ann\" has rated 2 different items, but leave-one-out needs at least 3 (a test item, a validation \
             item and one to train on); users with too few: 1. Set dataset.minimum_interactions to 3 to leave them out"
        );
        assert!(one_user(&[(4, 1), (2, 2)], false).is_ok());
        let message = one_user(&[(4, 1), (4, 2), (4, 3)], false)
            .unwrap_err()
            .to_string();
        assert!(
            message.contains("1 different items") && message.contains("minimum_interactions to 4"),
            "{message}"
        );
    }

    /// Returns the rows of four users, who take turns; there are `rows_each` of each.
    fn four_users(rows_each: u32) -> Ratings {
        let users: Vec<u32> = (0..4 * rows_each).map(|row| row % 4).collect();
        let row = |row: u32| Interaction::new(row / 4, (row % 5 + 1) as f32, i64::from(row));
        let interactions = (0..4 * rows_each).map(row).collect();
        Ratings {
            users,
            interactions,
            user_names: (0..4).map(|user| format!("u{user}").into()).collect(),
            items: 100,
        }
    }

    fn k_fold(folds: u32, fold: u32) -> SplitSpec {
        SplitSpec::KFold {
            folds,
            fold,
            division: None,
        }
    }

    /// If this fails, a fold trains on what it tests, or loses a rating.
    #[test]
    fn a_fold_and_the_other_folds_are_all_ratings() {
        let ratings = four_users(30);
        for fold in 0..5 {
            let dataset = split(ratings.clone(), &k_fold(5, fold), Streams::new(2)).unwrap();
            assert!(!dataset.holds_items_out() && dataset.test(USER).items.is_empty());
            let mut tested = 0;
            for user in (0..4).map(UserId) {
                let test = dataset.test_ratings(user).unwrap();
                let mut rows: Vec<(u32, u32)> = test
                    .items
                    .iter()
                    .copied()
                    .zip(test.ratings.iter().map(f32::to_bits))
                    .collect();
                tested += rows.len();
                let own = dataset.own_data(user);
                rows.extend(
                    own.items
                        .iter()
                        .copied()
                        .zip(own.ratings.iter().map(f32::to_bits)),
                );
                rows.sort_unstable();
                let all = ratings
                    .users
                    .iter()
                    .zip(&ratings.interactions)
                    .filter(|(of, _)| **of == user.0);
                let expected: Vec<(u32, u32)> = all
                    .map(|(_, row)| (row.item, row.rating.to_bits()))
                    .collect();
                assert_eq!(rows, expected, "{user}");
                assert!(own.items.is_sorted() && test.items.is_sorted());
            }
            assert_eq!(tested, 24);
            let scale = dataset.rating_scale().unwrap();
            assert_eq!((scale.minimum, scale.maximum), (1.0, 5.0));
        }
    }

    /// If this fails, a study over seeds tests some ratings of a division twice and others never.
    #[test]
    fn consecutive_seeds_hold_out_one_part_of_a_division_after_the_other() {
        let of_division = SplitSpec::KFold {
            folds: 5,
            fold: 2,
            division: Some(3),
        };
        let data =
            |spec: &SplitSpec, seed| split(four_users(30), spec, Streams::new(seed)).unwrap();
        let items = |spec: &SplitSpec, seed| data(spec, seed).train_items(USER).to_vec();
        for seed in 11..16 {
            assert_eq!(
                items(&of_division, seed),
                items(&k_fold(5, (2 + seed as u32) % 5), 3),
                "seed {seed}"
            );
        }
    }

    #[test]
    fn a_user_without_a_training_rating_in_a_fold_is_named() {
        // With one rating each and two folds, half of the users have no rating to train on.
        let message = split(four_users(1), &k_fold(2, 1), Streams::new(2)).unwrap_err();
        assert!(
            message.to_string().contains(
                "has no rating to train on: all of them are in the test part (fold 1 of 2)"
            ),
            "{message}"
        );
    }

    /// If this fails, an item that a user did not want is tested as if it had been wanted.
    #[test]
    fn only_positives_are_held_out() {
        let row = |item, time, is_positive| Interaction {
            is_positive,
            ..Interaction::new(item, 1.0, time)
        };
        let mut splitter = Splitter::leave_one_out(10, true);
        splitter.push_user(
            String::new,
            &[
                row(1, 1, true),
                row(2, 2, true),
                row(3, 3, true),
                row(4, 4, false),
            ],
        );
        let dataset = splitter.finish().unwrap();
        assert_eq!(held_out(&dataset), (&[3][..], &[2][..]));
        assert_eq!(
            (dataset.train_items(USER), dataset.popularity()[4]),
            (&[1, 4][..], 0)
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_split_partitions_the_ratings(
            rows in prop::collection::vec((0u32..6, 0u32..30, 0i64..9), 1..120),
            validation_item: bool,
        ) {
            // Repeated pairs are left out, and users who cannot be split.
            let mut seen = std::collections::BTreeSet::new();
            let rows: Vec<_> = rows.into_iter().filter(|row| seen.insert((row.0, row.1))).collect();
            let enough = |user: u32| rows.iter().filter(|row| row.0 == user).count() >= 3;
            let rows: Vec<_> = rows.iter().copied().filter(|row| enough(row.0)).collect();
            let users: Vec<u32> = rows.iter().map(|row| row.0).collect();
            prop_assume!(!users.is_empty());
            let interactions = rows.iter().map(|row| Interaction::new(row.1, 1.0, row.2)).collect();
            let user_names = (0..6).map(|user| user.to_string().into()).collect();
            let ratings = Ratings { users, interactions, user_names, items: 30 }.keep_active_users(3).unwrap();
            let dataset = split(ratings.clone(), &SplitSpec::LeaveOneOut { validation_item }, Streams::new(1)).unwrap();
            prop_assert_eq!(dataset.has_validation_items(), validation_item);
            for user in (0..dataset.users()).map(UserId::from) {
                let own: Vec<&Interaction> = ratings.users.iter().zip(&ratings.interactions)
                    .filter(|row| *row.0 == user.0).map(|row| row.1).collect();
                let mut before: Vec<u32> = own.iter().map(|row| row.item).collect();
                let mut after: Vec<u32> = dataset.touched_items(user).collect();
                before.sort_unstable();
                after.sort_unstable();
                prop_assert_eq!(before, after);
                prop_assert!(dataset.train_items(user).is_sorted());
                let time = |item: u32| own.iter().find(|row| row.item == item).unwrap().time;
                let (test, train) = (dataset.test(user).items[0], dataset.train_items(user));
                prop_assert!(train.iter().all(|&item| time(item) <= time(test)));
                for &validation in dataset.validation(user).items {
                    prop_assert!(time(validation) <= time(test));
                    prop_assert!(train.iter().all(|&item| time(item) <= time(validation)));
                }
            }
        }
    }
}
