//! The devices of a process in checkpoints: the process writes them into a part of its own, which
//! stays with it, and the server's checkpoint has the digest of that.
//!
//! Whatever the devices have learned since, they go back to a part when the server goes on from its
//! checkpoint. So nothing counts twice, and nothing is missing.

use std::path::Path;

use super::Devices;
use crate::checkpoint::{PartKeeper, open_part_of, remove_parts};
use crate::workers::{SavedPart, take_devices};
use fedrecsim_core::{Error, Result};
use fedrecsim_model::ArchiveReader;

/// The number of parts that are kept: as many as the server keeps checkpoints, and one more, since
/// the server may be killed after a part is written and before its checkpoint is.
const KEPT: usize = 3;

impl Devices {
    /// Has its users go on as they were after the rounds of a checkpoint with these parts, or as if
    /// they had never taken part. From now on they are in this run of a server.
    ///
    /// # Errors
    /// [`Error::Unrestorable`] if the parts are not in this process's folder.
    pub(super) fn begin(&self, run: u64, from: Option<(u32, Vec<SavedPart>)>) -> Result<()> {
        self.run.set(0);
        self.open.borrow_mut().clear();
        self.shared.borrow_mut().clear();
        self.held.take();
        self.threads.begin_anew();
        if let Some((rounds, parts)) = from {
            let of_own = |part: &&SavedPart| {
                let (first, end) = part.users;
                first < self.own.end && self.own.start < end
            };
            for part in parts.iter().filter(of_own) {
                self.restore(rounds, part)?;
            }
        }
        self.run.set(run);
        Ok(())
    }

    fn restore(&self, rounds: u32, part: &SavedPart) -> Result<()> {
        let folder = self.folder()?;
        let mut archive = open_part_of(folder, rounds, ((part.rank, part.ranks), part.digest)).map_err(|reason| {
            Error::Unrestorable(format!(
                "the users {}..{} as they were after round {rounds} are not in {}: {reason}; name the folder that their \
                 process had in that run with --keep",
                part.users.0,
                part.users.1.saturating_sub(1),
                folder.display()
            ))
        })?;
        self.read(&mut archive)
    }

    /// Takes over those of its users who are in a part.
    fn read(&self, archive: &mut ArchiveReader) -> Result<()> {
        take_devices(archive, &self.world, &mut |user, device| {
            if self.own.contains(&user.0) {
                self.threads.adopt(user, device);
            }
            Ok(())
        })?;
        let mut held = self.held.borrow_mut();
        held.restore(archive, &self.own, &self.world)
    }

    /// Writes a part of the checkpoint after `rounds` rounds, and removes parts that no server goes
    /// on from any more. `who` is the number of this process, and that of all.
    ///
    /// # Errors
    /// [`Error::Write`] for a part that cannot be written. Earlier ones stay.
    pub(super) fn save(&self, rounds: u32, who: (u32, u32)) -> Result<SavedPart> {
        let folder = self.folder()?;
        let mut keeper = PartKeeper::new(folder, who);
        let held = self.held.borrow();
        let digest = self
            .threads
            .save_part(rounds, &mut keeper, &mut |archive| held.save(archive))?;
        remove_parts(folder, rounds, KEPT)?;
        Ok(SavedPart {
            rank: who.0,
            ranks: who.1,
            users: (self.own.start, self.own.end),
            digest,
        })
    }

    fn folder(&self) -> Result<&Path> {
        let absent = || {
            Error::Usage(
                "the server leaves checkpoints, and this process has no folder for its devices; name one with --keep"
                    .to_owned(),
            )
        };
        self.folder.as_deref().ok_or_else(absent)
    }
}
