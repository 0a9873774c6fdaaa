//! Trains the product of a private vector with the rows of a shared item table on the binary
//! cross-entropy, by the packed kernel.

use std::cmp::Ordering;

use super::super::score::{Product, Training};
use super::super::{Own, table_of};
use super::{draw_samples, keep};
use crate::{LocalTask, Scratch, Trained, largest_magnitude};
use fedrecsim_core::stages::{Stage, enter};
use fedrecsim_core::work::Work;
use fedrecsim_core::{Purpose, Result, Stream};
use fedrecsim_model::kernel::logistic::{self, LogisticStep, Target};
use fedrecsim_model::kernel::{
    BatchRows, Block as Lanes, PackedRows, TableRows, packed_vector, unpack_into,
};
use fedrecsim_model::{ModelUpdate, RowSet, Table, TableShape, TableUpdate};

/// Holds the item rows of a participation, whose samples are positions of rows with their labels.
pub(crate) struct Session<'s> {
    rows: &'s mut PackedRows,
    padding_row: u32,
    batch: &'s mut BatchRows,
    /// The number of row visits so far.
    pub row_visits: u64,
    /// The factor that the steps have scaled untouched rows by.
    pub others_scale: f32,
}

impl<'s> Session<'s> {
    /// Gathers the distinct rows of the samples that were drawn from `table`, with a row of zeros
    /// behind them that pads batches, and returns the samples as well.
    pub(crate) fn of(table: &Table, scratch: &'s mut Scratch) -> (Self, &'s mut [(u32, bool)]) {
        let _stage = enter(Stage::Gather);
        let (drawn, round_rows) = (&scratch.samples.samples, &mut scratch.round_rows);
        let (packed, shape) = (&mut scratch.packed, table.shape());
        round_rows.collect(&drawn.items, &drawn.labels, shape.rows);
        let padding_row = round_rows.rows.len();
        packed.reset_for_overwriting(padding_row + 1, shape.dimension, 1);
        packed.clear_row(padding_row, 0);
        let source = TableRows {
            values: table.as_slice(),
            dimension: shape.dimension,
            rows: &round_rows.rows,
        };
        packed.gather(0, &source);
        let session = Self {
            rows: packed,
            padding_row: padding_row as u32,
            batch: &mut scratch.batch,
            row_visits: 0,
            others_scale: 1.0,
        };
        (session, &mut round_rows.samples)
    }

    /// Makes `steps` on every batch of `training`, which move the vector `w`, the bias `b` and the
    /// rows, and returns the mean loss.
    pub(crate) fn run(
        &mut self,
        training: &Training,
        (samples, order): (&mut [(u32, bool)], &mut Stream),
        (w, b): (&mut [Lanes], &mut f32),
        steps: &[LogisticStep],
    ) -> f64 {
        training.run(samples, order, |samples| {
            self.batch.collect(samples, self.padding_row);
            let mut loss = 0.0;
            for step in steps {
                loss = logistic::step(self.rows, self.batch, w, b, step);
                self.row_visits += self.batch.rows().len() as u64;
                let decay = step.row_decay();
                if decay != 1.0 {
                    self.rows.scale_rows_except(0, self.batch.rows(), decay);
                    self.others_scale *= decay;
                }
            }
            loss
        })
    }
}

/// Returns the update that leaves the device: the trained rows, and the decay of all others. `name`
/// is that of the table.
///
/// # Errors
/// [`Error::Diverged`](fedrecsim_core::Error::Diverged) if a trained row has left the allowed
/// range.
pub(crate) fn update(
    task: &LocalTask<'_>,
    scratch: &mut Scratch,
    (name, shape): (&'static str, TableShape),
    others_scale: f32,
) -> Result<TableUpdate> {
    let _stage = enter(Stage::Encode);
    let (rows, values) = (&scratch.round_rows.rows, &mut scratch.values);
    let largest = scratch
        .packed
        .copy_bytes(rows.len(), shape.dimension, 0, values);
    task.check_magnitude(name, largest)?;
    let values = std::mem::take(values).into();
    Ok(TableUpdate {
        others_scale,
        ..TableUpdate::of_rows(shape, RowSet::Listed(rows.to_vec()), values)
    })
}

/// Trains a private vector, perhaps a private bias, and the rows of a shared item table.
pub(super) fn train<S>(
    names: &Product,
    training: &Training,
    own: &mut Own<S>,
    task: &LocalTask<'_>,
    scratch: &mut Scratch,
) -> Result<Trained> {
    let (vector, table, bias) = (names.vector, names.table, names.bias);
    let [of_vector, of_table] = [vector, table].map(|name| own.plan.block(name));
    let step = |target, decay: f64| LogisticStep {
        target,
        vector_rate: of_vector.rate as f32,
        bias_rate: bias.map_or(0.0, |name| own.plan.block(name).rate as f32),
        row_rate: of_table.rate as f32,
        weight_decay: decay as f32,
    };
    let vector_step = step(Target::Vector, of_vector.decay);
    let row_step = step(Target::Rows, of_table.decay);
    let steps = match of_vector.turn.cmp(&of_table.turn) {
        Ordering::Less => vec![vector_step, row_step],
        Ordering::Greater => vec![row_step, vector_step],
        Ordering::Equal => vec![step(Target::Both, of_table.decay)],
    };
    draw_samples(task, &mut scratch.samples)?;
    let downloaded = table_of(task.model, table);
    let (mut session, samples) = Session::of(downloaded, scratch);
    let mut w = packed_vector(own.get(vector));
    let mut b = bias.map_or(0.0, |name| own.get(name)[0]);
    let drawn = samples.len();
    let shuffled = (samples, &mut task.stream(Purpose::Shuffle));
    let loss = session.run(training, shuffled, (&mut w, &mut b), &steps);
    let (row_visits, others_scale) = (session.row_visits, session.others_scale);
    unpack_into(&w, own.get_mut(vector));
    task.check_magnitude(vector, largest_magnitude(own.get(vector)))?;
    if let Some(name) = bias {
        keep(own, task, name, &[b])?;
    }
    let update = update(task, scratch, (table, downloaded.shape()), others_scale)?;
    let update = ModelUpdate::of_table(update).weighing(drawn as f32);
    Ok(Trained::new(update, loss, Work::of_row_visits(row_visits)))
}
