//! Implements FedNCF, federated neural collaborative filtering (Perifanis and Efraimidis,
//! Knowledge-Based Systems 242, 2022).
//!
//! The user embedding u is private. The item embeddings V and a network are shared. The network
//! scores item j from u and V_j side by side (2k -> 32 -> 16 -> 8 -> 1 with rectifiers in between;
//! section 3.2 and He et al., WWW 2017). A client minimises the mean binary cross-entropy, or
//! another loss, by mini-batches on all three at once, and the server takes the plain mean of V and of the network.
//! With dual personalisation the network is private too, V takes its step after it, and a client
//! scores with its own V. The paper has no public code. It leaves the learning rates and the
//! initial values open, so this simulator chooses them.

use super::prelude::*;

/// The numbers of units of the hidden layers in the paper.
pub(super) const HIDDEN_UNITS: [usize; 3] = [32, 16, 8];

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry::of::<FedNcf>();

parameters! {
    /// Parameters of FedNCF.
    pub(crate) struct FedNcf {
        /// Latent dimension k.
        latent_dimension: u32 = 32, >= 1, <= MAX_DIMENSION;
        /// Passes over the local samples per round.
        local_epochs: u32 = 1, >= 1, <= 10_000;
        /// Samples per batch.
        batch_size: u32 = 256, >= 1;
        /// What training minimises.
        loss: Loss = Loss::BinaryCrossEntropy;
        /// How a client steps its parameters. The default rates are SGD's.
        optimizer: Optimizer = Optimizer::Sgd;
        /// Learning rate of the user embedding.
        learning_rate_user: f64 = 5.0, > 0.0;
        /// Learning rate of the item embeddings for each user who trains: the rate is this times
        /// the number of these users, since the mean over all of them divides by that number.
        learning_rate_items: f64 = 100.0, > 0.0;
        /// Learning rate of the network.
        learning_rate_network: f64 = 0.5, > 0.0;
        /// Standard deviation of the embeddings at the start.
        embedding_deviation: f64 = 0.5, > 0.0;
        /// Whether the network stays private, and a client steps its user embedding and network
        /// first and the item embeddings after them, and keeps these to score with (DualPer of
        /// PFedRec's authors). The item embeddings are averaged as before.
        dual_personalization: bool = false;
    }
}

impl FedNcf {
    fn network(&self) -> Perceptron {
        let k = self.latent_dimension as usize;
        let [first, second, third] = HIDDEN_UNITS;
        Perceptron::new(k, &[k, first, second, third, 1])
    }
}

impl Declare for FedNcf {
    type Parameters = Self;
    type Memory = ();

    const NAME: &str = "fedncf";
    const SUMMARY: &str = "neural collaborative filtering: private user embedding, averaged item \
                           embeddings and network";
    const SOURCE: &str = "Perifanis and Efraimidis, Federated Neural Collaborative Filtering, \
                          Knowledge-Based Systems 2022; no public code, so that rates and start \
                          are this simulator's";
    const FORMULA: &[&str] = &[
        "s_i = W4 φ(W3 φ(W2 φ(W1 [u; V_i] + b1) + b2) + b3) + b4,  φ(x) = max(0, x)",
        "L = mean BCE(s_i, y_i)",
    ];

    /// From here on, the learning rate of the item embeddings is that for all users.
    fn new(parameters: Self, problem: &Problem) -> Self {
        Self {
            learning_rate_items: parameters.learning_rate_items * problem.users_with_history as f64,
            ..parameters
        }
    }

    /// A private network starts alike for all users.
    fn blocks(&self, size: ProblemSize) -> Vec<Block> {
        let (k, dual) = (self.latent_dimension, self.dual_personalization);
        let embedding = normal(self.embedding_deviation);
        let network = perceptron(&self.network()).into_iter().map(|block| {
            let block = block.rate(self.learning_rate_network);
            match dual {
                true => block.private().alike_with_shared(),
                false => block,
            }
        });
        let items = item_table("V", size.items, k)
            .start(embedding.clone())
            .rate(self.learning_rate_items)
            .kept_by_client(dual);
        let user = vector("u", k).private().start(embedding);
        let user = user.rate(self.learning_rate_user);
        [items, user].into_iter().chain(network).collect()
    }

    fn score(&self) -> Score {
        Score::Perceptron {
            network: self.network(),
            vector: Some("u"),
            table: "V",
        }
    }

    fn loss(&self) -> Loss {
        self.loss
    }

    fn training(&self) -> Training {
        Training {
            optimizer: self.optimizer,
            ..Training::of(self.local_epochs, self.batch_size)
        }
    }
}
