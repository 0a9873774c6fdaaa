//! Implements FedMF, federated matrix factorisation, for implicit feedback.
//!
//! The user vector u_i is private and the item table V is shared. The logit of item j is u_i . V_j
//! and the loss is the mean binary cross-entropy. A client trains both parameters at once by
//! mini-batch SGD, and the server takes the plain mean of V. Items are scored with the averaged V.
//! With dual personalisation a client steps u_i before the rows of V, and scores with its own V,
//! which makes it PFedRec but for the bias, the start and the rates.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tuned_table::TunedTable;
use super::vector_client::{VectorClient, VectorTraining};
use super::{Client, Entry, Method, Placement, Problem, parameters, sizes_of_item_table};
use fedrecsim_core::ids::UserId;
use fedrecsim_core::rng::{PortableDraws, Purpose, Streams};
use fedrecsim_model::model::blocks::Model;
use fedrecsim_model::model::kernel::MAX_DIMENSION;
use fedrecsim_model::model::kernel::logistic::{LogisticStep, Target};
use fedrecsim_model::model::table::{SharedTable, Table, TableShape};

/// Describes the method to the registry.
pub const ENTRY: Entry = Entry {
    name: "fedmf",
    summary: "matrix factorisation: private user vector, averaged item table",
    source: "Chai et al., Secure Federated Matrix Factorization, IEEE Intelligent Systems 2020, in the implicit form \
             that the FedRAP and PFedRec papers compare with",
    schema: &|| schemars::schema_for!(FedMfParameters),
    resolve: &|_| Vec::new(),
    placement: Placement::Federated,
    draws_negatives: true,
    sizes: &|value, size| {
        sizes_of_item_table("V", (value, size), |p: FedMfParameters| p.latent_dimension)
    },
    build: &|value, problem| Ok(Box::new(FedMf::new(parameters("fedmf", value)?, problem))),
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
    /// Whether each user has a private bias as well, which is added to every logit and has the rate
    /// of the user vector.
    pub bias: bool,
    /// Whether a client steps its user vector first and the item rows after it, and keeps these
    /// rows to score with (DualPer of PFedRec's authors). They are averaged as before.
    pub dual_personalization: bool,
}

impl Default for FedMfParameters {
    fn default() -> Self {
        Self {
            latent_dimension: 32,
            local_epochs: 1,
            batch_size: 256,
            learning_rate_user: 0.1,
            learning_rate_items: 10_000.0,
            bias: false,
            dual_personalization: false,
        }
    }
}

/// Holds what all clients share.
#[derive(Debug)]
pub struct FedMf {
    training: Arc<VectorTraining>,
    initial: SharedTable,
    streams: Streams,
    dual: bool,
}

impl FedMf {
    /// Makes the method for a problem of this size. V is drawn from N(0, 1), and every user's u_i
    /// from U(-1/sqrt k, 1/sqrt k), as is the bias if there is one.
    pub fn new(parameters: FedMfParameters, problem: &Problem) -> Self {
        let shape = TableShape::of_items(problem.items, parameters.latent_dimension);
        let mut stream = problem.streams.stream(Purpose::GlobalInit, 0, 0);
        let initial = Arc::new(Table::from_fn(shape, || stream.standard_normal() as f32));
        let FedMfParameters {
            local_epochs,
            batch_size,
            bias,
            dual_personalization: dual,
            ..
        } = parameters;
        let vector_rate = parameters.learning_rate_user as f32;
        let step = LogisticStep {
            target: Target::Both,
            vector_rate,
            bias_rate: if bias { vector_rate } else { 0.0 },
            row_rate: parameters.learning_rate_items as f32,
            weight_decay: 0.0,
        };
        let training = VectorTraining {
            epochs: local_epochs,
            batch_size: batch_size as usize,
            steps: if dual {
                VectorTraining::dual_steps(step)
            } else {
                vec![step]
            },
            has_bias: bias,
            names: ["u", "bias", "V"],
        };
        Self {
            training: Arc::new(training),
            initial,
            streams: problem.streams,
            dual,
        }
    }
}

impl Method for FedMf {
    fn initial(&self) -> Model {
        Model::of_table("V", Arc::clone(&self.initial))
    }

    fn trains_on_sampled_rows(&self) -> bool {
        !self.dual
    }

    fn client(&self, user: UserId) -> Box<dyn Client> {
        let mut stream = self
            .streams
            .stream(Purpose::PrivateInit, u64::from(user.0), 0);
        let dimension = self.initial.shape().dimension;
        let reach = 1.0 / (dimension as f64).sqrt();
        let mut uniform = || stream.uniform_within(reach) as f32;
        let vector = (0..dimension).map(|_| uniform()).collect();
        let bias = if self.training.has_bias {
            uniform()
        } else {
            0.0
        };
        let table = self.dual.then(|| TunedTable::new(&self.initial));
        Box::new(VectorClient::new(&self.training, vector, bias, table))
    }
}
