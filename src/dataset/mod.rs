//! Ratings: reading, generating, splitting, and the pools that negatives and candidates are drawn from.
//!
//! Everything here is a pure function of the specification and the seed. Methods and actors see only
//! [`Dataset`], [`negatives`] and [`candidates`].

use crate::ids::{ItemId, UserId};

/// A split data set: leave-one-out, items of each user sorted.
///
/// Users and items are numbered from zero in the order of first appearance in the (filtered) file.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// Number of items in the catalogue.
    items: u32,
    /// Offsets into the three arrays below, one more than there are users.
    offsets: Vec<u64>,
    /// Training items of every user, ascending; a repeated (user, item) pair stands as often as it occurs.
    train_items: Vec<u32>,
    /// The rating that goes with each training item; 1 where the file has none.
    train_ratings: Vec<f32>,
    /// The held-out test item of every user.
    test: Vec<ItemId>,
    /// The held-out validation item of every user, where the scenario asks for one.
    validation: Option<Vec<ItemId>>,
}

impl Dataset {
    /// Number of users.
    pub fn users(&self) -> usize {
        self.test.len()
    }

    /// Number of items in the catalogue.
    pub fn items(&self) -> usize {
        self.items as usize
    }

    /// Number of training interactions of all users.
    pub fn training_ratings(&self) -> usize {
        self.train_items.len()
    }

    /// Training items of `user`, ascending.
    pub fn train_items(&self, user: UserId) -> &[u32] {
        &self.train_items[self.range(user)]
    }

    /// Ratings that go with [`Self::train_items`].
    pub fn train_ratings(&self, user: UserId) -> &[f32] {
        &self.train_ratings[self.range(user)]
    }

    /// The held-out test item of `user`.
    pub fn test_item(&self, user: UserId) -> ItemId {
        self.test[user.index()]
    }

    /// The held-out validation item of `user`, where there is one.
    pub fn validation_item(&self, user: UserId) -> Option<ItemId> {
        self.validation.as_ref().map(|items| items[user.index()])
    }

    fn range(&self, user: UserId) -> std::ops::Range<usize> {
        self.offsets[user.index()] as usize..self.offsets[user.index() + 1] as usize
    }
}
