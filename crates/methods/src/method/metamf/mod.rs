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

use super::declare::learn::{self, draw_rows, score_by_network};
use super::prelude::*;
use device::{DeviceBuffers, prediction_network};
use fedrecsim_model::model::neural::optimizer::AdamSettings;
use hypernetwork::{HyperNetwork, HyperShape, HyperStep};

pub mod device;
pub mod hypernetwork;
mod server;
#[cfg(test)]
mod tests;

/// Describes the method to the registry.
pub const ENTRY: Entry = Entry::of::<MetaMf>();

parameters! {
    /// Parameters of MetaMF; the defaults are the published ones.
    pub struct MetaMfParameters {
        /// Columns k of the generated item tables and of the user embeddings.
        latent_dimension: u32 = 32, >= 1, <= MAX_DIMENSION;
        /// Columns of the memory that the hypernetwork reads.
        memory_units: u32 = 128, >= 1, <= 4096;
        /// Units of each hidden layer of the hypernetwork.
        hidden_units: u32 = 512, >= 1, <= 4096;
        /// Rank of the generated item tables.
        item_rank: u32 = 8, >= 1, <= 256;
        /// Learning rate of Adam.
        learning_rate: f64 = 1e-4, > 0.0;
        /// Weight decay, added to the gradient.
        weight_decay: f64 = 1e-3, >= 0;
        /// The largest norm of a gradient; beyond it the gradient is scaled down.
        clip_norm: f64 = 5.0, > 0.0;
        /// Whether all uploads weigh the same, which noise on the sum and every epsilon need.
        /// Otherwise an upload says its number of samples, and weighs as much.
        equal_weights: bool = false;
    }
}

/// Holds what server and clients share.
#[derive(Debug)]
pub struct MetaMf {
    parameters: MetaMfParameters,
    shape: HyperShape,
    network: Perceptron,
    streams: Streams,
}

impl MetaMf {
    fn hypernetwork(&self) -> HyperNetwork {
        let mut stream = self.streams.stream(Purpose::GlobalInit, 0, 0);
        HyperNetwork::new(self.shape, &mut stream)
    }

    /// Returns how the server steps.
    fn step(&self) -> HyperStep {
        let p = &self.parameters;
        HyperStep {
            adam: AdamSettings {
                weight_decay: p.weight_decay,
                ..AdamSettings::with_rate(p.learning_rate)
            },
            clip_norm: p.clip_norm,
        }
    }

    /// Describes what the server makes for each user.
    fn made(&self, items: usize) -> Vec<Block> {
        let table = item_table("E", items, self.parameters.latent_dimension);
        let blocks = [table].into_iter().chain(perceptron(&self.network));
        blocks
            .map(|block| block.made_by_server().as_gradient())
            .collect()
    }
}

impl Declare for MetaMf {
    type Parameters = MetaMfParameters;
    type Memory = ();

    const NAME: &str = "metamf";
    const SUMMARY: &str = "meta matrix factorisation: the server makes an item table and a network \
                           for each user, and is sent gradients";
    const SOURCE: &str = "Lin et al., Meta Matrix Factorization for Federated Rating Predictions, \
                          SIGIR 2020; code TempSDU/MetaMF 26b1497, in the implicit form that the \
                          PFedRec paper compares with";
    const HAS_PERSONAL_DOWNLOADS: bool = true;
    const WITHOUT_CONTROLS: Option<&str> = Some(
        "devices send gradients, which the server propagates back through networks of its own",
    );

    fn new(parameters: MetaMfParameters, problem: &Problem) -> Self {
        let shape = HyperShape {
            users: problem.users,
            items: problem.items,
            dimension: parameters.latent_dimension as usize,
            memory: parameters.memory_units as usize,
            hidden: parameters.hidden_units as usize,
            item_factors: parameters.item_rank as usize,
        };
        Self {
            network: prediction_network(shape.dimension),
            shape,
            parameters,
            streams: problem.streams,
        }
    }

    /// The server's own parameters never travel.
    fn blocks(&self, size: ProblemSize) -> Vec<Block> {
        let own = self.shape.layout();
        let own = own.blocks().iter().cloned().map(Block::of);
        own.map(Block::server_only)
            .chain(self.made(size.items))
            .collect()
    }

    fn initial(&self, _drawn: Model) -> Model {
        self.hypernetwork().to_model()
    }

    fn is_weighed(&self) -> bool {
        !self.parameters.equal_weights
    }

    fn upload_use(&self, _averager: UploadUse) -> UploadUse {
        UploadUse::Each
    }

    fn makes_noisy_sums(&self) -> bool {
        // A weight that an upload says of itself would tell what the noise is to hide.
        self.parameters.equal_weights
    }

    fn train(
        &self,
        _own: &mut Own<()>,
        task: &LocalTask<'_>,
        scratch: &mut Scratch,
    ) -> Result<Trained> {
        let table = table_of(task.model, "E");
        let rows = draw_rows(task, table, scratch)?;
        let round_rows = &scratch.round_rows;
        let weights = learn::parameters(task.model, "W1", &self.network);
        let (samples, mut buffers) = (round_rows.samples(), DeviceBuffers::default());
        let gradient = device::gradient(&self.network, &weights, &rows, samples, &mut buffers);
        for (name, values) in [
            ("the item embeddings", &rows),
            ("the prediction network", &weights),
            ("the gradient of the item embeddings", &gradient.rows),
            ("the gradient of the prediction network", &gradient.network),
        ] {
            task.check_magnitude(name, largest_magnitude(values))?;
        }
        let listed = round_rows.rows().to_vec();
        let work = Work {
            row_visits: listed.len() as u64,
            multiply_adds: gradient.multiply_adds,
        };
        let items = TableUpdate::listed(table.shape(), listed, &gradient.rows, 1.0)?;
        let network = learn::layer_updates(&self.network, &gradient.network);
        Ok(Trained {
            blocks: [vec![items], network].concat(),
            loss: gradient.loss,
            samples: samples.len(),
            work,
        })
    }

    fn scorer<'a>(
        &'a self,
        _own: &'a Own<()>,
        context: &ScoringContext<'a>,
        _scratch: &mut Scratch,
    ) -> Result<Box<dyn Scorer + 'a>> {
        let table = table_of(context.model, "E");
        let weights = learn::parameters(context.model, "W1", &self.network);
        Ok(Box::new(move |items: &[u32], scores: &mut [f32]| {
            score_by_network(&self.network, &weights, &[], table, items, scores)
        }))
    }

    fn server(&self, _averager: Averager) -> Box<dyn Server> {
        let download = self.made(self.shape.items);
        let download = Layout::new(download.into_iter().map(|block| block.layout).collect());
        let (networks, equal_weights) = (self.hypernetwork(), self.parameters.equal_weights);
        let server = server::MetaMfServer::new(networks, download, self.step(), equal_weights);
        Box::new(server)
    }
}
