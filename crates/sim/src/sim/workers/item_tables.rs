//! Scoring with another item table than the user's own, to measure what personal tables are worth
//! (PFedRec, Figure 3).

use crate::sim::world::World;
use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::ids::UserId;
use fedrecsim_core::rng::PortableDraws;
use fedrecsim_methods::method::{Client, PersonalTable};
use fedrecsim_model::model::blocks::Model;
use fedrecsim_model::model::table::Table;

/// The number of users whose tables are held at a time, for others to score with.
pub(crate) const HELD_AT_ONCE: usize = 64;

/// Returns the user with whose table `user` scores: one of all others, drawn once per run. A user
/// who is alone has only its own.
pub(crate) fn donor_of(user: UserId, world: &World) -> UserId {
    let others = world.dataset.users() - 1;
    if others == 0 {
        return user;
    }
    let drawn = world
        .streams
        .named("evaluation/another-user", u64::from(user.0), 0)
        .below(others as u32);
    UserId(if drawn < user.0 { drawn } else { drawn + 1 })
}

/// Returns a copy of `client` that scores with the values of `donated`.
///
/// # Errors
/// [`Error::Usage`] if users keep no item table of their own.
pub(crate) fn with_table_of_another(
    client: &dyn Client,
    donated: Option<&PersonalTable>,
) -> Result<Box<dyn Client>> {
    let donated = donated.ok_or_else(without_table)?;
    let mut copy = client.snapshot();
    copy.replace_personal_table(donated.values.clone())?;
    Ok(copy)
}

/// Returns a copy of `client` that scores with the item table of `model` alone, which is its first
/// block.
///
/// # Errors
/// [`Error::Usage`] if users keep no item table of their own.
pub(crate) fn with_shared_table(client: &dyn Client, model: &Model) -> Result<Box<dyn Client>> {
    let own = client.personal_table()?.ok_or_else(without_table)?;
    let shared = if own.is_added {
        Table::zeros(own.values.shape())
    } else {
        Table::clone(model.table(0))
    };
    let mut copy = client.snapshot();
    copy.replace_personal_table(shared)?;
    Ok(copy)
}

fn without_table() -> Error {
    Error::Usage(
        "`evaluation.item_table`: the users of this method keep no item table of their own"
            .to_owned(),
    )
}
