//! Frames: what travels, byte for byte.
//!
//! An encoder turns a [`TableUpdate`] into one buffer; its length is what the network carries, what the
//! ledger books and what takes time on the link (contract 2). The receiver decodes that very buffer.
//!
//! # Layout
//! Integers and values are little-endian; nothing is padded. For a table of m rows and k columns:
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
//! | codec | an entry is | of | e | held are |
//! |---|---|---|---|---|
//! | `dense-f32` | a value | m k | 4 | all |
//! | `rows-f32` | a row of k values | m | 4 k | the rows listed |
//! | `sparse-f32` | a value, by row k + column | m k | 4 | all but those with the bits of +0.0 |
//!
//! Of N entries, c are held; an encoder takes the smallest index (the bitmap if it ties with the gaps):
//!
//! | code | index | i | contents |
//! |---|---|---|---|
//! | 0 | all | 0 | none; c = N |
//! | 1 | bitmap | ceil(N / 8) | entry p is bit p mod 8, from the least significant, of byte p div 8; unused bits of the last byte are 0 |
//! | 2 | gaps | the rest | c LEB128 integers in their shortest form: the entries skipped before the first one, then between one and the next |
//!
//! Every value arrives with the bits that it was sent with: NaN payloads, infinities and -0.0 included.
//!
//! # What a decoder accepts
//! Exactly the frames above, for the codec and shape that the receiver expects; anything else (another magic
//! number, version, codec or shape, a wrong length, checksum or index, a zero among the values of
//! `sparse-f32`) is an [`Error::Frame`](crate::error::Error::Frame). Nothing is allocated before the length
//! of the frame has been found to agree with its header and the expected shape, and never more than
//! [`decode_bound_bytes`].
//!
//! # What can be sent
//! Only a [`TableUpdate`] can be encoded, and only a codec makes a [`Frame`]. Private parameters live in
//! [`Private`](crate::model::private::Private), which converts to neither a table nor bytes (contract 4).
//! A shared table travels:
//! ```
//! use fedrecsim::codec;
//! use fedrecsim::model::{private::Private, table::{Table, TableShape, TableUpdate}};
//! use fedrecsim::scenario::CodecName;
//!
//! let shape = TableShape { rows: 2, dimension: 3 };
//! let shared = Table::zeros(shape);
//! let private = Private::new(Table::zeros(shape));
//! let update = TableUpdate::whole(&shared);
//! let frame = codec::of(CodecName::DenseF32).encode(&update, &shared);
//! assert_eq!(codec::of(CodecName::DenseF32).decode(&frame.bytes, shape).unwrap(), update);
//! ```
//! The same with the private one does not compile:
//! ```compile_fail,E0308
//! use fedrecsim::codec;
//! use fedrecsim::model::{private::Private, table::{Table, TableShape, TableUpdate}};
//! use fedrecsim::scenario::CodecName;
//!
//! let shape = TableShape { rows: 2, dimension: 3 };
//! let shared = Table::zeros(shape);
//! let private = Private::new(Table::zeros(shape));
//! let update = TableUpdate::whole(&private);
//! let frame = codec::of(CodecName::DenseF32).encode(&update, &shared);
//! assert_eq!(codec::of(CodecName::DenseF32).decode(&frame.bytes, shape).unwrap(), update);
//! ```
//! Nor do the other ways from a parameter to bytes. Each compiles with the parameter itself,
//! ```
//! use fedrecsim::model::{private::Private, table::{Table, TableShape, TableUpdate}};
//!
//! let shape = TableShape { rows: 1, dimension: 2 };
//! let parameter: Vec<f32> = vec![1.0, 2.0];
//! let update = TableUpdate::listed(shape, vec![0], &parameter, 1.0);
//! let json = serde_json::to_string(&parameter);
//! let table = Table::from_values(shape, parameter);
//! ```
//! and none once it is private:
//! ```compile_fail,E0308
//! # use fedrecsim::model::{private::Private, table::{Table, TableShape, TableUpdate}};
//! # let shape = TableShape { rows: 1, dimension: 2 };
//! let parameter: Private<Vec<f32>> = Private::new(vec![1.0, 2.0]);
//! let update = TableUpdate::listed(shape, vec![0], &parameter, 1.0);
//! ```
//! ```compile_fail,E0277
//! # use fedrecsim::model::{private::Private, table::{Table, TableShape, TableUpdate}};
//! # let shape = TableShape { rows: 1, dimension: 2 };
//! let parameter: Private<Vec<f32>> = Private::new(vec![1.0, 2.0]);
//! let json = serde_json::to_string(&parameter);
//! ```
//! ```compile_fail,E0308
//! # use fedrecsim::model::{private::Private, table::{Table, TableShape, TableUpdate}};
//! # let shape = TableShape { rows: 1, dimension: 2 };
//! let parameter: Private<Vec<f32>> = Private::new(vec![1.0, 2.0]);
//! let table = Table::from_values(shape, parameter);
//! ```
//! Nor can a frame be made of bytes that no codec wrote:
//! ```compile_fail,E0451
//! use fedrecsim::codec::{Frame, FrameParts};
//! let frame = Frame { bytes: vec![1, 2, 3].into(), parts: FrameParts::default(), holds_values: false };
//! ```

mod bitmap;
mod dense;
mod frame;
mod index;
mod rows;
mod sparse;
#[cfg(test)]
mod tests;
mod varint;

use bytes::Bytes;

pub use dense::DenseF32;
pub use frame::HEADER_BYTES;
pub use rows::RowsF32;
pub use sparse::SparseF32;

use crate::error::Result;
use crate::model::table::{Table, TableShape, TableUpdate, VALUE_BYTES};
use crate::scenario::CodecName;

/// An encoded frame, with its bytes told apart by purpose. Only a [`Codec`] of this crate makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The buffer that travels.
    pub bytes: Bytes,
    /// The parts; they sum to `bytes.len()`.
    pub parts: FrameParts,
    /// Whether the values of the update stand at its end as they were. Nobody else can build what nobody else can name.
    holds_values: bool,
}

impl Frame {
    /// The values of the update that this is the frame of, in the frame's own buffer; `None` where the codec wrote
    /// something else.
    pub fn values(&self) -> Option<Bytes> {
        let start = self.bytes.len() - self.parts.values as usize;
        self.holds_values.then(|| self.bytes.slice(start..))
    }
}

/// Bytes of a frame by purpose, in the order in which they travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FrameParts {
    /// Magic number, codec, shape, scale, checksum.
    pub header: u64,
    /// Which rows or values follow.
    pub index: u64,
    /// The values.
    pub values: u64,
}

/// Turns table updates into frames and back.
pub trait Codec: Send + Sync + std::fmt::Debug {
    /// Encodes `update`. `base` is the table that rows not listed refer to; codecs that send whole tables
    /// read those rows from it.
    ///
    /// # Panics
    /// If [`TableUpdate::check_base`] refuses the update, or if the table has 2^32 rows or columns: a defect
    /// of the caller, never of received data.
    fn encode(&self, update: &TableUpdate, base: &Table) -> Frame;

    /// Decodes a frame that should hold a table of `shape`. The result's values share the frame's buffer
    /// where the format allows it. Memory is bounded by [`decode_bound_bytes`].
    ///
    /// # Errors
    /// [`crate::error::Error::Frame`] for anything but a well-formed, undamaged frame of this codec and shape.
    fn decode(&self, frame: &Bytes, shape: TableShape) -> Result<TableUpdate>;
}

/// The codec of this name.
pub fn of(name: CodecName) -> &'static dyn Codec {
    match name {
        CodecName::DenseF32 => &DenseF32,
        CodecName::RowsF32 => &RowsF32,
        CodecName::SparseF32 => &SparseF32,
    }
}

/// The most that any decoder allocates for a frame that should hold a table of `shape`, whatever the frame
/// says: 4 m k bytes for the table (`sparse-f32`), or 4 m bytes for the list of rows (`rows-f32`). The
/// frame itself is the receiver's already; `dense-f32` allocates nothing.
pub const fn decode_bound_bytes(shape: TableShape) -> usize {
    let entries = if shape.dimension == 0 { shape.rows } else { shape.values() };
    entries.saturating_mul(VALUE_BYTES)
}

/// An update that contradicts itself is a defect of whoever made it: there is no frame that could say it,
/// and a wrong one would be worse than none.
fn require(checked: Result<()>) {
    if let Err(error) = checked {
        panic!("{error}");
    }
}
