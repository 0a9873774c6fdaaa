//! Leaves checkpoints of a run in its folder, and keeps the last two.

use std::io;
use std::path::PathBuf;
use std::time::Instant;

use super::file::{Checksum, Header, Writing, checksums, name_of_part};
use super::folder::{END, PARTIAL, name_of, numbered, remove, rounds_of};
use super::scenario_file;
use crate::{CheckpointStore, Stop};
use fedrecsim_core::{Error, Result, shell_word};

/// The number of checkpoints that are kept: one to go on from, and one in case that the first
/// cannot be read.
const KEPT: usize = 2;

/// Leaves checkpoints in a folder.
///
/// A checkpoint that cannot be written, on a full disk say, is removed again, and those before it
/// stay.
pub struct Keeper {
    folder: PathBuf,
    header: Header,
    writing: Option<Writing>,
    /// Whether the checkpoint that is being written is that of the end.
    is_end: bool,
    /// Rounds of the newest checkpoint that is on the disk.
    left: Option<u32>,
    /// The number of rounds of the whole run.
    planned: u32,
    /// The instant after which the run is to end.
    deadline: Option<Instant>,
    /// Whether the folder says which run it is of.
    is_named: bool,
}

impl Keeper {
    /// Makes a keeper of checkpoints in `folder`, for the run of `planned` rounds that `header`
    /// names, every `header.every` rounds. If rounds are over already, there is a checkpoint after
    /// them.
    pub fn new(folder: impl Into<PathBuf>, header: Header, planned: u32) -> Self {
        let left = (header.rounds > 0).then_some(header.rounds);
        Self {
            folder: folder.into(),
            header,
            writing: None,
            is_end: false,
            left,
            planned,
            deadline: None,
            is_named: false,
        }
    }

    /// Has the run end with a checkpoint after the round when `deadline` passes, if there is one.
    pub fn until(mut self, deadline: Option<Instant>) -> Self {
        self.deadline = deadline;
        self
    }

    /// Goes on with the open checkpoint as if the disk had become full.
    #[cfg(test)]
    pub(super) fn fill_disk(&mut self) {
        let filled = self.writing.as_mut().map(Writing::fill_disk);
        assert!(filled.is_some_and(|filled| filled.is_ok()));
    }

    fn path(&self) -> PathBuf {
        match self.is_end {
            true => self.folder.join(END),
            false => self.folder.join(name_of(self.header.rounds)),
        }
    }

    /// Gives the open checkpoint up, because it or the part of another process could not be written
    /// at `path`.
    fn unwritten(&mut self, path: PathBuf, source: io::Error) -> Error {
        self.writing = None;
        let stop = Stop::CheckpointUnwritten {
            path,
            rounds: self.header.rounds,
            left: self.left,
            source,
        };
        stop.into()
    }

    /// Returns the result of a part of writing the open checkpoint.
    fn checked<T>(&mut self, step: io::Result<T>) -> Result<T> {
        step.map_err(|source| self.unwritten(self.path(), source))
    }

    /// Returns the checksums of the parts that the other processes have written.
    fn checksums_of_parts(&self) -> io::Result<Vec<Checksum>> {
        let Header { rounds, ranks, .. } = self.header;
        let of_part = |rank| {
            let part = self.folder.join(name_of_part(rounds, (rank, ranks)));
            checksums(&part, blake3::OUT_LEN as u64, 1).map_err(|reason| {
                io::Error::other(format!(
                    "the part that rank {rank} wrote cannot be read from here ({reason}); all ranks need a shared folder"
                ))
            })
        };
        let parts = (1..ranks).map(of_part).collect::<io::Result<Vec<_>>>()?;
        Ok(parts.concat())
    }

    /// Completes the checkpoint, and removes older ones.
    fn publish(&mut self, mut writing: Writing) -> io::Result<()> {
        writing.finish(&self.checksums_of_parts()?)?;
        if !self.is_named {
            // From now on a checkpoint of another run is told from one of this run.
            scenario_file::write(&self.folder, &self.header.scenario)?;
            self.is_named = true;
        }
        writing.publish(&self.path())?;
        if self.is_end {
            return Ok(());
        }
        let rounds = self.header.rounds;
        self.left = Some(rounds);
        // Newer checkpoints are damaged ones that were passed over: they do not count, and the run
        // will replace them.
        let mut older = numbered(&self.folder)?;
        older.retain(|(number, _)| *number < rounds);
        let kept = older.get(KEPT - 2).map_or(rounds, |(number, _)| *number);
        // An old checkpoint that stays takes room but does no other harm.
        let _ = remove(&self.folder, |name| {
            rounds_of(name).is_some_and(|number| number < kept)
        });
        Ok(())
    }
}

impl CheckpointStore for Keeper {
    fn is_due(&self, rounds: u32) -> bool {
        // The last round is evaluated even if a longer run would not evaluate it, so that rounds
        // are added to the state before it.
        let before_last = self.header.keep && rounds + 1 == self.planned;
        before_last
            || (rounds > 0 && self.header.every > 0 && rounds.is_multiple_of(self.header.every))
    }

    fn is_due_at_start(&self) -> bool {
        self.is_due(0)
    }

    fn stop_after(&self, rounds: u32) -> Option<Error> {
        self.deadline
            .filter(|deadline| Instant::now() >= *deadline)
            .map(|_| Stop::TimeIsUp { rounds }.into())
    }

    fn way_on(&self) -> Option<String> {
        let (rounds, folder) = (self.left?, shell_word(&self.folder.to_string_lossy()));
        Some(format!(
            "the last checkpoint is after round {rounds}: `fedrecsim resume {folder}`, on any number of ranks, goes on from \
             there"
        ))
    }

    fn part_unwritten(&mut self, error: Error) -> Error {
        match error {
            Error::Write { path, source } => self.unwritten(path, source),
            other => other,
        }
    }

    fn is_due_at_end(&self) -> bool {
        self.header.keep
    }

    fn begin_end(&mut self, rounds: u32) -> Result<()> {
        self.is_end = true;
        self.begin(rounds)
    }

    fn begin(&mut self, rounds: u32) -> Result<()> {
        self.header.rounds = rounds;
        // One that was begun before has the same name until it is complete.
        self.writing = None;
        let writing = Writing::create(&self.folder.join(PARTIAL), Some(&self.header));
        self.writing = Some(self.checked(writing)?);
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self
            .writing
            .as_mut()
            .map_or(Ok(()), |writing| writing.append(bytes));
        self.checked(written)
    }

    fn commit(&mut self) -> Result<()> {
        let Some(writing) = self.writing.take() else {
            return Ok(());
        };
        let published = self.publish(writing);
        self.checked(published)
    }
}
