//! Runs the epochs of a participation in FedRAP.

use super::moving_rows::{C, D, MovingRows};
use super::noise::Disturbance;
use super::parameters::{FedRap, Objective};
use crate::prelude::*;
use fedrecsim_model::kernel::additive::{self, AdditiveStep};
use fedrecsim_model::kernel::{
    Block as Lanes, PackedRows, RoundRows, RowWeights, packed_vector, unpack_into,
};

/// Holds what the epochs of a participation change beside the rows.
pub(crate) struct Epochs<'a> {
    plan: &'a FedRap,
    pub w: Vec<Lanes>,
    pub b: f32,
    /// The vectors that w is the sum of, if it is a sum.
    pub split: Option<Split>,
    /// The next step.
    step: AdditiveStep,
    /// The factor that the steps have scaled untouched rows by.
    pub others_scale: f32,
    /// The running mean of the batch losses, weighted by batch size and never reset, as in the
    /// published code.
    pub loss: f64,
    pub row_visits: u64,
    /// What clips and disturbs C, if something does.
    pub(super) disturbance: Option<Disturbance<'a>>,
}

impl<'a> Epochs<'a> {
    /// Prepares to train w and b, with this share of lambda and mu.
    pub(crate) fn new(
        plan: &'a FedRap,
        (w, b): (Vec<Lanes>, f32),
        factor: f32,
        task: &LocalTask<'_>,
    ) -> Self {
        // Repeated multiplication gives the same bits on every platform, which a power function
        // need not.
        let decay = (0..task.round.0).fold(1.0, |decay, _| decay * f64::from(plan.round_decay));
        let mut step = plan.step;
        for rate in [&mut step.network_rate, &mut step.table_rate] {
            *rate = (f64::from(*rate) * decay) as f32;
        }
        step.lambda *= factor;
        step.mu *= factor;
        Self {
            plan,
            w,
            b,
            split: None,
            step,
            others_scale: 1.0,
            loss: 0.0,
            row_visits: 0,
            disturbance: None,
        }
    }

    /// Has w be this sum, which it starts as, without b.
    pub(crate) fn split(self, split: Split) -> Self {
        let split = Some(split);
        Self { split, ..self }
    }

    /// Has the noise, if there is one, disturb these rows of items (ascending).
    pub(super) fn disturb(&mut self, task: &LocalTask<'a>, rows: &[u32]) {
        let rate = self.step.table_rate;
        let disturbance = |noise| Disturbance::new(noise, task, rows, rate);
        self.disturbance = self.plan.noise().map(disturbance);
    }

    /// Runs all epochs over the rows, which move in as the first step reaches them and out as the
    /// last one does, if it is known to be the last one. `order` shuffles the samples.
    pub(super) fn run(
        &mut self,
        mut order: Stream,
        round_rows: &mut RoundRows,
        packed: &mut PackedRows,
        weights: &mut RowWeights,
        moving: &mut MovingRows<'_>,
    ) {
        let (plan, samples) = (self.plan, round_rows.samples.len());
        let has_one_batch = samples <= plan.batch_size;
        let starts = (0..samples.max(1)).step_by(plan.batch_size);
        let epochs = plan.parameters.local_epochs;
        // Epochs may end before it, when the loss hardly changes any more.
        let last_step = epochs as usize * starts.len();
        let (mut steps, mut visits) = (0, 0);
        let (mut loss_sum, mut occurrences) = (0.0, 0.0);
        for _ in 0..epochs {
            let before = self.loss;
            // A single batch is the same in any order, and in every epoch.
            if !has_one_batch {
                order.shuffle_portably(&mut round_rows.samples);
            }
            for start in starts.clone() {
                let end = samples.min(start.saturating_add(plan.batch_size));
                let batch = &round_rows.samples[start..end];
                if !has_one_batch || steps == 0 {
                    visits = self.weigh(batch, round_rows.rows.len(), weights);
                }
                steps += 1;
                let moves_in = steps == 1;
                let moves_out = steps == last_step && !moves_in && plan.shares() && plan.keeps_d();
                let loss = self.step(packed, weights, moving, [moves_in, moves_out]);
                loss_sum += f64::from(loss) * batch.len() as f64;
                occurrences += batch.len() as f64;
                self.row_visits += visits;
            }
            self.loss = loss_sum / occurrences;
            // This does not hold after the first epoch, when `before` is zero.
            if (self.loss - before).abs() < plan.tolerance * before.abs() {
                break;
            }
        }
    }

    /// Weighs the rows of a batch by their samples, and returns the number of rows that the batch
    /// moves by more than their decay. In the objective of the paper all rows have the same weight
    /// in the regularisers.
    fn weigh(&mut self, batch: &[(u32, bool)], rows: usize, weights: &mut RowWeights) -> u64 {
        let per_value = 1.0 / (batch.len() as f64 * self.plan.dimension() as f64);
        let is_paper = self.plan.parameters.objective == Objective::Paper;
        weights.count_batch(batch, rows, per_value as f32, is_paper.then_some(1.0));
        if is_paper {
            return rows as u64;
        }
        self.step.data_weight = (1.0 / batch.len() as f64) as f32;
        weights.count.iter().filter(|count| **count > 0.0).count() as u64
    }

    /// Takes one step, and returns the loss. The rows move in or out during it if they are to.
    fn step(
        &mut self,
        packed: &mut PackedRows,
        weights: &RowWeights,
        moving: &mut MovingRows<'_>,
        [moves_in, moves_out]: [bool; 2],
    ) -> f32 {
        let (plan, step) = (self.plan, self.step);
        let decay = step.table_rate * step.weight_decay;
        self.others_scale *= 1.0 - decay;
        let moves_out = moves_out && self.disturbance.is_none();
        if moves_out {
            moving.turn_round(self.others_scale);
        }
        let (w, b) = (&mut self.w, &mut self.b);
        let before = self.split.is_some().then(|| w.clone());
        let loss = match moves_in || moves_out {
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
        let mut penalty = 0.0;
        if let (Some(split), Some(before)) = (&mut self.split, before) {
            penalty = split.step((&before, &mut self.w), &step);
            self.b = 0.0;
        }
        self.step.network_rate *= plan.batch_decay;
        self.step.table_rate *= plan.batch_decay;
        loss + penalty
    }
}

/// Two vectors that w is the sum of. The second is penalised as C is, and driven apart from the first
/// as C is from D.
pub(crate) struct Split {
    pub own: Vec<f32>,
    pub shared: Vec<f32>,
    /// The factor that the steps have scaled other vectors like the second by.
    pub others_scale: f32,
}

impl Split {
    pub(crate) fn new(own: &[f32], shared: &[f32]) -> Self {
        Self {
            own: own.to_vec(),
            shared: shared.to_vec(),
            others_scale: 1.0,
        }
    }

    /// Returns the sum.
    pub(crate) fn sum(&self) -> Vec<f32> {
        let values = self.own.iter().zip(&self.shared);
        values.map(|(own, shared)| own + shared).collect()
    }

    /// Steps both vectors, given w before and after a step that took it for one vector, and replaces
    /// w by their sum. Both have the gradient of the data that w has. Returns their penalty before the step.
    fn step(&mut self, (before, after): (&[Lanes], &mut [Lanes]), step: &AdditiveStep) -> f32 {
        let dimension = self.own.len();
        let penalties = self.own.iter().zip(&self.shared).map(|(own, shared)| {
            step.mu * shared.abs() - step.lambda * (own - shared) * (own - shared)
        });
        let penalty = penalties.sum::<f32>() / dimension as f32;
        let [mut old, mut new] = [vec![0.0; dimension], vec![0.0; dimension]];
        unpack_into(before, &mut old);
        unpack_into(after, &mut new);
        let (rate, kept) = (
            step.network_rate,
            1.0 - step.network_rate * step.weight_decay,
        );
        let per_value = rate / dimension as f32;
        let vectors = self.own.iter_mut().zip(&mut self.shared);
        for ((own, shared), (old, new)) in vectors.zip(old.iter().zip(&mut new)) {
            let by_data = kept * old - *new;
            let apart = 2.0 * step.lambda * per_value * (*own - *shared);
            let sign = f32::from(*shared > 0.0) - f32::from(*shared < 0.0);
            *own = kept * *own - by_data + apart;
            *shared = kept * *shared - by_data - apart - step.mu * per_value * sign;
            *new = *own + *shared;
        }
        after.copy_from_slice(&packed_vector(&new));
        self.others_scale *= kept;
        penalty
    }
}
