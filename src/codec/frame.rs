//! The header that all codecs share: written, sealed with a checksum, and strictly parsed.

use std::ops::Range;

use bytes::Bytes;

use super::index::IndexEncoding;
use super::{Frame, FrameParts, bitmap};
use crate::error::{Error, Result};
use crate::model::table::{TableShape, VALUE_BYTES};

/// Bytes of the header.
pub const HEADER_BYTES: usize = 28;

const MAGIC: [u8; 2] = *b"FR";
const VERSION: u8 = 1;
const CHECKSUM: Range<usize> = 24..HEADER_BYTES;

/// The code of a codec in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CodecId {
    Dense = 1,
    Rows = 2,
    Sparse = 3,
}

impl CodecId {
    const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Dense),
            2 => Some(Self::Rows),
            3 => Some(Self::Sparse),
            _ => None,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Dense => "dense-f32",
            Self::Rows => "rows-f32",
            Self::Sparse => "sparse-f32",
        }
    }

    /// How many entries a table of this shape has, and the bytes of one: rows or single values.
    const fn entries(self, shape: TableShape) -> (usize, usize) {
        match self {
            Self::Rows => (shape.rows, VALUE_BYTES * shape.dimension),
            Self::Dense | Self::Sparse => (shape.values(), VALUE_BYTES),
        }
    }
}

/// What the header says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) codec: CodecId,
    pub(super) index: IndexEncoding,
    pub(super) shape: TableShape,
    /// Entries that the frame holds: rows for `rows-f32`, values for the others.
    pub(super) count: usize,
    pub(super) others_scale: f32,
}

/// A frame under construction: header first, then the index, then the values.
#[derive(Debug)]
pub(super) struct Writer {
    bytes: Vec<u8>,
    index_bytes: usize,
    codec: CodecId,
}

impl Writer {
    /// Starts a frame whose index will take `index_bytes`, with all its memory allocated at once.
    ///
    /// # Panics
    /// If the table has more than 2^32 - 1 rows or columns (row numbers have 32 bits in the whole program).
    pub(super) fn new(header: Header, index_bytes: usize) -> Self {
        let (_, entry_bytes) = header.codec.entries(header.shape);
        let mut bytes = Vec::with_capacity(HEADER_BYTES + index_bytes + header.count * entry_bytes);
        let size = |size: usize| match u32::try_from(size) {
            Ok(size) => size.to_le_bytes(),
            Err(_) => panic!("a table of shape {} does not fit the frame's header", header.shape),
        };
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&[VERSION, (header.codec as u8) << 4 | header.index as u8]);
        bytes.extend_from_slice(&size(header.shape.rows));
        bytes.extend_from_slice(&size(header.shape.dimension));
        bytes.extend_from_slice(&(header.count as u64).to_le_bytes());
        bytes.extend_from_slice(&header.others_scale.to_le_bytes());
        bytes.extend_from_slice(&[0; CHECKSUM.end - CHECKSUM.start]);
        Self { bytes, index_bytes, codec: header.codec }
    }

    /// The frame so far; what follows is appended.
    pub(super) fn body(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Writes the checksum.
    pub(super) fn seal(mut self) -> Frame {
        let checksum = checksum(&self.bytes).to_le_bytes();
        self.bytes[CHECKSUM].copy_from_slice(&checksum);
        let parts = FrameParts {
            header: HEADER_BYTES as u64,
            index: self.index_bytes as u64,
            values: (self.bytes.len() - HEADER_BYTES - self.index_bytes) as u64,
        };
        Frame { bytes: self.bytes.into(), parts, holds_values: self.codec == CodecId::Rows }
    }
}

/// A frame whose header, lengths and checksum have been found in order; the index has not been looked at.
#[derive(Debug)]
pub(super) struct Opened<'a> {
    pub(super) index: IndexEncoding,
    pub(super) index_bytes: &'a [u8],
    /// Entries held; the values are exactly as many, and they are no more than the table has.
    pub(super) count: usize,
    pub(super) others_scale: f32,
    /// Where in the frame the values stand: its end.
    pub(super) values: Range<usize>,
}

/// Checks everything about a frame but its index. Allocates nothing.
///
/// # Errors
/// [`Error::Frame`] with a reason of its own for each kind of fault.
pub(super) fn open(frame: &Bytes, codec: CodecId, shape: TableShape) -> Result<Opened<'_>> {
    let refuse = |reason: String| Err(Error::Frame(reason));
    let Some(header) = frame.first_chunk::<HEADER_BYTES>() else {
        return refuse(format!("its {} bytes are fewer than the header's {HEADER_BYTES}", frame.len()));
    };
    if header[..2] != MAGIC {
        return refuse(format!("it starts with {:02x?}, not with {MAGIC:02x?}", &header[..2]));
    }
    if header[2] != VERSION {
        return refuse(format!("its format version is {}, not {VERSION}", header[2]));
    }
    let found = header[3] >> 4;
    if found != codec as u8 {
        let name = CodecId::from_code(found).map_or_else(|| format!("number {found}"), |found| found.name().into());
        return refuse(format!("its codec is {name}, not {}", codec.name()));
    }
    let Some(index) = IndexEncoding::from_code(header[3] & 0xf) else {
        return refuse(format!("its index encoding {} is unknown", header[3] & 0xf));
    };
    if codec == CodecId::Dense && index != IndexEncoding::All {
        return refuse("it has an index, which dense-f32 has not".into());
    }
    let (rows, dimension) = (u32_at(header, 4), u32_at(header, 8));
    if (rows as usize, dimension as usize) != (shape.rows, shape.dimension) {
        return refuse(format!("it holds a {rows} x {dimension} table, not a {shape} one"));
    }
    let (universe, entry_bytes) = codec.entries(shape);
    let declared = u64::from(u32_at(header, 12)) | u64::from(u32_at(header, 16)) << 32;
    let Some(count) = usize::try_from(declared).ok().filter(|&count| count <= universe) else {
        return refuse(format!("it declares {declared} entries of a table of {universe}"));
    };
    if index == IndexEncoding::All && count != universe {
        return refuse(format!("it declares {count} entries of a table of {universe} but has no index"));
    }
    let others_scale = f32::from_bits(u32_at(header, 20));
    if codec != CodecId::Rows && others_scale.to_bits() != 1.0_f32.to_bits() {
        return refuse(format!("it scales rows by {others_scale}, which {} cannot", codec.name()));
    }
    let values = body(frame.len(), index, count, universe, entry_bytes)?;
    let expected = u32::from_le_bytes([header[24], header[25], header[26], header[27]]);
    let found = checksum(frame);
    if found != expected {
        return refuse(format!("its checksum is {found:08x}, not {expected:08x}: it is damaged"));
    }
    Ok(Opened { index, index_bytes: &frame[HEADER_BYTES..values.start], count, others_scale, values })
}

/// Checks that a frame of this length has room for exactly what its header declares; tells where the values are.
fn body(
    frame_bytes: usize,
    index: IndexEncoding,
    count: usize,
    universe: usize,
    entry_bytes: usize,
) -> Result<Range<usize>> {
    let shorter = |expected: String| {
        Err(Error::Frame(format!("it is cut off: {frame_bytes} bytes where its header declares {expected}")))
    };
    let Some(least) = count.checked_mul(entry_bytes).and_then(|values| {
        values.checked_add(HEADER_BYTES)?.checked_add(match index {
            IndexEncoding::All => 0,
            IndexEncoding::Bitmap => bitmap::byte_length(universe),
            // A byte a gap at least; whether the list fills the rest is found out on reading it.
            IndexEncoding::Gaps => count,
        })
    }) else {
        return shorter("more than memory can hold".into());
    };
    if frame_bytes < least {
        return shorter(format!("at least {least}"));
    }
    if frame_bytes > least && index != IndexEncoding::Gaps {
        return Err(Error::Frame(format!("it is followed by {} trailing bytes", frame_bytes - least)));
    }
    Ok(frame_bytes - count * entry_bytes..frame_bytes)
}

fn u32_at(header: &[u8; HEADER_BYTES], at: usize) -> u32 {
    u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

/// CRC-32 (IEEE 802.3) of a frame without its checksum.
fn checksum(frame: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&frame[..CHECKSUM.start]);
    crc.update(&frame[CHECKSUM.end..]);
    crc.finalize()
}
