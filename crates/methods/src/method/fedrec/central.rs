//! Implements probabilistic matrix factorisation and SVD++ at the server, with which FedRec in its
//! batch style is compared.
//!
//! The server has the ratings and vectors of all users, and makes the steps that FedRec's devices
//! and server make without virtual items, in the same order. From the same initial values, U and
//! the item tables have the same bits as those of FedRec.
//!
//! Source: Salakhutdinov and Mnih, Probabilistic Matrix Factorization, NIPS 2007, and Koren,
//! Factorization Meets the Neighborhood, KDD 2008; learning rates and order of steps as in the
//! authors' code of FedRec (Guanyu-Lin/FedRec 521b7cf).

use std::sync::Arc;

use super::client::FedRecScratch;
use super::numerics::Style;
use super::{Factors, FedRecParameters, Settings};
use crate::method::prelude::*;
use fedrecsim_core::ids::InvitationId;
use fedrecsim_model::model::table::SharedTable;

/// Describes the method to the registry.
pub const ENTRY: Entry = Entry::at_server::<Pmf<false>>();

/// Describes SVD++ to the registry.
pub const SVD_PLUS_PLUS: Entry = Entry::at_server::<Pmf<true>>();

parameters! {
    /// Parameters of PMF and SVD++ at the server.
    pub struct PmfParameters {
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
pub struct Pmf<const WITH_O: bool> {
    settings: Arc<Settings>,
    streams: Streams,
}

impl<const WITH_O: bool> Pmf<WITH_O> {
    /// Returns the part of a model that the server of FedRec has, which are the item tables.
    fn item_tables(&self, model: &Model) -> Result<Model> {
        let names = self.settings.factors.tables();
        let layout = model.layout().blocks()[..names.len()].to_vec();
        let tables = names.iter().map(|name| Table::clone(table_of(model, name)));
        Ok(Model::of_tables(Layout::new(layout), tables))
    }
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
    const DRAWS_NEGATIVES: bool = false;
    const PREDICTS_RATINGS: bool = true;

    fn new(parameters: PmfParameters, problem: &Problem) -> Self {
        let PmfParameters {
            latent_dimension,
            learning_rate,
            learning_rate_decay,
            regularization,
            initial_range,
        } = parameters;
        let parameters = FedRecParameters {
            latent_dimension,
            style: Style::Batch,
            learning_rate,
            learning_rate_decay,
            regularization,
            initial_range,
            ..FedRecParameters::default()
        };
        let factors = match WITH_O {
            true => Factors::SvdPlusPlus,
            false => Factors::Pmf,
        };
        Self {
            settings: Arc::new(Settings::new(factors, parameters, problem)),
            streams: problem.streams,
        }
    }

    /// The item tables come first. A user's row of U starts as on the user's device.
    fn blocks(&self, size: ProblemSize) -> Vec<Block> {
        let mut blocks = self.settings.blocks(size.items);
        let (streams, start) = (self.streams, self.settings.start());
        blocks.pop();
        let users = weights(
            "U",
            size.users,
            self.settings.parameters.latent_dimension as usize,
        );
        blocks.push(users.start(Start::table(move |_, shape| {
            let row = BlockLayout::weights("U", TableShape { rows: 1, ..shape });
            let of_user = |user: usize| -> SharedTable {
                let mut stream = streams.stream(Purpose::PrivateInit, user as u64, 0);
                start.table_of(&mut stream, &row)
            };
            let rows: Vec<SharedTable> = (0..shape.rows).map(of_user).collect();
            Table::new(
                shape,
                rows.iter()
                    .flat_map(|row| row.as_slice())
                    .copied()
                    .collect(),
            )
        })));
        blocks
    }

    fn pass(&self, pass: Pass<'_, ()>) -> Result<StepReport> {
        let (settings, step) = (&self.settings, pass.step);
        let received = self.item_tables(pass.model)?;
        let of_users = received.blocks().len();
        let blocks = settings.blocks(pass.problem.items);
        let shared = &blocks[..of_users];
        let rules: Vec<ServerRule> = shared.iter().map(|block| block.rule).collect();
        let upload = Layout::new(shared.iter().map(Block::sent).collect());
        let averager = Averager::with_rules(received.clone(), upload, &rules);
        let mut server = settings.scheduled(averager);
        let (shape, iteration) = (received.table(0).shape(), settings.iteration(step.step));
        let (mut visits, mut losses) = (0, 0.0);
        let mut sums = server.accumulator();
        let scratch = &mut FedRecScratch::default();
        for (number, sent) in (0..).zip(pass.ratings) {
            scratch.items.clone_from(&sent.items);
            scratch.ratings.clone_from(&sent.ratings);
            let vector = pass.model.table_mut(of_users).row_mut(sent.user.index());
            let decays = (iteration, iteration);
            let (loss, row_visits) = settings.participate(&received, vector, decays, scratch);
            (losses, visits) = (losses + loss, visits + row_visits);
            let update = ModelUpdate::of_blocks(scratch.updates(settings.factors, shape)?);
            let invitation_id = InvitationId(number);
            let contribution = Contribution::fresh(sent.user, invitation_id, &update, &received);
            sums.absorb(&[contribution])?;
        }
        let stepped = server.step(sums, step)?;
        let users = pass.model.table(of_users).as_slice();
        let report = pass.report(("U", users), (losses, pass.ratings.len()), 0)?;
        for (at, name) in settings.factors.tables().iter().enumerate() {
            let table = server.model().table(at);
            step.check_magnitude(name, largest_magnitude(table.as_slice()))?;
            pass.model.set_table(at, Arc::clone(table))?;
        }
        Ok(StepReport {
            row_visits: stepped.row_visits + visits,
            loss: report.loss,
            ..stepped
        })
    }

    fn scorer<'a>(
        &'a self,
        context: &ScoringContext<'a>,
        _scratch: &mut Scratch,
    ) -> Result<Box<dyn Scorer + 'a>> {
        let (factors, context) = (self.settings.factors, *context);
        let vector = table_of(context.model, "U").row(context.user.index());
        Ok(Box::new(move |items: &[u32], scores: &mut [f32]| {
            factors.score(vector, &context, items, scores)
        }))
    }
}
