//! Trains the rows of one table in local epochs of mini-batches. PFedRec and FedMF share the loop,
//! and FedRecon shares the gathering of rows.

use super::{LocalTask, SampleScratch, Scratch};
use fedrecsim_core::error::Result;
use fedrecsim_core::rng::Purpose;
use fedrecsim_core::stages::{Stage, enter};
use fedrecsim_model::model::batch::RoundRows;
use fedrecsim_model::model::kernel::logistic::{self, LogisticStep};
use fedrecsim_model::model::kernel::{PackedRows, TableRows, packed_vector, unpack_into};
use fedrecsim_model::model::table::{RowSet, Table, TableUpdate};

/// Describes how a client trains a vector, a bias and the downloaded rows.
pub(super) struct Schedule<'a> {
    /// The number of passes over the samples.
    pub epochs: u32,
    /// The number of samples in a batch.
    pub batch_size: usize,
    /// The steps taken on each batch, in order.
    pub steps: &'a [LogisticStep],
    /// The names of the vector and the bias in the papers, for error messages.
    pub names: [&'static str; 2],
}

/// Holds what the loop returns, besides the trained rows, which it leaves in `scratch.packed`.
pub(super) struct Trained {
    /// The mean loss over all batches of all epochs, each before its last step, as PFedRec's code
    /// reports it.
    pub loss: f64,
    /// The number of rows read or written, one for each distinct row in a step.
    pub row_visits: u64,
    /// The factor by which weight decay has scaled the rows outside the samples.
    pub others_scale: f32,
}

/// Trains `vector` and `bias` and the rows of the participation's samples, starting from the
/// downloaded table.
pub(super) fn train(
    task: &LocalTask<'_>,
    schedule: &Schedule<'_>,
    vector: &mut [f32],
    bias: &mut f32,
    scratch: &mut Scratch,
) -> Result<Trained> {
    draw_samples(task, &mut scratch.samples)?;
    let gathering = enter(Stage::Gather);
    let Scratch {
        samples,
        round_rows,
        packed,
        batch,
        ..
    } = scratch;
    let padding_row = gather(task.model.table(0), samples, round_rows, packed);
    drop(gathering);
    let mut w = packed_vector(vector);
    let mut order = task.stream(Purpose::Shuffle);
    let (mut loss, mut row_visits, mut others_scale) = (0.0, 0, 1.0);
    for _ in 0..schedule.epochs {
        if round_rows.samples().len() > schedule.batch_size {
            round_rows.shuffle(&mut order);
        }
        for chunk in round_rows.samples().chunks(schedule.batch_size) {
            batch.collect(chunk, padding_row);
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
    Ok(Trained {
        loss: loss / occurrences,
        row_visits,
        others_scale,
    })
}

/// Collects the distinct rows of the samples that were drawn and gathers them from `table`, with a
/// row of zeros behind them that pads batches. Returns the number of that row.
pub(super) fn gather(
    table: &Table,
    samples: &SampleScratch,
    round_rows: &mut RoundRows,
    packed: &mut PackedRows,
) -> u32 {
    let shape = table.shape();
    round_rows.collect(&samples.samples.items, &samples.samples.labels, shape.rows);
    let padding_row = round_rows.rows().len();
    packed.reset_for_overwriting(padding_row + 1, shape.dimension, 1);
    packed.clear_row(padding_row, 0);
    let source = TableRows {
        values: table.as_slice(),
        dimension: shape.dimension,
        rows: round_rows.rows(),
    };
    packed.gather(0, &source);
    padding_row as u32
}

/// Draws the training samples of a participation.
pub(super) fn draw_samples(task: &LocalTask<'_>, scratch: &mut SampleScratch) -> Result<()> {
    let _stage = enter(Stage::SampleNegatives);
    task.draw_samples(scratch)
}

/// Returns the update that leaves the device: the trained rows, and the factor by which all others
/// have decayed. `name` is that of the table in the papers, for error messages.
///
/// # Errors
/// [`Error::Diverged`](fedrecsim_core::error::Error::Diverged) if a trained row has left the allowed range.
pub(super) fn update(
    task: &LocalTask<'_>,
    scratch: &mut Scratch,
    others_scale: f32,
    name: &'static str,
) -> Result<TableUpdate> {
    let _stage = enter(Stage::Encode);
    let shape = task.model.table(0).shape();
    let rows = scratch.round_rows.rows();
    let largest = scratch
        .packed
        .copy_bytes(rows.len(), shape.dimension, 0, &mut scratch.values);
    task.check_magnitude(name, largest)?;
    let values = std::mem::take(&mut scratch.values).into();
    Ok(TableUpdate {
        others_scale,
        ..TableUpdate::of_rows(shape, RowSet::Listed(rows.to_vec()), values)
    })
}

#[cfg(test)]
mod tests;
