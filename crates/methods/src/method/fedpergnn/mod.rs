//! Implements FedPerGNN, which predicts ratings from a graph that every device expands by anonymous
//! neighbours.
//!
//! A device knows its user's embedding, its ratings, and up to a hundred own items of them. Before
//! it trains, it asks a third party for neighbours, which are other users who have rated the same
//! items ([`matching`]). It then computes one gradient of the mean squared error over all of its
//! ratings through a network with attention to own items and neighbours ([`graph`], [`gradient`]),
//! clips it, moves the user's embedding by it, and uploads the rest among rows of items that the
//! user has not rated, with Laplace noise. The server steps by the mean over devices, weighted by
//! their numbers of ratings unless all are to weigh the same.
//!
//! Between participations a device keeps what it has gathered from its neighbours, which is one
//! vector for each own item, and not their embeddings. It scores with that: its attention to
//! neighbours is that of its last participation.
//!
//! Source: Wu, Wu, Lyu, Qi, Huang and Xie, A federated graph neural network framework for
//! privacy-preserving personalization, Nature Communications 2022, and the authors' code
//! wuch15/FedPerGNN at 290e966, which trains all users on one machine. What it adds to the table
//! once for all users of a batch, devices add here. Gradients are clipped on the device instead of
//! after the mean. With Laplace(0, 2 clip / epsilon) on each gradient, the mean over 32 devices has
//! the standard deviation of the published Laplace(0, 2 rate clip / (sqrt(32) epsilon)). Noise in a
//! thousand unrated rows of each device stands for noise in the whole table.
//!
//! Slips of that code are not followed: only the last own item gets neighbours there, and users are
//! looked up by the numbers of their items. Neighbours are the users whom the third party has
//! already heard of, and never the user itself.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::gradient::Participation;
use self::graph::{Gathered, GraphNetwork, ITEM, Predictor, USER};
use self::matching::{Matchmaker, Sizes};
use super::network;
use super::rule::ServerRule;
use super::third_party::{Exchange, LocalRequest};
use super::user_vector::collect_last_ratings;
use super::{
    Averager, Client, Entry, LocalTask, LocalUpdate, Method, Phase, Placement, Problem, Scorer,
    ScoringContext, Scratch, Server, ThirdParty, largest_magnitude, parameters, sizes_by,
};
use fedrecsim_core::error::Result;
use fedrecsim_core::ids::UserId;
use fedrecsim_core::rng::{PortableDraws, Purpose, Stream, Streams};
use fedrecsim_core::work::Work;
use fedrecsim_data::dataset::OwnData;
use fedrecsim_model::model::blocks::{Model, ModelUpdate};
use fedrecsim_model::model::kernel::MAX_DIMENSION;
use fedrecsim_model::model::layout::{BlockLayout, Layout};
use fedrecsim_model::model::private::Private;
use fedrecsim_model::model::state::StateVisitor;
use fedrecsim_model::model::table::{TableShape, TableUpdate};
use fedrecsim_scenario::scenario::ParameterFault;

pub mod gradient;
pub mod graph;
mod matching;
#[cfg(test)]
mod tests;
mod upload;

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry {
    name: "fedpergnn",
    summary: "rating prediction by a graph network on devices, which a third party tells of anonymous neighbours",
    source: "Wu et al., A federated graph neural network framework for privacy-preserving personalization, Nature \
             Communications 2022; code wuch15/FedPerGNN 290e966",
    schema: &|| schemars::schema_for!(FedPerGnnParameters),
    resolve: &without_effect,
    placement: Placement::Assisted,
    draws_negatives: false,
    sizes: &|value, size| sizes_by(value, |p: FedPerGnnParameters| p.layout(size.items)),
    build: &|value, problem| {
        Ok(Box::new(FedPerGnn::new(
            parameters("fedpergnn", value)?,
            problem,
        )))
    },
};

/// Parameters of FedPerGNN; the defaults are those of the published code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct FedPerGnnParameters {
    /// Length k of all embeddings.
    #[schemars(range(min = 1, max = MAX_DIMENSION))]
    pub latent_dimension: u32,
    /// The most own items of a device's graph, drawn once from those that the user has rated.
    #[schemars(range(min = 1, max = 10_000))]
    pub own_items: u32,
    /// The most neighbours of each own item.
    #[schemars(range(min = 1, max = 10_000))]
    pub neighbours_per_item: u32,
    /// How a rating follows from user and item.
    pub predictor: Predictor,
    /// Learning rate of devices and server.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub learning_rate: f64,
    /// The largest norm of a device's gradient; beyond it the gradient is scaled down.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub clip_norm: f64,
    /// Share of the values of user and item vectors that are dropped in training, anew for every
    /// rating.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1.0))]
    pub dropout: f64,
    /// Number of unrated items with which an upload hides the rated ones.
    #[schemars(range(min = 0))]
    pub pseudo_items: u32,
    /// Budget epsilon of the Laplace noise on uploads and on embeddings for the third party, whose
    /// scale is 2 `clip_norm` / epsilon for gradients. 0 adds no noise.
    #[schemars(range(min = 0))]
    pub epsilon: f64,
    /// The rating that an output of 1 stands for.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub rating_scale: f64,
    /// Whether ratings are divided by 100 and cut down to integers, as the published code does, by
    /// which every label from 1 to 99 becomes 0.
    pub as_published_labels: bool,
    /// Whether all uploads weigh the same, which noise on the sum needs. Otherwise an upload says
    /// its number of ratings, and weighs as much.
    pub equal_weights: bool,
}

impl Default for FedPerGnnParameters {
    fn default() -> Self {
        Self {
            latent_dimension: 64,
            own_items: 100,
            neighbours_per_item: 100,
            predictor: Predictor::PublishedCode,
            learning_rate: 0.01,
            clip_norm: 0.1,
            dropout: 0.2,
            pseudo_items: 1_000,
            epsilon: 1.0,
            rating_scale: 5.0,
            as_published_labels: false,
            equal_weights: false,
        }
    }
}

/// The rating that the published code divides all ratings by.
const PUBLISHED_SCALE: f64 = 100.0;

/// The reach of the uniform distribution from which embeddings start, which is Keras's.
const INITIAL_REACH: f64 = 0.05;

impl FedPerGnnParameters {
    fn network(&self) -> GraphNetwork {
        GraphNetwork::new(self.latent_dimension as usize, self.predictor)
    }

    fn sizes(&self) -> Sizes {
        Sizes {
            own_items: self.own_items as usize,
            neighbours: self.neighbours_per_item as usize,
            dimension: self.latent_dimension as usize,
        }
    }

    /// Returns the layout of the model for this many items.
    fn layout(&self, items: usize) -> Layout {
        let embeddings =
            BlockLayout::item_table("E", TableShape::of_items(items, self.latent_dimension));
        Layout::new(
            [embeddings]
                .into_iter()
                .chain(self.network().blocks())
                .collect(),
        )
    }

    /// Returns the scale of the Laplace noise on gradients.
    fn gradient_noise(&self) -> f64 {
        if self.epsilon > 0.0 {
            2.0 * self.clip_norm / self.epsilon
        } else {
            0.0
        }
    }

    fn scale(&self) -> f64 {
        if self.as_published_labels {
            PUBLISHED_SCALE
        } else {
            self.rating_scale
        }
    }

    fn label(&self, rating: f32) -> f32 {
        let label = f64::from(rating) / self.scale();
        (if self.as_published_labels {
            label.trunc()
        } else {
            label
        }) as f32
    }
}

/// Returns the parameters that others leave without an effect.
fn without_effect(value: &mut Value) -> Vec<ParameterFault> {
    let Ok(p) = serde_json::from_value::<FedPerGnnParameters>(value.clone()) else {
        return Vec::new();
    };
    let is_written = p.rating_scale != FedPerGnnParameters::default().rating_scale;
    let because = "`as_published_labels` divides ratings by 100";
    let fault = || ParameterFault::without_effect("rating_scale", because);
    (p.as_published_labels && is_written)
        .then(fault)
        .into_iter()
        .collect()
}

/// Holds what all clients share.
#[derive(Debug)]
pub(crate) struct FedPerGnn {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    parameters: FedPerGnnParameters,
    network: GraphNetwork,
    layout: Layout,
    streams: Streams,
    /// The key of the items' pseudonyms, which the third party does not have.
    key: [u8; 32],
}

impl FedPerGnn {
    /// Makes the method for a problem of this size.
    pub(crate) fn new(parameters: FedPerGnnParameters, problem: &Problem) -> Self {
        let mut stream = problem.streams.named("fedpergnn/key", 0, 0);
        let key = std::array::from_fn(|_| stream.below(256) as u8);
        let (network, layout) = (parameters.network(), parameters.layout(problem.items));
        Self {
            shared: Arc::new(Shared {
                network,
                layout,
                parameters,
                streams: problem.streams,
                key,
            }),
        }
    }
}

fn initial_embedding(stream: &mut Stream, values: usize) -> Vec<f32> {
    (0..values)
        .map(|_| stream.uniform_within(INITIAL_REACH) as f32)
        .collect()
}

impl Method for FedPerGnn {
    /// Returns embeddings from U(-0.05, 0.05), weights from Glorot's uniform distribution, and
    /// biases of zero.
    fn initial(&self) -> Model {
        let Shared {
            network,
            layout,
            streams,
            ..
        } = &*self.shared;
        let mut stream = streams.stream(Purpose::GlobalInit, 0, 0);
        let mut flat = initial_embedding(&mut stream, layout.blocks()[0].shape.values());
        for layer in &network.layers {
            let reach = fedrecsim_core::math::sqrt(6.0 / (layer.inputs + layer.outputs) as f64);
            flat.extend(
                layer
                    .weights
                    .clone()
                    .map(|_| stream.uniform_within(reach) as f32),
            );
            flat.extend(layer.bias.clone().map(|_| 0.0));
        }
        network::model(layout.clone(), &flat)
    }

    fn upload_layout(&self, _phase: Phase) -> Layout {
        let layout = self.shared.layout.clone().statistics();
        if self.shared.parameters.equal_weights {
            layout
        } else {
            layout.weighted()
        }
    }

    fn exchange(&self, _phase: Phase) -> Option<Exchange> {
        Some(self.shared.parameters.sizes().exchange())
    }

    fn third_party(&self) -> Option<Box<dyn ThirdParty>> {
        Some(Box::new(Matchmaker::new(
            self.shared.parameters.sizes(),
            self.shared.streams,
        )))
    }

    fn predicts_ratings(&self) -> bool {
        true
    }

    fn client(&self, user: UserId) -> Box<dyn Client> {
        let Shared {
            streams,
            parameters,
            ..
        } = &*self.shared;
        let mut stream = streams.stream(Purpose::PrivateInit, u64::from(user.0), 0);
        let embedding = initial_embedding(&mut stream, parameters.latent_dimension as usize);
        Box::new(FedPerGnnClient {
            shared: Arc::clone(&self.shared),
            user,
            embedding: Private::new(embedding),
            gathered: Private::new(Vec::new()),
        })
    }

    fn server(&self) -> Box<dyn Server> {
        let model = self.initial();
        let rule = ServerRule {
            rate: self.shared.parameters.learning_rate,
            ..ServerRule::MEAN
        };
        let rules = vec![rule; model.blocks().len()];
        Box::new(Averager::with_rules(
            model,
            self.upload_layout(Phase::default()),
            &rules,
        ))
    }
}

#[derive(Clone)]
struct FedPerGnnClient {
    shared: Arc<Shared>,
    user: UserId,
    embedding: Private<Vec<f32>>,
    /// What the neighbours contributed in the last participation; empty before the first.
    gathered: Private<Gathered>,
}

/// Holds what a user has rated.
struct Rated {
    /// The distinct items, ascending.
    items: Vec<u32>,
    /// The last rating of each item.
    ratings: Vec<f32>,
    /// The positions among the items of the own items of the graph.
    own: Vec<u32>,
}

impl Rated {
    /// Returns the own items of the graph.
    fn own_items(&self) -> Vec<u32> {
        self.own
            .iter()
            .map(|position| self.items[*position as usize])
            .collect()
    }
}

impl FedPerGnnClient {
    /// Collects what the user has rated. The own items of the graph are the same at all times.
    fn rated(&self, data: &OwnData<'_>) -> Rated {
        let (mut items, mut ratings) = (Vec::new(), Vec::new());
        collect_last_ratings(data, &mut items, &mut ratings);
        let mut own: Vec<u32> = (0..items.len() as u32).collect();
        let count = self.shared.parameters.own_items as usize;
        let mut stream =
            self.shared
                .streams
                .named("fedpergnn/own-items", u64::from(self.user.0), 0);
        stream.draw_to_front(&mut own, count);
        own.truncate(count);
        Rated {
            items,
            ratings,
            own,
        }
    }

    /// Draws the factors of dropout for this many ratings; there are none without dropout.
    fn dropout(&self, task: &LocalTask<'_>, ratings: usize) -> Vec<f32> {
        let FedPerGnnParameters {
            dropout,
            latent_dimension,
            ..
        } = self.shared.parameters;
        let values = if dropout > 0.0 {
            2 * latent_dimension as usize * ratings
        } else {
            0
        };
        let (mut stream, kept) = (
            task.named_stream("fedpergnn/dropout"),
            (1.0 / (1.0 - dropout)) as f32,
        );
        (0..values)
            .map(|_| {
                if stream.open_unit() < dropout {
                    0.0
                } else {
                    kept
                }
            })
            .collect()
    }
}

impl Client for FedPerGnnClient {
    fn request(&self, task: &LocalTask<'_>, _scratch: &mut Scratch) -> Result<LocalRequest> {
        let Shared {
            parameters, key, ..
        } = &*self.shared;
        let own = self.rated(&task.own).own_items();
        // A step moves the embedding by the rate times a clipped gradient, and the noise follows
        // from that.
        let noise = parameters.learning_rate * parameters.gradient_noise();
        let mut embedding = self.embedding.get().clone();
        upload::add_noise(
            &mut embedding,
            noise,
            task.named_stream("fedpergnn/noise-of-embedding"),
        );
        Ok(LocalRequest::new(
            parameters.sizes().request(key, &own, embedding),
            Work::of_row_visits(own.len() as u64),
        ))
    }

    fn train(&mut self, task: &LocalTask<'_>, _scratch: &mut Scratch) -> Result<LocalUpdate> {
        let Shared {
            parameters,
            network,
            layout,
            ..
        } = &*self.shared;
        let Rated {
            items,
            ratings,
            own,
        } = self.rated(&task.own);
        let labels: Vec<f32> = ratings
            .iter()
            .map(|rating| parameters.label(*rating))
            .collect();
        let table = task.model.table(0);
        let mut rows = Vec::new();
        table.append_rows(&items, &mut rows);
        let weights = network::parameters(task.model, 1);
        let neighbours = parameters.sizes().neighbours_in(task.reply, own.len());
        let participation = Participation {
            user: self.embedding.get(),
            rows: &rows,
            labels: &labels,
            own: &own,
            neighbours: &neighbours,
            dropout: &self.dropout(task, items.len()),
        };
        let (mut gradient, gathered) = participation.gradient(network, &weights);
        upload::clip(&mut gradient, parameters.clip_norm);
        task.check_magnitude(
            "gradient of the item embeddings",
            largest_magnitude(&gradient.rows),
        )?;
        let embedding = self.embedding.get_mut();
        let rate = parameters.learning_rate as f32;
        embedding
            .iter_mut()
            .zip(&gradient.user)
            .for_each(|(value, by)| *value -= rate * by);
        task.check_magnitude("the user's embedding", largest_magnitude(embedding))?;
        self.gathered = Private::new(gathered);

        let mut blocks = vec![upload::of_items(
            parameters,
            task,
            table.shape(),
            (&items, &gradient.rows),
        )?];
        let stream = task.named_stream("fedpergnn/noise-of-network");
        upload::add_noise(&mut gradient.network, parameters.gradient_noise(), stream);
        task.check_magnitude(
            "gradient of the network, with noise",
            largest_magnitude(&gradient.network),
        )?;
        let shapes = layout.blocks()[1..].iter().map(|block| block.shape);
        blocks.extend(
            network::cut(shapes, &gradient.network)
                .iter()
                .map(TableUpdate::whole),
        );
        let mut update = ModelUpdate::of_blocks(blocks);
        if !parameters.equal_weights {
            update = update.weighing(items.len() as f32);
        }
        let found = neighbours.counts.iter().sum::<usize>();
        let work = network.multiply_adds(items.len(), own.len(), found);
        Ok(LocalUpdate::new(update, gradient.loss, items.len() as u64).with_multiply_adds(work))
    }

    fn scorer<'a>(
        &'a self,
        context: &ScoringContext<'a>,
        _scratch: &mut Scratch,
    ) -> Result<Box<dyn Scorer + 'a>> {
        let Shared {
            parameters,
            network,
            ..
        } = &*self.shared;
        let table = context.model.table(0);
        let weights = network::parameters(context.model, 1);
        let mut rows = Vec::new();
        table.append_rows(&self.rated(&context.own).own_items(), &mut rows);
        let own = network.own_vectors(&weights, &rows);
        let expansion = network.expand(&weights, own, self.gathered.get());
        let user = network.activated(USER, &weights, self.embedding.get());
        let user = network.expand_user(&weights, &expansion, &user);
        let scale = parameters.scale() as f32;
        Ok(Box::new(move |items: &[u32], scores: &mut [f32]| {
            for (item, score) in items.iter().zip(scores) {
                let item = network.activated(ITEM, &weights, table.row(*item as usize));
                *score = scale * network.output(&weights, &network.features(&user.vector, &item));
            }
        }))
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        state.values(self.embedding.get_mut())?;
        state.plain(self.gathered.get_mut())
    }
}
