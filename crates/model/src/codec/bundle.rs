//! Puts the differences between versions of a model into one frame, which brings a receiver from an
//! earlier version to a later one.
//!
//! This is **format 3**. Integers are little-endian, or LEB128 where it says so.
//!
//! | offset | bytes | type | field |
//! |---|---|---|---|
//! | 0 | 2 | | magic: `FR` (46 52) |
//! | 2 | 1 | u8 | format version: 3 |
//! | 3 | 1 | u8 | what the receiver begins with: 0 a version that it has, 1 the first of the frames, 2 a seed |
//! | 4 | 4 | u32 | frames |
//! | 8 | 4 | u32 | checksum: CRC-32 as in the other formats, of bytes 0 to 7, then 12 to the end |
//! | 12 | 0 or 8 | u64 | the seed |
//! | | | | for each frame the number of its version and its length in bytes (LEB128), then the frame |
//!
//! A receiver that already has a later version than the sender knows skips the frames up to its
//! own.

use bytes::Bytes;

use super::frame::{MAGIC, OTHER, open_other, put_checksum};
use super::{Frame, FrameParts, varint};
use fedrecsim_core::error::{Error, Result};

/// The bytes in front of the seed and the frames. The last four are the checksum.
const HEADER_BYTES: usize = 12;

/// Says what the receiver starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// A version that the receiver has.
    Held,
    /// The first of the frames, which holds a whole model.
    Whole,
    /// The method's initial model, which the receiver draws from this seed.
    Seed(u64),
}

/// Puts frames together, each with the number of the version that it leads to.
pub fn bundle<'f>(
    beginning: Beginning,
    versions: impl Iterator<Item = (u32, &'f Frame)> + Clone,
) -> Frame {
    let code = match beginning {
        Beginning::Held => 0,
        Beginning::Whole => 1,
        Beginning::Seed(_) => 2,
    };
    let mut bytes = MAGIC.to_vec();
    bytes.extend([OTHER, code]);
    bytes.extend((versions.clone().count() as u32).to_le_bytes());
    bytes.extend([0; 4]);
    let parts = bundle_parts(beginning, versions.clone());
    if let Beginning::Seed(seed) = beginning {
        bytes.extend(seed.to_le_bytes());
    }
    for (number, frame) in versions {
        varint::write(&mut bytes, u64::from(number));
        varint::write(&mut bytes, frame.bytes.len() as u64);
        bytes.extend(&frame.bytes);
    }
    put_checksum(&mut bytes, HEADER_BYTES - 4);
    Frame {
        bytes: bytes.into(),
        parts,
    }
}

/// Returns the bytes by purpose of what [`bundle`] makes.
pub fn bundle_parts<'f>(
    beginning: Beginning,
    versions: impl Iterator<Item = (u32, &'f Frame)>,
) -> FrameParts {
    let mut parts = FrameParts {
        header: HEADER_BYTES as u64,
        ..FrameParts::default()
    };
    if matches!(beginning, Beginning::Seed(_)) {
        parts.values += size_of::<u64>() as u64;
    }
    for (number, frame) in versions {
        parts.header +=
            (varint::length(u64::from(number)) + varint::length(frame.bytes.len() as u64)) as u64;
        parts.header += frame.parts.header;
        parts.index += frame.parts.index;
        parts.values += frame.parts.values;
    }
    parts
}

/// Reads what [`bundle`] has put together: what the receiver starts from, and the versions that the
/// frames lead to, ascending, each with its frame.
///
/// # Errors
/// [`Error::Frame`] for anything else, such as a frame that was damaged.
pub fn unbundle(frame: &Bytes) -> Result<(Beginning, Vec<(u32, Bytes)>)> {
    const WHAT: &str = "a frame of changes";
    let cut_off = || Error::Frame(format!("{WHAT} is cut off"));
    let (header, mut rest) = open_other::<HEADER_BYTES>(frame, WHAT)?;
    let count = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
    let beginning = match header[3] {
        0 => Beginning::Held,
        1 if count > 0 => Beginning::Whole,
        2 => {
            let seed;
            (seed, rest) = rest.split_first_chunk().ok_or_else(cut_off)?;
            Beginning::Seed(u64::from_le_bytes(*seed))
        }
        _ => refuse!("{WHAT} has no beginning"),
    };
    let mut versions: Vec<(u32, Bytes)> = Vec::new();
    for _ in 0..count {
        let Ok(number) = u32::try_from(varint::read(&mut rest)?) else {
            refuse!("{WHAT} has a version out of range");
        };
        if versions.last().is_some_and(|(last, _)| *last >= number) {
            refuse!("{WHAT} has versions that do not ascend");
        }
        let length = usize::try_from(varint::read(&mut rest)?).map_err(|_| cut_off())?;
        let own;
        (own, rest) = rest.split_at_checked(length).ok_or_else(cut_off)?;
        versions.push((number, frame.slice_ref(own)));
    }
    if !rest.is_empty() {
        refuse!("{WHAT} has bytes left over");
    }
    Ok((beginning, versions))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    fn frame(length: usize, fill: u8) -> Frame {
        let parts = FrameParts {
            header: 1,
            index: length as u64 / 3,
            values: (length - 1 - length / 3) as u64,
            modelled: 0,
        };
        Frame {
            bytes: vec![fill; length].into(),
            parts,
        }
    }

    fn beginnings() -> impl Strategy<Value = Beginning> {
        prop_oneof![
            Just(Beginning::Held),
            Just(Beginning::Whole),
            any::<u64>().prop_map(Beginning::Seed)
        ]
    }

    proptest! {
        /// If this fails, a device that is versions behind gets other changes than were made, or
        /// their bytes are not those that are booked.
        #[test]
        fn frames_come_back_with_their_versions(
            beginning in beginnings(),
            lengths in prop::collection::btree_map(any::<u32>(), 2usize..300, 1..5),
        ) {
            let frames: Vec<(u32, Frame)> = lengths.iter().map(|(number, length)| (*number, frame(*length, 7))).collect();
            let versions = frames.iter().map(|(number, frame)| (*number, frame));
            let whole = bundle(beginning, versions.clone());
            prop_assert_eq!(whole.parts, bundle_parts(beginning, versions));
            prop_assert_eq!(whole.parts.total(), whole.bytes.len() as u64);
            let read = unbundle(&whole.bytes).unwrap();
            prop_assert_eq!(read.0, beginning);
            let expected: Vec<(u32, Bytes)> = frames.into_iter().map(|(number, frame)| (number, frame.bytes)).collect();
            prop_assert_eq!(read.1, expected);
            for bit in 0..8 * whole.bytes.len() {
                let mut damaged = whole.bytes.to_vec();
                damaged[bit / 8] ^= 1 << (bit % 8);
                prop_assert!(unbundle(&damaged.into()).is_err(), "bit {} is not covered", bit);
            }
            for length in 0..whole.bytes.len() {
                prop_assert!(unbundle(&whole.bytes.slice(..length)).is_err());
            }
        }

        /// If this fails, a hostile frame crashes its receiver.
        #[test]
        fn any_bytes_are_read_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(header) = bytes.first_chunk_mut::<HEADER_BYTES>() {
                header[..3].copy_from_slice(&[MAGIC[0], MAGIC[1], OTHER]);
                header[3] %= 4;
                header[5..8].fill(0);
                put_checksum(&mut bytes, HEADER_BYTES - 4);
            }
            let _ = unbundle(&bytes.into());
        }
    }
}
