//! Implements CoFedRec, co-clustering of items and users (He et al., WWW 2024; code
//! Xinrui17/CoFedRec c58ea4d), and CGFedRec, which leaves the users out (Tu et al., 2026; code
//! buaaRec/CGFedRec b68a9c8).
//!
//! The score function (w, b) is private, and each device has an item table E of its own, which it
//! goes on from in every participation and sends. The [server] puts items into clusters by the mean
//! of all tables, and sends the clusters to everybody. A contrast draws the rows of a cluster
//! together while a device trains. In every step of CoFedRec, the server draws a user and a cluster,
//! and the users whose rows of the cluster are most like the drawn user's get the mean of their
//! tables in place of their own. Nobody else receives a table, and in CGFedRec nobody at all.

use self::server::Step;
use super::declare::learn::contrast::{Contrast, packed_bytes};
use super::prelude::*;
use super::user_tables::{self, MakingServer};
use super::without_effect;
use fedrecsim_model::ValueType;

mod alike;
mod server;
#[cfg(test)]
mod tests;

/// Describes CoFedRec to the registry.
pub(crate) const ENTRY: Entry = Entry::of::<CoFedRec<true>>();

/// Describes CGFedRec to the registry.
pub(crate) const CG_FED_REC: Entry = Entry::of::<CoFedRec<false>>();

parameters! {
    /// Parameters of CoFedRec and CGFedRec; the defaults are those that the authors name for
    /// MovieLens 100K.
    pub(crate) struct CoFedRecParameters {
        /// Latent dimension k.
        latent_dimension: u32 = 32, >= 1, <= MAX_DIMENSION;
        /// Passes over the local samples per round.
        local_epochs: u32 = 2, >= 1, <= 10_000;
        /// Samples per batch.
        batch_size: u32 = 256, >= 1;
        /// How a device steps its parameters.
        optimizer: Optimizer = Optimizer::Sgd;
        /// Learning rate of w and b (`lr`).
        learning_rate: f64 = 0.1, > 0.0;
        /// By gradient descent, the item table's learning rate is `learning_rate` x number of items
        /// x this (`lr_eta`).
        item_learning_rate_multiplier: f64 = 80.0, > 0.0;
        /// Learning rate of the item table. Left out: as the multiplier says by gradient descent,
        /// and `learning_rate` by Adam.
        learning_rate_items: Option<f64> = None, > 0.0;
        /// Number of clusters of items.
        clusters: u32 = 60, >= 1, <= 4096;
        /// How often the search for clusters starts anew; the best one counts.
        cluster_starts: u32 = 10, >= 1, <= 1000;
        /// Weight of the contrast (`reg`). 0: no clusters are sent.
        regularization: f64 = 0.005, >= 0;
        /// Temperature of the contrast. Its cost is 3 x items^2 x k multiply-adds a batch.
        temperature: f64 = 0.1, >= 0.03;
        /// The contrast is multiplied by `temperature` over this.
        base_temperature: f64 = 0.5, > 0.0;
    }
}

impl CoFedRecParameters {
    /// Returns the number of bits that name a cluster.
    fn bits(&self) -> u32 {
        (u32::BITS - (self.clusters - 1).leading_zeros()).max(1)
    }
}

/// CoFedRec if a group of users gets the mean of its tables in each step, and CGFedRec otherwise.
pub(crate) struct CoFedRec<const GROUPS: bool>(CoFedRecParameters);

impl<const GROUPS: bool> Declare for CoFedRec<GROUPS> {
    type Parameters = CoFedRecParameters;
    type Memory = ();

    const NAME: &str = if GROUPS { "cofedrec" } else { "cgfedrec" };
    const SUMMARY: &str = match GROUPS {
        true => {
            "an item table of its own for each device, drawn together by clusters of items; a group \
             of users gets its mean table"
        }
        false => {
            "an item table of its own for each device, drawn together by clusters of items, which \
             are all that a device receives"
        }
    };
    const SOURCE: &str = match GROUPS {
        true => {
            "He, Liu, Keung, He, Co-clustering for Federated Recommender System, WWW 2024; code \
             Xinrui17/CoFedRec c58ea4d"
        }
        false => {
            "Tu, Li, Sun, Li, Song, Learning to Collaborate via Structures: Cluster-Guided Item \
             Alignment for Federated Recommendation, arXiv 2602.21957, 2026; code buaaRec/CGFedRec \
             b68a9c8"
        }
    };
    const FORMULA: &[&str] = &[
        "s_i = w · E_i + b",
        "L = mean BCE(s_i, y_i) + γ S,  in each batch first by w and b, then by E",
        "S = −(τ/τ_b) mean over i, over the other j of i's cluster, of z_ij − ln Σ_{a≠i} exp z_ia,  z_ij = cos(E_i, E_j)/τ",
        match GROUPS {
            true => "E_u ← mean of E_v over the group of a drawn user,  for each u of the group",
            false => {
                "E_u stays on its device;  all that comes down are clusters of the mean of E_v"
            }
        },
    ];
    const DIFFERS: &str = match GROUPS {
        true => {
            "What is here is the code, which steps by gradient descent. Its README and its defaults \
             have 60 and 30 clusters; 60 is the default here. The code also uploads b and never uses \
             its average, so b is not sent here. By a digest of the paper, the paper takes sums for \
             means, and has the mean over a cluster inside of the logarithm, of products that are \
             not normalised, whose exponentials leave single precision at the published start; that \
             form is not offered. Its users are those with at least the deviation of the elbow, \
             which is the elbow alone; the code takes all up to it. The code's search for clusters \
             is scikit-learn's, without a seed, which fills a cluster that has become empty; here it \
             stays empty and is not drawn. Where some take part, who is not invited to the next step \
             never gets its group's table; the code hands it over at once. No run has been held \
             against the published figures yet."
        }
        false => {
            "What is here is the code of the public history; its last state no longer holds the \
             method, and the paper was not read. Which optimiser made the figures is not known. The \
             code's is Adam, with a rate of the table (6,728 in `config.py`, 13,456 by the README) \
             that suits gradient descent, which is the default here; by Adam the table's rate is \
             that of w and b here. The README has 60 clusters, a weight of 0.005 and a rate of 0.1, \
             which are the defaults here; `config.py` has 5, 0.1 and 0.05. The README's command \
             names a method that is not there. The code can round each row of an upload to a few \
             bits; the codec does that here, by a scale from the largest value in place of the \
             least and the largest one. E comes down with `training.aggregation = \"mean\"` alone. \
             There the same users take part in all rounds, and alone are evaluated; a run ends \
             after 10 rounds without a gain of the validation HR@5. No figure of the paper is at hand."
        }
    };

    fn resolve(p: &mut CoFedRecParameters) -> Vec<ParameterFault> {
        let is_off = p.optimizer == Optimizer::Adam || p.learning_rate_items.is_some();
        let because = "`learning_rate_items` or Adam sets the rate of the item table";
        let is_plain = p.regularization == 0.0;
        let (plain, alone) = ("`regularization` is 0", "nothing is made of clusters");
        let has_no_use = is_plain && !GROUPS;
        let unused = [
            ("item_learning_rate_multiplier", is_off, because),
            ("temperature", is_plain, plain),
            ("base_temperature", is_plain, plain),
            ("clusters", has_no_use, alone),
            ("cluster_starts", has_no_use, alone),
        ];
        without_effect(p, &unused)
    }

    fn new(parameters: CoFedRecParameters, _problem: &Problem) -> Self {
        Self(parameters)
    }

    /// All users start alike.
    fn blocks(&self, size: ProblemSize) -> Vec<Block> {
        let p = &self.0;
        let (k, rate) = (p.latent_dimension, p.learning_rate);
        let start = uniform(1.0 / f64::from(k).sqrt());
        let row_rate = p.learning_rate_items.unwrap_or(match p.optimizer {
            Optimizer::Sgd => rate * size.items as f64 * p.item_learning_rate_multiplier,
            Optimizer::Adam => rate,
        });
        let table = item_table("E", size.items, k).start(normal(1.0));
        let table = table.rate(row_rate).goes_on_from_own(0.0).turn(1);
        let function = [vector("w", k), vector("b", 1)];
        let function =
            function.map(|block| block.private().alike().start(start.clone()).rate(rate));
        let mut blocks = Vec::new();
        if p.regularization > 0.0 {
            let bytes = packed_bytes(size.items, p.bits());
            let labels = BlockLayout::weights(LABELS, TableShape::new(1, bytes));
            let labels = Block::of(labels.of(ValueType::Bytes));
            blocks.push(labels.made_by_server().download_only().optional());
            blocks.push(table.contrasted(Contrast {
                labels: LABELS,
                bits: p.bits(),
                temperature: p.temperature,
                base_temperature: p.base_temperature,
                weight: p.regularization,
            }));
        } else {
            blocks.push(table);
        }
        blocks.extend(function);
        blocks
    }

    fn score(&self) -> Score {
        Score::dot("w", "E").biased(Some("b"))
    }

    fn training(&self) -> Training {
        Training {
            optimizer: self.0.optimizer,
            ..Training::of(self.0.local_epochs, self.0.batch_size)
        }
    }

    fn traffic(&self, declared: Traffic) -> Traffic {
        user_tables::traffic(declared)
    }

    fn server(&self, averager: Averager) -> Box<dyn Server> {
        let making = (self.0.clone(), GROUPS);
        Box::new(MakingServer::<Step>::new(making, &averager))
    }
}

/// The block of the clusters of items.
const LABELS: &str = "clusters";
