//! Holds the private side of a user, as it follows from the blocks of a method.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use super::blocks::{Block, Draw, GoesOn};
use super::learn::FIRST_LAYER;
use super::learn::adapter::RECEIVED;
use super::tuned_table::TunedTable;
use super::{Memory, layout_of, table_of};
use fedrecsim_core::{Purpose, Result, Streams, UserId};
use fedrecsim_model::row_table::RowTable;
use fedrecsim_model::{BlockLayout, Model, SharedTable, Table};

/// Holds the private side of one user.
#[derive(Clone)]
pub struct Own<S = ()> {
    pub(super) plan: Arc<Plan>,
    /// The values of the private blocks that are no item tables.
    pub(super) values: Box<[f32]>,
    /// The private item tables.
    pub(super) private: Box<[RowTable]>,
    /// What was made of shared item tables that are kept.
    pub(super) kept: Box<[TunedTable]>,
    /// What the device remembers beside its blocks.
    pub memory: S,
}

impl<S> Own<S> {
    /// Returns the values of a private block.
    ///
    /// # Panics
    /// If the method declares no such block, here and below.
    pub fn get(&self, name: &str) -> &[f32] {
        &self.values[self.plan.place(name)]
    }

    /// Returns the values of a private block to write to.
    pub fn get_mut(&mut self, name: &str) -> &mut [f32] {
        &mut self.values[self.plan.place(name)]
    }

    /// Returns whether a block is private, and no item table.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.plan.find_place(name).is_some()
    }

    /// Returns `length` values of private blocks that are declared one after the other, from this
    /// one on.
    pub(crate) fn run(&self, first: &str, length: usize) -> &[f32] {
        &self.values[self.plan.place(first).start..][..length]
    }

    /// Returns the values of [`Self::run`] to write to.
    pub(crate) fn run_mut(&mut self, first: &str, length: usize) -> &mut [f32] {
        &mut self.values[self.plan.place(first).start..][..length]
    }

    /// Returns a private item table, with the table that it starts from.
    pub(crate) fn rows(&self, name: &str) -> (&RowTable, &Table) {
        let at = self.plan.position_of_rows(name);
        (&self.private[at], &self.plan.starts_of_rows[at].1)
    }

    /// Returns a private item table to write to, with the table that it starts from.
    pub(crate) fn rows_mut(&mut self, name: &str) -> (&mut RowTable, &Table) {
        let at = self.plan.position_of_rows(name);
        (&mut self.private[at], &self.plan.starts_of_rows[at].1)
    }

    /// Returns the name and the values of the first private block of a single row, which is no item
    /// table.
    pub(super) fn first_vector(&self) -> Option<(&Cow<'static, str>, &[f32])> {
        let mut private = self.plan.private.iter();
        private.find_map(|(at, place)| {
            let layout = &self.plan.blocks[*at].layout;
            (layout.shape.rows == 1).then(|| (&layout.name, &self.values[place.clone()]))
        })
    }

    /// Returns what the device has made of a shared item table, if it keeps that.
    pub(crate) fn kept(&self, name: &str) -> Option<&TunedTable> {
        let at = self.plan.kept().position(|block| block.name() == name)?;
        self.kept.get(at)
    }

    /// Returns the item table that the user scores with: its own version if it keeps one, and
    /// otherwise that of the model. If it goes on from its own version, what it has received is in
    /// that.
    ///
    /// # Errors
    /// As [`TableUpdate::apply`](fedrecsim_model::table::TableUpdate::apply).
    pub fn table(&self, name: &str, model: &Model) -> Result<SharedTable> {
        let Some(kept) = self.kept(name) else {
            return Ok(Arc::clone(table_of(model, name)));
        };
        let own = kept.whole()?;
        Ok(match self.received(name, model) {
            Some((received, GoesOn::Share(share))) => mixed(own, received, *share),
            Some((received, GoesOn::Adapted(by))) => {
                let weights = self.run(FIRST_LAYER, by.network.parameters());
                Arc::new(by.moved(weights, own, received))
            }
            None => Arc::new(own),
        })
    }

    /// Returns what the user has received of an item table that it goes on from its own version of,
    /// with how it does.
    pub(super) fn received<'m>(
        &self,
        name: &str,
        model: &'m Model,
    ) -> Option<(&'m SharedTable, &GoesOn)> {
        let goes_on = self.plan.block(name).goes_on.as_ref()?;
        Some((model.named(name)?, goes_on))
    }

    /// Returns `received` with the tables that the device goes on from its own version of. Where
    /// training moves rows again, what was received is in it too.
    ///
    /// # Errors
    /// As [`Self::table`].
    pub(super) fn going_on<'m>(&self, received: &'m Model) -> Result<Cow<'m, Model>> {
        let mut model = Cow::Borrowed(received);
        let kept = self.plan.kept().filter(|block| block.goes_on.is_some());
        for block in kept {
            let table = self.table(block.name(), received)?;
            let mut with = model.with_table(&block.layout, table)?;
            if let Some((table, GoesOn::Adapted(_))) = self.received(block.name(), received) {
                let layout = BlockLayout::item_table(RECEIVED, table.shape());
                with = with.with_table(&layout, Arc::clone(table))?;
            }
            model = Cow::Owned(with);
        }
        Ok(model)
    }

    /// Returns what is kept of shared item tables, each with the position of its block in uploads.
    pub(super) fn kept_mut(&mut self) -> impl Iterator<Item = (usize, &mut TunedTable)> {
        let blocks = self.plan.blocks.iter();
        let uploaded = blocks.filter(|block| block.place.is_uploaded).enumerate();
        let kept = uploaded.filter(|(_, block)| block.is_kept);
        kept.map(|(at, _)| at).zip(&mut self.kept)
    }
}

/// Returns this share of `own`, and the rest of `received`. Of two equal tables that is the same one.
fn mixed(mut own: Table, received: &SharedTable, share: f32) -> SharedTable {
    if share == 0.0 {
        return Arc::clone(received);
    }
    let values = own.as_mut_slice().iter_mut().zip(received.as_slice());
    values.for_each(|(own, received)| *own += (1.0 - share) * (received - *own));
    Arc::new(own)
}

/// Holds what follows from the blocks of a method.
pub(crate) struct Plan {
    pub(super) blocks: Vec<Block>,
    /// The private blocks that are no item tables, each with the place of its values.
    private: Vec<(usize, Range<usize>)>,
    /// The values of these blocks as they start, but for those that each user draws.
    starts: Vec<f32>,
    /// The private item tables as they start.
    pub(super) starts_of_rows: Vec<(usize, SharedTable)>,
    streams: Streams,
}

impl Plan {
    /// Draws the starts, and returns them with the drawn model.
    pub(super) fn new(blocks: Vec<Block>, streams: Streams) -> (Self, Model) {
        let mut global = streams.stream(Purpose::GlobalInit, 0, 0);
        let mut alike = streams.stream(Purpose::PrivateInit, 0, 0);
        let (mut model, mut private, mut starts) = (Vec::new(), Vec::new(), Vec::new());
        let mut starts_of_rows = Vec::new();
        for (at, block) in blocks.iter().enumerate() {
            if block.place.in_model {
                model.push(block.start.values(&mut global, &block.layout));
            } else if block.place.is_private() {
                let table = match block.draw {
                    Draw::Alike => block.start.table_of(&mut alike, &block.layout),
                    Draw::WithShared => block.start.table_of(&mut global, &block.layout),
                    // Each user makes these draws.
                    Draw::PerUser => Arc::new(Table::zeros(block.layout.shape)),
                };
                if block.is_item_table() {
                    starts_of_rows.push((at, table));
                } else {
                    private.push((at, starts.len()..starts.len() + table.as_slice().len()));
                    starts.extend_from_slice(table.as_slice());
                }
            }
        }
        let layout = layout_of(&blocks, |block| block.place.in_model);
        let drawn = Model::new(layout, model)
            .unwrap_or_else(|fault| panic!("a start does not fit its block: {fault}"));
        let plan = Self {
            blocks,
            private,
            starts,
            starts_of_rows,
            streams,
        };
        (plan, drawn)
    }

    /// Returns the declaration of a block.
    pub(super) fn block(&self, name: &str) -> &Block {
        let block = self.blocks.iter().find(|block| block.name() == name);
        block.unwrap_or_else(|| panic!("the method has no block {name}"))
    }

    fn find_place(&self, name: &str) -> Option<Range<usize>> {
        let mut private = self.private.iter();
        let found = private.find(|(at, _)| self.blocks[*at].name() == name);
        found.map(|(_, place)| place.clone())
    }

    fn place(&self, name: &str) -> Range<usize> {
        let place = self.find_place(name);
        place.unwrap_or_else(|| panic!("the method has no private block {name}"))
    }

    fn position_of_rows(&self, name: &str) -> usize {
        let mut starts = self.starts_of_rows.iter();
        let found = starts.position(|(at, _)| self.blocks[*at].name() == name);
        found.unwrap_or_else(|| panic!("the method has no private item table {name}"))
    }

    /// Returns whether an item table of this shape is shared, which a private one can be added to.
    pub(super) fn shares_a_table_like(&self, private: &Table) -> bool {
        let mut blocks = self.blocks.iter();
        blocks.any(|block| {
            let layout = &block.layout;
            block.place.in_model && block.is_item_table() && layout.shape == private.shape()
        })
    }

    pub(super) fn kept(&self) -> impl Iterator<Item = &Block> {
        self.blocks.iter().filter(|block| block.is_kept)
    }

    /// Makes the private side of `user`, who keeps what is to be kept of `model`.
    pub(super) fn own<S: Memory>(self: &Arc<Self>, user: UserId, model: &Model) -> Own<S> {
        let (purpose, user) = (Purpose::PrivateInit, u64::from(user.0));
        let mut stream = self.streams.stream(purpose, user, 0);
        let mut values: Box<[f32]> = self.starts.clone().into();
        for (at, place) in &self.private {
            let block = &self.blocks[*at];
            if block.draw == Draw::PerUser {
                let drawn = block.start.table_of(&mut stream, &block.layout);
                values[place.clone()].copy_from_slice(drawn.as_slice());
            }
        }
        let rows = |(at, _): &(usize, _)| RowTable::new(self.blocks[*at].layout.shape.dimension);
        let kept = |block: &Block| TunedTable::new(table_of(model, block.name()));
        Own {
            plan: Arc::clone(self),
            values,
            private: self.starts_of_rows.iter().map(rows).collect(),
            kept: self.kept().map(kept).collect(),
            memory: S::default(),
        }
    }
}
