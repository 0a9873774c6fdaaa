//! Trains and scores the methods that declare a score and a loss.
//!
//! Each pair of a [`Score`] and a [`Loss`] is trained by a loop that is compiled for it: products
//! with the binary cross-entropy by the packed kernel [`logistic`], networks by [`Perceptron`], and
//! everything else by [`train_groups`], which sees each positive with its negatives.

use std::ops::Range;

use super::{Own, Trained, table_of};
use crate::choices;
use crate::method::user_vector::score_items_with_bias;
use crate::method::{LocalTask, SampleScratch, Scorer, ScoringContext, Scratch, largest_magnitude};
use fedrecsim_core::error::Result;
use fedrecsim_core::math;
use fedrecsim_core::rng::{PortableDraws, Purpose, Stream};
use fedrecsim_core::stages::{Stage, enter};
use fedrecsim_core::work::Work;
use fedrecsim_model::model::batch::RoundRows;
use fedrecsim_model::model::blocks::Model;
use fedrecsim_model::model::kernel::logistic::{self, LogisticStep, Target};
use fedrecsim_model::model::kernel::{PackedRows, TableRows, packed_vector, unpack_into};
use fedrecsim_model::model::neural::dense::{add_scaled, dot};
use fedrecsim_model::model::neural::loss::binary_cross_entropy;
use fedrecsim_model::model::neural::optimizer::{AdamMoments, AdamSettings, AdamStep, sgd_step};
use fedrecsim_model::model::neural::{Perceptron, PerceptronBuffers, RowBatch};
use fedrecsim_model::model::table::{RowSet, Table, TableShape, TableUpdate};

/// Says how a device scores item j.
#[derive(Clone, Debug)]
pub enum Score {
    /// As the method's own [`Declare::scorer`](super::Declare::scorer) does.
    Own,
    /// By the product of a private vector with row j of a shared item table, plus biases.
    Dot {
        /// The private vector.
        vector: &'static str,
        /// The shared item table.
        table: &'static str,
        /// A private number that is added to every score.
        bias: Option<&'static str>,
        /// A shared item table of one column whose row j is added.
        item_bias: Option<&'static str>,
    },
    /// By a network that reads a private vector and row j of a shared item table.
    Perceptron {
        /// The network, whose blocks [`perceptron`](super::perceptron) declares as shared or
        /// private.
        network: Perceptron,
        /// The private vector.
        vector: &'static str,
        /// The shared item table.
        table: &'static str,
    },
}

impl Score {
    /// Scores by the product of a private vector with the rows of a shared item table.
    pub fn dot(vector: &'static str, table: &'static str) -> Self {
        Self::Dot {
            vector,
            table,
            bias: None,
            item_bias: None,
        }
    }

    /// Adds a private number to every score of [`Self::dot`].
    pub fn biased(mut self, by: Option<&'static str>) -> Self {
        if let Self::Dot { bias, .. } = &mut self {
            *bias = by;
        }
        self
    }

    /// Adds the rows of a shared item table of one column to the scores of [`Self::dot`].
    pub fn item_biased(mut self, by: &'static str) -> Self {
        if let Self::Dot { item_bias, .. } = &mut self {
            *item_bias = Some(by);
        }
        self
    }
}

/// What training minimises: the mean over the samples of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// ln(1 + exp(s)) - y s for the score s of an item whose label y is 1 or 0.
    BinaryCrossEntropy,
    /// (s - y)^2 / 2.
    Squared,
    /// -ln sigmoid(s - t) for the scores s of a positive and t of each of its negatives (Rendle et
    /// al., BPR, UAI 2009). The mean is over these pairs.
    Pairwise,
}

impl Loss {
    /// Replaces `slopes` by the derivatives with respect to the scores of a positive, which comes
    /// first, and its negatives, and returns the loss and the number of its terms.
    fn of_group(self, scores: &[f32], slopes: &mut Vec<f32>) -> (f64, usize) {
        slopes.clear();
        let labels = [1.0].into_iter().chain(std::iter::repeat(0.0));
        match self {
            Self::Squared => {
                slopes.extend(
                    scores
                        .iter()
                        .zip(labels)
                        .map(|(score, label)| score - label),
                );
                let squares = slopes.iter().map(|error| f64::from(*error).powi(2));
                (squares.sum::<f64>() / 2.0, scores.len())
            }
            Self::BinaryCrossEntropy => {
                let mut loss = 0.0;
                for (score, label) in scores.iter().zip(labels) {
                    // With the label as the sign, this is the loss of a pair with a score of 0.
                    let sign = 2.0 * label - 1.0;
                    let (of_one, slope) = pairwise(sign * score);
                    loss += of_one;
                    slopes.push(sign * slope);
                }
                (loss, scores.len())
            }
            Self::Pairwise => {
                let (mut loss, mut of_positive) = (0.0, 0.0);
                slopes.push(0.0);
                for negative in &scores[1..] {
                    let (of_pair, slope) = pairwise(scores[0] - negative);
                    loss += of_pair;
                    of_positive += slope;
                    slopes.push(-slope);
                }
                slopes[0] = of_positive;
                (loss, scores.len() - 1)
            }
        }
    }
}

/// Returns the loss -ln sigmoid(d) of the difference d between the scores of a positive and a
/// negative, and its slope.
pub(crate) fn pairwise(difference: f32) -> (f64, f32) {
    let d = f64::from(difference);
    let e = math::exp(-d.abs());
    let slope = if d >= 0.0 {
        -e / (1.0 + e)
    } else {
        -1.0 / (1.0 + e)
    };
    // A difference that is not a number stays one in both.
    let loss = math::ln(1.0 + e) + if d < 0.0 { -d } else { 0.0 };
    (loss, slope as f32)
}

choices! {
    /// How a client steps its parameters.
    pub enum Optimizer {
        /// Stochastic gradient descent.
        Sgd,
        /// Adam; its moments start at zero in every participation, since a device keeps none.
        Adam,
    }
}

/// Says how a device goes through its samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Training {
    /// The number of passes over the samples.
    pub epochs: u32,
    /// The number of samples in a batch.
    pub batch_size: usize,
    /// The optimiser, which only networks can choose.
    pub optimizer: Optimizer,
}

impl Default for Training {
    fn default() -> Self {
        Self::of(1, 256)
    }
}

impl Training {
    /// Makes so many passes in batches of this size, by gradient descent.
    pub fn of(epochs: u32, batch_size: u32) -> Self {
        Self {
            epochs,
            batch_size: batch_size as usize,
            optimizer: Optimizer::Sgd,
        }
    }

    /// Calls `step` for every batch of every pass, and returns the mean per sample of the losses
    /// that it returns. If there is more than one batch, `order` shuffles the samples before each
    /// pass.
    pub(crate) fn run<T>(
        &self,
        samples: &mut [T],
        order: &mut Stream,
        mut step: impl FnMut(&[T]) -> f32,
    ) -> f64 {
        let mut loss = 0.0;
        for _ in 0..self.epochs {
            if samples.len() > self.batch_size {
                order.shuffle_portably(samples);
            }
            for batch in samples.chunks(self.batch_size) {
                loss += f64::from(step(batch));
            }
        }
        // Without samples there is no loss.
        loss / (samples.len() as f64 * f64::from(self.epochs)).max(1.0)
    }
}

/// Trains the blocks that `score` names.
pub(super) fn train<S>(
    score: &Score,
    loss: Loss,
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
            assert_eq!(loss, Loss::BinaryCrossEntropy, "networks are trained by it");
            train_network(network, [vector, table], training, own, task, scratch)
        }
        Score::Dot {
            vector,
            table,
            bias,
            item_bias: None,
        } if loss == Loss::BinaryCrossEntropy => {
            train_product([vector, table], *bias, training, own, task, scratch)
        }
        Score::Dot {
            vector,
            table,
            bias,
            item_bias,
        } => {
            let names = (*vector, *table, *bias, *item_bias);
            train_groups(names, loss, training, own, task, scratch)
        }
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
    let samples = &scratch.samples.samples;
    let round_rows = &mut scratch.round_rows;
    round_rows.collect(&samples.items, &samples.labels, table.shape().rows);
    let mut rows = Vec::new();
    table.append_rows(round_rows.rows(), &mut rows);
    Ok(rows)
}

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

/// Returns the update that leaves the device: the trained rows, and the factor by which all others
/// have decayed. `name` is that of the table.
///
/// # Errors
/// [`Error::Diverged`](fedrecsim_core::error::Error::Diverged) if a trained row has left the allowed
/// range.
pub(crate) fn update(
    task: &LocalTask<'_>,
    scratch: &mut Scratch,
    (name, shape): (&'static str, TableShape),
    others_scale: f32,
) -> Result<TableUpdate> {
    let _stage = enter(Stage::Encode);
    let (rows, values) = (scratch.round_rows.rows(), &mut scratch.values);
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

/// Trains a private vector, perhaps a private bias, and the rows of a shared item table on the
/// binary cross-entropy of their product.
fn train_product<S>(
    [vector, table]: [&'static str; 2],
    bias: Option<&'static str>,
    training: &Training,
    own: &mut Own<S>,
    task: &LocalTask<'_>,
    scratch: &mut Scratch,
) -> Result<Trained> {
    let [of_vector, of_table] = [vector, table].map(|name| own.block(name));
    let step = |target, decay: f64| LogisticStep {
        target,
        vector_rate: of_vector.rate as f32,
        bias_rate: bias.map_or(0.0, |name| own.block(name).rate as f32),
        row_rate: of_table.rate as f32,
        weight_decay: decay as f32,
    };
    let (vector_step, row_step) = (
        step(Target::Vector, of_vector.decay),
        step(Target::Rows, of_table.decay),
    );
    let steps = match of_vector.turn.cmp(&of_table.turn) {
        std::cmp::Ordering::Less => vec![vector_step, row_step],
        std::cmp::Ordering::Greater => vec![row_step, vector_step],
        std::cmp::Ordering::Equal => vec![step(Target::Both, of_table.decay)],
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
    let loss = training.run(round_rows.samples_mut(), &mut order, |samples| {
        batch.collect(samples, padding_row);
        let mut loss = 0.0;
        for step in &steps {
            loss = logistic::step(packed, batch, &mut w, &mut b, step);
            row_visits += batch.distinct() as u64;
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
    let samples = round_rows.samples().len();
    let update = update(task, scratch, (table, downloaded.shape()), others_scale)?;
    Ok(Trained {
        blocks: vec![update],
        loss,
        samples,
        work: Work::of_row_visits(row_visits),
    })
}

/// Holds the gradient and the moments of parameters that have one learning rate.
struct Group {
    gradient: Vec<f32>,
    moments: AdamMoments,
    rate: f64,
    decay: f64,
    turn: u8,
}

impl Group {
    fn of(block: &super::Block, parameters: usize) -> Self {
        let mut moments = AdamMoments::default();
        moments.reset(parameters);
        Self {
            gradient: vec![0.0; parameters],
            moments,
            rate: block.rate,
            decay: block.decay,
            turn: block.turn,
        }
    }

    fn step(&mut self, parameters: &mut [f32], optimizer: Optimizer, step: u64) {
        let Self { rate, decay, .. } = *self;
        match optimizer {
            Optimizer::Sgd => sgd_step(parameters, &self.gradient, rate as f32, decay as f32),
            Optimizer::Adam => {
                let settings = AdamSettings {
                    weight_decay: decay,
                    ..AdamSettings::with_rate(rate)
                };
                let step = AdamStep::new(&settings, step);
                step.apply(parameters, &self.gradient, &mut self.moments);
            }
        }
    }
}

/// The name of a network's first block.
const FIRST_LAYER: &str = "W1";

/// Trains a private vector, the rows of a shared item table and a network on the binary
/// cross-entropy.
///
/// Rows that are not in the batch have a gradient of zero. Adam still moves those that it has moved
/// before, as it does in PyTorch with a dense embedding.
fn train_network<S>(
    network: &Perceptron,
    [vector, table]: [&'static str; 2],
    training: &Training,
    own: &mut Own<S>,
    task: &LocalTask<'_>,
    scratch: &mut Scratch,
) -> Result<Trained> {
    let downloaded = table_of(task.model, table);
    let mut rows = draw_rows(task, downloaded, scratch)?;
    let round_rows = &mut scratch.round_rows;
    let distinct = round_rows.rows().len();
    let mut user = own.get(vector).to_vec();
    let is_private = own.has(FIRST_LAYER);
    let mut weights = match is_private {
        true => own.run(FIRST_LAYER, network.parameters()).to_vec(),
        false => parameters(task.model, FIRST_LAYER, network),
    };
    let mut of_user = Group::of(own.block(vector), user.len());
    let mut of_rows = Group::of(own.block(table), rows.len());
    let mut of_weights = Group::of(own.block(FIRST_LAYER), weights.len());
    let mut turns = [of_user.turn, of_rows.turn, of_weights.turn];
    turns.sort_unstable();
    let (mut batch, mut buffers) = (RowBatch::default(), PerceptronBuffers::default());
    let (mut step, mut work) = (0, Work::default());
    let mut order = task.stream(Purpose::Shuffle);
    let loss = training.run(round_rows.samples_mut(), &mut order, |samples| {
        step += 1;
        batch.collect(samples, distinct);
        let mut loss = 0.0;
        for turn in turns.chunk_by(|one, other| one == other) {
            batch.gather(&rows, user.len(), buffers.inputs_mut());
            network.forward(&weights, &user, &mut buffers);
            let (logits, by_logits) = buffers.outputs_and_gradient();
            let mean = 1.0 / batch.occurrences() as f32;
            loss = binary_cross_entropy(logits, batch.targets(), mean, by_logits);
            let (by_weights, by_user) = (&mut of_weights.gradient, &mut of_user.gradient);
            network.backward(&weights, &user, &mut buffers, by_weights, by_user);
            of_rows.gradient.fill(0.0);
            batch.scatter(buffers.input_gradient(), &mut of_rows.gradient);
            for (group, values) in [
                (&mut of_user, &mut user),
                (&mut of_weights, &mut weights),
                (&mut of_rows, &mut rows),
            ] {
                if group.turn == turn[0] {
                    group.step(values, training.optimizer, step);
                }
            }
            work.row_visits += batch.rows().len() as u64;
            work.multiply_adds += 3 * network.multiply_adds(batch.rows().len());
        }
        loss
    });
    task.check_magnitude(vector, largest_magnitude(&user))?;
    task.check_magnitude(table, largest_magnitude(&rows))?;
    task.check_magnitude("the network", largest_magnitude(&weights))?;
    own.get_mut(vector).copy_from_slice(&user);
    let listed = round_rows.rows().to_vec();
    let mut blocks = vec![TableUpdate::listed(downloaded.shape(), listed, &rows, 1.0)?];
    if is_private {
        let own = own.run_mut(FIRST_LAYER, weights.len());
        own.copy_from_slice(&weights);
    } else {
        blocks.extend(layer_updates(network, &weights));
    }
    Ok(Trained {
        blocks,
        loss,
        samples: round_rows.samples().len(),
        work,
    })
}

/// Returns the updates of a network's blocks, which are sent whole.
pub(crate) fn layer_updates(network: &Perceptron, parameters: &[f32]) -> Vec<TableUpdate> {
    let mut rest = parameters;
    let mut next = |rows, dimension| {
        let shape = TableShape { rows, dimension };
        let (values, others) = rest.split_at(shape.values());
        rest = others;
        TableUpdate::whole(&Table::new(shape, values.to_vec()))
    };
    let layers = network.layers().iter();
    layers
        .flat_map(|layer| [next(layer.outputs, layer.inputs), next(1, layer.outputs)])
        .collect()
}

/// Returns the flat parameters of a network whose blocks begin with `first` in a model.
pub(crate) fn parameters(model: &Model, first: &str, network: &Perceptron) -> Vec<f32> {
    let start = model.layout().position(first).unwrap_or_default();
    let blocks = start..start + 2 * network.layers().len();
    blocks
        .flat_map(|block| model.table(block).as_slice().iter().copied())
        .collect()
}

/// The names of a private vector, a shared item table, and the biases of user and items.
type GroupNames = (
    &'static str,
    &'static str,
    Option<&'static str>,
    Option<&'static str>,
);

/// Trains a private vector, the rows of a shared item table, and perhaps biases, on a loss of
/// groups of a positive and its negatives. The distinct rows of a batch are those of its groups.
fn train_groups<S>(
    (vector, table, bias, item_bias): GroupNames,
    loss: Loss,
    training: &Training,
    own: &mut Own<S>,
    task: &LocalTask<'_>,
    scratch: &mut Scratch,
) -> Result<Trained> {
    let downloaded = table_of(task.model, table);
    let mut rows = draw_rows(task, downloaded, scratch)?;
    let round_rows = &scratch.round_rows;
    let (k, samples) = (downloaded.shape().dimension, round_rows.samples());
    let mut user = own.get(vector).to_vec();
    let mut b = bias.map_or(0.0, |name| own.get(name)[0]);
    let mut item_biases = vec![0.0; round_rows.rows().len()];
    if let Some(name) = item_bias {
        item_biases.clear();
        table_of(task.model, name).append_rows(round_rows.rows(), &mut item_biases);
    }
    let positives = samples.iter().enumerate().filter(|(_, sample)| sample.1);
    let starts: Vec<usize> = positives.map(|(place, _)| place).collect();
    let ends = starts.iter().skip(1).copied().chain([samples.len()]);
    let mut groups: Vec<Range<usize>> = starts
        .iter()
        .zip(ends)
        .map(|(start, end)| *start..end)
        .collect();
    let of_group = groups.iter().map(Range::len).max().unwrap_or(1);
    let batches = Training {
        batch_size: (training.batch_size / of_group).max(1),
        ..*training
    };
    let names = [Some(vector), Some(table), bias, item_bias];
    let settings = names.map(|name| name.map(|name| own.block(name)));
    let mut turns: Vec<u8> = settings.iter().flatten().map(|block| block.turn).collect();
    turns.sort_unstable();
    turns.dedup();
    let row = |row: u32| row as usize * k..(row as usize + 1) * k;
    let (mut scores, mut slopes, mut work) = (Vec::new(), Vec::new(), Work::default());
    let mut gradients: Vec<(u32, f32)> = Vec::new();
    let mut order = task.stream(Purpose::Shuffle);
    let mean = batches.run(&mut groups, &mut order, |groups| {
        let mut mean = 0.0;
        for turn in &turns {
            let (mut total, mut terms) = (0.0, 0);
            gradients.clear();
            for group in groups {
                let items = &samples[group.clone()];
                scores.clear();
                scores.extend(items.iter().map(|(item, _)| {
                    dot(&user, &rows[row(*item)]) + b + item_biases[*item as usize]
                }));
                let (of_group, count) = loss.of_group(&scores, &mut slopes);
                (total, terms) = (total + of_group, terms + count);
                gradients.extend(
                    items
                        .iter()
                        .zip(&slopes)
                        .map(|(item, slope)| (item.0, *slope)),
                );
            }
            let share = 1.0 / terms.max(1) as f32;
            let rate = |at: usize| {
                let block = settings[at].filter(|block| block.turn == *turn);
                block.map_or((0.0, 1.0), |block| {
                    let rate = block.rate as f32;
                    (-rate * share, 1.0 - rate * block.decay as f32)
                })
            };
            let before = user.clone();
            let [of_user, of_rows, of_bias, of_item_bias] = [0, 1, 2, 3].map(rate);
            user.iter_mut().for_each(|value| *value *= of_user.1);
            b *= of_bias.1;
            for (item, slope) in &gradients {
                add_scaled(of_user.0 * slope, &rows[row(*item)], &mut user);
                b += of_bias.0 * slope;
            }
            for (item, slope) in &gradients {
                let values = &mut rows[row(*item)];
                if of_rows.1 != 1.0 {
                    values.iter_mut().for_each(|value| *value *= of_rows.1);
                }
                add_scaled(of_rows.0 * slope, &before, values);
                let bias = &mut item_biases[*item as usize];
                *bias = of_item_bias.1 * *bias + of_item_bias.0 * slope;
            }
            work.row_visits += gradients.len() as u64;
            mean = total as f32;
        }
        mean
    });
    task.check_magnitude(vector, largest_magnitude(&user))?;
    task.check_magnitude(table, largest_magnitude(&rows))?;
    own.get_mut(vector).copy_from_slice(&user);
    if let Some(name) = bias {
        own.get_mut(name)[0] = b;
        task.check_magnitude(name, b.abs())?;
    }
    let listed = round_rows.rows();
    let mut blocks = vec![TableUpdate::listed(
        downloaded.shape(),
        listed.to_vec(),
        &rows,
        1.0,
    )?];
    if let Some(name) = item_bias {
        task.check_magnitude(name, largest_magnitude(&item_biases))?;
        let shape = table_of(task.model, name).shape();
        blocks.push(TableUpdate::listed(
            shape,
            listed.to_vec(),
            &item_biases,
            1.0,
        )?);
    }
    Ok(Trained {
        blocks,
        loss: mean,
        samples: samples.len(),
        work,
    })
}

/// Makes the scorer that `score` describes.
pub(super) fn scorer<'a, S>(
    score: Score,
    own: &'a Own<S>,
    context: &ScoringContext<'a>,
) -> Result<Box<dyn Scorer + 'a>> {
    match score {
        Score::Own => panic!("a method without a declared score has to override `scorer`"),
        Score::Perceptron {
            network,
            vector,
            table,
        } => {
            let (user, table) = (own.get(vector), own.table(table, context.model)?);
            let weights = match own.has(FIRST_LAYER) {
                true => own.run(FIRST_LAYER, network.parameters()).to_vec(),
                false => parameters(context.model, FIRST_LAYER, &network),
            };
            Ok(Box::new(move |items: &[u32], scores: &mut [f32]| {
                score_by_network(&network, &weights, user, &table, items, scores);
            }))
        }
        Score::Dot {
            vector,
            table,
            bias,
            item_bias,
        } => {
            let (user, kept) = (own.get(vector), own.kept(table));
            let bias = bias.map_or(0.0, |name| own.get(name)[0]);
            let item_bias = item_bias.map(|name| table_of(context.model, name));
            let shared = table_of(context.model, table);
            Ok(Box::new(move |items: &[u32], scores: &mut [f32]| {
                match kept {
                    Some(kept) => kept.score(user, bias, items, scores),
                    None => score_items_with_bias(user, bias, shared, items, scores),
                }
                if let Some(biases) = item_bias {
                    let biased = items.iter().zip(scores);
                    biased.for_each(|(item, score)| *score += biases.row(*item as usize)[0]);
                }
            }))
        }
    }
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
    let inputs = buffers.inputs_mut();
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
