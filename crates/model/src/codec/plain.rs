//! Implements the codecs that have a name. They lose no bit.
//!
//! - `dense-f32` sends m x k values, row after row. Rows that the update does not list are sent as
//!   `others_scale` times those of the base. A decoded update lists all rows.
//! - `rows-f32` sends the shortest index of the listed rows, then their values (k for each). The
//!   header's `others_scale` describes all other rows, since weight decay scales them by the same
//!   factor. An update that lists every row one by one is decoded as [`RowSet::All`], which is the
//!   same table.
//! - `sparse-f32` sends the shortest index of the places (row x k + column) of the values other than
//!   +0.0 of the whole table, then these values. Only the bit pattern of +0.0, or of the integer 0,
//!   counts as zero. A -0.0 travels as a value, so that the decoded table has the same bits. A
//!   decoded update lists all rows, in a new buffer of the size of the whole table.
//!
//! The values that `dense-f32` and `rows-f32` decode share the buffer of the frame.

use std::borrow::Cow;

use super::frame::{CodecId, Header};
use super::positions::{self, Places, PositionCode, gaps};
use super::reader::{CheckedBlock, OpenedBlock};
use super::writer::FrameWriter;
use super::{BlockContext, Codec, bitmap};
use crate::bits::ones;
use crate::layout::{BlockLayout, ValueType};
use crate::table::{RowSet, Table, TableUpdate};
use fedrecsim_core::error::Result;
use fedrecsim_scenario::CodecName;

impl Codec for CodecName {
    fn encode_block(
        &self,
        update: &TableUpdate,
        context: &mut BlockContext<'_>,
        frame: &mut FrameWriter,
    ) -> Result<()> {
        update.check_base(context.base)?;
        match self {
            Self::DenseF32 => {
                let count = update.shape.values();
                let header = Header::of(update, CodecId::Dense, PositionCode::All, count);
                update.write_whole(context.base, frame.begin_block(header, 0))?;
            }
            Self::RowsF32 => encode_rows(update, frame),
            Self::SparseF32 => {
                let values = whole_values(update, context.base)?;
                match update.value_type {
                    ValueType::F32 | ValueType::U32 => {
                        encode_sparse::<4>(update, values.as_chunks().0, frame);
                    }
                    ValueType::U64 => encode_sparse::<8>(update, values.as_chunks().0, frame),
                    ValueType::Bytes => encode_sparse::<1>(update, values.as_chunks().0, frame),
                }
            }
        }
        Ok(())
    }

    fn is_lossless(&self) -> bool {
        true
    }

    fn leaves_rows_out(&self) -> bool {
        *self != Self::DenseF32
    }

    fn ends_in_values_of(&self, update: &TableUpdate) -> bool {
        match self {
            Self::DenseF32 => update.rows == RowSet::All,
            Self::RowsF32 => true,
            Self::SparseF32 => false,
        }
    }

    fn value_bytes_ahead(&self, block: &BlockLayout) -> Option<u64> {
        let bytes = block.shape.values() * block.value_type.bytes();
        (*self == Self::DenseF32).then_some(bytes as u64)
    }

    fn decode_block(&self, block: &OpenedBlock<'_>, _base: Option<&Table>) -> Result<TableUpdate> {
        let (rows, values, others_scale) = match self {
            Self::DenseF32 => (RowSet::All, block.of_codec(CodecId::Dense)?.values, 1.0),
            Self::RowsF32 => {
                let own = block.of_codec(CodecId::Rows)?;
                // With k >= 1 the frame holds at least a value for each row, so that the list takes
                // at most four times the memory of the frame.
                let rows = match own.index {
                    PositionCode::All => RowSet::All,
                    code => RowSet::Listed(positions::read(
                        code,
                        own.index_bytes,
                        own.count,
                        block.shape.rows,
                    )?),
                };
                (rows, own.values, own.others_scale)
            }
            Self::SparseF32 => {
                let own = block.of_codec(CodecId::Sparse)?;
                let universe = block.shape.values();
                let values = match block.value_type {
                    ValueType::F32 | ValueType::U32 => decode_sparse::<4>(&own, universe)?,
                    ValueType::U64 => decode_sparse::<8>(&own, universe)?,
                    ValueType::Bytes => decode_sparse::<1>(&own, universe)?,
                };
                (RowSet::All, values.map_or(own.values, Into::into), 1.0)
            }
        };
        Ok(TableUpdate {
            value_type: block.value_type,
            others_scale,
            ..TableUpdate::of_rows(block.shape, rows, values)
        })
    }
}

/// Writes a block of the rows that `update` lists.
fn encode_rows(update: &TableUpdate, frame: &mut FrameWriter) {
    let (count, universe) = (update.rows.len(update.shape), update.shape.rows);
    let (mut code, mut index_bytes) = (PositionCode::All, 0);
    let mut places = None;
    if let RowSet::Listed(held) = &update.rows {
        let rows = Places { held, universe };
        (code, index_bytes) = positions::plain_code(count, universe, rows.iter());
        places = Some(rows);
    }
    let header = Header::of(update, CodecId::Rows, code, count);
    let body = frame.begin_block(header, index_bytes);
    if let Some(places) = places {
        code.write(&places, body);
    }
    body.extend_from_slice(&update.values);
}

/// Writes a block of those of `values`, of `WIDTH` bytes each, that are not zero.
fn encode_sparse<const WIDTH: usize>(
    update: &TableUpdate,
    values: &[[u8; WIDTH]],
    frame: &mut FrameWriter,
) {
    let places = non_zero_places(values);
    let count = bitmap::count_ones(&places);
    let (index, index_bytes) =
        positions::plain_code(count, update.shape.values(), bitmap::ones(&places));
    let header = Header::of(update, CodecId::Sparse, index, count);
    let body = frame.begin_block(header, index_bytes);
    match index {
        PositionCode::All => {}
        PositionCode::Bitmap => body.extend_from_slice(&places),
        _ => gaps::write(bitmap::ones(&places), body),
    }
    for (word, values) in bitmap::words(&places).zip(values.chunks(64)) {
        if word == u64::MAX {
            body.extend_from_slice(values.as_flattened());
        } else {
            ones(word).for_each(|place| body.extend_from_slice(&values[place]));
        }
    }
}

/// Returns the bytes of a table of `universe` values with those of the block in their places, or
/// `None` if the block holds all of them.
// Inlined into its callers, the check for zeros takes longer.
#[inline(never)]
fn decode_sparse<const WIDTH: usize>(
    own: &CheckedBlock<'_>,
    universe: usize,
) -> Result<Option<Vec<u8>>> {
    let zero = [0; WIDTH];
    let (values, _) = own.values.as_chunks::<WIDTH>();
    // The loop has no early exit, so that it vectorises.
    if values
        .iter()
        .fold(false, |found, value| found | (*value == zero))
    {
        refuse!("it lists a zero among the values that are not zero");
    }
    if own.index == PositionCode::All {
        return Ok(None);
    }
    if own.index == PositionCode::Bitmap {
        bitmap::check(own.index_bytes, universe, own.count)?;
    }
    let mut table = vec![0; WIDTH * universe];
    let (places, _) = table.as_chunks_mut();
    if own.index == PositionCode::Bitmap {
        let mut rest = values;
        for (word, places) in bitmap::words(own.index_bytes).zip(places.chunks_mut(64)) {
            // `check` has made sure that there are as many values as bits, and no bits beyond the
            // table.
            let (taken, left) = rest.split_at(word.count_ones() as usize);
            if word == u64::MAX {
                places.copy_from_slice(taken);
            } else {
                ones(word)
                    .zip(taken)
                    .for_each(|(place, value)| places[place] = *value);
            }
            rest = left;
        }
    } else {
        let mut values = values.iter();
        gaps::read(own.index_bytes, own.count, universe, |place| {
            // The header has been checked to declare as many values as positions.
            places[place] = values.next().copied().unwrap_or(zero);
        })?;
    }
    Ok(Some(table))
}

/// Returns the bytes of the whole table. They are borrowed if the update has them all.
fn whole_values<'a>(update: &'a TableUpdate, base: Option<&Table>) -> Result<Cow<'a, [u8]>> {
    if update.rows == RowSet::All {
        return Ok(Cow::Borrowed(&update.values));
    }
    update.to_whole_bytes(base).map(Cow::Owned)
}

/// Returns the bitmap of the values that are not zero.
fn non_zero_places<const WIDTH: usize>(values: &[[u8; WIDTH]]) -> Vec<u8> {
    let zero = [0; WIDTH];
    let byte = |values: &[[u8; WIDTH]]| {
        values.iter().enumerate().fold(0, |byte, (bit, value)| {
            byte | u8::from(*value != zero) << bit
        })
    };
    // Groups of eight have a fixed length, so that the compiler unrolls their loop.
    let (eights, rest) = values.as_chunks::<8>();
    let mut places = Vec::with_capacity(bitmap::byte_length(values.len()));
    places.extend(eights.iter().map(|eight| byte(eight)));
    if !rest.is_empty() {
        places.push(byte(rest));
    }
    places
}
