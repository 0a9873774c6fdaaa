//! Holds what is kept from training to measure accuracy on.

use serde::{Deserialize, Serialize};

use super::column::Values;
use super::user_rows::UserRows;
use fedrecsim_core::{ItemId, UserId};

/// The held-out part of every user's ratings.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum HeldOut {
    /// Single items that are ranked (leave-one-out).
    Items {
        /// The test item of every user.
        test: Vec<ItemId>,
        /// The validation item of every user, if the scenario asks for one.
        validation: Option<Vec<ItemId>>,
    },
    /// Ratings that are predicted (k-fold).
    Ratings(Box<UserRows>),
}

/// The items of one user, by what they are for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptItems {
    /// Those that it trains on, ascending.
    pub training: Vec<u32>,
    /// The held-out validation item, if there is one.
    pub validation: Option<ItemId>,
    /// The held-out test item, if there is one.
    pub test: Option<ItemId>,
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
    /// Returns the test item of `user`, if single items are held out.
    pub(crate) fn test_item(&self, user: UserId) -> Option<ItemId> {
        match self {
            Self::Items { test, .. } => Some(test[user.index()]),
            Self::Ratings(_) => None,
        }
    }

    /// Returns the validation item of `user`, if there is one.
    pub(crate) fn validation_item(&self, user: UserId) -> Option<ItemId> {
        match self {
            Self::Items { validation, .. } => validation.as_ref().map(|items| items[user.index()]),
            Self::Ratings(_) => None,
        }
    }

    /// Returns whether every user has a validation item.
    pub(crate) fn has_validation_items(&self) -> bool {
        matches!(
            self,
            Self::Items {
                validation: Some(_),
                ..
            }
        )
    }

    /// Returns the test ratings of `user`, if ratings are held out.
    pub(crate) fn test_ratings(&self, user: UserId) -> Option<TestRatings<'_>> {
        match self {
            Self::Items { .. } => None,
            Self::Ratings(rows) => Some(TestRatings {
                items: rows.own_data(user).items,
                ratings: rows.own_data(user).ratings,
            }),
        }
    }

    /// Returns every held-out item of `user`: the test item, then the validation item, or those of
    /// the test ratings.
    pub(crate) fn items(&self, user: UserId) -> impl Iterator<Item = u32> {
        let single = [self.test_item(user), self.validation_item(user)];
        let of_ratings = self.test_ratings(user).map_or(&[][..], |test| test.items);
        single
            .into_iter()
            .flatten()
            .map(|item| item.0)
            .chain(of_ratings.iter().copied())
    }

    /// Returns what is held out of the ratings of these users alone.
    pub(crate) fn of_users(&self, users: std::ops::Range<usize>) -> Self {
        match self {
            Self::Items { test, validation } => Self::Items {
                test: test[users.clone()].to_vec(),
                validation: validation.as_ref().map(|items| items[users].to_vec()),
            },
            Self::Ratings(rows) => Self::Ratings(Box::new(rows.of_users(users))),
        }
    }
}
