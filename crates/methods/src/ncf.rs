//! Implements neural collaborative filtering at the server, whose network scores an item from the
//! user's embedding and the item's side by side (2k -> 32 -> 16 -> 8 -> 1 with rectifiers in
//! between).
//!
//! The loss is the mean binary cross-entropy over positives and sampled negatives, which Adam
//! minimises on both tables and the network by mini-batches over the samples of all users. This is
//! the network alone, which the papers of federated methods compare with, without the product of
//! embeddings that the source puts beside it.
//!
//! Source: He et al., Neural Collaborative Filtering, WWW 2017.

use super::declare::learn::score_by_network;
use super::fedncf::HIDDEN_UNITS;
use super::network;
use super::prelude::*;
use super::samples::Sample;
use fedrecsim_model::kernel::Targets;
use fedrecsim_model::neural::PerceptronBuffers;
use fedrecsim_model::neural::loss::binary_cross_entropy;
use fedrecsim_model::neural::optimizer::{AdamParameters, AdamSettings};

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry::at_server::<Ncf>();

parameters! {
    /// Parameters of neural collaborative filtering at the server.
    pub(crate) struct Ncf {
        /// Latent dimension k.
        latent_dimension: u32 = 32, >= 1, <= MAX_DIMENSION;
        /// Samples per batch.
        batch_size: u32 = 256, >= 1;
        /// Learning rate of Adam.
        learning_rate: f64 = 1e-3, > 0.0;
        /// Standard deviation of embeddings and weights at the start.
        deviation: f64 = 0.01, > 0.0;
    }
}

/// Holds the memory of one batch. Nothing passes from one batch to the next.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buffers {
    network: PerceptronBuffers,
    targets: Targets,
    /// Both embeddings of a sample.
    inputs: Vec<f32>,
}

impl Ncf {
    /// Returns the network, which has `common` inputs that all samples share besides `own` inputs
    /// of each.
    fn network(&self, common: u32, own: u32) -> Perceptron {
        let [first, second, third] = HIDDEN_UNITS;
        Perceptron::new(common as usize, &[own as usize, first, second, third, 1])
    }

    /// Makes one step of Adam on the mean binary cross-entropy of `batch`, and returns that loss as
    /// a sum over the batch. All embeddings are stepped, as dense ones are in PyTorch. `parameters`
    /// are the embeddings of this many users and items, and the network behind them.
    fn step(
        &self,
        (parameters, memory): (&mut AdamParameters, &mut Buffers),
        (users, items): (usize, usize),
        batch: &[Sample],
        adam: &AdamSettings,
    ) -> f32 {
        let k = self.latent_dimension as usize;
        let network = self.network(0, 2 * self.latent_dimension);
        let rows = |sample: &Sample| {
            [sample.user as usize, users + sample.item as usize].map(|row| row * k..(row + 1) * k)
        };
        let Buffers {
            network: buffers,
            targets,
            inputs,
        } = memory;
        let AdamParameters {
            values, gradient, ..
        } = &mut *parameters;
        let (embeddings, weights) = values.split_at((users + items) * k);
        let (by_embeddings, by_weights) = gradient.split_at_mut(embeddings.len());
        let target = |sample: &Sample| (1.0, f32::from(sample.is_positive));
        targets.replace(batch.iter().map(target));
        buffers.inputs.reset(batch.len(), 2 * k);
        for (number, sample) in batch.iter().enumerate() {
            let [user, item] = rows(sample).map(|row| &embeddings[row]);
            let both = [user, item].concat();
            buffers.inputs.set_sample(number, &both);
        }
        network.forward(weights, &[], buffers);
        let (logits, by_logits) = buffers.outputs_and_gradient();
        let loss = binary_cross_entropy(logits, targets, 1.0 / batch.len() as f32, by_logits);
        network.backward(weights, &[], buffers, by_weights, &mut []);
        // Adam goes through all of it anyway.
        by_embeddings.fill(0.0);
        inputs.resize(2 * k, 0.0);
        for (number, sample) in batch.iter().enumerate() {
            buffers.gradient.read_sample(number, inputs);
            for (row, slopes) in rows(sample).into_iter().zip(inputs.chunks_exact(k)) {
                let sums = by_embeddings[row].iter_mut().zip(slopes);
                sums.for_each(|(sum, slope)| *sum += slope);
            }
        }
        parameters.step(adam);
        loss
    }
}

impl Central for Ncf {
    type Parameters = Self;
    type Memory = AdamParameters;

    const NAME: &str = "ncf";
    const SUMMARY: &str = "centralised neural collaborative filtering: users send their ratings \
                           once, the server trains by Adam";
    const SOURCE: &str = "He et al., Neural Collaborative Filtering, WWW 2017 (the network without \
                          the product of embeddings)";
    const FORMULA: &[&str] = &[
        "s_ui = W4 φ(W3 φ(W2 φ(W1 [U_u; V_i] + b1) + b2) + b3) + b4,  φ(x) = max(0, x)",
        "L = mean BCE(s_ui, y_ui),  by Adam",
    ];

    fn new(parameters: Self, _problem: &Problem) -> Self {
        parameters
    }

    /// Draws embeddings and weights from N(0, deviation^2). Biases are zero.
    fn blocks(&self, size: ProblemSize) -> Vec<Block> {
        let k = self.latent_dimension;
        let users = weights("U", size.users, k as usize);
        let embeddings = [users, item_table("V", size.items, k)].into_iter();
        let network = perceptron(&self.network(0, 2 * k));
        let blocks = embeddings
            .chain(network)
            .map(|block| match block.name().starts_with('b') {
                true => block,
                false => block.start(normal(self.deviation)),
            });
        blocks.collect()
    }

    fn memory(&self, model: &Model) -> AdamParameters {
        AdamParameters::new(network::parameters(model, 0))
    }

    fn pass(&self, mut pass: Pass<'_, AdamParameters>) -> Result<StepReport> {
        let samples = pass.samples("ncf")?;
        let adam = AdamSettings::with_rate(self.learning_rate);
        let sizes = (pass.problem.users, pass.problem.items);
        let network = self.network(0, 2 * self.latent_dimension);
        let (mut buffers, mut multiply_adds) = (Buffers::default(), 0);
        let batches = (&samples[..], self.batch_size);
        let name = "the embeddings or the network";
        let report = pass.by_batches((0, name), batches, 2, |values, batch| {
            multiply_adds += 3 * network.multiply_adds(batch.len());
            f64::from(self.step((values, &mut buffers), sizes, batch, &adam))
        })?;
        Ok(StepReport {
            multiply_adds,
            ..report
        })
    }

    /// The inputs of the network from the user's embedding are the same for all items.
    fn scorer<'a>(&'a self, context: ScoringContext<'a>) -> Scoring<'a> {
        let (user, model) = (context.user.index(), context.model);
        let network = self.network(self.latent_dimension, self.latent_dimension);
        let weights = network::parameters(model, 2);
        Ok(Box::new(move |items: &[u32], scores: &mut [f32]| {
            let user = model.table(0).row(user);
            score_by_network(&network, &weights, user, model.table(1), items, scores)
        }))
    }
}

#[cfg(test)]
mod tests;
