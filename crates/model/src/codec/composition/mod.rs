//! A codec that is composed of four choices: which entries are sent, how their values are
//! represented, how their positions are coded, and how the symbols of the values are.

mod body;
mod candidates;
mod payload;
mod projection;
mod selection;
#[cfg(test)]
mod tests;

use super::buffer::Buffer;
use super::frame::{CodecId, OpenedBlock};
use super::positions::PositionCode;
use super::values::Quantizer;
use super::writer::FrameWriter;
use super::{BlockContext, Codec, RowsF32};
use crate::model::layout::ValueType;
use crate::model::table::{Base, RowSet, TableShape, TableUpdate};
use fedrecsim_core::error::{Error, Result};
use rand::Rng;

use body::{Body, Decoded};
use candidates::{Candidates, add_rows};
use projection::Basis;

/// Which entries of a block are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Select {
    /// Every value of the block.
    All,
    /// The rows that the update lists, which are those that training touched.
    TouchedRows,
    /// Every value of the block, which has the rows that the receiver of a download has asked for.
    NeededRows,
    /// The values other than 0.
    NonZeros,
    /// The values whose magnitude is at least this.
    AtLeast(f32),
    /// As many values of the greatest magnitude as are this share of the block.
    TopShare(f64),
    /// As many values, drawn at random, as are this share of the block.
    RandomShare(f64),
    /// The projection of each row that the update lists on a random subspace of this dimension.
    LowRank(usize),
}

/// How values are represented.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Values {
    /// In single precision, as they are.
    Exact,
    /// Quantised, with a scale for each row or one for the block.
    Quantized(Quantizer, Scales),
}

/// What has a scale of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scales {
    /// Every row that is sent.
    Row,
    /// The block.
    Block,
}

/// How the symbols of the values are coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entropy {
    /// Each symbol takes as many bits as any other.
    None,
    /// Each symbol takes as many bits as its frequency is worth, in an asymmetric numeral system
    /// with a table that is sent along. Each byte of a longer value is a symbol, and the bytes of
    /// one place share a table.
    Ans,
    /// The symbols are compressed by zstd.
    Zstd,
    /// The shortest of these codings is chosen for each frame.
    Shortest,
}

/// The choices of which the codec consists.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Composition {
    /// Which entries are sent.
    pub select: Select,
    /// Whether what is sent, and selected, are differences from the table that the receiver has.
    /// Otherwise it is the values themselves.
    pub changes: bool,
    /// How values are represented.
    pub values: Values,
    /// The code of the positions; `None` is the shortest.
    pub positions: Option<PositionCode>,
    /// How the symbols are coded.
    pub entropy: Entropy,
    /// Whether the device remembers what it left out, and adds it to the next upload.
    pub error_feedback: bool,
}

impl Codec for Composition {
    fn encode_block(
        &self,
        update: &TableUpdate,
        context: &mut BlockContext<'_>,
        frame: &mut FrameWriter,
    ) -> Result<()> {
        if update.value_type != ValueType::F32 {
            return RowsF32.encode_block(update, context, frame);
        }
        update.check_base(context.base)?;
        if u32::try_from(update.shape.values()).is_err() {
            return Err(Error::Update(format!(
                "a {} table has too many values for a composed codec",
                update.shape
            )));
        }
        let mut candidates = Candidates::of(self, update, context);
        if let Select::LowRank(rank) = self.select {
            return self.encode_projected(rank, update, candidates, (context, frame));
        }
        let selected =
            selection::select(self.select, &candidates, update.shape, context.randomness);
        let body = Body::encode(
            self,
            &mut candidates,
            selected,
            update.shape,
            context.randomness,
        )?;
        if self.error_feedback {
            candidates.remember(context);
        }
        body.write(update, frame);
        Ok(())
    }

    fn is_lossless(&self) -> bool {
        matches!(
            self.select,
            Select::All | Select::TouchedRows | Select::NeededRows
        ) && self.values == Values::Exact
            && !self.changes
    }

    fn format(&self) -> &'static str {
        "composed 3, zstd 1.5.7"
    }

    fn sends_changes(&self) -> bool {
        self.changes
    }

    fn leaves_rows_out(&self) -> bool {
        !matches!(self.select, Select::All | Select::NeededRows)
    }

    fn sends_needed_rows(&self) -> bool {
        self.select == Select::NeededRows
    }

    fn position_code(&self) -> Option<PositionCode> {
        self.positions
    }

    fn decode_block(&self, block: &OpenedBlock<'_>, base: Base<'_>) -> Result<TableUpdate> {
        if block.value_type != ValueType::F32 {
            return RowsF32.decode_block(block, base);
        }
        let own = block.of_codec(CodecId::Composed)?;
        let mut decoded = match self.select {
            Select::LowRank(rank) => self.decode_projected(rank, &own.values, block.shape)?,
            _ => Body::decode(self, &own.values, block.shape)?,
        };
        if let (true, Base::Table(base)) = (self.changes, base) {
            TableUpdate::nothing(block.shape, ValueType::F32).check_base(Base::Table(base))?;
            add_rows(&mut decoded.values, &decoded.rows, base, own.others_scale);
        }
        let rows = if decoded.rows.len() == block.shape.rows {
            RowSet::All
        } else {
            RowSet::Listed(decoded.rows)
        };
        let update = TableUpdate::of_rows(block.shape, rows, decoded.values.into());
        Ok(TableUpdate {
            others_scale: own.others_scale,
            ..update
        })
    }
}

impl Composition {
    /// Encodes the projection of the candidates on a subspace that this frame draws.
    fn encode_projected(
        &self,
        rank: usize,
        update: &TableUpdate,
        mut candidates: Candidates,
        (context, frame): (&mut BlockContext<'_>, &mut FrameWriter),
    ) -> Result<()> {
        let seed = context.randomness.stream("codec/low-rank").next_u64();
        let basis = Basis::of_seed(seed, rank, candidates.columns);
        let shape = TableShape {
            dimension: basis.rank(),
            ..update.shape
        };
        let mut projected = basis.project(&candidates);
        let meant: Buffer = projected.values.iter().copied().collect();
        let mut body = Body::encode(self, &mut projected, None, shape, context.randomness)?;
        if self.error_feedback {
            let sent: Buffer = meant
                .iter()
                .zip(projected.values.iter())
                .map(|(meant, left)| meant - left)
                .collect();
            let received = basis.expand(&sent);
            candidates
                .values
                .iter_mut()
                .zip(received.iter())
                .for_each(|(value, received)| *value -= received);
            candidates.remember(context);
        }
        body.begin_with_seed(seed);
        body.write(update, frame);
        Ok(())
    }

    /// Decodes what [`Self::encode_projected`] encodes.
    fn decode_projected(&self, rank: usize, bytes: &[u8], shape: TableShape) -> Result<Decoded> {
        let (seed, bytes) = projection::read_seed(bytes)?;
        let basis = Basis::of_seed(seed, rank, shape.dimension);
        let decoded = Body::decode(
            self,
            bytes,
            TableShape {
                dimension: basis.rank(),
                ..shape
            },
        )?;
        Ok(Decoded {
            values: basis.expand(&decoded.values),
            ..decoded
        })
    }
}
