//! Implements the hypernetwork of MetaMF's server, on plain slices. It generates every user's item
//! table and prediction network, and back-propagates the gradients with respect to them.

use super::MetaMfParameters;
use crate::network;
use crate::prelude::*;
use crate::server::PersonalDownloads;
use fedrecsim_model::neural::dense::{add_scaled, backward_output, dot, multiply};
use fedrecsim_model::neural::{Layer, PerceptronBuffers, SampleMatrix};
use std::borrow::Cow;
use std::ops::Range;

/// The number of users that are generated or back-propagated at a time, one in each lane.
pub(crate) const GROUP: usize = fedrecsim_model::kernel::LANES;

/// The number of items whose rows are made at a time, for one user after another.
const ITEMS_OF_A_PIECE: usize = 64;

/// Describes the networks of the server, whose parameters stand in one flat slice: the user
/// embeddings, the memory, then the three heads.
#[derive(Clone, Debug)]
pub(crate) struct HyperShape {
    /// The users who have something to train on, and so a row of the user embeddings.
    pub users: usize,
    pub items: usize,
    /// The number of columns of the generated item tables and of the user embeddings.
    pub dimension: usize,
    /// The number of columns of the memory, whose output the heads read.
    pub memory: usize,
    /// The number of units of every head's hidden layer.
    pub hidden: usize,
    /// The rank of the generated item tables.
    pub rank: usize,
    /// The network W2 relu(W1 e + b1) + b2 of an item row e; every device gets parameters of its
    /// own for it. The parameters are W1 (row-major, a row for each hidden unit), b1, W2, b2.
    pub prediction: Perceptron,
    /// The heads map the memory's output to W1 and b1, to W2 and b2, and to the item table's
    /// factors.
    pub heads: [Perceptron; 3],
    /// The number of values that each head generates, matrix by matrix.
    parts: [[usize; 2]; 3],
}

impl HyperShape {
    pub(crate) fn new(p: &MetaMfParameters, problem: &Problem) -> Self {
        let [dimension, memory] = [p.latent_dimension, p.memory_units].map(|size| size as usize);
        let [hidden, rank] = [p.hidden_units, p.item_rank].map(|size| size as usize);
        let (users, items) = (problem.users_with_history, problem.items);
        // The hidden layer has a quarter as many units as an item row has values, as in the
        // published code (`item_emb_size / 4`).
        let prediction = Perceptron::new(0, &[dimension, (dimension / 4).max(1), 1]);
        let of_layer = |layer: &Layer| [layer.weights.len(), layer.bias.len()];
        let [first, second] = [0, 1].map(|layer| of_layer(&prediction.layers[layer]));
        let parts = [first, second, [items * rank, rank * dimension]];
        let head = |parts: [usize; 2]| Perceptron::new(0, &[memory, hidden, parts.iter().sum()]);
        Self {
            users,
            items,
            dimension,
            memory,
            hidden,
            rank,
            prediction,
            heads: parts.map(head),
            parts,
        }
    }

    /// Describes the server's matrices, in the order of the parameters. They start as in the
    /// published code: embeddings from N(0, 1), every matrix from Xavier's normal distribution, and
    /// biases at zero. What a head generates is a matrix for each part there.
    pub(crate) fn blocks(&self) -> Vec<Block> {
        let (k, memory, hidden) = (self.dimension, self.memory, self.hidden);
        let deviation = |from: usize, to: usize| math::sqrt(2.0 / (from + to) as f64);
        let xavier = |from, to| normal(deviation(from, to));
        let mut blocks = vec![
            weights("users", self.users, k).start(normal(1.0)),
            weights("memory", k, memory).start(xavier(k, memory)),
        ];
        let heads = ["first layer", "second layer", "items"];
        for (name, parts) in heads.iter().zip(self.parts) {
            let start = Start::table(move |stream, shape| {
                let mut values = Vec::with_capacity(shape.values());
                for outputs in parts {
                    let deviation = deviation(hidden, outputs);
                    let draw = |_| (deviation * stream.standard_normal()) as f32;
                    values.extend((0..outputs * hidden).map(draw));
                }
                Table::new(shape, values)
            });
            let outputs = parts.iter().sum();
            let of_hidden = weights(format!("{name}, hidden weights"), hidden, memory);
            blocks.extend([
                of_hidden.start(xavier(memory, hidden)),
                weights(format!("{name}, hidden bias"), 1, hidden),
                weights(format!("{name}, output weights"), outputs, hidden).start(start),
                weights(format!("{name}, output bias"), 1, outputs),
            ]);
        }
        blocks
    }

    /// Describes what the server makes for each user.
    pub(crate) fn made(&self) -> Vec<Block> {
        let table = item_table("E", self.items, self.dimension as u32);
        let blocks = [vec![table], perceptron(&self.prediction)].concat();
        let blocks = blocks.into_iter().map(Block::made_by_server);
        blocks.map(Block::as_gradient).collect()
    }

    /// Returns the place of a head's parameters.
    fn place(&self, head: usize) -> Range<usize> {
        let before: usize = self.heads[..head].iter().map(Perceptron::parameters).sum();
        let start = (self.users + self.memory) * self.dimension + before;
        start..start + self.heads[head].parameters()
    }

    fn outputs(&self, head: usize) -> usize {
        self.heads[head].layers[1].outputs
    }

    /// Returns the number of multiply-adds of back-propagating a contribution with gradients of
    /// `rows` items.
    pub(crate) fn multiply_adds(&self, rows: usize) -> u64 {
        let (rank, k) = (self.rank, self.dimension);
        let used = self.outputs(0) + self.outputs(1) + rows * rank + rank * k;
        let forward = used * self.hidden + 3 * self.memory * self.hidden + self.memory * k;
        (3 * forward + 2 * rows * rank * k) as u64
    }
}

/// Holds the gradients that one user's device has sent, with respect to what was generated for it,
/// times the weight of the contribution: its number of samples, or 1 where all weigh the same, times
/// the policy's weight.
#[derive(Clone, Debug)]
pub(crate) struct Gradients {
    /// The user.
    pub user: UserId,
    /// The items with a gradient.
    pub rows: Vec<u32>,
    /// The gradients with respect to these items' rows.
    pub of_rows: Vec<f32>,
    /// The gradient with respect to the parameters of the prediction network.
    pub of_network: Vec<f32>,
}

/// Returns these features of a sample.
fn features_of(matrix: &SampleMatrix, sample: usize, features: Range<usize>) -> Vec<f32> {
    let mut values = vec![0.0; features.len()];
    matrix.read_features(sample, features.start, &mut values);
    values
}

/// Holds the networks of the server.
#[derive(Clone, Debug)]
pub(crate) struct HyperNetwork {
    pub shape: HyperShape,
    /// The parameters of all networks.
    pub values: Vec<f32>,
    /// The randomness of what nobody has trained.
    pub starts: Streams,
}

/// Makes downloads. What a user gets does not depend on the other users. Up to sixteen at a time
/// take about as long as one, since most of the time goes into reading the weights of the item
/// table's head, which is done once for all of them.
impl PersonalDownloads for HyperNetwork {
    fn download(&self, user: UserId) -> Result<Model> {
        Ok(self.generate(&[user]).remove(0))
    }

    fn downloads(&self, users: &[UserId]) -> Result<Vec<Model>> {
        let groups = users.chunks(GROUP);
        Ok(groups.flat_map(|group| self.generate(group)).collect())
    }

    fn has_all_blocks(&self) -> bool {
        true
    }
}

impl HyperNetwork {
    /// Returns the embedding of a user. One who never trains has no row; it is drawn anew each time,
    /// alike.
    fn embedding(&self, user: UserId) -> Cow<'_, [f32]> {
        let (shape, k) = (&self.shape, self.shape.dimension);
        if user.index() < shape.users {
            return Cow::Borrowed(&self.values[user.index() * k..][..k]);
        }
        let mut stream = self.starts.named("metamf/embedding", u64::from(user.0), 0);
        (0..k).map(|_| stream.standard_normal() as f32).collect()
    }

    /// Returns the memory's output for each user, c_u = e_u K, as the inputs of a network.
    fn memories(&self, users: impl ExactSizeIterator<Item = UserId>) -> PerceptronBuffers {
        let (s, values, mut buffers) = (&self.shape, &self.values, PerceptronBuffers::default());
        buffers.inputs.reset(users.len(), s.memory);
        let matrix = &values[s.users * s.dimension..][..s.dimension * s.memory];
        for (lane, user) in users.enumerate() {
            let mut output = vec![0.0; s.memory];
            multiply(&self.embedding(user), matrix, s.dimension, &mut output);
            buffers.inputs.set_sample(lane, &output);
        }
        buffers
    }

    /// Generates the item table and the prediction network of each user of a group.
    fn generate(&self, group: &[UserId]) -> Vec<Model> {
        let s = &self.shape;
        let mut heads = [0, 1, 2].map(|head| {
            let mut buffers = self.memories(group.iter().copied());
            s.heads[head].forward(&self.values[s.place(head)], &[], &mut buffers);
            buffers
        });
        let made = s.made().into_iter().map(|block| block.layout);
        let layout = Layout::new(made.collect());
        let (of_items, of_network) = layout.blocks().split_at(1);
        let [first, second, factors] = heads.each_mut().map(|head| head.outputs_and_gradient().0);
        let tables = self.item_tables(factors, group.len());
        let one = |(lane, values): (usize, Vec<f32>)| {
            let of_head = |matrix, head| features_of(matrix, lane, 0..s.outputs(head));
            let network = [of_head(first, 0), of_head(second, 1)].concat();
            let mut tables = network::tables(of_network, &network);
            tables.insert(0, Table::new(of_items[0].shape, values));
            Model::of_tables(layout.clone(), tables)
        };
        tables.into_iter().enumerate().map(one).collect()
    }

    /// Returns the values of the item table E = A B of each user of a group, whose A and B are the
    /// features of a sample. The samples stand side by side, so that a piece of all is read while
    /// it is in the cache.
    fn item_tables(&self, factors: &SampleMatrix, users: usize) -> Vec<Vec<f32>> {
        let s = &self.shape;
        let right = s.items * s.rank..s.outputs(2);
        let bases = (0..users).map(|lane| features_of(factors, lane, right.clone()));
        let bases = Vec::from_iter(bases);
        let empty = |_| Vec::with_capacity(s.items * s.dimension);
        let mut tables: Vec<Vec<f32>> = (0..users).map(empty).collect();
        for first in (0..s.items).step_by(ITEMS_OF_A_PIECE) {
            let end = s.items.min(first + ITEMS_OF_A_PIECE);
            for (lane, (values, basis)) in tables.iter_mut().zip(&bases).enumerate() {
                let left = features_of(factors, lane, first * s.rank..end * s.rank);
                let known = values.len();
                values.resize(end * s.dimension, 0.0);
                multiply(&left, basis, s.rank, &mut values[known..]);
            }
        }
        tables
    }

    /// Back-propagates the contributions of `group` (at most sixteen) through the present networks,
    /// and adds the gradients with respect to all parameters to `total`.
    pub(crate) fn add_gradient(&self, group: &[Gradients], total: &mut [f32]) {
        let (s, values) = (&self.shape, &self.values);
        let memories = self.memories(group.iter().map(|one| one.user));
        let mut by_memory = vec![vec![0.0; s.memory]; group.len()];
        // The item table's head has very many outputs, and each user has gradients of few of them,
        // so that the output layer is back-propagated output by output.
        let hidden_layer = Perceptron::new(0, &[s.memory, s.hidden]);
        let [first, second, _] = &s.heads;
        for (head, network) in [first, second, &hidden_layer].into_iter().enumerate() {
            let (parameters, total) = (&values[s.place(head)], &mut total[s.place(head)]);
            let (parameters, rest) = parameters.split_at(network.parameters());
            let (total, rest_of_total) = total.split_at_mut(network.parameters());
            let mut buffers = memories.clone();
            network.forward(parameters, &[], &mut buffers);
            if head == 2 {
                self.enter_items(group, rest, &mut buffers, rest_of_total);
            } else {
                // All outputs of the heads of the prediction network have a gradient.
                let (outputs, start) = (s.outputs(head), head * s.outputs(0));
                let (_, gradient) = buffers.outputs_and_gradient();
                gradient.reset(group.len(), outputs);
                for (lane, one) in group.iter().enumerate() {
                    gradient.set_sample(lane, &one.of_network[start..start + outputs]);
                }
            }
            let mut of_group = vec![0.0; network.parameters()];
            network.backward(parameters, &[], &mut buffers, &mut of_group, &mut []);
            add_scaled(1.0, &of_group, total);
            let mut of_lane = vec![0.0; s.memory];
            for (lane, by_memory) in by_memory.iter_mut().enumerate() {
                buffers.gradient.read_sample(lane, &mut of_lane);
                add_scaled(1.0, &of_lane, by_memory);
            }
        }
        for (one, by_memory) in group.iter().zip(&by_memory) {
            for input in 0..s.dimension {
                let at = one.user.index() * s.dimension + input;
                let start = s.users * s.dimension + input * s.memory;
                let row = start..start + s.memory;
                add_scaled(values[at], by_memory, &mut total[row.clone()]);
                total[at] += dot(by_memory, &values[row]);
            }
        }
    }

    /// Sets the gradient with respect to the hidden units of the item table's head. `parameters`
    /// are those of its output layer, whose gradients are added to `total`.
    fn enter_items(
        &self,
        group: &[Gradients],
        parameters: &[f32],
        buffers: &mut PerceptronBuffers,
        total: &mut [f32],
    ) {
        let s = &self.shape;
        let (hidden, of_items) = (s.hidden, s.items * s.rank);
        let (weights, bias) = parameters.split_at(s.outputs(2) * hidden);
        let (by_weights, by_bias) = total.split_at_mut(weights.len());
        let row = |output: usize| output * hidden..(output + 1) * hidden;
        let (activations, gradient) = buffers.outputs_and_gradient();
        gradient.reset(group.len(), hidden);
        for (lane, one) in group.iter().enumerate() {
            let (mut units, mut by_units) = (vec![0.0; hidden], vec![0.0; hidden]);
            activations.read_sample(lane, &mut units);
            // `Perceptron` does not rectify its last layer, so that the rectifier is applied here.
            let negative = units.iter_mut().filter(|unit| **unit < 0.0);
            negative.for_each(|unit| *unit = 0.0);
            let outputs = of_items..bias.len();
            let right = outputs.map(|output| dot(&weights[row(output)], &units) + bias[output]);
            let right: Vec<f32> = right.collect();
            let mut by_right = vec![0.0; right.len()];
            // Adds the gradient of one output to those of its weights, its bias and the hidden
            // units, and returns the output itself.
            let mut back_propagate = |output: usize, value: f32| {
                let (weights, by_weights) = (&weights[row(output)], &mut by_weights[row(output)]);
                by_bias[output] += value;
                backward_output(value, weights, &units, by_weights, &mut by_units) + bias[output]
            };
            let rows = one.of_rows.chunks_exact(s.dimension);
            for (item, by_row) in one.rows.iter().zip(rows) {
                let bases = right.chunks_exact(s.dimension);
                let bases = bases.zip(by_right.chunks_exact_mut(s.dimension));
                for (number, (basis, by_basis)) in bases.enumerate() {
                    let output = *item as usize * s.rank + number;
                    let left = back_propagate(output, dot(by_row, basis));
                    add_scaled(left, by_row, by_basis);
                }
            }
            for (number, value) in by_right.iter().enumerate() {
                back_propagate(of_items + number, *value);
            }
            let rectified = by_units.iter_mut().zip(&units);
            let rectified = rectified.filter(|(_, unit)| **unit == 0.0);
            rectified.for_each(|(by_unit, _)| *by_unit = 0.0);
            gradient.set_sample(lane, &by_units);
        }
    }
}
