//! What an update offers to be sent: rows with their values or their changes, and what earlier uploads left out of them.

use super::{Composition, Select};
use crate::codec::BlockContext;
use crate::codec::buffer::Buffer;
use crate::model::instruction_sets::per_instruction_set;
use crate::model::table::{Base, RowSet, Table, TableUpdate, floats};

/// Rows that may be sent, with what is to be sent of each.
#[derive(Debug)]
pub(super) struct Candidates {
    /// The rows, ascending.
    pub rows: Vec<u32>,
    /// The values, row after row.
    pub values: Buffer,
    /// The values of a row.
    pub columns: usize,
}

per_instruction_set! {
    /// Adds `factor` times the rows of `base` to the values of `rows`.
    pub(super) fn add_rows(values: &mut [f32], rows: &[u32], base: &Table, factor: f32) {
        for (values, &row) in values.chunks_exact_mut(base.shape().dimension.max(1)).zip(rows) {
            values.iter_mut().zip(base.row(row as usize)).for_each(|(value, base)| *value += base * factor);
        }
    }
}

/// Appends the values of all `rows` of a block, of which those that the update does not list are rows of `base` with its
/// scale.
fn append_all(update: &TableUpdate, rows: &[u32], base: Base<'_>, values: &mut Vec<f32>) {
    let columns = update.shape.dimension;
    values.reserve(rows.len() * columns);
    for (&row, position) in rows.iter().zip(update.positions_of(rows)) {
        let start = values.len();
        match (position, base) {
            (Some(position), _) => values.extend(floats(update.row_values(position))),
            (None, Base::Table(table)) => {
                values.extend(table.row(row as usize).iter().map(|base| base * update.others_scale));
            }
            (None, Base::Zeros) => {}
        }
        values.resize(start + columns, 0.0);
    }
}

impl Candidates {
    /// Returns what `update`, which fits the base of `context`, offers to this composition.
    pub fn of(choices: &Composition, update: &TableUpdate, context: &mut BlockContext<'_>) -> Self {
        let columns = update.shape.dimension;
        let mut values = Buffer::default();
        let rows: Vec<u32> = match &update.rows {
            RowSet::Listed(rows) if !matches!(choices.select, Select::All | Select::NeededRows) => {
                values.extend(floats(&update.values));
                rows.clone()
            }
            _ => {
                let rows: Vec<u32> = (0..update.shape.rows as u32).collect();
                append_all(update, &rows, context.base, &mut values);
                rows
            }
        };
        if let (true, Base::Table(base)) = (choices.changes, context.base) {
            add_rows(&mut values, &rows, base, -update.others_scale);
        }
        let mut candidates = Self { rows, values, columns };
        if choices.error_feedback {
            candidates.add_remainders(context);
        }
        candidates
    }

    /// Adds what earlier uploads left out of these rows.
    fn add_remainders(&mut self, context: &mut BlockContext<'_>) {
        let (columns, values) = (self.columns, &mut self.values);
        let residual = context.memory.residual(context.position, columns);
        residual.read_held(&self.rows, &mut Vec::new(), |position, left_out, scale| {
            let row = &mut values[position * columns..(position + 1) * columns];
            row.iter_mut().zip(left_out).for_each(|(value, left_out)| *value += left_out * scale);
        });
    }

    /// Remembers the values, which are what the receiver does not get.
    pub fn remember(&self, context: &mut BlockContext<'_>) {
        let columns = self.columns;
        let residual = context.memory.residual(context.position, columns);
        residual.write_rows(&self.rows, 1.0, &mut Vec::new(), |position, left_out| {
            left_out.copy_from_slice(&self.values[position * columns..(position + 1) * columns]);
        });
    }
}
