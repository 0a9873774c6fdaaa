//! What an update offers to be sent: rows with their values or their changes, and what earlier uploads left out of them.

use super::{Composition, Select};
use crate::codec::BlockContext;
use crate::model::table::{Base, RowSet, TableUpdate, floats};

/// Rows that may be sent, with what is to be sent of each.
#[derive(Debug)]
pub(super) struct Candidates {
    /// The rows, ascending.
    pub rows: Vec<u32>,
    /// The values, row after row.
    pub values: Vec<f32>,
    /// The values of a row.
    pub columns: usize,
}

impl Candidates {
    /// Returns what `update`, which fits the base of `context`, offers to this composition.
    pub fn of(choices: &Composition, update: &TableUpdate, context: &mut BlockContext<'_>) -> Self {
        let columns = update.shape.dimension;
        let rows: Vec<u32> = match &update.rows {
            RowSet::Listed(rows) if !matches!(choices.select, Select::All | Select::NeededRows) => rows.clone(),
            _ => (0..update.shape.rows as u32).collect(),
        };
        let mut values = Vec::with_capacity(rows.len() * columns);
        for (&row, position) in rows.iter().zip(update.positions_of(&rows)) {
            let start = values.len();
            let base = match context.base {
                Base::Table(table) => table.row(row as usize),
                Base::Zeros => &[],
            };
            match position {
                Some(position) => values.extend(floats(update.row_values(position))),
                None => values.extend(base.iter().map(|base| base * update.others_scale)),
            }
            values.resize(start + columns, 0.0);
            if choices.changes {
                let pairs = values[start..].iter_mut().zip(base);
                pairs.for_each(|(value, base)| *value -= base * update.others_scale);
            }
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

    /// Remembers what the receiver does not get, which is the difference from `decoded`.
    pub fn remember(&self, decoded: &[f32], context: &mut BlockContext<'_>) {
        let columns = self.columns;
        let residual = context.memory.residual(context.position, columns);
        residual.write_rows(&self.rows, 1.0, &mut Vec::new(), |position, left_out| {
            let of_row = position * columns..(position + 1) * columns;
            let pairs = self.values[of_row.clone()].iter().zip(&decoded[of_row]);
            left_out.iter_mut().zip(pairs).for_each(|(left_out, (value, decoded))| *left_out = value - decoded);
        });
    }
}
