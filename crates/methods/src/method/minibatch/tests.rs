//! Compares the loop over mini-batches with a plain stochastic gradient descent in double
//! precision.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use super::*;
use fedrecsim_core::ids::{InvitationId, Round, UserId};
use fedrecsim_core::rng::{PortableDraws, Streams};
use fedrecsim_data::dataset::negatives::Samples;
use fedrecsim_model::model::blocks::Model;
use fedrecsim_model::model::kernel::logistic::Target;
use fedrecsim_model::model::table::TableShape;

const STREAMS: Streams = Streams::new(3);
const USER: UserId = UserId(6);
const ROUND: Round = Round(2);
const INVITATION: InvitationId = InvitationId(5);

/// Holds the parameters and the report of a plain implementation that moves every row in every
/// step, one sample at a time.
struct Plain {
    w: Vec<f64>,
    b: f64,
    rows: Vec<Vec<f64>>,
    loss: f64,
    row_visits: u64,
}

impl Plain {
    fn logit(&self, item: u32) -> f64 {
        self.b
            + self
                .w
                .iter()
                .zip(&self.rows[item as usize])
                .map(|(w, e)| w * e)
                .sum::<f64>()
    }

    fn step(&mut self, batch: &[(u32, bool)], step: &LogisticStep) {
        let (vector_rate, bias_rate) = (f64::from(step.vector_rate), f64::from(step.bias_rate));
        let (row_rate, decay) = (f64::from(step.row_rate), f64::from(step.weight_decay));
        let gradients: Vec<f64> = batch
            .iter()
            .map(|&(item, positive)| {
                1.0 / (1.0 + (-self.logit(item)).exp()) - f64::from(u8::from(positive))
            })
            .map(|gradient| gradient / batch.len() as f64)
            .collect();
        let (w, b, rows) = (self.w.clone(), self.b, self.rows.clone());
        if step.target != Target::Rows {
            self.w
                .iter_mut()
                .for_each(|w| *w -= vector_rate * decay * *w);
            self.b -= bias_rate * decay * b;
        }
        if step.target != Target::Vector {
            self.rows
                .iter_mut()
                .flatten()
                .for_each(|e| *e -= row_rate * decay * *e);
        }
        for (&(item, _), gradient) in batch.iter().zip(gradients) {
            for i in 0..w.len() {
                if step.target != Target::Rows {
                    self.w[i] -= vector_rate * gradient * rows[item as usize][i];
                }
                if step.target != Target::Vector {
                    self.rows[item as usize][i] -= row_rate * gradient * w[i];
                }
            }
            if step.target != Target::Rows {
                self.b -= bias_rate * gradient;
            }
        }
    }

    fn train(&mut self, samples: &Samples, schedule: &Schedule<'_>) {
        let mut order =
            STREAMS.stream(Purpose::Shuffle, u64::from(USER.0), u64::from(INVITATION.0));
        let labels = samples.labels.iter().map(|label| *label == 1.0);
        let mut samples: Vec<(u32, bool)> = samples.items.iter().copied().zip(labels).collect();
        for _ in 0..schedule.epochs {
            if samples.len() > schedule.batch_size {
                order.shuffle_portably(&mut samples);
            }
            for batch in samples.chunks(schedule.batch_size) {
                let mut items: Vec<u32> = batch.iter().map(|sample| sample.0).collect();
                items.sort_unstable();
                items.dedup();
                for (number, step) in schedule.steps.iter().enumerate() {
                    if number + 1 == schedule.steps.len() {
                        self.loss += batch
                            .iter()
                            .map(|&(item, positive)| {
                                let z = self.logit(item);
                                z.exp().ln_1p() - if positive { z } else { 0.0 }
                            })
                            .sum::<f64>();
                    }
                    self.step(batch, step);
                    self.row_visits += items.len() as u64;
                }
            }
        }
        self.loss /= samples.len() as f64 * f64::from(schedule.epochs);
    }
}

fn check(distinct: u32, batch_size: usize, targets: &[Target], weight_decay: f32) {
    let what =
        format!("{distinct} rows in batches of {batch_size}, {targets:?}, decay {weight_decay}");
    let shape = TableShape {
        rows: 2 * distinct as usize + 1,
        dimension: 5,
    };
    let mut stream = STREAMS.stream(Purpose::GlobalInit, 0, 0);
    let mut normal = || stream.standard_normal() as f32;
    let global = Arc::new(Table::from_fn(shape, &mut normal));
    let (mut w, mut b): (Vec<f32>, f32) =
        ((0..shape.dimension).map(|_| normal()).collect(), normal());
    // The samples are every other row of the table, some of them more than once and with both
    // labels.
    let items: Vec<u32> = (0..distinct + distinct / 2)
        .map(|sample| 2 * (sample * 7 % distinct) + 1)
        .collect();
    let labels = (0..items.len())
        .map(|sample| if sample % 3 == 0 { 1.0 } else { 0.0 })
        .collect();
    let samples = Samples { items, labels };
    let step = |&target: &Target| LogisticStep {
        target,
        vector_rate: 0.2,
        bias_rate: 0.1,
        row_rate: 1.5,
        weight_decay,
    };
    let steps: Vec<LogisticStep> = targets.iter().map(step).collect();
    let schedule = Schedule {
        epochs: 3,
        batch_size,
        steps: &steps,
        names: ["w", "b"],
    };
    let double = |values: &[f32]| {
        values
            .iter()
            .map(|value| f64::from(*value))
            .collect::<Vec<f64>>()
    };
    let mut plain = Plain {
        w: double(&w),
        b: f64::from(b),
        rows: (0..shape.rows).map(|row| double(global.row(row))).collect(),
        loss: 0.0,
        row_visits: 0,
    };
    plain.train(&samples, &schedule);
    let model = Model::of_table("E", Arc::clone(&global));
    let task = LocalTask::with_samples((USER, ROUND, INVITATION), &model, &samples, STREAMS, 1e6);
    let mut scratch = Scratch::default();
    let trained = train(&task, &schedule, &mut w, &mut b, &mut scratch).unwrap();
    let table = update(&task, &mut scratch, trained.others_scale, "E")
        .unwrap()
        .apply(&global)
        .unwrap();
    let close =
        |value: f64, expected: f64| (value - expected).abs() < 3e-5 * expected.abs().max(1.0);
    assert!(
        w.iter()
            .zip(&plain.w)
            .all(|(w, expected)| close(f64::from(*w), *expected)),
        "{what}: w"
    );
    assert!(
        close(f64::from(b), plain.b),
        "{what}: b is {b} instead of {}",
        plain.b
    );
    for (row, expected) in plain.rows.iter().enumerate() {
        assert!(
            double(table.row(row))
                .iter()
                .zip(expected)
                .all(|(e, expected)| close(*e, *expected)),
            "{what}: row {row}"
        );
    }
    assert!(
        close(trained.loss, plain.loss),
        "{what}: loss {} instead of {}",
        trained.loss,
        plain.loss
    );
    assert_eq!(trained.row_visits, plain.row_visits, "{what}");
}

/// If this fails, PFedRec and FedMF do not train as their papers say.
#[test]
fn the_loop_is_stochastic_gradient_descent() {
    for distinct in [16, 11] {
        for batch_size in [4, 16, 24, 1000] {
            for weight_decay in [0.0, 0.01] {
                check(distinct, batch_size, &[Target::Both], weight_decay);
                check(
                    distinct,
                    batch_size,
                    &[Target::Vector, Target::Rows],
                    weight_decay,
                );
            }
        }
    }
}
