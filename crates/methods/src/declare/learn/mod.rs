//! Trains and scores the methods that declare a score and a loss.
//!
//! Each pair of a [`Score`] and a [`Loss`] has a loop that is compiled for it. The packed kernel of
//! [`product`] trains products with the binary cross-entropy, [`network`] trains networks and
//! products by Adam, and [`groups`] trains everything else. It sees each positive with its
//! negatives, as networks do with another loss than the binary cross-entropy.

use super::score::{Loss, Optimizer, Score, Training};
use super::{Own, table_of};
use crate::recent_step::stepped;
use crate::{
    LocalTask, Products, SampleScratch, Scoring, ScoringContext, Scratch, Trained,
    largest_magnitude,
};
use fedrecsim_core::Result;
use fedrecsim_core::stages::{Stage, enter};
use fedrecsim_model::{Table, TableUpdate};

pub(crate) mod adapter;
pub(crate) mod contrast;
mod groups;
pub(crate) mod moments;
mod network;
mod product;
mod pull;
mod steps;

pub(crate) use groups::{Factors, groups_of, pairs_of};
pub(super) use network::FIRST_LAYER;
pub(crate) use network::{layer_updates, score_by_network};
pub(crate) use product::{Session, update};

/// Trains the blocks that `score` names.
pub(crate) fn train<S>(
    (score, loss): (&Score, Loss),
    training: &Training,
    own: &mut Own<S>,
    task: &LocalTask<'_>,
    scratch: &mut Scratch,
) -> Result<Trained> {
    match score {
        Score::Own => panic!("a method without a declared score has to override `train`"),
        Score::Perceptron {
            network,
            vector,
            table,
        } => {
            let names = (*vector, *table);
            network::train((network, names, loss), training, own, task, scratch)
        }
        Score::Dot(names)
            if training.optimizer == Optimizer::Adam
                || own.plan.block(names.table).contrast.is_some() =>
        {
            network::train_product((names, loss), training, own, task, scratch)
        }
        Score::Dot(names) if loss == Loss::BinaryCrossEntropy && names.item_bias.is_none() => {
            product::train(names, training, own, task, scratch)
        }
        Score::Dot(names) => groups::train((names, loss), training, own, task, scratch),
    }
}

/// Draws the training samples of a participation.
pub(crate) fn draw_samples(task: &LocalTask<'_>, scratch: &mut SampleScratch) -> Result<()> {
    let _stage = enter(Stage::SampleNegatives);
    task.draw_samples(scratch)
}

/// Draws the training samples of a participation, collects their distinct items in
/// `scratch.round_rows`, and returns the items' rows of `table`, one after the other.
pub(crate) fn draw_rows(
    task: &LocalTask<'_>,
    table: &Table,
    scratch: &mut Scratch,
) -> Result<Vec<f32>> {
    draw_samples(task, &mut scratch.samples)?;
    Ok(gather_rows(table, scratch))
}

/// Collects the distinct items of the samples that were drawn as [`draw_rows`] does.
pub(crate) fn gather_rows(table: &Table, scratch: &mut Scratch) -> Vec<f32> {
    let samples = &scratch.samples.samples;
    let round_rows = &mut scratch.round_rows;
    round_rows.collect(&samples.items, &samples.labels, table.shape().rows);
    table.gathered(&round_rows.rows)
}

/// Checks the values of a private block that were trained, or of several from this one on, and keeps
/// them.
fn keep<S>(
    own: &mut Own<S>,
    task: &LocalTask<'_>,
    name: &'static str,
    values: &[f32],
) -> Result<()> {
    task.check_magnitude(name, largest_magnitude(values))?;
    own.run_mut(name, values.len()).copy_from_slice(values);
    Ok(())
}

/// Checks the rows of a shared item table that were trained, and returns the update that they
/// make. `name` is that of the table.
pub(crate) fn listed_update(
    task: &LocalTask<'_>,
    name: &'static str,
    listed: &[u32],
    rows: &[f32],
) -> Result<TableUpdate> {
    task.check_magnitude(name, largest_magnitude(rows))?;
    let shape = table_of(task.model, name).shape();
    TableUpdate::listed(shape, listed.to_vec(), rows, 1.0)
}

/// Makes the scorer that `score` describes.
pub(crate) fn scorer<'a, S>(
    score: Score,
    own: &'a Own<S>,
    context: &ScoringContext<'a>,
) -> Scoring<'a> {
    let model = context.model;
    match score {
        Score::Own => panic!("a method without a declared score has to override `scorer`"),
        Score::Perceptron {
            network,
            vector,
            table,
        } => {
            let user = vector.map_or(&[][..], |name| own.get(name));
            let table = own.table(table, model)?;
            let weights = network::of_user(&network, own, model);
            Ok(Box::new(move |items: &[u32], scores: &mut [f32]| {
                score_by_network(&network, &weights, user, &table, items, scores);
            }))
        }
        Score::Dot(names) => {
            let user = own.get(names.vector);
            let bias = names.bias.map_or(0.0, |name| own.get(name)[0]);
            let item_bias = names.item_bias.map(|name| table_of(model, name));
            // A step needs more rows than those that are scored.
            let kept = own.kept(names.table);
            let scores = names.recency.is_none() && own.received(names.table, model).is_none();
            let Some(kept) = kept.filter(|_| scores) else {
                let table = own.table(names.table, model)?;
                let own = (&context.own, context.user);
                let user = stepped(names.recency.as_ref(), user.to_vec(), &table, own)?;
                return Ok(Box::new(Products {
                    bias,
                    item_bias: item_bias.map(|biases| (1.0, biases.clone())),
                    ..Products::new(user, &table)
                }));
            };
            Ok(Box::new(move |items: &[u32], scores: &mut [f32]| {
                kept.score(user, bias, items, scores);
                if let Some(biases) = item_bias {
                    let biased = items.iter().zip(scores);
                    biased.for_each(|(item, score)| *score += biases.row(*item as usize)[0]);
                }
            }))
        }
    }
}
