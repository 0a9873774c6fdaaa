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

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::client::{FedRecScratch, V};
use super::numerics::Style;
use super::server::FedRecServer;
use super::{Factors, FedRec, FedRecParameters, Shared};
use crate::method::central::{
    CentralClient, CentralServer, CentralTrainer, UserRatings, ratings_layout,
};
use crate::method::network::model_of;
use crate::method::server::{Contribution, StepContext, StepReport};
use crate::method::{
    Client, Entry, Method, Phase, Placement, Problem, ScoringContext, Server, largest_magnitude,
    parameters, sizes_by,
};
use fedrecsim_core::error::Result;
use fedrecsim_core::ids::{InvitationId, UserId};
use fedrecsim_model::model::blocks::Model;
use fedrecsim_model::model::kernel::MAX_DIMENSION;
use fedrecsim_model::model::layout::{BlockLayout, Layout};
use fedrecsim_model::model::table::{Table, TableShape};
use fedrecsim_scenario::scenario::sizes::{BlockSize, ProblemSize};

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry {
    name: "pmf",
    summary: "rating prediction by matrix factorisation at the server; FedRec's batch style without federation",
    source: "Salakhutdinov and Mnih, Probabilistic Matrix Factorization, NIPS 2007, with the settings of FedRec 2020",
    schema: &|| schemars::schema_for!(PmfParameters),
    resolve: &|_| Vec::new(),
    placement: Placement::Central,
    draws_negatives: false,
    sizes: &|value, size| sizes(Factors::Pmf, value, size),
    build: &|value, problem| {
        Ok(Box::new(Pmf::new(
            Factors::Pmf,
            &parameters("pmf", value)?,
            problem,
        )))
    },
};

/// Describes SVD++ to the registry.
pub(crate) const SVD_PLUS_PLUS: Entry = Entry {
    name: "svdpp",
    summary: "rating prediction by SVD++ at the server; FedRec's batch style with SVD++ without federation",
    source: "Koren, Factorization Meets the Neighborhood, KDD 2008, with the settings of FedRec 2020",
    sizes: &|value, size| sizes(Factors::SvdPlusPlus, value, size),
    build: &|value, problem| {
        Ok(Box::new(Pmf::new(
            Factors::SvdPlusPlus,
            &parameters("svdpp", value)?,
            problem,
        )))
    },
    ..ENTRY
};

/// Parameters of PMF and SVD++ at the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PmfParameters {
    /// Latent dimension d.
    #[schemars(range(min = 1, max = MAX_DIMENSION))]
    pub latent_dimension: u32,
    /// Learning rate gamma. Left out: 0.8 for PMF, 0.4 for SVD++.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub learning_rate: Option<f64>,
    /// Factor of the learning rate after every pass.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0.0))]
    pub learning_rate_decay: f64,
    /// Weight lambda of the regulariser.
    #[schemars(range(min = 0))]
    pub regularization: f64,
    /// U and the item tables start uniformly distributed over an interval of this length around 0.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub initial_range: f64,
}

impl Default for PmfParameters {
    fn default() -> Self {
        let FedRecParameters {
            latent_dimension,
            learning_rate_decay,
            regularization,
            initial_range,
            ..
        } = FedRecParameters::default();
        Self {
            latent_dimension,
            learning_rate: None,
            learning_rate_decay,
            regularization,
            initial_range,
        }
    }
}

/// Describes the method by the FedRec whose steps it makes.
#[derive(Debug)]
pub(crate) struct Pmf {
    federated: FedRec,
    users: usize,
}

impl Pmf {
    /// Makes the method for a problem of this size, with the initial values of FedRec.
    pub(crate) fn new(factors: Factors, parameters: &PmfParameters, problem: &Problem) -> Self {
        let PmfParameters {
            latent_dimension,
            learning_rate,
            learning_rate_decay,
            regularization,
            initial_range,
        } = *parameters;
        let federated = FedRecParameters {
            latent_dimension,
            style: Style::Batch,
            learning_rate,
            learning_rate_decay,
            regularization,
            initial_range,
            ..FedRecParameters::default()
        };
        Self {
            federated: FedRec::new(factors, federated, problem),
            users: problem.users,
        }
    }

    fn trainer(&self) -> PmfTrainer {
        let shared = &self.federated.shared;
        let dimension = shared.shape.dimension;
        let mut vectors = Table::zeros(TableShape {
            rows: self.users,
            dimension,
        });
        (0..self.users).for_each(|user| {
            vectors
                .row_mut(user)
                .copy_from_slice(&shared.initial_user_vector(UserId::from(user)))
        });
        let upload = self.federated.upload_layout(Phase::default());
        let server = FedRecServer::new(Arc::clone(shared), self.federated.initial(), upload);
        let model = whole_model(shared.factors, server.model(), vectors);
        PmfTrainer {
            shared: Arc::clone(shared),
            server,
            model,
        }
    }
}

/// Returns the layout of the item tables and of U, of which rows have the width of `shape`.
fn layout(factors: Factors, shape: TableShape, users: usize) -> Layout {
    let of_users = BlockLayout::weights(
        "U",
        TableShape {
            rows: users,
            ..shape
        },
    );
    Layout::new([factors.layout(shape).blocks(), &[of_users]].concat())
}

fn sizes(factors: Factors, value: &Value, size: ProblemSize) -> Vec<BlockSize> {
    let shape = |p: &PmfParameters| TableShape::of_items(size.items, p.latent_dimension);
    sizes_by(value, |p: PmfParameters| {
        layout(factors, shape(&p), size.users)
    })
}

/// Returns the model that consists of the item tables of `items` and of U.
fn whole_model(factors: Factors, items: &Model, users: Table) -> Model {
    let layout = layout(factors, items.table(V).shape(), users.shape().rows);
    let tables = items.tables().map(|(_, table)| Table::clone(table));
    model_of(layout, tables.chain([users]).collect())
}

/// Returns U, the last block of the whole model.
fn users(model: &Model) -> &Table {
    model.table(model.blocks().len() - 1)
}

impl Method for Pmf {
    fn initial(&self) -> Model {
        self.trainer().model
    }

    fn download_layout(&self, _phase: Phase) -> Layout {
        Layout::none()
    }

    fn upload_layout(&self, _phase: Phase) -> Layout {
        ratings_layout(self.federated.shared.shape.rows)
    }

    fn client(&self, _user: UserId) -> Box<dyn Client> {
        let factors = self.federated.shared.factors;
        Box::new(CentralClient::new(
            move |context: &ScoringContext<'_>, items: &[u32], scores: &mut [f32]| {
                factors.score(
                    users(context.model).row(context.user.index()),
                    context,
                    items,
                    scores,
                );
            },
        ))
    }

    fn predicts_ratings(&self) -> bool {
        true
    }

    fn server(&self) -> Box<dyn Server> {
        Box::new(CentralServer::new(Box::new(self.trainer())))
    }
}

/// Makes the participations of all users one after the other, and then the server's step.
pub(super) struct PmfTrainer {
    shared: Arc<Shared>,
    server: FedRecServer,
    model: Model,
}

impl CentralTrainer for PmfTrainer {
    fn model(&self) -> &Model {
        &self.model
    }

    fn set_model(&mut self, model: Model) -> Result<()> {
        self.model.check_same_layout(&model)?;
        let tables = model
            .tables()
            .take(model.blocks().len() - 1)
            .map(|(_, table)| Table::clone(table));
        self.server.set_model(model_of(
            self.server.model().layout().clone(),
            tables.collect(),
        ))?;
        self.model = model;
        Ok(())
    }

    fn pass(&mut self, ratings: &[UserRatings], step: &StepContext<'_>) -> Result<StepReport> {
        let (received, mut vectors) = (
            self.server.model().clone(),
            Table::clone(users(&self.model)),
        );
        let iteration = self.shared.iteration(step.step);
        let (mut visits, mut losses) = (0, 0.0);
        let mut sums = self.server.accumulator();
        let scratch = &mut FedRecScratch::default();
        for (number, sent) in ratings.iter().enumerate() {
            scratch.items.clone_from(&sent.items);
            scratch.ratings.clone_from(&sent.ratings);
            let vector = vectors.row_mut(sent.user.index());
            let (loss, row_visits) =
                self.shared
                    .participate(&received, vector, (iteration, iteration), scratch);
            (losses, visits) = (losses + loss, visits + row_visits);
            let update = scratch.update(self.shared.factors, self.shared.shape, false)?;
            let invitation_id = InvitationId(number as u32);
            sums.absorb(&[Contribution::fresh(
                sent.user,
                invitation_id,
                &update,
                &received,
            )])?;
        }
        let report = self.server.step(sums, step)?;
        step.check_magnitude("U", largest_magnitude(vectors.as_slice()))?;
        for (name, (_, table)) in self
            .shared
            .factors
            .tables()
            .iter()
            .zip(self.server.model().tables())
        {
            step.check_magnitude(name, largest_magnitude(table.as_slice()))?;
        }
        if !losses.is_finite() {
            return Err(step.diverged("the loss", losses as f32));
        }
        self.model = whole_model(self.shared.factors, self.server.model(), vectors);
        let loss = (!ratings.is_empty()).then(|| losses / ratings.len() as f64);
        Ok(StepReport {
            row_visits: report.row_visits + visits,
            loss,
            ..report
        })
    }
}
