//! Local epochs of mini-batches over the rows of one table: the loop that PFedRec and FedMF share.

use super::{LocalTask, SampleScratch, Scratch};
use crate::error::Result;
use crate::model::kernel::logistic::{self, LogisticStep};
use crate::model::kernel::{TableRows, packed_vector, unpack_into};
use crate::model::table::{RowSet, TableUpdate};
use crate::rng::Purpose;
use crate::stages::{Stage, enter};

/// How a client trains a vector, a bias and the downloaded rows.
pub(super) struct Schedule<'a> {
    pub epochs: u32,
    pub batch_size: usize,
    /// The steps taken on each batch, in order.
    pub steps: &'a [LogisticStep],
    /// Names of the vector and the bias in the papers, for error messages.
    pub names: [&'static str; 2],
}

/// What the loop leaves in `scratch.packed` (the trained rows) and returns.
pub(super) struct Trained {
    /// Mean loss over all batches of all epochs, each before its last step, as PFedRec's code reports it.
    pub loss: f64,
    pub row_visits: u64,
    /// What weight decay has left of rows outside the samples.
    pub others_scale: f32,
}

/// Trains `vector` and `bias` and the rows of the round's samples, starting from the downloaded table.
pub(super) fn train(
    task: &LocalTask<'_>,
    schedule: &Schedule<'_>,
    vector: &mut [f32],
    bias: &mut f32,
    scratch: &mut Scratch,
) -> Result<Trained> {
    let table = task.model.table(0);
    let shape = table.shape();
    draw_samples(task, &mut scratch.samples)?;
    let gathering = enter(Stage::Gather);
    let Scratch { samples, round_rows, packed, batch, .. } = scratch;
    round_rows.collect(&samples.samples.items, &samples.samples.labels, shape.rows);
    let padding_row = round_rows.rows().len();
    packed.reset_for_overwriting(padding_row + 1, shape.dimension, 1);
    packed.clear_row(padding_row, 0);
    let source = TableRows { values: table.as_slice(), dimension: shape.dimension, rows: round_rows.rows() };
    packed.gather(0, &source);
    drop(gathering);
    let mut w = packed_vector(vector);
    let mut order = task.stream(Purpose::Shuffle);
    let (mut loss, mut row_visits, mut others_scale) = (0.0, 0, 1.0);
    for _ in 0..schedule.epochs {
        if round_rows.samples().len() > schedule.batch_size {
            round_rows.shuffle(&mut order);
        }
        for chunk in round_rows.samples().chunks(schedule.batch_size) {
            batch.collect(chunk, padding_row as u32);
            let mut batch_loss = 0.0;
            for step in schedule.steps {
                batch_loss = logistic::step(packed, batch, &mut w, bias, step);
                row_visits += batch.distinct() as u64;
                let decay = step.row_decay();
                if decay != 1.0 {
                    packed.scale_rows_except(0, batch.rows(), decay);
                    others_scale *= decay;
                }
            }
            loss += f64::from(batch_loss);
        }
    }
    unpack_into(&w, vector);
    task.check_magnitude(schedule.names[0], super::largest_magnitude(vector))?;
    task.check_magnitude(schedule.names[1], bias.abs())?;
    let occurrences = round_rows.samples().len() as f64 * f64::from(schedule.epochs);
    Ok(Trained { loss: loss / occurrences, row_visits, others_scale })
}

/// Draws the training samples of a participation.
pub(super) fn draw_samples(task: &LocalTask<'_>, scratch: &mut SampleScratch) -> Result<()> {
    let _stage = enter(Stage::SampleNegatives);
    task.draw_samples(scratch)
}

/// The table that leaves the device: the trained rows, all others as downloaded but for their decay. `name` is that of the
/// table in the papers, for error messages.
///
/// # Errors
/// [`Error::Diverged`](crate::error::Error::Diverged) if a trained row has left the allowed range.
pub(super) fn update(
    task: &LocalTask<'_>,
    scratch: &mut Scratch,
    others_scale: f32,
    name: &'static str,
) -> Result<TableUpdate> {
    let _stage = enter(Stage::Encode);
    let shape = task.model.table(0).shape();
    let rows = scratch.round_rows.rows();
    let largest = scratch.packed.copy_bytes(rows.len(), shape.dimension, 0, &mut scratch.values);
    task.check_magnitude(name, largest)?;
    let values = std::mem::take(&mut scratch.values).into();
    Ok(TableUpdate { others_scale, ..TableUpdate::of_rows(shape, RowSet::Listed(rows.to_vec()), values) })
}

#[cfg(test)]
mod tests;
