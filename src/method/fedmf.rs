//! Implements FedMF, federated matrix factorisation, for implicit feedback.
//!
//! The user vector u_i is private and the item table V is shared. The logit of item j is u_i . V_j and the loss is the
//! mean binary cross-entropy. A client trains both parameters at once by mini-batch SGD, and the server takes the plain
//! mean of V. Items are scored with the averaged V.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::minibatch::{self, Schedule};
use super::user_vector::score_items;
use super::{
    Client, Entry, LocalTask, LocalUpdate, Method, Placement, Problem, Scorer, ScoringContext, Scratch, parameters,
    sizes_of_item_table,
};
use crate::error::Result;
use crate::ids::UserId;
use crate::model::blocks::{Model, ModelUpdate};
use crate::model::kernel::MAX_DIMENSION;
use crate::model::kernel::logistic::{LogisticStep, Target};
use crate::model::private::Private;
use crate::model::state::StateVisitor;
use crate::model::table::{Table, TableShape};
use crate::rng::{PortableDraws, Purpose, Streams};

/// Describes the method to the registry.
pub const ENTRY: Entry = Entry {
    name: "fedmf",
    summary: "matrix factorisation: private user vector, averaged item table",
    source: "Chai et al., Secure Federated Matrix Factorization, IEEE Intelligent Systems 2020, in the implicit form \
             that the FedRAP and PFedRec papers compare with",
    schema: || schemars::schema_for!(FedMfParameters),
    resolve: |_| Vec::new(),
    placement: Placement::Federated,
    draws_negatives: true,
    sizes: |value, size| sizes_of_item_table("V", (value, size), |p: FedMfParameters| p.latent_dimension),
    build: |value, problem| Ok(Box::new(FedMf::new(parameters("fedmf", value)?, problem))),
};

/// Parameters of FedMF.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FedMfParameters {
    /// Latent dimension k.
    #[schemars(range(min = 1, max = MAX_DIMENSION))]
    pub latent_dimension: u32,
    /// Passes over the local samples per round.
    #[schemars(range(min = 1, max = 10_000))]
    pub local_epochs: u32,
    /// Samples per batch.
    #[schemars(range(min = 1))]
    pub batch_size: u32,
    /// Learning rate of the user vector.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub learning_rate_user: f64,
    /// Learning rate of the item rows. The mean over a batch and then over clients makes it large.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub learning_rate_items: f64,
}

impl Default for FedMfParameters {
    fn default() -> Self {
        Self {
            latent_dimension: 32,
            local_epochs: 1,
            batch_size: 256,
            learning_rate_user: 0.1,
            learning_rate_items: 10_000.0,
        }
    }
}

/// Holds what all clients share.
#[derive(Debug)]
pub struct FedMf {
    shared: Arc<Shared>,
    shape: TableShape,
}

#[derive(Debug)]
struct Shared {
    parameters: FedMfParameters,
    streams: Streams,
}

impl FedMf {
    /// Makes the method for a problem of this size. V is drawn from N(0, 1), and every user's u_i from U(-1/sqrt k,
    /// 1/sqrt k).
    pub fn new(parameters: FedMfParameters, problem: &Problem) -> Self {
        let shape = TableShape::of_items(problem.items, parameters.latent_dimension);
        Self { shared: Arc::new(Shared { parameters, streams: problem.streams }), shape }
    }
}

impl Method for FedMf {
    fn initial(&self) -> Model {
        let mut stream = self.shared.streams.stream(Purpose::GlobalInit, 0, 0);
        Model::of_table("V", Table::from_fn(self.shape, || stream.standard_normal() as f32))
    }

    fn trains_on_sampled_rows(&self) -> bool {
        true
    }

    fn client(&self, user: UserId) -> Box<dyn Client> {
        let mut stream = self.shared.streams.stream(Purpose::PrivateInit, u64::from(user.0), 0);
        let reach = 1.0 / (self.shape.dimension as f64).sqrt();
        let vector = (0..self.shape.dimension).map(|_| stream.uniform_within(reach) as f32).collect();
        Box::new(FedMfClient { shared: Arc::clone(&self.shared), user_vector: Private::new(vector) })
    }
}

#[derive(Clone)]
struct FedMfClient {
    shared: Arc<Shared>,
    user_vector: Private<Box<[f32]>>,
}

impl Client for FedMfClient {
    fn train(&mut self, task: &LocalTask<'_>, scratch: &mut Scratch) -> Result<LocalUpdate> {
        let parameters = &self.shared.parameters;
        let step = LogisticStep {
            target: Target::Both,
            vector_rate: parameters.learning_rate_user as f32,
            bias_rate: 0.0,
            row_rate: parameters.learning_rate_items as f32,
            weight_decay: 0.0,
        };
        let schedule = Schedule {
            epochs: parameters.local_epochs,
            batch_size: parameters.batch_size as usize,
            steps: &[step],
            names: ["u", "bias"],
        };
        let mut no_bias = 0.0;
        let trained = minibatch::train(task, &schedule, self.user_vector.get_mut(), &mut no_bias, scratch)?;
        let table = minibatch::update(task, scratch, trained.others_scale, "V")?;
        Ok(LocalUpdate::new(ModelUpdate::of_table(table), trained.loss, trained.row_visits))
    }

    fn scorer<'a>(&'a self, context: &ScoringContext<'a>, _scratch: &mut Scratch) -> Result<Box<dyn Scorer + 'a>> {
        let table = context.model.table(0);
        Ok(Box::new(move |items: &[u32], scores: &mut [f32]| score_items(self.user_vector.get(), table, items, scores)))
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        state.values(self.user_vector.get_mut())
    }
}
