//! Scoring: where the held-out items of a user stand, and how far predictions are from its held-out ratings.
//!
//! A probe from outside: it reads the parameters that clients lend to the metrics, and costs neither bytes nor time in
//! the simulated world.

use std::cell::RefCell;

use super::outcome::SplitFigures;
use super::world::World;
use super::yardstick::Yardstick;
use crate::dataset::TestRatings;
use crate::dataset::candidates::CandidateScratch;
use crate::error::{Error, Result};
use crate::ids::{ItemId, UserId};
use crate::method::{Client, Scorer, ScoringContext, Scratch};
use crate::metric::{CataloguePlace, Place, RatingErrors, Sums, rank};
use crate::model::blocks::Model;

/// What was found out about one user.
#[derive(Clone, Debug, PartialEq)]
pub enum Standing {
    /// Where the held-out items stand.
    Ranked {
        /// The test item.
        test: Place,
        /// The validation item, where there is one.
        validation: Option<Place>,
    },
    /// How far the predictions are from the test ratings.
    Rated(RatingErrors),
}

/// What was found out about one user, and what that took.
#[derive(Clone, Debug, PartialEq)]
pub struct Scored {
    /// What was found out.
    pub standing: Standing,
    /// Bytes that the user's device downloaded for it; none where the server scores.
    pub download_bytes: u64,
}

/// Buffers of one worker thread; they carry nothing from one user to the next.
#[derive(Default)]
struct Buffers {
    scoring: ScoringBuffers,
    scratch: Scratch,
}

/// Buffers for items and their scores.
#[derive(Default)]
struct ScoringBuffers {
    candidates: Option<CandidateScratch>,
    items: Vec<u32>,
    scores: Vec<f32>,
}

thread_local! {
    static BUFFERS: RefCell<Buffers> = RefCell::default();
}

/// Finds out about the evaluated user at `position` by the scores of `client` with `model`, which is what the user's
/// device has decoded.
///
/// # Errors
/// [`Error::NonFinite`] if a score is NaN: a rank would make a diverged model look perfect. Whatever the method finds
/// wrong when it makes a scorer.
pub fn standing(world: &World, position: usize, client: &dyn Client, model: &Model) -> Result<Standing> {
    BUFFERS.with_borrow_mut(|buffers| {
        let Buffers { scoring, scratch } = buffers;
        let user = world.candidates.evaluated_users()[position];
        let context = ScoringContext::new(user, model, world.dataset.own_data(user), world.streams)
            .with_negatives(&world.dataset, &world.scenario.dataset.negatives);
        let scorer = client.scorer(&context, scratch)?;
        let mut probe = Probe { world, position, scorer: &*scorer, buffers: scoring };
        let standing = match (world.dataset.test_item(user), world.dataset.test_ratings(user)) {
            (Some(test), _) => probe.places(test, world.dataset.validation_item(user)),
            (None, Some(test)) => probe.errors(test),
            // A split holds one or the other out.
            (None, None) => Some(Standing::Rated(RatingErrors::default())),
        };
        standing.ok_or_else(|| Error::NonFinite { place: format!("the scores of {user}"), value: f64::NAN })
    })
}

/// What held-out items are ranked against.
#[derive(Clone, Copy)]
enum Against {
    TestCandidates,
    ValidationCandidates,
    Catalogue,
}

/// One user's scores with the server's model of the moment.
struct Probe<'a> {
    world: &'a World,
    position: usize,
    scorer: &'a dyn Scorer,
    buffers: &'a mut ScoringBuffers,
}

impl Probe<'_> {
    /// Where the held-out items stand; `None` if a score is NaN.
    fn places(&mut self, test: ItemId, validation: Option<ItemId>) -> Option<Standing> {
        let Yardstick { among_candidates, in_catalogue, .. } = self.world.yardstick;
        let both: Vec<ItemId> = std::iter::once(test).chain(validation).collect();
        let mut places = [Place::default(); 2];
        if among_candidates {
            // One draw of candidates serves both items: one list, scored once.
            let ranks = if validation.is_none() || self.world.candidates.are_shared() {
                self.rank(Against::TestCandidates, &both)?.0
            } else {
                let of_test = self.rank(Against::TestCandidates, &both[..1])?.0;
                let of_validation = self.rank(Against::ValidationCandidates, &both[1..])?.0;
                [of_test[0], of_validation[0]]
            };
            places.iter_mut().zip(ranks).for_each(|(place, rank)| place.among_candidates = Some(rank));
        }
        if in_catalogue {
            let (ranks, items) = self.rank(Against::Catalogue, &both)?;
            let drawn = self.world.candidates.drawn_of(items);
            for (place, rank) in places.iter_mut().zip(ranks) {
                place.in_catalogue = Some(CataloguePlace { rank, items, drawn });
            }
        }
        Some(Standing::Ranked { test: places[0], validation: validation.map(|_| places[1]) })
    }

    /// The rank of each of `held_out` (at most two) among other items, and how many these are; `None` if a score is NaN.
    fn rank(&mut self, against: Against, held_out: &[ItemId]) -> Option<([u32; 2], u32)> {
        let (world, dataset) = (self.world, &self.world.dataset);
        let ScoringBuffers { candidates, items, scores } = &mut *self.buffers;
        let scratch = match candidates {
            Some(scratch) if scratch.fits(dataset.items()) => scratch,
            other => other.insert(CandidateScratch::new(dataset.items())),
        };
        let listed = match against {
            Against::TestCandidates => world.candidates.test(dataset, self.position, scratch),
            Against::ValidationCandidates => world.candidates.validation(dataset, self.position, scratch),
            Against::Catalogue => world.candidates.catalogue(dataset, self.position, scratch),
        };
        let others = listed.len() as u32;
        // Ascending, as methods with sorted rows want it; held-out items are never among the candidates.
        items.clear();
        items.extend_from_slice(listed);
        for item in held_out {
            items.insert(items.partition_point(|listed| *listed < item.0), item.0);
        }
        scores.clear();
        scores.resize(items.len(), 0.0);
        self.scorer.score(items, scores);
        let mut ranks = [0; 2];
        for (item, rank_of_item) in held_out.iter().zip(&mut ranks) {
            let place = items.partition_point(|listed| *listed < item.0);
            let others = items.iter().zip(scores.iter()).filter(|(item, _)| !held_out.contains(&ItemId(**item)));
            *rank_of_item = rank(scores[place], others.map(|(_, score)| *score))?;
        }
        Some((ranks, others))
    }

    /// The errors of the predictions of `test`, clipped to the range of ratings; `None` if a score is NaN.
    fn errors(&mut self, test: TestRatings<'_>) -> Option<Standing> {
        let ScoringBuffers { items, scores, .. } = &mut *self.buffers;
        // Methods score distinct items; a file may repeat a pair.
        items.clear();
        items.extend_from_slice(test.items);
        items.dedup();
        scores.clear();
        scores.resize(items.len(), 0.0);
        self.scorer.score(items, scores);
        if scores.iter().any(|score| score.is_nan()) {
            return None;
        }
        let Yardstick { metrics, scale, .. } = &self.world.yardstick;
        let predictions = test.items.iter().zip(test.ratings.iter()).map(|(item, rating)| {
            let score = scores[items.partition_point(|listed| listed < item)];
            (scale.map_or(score, |scale| scale.clip(score)), rating)
        });
        Some(Standing::Rated(RatingErrors::of(metrics, predictions)))
    }
}

/// Means over `standings`, in their order.
pub fn figures<'a>(standings: impl IntoIterator<Item = &'a Standing>, yardstick: &Yardstick) -> SplitFigures {
    let mut test = Sums::new(&yardstick.metrics);
    let mut validation = test.clone();
    let mut has_validation = false;
    for standing in standings {
        match standing {
            Standing::Ranked { test: place, validation: of_validation } => {
                test.add_place(place);
                has_validation |= of_validation.is_some();
                of_validation.iter().for_each(|place| validation.add_place(place));
            }
            Standing::Rated(errors) => test.add_errors(errors),
        }
    }
    SplitFigures { validation: has_validation.then(|| validation.figures()), test: test.figures() }
}

/// The accuracy of a method that needs no training, on the run's own split and candidates.
///
/// # Errors
/// As [`standing`].
pub fn of_untrained(world: &World, client_of: impl Fn(UserId) -> Box<dyn Client> + Sync) -> Result<SplitFigures> {
    use rayon::prelude::*;
    let users = world.candidates.evaluated_users();
    let standings: Vec<Standing> = users
        .par_iter()
        .enumerate()
        .map(|(position, &user)| standing(world, position, client_of(user).as_ref(), &Model::none()))
        .collect::<Result<_>>()?;
    Ok(figures(&standings, &world.yardstick))
}
