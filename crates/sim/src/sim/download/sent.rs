//! Downloads on their way to another process of the run, which holds the users who receive them.
//!
//! A download for all is sent once to each process, as the server meant it: its receivers train on
//! what the frame says, and need no more of the server than that. Of a version, they need the
//! values alone. A download of a single user is sent as it is saved.

use std::sync::{Arc, OnceLock};

use super::versions::Version;
use super::{Content, OutgoingDownload, Received, WaysToVersion, head_of};
use crate::sim::world::World;
use fedrecsim_core::error::Result;
use fedrecsim_core::ids::UserId;
use fedrecsim_model::codec::{Frame, FrameParts};
use fedrecsim_model::model::archive::{Archive, ArchiveReader, damaged};
use fedrecsim_model::model::state::{restore_model, save_model};

impl OutgoingDownload {
    /// Returns whether each receiver has a download of its own.
    pub(crate) fn is_personal(&self) -> bool {
        matches!(
            self.content,
            Content::PerUser(_)
                | Content::Held {
                    is_shared: false,
                    ..
                }
        )
    }

    /// Appends the download for all its receivers or, if each has its own, that of `user`.
    ///
    /// # Errors
    /// As [`Self::frame`].
    pub(crate) fn send(&self, user: UserId, archive: &mut Archive) -> Result<()> {
        self.put_head(archive);
        match &self.content {
            Content::Nothing(_) => {}
            Content::Version(version, _) => version.save(archive),
            Content::Held { .. } | Content::PerUser(_) => {
                let frame = self.frame(user)?;
                archive.put(&frame.parts);
                archive.put_long_bytes(&frame.bytes);
                // Whoever asks for rows is answered where it trains, with what the server means to
                // send.
                if self.is_answered_elsewhere() {
                    save_model(archive, &*self.intended(user)?);
                }
            }
        }
        Ok(())
    }

    /// Returns whether the process of the receivers needs the values that the server means to send.
    fn is_answered_elsewhere(&self) -> bool {
        self.has_to_be_asked() && !self.codecs.is_lossless()
    }

    /// Reads what [`Self::send`] has appended.
    ///
    /// # Errors
    /// [`Error::Checkpoint`](fedrecsim_core::error::Error::Checkpoint) if the archive holds no download of
    /// this world.
    pub(crate) fn receive(archive: &mut ArchiveReader, world: &World) -> Result<Self> {
        let (number, phase, kind) = head_of(archive, world)?;
        let layout = world.download_layout(phase).clone();
        let content = match kind {
            0 => Content::Nothing(Received::nothing()),
            1 | 2 => {
                let parts: FrameParts = archive.take()?;
                let frame = Frame::of_saved(archive.take_long_bytes()?, parts)?;
                Content::Held {
                    frame,
                    intended: None,
                    received: OnceLock::new(),
                    is_shared: kind == 1,
                }
            }
            3 => {
                let version = Arc::new(Version::restore(archive, &layout)?);
                Content::Version(version, WaysToVersion::Frame(Frame::none()))
            }
            4.. => return Err(damaged(format!("a download of kind {kind}"))),
        };
        let mut received = Self {
            number,
            phase,
            layout,
            codecs: world.downlink.clone(),
            streams: world.streams,
            content,
        };
        if matches!(received.content, Content::Held { .. }) && received.is_answered_elsewhere() {
            let model = restore_model(archive, &received.layout)?;
            if let Content::Held { intended, .. } = &mut received.content {
                *intended = Some(model);
            }
        }
        Ok(received)
    }
}
