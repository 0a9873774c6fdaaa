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
    /// columns.
    pub fn residual(&mut self, position: usize, columns: usize) -> &mut RowTable {
        if self.residuals.len() <= position {
            self.residuals.resize_with(position + 1, || None);
        }
        self.residuals[position].get_or_insert_with(|| RowTable::new(columns))
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
