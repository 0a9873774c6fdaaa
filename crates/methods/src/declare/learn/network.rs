//! Trains and scores a network that reads a row of a shared item table, and perhaps a private
//! vector.

use std::sync::Arc;

use super::super::score::{Loss, Product, Training};
use super::super::{Own, table_of};
use super::adapter::Adapting;
use super::contrast::Labelled;
use super::moments;
use super::steps::{Group, Parts, Steps};
use super::{draw_samples, gather_rows, keep, listed_update};
use crate::{LocalTask, Scratch, Trained, largest_magnitude};
use fedrecsim_core::work::Work;
use fedrecsim_core::{Purpose, Result};
use fedrecsim_model::neural::{Layer, Perceptron, PerceptronBuffers};
use fedrecsim_model::{Model, ModelUpdate, Table, TableShape, TableUpdate};

/// The name of a network's first block.
pub(in super::super) const FIRST_LAYER: &str = "W1";

/// The name of a network in messages.
const NETWORK: &str = "the network";

/// What training has made of a table and a network.
struct Learned {
    table: TableUpdate,
    weights: Vec<f32>,
    mean: f64,
    work: Work,
}

/// Trains a network as `score` says, and perhaps a private vector.
pub(super) fn train<S>(
    (network, (vector, table), loss): (&Perceptron, (Option<&'static str>, &'static str), Loss),
    training: &Training,
    own: &mut Own<S>,
    task: &LocalTask<'_>,
    scratch: &mut Scratch,
) -> Result<Trained> {
    let (plan, weights) = (Arc::clone(&own.plan), of_user(network, own, task.model));
    let parts = Parts {
        network,
        beside: vector.map(|name| (name, own.get(name).len())),
        table,
        loss,
        of_weights: plan.block(FIRST_LAYER),
        stepped: weights.len(),
    };
    let learned = learn(&parts, weights, training, own, task, scratch)?;
    task.check_magnitude(NETWORK, largest_magnitude(&learned.weights))?;
    let (weights, mut blocks) = (learned.weights, vec![learned.table]);
    match own.has(FIRST_LAYER) {
        true => own
            .run_mut(FIRST_LAYER, weights.len())
            .copy_from_slice(&weights),
        false => blocks.extend(layer_updates(&network.layers, &weights)),
    }
    let samples = scratch.round_rows.samples.len();
    let update = ModelUpdate::of_blocks(blocks).weighing(samples as f32);
    Ok(Trained::new(update, learned.mean, learned.work))
}

/// Trains the product of a private vector with the rows of a shared item table, which is a network
/// of one linear unit. Its bias is stepped as the vector is; without one it stays zero. What moves the
/// rows of the table is trained beside it.
pub(super) fn train_product<S>(
    (names, loss): (&Product, Loss),
    training: &Training,
    own: &mut Own<S>,
    task: &LocalTask<'_>,
    scratch: &mut Scratch,
) -> Result<Trained> {
    assert!(
        names.item_bias.is_none(),
        "no optimiser of networks steps biases of items"
    );
    let (vector, bias) = (names.vector, names.bias);
    let (plan, mut weights) = (Arc::clone(&own.plan), own.get(vector).to_vec());
    let dimension = weights.len();
    weights.push(bias.map_or(0.0, |name| own.get(name)[0]));
    let parts = Parts {
        network: &Perceptron::new(0, &[dimension, 1]),
        beside: Adapting::parameters(plan.block(names.table), task.model)
            .map(|parameters| (FIRST_LAYER, parameters)),
        table: names.table,
        loss,
        of_weights: plan.block(vector),
        stepped: dimension + usize::from(bias.is_some()),
    };
    let learned = learn(&parts, weights, training, own, task, scratch)?;
    keep(own, task, vector, &learned.weights[..dimension])?;
    if let Some(name) = bias {
        keep(own, task, name, &learned.weights[dimension..])?;
    }
    let samples = scratch.round_rows.samples.len();
    let update = ModelUpdate::of_table(learned.table).weighing(samples as f32);
    Ok(Trained::new(update, learned.mean, learned.work))
}

/// Trains the rows of a shared item table and a network of these `weights`, and perhaps a private
/// vector. If these are sent as gradients, it takes none of the steps.
///
/// Rows that are not in the batch have a gradient of zero. Adam still moves those that it has moved
/// before, as it does in PyTorch with a dense embedding.
fn learn<S>(
    parts: &Parts<'_>,
    weights: Vec<f32>,
    training: &Training,
    own: &mut Own<S>,
    task: &LocalTask<'_>,
    scratch: &mut Scratch,
) -> Result<Learned> {
    let (downloaded, plan) = (table_of(task.model, parts.table), Arc::clone(&own.plan));
    let of_table = plan.block(parts.table);
    let contrast = Labelled::of(of_table, task.model);
    draw_samples(task, &mut scratch.samples)?;
    let rows = match contrast {
        Some(_) => gather_every_row(downloaded, scratch),
        None => gather_rows(downloaded, scratch),
    };
    let round_rows = &mut scratch.round_rows;
    let (name, count) = parts.beside.unwrap_or((parts.table, 0));
    let beside = match count {
        0 => Vec::new(),
        _ => own.run(name, count).to_vec(),
    };
    let mut steps = Steps::new(
        (parts, training.optimizer),
        [
            Group::of(plan.block(name), beside),
            Group::of(of_table, rows),
            Group::of(parts.of_weights, weights),
        ],
        (task.model, &round_rows.rows, contrast),
    );
    if training.keeps_moments {
        steps.resume(moments::read_all(own, &round_rows.rows));
    }
    let mut order = task.stream(Purpose::Shuffle);
    let mean = steps.run(training, &mut round_rows.samples, &mut order);
    if let Some((name, _)) = parts.beside {
        keep(own, task, name, &steps.user.values)?;
    }
    if training.keeps_moments {
        moments::keep_all(own, &round_rows.rows, steps.count, steps.moments());
    }
    task.check_magnitude(parts.table, largest_magnitude(&steps.rows.values))?;
    let Steps {
        mut rows,
        mut weights,
        ..
    } = steps;
    if rows.block.sends_gradient {
        task.check_magnitude(NETWORK, largest_magnitude(&weights.values))?;
        (rows.values, weights.values) = (rows.gradient, weights.gradient);
    }
    let listed = &round_rows.rows;
    let table = match steps.pull {
        Some(pull) => pull.whole((downloaded, listed), &rows.values, steps.count),
        None => listed_update(task, parts.table, listed, &rows.values)?,
    };
    Ok(Learned {
        table,
        weights: weights.values,
        mean,
        work: steps.work,
    })
}

/// Collects the samples that were drawn, and returns every row of `table`.
fn gather_every_row(table: &Table, scratch: &mut Scratch) -> Vec<f32> {
    let drawn = &scratch.samples.samples;
    let rows = table.shape().rows;
    let round_rows = &mut scratch.round_rows;
    round_rows.collect_whole_catalogue(&drawn.items, &drawn.labels, rows);
    table.as_slice().to_vec()
}

/// Returns the flat parameters of a user's network, which is private or shared.
pub(super) fn of_user<S>(network: &Perceptron, own: &Own<S>, model: &Model) -> Vec<f32> {
    match own.has(FIRST_LAYER) {
        true => own.run(FIRST_LAYER, network.parameters()).to_vec(),
        false => {
            let first = model.layout().position(FIRST_LAYER).unwrap_or_default();
            let mut shared = crate::network::parameters(model, first);
            shared.truncate(network.parameters());
            shared
        }
    }
}

/// Returns the updates of a network's blocks, which are sent whole.
pub(crate) fn layer_updates(layers: &[Layer], parameters: &[f32]) -> Vec<TableUpdate> {
    let mut rest = parameters;
    let mut next = |rows, dimension| {
        let shape = TableShape::new(rows, dimension);
        let (values, others) = rest.split_at(shape.values());
        rest = others;
        TableUpdate::whole(Table::new(shape, values.to_vec()))
    };
    layers
        .iter()
        .flat_map(|layer| [next(layer.outputs, layer.inputs), next(1, layer.outputs)])
        .collect()
}

/// Writes to `scores` the network's output for the row of each of `items`. `common` are the
/// features that all items share.
pub(crate) fn score_by_network(
    network: &Perceptron,
    parameters: &[f32],
    common: &[f32],
    table: &Table,
    items: &[u32],
    scores: &mut [f32],
) {
    let mut buffers = PerceptronBuffers::default();
    let inputs = &mut buffers.inputs;
    inputs.reset(items.len(), table.shape().dimension);
    for (sample, item) in items.iter().enumerate() {
        inputs.set_sample(sample, table.row(*item as usize));
    }
    network.forward(parameters, common, &mut buffers);
    let (outputs, _) = buffers.outputs_and_gradient();
    for (sample, score) in scores.iter_mut().enumerate() {
        outputs.read_sample(sample, std::slice::from_mut(score));
    }
}
