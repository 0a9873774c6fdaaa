//! Implements the codec `rows-f32`, which sends the rows that training touched.

use super::frame::{CodecId, Header, OpenedBlock};
use super::index::{self, IndexEncoding};
use super::writer::FrameWriter;
use super::{BlockContext, Codec, bitmap};
use crate::model::table::{Base, RowSet, TableUpdate};
use fedrecsim_core::error::Result;

/// Implements `rows-f32`: the smallest index of the listed rows, then their values (k for each).
/// The header's `others_scale` describes all other rows, since weight decay scales them by the same
/// factor.
///
/// An update that lists every row one by one is decoded as [`RowSet::All`], which is the same
/// table. The values of a decoded update share the buffer of the frame.
#[derive(Clone, Copy, Debug)]
pub struct RowsF32;

impl Codec for RowsF32 {
    fn encode_block(
        &self,
        update: &TableUpdate,
        context: &mut BlockContext<'_>,
        frame: &mut FrameWriter,
    ) -> Result<()> {
        update.check_base(context.base)?;
        let TableUpdate {
            shape,
            value_type,
            others_scale,
            ..
        } = *update;
        let listed: &[u32] = match &update.rows {
            RowSet::All => &[],
            RowSet::Listed(rows) => rows,
        };
        let rows = || listed.iter().map(|&row| row as usize);
        let count = update.rows.len(shape);
        let (index, index_bytes) = IndexEncoding::smallest(count, shape.rows, rows());
        let header = Header {
            codec: CodecId::Rows,
            index,
            shape,
            value_type,
            count,
            others_scale,
        };
        let body = frame.begin_block(header, index_bytes);
        match index {
            IndexEncoding::All => {}
            IndexEncoding::Bitmap => {
                let start = body.len();
                body.resize(start + index_bytes, 0);
                rows().for_each(|row| bitmap::insert(&mut body[start..], row));
            }
            IndexEncoding::Gaps => index::write_gaps(body, rows()),
        }
        body.extend_from_slice(&update.values);
        Ok(())
    }

    fn is_lossless(&self) -> bool {
        true
    }

    fn ends_in_values_of(&self, _update: &TableUpdate) -> bool {
        true
    }

    fn decode_block(&self, block: &OpenedBlock<'_>, _base: Base<'_>) -> Result<TableUpdate> {
        let (own, shape) = (block.of_codec(CodecId::Rows)?, block.shape);
        // With k >= 1 the frame holds at least a value for each row, so that the list takes at most
        // four times the memory of the frame.
        let rows = match own.index {
            IndexEncoding::All => RowSet::All,
            IndexEncoding::Bitmap => {
                bitmap::check(own.index_bytes, shape.rows, own.count)?;
                let mut rows = Vec::with_capacity(own.count);
                // `for_each` is faster than `extend` on an iterator that is flattened from others.
                bitmap::ones(own.index_bytes).for_each(|row| rows.push(row as u32));
                RowSet::Listed(rows)
            }
            IndexEncoding::Gaps => {
                let mut rows = Vec::with_capacity(own.count);
                index::read_gaps(own.index_bytes, own.count, shape.rows, |row| {
                    rows.push(row as u32)
                })?;
                RowSet::Listed(rows)
            }
        };
        let (value_type, values, others_scale) = (block.value_type, own.values, own.others_scale);
        Ok(TableUpdate {
            shape,
            value_type,
            rows,
            values,
            others_scale,
        })
    }
}
