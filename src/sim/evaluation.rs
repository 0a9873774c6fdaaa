//! Scoring: where the held-out items of a user stand.
//!
//! A probe from outside: it reads the parameters that clients lend to the metrics, and costs neither bytes nor time in
//! the simulated world.

use std::cell::RefCell;

use super::outcome::SplitFigures;
use super::world::World;
use crate::dataset::candidates::CandidateScratch;
use crate::error::{Error, Result};
use crate::ids::{ItemId, UserId};
use crate::method::{Client, Scorer, ScoringContext, Scratch};
use crate::model::blocks::Model;
use crate::model::ranking::{RankingSums, rank};

/// Ranks (from 0) of one user's held-out items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranks {
    /// Of the test item.
    pub test: u32,
    /// Of the validation item, where there is one.
    pub validation: Option<u32>,
}

/// Buffers of one worker thread; they carry nothing from one user to the next.
#[derive(Default)]
struct Buffers {
    ranking: RankingBuffers,
    scratch: Scratch,
}

/// Buffers for ranking.
#[derive(Default)]
struct RankingBuffers {
    candidates: Option<CandidateScratch>,
    items: Vec<u32>,
    scores: Vec<f32>,
}

thread_local! {
    static BUFFERS: RefCell<Buffers> = RefCell::default();
}

/// Ranks the held-out items of the evaluated user at `position` by the scores of `client` with `model`, which is what
/// the user's device has decoded.
///
/// # Errors
/// [`Error::NonFinite`] if a score is NaN: a rank would make a diverged model look perfect. Whatever the method finds
/// wrong when it makes a scorer.
pub fn ranks(world: &World, position: usize, client: &dyn Client, model: &Model) -> Result<Ranks> {
    BUFFERS.with_borrow_mut(|buffers| {
        let Buffers { ranking, scratch } = buffers;
        let user = world.candidates.evaluated_users()[position];
        let Some(test) = world.dataset.test_item(user) else {
            return Err(Error::Usage("a k-fold split cannot be evaluated yet".to_owned()));
        };
        let validation = world.dataset.validation_item(user);
        let context = ScoringContext::new(user, model, world.dataset.own_data(user), world.streams);
        let scorer = client.scorer(&context, scratch)?;
        let mut rank = |split, held_out: &[ItemId]| ranking.rank(world, position, split, held_out, &*scorer);
        let ranked = match validation {
            // One draw of candidates serves both items: one list, scored once.
            Some(validation) if world.candidates.are_shared() => {
                rank(Split::Test, &[test, validation]).map(|ranks| (ranks[0], Some(ranks[1])))
            }
            Some(validation) => rank(Split::Test, &[test]).and_then(|of_test| {
                let of_validation = rank(Split::Validation, &[validation])?;
                Some((of_test[0], Some(of_validation[0])))
            }),
            None => rank(Split::Test, &[test]).map(|ranks| (ranks[0], None)),
        };
        match ranked {
            Some((test, validation)) => Ok(Ranks { test, validation }),
            None => Err(Error::NonFinite { place: format!("the scores of {user}"), value: f64::NAN }),
        }
    })
}

#[derive(Clone, Copy)]
enum Split {
    Test,
    Validation,
}

impl RankingBuffers {
    /// Returns the rank of each of `held_out` (at most two) among the candidates of `split`; `None` if a score is NaN.
    fn rank(
        &mut self,
        world: &World,
        position: usize,
        split: Split,
        held_out: &[ItemId],
        scorer: &dyn Scorer,
    ) -> Option<[u32; 2]> {
        let dataset = &world.dataset;
        let Self { candidates, items, scores } = self;
        let scratch = match candidates {
            Some(scratch) if scratch.fits(dataset.items()) => scratch,
            other => other.insert(CandidateScratch::new(dataset.items())),
        };
        let listed = match split {
            Split::Test => world.candidates.test(dataset, position, scratch),
            Split::Validation => world.candidates.validation(dataset, position, scratch),
        };
        // Ascending, as methods with sorted rows want it; held-out items are never among the candidates.
        items.clear();
        items.extend_from_slice(listed);
        for item in held_out {
            items.insert(items.partition_point(|listed| *listed < item.0), item.0);
        }
        scores.clear();
        scores.resize(items.len(), 0.0);
        scorer.score(items, scores);
        let mut ranks = [0; 2];
        for (item, rank_of_item) in held_out.iter().zip(&mut ranks) {
            let place = items.partition_point(|listed| *listed < item.0);
            let others = items.iter().zip(scores.iter()).filter(|(item, _)| !held_out.contains(&ItemId(**item)));
            *rank_of_item = rank(scores[place], others.map(|(_, score)| *score))?;
        }
        Some(ranks)
    }
}

/// Means over `ranks`, in their order.
pub fn figures(ranks: &[Ranks], cutoffs: &[u32]) -> SplitFigures {
    let mut test = RankingSums::new(cutoffs);
    let mut validation = RankingSums::new(cutoffs);
    for ranks in ranks {
        test.add_rank(ranks.test);
        if let Some(rank) = ranks.validation {
            validation.add_rank(rank);
        }
    }
    SplitFigures { validation: (validation.users > 0).then(|| validation.figures()), test: test.figures() }
}

/// The accuracy of a method that needs no training, on the run's own split and candidates.
///
/// # Errors
/// As [`ranks`].
pub fn of_untrained(world: &World, client_of: impl Fn(UserId) -> Box<dyn Client> + Sync) -> Result<SplitFigures> {
    use rayon::prelude::*;
    let users = world.candidates.evaluated_users();
    let ranks: Vec<Ranks> = users
        .par_iter()
        .enumerate()
        .map(|(position, &user)| ranks(world, position, client_of(user).as_ref(), &Model::none()))
        .collect::<Result<_>>()?;
    Ok(figures(&ranks, &world.scenario.evaluation.cutoffs))
}
