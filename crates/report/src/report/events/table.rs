//! Makes an Arrow table of events.

use std::sync::Arc;

use arrow_array::builder::{Float64Builder, StringBuilder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch};

use super::lines::Line;
use crate::report::arrow::of_arrays;
use fedrecsim_core::error::Result;

/// A table of events that is being filled, with a row for each line that `events` writes.
#[derive(Debug, Default)]
pub struct EventTable {
    counts: [UInt64Builder; 11],
    event: StringBuilder,
    used: StringBuilder,
    epsilon: Float64Builder,
}

/// The names of the columns of counts, in the order of [`EventTable::push`].
const COUNTS: [&str; 11] = [
    "time_ns",
    "user",
    "invitation_id",
    "round",
    "open_round",
    "bytes",
    "carried_bytes",
    "row_visits",
    "multiply_adds",
    "took_ns",
    "updates",
];

impl EventTable {
    /// Appends a row.
    pub(super) fn push(&mut self, line: &Line) {
        let values = [
            Some(line.time_ns),
            line.user.map(|user| u64::from(user.0)),
            line.invitation_id.map(|id| u64::from(id.0)),
            Some(u64::from(line.round)),
            line.open_round.map(u64::from),
            line.bytes,
            line.carried_bytes,
            line.row_visits,
            line.multiply_adds,
            line.took_ns,
            line.updates.map(u64::from),
        ];
        self.counts
            .iter_mut()
            .zip(values)
            .for_each(|(column, value)| column.append_option(value));
        self.event.append_value(&line.event);
        self.used.append_option(line.r#use);
        self.epsilon
            .append_option(line.privacy.and_then(|privacy| privacy.epsilon));
    }

    /// Returns the table.
    ///
    /// # Errors
    /// It cannot fail, as all columns have the same number of rows.
    pub fn finish(mut self) -> Result<RecordBatch> {
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(COUNTS.len() + 3);
        arrays.extend(
            self.counts
                .iter_mut()
                .map(|column| Arc::new(column.finish()) as ArrayRef),
        );
        arrays.insert(1, Arc::new(self.event.finish()));
        arrays.push(Arc::new(self.used.finish()));
        arrays.push(Arc::new(self.epsilon.finish()));
        let (first, others) = COUNTS.split_at(1);
        let names = first
            .iter()
            .chain(&["event"])
            .chain(others)
            .chain(&["use", "epsilon"]);
        of_arrays(names.copied(), arrays)
    }
}
