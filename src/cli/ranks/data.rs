//! Reads the data of a run in several processes, each of which keeps the ratings of its own users.

use std::path::PathBuf;
use std::sync::Arc;

use super::Other;
use crate::cli::inputs::Inputs;
use crate::dataset::share::{self, Totals};
use crate::dataset::{self, Dataset};
use crate::error::{Error, Result};
use crate::method::Entry;
use crate::rng::Streams;
use crate::scenario::Scenario;
use crate::sim::{self, Crew, Shares};

/// The side of a process on which data are read.
pub enum Side<'a> {
    /// That of process 0.
    Zero(&'a mut Crew),
    /// That of another process.
    Other(&'a mut Other),
}

/// Reads the ratings and traces of a scenario, as [`Inputs::load`] does, and keeps the ratings of the users of this process.
/// Generated ones are drawn where they belong. Returns `None` if the run does not go on.
///
/// # Errors
/// Those of reading, and of talking to the other processes.
pub fn load(scenario: &Scenario, directories: &[PathBuf], methods: &[Entry], side: Side<'_>) -> Result<Option<Inputs>> {
    if sim::server_needs_ratings(scenario, methods)? {
        return Inputs::load(scenario, directories, methods).map(Some);
    }
    let (spec, streams) = (&scenario.dataset, Streams::new(scenario.seed));
    let (rank, ranks) = match &side {
        Side::Zero(crew) => (0, crew.ranks()),
        Side::Other(other) => (other.rank, other.ranks as usize),
    };
    let dataset = match share::users_drawn_by_owner(spec) {
        Some(users) => {
            let own = share::draw(spec, Shares::new(users as usize, ranks).of(rank), streams);
            match side {
                Side::Zero(crew) => Some(combined(own?, crew)?),
                Side::Other(other) => contributed(own, other)?,
            }
        }
        None => {
            let whole = dataset::load(spec, directories, streams)?;
            let own = Shares::new(whole.users(), ranks).of(rank);
            Some(whole.of_users(own))
        }
    };
    dataset.map(|dataset| Inputs::of(scenario, Arc::new(dataset), directories, methods)).transpose()
}

/// Returns the data set of process 0 with what is known of the users of all.
fn combined(own: Dataset, crew: &mut Crew) -> Result<Dataset> {
    let totals = std::cell::RefCell::new(own.totals().cloned().ok_or_else(unreadable)?);
    crew.combine(
        &mut |share| {
            let share: Totals = postcard::from_bytes(share).map_err(|_| unreadable())?;
            totals.borrow_mut().add(&share);
            Ok(())
        },
        || postcard::to_stdvec(&*totals.borrow()).map_err(|_| unreadable()),
    )?;
    Ok(own.knowing(totals.into_inner()))
}

/// Returns the data set of another process with what is known of the users of all; `None` if the run does not go on.
fn contributed(own: Result<Dataset>, other: &mut Other) -> Result<Option<Dataset>> {
    let share = own.as_ref().map_err(ToString::to_string).and_then(|own| {
        let totals = own.totals().ok_or_else(|| unreadable().to_string())?;
        postcard::to_stdvec(totals).map_err(|reason| reason.to_string())
    });
    let Some(whole) = sim::contribute(other.link.as_mut(), share)? else { return Ok(None) };
    let totals: Totals = postcard::from_bytes(&whole).map_err(|_| unreadable())?;
    own.map(|own| Some(own.knowing(totals)))
}

fn unreadable() -> Error {
    Error::Usage("what another process knows of its users cannot be read".to_owned())
}
