//! Visits state that is kept after a participation, with one definition for the digest, checkpoints and their
//! restoration.
//!
//! Whatever has state passes every part of it, in a fixed order, to a [`StateVisitor`]. The visitor feeds the parts to
//! a digest, appends them to an archive, or replaces them by what an archive holds.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::archive::{Archive, ArchiveReader};
use super::blocks::{BlockValues, Model};
use super::layout::Layout;
use super::row_table::RowTable;
use super::table::{SharedTable, TableUpdate, extend_bytes};
use crate::error::Result;

/// Says what is done with the parts of a state.
pub enum StateVisitor<'a> {
    /// Every value is fed to this function, as little-endian bytes.
    Digest(&'a mut dyn FnMut(&[u8])),
    /// Every value is appended.
    Save(&'a mut Archive),
    /// Every value is replaced by the next one of the archive.
    Restore(&'a mut ArchiveReader),
}

impl StateVisitor<'_> {
    /// Visits values whose number does not change.
    ///
    /// # Errors
    /// [`Error::Checkpoint`](crate::error::Error::Checkpoint), here and below, when what is restored is not what was
    /// saved.
    pub fn values(&mut self, values: &mut [f32]) -> Result<()> {
        match self {
            Self::Digest(sink) => {
                let mut bytes = Vec::with_capacity(4 * values.len());
                extend_bytes(&mut bytes, values);
                sink(&bytes);
            }
            Self::Save(archive) => archive.put_values(values),
            Self::Restore(archive) => values.copy_from_slice(&archive.take_values(values.len())?),
        }
        Ok(())
    }

    /// Visits one value.
    ///
    /// # Errors
    /// As [`Self::values`].
    pub fn value(&mut self, value: &mut f32) -> Result<()> {
        self.values(std::slice::from_mut(value))
    }

    /// Visits anything that can be serialised: counters, lists that grow, double-precision sums.
    ///
    /// # Errors
    /// As [`Self::values`].
    pub fn plain<T: Serialize + DeserializeOwned>(&mut self, value: &mut T) -> Result<()> {
        match self {
            Self::Digest(sink) => {
                let mut archive = Archive::default();
                archive.put(value);
                sink(&archive.take()?);
            }
            Self::Save(archive) => archive.put(value),
            Self::Restore(archive) => *value = archive.take()?,
        }
        Ok(())
    }

    /// Visits a private table of which only touched rows exist.
    ///
    /// # Errors
    /// As [`Self::values`].
    pub fn row_table(&mut self, table: &mut RowTable) -> Result<()> {
        match self {
            Self::Digest(sink) => table.visit_bytes(sink),
            Self::Save(archive) => table.save(archive),
            Self::Restore(archive) => *table = RowTable::restore(archive, table.dimension())?,
        }
        Ok(())
    }

    /// Visits an update: the rows that it lists with their values, and the factor of the others.
    ///
    /// # Errors
    /// As [`Self::values`].
    pub fn update(&mut self, update: &mut TableUpdate) -> Result<()> {
        match self {
            Self::Digest(sink) => {
                for (row, values) in update.iter() {
                    sink(&(row as u32).to_le_bytes());
                    sink(values);
                }
                sink(&update.others_scale.to_le_bytes());
            }
            Self::Save(archive) => archive.put_update(update),
            Self::Restore(archive) => *update = archive.take_update(update.shape)?,
        }
        Ok(())
    }

    /// Visits a table that others hold as well. It is not part of a digest, which covers it where it comes from, and it
    /// is saved only once for all holders.
    ///
    /// # Errors
    /// As [`Self::values`].
    pub fn shared_table(&mut self, table: &mut SharedTable) -> Result<()> {
        match self {
            Self::Digest(_) => {}
            Self::Save(archive) => archive.put_table(table),
            Self::Restore(archive) => *table = archive.take_table(table.shape())?,
        }
        Ok(())
    }

    /// Visits the values of a model, whose layout does not change. Tables that others hold are saved once.
    ///
    /// # Errors
    /// As [`Self::values`].
    pub fn model(&mut self, model: &mut Model) -> Result<()> {
        match self {
            Self::Digest(sink) => model.visit_bytes(sink),
            Self::Save(archive) => save_model(archive, model),
            Self::Restore(archive) => *model = restore_model(archive, model.layout())?,
        }
        Ok(())
    }
}

/// Appends the values of `model` to `archive`.
pub fn save_model(archive: &mut Archive, model: &Model) {
    for block in model.blocks() {
        match block {
            BlockValues::Table(table) => archive.put_table(table),
            BlockValues::Raw(bytes) => archive.put_bytes(bytes),
        }
    }
}

/// Reads the values of a model of this layout, which [`save_model`] has appended.
///
/// # Errors
/// [`Error::Checkpoint`](crate::error::Error::Checkpoint) if there are none.
pub fn restore_model(archive: &mut ArchiveReader, layout: &Layout) -> Result<Model> {
    let mut blocks = Vec::with_capacity(layout.blocks().len());
    for block in layout.blocks() {
        blocks.push(match block.value_type {
            super::layout::ValueType::F32 => BlockValues::Table(Arc::clone(&archive.take_table(block.shape)?)),
            _ => BlockValues::Raw(archive.take_bytes()?.into()),
        });
    }
    Model::new(layout.clone(), blocks).map_err(super::archive::damaged)
}
