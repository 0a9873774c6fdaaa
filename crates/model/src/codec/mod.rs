//! Encodes updates as frames, which travel between server and clients, and decodes them.
//!
//! An encoder turns an update of one or more blocks into one buffer. The length of the buffer is
//! what the network carries, what the ledger books and what takes time on the link (contract 2).
//! The receiver decodes the same buffer.
//!
//! # Layout
//! Integers and values are little-endian, and there is no padding. Updates have two formats.
//! **Format 1** holds one table of single precision with m rows and k columns, and nothing else:
//!
//! | offset | bytes | type | field |
//! |---|---|---|---|
//! | 0 | 2 | | magic: `FR` (46 52) |
//! | 2 | 1 | u8 | format version: 1 |
//! | 3 | 1 | u8 | high four bits: codec (1 `dense-f32`, 2 `rows-f32`, 3 `sparse-f32`); low four bits: index encoding (0 all, 1 bitmap, 2 gaps) |
//! | 4 | 4 | u32 | rows m |
//! | 8 | 4 | u32 | columns k |
//! | 12 | 8 | u64 | entries held, c (below) |
//! | 20 | 4 | f32 | `others_scale`: factor of the rows not held; 1 in `dense-f32` and `sparse-f32` |
//! | 24 | 4 | u32 | checksum: CRC-32 (IEEE 802.3, reflected, polynomial 04c11db7) of bytes 0 to 23, then 28 to the end |
//! | 28 | i | | index: which of the entries are held |
//! | 28 + i | c e | f32 | the entries held, in ascending order |
//!
//! **Format 2** holds any number of blocks and the scalars that the layout asks for:
//!
//! | offset | bytes | type | field |
//! |---|---|---|---|
//! | 0 | 2 | | magic: `FR` (46 52) |
//! | 2 | 1 | u8 | format version: 2 |
//! | 3 | 1 | u8 | blocks |
//! | 4 | 1 | u8 | bit 0: the weight follows; bit 1: the report of the client's loss follows |
//! | 5 | 3 | | 0 |
//! | 8 | 4 | u32 | checksum: CRC-32 as above, of bytes 0 to 7, then 12 to the end |
//! | 12 | 0 or 4 | f32 | weight of the update |
//! | | 0 or 8 | f32, u32 | mean local loss, number of training ratings |
//! | | | | the blocks, one after the other |
//!
//! A block has a header of 28 bytes. It begins with codec and index encoding (as at offset 3 of
//! format 1), type of the values (0 f32, 1 u32, 2 u64, 3 bytes) and 2 bytes of 0. Then come rows,
//! columns, entries held and `others_scale` as at offsets 4 to 23 of format 1, and the bytes of the
//! index (u32). Index and entries follow as in format 1.
//!
//! | codec | an entry is | of | e | held are |
//! |---|---|---|---|---|
//! | `dense-f32` | a value | m k | 4 (or the bytes of a value of another type) | all |
//! | `rows-f32` | a row of k values | m | 4 k | the rows listed |
//! | `sparse-f32` | a value, by row k + column | m k | 4 | all but those with the bits of +0.0 |
//!
//! Requests for rows (`row_request.rs`) and frames of frames (`bundle.rs`) have formats of their
//! own. Both have the number 3; a receiver knows which of the two to expect.
//!
//! A [`CompositionSpec`] makes blocks of codec 4. Their entries are bytes, they have no index of
//! their own, and `composition/body.rs` has the format of these bytes.
//!
//! [`CompositionSpec`]: fedrecsim_scenario::CompositionSpec
//!
//! Of N entries, c are held. An encoder takes the smallest index, and the bitmap if it ties with
//! the gaps:
//!
//! | code | index | i | contents |
//! |---|---|---|---|
//! | 0 | all | 0 | none; c = N |
//! | 1 | bitmap | ceil(N / 8) | entry p is bit p mod 8, from the least significant, of byte p div 8; unused bits of the last byte are 0 |
//! | 2 | gaps | the rest | c LEB128 integers in their shortest form: the entries skipped before the first one, then between one and the next |
//!
//! Every value arrives with the bits that it was sent with, including NaN payloads, infinities and
//! -0.0.
//!
//! # What a decoder accepts
//! A decoder accepts exactly the frames above, for the codec and layout that the receiver expects.
//! Anything else (another magic number, version, codec or shape, a wrong length, checksum or index,
//! a zero among the values of `sparse-f32`) is an [`Error::Frame`]. Nothing is allocated before the
//! length of the frame has been found to agree with its header and the expected shape, and never
//! more than [`decode_bound_bytes`].
//!
//! # What can be sent
//! Only a [`TableUpdate`] of each block can be encoded, and only this module makes a [`Frame`].
//! Private parameters live in [`Private`](crate::private::Private), which converts to
//! neither a table nor bytes (contract 4). A shared table travels:
//! ```
//! use fedrecsim_model::codec::Codec;
//! use fedrecsim_model::{private::Private, table::{Table, TableShape, TableUpdate}};
//! use fedrecsim_scenario::CodecName;
//!
//! let shape = TableShape { rows: 2, dimension: 3 };
//! let shared = Table::zeros(shape);
//! let private = Private::new(Table::zeros(shape));
//! let update = TableUpdate::whole(shared.clone());
//! let frame = CodecName::DenseF32.encode(&update, &shared);
//! assert_eq!(CodecName::DenseF32.decode(&frame.bytes, shape).unwrap(), update);
//! ```
//! The same with the private one does not compile:
//! ```compile_fail,E0277
//! use fedrecsim_model::codec::Codec;
//! use fedrecsim_model::{private::Private, table::{Table, TableShape, TableUpdate}};
//! use fedrecsim_scenario::CodecName;
//!
//! let shape = TableShape { rows: 2, dimension: 3 };
//! let shared = Table::zeros(shape);
//! let private = Private::new(Table::zeros(shape));
//! let update = TableUpdate::whole(private.clone());
//! let frame = CodecName::DenseF32.encode(&update, &shared);
//! assert_eq!(CodecName::DenseF32.decode(&frame.bytes, shape).unwrap(), update);
//! ```
//! The other ways from a parameter to bytes do not compile either. Each compiles with the parameter
//! itself,
//! ```
//! use fedrecsim_model::{private::Private, table::{Table, TableShape, TableUpdate}};
//!
//! let shape = TableShape { rows: 1, dimension: 2 };
//! let parameter: Vec<f32> = vec![1.0, 2.0];
//! let update = TableUpdate::listed(shape, vec![0], &parameter, 1.0);
//! let json = serde_json::to_string(&parameter);
//! let table = Table::new(shape, parameter);
//! ```
//! but none compiles once the parameter is private:
//! ```compile_fail,E0308
//! # use fedrecsim_model::{private::Private, table::{Table, TableShape, TableUpdate}};
//! # let shape = TableShape { rows: 1, dimension: 2 };
//! let parameter: Private<Vec<f32>> = Private::new(vec![1.0, 2.0]);
//! let update = TableUpdate::listed(shape, vec![0], &parameter, 1.0);
//! ```
//! ```compile_fail,E0277
//! # use fedrecsim_model::{private::Private, table::{Table, TableShape, TableUpdate}};
//! # let shape = TableShape { rows: 1, dimension: 2 };
//! let parameter: Private<Vec<f32>> = Private::new(vec![1.0, 2.0]);
//! let json = serde_json::to_string(&parameter);
//! ```
//! ```compile_fail,E0308
//! # use fedrecsim_model::{private::Private, table::{Table, TableShape, TableUpdate}};
//! # let shape = TableShape { rows: 1, dimension: 2 };
//! let parameter: Private<Vec<f32>> = Private::new(vec![1.0, 2.0]);
//! let table = Table::new(shape, parameter);
//! ```
//! A frame cannot be made of bytes that no codec wrote:
//! ```compile_fail,E0639
//! use fedrecsim_model::codec::{Frame, FrameParts};
//! let frame = Frame { bytes: vec![1, 2, 3].into(), parts: FrameParts::default() };
//! ```

/// Returns from the function with the error of a frame that cannot be decoded.
macro_rules! refuse {
    ($($reason:tt)*) => {
        return Err(fedrecsim_core::error::Error::Frame(format!($($reason)*)))
    };
}

mod ans;
mod bitmap;
mod bits;
mod block_codecs;
mod buffer;
mod bundle;
mod composition;
mod frame;
mod memory;
mod plain;
mod positions;
mod randomness;
mod reader;
mod row_request;
mod symbols;
#[cfg(test)]
mod tests;
mod values;
mod varint;
mod writer;

use bytes::Bytes;

pub use block_codecs::{BlockCodecs, EncodeContext};
pub use bundle::{Beginning, bundle, bundle_parts, unbundle};
pub use frame::{HEADER_BYTES, Integrity};
pub use memory::CodecMemory;
pub use positions::PositionCode;
pub use randomness::{FrameKind, Randomness};
pub use reader::{OpenedBlock, blocks_in};
pub use row_request::{decode_row_request, encode_row_request};
pub use writer::{FrameWriter, parts_ahead};

use reader::FrameReader;

use crate::blocks::{ModelUpdate, Scalars};
use crate::layout::{BlockLayout, Layout};
use crate::table::{Table, TableShape, TableUpdate, VALUE_BYTES};
use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::rng::Streams;

/// Holds an encoded frame, with its bytes counted by purpose. Only this module makes one, from what
/// a [`Codec`] wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Frame {
    /// The buffer that travels.
    pub bytes: Bytes,
    /// The bytes by purpose, which sum to `bytes.len()`.
    pub parts: FrameParts,
}

impl Frame {
    /// Makes the frame of a phase that sends nothing.
    pub fn none() -> Self {
        Self {
            bytes: Bytes::new(),
            parts: FrameParts::default(),
        }
    }

    /// Makes the values of `update`, which `codecs` encoded as this frame, share the memory of the
    /// frame if the frame ends in them. Returns the memory that they had before.
    pub fn hold_values_of(
        &self,
        codecs: &BlockCodecs,
        update: &mut ModelUpdate,
        layout: &Layout,
    ) -> Option<Bytes> {
        let ([block], [of_block]) = (&mut update.blocks[..], layout.blocks()) else {
            return None;
        };
        let codec = codecs.of_block(of_block);
        let start = self
            .bytes
            .len()
            .checked_sub(block.values.len())
            .filter(|_| codec.ends_in_values_of(block))?;
        debug_assert!(self.bytes[start..] == block.values);
        Some(std::mem::replace(
            &mut block.values,
            self.bytes.slice(start..),
        ))
    }

    /// Restores a frame from what a checkpoint has kept of it.
    ///
    /// # Errors
    /// [`Error::Unrestorable`] if its parts do not sum to its length.
    pub fn of_saved(bytes: Bytes, parts: FrameParts) -> Result<Self> {
        if parts.total() != bytes.len() as u64 {
            return Err(Error::Unrestorable(
                "a frame in it has another length than its parts".to_owned(),
            ));
        }
        Ok(Self { bytes, parts })
    }
}

/// Counts the bytes of a frame by purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FrameParts {
    /// The bytes of magic number, codecs, shapes, scales and checksum.
    pub header: u64,
    /// The bytes that say which rows or values follow.
    pub index: u64,
    /// The bytes of the values and scalars.
    pub values: u64,
    /// The bytes of a scenario's `[overheads]`, which travel with the frame but are not in it.
    pub modelled: u64,
}

impl FrameParts {
    /// Returns the number of bytes of the whole frame, and of what travels with it.
    pub const fn total(self) -> u64 {
        self.header + self.index + self.values + self.modelled
    }
}

/// Encodes updates of blocks as parts of a frame, and decodes them.
///
/// A codec may be lossy: the receiver works with the decoded values. A codec may keep on the device
/// what it left out ([`CodecMemory`]), and it may draw from a random stream of its own.
pub trait Codec: Send + Sync + std::fmt::Debug {
    /// Appends `update` to `frame`.
    ///
    /// # Errors
    /// [`Error::Update`] if [`TableUpdate::check_base`] refuses the update, and
    /// [`Error::Unrepresentable`] if it has a value that the codec cannot represent.
    ///
    /// # Panics
    /// If the block has 2^32 rows or columns, which is a defect of the caller.
    fn encode_block(
        &self,
        update: &TableUpdate,
        context: &mut BlockContext<'_>,
        frame: &mut FrameWriter,
    ) -> Result<()>;

    /// Returns whether a receiver decodes, bit for bit, what was encoded. A sender that uses such a
    /// codec need not keep what it encoded beside the frame. The default is no.
    fn is_lossless(&self) -> bool {
        false
    }

    /// Returns the name and version of a format that may change, which the result digest covers.
    /// The default is empty.
    fn format(&self) -> &'static str {
        ""
    }

    /// Returns whether the codec sends differences from the base, so that a receiver needs the
    /// base. The default is no.
    fn sends_changes(&self) -> bool {
        false
    }

    /// Returns whether a download of an item table holds only the rows that its receiver has asked
    /// for. The block is then a table of these rows in their order, so that no positions travel
    /// with them, and the whole table where somebody downloads it to score. The default is no.
    fn sends_needed_rows(&self) -> bool {
        false
    }

    /// Returns the code of the positions that this codec sends; `None`, which is the default, is
    /// the shortest.
    fn position_code(&self) -> Option<PositionCode> {
        None
    }

    /// Returns whether rows that an update does not list take no values in a frame, so that it is
    /// worth looking for rows of zeros to leave out. The default is yes.
    fn leaves_rows_out(&self) -> bool {
        true
    }

    /// Returns whether a frame of this block alone ends in the unchanged values of the update. A
    /// caller that keeps both then stores the values once. The default is no.
    fn ends_in_values_of(&self, _update: &TableUpdate) -> bool {
        false
    }

    /// Returns the number of bytes that the values of any update of `block` take in a frame, if that
    /// is the same for all of them and the frame has no index. A codec that remembers or draws
    /// anything returns `None`, which is the default.
    fn value_bytes_ahead(&self, _block: &BlockLayout) -> Option<u64> {
        None
    }

    /// Decodes a block. `base` is the table that the block was encoded against: rows that are not
    /// listed refer to it, and codecs that send differences add them to it. The result's values
    /// share the frame's buffer where the format allows it. Memory is bounded by
    /// [`decode_bound_bytes`], or by six times that for a composition.
    ///
    /// # Errors
    /// [`fedrecsim_core::error::Error::Frame`] for anything but a well-formed block of this codec.
    fn decode_block(&self, block: &OpenedBlock<'_>, base: Option<&Table>) -> Result<TableUpdate>;

    /// Encodes an update of one table without a memory. `base` is the table that rows refer to that
    /// are not listed.
    ///
    /// # Panics
    /// As [`Codec::encode_block`], and where that returns an error: an update that contradicts
    /// itself is a defect of the method that made it, and cannot be put into a frame.
    fn encode(&self, update: &TableUpdate, base: &Table) -> Frame {
        let mut frame = FrameWriter::of_one_table();
        let mut context = BlockContext {
            position: 0,
            base: Some(base),
            memory: &mut CodecMemory::default(),
            randomness: Randomness::new(Streams::new(0), FrameKind::Upload, Some(0), 0),
        };
        if let Err(error) = self.encode_block(update, &mut context, &mut frame) {
            panic!("{error}");
        }
        frame.seal()
    }

    /// Decodes a frame that should hold a table of `shape` and nothing else, and no changes of
    /// another table.
    ///
    /// # Errors
    /// [`Error::Frame`] for anything but a well-formed, undamaged frame of this codec and shape.
    fn decode(&self, frame: &Bytes, shape: TableShape) -> Result<TableUpdate> {
        self.decode_block(
            &reader::open_one_table(frame, shape, Integrity::Unknown)?,
            None,
        )
    }
}

/// Holds what an encoder may use beside the update of a block.
#[derive(Debug)]
pub struct BlockContext<'a> {
    /// The position of the block in its layout.
    pub position: usize,
    /// The table that unlisted rows refer to. Codecs that send whole tables read those rows from
    /// it.
    pub base: Option<&'a Table>,
    /// The memory of the codec on this device.
    pub memory: &'a mut CodecMemory,
    /// The randomness of this participation.
    pub randomness: Randomness,
}

/// Returns the scalars of a frame of `layout`. Checks the frame for damage unless it is known to be
/// intact. A frame of one table has no scalars and is not read.
///
/// # Errors
/// [`fedrecsim_core::error::Error::Frame`] for a damaged frame, or one of another layout.
pub fn read_scalars((frame, integrity): (&Bytes, Integrity), layout: &Layout) -> Result<Scalars> {
    if layout.single_table().is_some() {
        return Ok(Scalars::default());
    }
    let (_, scalars) = FrameReader::new(frame, layout)?;
    frame::check_sum(frame, integrity)?;
    Ok(scalars)
}

/// Returns an upper bound of the bytes that any decoder allocates for any frame of a table of
/// `shape`: 4 m k for the table (`sparse-f32`), or 4 m for the list of rows (`rows-f32`). The frame
/// itself is not counted, and `dense-f32` allocates nothing.
pub const fn decode_bound_bytes(shape: TableShape) -> usize {
    let entries = if shape.dimension == 0 {
        shape.rows
    } else {
        shape.values()
    };
    entries.saturating_mul(VALUE_BYTES)
}
