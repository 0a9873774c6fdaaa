//! What must hold for any bytes that a decoder is given. Shared by the fuzz target `decode`
//! (`fuzz/fuzz_targets/decode.rs`) and by the test that replays its interesting inputs.
//!
//! An input is a prefix of four bytes and a frame:
//!
//! | byte | meaning |
//! |---|---|
//! | 0 | codec: `dense-f32`, `rows-f32`, `sparse-f32`, by the remainder of 3 |
//! | 1 | rows expected, low eight bits |
//! | 2 | columns expected, by the remainder of 32 |
//! | 3 | bit 0: mend the frame's magic number, version, codec and shape; bit 1: mend its checksum; bits 4 to 7: rows expected, high bits |
//!
//! Without mending no fuzzer gets past a checksum.

use bytes::Bytes;
use fedrecsim::codec::{self, HEADER_BYTES};
use fedrecsim::error::Error;
use fedrecsim::model::table::{RowSet, Table, TableShape, TableUpdate};
use fedrecsim::scenario::CodecName;

const CODECS: [CodecName; 3] = [CodecName::DenseF32, CodecName::RowsF32, CodecName::SparseF32];

/// Bytes before the frame.
pub const PREFIX_BYTES: usize = 4;

/// Decodes an input and checks what comes out.
///
/// # Errors
/// The decoder's, if it refuses the frame.
///
/// # Panics
/// If anything that must hold does not.
pub fn check(input: &[u8]) -> Result<TableUpdate, Error> {
    let Some((&[codec, rows, dimension, flags], frame)) = input.split_first_chunk::<PREFIX_BYTES>() else {
        return Err(Error::Frame("no prefix".into()));
    };
    let codec_index = usize::from(codec % 3);
    let shape =
        TableShape { rows: usize::from(rows) | usize::from(flags >> 4) << 8, dimension: usize::from(dimension % 32) };
    let mut frame = frame.to_vec();
    mend(&mut frame, codec_index, shape, flags);
    let frame = Bytes::from(frame);
    let name = CODECS[codec_index];
    let codec = codec::of(name);
    let update = codec.decode(&frame, shape).inspect_err(|error| {
        assert!(matches!(error, Error::Frame(_)), "not an error of frames: {error:?}");
    })?;

    assert_eq!(update.shape, shape);
    update.check().expect("a decoded update holds together");
    check_memory(&frame, &update);

    // One factor that is not 1, so that rows which are not listed are computed; one base for all.
    let base = Table::from_values(shape, (0..shape.values()).map(|value| value as f32 - 100.5).collect()).unwrap();
    let again = codec.encode(&update, &base);
    assert!(again.bytes.len() <= frame.len(), "{} bytes became {}", frame.len(), again.bytes.len());
    let parts = again.parts;
    assert_eq!(parts.header + parts.index + parts.values, again.bytes.len() as u64);
    let decoded = codec.decode(&again.bytes, shape).expect("what was encoded decodes");
    assert_eq!(decoded.values, update.values);
    assert_eq!(decoded.others_scale.to_bits(), update.others_scale.to_bits());
    assert!(decoded.iter().map(|(row, _)| row).eq(update.iter().map(|(row, _)| row)), "other rows");

    if !update.others_scale.is_nan() {
        let table = bits(&update, &base);
        for other in CODECS {
            let frame = codec::of(other).encode(&update, &base).bytes;
            let decoded = codec::of(other).decode(&frame, shape).expect("what was encoded decodes");
            assert!(bits(&decoded, &base) == table, "{other:?} disagrees with {name:?}");
        }
    }
    check_damage(&frame, name, shape);
    Ok(update)
}

/// Overwrites what the flags ask for; the count, the index and the values stay as given.
fn mend(frame: &mut [u8], codec_index: usize, shape: TableShape, flags: u8) {
    if frame.len() < HEADER_BYTES {
        return;
    }
    if flags & 1 != 0 {
        frame[..3].copy_from_slice(b"FR\x01");
        frame[3] = (codec_index as u8 + 1) << 4 | frame[3] & 0xf;
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

fn check_memory(frame: &Bytes, update: &TableUpdate) {
    let listed = match &update.rows {
        RowSet::All => 0,
        RowSet::Listed(rows) => 4 * rows.capacity(),
    };
    let shared = update.values.is_empty() || frame.as_ptr_range().contains(&update.values.as_ptr());
    let own = if shared { 0 } else { update.values.len() };
    assert!(listed + own <= codec::decode_bound_bytes(update.shape), "{listed} + {own} bytes for {}", update.shape);
}

fn check_damage(frame: &Bytes, name: CodecName, shape: TableShape) {
    // The bit is taken from the checksum, so that every input damages another one.
    let bit = u32::from_le_bytes([frame[24], frame[25], frame[26], frame[27]]) as usize % (8 * frame.len());
    let mut damaged = frame.to_vec();
    damaged[bit / 8] ^= 1 << (bit % 8);
    assert!(codec::of(name).decode(&damaged.into(), shape).is_err(), "bit {bit} is not covered");
}

fn bits(update: &TableUpdate, base: &Table) -> Vec<u32> {
    let table = update.apply(base).expect("a decoded update applies");
    table.as_slice().iter().map(|value| value.to_bits()).collect()
}
