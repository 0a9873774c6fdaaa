//! Keeps what a codec remembers on a device between participations.

use crate::row_table::RowTable;
use crate::state::StateVisitor;
use fedrecsim_core::error::Result;

/// Holds the memory of the uplink's codec on one device. Like the private state of the method, it
/// never travels.
#[derive(Clone, Debug, Default)]
pub struct CodecMemory {
    /// For each block, what earlier uploads left out, for error feedback. A table has only rows
    /// with something left out.
    residuals: Vec<Option<RowTable>>,
}

impl CodecMemory {
    /// Returns what earlier uploads left out of the block at `position`, which has `columns`
    /// columns. What was left out of a block of other columns, which another phase has sent there,
    /// is forgotten.
    pub fn residual(&mut self, position: usize, columns: usize) -> &mut RowTable {
        if self.residuals.len() <= position {
            self.residuals.resize_with(position + 1, || None);
        }
        let residual = self.residuals[position].get_or_insert_with(|| RowTable::new(columns));
        if residual.dimension() != columns {
            *residual = RowTable::new(columns);
        }
        residual
    }

    /// Returns whether there is nothing to remember.
    pub(crate) fn is_empty(&self) -> bool {
        self.residuals.iter().all(Option::is_none)
    }

    /// Visits everything that is remembered. An empty memory adds nothing to a digest.
    ///
    /// # Errors
    /// As [`StateVisitor::values`].
    pub fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        if self.is_empty() && matches!(state, StateVisitor::Digest(_)) {
            return Ok(());
        }
        let mut columns: Vec<Option<u32>> = self
            .residuals
            .iter()
            .map(|table| table.as_ref().map(|table| table.dimension() as u32))
            .collect();
        state.plain(&mut columns)?;
        self.residuals.resize_with(columns.len(), || None);
        for (table, columns) in self.residuals.iter_mut().zip(columns) {
            if let Some(columns) = columns {
                state.row_table(table.get_or_insert_with(|| RowTable::new(columns as usize)))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Table, TableShape};

    /// If this fails, a device panics in a phase that sends other columns than the one before, or
    /// forgets in a phase what that has left out.
    #[test]
    fn what_a_block_of_other_columns_left_out_is_forgotten() {
        let mut memory = CodecMemory::default();
        let left_out = |memory: &mut CodecMemory, columns| {
            let (residual, mut values) = (memory.residual(1, columns), Vec::<f32>::new());
            let nothing = Table::zeros(TableShape::new(4, columns));
            residual.read_rows(&[2], &nothing, &mut Vec::new(), |_, row, _| {
                values.extend(row)
            });
            values
        };
        let residual = memory.residual(1, 2);
        residual.write_rows(&[2], 1.0, &mut Vec::new(), |_, row| row.fill(0.5));
        assert_eq!(left_out(&mut memory, 2), [0.5; 2]);
        assert_eq!(left_out(&mut memory, 3), [0.0; 3]);
        assert_eq!(left_out(&mut memory, 2), [0.0; 2]);
    }
}
