//! Implements probabilistic matrix factorisation and SVD++ at the server, which FedRec in its batch
//! style is compared with.
//!
//! The server has the ratings and vectors of all users, and makes the steps that FedRec's devices
//! and server make without virtual items, in the same order. From the same initial values, U and
//! the item tables have the same bits as those of FedRec.
//!
//! Source: Salakhutdinov and Mnih, Probabilistic Matrix Factorization, NIPS 2007, and Koren,
//! Factorization Meets the Neighborhood, KDD 2008; learning rates and order of steps as in the
//! authors' code of FedRec (Guanyu-Lin/FedRec 521b7cf).

use super::{FedRec, FedRecParameters};
use crate::declare::Declared;
use crate::prelude::*;
use fedrecsim_core::InvitationId;

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry::at_server::<Pmf<false>>();

/// Describes SVD++ to the registry.
pub(crate) const SVD_PLUS_PLUS: Entry = Entry::at_server::<Pmf<true>>();

parameters! {
    /// Parameters of PMF and SVD++ at the server.
    pub(crate) struct PmfParameters {
        /// Latent dimension d.
        latent_dimension: u32 = FedRecParameters::default().latent_dimension, >= 1, <= MAX_DIMENSION;
        /// Learning rate gamma. Left out: 0.8 for PMF, 0.4 for SVD++.
        learning_rate: Option<f64> = None, > 0.0;
        /// Factor of the learning rate after every pass.
        learning_rate_decay: f64 = FedRecParameters::default().learning_rate_decay, > 0.0, <= 1;
        /// Weight lambda of the regulariser.
        regularization: f64 = FedRecParameters::default().regularization, >= 0;
        /// U and the item tables start uniformly distributed over an interval of this length around
        /// 0.
        initial_range: f64 = FedRecParameters::default().initial_range, > 0.0;
    }
}

/// Makes the steps of a FedRec, with SVD++ if `WITH_O`.
#[derive(Debug)]
pub(crate) struct Pmf<const WITH_O: bool> {
    fedrec: FedRec<WITH_O>,
    streams: Streams,
}

impl<const WITH_O: bool> Central for Pmf<WITH_O> {
    type Parameters = PmfParameters;
    type Memory = ();

    const NAME: &str = if WITH_O { "svdpp" } else { "pmf" };
    const SUMMARY: &str = if WITH_O {
        "rating prediction by SVD++ at the server; FedRec's batch style with SVD++ without federation"
    } else {
        "rating prediction by matrix factorisation at the server; FedRec's batch style without federation"
    };
    const SOURCE: &str = if WITH_O {
        "Koren, Factorization Meets the Neighborhood, KDD 2008, with the settings of FedRec 2020"
    } else {
        "Salakhutdinov and Mnih, Probabilistic Matrix Factorization, NIPS 2007, with the settings \
         of FedRec 2020"
    };
    const FORMULA: &[&str] = if WITH_O {
        &[
            "r̂_ui = P_ui · V_i,  P_ui = U_u + Σ_{j∈J} O_j / √|J|,  J = I_u without i,  e_ui = r̂_ui − r_ui",
            "L = ½ Σ_u Σ_{i∈I_u} (e_ui² + λ ‖U_u‖² + λ ‖V_i‖² + λ Σ_{j∈J} ‖O_j‖²)",
            "U_u moves by γ times its mean slope over i, V_i by γ times that over its users, O_j by the mean of its users' moves",
        ]
    } else {
        &[
            "r̂_ui = U_u · V_i,  e_ui = r̂_ui − r_ui",
            "L = ½ Σ_u Σ_{i∈I_u} (e_ui² + λ ‖U_u‖² + λ ‖V_i‖²)",
            "U_u ← U_u − γ mean_i (e_ui V_i + λ U_u),  V_i ← V_i − γ mean_u (e_ui U_u + λ V_i)",
        ]
    };
    const DRAWS_NEGATIVES: bool = false;
    const PREDICTS_RATINGS: bool = true;

    fn new(p: PmfParameters, problem: &Problem) -> Self {
        let parameters = FedRecParameters {
            latent_dimension: p.latent_dimension,
            learning_rate: p.learning_rate,
            learning_rate_decay: p.learning_rate_decay,
            regularization: p.regularization,
            initial_range: p.initial_range,
            ..FedRecParameters::default()
        };
        Self {
            fedrec: FedRec::new(parameters, problem),
            streams: problem.streams,
        }
    }

    /// The item tables come first. A user's row of U starts as on the user's device.
    fn blocks(&self, size: ProblemSize) -> Vec<Block> {
        let mut blocks = self.fedrec.blocks(size);
        let streams = self.streams;
        for user in blocks.iter_mut().filter(|block| block.name() == "U") {
            let (of_one, d) = (user.clone(), user.layout.shape.dimension);
            *user = weights("U", size.users, d).start(Start::table(move |_, shape| {
                let rows = (0..shape.rows as u64).flat_map(|user| {
                    let mut stream = streams.stream(Purpose::PrivateInit, user, 0);
                    let row = of_one.start.table_of(&mut stream, &of_one.layout);
                    row.as_slice().to_vec()
                });
                Table::new(shape, rows.collect())
            }));
        }
        blocks
    }

    /// Has all devices of a FedRec take part in a step, from the present item tables.
    fn pass(&self, pass: Pass<'_, ()>) -> Result<StepReport> {
        let (fedrec, step) = (&self.fedrec, pass.step);
        let names = FedRec::<WITH_O>::TABLES;
        let start = |name: &&'static str| (*name, Table::clone(table_of(pass.model, name)));
        let starts: Vec<_> = names.iter().map(start).collect();
        let parameters = fedrec.parameters.clone();
        let federated = Declared::<FedRec<WITH_O>>::starting_at(parameters, pass.problem, &starts);
        let (received, mut server) = (federated.initial(), federated.server());
        let (users, iteration) = (names.len(), fedrec.iteration(step.step));
        let (mut visits, mut losses) = (0, 0.0);
        let mut sums = server.accumulator();
        for (number, sent) in (0..).zip(pass.ratings) {
            let vector = pass.model.table_mut(users).row_mut(sent.user.index());
            let rated = (&sent.items[..], &sent.ratings[..]);
            let decays = (iteration, iteration);
            let trained = fedrec.participate(&received, vector, decays, rated, |_, _| Ok(()))?;
            losses += trained.loss;
            visits += trained.work.row_visits;
            let (invitation, update) = (InvitationId(number), &trained.update);
            let contribution = Contribution::fresh(sent.user, invitation, update, &received);
            sums.absorb(&[contribution])?;
        }
        let stepped = server.step(sums, step)?;
        let vectors = pass.model.table(users).as_slice();
        let report = pass.report(("U", vectors), (losses, pass.ratings.len()), 0)?;
        for (at, name) in names.iter().enumerate() {
            let table = server.model().table(at);
            step.check_magnitude(name, largest_magnitude(table.as_slice()))?;
            pass.model.set_table(at, table.clone())?;
        }
        Ok(StepReport {
            row_visits: stepped.row_visits + visits,
            loss: report.loss,
            ..stepped
        })
    }

    fn scorer<'a>(&'a self, context: ScoringContext<'a>) -> Scoring<'a> {
        let vector = table_of(context.model, "U").row(context.user.index());
        Ok(FedRec::<WITH_O>::scorer_with(vector, &context))
    }
}
