//! Carries uploads from the device to the server's step, as frames or as the updates that are
//! encoded when they are read.

use std::sync::Arc;

use bytes::Bytes;

use super::download::OutgoingDownload;
use super::world::World;
use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::ids::{InvitationId, UserId};
use fedrecsim_core::stages::{Stage, enter};
use fedrecsim_model::codec::{
    self, CodecMemory, EncodeContext, Frame, FrameParts, Integrity, Randomness,
};
use fedrecsim_model::model::archive::{Archive, ArchiveReader};
use fedrecsim_model::model::blocks::{ModelUpdate, Scalars, Utility};
use fedrecsim_model::model::layout::Layout;
use fedrecsim_model::model::table::{RowSet, TableUpdate};

/// A frame is encoded when it is read if it is this many times as long as its update, or longer.
const POSTPONED_FROM: u64 = 2;

/// The frame of an upload between the training that it comes from and the server's step.
///
/// The frame of a whole table of which a device has changed few rows is much longer than the update
/// in it, and the frames of a large cohort together would not fit into memory. Such a frame is
/// encoded when its receiver reads it, and until then the update stands for it. Encoding is
/// deterministic, so its bytes do not depend on when they are made, and its length is known before.
#[derive(Clone, Debug)]
pub struct UploadFrame {
    parts: FrameParts,
    content: Content,
    integrity: Integrity,
}

#[derive(Clone, Debug)]
enum Content {
    Encoded(Bytes),
    Postponed(Arc<ModelUpdate>),
}

/// Names the participation that an upload comes from, which is what its encoding depends on besides
/// the update.
#[derive(Clone, Copy)]
pub struct UploadOrigin<'a> {
    /// The sender.
    pub user: UserId,
    /// The invitation that the upload answers.
    pub invitation_id: InvitationId,
    /// The download from which the device started.
    pub download: &'a OutgoingDownload,
}

impl UploadOrigin<'_> {
    /// Returns the randomness of the upload.
    pub(crate) fn randomness(&self, world: &World) -> Randomness {
        Randomness::of_upload(world.streams, self.user.0, self.invitation_id.0)
    }
}

impl UploadFrame {
    /// Returns the frame of `update` without encoding it; `None` if it has to be encoded now,
    /// because it is not much longer than the update or its length cannot be known.
    ///
    /// # Errors
    /// [`Error::Update`] if the update is not one of `layout`.
    pub(crate) fn postponed(
        update: &mut ModelUpdate,
        layout: &Layout,
        world: &World,
    ) -> Result<Option<Self>> {
        let Some(parts) = codec::parts_ahead(&world.uplink, update, layout) else {
            return Ok(None);
        };
        let held: usize = update.blocks.iter().map(held_bytes).sum();
        if parts.total() < POSTPONED_FROM * held as u64 {
            return Ok(None);
        }
        update.check(layout)?;
        let content = Content::Postponed(Arc::new(std::mem::take(update)));
        Ok(Some(Self {
            parts,
            content,
            integrity: Integrity::Intact,
        }))
    }

    /// Returns the number of bytes of the frame, by purpose.
    pub(crate) fn parts(&self) -> FrameParts {
        self.parts
    }

    /// Returns the number of bytes of the frame.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.parts.total()
    }

    /// Returns the number of bytes that it takes in memory.
    pub(crate) fn held_bytes(&self) -> u64 {
        match &self.content {
            Content::Encoded(bytes) => bytes.len() as u64,
            Content::Postponed(update) => update
                .blocks
                .iter()
                .map(|block| held_bytes(block) as u64)
                .sum(),
        }
    }

    /// Returns the bytes of the frame.
    ///
    /// # Errors
    /// Those of the encoding, and [`Error::Frame`] if the frame has another length than was
    /// announced.
    pub fn bytes(&self, origin: &UploadOrigin<'_>, world: &World) -> Result<Bytes> {
        let update = match &self.content {
            Content::Encoded(bytes) => return Ok(bytes.clone()),
            Content::Postponed(update) => update,
        };
        let _stage = enter(Stage::Encode);
        let received = origin.download.received(origin.user)?;
        let mut memory = CodecMemory::default();
        let randomness = origin.randomness(world);
        let mut context = EncodeContext {
            base: &received.model,
            memory: &mut memory,
            randomness,
        };
        let frame = world.uplink.encode(
            update,
            world.upload_layout(origin.download.phase()),
            &mut context,
        )?;
        if frame.parts != self.parts {
            let (found, announced) = (frame.bytes.len(), self.total_bytes());
            return Err(Error::Frame(format!(
                "it has {found} bytes where {announced} were announced"
            )));
        }
        Ok(frame.bytes)
    }

    /// Returns whether the bytes of the frame may have changed since it was made.
    pub(crate) fn integrity(&self) -> Integrity {
        self.integrity
    }

    /// Returns the scalars of the frame, after checking that it is undamaged unless it is known to
    /// be.
    ///
    /// # Errors
    /// As [`codec::read_scalars`].
    pub(crate) fn scalars(&self, layout: &Layout) -> Result<Scalars> {
        match &self.content {
            Content::Encoded(bytes) => codec::read_scalars((bytes, self.integrity), layout),
            Content::Postponed(update) => Ok(update.scalars),
        }
    }

    /// Returns what stands for a frame that has been handed out, and is needed no more where it was
    /// made.
    pub(crate) fn handed_out() -> Self {
        Self {
            parts: FrameParts::default(),
            content: Content::Encoded(Bytes::new()),
            integrity: Integrity::Unknown,
        }
    }

    /// Appends the frame, or the update that stands for it.
    pub(crate) fn save(&self, archive: &mut Archive) {
        match &self.content {
            Content::Encoded(bytes) => {
                archive.put(&(self.parts, false));
                archive.put_long_bytes(bytes);
            }
            Content::Postponed(update) => {
                let Scalars { weight, utility } = update.scalars;
                archive.put(&(self.parts, true));
                archive.put(&(
                    weight,
                    utility.map(|Utility { loss, ratings }| (loss, ratings)),
                ));
                update
                    .blocks
                    .iter()
                    .for_each(|block| archive.put_update(block));
            }
        }
    }

    /// Reads what [`Self::save`] appended, of an upload of this layout, in another process of this
    /// run.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] if the archive holds something else.
    pub(crate) fn restore(archive: &mut ArchiveReader, layout: &Layout) -> Result<Self> {
        let (parts, is_postponed): (FrameParts, bool) = archive.take()?;
        if !is_postponed {
            // MPI is trusted to bring bytes as they were sent, as memory is.
            return Ok(Self::sealed_here(Frame::of_saved(
                archive.take_long_bytes()?,
                parts,
            )?));
        }
        let (weight, utility): (Option<f32>, Option<(f32, u32)>) = archive.take()?;
        let blocks = layout
            .blocks()
            .iter()
            .map(|block| archive.take_update(block.shape, block.value_type));
        let blocks = blocks.collect::<Result<_>>()?;
        let utility = utility.map(|(loss, ratings)| Utility { loss, ratings });
        let update = ModelUpdate {
            blocks,
            scalars: Scalars { weight, utility },
        };
        Ok(Self {
            parts,
            content: Content::Postponed(Arc::new(update)),
            integrity: Integrity::Intact,
        })
    }

    /// Holds a frame that this run has made.
    pub(crate) fn sealed_here(frame: Frame) -> Self {
        Self {
            parts: frame.parts,
            content: Content::Encoded(frame.bytes),
            integrity: Integrity::Intact,
        }
    }

    /// Holds a frame of a checkpoint, whose bytes may have been changed on the disk.
    pub(crate) fn saved(frame: Frame) -> Self {
        Self {
            integrity: Integrity::Unknown,
            ..Self::sealed_here(frame)
        }
    }

    /// Returns the frame with other bytes, which a fault has damaged.
    pub(crate) fn damaged(&self, bytes: Bytes) -> Self {
        Self {
            parts: self.parts,
            content: Content::Encoded(bytes),
            integrity: Integrity::Unknown,
        }
    }
}

/// Returns the number of bytes that the rows of an update and their values take in memory.
fn held_bytes(update: &TableUpdate) -> usize {
    let rows = match &update.rows {
        RowSet::All => 0,
        RowSet::Listed(rows) => size_of_val(&rows[..]),
    };
    rows + update.values.len()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::sim::small;
    use crate::sim::training::Assignment;
    use fedrecsim_core::ids::Step;

    /// Trains user 3 of the small world with `overrides`, and returns the frame with its bytes.
    fn upload(overrides: &[&str]) -> (UploadFrame, Bytes) {
        let world = small::world(overrides);
        let download = Arc::new(OutgoingDownload::first(&world).unwrap());
        let (user, invitation_id) = (UserId(3), InvitationId(0));
        let mut assignment = Assignment {
            user,
            step: Step(0),
            invitation_id,
            device: None,
            download,
            reply_source: None,
            asked_rows: None,
        };
        let frame = assignment.run(&world).unwrap().frame;
        let origin = UploadOrigin {
            user,
            invitation_id,
            download: &assignment.download,
        };
        let bytes = frame.bytes(&origin, &world).unwrap();
        assert_eq!(
            bytes.len() as u64,
            frame.total_bytes(),
            "the announced length"
        );
        assert_eq!(
            frame.bytes(&origin, &world).unwrap(),
            bytes,
            "the bytes depend on when they are made"
        );
        let mut archive = Archive::default();
        frame.save(&mut archive);
        let mut reader =
            ArchiveReader::new(Box::new(std::io::Cursor::new(archive.take().unwrap())));
        let carried =
            UploadFrame::restore(&mut reader, world.upload_layout(origin.download.phase()))
                .unwrap();
        assert_eq!(
            (carried.parts(), carried.held_bytes()),
            (frame.parts(), frame.held_bytes())
        );
        assert_eq!(
            carried.bytes(&origin, &world).unwrap(),
            bytes,
            "another frame arrives on another machine"
        );
        (frame, bytes)
    }

    /// If this fails, the frames of a large cohort are in memory all at once.
    #[test]
    fn a_whole_table_with_few_changed_rows_is_held_as_its_update() {
        let (frame, bytes) =
            upload(&["codec.uplink=\"dense-f32\"", "dataset.generator.items=3000"]);
        let Content::Postponed(update) = &frame.content else {
            panic!("the frame is held")
        };
        assert!(2 * held_bytes(&update.blocks[0]) < bytes.len());
    }

    /// If this fails, a frame that is as short as its update is encoded twice.
    #[test]
    fn a_frame_of_changed_rows_is_encoded_once() {
        for overrides in [
            &["codec.uplink=\"rows-f32\""][..],
            &["codec.uplink=\"sparse-f32\""],
        ] {
            assert!(matches!(upload(overrides).0.content, Content::Encoded(_)));
        }
    }

    #[test]
    fn damage_stays() {
        let (frame, bytes) =
            upload(&["codec.uplink=\"dense-f32\"", "dataset.generator.items=3000"]);
        let world = small::world(&["codec.uplink=\"dense-f32\"", "dataset.generator.items=3000"]);
        let download = OutgoingDownload::first(&world).unwrap();
        let origin = UploadOrigin {
            user: UserId(3),
            invitation_id: InvitationId(0),
            download: &download,
        };
        let mut damaged = bytes.to_vec();
        damaged[40] ^= 1;
        let damaged = frame.damaged(damaged.into());
        assert_eq!(
            damaged.integrity(),
            Integrity::Unknown,
            "its checksum has to be computed again"
        );
        let sealed = Frame::of_saved(bytes.clone(), frame.parts()).unwrap();
        assert_eq!(
            UploadFrame::saved(sealed.clone()).integrity(),
            Integrity::Unknown
        );
        assert_eq!(
            UploadFrame::sealed_here(sealed).integrity(),
            Integrity::Intact
        );
        assert_ne!(damaged.bytes(&origin, &world).unwrap(), bytes);
        assert_eq!(damaged.total_bytes(), frame.total_bytes());
    }
}
