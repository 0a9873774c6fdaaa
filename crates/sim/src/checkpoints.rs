//! Checkpoints: what a run stores on its way, so that another process can go on from there.
//!
//! At the end of a round every actor appends its state to an [`Archive`]. The network collects the
//! pieces, since nothing else happens while it asks. In a run they go to its [`CheckpointStore`].
//!
//! Two things are not stored. What follows from the scenario alone, such as the conditions of a
//! participation, availability and future cohorts, is drawn again. Trainings that have not ended in
//! virtual time are worked out again, since a training is a pure function of what is stored.

use actix::prelude::*;

use fedrecsim_core::{Error, Result};
use fedrecsim_model::{Archive, ArchiveReader};

/// The least number of bytes of a checkpoint that are written to its store as a piece.
pub(crate) const WRITTEN_AT_ONCE: usize = 1 << 20;

/// Network -> server, third party and metrics: append your state to this archive, and give it back.
#[derive(Message)]
#[rtype(result = "Result<Archive>")]
pub(crate) struct Save(pub Archive);

/// Network -> server: begin an archive with what the method has learned, so that another run can start
/// from it. Devices follow, and then the rest of everybody.
#[derive(Message)]
#[rtype(result = "Result<Archive>")]
pub(crate) struct SaveLearned;

/// A place where checkpoints are kept. Like an observer it is only told things, so it cannot affect
/// a result. An error of a store ends the run at the end of the round: if the run went on, a crash
/// would cost more work than the interval of checkpoints allows.
pub trait CheckpointStore {
    /// Says whether there should be a checkpoint now that `rounds` rounds are over.
    fn is_due(&self, rounds: u32) -> bool;

    /// Says why the run is to end now that `rounds` rounds are over, after a checkpoint; `None`,
    /// which is the default, if it goes on. The error must leave a result
    /// ([`Error::leaves_a_result`]).
    fn stop_after(&self, _rounds: u32) -> Option<Error> {
        None
    }

    /// Says whether there should be a checkpoint before the first round, which the default denies.
    fn is_due_at_start(&self) -> bool {
        false
    }

    /// Says whether there should be a checkpoint of the end of the run, from which others can start. The
    /// default denies it.
    fn is_due_at_end(&self) -> bool {
        false
    }

    /// Begins the checkpoint of the end of the run, after `rounds` rounds.
    ///
    /// # Errors
    /// As [`Self::begin`].
    fn begin_end(&mut self, rounds: u32) -> Result<()> {
        self.begin(rounds)
    }

    /// Says in a sentence how to go on after a crash; `None`, which is the default, if there is no
    /// checkpoint.
    fn way_on(&self) -> Option<String> {
        None
    }

    /// Gives up the open checkpoint because another process could not write its part, and returns
    /// the error for that, which the default leaves as it is.
    fn part_unwritten(&mut self, error: Error) -> Error {
        error
    }

    /// Begins a checkpoint after `rounds` rounds.
    ///
    /// # Errors
    /// `Stop::CheckpointUnwritten` if the checkpoint
    /// cannot be written. Earlier checkpoints stay as they were.
    fn begin(&mut self, rounds: u32) -> Result<()>;

    /// Appends `bytes` to the checkpoint.
    ///
    /// # Errors
    /// As [`Self::begin`].
    fn write(&mut self, bytes: &[u8]) -> Result<()>;

    /// Completes the checkpoint. A checkpoint that was begun and never completed does not count.
    ///
    /// # Errors
    /// As [`Self::begin`].
    fn commit(&mut self) -> Result<()>;
}

/// The unit type stands for no store: a run that has it makes no checkpoints.
impl CheckpointStore for () {
    fn is_due(&self, _rounds: u32) -> bool {
        false
    }
    fn begin(&mut self, _rounds: u32) -> Result<()> {
        Ok(())
    }
    fn write(&mut self, _bytes: &[u8]) -> Result<()> {
        Ok(())
    }
    fn commit(&mut self) -> Result<()> {
        Ok(())
    }
}

/// The checkpoint that a run goes on from, and the place for its own checkpoints.
pub struct Checkpoints {
    /// The checkpoint of an earlier run of the same world. `None` makes the run start from the
    /// beginning.
    pub resumed: Option<ArchiveReader>,
    /// The place for the checkpoints of this run.
    pub store: Box<dyn CheckpointStore>,
}

impl Checkpoints {
    /// Makes a run that starts from the beginning and writes no checkpoints.
    pub fn none() -> Self {
        Self {
            resumed: None,
            store: Box::new(()),
        }
    }
}
