//! Scoring: finds how high the held-out items of a user rank, and how far predictions are from its
//! held-out ratings.
//!
//! Scoring reads the parameters that clients lend to the metrics. It costs neither bytes nor time
//! in the simulated world.

use std::cell::RefCell;

use serde::{Deserialize, Serialize};

use super::metric_set::MetricSet;
use super::outcome::{SplitAccuracy, UserTest};
use super::world::World;
use fedrecsim_core::metric::{CataloguePlace, MetricSums, Place, Places, RatingErrors, ranks};
use fedrecsim_core::{Error, Result, UserId};
use fedrecsim_data::dataset::{Against, CandidateScratch, HeldOutItems, TestRatings};
use fedrecsim_methods::{Client, Scorer, ScoringContext, Scratch};
use fedrecsim_model::Model;

/// The accuracy that was found for one user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum UserAccuracy {
    /// The ranks of the held-out items.
    Ranked {
        /// The test items.
        test: Places,
        /// The validation items.
        validation: Places,
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
/// `model`, which is what the user's device has decoded.
///
/// # Errors
/// [`Error::Unscorable`] if a score is NaN, since a rank would make a diverged model look perfect;
/// and any error of the method when it makes a scorer.
pub(crate) fn user_accuracy(
    world: &World,
    position: usize,
    client: &dyn Client,
    model: &Model,
) -> Result<UserAccuracy> {
    BUFFERS.with_borrow_mut(|(buffers, scratch)| {
        let (dataset, user) = (&world.dataset, world.candidates.evaluated_users()[position]);
        let own = dataset.own_data(user);
        let mut context = ScoringContext::new(user, model, own, world.streams, scratch);
        context.negatives = Some((dataset, &world.scenario.dataset.negatives));
        let scorer = client.scorer(context)?;
        let mut probe = Probe {
            world,
            position,
            scorer: &*scorer,
            buffers,
        };
        match dataset.test_ratings(user) {
            Some(test) => probe.errors(test),
            None => probe.places(dataset.test(user), dataset.validation(user)),
        }
    })
}

/// The scoring of one user.
struct Probe<'a> {
    world: &'a World,
    position: usize,
    scorer: &'a dyn Scorer,
    buffers: &'a mut ScoringBuffers,
}

impl Probe<'_> {
    /// Returns the ranks of the held-out items.
    fn places(
        &mut self,
        test: HeldOutItems<'_>,
        validation: HeldOutItems<'_>,
    ) -> Result<UserAccuracy> {
        let (metric_set, candidates) = (&self.world.metric_set, &self.world.candidates);
        let both = [test.items, validation.items];
        let mut places = [test, validation].map(|held_out| Places {
            held_out: held_out.items.len() as u32 + held_out.unrated,
            ranked: vec![Place::default(); held_out.items.len()],
        });
        if metric_set.among_candidates {
            // Where test and validation items have the same candidates, one list is scored once for
            // both.
            let ranks = if validation.items.is_empty() || candidates.are_shared() {
                self.ranks(Against::TestCandidates, both)?.0
            } else {
                let ([of_test, _], _) = self.ranks(Against::TestCandidates, [test.items, &[]])?;
                let against = Against::ValidationCandidates;
                let ([_, of_validation], _) = self.ranks(against, [&[], validation.items])?;
                [of_test, of_validation]
            };
            for (places, ranks) in places.iter_mut().zip(ranks) {
                for (place, rank) in places.ranked.iter_mut().zip(ranks) {
                    place.among_candidates = Some(rank);
                }
            }
        }
        if metric_set.in_catalogue {
            let (ranks, items) = self.ranks(Against::Catalogue, both)?;
            let drawn = candidates.drawn_of(items);
            for (places, ranks) in places.iter_mut().zip(ranks) {
                for (place, rank) in places.ranked.iter_mut().zip(ranks) {
                    place.in_catalogue = Some(CataloguePlace { rank, items, drawn });
                }
            }
        }
        let [test, validation] = places;
        Ok(UserAccuracy::Ranked { test, validation })
    }

    /// Returns the ranks of each of two lists of held-out items among other items, the item with the
    /// highest score first, and the number of these others.
    fn ranks(&mut self, against: Against, held_out: [&[u32]; 2]) -> Result<([Vec<u32>; 2], u32)> {
        let (world, dataset) = (self.world, &self.world.dataset);
        let ScoringBuffers {
            candidates: scratch,
            items,
            scores,
        } = &mut *self.buffers;
        let listed = world
            .candidates
            .list(against, dataset, self.position, scratch);
        let others = listed.len() as u32;
        // The items are ascending, as methods with sorted rows want it. Held-out items are never
        // among the candidates.
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
        // No held-out item of the user counts against another one.
        let found = ranks(&all, scores).zip(ranks(&all, &all));
        let (among_all, among_own) = found.ok_or_else(|| unscorable(world, self.position))?;
        let mut found = among_all.iter().zip(among_own).map(|(all, own)| all - own);
        let ranks = own.map(|list| found.by_ref().take(list.len()).collect());
        Ok((ranks, others))
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
        user: world.candidates.evaluated_users()[position],
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

/// Returns the means over `accuracies`, added in their order, and keeps those of single users in
/// `tests` if that is there.
pub(crate) fn accuracy<'a>(
    accuracies: impl IntoIterator<Item = &'a UserAccuracy>,
    metric_set: &MetricSet,
    mut tests: Option<&mut UserTests>,
) -> SplitAccuracy {
    let mut test = MetricSums::new(&metric_set.metrics);
    let mut validation = test.clone();
    let mut has_validation = false;
    for accuracy in accuracies {
        let (held_out, values) = match accuracy {
            UserAccuracy::Ranked {
                test: of_test,
                validation: of_validation,
            } => {
                has_validation |= of_validation.held_out > 0;
                validation.add_places(of_validation);
                (of_test.held_out.into(), test.add_places(of_test))
            }
            UserAccuracy::Rated(errors) => (errors.ratings, test.add_errors(errors)),
        };
        if let Some(tests) = &mut tests {
            tests.push(held_out, values);
        }
    }
    SplitAccuracy {
        validation: has_validation.then(|| validation.means()),
        test: test.means(),
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
    use rayon::prelude::*;
    let users = world.candidates.evaluated_users();
    places
        .into_par_iter()
        .map(|place| {
            user_accuracy(
                world,
                place,
                client_of(users[place]).as_ref(),
                &Model::none(),
            )
        })
        .collect()
}
