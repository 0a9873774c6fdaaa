//! Generates a population with long-tailed popularity, latent tastes, lognormal activity and
//! timestamps.
//!
//! Item j has weight 1/rank(j)^s (Zipf) and a taste vector v_j, user u a taste vector t_u, all
//! uniform on the unit sphere of dimension d. A user proposes items by weight and rates a proposed
//! one with probability sigmoid(strength (a - 1)), where the affinity a = sqrt(d) t_u . v_j has
//! unit variance. So a user likes a sixth of the catalogue (a > 1) at any strength. Equally many
//! users like each item, so popularity comes from the weights alone. The cost is a few proposals
//! per rating, independent of the size of the catalogue.
//!
//! Items come from one stream and every user from a stream of its own, so one more user changes
//! nobody's ratings.

use crate::dataset::alias::AliasTable;
use crate::dataset::ratings::Interaction;
use fedrecsim_core::{PortableDraws, Purpose, Stream, Streams, UserId, math};
use fedrecsim_scenario::GeneratorSpec;

/// Proposals per rating before the rest of a user's ratings go to the most popular items left. Only
/// users who rate a large share of the catalogue, or of its popular part, reach this limit.
const PROPOSALS_PER_RATING: usize = 200;

/// Affinity at which a proposal is rated with probability 1/2. It is at most 1, so that even in one
/// dimension (where affinities are -1 and 1) proposals are accepted at any strength.
const INDIFFERENT_AFFINITY: f64 = 1.0;

/// Seconds in a year. Every user's first rating falls into the first year of the data set.
const SECONDS_PER_YEAR: f64 = 365.25 * 86_400.0;

/// Mean time from one rating to the next: ratings are given in one sitting, as in MovieLens.
const MEAN_SECONDS_BETWEEN_RATINGS: f64 = 60.0;

/// Calls `each_user` with the ratings of each of `users` in turn, in the order of time.
///
/// A user's number of ratings is lognormal with mean `ratings_per_user`, but at least 3 and at most
/// half the catalogue (so that candidates are left); no item is rated twice. Which of a user's
/// ratings is the last is uniformly random. Ratings are 1 to 5 and rise with affinity; times are
/// whole seconds, so that a few tie.
pub(crate) fn generate(
    spec: &GeneratorSpec,
    users: std::ops::Range<u32>,
    streams: Streams,
    mut each_user: impl FnMut(UserId, &[Interaction]),
) {
    let catalogue = Catalogue::draw(spec, streams);
    let mut rated = vec![false; spec.items as usize];
    let mut interactions = Vec::new();
    for user in users.map(UserId) {
        let mut stream = streams.stream(Purpose::GeneratedRatings, u64::from(user.0), 0);
        let taste = unit_vector(&mut stream, spec.taste_dimension);
        let count = number_of_ratings(spec, &mut stream);
        interactions.clear();
        catalogue.choose_items(&taste, count, &mut stream, &mut rated, &mut interactions);
        // Popular items are chosen first, and the fall-back comes last. That order must not decide
        // what is held out.
        stream.shuffle_portably(&mut interactions);
        stamp(&mut interactions, &mut stream);
        each_user(user, &interactions);
        interactions
            .iter()
            .for_each(|interaction| rated[interaction.item as usize] = false);
    }
}

/// The items with their popularity and tastes.
struct Catalogue {
    popularity: AliasTable,
    /// Items from the most to the least popular.
    by_popularity: Vec<u32>,
    /// The taste vector of every item (m x d).
    tastes: Vec<f32>,
    dimension: usize,
    strength: f64,
}

impl Catalogue {
    fn draw(spec: &GeneratorSpec, streams: Streams) -> Self {
        let mut stream = streams.stream(Purpose::GeneratedItems, 0, 0);
        let mut by_popularity: Vec<u32> = (0..spec.items).collect();
        // Without the shuffle, an item's number would tell its popularity.
        stream.shuffle_portably(&mut by_popularity);
        let mut weights = vec![0.0; spec.items as usize];
        for (rank, &item) in by_popularity.iter().enumerate() {
            weights[item as usize] = math::pow((rank + 1) as f64, -spec.popularity_exponent);
        }
        let tastes = (0..spec.items)
            .flat_map(|_| unit_vector(&mut stream, spec.taste_dimension))
            .collect();
        Self {
            popularity: AliasTable::new(&weights),
            by_popularity,
            tastes,
            dimension: spec.taste_dimension as usize,
            strength: spec.taste_strength,
        }
    }

    /// Returns sqrt(d) times the scalar product, which has unit variance over items.
    fn affinity(&self, taste: &[f32], item: u32) -> f64 {
        let start = item as usize * self.dimension;
        let product: f32 = taste
            .iter()
            .zip(&self.tastes[start..start + self.dimension])
            .map(|(t, v)| t * v)
            .sum();
        f64::from(product) * math::sqrt(self.dimension as f64)
    }

    fn acceptance(&self, affinity: f64) -> f64 {
        1.0 / (1.0 + math::exp(-self.strength * (affinity - INDIFFERENT_AFFINITY)))
    }

    /// Appends `count` ratings of different items; `rated` says which items are taken.
    fn choose_items(
        &self,
        taste: &[f32],
        count: usize,
        stream: &mut Stream,
        rated: &mut [bool],
        interactions: &mut Vec<Interaction>,
    ) {
        for _ in 0..count * PROPOSALS_PER_RATING {
            let item = self.popularity.draw(stream);
            let affinity = self.affinity(taste, item);
            if rated[item as usize] || stream.open_unit() >= self.acceptance(affinity) {
                continue;
            }
            rated[item as usize] = true;
            interactions.push(Interaction::new(item, rating(affinity, stream), 0));
            if interactions.len() == count {
                return;
            }
        }
        for &item in &self.by_popularity {
            if interactions.len() == count {
                return;
            }
            if !std::mem::replace(&mut rated[item as usize], true) {
                let rating = rating(self.affinity(taste, item), stream);
                interactions.push(Interaction::new(item, rating, 0));
            }
        }
    }
}

/// Draws 1 to 5 stars, on the whole more than the middle, as users rate what they like.
fn rating(affinity: f64, stream: &mut Stream) -> f32 {
    let stars = 3.0 + 0.5 * affinity + 0.7 * stream.standard_normal();
    (stars + 0.5).floor().clamp(1.0, 5.0) as f32
}

fn number_of_ratings(spec: &GeneratorSpec, stream: &mut Stream) -> usize {
    let sigma = spec.ratings_log_sigma;
    // The mean of a lognormal is its median times exp(sigma^2 / 2).
    let median = spec.ratings_per_user * math::exp(-sigma * sigma / 2.0);
    let most = (spec.items / 2).max(3);
    (stream.lognormal(median, sigma) + 0.5).clamp(3.0, f64::from(most)) as usize
}

/// Draws a vector uniformly from the unit sphere.
fn unit_vector(stream: &mut Stream, dimension: u32) -> Vec<f32> {
    let vector: Vec<f64> = (0..dimension).map(|_| stream.standard_normal()).collect();
    // The bound keeps a vector of zeros, however unlikely, from turning into NaN.
    let length = math::sqrt(vector.iter().map(|value| value * value).sum()).max(f64::MIN_POSITIVE);
    vector.iter().map(|value| (value / length) as f32).collect()
}

/// Gives the ratings their times, in their order in the list.
fn stamp(interactions: &mut [Interaction], stream: &mut Stream) {
    let mut seconds = stream.open_unit() * SECONDS_PER_YEAR;
    for interaction in interactions {
        interaction.time = seconds as i64;
        seconds -= MEAN_SECONDS_BETWEEN_RATINGS * math::ln(stream.open_unit());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;
    use crate::dataset::candidates::{Against, CandidateScratch, Candidates};
    use crate::dataset::{Dataset, load};
    use fedrecsim_scenario::{DatasetName, DatasetSpec, EvaluationSpec, SplitSpec};

    const STREAMS: Streams = Streams::new(1);

    fn generated(spec: &GeneratorSpec) -> Vec<Vec<Interaction>> {
        let mut users = Vec::new();
        generate(spec, 0..spec.users, STREAMS, |_, interactions| {
            users.push(interactions.to_vec())
        });
        users
    }

    fn split(spec: &GeneratorSpec) -> Dataset {
        let dataset = DatasetSpec {
            generator: Some(spec.clone()),
            split: SplitSpec::LEAVE_ONE_OUT,
            ..DatasetSpec::named(DatasetName::Generated)
        };
        load(&dataset, &[], STREAMS).unwrap()
    }

    /// Returns HR@10 against 99 candidates of the scores that `score` gives to (user, item), with
    /// ties lost.
    fn hit_ratio(dataset: &Dataset, mut score: impl FnMut(UserId, u32) -> f64) -> f64 {
        let candidates = Candidates::draw(dataset, &EvaluationSpec::default(), STREAMS).unwrap();
        let mut scratch = CandidateScratch::default();
        let mut hits = 0;
        for (position, &user) in candidates.evaluated_users().iter().enumerate() {
            let held_out = score(user, dataset.test(user).items[0]);
            let against = candidates.list(Against::TestCandidates, dataset, position, &mut scratch);
            hits += usize::from(
                against
                    .iter()
                    .filter(|&&item| score(user, item) >= held_out)
                    .count()
                    < 10,
            );
        }
        hits as f64 / dataset.users() as f64
    }

    #[test]
    fn tastes_can_be_learned_from_the_default_population() {
        // Without this, no personalised method could beat popularity, and the quickstart would show
        // nothing.
        let spec = GeneratorSpec::default();
        let dataset = split(&spec);
        let popularity = dataset.popularity();
        let by_popularity = hit_ratio(&dataset, |_, item| f64::from(popularity[item as usize]));
        let catalogue = Catalogue::draw(&spec, STREAMS);
        let tastes: Vec<Vec<f32>> = (0..u64::from(spec.users))
            .map(|user| {
                unit_vector(
                    &mut STREAMS.stream(Purpose::GeneratedRatings, user, 0),
                    spec.taste_dimension,
                )
            })
            .collect();
        let by_truth = hit_ratio(&dataset, |user, item| {
            let affinity = catalogue.affinity(&tastes[user.index()], item);
            catalogue.acceptance(affinity) * f64::from(popularity[item as usize])
        });
        // Item-to-item cosine scores by the users who share an item with the scored one, as a
        // method could find them.
        let mut listeners = vec![Vec::new(); dataset.items()];
        for user in (0..dataset.users()).map(UserId::from) {
            dataset
                .train_items(user)
                .iter()
                .for_each(|&item| listeners[item as usize].push(user));
        }
        let by_neighbours = hit_ratio(&dataset, |user, item| {
            let mut together = vec![0u32; dataset.items()];
            for &other in &listeners[item as usize] {
                dataset
                    .train_items(other)
                    .iter()
                    .for_each(|&item| together[item as usize] += 1);
            }
            let cosine = |&own: &u32| {
                f64::from(together[own as usize])
                    / f64::from(popularity[own as usize].max(1)).sqrt()
            };
            dataset.train_items(user).iter().map(cosine).sum::<f64>()
                / f64::from(popularity[item as usize].max(1)).sqrt()
        });
        println!(
            "HR@10: popularity {by_popularity:.3}, truth {by_truth:.3}, item-to-item {by_neighbours:.3}"
        );
        assert!(
            by_truth > 1.5 * by_popularity,
            "truth {by_truth}, popularity {by_popularity}"
        );
        assert!(
            by_neighbours > 1.1 * by_popularity,
            "item-to-item {by_neighbours}, popularity {by_popularity}"
        );
    }

    #[test]
    fn one_more_user_changes_nobodys_ratings() {
        let spec = GeneratorSpec {
            users: 20,
            ..GeneratorSpec::default()
        };
        let (few, more) = (
            generated(&spec),
            generated(&GeneratorSpec {
                users: 21,
                ..spec.clone()
            }),
        );
        assert_eq!(few[..], more[..20]);
        // The split does not mix them up either, as the catalogue does not depend on who rated
        // what.
        let (few, more) = (split(&spec), split(&GeneratorSpec { users: 21, ..spec }));
        assert_eq!(few.items(), more.items());
        for user in (0..20).map(UserId) {
            assert_eq!(few.train_items(user), more.train_items(user));
            assert_eq!(few.test(user), more.test(user));
        }
    }

    #[test]
    fn popularity_and_activity_follow_their_laws() {
        let spec = GeneratorSpec {
            users: 4000,
            taste_strength: 0.0,
            ..GeneratorSpec::default()
        };
        let users = generated(&spec);
        let mean = users.iter().map(Vec::len).sum::<usize>() as f64 / 4000.0;
        assert!((mean - spec.ratings_per_user).abs() < 1.5, "mean {mean}");
        let mut counts = vec![0.0; spec.items as usize];
        users
            .iter()
            .flatten()
            .for_each(|interaction| counts[interaction.item as usize] += 1.0);
        counts.sort_by(|a, b| f64::total_cmp(b, a));
        // By Zipf's law, rank 400 against rank 40 is 10^-s. (The very top is flatter, since nobody
        // rates an item twice.)
        let share =
            counts[350..450].iter().sum::<f64>() / 10.0 / counts[35..45].iter().sum::<f64>();
        let expected = math::pow(10.0, -spec.popularity_exponent);
        assert!(
            (share / expected - 1.0).abs() < 0.2,
            "share {share}, expected {expected}"
        );
    }

    #[test]
    fn the_highest_taste_strength_does_not_stall_or_flatten_popularity() {
        // If hardly anything were accepted, all ratings would come from the fall-back and go to the
        // same few items.
        for dimension in [1, 2, 64] {
            let spec = GeneratorSpec {
                users: 50,
                taste_dimension: dimension,
                taste_strength: 20.0,
                ratings_per_user: 20.0,
                ..GeneratorSpec::default()
            };
            let users = generated(&spec);
            let rated: std::collections::BTreeSet<u32> =
                users.iter().flatten().map(|i| i.item).collect();
            assert!(
                rated.len() > 150,
                "dimension {dimension}: {} different items",
                rated.len()
            );
        }
    }

    #[test]
    fn a_minimum_leaves_quiet_users_out() {
        let mut dataset = DatasetSpec {
            generator: Some(GeneratorSpec::default()),
            minimum_interactions: 30,
            split: SplitSpec::leave_one_out(false),
            ..DatasetSpec::named(DatasetName::Generated)
        };
        let loaded = load(&dataset, &[], STREAMS).unwrap();
        assert!(loaded.users() < 500);
        assert!((0..loaded.users()).all(|user| loaded.train_items(UserId::from(user)).len() >= 29));
        dataset.minimum_interactions = 5000;
        let message = load(&dataset, &[], STREAMS).unwrap_err().to_string();
        assert!(
            message.starts_with("no user is left: dataset.minimum_interactions is 5000"),
            "{message}"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn every_population_can_be_split(
            items in 4u32..60,
            ratings_per_user in 3.0..100.0f64,
            ratings_log_sigma in 0.0..3.0f64,
            popularity_exponent in 0.0..3.0f64,
            taste_dimension in 1u32..9,
            taste_strength in 0.0..20.0f64,
        ) {
            let spec = GeneratorSpec {
                users: 12, items, ratings_per_user, ratings_log_sigma, popularity_exponent, taste_dimension,
                taste_strength,
                device_correlation: 0.0,
            };
            for ratings in generated(&spec) {
                prop_assert!(ratings.len() >= 3 && ratings.len() <= (items as usize / 2).max(3));
                let distinct: std::collections::BTreeSet<u32> = ratings.iter().map(|i| i.item).collect();
                prop_assert_eq!(distinct.len(), ratings.len());
                prop_assert!(distinct.last().is_some_and(|&item| item < items));
                prop_assert!(ratings.iter().all(|i| (1.0..=5.0).contains(&i.rating)));
                prop_assert!(ratings.is_sorted_by_key(|i| i.time));
            }
            prop_assert_eq!(split(&spec).users(), 12);
        }
    }
}
