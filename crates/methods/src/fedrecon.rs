//! Implements FedRecon, federated reconstruction (Singhal et al., NeurIPS 2021; code
//! google-research/federated 23b1081, `reconstruction/`), as matrix factorisation with the logistic
//! loss.
//!
//! The item table V is shared, and a client keeps no state. The logit of item j is u . V_j. A
//! client splits its samples in two at random. It draws a fresh user vector u from U(-0.05, 0.05)
//! and trains it on the support half with V held fixed, then trains V on the query half with u held
//! fixed (Algorithm 1). The server takes the mean of the differences, weighted by the number of
//! query samples unless all are to weigh the same, times its own rate. For scoring, u is made anew
//! from all of the user's samples with the present model.
//!
//! With dual personalisation a client keeps the V that it has tuned, and scores with it: u is then
//! made anew for that V. FedRecon trains u before V anyway. No source says which table the scoring
//! u is made for; here it is the client's own table, which also gives the scores.
//!
//! The published rates are 0.1 for u and 0.5 for V with batches of five explicit ratings. Here the
//! mean is taken over batches of 256 and then over all clients, so the rate of V is much larger,
//! and u takes several passes. Both are choices of this simulator.

use super::declare::learn::{self, Session};
use super::prelude::*;
use super::recent_step::{self, RecentStep, stepped};
use fedrecsim_model::kernel::logistic::{LogisticStep, Target};
use fedrecsim_model::kernel::{packed_vector, unpack_into};

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry::of::<FedRecon>();

parameters! {
    /// Parameters of FedRecon.
    pub(crate) struct FedRecon {
        /// Latent dimension k.
        latent_dimension: u32 = 32, >= 1, <= MAX_DIMENSION;
        /// Passes over the support samples, which move the user vector alone.
        reconstruction_epochs: u32 = 10, >= 1, <= 10_000;
        /// Passes over the query samples, which move the item table alone.
        local_epochs: u32 = 1, >= 1, <= 10_000;
        /// Samples per batch.
        batch_size: u32 = 256, >= 1;
        /// Learning rate of the user vector.
        learning_rate_user: f64 = 1.0, > 0.0;
        /// Learning rate of the item rows. The mean over a batch and then over clients makes it
        /// large.
        learning_rate_items: f64 = 10_000.0, > 0.0;
        /// How far the server goes along the mean of the differences.
        learning_rate_server: f64 = 1.0, > 0.0;
        /// Whether a client reconstructs its user vector from one half of its samples and trains
        /// the table on the other, as in Algorithm 1. Otherwise all samples do both, which the
        /// authors' code can do as well (`split_dataset`).
        splits_samples: bool = true;
        /// Whether a client keeps the item table that it has tuned, and scores with it (DualPer of
        /// PFedRec's authors). The tables are averaged as before.
        dual_personalization: bool = false;
        /// Whether all uploads weigh the same, which noise on the sum and every epsilon need.
        /// Otherwise an upload says its number of query samples, and weighs as much.
        equal_weights: bool = false;
        /// Steps the user vector towards the rows of recent positives before a device scores. Left
        /// out: it scores with the vector that it has reconstructed.
        recency: Option<RecentStep> = None;
    }
}

/// The largest magnitude of the draws that a reconstruction starts from.
const REACH: f64 = 0.05;

impl FedRecon {
    fn step(&self, target: Target) -> LogisticStep {
        LogisticStep {
            target,
            vector_rate: self.learning_rate_user as f32,
            bias_rate: 0.0,
            row_rate: self.learning_rate_items as f32,
            weight_decay: 0.0,
        }
    }

    /// Reconstructs the user vector from the samples `support`, from a fresh draw and with the item
    /// rows held fixed.
    fn reconstruct(
        &self,
        session: &mut Session<'_>,
        support: &mut [(u32, bool)],
        stream: &mut Stream,
    ) -> Vec<f32> {
        let draw = |_| stream.uniform_within(REACH) as f32;
        let mut user: Vec<f32> = (0..self.latent_dimension).map(draw).collect();
        let mut packed = packed_vector(&user);
        let passes = Training::of(self.reconstruction_epochs, self.batch_size);
        let moved = (&mut packed[..], &mut 0.0);
        session.run(
            &passes,
            (support, stream),
            moved,
            &[self.step(Target::Vector)],
        );
        unpack_into(&packed, &mut user);
        user
    }
}

impl Declare for FedRecon {
    type Parameters = Self;
    type Memory = ();

    const NAME: &str = "fedrecon";
    const SUMMARY: &str = "federated reconstruction: no private state; a user vector is made anew \
                           from one half of the samples, and the item table trained on the other";
    const SOURCE: &str = "Singhal et al., Federated Reconstruction: Partially Local Federated \
                          Learning, NeurIPS 2021; code google-research/federated 23b1081, in the \
                          implicit form that the PFedRec paper compares with";

    fn resolve(p: &mut Self) -> Vec<ParameterFault> {
        recent_step::idle(p.recency.as_ref())
    }

    fn new(parameters: Self, _problem: &Problem) -> Self {
        parameters
    }

    fn blocks(&self, size: ProblemSize) -> Vec<Block> {
        let rule = ServerRule {
            rate: self.learning_rate_server,
            ..ServerRule::MEAN
        };
        let table = item_table("V", size.items, self.latent_dimension).start(normal(1.0));
        vec![table.rule(rule).kept_by_client(self.dual_personalization)]
    }

    fn is_weighed(&self) -> bool {
        !self.equal_weights
    }

    fn trains_on_sampled_rows(&self) -> bool {
        true
    }

    /// With an odd number of samples the query half has one more.
    fn train(&self, _: &mut Own, task: &LocalTask<'_>, scratch: &mut Scratch) -> Result<Trained> {
        learn::draw_samples(task, &mut scratch.samples)?;
        let table = table_of(task.model, "V");
        let mut stream = task.named_stream("fedrecon/participation");
        let (mut session, samples) = Session::of(table, scratch);
        stream.shuffle_portably(samples);
        let half = samples.len() / 2;
        let (support, query) = match self.splits_samples {
            true => (0..half, half..samples.len()),
            false => (0..samples.len(), 0..samples.len()),
        };
        let mut all = samples.to_vec();
        let user = self.reconstruct(&mut session, &mut all[support], &mut stream);
        task.check_magnitude("u", largest_magnitude(&user))?;
        let query = &mut all[query];
        let passes = Training::of(self.local_epochs, self.batch_size);
        let fixed = (&mut packed_vector(&user)[..], &mut 0.0);
        let step = self.step(Target::Rows);
        let loss = session.run(&passes, (&mut *query, &mut stream), fixed, &[step]);
        let work = Work::of_row_visits(session.row_visits);
        let update = learn::update(task, scratch, ("V", table.shape()), 1.0)?;
        let update = ModelUpdate::of_table(update).weighing(query.len() as f32);
        Ok(Trained::new(update, loss, work))
    }

    fn scorer<'a>(&'a self, own: &'a Own, mut context: ScoringContext<'a>) -> Scoring<'a> {
        let table = own.table("V", context.model)?;
        context.draw_samples()?;
        let mut stream = context.named_stream("fedrecon/scoring");
        let (mut session, samples) = Session::of(&table, context.scratch);
        let user = self.reconstruct(&mut session, samples, &mut stream);
        let of_user = (&context.own, context.user);
        let user = stepped(self.recency.as_ref(), user, &table, of_user)?;
        Ok(Box::new(Products::new(user, &table)))
    }
}
