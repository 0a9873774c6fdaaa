//! Defines the formats of frames, and parses and checks their headers.

use std::ops::Range;

use bytes::Bytes;

use super::bitmap;
use super::positions::PositionCode;
use crate::model::blocks::{Scalars, Utility};
use crate::model::layout::{BlockLayout, Layout, ValueType};
use crate::model::table::{TableShape, TableUpdate};
use fedrecsim_core::error::{Error, Result};

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

/// Returns the place of the checksum in a frame of this format.
pub(super) const fn checksum_range(format: u8) -> Range<usize> {
    if format == ONE_TABLE { 24..28 } else { 8..12 }
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
    fn from_code(code: u8) -> Option<Self> {
        [Self::Dense, Self::Rows, Self::Sparse, Self::Composed]
            .into_iter()
            .find(|codec| *codec as u8 == code)
    }

    const fn name(self) -> &'static str {
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

/// Holds a block whose header was read, for a codec to check and decode.
#[derive(Debug)]
pub struct OpenedBlock<'a> {
    frame: &'a Bytes,
    integrity: Integrity,
    codes: u8,
    pub(super) shape: TableShape,
    pub(super) value_type: ValueType,
    declared: u64,
    pub(super) others_scale: f32,
    /// The place of index and values: the rest of the frame in format 1, and the part of this block
    /// in format 2.
    body: Range<usize>,
    /// The number of bytes of the index, which only the header of format 2 says.
    index_bytes: Option<usize>,
}

/// Holds a block that is of the expected codec and has exactly as many values as its header
/// declares.
#[derive(Debug)]
pub(super) struct CheckedBlock<'a> {
    pub(super) index: PositionCode,
    pub(super) index_bytes: &'a [u8],
    /// The number of entries held, which is at most the number of entries of the block.
    pub(super) count: usize,
    pub(super) others_scale: f32,
    /// The values, which share the buffer of the frame.
    pub(super) values: Bytes,
}

/// Opens the block of a frame of one table. Allocates nothing. [`OpenedBlock::of_codec`] checks the
/// checksum and everything else in the header.
///
/// # Errors
/// [`Error::Frame`] for a frame that is too short, or of another format.
pub(super) fn open_one_table(
    frame: &Bytes,
    shape: TableShape,
    integrity: Integrity,
) -> Result<OpenedBlock<'_>> {
    let header = start(frame, HEADER_BYTES, ONE_TABLE)?;
    Ok(OpenedBlock {
        frame,
        integrity,
        codes: header[3],
        shape,
        value_type: ValueType::F32,
        declared: u64_at(header, 12),
        others_scale: f32::from_bits(u32_at(header, 20)),
        body: HEADER_BYTES..frame.len(),
        index_bytes: None,
    })
}

/// Returns the bytes of a frame, after checking its length, magic number and format.
fn start(frame: &Bytes, header_bytes: usize, format: u8) -> Result<&[u8]> {
    if frame.len() < header_bytes {
        refuse!(
            "its {} bytes are fewer than the header's {header_bytes}",
            frame.len()
        );
    }
    if frame[..2] != MAGIC {
        refuse!("it starts with {:02x?}, not with {MAGIC:02x?}", &frame[..2]);
    }
    if frame[2] != format {
        refuse!("its format version is {}, not {format}", frame[2]);
    }
    Ok(frame)
}

/// Says whether the bytes of a frame may have changed since they were sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Integrity {
    /// They may have, so that the checksum is computed again.
    Unknown,
    /// They are the very bytes to which the checksum was added in this run, and nothing had a way
    /// to change them.
    Intact,
}

/// Checks the checksum of a frame. Lengths are checked before, so that the error says if a frame
/// was cut off.
pub(super) fn check_sum(frame: &Bytes, integrity: Integrity) -> Result<()> {
    // Builds with checks, as those of the tests, compute the checksum of every frame.
    if integrity == Integrity::Intact && !cfg!(debug_assertions) {
        return Ok(());
    }
    let place = checksum_range(frame[2]);
    let expected = u32_at(frame, place.start);
    let found = checksum(frame, &place);
    if found != expected {
        refuse!("its checksum is {found:08x}, not {expected:08x}: it is damaged");
    }
    Ok(())
}

/// Reads a frame of format 2 from the front.
#[derive(Debug)]
pub(super) struct FrameReader<'a> {
    frame: &'a Bytes,
    at: usize,
}

impl<'a> FrameReader<'a> {
    /// Reads the header and the scalars of a frame that should be of `layout`.
    ///
    /// # Errors
    /// [`Error::Frame`] if the frame is not of this layout, or cut off.
    pub(crate) fn new(frame: &'a Bytes, layout: &Layout) -> Result<(Self, Scalars)> {
        let header = start(frame, FRAME_HEADER_BYTES, BLOCKS)?;
        let blocks = usize::from(header[3]);
        if blocks != layout.blocks().len() {
            refuse!("it has {blocks} blocks, not {}", layout.blocks().len());
        }
        let flags = flags_of(layout);
        if header[4] != flags || header[5..8] != [0; 3] {
            refuse!(
                "its flags are {:02x?}, not [{flags:02x}, 00, 00, 00]",
                &header[4..8]
            );
        }
        let mut reader = Self {
            frame,
            at: FRAME_HEADER_BYTES,
        };
        let mut scalars = Scalars::default();
        if layout.weighted {
            scalars.weight = Some(f32::from_bits(reader.word()?));
        }
        if layout.reports_utility {
            scalars.utility = Some(Utility {
                loss: f32::from_bits(reader.word()?),
                ratings: reader.word()?,
            });
        }
        Ok((reader, scalars))
    }

    fn word(&mut self) -> Result<u32> {
        if self.frame.len() < self.at + 4 {
            refuse!(
                "it is cut off within its scalars, at {} bytes",
                self.frame.len()
            );
        }
        let word = u32_at(self.frame, self.at);
        self.at += 4;
        Ok(word)
    }

    /// Reads the header of the next block, which should be `block`.
    ///
    /// # Errors
    /// [`Error::Frame`] if the block is of another type or codec, or cut off.
    pub(crate) fn open_block(&mut self, block: &BlockLayout) -> Result<OpenedBlock<'a>> {
        let Some(header) = self.frame.get(self.at..self.at + HEADER_BYTES) else {
            refuse!("it is cut off in front of block {}", block.name);
        };
        if header[1] != block.value_type.code() || header[2..4] != [0; 2] {
            refuse!("block {} is of another type than expected", block.name);
        }
        let Some(codec) = CodecId::from_code(header[0] >> 4) else {
            refuse!(
                "the codec of block {} is number {}",
                block.name,
                header[0] >> 4
            );
        };
        let declared = u64_at(header, 12);
        let index_bytes = u32_at(header, 24) as usize;
        let (_, entry_bytes) = codec.entries(block.shape, block.value_type);
        let start = self.at + HEADER_BYTES;
        let values = usize::try_from(declared)
            .ok()
            .and_then(|count| count.checked_mul(entry_bytes));
        let end = values.and_then(|values| values.checked_add(index_bytes)?.checked_add(start));
        let Some(end) = end.filter(|end| *end <= self.frame.len()) else {
            refuse!(
                "it is cut off within block {}, at {} bytes",
                block.name,
                self.frame.len()
            );
        };
        self.at = end;
        Ok(OpenedBlock {
            frame: self.frame,
            // The checksum is that of the whole frame, after its last block.
            integrity: Integrity::Unknown,
            codes: header[0],
            shape: block.shape,
            value_type: block.value_type,
            declared,
            others_scale: f32::from_bits(u32_at(header, 20)),
            body: start..end,
            index_bytes: Some(index_bytes),
        })
    }

    /// Checks that nothing follows the last block.
    ///
    /// # Errors
    /// [`Error::Frame`] if something does.
    pub(crate) fn finish(self) -> Result<()> {
        if self.at != self.frame.len() {
            refuse!(
                "it is followed by {} trailing bytes",
                self.frame.len() - self.at
            );
        }
        Ok(())
    }
}

impl<'a> OpenedBlock<'a> {
    /// Checks that the block is a well-formed one of `codec`, except for the contents of its index.
    /// Allocates nothing.
    ///
    /// # Errors
    /// [`Error::Frame`], with a different reason for each kind of fault.
    pub(super) fn of_codec(&self, codec: CodecId) -> Result<CheckedBlock<'a>> {
        let found = self.codes >> 4;
        if found != codec as u8 {
            let name = CodecId::from_code(found)
                .map_or_else(|| format!("number {found}"), |found| found.name().into());
            refuse!("its codec is {name}, not {}", codec.name());
        }
        let Some(index) = PositionCode::plain(self.codes & 0xf) else {
            refuse!("its index encoding {} is unknown", self.codes & 0xf);
        };
        if codec == CodecId::Dense && index != PositionCode::All {
            refuse!("it has an index, which dense-f32 has not");
        }
        let at = self.body.start - HEADER_BYTES;
        let (rows, dimension) = (u32_at(self.frame, at + 4), u32_at(self.frame, at + 8));
        let shape = self.shape;
        if (rows as usize, dimension as usize) != (shape.rows, shape.dimension) {
            refuse!("it holds a {rows} x {dimension} table, not a {shape} one");
        }
        let (universe, entry_bytes) = codec.entries(shape, self.value_type);
        let declared = self.declared;
        let Some(count) = usize::try_from(declared)
            .ok()
            .filter(|&count| count <= universe)
        else {
            refuse!("it declares {declared} entries of a table of {universe}");
        };
        if index == PositionCode::All && count != universe && codec != CodecId::Composed {
            refuse!("it declares {count} entries of a table of {universe} but has no index");
        }
        let others_scale = self.others_scale;
        let scales =
            matches!(codec, CodecId::Rows | CodecId::Composed) && self.value_type == ValueType::F32;
        if !scales && others_scale.to_bits() != 1.0_f32.to_bits() {
            refuse!(
                "it scales rows by {others_scale}, which {} cannot",
                codec.name()
            );
        }
        let values = self.values(index, count, universe, entry_bytes)?;
        if self.index_bytes.is_none() {
            check_sum(self.frame, self.integrity)?;
        }
        let index_bytes = &self.frame[self.body.start..values.start];
        Ok(CheckedBlock {
            index,
            index_bytes,
            count,
            others_scale,
            values: self.frame.slice(values),
        })
    }

    /// Returns the place of the values, after checking that there is room for exactly what the
    /// header declares.
    fn values(
        &self,
        index: PositionCode,
        count: usize,
        universe: usize,
        entry_bytes: usize,
    ) -> Result<Range<usize>> {
        let available = self.body.len();
        let shorter = |expected: String| {
            let bytes = HEADER_BYTES + available;
            Err(Error::Frame(format!(
                "it is cut off: {bytes} bytes where its header declares {expected}"
            )))
        };
        let fixed_index = match index {
            PositionCode::All => Some(0),
            PositionCode::Bitmap => Some(bitmap::byte_length(universe)),
            // A gap takes at least a byte. Reading the list shows whether it fills its place.
            _ => None,
        };
        if let (Some(fixed), Some(said)) = (fixed_index, self.index_bytes)
            && fixed != said
        {
            refuse!("its index has {said} bytes where {fixed} are needed");
        }
        let least_index = fixed_index.or(self.index_bytes).unwrap_or(count);
        let least = count
            .checked_mul(entry_bytes)
            .and_then(|values| values.checked_add(least_index));
        let Some(least) = least.filter(|least| least.checked_add(HEADER_BYTES).is_some()) else {
            return shorter("more than memory can hold".into());
        };
        if available < least {
            return shorter(format!("at least {}", HEADER_BYTES + least));
        }
        // In format 1 the list of gaps takes whatever the values leave.
        let is_open_ended = self.index_bytes.is_none() && index == PositionCode::Gaps;
        if available > least && !is_open_ended {
            refuse!("it is followed by {} trailing bytes", available - least);
        }
        Ok(self.body.end - count * entry_bytes..self.body.end)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// Returns the CRC-32 (IEEE 802.3) of a frame without its checksum.
pub(super) fn checksum(frame: &[u8], place: &Range<usize>) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&frame[..place.start]);
    crc.update(&frame[place.end..]);
    crc.finalize()
}

/// Writes the checksum of a frame into its place.
pub(super) fn put_checksum(frame: &mut [u8], place: Range<usize>) {
    let checksum = checksum(frame, &place).to_le_bytes();
    frame[place].copy_from_slice(&checksum);
}
