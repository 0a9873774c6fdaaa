//! Composes a codec of four choices: which entries are sent, how their values are represented, how
//! their positions are coded, and how the symbols of the values are coded.

mod body;
mod candidates;
mod payload;
mod projection;
mod selection;
#[cfg(test)]
mod tests;

use super::buffer::Buffer;
use super::frame::CodecId;
use super::positions::PositionCode;
use super::reader::OpenedBlock;
use super::writer::FrameWriter;
use super::{BlockContext, Codec};
use crate::layout::ValueType;
use crate::table::{RowSet, Table, TableShape, TableUpdate};
use fedrecsim_core::error::{Error, Result};
use fedrecsim_scenario::{CodecName, CompositionSpec, PositionsSpec, SelectSpec, ValuesSpec};
use rand::Rng;

use body::{Body, Decoded};
use candidates::{Candidates, add_rows};
use projection::Basis;

impl Codec for CompositionSpec {
    fn encode_block(
        &self,
        update: &TableUpdate,
        context: &mut BlockContext<'_>,
        frame: &mut FrameWriter,
    ) -> Result<()> {
        if update.value_type != ValueType::F32 {
            return CodecName::RowsF32.encode_block(update, context, frame);
        }
        update.check_base(context.base)?;
        if u32::try_from(update.shape.values()).is_err() {
            return Err(Error::Update(format!(
                "a {} table has too many values for a composed codec",
                update.shape
            )));
        }
        let mut candidates = Candidates::of(self, update, context);
        let body = match self.select {
            SelectSpec::LowRank(rank) => {
                encode_projected(self, rank, update.shape, &mut candidates, context)?
            }
            select => {
                let (shape, randomness) = (update.shape, context.randomness);
                let selected = selection::select(select, &candidates, shape, randomness);
                Body::encode(self, &mut candidates, selected, shape, randomness)?
            }
        };
        if self.error_feedback {
            candidates.remember(context);
        }
        body.write(update, frame);
        Ok(())
    }

    fn is_lossless(&self) -> bool {
        matches!(
            self.select,
            SelectSpec::All | SelectSpec::TouchedRows | SelectSpec::NeededRows
        ) && self.values == ValuesSpec::F32
            && !self.delta
    }

    fn format(&self) -> &'static str {
        "composed 3, zstd 1.5.7"
    }

    fn sends_changes(&self) -> bool {
        self.delta
    }

    fn leaves_rows_out(&self) -> bool {
        !matches!(self.select, SelectSpec::All | SelectSpec::NeededRows)
    }

    fn sends_needed_rows(&self) -> bool {
        self.select == SelectSpec::NeededRows
    }

    fn position_code(&self) -> Option<PositionCode> {
        match self.positions {
            PositionsSpec::Auto => None,
            PositionsSpec::Bitmap => Some(PositionCode::Bitmap),
            PositionsSpec::Gaps => Some(PositionCode::Gaps),
            PositionsSpec::Rice => Some(PositionCode::Rice),
            PositionsSpec::EliasFano => Some(PositionCode::EliasFano),
            PositionsSpec::Enumerative => Some(PositionCode::Enumerative),
        }
    }

    fn decode_block(&self, block: &OpenedBlock<'_>, base: Option<&Table>) -> Result<TableUpdate> {
        if block.value_type != ValueType::F32 {
            return CodecName::RowsF32.decode_block(block, base);
        }
        let own = block.of_codec(CodecId::Composed)?;
        let mut decoded = match self.select {
            SelectSpec::LowRank(rank) => decode_projected(self, rank, &own.values, block.shape)?,
            _ => Body::decode(self, &own.values, block.shape)?,
        };
        if let (true, Some(base)) = (self.delta, base) {
            TableUpdate::nothing(block.shape, ValueType::F32).check_base(Some(base))?;
            add_rows(&mut decoded.values, &decoded.rows, base, own.others_scale);
        }
        let rows = if decoded.rows.len() == block.shape.rows {
            RowSet::All
        } else {
            RowSet::Listed(decoded.rows)
        };
        Ok(TableUpdate {
            others_scale: own.others_scale,
            ..TableUpdate::of_rows(block.shape, rows, decoded.values.into())
        })
    }
}

/// Encodes the projection of the candidates on a random subspace. Values that the receiver does not
/// get stay in the candidates.
fn encode_projected(
    spec: &CompositionSpec,
    rank: u32,
    shape: TableShape,
    candidates: &mut Candidates,
    context: &BlockContext<'_>,
) -> Result<Body> {
    let seed = context.randomness.stream("codec/low-rank").next_u64();
    let basis = Basis::of_seed(seed, rank as usize, candidates.columns);
    let shape = TableShape {
        dimension: basis.rank(),
        ..shape
    };
    let mut projected = basis.project(candidates);
    let meant: Buffer = projected.values.iter().copied().collect();
    let mut body = Body::encode(spec, &mut projected, None, shape, context.randomness)?;
    if spec.error_feedback {
        let left = meant.iter().zip(projected.values.iter());
        let sent: Buffer = left.map(|(meant, left)| meant - left).collect();
        let received = basis.expand(&sent);
        let values = candidates.values.iter_mut().zip(received.iter());
        values.for_each(|(value, received)| *value -= received);
    }
    body.begin_with_seed(seed);
    Ok(body)
}

/// Decodes what [`encode_projected`] encodes.
fn decode_projected(
    spec: &CompositionSpec,
    rank: u32,
    bytes: &[u8],
    shape: TableShape,
) -> Result<Decoded> {
    let Some((seed, bytes)) = bytes.split_first_chunk() else {
        refuse!("a projected block is cut off in its seed");
    };
    let seed = u64::from_le_bytes(*seed);
    let basis = Basis::of_seed(seed, rank as usize, shape.dimension);
    let shape = TableShape {
        dimension: basis.rank(),
        ..shape
    };
    let decoded = Body::decode(spec, bytes, shape)?;
    Ok(Decoded {
        values: basis.expand(&decoded.values),
        ..decoded
    })
}
