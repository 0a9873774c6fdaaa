//! Encodes and decodes updates of whole layouts, block by block.

use std::sync::Arc;

use bytes::Bytes;

use super::frame::check_sum;
use super::reader::{FrameReader, open_one_table};
use super::{BlockContext, Codec, CodecMemory, Frame, FrameWriter, Integrity, Randomness};
use crate::blocks::{Model, ModelUpdate};
use crate::layout::{BlockKind, BlockLayout, Layout, ValueType};
use fedrecsim_core::error::Result;
use fedrecsim_core::units::Direction;
use fedrecsim_scenario::{CodecChoice, CodecSpec};

/// Says which codec encodes which block in one direction. Clones are cheap.
#[derive(Clone, Debug)]
pub struct BlockCodecs {
    every: Arc<dyn Codec>,
    named: Arc<[(String, Arc<dyn Codec>)]>,
}

/// Holds what an encoder may use beside an update of a whole layout.
#[derive(Debug)]
pub struct EncodeContext<'a> {
    /// The model that the receiver is known to have. It has no blocks for downloads, whose
    /// receivers may have no model.
    pub base: &'a Model,
    /// The memory of the codec on this device.
    pub memory: &'a mut CodecMemory,
    /// The randomness of this participation.
    pub randomness: Randomness,
}

impl BlockCodecs {
    /// Makes the codecs of uploads, or of downloads.
    pub fn new(direction: Direction, spec: &CodecSpec) -> Self {
        let codec = |choice: &CodecChoice| -> Arc<dyn Codec> {
            match choice {
                CodecChoice::Named(name) => Arc::new(*name),
                CodecChoice::Composed(spec) => Arc::new(*spec),
            }
        };
        let own = |(name, choice): (&str, _)| (name.to_owned(), codec(choice));
        Self {
            every: codec(spec.of_every_block(direction)),
            named: spec.of_single_blocks(direction).map(own).collect(),
        }
    }

    /// Has one codec encode all blocks.
    pub fn every(codec: impl Codec + 'static) -> Self {
        Self {
            every: Arc::new(codec),
            named: [].into(),
        }
    }

    /// Returns the codec of a block.
    pub fn of_block(&self, block: &BlockLayout) -> &dyn Codec {
        let own = self.named.iter().find(|(name, _)| *name == block.name);
        &**own.map_or(&self.every, |(_, codec)| codec)
    }

    fn codecs(&self) -> impl Iterator<Item = &Arc<dyn Codec>> {
        [&self.every]
            .into_iter()
            .chain(self.named.iter().map(|(_, codec)| codec))
    }

    /// Returns whether a receiver decodes, bit for bit, what was encoded, see
    /// [`Codec::is_lossless`].
    pub fn is_lossless(&self) -> bool {
        self.codecs().all(|codec| codec.is_lossless())
    }

    /// Returns the formats of all codecs, see [`Codec::format`].
    pub fn formats(&self) -> impl Iterator<Item = &'static str> {
        self.codecs().map(|codec| codec.format())
    }

    /// Returns whether some block is sent as differences, see [`Codec::sends_changes`].
    pub fn sends_changes(&self) -> bool {
        self.codecs().any(|codec| codec.sends_changes())
    }

    /// Returns whether a download of `block` holds only the rows that its receiver has asked for.
    /// That can be asked for of item tables of single precision; any other block is sent whole.
    pub fn sends_needed_rows_of(&self, block: &BlockLayout) -> bool {
        let has_rows = block.kind == BlockKind::ItemTable && block.value_type == ValueType::F32;
        has_rows && self.of_block(block).sends_needed_rows()
    }

    /// Encodes an update of `layout`.
    ///
    /// # Errors
    /// [`Error::Update`](fedrecsim_core::error::Error::Update) if it is not an update of `layout`, or if it
    /// contradicts itself; [`Error::Unrepresentable`](fedrecsim_core::error::Error::Unrepresentable), naming
    /// the block, if a codec cannot represent one of its values.
    pub fn encode(
        &self,
        update: &ModelUpdate,
        layout: &Layout,
        context: &mut EncodeContext<'_>,
    ) -> Result<Frame> {
        update.check(layout)?;
        let mut frame = FrameWriter::new(layout, &update.scalars);
        for (position, (update, block)) in update.blocks.iter().zip(layout.blocks()).enumerate() {
            let base = context.base.base_of(block);
            let (memory, randomness) = (&mut *context.memory, context.randomness);
            let mut context = BlockContext {
                position,
                base,
                memory,
                randomness,
            };
            let encoded = self
                .of_block(block)
                .encode_block(update, &mut context, &mut frame);
            encoded.map_err(|error| error.within(format_args!("block `{}`", block.name)))?;
        }
        Ok(frame.seal())
    }

    /// Decodes a frame that should hold an update of `layout`. `base` is the model that it was
    /// encoded with.
    ///
    /// # Errors
    /// [`Error::Frame`](fedrecsim_core::error::Error::Frame) for anything but a well-formed, undamaged frame
    /// of these codecs and this layout.
    pub fn decode(&self, frame: &Bytes, layout: &Layout, base: &Model) -> Result<ModelUpdate> {
        self.decode_frame((frame, Integrity::Unknown), layout, base)
    }

    /// Decodes a frame as [`Self::decode`] does, without computing its checksum again if its bytes
    /// are known to be intact.
    ///
    /// # Errors
    /// As [`Self::decode`].
    pub fn decode_frame(
        &self,
        (frame, integrity): (&Bytes, Integrity),
        layout: &Layout,
        base: &Model,
    ) -> Result<ModelUpdate> {
        if let Some(block) = layout.single_table() {
            let opened = open_one_table(frame, block.shape, integrity)?;
            return self
                .of_block(block)
                .decode_block(&opened, base.base_of(block))
                .map(ModelUpdate::of_table);
        }
        let (mut reader, scalars) = FrameReader::new(frame, layout)?;
        let mut opened = Vec::with_capacity(layout.blocks().len());
        for block in layout.blocks() {
            opened.push(reader.open_block(block)?);
        }
        reader.finish()?;
        check_sum(frame, integrity)?;
        let decode = |(opened, block)| {
            self.of_block(block)
                .decode_block(opened, base.base_of(block))
        };
        let blocks = opened
            .iter()
            .zip(layout.blocks())
            .map(decode)
            .collect::<Result<_>>()?;
        Ok(ModelUpdate { blocks, scalars })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::TableShape;
    use fedrecsim_scenario::{BlockCodecSpec, CompositionSpec, ValuesSpec};

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
            BlockCodecs::new(Direction::Up, &spec),
            BlockCodecs::new(Direction::Down, &spec),
        );
        assert!(!up.of_block(&block("C")).is_lossless() && up.of_block(&block("D")).is_lossless());
        assert!(down.of_block(&block("C")).is_lossless());
        assert!(!up.is_lossless() && down.is_lossless());
    }
}
