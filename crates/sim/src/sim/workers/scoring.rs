//! What it takes to score a user, wherever it lives.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use super::item_tables;
use crate::sim::download::{OutgoingDownload, Received};
use crate::sim::evaluation::{self, Scored};
use crate::sim::world::World;
use fedrecsim_core::error::Result;
use fedrecsim_core::ids::UserId;
use fedrecsim_methods::method::{Client, PersonalTable};
use fedrecsim_model::model::blocks::Model;
use fedrecsim_scenario::scenario::ItemTable;

/// The item tables of users with which others score.
pub(crate) type Donated = BTreeMap<UserId, Option<PersonalTable>>;

/// What the users who are scored have received.
pub(crate) enum Scoring {
    /// Nothing: the server scores with this model.
    AtServer(Model),
    /// All the same.
    Shared(Arc<OutgoingDownload>),
    /// Each what is for it alone.
    Personal(Vec<OutgoingDownload>),
}

/// The number of users whose own downloads a thread makes together, which may be less work than one
/// after another.
pub(crate) const MADE_TOGETHER: usize = 16;

/// Makes the downloads of the evaluated users at these `places`, of whom each has its own.
///
/// # Errors
/// As [`OutgoingDownload::of_each`].
pub(crate) fn own_downloads(
    download: &OutgoingDownload,
    places: Range<usize>,
    world: &World,
) -> Result<Vec<OutgoingDownload>> {
    let users = world.candidates.evaluated_users()[places].par_chunks(MADE_TOGETHER);
    let made: Vec<Vec<OutgoingDownload>> = users
        .map(|users| download.of_each(users))
        .collect::<Result<_>>()?;
    Ok(made.into_iter().flatten().collect())
}

/// Scores the evaluated user who stands `offset` places after the place `first`, with its `client`.
///
/// # Errors
/// As [`Workers::evaluate`](super::Workers::evaluate).
pub(crate) fn scored(
    world: &World,
    (first, offset): (usize, usize),
    client: &dyn Client,
    donated: &Donated,
    scoring: &Scoring,
) -> Result<Scored> {
    let place = first + offset;
    let user = world.candidates.evaluated_users()[place];
    let received: Cow<'_, Received> = match scoring {
        // A method that runs at the server scores there. Otherwise a device works with what it can
        // decode.
        Scoring::AtServer(model) => {
            let accuracy = evaluation::user_accuracy(world, place, client, model)?;
            return Ok(Scored {
                accuracy,
                download_bytes: 0,
            });
        }
        Scoring::Shared(download) => download.received(user)?,
        Scoring::Personal(downloads) => downloads[offset].received(user)?,
    };
    let changed = match world.scenario.evaluation.item_table {
        ItemTable::Own => None,
        ItemTable::Shared => Some(item_tables::with_shared_table(client, &received.model)?),
        ItemTable::AnotherUsers => {
            let table = donated
                .get(&item_tables::donor_of(user, world))
                .and_then(Option::as_ref);
            Some(item_tables::with_table_of_another(client, table)?)
        }
    };
    let client = changed.as_deref().unwrap_or(client);
    let accuracy = evaluation::user_accuracy(world, place, client, &received.model)?;
    let download_bytes = if world.trains {
        received.frame_bytes
    } else {
        0
    };
    Ok(Scored {
        accuracy,
        download_bytes,
    })
}
