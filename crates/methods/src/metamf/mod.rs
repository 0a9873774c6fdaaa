//! Implements MetaMF, meta matrix factorisation (Lin et al., SIGIR 2020; code TempSDU/MetaMF
//! 26b1497).
//!
//! The server keeps all parameters. A [hypernetwork] generates an item table E and a small
//! prediction network, W2 relu(W1 e + b1) + b2, for each user, who downloads both. The device
//! uploads the gradients of its mean loss with respect to them and keeps no state. The server
//! back-propagates these gradients through the hypernetwork, clips the result, and steps by Adam.
//! Contributions weigh as much as they have samples, so that a step follows the mean over the
//! samples of its users, unless `equal_weights` is set. With noise on the sum, the server clips
//! what each contribution adds to the gradient of its parameters, and adds the noise to that
//! gradient.
//!
//! The published method minimises the squared error on explicit ratings, in batches of 64 ratings
//! of any users. This simulator chooses the logistic loss on positives and drawn negatives, and all
//! samples of the users of a step.

use super::prelude::*;
use hypernetwork::HyperShape;

mod hypernetwork;
mod server;
#[cfg(test)]
mod tests;

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry::of::<MetaMf>();

parameters! {
    /// Parameters of MetaMF; the defaults are the published ones.
    pub(crate) struct MetaMfParameters {
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
pub(crate) struct MetaMf {
    parameters: MetaMfParameters,
    shape: HyperShape,
    starts: Streams,
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
    const FORMULA: &[&str] = &[
        "c_u = e_u K;  a network of c_u with one hidden layer gives W1 and b1, one W2 and b2, one A and B",
        "s_i = W2 φ(W1 E_i + b1) + b2,  E = A B,  φ(x) = max(0, x)",
        "L = mean BCE(s_i, y_i),  propagated back to e_u, K and the networks, which step by Adam",
    ];
    const DIFFERS: &str = "The published method fits explicit ratings by the squared error, in \
                           batches of 64 ratings of any users. Here the loss is logistic, and a \
                           batch has all samples of the users of a step.";
    const WITHOUT_CONTROLS: Option<&str> = Some(
        "devices send gradients, which the server propagates back through networks of its own",
    );

    fn new(parameters: MetaMfParameters, problem: &Problem) -> Self {
        let shape = HyperShape::new(&parameters, problem);
        Self {
            parameters,
            shape,
            starts: problem.starts,
        }
    }

    /// The server's own parameters never travel.
    fn blocks(&self, _size: ProblemSize) -> Vec<Block> {
        let own = self.shape.blocks().into_iter().map(Block::server_only);
        own.chain(self.shape.made()).collect()
    }

    fn is_weighed(&self) -> bool {
        !self.parameters.equal_weights
    }

    fn traffic(&self, declared: Traffic) -> Traffic {
        Traffic {
            has_personal_downloads: true,
            upload_use: UploadUse::Each,
            // A weight that an upload says of itself would tell what the noise is to hide.
            makes_noisy_sums: self.parameters.equal_weights,
            ..declared
        }
    }

    fn score(&self) -> Score {
        Score::Perceptron {
            network: self.shape.prediction.clone(),
            vector: None,
            table: "E",
        }
    }

    /// All samples are one batch. Devices send the gradients of its mean loss.
    fn training(&self) -> Training {
        Training::of(1, u32::MAX)
    }

    fn trains_on_sampled_rows(&self) -> bool {
        false
    }

    fn server(&self, averager: Averager) -> Box<dyn Server> {
        Box::new(server::MetaMfServer::new(self, averager.model()))
    }
}
