//! A whole run: a [`Simulation`] that is stepped to its end, with an observer and a place for
//! checkpoints.

use std::sync::Arc;

use super::checkpoints::{CheckpointStore, Checkpoints};
use super::observer::RoundObserver;
use super::outcome::{Outcome, RoundRecord};
use super::simulation::{RunControl, Simulation};
use super::workers::{MakeWorkers, all_users_here};
use super::world::World;
use fedrecsim_core::Result;

/// Runs `world` to its last round, or until something stops it. The outcome has the rounds before
/// that.
///
/// # Errors
/// Errors before the first round, and defects of the simulator. Divergence and interruption are
/// part of the outcome.
pub fn run(
    world: impl Into<Arc<World>>,
    control: &RunControl,
    observer: &mut dyn RoundObserver,
) -> Result<Outcome> {
    run_from(world, control, observer, Checkpoints::none())
}

/// Runs `world` as [`run`] does, from a checkpoint on or with checkpoints on the way. The outcome
/// is that of a run that was never stopped.
///
/// # Errors
/// As [`run`], and `Error::Unrestorable` for a checkpoint of
/// another world.
pub fn run_from(
    world: impl Into<Arc<World>>,
    control: &RunControl,
    observer: &mut dyn RoundObserver,
    checkpoints: Checkpoints,
) -> Result<Outcome> {
    run_to_end(world, control, observer, checkpoints, None)?.finish_watched(observer)
}

/// Runs `world` as [`run_from`] does, and returns the finished simulation, which shows more than an
/// outcome does. The users are with `workers`; without any they are in this process.
///
/// # Errors
/// As [`run_from`].
pub fn run_to_end(
    world: impl Into<Arc<World>>,
    control: &RunControl,
    observer: &mut dyn RoundObserver,
    checkpoints: Checkpoints,
    workers: Option<MakeWorkers>,
) -> Result<Simulation> {
    let Checkpoints { resumed, mut store } = checkpoints;
    let is_new = resumed.is_none();
    let workers = workers.unwrap_or_else(all_users_here);
    let mut simulation = Simulation::with_workers(world, control, resumed, workers)?;
    if is_new {
        simulation.begin_keeping(store.as_mut())?;
    }
    while simulation.step_keeping(observer, store.as_mut())?.is_some() {}
    simulation.know_way_on(store.way_on());
    Ok(simulation)
}

impl Simulation {
    /// Leaves the checkpoint before the first round, if `store` is to have one.
    ///
    /// # Errors
    /// Defects of the simulator. A checkpoint that cannot be written stops the simulation.
    pub fn begin_keeping(&mut self, store: &mut dyn CheckpointStore) -> Result<()> {
        match store.is_due_at_start() {
            true => leave_checkpoint(self, store, false).or_else(|error| self.stop_for(error)),
            false => Ok(()),
        }
    }

    /// Goes on as [`Simulation::step_watched`] does, and leaves the checkpoints that are due then.
    ///
    /// # Errors
    /// As [`Simulation::step`]. A checkpoint that cannot be written stops the simulation.
    pub fn step_keeping(
        &mut self,
        observer: &mut dyn RoundObserver,
        store: &mut dyn CheckpointStore,
    ) -> Result<Option<RoundRecord>> {
        let record = self.step_watched(observer)?;
        if record.is_none() || self.stopped_by().is_some() {
            return Ok(record);
        }
        let left = if self.is_over() {
            // A run that went on from here would have nothing to do, but others can start from it.
            match store.is_due_at_end() {
                true => leave_checkpoint(self, store, true),
                false => Ok(()),
            }
        } else {
            let stop = store.stop_after(self.rounds());
            match stop.is_some() || store.is_due(self.rounds()) {
                true => leave_checkpoint(self, store, false).and(stop.map_or(Ok(()), Err)),
                false => Ok(()),
            }
        };
        left.or_else(|error| self.stop_for(error))?;
        Ok(record)
    }
}

fn leave_checkpoint(
    simulation: &mut Simulation,
    store: &mut dyn CheckpointStore,
    is_end: bool,
) -> Result<()> {
    match is_end {
        true => store.begin_end(simulation.rounds())?,
        false => store.begin(simulation.rounds())?,
    }
    // An error of the store itself has been reported already.
    simulation
        .save_in_pieces(&mut |piece| store.write(piece))
        .map_err(|error| store.part_unwritten(error))?;
    store.commit()
}
