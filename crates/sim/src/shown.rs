//! The items that a user would be shown: the best ones of all that it has not rated.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use super::world::World;
use fedrecsim_core::UserId;
use fedrecsim_core::metric::GroupCounts;
use fedrecsim_data::dataset::Dataset;

/// The most scores that the lists of a run take. Lists score the whole catalogue, which is the largest
/// cost outside of rounds. With more users times items than this, only some users have lists; the report
/// says how many.
const MOST_SCORES: u64 = 1 << 28;

/// What one user would be shown, and what that is compared with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Shown {
    /// The items that the method would show, the best first.
    pub own: Vec<u32>,
    /// The items that popularity would show.
    pub popular: Vec<u32>,
    /// How many training items of the user are of each group of popularity.
    pub history: GroupCounts,
}

impl Shown {
    /// Adds to the items that the method would show `user` what they are compared with.
    pub(crate) fn new(world: &World, user: UserId, own: Vec<u32>) -> Self {
        let (popularity, dataset) = (world.popularity(), &world.dataset);
        let rated = rated(dataset, user);
        let is_new = |item: &u32| rated.binary_search(item).is_err();
        let popular = popularity.order().iter().copied().filter(is_new);
        Self {
            popular: popular.take(own.len()).collect(),
            history: popularity.group_counts(dataset.own_data(user).positives()),
            own,
        }
    }

    /// Returns all items of both lists.
    pub(crate) fn items(&self) -> impl Iterator<Item = u32> {
        self.own.iter().chain(&self.popular).copied()
    }
}

/// Returns what `user` has rated and is not tested on, and what is not there yet, ascending. No list has
/// any of it.
pub(crate) fn rated(dataset: &Dataset, user: UserId) -> Vec<u32> {
    let mut items: Vec<u32> = dataset.items_without_rank(user).collect();
    let tested = dataset.test(user).items;
    items.retain(|item| tested.binary_search(item).is_err());
    items.sort_unstable();
    items
}

/// Returns how many items the list of the evaluated user at `position` has; 0 if it has none, as where
/// no `lists` are wanted.
///
/// Who has one follows from the data and `[evaluation]` alone, so that runs can be compared. Of many
/// users, those at equal distances have lists.
pub(crate) fn list_length(world: &World, position: usize, lists: bool) -> usize {
    let users = world.candidates.evaluated_users();
    let (evaluated, is_apart) = (users.len() as u64, world.is_apart(users[position]));
    let affordable = (MOST_SCORES / world.dataset.items().max(1) as u64).max(1);
    match lists && !is_apart && is_among(position as u64, affordable, evaluated) {
        true => world.metric_set.list_length as usize,
        false => 0,
    }
}

/// Returns whether `position` is among as many of `all` places at equal distances as are `wanted`.
fn is_among(position: u64, wanted: u64, all: u64) -> bool {
    let before = |position: u64| u128::from(position) * u128::from(wanted) / u128::from(all.max(1));
    wanted >= all || before(position + 1) > before(position)
}

/// The items with the highest scores among those that are offered; of equal ones those with the lowest
/// numbers, whatever the order of the offers.
pub(crate) struct Best {
    length: usize,
    /// The best items so far, and behind them up to as many that may be better.
    items: Vec<(f32, u32)>,
    /// A score that all that are wanted reach.
    bound: f32,
}

impl Best {
    /// Begins a list of at most `length` items.
    pub(crate) fn new(length: usize) -> Self {
        Self {
            length,
            items: Vec::with_capacity(2 * length),
            bound: match length {
                0 => f32::INFINITY,
                _ => f32::NEG_INFINITY,
            },
        }
    }

    /// Returns a score that every item reaches which may still get into the list.
    pub(crate) fn bound(&self) -> f32 {
        self.bound
    }

    /// Takes in an item, whose score is not NaN, if it is good enough.
    pub(crate) fn offer(&mut self, item: u32, score: f32) {
        if self.length == 0 || score < self.bound {
            return;
        }
        self.items.push((score, item));
        if self.items.len() >= 2 * self.length {
            let last = self.length - 1;
            let (_, worst, _) = self.items.select_nth_unstable_by(last, better_first);
            self.bound = worst.0;
            self.items.truncate(self.length);
        }
    }

    /// Returns the list, the best item first.
    pub(crate) fn into_items(self) -> Vec<u32> {
        let scored = self.into_scored().into_iter();
        scored.map(|(_, item)| item).collect()
    }

    /// Returns the list with the items' scores, the best item first.
    pub(crate) fn into_scored(mut self) -> Vec<(f32, u32)> {
        self.items.sort_unstable_by(better_first);
        self.items.truncate(self.length);
        self.items
    }
}

fn better_first(one: &(f32, u32), other: &(f32, u32)) -> Ordering {
    other.0.total_cmp(&one.0).then(one.1.cmp(&other.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, a list depends on the order in which items were scored, or leaves out a better
    /// item.
    #[test]
    fn the_best_are_those_of_a_full_sort_in_any_order() {
        // Few different scores make ties.
        let scores: Vec<f32> = (0..200u32).map(|n| (n * 37 % 11) as f32 - 5.0).collect();
        let mut sorted: Vec<(f32, u32)> = scores.iter().copied().zip(0..).collect();
        sorted.sort_by(better_first);
        let list = |length: usize, items: &mut dyn Iterator<Item = u32>| {
            let mut best = Best::new(length);
            items.for_each(|item| best.offer(item, scores[item as usize]));
            best.into_items()
        };
        for length in [0, 1, 7, 10, 150, 300] {
            let expected: Vec<u32> = sorted.iter().take(length).map(|(_, item)| *item).collect();
            assert_eq!(list(length, &mut (0..200)), expected);
            assert_eq!(list(length, &mut (0..200).rev()), expected);
        }
    }

    /// If this fails, a few users have no list although all could, or the lists are of the first users
    /// alone.
    #[test]
    fn lists_are_of_all_users_or_of_some_at_equal_distances() {
        let chosen = |wanted, all| {
            let places = 0..all;
            let chosen = places.filter(|position| is_among(*position, wanted, all));
            chosen.collect::<Vec<u64>>()
        };
        assert_eq!(chosen(9, 4), [0, 1, 2, 3]);
        assert_eq!(chosen(3, 9), [2, 5, 8]);
        assert_eq!(chosen(4, 6), [1, 2, 4, 5]);
        assert_eq!(chosen(1, 5), [4]);
    }
}
