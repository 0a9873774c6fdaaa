//! Implements LightGCN at the server, which propagates embeddings along the ratings and learns to
//! score the positives of a user above other items.
//!
//! E has the embeddings of users and items, A is the adjacency matrix of the graph whose edges are
//! the ratings, and M = D^-1/2 A D^-1/2 normalises it by the degrees D. The vectors of users and
//! items are the mean of E, M E, M^2 E and M^3 E. The score of an item is the product of its vector
//! with the user's. For a batch of B triples of a user u, a positive i and a negative j, Adam
//! minimises over E
//!
//! ```text
//! (1 / B) sum over triples of ( -ln sigmoid(s_ui - s_uj) + (lambda / 2) (|E_u|^2 + |E_i|^2 + |E_j|^2) )
//! ```
//!
//! Every positive stands in a pass once with each of its negatives; the paper has one
//! (`dataset.negatives.per_positive`). A device scores with the vectors of the last pass.
//!
//! Source: He et al., LightGCN: Simplifying and Powering Graph Convolution Network for
//! Recommendation, SIGIR 2020; code `gusye1234/LightGCN-PyTorch` for the regulariser of the rows of
//! a batch.

use std::borrow::Cow;

use self::graph::{Graph, Layers};
use super::declare::score::pairwise;
use super::prelude::*;
use super::samples::Triple;
use super::{mf, network};
use fedrecsim_model::neural::dense::{add_scaled, dot};
use fedrecsim_model::neural::optimizer::{AdamParameters, AdamSettings};

mod graph;
#[cfg(test)]
mod tests;

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry::at_server::<LightGcn>();

choices! {
    /// Which ratings are edges of the graph.
    pub(crate) enum Edges {
        /// The ratings that users have sent.
        Train,
        /// These and the held-out test items: a leak, as no server has them. It shows what an
        /// accuracy is worth whose graph was built of all ratings. They are edges alone and never
        /// positives.
        TrainAndTest,
        /// The same, and the test items are positives to be trained on as well, as if nothing had
        /// been held out.
        TrainAndTestPositives,
    }
}

parameters! {
    /// Parameters of LightGCN.
    pub(crate) struct LightGcn {
        /// Latent dimension k.
        latent_dimension: u32 = 32, >= 1, <= MAX_DIMENSION;
        /// Number of layers that propagate embeddings.
        layers: u32 = 3, <= 16;
        /// Triples per batch.
        batch_size: u32 = 2048, >= 1;
        /// Learning rate of Adam.
        learning_rate: f64 = 1e-3, > 0.0;
        /// Weight lambda of the regulariser of a batch's embeddings.
        regularization: f64 = 1e-4, >= 0;
        /// Standard deviation of the embeddings at the start.
        deviation: f64 = 0.1, > 0.0;
        /// The edges of the graph.
        graph: Edges = Edges::Train;
    }
}

/// Holds the memory of one batch. Nothing passes from one batch to the next.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buffers {
    layers: Layers,
    /// The vectors of all nodes, and the gradient with respect to them.
    vectors: Vec<f32>,
    by_vectors: Vec<f32>,
}

impl LightGcn {
    /// Returns the shape of a propagation, which is the latent dimension and the number of layers.
    fn propagation(&self) -> (usize, u32) {
        (self.latent_dimension as usize, self.layers)
    }

    /// Returns the graph of what users have sent and, if the parameters say so, of the test items.
    fn edges(&self, ratings: &[UserRatings], problem: &Problem) -> Result<Graph> {
        let mut edges: Vec<(u32, u32)> = Vec::new();
        for sent in ratings {
            edges.extend(sent.items.iter().map(|item| (sent.user.0, *item)));
        }
        if self.graph == Edges::TrainAndTest {
            // The split sees to it that a test item is not among the user's training items.
            for user in 0..problem.users as u32 {
                let leaked = problem.leaked_test_items(UserId(user)).iter();
                edges.extend(leaked.map(|item| (user, *item)));
            }
        }
        Graph::new([problem.users, problem.items], &edges)
    }

    /// Returns what the server trains on: the ratings that users have sent and, if the parameters
    /// say so, the test items among them.
    fn trained_on<'a>(
        &self,
        ratings: &'a [UserRatings],
        problem: &Problem,
    ) -> Cow<'a, [UserRatings]> {
        if self.graph != Edges::TrainAndTestPositives {
            return Cow::Borrowed(ratings);
        }
        let with_leak = |sent: &UserRatings| {
            let mut sent = sent.clone();
            for item in problem.leaked_test_items(sent.user) {
                let place = sent.items.partition_point(|other| other < item);
                sent.items.insert(place, *item);
                // The size of a rating has no effect.
                sent.ratings.insert(place, 1.0);
            }
            sent
        };
        ratings.iter().map(with_leak).collect()
    }

    /// Makes one step of Adam on the loss of `batch`, and returns that loss without the
    /// regulariser, summed over the batch.
    fn step(
        &self,
        (parameters, memory): (&mut AdamParameters, &mut Buffers),
        users: usize,
        graph: &Graph,
        batch: &[Triple],
        adam: &AdamSettings,
    ) -> f64 {
        let propagation = self.propagation();
        let (k, _) = propagation;
        let Buffers {
            layers,
            vectors,
            by_vectors,
        } = memory;
        let AdamParameters {
            values, gradient, ..
        } = &mut *parameters;
        let rows = |triple: &Triple| triple.rows(users, k);
        graph.mean_of_layers(values, propagation, layers, vectors);
        by_vectors.clear();
        by_vectors.resize(values.len(), 0.0);
        let share = 1.0 / batch.len() as f32;
        let mut loss = 0.0;
        for triple in batch {
            let [user, positive, negative] = rows(triple);
            let [u, i, j] = [&user, &positive, &negative].map(|row| &vectors[row.clone()]);
            let (of_triple, slope) = pairwise(dot(u, i) - dot(u, j));
            loss += of_triple;
            let slope = slope * share;
            add_scaled(slope, i, &mut by_vectors[user.clone()]);
            add_scaled(-slope, j, &mut by_vectors[user]);
            add_scaled(slope, u, &mut by_vectors[positive]);
            add_scaled(-slope, u, &mut by_vectors[negative]);
        }
        graph.mean_of_layers(by_vectors, propagation, layers, gradient);
        let regularization = self.regularization as f32 * share;
        for row in batch.iter().flat_map(rows) {
            add_scaled(regularization, &values[row.clone()], &mut gradient[row]);
        }
        parameters.step(adam);
        loss
    }
}

impl Central for LightGcn {
    type Parameters = Self;
    type Memory = AdamParameters;

    const NAME: &str = "lightgcn";
    const SUMMARY: &str = "centralised graph convolution (LightGCN): users send their ratings \
                           once, embeddings travel along them";
    const SOURCE: &str = "He et al., LightGCN: Simplifying and Powering Graph Convolution Network \
                          for Recommendation, SIGIR 2020";
    const FORMULA: &[&str] = &[
        "s_ui = U_u · V_i,  [U; V] = (E + M E + M² E + M³ E) / 4,  M = D^−½ A D^−½",
        "L = mean (−ln σ(s_ui − s_uj) + ½ λ (‖E_u‖² + ‖E_i‖² + ‖E_j‖²)) over triples of a positive i and a negative j, by Adam",
    ];
    const DIFFERS: &str = "The regulariser is that of the code gusye1234/LightGCN-PyTorch, over \
                           the embeddings of a batch. The paper has one negative for each positive \
                           (`dataset.negatives.per_positive`).";

    fn new(parameters: Self, _problem: &Problem) -> Self {
        parameters
    }

    /// The vectors to score with, U and V, stand before the embeddings.
    fn blocks(&self, size: ProblemSize) -> Vec<Block> {
        let vectors = mf::tables(size, self.latent_dimension, self.deviation);
        let embeddings = vectors.clone().into_iter().map(|mut block| {
            block.layout.name = format!("{}0", block.name()).into();
            block
        });
        let vectors = vectors.into_iter().map(|block| block.start(constant(0.0)));
        vectors.chain(embeddings).collect()
    }

    /// The embeddings are the vectors as well until there is a graph.
    fn initial(&self, mut drawn: Model) -> Model {
        let embeddings = network::parameters(&drawn, 2);
        network::set(&mut drawn, 0, &embeddings.repeat(2));
        drawn
    }

    fn memory(&self, model: &Model) -> AdamParameters {
        AdamParameters::new(network::parameters(model, 2))
    }

    fn pass(&self, mut pass: Pass<'_, AdamParameters>) -> Result<StepReport> {
        let ratings = &*self.trained_on(pass.ratings, pass.problem);
        let graph = self.edges(ratings, pass.problem)?;
        let triples = pass.triples(ratings, "lightgcn")?;
        let adam = AdamSettings::with_rate(self.learning_rate);
        let (users, propagation) = (pass.problem.users, self.propagation());
        let (mut buffers, mut propagations) = (Buffers::default(), 1);
        let batches = (&triples[..], self.batch_size);
        let report = pass.by_batches((2, "the embeddings"), batches, 3, |values, batch| {
            propagations += 2;
            self.step((values, &mut buffers), users, &graph, batch, &adam)
        })?;
        let (embeddings, vectors) = (&pass.memory.values, &mut buffers.vectors);
        graph.mean_of_layers(embeddings, propagation, &mut buffers.layers, vectors);
        pass.step
            .check_magnitude("the vectors", largest_magnitude(vectors))?;
        network::set(pass.model, 0, &[&vectors[..], embeddings].concat());
        Ok(StepReport {
            multiply_adds: propagations * graph.multiply_adds(propagation.0, propagation.1),
            ..report
        })
    }
}
