//! A codec of a program of its own, which loses something.

use fedrecsim_core::{PortableDraws, Result};
use fedrecsim_model::ValueType;
use fedrecsim_model::codec::{BlockContext, Codec, FrameWriter, OpenedBlock};
use fedrecsim_model::table::{Table, TableUpdate, floats};
use fedrecsim_scenario::CodecName;

/// A codec that keeps sixteen bits of every value, rounding up or down at random, and adds what it
/// left out to the next upload.
#[derive(Debug)]
pub struct SixteenBits;

impl Codec for SixteenBits {
    fn encode_block(
        &self,
        update: &TableUpdate,
        context: &mut BlockContext<'_>,
        frame: &mut FrameWriter,
    ) -> Result<()> {
        // Integers are none of its business.
        if update.value_type != ValueType::F32 {
            return CodecName::RowsF32.encode_block(update, context, frame);
        }
        let mut stream = context.randomness.stream("sixteen-bits");
        let rows: Vec<u32> = update.iter().map(|(row, _)| row as u32).collect();
        let columns = update.shape.dimension;
        let residual = context.memory.residual(context.position, columns);
        let zeros = Table::zeros(update.shape);
        let mut kept_back = vec![0.0f32; rows.len() * columns];
        let mut slots = Vec::new();
        residual.read_rows(&rows, &zeros, &mut slots, |position, values, scale| {
            for (kept, value) in kept_back[position * columns..].iter_mut().zip(values) {
                *kept = value * scale;
            }
        });
        let mut sent = Vec::with_capacity(update.values.len());
        for (value, kept) in floats(&update.values).zip(&mut kept_back) {
            let wanted = value + *kept;
            let bits = wanted.to_bits().wrapping_add(stream.below(1 << 16)) & 0xffff_0000;
            let rounded = f32::from_bits(bits);
            *kept = wanted - rounded;
            sent.extend(rounded.to_le_bytes());
        }
        residual.write_rows(&rows, 1.0, &mut slots, |position, values| {
            values.copy_from_slice(&kept_back[position * columns..(position + 1) * columns]);
        });
        let rounded = TableUpdate {
            values: sent.into(),
            ..update.clone()
        };
        CodecName::RowsF32.encode_block(&rounded, context, frame)
    }

    fn decode_block(&self, block: &OpenedBlock<'_>, base: Option<&Table>) -> Result<TableUpdate> {
        CodecName::RowsF32.decode_block(block, base)
    }
}
