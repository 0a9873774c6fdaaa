//! Implements MetaMF, meta matrix factorisation (Lin et al., SIGIR 2020; code TempSDU/MetaMF
//! 26b1497).
//!
//! The server keeps all parameters. A [hypernetwork] generates an item table E and a small
//! prediction network, W2 relu(W1 e + b1) + b2, for each user, who downloads both. The device
//! uploads the gradients of its mean loss with respect to them and keeps no state. The server
//! back-propagates these gradients through the hypernetwork, clips the result, and steps by Adam.
//! Contributions are weighted by their numbers of samples, so that a step follows the mean over the
//! samples of its users, unless all are to weigh the same. With noise on the sum, the server clips
//! what each contribution adds to the gradient of its parameters, and adds the noise to that
//! gradient.
//!
//! The published method minimises the squared error on explicit ratings, in batches of 64 ratings
//! of any users. This simulator chooses the logistic loss on positives and drawn negatives, and all
//! samples of the users of a step.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Client, Entry, LocalTask, LocalUpdate, Method, Phase, Placement, Problem, Scorer,
    ScoringContext, Scratch, Server, largest_magnitude, network, parameters, sizes_by,
};
use device::{DeviceBuffers, prediction_network};
use fedrecsim_core::error::Result;
use fedrecsim_core::ids::UserId;
use fedrecsim_core::rng::{Purpose, Streams};
use fedrecsim_model::model::blocks::Model;
use fedrecsim_model::model::kernel::MAX_DIMENSION;
use fedrecsim_model::model::layout::Layout;
use fedrecsim_model::model::neural::Perceptron;
use fedrecsim_model::model::neural::optimizer::AdamSettings;
use fedrecsim_model::model::state::StateVisitor;
use fedrecsim_scenario::scenario::sizes::ProblemSize;
use hypernetwork::{HyperNetwork, HyperShape, HyperStep};

pub mod device;
pub mod hypernetwork;
mod server;
#[cfg(test)]
mod tests;

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry {
    name: "metamf",
    summary: "meta matrix factorisation: the server makes an item table and a network for each user, and is \
              sent gradients",
    source: "Lin et al., Meta Matrix Factorization for Federated Rating Predictions, SIGIR 2020; code TempSDU/MetaMF \
             26b1497, in the implicit form that the PFedRec paper compares with",
    schema: &|| schemars::schema_for!(MetaMfParameters),
    resolve: &|_| Vec::new(),
    placement: Placement::Federated,
    draws_negatives: true,
    sizes: &|value, size| sizes_by(value, |p: MetaMfParameters| p.layout(size)),
    build: &|value, problem| Ok(Box::new(MetaMf::new(parameters("metamf", value)?, problem))),
};

/// Parameters of MetaMF; the defaults are the published ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct MetaMfParameters {
    /// Columns k of the generated item tables and of the user embeddings.
    #[schemars(range(min = 1, max = MAX_DIMENSION))]
    pub latent_dimension: u32,
    /// Columns of the memory that the hypernetwork reads.
    #[schemars(range(min = 1, max = 4096))]
    pub memory_units: u32,
    /// Units of each hidden layer of the hypernetwork.
    #[schemars(range(min = 1, max = 4096))]
    pub hidden_units: u32,
    /// Rank of the generated item tables.
    #[schemars(range(min = 1, max = 256))]
    pub item_rank: u32,
    /// Learning rate of Adam.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub learning_rate: f64,
    /// Weight decay, added to the gradient.
    #[schemars(range(min = 0))]
    pub weight_decay: f64,
    /// The largest norm of a gradient; beyond it the gradient is scaled down.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub clip_norm: f64,
    /// Whether all uploads weigh the same, which noise on the sum and every epsilon need. Otherwise
    /// an upload says its number of samples, and weighs as much.
    pub equal_weights: bool,
}

impl MetaMfParameters {
    fn shape(&self, size: ProblemSize) -> HyperShape {
        HyperShape {
            users: size.users,
            items: size.items,
            dimension: self.latent_dimension as usize,
            memory: self.memory_units as usize,
            hidden: self.hidden_units as usize,
            item_factors: self.item_rank as usize,
        }
    }

    /// Returns the layout of the hypernetwork's blocks, followed by those that a user downloads.
    fn layout(&self, size: ProblemSize) -> Layout {
        let shape = self.shape(size);
        let download = network::layout(
            "E",
            shape.item_table(),
            &prediction_network(shape.dimension),
        );
        let blocks = shape
            .layout()
            .blocks()
            .iter()
            .chain(download.blocks())
            .cloned()
            .collect();
        Layout::new(blocks)
    }
}

impl Default for MetaMfParameters {
    fn default() -> Self {
        Self {
            latent_dimension: 32,
            memory_units: 128,
            hidden_units: 512,
            item_rank: 8,
            learning_rate: 1e-4,
            weight_decay: 1e-3,
            clip_norm: 5.0,
            equal_weights: false,
        }
    }
}

/// Holds what server and clients share.
#[derive(Debug)]
pub(crate) struct MetaMf {
    shape: HyperShape,
    step: HyperStep,
    network: Arc<Perceptron>,
    streams: Streams,
    equal_weights: bool,
}

impl MetaMf {
    /// Makes the method for a problem of this size.
    pub(crate) fn new(parameters: MetaMfParameters, problem: &Problem) -> Self {
        let shape = parameters.shape(ProblemSize {
            users: problem.users,
            items: problem.items,
        });
        let adam = AdamSettings {
            weight_decay: parameters.weight_decay,
            ..AdamSettings::with_rate(parameters.learning_rate)
        };
        let step = HyperStep {
            adam,
            clip_norm: parameters.clip_norm,
        };
        Self {
            shape,
            step,
            network: Arc::new(prediction_network(shape.dimension)),
            streams: problem.streams,
            equal_weights: parameters.equal_weights,
        }
    }

    fn hypernetwork(&self) -> HyperNetwork {
        HyperNetwork::new(
            self.shape,
            &mut self.streams.stream(Purpose::GlobalInit, 0, 0),
        )
    }
}

impl Method for MetaMf {
    /// Returns the server's own parameters, which never travel.
    fn initial(&self) -> Model {
        self.hypernetwork().to_model()
    }

    fn download_layout(&self, _phase: Phase) -> Layout {
        network::layout("E", self.shape.item_table(), &self.network)
    }

    fn upload_layout(&self, _phase: Phase) -> Layout {
        let layout = self.download_layout(Phase::default()).statistics();
        if self.equal_weights {
            layout
        } else {
            layout.weighted()
        }
    }

    fn client(&self, _user: UserId) -> Box<dyn Client> {
        Box::new(MetaMfClient {
            network: Arc::clone(&self.network),
            equal_weights: self.equal_weights,
        })
    }

    fn server(&self) -> Box<dyn Server> {
        let (networks, download) = (self.hypernetwork(), self.download_layout(Phase::default()));
        Box::new(server::MetaMfServer::new(
            networks,
            download,
            self.step,
            self.equal_weights,
        ))
    }
}

/// Implements a device, which keeps no state from one participation to the next.
#[derive(Clone)]
struct MetaMfClient {
    network: Arc<Perceptron>,
    equal_weights: bool,
}

impl Client for MetaMfClient {
    fn train(&mut self, task: &LocalTask<'_>, scratch: &mut Scratch) -> Result<LocalUpdate> {
        let rows = network::draw_rows(task, scratch)?;
        let round_rows = &scratch.round_rows;
        let parameters = network::parameters(task.model, 1);
        let mut buffers = DeviceBuffers::default();
        let gradient = device::gradient(
            &self.network,
            &parameters,
            &rows,
            round_rows.samples(),
            &mut buffers,
        );
        task.check_magnitude("the item embeddings", largest_magnitude(&rows))?;
        task.check_magnitude("the prediction network", largest_magnitude(&parameters))?;
        task.check_magnitude(
            "the gradient of the item embeddings",
            largest_magnitude(&gradient.rows),
        )?;
        task.check_magnitude(
            "the gradient of the prediction network",
            largest_magnitude(&gradient.network),
        )?;
        let items = (
            task.model.table(0).shape(),
            round_rows.rows(),
            &gradient.rows[..],
        );
        let mut update = network::update(&self.network, items, &gradient.network)?;
        if !self.equal_weights {
            update = update.weighing(round_rows.samples().len() as f32);
        }
        let update = LocalUpdate::new(update, gradient.loss, round_rows.rows().len() as u64);
        Ok(update.with_multiply_adds(gradient.multiply_adds))
    }

    fn scorer<'a>(
        &'a self,
        context: &ScoringContext<'a>,
        _scratch: &mut Scratch,
    ) -> Result<Box<dyn Scorer + 'a>> {
        let table = context.model.table(0);
        let parameters = network::parameters(context.model, 1);
        Ok(Box::new(move |items: &[u32], scores: &mut [f32]| {
            network::score(&self.network, &parameters, &[], table, items, scores);
        }))
    }

    fn visit_state(&mut self, _state: &mut StateVisitor<'_>) -> Result<()> {
        Ok(())
    }
}
