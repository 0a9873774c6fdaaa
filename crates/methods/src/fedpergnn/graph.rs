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
//!   sigma(v_output . (g * i) + b), where the two interact.
//!
//! Neighbours' embeddings enter linearly, so n' is never computed: a device keeps the sums of a_jn
//! n and of a_jn over the neighbours of each own item ([`Gathered`]), and s_j follows from them.
//! Everything is in single precision with sums in a fixed order (contract 1).
//!
//! Source: Wu et al., A federated graph neural network framework for privacy-preserving
//! personalization, Nature Communications 2022, and the authors' code wuch15/FedPerGNN, `model.py`
//! at 290e966. That code gives the places of absent neighbours the attention -99 instead of none,
//! so their common bias would count; here they do not count.

use crate::choices;
use crate::declare::{Block, layer};
use fedrecsim_model::kernel::{LANES, Lanes, exp_neg_abs, sigmoid};
use fedrecsim_model::neural::Layer;
use fedrecsim_model::neural::dense::{add_scaled, dot, multiply};

/// The slope of the leaky rectifier below zero, which is Keras's.
const SLOPE: f32 = 0.3;

choices! {
    /// How a rating follows from user and item.
    pub(crate) enum Predictor {
        /// The authors' code: one dense layer over user and item side by side. What it adds up has
        /// no term of both, so that all users get the same order of items.
        PublishedCode,
        /// One dense layer over the elementwise product of the user's and the item's vector.
        Product,
    }
}

/// The layers in the order of their parameters, each with its inputs as multiples of k, and whether
/// it has k outputs and not one. The last one has k inputs if it reads products.
const LAYERS: [(&str, usize, bool); 9] = [
    ("neighbour", 1, true),
    ("own", 1, true),
    ("neighbour-attention", 2, false),
    ("aggregate", 2, true),
    ("user", 1, true),
    ("item", 1, true),
    ("item-attention", 2, false),
    ("expanded", 2, true),
    ("output", 2, false),
];

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

/// Returns the layers for embeddings of `dimension` values, with the places of their parameters in
/// one flat slice.
pub(super) fn layers(dimension: usize, predictor: Predictor) -> [Layer; 9] {
    let mut end = 0;
    LAYERS.map(|(name, inputs, has_many)| {
        let reads_products = name == "output" && predictor == Predictor::Product;
        let inputs = if reads_products { 1 } else { inputs };
        let outputs = if has_many { dimension } else { 1 };
        let layer = Layer::at(end, inputs * dimension, outputs);
        end = layer.bias.end;
        layer
    })
}

/// Describes the blocks of the parameters, which are those of each layer.
pub(super) fn blocks(dimension: usize, predictor: Predictor) -> impl Iterator<Item = Block> {
    let named = layers(dimension, predictor).into_iter().zip(LAYERS);
    named.flat_map(|(of, (name, ..))| layer([format!("{name}-W"), format!("{name}-b")], &of))
}

/// The network, with its parameters.
#[derive(Clone, Debug)]
pub(crate) struct GraphNetwork {
    /// The length k of all embeddings.
    pub dimension: usize,
    /// The layers, in the order of the parameters.
    pub layers: [Layer; 9],
    /// The parameters of all layers.
    pub values: Vec<f32>,
    predictor: Predictor,
}

/// Holds for each own item the attention-weighted sum of its neighbours' embeddings and behind it
/// the sum of their attention, k + 1 values for each.
pub(crate) type Gathered = Vec<f32>;

/// Holds what a device makes of an own item j before it looks at any item to rate.
#[derive(Clone, Debug)]
pub(crate) struct OwnItem {
    /// The vector \[s_j; h_j\].
    pub joined: Vec<f32>,
    /// The vector z_j.
    pub state: Vec<f32>,
    /// The part of the attention to the item that does not depend on u.
    pub logit: f32,
}

impl OwnItem {
    /// Returns the vector h_j.
    pub(crate) fn own(&self) -> &[f32] {
        &self.joined[self.state.len()..]
    }
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
    /// Makes the network with these parameters, for embeddings of `dimension` values.
    pub(crate) fn new(dimension: usize, predictor: Predictor, values: Vec<f32>) -> Self {
        Self {
            dimension,
            layers: layers(dimension, predictor),
            values,
            predictor,
        }
    }

    /// Returns the part of a layer of one output that reads the first (0) or the second (1) of two
    /// vectors.
    pub(super) fn half(&self, layer: usize, number: usize) -> Layer {
        let Layer { weights, bias, .. } = self.layers[layer].clone();
        let start = weights.start + number * self.dimension;
        Layer {
            bias,
            ..Layer::at(start, self.dimension, 1)
        }
    }

    /// Returns the weights and the bias of a layer or of a part of one.
    pub(super) fn values_of(&self, layer: &Layer) -> [&[f32]; 2] {
        [&layer.weights, &layer.bias].map(|place| &self.values[place.clone()])
    }

    /// Returns sigma(W x + b) of the layer at this position.
    pub(crate) fn activated(&self, layer: usize, x: &[f32]) -> Vec<f32> {
        let mut z = self.layers[layer].forward_one(&self.values, x);
        by_lanes(&mut z, sigmoid);
        z
    }

    /// Returns the weights of n in the attention to it, and for every own item, whose vectors h_j
    /// are given, the part that does not depend on n.
    pub(super) fn attention_parts<'a>(
        &self,
        own: impl Iterator<Item = &'a [f32]>,
    ) -> (Vec<f32>, Vec<f32>) {
        let [of_own, bias] = self.values_of(&self.half(NEIGHBOUR_ATTENTION, 0));
        let [of_neighbour, _] = self.values_of(&self.half(NEIGHBOUR_ATTENTION, 1));
        let [weights, biases] = self.values_of(&self.layers[NEIGHBOUR]);
        let mut by_embedding = vec![0.0; self.dimension];
        multiply(of_neighbour, weights, self.dimension, &mut by_embedding);
        let common = bias[0] + dot(of_neighbour, biases);
        let parts = own.map(|own| common + dot(of_own, own));
        (by_embedding, parts.collect())
    }

    /// Gathers what the neighbours of the own items contribute, with the attention that the network
    /// gives them. For each own item, the embeddings of its neighbours are given one after the
    /// other.
    pub(crate) fn gather(&self, own: &[Vec<f32>], neighbours: &[Vec<f32>]) -> Gathered {
        let k = self.dimension;
        let (by_embedding, parts) = self.attention_parts(own.iter().map(|own| &own[..]));
        let mut gathered = vec![0.0; neighbours.len() * (k + 1)];
        let of_items = gathered.chunks_exact_mut(k + 1).zip(neighbours);
        for ((sums, embeddings), part) in of_items.zip(parts) {
            for embedding in embeddings.chunks_exact(k) {
                let attention = leaky(part + dot(&by_embedding, embedding));
                add_scaled(attention, embedding, &mut sums[..k]);
                sums[k] += attention;
            }
        }
        gathered
    }

    /// Computes what does not depend on the user's embedding, from the vectors h_j and what was
    /// gathered. A device that has gathered nothing yet has no neighbours.
    pub(crate) fn expand(&self, own: &[Vec<f32>], gathered: &[f32]) -> Vec<OwnItem> {
        let (k, of_state) = (self.dimension, self.half(ITEM_ATTENTION, 1));
        let [weights, biases] = self.values_of(&self.layers[NEIGHBOUR]);
        let mut gathered = gathered.chunks_exact(k + 1);
        let expand = |own: &Vec<f32>| {
            let mut joined = vec![0.0; k];
            if let Some(sums) = gathered.next() {
                let rows = weights.chunks_exact(k).zip(biases);
                for (value, (row, bias)) in joined.iter_mut().zip(rows) {
                    *value = dot(row, &sums[..k]) + sums[k] * bias;
                }
            }
            joined.extend_from_slice(own);
            let state = self.layers[AGGREGATE].forward_one(&self.values, &joined);
            let logit = of_state.forward_one(&self.values, &state)[0];
            OwnItem {
                joined,
                state,
                logit,
            }
        };
        own.iter().map(expand).collect()
    }

    /// Expands the user's vector u by those of the own items.
    pub(crate) fn expand_user(&self, expansion: &[OwnItem], user: &[f32]) -> ExpandedUser {
        let of_user = dot(self.values_of(&self.half(ITEM_ATTENTION, 0))[0], user);
        let logits: Vec<f32> = expansion.iter().map(|item| of_user + item.logit).collect();
        let mut attention: Vec<f32> = logits.iter().map(|logit| leaky(*logit)).collect();
        softmax(&mut attention);
        let mut joined = vec![0.0; self.dimension];
        for (attention, item) in attention.iter().zip(expansion) {
            add_scaled(*attention, item.own(), &mut joined);
        }
        joined.extend_from_slice(user);
        ExpandedUser {
            vector: self.layers[EXPANDED].forward_one(&self.values, &joined),
            logits,
            attention,
            joined,
        }
    }

    /// Returns what the last layer reads, for the expanded user g and the item i.
    pub(crate) fn features(&self, user: &[f32], item: &[f32]) -> Vec<f32> {
        match self.predictor {
            Predictor::PublishedCode => [user, item].concat(),
            Predictor::Product => times(user, item),
        }
    }

    /// Returns the gradients with respect to g and i, given that with respect to what the last
    /// layer reads.
    pub(super) fn split_gradient(&self, [user, item, by_features]: [&[f32]; 3]) -> [Vec<f32>; 2] {
        let k = self.dimension;
        match self.predictor {
            Predictor::PublishedCode => [by_features[..k].to_vec(), by_features[k..].to_vec()],
            Predictor::Product => [times(by_features, item), times(by_features, user)],
        }
    }

    /// Returns the output, a number between 0 and 1, for what the last layer reads.
    pub(crate) fn output(&self, features: &[f32]) -> f32 {
        self.activated(OUTPUT, features)[0]
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

/// Returns the products of two vectors, value by value.
pub(super) fn times(a: &[f32], b: &[f32]) -> Vec<f32> {
    a.iter().zip(b).map(|(a, b)| a * b).collect()
}

/// Returns the leaky rectifier of `x`.
fn leaky(x: f32) -> f32 {
    leaky_slope(x) * x
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

/// Replaces logits by their softmax.
fn softmax(values: &mut [f32]) {
    let largest = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    // After the subtraction no value is above zero, so that exp(-|x|) is exp(x).
    values.iter_mut().for_each(|value| *value -= largest);
    by_lanes(values, exp_neg_abs);
    let sum = values.iter().sum::<f32>();
    values.iter_mut().for_each(|value| *value /= sum);
}
