//! Implements the codec `dense-f32`, which sends every value of the table.

use super::frame::{CodecId, Header, OpenedBlock};
use super::positions::PositionCode;
use super::writer::FrameWriter;
use super::{BlockContext, Codec};
use crate::model::table::{Base, RowSet, TableUpdate};
use fedrecsim_core::error::Result;

/// Implements `dense-f32`: m x k values, row after row. Rows that the update does not list are sent
/// as `others_scale` times those of the base. A decoded update lists all rows, and shares the
/// buffer of the frame.
#[derive(Clone, Copy, Debug)]
pub struct DenseF32;

impl Codec for DenseF32 {
    fn encode_block(
        &self,
        update: &TableUpdate,
        context: &mut BlockContext<'_>,
        frame: &mut FrameWriter,
    ) -> Result<()> {
        let TableUpdate {
            shape, value_type, ..
        } = *update;
        let (codec, index, count) = (CodecId::Dense, PositionCode::All, shape.values());
        let header = Header {
            codec,
            index,
            shape,
            value_type,
            count,
            others_scale: 1.0,
        };
        update.write_whole(context.base, frame.begin_block(header, 0))
    }

    fn is_lossless(&self) -> bool {
        true
    }

    fn leaves_rows_out(&self) -> bool {
        false
    }

    fn ends_in_values_of(&self, update: &TableUpdate) -> bool {
        update.rows == RowSet::All
    }

    fn value_bytes_ahead(&self, update: &TableUpdate) -> Option<u64> {
        Some((update.shape.values() * update.value_type.bytes()) as u64)
    }

    fn decode_block(&self, block: &OpenedBlock<'_>, _base: Base<'_>) -> Result<TableUpdate> {
        let own = block.of_codec(CodecId::Dense)?;
        Ok(TableUpdate {
            value_type: block.value_type,
            ..TableUpdate::of_rows(block.shape, RowSet::All, own.values)
        })
    }
}
