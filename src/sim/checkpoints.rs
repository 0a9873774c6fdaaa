//! Checkpoints: what a run leaves while it is under way, so that another process can go on from there.
//!
//! At the end of a round every actor appends what it holds to an [`Archive`]; the pieces go to whoever saves the
//! simulation, for a run to its [`CheckpointStore`]. The network collects them, since nothing else happens while it
//! asks. What follows from the scenario alone (conditions of a participation, availability, cohorts to come) is not stored, and neither are results
//! of trainings that have not ended in virtual time: a training is a pure function of what is stored.

use actix::prelude::*;

use crate::error::Result;
use crate::model::archive::{Archive, ArchiveReader};

/// Network -> server and metrics: append your state to this, and give it back.
#[derive(Message)]
#[rtype(result = "Result<Archive>")]
pub struct Save(pub Archive);

/// Where checkpoints go. Like an observer it is told, and cannot reach a result. What goes wrong with it ends the run
/// at the end of the round: whoever asked for checkpoints would lose more than they allowed for if it went on.
pub trait CheckpointStore {
    /// Whether there should be a checkpoint now that so many rounds are over.
    fn is_due(&self, rounds: u32) -> bool;

    /// A checkpoint after so many rounds begins.
    ///
    /// # Errors
    /// [`Error::CheckpointUnwritten`](crate::error::Error::CheckpointUnwritten), from here on to [`Self::commit`]; those
    /// before it are as they were.
    fn begin(&mut self, rounds: u32) -> Result<()>;

    /// Its next bytes.
    ///
    /// # Errors
    /// As [`Self::begin`].
    fn write(&mut self, bytes: &[u8]) -> Result<()>;

    /// It is complete. One that was begun and never completed is none.
    ///
    /// # Errors
    /// As [`Self::begin`].
    fn commit(&mut self) -> Result<()>;
}

/// Nobody keeps anything.
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

/// What a run goes on from, and where it leaves what another can go on from.
pub struct Checkpoints {
    /// The checkpoint of an earlier run of the same world; `None` to begin at the beginning.
    pub resumed: Option<ArchiveReader>,
    /// Where this run's own go.
    pub store: Box<dyn CheckpointStore>,
}

impl Checkpoints {
    /// A run from its beginning that leaves none.
    pub fn none() -> Self {
        Self { resumed: None, store: Box::new(()) }
    }
}
