//! The state of the server in a checkpoint.

use std::sync::Arc;

use super::{Open, ServerActor};
use crate::download::{RestoredDownloads, Versions};
use crate::identity::Identity;
use crate::invitation::Invitation;
use crate::start::{describe, described};
use fedrecsim_core::{InvitationId, Result, SimTime, Step, UserId};
use fedrecsim_methods::Phase;
use fedrecsim_model::state::{restore_model, save_model};
use fedrecsim_model::{Archive, ArchiveReader, StateVisitor};

/// A participation in a checkpoint, where its download follows apart.
type SavedOpen = (UserId, Step, InvitationId, SimTime, Option<Vec<u32>>);

impl ServerActor {
    /// Reads what the server of a checkpoint has learned.
    ///
    /// # Errors
    /// As [`ArchiveReader::take`].
    pub(crate) fn restore_learned(&mut self, archive: &mut ArchiveReader) -> Result<()> {
        described(archive)?;
        archive.take::<Identity>()?.check(&self.world)?;
        self.restore_method(archive)
    }

    /// Goes on from what the server of another run has learned, behind its description.
    ///
    /// # Errors
    /// As [`ArchiveReader::take`].
    pub(crate) fn begin_from(&mut self, archive: &mut ArchiveReader) -> Result<()> {
        let _of_the_other: Identity = archive.take()?;
        self.restore_method(archive)?;
        self.server.begin_anew();
        self.forget_download();
        Ok(())
    }

    fn restore_method(&mut self, archive: &mut ArchiveReader) -> Result<()> {
        let model = restore_model(archive, self.server.model().layout())?;
        self.server.set_model(model)?;
        self.server.visit_state(&mut StateVisitor::Restore(archive))
    }

    /// Feeds what the server has learned to `digest`.
    ///
    /// # Errors
    /// As [`StateVisitor::values`].
    pub(crate) fn digest_learned(&mut self, digest: &mut blake3::Hasher) -> Result<()> {
        let mut feed = |bytes: &[u8]| {
            digest.update(bytes);
        };
        self.server.model().visit_bytes(&mut feed);
        let mut visitor = StateVisitor::Digest(&mut feed);
        self.server.visit_state(&mut visitor)
    }

    /// Reads the rest of the server of a checkpoint.
    ///
    /// # Errors
    /// As [`ArchiveReader::take`].
    pub(crate) fn restore(
        &mut self,
        archive: &mut ArchiveReader,
        downloads: &mut RestoredDownloads,
    ) -> Result<()> {
        let world = Arc::clone(&self.world);
        let (open, has_download): (Vec<SavedOpen>, bool);
        (
            self.invitations_sent,
            self.empty_steps,
            self.ended_without_update,
            self.wakes_at,
            has_download,
            open,
        ) = archive.take()?;
        self.cohorts.restore(archive)?;
        self.audit.restore(archive, &world)?;
        self.spending.restore(archive)?;
        (self.version, self.steps) = archive.take()?;
        let phases: Vec<u8> = archive.take()?;
        for phase in phases {
            let versions = Versions::restore(Phase(phase), archive, &world)?;
            self.versions.push(versions);
        }
        if has_download {
            self.download = Some(downloads.take(archive, &world)?);
        }
        for (user, step, id, began, asked) in open {
            let download = downloads.take(archive, &world)?;
            let open = Open {
                user,
                invitation: Invitation {
                    step,
                    id,
                    download,
                    sent: began,
                },
                began,
                asked: asked.map(Arc::from),
            };
            self.open.insert(user, open);
        }
        Ok(())
    }

    /// Appends what the server has learned to `archive`, behind what says whether it fits another run.
    pub(super) fn save_learned(&mut self, archive: &mut Archive) -> Result<()> {
        describe(&self.world.learned(), archive);
        archive.put(&Identity::of(&self.world));
        save_model(archive, self.server.model());
        self.server.visit_state(&mut StateVisitor::Save(archive))
    }

    /// Appends the rest of the server to `archive`. At the end of a step, the state of the step and the list of
    /// arrivals are empty.
    pub(super) fn save(&mut self, archive: &mut Archive) -> Result<()> {
        let saved = |(user, open): (UserId, &Open)| {
            let Invitation { step, id, .. } = open.invitation;
            let asked = open.asked.as_ref().map(|rows| rows.to_vec());
            (user, step, id, open.began, asked)
        };
        let open: Vec<_> = self.open.iter().map(saved).collect();
        // Downloads of single users can be made again from the state that is saved here.
        let kept = self.download.as_ref();
        let kept = kept.filter(|download| download.has_to_be_kept());
        archive.put(&(
            self.invitations_sent,
            self.empty_steps,
            self.ended_without_update,
            self.wakes_at,
            kept.is_some(),
            open,
        ));
        self.cohorts.save(archive);
        self.audit.save(archive);
        self.spending.save(archive);
        archive.put(&(self.version, self.steps));
        let phases = self.versions.iter().map(|versions| versions.phase().0);
        archive.put(&phases.collect::<Vec<_>>());
        self.versions
            .iter()
            .for_each(|versions| versions.save(archive));
        kept.map_or(Ok(()), |download| download.save(UserId(0), archive))?;
        self.open
            .iter()
            .try_for_each(|(user, open)| open.invitation.download.save(user, archive))
    }
}
