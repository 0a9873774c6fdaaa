//! Holds the values of models and updates: one table, or raw values, for every block of a layout.

use std::sync::Arc;

use bytes::Bytes;

use super::layout::{BlockLayout, Layout, ValueType};
use super::table::{SharedTable, Table, TableUpdate};
use fedrecsim_core::error::{Error, Result};

/// Holds the values of one block.
#[derive(Clone, Debug, PartialEq)]
pub enum BlockValues {
    /// Single-precision values.
    Table(SharedTable),
    /// Values of another type, row-major and little-endian.
    Raw(Bytes),
}

impl BlockValues {
    /// Returns the table, if the values are of single precision.
    fn table(&self) -> Option<&SharedTable> {
        match self {
            Self::Table(table) => Some(table),
            Self::Raw(_) => None,
        }
    }

    /// Returns whether these are values of `block`.
    fn fits(&self, block: &BlockLayout) -> bool {
        let is_single = block.value_type == ValueType::F32;
        match self {
            Self::Table(table) => is_single && table.shape() == block.shape,
            Self::Raw(bytes) => !is_single && bytes.len() == block.bytes(),
        }
    }
}

/// Holds the values of every block of a layout: a model, or the part that a server sends. Clones
/// are cheap, since they share the values.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    layout: Layout,
    blocks: Vec<BlockValues>,
}

impl Model {
    /// Makes a model of these values.
    ///
    /// # Errors
    /// [`Error::Update`] if there are more or fewer blocks than the layout has, or if one has
    /// another shape or type.
    pub fn new(layout: Layout, blocks: Vec<BlockValues>) -> Result<Self> {
        if blocks.len() != layout.blocks().len() {
            return Err(Error::Update(format!(
                "{} blocks meet a layout of {}",
                blocks.len(),
                layout.blocks().len()
            )));
        }
        for (block, values) in layout.blocks().iter().zip(&blocks) {
            if !values.fits(block) {
                return Err(Error::Update(format!(
                    "block {} is not a {} one of its type",
                    block.name, block.shape
                )));
            }
        }
        Ok(Self { layout, blocks })
    }

    /// Makes a model of tables of single-precision values, in the order of the layout. Where tables
    /// come from elsewhere, [`Self::new`] says what is wrong with them.
    ///
    /// # Panics
    /// If a table has another shape than its block, or if there are more or fewer tables than
    /// blocks, which are defects of the method.
    pub fn of_tables(layout: Layout, tables: impl IntoIterator<Item = Table>) -> Self {
        let blocks = tables
            .into_iter()
            .map(|table| BlockValues::Table(table.into()));
        Self::new(layout, blocks.collect())
            .unwrap_or_else(|fault| panic!("a model has other tables than its layout: {fault}"))
    }

    /// Makes a model of one item table.
    pub fn of_table(name: &'static str, table: impl Into<SharedTable>) -> Self {
        let table = table.into();
        Self {
            layout: Layout::of_table(name, table.shape()),
            blocks: vec![BlockValues::Table(table)],
        }
    }

    /// Makes the model of a method that shares nothing.
    pub fn none() -> Self {
        Self {
            layout: Layout::none(),
            blocks: Vec::new(),
        }
    }

    /// Returns the layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Checks that `other` has the layout of this model.
    ///
    /// # Errors
    /// [`Error::Update`], naming both layouts, if it has not.
    pub fn check_same_layout(&self, other: &Self) -> Result<()> {
        if other.layout == self.layout {
            return Ok(());
        }
        Err(Error::Update(format!(
            "a model of {} meets one of {}",
            other.layout, self.layout
        )))
    }

    /// Takes the values of `other`.
    ///
    /// # Errors
    /// [`Error::Update`], naming both layouts, if `other` has another layout; this model is as it
    /// was then.
    pub fn replace(&mut self, other: Self) -> Result<()> {
        self.check_same_layout(&other)?;
        *self = other;
        Ok(())
    }

    /// Returns the values, in the order of the layout.
    pub fn blocks(&self) -> &[BlockValues] {
        &self.blocks
    }

    /// Returns the table of the block at `position`.
    ///
    /// # Panics
    /// If there is no such block, or if its values are not of single precision. Both are defects of
    /// the method, which knows its own layout.
    #[inline]
    pub fn table(&self, position: usize) -> &SharedTable {
        let table = self.blocks[position].table();
        table.unwrap_or_else(|| no_table(&self.layout, position))
    }

    /// Returns the table of the block at `position` to write to. It is copied first if others hold
    /// it too.
    ///
    /// # Panics
    /// As [`Self::table`].
    pub fn table_mut(&mut self, position: usize) -> &mut Table {
        match &mut self.blocks[position] {
            BlockValues::Table(table) => Arc::make_mut(table),
            BlockValues::Raw(_) => no_table(&self.layout, position),
        }
    }

    /// Returns the tables of several blocks to write to, each copied first if others hold it too.
    ///
    /// # Panics
    /// As [`Self::table`], and if a block is named twice.
    pub fn tables_mut<const N: usize>(&mut self, positions: [usize; N]) -> [&mut Table; N] {
        let mut blocks: Vec<Option<&mut BlockValues>> = self.blocks.iter_mut().map(Some).collect();
        positions.map(|position| match blocks[position].take() {
            Some(BlockValues::Table(table)) => Arc::make_mut(table),
            _ => panic!("block {position} holds no single-precision values, or is named twice"),
        })
    }

    /// Returns the table of the block of this name, if there is one of single precision.
    pub fn named(&self, name: &str) -> Option<&SharedTable> {
        self.blocks.get(self.layout.position(name)?)?.table()
    }

    /// Returns the raw values of the block at `position`, or no values if they are of single
    /// precision.
    ///
    /// # Panics
    /// If there is no such block.
    pub fn raw(&self, position: usize) -> &[u8] {
        match &self.blocks[position] {
            BlockValues::Raw(bytes) => bytes,
            BlockValues::Table(_) => &[],
        }
    }

    /// Returns the blocks of single precision with their names, in the order of the layout.
    pub fn tables(&self) -> impl Iterator<Item = (&str, &SharedTable)> {
        let blocks = self.layout.blocks().iter().zip(&self.blocks);
        blocks.filter_map(|(block, values)| Some((&*block.name, values.table()?)))
    }

    /// Returns the base of `block` if this is the downloaded model: rows that an update leaves out
    /// refer to it. It is the block of the same name, or zero if the block is a statistic or was
    /// not downloaded.
    pub fn base_of(&self, block: &BlockLayout) -> Option<&Table> {
        let table = self.named(&block.name).filter(|_| !block.is_statistic);
        table.map(|table| &**table)
    }

    /// Returns the same model with `table` as the values of `block`, which it may lack.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_table(&self, block: &BlockLayout, table: SharedTable) -> Result<Self> {
        let mut model = self.clone();
        if let Some(position) = self.layout.position(&block.name) {
            model.set_table(position, table)?;
            return Ok(model);
        }
        let layouts = [self.layout.blocks(), std::slice::from_ref(block)].concat();
        model.blocks.push(BlockValues::Table(table));
        Self::new(Layout::new(layouts), model.blocks)
    }

    /// Replaces the table of the block at `position`.
    ///
    /// # Errors
    /// [`Error::Update`] if there is no such block, or if it has another shape or type.
    pub fn set_table(&mut self, position: usize, table: SharedTable) -> Result<()> {
        let shape = table.shape();
        let values = BlockValues::Table(table);
        match self.layout.blocks().get(position) {
            Some(block) if values.fits(block) => {
                self.blocks[position] = values;
                Ok(())
            }
            _ => Err(Error::Update(format!(
                "there is no block {position} for a {shape} table"
            ))),
        }
    }

    /// Feeds all values to `sink`, as little-endian bytes in the order of the layout.
    pub fn visit_bytes(&self, sink: &mut dyn FnMut(&[u8])) {
        for block in &self.blocks {
            match block {
                BlockValues::Raw(raw) => sink(raw),
                BlockValues::Table(table) => {
                    sink(&super::kernel::little_endian_bytes(table.as_slice()))
                }
            }
        }
    }
}

/// Panics where a method takes raw values for a table.
fn no_table(layout: &Layout, position: usize) -> ! {
    panic!(
        "block {} holds no single-precision values",
        layout.blocks()[position].name
    )
}

/// Holds what a client reports to the server beside its update.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Scalars {
    /// The weight of the update. An update without one has weight 1.
    pub weight: Option<f32>,
    /// The report of the client's loss with the downloaded model.
    pub utility: Option<Utility>,
}

/// Reports how well the model that a client downloaded fits its data (Lai et al., Oort, OSDI 2021).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Utility {
    /// The mean local loss.
    pub loss: f32,
    /// The number of training ratings.
    pub ratings: u32,
}

/// Holds the content of one frame: an update for every block of a layout, and the scalars.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelUpdate {
    /// The update of each block, in the order of the layout.
    pub blocks: Vec<TableUpdate>,
    /// The scalars beside the values.
    pub scalars: Scalars,
}

impl ModelUpdate {
    /// Makes an update of one table, without scalars.
    pub fn of_table(table: TableUpdate) -> Self {
        Self::of_blocks(vec![table])
    }

    /// Makes an update of several blocks, without scalars.
    pub fn of_blocks(blocks: Vec<TableUpdate>) -> Self {
        Self {
            blocks,
            scalars: Scalars::default(),
        }
    }

    /// Returns the update with this weight by the method.
    pub fn weighing(mut self, weight: f32) -> Self {
        self.scalars.weight = Some(weight);
        self
    }

    /// Makes an update that lists every row of every block of a model.
    pub fn whole(model: &Model) -> Self {
        let whole = |(block, values): (&BlockLayout, &BlockValues)| match values {
            BlockValues::Table(table) => TableUpdate::whole(table.clone()),
            BlockValues::Raw(bytes) => {
                TableUpdate::raw(block.shape, block.value_type, bytes.clone())
            }
        };
        Self::of_blocks(
            model
                .layout
                .blocks()
                .iter()
                .zip(&model.blocks)
                .map(whole)
                .collect(),
        )
    }

    /// Checks that the update has the blocks and scalars of `layout` and does not contradict
    /// itself.
    ///
    /// # Errors
    /// [`Error::Update`], naming the fault.
    pub fn check(&self, layout: &Layout) -> Result<()> {
        if self.blocks.len() != layout.blocks().len() {
            let (found, expected) = (self.blocks.len(), layout.blocks().len());
            return Err(Error::Update(format!(
                "it has {found} blocks where the layout has {expected}"
            )));
        }
        if self.scalars.weight.is_some() != layout.weighted {
            return Err(Error::Update(
                "it has a weight and its layout has none, or the other way round".to_owned(),
            ));
        }
        for (update, block) in self.blocks.iter().zip(layout.blocks()) {
            if update.shape != block.shape || update.value_type != block.value_type {
                return Err(Error::Update(format!(
                    "it is for a {} table and meets block {} of {}",
                    update.shape, block.name, block.shape
                )));
            }
            update.check()?;
        }
        Ok(())
    }

    /// Applies the update to the receiver's model. Rows that it leaves out are scaled rows of
    /// `base`, or zero in a statistic.
    ///
    /// # Errors
    /// [`Error::Update`] if the update is not one of `layout`, or does not fit the blocks of
    /// `base`.
    pub fn apply(&self, layout: &Layout, base: &Model) -> Result<Model> {
        self.check(layout)?;
        let mut blocks = Vec::with_capacity(self.blocks.len());
        for (update, block) in self.blocks.iter().zip(layout.blocks()) {
            blocks.push(match block.value_type {
                ValueType::F32 => BlockValues::Table(Arc::new(update.apply(base.base_of(block))?)),
                _ => BlockValues::Raw(update.to_whole_bytes(None)?.into()),
            });
        }
        Model::new(layout.clone(), blocks)
    }
}
