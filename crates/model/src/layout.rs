//! Describes what travels between server and clients: named blocks with shapes and types.
//!
//! A method states the layouts of downloads and uploads for each of its phases. Frames are checked
//! against them, and the sizes of tables, the memory of devices and the content of checkpoints
//! follow from them.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use super::table::TableShape;
pub use super::table::ValueType;

/// Says what the rows of a block stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// Row j belongs to item j. A client touches the rows of few items.
    ItemTable,
    /// Rows are those of dense weights, such as a layer of a network. A client touches all of them.
    Weights,
}

/// Describes one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockLayout {
    /// The name in errors, reports and exported files, such as `C`.
    pub name: Cow<'static, str>,
    /// The meaning of its rows.
    pub kind: BlockKind,
    /// The numbers of rows and columns.
    pub shape: TableShape,
    /// The type of its values.
    pub value_type: ValueType,
    /// Whether the block is a statistic, such as a gradient or a count: rows that an update leaves
    /// out are zero. In a state of the model, they are rows of the download times one factor.
    pub is_statistic: bool,
}

impl BlockLayout {
    /// Describes an item table of single-precision values.
    pub fn item_table(name: impl Into<Cow<'static, str>>, shape: TableShape) -> Self {
        Self {
            name: name.into(),
            kind: BlockKind::ItemTable,
            shape,
            value_type: ValueType::F32,
            is_statistic: false,
        }
    }

    /// Describes dense single-precision weights.
    pub fn weights(name: impl Into<Cow<'static, str>>, shape: TableShape) -> Self {
        Self {
            kind: BlockKind::Weights,
            ..Self::item_table(name, shape)
        }
    }

    /// Returns the same block as a statistic: rows that an update leaves out are zero.
    pub fn statistic(self) -> Self {
        Self {
            is_statistic: true,
            ..self
        }
    }

    /// Returns the same block with values of another type.
    pub fn of(self, value_type: ValueType) -> Self {
        Self { value_type, ..self }
    }

    /// Returns the number of bytes of all values.
    pub(crate) fn bytes(&self) -> usize {
        self.shape.values() * self.value_type.bytes()
    }
}

/// Describes a model, a download or an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    blocks: Arc<[BlockLayout]>,
    /// Whether frames carry a weight.
    pub weighted: bool,
    /// Whether frames carry a report of the client's loss.
    pub reports_utility: bool,
    /// How many of the blocks every frame has. It may leave out those after them, from some block
    /// on.
    required: usize,
}

impl Layout {
    /// Describes these blocks, in this order.
    ///
    /// # Panics
    /// If there are more blocks than the 255 that a frame can count, or if two blocks have the same
    /// name. Both are defects of the method.
    pub fn new(blocks: Vec<BlockLayout>) -> Self {
        assert!(
            blocks.len() <= usize::from(u8::MAX),
            "a layout has at most 255 blocks"
        );
        for (position, block) in blocks.iter().enumerate() {
            assert!(
                blocks[..position]
                    .iter()
                    .all(|other| other.name != block.name),
                "two blocks are called {}",
                block.name
            );
        }
        Self {
            required: blocks.len(),
            blocks: blocks.into(),
            weighted: false,
            reports_utility: false,
        }
    }

    /// Describes a phase that sends no frame.
    pub fn none() -> Self {
        Self::new(Vec::new())
    }

    /// Describes one item table of single-precision values.
    pub fn of_table(name: impl Into<Cow<'static, str>>, shape: TableShape) -> Self {
        Self::new(vec![BlockLayout::item_table(name, shape)])
    }

    /// Returns the same layout with a weight in every frame, which the server gives the update.
    pub fn weighted(self) -> Self {
        Self {
            weighted: true,
            ..self
        }
    }

    /// Returns the same layout with `rows` rows in the blocks that `which` picks.
    #[must_use]
    pub fn with_rows(&self, rows: usize, which: impl Fn(&BlockLayout) -> bool) -> Self {
        let block = |block: &BlockLayout| match which(block) {
            true => BlockLayout {
                shape: TableShape {
                    rows,
                    ..block.shape
                },
                ..block.clone()
            },
            false => block.clone(),
        };
        Self {
            blocks: self.blocks.iter().map(block).collect(),
            ..*self
        }
    }

    /// Returns the same layout whose frames may leave out blocks from the one at `position` on.
    pub fn optional_from(self, position: usize) -> Self {
        let required = position.min(self.blocks.len());
        Self { required, ..self }
    }

    /// Returns the layout of a frame that has the first `count` blocks; `None` if no frame may have
    /// so few or so many.
    pub fn beginning(&self, count: usize) -> Option<Self> {
        let is_allowed = (self.required..=self.blocks.len()).contains(&count);
        is_allowed.then(|| Self {
            blocks: self.blocks[..count].into(),
            required: count,
            ..*self
        })
    }

    /// Returns whether frames may leave out the block of this name.
    pub fn is_optional(&self, name: &str) -> bool {
        self.position(name).is_some_and(|at| at >= self.required)
    }

    /// Returns the blocks in their order.
    pub fn blocks(&self) -> &[BlockLayout] {
        &self.blocks
    }

    /// Returns whether there are no blocks, so that nothing travels.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Returns the position of the block of this name.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.blocks.iter().position(|block| block.name == name)
    }

    /// Returns the number of values of all blocks.
    pub fn values(&self) -> usize {
        self.blocks.iter().map(|block| block.shape.values()).sum()
    }

    /// Returns the number of bytes of all values.
    pub fn bytes(&self) -> usize {
        self.blocks.iter().map(BlockLayout::bytes).sum()
    }

    /// Returns the number of bytes of the scalars in a frame: a weight of four, and a report of the
    /// client's loss of eight.
    pub fn scalar_bytes(&self) -> usize {
        4 * usize::from(self.weighted) + 8 * usize::from(self.reports_utility)
    }

    /// Returns the only block if frames hold one table of single precision and no scalars.
    pub(crate) fn single_table(&self) -> Option<&BlockLayout> {
        match &*self.blocks {
            [block]
                if block.value_type == ValueType::F32
                    && !self.weighted
                    && !self.reports_utility =>
            {
                Some(block)
            }
            _ => None,
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, block) in self.blocks.iter().enumerate() {
            let separator = if position == 0 { "" } else { ", " };
            write!(f, "{separator}{} ({})", block.name, block.shape)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: TableShape = TableShape {
        rows: 3,
        dimension: 2,
    };

    #[test]
    fn a_layout_knows_its_sizes_and_names() {
        let counts = BlockLayout::item_table(
            "counts",
            TableShape {
                rows: 3,
                dimension: 1,
            },
        )
        .of(ValueType::U64)
        .statistic();
        let layout = Layout::new(vec![BlockLayout::item_table("V", SHAPE), counts]);
        assert_eq!((layout.values(), layout.bytes()), (9, 48));
        assert_eq!(
            (layout.position("counts"), layout.position("C")),
            (Some(1), None)
        );
        assert_eq!(layout.to_string(), "V (3 x 2), counts (3 x 1)");
        assert!(Layout::none().is_empty());
    }

    /// If this fails, a download without a block that everybody needs is taken for a whole one.
    #[test]
    fn a_frame_leaves_out_last_blocks_where_they_are_optional() {
        let tables = ["E", "R"].map(|name| BlockLayout::item_table(name, SHAPE));
        let whole = Layout::new(tables.to_vec());
        assert!(whole.beginning(1).is_none() && whole.beginning(2) == Some(whole.clone()));
        let first = Layout::of_table("E", SHAPE);
        let part = whole.optional_from(1);
        let of = [0, 1, 2, 3].map(|count| part.beginning(count).map(|part| part.blocks().len()));
        assert_eq!(of, [None, Some(1), Some(2), None]);
        assert_eq!(part.beginning(1), Some(first));
    }

    #[test]
    fn only_a_lone_table_of_single_precision_is_a_single_table() {
        let table = Layout::of_table("C", SHAPE);
        assert!(table.single_table().is_some());
        assert!(table.clone().weighted().single_table().is_none());
        let reporting = Layout {
            reports_utility: true,
            ..table
        };
        assert!(reporting.single_table().is_none());
        assert!(
            Layout::new(vec![BlockLayout::item_table("n", SHAPE).of(ValueType::U32)])
                .single_table()
                .is_none()
        );
    }

    #[test]
    #[should_panic(expected = "two blocks are called C")]
    fn two_blocks_of_one_name_are_a_defect() {
        let block = BlockLayout::weights("C", SHAPE);
        Layout::new(vec![block.clone(), block]);
    }
}
