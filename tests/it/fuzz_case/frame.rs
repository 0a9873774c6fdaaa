//! Checks what must hold for any bytes that a frame decoder is given. The fuzz targets `decode-...`
//! and the test that replays recorded inputs share it.
//!
//! An input is a prefix of three bytes and a frame:
//!
//! | byte | meaning |
//! |---|---|
//! | 0 | rows expected, low eight bits |
//! | 1 | columns expected, by the remainder of 20 |
//! | 2 | bit 0: mend the frame's magic number, version, codec and shape; bit 1: mend its checksum; bits 6 and 7: rows expected, high bits |
//!
//! Without mending, no fuzzer would get past a checksum. The largest table has 19,437 values, so
//! that a gap in its index may take three bytes.

use bytes::Bytes;
use fedrecsim_core::{Error, Result};
use fedrecsim_model::codec::{self, Codec, HEADER_BYTES};
use fedrecsim_model::{Table, TableShape, TableUpdate};
use fedrecsim_scenario::CodecName;

const CODECS: [CodecName; 3] = [
    CodecName::DenseF32,
    CodecName::RowsF32,
    CodecName::SparseF32,
];

/// Number of bytes before the frame.
pub const PREFIX_BYTES: usize = 3;

/// Number of bytes that a decoder may allocate beyond its bound, for the text of its error, twice
/// while it grows, or for the counter of a shared buffer.
const SLACK_BYTES: u64 = 512;

/// Decodes an input and checks what comes out.
///
/// # Errors
/// Returns the error of the decoder, if it refuses the frame.
///
/// # Panics
/// Panics if anything that must hold does not.
pub fn check(name: CodecName, input: &[u8]) -> Result<TableUpdate> {
    let Some((&[rows, columns, flags], frame)) = input.split_first_chunk::<PREFIX_BYTES>() else {
        return Err(Error::Frame("no prefix".into()));
    };
    let rows = usize::from(rows) | usize::from(flags >> 6) << 8;
    let shape = TableShape {
        rows,
        dimension: usize::from(columns % 20),
    };
    let mut frame = frame.to_vec();
    mend(&mut frame, name, shape, flags);
    let frame = Bytes::from(frame);
    let update = decode(name, &frame, shape)?;

    assert_eq!(update.shape, shape);
    update.check().expect("a decoded update holds together");
    // The factors are not 1, so that rows which are not listed are computed; all frames have the
    // same base.
    let base = Table::new(
        shape,
        (0..shape.values())
            .map(|value| value as f32 - 100.5)
            .collect(),
    );
    check_round_trip(name, &frame, &update, &base);
    if !update.others_scale.is_nan() {
        check_other_codecs(name, &update, &base);
    }
    check_damage(name, &frame, shape);
    Ok(update)
}

/// Decodes `frame` within the memory that [`codec::decode_bound_bytes`] promises.
fn decode(name: CodecName, frame: &Bytes, shape: TableShape) -> Result<TableUpdate> {
    let mut decoded = None;
    let memory = allocation_counter::measure(|| decoded = Some(name.decode(frame, shape)));
    let bound = codec::decode_bound_bytes(shape) as u64;
    assert!(
        memory.bytes_total <= bound + SLACK_BYTES,
        "{} bytes allocated for {shape}",
        memory.bytes_total
    );
    decoded.unwrap().inspect_err(|error| {
        assert!(
            matches!(error, Error::Frame(_)),
            "not an error of frames: {error:?}"
        );
    })
}

/// Repairs the fields that the flags ask for; the count, the index and the values stay as given.
fn mend(frame: &mut [u8], name: CodecName, shape: TableShape, flags: u8) {
    if frame.len() < HEADER_BYTES {
        return;
    }
    if flags & 1 != 0 {
        let code = match name {
            CodecName::DenseF32 => 1,
            CodecName::RowsF32 => 2,
            CodecName::SparseF32 => 3,
        };
        frame[..3].copy_from_slice(b"FR\x01");
        frame[3] = code << 4 | frame[3] & 0xf;
        frame[4..8].copy_from_slice(&(shape.rows as u32).to_le_bytes());
        frame[8..12].copy_from_slice(&(shape.dimension as u32).to_le_bytes());
    }
    if flags & 2 != 0 {
        let mut crc = crc32fast::Hasher::new();
        crc.update(&frame[..24]);
        crc.update(&frame[28..]);
        frame[24..28].copy_from_slice(&crc.finalize().to_le_bytes());
    }
}

/// Checks that what was decoded encodes to the same frame, or to a smaller one with the same
/// content.
fn check_round_trip(name: CodecName, frame: &Bytes, update: &TableUpdate, base: &Table) {
    let again = name.encode(update, base);
    let parts = again.parts;
    assert_eq!(
        parts.header + parts.index + parts.values,
        again.bytes.len() as u64
    );
    if again.bytes == frame {
        return;
    }
    // A frame may have an index that is larger than necessary, or list rows that it could leave
    // out.
    assert!(
        again.bytes.len() <= frame.len(),
        "{} bytes became {}",
        frame.len(),
        again.bytes.len()
    );
    let decoded = decode(name, &again.bytes, update.shape).expect("what was encoded decodes");
    assert_eq!(decoded.values, update.values);
    assert_eq!(
        decoded.others_scale.to_bits(),
        update.others_scale.to_bits()
    );
    assert!(
        decoded
            .iter()
            .map(|(row, _)| row)
            .eq(update.iter().map(|(row, _)| row)),
        "other rows"
    );
}

/// Checks that the other codecs carry the same table.
fn check_other_codecs(name: CodecName, update: &TableUpdate, base: &Table) {
    let table = bits(update, base);
    for other in CODECS.into_iter().filter(|other| *other != name) {
        let frame = other.encode(update, base).bytes;
        let decoded = decode(other, &frame, update.shape).expect("what was encoded decodes");
        assert!(
            bits(&decoded, base) == table,
            "{other:?} disagrees with {name:?}"
        );
    }
}

/// Checks that a flipped bit is noticed.
fn check_damage(name: CodecName, frame: &Bytes, shape: TableShape) {
    // The place of the bit is taken from the checksum, so that every input flips another one.
    let bit = u32::from_le_bytes([frame[24], frame[25], frame[26], frame[27]]) as usize
        % (8 * frame.len());
    let mut damaged = frame.to_vec();
    damaged[bit / 8] ^= 1 << (bit % 8);
    assert!(
        decode(name, &damaged.into(), shape).is_err(),
        "bit {bit} is not covered"
    );
}

fn bits(update: &TableUpdate, base: &Table) -> Vec<u32> {
    let table = update.apply(Some(base)).expect("a decoded update applies");
    table
        .as_slice()
        .iter()
        .map(|value| value.to_bits())
        .collect()
}
