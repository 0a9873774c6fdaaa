//! Implements the codec `rows-f32`, which sends the rows that training touched.

use super::frame::{CodecId, Header, OpenedBlock};
use super::positions::{self, Places, PositionCode};
use super::writer::FrameWriter;
use super::{BlockContext, Codec};
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
        let count = update.rows.len(shape);
        let listed = match &update.rows {
            RowSet::Listed(rows) if count < shape.rows => Some(Places {
                held: rows,
                universe: shape.rows,
            }),
            _ => None,
        };
        let (index, index_bytes) = listed.map_or((PositionCode::All, 0), |rows| {
            positions::plain_code(count, shape.rows, rows.iter())
        });
        let header = Header {
            codec: CodecId::Rows,
            index,
            shape,
            value_type,
            count,
            others_scale,
        };
        let body = frame.begin_block(header, index_bytes);
        if let Some(rows) = listed {
            index.write(&rows, body);
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
            PositionCode::All => RowSet::All,
            code => RowSet::Listed(positions::read(
                code,
                own.index_bytes,
                own.count,
                shape.rows,
            )?),
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
