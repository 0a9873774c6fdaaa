//! Trains the product of a private vector with the rows of a shared item table on the binary
//! cross-entropy, by the packed kernel.

use std::cmp::Ordering;

use super::super::score::{Product, Training};
use super::super::{Own, Trained, table_of};
use super::draw_samples;
use crate::{LocalTask, SampleScratch, Scratch, largest_magnitude};
use fedrecsim_core::stages::{Stage, enter};
use fedrecsim_core::work::Work;
use fedrecsim_core::{Purpose, Result};
use fedrecsim_model::kernel::logistic::{self, LogisticStep, Target};
use fedrecsim_model::kernel::{PackedRows, RoundRows, TableRows, packed_vector, unpack_into};
use fedrecsim_model::{RowSet, Table, TableShape, TableUpdate};

/// Collects the distinct rows of the samples that were drawn and gathers them from `table`, with a
/// row of zeros behind them that pads batches. Returns the number of that row.
pub(crate) fn gather(
    table: &Table,
    samples: &SampleScratch,
    round_rows: &mut RoundRows,
    packed: &mut PackedRows,
) -> u32 {
    let shape = table.shape();
    round_rows.collect(&samples.samples.items, &samples.samples.labels, shape.rows);
    let padding_row = round_rows.rows.len();
    packed.reset_for_overwriting(padding_row + 1, shape.dimension, 1);
    packed.clear_row(padding_row, 0);
    let source = TableRows {
        values: table.as_slice(),
        dimension: shape.dimension,
        rows: &round_rows.rows,
    };
    packed.gather(0, &source);
    padding_row as u32
}

/// Returns the update that leaves the device: the trained rows, and the factor by which all others
/// have decayed. `name` is that of the table.
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
    let Product {
        vector,
        table,
        bias,
        ..
    } = *names;
    let [of_vector, of_table] = [vector, table].map(|name| own.block(name));
    let step = |target, decay: f64| LogisticStep {
        target,
        vector_rate: of_vector.rate as f32,
        bias_rate: bias.map_or(0.0, |name| own.block(name).rate as f32),
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
    let gathering = enter(Stage::Gather);
    let Scratch {
        samples,
        round_rows,
        packed,
        batch,
        ..
    } = scratch;
    let downloaded = table_of(task.model, table);
    let padding_row = gather(downloaded, samples, round_rows, packed);
    drop(gathering);
    let mut w = packed_vector(own.get(vector));
    let mut b = bias.map_or(0.0, |name| own.get(name)[0]);
    let (mut row_visits, mut others_scale) = (0, 1.0);
    let mut order = task.stream(Purpose::Shuffle);
    let loss = training.run(&mut round_rows.samples, &mut order, |samples| {
        batch.collect(samples, padding_row);
        let mut loss = 0.0;
        for step in &steps {
            loss = logistic::step(packed, batch, &mut w, &mut b, step);
            row_visits += batch.rows().len() as u64;
            let decay = step.row_decay();
            if decay != 1.0 {
                packed.scale_rows_except(0, batch.rows(), decay);
                others_scale *= decay;
            }
        }
        loss
    });
    unpack_into(&w, own.get_mut(vector));
    task.check_magnitude(vector, largest_magnitude(own.get(vector)))?;
    if let Some(name) = bias {
        own.get_mut(name)[0] = b;
        task.check_magnitude(name, b.abs())?;
    }
    let samples = round_rows.samples.len();
    let update = update(task, scratch, (table, downloaded.shape()), others_scale)?;
    Ok(Trained {
        blocks: vec![update],
        loss,
        samples,
        work: Work::of_row_visits(row_visits),
    })
}
