//! Keeps the last two checkpoints of a folder, and finds the newest sound one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::file::{Header, Opened, Writing, open};
use crate::error::{Error, Result};
use crate::sim::CheckpointStore;

/// The number of checkpoints that are kept: one to go on from, and one in case that the first cannot be read.
const KEPT: usize = 2;

/// The name of the file that is being written, which no user's file has.
pub(super) const PARTIAL: &str = ".fedrecsim-checkpoint.partial";

/// Leaves checkpoints in a folder.
///
/// A checkpoint that cannot be written, on a full disk say, is removed again, and those before it stay.
pub struct Keeper {
    folder: PathBuf,
    header: Header,
    writing: Option<Writing>,
    /// Rounds of the newest checkpoint that is on the disk.
    left: Option<u32>,
}

impl Keeper {
    /// Makes a keeper of checkpoints in `folder`, for the run that `header` names, every `header.every` rounds. If
    /// rounds are over already, there is a checkpoint after them.
    pub fn new(folder: impl Into<PathBuf>, header: Header) -> Self {
        let left = (header.rounds > 0).then_some(header.rounds);
        Self { folder: folder.into(), header, writing: None, left }
    }

    fn partial(&self) -> PathBuf {
        self.folder.join(PARTIAL)
    }

    fn path(&self) -> PathBuf {
        self.folder.join(name_of(self.header.rounds))
    }

    /// Returns the result of `step`, a part of writing the open checkpoint. If it failed, the checkpoint is given up.
    fn checked<T>(&mut self, step: io::Result<T>) -> Result<T> {
        step.map_err(|source| {
            self.give_up();
            Error::CheckpointUnwritten { path: self.path(), rounds: self.header.rounds, left: self.left, source }
        })
    }

    fn give_up(&mut self) {
        self.writing = None;
        // What is left of the file would only take the room that is missing.
        let _ = fs::remove_file(self.partial());
    }

    /// Renames the file to its final name, and removes older checkpoints.
    fn publish(&mut self) -> io::Result<()> {
        fs::rename(self.partial(), self.path())?;
        // The name, too, has to be on the disk before an older checkpoint is removed.
        sync_names(&self.folder)?;
        let rounds = self.header.rounds;
        self.left = Some(rounds);
        // Newer checkpoints are damaged ones that were passed over: they do not count, and the run will replace them.
        let older = numbered(&self.folder).into_iter().flatten().filter(|(number, _)| *number < rounds);
        for (_, path) in older.skip(KEPT - 1) {
            // An old checkpoint that stays takes room but does no other harm.
            let _ = fs::remove_file(path);
        }
        Ok(())
    }
}

impl CheckpointStore for Keeper {
    fn is_due(&self, rounds: u32) -> bool {
        rounds.is_multiple_of(self.header.every)
    }

    fn begin(&mut self, rounds: u32) -> Result<()> {
        self.header.rounds = rounds;
        let writing = Writing::create(&self.partial(), &self.header);
        self.writing = Some(self.checked(writing)?);
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.writing.as_mut().map_or(Ok(()), |writing| writing.append(bytes));
        self.checked(written)
    }

    fn commit(&mut self) -> Result<()> {
        let Some(writing) = self.writing.take() else { return Ok(()) };
        let published = writing.finish().and_then(|()| self.publish());
        self.checked(published)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // A checkpoint is still open if a part of the simulation stopped answering in the middle of it.
        if self.writing.is_some() {
            self.give_up();
        }
    }
}

/// Forces the names in `folder` to the disk, on systems that can do so.
///
/// # Errors
/// [`Error::Write`] if that fails.
pub fn sync_folder(folder: &Path) -> Result<()> {
    sync_names(folder).map_err(|reason| Error::write(folder, reason))
}

fn sync_names(folder: &Path) -> io::Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    match fs::File::open(folder)?.sync_all() {
        // Some file systems cannot do this, which is no error.
        Err(reason) if matches!(reason.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        synced => synced,
    }
}

/// The checkpoint that a run can go on from.
#[derive(Debug)]
pub struct Found {
    /// The newest sound one.
    pub checkpoint: Opened,
    /// What is wrong with each of the newer ones.
    pub passed_over: Vec<String>,
}

/// Finds the newest sound checkpoint in `folder`.
///
/// # Errors
/// [`Error::Checkpoint`] if there is none, saying what is wrong with each that is there; [`Error::Read`] for a folder
/// that cannot be read.
pub fn find(folder: &Path) -> Result<Found> {
    let mut passed_over = Vec::new();
    for (_, path) in numbered(folder).map_err(|reason| Error::read(folder, reason))? {
        match open(&path) {
            Ok(checkpoint) => return Ok(Found { checkpoint, passed_over }),
            Err(Error::Checkpoint(reason)) => passed_over.push(reason),
            Err(error) => passed_over.push(error.to_string()),
        }
    }
    let folder = folder.display();
    if passed_over.is_empty() {
        return Err(Error::Checkpoint(format!(
            "there is no checkpoint in {folder}; `run --checkpoint-every N` leaves them, and removes them when the run is complete"
        )));
    }
    Err(Error::Checkpoint(format!("no checkpoint in {folder} can be used: {}", passed_over.join("; "))))
}

/// Returns whether there is a checkpoint in `folder`, sound or not.
pub fn is_in(folder: &Path) -> bool {
    numbered(folder).is_ok_and(|found| !found.is_empty())
}

/// Removes every checkpoint from `folder`, and what a crash left of one, when a run is complete or replaced.
///
/// # Errors
/// [`Error::Write`] for a checkpoint that cannot be removed.
pub fn remove_all(folder: &Path) -> Result<()> {
    for (_, path) in numbered(folder).map_err(|reason| Error::write(folder, reason))? {
        fs::remove_file(&path).map_err(|reason| Error::write(path, reason))?;
    }
    let partial = folder.join(PARTIAL);
    match fs::remove_file(&partial) {
        Err(reason) if reason.kind() != io::ErrorKind::NotFound => Err(Error::write(partial, reason)),
        _ => Ok(()),
    }
}

fn name_of(rounds: u32) -> String {
    format!("checkpoint-{rounds}.bin")
}

/// Returns the checkpoints of a folder with the rounds in their names, the newest first.
fn numbered(folder: &Path) -> io::Result<Vec<(u32, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let rounds =
            name.to_str().and_then(|name| name.strip_prefix("checkpoint-")?.strip_suffix(".bin")?.parse().ok());
        if let Some(rounds) = rounds.filter(|rounds| name == name_of(*rounds).as_str()) {
            found.push((rounds, entry.path()));
        }
    }
    found.sort_unstable_by(|one, other| other.cmp(one));
    Ok(found)
}
