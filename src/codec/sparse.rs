//! `sparse-f32`: the values that are not zero.

use std::borrow::Cow;

use bytes::Bytes;

use super::frame::{self, CodecId, Header, Writer};
use super::index::{self, IndexEncoding};
use super::{Codec, Frame, bitmap, require};
use crate::error::{Error, Result};
use crate::model::table::{RowSet, Table, TableShape, TableUpdate, VALUE_BYTES};

/// `sparse-f32`: the values of the whole table (materialised as for `dense-f32`) other than +0.0, behind the
/// smallest index of their places (row x k + column).
///
/// Zero is the one bit pattern of +0.0. A -0.0 travels as a value, so that the table comes back bit for bit.
/// A decoded update lists all rows, in a new buffer of 4 m k bytes.
#[derive(Clone, Copy, Debug)]
pub struct SparseF32;

const ZERO: [u8; VALUE_BYTES] = 0.0_f32.to_le_bytes();

impl Codec for SparseF32 {
    fn encode(&self, update: &TableUpdate, base: &Table) -> Frame {
        require(update.check_base(base));
        let shape = update.shape;
        let values = whole_values(update, base);
        let (values, _) = values.as_chunks();
        let places = non_zero_places(values);
        let count = bitmap::count_ones(&places);
        let (index, index_bytes) = IndexEncoding::smallest(count, shape.values(), bitmap::ones(&places));
        let header = Header { codec: CodecId::Sparse, index, shape, count, others_scale: 1.0 };
        let mut writer = Writer::new(header, index_bytes);
        let body = writer.body();
        match index {
            IndexEncoding::All => {}
            IndexEncoding::Bitmap => body.extend_from_slice(&places),
            IndexEncoding::Gaps => index::write_gaps(body, bitmap::ones(&places)),
        }
        for (word, values) in bitmap::words(&places).zip(values.chunks(64)) {
            if word == u64::MAX {
                body.extend_from_slice(values.as_flattened());
            } else {
                bitmap::word_ones(word).for_each(|place| body.extend_from_slice(&values[place]));
            }
        }
        writer.seal()
    }

    fn decode(&self, frame: &Bytes, shape: TableShape) -> Result<TableUpdate> {
        let opened = frame::open(frame, CodecId::Sparse, shape)?;
        let (values, _) = frame[opened.values.clone()].as_chunks();
        // Without an early exit, so that the loop vectorises.
        if values.iter().fold(false, |found, value| found | (*value == ZERO)) {
            return Err(Error::Frame("it lists a zero among the values that are not zero".into()));
        }
        let all = |values| TableUpdate { shape, rows: RowSet::All, values, others_scale: 1.0 };
        let universe = shape.values();
        match opened.index {
            IndexEncoding::All => Ok(all(frame.slice(opened.values))),
            IndexEncoding::Bitmap => {
                bitmap::check(opened.index_bytes, universe, opened.count)?;
                let mut table = vec![0; VALUE_BYTES * universe];
                let (places, _) = table.as_chunks_mut();
                let mut rest = values;
                for (word, places) in bitmap::words(opened.index_bytes).zip(places.chunks_mut(64)) {
                    // As many values as bits: `check` has seen to it, and to the bits beyond the table.
                    let (taken, left) = rest.split_at(word.count_ones() as usize);
                    if word == u64::MAX {
                        places.copy_from_slice(taken);
                    } else {
                        bitmap::word_ones(word).zip(taken).for_each(|(place, value)| places[place] = *value);
                    }
                    rest = left;
                }
                Ok(all(table.into()))
            }
            IndexEncoding::Gaps => {
                let mut table = vec![0; VALUE_BYTES * universe];
                let (places, _) = table.as_chunks_mut();
                let mut values = values.iter();
                index::read_gaps(opened.index_bytes, opened.count, universe, |place| {
                    // As many values as positions: `open` has seen to it.
                    places[place] = values.next().copied().unwrap_or(ZERO);
                })?;
                Ok(all(table.into()))
            }
        }
    }
}

/// The bytes of the whole table; borrowed where the update has them already.
fn whole_values<'a>(update: &'a TableUpdate, base: &Table) -> Cow<'a, [u8]> {
    if update.rows == RowSet::All {
        return Cow::Borrowed(&update.values);
    }
    let mut values = Vec::with_capacity(VALUE_BYTES * update.shape.values());
    require(update.write_whole(base, &mut values));
    Cow::Owned(values)
}

/// The bitmap of the values other than [`ZERO`].
fn non_zero_places(values: &[[u8; VALUE_BYTES]]) -> Vec<u8> {
    let byte = |values: &[[u8; VALUE_BYTES]]| {
        values.iter().enumerate().fold(0, |byte, (bit, value)| byte | u8::from(*value != ZERO) << bit)
    };
    // Eights apart from the rest: the compiler unrolls what has a fixed length.
    let (eights, rest) = values.as_chunks::<8>();
    let mut places = Vec::with_capacity(bitmap::byte_length(values.len()));
    places.extend(eights.iter().map(|eight| byte(eight)));
    if !rest.is_empty() {
        places.push(byte(rest));
    }
    places
}
