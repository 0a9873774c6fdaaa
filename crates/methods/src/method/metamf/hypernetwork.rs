//! Implements the hypernetwork of MetaMF's server, on plain slices. It generates every user's item
//! table and prediction network, and back-propagates the gradients with respect to them.

use super::device::prediction_network;
use crate::method::network;
use fedrecsim_core::rng::{PortableDraws, Stream};
use fedrecsim_model::model::blocks::Model;
use fedrecsim_model::model::layout::{BlockLayout, Layout};
use fedrecsim_model::model::neural::dense::{add_scaled, backward_output, dot, multiply};
use fedrecsim_model::model::neural::optimizer::AdamSettings;
use fedrecsim_model::model::neural::{Perceptron, PerceptronBuffers};
use fedrecsim_model::model::table::TableShape;

/// Describes the sizes of a hypernetwork. Those of the published code are the defaults of the
/// method's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HyperShape {
    /// The number of users.
    pub users: usize,
    /// The number of items.
    pub items: usize,
    /// The number of columns of the generated item tables and of the user embeddings.
    pub dimension: usize,
    /// The number of columns of the memory, whose output the heads read.
    pub memory: usize,
    /// The number of units of every head's hidden layer.
    pub hidden: usize,
    /// The rank of the generated item tables.
    pub item_factors: usize,
}

/// Holds what the server generates for one user.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Generated {
    /// The item table, row-major with a row for each item.
    pub items: Vec<f32>,
    /// The parameters of the prediction network ([`prediction_network`]).
    pub network: Vec<f32>,
}

/// Holds the gradients that one user's device has sent, with respect to what was generated for it.
#[derive(Clone, Debug)]
pub(crate) struct Contribution {
    /// The user.
    pub user: u32,
    /// The weight of the contribution: its number of samples, or 1 where all weigh the same, times
    /// the policy's weight.
    pub weight: f32,
    /// The items with a gradient.
    pub rows: Vec<u32>,
    /// The gradients with respect to these items' rows.
    pub row_gradient: Vec<f32>,
    /// The gradient with respect to the parameters of the prediction network.
    pub network_gradient: Vec<f32>,
}

/// Describes how the server steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct HyperStep {
    /// The settings of Adam.
    pub adam: AdamSettings,
    /// The largest norm of a gradient. A larger gradient is scaled down to it.
    pub clip_norm: f64,
}

impl HyperShape {
    /// Returns the number of values that each head generates, matrix by matrix, since each matrix
    /// is a layer of its own in the published code.
    fn outputs(&self) -> [[usize; 2]; 3] {
        let network = prediction_network(self.dimension);
        let [first, second] = [0, 1].map(|layer| {
            let layer = &network.layers()[layer];
            [layer.weights.len(), layer.bias.len()]
        });
        [
            first,
            second,
            [
                self.items * self.item_factors,
                self.item_factors * self.dimension,
            ],
        ]
    }

    /// Returns the heads, which map the memory's output to W1 and b1, to W2 and b2, and to the item
    /// table's factors.
    fn heads(&self) -> [Perceptron; 3] {
        self.outputs()
            .map(|outputs| Perceptron::new(0, &[self.memory, self.hidden, outputs.iter().sum()]))
    }

    /// Returns the layout of the server's matrices, in the order of the parameters.
    pub(crate) fn layout(&self) -> Layout {
        let block = |name: String, rows, dimension| {
            BlockLayout::weights(name, TableShape { rows, dimension })
        };
        let mut blocks = vec![
            block("users".to_owned(), self.users, self.dimension),
            block("memory".to_owned(), self.dimension, self.memory),
        ];
        for (name, head) in ["first layer", "second layer", "items"]
            .into_iter()
            .zip(self.heads())
        {
            for (layer, shape) in ["hidden", "output"].into_iter().zip(head.layers()) {
                blocks.push(block(
                    format!("{name}, {layer} weights"),
                    shape.outputs,
                    shape.inputs,
                ));
                blocks.push(block(format!("{name}, {layer} bias"), 1, shape.outputs));
            }
        }
        Layout::new(blocks)
    }
}

/// Holds the networks of the server. One flat slice holds all parameters: the user embeddings, the
/// memory, then the three heads.
#[derive(Clone, Debug)]
pub(crate) struct HyperNetwork {
    shape: HyperShape,
    /// The heads map the memory's output to W1 and b1, to W2 and b2, and to the item table's
    /// factors.
    heads: [Perceptron; 3],
    /// The position of each head's first parameter.
    starts: [usize; 3],
    parameters: Vec<f32>,
    prediction: Perceptron,
}

/// The number of users that are generated or back-propagated at a time, one in each lane.
pub(crate) const GROUP: usize = fedrecsim_core::math::LANES;

/// Sets the inputs of a network to the memory's outputs of a group.
fn fill(buffers: &mut PerceptronBuffers, memories: &[Vec<f32>]) {
    buffers
        .inputs_mut()
        .reset(memories.len(), memories.first().map_or(0, Vec::len));
    memories
        .iter()
        .enumerate()
        .for_each(|(lane, values)| buffers.inputs_mut().set_sample(lane, values));
}

impl HyperNetwork {
    /// Draws the initial parameters as the published code does: embeddings from N(0, 1) and every
    /// matrix from Xavier's normal distribution. Biases are zero.
    pub(crate) fn new(shape: HyperShape, stream: &mut Stream) -> Self {
        let HyperShape {
            users,
            dimension,
            memory,
            hidden,
            ..
        } = shape;
        let network = prediction_network(dimension);
        let (outputs, heads) = (shape.outputs(), shape.heads());
        let mut starts = [(users + memory) * dimension; 3];
        starts[1] = starts[0] + heads[0].parameters();
        starts[2] = starts[1] + heads[1].parameters();
        let mut parameters = Vec::with_capacity(starts[2] + heads[2].parameters());
        parameters.extend((0..users * dimension).map(|_| stream.standard_normal() as f32));
        let mut xavier = |parameters: &mut Vec<f32>, inputs: usize, outputs: usize| {
            let deviation = fedrecsim_core::math::sqrt(2.0 / (inputs + outputs) as f64);
            parameters.extend(
                (0..inputs * outputs).map(|_| (stream.standard_normal() * deviation) as f32),
            );
        };
        xavier(&mut parameters, dimension, memory);
        for outputs in outputs {
            xavier(&mut parameters, memory, hidden);
            parameters.resize(parameters.len() + hidden, 0.0);
            outputs
                .iter()
                .for_each(|&outputs| xavier(&mut parameters, hidden, outputs));
            parameters.resize(parameters.len() + outputs.iter().sum::<usize>(), 0.0);
        }
        Self {
            shape,
            heads,
            starts,
            parameters,
            prediction: network,
        }
    }

    /// Returns all parameters.
    pub fn parameters(&self) -> &[f32] {
        &self.parameters
    }

    /// Returns all parameters to write to.
    pub(crate) fn parameters_mut(&mut self) -> &mut [f32] {
        &mut self.parameters
    }

    /// Returns the prediction network, for which every device gets parameters of its own.
    pub(crate) fn prediction_network(&self) -> &Perceptron {
        &self.prediction
    }

    /// Returns the number of multiply-adds of back-propagating a contribution with gradients of
    /// `rows` items.
    pub(crate) fn multiply_adds(&self, rows: usize) -> u64 {
        let HyperShape {
            memory,
            hidden,
            item_factors,
            dimension,
            ..
        } = self.shape;
        let small: usize = [0, 1].map(|head| self.outputs(head)).iter().sum();
        let outputs = (small + rows * item_factors + item_factors * dimension) * hidden;
        (3 * (outputs + 3 * memory * hidden + memory * dimension)
            + 2 * rows * item_factors * dimension) as u64
    }

    /// Returns the server's matrices as a model. It never travels.
    pub(crate) fn to_model(&self) -> Model {
        network::model(self.shape.layout(), &self.parameters)
    }

    /// Replaces all parameters by those of `model`, which must have the layout of
    /// [`Self::to_model`].
    pub(crate) fn set_parameters(&mut self, model: &Model) {
        self.parameters.clear();
        model
            .tables()
            .for_each(|(_, table)| self.parameters.extend_from_slice(table.as_slice()));
    }

    /// Returns the memory's output for `user`, c_u = e_u K.
    fn memory_of(&self, user: u32) -> Vec<f32> {
        let HyperShape {
            users,
            dimension,
            memory,
            ..
        } = self.shape;
        let embedding = &self.parameters[user as usize * dimension..][..dimension];
        let mut output = vec![0.0; memory];
        let rows = self.parameters[users * dimension..].chunks_exact(memory);
        for (factor, row) in embedding.iter().zip(rows.take(dimension)) {
            add_scaled(*factor, row, &mut output);
        }
        output
    }

    fn head_parameters(&self, head: usize) -> &[f32] {
        &self.parameters[self.starts[head]..self.starts[head] + self.heads[head].parameters()]
    }

    /// Generates the item table and the prediction network of each of `users`, in their order.
    ///
    /// What a user gets does not depend on the other users. Up to sixteen at a time take about as
    /// long as one, since most of the time goes into reading the weights of the item table's head,
    /// which is done once for all of them.
    pub(crate) fn generate(&self, users: &[u32]) -> Vec<Generated> {
        users
            .chunks(GROUP)
            .flat_map(|group| self.generate_group(group))
            .collect()
    }

    fn generate_group(&self, group: &[u32]) -> Vec<Generated> {
        let HyperShape {
            items,
            dimension,
            item_factors,
            ..
        } = self.shape;
        let memories: Vec<Vec<f32>> = group.iter().map(|&user| self.memory_of(user)).collect();
        let mut buffers: [PerceptronBuffers; 3] = Default::default();
        let mut outputs = [0, 1, 2].map(|head| vec![0.0; self.outputs(head)]);
        for (head, buffers) in buffers.iter_mut().enumerate() {
            fill(buffers, &memories);
            self.heads[head].forward(self.head_parameters(head), &[], buffers);
        }
        let one = |lane| {
            for (buffers, outputs) in buffers.iter_mut().zip(&mut outputs) {
                buffers.outputs_and_gradient().0.read_sample(lane, outputs);
            }
            let [first, second, factors] = &outputs;
            let (left, right) = factors.split_at(items * item_factors);
            let mut table = vec![0.0; items * dimension];
            multiply(left, right, item_factors, &mut table);
            Generated {
                items: table,
                network: [&first[..], second].concat(),
            }
        };
        (0..group.len()).map(one).collect()
    }

    fn outputs(&self, head: usize) -> usize {
        self.heads[head].layers()[1].outputs
    }

    /// Returns the rectified hidden units of the item table's head, for each user of the group.
    /// `buffers` holds what back-propagation through that layer needs.
    fn item_units(&self, memories: &[Vec<f32>], buffers: &mut PerceptronBuffers) -> Vec<Vec<f32>> {
        fill(buffers, memories);
        let hidden = self.shape.hidden;
        let parameters = &self.head_parameters(2)[..self.heads[2].layers()[0].bias.end];
        // `Perceptron` does not rectify its last layer, so that the rectifier is applied here.
        self.item_hidden_layer().forward(parameters, &[], buffers);
        let (outputs, _) = buffers.outputs_and_gradient();
        let units = (0..memories.len()).map(|lane| {
            let mut values = vec![0.0; hidden];
            outputs.read_sample(lane, &mut values);
            values
                .iter_mut()
                .for_each(|value| *value = if *value < 0.0 { 0.0 } else { *value });
            values
        });
        units.collect()
    }

    fn item_hidden_layer(&self) -> Perceptron {
        Perceptron::new(0, &[self.shape.memory, self.shape.hidden])
    }

    /// Returns one output of the item table's head.
    fn item_output(&self, output: usize, units: &[f32]) -> f32 {
        let (parameters, layer) = (self.head_parameters(2), &self.heads[2].layers()[1]);
        let start = layer.weights.start + output * layer.inputs;
        dot(&parameters[start..start + layer.inputs], units) + parameters[layer.bias.start + output]
    }

    /// Back-propagates the contributions of `group` (at most sixteen), each times its weight,
    /// through the present networks, and adds the gradients with respect to all parameters to
    /// `total`.
    pub(crate) fn add_gradient(&self, group: &[Contribution], total: &mut [f32]) {
        let HyperShape {
            users,
            dimension,
            memory,
            ..
        } = self.shape;
        let memories: Vec<Vec<f32>> = group
            .iter()
            .map(|contribution| self.memory_of(contribution.user))
            .collect();
        let mut by_memory = vec![vec![0.0; memory]; group.len()];
        for head in 0..3 {
            let mut buffers = PerceptronBuffers::default();
            let of_head =
                &mut total[self.starts[head]..self.starts[head] + self.heads[head].parameters()];
            if head < 2 {
                fill(&mut buffers, &memories);
                self.add_small_head(head, group, &mut buffers, of_head);
            } else {
                self.add_item_head(group, &memories, &mut buffers, of_head);
            }
            let mut values = vec![0.0; memory];
            for (lane, by_memory) in by_memory.iter_mut().enumerate() {
                buffers.input_gradient().read_sample(lane, &mut values);
                add_scaled(1.0, &values, by_memory);
            }
        }
        for (contribution, by_memory) in group.iter().zip(&by_memory) {
            let start = contribution.user as usize * dimension;
            for input in 0..dimension {
                let row = (users * dimension + input * memory)
                    ..(users * dimension + (input + 1) * memory);
                add_scaled(
                    self.parameters[start + input],
                    by_memory,
                    &mut total[row.clone()],
                );
                total[start + input] += dot(by_memory, &self.parameters[row]);
            }
        }
    }

    /// Adds the gradients of a head of the prediction network to `total`. It has few outputs, all
    /// of them with a gradient.
    fn add_small_head(
        &self,
        head: usize,
        group: &[Contribution],
        buffers: &mut PerceptronBuffers,
        total: &mut [f32],
    ) {
        let (network, parameters) = (&self.heads[head], self.head_parameters(head));
        network.forward(parameters, &[], buffers);
        let outputs = self.outputs(head);
        let first = if head == 0 { 0 } else { self.outputs(0) };
        let (_, gradient) = buffers.outputs_and_gradient();
        gradient.reset(group.len(), outputs);
        for (lane, contribution) in group.iter().enumerate() {
            let values = &contribution.network_gradient[first..first + outputs];
            let values = values.iter().map(|value| value * contribution.weight);
            gradient.set_sample(lane, &values.collect::<Vec<f32>>());
        }
        let mut of_group = vec![0.0; network.parameters()];
        network.backward(parameters, &[], buffers, &mut of_group, &mut []);
        add_scaled(1.0, &of_group, total);
    }

    /// Adds the gradients of the head of the item table to `total`. It has very many outputs, of
    /// which each user has a gradient for its own items only.
    fn add_item_head(
        &self,
        group: &[Contribution],
        memories: &[Vec<f32>],
        buffers: &mut PerceptronBuffers,
        total: &mut [f32],
    ) {
        let HyperShape {
            items,
            dimension,
            hidden,
            item_factors,
            ..
        } = self.shape;
        let [first, second] = [0, 1].map(|layer| &self.heads[2].layers()[layer]);
        let parameters = self.head_parameters(2);
        let all_units = self.item_units(memories, buffers);
        let (of_hidden, of_outputs) = total.split_at_mut(first.bias.end);
        let (_, gradient) = buffers.outputs_and_gradient();
        gradient.reset(group.len(), hidden);
        for (lane, (contribution, units)) in group.iter().zip(&all_units).enumerate() {
            let right: Vec<f32> = (items * item_factors..second.outputs)
                .map(|output| self.item_output(output, units))
                .collect();
            let mut by_right = vec![0.0; right.len()];
            let mut by_units = vec![0.0; hidden];
            // The gradient of one output is added to those of its weights, its bias and the hidden
            // units. The result is the output itself.
            let mut back_propagate = |output: usize, value: f32| {
                let row = second.weights.start + output * hidden;
                let start = row - first.bias.end;
                let (weights, gradient) = (
                    &parameters[row..row + hidden],
                    &mut of_outputs[start..start + hidden],
                );
                let product = backward_output(value, weights, units, gradient, &mut by_units);
                of_outputs[second.bias.start + output - first.bias.end] += value;
                product + parameters[second.bias.start + output]
            };
            for (item, row) in contribution
                .rows
                .iter()
                .zip(contribution.row_gradient.chunks_exact(dimension))
            {
                let row: Vec<f32> = row
                    .iter()
                    .map(|value| value * contribution.weight)
                    .collect();
                let bases = right
                    .chunks_exact(dimension)
                    .zip(by_right.chunks_exact_mut(dimension));
                for (number, (basis, by_basis)) in bases.enumerate() {
                    let output = *item as usize * item_factors + number;
                    add_scaled(back_propagate(output, dot(&row, basis)), &row, by_basis);
                }
            }
            for (number, value) in by_right.iter().enumerate() {
                back_propagate(items * item_factors + number, *value);
            }
            for (by_unit, unit) in by_units.iter_mut().zip(units) {
                *by_unit = if *unit == 0.0 { 0.0 } else { *by_unit };
            }
            gradient.set_sample(lane, &by_units);
        }
        let hidden_layer = self.item_hidden_layer();
        let mut of_group = vec![0.0; hidden_layer.parameters()];
        hidden_layer.backward(
            &parameters[..first.bias.end],
            &[],
            buffers,
            &mut of_group,
            &mut [],
        );
        add_scaled(1.0, &of_group, of_hidden);
    }
}
