//! Holds what is kept from training to measure accuracy on.

use serde::{Deserialize, Serialize};

use super::column::Values;
use super::user_rows::UserRows;
use fedrecsim_core::UserId;

/// The held-out part of every user's ratings.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum HeldOut {
    /// Items that are ranked.
    Items(Box<HeldOutLists>),
    /// Ratings that are predicted (k-fold).
    Ratings(Box<UserRows>),
}

/// The items of every user that are kept from training.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct HeldOutLists {
    /// The test items.
    pub(super) test: ItemLists,
    /// The validation items, if the scenario asks for them.
    pub(super) validation: Option<ItemLists>,
    /// Those that are neither trained on nor tested, if the split leaves any out.
    pub(super) left_out: Option<ItemLists>,
}

/// Held-out items of all users.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ItemLists {
    /// Offsets into the items, one more than there are users.
    offsets: Vec<u32>,
    items: Vec<u32>,
    /// How many more held-out items of each user nobody had rated; empty as long as there are none.
    unrated: Vec<u32>,
}

/// Held-out items of one user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldOutItems<'a> {
    /// Those that can be ranked, ascending.
    pub items: &'a [u32],
    /// How many more there are, which nobody had rated: no method can know of them.
    pub unrated: u32,
}

/// The items of one user, by what they are for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptItems {
    /// Those that it trains on, ascending.
    pub training: Vec<u32>,
    /// The held-out validation items, ascending.
    pub validation: Vec<u32>,
    /// The held-out test items, ascending.
    pub test: Vec<u32>,
}

impl ItemLists {
    /// Makes lists of no users.
    pub(super) fn new() -> Self {
        Self {
            offsets: vec![0],
            items: Vec::new(),
            unrated: Vec::new(),
        }
    }

    /// Appends a user with these held-out items, which are sorted, and so many more that nobody had
    /// rated.
    pub(super) fn push_user(&mut self, items: impl IntoIterator<Item = u32>, unrated: u32) {
        let first = self.items.len();
        self.items.extend(items);
        self.items[first..].sort_unstable();
        self.offsets.push(self.items.len() as u32);
        if unrated > 0 || !self.unrated.is_empty() {
            self.unrated.resize(self.offsets.len() - 2, 0);
            self.unrated.push(unrated);
        }
    }

    fn of_user(&self, user: UserId) -> HeldOutItems<'_> {
        let bounds = self.offsets[user.index()] as usize..self.offsets[user.index() + 1] as usize;
        HeldOutItems {
            items: &self.items[bounds],
            unrated: self.unrated.get(user.index()).copied().unwrap_or(0),
        }
    }

    fn of_users(&self, users: std::ops::Range<usize>) -> Self {
        let mut own = Self::new();
        for user in users.map(UserId::from) {
            let HeldOutItems { items, unrated } = self.of_user(user);
            own.push_user(items.iter().copied(), unrated);
        }
        own
    }
}

/// The test ratings of one user, in the order of ascending items.
#[derive(Clone, Copy, Debug)]
pub struct TestRatings<'a> {
    /// The items, ascending. An item is repeated as often as in the file.
    pub items: &'a [u32],
    /// The rating of each item.
    pub ratings: Values<'a>,
}

impl HeldOut {
    /// Returns the lists of items, if items are held out.
    fn lists(&self) -> Option<&HeldOutLists> {
        match self {
            Self::Items(lists) => Some(lists),
            Self::Ratings(_) => None,
        }
    }

    /// Returns the test items of `user`; none if ratings are held out.
    pub(crate) fn test(&self, user: UserId) -> HeldOutItems<'_> {
        let lists = self.lists().map(|lists| &lists.test);
        lists.map_or_else(HeldOutItems::default, |items| items.of_user(user))
    }

    /// Returns the validation items of `user`, if there are any.
    pub(crate) fn validation(&self, user: UserId) -> HeldOutItems<'_> {
        let lists = self.lists().and_then(|lists| lists.validation.as_ref());
        lists.map_or_else(HeldOutItems::default, |items| items.of_user(user))
    }

    /// Returns whether users have validation items.
    pub(crate) fn has_validation_items(&self) -> bool {
        self.lists().is_some_and(|lists| lists.validation.is_some())
    }

    /// Returns the test ratings of `user`, if ratings are held out.
    pub(crate) fn test_ratings(&self, user: UserId) -> Option<TestRatings<'_>> {
        match self {
            Self::Items(_) => None,
            Self::Ratings(rows) => Some(TestRatings {
                items: rows.own_data(user).items,
                ratings: rows.own_data(user).ratings,
            }),
        }
    }

    /// Returns those of so many users who have something held out, and those who have validation items if
    /// there are any. Where ratings are held out, all users count.
    pub(super) fn users_with_some(&self, users: u32) -> [Option<Vec<u32>>; 2] {
        let Some(lists) = self.lists() else {
            return [None, None];
        };
        let has_some = |items: HeldOutItems<'_>| items != HeldOutItems::default();
        let is_validated = |user: &u32| has_some(self.validation(UserId(*user)));
        let is_tested = |user: &u32| has_some(self.test(UserId(*user))) || is_validated(user);
        let tested = (0..users).filter(is_tested).collect();
        let validates = lists.validation.is_some();
        let validated = validates.then(|| (0..users).filter(is_validated).collect());
        [Some(tested), validated]
    }

    /// Returns every item of `user` that is kept from training: the test items, the validation items
    /// and those that are left out, or those of the test ratings.
    pub(crate) fn items(&self, user: UserId) -> impl Iterator<Item = u32> {
        let of_ratings = self.test_ratings(user).map_or(&[][..], |test| test.items);
        let left_out = self.lists().and_then(|lists| lists.left_out.as_ref());
        let left_out = left_out.map_or(&[][..], |items| items.of_user(user).items);
        let all = [
            self.test(user).items,
            self.validation(user).items,
            left_out,
            of_ratings,
        ];
        all.into_iter().flatten().copied()
    }

    /// Returns what is held out of the ratings of these users alone.
    pub(crate) fn of_users(&self, users: std::ops::Range<usize>) -> Self {
        match self {
            Self::Items(lists) => {
                let part = |items: &ItemLists| items.of_users(users.clone());
                Self::Items(Box::new(HeldOutLists {
                    test: part(&lists.test),
                    validation: lists.validation.as_ref().map(part),
                    left_out: lists.left_out.as_ref().map(part),
                }))
            }
            Self::Ratings(rows) => Self::Ratings(Box::new(rows.of_users(users))),
        }
    }
}
