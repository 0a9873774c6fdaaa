//! Visits state that outlives a participation: one definition for digest, checkpoint and
//! restoration.
//!
//! An object with state passes every part of it, in a fixed order, to a [`StateVisitor`]. The
//! visitor feeds the parts to a digest, appends them to an archive, or replaces them from one.
//! Tests may change private values, to see whether any of them leaves the device.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use super::archive::{Archive, ArchiveReader};
use super::blocks::{BlockValues, Model};
use super::layout::{Layout, ValueType};
use super::row_table::RowTable;
use super::table::{SharedTable, TableUpdate, extend_bytes};
use fedrecsim_core::error::Result;

/// Says what is done with the parts of a state.
pub enum StateVisitor<'a> {
    /// Every value is fed to this function, as little-endian bytes.
    Digest(&'a mut dyn FnMut(&[u8])),
    /// Every value is appended.
    Save(&'a mut Archive),
    /// Every value is replaced by the next one of the archive.
    Restore(&'a mut ArchiveReader),
    /// Every private floating-point number is mapped by this function; shared tables, updates and
    /// models do not change. Tests mark private values in this way.
    Change(&'a mut dyn FnMut(f32) -> f32),
}

impl StateVisitor<'_> {
    /// Visits values whose number does not change.
    ///
    /// # Errors
    /// [`Error::Unrestorable`](fedrecsim_core::error::Error::Unrestorable), here and below, when what is
    /// restored is not what was saved.
    pub fn values(&mut self, values: &mut [f32]) -> Result<()> {
        match self {
            Self::Digest(sink) => {
                let mut bytes = Vec::with_capacity(4 * values.len());
                extend_bytes(&mut bytes, values);
                sink(&bytes);
            }
            Self::Save(archive) => archive.put_values(values),
            Self::Restore(archive) => values.copy_from_slice(&archive.take_values(values.len())?),
            Self::Change(change) => values.iter_mut().for_each(|value| *value = change(*value)),
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
            Self::Change(change) => change_plain(value, change),
        }
        Ok(())
    }

    /// Visits a private table of touched rows.
    ///
    /// # Errors
    /// As [`Self::values`].
    pub fn row_table(&mut self, table: &mut RowTable) -> Result<()> {
        match self {
            Self::Digest(sink) => table.visit_bytes(sink),
            Self::Save(archive) => table.save(archive),
            Self::Restore(archive) => *table = RowTable::restore(archive, table.dimension())?,
            Self::Change(change) => table.change(change),
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
            Self::Restore(archive) => {
                *update = archive.take_update(update.shape, update.value_type)?
            }
            Self::Change(_) => {}
        }
        Ok(())
    }

    /// Visits a shared table. A digest covers it at its source and not here, and it is saved once
    /// for all holders.
    ///
    /// # Errors
    /// As [`Self::values`].
    pub fn shared_table(&mut self, table: &mut SharedTable) -> Result<()> {
        match self {
            Self::Digest(_) | Self::Change(_) => {}
            Self::Save(archive) => archive.put_table(table),
            Self::Restore(archive) => *table = archive.take_table(table.shape())?,
        }
        Ok(())
    }
}

/// Maps the floating-point numbers in `value`. A value that does not survive JSON stays unchanged.
fn change_plain<T: Serialize + DeserializeOwned>(
    value: &mut T,
    change: &mut dyn FnMut(f32) -> f32,
) {
    fn walk(json: &mut Json, change: &mut dyn FnMut(f32) -> f32) {
        match json {
            Json::Number(number) if number.is_f64() => {
                let changed = number.as_f64().map(|value| f64::from(change(value as f32)));
                *number = changed
                    .and_then(serde_json::Number::from_f64)
                    .unwrap_or_else(|| number.clone());
            }
            Json::Array(values) => values.iter_mut().for_each(|value| walk(value, change)),
            Json::Object(members) => members.values_mut().for_each(|value| walk(value, change)),
            _ => {}
        }
    }
    let Ok(mut json) = serde_json::to_value(&*value) else {
        return;
    };
    walk(&mut json, change);
    if let Ok(changed) = serde_json::from_value(json) {
        *value = changed;
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
/// [`Error::Unrestorable`](fedrecsim_core::error::Error::Unrestorable) if there are none.
pub fn restore_model(archive: &mut ArchiveReader, layout: &Layout) -> Result<Model> {
    let mut blocks = Vec::with_capacity(layout.blocks().len());
    for block in layout.blocks() {
        blocks.push(match block.value_type {
            ValueType::F32 => BlockValues::Table(archive.take_table(block.shape)?),
            _ => BlockValues::Raw(archive.take_bytes()?),
        });
    }
    Model::new(layout.clone(), blocks).map_err(super::archive::damaged)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::table::TableShape;
    use crate::tests::counting_table;

    /// If this fails, a test that marks private values overlooks some, or damages what is not
    /// private.
    #[test]
    fn private_numbers_are_changed_wherever_they_stand_and_nothing_else_is() {
        let shape = TableShape {
            rows: 3,
            dimension: 2,
        };
        let mut table = RowTable::new(2);
        table.write_rows(&[0, 2], 1.0, &mut Vec::new(), |_, values| values.fill(2.0));
        table.write_rows(&[0], 0.5, &mut Vec::new(), |_, values| values.fill(4.0));
        let mut plain = (7u32, vec![0.5f32, -1.5], Some(0.25f64));
        let mut shared = SharedTable::new(counting_table(shape, 1.0));
        let mut update = TableUpdate::whole(shared.clone());
        let before = (SharedTable::clone(&shared), update.clone());
        let mut double = |value: f32| 2.0 * value;
        let mut visitor = StateVisitor::Change(&mut double);
        let (mut values, mut value) = ([1.0, 3.0], 5.0);
        visitor.values(&mut values).unwrap();
        visitor.value(&mut value).unwrap();
        visitor.plain(&mut plain).unwrap();
        visitor.row_table(&mut table).unwrap();
        visitor.shared_table(&mut shared).unwrap();
        visitor.update(&mut update).unwrap();
        assert_eq!((values, value), ([2.0, 6.0], 10.0));
        assert_eq!(plain, (7, vec![1.0, -3.0], Some(0.5)));
        assert_eq!((shared, update), before);
        let mut rows = Vec::new();
        let initial = counting_table(shape, 0.0);
        table.read_rows(&[0, 2], &initial, &mut Vec::new(), |_, values, scale| {
            rows.push(values[0] * scale)
        });
        // The second row had decayed to 1, and 1 is what the function was given.
        assert_eq!(rows, [8.0, 2.0]);
    }
}
