//! Reads frames: header, scalars and blocks.

use std::ops::Range;

use bytes::Bytes;

use super::bitmap;
use super::frame::{
    BLOCKS, CodecId, FRAME_HEADER_BYTES, HEADER_BYTES, Integrity, MAGIC, ONE_TABLE, check_sum,
    flags_of, u32_at, u64_at,
};
use super::positions::PositionCode;
use crate::blocks::{Scalars, Utility};
use crate::layout::{BlockLayout, Layout, ValueType};
use crate::table::TableShape;
use fedrecsim_core::error::Result;

/// Returns the number of blocks that `frame` says it has, as far as its header can be read.
pub fn blocks_in(frame: &Bytes) -> Option<usize> {
    match *frame.get(2)? {
        ONE_TABLE => Some(1),
        BLOCKS => frame.get(3).map(|blocks| usize::from(*blocks)),
        _ => None,
    }
}

/// Opens the block of a frame of one table. Allocates nothing. [`OpenedBlock::of_codec`] checks the
/// checksum and everything else in the header.
///
/// # Errors
/// [`Error::Frame`](fedrecsim_core::error::Error::Frame) for a frame that is too short, or of another format.
pub(super) fn open_one_table(
    frame: &Bytes,
    shape: TableShape,
    integrity: Integrity,
) -> Result<OpenedBlock<'_>> {
    check_start(frame, HEADER_BYTES, ONE_TABLE)?;
    Ok(OpenedBlock {
        frame,
        integrity,
        codes: frame[3],
        shape,
        value_type: ValueType::F32,
        body: HEADER_BYTES..frame.len(),
        index_bytes: None,
    })
}

/// Checks the length, the magic number and the format of a frame.
fn check_start(frame: &Bytes, header_bytes: usize, format: u8) -> Result<()> {
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
        check_start(frame, FRAME_HEADER_BYTES, BLOCKS)?;
        let blocks = usize::from(frame[3]);
        if blocks != layout.blocks().len() {
            refuse!("it has {blocks} blocks, not {}", layout.blocks().len());
        }
        let flags = flags_of(layout);
        if frame[4..8] != [flags, 0, 0, 0] {
            refuse!(
                "its flags are {:02x?}, not [{flags:02x}, 00, 00, 00]",
                &frame[4..8]
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
        if header[1] != block.value_type as u8 || header[2..4] != [0; 2] {
            refuse!("block {} is of another type than expected", block.name);
        }
        let Some(codec) = CodecId::from_code(header[0] >> 4) else {
            refuse!(
                "the codec of block {} is number {}",
                block.name,
                header[0] >> 4
            );
        };
        let index_bytes = u32_at(header, 24) as usize;
        let (_, entry_bytes) = codec.entries(block.shape, block.value_type);
        let start = self.at + HEADER_BYTES;
        let values = usize::try_from(u64_at(header, 12))
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

/// Holds a block whose header was read, for a codec to check and decode.
#[derive(Debug)]
pub struct OpenedBlock<'a> {
    frame: &'a Bytes,
    integrity: Integrity,
    codes: u8,
    pub(super) shape: TableShape,
    pub(super) value_type: ValueType,
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
        let declared = u64_at(self.frame, at + 12);
        let Some(count) = usize::try_from(declared)
            .ok()
            .filter(|&count| count <= universe)
        else {
            refuse!("it declares {declared} entries of a table of {universe}");
        };
        if index == PositionCode::All && count != universe && codec != CodecId::Composed {
            refuse!("it declares {count} entries of a table of {universe} but has no index");
        }
        let others_scale = f32::from_bits(u32_at(self.frame, at + 20));
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
        // What memory cannot hold, no frame has.
        let values = count.saturating_mul(entry_bytes);
        let index_bytes = match (index, self.index_bytes) {
            (PositionCode::All, _) => 0,
            (PositionCode::Bitmap, _) => bitmap::byte_length(universe),
            (_, Some(said)) => said,
            // In format 1 the list of gaps takes the bytes that the values leave, at least one for
            // each gap. Reading the list shows whether it fills its place.
            (_, None) => available.saturating_sub(values).max(count),
        };
        if let Some(said) = self.index_bytes.filter(|said| *said != index_bytes) {
            refuse!("its index has {said} bytes where {index_bytes} are needed");
        }
        let expected = values.saturating_add(index_bytes);
        if available < expected {
            refuse!(
                "it is cut off: {} bytes where its header declares at least {}",
                HEADER_BYTES + available,
                expected.saturating_add(HEADER_BYTES)
            );
        }
        if available > expected {
            refuse!("it is followed by {} trailing bytes", available - expected);
        }
        Ok(self.body.end - values..self.body.end)
    }
}
