//! Defines the formats of frames and of the headers of blocks, and their checksum.

use bytes::Bytes;

use super::positions::PositionCode;
use crate::layout::{Layout, ValueType};
use crate::table::{TableShape, TableUpdate};
use fedrecsim_core::error::Result;

/// The number of bytes of the header of a block, which is the only header of a frame of format 1.
pub const HEADER_BYTES: usize = 28;

/// The number of bytes in front of the scalars and blocks of a frame of format 2.
pub(super) const FRAME_HEADER_BYTES: usize = 12;

/// The first bytes of every frame.
pub(super) const MAGIC: [u8; 2] = *b"FR";
/// The format of a frame that holds one table of single precision and nothing else.
pub(super) const ONE_TABLE: u8 = 1;
/// The format of a frame with scalars and any number of blocks of any type.
pub(super) const BLOCKS: u8 = 2;

/// The format of frames that hold no update: requests for rows, and frames of frames.
pub(super) const OTHER: u8 = 3;

/// Returns the place of the four bytes of the checksum in a frame of this format.
pub(super) const fn checksum_at(format: u8) -> usize {
    if format == ONE_TABLE { 24 } else { 8 }
}

/// The flag of a frame of format 2 that has a weight.
pub(super) const HAS_WEIGHT: u8 = 1;
/// The flag of a frame of format 2 that has the report of the client's loss.
pub(super) const HAS_UTILITY: u8 = 2;

/// Returns the flags that say which scalars a frame of this layout has.
pub(super) fn flags_of(layout: &Layout) -> u8 {
    HAS_WEIGHT * u8::from(layout.weighted) + HAS_UTILITY * u8::from(layout.reports_utility)
}

/// Names the codec of a block. The discriminant is its code in the header of the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CodecId {
    Dense = 1,
    Rows = 2,
    Sparse = 3,
    Composed = 4,
}

impl CodecId {
    pub(super) fn from_code(code: u8) -> Option<Self> {
        [Self::Dense, Self::Rows, Self::Sparse, Self::Composed]
            .into_iter()
            .find(|codec| *codec as u8 == code)
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Dense => "dense-f32",
            Self::Rows => "rows-f32",
            Self::Sparse => "sparse-f32",
            Self::Composed => "composed",
        }
    }

    /// Returns the number of entries of a block of this shape, which are rows or single values, and
    /// the bytes of one. A composed block consists of bytes, whose number nothing but the frame
    /// limits.
    pub(super) const fn entries(self, shape: TableShape, value_type: ValueType) -> (usize, usize) {
        match self {
            Self::Rows => (shape.rows, value_type.bytes() * shape.dimension),
            Self::Dense | Self::Sparse => (shape.values(), value_type.bytes()),
            Self::Composed => (usize::MAX, 1),
        }
    }
}

/// Holds what the header of a block says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) codec: CodecId,
    pub(super) index: PositionCode,
    pub(super) shape: TableShape,
    pub(super) value_type: ValueType,
    /// The number of entries that the block holds, which are rows for `rows-f32` and values for the
    /// other codecs.
    pub(super) count: usize,
    pub(super) others_scale: f32,
}

impl Header {
    /// Describes a block of `update` that holds `count` entries. Only codecs that list rows say how
    /// the others are scaled.
    pub(super) fn of(
        update: &TableUpdate,
        codec: CodecId,
        index: PositionCode,
        count: usize,
    ) -> Self {
        let others_scale = match codec {
            CodecId::Rows | CodecId::Composed => update.others_scale,
            CodecId::Dense | CodecId::Sparse => 1.0,
        };
        Self {
            codec,
            index,
            shape: update.shape,
            value_type: update.value_type,
            count,
            others_scale,
        }
    }
}

/// Says whether the bytes of a frame may have changed since they were sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Integrity {
    /// They may have, so that the checksum is computed again.
    Unknown,
    /// These are the very bytes that this run checksummed, and nothing could change them since.
    Intact,
}

/// Checks the checksum of a frame. Lengths are checked before, so that the error says if a frame
/// was cut off.
pub(super) fn check_sum(frame: &Bytes, integrity: Integrity) -> Result<()> {
    // Builds with checks, as those of the tests, compute the checksum of every frame.
    if integrity == Integrity::Intact && !cfg!(debug_assertions) {
        return Ok(());
    }
    let at = checksum_at(frame[2]);
    let expected = u32_at(frame, at);
    let found = u32::from_le_bytes(checksum(frame, at));
    if found != expected {
        refuse!("its checksum is {found:08x}, not {expected:08x}: it is damaged");
    }
    Ok(())
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// Returns the CRC-32 (IEEE 802.3) of a frame without its checksum, which is at `at`.
pub(super) fn checksum(frame: &[u8], at: usize) -> [u8; 4] {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&frame[..at]);
    crc.update(&frame[at + 4..]);
    crc.finalize().to_le_bytes()
}

/// Writes the checksum of a frame into its place.
pub(super) fn put_checksum(frame: &mut [u8], at: usize) {
    let checksum = checksum(frame, at);
    frame[at..at + 4].copy_from_slice(&checksum);
}

/// Splits a frame of format [`OTHER`] behind its header of N bytes, which ends in the checksum.
/// `what` is the frame in messages.
///
/// # Errors
/// [`Error::Frame`](fedrecsim_core::error::Error::Frame) for a frame that is too short, of another format, or damaged.
pub(super) fn open_other<'f, const N: usize>(
    frame: &'f Bytes,
    what: &str,
) -> Result<(&'f [u8; N], &'f [u8])> {
    let Some((header, rest)) = frame.split_first_chunk::<N>() else {
        refuse!("{what} is cut off");
    };
    if header[..2] != MAGIC || header[2] != OTHER {
        refuse!("{what} has another magic number or format version than expected");
    }
    if header[N - 4..] != checksum(frame, N - 4) {
        refuse!("{what} has a wrong checksum: it is damaged");
    }
    Ok((header, rest))
}
