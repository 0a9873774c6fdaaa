//! Ratings: reading, generating, splitting, and the pools that negatives and candidates are drawn from.
//!
//! Everything here is a pure function of the specification, the ratings file and the seed. Methods and
//! actors see only [`Dataset`], [`negatives`] and [`candidates`].
//!
//! In reading order: [`registry`] knows the usual data sets and where they lie, [`delimited`] reads any
//! delimited text, [`ratings`] leaves out users with too few ratings, [`generator`] makes a population up,
//! and [`split`] holds the last rating(s) of every user out.

use std::path::PathBuf;

use crate::error::Result;
use crate::ids::{ItemId, UserId};
use crate::rng::Streams;
use crate::scenario::{DatasetSpec, SourceSpec};

pub mod alias;
pub mod candidates;
pub mod delimited;
pub mod generator;
pub mod negatives;
mod pool;
pub mod ratings;
mod records;
pub mod registry;
pub mod split;

#[cfg(test)]
mod real_data;

/// A split data set: leave-one-out, items of each user sorted.
///
/// Users and items are numbered from zero in the order of first appearance in the (filtered) file; a
/// generated population keeps its whole catalogue, items that nobody rated included.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// Number of items in the catalogue.
    items: u32,
    /// Offsets into the two arrays below, one more than there are users.
    offsets: Vec<u64>,
    /// Training items of every user, ascending; a repeated (user, item) pair stands as often as it occurs.
    train_items: Vec<u32>,
    /// The rating that goes with each training item; 1 where the file has none.
    train_ratings: Vec<f32>,
    /// The held-out test item of every user.
    test: Vec<ItemId>,
    /// The held-out validation item of every user, where the scenario asks for one.
    validation: Option<Vec<ItemId>>,
    /// What the file calls every user; empty for a generated population.
    user_names: Vec<Box<str>>,
}

/// Reads or generates the ratings that `spec` names, leaves out the users with fewer than
/// `minimum_interactions` of them, and splits the rest.
///
/// A relative path is tried as given, then below each of `data_directories`; see [`registry`].
///
/// # Errors
/// [`crate::Error::Read`](crate::error::Error::Read) for a file that is missing, unreadable or empty,
/// [`MalformedLine`](crate::error::Error::MalformedLine) for a line that does not fit the layout,
/// [`Usage`](crate::error::Error::Usage) for a layout that contradicts itself, and
/// [`Dataset`](crate::error::Error::Dataset) where too little is left to split.
pub fn load(spec: &DatasetSpec, data_directories: &[PathBuf], streams: Streams) -> Result<Dataset> {
    let minimum = spec.minimum_interactions;
    if let SourceSpec::Generated(population) = &spec.source {
        let mut splitter = split::Splitter::new(population.items, spec.validation_item);
        let mut most = 0;
        generator::generate(population, streams, |user, interactions| {
            most = most.max(interactions.len());
            if interactions.len() >= minimum as usize {
                splitter.push_user(|| format!("{user} of the generated population"), interactions);
            }
        });
        if splitter.is_empty() {
            return Err(ratings::nobody_left(minimum, most));
        }
        return splitter.finish();
    }
    let file = registry::locate(&spec.source, spec.path.as_deref(), data_directories)?;
    let mut ratings = delimited::read(&file.path, &file.layout)?.keep_active_users(minimum)?;
    if file.ordered_by_item {
        ratings.order_by_item_number();
    }
    split::split(ratings, spec.validation_item)
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

    /// Number of training interactions of every item (m).
    pub fn popularity(&self) -> Vec<u32> {
        let mut counts = vec![0; self.items()];
        for &item in &self.train_items {
            counts[item as usize] += 1;
        }
        counts
    }

    /// The user as messages name it: the number here and, where there is a file, the name there.
    pub fn user_label(&self, user: UserId) -> String {
        match self.user_names.get(user.index()) {
            Some(name) => format!("{user} ({name:?} in the ratings file)"),
            None => user.to_string(),
        }
    }

    /// Every item that `user` has touched: training items, then the held-out ones.
    fn touched_items(&self, user: UserId) -> impl Iterator<Item = u32> {
        let held_out = [Some(self.test_item(user)), self.validation_item(user)];
        self.train_items(user).iter().copied().chain(held_out.into_iter().flatten().map(|item| item.0))
    }

    /// Feeds everything that a run can depend on to `sink`, as little-endian bytes in a fixed order.
    pub fn visit_bytes(&self, sink: &mut dyn FnMut(&[u8])) {
        let Self { items, offsets, train_items, train_ratings, test, validation, user_names: _ } = self;
        sink(&u64::from(*items).to_le_bytes());
        sink(&(test.len() as u64).to_le_bytes());
        offsets.iter().for_each(|offset| sink(&offset.to_le_bytes()));
        train_items.iter().for_each(|item| sink(&item.to_le_bytes()));
        train_ratings.iter().for_each(|rating| sink(&rating.to_le_bytes()));
        test.iter().chain(validation.iter().flatten()).for_each(|item| sink(&item.0.to_le_bytes()));
    }

    fn range(&self, user: UserId) -> std::ops::Range<usize> {
        self.offsets[user.index()] as usize..self.offsets[user.index() + 1] as usize
    }
}
