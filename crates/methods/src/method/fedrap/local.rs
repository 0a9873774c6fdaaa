//! Implements FedRAP's local training: the rows of a participation are gathered, trained in all
//! epochs, and written back.

use super::moving_rows::{C, D, MovingRows};
use super::noise::Disturbance;
use super::parameters::{Objective, Plan, Tables};
use crate::method::declare::learn::draw_samples;
use crate::method::declare::{Own, Trained};
use crate::method::largest_magnitude;
use crate::method::{LocalTask, Scratch};
use fedrecsim_core::error::Result;
use fedrecsim_core::rng::{Purpose, Stream};
use fedrecsim_core::stages::{Stage, enter};
use fedrecsim_core::work::Work;
use fedrecsim_model::model::batch::RoundRows;
use fedrecsim_model::model::kernel::additive::{self, AdditiveStep};
use fedrecsim_model::model::kernel::{
    Block, PackedRows, RowWeights, TableRows, packed_vector, unpack_into,
};
use fedrecsim_model::model::table::{RowSet, TableUpdate};

/// Trains a user's private parameters and the rows of C, and returns the update of C.
pub(super) fn train(
    (plan, items): (&Plan, usize),
    own: &mut Own<()>,
    task: &LocalTask<'_>,
    scratch: &mut Scratch,
) -> Result<Trained> {
    draw_samples(task, &mut scratch.samples)?;
    let gathering = enter(Stage::Gather);
    let (samples, round_rows) = (&scratch.samples.samples, &mut scratch.round_rows);
    match plan.packs_every_row() {
        false => round_rows.collect(&samples.items, &samples.labels, items),
        true => round_rows.collect_whole_catalogue(&samples.items, &samples.labels, items),
    }
    let rows = round_rows.rows().to_vec();
    let mut epochs = LocalEpochs::new(plan, (own.get("w"), own.get("b")[0]), task, &rows);
    let (d, start) = own.rows_mut("D");
    let mut moving = MovingRows::new(
        plan,
        rows.len(),
        plan.keeps_d()
            .then(|| d.found(&rows, start, &mut scratch.slots)),
        plan.shares().then(|| downloaded_rows(task, plan, &rows)),
        &mut scratch.packed,
        std::mem::take(&mut scratch.values),
    );
    drop(gathering);
    let (packed, weights) = (&mut scratch.packed, &mut scratch.weights);
    epochs.run(round_rows, packed, weights, &mut moving);
    let LocalEpochs {
        w,
        b,
        others_scale,
        loss,
        row_visits,
        disturbance,
        ..
    } = epochs;
    moving.move_out_at_once(packed, others_scale);
    let (mut values, [largest_d, mut largest_c]) = moving.finish();
    if let Some(mut disturbance) = disturbance {
        (values, largest_c) = disturbance.upload(&rows, values, largest_c);
    }
    unpack_into(&w, own.get_mut("w"));
    own.get_mut("b")[0] = b;
    task.check_magnitude("w", largest_magnitude(own.get("w")))?;
    task.check_magnitude("b", b.abs())?;
    task.check_magnitude("C", largest_c)?;
    task.check_magnitude("D", largest_d)?;
    Ok(Trained {
        blocks: vec![update(plan, task, rows, others_scale, values)],
        loss,
        samples: round_rows.samples().len(),
        work: Work::of_row_visits(row_visits),
    })
}

/// Returns `rows` of the downloaded C.
fn downloaded_rows<'a>(task: &LocalTask<'a>, plan: &Plan, rows: &'a [u32]) -> TableRows<'a> {
    TableRows {
        values: task.model.table(0).as_slice(),
        dimension: plan.dimension,
        rows,
    }
}

/// Returns the update that leaves the device: the trained rows of C, and the factor by which all
/// others have decayed.
fn update(
    plan: &Plan,
    task: &LocalTask<'_>,
    rows: Vec<u32>,
    others_scale: f32,
    values: Vec<u8>,
) -> TableUpdate {
    let shape = task.model.table(0).shape();
    match plan.uploads_every_row() {
        false if plan.shares() => TableUpdate {
            others_scale,
            ..TableUpdate::of_rows(shape, RowSet::Listed(rows), values.into())
        },
        _ => TableUpdate::of_rows(shape, RowSet::All, values.into()),
    }
}

/// Holds the state of a participation's epochs.
struct LocalEpochs<'a> {
    plan: &'a Plan,
    w: Vec<Block>,
    b: f32,
    network_rate: f32,
    table_rate: f32,
    lambda: f32,
    mu: f32,
    order: Stream,
    /// The factor by which the steps have scaled the rows that none of them touched.
    others_scale: f32,
    /// The running mean of the batch losses, weighted by batch size and never reset, as in the
    /// published code.
    loss: f64,
    loss_sum: f64,
    occurrences: f64,
    row_visits: u64,
    /// The number of steps so far.
    steps: usize,
    /// The number of steps, unless the loss hardly changes any more.
    last_step: usize,
    /// The number of rows that the present batch moves by more than their decay.
    visits_per_step: u64,
    /// What clips and disturbs C, if something does.
    disturbance: Option<Disturbance<'a>>,
}

impl<'a> LocalEpochs<'a> {
    /// Prepares to train the rows of the items `rows` (ascending).
    fn new(plan: &'a Plan, (w, b): (&[f32], f32), task: &LocalTask<'a>, rows: &[u32]) -> Self {
        let round = task.round.0;
        // Repeated multiplication gives the same bits on every platform, which a power function
        // need not.
        let decay = (0..round).fold(1.0f64, |decay, _| decay * f64::from(plan.round_decay));
        let factor = plan.curriculum_factor(round);
        let table_rate = (f64::from(plan.table_rate) * decay) as f32;
        let noise = plan.noise.as_ref().filter(|_| plan.shares());
        Self {
            plan,
            w: packed_vector(w),
            b,
            network_rate: (f64::from(plan.network_rate) * decay) as f32,
            table_rate,
            lambda: plan.lambda * factor,
            mu: plan.mu * factor,
            order: task.stream(Purpose::Shuffle),
            others_scale: 1.0,
            loss: 0.0,
            loss_sum: 0.0,
            occurrences: 0.0,
            row_visits: 0,
            steps: 0,
            last_step: 0,
            visits_per_step: 0,
            disturbance: noise.map(|noise| Disturbance::new(noise, task, rows, table_rate)),
        }
    }

    /// Runs all epochs over the rows, which move in as the first step reaches them and out as the
    /// last one does, if it is known to be the last one.
    fn run(
        &mut self,
        round_rows: &mut RoundRows,
        packed: &mut PackedRows,
        weights: &mut RowWeights,
        moving: &mut MovingRows<'_>,
    ) {
        let samples = round_rows.samples().len();
        let one_batch = samples <= self.plan.batch_size;
        if one_batch {
            self.weigh(round_rows.samples(), round_rows.rows().len(), weights);
        }
        let steps_per_epoch = samples.div_ceil(self.plan.batch_size).max(1);
        self.last_step = self.plan.local_epochs as usize * steps_per_epoch;
        for _ in 0..self.plan.local_epochs {
            let before = self.loss;
            if one_batch {
                // With a single batch, shuffling would change nothing.
                self.step(samples, packed, weights, moving);
            } else {
                round_rows.shuffle(&mut self.order);
                for batch in round_rows.samples().chunks(self.plan.batch_size) {
                    self.weigh(batch, round_rows.rows().len(), weights);
                    self.step(batch.len(), packed, weights, moving);
                }
            }
            self.loss = self.loss_sum / self.occurrences;
            // This does not hold after the first epoch, when `before` is zero.
            if (self.loss - before).abs() < self.plan.tolerance * before.abs() {
                break;
            }
        }
    }

    fn weigh(&mut self, batch: &[(u32, bool)], rows: usize, weights: &mut RowWeights) {
        let per_value = 1.0 / (batch.len() as f64 * self.plan.dimension as f64);
        let whole_matrix = (self.plan.objective == Objective::Paper).then_some(1.0);
        weights.count_batch(batch, rows, per_value as f32, whole_matrix);
        self.visits_per_step = match self.plan.objective {
            Objective::PublishedCode => {
                weights.count.iter().filter(|count| **count > 0.0).count() as u64
            }
            Objective::Paper => rows as u64,
        };
    }

    /// Takes one step. The rows move in during the first one and out during the last one.
    fn step(
        &mut self,
        batch: usize,
        packed: &mut PackedRows,
        weights: &RowWeights,
        moving: &mut MovingRows<'_>,
    ) {
        let plan = self.plan;
        let data_weight = match plan.objective {
            Objective::PublishedCode => (1.0 / batch as f64) as f32,
            Objective::Paper => 1.0,
        };
        let step = AdditiveStep {
            data_weight,
            network_rate: self.network_rate,
            table_rate: self.table_rate,
            weight_decay: plan.weight_decay,
            lambda: self.lambda,
            mu: self.mu,
            penalty: plan.penalty,
        };
        self.steps += 1;
        self.others_scale *= 1.0 - self.table_rate * plan.weight_decay;
        let (w, b) = (&mut self.w, &mut self.b);
        let loss = if self.steps == 1 {
            additive::step_while_moving(packed, weights, w, b, &step, moving)
        } else if self.steps == self.last_step
            && plan.tables == Tables::Both
            && self.disturbance.is_none()
        {
            moving.turn_round(self.others_scale);
            additive::step_while_moving(packed, weights, w, b, &step, moving)
        } else {
            additive::step(packed, weights, w, b, &step)
        };
        // An ablated table is zero and stays zero.
        match (plan.tables, plan.aggregate_d) {
            (Tables::Both, _) => {}
            (Tables::COnly, _) | (Tables::DOnly, true) => packed.clear_table(D),
            (Tables::DOnly, false) => packed.clear_table(C),
        }
        if let Some(disturbance) = &mut self.disturbance {
            disturbance.disturb_step(packed, self.table_rate, self.table_rate * plan.weight_decay);
        }
        self.loss_sum += f64::from(loss) * batch as f64;
        self.occurrences += batch as f64;
        self.row_visits += self.visits_per_step;
        self.network_rate *= plan.batch_decay;
        self.table_rate *= plan.batch_decay;
    }
}
