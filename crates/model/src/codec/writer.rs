//! Writes frames: header, scalars, blocks and checksum.

use super::frame::{
    BLOCKS, FRAME_HEADER_BYTES, HEADER_BYTES, Header, MAGIC, ONE_TABLE, checksum_at, flags_of,
    put_checksum,
};
use super::{BlockCodecs, Frame, FrameParts};
use crate::blocks::{Scalars, Utility};
use crate::layout::Layout;
use fedrecsim_core::memory;

/// Writes a frame block after block, and for each block the header, then the index, then the
/// values.
#[derive(Debug)]
pub struct FrameWriter {
    bytes: Vec<u8>,
    format: u8,
    /// The number of bytes of headers. All other bytes are values.
    header: usize,
    /// The number of bytes of indices.
    index: usize,
}

impl FrameWriter {
    /// Starts a frame of this layout with these scalars.
    pub(super) fn new(layout: &Layout, scalars: &Scalars) -> Self {
        if layout.single_table().is_some() {
            return Self::of_one_table();
        }
        let mut bytes = MAGIC.to_vec();
        // A layout has at most 255 blocks.
        bytes.extend([BLOCKS, layout.blocks().len() as u8, flags_of(layout)]);
        bytes.resize(FRAME_HEADER_BYTES, 0);
        if layout.weighted {
            bytes.extend(scalars.weight.unwrap_or(1.0).to_le_bytes());
        }
        if layout.reports_utility {
            let Utility { loss, ratings } = scalars.utility.unwrap_or_default();
            bytes.extend(loss.to_le_bytes());
            bytes.extend(ratings.to_le_bytes());
        }
        Self {
            bytes,
            format: BLOCKS,
            header: FRAME_HEADER_BYTES,
            index: 0,
        }
    }

    /// Starts a frame that holds one table of single precision.
    pub(super) fn of_one_table() -> Self {
        Self {
            bytes: Vec::new(),
            format: ONE_TABLE,
            header: 0,
            index: 0,
        }
    }

    /// Starts a block whose index takes `index_bytes`, and allocates all its memory at once.
    /// Returns the buffer; the caller must append the index and the values.
    ///
    /// # Panics
    /// If the block has more than 2^32 - 1 rows or columns. It unwinds if there is no memory for
    /// the block.
    pub(super) fn begin_block(&mut self, header: Header, index_bytes: usize) -> &mut Vec<u8> {
        let (_, entry_bytes) = header.codec.entries(header.shape, header.value_type);
        let bytes = &mut self.bytes;
        let length = HEADER_BYTES + index_bytes + header.count * entry_bytes;
        memory::reserve_or_unwind(
            bytes,
            length,
            format_args!("the frame of a {} table", header.shape),
        );
        let size = |size: usize| match u32::try_from(size) {
            Ok(size) => size.to_le_bytes(),
            Err(_) => panic!(
                "a table of shape {} does not fit the frame's header",
                header.shape
            ),
        };
        let codes = (header.codec as u8) << 4 | header.index as u8;
        match self.format {
            ONE_TABLE => {
                bytes.extend_from_slice(&MAGIC);
                bytes.extend_from_slice(&[ONE_TABLE, codes]);
            }
            _ => bytes.extend_from_slice(&[codes, header.value_type as u8, 0, 0]),
        }
        bytes.extend_from_slice(&size(header.shape.rows));
        bytes.extend_from_slice(&size(header.shape.dimension));
        bytes.extend_from_slice(&(header.count as u64).to_le_bytes());
        bytes.extend_from_slice(&header.others_scale.to_le_bytes());
        // A frame of format 1 has its checksum in the place where a block of format 2 has the
        // length of its index.
        bytes.extend_from_slice(&if self.format == ONE_TABLE {
            [0; 4]
        } else {
            size(index_bytes)
        });
        self.header += HEADER_BYTES;
        self.index += index_bytes;
        bytes
    }

    /// Counts bytes of the block that was begun last, which are in the place of values, as bytes of
    /// its header and of its index.
    pub(super) fn count_within_block(&mut self, header: usize, index: usize) {
        self.header += header;
        self.index += index;
    }

    /// Writes the checksum and returns the frame.
    pub(super) fn seal(mut self) -> Frame {
        put_checksum(&mut self.bytes, checksum_at(self.format));
        let parts = FrameParts {
            header: self.header as u64,
            index: self.index as u64,
            values: (self.bytes.len() - self.header - self.index) as u64,
            modelled: 0,
        };
        Frame {
            bytes: self.bytes.into(),
            parts,
        }
    }
}

/// Returns the bytes that the frame of any update of `layout` with these scalars has, by purpose;
/// `None` if that shows only when one is encoded.
pub fn parts_ahead(codecs: &BlockCodecs, layout: &Layout, scalars: &Scalars) -> Option<FrameParts> {
    let start = FrameWriter::new(layout, scalars);
    let mut values = (start.bytes.len() - start.header) as u64;
    for block in layout.blocks() {
        values += codecs.of_block(block).value_bytes_ahead(block)?;
    }
    let header = start.header + layout.blocks().len() * HEADER_BYTES;
    Some(FrameParts {
        header: header as u64,
        index: 0,
        values,
        modelled: 0,
    })
}
