//! Collects what may be sent of an update: rows with their values or differences, plus what earlier
//! uploads left out.

use crate::codec::buffer::Buffer;
use crate::codec::{BlockContext, Codec};
use crate::per_instruction_set;
use crate::row_table::RowTable;
use crate::table::{RowSet, Table, TableUpdate, VALUE_BYTES};
use fedrecsim_scenario::CompositionSpec;

/// Holds rows that may be sent, with their values.
#[derive(Debug)]
pub(super) struct Candidates {
    /// The rows, ascending.
    pub rows: Vec<u32>,
    /// The values, row after row.
    pub values: Buffer,
    /// The values of a row.
    pub columns: usize,
    /// The slots of the rows in the residual table, if there is one.
    pub slots: Vec<u32>,
}

/// Says where the values of candidates come from.
struct Sources<'a> {
    update: &'a TableUpdate,
    /// The rows: all that the update lists, and perhaps others.
    rows: &'a [u32],
    base: Option<&'a Table>,
    /// Whether rows of the base are subtracted.
    are_changes: bool,
    /// The residual of earlier uploads, with the slots of the rows.
    left_out: Option<(&'a RowTable, &'a [u32])>,
}

per_instruction_set! {
    /// Sets `values` to those of all rows, row after row. A row that the update does not list is
    /// that of the base with the update's scale.
    fn gather(sources: &Sources<'_>, values: &mut [f32]) {
        let Sources {
            update,
            rows,
            base,
            are_changes,
            left_out,
        } = sources;
        let (columns, scale) = (update.shape.dimension.max(1), update.others_scale);
        let lists_every_row = rows.len() == update.rows.len(update.shape);
        let mut positions = update.positions_of(rows);
        for (position, (values, &row)) in values.chunks_exact_mut(columns).zip(*rows).enumerate() {
            let listed = if lists_every_row {
                Some(position)
            } else {
                positions.next().flatten()
            };
            let own = listed.map(|listed| update.row_values(listed).as_chunks::<VALUE_BYTES>().0);
            let base = base.map(|table| table.row(row as usize));
            let left_out = left_out.and_then(|(table, slots)| table.held(slots, position));
            // One loop takes less than half the time of three, and most rows are changes.
            if let (Some(own), Some(base), true) = (own, base, *are_changes) {
                let changes = values.iter_mut().zip(own).zip(base);
                match left_out {
                    Some((left_out, factor)) => {
                        changes
                            .zip(left_out)
                            .for_each(|(((value, own), base), left_out)| {
                                *value =
                                    f32::from_le_bytes(*own) - base * scale + left_out * factor;
                            })
                    }
                    None => changes.for_each(|((value, own), base)| {
                        *value = f32::from_le_bytes(*own) - base * scale
                    }),
                }
                continue;
            }
            match (own, base) {
                (Some(own), _) => values
                    .iter_mut()
                    .zip(own)
                    .for_each(|(value, own)| *value = f32::from_le_bytes(*own)),
                (None, Some(base)) if !are_changes => {
                    values
                        .iter_mut()
                        .zip(base)
                        .for_each(|(value, base)| *value = base * scale);
                }
                (None, _) => values.fill(0.0),
            }
            if let Some((left_out, factor)) = left_out {
                values
                    .iter_mut()
                    .zip(left_out)
                    .for_each(|(value, left_out)| *value += left_out * factor);
            }
        }
    }
}

per_instruction_set! {
    /// Adds `factor` times the rows of `base` to the values of `rows`.
    pub(super) fn add_rows(values: &mut [f32], rows: &[u32], base: &Table, factor: f32) {
        for (values, &row) in values.chunks_exact_mut(base.shape().dimension.max(1)).zip(rows) {
            values.iter_mut().zip(base.row(row as usize)).for_each(|(value, base)| *value += base * factor);
        }
    }
}

impl Candidates {
    /// Returns what may be sent of `update`, which fits the base of `context`.
    pub(crate) fn of(
        spec: &CompositionSpec,
        update: &TableUpdate,
        context: &mut BlockContext<'_>,
    ) -> Self {
        let columns = update.shape.dimension;
        let rows: Vec<u32> = match &update.rows {
            RowSet::Listed(rows) if spec.leaves_rows_out() => rows.clone(),
            _ => (0..update.shape.rows as u32).collect(),
        };
        let (mut values, mut slots) = (Buffer::of_any(rows.len() * columns), Vec::new());
        let left_out = spec.error_feedback.then(|| {
            let table = &*context.memory.residual(context.position, columns);
            table.find(&rows, &mut slots);
            (table, &slots[..])
        });
        let sources = Sources {
            update,
            rows: &rows,
            base: context.base,
            are_changes: spec.delta,
            left_out,
        };
        gather(&sources, &mut values);
        Self {
            rows,
            values,
            columns,
            slots,
        }
    }

    /// Stores the values, which are now what the receiver does not get, as the residual.
    pub(crate) fn remember(&mut self, context: &mut BlockContext<'_>) {
        let Self {
            rows,
            values,
            columns,
            slots,
        } = self;
        let table = context.memory.residual(context.position, *columns);
        table.write_found(rows, 1.0, slots, |position, left_out| {
            left_out.copy_from_slice(&values[position * *columns..(position + 1) * *columns]);
        });
    }
}
