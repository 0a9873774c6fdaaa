//! Scoring: finds how high the held-out items of a user rank, and how far predictions are from its
//! held-out ratings.
//!
//! Scoring reads the parameters that clients lend to the metrics. It costs neither bytes nor time
//! in the simulated world.

use std::cell::RefCell;

use serde::{Deserialize, Serialize};

use rayon::prelude::*;

use super::catalogue::{Asked, ITEMS_AT_ONCE, InCatalogue, in_catalogue_at_once};
use super::metric_set::MetricSet;
use super::outcome::{Accuracy, SplitAccuracy, UserTest};
use super::shown::{Best, Shown, list_length};
use super::world::World;
use fedrecsim_core::metric::{CataloguePlace, MetricSums, Place, Places, RatingErrors, ranks};
use fedrecsim_core::stages::{Stage, enter};
use fedrecsim_core::{Error, Result, UserId};
use fedrecsim_data::dataset::{Against, CandidateScratch, Dataset, HeldOutItems, TestRatings};
use fedrecsim_methods::{Client, Products, Scorer, ScoringContext, Scratch};
use fedrecsim_model::Model;
use fedrecsim_model::kernel::LANES;

/// The accuracy that was found for one user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum UserAccuracy {
    /// The ranks of the held-out items.
    Ranked {
        /// The test items.
        test: Places,
        /// The validation items.
        validation: Places,
        /// What the user would be shown, if that was asked for.
        shown: Option<Box<Shown>>,
    },
    /// The errors of the predicted test ratings.
    Rated(RatingErrors),
}

/// The accuracy of one user, with the bytes that finding it took.
#[derive(Clone, Debug, PartialEq)]
pub struct Scored {
    /// The accuracy.
    pub accuracy: UserAccuracy,
    /// The bytes that the user's device downloaded for it; none where the server scores.
    pub download_bytes: u64,
}

/// Buffers for items and their scores.
#[derive(Default)]
struct ScoringBuffers {
    candidates: CandidateScratch,
    items: Vec<u32>,
    scores: Vec<f32>,
}

thread_local! {
    /// The buffers of one worker thread, which carry nothing from one user to the next.
    static BUFFERS: RefCell<(ScoringBuffers, Scratch)> = RefCell::default();
}

/// Returns the accuracy of the evaluated user at `position`, by the scores of `client` with
/// `model`, which is what the user's device has decoded; with its list, if `lists` are wanted.
///
/// # Errors
/// [`Error::Unscorable`] if a score is NaN, since a rank would make a diverged model look perfect;
/// and any error of the method when it makes a scorer.
pub(crate) fn user_accuracy(
    world: &World,
    position: usize,
    client: &dyn Client,
    model: &Model,
    lists: bool,
) -> Result<UserAccuracy> {
    user_accuracy_with(&world.dataset, world, position, (client, model), lists)
}

/// Returns the accuracy as [`user_accuracy`] does, where the device has what `known` says of its
/// user's ratings.
///
/// # Errors
/// As [`user_accuracy`].
pub(crate) fn user_accuracy_with(
    known: &Dataset,
    world: &World,
    position: usize,
    (client, model): (&dyn Client, &Model),
    lists: bool,
) -> Result<UserAccuracy> {
    let (mut accuracy, waiting) =
        without_catalogue(known, world, position, (client, model), lists)?;
    if let Some(products) = waiting {
        let catalogue = world.catalogue(known);
        let found = in_catalogue_alone(world, catalogue, position, &products, lists)?;
        accuracy.place_in_catalogue(world, position, found);
    }
    Ok(accuracy)
}

/// Returns the score of every item for `user`, by `client` with `model`, which is what the user's
/// device has decoded. `known` are the ratings that devices know.
///
/// # Errors
/// Any error of the method.
pub(crate) fn scores(
    known: &Dataset,
    world: &World,
    user: UserId,
    (client, model): (&dyn Client, &Model),
) -> Result<Vec<f32>> {
    BUFFERS.with_borrow_mut(|(_, scratch)| {
        let own = known.own_data(user);
        let mut context = ScoringContext::new(user, model, own, world.streams, scratch);
        context.negatives = Some((known, &world.scenario.dataset.negatives));
        let items: Vec<u32> = (0..known.items() as u32).collect();
        let mut scores = vec![0.0; items.len()];
        client.scorer(context)?.score(&items, &mut scores)?;
        Ok(scores)
    })
}

/// Returns the accuracy as [`user_accuracy_with`] does. If the whole catalogue can be scored together with
/// that of other users, what follows from it is missing, and the products that [`place_in_catalogue`]
/// needs are there.
///
/// # Errors
/// As [`user_accuracy`].
pub(crate) fn without_catalogue(
    known: &Dataset,
    world: &World,
    position: usize,
    (client, model): (&dyn Client, &Model),
    lists: bool,
) -> Result<(UserAccuracy, Option<Products>)> {
    BUFFERS.with_borrow_mut(|(buffers, scratch)| {
        let (dataset, user) = (&world.dataset, world.candidates.evaluated_users()[position]);
        let own = known.own_data(user);
        let mut context = ScoringContext::new(user, model, own, world.streams, scratch);
        context.negatives = Some((known, &world.scenario.dataset.negatives));
        let scorer = client.scorer(context)?;
        let mut probe = Probe {
            world,
            catalogue: world.catalogue(known),
            position,
            scorer: &*scorer,
            list_length: list_length(world, position, lists),
            buffers,
        };
        match dataset.test_ratings(user) {
            Some(test) => Ok((probe.errors(test)?, None)),
            None => probe.places(dataset.test(user), dataset.validation(user)),
        }
    })
}

/// Scores the whole catalogue for the evaluated user at `position`.
///
/// # Errors
/// As [`user_accuracy`].
fn in_catalogue_alone(
    world: &World,
    catalogue: &Dataset,
    position: usize,
    products: &Products,
    lists: bool,
) -> Result<InCatalogue> {
    BUFFERS.with_borrow_mut(|(buffers, _)| {
        let user = world.candidates.evaluated_users()[position];
        let held_out = [world.dataset.test(user), world.dataset.validation(user)];
        let mut probe = Probe {
            world,
            catalogue,
            position,
            scorer: products,
            list_length: list_length(world, position, lists),
            buffers,
        };
        probe.found(Against::Catalogue, held_out.map(|held_out| held_out.items))
    })
}

/// Completes the accuracies of the evaluated users from the place `first` on by their ranks in the
/// whole catalogue, and by their `lists` if they are wanted, on the threads that call this. Nothing
/// depends on which users are scored together.
///
/// # Errors
/// The first of those in `scored`, and as [`user_accuracy`].
pub(crate) fn place_in_catalogue(
    (world, catalogue): (&World, &Dataset),
    first: usize,
    scored: Vec<Result<(Scored, Option<Products>)>>,
    lists: bool,
) -> Result<Vec<Scored>> {
    let users = world.candidates.evaluated_users();
    let waiting = (first..).zip(&scored).filter_map(|(position, scored)| {
        let products = scored.as_ref().ok()?.1.as_ref()?;
        Some((position, products))
    });
    let waiting: Vec<(usize, &Products)> = waiting.collect();
    // An item's row is read once for several groups of users, but all threads have work to the end.
    let at_once = waiting.len() / (8 * rayon::current_num_threads());
    let at_once = at_once.next_multiple_of(LANES).clamp(LANES, 4 * LANES);
    let found = waiting.par_chunks(at_once).flat_map_iter(|some| {
        let _stage = enter(Stage::Evaluate);
        let asked = some.iter().map(|(position, products)| Asked {
            user: users[*position],
            catalogue,
            products,
            list_length: list_length(world, *position, lists),
        });
        let found = in_catalogue_at_once(world, &asked.collect::<Vec<_>>(), ITEMS_AT_ONCE);
        let found = some
            .iter()
            .zip(found)
            .map(|((position, products), found)| match found {
                Some(found) => Ok(found),
                None => in_catalogue_alone(world, catalogue, *position, products, lists),
            });
        found.collect::<Vec<_>>()
    });
    let mut found = found.collect::<Vec<Result<InCatalogue>>>().into_iter();
    let complete = |(position, scored): (usize, Result<(Scored, Option<Products>)>)| {
        let (mut scored, waiting) = scored?;
        if let Some(found) = waiting.and_then(|_| found.next()) {
            scored.accuracy.place_in_catalogue(world, position, found?);
        }
        Ok(scored)
    };
    (first..).zip(scored).map(complete).collect()
}

impl UserAccuracy {
    /// Returns what the user would be shown, if that was asked for.
    pub(crate) fn shown(&self) -> Option<&Shown> {
        match self {
            Self::Ranked { shown, .. } => shown.as_deref(),
            Self::Rated(_) => None,
        }
    }

    /// Adds what was found in the whole catalogue for the evaluated user at `position`.
    fn place_in_catalogue(&mut self, world: &World, position: usize, found: InCatalogue) {
        let Self::Ranked {
            test,
            validation,
            shown,
        } = self
        else {
            return;
        };
        let InCatalogue {
            ranks,
            others,
            best,
        } = found;
        if !best.is_empty() {
            let user = world.candidates.evaluated_users()[position];
            *shown = Some(Box::new(Shown::new(world, user, best)));
        }
        let ranked = [test, validation].into_iter().zip(ranks).zip(others);
        for ((places, ranks), items) in ranked {
            let drawn = world.candidates.drawn_of(items);
            for (place, rank) in places.ranked.iter_mut().zip(ranks) {
                if world.candidates_are_catalogue() {
                    place.among_candidates = Some(rank);
                }
                if world.metric_set.in_catalogue {
                    place.in_catalogue = Some(CataloguePlace { rank, items, drawn });
                }
            }
        }
    }
}

/// The scoring of one user.
struct Probe<'a> {
    world: &'a World,
    /// What the user has rated, and what is not there yet.
    catalogue: &'a Dataset,
    position: usize,
    scorer: &'a dyn Scorer,
    /// The length of the user's list; 0 if it is to have none.
    list_length: usize,
    buffers: &'a mut ScoringBuffers,
}

impl Probe<'_> {
    /// Returns the ranks of the held-out items, as [`without_catalogue`] does.
    fn places(
        &mut self,
        test: HeldOutItems<'_>,
        validation: HeldOutItems<'_>,
    ) -> Result<(UserAccuracy, Option<Products>)> {
        let (metric_set, candidates) = (&self.world.metric_set, &self.world.candidates);
        let both = [test.items, validation.items];
        let mut places = [test, validation].map(|held_out| Places {
            held_out: held_out.items.len() as u32 + held_out.unrated,
            ranked: vec![Place::default(); held_out.items.len()],
        });
        if metric_set.among_candidates && !candidates.are_all() {
            // Where test and validation items have the same candidates, one list is scored once for
            // both.
            let ranks = if validation.items.is_empty() || candidates.are_shared() {
                self.found(Against::TestCandidates, both)?.ranks
            } else {
                let against = Against::TestCandidates;
                let [of_test, _] = self.found(against, [test.items, &[]])?.ranks;
                let against = Against::ValidationCandidates;
                let [_, of_validation] = self.found(against, [&[], validation.items])?.ranks;
                [of_test, of_validation]
            };
            for (places, ranks) in places.iter_mut().zip(ranks) {
                for (place, rank) in places.ranked.iter_mut().zip(ranks) {
                    place.among_candidates = Some(rank);
                }
            }
        }
        let [test, validation] = places;
        let mut accuracy = UserAccuracy::Ranked {
            test,
            validation,
            shown: None,
        };
        if !self.world.ranks_in_catalogue() && self.list_length == 0 {
            return Ok((accuracy, None));
        }
        let waiting = self.scorer.products().cloned();
        if waiting.is_none() {
            let found = self.found(Against::Catalogue, both)?;
            accuracy.place_in_catalogue(self.world, self.position, found);
        }
        Ok((accuracy, waiting))
    }

    /// Returns the ranks of each of two lists of held-out items among other items, the item with the
    /// highest score first, the numbers of these others, and in the catalogue the best items.
    fn found(&mut self, against: Against, held_out: [&[u32]; 2]) -> Result<InCatalogue> {
        let (world, catalogue) = (self.world, self.catalogue);
        let ScoringBuffers {
            candidates: scratch,
            items,
            scores,
        } = &mut *self.buffers;
        let candidates = world.candidates_among(catalogue);
        let listed = candidates.list(against, catalogue, self.position, scratch);
        let mut others = [listed.len() as u32; 2];
        // The items are ascending, as methods with sorted rows want it. Held-out items that are ranked
        // here are never among the candidates.
        items.clear();
        items.extend_from_slice(listed);
        items.extend(held_out.into_iter().flatten());
        items.sort();
        scores.clear();
        scores.resize(items.len(), 0.0);
        self.scorer.score(items, scores)?;
        let score_of = |item: &u32| scores[items.partition_point(|listed| listed < item)];
        let mut own = held_out.map(|list| list.iter().map(score_of).collect::<Vec<f32>>());
        own.iter_mut()
            .for_each(|scores| scores.sort_unstable_by(|a, b| b.total_cmp(a)));
        let all = own.concat();
        // The rank of an item leaves out what its user was known to have taken then: for validation items,
        // test items that come later are candidates.
        let known = match catalogue.tests_come_later() {
            true => &own[1],
            false => &all,
        };
        others[1] += (all.len() - known.len()) as u32;
        let found = || {
            let mut among_all = ranks(&all, scores)?.into_iter();
            let among_known = [ranks(&own[0], &all)?, ranks(&own[1], known)?];
            Some(among_known.map(|known| {
                let both = known.into_iter().zip(among_all.by_ref());
                both.map(|(known, all)| all - known).collect()
            }))
        };
        let ranks = found().ok_or_else(|| unscorable(world, self.position))?;
        let mut best = Best::new(match against {
            Against::Catalogue => self.list_length,
            Against::TestCandidates | Against::ValidationCandidates => 0,
        });
        for (item, score) in items.iter().zip(scores.iter()) {
            if *score >= best.bound() && held_out[1].binary_search(item).is_err() {
                best.offer(*item, *score);
            }
        }
        Ok(InCatalogue {
            ranks,
            others,
            best: best.into_items(),
        })
    }

    /// Returns the errors of the predictions of `test`, clipped to the range of ratings.
    fn errors(&mut self, test: TestRatings<'_>) -> Result<UserAccuracy> {
        let ScoringBuffers { items, scores, .. } = &mut *self.buffers;
        // A file of ratings may repeat a pair of user and item, but methods score distinct items.
        items.clear();
        items.extend_from_slice(test.items);
        items.dedup();
        scores.clear();
        scores.resize(items.len(), 0.0);
        self.scorer.score(items, scores)?;
        if scores.iter().any(|score| score.is_nan()) {
            return Err(unscorable(self.world, self.position));
        }
        let MetricSet { metrics, scale, .. } = &self.world.metric_set;
        let rated = test.items.iter().zip(test.ratings.iter());
        let predictions = rated.map(|(item, rating)| {
            let score = scores[items.partition_point(|listed| listed < item)];
            (scale.map_or(score, |scale| scale.clip(score)), rating)
        });
        let errors = RatingErrors::of(metrics, predictions);
        Ok(UserAccuracy::Rated(errors))
    }
}

/// Returns the error of a score that is NaN.
fn unscorable(world: &World, position: usize) -> Error {
    Error::Unscorable {
        user: world.candidates.evaluated_users()[position].into(),
        place: "a score".into(),
    }
}

/// What was found on the test part of every evaluated user, in the order of these: the number of
/// held-out items or ratings, and then, in a list of its own, the values of all metrics.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct UserTests {
    held_out: Vec<u64>,
    values: Vec<Option<f64>>,
}

impl UserTests {
    fn push(&mut self, held_out: u64, values: &[Option<f64>]) {
        self.held_out.push(held_out);
        self.values.extend_from_slice(values);
    }

    /// Returns what was found for each user.
    pub(crate) fn users(&self) -> impl Iterator<Item = UserTest> {
        let metrics = self.values.len() / self.held_out.len().max(1);
        self.held_out
            .iter()
            .enumerate()
            .map(move |(place, held_out)| UserTest {
                held_out: *held_out,
                values: self.values[place * metrics..][..metrics].to_vec(),
            })
    }
}

/// Returns the means over those of `accuracies` whose users are there from the start, added in their
/// order. All evaluated users have one. Those of single users are kept in `tests` if that is there.
pub(crate) fn accuracy<'a>(
    accuracies: impl IntoIterator<Item = &'a UserAccuracy>,
    world: &World,
    mut tests: Option<&mut UserTests>,
) -> SplitAccuracy {
    let metrics = &world.metric_set.metrics;
    let mut test = MetricSums::new(metrics);
    let mut validation = test.clone();
    let mut has_validation = false;
    let users = world.candidates.evaluated_users();
    for (user, accuracy) in users.iter().zip(accuracies) {
        if world.is_apart(*user) {
            if let Some(tests) = &mut tests {
                tests.push(0, &vec![None; metrics.len()]);
            }
            continue;
        }
        if let UserAccuracy::Ranked {
            validation: places, ..
        } = accuracy
        {
            has_validation |= places.held_out > 0;
            validation.add_places(places);
        }
        let (held_out, values) = add_test(&mut test, accuracy);
        if let Some(tests) = &mut tests {
            tests.push(held_out, values);
        }
    }
    SplitAccuracy {
        validation: has_validation.then(|| validation.means()),
        test: test.means(),
    }
}

/// Returns the means of the test part over all of `accuracies`, added in their order.
pub(crate) fn test_means<'a>(
    accuracies: impl IntoIterator<Item = &'a UserAccuracy>,
    metric_set: &MetricSet,
) -> Accuracy {
    let mut test = MetricSums::new(&metric_set.metrics);
    for accuracy in accuracies {
        add_test(&mut test, accuracy);
    }
    test.means()
}

/// Adds the test part of a user, and returns the number of its held-out items or ratings and the
/// value of each metric.
fn add_test<'s>(sums: &'s mut MetricSums, accuracy: &UserAccuracy) -> (u64, &'s [Option<f64>]) {
    match accuracy {
        UserAccuracy::Ranked { test, .. } => (test.held_out.into(), sums.add_places(test)),
        UserAccuracy::Rated(errors) => (errors.ratings, sums.add_errors(errors)),
    }
}

/// Returns the accuracy of a method that needs no training for the evaluated users at these places
/// of their list, on the run's own split and candidates.
///
/// # Errors
/// As [`user_accuracy`].
pub(crate) fn of_untrained(
    world: &World,
    places: std::ops::Range<usize>,
    client_of: impl Fn(UserId) -> Box<dyn Client> + Sync,
) -> Result<Vec<UserAccuracy>> {
    let users = world.candidates.evaluated_users();
    places
        .into_par_iter()
        .map(|place| {
            user_accuracy(
                world,
                place,
                client_of(users[place]).as_ref(),
                &Model::none(),
                false,
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use fedrecsim_core::{PortableDraws, Purpose, Streams};
    use fedrecsim_data::dataset;
    use fedrecsim_methods::registry::vocabulary;
    use fedrecsim_model::table::{Table, TableShape};
    use fedrecsim_scenario as scenario;
    use std::fmt::Write;
    use std::sync::Arc;

    /// Returns a world of 21 users with twelve ratings, one every other day. The last two are of
    /// items that nobody has rated before.
    fn world(split: &str, ranking: &str) -> World {
        let mut ratings = String::new();
        for (user, n) in (0..21).flat_map(|user| (0..12).map(move |n| (user, n))) {
            let item = match n {
                10.. => 60 + (2 * user + n) % 5,
                _ => (user * 7 + n * (3 + user % 2)) % 60,
            };
            let day = 2 * n + 1;
            writeln!(
                ratings,
                "u{user},i{item},3,2001-02-{day:02} 10:{user:02}:00"
            )
            .unwrap();
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ratings.csv");
        std::fs::write(&path, ratings).unwrap();
        let text = format!(
            "method = \"popularity\"\n[dataset]\nname = \"delimited\"\npath = {path:?}\nsplit = {split}\n\
             columns = {{ separator = \",\", user = 1, item = 2, rating = 3, timestamp = 4 }}\n\
             [training]\nrounds = 1\n[evaluation]\nranking = {ranking}\n"
        );
        let scenario = scenario::parse(&text, "small.toml", &[], &vocabulary()).unwrap();
        let dataset = dataset::load(&scenario.dataset, &[], Streams::new(1)).unwrap();
        World::new(scenario, Arc::new(dataset)).unwrap()
    }

    /// If this fails, a user's ranks or its list depend on who is scored beside it, or on a block of
    /// items.
    #[test]
    fn what_is_found_for_many_users_at_once_is_that_of_each_alone() {
        let splits = [
            ("\"leave-one-out\"", false),
            ("{ leave-one-out = { session_gap_days = 5 } }", true),
            (
                "{ holdout = { share = 0.5, validation_share = 0.2 } }",
                false,
            ),
            (
                "{ global-time = { cut = 0.6, validation_share = 0.1, targets = \"all\" } }",
                false,
            ),
            (
                "{ global-time = { cut = 0.6, targets = \"all\", new_items = true } }",
                false,
            ),
        ];
        let mut stream = Streams::new(2).stream(Purpose::GlobalInit, 0, 0);
        // Few different values make ties.
        let mut draw = move || stream.below(5) as f32 - 2.0;
        for (split, has_left_out) in splits {
            let world = world(split, "\"full-catalogue\"");
            let without_ranks = self::world(split, "{ sampled = { candidates = 20 } }");
            let (dataset, users) = (&world.dataset, world.candidates.evaluated_users());
            let held_out =
                |user| [dataset.test(user), dataset.validation(user)].map(|all| all.items.len());
            let leaves_out = |user: &UserId| {
                dataset.held_out_items(*user).count() > held_out(*user).iter().sum()
            };
            assert_eq!(users.iter().any(leaves_out), has_left_out, "{split}");
            let mut table = |columns| {
                let shape = TableShape::new(dataset.items(), columns);
                Arc::new(Table::from_fn(shape, &mut draw))
            };
            let (table, biases, vectors) = (table(3), table(1), table(3));
            for item_bias in [None, Some((0.5, biases))] {
                let products = |position: usize| Products {
                    bias: position as f32,
                    item_bias: item_bias.clone(),
                    ..Products::new(vectors.row(position).to_vec(), &table)
                };
                let mut products: Vec<Products> = (0..users.len()).map(products).collect();
                products[1].vector[0] = f32::NAN;
                let asked: Vec<Asked<'_>> = users
                    .iter()
                    .zip(&products)
                    .map(|(user, products)| Asked {
                        user: *user,
                        catalogue: dataset,
                        products,
                        list_length: 10,
                    })
                    .collect();
                for items_at_once in [1, 7, ITEMS_AT_ONCE, 2 * dataset.items()] {
                    let found = in_catalogue_at_once(&world, &asked, items_at_once);
                    let best = in_catalogue_at_once(&without_ranks, &asked, items_at_once);
                    assert_eq!(found.len(), users.len());
                    for (position, (found, best)) in found.into_iter().zip(best).enumerate() {
                        let products = &products[position];
                        let alone =
                            in_catalogue_alone(&world, dataset, position, products, true).ok();
                        assert_eq!(found, alone, "{split}, user {position}");
                        assert_eq!(found.is_none(), position == 1);
                        let best = best.map(|found| found.best);
                        assert_eq!(best, alone.map(|found| found.best));
                    }
                }
                // Two users are too few to be scored at once.
                assert_eq!(in_catalogue_at_once(&world, &asked[2..4], 9), [None, None]);
            }
        }
    }

    /// If this fails, a list has something that the user has rated, or lacks the item that it is tested
    /// on, and is compared with another list or history than the user's.
    #[test]
    fn a_list_has_no_rated_item_nor_has_that_of_popularity() {
        let world = world("\"leave-one-out\"", "{ sampled = { candidates = 20 } }");
        let dataset = &world.dataset;
        let shape = TableShape::new(dataset.items(), 1);
        // The last items have the highest scores.
        let table = Arc::new(Table::from_fn(shape, {
            let mut next = 0.0;
            move || {
                next += 1.0;
                next
            }
        }));
        let products = Products::new(vec![1.0], &table);
        let most_popular = world.popularity().order();
        for (position, user) in world.candidates.evaluated_users().iter().enumerate() {
            let rated = [dataset.train_items(*user), dataset.validation(*user).items].concat();
            let is_new = |item: &u32| !rated.contains(item);
            let last = (0..dataset.items() as u32).rev().filter(is_new);
            let popular = most_popular.iter().copied().filter(is_new);
            let found = in_catalogue_alone(&world, dataset, position, &products, true).unwrap();
            let shown = Shown::new(&world, *user, found.best);
            assert_eq!(shown.own, last.take(10).collect::<Vec<u32>>());
            assert_eq!(shown.popular, popular.take(10).collect::<Vec<u32>>());
            assert_eq!(
                shown.history.iter().sum::<u32>() as usize,
                dataset.train_items(*user).len()
            );
        }
    }
}
