//! The download: the global table on its way to a cohort.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::world::World;
use crate::codec::{Codec, Frame};
use crate::error::{Error, Result};
use crate::ids::InvitationId;
use crate::model::archive::{Archive, ArchiveReader, damaged};
use crate::model::table::{RowSet, SharedTable, Table, TableShape, TableUpdate, extend_bytes};
use crate::stages::{Stage, enter};

/// A frame that the server sends to many: encoded once, and decoded once by whoever receives it first.
///
/// Decoding is a pure function of the bytes, so that receivers may share its result. What they train on still is
/// what the frame says, not what the server meant.
#[derive(Debug)]
pub struct Broadcast {
    first_invitation: InvitationId,
    frame: Frame,
    shape: TableShape,
    codec: &'static dyn Codec,
    decoded: OnceLock<std::result::Result<SharedTable, String>>,
}

impl Broadcast {
    /// Encodes `table`, which goes out with the invitations from `first_invitation` on.
    pub fn encode(first_invitation: InvitationId, table: &Table, codec: &'static dyn Codec) -> Self {
        let _stage = enter(Stage::Encode);
        let shape = table.shape();
        // A receiver that is invited for the first time has no earlier table, so the base is the zero table.
        let frame = codec.encode(&nonzero_rows(table), &Table::zeros(shape));
        Self { first_invitation, frame, shape, codec, decoded: OnceLock::new() }
    }

    /// The first invitation that it went out with, which no other broadcast did: two may say the same, and be two.
    pub fn first_invitation(&self) -> InvitationId {
        self.first_invitation
    }

    /// Appends it to `archive`: as the table that it says, which a codec makes the same frame of.
    ///
    /// # Errors
    /// As [`Self::table`].
    pub fn save(&self, archive: &mut Archive) -> Result<()> {
        archive.put(&self.first_invitation);
        archive.put_table(self.table()?);
        Ok(())
    }

    /// The frame that travels.
    pub fn frame(&self) -> &Frame {
        &self.frame
    }

    /// The bytes that travel.
    pub fn bytes(&self) -> &Bytes {
        &self.frame.bytes
    }

    /// Whether the upload of somebody who started from this can be read.
    pub fn upload_reads(&self, frame: &Bytes, uplink: &dyn Codec) -> bool {
        uplink.decode(frame, self.shape).is_ok()
    }

    /// Whether `frame`, which came over a link, can be read.
    pub fn reads(&self, frame: &Bytes) -> bool {
        self.codec.decode(frame, self.shape).is_ok()
    }

    /// The table that the frame says.
    ///
    /// # Errors
    /// [`Error::Frame`] if the frame does not decode.
    pub fn table(&self) -> Result<&SharedTable> {
        let decode = || -> Result<SharedTable> {
            let _stage = enter(Stage::Decode);
            let update = self.codec.decode(&self.frame.bytes, self.shape)?;
            Ok(Arc::new(update.apply(&Table::zeros(self.shape))?))
        };
        let decoded = self.decoded.get_or_init(|| decode().map_err(|error| error.to_string()));
        decoded.as_ref().map_err(|reason| Error::Frame(reason.clone()))
    }
}

/// The broadcasts of a checkpoint that is being read: those who shared one share it again.
#[derive(Debug, Default)]
pub struct RestoredBroadcasts {
    by_invitation: BTreeMap<InvitationId, Arc<Broadcast>>,
}

impl RestoredBroadcasts {
    /// Reads what [`Broadcast::save`] appended.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] if there is none for this world, or another one of this name.
    pub fn take(&mut self, archive: &mut ArchiveReader, world: &World) -> Result<Arc<Broadcast>> {
        let first_invitation = archive.take()?;
        let table = archive.take_table(world.method.shape())?;
        let restored = self.by_invitation.entry(first_invitation).or_insert_with(|| {
            let mut broadcast = Broadcast::encode(first_invitation, &table, world.downlink);
            broadcast.decoded = OnceLock::from(Ok(Arc::clone(&table)));
            Arc::new(broadcast)
        });
        // An archive has every table once.
        if !Arc::ptr_eq(restored.table()?, &table) {
            return Err(damaged("two broadcasts of one invitation"));
        }
        Ok(Arc::clone(restored))
    }
}

/// `table` as its rows that are not all +0.0, over a base of zeros: what a rows codec can leave out of a download.
fn nonzero_rows(table: &Table) -> TableUpdate {
    let shape = table.shape();
    let is_nonzero = |row: &u32| table.row(*row as usize).iter().any(|value| value.to_bits() != 0);
    let rows: Vec<u32> = (0..shape.rows as u32).filter(is_nonzero).collect();
    if rows.len() == shape.rows {
        return TableUpdate::whole(table);
    }
    let mut values = Vec::with_capacity(rows.len() * shape.dimension * 4);
    rows.iter().for_each(|row| extend_bytes(&mut values, table.row(*row as usize)));
    TableUpdate { shape, rows: RowSet::Listed(rows), values: values.into(), others_scale: 1.0 }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::codec;
    use crate::scenario::CodecName;

    #[test]
    fn every_codec_broadcasts_the_table_itself() {
        let shape = TableShape { rows: 9, dimension: 3 };
        let mut number = 0;
        let table = Table::from_fn(shape, || {
            number += 1;
            // Rows 2, 5 and 8 are zero; a negative zero elsewhere must survive.
            if (number - 1) / 3 % 3 == 2 {
                0.0
            } else if number == 1 {
                -0.0
            } else {
                number as f32
            }
        });
        let size = |name| {
            let broadcast = Broadcast::encode(InvitationId(0), &table, codec::of(name));
            let decoded = broadcast.table().unwrap();
            let bits = |table: &Table| table.as_slice().iter().map(|value| value.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(decoded), bits(&table), "{name:?}");
            broadcast.frame().parts.values
        };
        let row = 3 * 4;
        assert_eq!(size(CodecName::DenseF32), 9 * row);
        assert_eq!(size(CodecName::RowsF32), 6 * row, "rows of zeros need not be sent");
        assert_eq!(size(CodecName::SparseF32), 6 * row);
    }

    /// If this fails, a checkpoint makes two broadcasts of one, which costs memory, or one of two, which moves the order
    /// of a sum.
    #[test]
    fn who_shared_a_broadcast_shares_it_again_and_nobody_else() {
        let world = crate::sim::small::world(&[]);
        let table = world.method.initial_table();
        let of_invitation =
            |invitation_id, table: &Table| Broadcast::encode(InvitationId(invitation_id), table, world.downlink);
        let restored = |broadcasts: &[&Broadcast]| -> Result<Vec<Arc<Broadcast>>> {
            let mut archive = Archive::default();
            broadcasts.iter().for_each(|broadcast| broadcast.save(&mut archive).unwrap());
            let mut reader = ArchiveReader::new(Box::new(std::io::Cursor::new(archive.take().unwrap())));
            let mut all = RestoredBroadcasts::default();
            broadcasts.iter().map(|_| all.take(&mut reader, &world)).collect()
        };
        let (first, second) = (of_invitation(3, &table), of_invitation(5, &table));
        let back = restored(&[&first, &second, &first, &second]).unwrap();
        assert_eq!(back.iter().map(|one| one.first_invitation()).collect::<Vec<_>>(), [3, 5, 3, 5].map(InvitationId));
        assert!(Arc::ptr_eq(&back[0], &back[2]) && Arc::ptr_eq(&back[1], &back[3]) && !Arc::ptr_eq(&back[0], &back[1]));
        assert!(back.iter().all(|one| one.bytes() == first.bytes() && **one.table().unwrap() == table));
        let other = of_invitation(3, &Table::zeros(table.shape()));
        assert!(matches!(restored(&[&first, &other]), Err(Error::Checkpoint(_))));
    }
}
