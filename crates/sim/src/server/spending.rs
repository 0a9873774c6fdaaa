//! Counts what users have given away of their privacy.

use crate::privacy::{PrivacyRecord, Spent};
use crate::world::World;
use fedrecsim_core::{Result, Step, UserId};
use fedrecsim_model::{Archive, ArchiveReader};

/// Counts the invitations of every user, where the run claims something of their privacy.
#[derive(Debug, Default)]
pub(super) struct Spending {
    /// The number of invitations by user; empty where nothing is claimed, or before the first one.
    invitations: Vec<u32>,
}

impl Spending {
    /// Notes that `users` are invited.
    pub(crate) fn invited(&mut self, users: &[UserId], world: &World) {
        if world.claim.is_some() {
            self.invitations.resize(world.dataset.users(), 0);
            users
                .iter()
                .for_each(|user| self.invitations[user.index()] += 1);
        }
    }

    /// Returns what is claimed after `step`.
    pub(crate) fn record(&self, step: Step, world: &World) -> Option<PrivacyRecord> {
        let most_invitations = self.invitations.iter().copied().max().unwrap_or(0);
        world.claim.as_ref().map(|claim| {
            claim.after(Spent {
                steps: step.0 + 1,
                most_invitations,
            })
        })
    }

    /// Appends the counts to `archive`.
    pub(crate) fn save(&self, archive: &mut Archive) {
        archive.put(&self.invitations);
    }

    /// Reads the counts of a run over `world`.
    ///
    /// # Errors
    /// As [`ArchiveReader::take`].
    pub(crate) fn restore(&mut self, archive: &mut ArchiveReader) -> Result<()> {
        self.invitations = archive.take()?;
        Ok(())
    }
}
