//! The parts of a checkpoint that the other processes of a run write, each with the devices of its
//! users.
//!
//! A part has the name of its checkpoint with the number of its writer. The checkpoint itself,
//! which process 0 writes and renames last, has the digest of each part, and counts only with all
//! of them.

use std::io;
use std::path::PathBuf;

use super::file::{Writing, name_of_part};
use crate::CheckpointStore;
use fedrecsim_core::{Error, Result};

/// Leaves the parts of one process in a folder that all processes share.
pub struct PartKeeper {
    folder: PathBuf,
    rank: u32,
    ranks: u32,
    rounds: u32,
    writing: Option<Writing>,
}

impl PartKeeper {
    /// Makes a keeper of the parts of process `rank` of `ranks`, from number 1.
    pub fn new(folder: impl Into<PathBuf>, (rank, ranks): (u32, u32)) -> Self {
        Self {
            folder: folder.into(),
            rank,
            ranks,
            rounds: 0,
            writing: None,
        }
    }

    fn path(&self) -> PathBuf {
        self.folder
            .join(name_of_part(self.rounds, (self.rank, self.ranks)))
    }

    fn checked<T>(&mut self, step: io::Result<T>) -> Result<T> {
        step.map_err(|source| {
            self.writing = None;
            Error::write(self.path(), source)
        })
    }
}

/// The beginning and the end of the name of a part that is being written.
const PARTIAL_START: &str = ".fedrecsim-checkpoint.part-";
const PARTIAL_END: &str = ".partial";

impl CheckpointStore for PartKeeper {
    fn is_due(&self, _rounds: u32) -> bool {
        false
    }

    fn begin(&mut self, rounds: u32) -> Result<()> {
        self.rounds = rounds;
        let partial = format!("{PARTIAL_START}{}{PARTIAL_END}", self.rank);
        let writing = Writing::create(&self.folder.join(partial), None);
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
        let Some(mut writing) = self.writing.take() else {
            return Ok(());
        };
        let published = writing
            .finish(&[])
            .and_then(|()| writing.publish(&self.path()));
        self.checked(published)
    }
}

/// Returns whether this is the name of a part that was being written.
pub(super) fn is_partial(name: &str) -> bool {
    name.starts_with(PARTIAL_START) && name.ends_with(PARTIAL_END)
}

/// Returns the rounds of the checkpoint that a file of this name is a part of; `None` if it is no
/// such file.
pub(super) fn rounds_of(name: &str) -> Option<u32> {
    let (rounds, part) = name
        .strip_prefix("checkpoint-")?
        .strip_suffix(".bin")?
        .split_once(".part-")?;
    let (rank, ranks) = part.split_once("-of-")?;
    let (rounds, rank, ranks) = (
        rounds.parse().ok()?,
        rank.parse().ok()?,
        ranks.parse().ok()?,
    );
    (name_of_part(rounds, (rank, ranks)) == name).then_some(rounds)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;
    use std::path::Path;

    use super::super::file::open_part;
    use super::super::folder::remove;
    use super::*;

    fn write(folder: &Path, who: (u32, u32), rounds: u32, bytes: &[u8]) {
        let mut keeper = PartKeeper::new(folder, who);
        keeper.begin(rounds).unwrap();
        bytes
            .chunks(3)
            .for_each(|piece| keeper.write(piece).unwrap());
        keeper.commit().unwrap();
    }

    /// If this fails, a run goes on with a damaged part, or parts of old checkpoints fill the disk.
    #[test]
    fn parts_are_whole_and_go_with_their_checkpoints() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        for rounds in [5, 10, 15] {
            write(path, (1, 3), rounds, b"devices of rank one");
            write(path, (2, 3), rounds, b"of rank two");
        }
        let open = |who| open_part(&path.join(name_of_part(10, who)));
        assert_eq!(
            open((1, 3)).unwrap().0,
            blake3::hash(b"devices of rank one")
        );
        assert!(open((3, 3)).is_err());
        let damaged = path.join("checkpoint-10.part-2-of-3.bin");
        let mut bytes = fs::read(&damaged).unwrap();
        bytes[15] ^= 1;
        fs::write(&damaged, bytes).unwrap();
        assert!(matches!(open((2, 3)), Err(Error::Unrestorable(_))));
        fs::write(path.join("checkpoint-5.part-01-of-3.bin"), "mine").unwrap();
        fs::write(path.join(".fedrecsim-checkpoint.part-2.partial"), "half").unwrap();
        let goes = |name: &str| is_partial(name) || rounds_of(name).is_some_and(|of| of < 15);
        remove(path, goes).unwrap();
        let mut names: Vec<String> = fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let left = [
            "checkpoint-15.part-1-of-3.bin",
            "checkpoint-15.part-2-of-3.bin",
            "checkpoint-5.part-01-of-3.bin",
        ];
        assert_eq!(names, left);
    }
}
