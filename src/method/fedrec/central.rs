//! Implements probabilistic matrix factorisation at the server, with which FedRec in its batch style is compared.
//!
//! The server has the ratings and vectors of all users, and makes the steps that FedRec's devices and server make
//! without virtual items, in the same order. From the same initial values, U and V have the same bits as those of
//! FedRec.
//!
//! Source: Salakhutdinov and Mnih, Probabilistic Matrix Factorization, NIPS 2007; learning rates and order of steps as
//! in the authors' code of FedRec (Guanyu-Lin/FedRec 521b7cf).

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::numerics::{Memory, Participation, Style};
use super::server::FedRecServer;
use super::{FedRec, FedRecParameters, Shared};
use crate::error::Result;
use crate::ids::{InvitationId, UserId};
use crate::method::central::{CentralClient, CentralServer, CentralTrainer, UserRatings, ratings_layout};
use crate::method::network::model_of;
use crate::method::server::{Contribution, StepContext, StepReport};
use crate::method::user_vector::score_items;
use crate::method::{
    Client, Entry, Method, Phase, Placement, Problem, ScoringContext, Server, largest_magnitude, parameters, sizes_by,
};
use crate::model::blocks::{Model, ModelUpdate};
use crate::model::kernel::MAX_DIMENSION;
use crate::model::layout::{BlockLayout, Layout};
use crate::model::table::{Table, TableShape, TableUpdate};

/// Describes the method to the registry.
pub const ENTRY: Entry = Entry {
    name: "pmf",
    summary: "rating prediction by matrix factorisation at the server; FedRec's batch style without federation",
    source: "Salakhutdinov and Mnih, Probabilistic Matrix Factorization, NIPS 2007, with the settings of FedRec 2020",
    schema: || schemars::schema_for!(PmfParameters),
    resolve: |_| Vec::new(),
    placement: Placement::Central,
    draws_negatives: false,
    sizes: |value, size| {
        sizes_by(value, |p: PmfParameters| layout([size.items, size.users], p.latent_dimension as usize))
    },
    build: |value, problem| Ok(Box::new(Pmf::new(&parameters("pmf", value)?, problem))),
};

/// Parameters of PMF.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PmfParameters {
    /// Latent dimension d.
    #[schemars(range(min = 1, max = MAX_DIMENSION))]
    pub latent_dimension: u32,
    /// Learning rate gamma.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub learning_rate: f64,
    /// Factor of the learning rate after every pass.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0.0))]
    pub learning_rate_decay: f64,
    /// Weight lambda of the regulariser.
    #[schemars(range(min = 0))]
    pub regularization: f64,
    /// U and V start uniformly distributed over an interval of this length around 0.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub initial_range: f64,
}

impl Default for PmfParameters {
    fn default() -> Self {
        let FedRecParameters { latent_dimension, learning_rate_decay, regularization, initial_range, .. } =
            FedRecParameters::default();
        Self { latent_dimension, learning_rate: 0.8, learning_rate_decay, regularization, initial_range }
    }
}

/// Describes the method by the FedRec whose steps it makes.
#[derive(Debug)]
pub struct Pmf {
    federated: FedRec,
    users: usize,
}

/// The positions of the model's blocks.
const ITEMS: usize = 0;
const USERS: usize = 1;

impl Pmf {
    /// Makes the method for a problem of this size, with the initial values of FedRec.
    pub fn new(parameters: &PmfParameters, problem: &Problem) -> Self {
        let PmfParameters { latent_dimension, learning_rate, learning_rate_decay, regularization, initial_range } =
            *parameters;
        let federated = FedRecParameters {
            latent_dimension,
            style: Style::Batch,
            learning_rate: Some(learning_rate),
            learning_rate_decay,
            regularization,
            initial_range,
            ..FedRecParameters::default()
        };
        Self { federated: FedRec::new(federated, problem), users: problem.users }
    }

    fn trainer(&self) -> PmfTrainer {
        let shared = &self.federated.shared;
        let items = self.federated.initial();
        let dimension = shared.shape.dimension;
        let mut vectors = Table::zeros(TableShape { rows: self.users, dimension });
        (0..self.users)
            .for_each(|user| vectors.row_mut(user).copy_from_slice(&shared.initial_user_vector(UserId::from(user))));
        let averager = FedRecServer::new(Arc::clone(shared), items, self.federated.upload_layout(Phase::default()));
        let model = whole_model(averager.model().table(0), vectors);
        PmfTrainer { shared: Arc::clone(shared), server: averager, model }
    }
}

/// Returns the layout of both tables, with `dimension` values in a row.
fn layout([items, users]: [usize; 2], dimension: usize) -> Layout {
    let shape = |rows| TableShape { rows, dimension };
    Layout::new(vec![BlockLayout::item_table("V", shape(items)), BlockLayout::weights("U", shape(users))])
}

/// Returns the model that consists of both tables.
fn whole_model(items: &Arc<Table>, users: Table) -> Model {
    let layout = layout([items.shape().rows, users.shape().rows], items.shape().dimension);
    model_of(layout, vec![Table::clone(items), users])
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
        Box::new(CentralClient::new(|context: &ScoringContext<'_>, items: &[u32], scores: &mut [f32]| {
            let ScoringContext { user, model, .. } = *context;
            score_items(model.table(USERS).row(user.index()), model.table(ITEMS), items, scores);
        }))
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
        self.server.set_model(Model::of_table("V", Arc::clone(model.table(ITEMS))))?;
        self.model = model;
        Ok(())
    }

    fn pass(&mut self, ratings: &[UserRatings], step: &StepContext<'_>) -> Result<StepReport> {
        let Shared { parameters, shape, filling, .. } = &*self.shared;
        let (items, mut users) = (Arc::clone(self.model.table(ITEMS)), Table::clone(self.model.table(USERS)));
        let received = Model::of_table("V", Arc::clone(&items));
        let iteration = self.shared.iteration(step.step);
        let (mut rows, mut gradients, mut memory) = (Vec::new(), Vec::new(), Memory::default());
        let mut sums = self.server.accumulator();
        let (mut visits, mut losses) = (0, 0.0);
        for (number, sent) in ratings.iter().enumerate() {
            rows.clear();
            items.append_rows(&sent.items, &mut rows);
            gradients.clear();
            gradients.resize(rows.len(), 0.0);
            let participation = Participation {
                style: Style::Batch,
                rows: &rows,
                ratings: &sent.ratings,
                filling: *filling,
                iteration,
                rate: self.shared.rate(iteration),
                regularization: parameters.regularization as f32,
            };
            visits += participation.row_visits(shape.dimension);
            losses += participation.train(users.row_mut(sent.user.index()), &mut gradients, &mut memory);
            let update = TableUpdate::listed(*shape, sent.items.clone(), &gradients, 1.0)?;
            let (invitation_id, update) = (InvitationId(number as u32), ModelUpdate::of_table(update));
            sums.absorb(&[Contribution::fresh(sent.user, invitation_id, &update, &received)])?;
        }
        let report = self.server.step(sums, step)?;
        let items = self.server.model().table(0);
        step.check_magnitude("U", largest_magnitude(users.as_slice()))?;
        step.check_magnitude("V", largest_magnitude(items.as_slice()))?;
        if !losses.is_finite() {
            return Err(step.diverged("the loss", losses as f32));
        }
        self.model = whole_model(items, users);
        let loss = (!ratings.is_empty()).then(|| losses / ratings.len() as f64);
        Ok(StepReport { row_visits: report.row_visits + visits, loss, ..report })
    }
}
