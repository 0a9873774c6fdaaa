//! Implements GPFedRec, graph-guided personalisation (Zhang et al., KDD 2024; code
//! Zhangcx19/GPFedRec edb66e1).
//!
//! The user vector u and a network, which scores item j from u and E_j side by side, are private. A
//! device receives the global item table E and a table R of its own. It starts from E, trains one
//! epoch while every row of E is pulled towards R, and sends the whole table. The server makes a
//! [graph] of users by their tables. R of a user is the mean over neighbours in it, and the new E is
//! the mean of all R. Items are scored with the table that the device has sent.

use self::graph::Tables;
use super::declare::private_perceptron;
use super::fedncf::HIDDEN_UNITS;
use super::prelude::*;
use super::user_tables::{self, MakingServer};
use super::{choices, without_effect};

mod graph;
#[cfg(test)]
mod tests;

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry::of::<GpFedRec>();

choices! {
    /// Which users are neighbours.
    pub(crate) enum Graph {
        /// Those whose tables have a cosine *distance* above the threshold, as in the published code:
        /// the least similar ones.
        PublishedCode,
        /// Those whose tables have a cosine above the threshold.
        Paper,
        /// As many users as in the published code, drawn anew in every step.
        Random,
    }
}

parameters! {
    /// Parameters of GPFedRec; the defaults are the published ones.
    pub(crate) struct GpFedRec {
        /// Latent dimension k.
        latent_dimension: u32 = 32, >= 1, <= MAX_DIMENSION;
        /// Passes over the local samples per round.
        local_epochs: u32 = 1, >= 1, <= 10_000;
        /// Samples per batch.
        batch_size: u32 = 256, >= 1;
        /// Learning rate of the network (`lr`).
        learning_rate: f64 = 0.1, > 0.0;
        /// The learning rate of u is `learning_rate` x (this - 1), and that of E `learning_rate` x
        /// (this x number of items - 1) (`lr_eta`).
        learning_rate_multiplier: f64 = 80.0, > 1.0;
        /// Weight of the mean of (E - R)^2 over all values of the table (`reg`).
        regularization: f64 = 1.0, >= 0;
        /// Which users are neighbours.
        graph: Graph = Graph::PublishedCode;
        /// Two users are neighbours above this times the mean over all pairs.
        threshold: f64 = 1.0;
        /// Number of neighbours, those with the largest values, in place of the threshold. 0: by
        /// the threshold.
        neighbours: u32 = 0;
        /// How often a table is replaced by the mean over neighbours.
        propagations: u32 = 1, >= 1, <= 8;
    }
}

impl GpFedRec {
    fn network(&self) -> Perceptron {
        let k = self.latent_dimension as usize;
        let [first, second, third] = HIDDEN_UNITS;
        Perceptron::new(k, &[k, first, second, third, 1])
    }
}

impl Declare for GpFedRec {
    type Parameters = Self;
    type Memory = ();

    const NAME: &str = "gpfedrec";
    const SUMMARY: &str = "neural scores with a private network; item tables averaged over \
                           neighbours in a graph of users";
    const SOURCE: &str = "Zhang et al., GPFedRec: Graph-Guided Personalization for Federated \
                          Recommendation, KDD 2024; code Zhangcx19/GPFedRec edb66e1";
    const FORMULA: &[&str] = &[
        "s_j = W4 φ(W3 φ(W2 φ(W1 [u; E_j] + b1) + b2) + b3) + b4,  φ(x) = max(0, x)",
        "L = mean BCE(s_j, y_j) + γ mean over all j of (E_j − R_j)²,  in each batch by all parameters at once",
        "R_u = Σ_v A_uv E_v,  A_uv = 1/|N_u| for v in N_u;  E = mean over u of R_u",
    ];
    const DIFFERS: &str = "`graph` chooses. The code's graph (`published-code`, the default) has a \
                           distance where the paper has a similarity, so that its neighbours are \
                           the least similar users. 100 rounds on MovieLens 100K by the papers' \
                           protocol (seed 1, best validation round) have HR@10 .653 and NDCG@10 \
                           .370 with it, and .713 and .449 with the paper's. A derived project \
                           reports .642 and .400 of the code; the paper's own figure is not at \
                           hand. Who did not take part in the last step gets E for R; the code \
                           cannot leave anybody out. The code's rate of u is that of a round with \
                           all users. Its loss has no gradient once a sigmoid is exactly 1 in \
                           single precision, and the one here has.";

    fn resolve(p: &mut Self) -> Vec<ParameterFault> {
        let (is_off, because) = (p.neighbours > 0, "`neighbours` says how many there are");
        without_effect(p, &[("threshold", is_off, because)])
    }

    fn new(parameters: Self, _problem: &Problem) -> Self {
        parameters
    }

    fn blocks(&self, size: ProblemSize) -> Vec<Block> {
        let (k, rate) = (self.latent_dimension, self.learning_rate);
        let of_rows = rate * (size.items as f64 * self.learning_rate_multiplier - 1.0);
        let table = item_table("E", size.items, k).start(normal(1.0));
        let table = table.rate(of_rows).kept_by_client(true).turn(0);
        let own = item_table("R", size.items, k).made_by_server();
        let user = vector("u", k).private().alike().start(normal(1.0));
        let user = user.rate(rate * (self.learning_rate_multiplier - 1.0));
        let layers = private_perceptron(&self.network()).map(|block| block.rate(rate));
        [
            table.pulled_to("R", self.regularization),
            own.download_only(),
            user,
        ]
        .into_iter()
        .chain(layers)
        .collect()
    }

    fn score(&self) -> Score {
        Score::Perceptron {
            network: self.network(),
            vector: Some("u"),
            table: "E",
        }
    }

    fn training(&self) -> Training {
        Training::of(self.local_epochs, self.batch_size)
    }

    /// Every row is pulled.
    fn trains_on_sampled_rows(&self) -> bool {
        false
    }

    fn traffic(&self, declared: Traffic) -> Traffic {
        user_tables::traffic(declared)
    }

    fn server(&self, averager: Averager) -> Box<dyn Server> {
        Box::new(MakingServer::<Tables>::new(self.clone(), &averager))
    }
}
