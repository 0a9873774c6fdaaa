//! Computes the gradient of a device's loss in FedPerGNN, layer by layer from the output back.

use super::graph::{
    AGGREGATE, EXPANDED, Expansion, Gathered, GraphNetwork, ITEM, ITEM_ATTENTION, NEIGHBOUR,
    NEIGHBOUR_ATTENTION, Neighbours, OUTPUT, OWN, USER, leaky_slope,
};
use fedrecsim_model::model::neural::dense::{add_scaled, dot};

/// Describes what a device trains on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Participation<'a> {
    /// The user's embedding e_u.
    pub user: &'a [f32],
    /// The embeddings of the rated items, one after the other.
    pub rows: &'a [f32],
    /// For each rated item, its label between 0 and 1.
    pub labels: &'a [f32],
    /// The positions of the own items of the graph among the rated items.
    pub own: &'a [u32],
    /// The neighbours of the own items.
    pub neighbours: &'a Neighbours,
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

/// Holds the gradients with respect to what all samples share, while samples are added.
struct Shared {
    /// By the user's vector u before dropout.
    user: Vec<f32>,
    /// By the vectors h_j.
    own: Vec<f32>,
    /// By the parts of the attention to own items that do not depend on u.
    logits: Vec<f32>,
}

impl Participation<'_> {
    /// Returns the gradients, and what was gathered from the neighbours on the way.
    pub(crate) fn gradient(
        &self,
        network: &GraphNetwork,
        parameters: &[f32],
    ) -> (Gradient, Gathered) {
        let k = network.dimension;
        let own_rows: Vec<f32> = self
            .own
            .iter()
            .flat_map(|&position| self.row(position, k))
            .copied()
            .collect();
        let own = network.own_vectors(parameters, &own_rows);
        let gathered = network.gather(parameters, &own, self.neighbours);
        let expansion = network.expand(parameters, own, &gathered);
        let user = network.activated(USER, parameters, self.user);
        let mut gradient = Gradient {
            user: vec![0.0; k],
            rows: vec![0.0; self.rows.len()],
            network: vec![0.0; network.parameters()],
            loss: 0.0,
        };
        let own = expansion.own.len();
        let mut shared = Shared {
            user: vec![0.0; k],
            own: vec![0.0; own],
            logits: vec![0.0; self.own.len()],
        };
        for sample in 0..self.labels.len() {
            self.add_sample(
                network,
                parameters,
                (sample, &user, &expansion),
                &mut gradient,
                &mut shared,
            );
        }
        gradient.loss /= self.labels.len().max(1) as f64;
        self.add_aggregation(
            network,
            parameters,
            (&expansion, &gathered),
            &mut gradient.network,
            &mut shared,
        );
        for (number, &position) in self.own.iter().enumerate() {
            let values = number * k..(number + 1) * k;
            let by_sum = before_logistic(&expansion.own[values.clone()], &shared.own[values]);
            let place = position as usize * k..(position as usize + 1) * k;
            let (by_network, by_row) = (&mut gradient.network, &mut gradient.rows[place.clone()]);
            network.layers[OWN].backward_one(
                parameters,
                &self.rows[place],
                &by_sum,
                by_network,
                by_row,
            );
        }
        let by_sum = before_logistic(&user, &shared.user);
        network.layers[USER].backward_one(
            parameters,
            self.user,
            &by_sum,
            &mut gradient.network,
            &mut gradient.user,
        );
        (gradient, gathered)
    }

    fn row(&self, position: u32, k: usize) -> &[f32] {
        &self.rows[position as usize * k..(position as usize + 1) * k]
    }

    /// Returns `values` with this part of a sample's dropout.
    fn dropped(&self, sample: usize, part: usize, values: &[f32]) -> Vec<f32> {
        let k = values.len();
        match self
            .dropout
            .get((2 * sample + part) * k..(2 * sample + part + 1) * k)
        {
            Some(factors) => values
                .iter()
                .zip(factors)
                .map(|(value, factor)| value * factor)
                .collect(),
            None => values.to_vec(),
        }
    }

    /// Adds the squared error of one rating, divided by their number, and its gradients.
    fn add_sample(
        &self,
        network: &GraphNetwork,
        parameters: &[f32],
        (sample, user, expansion): (usize, &[f32], &Expansion),
        gradient: &mut Gradient,
        shared: &mut Shared,
    ) {
        let k = network.dimension;
        let place = sample * k..(sample + 1) * k;
        let row = &self.rows[place.clone()];
        let whole_item = network.activated(ITEM, parameters, row);
        let (user, item) = (
            self.dropped(sample, 0, user),
            self.dropped(sample, 1, &whole_item),
        );
        let expanded = network.expand_user(parameters, expansion, &user);
        let features = network.features(&expanded.vector, &item);
        let output = network.output(parameters, &features);
        let error = output - self.labels[sample];
        gradient.loss += f64::from(error) * f64::from(error);

        let by_output = 2.0 * error * output * (1.0 - output) / self.labels.len() as f32;
        let mut by_features = vec![0.0; features.len()];
        let of_network = &mut gradient.network;
        network.layers[OUTPUT].backward_one(
            parameters,
            &features,
            &[by_output],
            of_network,
            &mut by_features,
        );
        let (by_vector, by_item) = network.split_gradient(&expanded.vector, &item, &by_features);
        let by_item = before_logistic(&whole_item, &self.dropped(sample, 1, &by_item));
        network.layers[ITEM].backward_one(
            parameters,
            row,
            &by_item,
            of_network,
            &mut gradient.rows[place],
        );

        let mut by_joined = vec![0.0; 2 * k];
        network.layers[EXPANDED].backward_one(
            parameters,
            &expanded.joined,
            &by_vector,
            of_network,
            &mut by_joined,
        );
        let (by_mean, by_user) = by_joined.split_at_mut(k);
        let own = expansion.own.chunks_exact(k);
        let by_attention: Vec<f32> = own.map(|own| dot(by_mean, own)).collect();
        let mean: f32 = by_attention
            .iter()
            .zip(&expanded.attention)
            .map(|(by, attention)| by * attention)
            .sum();
        let mut by_common = 0.0;
        for (number, attention) in expanded.attention.iter().enumerate() {
            add_scaled(
                *attention,
                by_mean,
                &mut shared.own[number * k..(number + 1) * k],
            );
            let by_logit =
                attention * (by_attention[number] - mean) * leaky_slope(expanded.logits[number]);
            shared.logits[number] += by_logit;
            by_common += by_logit;
        }
        let of_user = network.layers[ITEM_ATTENTION].weights.start
            ..network.layers[ITEM_ATTENTION].weights.start + k;
        add_scaled(by_common, &user, &mut of_network[of_user.clone()]);
        add_scaled(by_common, &parameters[of_user], by_user);
        add_scaled(1.0, &self.dropped(sample, 0, by_user), &mut shared.user);
    }

    /// Adds the gradients of the layers between the vectors h_j and the attention to own items.
    fn add_aggregation(
        &self,
        network: &GraphNetwork,
        parameters: &[f32],
        (expansion, gathered): (&Expansion, &[f32]),
        gradient: &mut [f32],
        shared: &mut Shared,
    ) {
        let k = network.dimension;
        let [neighbour, to_neighbours, to_items] =
            [NEIGHBOUR, NEIGHBOUR_ATTENTION, ITEM_ATTENTION].map(|layer| &network.layers[layer]);
        let of_state = to_items.weights.start + k..to_items.weights.end;
        let weights = &parameters[neighbour.weights.clone()];
        let (by_embedding, parts) = network.attention_parts(parameters, &expansion.own);
        let mut rest = self.neighbours.values.chunks_exact(k);
        // The gradient with respect to the attention is collected as that of the weights of n and
        // of the common part.
        let (mut by_weights_of_n, mut by_common) = (vec![0.0; k], 0.0);
        for (number, &by_logit) in shared.logits.iter().enumerate() {
            let state = &expansion.states[number * k..(number + 1) * k];
            add_scaled(by_logit, state, &mut gradient[of_state.clone()]);
            gradient[to_items.bias.start] += by_logit;
            let mut by_state = vec![0.0; k];
            add_scaled(by_logit, &parameters[of_state.clone()], &mut by_state);
            let mut by_joined = vec![0.0; 2 * k];
            let joined = &expansion.joined[number * 2 * k..(number + 1) * 2 * k];
            network.layers[AGGREGATE].backward_one(
                parameters,
                joined,
                &by_state,
                gradient,
                &mut by_joined,
            );
            let (by_aggregate, by_own) = by_joined.split_at_mut(k);

            let sums = &gathered[number * (k + 1)..(number + 1) * (k + 1)];
            let mut by_sum = vec![0.0; k];
            for (output, by) in by_aggregate.iter().enumerate() {
                let row = output * k..(output + 1) * k;
                add_scaled(
                    *by,
                    &sums[..k],
                    &mut gradient[neighbour.weights.start..][row.clone()],
                );
                add_scaled(*by, &weights[row], &mut by_sum);
            }
            add_scaled(sums[k], by_aggregate, &mut gradient[neighbour.bias.clone()]);
            let by_total = dot(&parameters[neighbour.bias.clone()], by_aggregate);
            let mut by_part = 0.0;
            for embedding in rest.by_ref().take(self.neighbours.counts[number]) {
                let slope = leaky_slope(parts[number] + dot(&by_embedding, embedding));
                let by_logit = (dot(&by_sum, embedding) + by_total) * slope;
                add_scaled(by_logit, embedding, &mut by_weights_of_n);
                by_part += by_logit;
            }
            by_common += by_part;
            let of_own = to_neighbours.weights.start..to_neighbours.weights.start + k;
            add_scaled(
                by_part,
                &expansion.own[number * k..(number + 1) * k],
                &mut gradient[of_own.clone()],
            );
            add_scaled(by_part, &parameters[of_own], by_own);
            add_scaled(1.0, by_own, &mut shared.own[number * k..(number + 1) * k]);
        }
        // The weights of n are the attention's weights of n' times those of the neighbours' layer.
        let of_neighbour = to_neighbours.weights.start + k;
        for output in 0..k {
            let row = output * k..(output + 1) * k;
            let factor = parameters[of_neighbour + output];
            gradient[of_neighbour + output] += dot(&weights[row.clone()], &by_weights_of_n)
                + by_common * parameters[neighbour.bias.start + output];
            add_scaled(
                factor,
                &by_weights_of_n,
                &mut gradient[neighbour.weights.start..][row],
            );
            gradient[neighbour.bias.start + output] += by_common * factor;
        }
        gradient[to_neighbours.bias.start] += by_common;
    }
}

/// Returns the gradient with respect to what a logistic function was taken of, given its values and
/// the gradient with respect to these.
fn before_logistic(values: &[f32], by_values: &[f32]) -> Vec<f32> {
    values
        .iter()
        .zip(by_values)
        .map(|(value, by)| by * value * (1.0 - value))
        .collect()
}
