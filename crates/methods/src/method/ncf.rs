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

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::central::{CentralMethod, CentralScoring, CentralTrainer, UserRatings};
use super::fedncf::HIDDEN_UNITS;
use super::samples::{self, Sample};
use super::server::{StepContext, StepReport};
use super::{
    Entry, Placement, Problem, Scorer, ScoringContext, Scratch, largest_magnitude, network,
    parameters, sizes_by,
};
use fedrecsim_core::error::Result;
use fedrecsim_core::rng::{PortableDraws, Purpose};
use fedrecsim_model::model::blocks::Model;
use fedrecsim_model::model::kernel::MAX_DIMENSION;
use fedrecsim_model::model::layout::{BlockLayout, Layout};
use fedrecsim_model::model::neural::loss::{Targets, binary_cross_entropy};
use fedrecsim_model::model::neural::optimizer::{AdamParameters, AdamSettings};
use fedrecsim_model::model::neural::{Perceptron, PerceptronBuffers};
use fedrecsim_model::model::state::StateVisitor;
use fedrecsim_model::model::table::TableShape;

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry {
    name: "ncf",
    summary: "centralised neural collaborative filtering: users send their ratings once, the server trains by Adam",
    source: "He et al., Neural Collaborative Filtering, WWW 2017 (the network without the product of embeddings)",
    schema: &|| schemars::schema_for!(NcfParameters),
    resolve: &|_| Vec::new(),
    placement: Placement::Central,
    draws_negatives: true,
    sizes: &|value, size| sizes_by(value, |p: NcfParameters| p.layout([size.users, size.items])),
    build: &|value, problem| {
        Ok(Box::new(Ncf {
            parameters: parameters("ncf", value)?,
            problem: problem.clone(),
        }))
    },
};

/// Parameters of neural collaborative filtering at the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct NcfParameters {
    /// Latent dimension k.
    #[schemars(range(min = 1, max = MAX_DIMENSION))]
    pub latent_dimension: u32,
    /// Samples per batch.
    #[schemars(range(min = 1))]
    pub batch_size: u32,
    /// Learning rate of Adam.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub learning_rate: f64,
    /// Standard deviation of embeddings and weights at the start.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub deviation: f64,
}

impl Default for NcfParameters {
    fn default() -> Self {
        Self {
            latent_dimension: 32,
            batch_size: 256,
            learning_rate: 1e-3,
            deviation: 0.01,
        }
    }
}

impl NcfParameters {
    /// Returns the network, which has `common` inputs that all samples share besides `own` inputs
    /// of each.
    fn network(&self, common: u32, own: u32) -> Perceptron {
        let [first, second, third] = HIDDEN_UNITS;
        Perceptron::new(common as usize, &[own as usize, first, second, third, 1])
    }

    /// Returns the layout of the embeddings and the network for these numbers of users and items.
    fn layout(&self, [users, items]: [usize; 2]) -> Layout {
        let k = self.latent_dimension;
        let embeddings = BlockLayout::weights("U", TableShape::of_items(users, k));
        let others = network::layout("V", TableShape::of_items(items, k), &self.network(0, 2 * k));
        Layout::new(
            [embeddings]
                .into_iter()
                .chain(others.blocks().iter().cloned())
                .collect(),
        )
    }
}

/// The position of the item table and that of the network's first block among the blocks of the
/// model.
const ITEMS: usize = 1;
const NETWORK: usize = 2;

/// Holds the parameters of the method and the problem.
#[derive(Debug)]
pub(crate) struct Ncf {
    parameters: NcfParameters,
    problem: Problem,
}

impl CentralMethod for Ncf {
    type Scoring = NcfScoring;

    fn items(&self) -> usize {
        self.problem.items
    }

    /// Draws embeddings and weights from N(0, deviation^2). Biases are zero.
    fn trainer(&self) -> Box<dyn CentralTrainer> {
        let Problem {
            users,
            items,
            streams,
            ..
        } = self.problem;
        let mut stream = streams.stream(Purpose::GlobalInit, 0, 0);
        let mut draw = || (stream.standard_normal() * self.parameters.deviation) as f32;
        let layout = self.parameters.layout([users, items]);
        let mut values = Vec::new();
        for block in layout.blocks() {
            let is_bias = block.name.starts_with('b');
            values.extend((0..block.shape.values()).map(|_| if is_bias { 0.0 } else { draw() }));
        }
        Box::new(Trainer::new(
            self.parameters.clone(),
            self.problem.clone(),
            values,
        ))
    }

    fn scoring(&self) -> NcfScoring {
        let k = self.parameters.latent_dimension;
        NcfScoring {
            network: self.parameters.network(k, k),
        }
    }
}

/// Scores with the server's network, whose inputs from the user's embedding are the same for all
/// items.
#[derive(Clone, Debug)]
pub(crate) struct NcfScoring {
    network: Perceptron,
}

impl CentralScoring for NcfScoring {
    fn scorer<'a>(
        &'a self,
        context: &ScoringContext<'a>,
        _scratch: &mut Scratch,
    ) -> Result<Box<dyn Scorer + 'a>> {
        let ScoringContext { user, model, .. } = *context;
        let parameters = network::parameters(model, NETWORK);
        Ok(Box::new(move |items: &[u32], scores: &mut [f32]| {
            let embedding = model.table(0).row(user.index());
            network::score(
                &self.network,
                &parameters,
                embedding,
                model.table(ITEMS),
                items,
                scores,
            );
        }))
    }
}

/// Trains embeddings and network on the ratings.
struct Trainer {
    parameters: NcfParameters,
    problem: Problem,
    network: Perceptron,
    /// The embeddings of the users, those of the items and the network, one after the other.
    values: AdamParameters,
    /// The model of the values after the last pass.
    model: Model,
    buffers: Buffers,
}

/// Holds the memory of one batch. Nothing passes from one batch to the next but the list of rows to
/// clear.
#[derive(Default)]
struct Buffers {
    network: PerceptronBuffers,
    targets: Targets,
    /// Both embeddings of a sample.
    inputs: Vec<f32>,
    /// The rows of embeddings whose gradient is not zero.
    touched: Vec<usize>,
}

impl Trainer {
    fn new(parameters: NcfParameters, problem: Problem, values: Vec<f32>) -> Self {
        let network = parameters.network(0, 2 * parameters.latent_dimension);
        let model = network::model(parameters.layout([problem.users, problem.items]), &values);
        let (values, buffers) = (AdamParameters::new(values), Buffers::default());
        Self {
            parameters,
            problem,
            network,
            values,
            model,
            buffers,
        }
    }

    /// Makes one step of Adam on the mean binary cross-entropy of `batch`, and returns that loss as
    /// a sum over the batch. All embeddings are stepped, as dense ones are in PyTorch.
    fn step(&mut self, batch: &[Sample], adam: &AdamSettings) -> f32 {
        let (k, users) = (
            self.parameters.latent_dimension as usize,
            self.problem.users,
        );
        let rows = |sample: &Sample| {
            [sample.user as usize, users + sample.item as usize].map(|row| row * k..(row + 1) * k)
        };
        let Buffers {
            network: buffers,
            targets,
            inputs,
            touched,
        } = &mut self.buffers;
        let AdamParameters {
            values, gradient, ..
        } = &mut self.values;
        let (embeddings, weights) = values.split_at((users + self.problem.items) * k);
        let (by_embeddings, by_weights) = gradient.split_at_mut(embeddings.len());
        targets.clear();
        buffers.inputs_mut().reset(batch.len(), 2 * k);
        for (number, sample) in batch.iter().enumerate() {
            inputs.clear();
            rows(sample)
                .into_iter()
                .for_each(|row| inputs.extend_from_slice(&embeddings[row]));
            buffers.inputs_mut().set_sample(number, inputs);
            targets.push(1.0, f32::from(sample.is_positive));
        }
        self.network.forward(weights, &[], buffers);
        let (logits, by_logits) = buffers.outputs_and_gradient();
        let loss = binary_cross_entropy(logits, targets, 1.0 / batch.len() as f32, by_logits);
        self.network
            .backward(weights, &[], buffers, by_weights, &mut []);
        touched
            .drain(..)
            .for_each(|start| by_embeddings[start..start + k].fill(0.0));
        for (number, sample) in batch.iter().enumerate() {
            buffers.input_gradient().read_sample(number, inputs);
            for (row, slopes) in rows(sample).into_iter().zip(inputs.chunks_exact(k)) {
                touched.push(row.start);
                by_embeddings[row]
                    .iter_mut()
                    .zip(slopes)
                    .for_each(|(sum, slope)| *sum += slope);
            }
        }
        self.values.step(adam);
        loss
    }
}

impl CentralTrainer for Trainer {
    fn model(&self) -> &Model {
        &self.model
    }

    fn set_model(&mut self, model: Model) -> Result<()> {
        self.model.check_same_layout(&model)?;
        self.values.values = network::parameters(&model, 0);
        self.model = model;
        Ok(())
    }

    fn pass(&mut self, ratings: &[UserRatings], step: &StepContext<'_>) -> Result<StepReport> {
        let rated = (ratings, self.problem.items);
        let samples = samples::draw(&self.problem.protocol, rated, step, "ncf")?;
        let adam = AdamSettings::with_rate(self.parameters.learning_rate);
        let (mut loss, mut multiply_adds) = (0.0, 0);
        for batch in samples.chunks(self.parameters.batch_size as usize) {
            loss += f64::from(self.step(batch, &adam));
            multiply_adds += 3 * self.network.multiply_adds(batch.len());
        }
        step.check_magnitude(
            "the embeddings or the network",
            largest_magnitude(&self.values.values),
        )?;
        if !loss.is_finite() {
            return Err(step.diverged("the loss", loss as f32));
        }
        self.model = network::model(self.model.layout().clone(), &self.values.values);
        let (row_visits, loss) = (2 * samples.len() as u64, loss / samples.len() as f64);
        let loss = (!samples.is_empty()).then_some(loss);
        Ok(StepReport {
            row_visits,
            multiply_adds,
            loss,
            ..StepReport::default()
        })
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        self.values.visit_memory(state)
    }
}

#[cfg(test)]
mod tests;
