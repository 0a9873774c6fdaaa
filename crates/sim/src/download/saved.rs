//! Downloads in a checkpoint, and on their way to another process of the run that holds the users
//! who receive them.
//!
//! A checkpoint has the frame of every receiver and what the server meant by it. To another process
//! a download for all is sent once: its receivers train on what the frame says, and need no more of
//! the server than that. Of a version, they need the values alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::versions::Version;
use super::{Content, Download, WaysToVersion, rows};
use crate::world::World;
use fedrecsim_core::{Result, UserId};
use fedrecsim_methods::Class;
use fedrecsim_methods::task::Phase;
use fedrecsim_model::archive::damaged;
use fedrecsim_model::codec::{self, Frame};
use fedrecsim_model::state::{restore_model, save_model};
use fedrecsim_model::{Archive, ArchiveReader};

/// Where a download is read again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Checkpoint,
    OtherProcess,
}

impl Download {
    /// Appends the frame that travels to `user`, and what the server meant by it. A frame that many
    /// share is written once.
    ///
    /// # Errors
    /// As [`Self::frame`].
    pub(crate) fn save(&self, user: UserId, archive: &mut Archive) -> Result<()> {
        self.put(user, archive, Place::Checkpoint)
    }

    /// Appends the download for all its receivers or, if each has its own, that of `user`.
    ///
    /// # Errors
    /// As [`Self::frame`].
    pub fn send(&self, user: UserId, archive: &mut Archive) -> Result<()> {
        self.put(user, archive, Place::OtherProcess)
    }

    fn put(&self, user: UserId, archive: &mut Archive, place: Place) -> Result<()> {
        let kind: u8 = match &self.content {
            Content::Nothing(_) => 0,
            Content::Version(..) => 3,
            _ if self.is_shared() => 1,
            _ => 2,
        };
        archive.put(&(self.number, self.phase.0, kind));
        if kind == 0 {
            return Ok(());
        }
        if kind == 2 {
            let class = match &self.content {
                Content::PerUser(personal) => personal.class_of(user),
                _ => self.class,
            };
            archive.put(&class.0);
        }
        match place {
            Place::Checkpoint => {
                let frame = self.frame(user)?;
                archive.put(&frame.parts);
                archive.put_shared_bytes(&frame.bytes);
            }
            Place::OtherProcess if kind == 3 => {}
            Place::OtherProcess => {
                let frame = self.frame(user)?;
                archive.put(&frame.parts);
                archive.put_bytes(&frame.bytes);
            }
        }
        match &self.content {
            Content::Version(version, _) => version.save(archive),
            _ if self.codecs.is_lossless() => {}
            // A client's row request is answered on the worker that trains it, from the model that
            // the server sends.
            _ if place == Place::Checkpoint || self.has_to_be_asked() => {
                save_model(archive, &*self.intended(user)?);
            }
            _ => {}
        }
        Ok(())
    }

    /// Reads what [`Self::send`] has appended.
    ///
    /// # Errors
    /// `Error::Unrestorable` if the archive holds no download of
    /// this world.
    pub fn receive(archive: &mut ArchiveReader, world: &World) -> Result<Self> {
        Self::take(archive, world, Place::OtherProcess)
    }

    fn take(archive: &mut ArchiveReader, world: &World, place: Place) -> Result<Self> {
        let (number, phase, kind): (u32, u8, u8) = archive.take()?;
        if usize::from(phase) >= world.phases() {
            return Err(damaged(format!(
                "a download of phase {phase}, which the method does not have"
            )));
        }
        let (phase, codecs) = (Phase(phase), &world.downlink);
        let class = Class(if kind == 2 { archive.take()? } else { 0 });
        let layout = world.layouts_of_classes(phase).0.get(usize::from(class.0));
        let layout = layout.ok_or_else(|| damaged(format!("a download of class {}", class.0)))?;
        let take_frame = |archive: &mut ArchiveReader| {
            let parts = archive.take()?;
            let bytes = match place {
                Place::Checkpoint => archive.take_shared_bytes()?,
                Place::OtherProcess => archive.take_bytes()?,
            };
            Frame::of_saved(bytes, parts)
        };
        let content = match kind {
            0 => Content::nothing(),
            1 | 2 => {
                let frame = take_frame(archive)?;
                let has_intended = !codecs.is_lossless()
                    && (place == Place::Checkpoint || rows::are_asked_for(layout, codecs));
                let blocks = codec::blocks_in(&frame.bytes);
                let part = blocks.and_then(|blocks| layout.beginning(blocks));
                let intended = match has_intended {
                    true => Some(restore_model(archive, part.as_ref().unwrap_or(layout))?),
                    false => None,
                };
                Content::held(frame, intended, kind == 1)
            }
            3 => {
                let frame = match place {
                    Place::Checkpoint => take_frame(archive)?,
                    Place::OtherProcess => Frame::none(),
                };
                let version = Arc::new(Version::restore(archive, layout)?);
                Content::Version(version, WaysToVersion::Frame(frame))
            }
            4.. => return Err(damaged(format!("a download of kind {kind}"))),
        };
        Ok(Self::new(number, phase, content, world).for_class(class, world))
    }
}

/// The downloads of a checkpoint that is being read. Users who shared a download share it again.
#[derive(Debug, Default)]
pub(crate) struct RestoredDownloads {
    shared: BTreeMap<u32, Arc<Download>>,
    versions: BTreeMap<u32, Arc<Version>>,
}

impl RestoredDownloads {
    /// Reads what [`Download::save`] appended for one user.
    ///
    /// # Errors
    /// `Error::Unrestorable` if the archive holds no download of
    /// this world, or two that differ and have one number.
    pub(crate) fn take(
        &mut self,
        archive: &mut ArchiveReader,
        world: &World,
    ) -> Result<Arc<Download>> {
        let mut restored = Download::take(archive, world, Place::Checkpoint)?;
        if let Content::Version(version, _) = &mut restored.content {
            let known = self.versions.entry(version.number());
            *version = Arc::clone(known.or_insert_with(|| Arc::clone(version)));
        }
        let restored = Arc::new(restored);
        // A user's own download is kept as a frame from here on, and shared with no other user.
        if restored.is_personal() || matches!(restored.content, Content::Version(..)) {
            return Ok(restored);
        }
        let known = self.shared.entry(restored.number);
        let known = known.or_insert_with(|| Arc::clone(&restored));
        match (&known.content, &restored.content) {
            (Content::Held { frame: one, .. }, Content::Held { frame: other, .. })
                if one == other => {}
            (Content::Nothing(_), Content::Nothing(_)) => {}
            _ => return Err(damaged("two downloads of one step")),
        }
        Ok(Arc::clone(known))
    }
}
