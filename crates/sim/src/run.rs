//! A whole run: a [`Simulation`] that is stepped to its end, with an observer and a place for
//! checkpoints.

use std::sync::Arc;

use super::checkpoints::{CheckpointStore, Checkpoints};
use super::observer::RoundObserver;
use super::outcome::Outcome;
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
    if is_new && store.is_due_at_start() {
        leave_checkpoint(&mut simulation, store.as_mut())
            .or_else(|error| simulation.stop_for(error))?;
    }
    while simulation.step_watched(observer)?.is_some() {
        // After the last round, a run that resumed would have nothing to do.
        if simulation.is_over() {
            continue;
        }
        let stop = store.stop_after(simulation.rounds());
        if stop.is_some() || store.is_due(simulation.rounds()) {
            let left = leave_checkpoint(&mut simulation, store.as_mut());
            left.and(stop.map_or(Ok(()), Err))
                .or_else(|error| simulation.stop_for(error))?;
        }
    }
    simulation.know_way_on(store.way_on());
    Ok(simulation)
}

fn leave_checkpoint(simulation: &mut Simulation, store: &mut dyn CheckpointStore) -> Result<()> {
    store.begin(simulation.rounds())?;
    // An error of the store itself has been reported already.
    simulation
        .save_in_pieces(&mut |piece| store.write(piece))
        .map_err(|error| store.part_unwritten(error))?;
    store.commit()
}
