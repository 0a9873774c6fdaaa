//! Carries uploads from the device to the server's step, as frames or as the updates that are
//! encoded when they are read.

use std::sync::Arc;

use bytes::Bytes;

use super::invitation::Invitation;
use super::world::World;
use fedrecsim_core::stages::{Stage, enter};
use fedrecsim_core::{Error, InvitationId, Result, UserId};
use fedrecsim_model::blocks::{Scalars, Utility};
use fedrecsim_model::codec::{
    self, CodecMemory, EncodeContext, Frame, FrameKind, FrameParts, Integrity, Randomness,
};
use fedrecsim_model::{Archive, ArchiveReader, Layout, ModelUpdate, RowSet, TableUpdate};

/// A frame is encoded when it is read if it is this many times as long as its update, or longer.
const POSTPONED_FROM: u64 = 2;

/// The upload of a participation, from the training that it comes from to the server's step.
///
/// A device may send a whole table although it has changed few rows. The frame is then much longer
/// than the update in it, and the frames of a large cohort would not fit into memory. So such a
/// frame is encoded when its receiver reads it, and the update stands for it until then. This
/// changes nothing: encoding is deterministic, and the length is known before.
#[derive(Clone, Debug)]
pub struct Upload {
    parts: FrameParts,
    content: Content,
    integrity: Integrity,
    /// The mean local loss of the training, which is booked when the server uses the update.
    pub loss: f64,
}

#[derive(Clone, Debug)]
enum Content {
    Encoded(Bytes),
    Postponed(Arc<ModelUpdate>),
}

/// Returns the randomness for encoding the upload of a participation.
pub(crate) fn randomness(user: UserId, invitation_id: InvitationId, world: &World) -> Randomness {
    Randomness::new(
        world.streams,
        FrameKind::Upload,
        Some(user.0),
        invitation_id.0,
    )
}

impl Upload {
    /// Holds a frame that this run has made.
    pub(crate) fn encoded(frame: Frame, loss: f64) -> Self {
        Self {
            parts: frame.parts,
            content: Content::Encoded(frame.bytes),
            integrity: Integrity::Intact,
            loss,
        }
    }

    /// Holds a frame of a checkpoint or of another process, whose bytes may have been changed.
    pub(crate) fn saved(frame: Frame, loss: f64) -> Self {
        let saved = Self::encoded(frame, loss);
        Self {
            integrity: Integrity::Unknown,
            ..saved
        }
    }

    /// Takes `update` without encoding it; `None` if it has to be encoded now, because its frame is
    /// not much longer than the update or has a length that cannot be known.
    ///
    /// # Errors
    /// [`Error::Update`] if the update is not one of `layout`.
    pub(crate) fn postponed(
        update: &mut ModelUpdate,
        loss: f64,
        layout: &Layout,
        world: &World,
    ) -> Result<Option<Self>> {
        let Some(parts) = codec::parts_ahead(&world.uplink, layout, &update.scalars) else {
            return Ok(None);
        };
        if parts.total() < POSTPONED_FROM * held_bytes(update) {
            return Ok(None);
        }
        update.check(layout)?;
        Ok(Some(Self {
            parts,
            content: Content::Postponed(Arc::new(std::mem::take(update))),
            integrity: Integrity::Intact,
            loss,
        }))
    }

    /// Returns what is left where an upload was made and handed out to another process.
    pub fn handed_out() -> Self {
        Self {
            parts: FrameParts::default(),
            content: Content::Encoded(Bytes::new()),
            integrity: Integrity::Unknown,
            loss: 0.0,
        }
    }

    /// Returns the upload with other bytes, which a fault has damaged.
    pub(crate) fn damaged(self, bytes: Bytes) -> Self {
        Self {
            content: Content::Encoded(bytes),
            integrity: Integrity::Unknown,
            ..self
        }
    }

    /// Returns the number of bytes of the frame, by purpose.
    pub fn parts(&self) -> FrameParts {
        self.parts
    }

    /// Returns the number of bytes that it takes in memory.
    pub(crate) fn held_bytes(&self) -> u64 {
        match &self.content {
            Content::Encoded(bytes) => bytes.len() as u64,
            Content::Postponed(update) => held_bytes(update),
        }
    }

    /// Returns the bytes of the frame. `user` has sent it and the answer to `invitation`.
    ///
    /// # Errors
    /// Those of the encoding, and [`Error::Frame`] if the frame has another length than was
    /// announced.
    pub fn bytes(&self, user: UserId, invitation: &Invitation, world: &World) -> Result<Bytes> {
        let update = match &self.content {
            Content::Encoded(bytes) => return Ok(bytes.clone()),
            Content::Postponed(update) => update,
        };
        let _stage = enter(Stage::Encode);
        let Invitation { id, download, .. } = invitation;
        let mut context = EncodeContext {
            base: &download.received(user)?.model,
            memory: &mut CodecMemory::default(),
            randomness: randomness(user, *id, world),
        };
        let layout = world.upload_layout(download.phase(), user);
        let frame = world.uplink.encode(update, layout, &mut context)?;
        if frame.parts != self.parts {
            let (found, announced) = (frame.bytes.len(), self.parts.total());
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

    /// Notes that the frame was read, and was undamaged.
    pub(crate) fn is_intact(&mut self) {
        self.integrity = Integrity::Intact;
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

    /// Appends the upload, be it a frame or the update that stands for it.
    pub fn save(&self, archive: &mut Archive) {
        let head = (self.parts, self.loss);
        match &self.content {
            Content::Encoded(bytes) => {
                archive.put(&(head, false));
                archive.put_bytes(bytes);
            }
            Content::Postponed(update) => {
                let Scalars { weight, utility } = update.scalars;
                let utility = utility.map(|Utility { loss, ratings }| (loss, ratings));
                archive.put(&(head, true));
                archive.put(&(weight, utility));
                update
                    .blocks
                    .iter()
                    .for_each(|block| archive.put_update(block));
            }
        }
    }

    /// Reads what [`Self::save`] appended of an upload of this layout, in another process of the
    /// run.
    ///
    /// # Errors
    /// As [`ArchiveReader::take`].
    pub fn restore(archive: &mut ArchiveReader, layout: &Layout) -> Result<Self> {
        let ((parts, loss), is_postponed): ((FrameParts, f64), bool) = archive.take()?;
        if !is_postponed {
            // MPI is trusted to bring bytes as they were sent, as memory is.
            let frame = Frame::of_saved(archive.take_bytes()?, parts)?;
            return Ok(Self::encoded(frame, loss));
        }
        let (weight, utility): (Option<f32>, Option<(f32, u32)>) = archive.take()?;
        let utility = utility.map(|(loss, ratings)| Utility { loss, ratings });
        let blocks = layout
            .blocks()
            .iter()
            .map(|block| archive.take_update(block.shape, block.value_type));
        let update = ModelUpdate {
            blocks: blocks.collect::<Result<_>>()?,
            scalars: Scalars { weight, utility },
        };
        Ok(Self {
            parts,
            content: Content::Postponed(Arc::new(update)),
            integrity: Integrity::Intact,
            loss,
        })
    }
}

/// Returns the number of bytes that the rows of an update and their values take in memory.
fn held_bytes(update: &ModelUpdate) -> u64 {
    let of_block = |block: &TableUpdate| {
        let rows = match &block.rows {
            RowSet::All => 0,
            RowSet::Listed(rows) => size_of_val(&rows[..]),
        };
        (rows + block.values.len()) as u64
    };
    update.blocks.iter().map(of_block).sum()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::tests::small;
    use crate::training::tests::trained;

    const WHOLE_TABLE: [&str; 2] = ["codec.uplink=\"dense-f32\"", "dataset.generator.items=3000"];

    /// Trains user 3 of the small world with `overrides`, and returns the upload with its bytes.
    fn upload(overrides: &[&str]) -> (Upload, Bytes) {
        let world = small::world(overrides);
        let (invitation, upload) = trained(&world);
        let bytes_of = |upload: &Upload| upload.bytes(UserId(3), &invitation, &world).unwrap();
        let bytes = bytes_of(&upload);
        assert_eq!(
            bytes.len() as u64,
            upload.parts().total(),
            "the announced length"
        );
        assert_eq!(
            bytes_of(&upload),
            bytes,
            "the bytes depend on when they are made"
        );
        let mut archive = Archive::default();
        upload.save(&mut archive);
        let mut reader =
            ArchiveReader::new(Box::new(std::io::Cursor::new(archive.take().unwrap())));
        let layout = world.upload_layout(invitation.download.phase(), UserId(3));
        let carried = Upload::restore(&mut reader, layout).unwrap();
        assert_eq!(
            (carried.parts(), carried.held_bytes(), carried.loss),
            (upload.parts(), upload.held_bytes(), upload.loss)
        );
        assert_eq!(
            bytes_of(&carried),
            bytes,
            "another frame arrives on another machine"
        );
        (upload, bytes)
    }

    /// If this fails, the frames of a large cohort are in memory all at once.
    #[test]
    fn a_whole_table_with_few_changed_rows_is_held_as_its_update() {
        let (upload, bytes) = upload(&WHOLE_TABLE);
        assert!(matches!(upload.content, Content::Postponed(_)));
        assert!(2 * upload.held_bytes() < bytes.len() as u64);
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
        let (upload, bytes) = upload(&WHOLE_TABLE);
        let world = small::world(&WHOLE_TABLE);
        let (invitation, _) = trained(&world);
        let mut damaged = bytes.to_vec();
        damaged[40] ^= 1;
        let damaged = upload.clone().damaged(damaged.into());
        assert_eq!(
            damaged.integrity(),
            Integrity::Unknown,
            "its checksum has to be computed again"
        );
        let sealed = Frame::of_saved(bytes.clone(), upload.parts()).unwrap();
        assert_eq!(
            Upload::saved(sealed.clone(), 0.0).integrity(),
            Integrity::Unknown
        );
        assert_eq!(Upload::encoded(sealed, 0.0).integrity(), Integrity::Intact);
        assert_ne!(
            damaged.bytes(UserId(3), &invitation, &world).unwrap(),
            bytes
        );
        assert_eq!(damaged.parts(), upload.parts());
    }
}
