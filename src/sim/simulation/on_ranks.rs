//! Simulations whose users are in several processes.

use std::sync::Arc;

use super::actors::Cast;
use super::{RunControl, Simulation};
use crate::error::Result;
use crate::model::archive::ArchiveReader;
use crate::sim::workers::ranks::Crew;
use crate::sim::world::World;

impl Simulation {
    /// Starts or resumes a simulation whose users are in the processes of `crew` and in this one.
    ///
    /// # Errors
    /// As [`Self::new`] and [`Self::restore`].
    pub(in crate::sim) fn on_ranks(
        world: impl Into<Arc<World>>,
        control: &RunControl,
        resumed: Option<ArchiveReader>,
        crew: Crew,
    ) -> Result<Self> {
        Self::start(world.into(), control, resumed, Cast::Ranks(crew))
    }

    /// Says what to do if the simulation was stopped by the loss of another process.
    pub(in crate::sim) fn say_way_on(&mut self, way_on: Option<String>) {
        self.stopped_by = self.stopped_by.take().map(|error| error.with_way_on(way_on));
    }
}
