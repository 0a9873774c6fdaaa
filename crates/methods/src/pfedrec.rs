//! Implements PFedRec, dual personalisation (Zhang et al., IJCAI 2023; code
//! Zhangcx19/IJCAI-23-PFedRec abc2380).
//!
//! The score function (w, b) and the last fine-tuned item table E_i are private, and the item table
//! E is shared. In every round a client starts from the downloaded E. On each batch it steps (w, b)
//! and then, with the new (w, b), the rows of E. Items are scored with the client's own E_i from
//! before averaging. The authors' code also uploads b but never uses its average, so this simulator
//! does not send it.

use super::prelude::*;
use super::recent_step::{self, RecentStep};

/// Describes the method to the registry.
pub const ENTRY: Entry = Entry::of::<PFedRec>();

parameters! {
    /// Parameters of PFedRec; the defaults are the published ones.
    pub struct PFedRec {
        /// Latent dimension k.
        latent_dimension: u32 = 32, >= 1, <= MAX_DIMENSION;
        /// Passes over the local samples per round.
        local_epochs: u32 = 1, >= 1, <= 10_000;
        /// Samples per batch.
        batch_size: u32 = 256, >= 1;
        /// Learning rate of w and b (`lr`).
        learning_rate: f64 = 0.1, > 0.0;
        /// The item table's learning rate is `learning_rate` x number of items x this (`lr_eta`).
        item_learning_rate_multiplier: f64 = 80.0, > 0.0;
        /// What training minimises.
        loss: Loss = Loss::BinaryCrossEntropy;
        /// Weight decay of w, b and E (`l2_regularization`); the published runs have none.
        weight_decay: f64 = 0.0, >= 0;
        /// Steps the score function towards the rows of recent positives before a device scores. Left
        /// out: it scores with the vector that it has trained.
        recency: Option<RecentStep> = None;
    }
}

impl Declare for PFedRec {
    type Parameters = Self;
    type Memory = ();

    const NAME: &str = "pfedrec";
    const SUMMARY: &str = "shared item table, fine-tuned by each client for its own scores; \
                           private score function";
    const SOURCE: &str = "Zhang et al., Dual Personalization on Federated Recommendation, IJCAI \
                          2023; code Zhangcx19/IJCAI-23-PFedRec abc2380";
    const FORMULA: &[&str] = &[
        "s_i = w · E_i + b",
        "L = mean BCE(s_i, y_i),  in each batch first by w and b, then by E",
    ];
    const DIFFERS: &str = "The code also uploads b and never uses its average, so b is not sent \
                           here.";

    fn resolve(p: &mut Self) -> Vec<ParameterFault> {
        recent_step::idle(p.recency.as_ref())
    }

    fn new(parameters: Self, _problem: &Problem) -> Self {
        parameters
    }

    /// All users start with the same w and b.
    fn blocks(&self, size: ProblemSize) -> Vec<Block> {
        let (k, rate) = (self.latent_dimension, self.learning_rate);
        let start = uniform(1.0 / f64::from(k).sqrt());
        let row_rate = rate * size.items as f64 * self.item_learning_rate_multiplier;
        let table = item_table("E", size.items, k).start(normal(1.0));
        let function = [vector("w", k), vector("b", 1)];
        let function =
            function.map(|block| block.private().alike().start(start.clone()).rate(rate));
        let blocks = [table.rate(row_rate).kept_by_client(true)].into_iter();
        let blocks = blocks.chain(function);
        blocks.map(|block| block.decay(self.weight_decay)).collect()
    }

    fn score(&self) -> Score {
        let product = Score::dot("w", "E").biased(Some("b"));
        product.stepped(self.recency.clone())
    }

    fn loss(&self) -> Loss {
        self.loss
    }

    fn training(&self) -> Training {
        Training::of(self.local_epochs, self.batch_size)
    }
}
