//! Implements FedPerGNN, which predicts ratings from a graph that every device expands by anonymous
//! neighbours.
//!
//! A device knows its user's embedding, its ratings, and up to a hundred own items of them. Before
//! it trains, it asks a third party for neighbours, which are other users who have rated the same
//! items ([`matching`]). It then computes one gradient of the mean squared error over all of its
//! ratings through a network with attention to own items and neighbours ([`graph`], [`gradient`]).
//! It clips the gradient, moves the user's embedding by it, and uploads the rest among rows of
//! items that the user has not rated, with Laplace noise. The server steps by the mean over
//! devices, weighted by their numbers of ratings unless all are to weigh the same.
//!
//! Between participations a device keeps what it has gathered from its neighbours, which is one
//! vector for each own item, and not their embeddings. It scores with that: its attention to
//! neighbours is that of its last participation.
//!
//! Source: Wu, Wu, Lyu, Qi, Huang and Xie, A federated graph neural network framework for
//! privacy-preserving personalization, Nature Communications 2022, and the authors' code
//! wuch15/FedPerGNN at 290e966, which trains all users on one machine. That code adds noise to the
//! table once for all users of a batch. Here each device adds its own. Gradients are clipped on the
//! device instead of after the mean. With Laplace(0, 2 clip / epsilon) on each gradient, the mean
//! over 32 devices has the standard deviation of the published Laplace(0, 2 rate clip / (sqrt(32)
//! epsilon)). Noise in a thousand unrated rows of each device stands for noise in the whole table.
//!
//! Slips of that code are not followed: only the last own item gets neighbours there, and users are
//! looked up by the numbers of their items. Neighbours are users that the third party has already
//! heard of, and never the user itself.

use self::gradient::LocalData;
use self::graph::{Gathered, GraphNetwork, ITEM, OWN, Predictor, USER};
use self::matching::Matchmaker;
use super::declare::learn::layer_updates;
use super::prelude::*;
use super::third_party::{Exchange, Message, ThirdParty};
use super::user_vector::last_ratings;
use super::{network, without_effect};
use fedrecsim_model::neural::optimizer::sgd_step;

mod gradient;
mod graph;
mod matching;
#[cfg(test)]
mod tests;
mod upload;

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry::of::<FedPerGnn>();

parameters! {
    /// Parameters of FedPerGNN; the defaults are those of the published code.
    pub(crate) struct FedPerGnnParameters {
        /// Length k of all embeddings.
        latent_dimension: u32 = 64, >= 1, <= MAX_DIMENSION;
        /// The most own items of a device's graph, drawn once from those that the user has rated.
        own_items: u32 = 100, >= 1, <= 10_000;
        /// The most neighbours of each own item.
        neighbours_per_item: u32 = 100, >= 1, <= 10_000;
        /// How a rating follows from user and item.
        predictor: Predictor = Predictor::PublishedCode;
        /// Learning rate of devices and server.
        learning_rate: f64 = 0.01, > 0.0;
        /// The largest norm of a device's gradient; beyond it the gradient is scaled down.
        clip_norm: f64 = 0.1, > 0.0;
        /// Share of the values of user and item vectors that are dropped in training, anew for
        /// every rating.
        dropout: f64 = 0.2, >= 0, < 1.0;
        /// Number of unrated items that hide the rated ones in an upload.
        pseudo_items: u32 = 1_000, >= 0;
        /// Budget epsilon of the Laplace noise on uploads and on embeddings for the third party,
        /// whose scale is 2 `clip_norm` / epsilon for gradients. 0 adds no noise.
        epsilon: f64 = 1.0, >= 0;
        /// The rating that an output of 1 stands for.
        rating_scale: f64 = 5.0, > 0.0;
        /// Whether ratings are divided by 100 and cut down to integers, as the published code does:
        /// every label from 1 to 99 becomes 0.
        as_published_labels: bool = false;
        /// Whether all uploads weigh the same, which noise on the sum needs. Otherwise an upload
        /// says its number of ratings, and weighs as much.
        equal_weights: bool = false;
    }
}

/// The rating that the published code divides all ratings by.
const PUBLISHED_SCALE: f64 = 100.0;

/// The reach of the uniform distribution of initial embeddings, as in Keras.
const INITIAL_REACH: f64 = 0.05;

impl FedPerGnnParameters {
    /// Returns the scale of the Laplace noise on gradients.
    fn gradient_noise(&self) -> f64 {
        match self.epsilon > 0.0 {
            true => 2.0 * self.clip_norm / self.epsilon,
            false => 0.0,
        }
    }

    fn scale(&self) -> f64 {
        match self.as_published_labels {
            true => PUBLISHED_SCALE,
            false => self.rating_scale,
        }
    }

    fn label(&self, rating: f32) -> f32 {
        let label = f64::from(rating) / self.scale();
        match self.as_published_labels {
            true => label.trunc() as f32,
            false => label as f32,
        }
    }
}

/// Holds what all clients share.
#[derive(Debug)]
pub(crate) struct FedPerGnn {
    parameters: FedPerGnnParameters,
    streams: Streams,
    /// The randomness of what is the same at all times.
    starts: Streams,
    /// The key of the items' pseudonyms, which the third party does not have.
    key: [u8; 32],
}

impl FedPerGnn {
    fn dimension(&self) -> usize {
        self.parameters.latent_dimension as usize
    }

    fn network(&self, model: &Model) -> GraphNetwork {
        let values = network::parameters(model, 1);
        GraphNetwork::new(self.dimension(), self.parameters.predictor, values)
    }

    /// Draws the own items of the graph, as positions among the `rated` items of the user. They are
    /// the same at all times.
    fn own_items(&self, user: UserId, rated: &[u32]) -> Vec<u32> {
        let (name, user) = ("fedpergnn/own-items", u64::from(user.0));
        let mut own: Vec<u32> = (0..rated.len() as u32).collect();
        let mut stream = self.starts.named(name, user, 0);
        stream.keep_drawn(&mut own, self.parameters.own_items as usize);
        own
    }

    /// Draws the factors of dropout for this many ratings; there are none without dropout.
    fn dropout(&self, task: &LocalTask<'_>, ratings: usize) -> Vec<f32> {
        let share = self.parameters.dropout;
        let count = if share > 0.0 { ratings } else { 0 };
        let mut stream = task.named_stream("fedpergnn/dropout");
        let kept = (1.0 / (1.0 - share)) as f32;
        let draw = |_| match stream.open_unit() < share {
            true => 0.0,
            false => kept,
        };
        (0..2 * self.dimension() * count).map(draw).collect()
    }
}

impl Declare for FedPerGnn {
    type Parameters = FedPerGnnParameters;
    /// What the neighbours contributed in the last participation; empty before the first.
    type Memory = Remembered<Gathered>;

    const NAME: &str = "fedpergnn";
    const SUMMARY: &str = "rating prediction by a graph network on devices, which a third party \
                           tells of anonymous neighbours";
    const SOURCE: &str = "Wu et al., A federated graph neural network framework for \
                          privacy-preserving personalization, Nature Communications 2022; code \
                          wuch15/FedPerGNN 290e966";
    const FORMULA: &[&str] = &[
        "h_j = σ(W e_j),  n' = W n,  z_j = W [Σ_n φ(v · [h_j; n']) n'; h_j]   for own items j with neighbours n",
        "p = σ(W e_u),  α = softmax over j of φ(v · [p; z_j]),  g = W [Σ_j α_j h_j; p]",
        "r̂_i = c σ(v · [g; σ(W e_i)])   (every W and v is another one, with a bias; φ is a leaky rectifier)",
        "L = mean (r̂_i − r_i)² / c²",
    ];
    const DIFFERS: &str = "The code turns every rating from 1 to 99 into 0 (`as_published_labels`, \
                           which is off by default). It adds up what user and item contribute, so \
                           that all users get the same order (`predictor`; this is the default, \
                           and with `product` the two interact). It adds noise to the table once \
                           for all users of a batch and clips after the mean; here each device \
                           clips its own gradient and adds its own noise. Slips of the code are \
                           not followed: only the last own item gets neighbours there, users are \
                           looked up by the numbers of their items, and the bias of absent \
                           neighbours counts.";
    const PLACEMENT: Placement = Placement::Assisted;
    const DRAWS_NEGATIVES: bool = false;
    const PREDICTS_RATINGS: bool = true;
    const WITHOUT_CONTROLS: Option<&str> =
        Some("devices send gradients, with which the server makes the steps");

    fn resolve(p: &mut FedPerGnnParameters) -> Vec<ParameterFault> {
        let because = "`as_published_labels` divides ratings by 100";
        without_effect(p, &[("rating_scale", p.as_published_labels, because)])
    }

    fn new(parameters: FedPerGnnParameters, problem: &Problem) -> Self {
        let mut stream = problem.streams.named("fedpergnn/key", 0, 0);
        Self {
            key: std::array::from_fn(|_| stream.below(256) as u8),
            parameters,
            streams: problem.streams,
            starts: problem.starts,
        }
    }

    fn blocks(&self, size: ProblemSize) -> Vec<Block> {
        let (k, embedding) = (self.parameters.latent_dimension, uniform(INITIAL_REACH));
        let rule = ServerRule {
            rate: self.parameters.learning_rate,
            ..ServerRule::MEAN
        };
        let items = item_table("E", size.items, k).start(embedding.clone());
        let layers = graph::blocks(self.dimension(), self.parameters.predictor);
        let shared = [items].into_iter().chain(layers);
        let shared = shared.map(|block| block.as_gradient().rule(rule));
        let user = vector("user", k).private().start(embedding);
        shared.chain([user]).collect()
    }

    fn remembers(&self) -> &'static str {
        "what its neighbours contributed in the last participation"
    }

    fn is_weighed(&self) -> bool {
        !self.parameters.equal_weights
    }

    fn exchange(&self) -> Option<Exchange> {
        Some(self.parameters.exchange())
    }

    fn third_party(&self) -> Option<Box<dyn ThirdParty>> {
        let matchmaker = Matchmaker::new(self.parameters.clone(), self.streams);
        Some(Box::new(matchmaker))
    }

    fn request(&self, own: &Own<Self::Memory>, task: &LocalTask<'_>) -> Result<Message> {
        let (p, (rated, _)) = (&self.parameters, last_ratings(&task.own));
        let places = self.own_items(task.user, &rated).into_iter();
        let items: Vec<u32> = places.map(|place| rated[place as usize]).collect();
        // A step moves the embedding by the rate times a clipped gradient, and the noise follows
        // from that.
        let noise = p.learning_rate * p.gradient_noise();
        let mut embedding = own.get("user").to_vec();
        let stream = task.named_stream("fedpergnn/noise-of-embedding");
        upload::add_noise(&mut embedding, noise, stream);
        Ok(Message {
            update: p.request(&self.key, &items, embedding),
            work: Work::of_row_visits(items.len() as u64),
        })
    }

    fn train(
        &self,
        own: &mut Own<Remembered<Gathered>>,
        task: &LocalTask<'_>,
        _scratch: &mut Scratch,
    ) -> Result<Trained> {
        let (p, table) = (&self.parameters, table_of(task.model, "E"));
        let (items, ratings) = last_ratings(&task.own);
        let labels: Vec<f32> = ratings.iter().map(|rating| p.label(*rating)).collect();
        let own_items = self.own_items(task.user, &items);
        let neighbours = p.neighbours_in(task.reply, own_items.len());
        let network = self.network(task.model);
        let local = LocalData {
            user: own.get("user"),
            rows: &table.gathered(&items),
            labels: &labels,
            own: &own_items,
            neighbours: &neighbours,
            dropout: &self.dropout(task, labels.len()),
        };
        let (mut gradient, gathered) = local.gradient(&network);
        gradient.clip(p.clip_norm);
        task.check_values("gradient of the item embeddings", &gradient.rows)?;
        let embedding = own.get_mut("user");
        sgd_step(embedding, &gradient.user, p.learning_rate as f32, 0.0);
        task.check_values("the user's embedding", embedding)?;
        own.memory = Remembered(gathered);

        let of_items = upload::of_items(p, task, table.shape(), (&items, &gradient.rows))?;
        let stream = task.named_stream("fedpergnn/noise-of-network");
        upload::add_noise(&mut gradient.network, p.gradient_noise(), stream);
        task.check_values("gradient of the network, with noise", &gradient.network)?;
        let found = neighbours.iter().map(Vec::len).sum::<usize>() / network.dimension;
        let of_network = layer_updates(&network.layers, &gradient.network);
        let update = ModelUpdate::of_blocks([vec![of_items], of_network].concat());
        let work = Work {
            row_visits: labels.len() as u64,
            multiply_adds: network.multiply_adds(labels.len(), own_items.len(), found),
        };
        let update = update.weighing(labels.len() as f32);
        Ok(Trained::new(update, gradient.loss, work))
    }

    fn scorer<'a>(
        &'a self,
        own: &'a Own<Remembered<Gathered>>,
        context: ScoringContext<'a>,
    ) -> Scoring<'a> {
        let (network, table) = (self.network(context.model), table_of(context.model, "E"));
        let (rated, _) = last_ratings(&context.own);
        let items = self.own_items(context.user, &rated).into_iter();
        let rows = items.map(|place| table.row(rated[place as usize] as usize));
        let vectors: Vec<Vec<f32>> = rows.map(|row| network.activated(OWN, row)).collect();
        let expansion = network.expand(&vectors, &own.memory.0);
        let user = network.activated(USER, own.get("user"));
        let user = network.expand_user(&expansion, &user).vector;
        let scale = self.parameters.scale() as f32;
        Ok(Box::new(move |items: &[u32], scores: &mut [f32]| {
            for (item, score) in items.iter().zip(scores) {
                let item = network.activated(ITEM, table.row(*item as usize));
                *score = scale * network.output(&network.features(&user, &item));
            }
        }))
    }
}
