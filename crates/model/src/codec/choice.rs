//! Makes codecs of what a scenario says.

use std::sync::Arc;

use super::composition::{Composition, Entropy, Scales, Select, Values};
use super::positions::PositionCode;
use super::values::Quantizer;
use super::{BlockCodecs, Codec, DenseF32, RowsF32, SparseF32};
use fedrecsim_scenario::scenario::{
    CodecChoice, CodecName, CodecSpec, CompositionSpec, EntropySpec, PositionsSpec, RoundingSpec,
    ScaleSpec, SelectSpec, ValuesSpec,
};

/// Returns the codec of this name.
pub fn of(name: CodecName) -> &'static dyn Codec {
    match name {
        CodecName::DenseF32 => &DenseF32,
        CodecName::RowsF32 => &RowsF32,
        CodecName::SparseF32 => &SparseF32,
    }
}

impl BlockCodecs {
    /// Makes the codecs of uploads.
    pub fn of_uplink(spec: &CodecSpec) -> Self {
        Self::new(chosen(&spec.uplink), each_chosen(spec.uplinks_of_blocks()))
    }

    /// Makes the codecs of downloads.
    pub fn of_downlink(spec: &CodecSpec) -> Self {
        Self::new(
            chosen(&spec.downlink),
            each_chosen(spec.downlinks_of_blocks()),
        )
    }
}

impl From<CodecName> for BlockCodecs {
    /// Has the codec of this name encode all blocks.
    fn from(name: CodecName) -> Self {
        Self::new(chosen(&CodecChoice::Named(name)), Vec::new())
    }
}

/// Makes codecs of single blocks.
fn each_chosen<'a>(
    choices: impl Iterator<Item = (&'a str, &'a CodecChoice)>,
) -> Vec<(String, Arc<dyn Codec>)> {
    choices
        .map(|(name, choice)| (name.to_owned(), chosen(choice)))
        .collect()
}

/// Makes a codec.
fn chosen(choice: &CodecChoice) -> Arc<dyn Codec> {
    match choice {
        CodecChoice::Named(CodecName::DenseF32) => Arc::new(DenseF32),
        CodecChoice::Named(CodecName::RowsF32) => Arc::new(RowsF32),
        CodecChoice::Named(CodecName::SparseF32) => Arc::new(SparseF32),
        CodecChoice::Composed(spec) => Arc::new(Composition::from(spec)),
    }
}

impl From<&CompositionSpec> for Composition {
    fn from(spec: &CompositionSpec) -> Self {
        Self {
            select: match spec.select {
                SelectSpec::All => Select::All,
                SelectSpec::TouchedRows => Select::TouchedRows,
                SelectSpec::NeededRows => Select::NeededRows,
                SelectSpec::NonZeros => Select::NonZeros,
                SelectSpec::AtLeast(least) => Select::AtLeast(least as f32),
                SelectSpec::TopShare(share) => Select::TopShare(share),
                SelectSpec::RandomShare(share) => Select::RandomShare(share),
                SelectSpec::LowRank(rank) => Select::LowRank(rank as usize),
            },
            changes: spec.delta,
            values: values_of(spec),
            positions: match spec.positions {
                PositionsSpec::Auto => None,
                PositionsSpec::Bitmap => Some(PositionCode::Bitmap),
                PositionsSpec::Gaps => Some(PositionCode::Gaps),
                PositionsSpec::Rice => Some(PositionCode::Rice),
                PositionsSpec::EliasFano => Some(PositionCode::EliasFano),
                PositionsSpec::Enumerative => Some(PositionCode::Enumerative),
            },
            entropy: match spec.entropy {
                EntropySpec::None => Entropy::None,
                EntropySpec::Ans => Entropy::Ans,
                EntropySpec::Zstd => Entropy::Zstd,
                EntropySpec::Auto => Entropy::Shortest,
            },
            error_feedback: spec.error_feedback,
        }
    }
}

fn values_of(spec: &CompositionSpec) -> Values {
    let scales = match spec.scale {
        ScaleSpec::Row => Scales::Row,
        ScaleSpec::Block => Scales::Block,
    };
    let levels = |most| Quantizer::Levels {
        most,
        stochastic: spec.rounding == RoundingSpec::Stochastic,
    };
    let quantizer = match spec.values {
        ValuesSpec::F32 => return Values::Exact,
        ValuesSpec::F16 => Quantizer::F16,
        ValuesSpec::Bf16 => Quantizer::Bf16,
        ValuesSpec::Int8 => levels(127),
        ValuesSpec::Int4 => levels(7),
        ValuesSpec::Int2 => levels(1),
        ValuesSpec::Sign => Quantizer::Sign,
        ValuesSpec::DeadZone(zone) => Quantizer::DeadZone {
            step: zone.step as f32,
            zone: zone.zone as f32,
        },
    };
    Values::Quantized(quantizer, scales)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::layout::BlockLayout;
    use crate::model::table::TableShape;
    use fedrecsim_scenario::scenario::{BlockCodecSpec, CodecSpec};

    /// If this fails, a block travels in another codec than the scenario names for it.
    #[test]
    fn a_block_has_its_own_codec_and_every_other_that_of_the_direction() {
        let int8 = CompositionSpec {
            values: ValuesSpec::Int8,
            ..CompositionSpec::default()
        };
        let own = BlockCodecSpec {
            uplink: Some(CodecChoice::Composed(int8)),
            downlink: None,
        };
        let spec = CodecSpec {
            blocks: [("C".to_owned(), own)].into(),
            ..CodecSpec::default()
        };
        let block = |name| {
            BlockLayout::item_table(
                name,
                TableShape {
                    rows: 3,
                    dimension: 2,
                },
            )
        };
        let (up, down) = (
            BlockCodecs::of_uplink(&spec),
            BlockCodecs::of_downlink(&spec),
        );
        assert!(!up.of_block(&block("C")).is_lossless() && up.of_block(&block("D")).is_lossless());
        assert!(down.of_block(&block("C")).is_lossless());
        assert!(!up.is_lossless() && down.is_lossless());
    }
}
