//! The inputs for scoring a user, on any rank.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use crate::download::{Download, MADE_TOGETHER, Received};
use crate::evaluation::{self, Scored};
use crate::world::World;
use fedrecsim_core::{Error, PortableDraws, Result, SimTime, UserId};
use fedrecsim_methods::{Client, PersonalTable, Products};
use fedrecsim_model::{Model, Table};
use fedrecsim_scenario::ItemTable;

/// The item tables of users that others score with.
pub(crate) type Donated = BTreeMap<UserId, Option<PersonalTable>>;

/// The models that the scored users have received.
pub enum Scoring {
    /// Nothing: the server scores with this model.
    AtServer(Model),
    /// All the same.
    Shared(Arc<Download>),
    /// Each what is for it alone.
    Personal(Vec<Download>),
}

/// Makes the own downloads of the evaluated users at these `places`.
///
/// # Errors
/// As [`Download::of_each`].
pub fn own_downloads(
    download: &Download,
    places: Range<usize>,
    world: &World,
) -> Result<Vec<Download>> {
    let users = world.candidates.evaluated_users()[places].par_chunks(MADE_TOGETHER);
    let made: Vec<Vec<Download>> = users
        .map(|users| download.of_each(users))
        .collect::<Result<_>>()?;
    Ok(made.into_iter().flatten().collect())
}

/// Scores the evaluated user who stands `offset` places after the place `first`, with its `client`,
/// as [`evaluation::without_catalogue`] does, with what its device knows at `now`. It has its list, if
/// `lists` are wanted.
///
/// # Errors
/// As [`Workers::evaluate`](super::Workers::evaluate).
pub(crate) fn scored(
    world: &World,
    (first, offset): (usize, usize),
    client: &dyn Client,
    donated: &Donated,
    (scoring, (lists, now)): (&Scoring, (bool, SimTime)),
) -> Result<(Scored, Option<Products>)> {
    let (place, known) = (first + offset, world.known_at(now));
    let user = world.candidates.evaluated_users()[place];
    let received: Cow<'_, Received> = match scoring {
        // A method that runs at the server scores there. Otherwise a device works with what it can
        // decode.
        Scoring::AtServer(model) => {
            let (accuracy, waiting) =
                evaluation::without_catalogue(known, world, place, (client, model), lists)?;
            let download_bytes = 0;
            return Ok((
                Scored {
                    accuracy,
                    download_bytes,
                },
                waiting,
            ));
        }
        Scoring::Shared(download) => download.received(user)?,
        Scoring::Personal(downloads) => downloads[offset].received(user)?,
    };
    let changed = match world.scenario.evaluation.item_table {
        ItemTable::Own => None,
        ItemTable::Shared => Some(with_shared_table(client, &received.model)?),
        ItemTable::AnotherUsers => {
            let donated = donated.get(&donor_of(user, world));
            let donated = donated.and_then(Option::as_ref).ok_or_else(without_table)?;
            Some(with_table(client, donated.values.clone())?)
        }
    };
    let client = changed.as_deref().unwrap_or(client);
    let model = &received.model;
    let (accuracy, waiting) = match scoring {
        // Nobody else has this model, which would be held for nothing.
        Scoring::Personal(_) => (
            evaluation::user_accuracy_with(known, world, place, (client, model), lists)?,
            None,
        ),
        _ => evaluation::without_catalogue(known, world, place, (client, model), lists)?,
    };
    let download_bytes = match world.trains {
        true => received.frame_bytes,
        false => 0,
    };
    Ok((
        Scored {
            accuracy,
            download_bytes,
        },
        waiting,
    ))
}

/// Returns the user with whose table `user` scores: one of all others with history, drawn once per
/// run. A user who is alone has only its own. This measures what personal tables are worth (PFedRec, Figure 3).
pub(crate) fn donor_of(user: UserId, world: &World) -> UserId {
    let with_history = world.dataset.users_with_history();
    let others = with_history - usize::from(user.index() < with_history);
    if others == 0 {
        return user;
    }
    let drawn = world
        .streams
        .named("evaluation/another-user", u64::from(user.0), 0)
        .below(others as u32);
    UserId(if drawn < user.0 { drawn } else { drawn + 1 })
}

/// Returns a copy of `client` that scores with the item table of `model` alone. Where the server has
/// sent none to it, it has no other one than its own.
fn with_shared_table(client: &dyn Client, model: &Model) -> Result<Box<dyn Client>> {
    let own = client.personal_table()?.ok_or_else(without_table)?;
    let shared = match own.is_added {
        true => Table::zeros(own.values.shape()),
        false => model
            .named(&own.name)
            .map_or(own.values, |table| Table::clone(table)),
    };
    with_table(client, shared)
}

/// Returns a copy of `client` that scores with `table` in place of its own.
fn with_table(client: &dyn Client, table: Table) -> Result<Box<dyn Client>> {
    let mut copy = client.snapshot();
    copy.replace_personal_table(table)?;
    Ok(copy)
}

fn without_table() -> Error {
    let message =
        "`evaluation.item_table`: the users of this method keep no item table of their own";
    Error::Usage(message.to_owned())
}
