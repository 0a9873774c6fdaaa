//! Workers on several machines: each user lives in the process that owns it, and trains and is
//! scored there.
//!
//! The processes of a run are its ranks. Rank 0 has the server, the network and the metrics, the
//! calendar and the ledger, and the first users. Its workers ask the other ranks for theirs. Every
//! other rank has the users after those, and answers what rank 0 asks ([`serve`]). All ranks have
//! made the same world of the same scenario.
//!
//! Between two ranks travels what users are told and what they answer: a shared download once to
//! each rank, every upload once, and the ranks of held-out items. An upload is sent as soon as its
//! training is worked out, while others still train; only its end in virtual time is told later.
//! Rank 0 asks all ranks together and hears them in their order. So results come in the order of
//! users, as they do from [`Threads`](fedrecsim_sim::workers::Threads), which every rank has,
//! and digests are the same on any number of ranks.
//!
//! A [`Link`] is how two ranks talk. With the feature `mpi` there is one over MPI; [`in_memory`]
//! has one between threads, for tests.

use std::sync::Arc;

use fedrecsim_core::{Error, Result};
use fedrecsim_methods::registry::find;
use fedrecsim_methods::{Entry, Placement};
use fedrecsim_scenario::{ClientSelection, ItemTable, Scenario};
use fedrecsim_sim::{self as sim, Checkpoints, RoundObserver, RunControl, Simulation, World};

mod crew;
mod errors;
mod link;
#[cfg(feature = "mpi")]
mod mpi;
mod others;
mod rank_zero;
mod serve;
mod share;
mod wire;

#[cfg(feature = "mpi")]
pub use self::mpi::Group;
pub use self::{
    crew::{Crew, Identity, announce, contribute},
    link::{Link, Parcel, in_memory},
    serve::{Rank, serve},
    share::Shares,
};

/// What this process is among those of its run.
pub enum Place {
    /// It is the only one.
    Alone,
    /// It has the server, and these are the others.
    Zero(Crew),
    /// It has some of the users.
    Other(Other),
}

/// A process other than the first one.
pub struct Other {
    /// Its number.
    pub rank: u32,
    /// The number of all processes.
    pub ranks: u32,
    /// The way to process 0.
    pub link: Box<dyn Link>,
}

impl Place {
    /// Returns the number of all processes.
    pub fn ranks(&self) -> u32 {
        match self {
            Self::Alone => 1,
            Self::Zero(crew) => crew.ranks() as u32,
            Self::Other(other) => other.ranks,
        }
    }
}

/// Runs `world` as [`sim::run_to_end`] does, with the users of other ranks in their processes. The
/// outcome is that of a run in one process.
///
/// # Errors
/// As [`sim::run_to_end`] and [`check`].
pub fn run_to_end(
    world: impl Into<Arc<World>>,
    control: &RunControl,
    observer: &mut dyn RoundObserver,
    checkpoints: Checkpoints,
    crew: Crew,
) -> Result<Simulation> {
    let world = world.into();
    check(&world.scenario)?;
    let workers = rank_zero::workers(crew);
    sim::run_to_end(world, control, observer, checkpoints, Some(workers))
}

/// Checks that `scenario` can be carried out on several ranks.
///
/// # Errors
/// [`Error::Usage`] for what is done in one process alone.
pub fn check(scenario: &Scenario) -> Result<()> {
    if scenario.joins.is_some() {
        return Err(Error::Usage(
            "`[joins]` runs in one process only, as the ratings of newcomers are left out of what all ranks know \
             together, and items have all of theirs there; run it without mpirun"
                .to_owned(),
        ));
    }
    match scenario.evaluation.item_table {
        ItemTable::Own | ItemTable::Shared => Ok(()),
        ItemTable::AnotherUsers => Err(Error::Usage(
            "`evaluation.item_table = \"another-users\"` runs in one process only: on several \
             ranks, another rank's table would have to be sent for every user who is scored; run \
             it without mpirun"
                .to_owned(),
        )),
    }
}

/// Returns whether the server needs the ratings of all users, since the method runs there, or the
/// server picks users by how many they have, or an audit compares uploads with them. All ranks then
/// hold them.
///
/// # Errors
/// [`Error::Usage`] for a method that is not among `methods`.
pub fn server_needs_ratings(scenario: &Scenario, methods: &[Entry]) -> Result<bool> {
    let placement = find(methods, &scenario.method)?.placement;
    let by_size = scenario.training.client_selection == ClientSelection::ByDataSize;
    Ok(placement == Placement::Central || by_size || scenario.audit.is_some())
}
