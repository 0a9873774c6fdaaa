//! Finds the newest sound checkpoint of a folder, and removes those that are not needed any more.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::file::{Opened, name_of_part, open, open_part, sync_names};
use super::parts;
use fedrecsim_core::{Error, Result};
use fedrecsim_model::ArchiveReader;
use fedrecsim_model::archive::damaged;

/// The name of the file that is being written, which no user's file has.
pub(super) const PARTIAL: &str = ".fedrecsim-checkpoint.partial";

/// The name of the checkpoint of the end of a run, which others can start from. Nothing goes on from it.
pub const END: &str = "checkpoint-end.bin";

/// Forces the names in `folder` to the disk, on systems that can do so.
///
/// # Errors
/// [`Error::Write`] if that fails.
pub fn sync_folder(folder: &Path) -> Result<()> {
    sync_names(folder).map_err(|reason| Error::write(folder, reason))
}

/// The checkpoint that a run can go on from.
#[derive(Debug)]
pub struct Found {
    /// The file of the newest sound one.
    pub path: PathBuf,
    /// The newest sound one.
    pub checkpoint: Opened,
    /// The fault of each newer checkpoint.
    pub passed_over: Vec<String>,
}

/// Finds the newest sound checkpoint in `folder`.
///
/// # Errors
/// [`Error::Unrestorable`] if there is none, saying what is wrong with each that is there;
/// [`Error::Read`] for a folder that cannot be read.
pub fn find(folder: &Path) -> Result<Found> {
    let mut passed_over = Vec::new();
    for (_, path) in named(folder).map_err(|reason| Error::read(folder, reason))? {
        if !path.is_file() {
            // To open a pipe would be to wait for its writer.
            passed_over.push(format!("{} is not a file", path.display()));
            continue;
        }
        match open(&path, true) {
            Ok(checkpoint) => {
                return Ok(Found {
                    path,
                    checkpoint,
                    passed_over,
                });
            }
            Err(Error::Unrestorable(reason)) => passed_over.push(reason),
            Err(error) => passed_over.push(error.to_string()),
        }
    }
    let folder = folder.display();
    if passed_over.is_empty() {
        return Err(Error::Unrestorable(format!(
            "there is no checkpoint in {folder}; `run --checkpoint-every N` leaves them, and removes them when the run \
             is complete unless it is given --keep-checkpoint"
        )));
    }
    Err(Error::Unrestorable(format!(
        "no checkpoint in {folder} can be used: {}",
        passed_over.join("; ")
    )))
}

/// Opens the checkpoint after this many rounds in `folder`; another process has found it and
/// checked its parts.
///
/// # Errors
/// As [`open`].
pub fn open_after(folder: &Path, rounds: u32) -> Result<Opened> {
    open(&folder.join(name_of(rounds)), false)
}

/// Returns whether there is a checkpoint in `folder`, sound or not.
pub fn is_in(folder: &Path) -> bool {
    numbered(folder).is_ok_and(|found| !found.is_empty())
}

/// Returns the newest checkpoint in `folder` that a run can go on from, sound or not.
pub(crate) fn newest_in(folder: &Path) -> Option<PathBuf> {
    let newest = numbered(folder).ok()?.into_iter().next();
    newest.map(|(_, path)| path)
}

/// Removes every checkpoint from `folder` but the newest sound one and that of the end, when a complete
/// run may get more rounds. If none is sound, all of them stay.
///
/// # Errors
/// [`Error::Write`] for a checkpoint that cannot be removed.
pub fn remove_others(folder: &Path) -> Result<()> {
    let Ok(Found { checkpoint, .. }) = find(folder) else {
        return Ok(());
    };
    let end = open(&folder.join(END), false).ok();
    let mut kept = vec![checkpoint.header.rounds];
    kept.extend(end.map(|end| end.header.rounds));
    remove(folder, |name| {
        rounds_of(name).is_some_and(|rounds| !kept.contains(&rounds))
    })
}

/// Removes every checkpoint from `folder`, and what a crash left of one, when a run is complete or
/// replaced.
///
/// # Errors
/// [`Error::Write`] for a checkpoint that cannot be removed.
pub fn remove_all(folder: &Path) -> Result<()> {
    remove(folder, |name| {
        name == PARTIAL || name == END || parts::is_partial(name) || rounds_of(name).is_some()
    })
}

/// Opens the part with this digest of the checkpoint after `rounds` rounds in the folder of its
/// process, whose number and that of all processes are `who`.
///
/// # Errors
/// [`Error::Read`] if it is not there, and [`Error::Unrestorable`] for one that is damaged or of
/// another run.
pub(crate) fn open_part_of(
    folder: &Path,
    rounds: u32,
    (who, digest): ((u32, u32), [u8; blake3::OUT_LEN]),
) -> Result<ArchiveReader> {
    let path = folder.join(name_of_part(rounds, who));
    let (found, archive) = open_part(&path)?;
    match *found.as_bytes() == digest {
        true => Ok(archive),
        false => Err(damaged(format!(
            "{} is not the one that was written with it",
            path.display()
        ))),
    }
}

/// Removes the parts of checkpoints from `folder` that come before the last `kept` ones up to
/// `rounds` rounds, and those of rounds after it, which a run that has gone back will make again.
///
/// # Errors
/// [`Error::Write`] for a part that cannot be removed.
pub(crate) fn remove_parts(folder: &Path, rounds: u32, kept: usize) -> Result<()> {
    let entries = fs::read_dir(folder).map_err(|reason| Error::write(folder, reason))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let up_to: BTreeSet<u32> = names
        .filter_map(|name| parts::rounds_of(&name))
        .filter(|of| *of <= rounds)
        .collect();
    let first = up_to.iter().rev().take(kept).next_back();
    let wanted = first.copied().unwrap_or(rounds)..=rounds;
    remove(folder, |name| {
        parts::rounds_of(name).is_some_and(|of| !wanted.contains(&of))
    })
}

/// Removes the files in `folder` for whose names `goes` is true.
///
/// # Errors
/// [`Error::Write`] for a file that cannot be removed.
pub(super) fn remove(folder: &Path, goes: impl Fn(&str) -> bool) -> Result<()> {
    let unremoved = |reason| Error::write(folder, reason);
    for entry in fs::read_dir(folder).map_err(unremoved)? {
        let entry = entry.map_err(unremoved)?;
        // A directory or a pipe of such a name is somebody else's.
        if entry.file_name().to_str().is_some_and(&goes) && entry.path().is_file() {
            fs::remove_file(entry.path()).map_err(|reason| Error::write(entry.path(), reason))?;
        }
    }
    Ok(())
}

/// Returns the rounds of the checkpoint that a file of this name is, or is a part of.
pub(super) fn rounds_of(name: &str) -> Option<u32> {
    let whole = |name: &str| {
        let number = name.strip_prefix("checkpoint-")?.strip_suffix(".bin")?;
        let rounds = number.parse().ok()?;
        (name == name_of(rounds)).then_some(rounds)
    };
    whole(name).or_else(|| parts::rounds_of(name))
}

pub(super) fn name_of(rounds: u32) -> String {
    format!("checkpoint-{rounds}.bin")
}

/// Returns the checkpoints of a folder with the rounds in their names, the newest first.
pub(super) fn numbered(folder: &Path) -> io::Result<Vec<(u32, PathBuf)>> {
    let mut found = named(folder)?;
    // A directory or a pipe of such a name is somebody else's.
    found.retain(|(_, path)| path.is_file());
    Ok(found)
}

/// Returns the files named like checkpoints, with the rounds in their names, the newest first.
fn named(folder: &Path) -> io::Result<Vec<(u32, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let rounds = name.to_str().and_then(rounds_of);
        if let Some(rounds) = rounds.filter(|rounds| name == name_of(*rounds).as_str()) {
            found.push((rounds, entry.path()));
        }
    }
    found.sort_unstable_by(|one, other| other.cmp(one));
    Ok(found)
}
