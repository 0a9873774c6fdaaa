//! Scoring: where the held-out items of a user stand.

use std::cell::RefCell;

use super::outcome::SplitFigures;
use super::world::World;
use crate::dataset::candidates::CandidateScratch;
use crate::error::{Error, Result};
use crate::ids::{ItemId, UserId};
use crate::method::Client;
use crate::model::ranking::{RankingSums, rank};
use crate::model::table::Table;

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
    candidates: Option<CandidateScratch>,
    items: Vec<u32>,
    scores: Vec<f32>,
}

thread_local! {
    static BUFFERS: RefCell<Buffers> = RefCell::default();
}

/// Ranks the held-out items of the evaluated user at `position` by the scores of `client`.
///
/// # Errors
/// [`Error::NonFinite`] if a score is NaN: a rank would make a diverged model look perfect.
pub fn ranks(world: &World, position: usize, client: &dyn Client, global: &Table) -> Result<Ranks> {
    BUFFERS.with_borrow_mut(|buffers| {
        let user = world.candidates.evaluated_users()[position];
        let test = rank_of(world, position, Some(world.dataset.test_item(user)), Split::Test, client, global, buffers)?;
        let held_out = world.dataset.validation_item(user);
        let validation = rank_of(world, position, held_out, Split::Validation, client, global, buffers)?;
        // A test item always exists, so its rank does too.
        Ok(Ranks { test: test.unwrap_or(u32::MAX), validation })
    })
}

#[derive(Clone, Copy)]
enum Split {
    Test,
    Validation,
}

fn rank_of(
    world: &World,
    position: usize,
    held_out: Option<ItemId>,
    split: Split,
    client: &dyn Client,
    global: &Table,
    buffers: &mut Buffers,
) -> Result<Option<u32>> {
    let Some(held_out) = held_out else { return Ok(None) };
    let items = world.dataset.items();
    let Buffers { candidates, items: scored, scores } = buffers;
    let scratch = match candidates {
        Some(scratch) if scratch.fits(items) => scratch,
        other => other.insert(CandidateScratch::new(items)),
    };
    let listed = match split {
        Split::Test => world.candidates.test(&world.dataset, position, scratch),
        Split::Validation => world.candidates.validation(&world.dataset, position, scratch),
    };
    // Ascending, as methods with sorted rows want it.
    let place = listed.partition_point(|item| *item < held_out.0);
    scored.clear();
    scored.extend_from_slice(&listed[..place]);
    scored.push(held_out.0);
    scored.extend_from_slice(&listed[place..]);
    scores.clear();
    scores.resize(scored.len(), 0.0);
    client.score(global, scored, scores);
    let others = scores[..place].iter().chain(&scores[place + 1..]).copied();
    match rank(scores[place], others) {
        Some(rank) => Ok(Some(rank)),
        None => {
            let user = world.candidates.evaluated_users()[position];
            Err(Error::NonFinite { place: format!("the scores of {user}"), value: f64::NAN })
        }
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
pub fn of_untrained(
    world: &World,
    client_of: impl Fn(UserId) -> Box<dyn Client> + Sync,
    table: &Table,
) -> Result<SplitFigures> {
    use rayon::prelude::*;
    let users = world.candidates.evaluated_users();
    let ranks: Vec<Ranks> = users
        .par_iter()
        .enumerate()
        .map(|(position, &user)| ranks(world, position, client_of(user).as_ref(), table))
        .collect::<Result<_>>()?;
    Ok(figures(&ranks, &world.scenario.evaluation.cutoffs))
}
