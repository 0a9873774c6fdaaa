//! Computes FedPerGNN's predictions on a device, from its user's embedding, the rated items and
//! their neighbours.
//!
//! With sigma the logistic function, L a leaky rectifier and \[a; b\] the vectors a and b one after
//! the other, in the order of the layers:
//!
//! - h_j = sigma(W_own e_j + b_own) for every own item j,
//! - n' = W_neighbour n + b_neighbour for the embedding n of every neighbour of j,
//! - a_jn = L(v_neighbour-attention . \[h_j; n'\] + b), without a softmax, and s_j = sum over n of
//!   a_jn n',
//! - z_j = W_aggregate \[s_j; h_j\] + b_aggregate,
//! - u = sigma(W_user e_u + b_user) and i = sigma(W_item e_i + b_item), both with dropout in
//!   training,
//! - alpha = softmax over j of L(v_item-attention . \[u; z_j\] + b),
//! - g = W_expanded \[sum over j of alpha_j h_j; u\] + b_expanded,
//! - the output sigma(v_output . \[g; i\] + b), which adds up what user and item contribute, or
//!   sigma(v_output . (g * i) + b), in which the two interact.
//!
//! Neighbours' embeddings enter linearly, so that n' is never computed: a device keeps the sums of
//! a_jn n and of a_jn over the neighbours of each own item ([`Gathered`]), from which s_j follows.
//! Everything is in single precision with sums in a fixed order (contract 1).
//!
//! Source: Wu et al., A federated graph neural network framework for privacy-preserving
//! personalization, Nature Communications 2022, and the authors' code wuch15/FedPerGNN, `model.py`
//! at 290e966. That code gives the places of absent neighbours the attention -99 instead of none,
//! by which their common bias would count; here they do not count.

use std::ops::Range;

use crate::choices;
use crate::method::declare::{Block, uniform, weights};
use fedrecsim_core::math::{self, LANES, Lanes};
use fedrecsim_model::model::neural::Layer;
use fedrecsim_model::model::neural::dense::{add_scaled, dot};
use fedrecsim_model::model::table::{Table, TableUpdate};

/// The slope of the leaky rectifier below zero, which is Keras's.
const SLOPE: f32 = 0.3;

choices! {
    /// How a rating follows from user and item.
    pub enum Predictor {
        /// The authors' code: one dense layer over user and item side by side. What it adds up has
        /// no term of both, so that all users get the same order of items.
        PublishedCode,
        /// One dense layer over the products of user and item, value by value.
        Product,
    }
}

/// The positions of the layers.
pub(super) const NEIGHBOUR: usize = 0;
pub(super) const OWN: usize = 1;
pub(super) const NEIGHBOUR_ATTENTION: usize = 2;
pub(super) const AGGREGATE: usize = 3;
pub(super) const USER: usize = 4;
pub(super) const ITEM: usize = 5;
pub(super) const ITEM_ATTENTION: usize = 6;
pub(super) const EXPANDED: usize = 7;
pub(super) const OUTPUT: usize = 8;

const NAMES: [&str; 9] = [
    "neighbour",
    "own",
    "neighbour-attention",
    "aggregate",
    "user",
    "item",
    "item-attention",
    "expanded",
    "output",
];

/// Describes the layers of the network and the places of their parameters in one flat slice.
#[derive(Clone, Debug)]
pub(crate) struct GraphNetwork {
    /// The length k of all embeddings.
    pub dimension: usize,
    /// The layers, in the order of the parameters.
    pub layers: Vec<Layer>,
    predictor: Predictor,
}

/// Holds the embeddings of the neighbours of a device's own items.
#[derive(Clone, Debug, Default)]
pub(crate) struct Neighbours {
    /// The embeddings, those of the first own item first.
    pub values: Vec<f32>,
    /// For each own item, the number of its neighbours.
    pub counts: Vec<usize>,
}

/// Holds for each own item the attention-weighted sum of its neighbours' embeddings and behind it
/// the sum of their attention, k + 1 values for each.
pub(crate) type Gathered = Vec<f32>;

/// Holds what a device makes of its own items before it looks at any item to rate.
#[derive(Clone, Debug)]
pub(crate) struct Expansion {
    /// The vectors h_j, one after the other.
    pub own: Vec<f32>,
    /// The vectors \[s_j; h_j\].
    pub joined: Vec<f32>,
    /// The vectors z_j.
    pub states: Vec<f32>,
    /// The part of each item's attention that does not depend on u.
    pub logits: Vec<f32>,
}

/// Holds how a user's vector was expanded by those of its own items.
#[derive(Clone, Debug)]
pub(crate) struct ExpandedUser {
    /// The attention alpha_j before the rectifier.
    pub logits: Vec<f32>,
    /// The attention alpha_j.
    pub attention: Vec<f32>,
    /// The vector \[sum of alpha_j h_j; u\].
    pub joined: Vec<f32>,
    /// The vector g.
    pub vector: Vec<f32>,
}

impl GraphNetwork {
    /// Describes the network for embeddings of `dimension` values.
    pub(crate) fn new(dimension: usize, predictor: Predictor) -> Self {
        let (k, pair) = (dimension, 2 * dimension);
        let features = if predictor == Predictor::PublishedCode {
            pair
        } else {
            k
        };
        let shapes = [
            (k, k),
            (k, k),
            (pair, 1),
            (pair, k),
            (k, k),
            (k, k),
            (pair, 1),
            (pair, k),
            (features, 1),
        ];
        let mut end = 0;
        let layers = shapes.map(|(inputs, outputs)| {
            let layer = Layer::at(end, inputs, outputs);
            end = layer.bias.end;
            layer
        });
        Self {
            dimension,
            layers: layers.into(),
            predictor,
        }
    }

    /// Returns the number of parameters.
    pub fn parameters(&self) -> usize {
        self.layers[OUTPUT].bias.end
    }

    /// Describes the blocks of the parameters, which are those of each layer, its weights before
    /// its bias. The weights start after Glorot, and the biases at zero.
    pub(super) fn blocks(&self) -> Vec<Block> {
        let blocks = |(layer, name): (&Layer, &str)| {
            let reach = math::sqrt(6.0 / (layer.inputs + layer.outputs) as f64);
            let of_layer = weights(format!("{name}-W"), layer.outputs, layer.inputs);
            let bias = weights(format!("{name}-b"), 1, layer.outputs);
            [of_layer.start(uniform(reach)), bias]
        };
        self.layers.iter().zip(NAMES).flat_map(blocks).collect()
    }

    /// Returns the updates of these blocks from one flat slice.
    pub(super) fn updates(&self, values: &[f32]) -> Vec<TableUpdate> {
        let update = |(block, place): (Block, Range<usize>)| {
            TableUpdate::whole(&Table::new(block.layout.shape, values[place].to_vec()))
        };
        let places = self
            .layers
            .iter()
            .flat_map(|layer| [layer.weights.clone(), layer.bias.clone()]);
        self.blocks().into_iter().zip(places).map(update).collect()
    }

    /// Returns sigma(W x + b) of the layer at this position.
    pub(crate) fn activated(&self, layer: usize, parameters: &[f32], x: &[f32]) -> Vec<f32> {
        let mut z = self.layers[layer].forward_one(parameters, x);
        logistic(&mut z);
        z
    }

    /// Returns the vectors h_j of own items with these embeddings, one after the other.
    pub(crate) fn own_vectors(&self, parameters: &[f32], rows: &[f32]) -> Vec<f32> {
        rows.chunks_exact(self.dimension)
            .flat_map(|row| self.activated(OWN, parameters, row))
            .collect()
    }

    /// Returns the weights of n in the attention to it, and for every own item the part that does
    /// not depend on n.
    pub(super) fn attention_parts(&self, parameters: &[f32], own: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let [neighbour, attention] =
            [NEIGHBOUR, NEIGHBOUR_ATTENTION].map(|layer| &self.layers[layer]);
        let (of_own, of_neighbour) = parameters[attention.weights.clone()].split_at(self.dimension);
        let mut by_embedding = vec![0.0; self.dimension];
        for (row, factor) in parameters[neighbour.weights.clone()]
            .chunks_exact(self.dimension)
            .zip(of_neighbour)
        {
            add_scaled(*factor, row, &mut by_embedding);
        }
        let common = parameters[attention.bias.start]
            + dot(of_neighbour, &parameters[neighbour.bias.clone()]);
        let parts = own
            .chunks_exact(self.dimension)
            .map(|own| common + dot(of_own, own));
        (by_embedding, parts.collect())
    }

    /// Gathers what the neighbours of the own items contribute, with the attention that these
    /// parameters give them.
    pub(crate) fn gather(
        &self,
        parameters: &[f32],
        own: &[f32],
        neighbours: &Neighbours,
    ) -> Gathered {
        let k = self.dimension;
        let (by_embedding, parts) = self.attention_parts(parameters, own);
        let mut gathered = vec![0.0; neighbours.counts.len() * (k + 1)];
        let mut rest = neighbours.values.chunks_exact(k);
        for ((count, part), sums) in neighbours
            .counts
            .iter()
            .zip(parts)
            .zip(gathered.chunks_exact_mut(k + 1))
        {
            for embedding in rest.by_ref().take(*count) {
                let attention = leaky(part + dot(&by_embedding, embedding));
                add_scaled(attention, embedding, &mut sums[..k]);
                sums[k] += attention;
            }
        }
        gathered
    }

    /// Computes what does not depend on the user's embedding, from the vectors h_j and what was
    /// gathered. A device that has gathered nothing yet has no neighbours.
    pub(crate) fn expand(&self, parameters: &[f32], own: Vec<f32>, gathered: &[f32]) -> Expansion {
        let k = self.dimension;
        let [neighbour, attention] = [NEIGHBOUR, ITEM_ATTENTION].map(|layer| &self.layers[layer]);
        let bias = &parameters[neighbour.bias.clone()];
        let of_state = &parameters[attention.weights.clone()][k..];
        let (mut joined, mut states, mut logits) = (Vec::new(), Vec::new(), Vec::new());
        let mut gathered = gathered.chunks_exact(k + 1);
        for own in own.chunks_exact(k) {
            let start = joined.len();
            joined.resize(start + k, 0.0);
            if let Some(sums) = gathered.next() {
                let rows = parameters[neighbour.weights.clone()].chunks_exact(k);
                for ((value, row), bias) in joined[start..].iter_mut().zip(rows).zip(bias) {
                    *value = dot(row, &sums[..k]) + sums[k] * bias;
                }
            }
            joined.extend_from_slice(own);
            let state = self.layers[AGGREGATE].forward_one(parameters, &joined[start..]);
            logits.push(dot(of_state, &state) + parameters[attention.bias.start]);
            states.extend(state);
        }
        Expansion {
            own,
            joined,
            states,
            logits,
        }
    }

    /// Expands the user's vector u by those of the own items.
    pub(crate) fn expand_user(
        &self,
        parameters: &[f32],
        expansion: &Expansion,
        user: &[f32],
    ) -> ExpandedUser {
        let k = self.dimension;
        let of_user = dot(
            &parameters[self.layers[ITEM_ATTENTION].weights.clone()][..k],
            user,
        );
        let logits: Vec<f32> = expansion
            .logits
            .iter()
            .map(|logit| of_user + logit)
            .collect();
        let mut attention: Vec<f32> = logits.iter().map(|logit| leaky(*logit)).collect();
        softmax(&mut attention);
        let mut joined = vec![0.0; k];
        for (attention, own) in attention.iter().zip(expansion.own.chunks_exact(k)) {
            add_scaled(*attention, own, &mut joined);
        }
        joined.extend_from_slice(user);
        let vector = self.layers[EXPANDED].forward_one(parameters, &joined);
        ExpandedUser {
            logits,
            attention,
            joined,
            vector,
        }
    }

    /// Returns what the last layer reads, for the expanded user g and the item i.
    pub(crate) fn features(&self, user: &[f32], item: &[f32]) -> Vec<f32> {
        match self.predictor {
            Predictor::PublishedCode => [user, item].concat(),
            Predictor::Product => user
                .iter()
                .zip(item)
                .map(|(user, item)| user * item)
                .collect(),
        }
    }

    /// Returns the gradients with respect to g and i, given that with respect to what the last
    /// layer reads.
    pub(super) fn split_gradient(
        &self,
        user: &[f32],
        item: &[f32],
        by_features: &[f32],
    ) -> (Vec<f32>, Vec<f32>) {
        let times = |other: &[f32]| {
            by_features
                .iter()
                .zip(other)
                .map(|(by, other)| by * other)
                .collect()
        };
        match self.predictor {
            Predictor::PublishedCode => {
                let (by_user, by_item) = by_features.split_at(self.dimension);
                (by_user.to_vec(), by_item.to_vec())
            }
            Predictor::Product => (times(item), times(user)),
        }
    }

    /// Returns the output, a number between 0 and 1, for what the last layer reads.
    pub(crate) fn output(&self, parameters: &[f32], features: &[f32]) -> f32 {
        let mut output = self.layers[OUTPUT].forward_one(parameters, features);
        logistic(&mut output);
        output[0]
    }

    /// Returns the number of multiply-adds of training on `samples` ratings with `own` own items
    /// that have `neighbours` neighbours in all. Back-propagation takes twice as many as going
    /// forward.
    pub(crate) fn multiply_adds(&self, samples: usize, own: usize, neighbours: usize) -> u64 {
        let k = self.dimension;
        let each_sample = 3 * k * k + k * own + 2 * k + own;
        let each_own_item = 4 * k * k + 2 * k;
        let all = samples * each_sample + own * each_own_item + 2 * k * neighbours + k * k;
        3 * all as u64
    }
}

/// Returns the leaky rectifier of `x`.
fn leaky(x: f32) -> f32 {
    if x < 0.0 { SLOPE * x } else { x }
}

/// Returns the derivative of the leaky rectifier at `x`.
pub(super) fn leaky_slope(x: f32) -> f32 {
    if x < 0.0 { SLOPE } else { 1.0 }
}

/// Replaces every value by what `function` makes of sixteen of them at a time.
fn by_lanes(values: &mut [f32], function: impl Fn(&Lanes) -> Lanes) {
    for chunk in values.chunks_mut(LANES) {
        let mut lanes = [0.0; LANES];
        lanes[..chunk.len()].copy_from_slice(chunk);
        chunk.copy_from_slice(&function(&lanes)[..chunk.len()]);
    }
}

fn logistic(values: &mut [f32]) {
    by_lanes(values, math::sigmoid);
}

/// Replaces logits by their softmax.
fn softmax(values: &mut [f32]) {
    let largest = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    // After the subtraction no value is above zero, so that exp(-|x|) is exp(x).
    values.iter_mut().for_each(|value| *value -= largest);
    by_lanes(values, math::exp_neg_abs);
    let sum = values.iter().sum::<f32>();
    values.iter_mut().for_each(|value| *value /= sum);
}
