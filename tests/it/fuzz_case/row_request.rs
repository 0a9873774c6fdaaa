//! Checks what must hold for any bytes that a server is given as a request for rows. The fuzz
//! target `decode-row-request` and the test that replays recorded inputs share it.
//!
//! An input is the number of rows of the table (u16, little-endian), the number of the code of the
//! positions, and the bytes behind the checksum of a frame. The rest of the frame is sound, as no
//! fuzzer would get past it.

use bytes::Bytes;
use fedrecsim_core::{Error, Result};
use fedrecsim_model::codec::{self, PositionCode};

/// Number of bytes before those behind the checksum.
pub const PREFIX_BYTES: usize = 3;

/// The bytes that a decoder may allocate beside the rows: what an asymmetric numeral system needs,
/// and the text of an error.
const SLACK_BYTES: u64 = 1 << 16;

/// Decodes a request and checks what comes out.
///
/// # Errors
/// Returns the error of the decoder, if it refuses the request.
///
/// # Panics
/// Panics if anything that must hold does not.
pub fn check(input: &[u8]) -> Result<Vec<u32>> {
    let Some((&[low, high, code], rest)) = input.split_first_chunk::<PREFIX_BYTES>() else {
        return Err(Error::Frame("no prefix".into()));
    };
    let of_all = usize::from(u16::from_le_bytes([low, high]));
    let rows = decode(&framed(code, rest), of_all)?;
    assert!(
        rows.is_sorted_by(|one, next| one < next),
        "the rows do not ascend"
    );
    assert!(
        rows.last().is_none_or(|last| (*last as usize) < of_all),
        "a row is outside of the table"
    );
    let codes = [
        PositionCode::Bitmap,
        PositionCode::Gaps,
        PositionCode::Rice,
        PositionCode::EliasFano,
        PositionCode::Enumerative,
    ];
    for wanted in codes.map(Some).into_iter().chain([None]) {
        let again = codec::encode_row_request(&rows, of_all, wanted).bytes;
        assert_eq!(
            decode(&again, of_all).expect("what was encoded decodes"),
            rows,
            "{wanted:?}"
        );
    }
    Ok(rows)
}

/// Puts the code of positions, and what follows the checksum, into a frame.
fn framed(code: u8, rest: &[u8]) -> Bytes {
    let start = [b'F', b'R', 3, code];
    let mut crc = crc32fast::Hasher::new();
    crc.update(&start);
    crc.update(rest);
    [&start[..], &crc.finalize().to_le_bytes(), rest]
        .concat()
        .into()
}

/// Decodes a request within memory in proportion to the table and the frame.
fn decode(frame: &Bytes, of_all: usize) -> Result<Vec<u32>> {
    let mut decoded = None;
    let memory =
        allocation_counter::measure(|| decoded = Some(codec::decode_row_request(frame, of_all)));
    let bound = 12 * of_all as u64 + 4 * frame.len() as u64 + SLACK_BYTES;
    assert!(
        memory.bytes_max <= bound,
        "{} bytes at a time for {of_all} rows",
        memory.bytes_max
    );
    decoded.unwrap().inspect_err(|error| {
        assert!(
            matches!(error, Error::Frame(_)),
            "not an error of frames: {error:?}"
        );
    })
}
