//! Implements centralised matrix factorisation with the logistic loss (the `MF` of the PFedRec
//! paper's Table 2), which shows what a server could do that had the ratings of all users.
//!
//! The logit is U_u . V_j and the loss is the mean binary cross-entropy, which Adam minimises on
//! both tables by mini-batches over the samples of all users. A step is one pass over every
//! positive with freshly drawn negatives, from the pool that the scenario names. The paper states
//! neither the learning rate nor the initial values. Those of He et al. (WWW 2017) are used.

use super::network;
use super::prelude::*;
use super::samples::CrossEntropy;
use fedrecsim_model::neural::optimizer::{AdamParameters, AdamSettings};

mod factors;

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry::at_server::<Mf>();

parameters! {
    /// Parameters of centralised matrix factorisation.
    pub(crate) struct Mf {
        /// Latent dimension k.
        latent_dimension: u32 = 32, >= 1, <= MAX_DIMENSION;
        /// Samples per batch.
        batch_size: u32 = 256, >= 1;
        /// Learning rate of Adam.
        learning_rate: f64 = 1e-3, > 0.0;
        /// Weight decay, added to the gradient.
        weight_decay: f64 = 0.0, >= 0;
        /// Standard deviation of both tables at the start.
        deviation: f64 = 0.01, > 0.0;
    }
}

/// Describes a table of users and one of items, which start with draws from N(0, deviation^2).
pub(super) fn tables(size: ProblemSize, columns: u32, deviation: f64) -> Vec<Block> {
    let users = weights("U", size.users, columns as usize);
    let blocks = [users, item_table("V", size.items, columns)];
    blocks.map(|block| block.start(normal(deviation))).into()
}

impl Central for Mf {
    type Parameters = Self;
    type Memory = AdamParameters;

    const NAME: &str = "mf";
    const SUMMARY: &str = "centralised matrix factorisation: users send their ratings once, the \
                           server trains by Adam";
    const SOURCE: &str = "Koren et al., Matrix Factorization Techniques for Recommender Systems, \
                          Computer 2009, with the logistic loss that the PFedRec paper compares \
                          with; rate and start of He et al., WWW 2017";
    const FORMULA: &[&str] = &["s_ui = U_u · V_i", "L = mean BCE(s_ui, y_ui),  by Adam"];

    fn new(parameters: Self, _problem: &Problem) -> Self {
        parameters
    }

    fn blocks(&self, size: ProblemSize) -> Vec<Block> {
        tables(size, self.latent_dimension, self.deviation)
    }

    fn memory(&self, model: &Model) -> AdamParameters {
        AdamParameters::new(network::parameters(model, 0))
    }

    fn pass(&self, mut pass: Pass<'_, AdamParameters>) -> Result<StepReport> {
        let samples = pass.samples("mf")?;
        let adam = AdamSettings {
            weight_decay: self.weight_decay,
            ..AdamSettings::with_rate(self.learning_rate)
        };
        let shape = (pass.problem.users, self.latent_dimension as usize);
        let mut loss = CrossEntropy::default();
        let batches = (&samples[..], self.batch_size);
        pass.by_batches((0, "U or V"), batches, 2, |values, batch| {
            f64::from(factors::step(values, &mut loss, shape, batch, &adam))
        })
    }
}
