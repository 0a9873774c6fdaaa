//! Reads the data of a run in several processes; each keeps the ratings of its own users.

use std::path::PathBuf;
use std::sync::Arc;

use crate::cli::inputs::Inputs;
use crate::method::Entry;
use crate::scenario::Scenario;
use crate::{Error, Result, Streams};
use fedrecsim_data::dataset::{self, Dataset, Totals, share};
use fedrecsim_methods::registry::find;
use fedrecsim_ranks::{Crew, Other, Shares, contribute, server_needs_ratings};

/// The reading side of a process.
pub(crate) enum Side<'a> {
    /// That of process 0.
    Zero(&'a mut Crew),
    /// That of another process.
    Other(&'a mut Other),
}

/// A process's report on its part of the data: a digest of the file, and the totals of its users.
type Share = ([u8; blake3::OUT_LEN], Totals);

/// Reads the ratings and traces of a scenario, as [`Inputs::load`] does, and keeps the ratings of
/// this process's users. Where it can, it draws or reads these ratings alone. Process 0 keeps those
/// of all users if the server needs them. Returns `None` if the run does not go on.
///
/// # Errors
/// Those of reading, and of talking to the other processes.
pub(crate) fn load(
    (scenario, directories, methods): (&Scenario, &[PathBuf], &[Entry]),
    side: Side<'_>,
) -> Result<Option<Inputs>> {
    let (rank, ranks) = match &side {
        Side::Zero(crew) => (0, crew.ranks()),
        Side::Other(other) => (other.rank, other.ranks as usize),
    };
    let (spec, streams) = (&scenario.dataset, Streams::new(scenario.seed));
    let keeps_all = rank == 0 && server_needs_ratings(scenario, methods)?;
    let own_of = |users| {
        if keeps_all {
            0..0
        } else {
            Shares::new(users, ranks).of(rank)
        }
    };
    let own = match share::users_drawn_by_owner(spec) {
        Some(users) => share::draw(spec, own_of(users as usize), streams)
            .map(|own| Some((own, [0; blake3::OUT_LEN]))),
        None => share::read_own(spec, directories, own_of, streams),
    };
    let draws = find(methods, &scenario.method)?.draws_negatives;
    let whole = || dataset::load_for((scenario, draws), directories);
    let dataset = match (own.transpose(), side) {
        (None, _) if keeps_all => Some(whole()?),
        (None, _) => {
            let whole = whole()?;
            let own = Shares::new(whole.users(), ranks).of(rank);
            Some(whole.of_users(own))
        }
        (Some(own), Side::Zero(crew)) => {
            let (own, digest) = own?;
            let whole = if keeps_all { Some(whole()?) } else { None };
            let totals = combined((digest, own.totals()), whole.as_ref(), crew)?;
            Some(whole.unwrap_or_else(|| own.knowing(totals)))
        }
        (Some(own), Side::Other(other)) => contributed(own, other)?,
    };
    dataset
        .map(|dataset| Inputs::of(scenario, Arc::new(dataset), directories, methods))
        .transpose()
}

/// Returns the totals of the users of all processes, and sends them to all. Where process 0 has the
/// ratings of all users, it knows that by itself.
fn combined((digest, own): Share, whole: Option<&Dataset>, crew: &mut Crew) -> Result<Totals> {
    let (totals, mut rank) = (std::cell::RefCell::new(own), 0);
    crew.combine(
        &mut |share| {
            rank += 1;
            let (theirs, share): Share = postcard::from_bytes(share).map_err(|_| unreadable())?;
            if theirs != digest {
                return Err(Error::Usage(format!(
                    "rank {rank} has read another ratings file than rank 0; all ranks of a run must have the same data"
                )));
            }
            totals.borrow_mut().add(&share);
            Ok(())
        },
        || {
            if let Some(whole) = whole {
                totals.replace(whole.totals());
            }
            postcard::to_stdvec(&*totals.borrow()).map_err(|_| unreadable())
        },
    )?;
    Ok(totals.into_inner())
}

/// Returns the data set of another process with the totals of all users; `None` if the run does not
/// go on.
fn contributed(
    own: Result<(Dataset, [u8; blake3::OUT_LEN])>,
    other: &mut Other,
) -> Result<Option<Dataset>> {
    let share = own
        .as_ref()
        .map_err(ToString::to_string)
        .and_then(|(own, digest)| {
            postcard::to_stdvec(&(digest, own.totals())).map_err(|reason| reason.to_string())
        });
    let Some(whole) = contribute(other.link.as_mut(), share)? else {
        return Ok(None);
    };
    let totals: Totals = postcard::from_bytes(&whole).map_err(|_| unreadable())?;
    own.map(|(own, _)| Some(own.knowing(totals)))
}

fn unreadable() -> Error {
    Error::Usage("the data of another process's users cannot be read".to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use fedrecsim_scenario::{DatasetName, DatasetSpec, GeneratorSpec};

    /// If this fails, ranks that draw or read their own users' ratings cannot begin. The format has no
    /// names of fields, so that one that is left out moves all behind it.
    #[test]
    fn totals_arrive_as_they_were_sent() {
        let spec = DatasetSpec {
            generator: Some(GeneratorSpec::default()),
            ..DatasetSpec::named(DatasetName::Generated)
        };
        let own = share::draw(&spec, 3..9, Streams::new(1)).unwrap();
        let sent = postcard::to_stdvec(&own.totals()).unwrap();
        let arrived: Totals = postcard::from_bytes(&sent).unwrap();
        assert_eq!(arrived, own.totals());
    }
}
