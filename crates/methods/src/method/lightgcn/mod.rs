//! Implements LightGCN at the server, which propagates embeddings along the ratings and learns to
//! score the positives of a user above other items.
//!
//! With the embeddings E of users and items and the adjacency matrix A of the graph whose edges are
//! their ratings, normalised to M = D^-1/2 A D^-1/2 by the degrees D, the vectors of users and
//! items are the mean of E, M E, M^2 E and M^3 E. The score of an item is the product of its vector
//! with the user's. For a batch of B triples of a user u, a positive i and a negative j, Adam
//! minimises over E
//!
//! ```text
//! (1 / B) sum over triples of ( -ln sigmoid(s_ui - s_uj) + (lambda / 2) (|E_u|^2 + |E_i|^2 + |E_j|^2) )
//! ```
//!
//! Every positive stands in a pass once with each of its negatives, of which the paper has one
//! (`dataset.negatives.per_positive`). A device scores with the vectors of the last pass.
//!
//! Source: He et al., LightGCN: Simplifying and Powering Graph Convolution Network for
//! Recommendation, SIGIR 2020; code `gusye1234/LightGCN-PyTorch` for the regulariser of the rows of
//! a batch.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::graph::{Graph, Layers};
use super::central::{CentralMethod, CentralTrainer, ScoreFunction, UserRatings};
use super::pairs::{self, Triple, loss_and_slope};
use super::server::{StepContext, StepReport};
use super::{Entry, Placement, Problem, largest_magnitude, mf, network, parameters, sizes_by};
use fedrecsim_core::error::Result;
use fedrecsim_core::ids::UserId;
use fedrecsim_core::rng::{PortableDraws, Purpose};
use fedrecsim_model::model::blocks::Model;
use fedrecsim_model::model::kernel::MAX_DIMENSION;
use fedrecsim_model::model::layout::{BlockLayout, Layout};
use fedrecsim_model::model::neural::dense::{add_scaled, dot};
use fedrecsim_model::model::neural::optimizer::{AdamParameters, AdamSettings};
use fedrecsim_model::model::state::StateVisitor;

mod graph;
#[cfg(test)]
mod tests;

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry {
    name: "lightgcn",
    summary: "centralised graph convolution (LightGCN): users send their ratings once, embeddings travel along them",
    source: "He et al., LightGCN: Simplifying and Powering Graph Convolution Network for Recommendation, SIGIR 2020",
    schema: &|| schemars::schema_for!(LightGcnParameters),
    resolve: &|_| Vec::new(),
    placement: Placement::Central,
    draws_negatives: true,
    sizes: &|value, size| {
        sizes_by(value, |p: LightGcnParameters| {
            p.layout([size.users, size.items])
        })
    },
    build: &|value, problem| {
        Ok(Box::new(LightGcn {
            parameters: parameters("lightgcn", value)?,
            problem: problem.clone(),
        }))
    },
};

/// Parameters of LightGCN.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LightGcnParameters {
    /// Latent dimension k.
    #[schemars(range(min = 1, max = MAX_DIMENSION))]
    pub latent_dimension: u32,
    /// Number of layers, by which embeddings are propagated.
    #[schemars(range(max = 16))]
    pub layers: u32,
    /// Triples per batch.
    #[schemars(range(min = 1))]
    pub batch_size: u32,
    /// Learning rate of Adam.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub learning_rate: f64,
    /// Weight lambda of the regulariser of a batch's embeddings.
    #[schemars(range(min = 0))]
    pub regularization: f64,
    /// Standard deviation of the embeddings at the start.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub deviation: f64,
    /// The edges of the graph.
    pub graph: Edges,
}

/// Which ratings are edges of the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Edges {
    /// The ratings that users have sent.
    Train,
    /// These and the held-out test items: a leak, as no server has them. It shows what an accuracy
    /// is worth whose graph was built of all ratings. They are edges alone and never positives.
    TrainAndTest,
    /// The same, and the test items are positives to be trained on as well, as if nothing had been
    /// held out.
    TrainAndTestPositives,
}

impl Default for LightGcnParameters {
    fn default() -> Self {
        Self {
            latent_dimension: 32,
            layers: 3,
            batch_size: 2048,
            learning_rate: 1e-3,
            regularization: 1e-4,
            deviation: 0.1,
            graph: Edges::Train,
        }
    }
}

impl LightGcnParameters {
    /// Returns the layout of the vectors to score with, followed by that of the embeddings.
    fn layout(&self, sizes: [usize; 2]) -> Layout {
        let vectors = mf::layout(sizes, self.latent_dimension as usize);
        let embedding = |block: &BlockLayout| BlockLayout {
            name: format!("{}0", block.name).into(),
            ..block.clone()
        };
        let embeddings = vectors.blocks().iter().map(embedding);
        Layout::new(vectors.blocks().iter().cloned().chain(embeddings).collect())
    }
}

/// Holds the parameters of the method and the problem.
#[derive(Debug)]
pub(crate) struct LightGcn {
    parameters: LightGcnParameters,
    problem: Problem,
}

impl CentralMethod for LightGcn {
    type Scoring = ScoreFunction;

    fn items(&self) -> usize {
        self.problem.items
    }

    /// Draws the embeddings from N(0, deviation^2). They are the vectors as well until there is a
    /// graph.
    fn trainer(&self) -> Box<dyn CentralTrainer> {
        let mut stream = self.problem.streams.stream(Purpose::GlobalInit, 0, 0);
        let draw = |_| (stream.standard_normal() * self.parameters.deviation) as f32;
        let rows = self.problem.users + self.problem.items;
        let values = (0..rows * self.parameters.latent_dimension as usize)
            .map(draw)
            .collect();
        Box::new(Trainer::new(
            self.parameters.clone(),
            self.problem.clone(),
            values,
        ))
    }

    fn scoring(&self) -> ScoreFunction {
        mf::score
    }
}

/// Trains the embeddings.
struct Trainer {
    parameters: LightGcnParameters,
    problem: Problem,
    /// The embeddings of the users and then those of the items.
    embeddings: AdamParameters,
    /// The model after the last pass.
    model: Model,
    buffers: Buffers,
}

/// Holds the memory of one batch. Nothing passes from one batch to the next.
#[derive(Default)]
struct Buffers {
    layers: Layers,
    /// The vectors of all nodes, and the gradient with respect to them.
    vectors: Vec<f32>,
    by_vectors: Vec<f32>,
}

impl Trainer {
    fn new(parameters: LightGcnParameters, problem: Problem, embeddings: Vec<f32>) -> Self {
        let layout = parameters.layout([problem.users, problem.items]);
        let model = model(layout, [&embeddings, &embeddings]);
        Self {
            parameters,
            problem,
            embeddings: AdamParameters::new(embeddings),
            model,
            buffers: Buffers::default(),
        }
    }

    /// Returns the shape of a propagation, which is the latent dimension and the number of layers.
    fn propagation(&self) -> (usize, u32) {
        (
            self.parameters.latent_dimension as usize,
            self.parameters.layers,
        )
    }

    /// Returns the graph of what users have sent and, if the parameters say so, of the test items.
    fn graph(&self, ratings: &[UserRatings]) -> Result<Graph> {
        let sent = |sent: &UserRatings| {
            sent.items
                .iter()
                .map(move |item| (sent.user.0, *item))
                .collect::<Vec<_>>()
        };
        let mut edges: Vec<(u32, u32)> = ratings.iter().flat_map(sent).collect();
        if self.parameters.graph == Edges::TrainAndTest {
            // The split sees to it that a test item is not among the user's training items.
            let leaked = |user: u32| Some((user, self.leaked_item(UserId(user))?));
            edges.extend((0..self.problem.users as u32).filter_map(leaked));
        }
        Graph::new([self.problem.users, self.problem.items], &edges)
    }

    fn leaked_item(&self, user: UserId) -> Option<u32> {
        self.problem.protocol.leaked_test_item(user)
    }

    /// Returns what the server trains on: the ratings that users have sent and, if the parameters
    /// say so, the test items among them.
    fn trained_on<'a>(&self, ratings: &'a [UserRatings]) -> Cow<'a, [UserRatings]> {
        if self.parameters.graph != Edges::TrainAndTestPositives {
            return Cow::Borrowed(ratings);
        }
        let with_leak = |sent: &UserRatings| {
            let mut sent = sent.clone();
            if let Some(item) = self.leaked_item(sent.user) {
                let place = sent.items.partition_point(|other| *other < item);
                sent.items.insert(place, item);
                // The size of a rating has no effect.
                sent.ratings.insert(place, 1.0);
            }
            sent
        };
        ratings.iter().map(with_leak).collect()
    }

    /// Makes one step of Adam on the loss of `batch`, and returns that loss without the
    /// regulariser, summed over the batch.
    fn step(&mut self, graph: &Graph, batch: &[Triple], adam: &AdamSettings) -> f64 {
        let ((k, _), propagation, users) =
            (self.propagation(), self.propagation(), self.problem.users);
        let Buffers {
            layers,
            vectors,
            by_vectors,
        } = &mut self.buffers;
        let AdamParameters {
            values, gradient, ..
        } = &mut self.embeddings;
        let row = |row: usize| row * k..(row + 1) * k;
        let rows = |triple: &Triple| {
            let Triple {
                user,
                positive,
                negative,
            } = *triple;
            [
                user as usize,
                users + positive as usize,
                users + negative as usize,
            ]
            .map(row)
        };
        graph.mean_of_layers(values, propagation, layers, vectors);
        by_vectors.clear();
        by_vectors.resize(values.len(), 0.0);
        let share = 1.0 / batch.len() as f32;
        let mut loss = 0.0;
        for triple in batch {
            let [user, positive, negative] = rows(triple);
            let [u, i, j] = [&user, &positive, &negative].map(|row| &vectors[row.clone()]);
            let (of_triple, slope) = loss_and_slope(dot(u, i) - dot(u, j));
            loss += of_triple;
            let slope = slope * share;
            add_scaled(slope, i, &mut by_vectors[user.clone()]);
            add_scaled(-slope, j, &mut by_vectors[user]);
            add_scaled(slope, u, &mut by_vectors[positive]);
            add_scaled(-slope, u, &mut by_vectors[negative]);
        }
        graph.mean_of_layers(by_vectors, propagation, layers, gradient);
        let regularization = self.parameters.regularization as f32 * share;
        for row in batch.iter().flat_map(rows) {
            add_scaled(regularization, &values[row.clone()], &mut gradient[row]);
        }
        self.embeddings.step(adam);
        loss
    }
}

/// Returns the model of the vectors and the embeddings of users and items.
fn model(layout: Layout, values: [&[f32]; 2]) -> Model {
    let pairs = layout.blocks().chunks_exact(2).zip(values);
    let cut = |(blocks, values): (&[BlockLayout], _)| {
        network::cut(blocks.iter().map(|block| block.shape), values)
    };
    let tables = pairs.flat_map(cut).collect();
    network::model_of(layout, tables)
}

impl CentralTrainer for Trainer {
    fn model(&self) -> &Model {
        &self.model
    }

    fn set_model(&mut self, model: Model) -> Result<()> {
        self.model.check_same_layout(&model)?;
        self.embeddings.values = network::parameters(&model, 2);
        self.model = model;
        Ok(())
    }

    fn pass(&mut self, ratings: &[UserRatings], step: &StepContext<'_>) -> Result<StepReport> {
        let ratings = &*self.trained_on(ratings);
        let graph = self.graph(ratings)?;
        let triples = pairs::draw(
            &self.problem.protocol,
            (ratings, self.problem.items),
            step,
            "lightgcn",
        )?;
        let adam = AdamSettings::with_rate(self.parameters.learning_rate);
        let batches = triples.chunks(self.parameters.batch_size as usize);
        let propagations = 2 * batches.len() as u64 + 1;
        let loss: f64 = batches.map(|batch| self.step(&graph, batch, &adam)).sum();
        let (
            propagation,
            Buffers {
                layers, vectors, ..
            },
        ) = (self.propagation(), &mut self.buffers);
        graph.mean_of_layers(&self.embeddings.values, propagation, layers, vectors);
        step.check_magnitude("the embeddings", largest_magnitude(&self.embeddings.values))?;
        step.check_magnitude("the vectors", largest_magnitude(vectors))?;
        self.model = model(
            self.model.layout().clone(),
            [vectors, &self.embeddings.values],
        );
        let multiply_adds = propagations * graph.multiply_adds(propagation.0, propagation.1);
        Ok(StepReport {
            multiply_adds,
            ..pairs::report(&triples, loss)
        })
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        self.embeddings.visit_memory(state)
    }
}
