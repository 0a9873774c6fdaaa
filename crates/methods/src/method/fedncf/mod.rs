//! Implements FedNCF, federated neural collaborative filtering (Perifanis and Efraimidis,
//! Knowledge-Based Systems 242, 2022).
//!
//! The user embedding u is private. The item embeddings V and a network are shared. The network
//! scores item j from u and V_j side by side (2k -> 32 -> 16 -> 8 -> 1 with rectifiers in between;
//! section 3.2 and He et al., WWW 2017). A client minimises the mean binary cross-entropy by
//! mini-batches on all three at once, and the server takes the plain mean of V and of the network.
//! With dual personalisation the network is private too, V takes its step after it, and a client
//! scores with its own V. The paper has no public code. The learning rates and the initial values,
//! which it leaves open, are chosen for this simulator and documented in [`FedNcfParameters`].

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tuned_table::TunedTable;
use super::{
    Client, Entry, LocalTask, LocalUpdate, Method, PersonalTable, Placement, Problem, Scorer,
    ScoringContext, Scratch, largest_magnitude, network, parameters, sizes_by,
};
use fedrecsim_core::error::Result;
use fedrecsim_core::ids::UserId;
use fedrecsim_core::rng::{PortableDraws, Purpose, Stream, Streams};
use fedrecsim_model::model::blocks::{Model, ModelUpdate};
use fedrecsim_model::model::kernel::MAX_DIMENSION;
use fedrecsim_model::model::layout::Layout;
use fedrecsim_model::model::neural::{Layer, Perceptron};
use fedrecsim_model::model::private::Private;
use fedrecsim_model::model::state::StateVisitor;
use fedrecsim_model::model::table::{SharedTable, Table, TableShape, TableUpdate};
use local::{LocalBuffers, LocalModel, LocalSettings};

pub mod local;

pub use local::Optimizer;

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry {
    name: "fedncf",
    summary: "neural collaborative filtering: private user embedding, averaged item embeddings and network",
    source: "Perifanis and Efraimidis, Federated Neural Collaborative Filtering, Knowledge-Based Systems 2022; no \
             public code, so that rates and start are this simulator's",
    schema: &|| schemars::schema_for!(FedNcfParameters),
    resolve: &|_| Vec::new(),
    placement: Placement::Federated,
    draws_negatives: true,
    sizes: &|value, size| sizes_by(value, |p: FedNcfParameters| p.layout(size.items)),
    build: &|value, problem| Ok(Box::new(FedNcf::new(parameters("fedncf", value)?, problem))),
};

/// The numbers of units of the hidden layers in the paper.
pub(super) const HIDDEN_UNITS: [usize; 3] = [32, 16, 8];

/// Parameters of FedNCF.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct FedNcfParameters {
    /// Latent dimension k.
    #[schemars(range(min = 1, max = MAX_DIMENSION))]
    pub latent_dimension: u32,
    /// Passes over the local samples per round.
    #[schemars(range(min = 1, max = 10_000))]
    pub local_epochs: u32,
    /// Samples per batch.
    #[schemars(range(min = 1))]
    pub batch_size: u32,
    /// How a client steps its parameters. The default rates are SGD's.
    pub optimizer: Optimizer,
    /// Learning rate of the user embedding.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub learning_rate_user: f64,
    /// Learning rate of the item embeddings for each user of the run: the rate itself is this times
    /// the number of users, by which the mean over all users divides it again.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub learning_rate_items: f64,
    /// Learning rate of the network.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub learning_rate_network: f64,
    /// Standard deviation of the embeddings at the start.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub embedding_deviation: f64,
    /// Whether the network stays private, and a client steps its user embedding and network first
    /// and the item embeddings after them, and keeps these to score with (DualPer of PFedRec's
    /// authors). The item embeddings are averaged as before.
    pub dual_personalization: bool,
}

impl FedNcfParameters {
    fn network(&self) -> Perceptron {
        let dimension = self.latent_dimension as usize;
        let [first, second, third] = HIDDEN_UNITS;
        Perceptron::new(dimension, &[dimension, first, second, third, 1])
    }

    /// Returns the layout of the model for this many items.
    fn layout(&self, items: usize) -> Layout {
        network::layout(
            "V",
            TableShape::of_items(items, self.latent_dimension),
            &self.network(),
        )
    }
}

impl Default for FedNcfParameters {
    fn default() -> Self {
        Self {
            latent_dimension: 32,
            local_epochs: 1,
            batch_size: 256,
            optimizer: Optimizer::Sgd,
            learning_rate_user: 5.0,
            learning_rate_items: 100.0,
            learning_rate_network: 0.5,
            embedding_deviation: 0.5,
            dual_personalization: false,
        }
    }
}

/// Holds what all clients share.
#[derive(Debug)]
pub(crate) struct FedNcf {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    parameters: FedNcfParameters,
    settings: LocalSettings,
    network: Perceptron,
    streams: Streams,
    initial_items: SharedTable,
    initial_network: Vec<f32>,
}

impl FedNcf {
    /// Makes the method for a problem of this size. V is drawn from N(0, deviation^2) and weights
    /// from Xavier's uniform distribution. Biases are zero.
    pub(crate) fn new(parameters: FedNcfParameters, problem: &Problem) -> Self {
        let (items, network) = (
            TableShape::of_items(problem.items, parameters.latent_dimension),
            parameters.network(),
        );
        let settings = LocalSettings {
            epochs: parameters.local_epochs,
            batch_size: parameters.batch_size as usize,
            optimizer: parameters.optimizer,
            user_rate: parameters.learning_rate_user,
            item_rate: parameters.learning_rate_items * problem.users as f64,
            network_rate: parameters.learning_rate_network,
            rows_last: parameters.dual_personalization,
        };
        let mut stream = problem.streams.stream(Purpose::GlobalInit, 0, 0);
        let deviation = parameters.embedding_deviation;
        let initial_items = Arc::new(Table::from_fn(items, || {
            (stream.standard_normal() * deviation) as f32
        }));
        let mut initial_network = Vec::with_capacity(network.parameters());
        for Layer {
            inputs,
            outputs,
            weights,
            bias,
        } in network.layers()
        {
            let reach = (6.0 / (inputs + outputs) as f64).sqrt();
            initial_network.extend(weights.clone().map(|_| stream.uniform_within(reach) as f32));
            initial_network.resize(initial_network.len() + bias.len(), 0.0);
        }
        let streams = problem.streams;
        let shared = Shared {
            parameters,
            settings,
            network,
            streams,
            initial_items,
            initial_network,
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    fn is_dual(&self) -> bool {
        self.shared.parameters.dual_personalization
    }
}

impl Method for FedNcf {
    fn initial(&self) -> Model {
        let Shared {
            network,
            initial_items,
            initial_network,
            ..
        } = &*self.shared;
        if self.is_dual() {
            return Model::of_table("V", Arc::clone(initial_items));
        }
        let layout = network::layout("V", initial_items.shape(), network);
        let values = [Table::clone(initial_items)]
            .into_iter()
            .chain(network::tables(network, initial_network));
        network::model_of(layout, values.collect())
    }

    fn trains_on_sampled_rows(&self) -> bool {
        !self.is_dual()
    }

    /// Draws the user embedding from N(0, deviation^2), for every user from a stream of its own. A
    /// private network starts alike for all users.
    fn client(&self, user: UserId) -> Box<dyn Client> {
        let Shared {
            parameters,
            streams,
            initial_items,
            initial_network,
            ..
        } = &*self.shared;
        let mut stream: Stream = streams.stream(Purpose::PrivateInit, u64::from(user.0), 0);
        let draw = |_| (stream.standard_normal() * parameters.embedding_deviation) as f32;
        let vector = (0..initial_items.shape().dimension).map(draw).collect();
        let dual = self
            .is_dual()
            .then(|| Box::new((initial_network.clone(), TunedTable::new(initial_items))));
        Box::new(FedNcfClient {
            shared: Arc::clone(&self.shared),
            own: Private::new(Own { vector, dual }),
        })
    }
}

#[derive(Clone)]
struct FedNcfClient {
    shared: Arc<Shared>,
    own: Private<Own>,
}

/// Holds the private parameters of one user.
#[derive(Clone)]
struct Own {
    vector: Box<[f32]>,
    /// The network and the item table, under dual personalisation.
    dual: Option<Box<(Vec<f32>, TunedTable)>>,
}

impl Client for FedNcfClient {
    fn train(&mut self, task: &LocalTask<'_>, scratch: &mut Scratch) -> Result<LocalUpdate> {
        let Shared {
            settings, network, ..
        } = &*self.shared;
        let Own { vector, dual } = self.own.get_mut();
        let mut rows = network::draw_rows(task, scratch)?;
        let round_rows = &mut scratch.round_rows;
        let mut weights = match dual {
            Some(dual) => std::mem::take(&mut dual.0),
            None => network::parameters(task.model, 1),
        };
        let mut order = task.stream(Purpose::Shuffle);
        let model = LocalModel {
            user: vector,
            rows: &mut rows,
            network: &mut weights,
        };
        let result = local::train(
            network,
            settings,
            round_rows,
            &mut order,
            model,
            &mut LocalBuffers::default(),
        );
        task.check_magnitude("u", largest_magnitude(vector))?;
        task.check_magnitude("V", largest_magnitude(&rows))?;
        task.check_magnitude("the network", largest_magnitude(&weights))?;
        let downloaded = task.model.table(0);
        let items = (downloaded.shape(), round_rows.rows(), &rows[..]);
        let update = match dual {
            Some(dual) => {
                let (own, table) = &mut **dual;
                let update = TableUpdate::listed(items.0, items.1.to_vec(), items.2, 1.0)?;
                table.keep(downloaded, &update);
                *own = weights;
                ModelUpdate::of_table(update)
            }
            None => network::update(network, items, &weights)?,
        };
        let update = LocalUpdate::new(update, result.loss, result.row_visits);
        Ok(update.with_multiply_adds(result.multiply_adds))
    }

    fn was_sent(&mut self, update: &ModelUpdate) {
        if let Some(dual) = &mut self.own.get_mut().dual {
            dual.1.was_sent(update);
        }
    }

    fn scorer<'a>(
        &'a self,
        context: &ScoringContext<'a>,
        _scratch: &mut Scratch,
    ) -> Result<Box<dyn Scorer + 'a>> {
        let Own { vector, dual } = self.own.get();
        let (parameters, table) = match dual {
            Some(dual) => (dual.0.clone(), Arc::new(dual.1.whole()?)),
            None => (
                network::parameters(context.model, 1),
                Arc::clone(context.model.table(0)),
            ),
        };
        Ok(Box::new(move |items: &[u32], scores: &mut [f32]| {
            network::score(
                &self.shared.network,
                &parameters,
                vector,
                &table,
                items,
                scores,
            );
        }))
    }

    fn personal_table(&self) -> Result<Option<PersonalTable>> {
        self.own
            .get()
            .dual
            .as_ref()
            .map(|dual| dual.1.shown_as("V"))
            .transpose()
    }

    fn replace_personal_table(&mut self, values: Table) -> Result<()> {
        if let Some(dual) = &mut self.own.get_mut().dual {
            dual.1 = TunedTable::new(&Arc::new(values));
        }
        Ok(())
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        let Own { vector, dual } = self.own.get_mut();
        state.values(vector)?;
        let Some((network, table)) = dual.as_deref_mut() else {
            return Ok(());
        };
        state.values(network)?;
        table.visit_state(state)
    }
}
