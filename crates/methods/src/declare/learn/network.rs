//! Trains and scores a network that reads a row of a shared item table, and perhaps a private
//! vector.

use std::sync::Arc;

use super::super::score::{Loss, Optimizer, Product, Training};
use super::super::{Block, Own, table_of};
use super::adapter::Adapting;
use super::contrast::Labelled;
use super::moments;
use super::pull::Pull;
use super::{draw_samples, gather_rows, groups_of, keep, listed_update};
use crate::{LocalTask, Scratch, Trained, largest_magnitude};
use fedrecsim_core::work::Work;
use fedrecsim_core::{Purpose, Result};
use fedrecsim_model::kernel::BatchRows;
use fedrecsim_model::neural::loss::binary_cross_entropy;
use fedrecsim_model::neural::optimizer::{AdamMoments, AdamSettings, sgd_step};
use fedrecsim_model::neural::{Layer, Perceptron, PerceptronBuffers, SampleMatrix};
use fedrecsim_model::{Model, ModelUpdate, Table, TableShape, TableUpdate};

/// Holds the gradient and the moments of parameters that are stepped as `block` says. If their
/// gradient is sent, no step is made.
struct Group<'a> {
    gradient: Vec<f32>,
    moments: AdamMoments,
    block: &'a Block,
}

impl<'a> Group<'a> {
    fn of(block: &'a Block, parameters: usize) -> Self {
        Self {
            gradient: vec![0.0; parameters],
            moments: AdamMoments::zeros(parameters),
            block,
        }
    }

    fn step(&mut self, parameters: &mut [f32], optimizer: Optimizer, step: u64) {
        let (rate, decay) = (self.block.rate, self.block.decay);
        match optimizer {
            _ if self.block.sends_gradient => {}
            Optimizer::Sgd => sgd_step(parameters, &self.gradient, rate as f32, decay as f32),
            Optimizer::Adam => {
                let settings = AdamSettings {
                    weight_decay: decay,
                    ..AdamSettings::with_rate(rate)
                };
                self.moments
                    .step(&settings, step, parameters, &self.gradient);
            }
        }
    }
}

/// The name of a network's first block.
pub(in super::super) const FIRST_LAYER: &str = "W1";

/// The name of a network in messages.
const NETWORK: &str = "the network";

/// Writes the derivatives of the mean `loss` of a batch with respect to the outputs for its distinct
/// rows, and returns the loss, as a sum. `samples` are whole groups, unless the loss is the binary
/// cross-entropy.
fn slopes_of(
    loss: Loss,
    samples: &[(u32, bool)],
    batch: &BatchRows,
    (outputs, by_outputs): (&SampleMatrix, &mut SampleMatrix),
) -> f32 {
    if loss == Loss::BinaryCrossEntropy {
        let mean = 1.0 / batch.occurrences as f32;
        return binary_cross_entropy(outputs, &batch.targets, mean, by_outputs);
    }
    let mut of_rows = vec![0.0; batch.rows().len()];
    let (mut scores, mut slopes) = (Vec::new(), Vec::new());
    let (mut total, mut terms) = (0.0, 0);
    for group in groups_of(samples) {
        // The rows of a batch ascend, and are all those of its samples.
        let rows = samples[group].iter();
        let numbers = rows.filter_map(|(row, _)| batch.rows().binary_search(row).ok());
        scores.clear();
        scores.extend(numbers.clone().map(|number| {
            let mut score = [0.0];
            outputs.read_sample(number, &mut score);
            score[0]
        }));
        let (of_group, count) = loss.of_group(&scores, &mut slopes);
        (total, terms) = (total + of_group, terms + count);
        for (number, slope) in numbers.zip(&slopes) {
            of_rows[number] += slope;
        }
    }
    let share = 1.0 / terms.max(1) as f32;
    by_outputs.reset(of_rows.len(), 1);
    for (number, slope) in of_rows.iter().enumerate() {
        by_outputs.set_sample(number, &[share * slope]);
    }
    total as f32
}

/// Says what is trained: a network over rows of a table, and perhaps something private beside it.
struct Parts<'a> {
    network: &'a Perceptron,
    /// What is trained beside the network: the first private block, and the number of values.
    beside: Option<(&'static str, usize)>,
    table: &'static str,
    loss: Loss,
    /// The block that says how the network is stepped.
    of_weights: &'a Block,
    /// The number of parameters of the network, from the first on, that are stepped.
    stepped: usize,
}

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
    mut weights: Vec<f32>,
    training: &Training,
    own: &mut Own<S>,
    task: &LocalTask<'_>,
    scratch: &mut Scratch,
) -> Result<Learned> {
    let Parts {
        network,
        beside,
        table,
        loss,
        ..
    } = *parts;
    let downloaded = table_of(task.model, table);
    let plan = Arc::clone(&own.plan);
    let contrast = Labelled::of(plan.block(table), task.model);
    draw_samples(task, &mut scratch.samples)?;
    let mut rows = match contrast {
        Some(_) => gather_every_row(downloaded, scratch),
        None => gather_rows(downloaded, scratch),
    };
    let round_rows = &mut scratch.round_rows;
    let distinct = round_rows.rows.len();
    let mut user = beside.map_or_else(Vec::new, |(name, all)| own.run(name, all).to_vec());
    let of_beside = beside.map_or(table, |(name, _)| name);
    let mut of_user = Group::of(plan.block(of_beside), user.len());
    let mut of_rows = Group::of(plan.block(table), rows.len());
    let mut of_weights = Group::of(parts.of_weights, weights.len());
    let mut step = 0;
    if training.keeps_moments {
        let kept = moments::read_all(own, &round_rows.rows);
        (step, [of_user.moments, of_rows.moments, of_weights.moments]) = kept;
    }
    let pull = Pull::of(of_rows.block, task.model, &round_rows.rows);
    let mut adapting = Adapting::of(of_rows.block, task.model, &round_rows.rows);
    let mut turns = [&of_user, &of_rows, &of_weights].map(|group| group.block.turn);
    turns.sort_unstable();
    let (mut batch, mut buffers) = (BatchRows::default(), PerceptronBuffers::default());
    let mut work = Work::default();
    let mut order = task.stream(Purpose::Shuffle);
    let mut make_step = |samples: &[(u32, bool)]| {
        step += 1;
        batch.collect(samples, distinct as u32);
        let mut total = 0.0;
        for turn in turns.chunk_by(|one, other| one == other) {
            let dimension = downloaded.shape().dimension;
            let mut adapts = adapting
                .as_mut()
                .filter(|by| by.is_in(turn[0], of_user.block));
            match &mut adapts {
                Some(by) => by.forward(&user, batch.rows(), &rows, &mut buffers.inputs),
                None => buffers.inputs.gather(batch.rows(), &rows, dimension),
            }
            network.forward(&weights, &user, &mut buffers);
            total = slopes_of(loss, samples, &batch, buffers.outputs_and_gradient());
            let (by_weights, by_user) = (&mut of_weights.gradient, &mut of_user.gradient);
            network.backward(&weights, &user, &mut buffers, by_weights, by_user);
            by_weights[parts.stepped..].fill(0.0);
            if let Some(by) = &mut adapts {
                work.multiply_adds += by.backward(&user, &mut buffers.gradient, by_user);
            }
            of_rows.gradient.fill(0.0);
            buffers
                .gradient
                .scatter(batch.rows(), &mut of_rows.gradient);
            if let Some(pull) = &pull {
                pull.add_to(&mut of_rows.gradient, &rows);
                work.row_visits += downloaded.shape().rows as u64;
            }
            if let Some(contrast) = contrast.as_ref().filter(|_| of_rows.block.turn == turn[0]) {
                work.multiply_adds += contrast.add_to(&mut of_rows.gradient, &rows);
                work.row_visits += downloaded.shape().rows as u64;
            }
            for (group, values) in [
                (&mut of_user, &mut user),
                (&mut of_weights, &mut weights),
                (&mut of_rows, &mut rows),
            ] {
                if group.block.turn == turn[0] {
                    group.step(values, training.optimizer, step);
                }
            }
            work.row_visits += batch.rows().len() as u64;
            work.multiply_adds += 3 * network.multiply_adds(batch.rows().len());
        }
        total
    };
    let samples = &mut round_rows.samples;
    let mean = match loss {
        Loss::BinaryCrossEntropy => training.run(samples, &mut order, make_step),
        _ => {
            let mut in_batch = Vec::new();
            training.run_groups(&mut groups_of(samples), &mut order, |groups| {
                in_batch.clear();
                let groups = groups.iter().cloned();
                groups.for_each(|group| in_batch.extend_from_slice(&samples[group]));
                make_step(&in_batch)
            })
        }
    };
    if let Some((name, _)) = beside {
        keep(own, task, name, &user)?;
    }
    if training.keeps_moments {
        let groups = [&of_user, &of_rows, &of_weights];
        let trained = groups.map(|group| &group.moments);
        moments::keep_all(own, &round_rows.rows, step, trained);
    }
    task.check_magnitude(table, largest_magnitude(&rows))?;
    if of_rows.block.sends_gradient {
        task.check_magnitude(NETWORK, largest_magnitude(&weights))?;
        (rows, weights) = (of_rows.gradient, of_weights.gradient);
    }
    let listed = &round_rows.rows;
    let table = match pull {
        Some(pull) => pull.whole((downloaded, listed), &rows, step),
        None => listed_update(task, table, listed, &rows)?,
    };
    Ok(Learned {
        table,
        weights,
        mean,
        work,
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
