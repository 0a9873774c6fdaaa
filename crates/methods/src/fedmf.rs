//! Implements FedMF, federated matrix factorisation, for implicit feedback.
//!
//! The user vector u_i is private and the item table V is shared. The logit of item j is u_i . V_j
//! and the loss is the mean binary cross-entropy. A client trains both at once by mini-batch SGD,
//! and the server takes the plain mean of V. Items are scored with the averaged V. With dual
//! personalisation a client steps u_i before the rows of V and scores with its own V, which makes
//! it PFedRec but for the bias, the start and the rates.

use super::prelude::*;
use super::recent_step::{self, RecentStep};

/// Describes the method to the registry.
pub const ENTRY: Entry = Entry::of::<FedMf>();

parameters! {
    /// Parameters of FedMF.
    pub struct FedMf {
        /// Latent dimension k.
        latent_dimension: u32 = 32, >= 1, <= MAX_DIMENSION;
        /// Passes over the local samples per round.
        local_epochs: u32 = 1, >= 1, <= 10_000;
        /// Samples per batch.
        batch_size: u32 = 256, >= 1;
        /// Learning rate of the user vector.
        learning_rate_user: f64 = 0.1, > 0.0;
        /// Learning rate of the item rows. The mean over a batch and then over clients makes it
        /// large.
        learning_rate_items: f64 = 10_000.0, > 0.0;
        /// What training minimises.
        loss: Loss = Loss::BinaryCrossEntropy;
        /// Whether each user has a private bias as well, which is added to every logit and has the
        /// rate of the user vector.
        bias: bool = false;
        /// Whether a client steps its user vector first and the item rows after it, and keeps these
        /// rows to score with (DualPer of PFedRec's authors). They are averaged as before.
        dual_personalization: bool = false;
        /// Steps the user vector towards the rows of recent positives before a device scores. Left
        /// out: it scores with the vector that it has trained.
        recency: Option<RecentStep> = None;
    }
}

impl Declare for FedMf {
    type Parameters = Self;
    type Memory = ();

    const NAME: &str = "fedmf";
    const SUMMARY: &str = "matrix factorisation: private user vector, averaged item table";
    const SOURCE: &str = "Chai et al., Secure Federated Matrix Factorization, IEEE Intelligent \
                          Systems 2020, in the implicit form that the FedRAP and PFedRec papers \
                          compare with";
    const FORMULA: &[&str] = &["s_i = u · V_i", "L = mean BCE(s_i, y_i)"];
    const DIFFERS: &str = "The original predicts ratings: it minimises (r_i − u · V_i)² with a \
                           regulariser, and its server subtracts the sum of the gradients, which \
                           are encrypted after Paillier (`overheads.paillier` counts the bytes). \
                           The implicit form has a mean in place of the sum; its rates and start \
                           are this simulator's.";

    fn resolve(p: &mut Self) -> Vec<ParameterFault> {
        recent_step::idle(p.recency.as_ref())
    }

    fn new(parameters: Self, _problem: &Problem) -> Self {
        parameters
    }

    fn blocks(&self, size: ProblemSize) -> Vec<Block> {
        let k = self.latent_dimension;
        let start = uniform(1.0 / f64::from(k).sqrt());
        let own = |block: Block| {
            let rate = self.learning_rate_user;
            block.private().start(start.clone()).rate(rate)
        };
        let mut blocks = vec![
            item_table("V", size.items, k)
                .start(normal(1.0))
                .rate(self.learning_rate_items)
                .kept_by_client(self.dual_personalization),
            own(vector("u", k)),
        ];
        blocks.extend(self.bias.then(|| own(vector("bias", 1))));
        blocks
    }

    fn score(&self) -> Score {
        let product = Score::dot("u", "V").biased(self.bias.then_some("bias"));
        product.stepped(self.recency.clone())
    }

    fn loss(&self) -> Loss {
        self.loss
    }

    fn training(&self) -> Training {
        Training::of(self.local_epochs, self.batch_size)
    }
}
