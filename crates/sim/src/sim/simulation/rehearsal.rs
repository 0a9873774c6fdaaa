//! Starts rehearsals, which are simulations in which a few users stand for all.

use std::sync::Arc;
use std::time::Duration;

use super::actors::{Cast, Command};
use super::{RunControl, Simulation};
use crate::sim::workers::Rehearsed;
use crate::sim::world::World;
use fedrecsim_core::error::Result;

impl Simulation {
    /// Starts a rehearsal of `world`, in which a few users stand for all (see
    /// [`Rehearsal`](crate::sim::workers::Rehearsal)). It has no result.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(crate) fn rehearse(world: Arc<World>, control: &RunControl) -> Result<Self> {
        Self::start(world, control, None, Cast::Representatives)
    }

    /// Returns what a rehearsal has measured, and how many bytes a device keeps after
    /// `participations`, for which it trains the representatives for `time` at most.
    ///
    /// # Errors
    /// Those of the trainings, and [`Error::Usage`](fedrecsim_core::error::Error::Usage) if this is no
    /// rehearsal.
    pub(crate) fn rehearsed(
        &self,
        participations: u32,
        time: Duration,
    ) -> Result<(Rehearsed, u64)> {
        self.ask(|reply| Command::Rehearsed {
            participations,
            time,
            reply,
        })?
    }
}
