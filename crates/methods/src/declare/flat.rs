//! Reads all blocks that a device has as one flat slice, and makes of such a slice what it keeps and
//! what it sends, for methods that train several networks at once.
//!
//! The slice has one block after the other in the order of their declaration: private ones and
//! downloaded ones. Of a block [of own items](super::Block::of_own_items) it has the rows of these
//! alone.

use std::borrow::Cow;
use std::ops::Range;

use super::blocks::Block;
use super::own::Plan;
use super::{Own, table_of};
use fedrecsim_core::Result;
use fedrecsim_model::{Model, Table, TableUpdate};

impl Block {
    /// Returns the rows of the block that a device with these items has.
    fn rows_of<'i>(&self, items: &'i [u32]) -> Cow<'i, [u32]> {
        match self.is_of_own_items {
            true => Cow::Borrowed(items),
            false => (0..self.layout.shape.rows as u32).collect(),
        }
    }

    /// Returns the number of values that a device with so many items has of the block.
    fn flat_values(&self, items: usize) -> usize {
        let shape = self.layout.shape;
        match self.is_of_own_items {
            true => items * shape.dimension,
            false => shape.values(),
        }
    }
}

impl Plan {
    /// Returns the blocks that a device with so many items has, each with its place in the slice.
    fn places(&self, items: usize) -> impl Iterator<Item = (&Block, Range<usize>)> {
        let blocks = self.blocks.iter();
        let has = |block: &&Block| block.place.is_private() || block.place.is_downloaded;
        let mut end = 0;
        blocks.filter(has).map(move |block| {
            let start = end;
            end += block.flat_values(items);
            (block, start..end)
        })
    }
}

impl<S> Own<S> {
    /// Returns the flat values of a device with these items (ascending).
    pub(crate) fn flat(&self, model: &Model, items: &[u32]) -> Vec<f32> {
        let mut values = Vec::new();
        for (block, _) in self.plan.places(items.len()) {
            let name = block.name();
            match (block.place.is_private(), block.is_item_table()) {
                (true, true) => {
                    let (rows, start) = self.rows(name);
                    let listed = block.rows_of(items);
                    rows.read_rows(&listed, start, &mut Vec::new(), |_, row, scale| {
                        values.extend(row.iter().map(|value| value * scale));
                    });
                }
                (true, false) => values.extend_from_slice(self.get(name)),
                (false, _) if block.is_of_own_items => {
                    values.extend(table_of(model, name).gathered(items));
                }
                (false, _) => values.extend_from_slice(table_of(model, name).as_slice()),
            }
        }
        values
    }

    /// Keeps the flat values of private blocks.
    pub(crate) fn keep_flat(&mut self, items: &[u32], values: &[f32]) {
        let plan = self.plan.clone();
        let kept = plan.places(items.len());
        for (block, place) in kept.filter(|(block, _)| block.place.is_private()) {
            let (name, values) = (block.name(), &values[place]);
            if !block.is_item_table() {
                self.get_mut(name).copy_from_slice(values);
                continue;
            }
            let width = block.layout.shape.dimension;
            let (rows, listed) = (self.rows_mut(name).0, block.rows_of(items));
            rows.write_rows(&listed, 1.0, &mut Vec::new(), |at, row| {
                row.copy_from_slice(&values[at * width..(at + 1) * width]);
            });
        }
    }

    /// Returns the updates of uploaded blocks that have these flat values. Of a block of own items, an
    /// update lists the rows of these.
    ///
    /// # Errors
    /// As [`TableUpdate::listed`].
    pub(crate) fn flat_updates(&self, items: &[u32], values: &[f32]) -> Result<Vec<TableUpdate>> {
        let places = self.plan.places(items.len());
        let sent = places.filter(|(block, _)| block.place.is_uploaded);
        let update = |(block, place): (&Block, Range<usize>)| {
            let (shape, values) = (block.layout.shape, &values[place]);
            match block.is_of_own_items {
                true => TableUpdate::listed(shape, items.to_vec(), values, 1.0),
                false => Ok(TableUpdate::whole(Table::new(shape, values.to_vec()))),
            }
        };
        sent.map(update).collect()
    }
}
