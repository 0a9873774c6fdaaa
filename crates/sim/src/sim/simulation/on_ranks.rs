//! Simulations whose users are in several processes.

use std::sync::Arc;

use super::actors::Cast;
use super::{RunControl, Simulation};
use crate::sim::workers::ranks::Crew;
use crate::sim::world::World;
use fedrecsim_core::error::{Error, Result};
use fedrecsim_methods::method::registry::find;
use fedrecsim_methods::method::{Entry, Placement};
use fedrecsim_model::model::archive::ArchiveReader;
use fedrecsim_scenario::scenario::{ClientSelection, ItemTable, Scenario};

/// Checks that `scenario` can be carried out on several ranks.
///
/// # Errors
/// [`Error::Usage`] for what is done in one process alone.
pub fn check_on_ranks(scenario: &Scenario) -> Result<()> {
    match scenario.evaluation.item_table {
        ItemTable::Own | ItemTable::Shared => Ok(()),
        ItemTable::AnotherUsers => Err(Error::Usage(
            "`evaluation.item_table = \"another-users\"` is carried out by one process: on several ranks, the table of a user \
             of another rank would have to cross for every user who is scored; run it without mpirun"
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

impl Simulation {
    /// Starts or resumes a simulation whose users are in the processes of `crew` and in this one.
    ///
    /// # Errors
    /// As [`Self::new`], [`Self::restore`] and [`check_on_ranks`].
    pub(crate) fn on_ranks(
        world: impl Into<Arc<World>>,
        control: &RunControl,
        resumed: Option<ArchiveReader>,
        crew: Crew,
    ) -> Result<Self> {
        let world = world.into();
        check_on_ranks(&world.scenario)?;
        Self::start(world, control, resumed, Cast::Ranks(crew))
    }

    /// Takes in what to do if the simulation is stopped by the loss of another process, or has
    /// been.
    pub(crate) fn know_way_on(&mut self, way_on: Option<String>) {
        self.way_on = way_on;
        self.stopped_by = self.stopped_by.take().map(|error| self.with_way_on(error));
    }

    /// Returns an error with what to do if it is the loss of another process.
    pub(super) fn with_way_on(&self, error: Error) -> Error {
        error.with_way_on(self.way_on.clone())
    }
}
