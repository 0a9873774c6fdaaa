//! Reads, generates and splits ratings, and holds the pools that negatives and candidates are drawn
//! from.
//!
//! Everything here is a pure function of the specification, the ratings file and the seed. Methods
//! and actors see only [`Dataset`], [`negatives`] and [`Candidates`].
//!
//! In reading order: [`public`] lists the usual data sets and [`registry`] finds where they lie.
//! `form` tells what a file is, [`delimited`] reads it, or what was [`given`] in memory in its place, and `filters` takes the part that a scenario
//! keeps. `generator` generates a population, and [`split`] holds out what accuracy is measured on,
//! without the users whom `unusable` leaves out. `warnings` says what was noticed. A device is given its
//! [`OwnData`].

use std::borrow::Cow;
use std::collections::BTreeMap;

use fedrecsim_core::{Error, Result, Timestamp, UserId, Who};
use fedrecsim_scenario::nearest;

mod alias;
mod candidates;
mod column;
pub(crate) mod compressed;
pub mod delimited;
mod filters;
mod folds;
mod form;
mod generator;
pub mod given;
mod global_time;
mod held_out;
mod load;
pub mod negatives;
mod newcomers;
mod other_targets;
mod own_data;
mod pool;
pub mod public;
mod ratings;
pub mod registry;
mod scale;
pub mod share;
pub mod split;
mod split_facts;
mod subset;
mod totals;
mod unusable;
mod user_rows;
mod warnings;

pub use {
    alias::AliasTable,
    candidates::{Against, CandidateScratch, Candidates},
    column::{Ranks, Values},
    filters::filtered,
    held_out::{HeldOutItems, KeptItems, TestRatings},
    load::{load, load_for, look_for, with_reason},
    own_data::OwnData,
    ratings::{Interaction, Part, Ratings},
    scale::RatingScale,
    split_facts::SplitFacts,
    totals::Totals,
};

use held_out::HeldOut;
use user_rows::UserRows;

#[cfg(test)]
mod real_data_tests;

/// A split data set, items of each user sorted.
///
/// Users and items are numbered from zero in the order of first appearance in the (filtered) file;
/// a generated population keeps its whole catalogue, items that nobody rated included.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// Number of items in the catalogue.
    items: u32,
    /// The training ratings of every user; a repeated (user, item) pair stands as often as it
    /// occurs.
    train: UserRows,
    /// What accuracy is measured on.
    held_out: HeldOut,
    /// What training takes for the held-out part, if that is another one.
    known: Option<HeldOut>,
    /// The name of every user in the file; empty for a generated population.
    user_names: Vec<Box<str>>,
    /// The name of every item in the file; empty for a generated population.
    item_names: Vec<Box<str>>,
    /// The first of the users whose ratings are here.
    first: u32,
    /// The instant at which training ends for everybody, if the split goes by one.
    training_ends: Option<Timestamp>,
    /// The users who have something held out, ascending; `None` if all have.
    tested: Option<Vec<u32>>,
    /// The users who have validation targets, ascending; `None` if all have, or the split holds none
    /// out.
    validated: Option<Vec<u32>>,
    /// The items that come later, ascending.
    absent: Vec<u32>,
    /// Totals over all users. Some may have their ratings in another process.
    totals: Totals,
    /// What was told from the ratings file, and what its reader should look at.
    told: Vec<String>,
    warnings: Vec<String>,
}

/// Returns the name of the user or item of this number among `names`; the number itself if there are none.
fn name(names: &[Box<str>], number: u32) -> Cow<'_, str> {
    match names.get(number as usize) {
        Some(name) => Cow::Borrowed(name),
        None => Cow::Owned(number.to_string()),
    }
}

/// Returns the number of each of `names`; `None` for one that stands twice, which tells nobody apart.
fn numbers_of<'a>(
    names: impl Iterator<Item = Cow<'a, str>>,
) -> BTreeMap<Cow<'a, str>, Option<u32>> {
    let mut numbers = BTreeMap::new();
    for (name, number) in names.zip(0..) {
        let known = numbers.entry(name);
        known.and_modify(|one| *one = None).or_insert(Some(number));
    }
    numbers
}

impl Dataset {
    /// Returns the number of users.
    pub fn users(&self) -> usize {
        self.totals.users as usize
    }

    /// Returns the number of `user` among those whose ratings are here.
    fn place(&self, user: UserId) -> UserId {
        let place = user.0.wrapping_sub(self.first);
        assert!(
            (place as usize) < self.train.users(),
            "the ratings of {user} are in another process; what needs the ratings of all users runs in one process only"
        );
        UserId(place)
    }

    /// Returns whether the ratings of all users are here, and none in another process.
    pub fn is_whole(&self) -> bool {
        self.own_users().len() == self.users()
    }

    /// Returns the number of users who have something to train on. They are the first ones; the
    /// others can be tested alone.
    pub fn users_with_history(&self) -> usize {
        self.totals.with_history as usize
    }

    /// Returns the users who have something held out, ascending.
    pub fn tested_users(&self) -> Vec<u32> {
        let all = || (0..self.totals.users).collect();
        self.tested.clone().unwrap_or_else(all)
    }

    /// Returns the instant at which training ends for everybody; `None` for a split that goes by
    /// none.
    pub fn training_ends(&self) -> Option<Timestamp> {
        self.training_ends
    }

    /// Returns whether test items come later than validation items. They are then candidates for these,
    /// as nobody knew of them when these were taken. What the split leaves out between the two is none.
    pub fn tests_come_later(&self) -> bool {
        self.training_ends.is_some()
    }

    /// Returns what the split did.
    pub fn split_facts(&self) -> &SplitFacts {
        &self.totals.split
    }

    /// Returns the number of items in the catalogue.
    pub fn items(&self) -> usize {
        self.items as usize
    }

    /// Returns the number of training interactions of all users.
    pub fn training_ratings(&self) -> usize {
        self.totals.ratings as usize
    }

    /// Returns the training items of `user`, ascending.
    pub fn train_items(&self, user: UserId) -> &[u32] {
        self.own_data(user).items
    }

    /// Returns the data on the device of `user`: the training part, and nothing that is held out.
    pub fn own_data(&self, user: UserId) -> OwnData<'_> {
        OwnData {
            training_ends: self.training_ends,
            ..self.train.own_data(self.place(user))
        }
    }

    /// Returns the held-out test items of `user`; none where the split holds ratings out instead
    /// (k-fold).
    pub fn test(&self, user: UserId) -> HeldOutItems<'_> {
        self.held_out.test(self.place(user))
    }

    /// Returns the held-out validation items of `user`, where there are any.
    pub fn validation(&self, user: UserId) -> HeldOutItems<'_> {
        self.held_out.validation(self.place(user))
    }

    /// Returns the items of `user`, by what they are for.
    pub fn kept_items(&self, user: UserId) -> KeptItems {
        KeptItems {
            training: self.train_items(user).to_vec(),
            validation: self.validation(user).items.to_vec(),
            test: match self.test_ratings(user) {
                Some(held_out) => held_out.items.to_vec(),
                None => self.test(user).items.to_vec(),
            },
        }
    }

    /// Returns the held-out ratings of `user`, which may be empty; `None` where the split holds single
    /// items out (leave-one-out).
    pub fn test_ratings(&self, user: UserId) -> Option<TestRatings<'_>> {
        self.held_out.test_ratings(self.place(user))
    }

    /// Returns whether users have validation items.
    pub fn has_validation_items(&self) -> bool {
        self.held_out.has_validation_items()
    }

    /// Returns whether the split holds single items out, which can be ranked; otherwise it holds
    /// ratings out, which can be predicted.
    pub fn holds_items_out(&self) -> bool {
        matches!(self.held_out, HeldOut::Items(_))
    }

    /// Returns the range and the mean of the ratings; `None` where the data set has no ratings or
    /// all are alike.
    pub fn rating_scale(&self) -> Option<RatingScale> {
        let (minimum, maximum) = self.totals.range.filter(|(low, high)| low < high)?;
        Some(RatingScale {
            minimum,
            maximum,
            training_mean: self.mean_training_rating(),
        })
    }

    /// Returns the mean of all training ratings, summed in double precision in the order of users
    /// and items.
    pub fn mean_training_rating(&self) -> f64 {
        self.totals.rating_sum / self.totals.ratings as f64
    }

    /// Returns the number of training positives of every item (m).
    pub fn popularity(&self) -> Vec<u32> {
        self.totals.popularity.clone()
    }

    /// Returns the number of users who have a training positive of every item (m): one that repeats an
    /// item counts once.
    pub fn raters(&self) -> &[u32] {
        &self.totals.raters
    }

    /// Returns the names of all users in the ratings file; none of a generated population.
    pub fn user_names(&self) -> &[Box<str>] {
        &self.user_names
    }

    /// Returns the names of all items in the ratings file; none of a generated population.
    pub fn item_names(&self) -> &[Box<str>] {
        &self.item_names
    }

    /// Returns the name of a user in the ratings file; that of a generated user is its number.
    pub fn user_name(&self, user: UserId) -> Cow<'_, str> {
        name(&self.user_names, user.0)
    }

    /// Returns the name of an item in the ratings file; that of a generated item is its number.
    pub fn item_name(&self, item: u32) -> Cow<'_, str> {
        name(&self.item_names, item)
    }

    /// Returns the user of this name.
    ///
    /// # Errors
    /// [`Error::UnknownUser`] if there is none, with a name that is like it. [`with_reason`] finds out
    /// whether the file has one.
    pub fn user_named(&self, wanted: &str) -> Result<UserId> {
        let users = 0..self.totals.users;
        let names: Vec<Cow<'_, str>> = users.map(|user| self.user_name(UserId(user))).collect();
        let mut found = (0..).zip(&names).filter(|(_, name)| *name == wanted);
        match (found.next(), found.next()) {
            (Some((user, _)), None) => return Ok(UserId(user)),
            (Some((first, _)), Some((second, _))) => {
                return Err(Error::Usage(format!(
                    "users {first} and {second} are both called {wanted:?} here, for their names are not UTF-8: save \
                     the ratings file as UTF-8"
                )));
            }
            (None, _) => {}
        }
        let known: Vec<&str> = names.iter().map(|name| &**name).collect();
        let meant = match (nearest(wanted, &known), known.first()) {
            (_, Some(first)) if self.user_names.is_empty() => {
                format!("the users are {first} to {}", known.len() - 1)
            }
            (Some(name), _) => format!("did you mean {name:?}?"),
            (None, Some(first)) => format!("the first of the {} users is {first:?}", known.len()),
            (None, None) => "there are no users".to_owned(),
        };
        Err(Error::UnknownUser {
            place: String::new(),
            name: wanted.to_owned(),
            remark: meant,
        })
    }

    /// Returns the users of these names, as [`Self::user_named`] does for one. Many take as long as one.
    ///
    /// # Errors
    /// As [`Self::user_named`], for the first name that has no user.
    pub fn users_named(&self, wanted: &[String]) -> Result<Vec<UserId>> {
        let numbers = numbers_of((0..self.totals.users).map(|user| self.user_name(UserId(user))));
        let named = |name: &String| match numbers.get(name.as_str()) {
            Some(Some(user)) => Ok(UserId(*user)),
            _ => self.user_named(name),
        };
        wanted.iter().map(named).collect()
    }

    /// Returns the items of these names.
    ///
    /// # Errors
    /// [`Error::Usage`] for the first name that no item has, or two items have.
    pub fn items_named(&self, wanted: &[String]) -> Result<Vec<u32>> {
        let numbers = numbers_of((0..self.items).map(|item| self.item_name(item)));
        let named = |name: &String| {
            let reason = match numbers.get(name.as_str()) {
                Some(Some(item)) => return Ok(*item),
                Some(None) => "two items have this name",
                None => "no item has this name (`data describe` says what is read of the file)",
            };
            Err(Error::Usage(format!("{name:?}: {reason}")))
        };
        wanted.iter().map(named).collect()
    }

    /// Returns the user as messages name it: the number here and, where there is a file, the name
    /// there.
    pub fn who(&self, user: UserId) -> Who {
        let name = self.user_names.get(user.index()).cloned();
        Who { id: user, name }
    }

    /// Returns the number of different items that are held out of the ratings of `user` and are not
    /// among the training items.
    fn different_held_out_items(&self, user: UserId) -> usize {
        let train = self.train_items(user);
        // A split sees to it that single items are different and not among the training items.
        // Those of test ratings are ascending, and a file that repeats a pair may have one on both
        // sides.
        let mut last = None;
        let is_new =
            |item: &u32| last.replace(*item) != Some(*item) && train.binary_search(item).is_err();
        self.known_held_out_items(user).filter(is_new).count()
    }

    /// Returns what a protocol tells training of the held-out items of `user`. No device and no server
    /// can have it; what uses it in training has to say so.
    pub fn known_held_out_items(&self, user: UserId) -> impl Iterator<Item = u32> {
        self.known_held_out().items(self.place(user))
    }

    /// Returns those of [`Self::known_held_out_items`] that are tested.
    pub fn known_test_items(&self, user: UserId) -> &[u32] {
        self.known_held_out().test(self.place(user)).items
    }

    fn known_held_out(&self) -> &HeldOut {
        self.known.as_ref().unwrap_or(&self.held_out)
    }

    /// Returns every item that is kept from the training of `user`: the test items, the validation
    /// items and those that the split leaves out, or those of the test ratings.
    pub fn held_out_items(&self, user: UserId) -> impl Iterator<Item = u32> {
        self.held_out.items(self.place(user))
    }

    /// Returns every item that `user` has touched: training items, then the held-out ones.
    pub fn touched_items(&self, user: UserId) -> impl Iterator<Item = u32> {
        self.train_items(user)
            .iter()
            .copied()
            .chain(self.held_out_items(user))
    }

    /// Returns the items that come later, ascending. Until then nobody has rated them.
    pub fn absent_items(&self) -> &[u32] {
        &self.absent
    }

    /// Returns every item that is no candidate for `user`: those that it has touched, and those that come
    /// later. An item may be there twice.
    pub fn items_without_rank(&self, user: UserId) -> impl Iterator<Item = u32> {
        self.touched_items(user).chain(self.absent.iter().copied())
    }

    /// Returns those of [`Self::items_without_rank`] that are no candidates for the validation items.
    pub(crate) fn items_without_validation_rank(&self, user: UserId) -> impl Iterator<Item = u32> {
        let later = match self.tests_come_later() {
            true => self.test(user).items,
            false => &[],
        };
        let without = self.items_without_rank(user);
        without.filter(|item| later.binary_search(item).is_err())
    }

    /// Feeds what tells data sets apart to `sink`: the sizes, and the sum of the digests of all
    /// users, which is the same however these are divided among processes.
    pub fn visit_bytes(&self, sink: &mut dyn FnMut(&[u8])) {
        sink(&u64::from(self.items).to_le_bytes());
        sink(&(self.users() as u64).to_le_bytes());
        let lanes = self.digest();
        lanes.iter().for_each(|lane| sink(&lane.to_le_bytes()));
    }

    /// Returns the sum of the digests of all users.
    fn digest(&self) -> [u64; 4] {
        let of_own = || totals::digest_of(self.first, &self.train, &self.held_out);
        self.totals.digest.unwrap_or_else(of_own)
    }
}
