//! What items that come in the course of the run are held against: items that are there from the start
//! and have about as many ratings.

use std::collections::BTreeMap;

use super::evaluation::{self, UserAccuracy};
use super::joins::Joins;
use super::outcome::{Accuracy, RoundRecord, handled_bytes};
use super::world::World;
use fedrecsim_core::{SimTime, UserId};

/// Returns how many ratings new items have in a round that `began` and `ended` then; `None` until they come,
/// once they have all, and where users come.
pub(super) fn ratings_in(joins: &Joins, (began, ended): (SimTime, SimTime)) -> Option<u32> {
    match joins.known_at(began) {
        Some((ratings, _)) => *ratings,
        // They came after the invitations of this round.
        None => joins.known_at(ended).map(|_| 0),
    }
}

/// Returns the accuracies of those of `own` users whose test item has at least as many ratings in all.
pub(super) fn with_ratings<'a>(
    world: &World,
    joins: &Joins,
    ratings: u32,
    own: &[(UserId, &'a UserAccuracy)],
) -> Vec<&'a UserAccuracy> {
    let has_enough = |user: UserId| ratings_of(world, joins, user) >= Some(ratings);
    let own = own.iter().filter(|(user, _)| has_enough(*user));
    own.map(|(_, accuracy)| *accuracy).collect()
}

/// Returns the number of training ratings of the test item of `user`, with those that come later.
fn ratings_of(world: &World, joins: &Joins, user: UserId) -> Option<u32> {
    let item = world.dataset.test(user).items.first()?;
    joins.ratings_of.get(*item as usize).copied()
}

/// Returns the bytes that all devices have sent and received in those of `rounds` that ended after items
/// have come.
pub(super) fn bytes_since(joins: &Joins, rounds: &[RoundRecord]) -> u64 {
    let since = rounds
        .iter()
        .filter(|round| joins.since(round.network.ended).is_some());
    since.map(|round| handled_bytes(&round.bytes)).sum()
}

/// Returns the means over users whose test item is there from the start, weighted so that their items have
/// as many ratings as new ones: the mean over the users of a class of items counts as often as new
/// items of that class are looked for. A class doubles the number of ratings of the one before. One
/// without such users is held against the nearest.
pub(super) fn of_others(world: &World, joins: &Joins, accuracies: &[&UserAccuracy]) -> Accuracy {
    let (mut new, mut others) = (BTreeMap::new(), BTreeMap::<_, Vec<&UserAccuracy>>::new());
    let users = world.candidates.evaluated_users().iter();
    for (user, accuracy) in users.zip(accuracies) {
        let Some(ratings) = ratings_of(world, joins, *user) else {
            continue;
        };
        let class = ratings.checked_ilog2().map_or(0, |log| log + 1);
        if joins.judges(*user, &world.dataset) {
            *new.entry(class).or_insert(0u64) += 1;
        } else if !joins.is_apart(*user) {
            others.entry(class).or_default().push(accuracy);
        }
    }
    let all: u64 = new.values().sum();
    let mut means = Accuracy::new();
    for (class, count) in &new {
        let nearest = others
            .iter()
            .min_by_key(|(other, _)| other.abs_diff(*class));
        let Some((_, nearest)) = nearest else {
            continue;
        };
        let share = *count as f64 / all as f64;
        for (metric, value) in evaluation::test_means(nearest.iter().copied(), &world.metric_set) {
            *means.entry(metric).or_insert(0.0) += share * value;
        }
    }
    means
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::tests::small;
    use fedrecsim_core::metric::{CataloguePlace, Place, Places};

    /// If this fails, new items are held against others that are more popular, or a user counts who looks
    /// for one of them.
    #[test]
    fn others_have_as_many_ratings_as_new_items() {
        let joins = "joins={ items = { share = 0.3 }, at_s = 1, stage_s = 1 }";
        let generator = "dataset.generator={ users = 200, items = 150, ratings_per_user = 16 }";
        let world = small::world(&[generator, joins]);
        let joins = world.joins.as_ref().unwrap();
        let users = world.candidates.evaluated_users().to_vec();
        let is_popular = |user: &UserId| ratings_of(&world, joins, *user) >= Some(16);
        let is_new = |user: &UserId| joins.judges(*user, &world.dataset);
        let (new, others): (Vec<_>, Vec<_>) = users.iter().partition(|user| is_new(user));
        let [popular, popular_others] =
            [&new, &others].map(|of| of.iter().filter(|user| is_popular(user)).count());
        assert!(popular > 0 && popular < new.len() && popular_others > 0);
        // Users who look for a popular item that is there from the start find it first.
        let accuracy = |user: &UserId| {
            let rank = if is_popular(user) && !is_new(user) {
                0
            } else {
                15
            };
            let place = Place {
                among_candidates: Some(rank),
                in_catalogue: Some(CataloguePlace {
                    rank,
                    items: 20,
                    drawn: 20,
                }),
            };
            UserAccuracy::Ranked {
                test: Places {
                    held_out: 1,
                    ranked: vec![place],
                },
                validation: Places::default(),
                shown: None,
            }
        };
        let accuracies: Vec<UserAccuracy> = users.iter().map(accuracy).collect();
        let means = of_others(&world, joins, &accuracies.iter().collect::<Vec<_>>());
        let expected = popular as f64 / new.len() as f64;
        assert!((means["hr@10"] - expected).abs() < 1e-12, "{means:?}");
    }
}
