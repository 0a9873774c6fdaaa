//! Splits ratings into a part to train on and a part to measure accuracy on.
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
//! **Holdout**: a share of every user's positives is drawn and held out, by the same two rules.
//!
//! **Global time**: one instant divides the ratings of all users. See
//! [`global_time`](super::global_time).
//!
//! **K-fold**: all rows of all users are divided at random into equal parts; one part is the test part, the others are for training. See [`folds`](super::folds).

use std::ops::Range;

use super::Dataset;
use super::folds::FoldDraw;
use super::held_out::{HeldOut, HeldOutLists, ItemLists};
use super::ratings::{Interaction, Ratings};
use super::split_facts::SplitFacts;
use super::totals::Totals;
use super::user_rows::UserRows;
use fedrecsim_core::{Error, PortableDraws, Result, Streams};
use fedrecsim_scenario::{HoldoutSpec, SplitSpec};

/// Splits all ratings of a file as `spec` says. Random draws come from `streams`.
///
/// # Errors
/// The same as those of [`Splitter::new`] and [`Splitter::finish`], and [`Error::Dataset`] for a
/// split by time of ratings without timestamps, or one that leaves nobody.
pub fn split(ratings: Ratings, spec: &SplitSpec, streams: Streams) -> Result<Dataset> {
    if let SplitSpec::GlobalTime(spec) = spec {
        return super::global_time::split(ratings, spec, streams);
    }
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
    if goes_by_clock(spec) {
        ratings.check_clock("`dataset.split.leave-one-out.session_gap_days`")?;
    }
    let mut splitter = Splitter::new(ratings.items, own.start, (spec, rows), streams)?;
    if let Way::KFold(draw) = &mut splitter.way {
        (0..before).for_each(|_| {
            draw.next_is_test();
        });
    }
    ratings.users.iter_mut().for_each(|user| *user -= own.start);
    let (starts, grouped) = ratings.by_user(own.len());
    drop((ratings.users, ratings.interactions));
    let mut names = ratings.user_names;
    let mut kept = vec![true; names.len()];
    for (bounds, user) in starts.windows(2).zip(own.clone()) {
        let name = &names[user as usize];
        let rows = &grouped[bounds[0]..bounds[1]];
        kept[user as usize] = splitter.push_user(|| format!("user {name:?}"), rows);
    }
    let mut kept = kept.into_iter();
    names.retain(|_| kept.next().unwrap_or(true));
    splitter.finish_part(own.start, names.len() as u32, names)
}

/// Returns whether ratings are split by more than their order in time.
pub(super) fn goes_by_clock(spec: &SplitSpec) -> bool {
    match spec {
        SplitSpec::GlobalTime(_) => true,
        SplitSpec::LeaveOneOut {
            session_gap_days, ..
        } => session_gap_days.is_some(),
        SplitSpec::Holdout(_) | SplitSpec::KFold { .. } => false,
    }
}

/// Builds a split data set user by user, so that a generated population is never held unsplit.
pub struct Splitter {
    items: u32,
    train: UserRows,
    /// What was held out so far, in the way of the split.
    held_out: HeldOut,
    way: Way,
    /// The number of the next user.
    user: u32,
    /// Training rows of the current user.
    own: Vec<Interaction>,
    facts: SplitFacts,
    too_few: Option<TooFew>,
}

/// How the ratings of a user are divided.
enum Way {
    LeaveOneOut { session_gap_days: Option<f64> },
    Holdout(HoldoutSpec, Streams),
    KFold(Box<FoldDraw>),
}

/// The users that cannot be split.
struct TooFew {
    first: String,
    first_different_items: usize,
    users: usize,
    most_rows: usize,
}

/// What is held out of one user's ratings.
#[derive(Default)]
struct Parts {
    test: Vec<u32>,
    validation: Vec<u32>,
    left_out: Vec<u32>,
}

impl Splitter {
    /// Begins the split of the users from the number `first` on in a catalogue of `items` items.
    /// K-fold has to know how many rows there are in all.
    ///
    /// # Errors
    /// [`Error::Dataset`] for more folds than rows, and [`Error::Usage`] for a split by one instant,
    /// which is not made user by user.
    pub(super) fn new(
        items: u32,
        first: u32,
        (spec, rows): (&SplitSpec, u64),
        streams: Streams,
    ) -> Result<Self> {
        let (way, validates) = match *spec {
            SplitSpec::LeaveOneOut {
                validation_item,
                session_gap_days,
            } => (Way::LeaveOneOut { session_gap_days }, validation_item),
            SplitSpec::Holdout(spec) => (Way::Holdout(spec, streams), spec.validation_share > 0.0),
            SplitSpec::KFold {
                folds, division, ..
            } => {
                let part = spec.part(streams.seed()).unwrap_or_default();
                let streams = division.map_or(streams, |number| Streams::new(number.into()));
                let draw = FoldDraw::new(folds, part, rows, streams)?;
                (Way::KFold(Box::new(draw)), false)
            }
            SplitSpec::GlobalTime(_) => {
                let message = "`dataset.split.global-time` needs the ratings of a file";
                return Err(Error::Usage(message.to_owned()));
            }
        };
        let held_out = match way {
            Way::KFold(_) => HeldOut::Ratings(Box::new(UserRows::new())),
            _ => HeldOut::Items(Box::new(HeldOutLists {
                test: ItemLists::new(),
                validation: validates.then(ItemLists::new),
                left_out: goes_by_clock(spec).then(ItemLists::new),
            })),
        };
        Ok(Self {
            held_out,
            way,
            user: first,
            ..Self::leave_one_out(items, false)
        })
    }

    /// Begins leave-one-out for a catalogue of `items` items.
    pub fn leave_one_out(items: u32, validation_item: bool) -> Self {
        Self {
            items,
            train: UserRows::new(),
            held_out: HeldOut::Items(Box::new(HeldOutLists {
                test: ItemLists::new(),
                validation: validation_item.then(ItemLists::new),
                left_out: None,
            })),
            way: Way::LeaveOneOut {
                session_gap_days: None,
            },
            user: 0,
            own: Vec::new(),
            facts: SplitFacts::default(),
            too_few: None,
        }
    }

    /// Returns whether no user was pushed yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.train.users() == 0 && self.too_few.is_none()
    }

    /// Splits the next user's ratings, given in the order of the file; `label` names the user in an
    /// error. Returns false for a user who is left out, since a session took all of the history.
    pub fn push_user(&mut self, label: impl FnOnce() -> String, rows: &[Interaction]) -> bool {
        self.own.clear();
        let user = self.user;
        self.user += 1;
        let parts = match &mut self.way {
            Way::KFold(draw) => {
                let mut test = Vec::new();
                for row in rows {
                    let part = if draw.next_is_test() {
                        &mut test
                    } else {
                        &mut self.own
                    };
                    part.push(*row);
                }
                if let HeldOut::Ratings(all) = &mut self.held_out {
                    all.push_user(&mut test);
                }
                (!self.own.is_empty()).then(Parts::default)
            }
            Way::LeaveOneOut { session_gap_days } => {
                let validates = self.held_out.has_validation_items();
                leave_one_out(rows, validates, *session_gap_days, &mut self.own)
            }
            Way::Holdout(spec, streams) => holdout(rows, spec, (*streams, user), &mut self.own),
        };
        let Some(parts) = parts else {
            self.note_too_few(label, rows);
            return true;
        };
        if !parts.left_out.is_empty() && !self.own.iter().any(|row| row.is_positive) {
            self.facts.users_without_history += 1;
            return false;
        }
        self.facts.add_targets(rows, &parts.test, &self.own);
        self.train.push_user(&mut self.own);
        if let HeldOut::Items(lists) = &mut self.held_out {
            lists.test.push_user(parts.test, 0);
            if let Some(validation) = &mut lists.validation {
                validation.push_user(parts.validation, 0);
            }
            if let Some(left_out) = &mut lists.left_out {
                left_out.push_user(parts.left_out, 0);
            }
        }
        true
    }

    fn note_too_few(&mut self, label: impl FnOnce() -> String, rows: &[Interaction]) {
        let too_few = self.too_few.get_or_insert_with(|| TooFew {
            first: label(),
            first_different_items: different_positives(rows).len(),
            users: 0,
            most_rows: 0,
        });
        too_few.users += 1;
        too_few.most_rows = too_few.most_rows.max(rows.len());
    }

    /// Returns the split data set.
    ///
    /// # Errors
    /// [`Error::Dataset`] for users with too few ratings, naming the first of them and the
    /// `dataset.minimum_interactions` that would leave them out, and for a session gap that leaves
    /// nobody.
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
        if users == 0 && self.facts.users_without_history > 0 {
            return Err(Error::Dataset(format!(
                "no user is left: `dataset.split.leave-one-out.session_gap_days` takes the whole history of \
                 all {} users; give a shorter gap",
                self.facts.users_without_history
            )));
        }
        let (items, train, held_out) = (self.items, self.train, self.held_out);
        let totals = Totals::of(items, (&train, &held_out), users, self.facts);
        Ok(Dataset {
            items,
            train,
            held_out,
            user_names,
            first,
            totals,
            training_ends: None,
            tested: None,
        })
    }

    fn too_few_message(&self, too_few: &TooFew) -> String {
        let TooFew {
            first,
            first_different_items,
            users,
            most_rows,
        } = too_few;
        let split = match &self.way {
            Way::Holdout(..) => "holdout",
            _ => "leave-one-out",
        };
        let why = match &self.way {
            Way::KFold(draw) => format!(
                "{first} has no rating to train on: all of them are in the test part ({}); users without one",
                draw.part_in_words()
            ),
            _ => {
                let (needed, held_out) = match self.held_out.has_validation_items() {
                    true => (3, "a test item, a validation item"),
                    false => (2, "a test item"),
                };
                format!(
                    "{first} has rated {first_different_items} different items, but {split} needs at least \
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

/// Holds the latest positives of a user out, and leaves the rows to train on in `train`. `None` for
/// a user who has too few.
fn leave_one_out(
    rows: &[Interaction],
    validates: bool,
    session_gap_days: Option<f64>,
    train: &mut Vec<Interaction>,
) -> Option<Parts> {
    train.extend_from_slice(rows);
    let mut parts = Parts::default();
    let Parts {
        test,
        validation,
        left_out,
    } = &mut parts;
    for (held_out, is_wanted) in [(test, true), (validation, validates)] {
        let Some(latest) = latest_positive(train).filter(|_| is_wanted) else {
            break;
        };
        held_out.push(latest.item);
        train.retain(|row| row.item != latest.item);
        if let Some(gap) = session_gap_days {
            let is_near = |row: &Interaction| latest.instant.days_since(row.instant) <= gap;
            let near = train.iter().filter(|row| is_near(row));
            left_out.extend(near.map(|row| row.item));
            train.retain(|row| !is_near(row));
        }
    }
    let has_history = train.iter().any(|row| row.is_positive);
    (has_history || !parts.left_out.is_empty()).then_some(parts)
}

/// Returns the latest positive, the first in the file among equals.
fn latest_positive(rows: &[Interaction]) -> Option<Interaction> {
    let mut latest: Option<&Interaction> = None;
    for row in rows.iter().filter(|row| row.is_positive) {
        if latest.is_none_or(|best| row.time > best.time) {
            latest = Some(row);
        }
    }
    latest.copied()
}

/// Draws the positives of a user that are held out, and leaves the rows to train on in `train`.
/// `None` for a user who has too few.
fn holdout(
    rows: &[Interaction],
    spec: &HoldoutSpec,
    (streams, user): (Streams, u32),
    train: &mut Vec<Interaction>,
) -> Option<Parts> {
    let mut items = different_positives(rows);
    let validates = spec.validation_share > 0.0;
    let most = items.len().checked_sub(1 + usize::from(validates))?;
    let part =
        |share: f64, most: usize| ((share * items.len() as f64).round() as usize).clamp(1, most);
    if most == 0 {
        return None;
    }
    let test = part(spec.share, most);
    let validation = match validates {
        true => part(spec.validation_share, items.len() - 1 - test),
        false => 0,
    };
    let mut stream = streams.named("dataset/holdout", u64::from(user), 0);
    stream.shuffle_portably(&mut items);
    let (held_out, rest) = items.split_at(test + validation);
    train.extend(
        rows.iter()
            .filter(|row| !row.is_positive || rest.contains(&row.item)),
    );
    train.retain(|row| !held_out.contains(&row.item));
    Some(Parts {
        test: held_out[..test].to_vec(),
        validation: held_out[test..].to_vec(),
        left_out: Vec::new(),
    })
}

/// Returns the items that a user likes, ascending.
fn different_positives(rows: &[Interaction]) -> Vec<u32> {
    let positives = rows.iter().filter(|row| row.is_positive);
    let mut items: Vec<u32> = positives.map(|row| row.item).collect();
    items.sort_unstable();
    items.dedup();
    items
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;
    use fedrecsim_core::{Timestamp, UserId};
    use fedrecsim_scenario::{Cut, GlobalTimeSpec, Targets};

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
            &SplitSpec::leave_one_out(validation_item),
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

    const DAY_NS: i64 = 86_400_000_000_000;

    /// Returns ratings of (user, item, day), with a clock.
    fn timed(rows: &[(u32, u32, i64)]) -> Ratings {
        let interaction = |&(_, item, day): &(u32, u32, i64)| Interaction {
            instant: Timestamp(day * DAY_NS),
            ..Interaction::new(item, 1.0, day)
        };
        let users = 1 + rows.iter().map(|row| row.0).max().unwrap();
        Ratings {
            users: rows.iter().map(|row| row.0).collect(),
            interactions: rows.iter().map(interaction).collect(),
            user_names: (0..users)
                .map(|user| format!("name-{user}").into())
                .collect(),
            items: 1 + rows.iter().map(|row| row.1).max().unwrap(),
        }
    }

    /// If this fails, what was rated in the same session as the test item says what it is.
    #[test]
    fn a_session_is_left_out_with_its_held_out_item() {
        let split_with = |gap, validation_item, rows: &[(u32, u32, i64)]| {
            let spec = SplitSpec::LeaveOneOut {
                validation_item,
                session_gap_days: Some(gap),
            };
            split(timed(rows), &spec, Streams::new(1))
        };
        let rows = [
            (0, 0, 1),
            (0, 1, 5),
            (0, 2, 6),
            (0, 3, 20),
            (0, 4, 20),
            (0, 5, 21),
        ];
        let dataset = split_with(1.0, true, &rows).unwrap();
        assert_eq!(held_out(&dataset), (&[5][..], &[2][..]));
        assert_eq!(dataset.train_items(USER), [0]);
        let kept_away: Vec<u32> = dataset.held_out_items(USER).collect();
        assert_eq!(kept_away, [5, 2, 1, 3, 4]);
        let facts = dataset.split_facts();
        assert_eq!(
            (facts.timed_test_items, facts.test_items_within_a_day),
            (1, 0)
        );
        // The gap takes all of the second user, who is left out, and then of both.
        let two = [&rows[..], &[(1, 0, 3), (1, 1, 3), (1, 2, 3)]].concat();
        let dataset = split_with(1.0, false, &two).unwrap();
        assert_eq!(
            (dataset.users(), dataset.split_facts().users_without_history),
            (1, 1)
        );
        let all = split_with(99.0, false, &two).unwrap_err().to_string();
        assert!(
            all.contains("takes the whole history of all 2 users"),
            "{all}"
        );
    }

    /// If this fails, a drawn item is trained on, or the draw depends on other users.
    #[test]
    fn a_share_of_every_user_is_drawn() {
        let rows: Vec<_> = (0..3)
            .flat_map(|user| (0..10).map(move |item| (user, item, 0)))
            .collect();
        let spec = HoldoutSpec {
            share: 0.25,
            validation_share: 0.1,
        };
        let split_of =
            |rows: &[_]| split(timed(rows), &SplitSpec::Holdout(spec), Streams::new(3)).unwrap();
        let (all, first) = (split_of(&rows), split_of(&rows[..10]));
        assert_eq!(all.test(USER), first.test(USER));
        for user in (0..3).map(UserId) {
            let parts = [
                all.test(user).items,
                all.validation(user).items,
                all.train_items(user),
            ];
            assert_eq!(parts.map(<[u32]>::len), [3, 1, 6]);
            let mut items = parts.concat();
            items.sort_unstable();
            assert_eq!(items, Vec::from_iter(0..10));
        }
        assert_ne!(all.test(UserId(0)), all.test(UserId(1)));
    }

    fn global(cut: Cut) -> GlobalTimeSpec {
        GlobalTimeSpec {
            cut,
            validation_share: 0.0,
            window_share: None,
            targets: Targets::All,
            session_gap_days: 1.0,
            new_users: false,
            new_items: false,
        }
    }

    fn on_day(day: i64) -> Cut {
        Cut::Instant(Timestamp(day * DAY_NS))
    }

    const TIMED: [(u32, u32, i64); 12] = [
        // Item 3 is first rated after day 10, by everybody; user 2 has no history.
        (0, 3, 12),
        (0, 0, 1),
        (1, 1, 2),
        (1, 2, 9),
        (0, 1, 10),
        (0, 2, 11),
        (1, 0, 30),
        (1, 3, 31),
        (1, 1, 32),
        (2, 0, 40),
        (2, 3, 40),
        (0, 2, 50),
    ];

    /// If this fails, training knows something of the future, or targets are not what users took for
    /// the first time after the cut.
    #[test]
    fn one_instant_divides_the_ratings_of_all_users() {
        let split_by = |spec| split(timed(&TIMED), &SplitSpec::GlobalTime(spec), Streams::new(1));
        let dataset = split_by(global(on_day(10))).unwrap();
        // Numbers go by what comes before the cut: items 0, 1, 2, and no item 3.
        assert_eq!((dataset.users(), dataset.items()), (2, 3));
        assert_eq!(dataset.popularity(), [1, 1, 1]);
        assert_eq!(dataset.train_items(UserId(0)), [0]);
        assert_eq!(dataset.train_items(UserId(1)), [1, 2]);
        let of = |user| {
            (
                dataset.test(UserId(user)).items,
                dataset.test(UserId(user)).unrated,
            )
        };
        assert_eq!((of(0), of(1)), ((&[1, 2][..], 1), (&[0][..], 1)));
        let facts = *dataset.split_facts();
        assert_eq!((facts.test_items, facts.unrated_test_items), (5, 2));
        assert_eq!(
            (facts.timed_test_items, facts.test_items_within_a_day),
            (5, 0)
        );
        assert_eq!(facts.users_without_history, 1);
        let first = split_by(GlobalTimeSpec {
            targets: Targets::First,
            ..global(on_day(11))
        });
        let first = first.unwrap();
        assert_eq!(first.test(UserId(0)).items, [2]);
        assert_eq!(first.split_facts().test_items_within_a_day, 1);
        let session = split_by(GlobalTimeSpec {
            targets: Targets::FirstSession,
            ..global(on_day(10))
        });
        assert_eq!(session.unwrap().test(UserId(0)).items, [1, 2]);
    }

    /// If this fails, those whom the split is asked to test as well are not, or they train.
    #[test]
    fn new_users_and_new_items_are_tested_where_asked() {
        let spec = GlobalTimeSpec {
            new_users: true,
            new_items: true,
            ..global(on_day(10))
        };
        let dataset = split(timed(&TIMED), &SplitSpec::GlobalTime(spec), Streams::new(1)).unwrap();
        assert_eq!((dataset.users(), dataset.items()), (3, 4));
        assert_eq!(dataset.test(UserId(2)).items, [0, 3]);
        assert!(dataset.has_history(UserId(1)) && !dataset.has_history(UserId(2)));
        assert_eq!(dataset.split_facts().unrated_test_items, 0);
    }

    /// If this fails, a validation part lies elsewhere than just before the cut, or what a user rated
    /// there counts as new afterwards.
    #[test]
    fn validation_lies_between_training_and_the_cut() {
        let spec = GlobalTimeSpec {
            validation_share: 0.25,
            window_share: Some(0.3),
            ..global(Cut::Share(0.5))
        };
        let dataset = split(timed(&TIMED), &SplitSpec::GlobalTime(spec), Streams::new(1)).unwrap();
        // By time the items are 0 1 2 | 1 2 3 | 0 3 1 0 | 3 2, at days 1, 2, 9, 10, 11, ...
        assert_eq!(dataset.training_ends(), Some(Timestamp(10 * DAY_NS)));
        let of = |user| {
            let user = UserId(user);
            let (validation, test) = (dataset.validation(user), dataset.test(user));
            (
                validation.items,
                validation.unrated,
                test.items,
                test.unrated,
            )
        };
        assert_eq!(of(0), (&[1, 2][..], 1, &[][..], 0));
        assert_eq!(of(1), (&[][..], 0, &[0][..], 1));
    }

    /// If this fails, a planted rating after the cut changes what a method can see.
    #[test]
    fn nothing_after_the_cut_reaches_training() {
        let visible = |rows: &[(u32, u32, i64)]| {
            let spec = SplitSpec::GlobalTime(global(on_day(10)));
            let dataset = split(timed(rows), &spec, Streams::new(1)).unwrap();
            let own: Vec<_> = (0..dataset.users() as u32)
                .map(|user| {
                    let own = dataset.own_data(UserId(user));
                    let ranks: Vec<u32> = own.recency_ranks.iter().collect();
                    (own.items.to_vec(), ranks, own.instants.to_vec())
                })
                .collect();
            (
                dataset.items(),
                dataset.popularity(),
                dataset.mean_training_rating(),
                own,
            )
        };
        let mut planted = TIMED.to_vec();
        planted.insert(0, (0, 4, 10));
        planted.insert(0, (1, 5, 60));
        planted.push((2, 1, 11));
        assert_eq!(visible(&TIMED), visible(&planted));
    }

    #[test]
    fn a_cut_that_leaves_nobody_says_so() {
        let fault = |spec| {
            let found = split(timed(&TIMED), &SplitSpec::GlobalTime(spec), Streams::new(1));
            found.unwrap_err().to_string()
        };
        let early = fault(global(on_day(1)));
        assert!(early.contains("no rating is left to train on"), "{early}");
        let late = fault(global(on_day(51)));
        assert!(late.contains("no rating is left to be tested"), "{late}");
        assert!(
            late.contains("reach from 1970-01-02 00:00:00 to 1970-02-20"),
            "{late}"
        );
        let nobody = fault(global(on_day(41)));
        assert!(
            nobody.contains("nobody can be tested: of the 3 users"),
            "{nobody}"
        );
        let mut half = timed(&TIMED);
        half.interactions[3].instant = Timestamp::UNKNOWN;
        let spec = SplitSpec::GlobalTime(global(on_day(10)));
        let message = split(half, &spec, Streams::new(1)).unwrap_err().to_string();
        assert!(
            message.contains("1 of 12 ratings have no timestamp"),
            "{message}"
        );
        assert!(message.contains("with_timestamps = true"), "{message}");
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
            let dataset = split(ratings.clone(), &SplitSpec::leave_one_out(validation_item), Streams::new(1)).unwrap();
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
