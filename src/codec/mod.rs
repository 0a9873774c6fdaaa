//! Frames: what travels, byte for byte.
//!
//! An encoder turns a [`TableUpdate`] into one buffer; its length is what the network carries, what the
//! ledger books and what takes time on the link (contract 2). The receiver decodes that very buffer.
//!
//! Only [`TableUpdate`] and [`Table`] can be encoded. Private parameters live in types that convert to
//! neither (contract 4).

use bytes::Bytes;

use crate::error::Result;
use crate::model::table::{Table, TableShape, TableUpdate};

/// An encoded frame, with its bytes told apart by purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The buffer that travels.
    pub bytes: Bytes,
    /// The parts; they sum to `bytes.len()`.
    pub parts: FrameParts,
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
    fn encode(&self, update: &TableUpdate, base: &Table) -> Frame;

    /// Decodes a frame that should hold a table of `shape`. The result's values share the frame's buffer
    /// where the format allows it. Memory is bounded by the size of such a table plus the frame's length.
    ///
    /// # Errors
    /// [`crate::error::Error::Frame`] for anything but a well-formed, undamaged frame of this codec and shape.
    fn decode(&self, frame: &Bytes, shape: TableShape) -> Result<TableUpdate>;
}
