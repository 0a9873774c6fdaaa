//! Computes the gradient of a device's loss in FedPerGNN, layer by layer from the output back.

use super::graph::{
    AGGREGATE, EXPANDED, ExpandedUser, Gathered, GraphNetwork, ITEM, ITEM_ATTENTION, NEIGHBOUR,
    NEIGHBOUR_ATTENTION, OUTPUT, OWN, OwnItem, USER, leaky_slope, times,
};
use fedrecsim_model::neural::dense::{add_scaled, dot};

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

/// Back-propagates through the network, and holds the gradients with respect to what all samples
/// share.
struct Backward<'a> {
    given: LocalData<'a>,
    network: &'a GraphNetwork,
    parameters: &'a [f32],
    /// By the parameters.
    by_parameters: Vec<f32>,
    /// By the user's vector u before dropout.
    by_user: Vec<f32>,
    /// By the vectors h_j.
    by_own: Vec<Vec<f32>>,
    /// By the parts of the attention to own items that do not depend on u.
    by_logits: Vec<f32>,
}

impl LocalData<'_> {
    /// Returns the gradients, and what was gathered from the neighbours on the way.
    pub(crate) fn gradient(
        &self,
        network: &GraphNetwork,
        parameters: &[f32],
    ) -> (Gradient, Gathered) {
        let k = network.dimension;
        let own_rows = || self.own.iter().map(|position| *position as usize * k);
        let own_rows = || own_rows().map(|start| start..start + k);
        let vector = |row| network.activated(OWN, parameters, &self.rows[row]);
        let own: Vec<Vec<f32>> = own_rows().map(vector).collect();
        let gathered = network.gather(parameters, &own, self.neighbours);
        let expansion = network.expand(parameters, &own, &gathered);
        let user = network.activated(USER, parameters, self.user);
        let mut back = Backward {
            given: *self,
            network,
            parameters,
            by_parameters: vec![0.0; network.parameters()],
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
        for (number, row) in own_rows().enumerate() {
            let by_sum = before_logistic(&own[number], &back.by_own[number]);
            back.layer(OWN, &self.rows[row.clone()], &by_sum, &mut by_rows[row]);
        }
        let by_sum = before_logistic(&user, &back.by_user);
        back.layer(USER, self.user, &by_sum, &mut by_embedding);
        let gradient = Gradient {
            user: by_embedding,
            rows: by_rows,
            network: back.by_parameters,
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
    fn layer(&mut self, layer: usize, x: &[f32], dz: &[f32], dx: &mut [f32]) {
        let layer = &self.network.layers[layer];
        layer.backward_one(self.parameters, x, dz, &mut self.by_parameters, dx);
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
        let (network, parameters, given) = (self.network, self.parameters, self.given);
        let k = network.dimension;
        let row = &given.rows[sample * k..(sample + 1) * k];
        let whole_item = network.activated(ITEM, parameters, row);
        let user = given.dropped(sample, 0, user);
        let item = given.dropped(sample, 1, &whole_item);
        let expanded = network.expand_user(parameters, expansion, &user);
        let features = network.features(&expanded.vector, &item);
        let output = network.output(parameters, &features);
        let error = output - given.labels[sample];

        let by_output = 2.0 * error * output * (1.0 - output) / given.labels.len() as f32;
        let mut by_features = vec![0.0; features.len()];
        self.layer(OUTPUT, &features, &[by_output], &mut by_features);
        let (by_vector, by_item) = network.split_gradient(&expanded.vector, &item, &by_features);
        let by_item = before_logistic(&whole_item, &given.dropped(sample, 1, &by_item));
        self.layer(ITEM, row, &by_item, by_row);

        let mut by_joined = vec![0.0; 2 * k];
        self.layer(EXPANDED, &expanded.joined, &by_vector, &mut by_joined);
        let (by_mean, by_user) = by_joined.split_at_mut(k);
        let by_common = self.add_attention(&expanded, expansion, by_mean);
        let [of_user, _] = network.halves(ITEM_ATTENTION);
        add_scaled(by_common, &user, &mut self.by_parameters[of_user.clone()]);
        add_scaled(by_common, &parameters[of_user], by_user);
        add_scaled(1.0, &given.dropped(sample, 0, by_user), &mut self.by_user);
        error
    }

    /// Adds the gradients of the attention to own items, given that of their weighted sum, and
    /// returns that of what all of the attention has in common.
    fn add_attention(
        &mut self,
        expanded: &ExpandedUser,
        expansion: &[OwnItem],
        by_mean: &[f32],
    ) -> f32 {
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
        by_common
    }

    /// Adds the gradients of the layers between the vectors h_j and the attention to own items.
    fn add_aggregation(&mut self, expansion: &[OwnItem], gathered: &[f32]) {
        let (network, parameters) = (self.network, self.parameters);
        let k = network.dimension;
        let neighbour = &network.layers[NEIGHBOUR];
        let weights = &parameters[neighbour.weights.clone()];
        let biases = &parameters[neighbour.bias.clone()];
        let [of_own, of_neighbour] = network.halves(NEIGHBOUR_ATTENTION);
        let [_, of_state] = network.halves(ITEM_ATTENTION);
        let own = expansion.iter().map(OwnItem::own);
        let (by_embedding, parts) = network.attention_parts(parameters, own);
        // The gradient with respect to the attention is collected as that of the weights of n and
        // of the common part.
        let (mut by_weights_of_n, mut by_common) = (vec![0.0; k], 0.0);
        let of_items = expansion.iter().zip(gathered.chunks_exact(k + 1));
        for (number, (item, sums)) in of_items.enumerate() {
            let by_logit = self.by_logits[number];
            add_scaled(
                by_logit,
                &item.state,
                &mut self.by_parameters[of_state.clone()],
            );
            self.by_parameters[network.layers[ITEM_ATTENTION].bias.start] += by_logit;
            let (mut by_state, mut by_joined) = (vec![0.0; k], vec![0.0; 2 * k]);
            add_scaled(by_logit, &parameters[of_state.clone()], &mut by_state);
            self.layer(AGGREGATE, &item.joined, &by_state, &mut by_joined);
            let (by_aggregate, by_own) = by_joined.split_at_mut(k);

            let mut by_sum = vec![0.0; k];
            let of_weights = &mut self.by_parameters[neighbour.weights.clone()];
            let rows = of_weights.chunks_exact_mut(k).zip(weights.chunks_exact(k));
            for (by, (by_row, row)) in by_aggregate.iter().zip(rows) {
                add_scaled(*by, &sums[..k], by_row);
                add_scaled(*by, row, &mut by_sum);
            }
            let by_bias = &mut self.by_parameters[neighbour.bias.clone()];
            add_scaled(sums[k], by_aggregate, by_bias);
            let by_total = dot(biases, by_aggregate);
            let mut by_part = 0.0;
            for embedding in self.given.neighbours[number].chunks_exact(k) {
                let slope = leaky_slope(parts[number] + dot(&by_embedding, embedding));
                let by_logit = (dot(&by_sum, embedding) + by_total) * slope;
                add_scaled(by_logit, embedding, &mut by_weights_of_n);
                by_part += by_logit;
            }
            by_common += by_part;
            add_scaled(by_part, item.own(), &mut self.by_parameters[of_own.clone()]);
            add_scaled(by_part, &parameters[of_own.clone()], by_own);
            add_scaled(1.0, by_own, &mut self.by_own[number]);
        }
        // The weights of n are the attention's weights of n' times those of the neighbours' layer.
        for (output, (row, bias)) in weights.chunks_exact(k).zip(biases).enumerate() {
            let at = of_neighbour.start + output;
            self.by_parameters[at] += dot(row, &by_weights_of_n) + by_common * bias;
            let start = neighbour.weights.start + output * k;
            let by_row = &mut self.by_parameters[start..start + k];
            add_scaled(parameters[at], &by_weights_of_n, by_row);
            self.by_parameters[neighbour.bias.start + output] += by_common * parameters[at];
        }
        self.by_parameters[network.layers[NEIGHBOUR_ATTENTION].bias.start] += by_common;
    }
}

/// Returns the gradient with respect to what a logistic function was taken of, given its values and
/// the gradient with respect to these.
fn before_logistic(values: &[f32], by_values: &[f32]) -> Vec<f32> {
    let pairs = values.iter().zip(by_values);
    pairs
        .map(|(value, by)| by * value * (1.0 - value))
        .collect()
}
