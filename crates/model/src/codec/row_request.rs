//! Encodes and decodes a client's request for rows.
//!
//! | bytes | type | field |
//! |---|---|---|
//! | 2 | | magic: `FR` (46 52) |
//! | 1 | u8 | format version: 3 |
//! | 1 | u8 | code of the rows, see [`PositionCode`] |
//! | 4 | u32 | checksum: CRC-32 as in the other formats, of bytes 0 to 3, then 8 to the end |
//! | 1 to 10 | | rows asked for, as a LEB128 integer |
//! | the rest | | the rows in this code, which takes no bytes if all are asked for |

use bytes::Bytes;

use super::frame::{MAGIC, OTHER, open_other, put_checksum};
use super::positions::{self, Places, PositionCode};
use super::{Frame, FrameParts, varint};
use fedrecsim_core::error::Result;

/// The number of bytes in front of the number of rows. The last four are the checksum.
const START_BYTES: usize = 8;

/// Encodes that a client asks for `rows`, which ascend strictly, of a table that has `of_all`.
/// `positions` is the code of the rows; `None` is the shortest.
pub fn encode_row_request(rows: &[u32], of_all: usize, positions: Option<PositionCode>) -> Frame {
    let mut index = Vec::new();
    let code = positions::write(
        &Places {
            held: rows,
            universe: of_all,
        },
        positions,
        &mut index,
    );
    let mut bytes = MAGIC.to_vec();
    bytes.extend([OTHER, code as u8]);
    bytes.resize(START_BYTES, 0);
    varint::write(&mut bytes, rows.len() as u64);
    let header = bytes.len() as u64;
    bytes.extend(&index);
    put_checksum(&mut bytes, START_BYTES - 4);
    let parts = FrameParts {
        header,
        index: index.len() as u64,
        ..FrameParts::default()
    };
    Frame {
        bytes: bytes.into(),
        parts,
    }
}

/// Decodes the rows that a client asks for, of a table that has `of_all`.
///
/// # Errors
/// [`Error::Frame`](fedrecsim_core::error::Error::Frame) for anything but an undamaged frame of [`encode_row_request`] for such a table.
pub fn decode_row_request(frame: &Bytes, of_all: usize) -> Result<Vec<u32>> {
    const WHAT: &str = "a request for rows";
    let (start, mut rest) = open_other::<START_BYTES>(frame, WHAT)?;
    let code = PositionCode::of_number(start[3]).filter(|code| *code != PositionCode::Seed);
    let Some(code) = code else {
        refuse!("{WHAT} has an unknown code of positions");
    };
    let Ok(count) = usize::try_from(varint::read(&mut rest)?) else {
        refuse!("{WHAT} asks for more rows than there are");
    };
    positions::read(code, rest, count, of_all)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// If this fails, the server sends other rows than a client has asked for, or a bit that a
        /// fault turns makes it send others unnoticed.
        #[test]
        fn what_is_asked_for_is_what_is_read(
            rows in proptest::collection::btree_set(0u32..900, 0..300),
            beyond in 0usize..200,
            code in 0usize..6,
            bit in any::<proptest::sample::Index>(),
        ) {
            let rows: Vec<u32> = BTreeSet::into_iter(rows).collect();
            let of_all = rows.last().map_or(0, |last| *last as usize + 1) + beyond;
            let code = PositionCode::CHOICES.get(code).copied();
            let frame = encode_row_request(&rows, of_all, code);
            prop_assert_eq!(frame.parts.total(), frame.bytes.len() as u64);
            prop_assert_eq!(decode_row_request(&frame.bytes, of_all).unwrap(), rows);
            let mut damaged = frame.bytes.to_vec();
            let bit = bit.index(8 * damaged.len());
            damaged[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(decode_row_request(&damaged.into(), of_all).is_err());
        }
    }

    proptest! {
        /// If this fails, a frame that somebody made up stops the server, or is read in two ways.
        #[test]
        fn what_is_read_of_any_bytes_is_what_was_asked_for(
            code in 0u8..8,
            rest in proptest::collection::vec(any::<u8>(), 0..40),
            of_all in 0usize..300,
        ) {
            let mut bytes = [&MAGIC[..], &[OTHER, code, 0, 0, 0, 0], &rest].concat();
            put_checksum(&mut bytes, START_BYTES - 4);
            if let Ok(rows) = decode_row_request(&bytes.into(), of_all) {
                prop_assert!(rows.is_sorted_by(|one, next| one < next));
                prop_assert!(rows.last().is_none_or(|last| (*last as usize) < of_all));
                let again = encode_row_request(&rows, of_all, PositionCode::of_number(code));
                prop_assert_eq!(decode_row_request(&again.bytes, of_all).unwrap(), rows);
            }
        }
    }

    /// If this fails, a catalogue that is asked for as a whole costs a list of all its rows.
    #[test]
    fn all_rows_take_no_bytes_of_positions() {
        let all: Vec<u32> = (0..500).collect();
        let frame = encode_row_request(&all, 500, None);
        assert_eq!((frame.bytes.len(), frame.parts.index), (10, 0));
        assert_eq!(decode_row_request(&frame.bytes, 500).unwrap(), all);
        for other in [&frame.bytes[..7], &[]] {
            assert!(decode_row_request(&Bytes::copy_from_slice(other), 500).is_err());
        }
    }
}
