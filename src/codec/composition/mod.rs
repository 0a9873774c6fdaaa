//! A codec that is composed of four choices: which entries are sent, how their values are represented, how their
//! positions are coded, and how the symbols of the values are.

mod body;
mod candidates;
mod payload;
mod selection;
#[cfg(test)]
mod tests;

use super::frame::{CodecId, OpenedBlock};
use super::positions::PositionCode;
use super::values::Quantizer;
use super::writer::FrameWriter;
use super::{BlockContext, Codec, RowsF32};
use crate::error::{Error, Result};
use crate::model::layout::ValueType;
use crate::model::table::{Base, RowSet, TableUpdate};

use body::Body;
use candidates::Candidates;

/// Which entries of a block are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Select {
    /// Every value of the block.
    All,
    /// The rows that the update lists, which are those that training touched.
    TouchedRows,
    /// The values other than 0.
    NonZeros,
    /// The values whose magnitude is at least this.
    AtLeast(f32),
    /// As many values of the greatest magnitude as are this share of the block.
    TopShare(f64),
    /// As many values, drawn at random, as are this share of the block.
    RandomShare(f64),
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
    /// Each takes as many bits as any other.
    None,
    /// Each takes as many bits as its frequency is worth, in an asymmetric numeral system with a table that is sent along.
    /// Of values of several bytes, each byte is a symbol, and those of one place have a table together.
    Ans,
    /// They are compressed by zstd.
    Zstd,
    /// Whichever of these is the shortest.
    Shortest,
}

/// The choices of which the codec consists.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Composition {
    /// Which entries are sent.
    pub select: Select,
    /// Whether what is sent, and selected, are differences from the table that the receiver has. Otherwise it is the
    /// values themselves.
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
            return Err(Error::Update(format!("a {} table has too many values for a composed codec", update.shape)));
        }
        let candidates = Candidates::of(self, update, context);
        let selected = selection::select(self.select, &candidates, update.shape, context.randomness);
        let (body, decoded) = Body::encode(self, &candidates, selected, update.shape, context.randomness)?;
        if self.error_feedback {
            candidates.remember(&decoded, context);
        }
        body.write(update, frame);
        Ok(())
    }

    fn is_lossless(&self) -> bool {
        matches!(self.select, Select::All | Select::TouchedRows) && self.values == Values::Exact && !self.changes
    }

    fn sends_changes(&self) -> bool {
        self.changes
    }

    fn leaves_rows_out(&self) -> bool {
        self.select != Select::All
    }

    fn decode_block(&self, block: &OpenedBlock<'_>, base: Base<'_>) -> Result<TableUpdate> {
        if block.value_type != ValueType::F32 {
            return RowsF32.decode_block(block, base);
        }
        let own = block.of_codec(CodecId::Composed)?;
        let decoded = Body::decode(self, &own.values, block.shape)?;
        let rows = if decoded.rows.len() == block.shape.rows { RowSet::All } else { RowSet::Listed(decoded.rows) };
        let update =
            TableUpdate { others_scale: own.others_scale, ..TableUpdate::of_rows(block.shape, rows, decoded.values) };
        if self.changes { update.added_to(base) } else { Ok(update) }
    }
}
