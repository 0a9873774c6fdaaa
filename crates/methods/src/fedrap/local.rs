//! Runs the epochs of a participation in FedRAP.

use super::moving_rows::{C, D, MovingRows};
use super::noise::Disturbance;
use super::parameters::{FedRap, Objective};
use crate::prelude::*;
use fedrecsim_model::kernel::additive::{self, AdditiveStep};
use fedrecsim_model::kernel::{Block as Lanes, PackedRows, RoundRows, RowWeights, packed_vector};

/// Holds the state of a participation's epochs.
pub(super) struct Epochs<'a> {
    plan: &'a FedRap,
    pub w: Vec<Lanes>,
    pub b: f32,
    /// The next step.
    step: AdditiveStep,
    order: Stream,
    /// The factor by which the steps have scaled the rows that none of them touched.
    pub others_scale: f32,
    /// The running mean of the batch losses, weighted by batch size and never reset, as in the
    /// published code.
    pub loss: f64,
    loss_sum: f64,
    occurrences: f64,
    pub row_visits: u64,
    /// The number of steps so far.
    steps: usize,
    /// The number of steps, unless the loss hardly changes any more.
    last_step: usize,
    /// The number of rows that the present batch moves by more than their decay.
    visits_per_step: u64,
    /// What clips and disturbs C, if something does.
    pub disturbance: Option<Disturbance<'a>>,
}

impl<'a> Epochs<'a> {
    /// Prepares to train the rows of the items `rows` (ascending).
    pub(super) fn new(plan: &'a FedRap, own: &Own<()>, task: &LocalTask<'a>, rows: &[u32]) -> Self {
        // Repeated multiplication gives the same bits on every platform, which a power function
        // need not.
        let decay = (0..task.round.0).fold(1.0, |decay, _| decay * f64::from(plan.round_decay));
        let factor = plan.curriculum_factor(task.round.0);
        let mut step = plan.step;
        for rate in [&mut step.network_rate, &mut step.table_rate] {
            *rate = (f64::from(*rate) * decay) as f32;
        }
        step.lambda *= factor;
        step.mu *= factor;
        let disturbance = |noise| Disturbance::new(noise, task, rows, step.table_rate);
        Self {
            plan,
            w: packed_vector(own.get("w")),
            b: own.get("b")[0],
            step,
            order: task.stream(Purpose::Shuffle),
            others_scale: 1.0,
            loss: 0.0,
            loss_sum: 0.0,
            occurrences: 0.0,
            row_visits: 0,
            steps: 0,
            last_step: 0,
            visits_per_step: 0,
            disturbance: plan.noise().map(disturbance),
        }
    }

    /// Runs all epochs over the rows, which move in as the first step reaches them and out as the
    /// last one does, if it is known to be the last one.
    pub(super) fn run(
        &mut self,
        round_rows: &mut RoundRows,
        packed: &mut PackedRows,
        weights: &mut RowWeights,
        moving: &mut MovingRows<'_>,
    ) {
        let (samples, batch_size) = (round_rows.samples.len(), self.plan.batch_size);
        let has_one_batch = samples <= batch_size;
        let starts = (0..samples.max(1)).step_by(batch_size);
        let epochs = self.plan.parameters.local_epochs;
        self.last_step = epochs as usize * starts.len();
        for _ in 0..epochs {
            let before = self.loss;
            // A single batch is the same in whatever order, and in every epoch.
            if !has_one_batch {
                self.order.shuffle_portably(&mut round_rows.samples);
            }
            for start in starts.clone() {
                let end = samples.min(start.saturating_add(batch_size));
                let batch = &round_rows.samples[start..end];
                if !has_one_batch || self.steps == 0 {
                    self.weigh(batch, round_rows.rows.len(), weights);
                }
                self.step(batch.len(), packed, weights, moving);
            }
            self.loss = self.loss_sum / self.occurrences;
            // This does not hold after the first epoch, when `before` is zero.
            if (self.loss - before).abs() < self.plan.tolerance * before.abs() {
                break;
            }
        }
    }

    /// Weighs the rows of a batch by their samples. In the objective of the paper all rows have the
    /// same weight in the regularisers.
    fn weigh(&mut self, batch: &[(u32, bool)], rows: usize, weights: &mut RowWeights) {
        let per_value = 1.0 / (batch.len() as f64 * self.plan.dimension() as f64);
        let is_paper = self.plan.parameters.objective == Objective::Paper;
        weights.count_batch(batch, rows, per_value as f32, is_paper.then_some(1.0));
        let visited = || weights.count.iter().filter(|count| **count > 0.0).count();
        self.visits_per_step = if is_paper { rows } else { visited() } as u64;
        if !is_paper {
            self.step.data_weight = (1.0 / batch.len() as f64) as f32;
        }
    }

    /// Takes one step. The rows move in during the first one and out during the last one.
    fn step(
        &mut self,
        batch: usize,
        packed: &mut PackedRows,
        weights: &RowWeights,
        moving: &mut MovingRows<'_>,
    ) {
        let (plan, step) = (self.plan, self.step);
        self.steps += 1;
        let decay = step.table_rate * step.weight_decay;
        self.others_scale *= 1.0 - decay;
        let (w, b) = (&mut self.w, &mut self.b);
        let is_last = self.steps == self.last_step && self.steps > 1;
        let has_both = plan.shares() && plan.keeps_d();
        let moves_out = is_last && has_both && self.disturbance.is_none();
        if moves_out {
            moving.turn_round(self.others_scale);
        }
        let loss = match moves_out || self.steps == 1 {
            true => additive::step_while_moving(packed, weights, w, b, &step, moving),
            false => additive::step(packed, weights, w, b, &step),
        };
        // An ablated table is zero and stays zero.
        for (table, is_there) in [(D, plan.keeps_d()), (C, plan.shares())] {
            if !is_there {
                packed.clear_table(table);
            }
        }
        if let Some(disturbance) = &mut self.disturbance {
            disturbance.disturb_step(packed, step.table_rate, decay);
        }
        self.loss_sum += f64::from(loss) * batch as f64;
        self.occurrences += batch as f64;
        self.row_visits += self.visits_per_step;
        self.step.network_rate *= plan.batch_decay;
        self.step.table_rate *= plan.batch_decay;
    }
}
