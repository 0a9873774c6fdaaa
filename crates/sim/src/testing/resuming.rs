//! Compares runs that go on from checkpoints with runs that are never stopped.

use std::io::Cursor;
use std::sync::{Arc, Mutex, PoisonError};

use super::outcome::difference;
use crate::{self as sim, CheckpointStore, Checkpoints, Outcome, RunControl, World};
use fedrecsim_core::Result;
use fedrecsim_model::ArchiveReader;

/// Keeps a checkpoint of every round in memory.
#[derive(Clone, Debug, Default)]
pub struct CheckpointsInMemory {
    complete: Arc<Mutex<Vec<Vec<u8>>>>,
    open: Vec<u8>,
}

impl CheckpointsInMemory {
    /// Returns the checkpoints that were completed, in their order.
    pub fn complete(&self) -> Vec<Vec<u8>> {
        self.complete
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl CheckpointStore for CheckpointsInMemory {
    fn is_due(&self, _rounds: u32) -> bool {
        true
    }
    fn begin(&mut self, _rounds: u32) -> Result<()> {
        self.open.clear();
        Ok(())
    }
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.open.extend_from_slice(bytes);
        Ok(())
    }
    fn commit(&mut self) -> Result<()> {
        let open = std::mem::take(&mut self.open);
        self.complete
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(open);
        Ok(())
    }
}

/// Checks that a run ends alike from each of its checkpoints, on one thread and on three. It must
/// also leave the same checkpoints on its way: they show whether something was lost that only a
/// later round needs. `world` makes the world of the run, always the same.
///
/// # Errors
/// A sentence on the first run that differs, and in what.
pub fn check_resumed_runs(world: &dyn Fn() -> Result<World>) -> Result<(), String> {
    let whole = sim::run(make(world)?, &RunControl::with_threads(2), &mut ())
        .map_err(|error| error.to_string())?;
    if let Some(error) = &whole.stopped_by {
        return Err(format!("the run stopped: {error}"));
    }
    let (saving, saved) = run_from(world, None, 1)?;
    if let Some(place) = difference(&whole, &saving) {
        return Err(format!(
            "a run that leaves checkpoints differs from one that leaves none in {place}"
        ));
    }
    if saved.len() + 1 != whole.rounds.len() {
        return Err(format!(
            "{} rounds have left {} checkpoints",
            whole.rounds.len(),
            saved.len()
        ));
    }
    for (position, checkpoint) in saved.iter().enumerate() {
        let (rounds, all) = (position + 1, whole.rounds.len());
        let threads = if position % 2 == 0 { 3 } else { 1 };
        let (resumed, again) = run_from(world, Some(checkpoint), threads)?;
        if let Some(place) = difference(&whole, &resumed) {
            return Err(format!(
                "a run of {all} rounds that goes on from the checkpoint after round {rounds} differs from one that was \
                 never stopped in {place}"
            ));
        }
        if again != saved[rounds..] {
            return Err(format!(
                "a run of {all} rounds that goes on from the checkpoint after round {rounds} leaves other checkpoints \
                 than one that was never stopped"
            ));
        }
    }
    Ok(())
}

fn make(world: &dyn Fn() -> Result<World>) -> Result<World, String> {
    world().map_err(|error| error.to_string())
}

/// Runs from `checkpoint` on, if there is one, and returns the checkpoints that the run leaves.
fn run_from(
    world: &dyn Fn() -> Result<World>,
    checkpoint: Option<&[u8]>,
    threads: usize,
) -> Result<(Outcome, Vec<Vec<u8>>), String> {
    let store = CheckpointsInMemory::default();
    let resumed = checkpoint.map(|bytes| ArchiveReader::new(Box::new(Cursor::new(bytes.to_vec()))));
    let checkpoints = Checkpoints {
        resumed,
        store: Box::new(store.clone()),
    };
    let outcome = sim::run_from(
        make(world)?,
        &RunControl::with_threads(threads),
        &mut (),
        checkpoints,
    );
    Ok((
        outcome.map_err(|error| error.to_string())?,
        store.complete(),
    ))
}
