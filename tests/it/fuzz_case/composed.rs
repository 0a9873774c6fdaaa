//! Checks what must hold for any bytes that a decoder of composed blocks is given, or of a frame of
//! frames. The fuzz targets `decode-composed` and `decode-bundle`, and the test that replays
//! recorded inputs, share it.
//!
//! An input is a prefix of four bytes and the bytes of a block or, for `decode-bundle`, the bytes
//! of a frame alone. A block is put into a frame with a sound header, length and checksum, as no
//! fuzzer would get past them.
//!
//! | byte | meaning |
//! |---|---|
//! | 0 | rows expected |
//! | 1 | columns expected, by the remainder of 20 |
//! | 2 | what is selected, by the remainder of 3: rows, single values, a projection; and, by the quotient, the coding |
//! | 3 | the representation of values, by the remainder of 9 |

use bytes::Bytes;
use fedrecsim_core::{Error, Result};
use fedrecsim_model::codec::{self, Codec, HEADER_BYTES};
use fedrecsim_model::{Table, TableShape, TableUpdate};
use fedrecsim_scenario::{
    CompositionSpec, DeadZoneSpec, EntropySpec, ScaleSpec, SelectSpec, ValuesSpec,
};

/// Number of bytes before the block.
pub const PREFIX_BYTES: usize = 4;

/// The bytes that a decoder may allocate beyond what its table takes: tables of frequencies, the
/// state of zstd, and the text of an error.
const SLACK_BYTES: u64 = 1 << 20;

/// How many times the bytes of its table a decoder may allocate.
const TABLES: u64 = 12;

/// Returns the composition that a prefix names, and the shape that is expected.
pub fn of_prefix(prefix: [u8; PREFIX_BYTES]) -> (CompositionSpec, TableShape) {
    let [rows, columns, choices, values] = prefix;
    let representations = [
        ValuesSpec::F16,
        ValuesSpec::Bf16,
        ValuesSpec::Int8,
        ValuesSpec::Int4,
        ValuesSpec::Int2,
        ValuesSpec::Sign,
        ValuesSpec::DeadZone(DeadZoneSpec {
            step: 0.5,
            zone: 0.7,
        }),
        ValuesSpec::Centroids(5),
        ValuesSpec::F32,
    ];
    let codec = CompositionSpec {
        select: [
            SelectSpec::TouchedRows,
            SelectSpec::TopShare(0.3),
            SelectSpec::LowRank(3),
        ][usize::from(choices % 3)],
        values: representations[usize::from(values % 9)],
        scale: if values >= 128 {
            ScaleSpec::Block
        } else {
            ScaleSpec::Row
        },
        entropy: [
            EntropySpec::None,
            EntropySpec::Ans,
            EntropySpec::Zstd,
            EntropySpec::Auto,
        ][usize::from(choices / 3 % 4)],
        ..CompositionSpec::default()
    };
    (
        codec,
        TableShape {
            rows: usize::from(rows),
            dimension: usize::from(columns % 20),
        },
    )
}

/// Decodes a block and checks what comes out.
///
/// # Errors
/// Returns the error of the decoder, if it refuses the block.
///
/// # Panics
/// Panics if anything that must hold does not.
pub fn check(input: &[u8]) -> Result<TableUpdate> {
    let Some((prefix, block)) = input.split_first_chunk::<PREFIX_BYTES>() else {
        return Err(Error::Frame("no prefix".into()));
    };
    let (codec, shape) = of_prefix(*prefix);
    let update = decode(&codec, &framed(block, shape), shape)?;
    update.check().expect("a decoded update holds together");
    assert_eq!(update.shape, shape);
    let table = update
        .apply(Some(&Table::zeros(shape)))
        .expect("a decoded update applies");
    // What was decoded is a table like any other, and travels by the same codec if it can be
    // represented.
    if table
        .as_slice()
        .iter()
        .all(|value| value.is_finite() && value.abs() < 1e4)
    {
        let again = codec.encode(&update, &Table::zeros(shape)).bytes;
        decode(&codec, &again, shape).expect("what was encoded decodes");
    }
    Ok(update)
}

/// Puts a block into a frame with a sound header.
pub fn framed(block: &[u8], shape: TableShape) -> Bytes {
    let mut frame = b"FR\x01\x40".to_vec();
    frame.extend((shape.rows as u32).to_le_bytes());
    frame.extend((shape.dimension as u32).to_le_bytes());
    frame.extend((block.len() as u64).to_le_bytes());
    frame.extend(1.0f32.to_le_bytes());
    frame.extend([0; 4]);
    assert_eq!(frame.len(), HEADER_BYTES);
    frame.extend(block);
    let mut crc = crc32fast::Hasher::new();
    crc.update(&frame[..24]);
    crc.update(&frame[28..]);
    frame[24..28].copy_from_slice(&crc.finalize().to_le_bytes());
    frame.into()
}

/// Decodes a frame within the memory that its table allows.
fn decode(codec: &CompositionSpec, frame: &Bytes, shape: TableShape) -> Result<TableUpdate> {
    let mut decoded = None;
    let memory = allocation_counter::measure(|| decoded = Some(codec.decode(frame, shape)));
    let bound =
        TABLES * codec::decode_bound_bytes(shape) as u64 + 4 * frame.len() as u64 + SLACK_BYTES;
    assert!(
        memory.bytes_max <= bound,
        "{} bytes at a time for {shape} of {} bytes",
        memory.bytes_max,
        frame.len()
    );
    decoded.unwrap().inspect_err(|error| {
        assert!(
            matches!(error, Error::Frame(_) | Error::Memory(_)),
            "not an error of frames: {error:?}"
        );
    })
}

/// Takes a frame of frames apart, whose checksum is mended first.
///
/// # Errors
/// Returns the error of the reader, if it refuses the frame.
///
/// # Panics
/// Panics if anything that must hold does not.
pub fn check_bundle(input: &[u8]) -> Result<()> {
    let mut frame = input.to_vec();
    if frame.len() >= 12 {
        let mut crc = crc32fast::Hasher::new();
        crc.update(&frame[..8]);
        crc.update(&frame[12..]);
        frame[8..12].copy_from_slice(&crc.finalize().to_le_bytes());
    }
    let frame = Bytes::from(frame);
    let mut read = None;
    let memory = allocation_counter::measure(|| read = Some(codec::unbundle(&frame)));
    // A list of frames of no bytes takes the most, which is forty bytes for two.
    assert!(
        memory.bytes_max <= 64 * frame.len() as u64 + 512,
        "{} bytes at a time",
        memory.bytes_max
    );
    let (_, versions) = read.unwrap()?;
    let held: usize = versions.iter().map(|(_, frame)| frame.len()).sum();
    assert!(held <= frame.len() && versions.windows(2).all(|pair| pair[0].0 < pair[1].0));
    Ok(())
}
