//! Makes an Arrow table of events.

use std::sync::Arc;

use arrow_array::builder::{Float64Builder, StringBuilder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch};

use super::lines::{COUNTS, Count, Line};
use crate::arrow::of_arrays;
use fedrecsim_core::Result;

/// A table of events that is being filled, with a row for each line that `events` writes.
#[derive(Debug, Default)]
pub struct EventTable {
    counts: [UInt64Builder; COUNTS.len()],
    event: StringBuilder,
    name: StringBuilder,
    used: StringBuilder,
    epsilon: Float64Builder,
}

impl EventTable {
    /// Appends a row.
    pub(super) fn push(&mut self, line: &Line) {
        for (column, (_, of)) in self.counts.iter_mut().zip(COUNTS) {
            column.append_option(of(line));
        }
        self.event.append_value(&line.event);
        self.name.append_option(line.name());
        self.used.append_option(line.r#use);
        self.epsilon
            .append_option(line.privacy.and_then(|privacy| privacy.epsilon));
    }

    /// Returns the table.
    ///
    /// # Errors
    /// It cannot fail, as all columns have the same number of rows.
    pub fn finish(mut self) -> Result<RecordBatch> {
        let counts = self.counts.iter_mut().zip(COUNTS);
        let count = |(column, (name, _)): (&mut UInt64Builder, Count)| -> (_, ArrayRef) {
            (name, Arc::new(column.finish()))
        };
        let mut columns: Vec<(&str, ArrayRef)> = counts.map(count).collect();
        columns.insert(1, ("event", Arc::new(self.event.finish())));
        columns.insert(3, ("name", Arc::new(self.name.finish())));
        columns.push(("use", Arc::new(self.used.finish())));
        columns.push(("epsilon", Arc::new(self.epsilon.finish())));
        let (names, arrays): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        of_arrays(names.into_iter(), arrays)
    }
}
