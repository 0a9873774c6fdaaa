//! Computes the gradient of a device's loss in FedPerGNN, layer by layer from the output back.

use super::graph::{
    AGGREGATE, EXPANDED, Gathered, GraphNetwork, ITEM, ITEM_ATTENTION, NEIGHBOUR,
    NEIGHBOUR_ATTENTION, OUTPUT, OWN, OwnItem, USER, leaky_slope, times,
};
use fedrecsim_model::neural::Layer;
use fedrecsim_model::neural::dense::{add_scaled, dot};
use fedrecsim_model::neural::optimizer;

/// Describes what a device trains on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalData<'a> {
    /// The user's embedding e_u.
    pub user: &'a [f32],
    /// The embeddings of the rated items, one after the other.
    pub rows: &'a [f32],
    /// For each rated item, its label between 0 and 1.
    pub labels: &'a [f32],
    /// The positions of the own items of the graph among the rated items.
    pub own: &'a [u32],
    /// For each own item, the embeddings of its neighbours, one after the other.
    pub neighbours: &'a [Vec<f32>],
    /// The factors of dropout, for each rated item those of u before those of i; empty without
    /// dropout.
    pub dropout: &'a [f32],
}

/// Holds the gradients of the mean squared error over a device's ratings.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Gradient {
    /// The gradient with respect to the user's embedding.
    pub user: Vec<f32>,
    /// The gradient with respect to the embeddings of the rated items.
    pub rows: Vec<f32>,
    /// The gradient with respect to the network.
    pub network: Vec<f32>,
    /// The mean squared error.
    pub loss: f64,
}

impl Gradient {
    /// Scales all parts down by one factor, so that the norm of the whole is at most `limit`.
    pub(super) fn clip(&mut self, limit: f64) {
        optimizer::clip([&mut self.user, &mut self.rows, &mut self.network], limit);
    }
}

/// Back-propagates through the network, and holds the gradients with respect to what all samples
/// share.
struct Backward<'a> {
    given: LocalData<'a>,
    network: &'a GraphNetwork,
    /// By the parameters.
    by_values: Vec<f32>,
    /// By the user's vector u before dropout.
    by_user: Vec<f32>,
    /// By the vectors h_j.
    by_own: Vec<Vec<f32>>,
    /// By the parts of the attention to own items that do not depend on u.
    by_logits: Vec<f32>,
}

impl LocalData<'_> {
    /// Returns the gradients, and what was gathered from the neighbours on the way.
    pub(crate) fn gradient(&self, network: &GraphNetwork) -> (Gradient, Gathered) {
        let k = network.dimension;
        let starts = self.own.iter().map(|position| *position as usize * k);
        let own_rows = starts.map(|start| start..start + k);
        let vector = |row| network.activated(OWN, &self.rows[row]);
        let own: Vec<Vec<f32>> = own_rows.clone().map(vector).collect();
        let gathered = network.gather(&own, self.neighbours);
        let expansion = network.expand(&own, &gathered);
        let user = network.activated(USER, self.user);
        let mut back = Backward {
            given: *self,
            network,
            by_values: vec![0.0; network.values.len()],
            by_user: vec![0.0; k],
            by_own: vec![vec![0.0; k]; own.len()],
            by_logits: vec![0.0; own.len()],
        };
        let (mut by_embedding, mut by_rows) = (vec![0.0; k], vec![0.0; self.rows.len()]);
        let mut squares = 0.0;
        for (sample, by_row) in by_rows.chunks_exact_mut(k).enumerate() {
            let error = back.add_sample(sample, &user, &expansion, by_row);
            squares += f64::from(error) * f64::from(error);
        }
        back.add_aggregation(&expansion, &gathered);
        for (number, row) in own_rows.enumerate() {
            let by_sum = before_logistic(&own[number], &back.by_own[number]);
            back.at(OWN, &self.rows[row.clone()], &by_sum, &mut by_rows[row]);
        }
        let by_sum = before_logistic(&user, &back.by_user);
        back.at(USER, self.user, &by_sum, &mut by_embedding);
        let gradient = Gradient {
            user: by_embedding,
            rows: by_rows,
            network: back.by_values,
            loss: squares / self.labels.len().max(1) as f64,
        };
        (gradient, gathered)
    }

    /// Returns `values` with this part of a sample's dropout.
    fn dropped(&self, sample: usize, part: usize, values: &[f32]) -> Vec<f32> {
        let start = (2 * sample + part) * values.len();
        match self.dropout.get(start..start + values.len()) {
            Some(factors) => times(values, factors),
            None => values.to_vec(),
        }
    }
}

impl Backward<'_> {
    /// Back-propagates through a layer with the input `x`, whose outputs have the gradient `dz`.
    /// The gradient of `x` is added to `dx`.
    fn through(&mut self, layer: &Layer, x: &[f32], dz: &[f32], dx: &mut [f32]) {
        layer.backward_one(&self.network.values, x, dz, &mut self.by_values, dx);
    }

    /// Back-propagates through the layer at this position.
    fn at(&mut self, layer: usize, x: &[f32], dz: &[f32], dx: &mut [f32]) {
        self.through(&self.network.layers[layer], x, dz, dx);
    }

    /// Adds the gradients of the squared error of one rating, divided by their number, and returns
    /// the error. `by_row` is the gradient of the item's row.
    fn add_sample(
        &mut self,
        sample: usize,
        user: &[f32],
        expansion: &[OwnItem],
        by_row: &mut [f32],
    ) -> f32 {
        let (network, given, k) = (self.network, self.given, self.network.dimension);
        let row = &given.rows[sample * k..(sample + 1) * k];
        let whole_item = network.activated(ITEM, row);
        let user = given.dropped(sample, 0, user);
        let item = given.dropped(sample, 1, &whole_item);
        let expanded = network.expand_user(expansion, &user);
        let features = network.features(&expanded.vector, &item);
        let output = network.output(&features);
        let error = output - given.labels[sample];

        let by_output = 2.0 * error * output * (1.0 - output) / given.labels.len() as f32;
        let mut by_features = vec![0.0; features.len()];
        self.at(OUTPUT, &features, &[by_output], &mut by_features);
        let [by_vector, by_item] = network.split_gradient([&expanded.vector, &item, &by_features]);
        let by_item = before_logistic(&whole_item, &given.dropped(sample, 1, &by_item));
        self.at(ITEM, row, &by_item, by_row);
        let mut by_joined = vec![0.0; 2 * k];
        self.at(EXPANDED, &expanded.joined, &by_vector, &mut by_joined);
        let (by_mean, by_user) = by_joined.split_at_mut(k);

        let by_attention = expansion.iter().map(|item| dot(by_mean, item.own()));
        let by_attention: Vec<f32> = by_attention.collect();
        let mean: f32 = times(&by_attention, &expanded.attention).iter().sum();
        let mut by_common = 0.0;
        for (number, attention) in expanded.attention.iter().enumerate() {
            add_scaled(*attention, by_mean, &mut self.by_own[number]);
            let slope = leaky_slope(expanded.logits[number]);
            let by_logit = attention * (by_attention[number] - mean) * slope;
            self.by_logits[number] += by_logit;
            by_common += by_logit;
        }
        let of_user = network.half(ITEM_ATTENTION, 0).weights;
        add_scaled(by_common, &user, &mut self.by_values[of_user.clone()]);
        add_scaled(by_common, &network.values[of_user], by_user);
        add_scaled(1.0, &given.dropped(sample, 0, by_user), &mut self.by_user);
        error
    }

    /// Adds the gradients of the layers between the vectors h_j and the attention to own items.
    fn add_aggregation(&mut self, expansion: &[OwnItem], gathered: &[f32]) {
        let (network, k) = (self.network, self.network.dimension);
        let [of_own, of_neighbour] = [0, 1].map(|half| network.half(NEIGHBOUR_ATTENTION, half));
        let of_state = network.half(ITEM_ATTENTION, 1);
        let neighbour = &network.layers[NEIGHBOUR];
        let [weights, biases] = network.values_of(neighbour);
        // The bias of this layer does not count once, but by the attention.
        let without_bias = Layer {
            bias: 0..0,
            ..neighbour.clone()
        };
        let own = expansion.iter().map(OwnItem::own);
        let (by_embedding, parts) = network.attention_parts(own);
        // The gradient with respect to the attention is collected as that of the weights of n and
        // of the common part, which is that of the attention's bias.
        let mut by_weights_of_n = vec![0.0; k];
        let of_items = expansion.iter().zip(gathered.chunks_exact(k + 1));
        for (number, (item, sums)) in of_items.enumerate() {
            let (mut by_state, mut by_joined) = (vec![0.0; k], vec![0.0; 2 * k]);
            let by_logit = [self.by_logits[number]];
            self.through(&of_state, &item.state, &by_logit, &mut by_state);
            self.at(AGGREGATE, &item.joined, &by_state, &mut by_joined);
            let (by_aggregate, by_own) = by_joined.split_at_mut(k);

            let mut by_sum = vec![0.0; k];
            self.through(&without_bias, &sums[..k], by_aggregate, &mut by_sum);
            let by_bias = &mut self.by_values[neighbour.bias.clone()];
            add_scaled(sums[k], by_aggregate, by_bias);
            let by_total = dot(biases, by_aggregate);
            let mut by_part = 0.0;
            for embedding in self.given.neighbours[number].chunks_exact(k) {
                let slope = leaky_slope(parts[number] + dot(&by_embedding, embedding));
                let by_logit = (dot(&by_sum, embedding) + by_total) * slope;
                add_scaled(by_logit, embedding, &mut by_weights_of_n);
                by_part += by_logit;
            }
            self.through(&of_own, item.own(), &[by_part], by_own);
            add_scaled(1.0, by_own, &mut self.by_own[number]);
        }
        // The weights of n are the attention's weights of n' times those of the neighbours' layer.
        let by_common = self.by_values[of_own.bias.start];
        let by_weights = &mut self.by_values[of_neighbour.weights.clone()];
        let rows = weights.chunks_exact(k).zip(biases);
        for (by_weight, (row, bias)) in by_weights.iter_mut().zip(rows) {
            *by_weight += dot(row, &by_weights_of_n) + by_common * bias;
        }
        let [of_neighbour, _] = network.values_of(&of_neighbour);
        let by_bias = &mut self.by_values[neighbour.bias.clone()];
        add_scaled(by_common, of_neighbour, by_bias);
        // Neighbours are not trained, so the gradient by n is left out.
        self.through(&without_bias, &by_weights_of_n, of_neighbour, &mut []);
    }
}

/// Returns the gradient with respect to what a logistic function was taken of, given its values and
/// the gradient with respect to these.
fn before_logistic(values: &[f32], by_values: &[f32]) -> Vec<f32> {
    let pairs = values.iter().zip(by_values);
    let product = |(value, by): (&f32, &f32)| by * value * (1.0 - value);
    pairs.map(product).collect()
}
