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
//! and u takes several passes. Both are choices of this simulator. So are the other losses, which
//! split groups of a positive and its negatives in place of single samples.

use super::declare::learn::{self, Factors, Session, groups_of};
use super::prelude::*;
use super::recent_step::{self, RecentStep, stepped};
use fedrecsim_model::kernel::logistic::{LogisticStep, Target};
use fedrecsim_model::kernel::{RoundRows, packed_vector, unpack_into};
use std::ops::Range;

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
        /// What training minimises.
        loss: Loss = Loss::BinaryCrossEntropy;
        /// How far the server goes along the mean of the differences.
        learning_rate_server: f64 = 1.0, > 0.0;
        /// Whether a client reconstructs its user vector from one half of its samples and trains
        /// the table on the other, as in Algorithm 1. Otherwise all samples do both, which the
        /// authors' code can do as well (`split_dataset`). With another loss than the binary
        /// cross-entropy, a positive and its negatives are in the same half.
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

    /// Returns whether training goes by groups of a positive and its negatives. The binary
    /// cross-entropy goes by single samples.
    fn has_groups(&self) -> bool {
        self.loss != Loss::BinaryCrossEntropy
    }

    /// Returns the factors that groups train: the vector of a user, which is none yet, and these rows.
    fn factors(&self, rows: Vec<f32>) -> Factors {
        Factors::new(vec![0.0; self.latent_dimension as usize], rows)
    }

    /// Makes passes over samples by the packed kernel.
    fn pass_by_samples(&self, session: &mut Session<'_>, pass: Pass<'_, (u32, bool)>) -> f64 {
        let mut packed = packed_vector(pass.user);
        let moved = (&mut packed[..], &mut 0.0);
        let loss = session.run(
            &Training::of(pass.epochs, self.batch_size),
            (pass.parts, pass.order),
            moved,
            &[self.step(pass.target)],
        );
        unpack_into(&packed, pass.user);
        loss
    }

    /// Makes passes over groups of `samples`.
    fn pass_by_groups(
        &self,
        factors: &mut Factors,
        samples: &[(u32, bool)],
        pass: Pass<'_, Range<usize>>,
    ) -> f64 {
        let step = self.step(pass.target);
        let moves = match pass.target {
            Target::Vector => [Some((step.vector_rate, 1.0)), None, None, None],
            _ => [None, Some((step.row_rate, 1.0)), None, None],
        };
        factors.user.copy_from_slice(pass.user);
        let passes = Training::of(pass.epochs, self.batch_size);
        let loss = passes.run_groups(pass.parts, pass.order, |groups| {
            factors.step(self.loss, samples, groups, moves) as f32
        });
        pass.user.copy_from_slice(&factors.user);
        loss
    }

    /// Returns the user vector that a fresh draw and `parts` of the samples give, with the item rows
    /// held fixed.
    fn reconstruct<T>(
        &self,
        parts: &mut [T],
        order: &mut Stream,
        run: &mut Run<'_, T>,
    ) -> Vec<f32> {
        let draw = |_| order.uniform_within(REACH) as f32;
        let mut user: Vec<f32> = (0..self.latent_dimension).map(draw).collect();
        run(Pass {
            parts,
            order,
            epochs: self.reconstruction_epochs,
            user: &mut user,
            target: Target::Vector,
        });
        user
    }

    /// Reconstructs the user vector from the support half of `parts` and trains the item rows on the
    /// query half, and returns the mean loss of the query and which parts it has. With an odd number
    /// of parts it has one more.
    fn participate<T>(
        &self,
        parts: &mut [T],
        task: &LocalTask<'_>,
        run: &mut Run<'_, T>,
    ) -> Result<(f64, Range<usize>)> {
        let order = &mut task.named_stream("fedrecon/participation");
        order.shuffle_portably(parts);
        let half = parts.len() / 2;
        let (support, query) = match self.splits_samples {
            true => (0..half, half..parts.len()),
            false => (0..parts.len(), 0..parts.len()),
        };
        let mut user = self.reconstruct(&mut parts[support], order, run);
        task.check_values("u", &user)?;
        let loss = run(Pass {
            parts: &mut parts[query.clone()],
            order,
            epochs: self.local_epochs,
            user: &mut user,
            target: Target::Rows,
        });
        Ok((loss, query))
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
    const FORMULA: &[&str] = &[
        "s_i = u · V_i,  L = mean BCE(s_i, y_i)",
        "first u, from a draw of U(−0.05, 0.05), by one half of the samples, then V by the other (Algorithm 1)",
        "V ← V + η Σ_u q_u ΔV_u / Σ_u q_u,  with the q_u samples of the other half",
    ];
    const DIFFERS: &str = "The published runs fit explicit ratings in batches of five, with the \
                           rates 0.1 for u and 0.5 for V. The logistic loss, the batches, the \
                           rates and the passes are this simulator's. As an option of the code, \
                           all samples do both (`splits_samples = false`).";

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

    fn train(&self, _: &mut Own, task: &LocalTask<'_>, scratch: &mut Scratch) -> Result<Trained> {
        let table = table_of(task.model, "V");
        if self.has_groups() {
            let rows = learn::draw_rows(task, table, scratch)?;
            let RoundRows {
                rows: listed,
                samples,
                ..
            } = &scratch.round_rows;
            let mut factors = self.factors(rows);
            let run = &mut |pass: Pass<'_, _>| self.pass_by_groups(&mut factors, samples, pass);
            let mut groups = groups_of(samples);
            let (loss, query) = self.participate(&mut groups, task, run)?;
            let update = learn::listed_update(task, "V", listed, &factors.rows)?;
            let weight = groups[query].iter().map(Range::len).sum();
            return Ok(trained(update, weight, loss, factors.row_visits));
        }
        learn::draw_samples(task, &mut scratch.samples)?;
        let (mut session, samples) = Session::of(table, scratch);
        let run = &mut |pass: Pass<'_, _>| self.pass_by_samples(&mut session, pass);
        let (loss, query) = self.participate(samples, task, run)?;
        let row_visits = session.row_visits;
        let update = learn::update(task, scratch, ("V", table.shape()), 1.0)?;
        Ok(trained(update, query.len(), loss, row_visits))
    }

    fn scorer<'a>(&'a self, own: &'a Own, mut context: ScoringContext<'a>) -> Scoring<'a> {
        let table = own.table("V", context.model)?;
        context.draw_samples()?;
        let mut order = context.named_stream("fedrecon/scoring");
        let user = if self.has_groups() {
            let rows = learn::gather_rows(&table, context.scratch);
            let samples = &context.scratch.round_rows.samples;
            let mut factors = self.factors(rows);
            let run = &mut |pass: Pass<'_, _>| self.pass_by_groups(&mut factors, samples, pass);
            self.reconstruct(&mut groups_of(samples), &mut order, run)
        } else {
            let (mut session, samples) = Session::of(&table, context.scratch);
            let run = &mut |pass: Pass<'_, _>| self.pass_by_samples(&mut session, pass);
            self.reconstruct(samples, &mut order, run)
        };
        let of_user = (&context.own, context.user);
        let user = stepped(self.recency.as_ref(), user, &table, of_user)?;
        Ok(Box::new(Products::new(user, &table)))
    }
}

/// Describes passes over parts of the samples, which are single samples or groups of them.
struct Pass<'p, T> {
    parts: &'p mut [T],
    order: &'p mut Stream,
    epochs: u32,
    user: &'p mut [f32],
    target: Target,
}

/// Makes passes, and returns the mean loss.
type Run<'r, T> = dyn FnMut(Pass<'_, T>) -> f64 + 'r;

/// Describes a participation whose query has `weight` samples.
fn trained(update: TableUpdate, weight: usize, loss: f64, row_visits: u64) -> Trained {
    let update = ModelUpdate::of_table(update).weighing(weight as f32);
    Trained::new(update, loss, Work::of_row_visits(row_visits))
}
