//! Implements PFedRec, dual personalisation (Zhang et al., IJCAI 2023; code
//! Zhangcx19/IJCAI-23-PFedRec abc2380).
//!
//! The score function (w, b) and the last fine-tuned item table E_i are private, and the item table
//! E is shared. In every round a client starts from the downloaded E. On each batch it steps (w, b)
//! and then, with the new (w, b), the rows of E. Items are scored with the client's own E_i from
//! before averaging. The authors' code also uploads b but never uses its average, so that this
//! simulator does not send it.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tuned_table::TunedTable;
use super::vector_client::{VectorClient, VectorTraining};
use super::{Client, Entry, Method, Placement, Problem, parameters, sizes_of_item_table};
use fedrecsim_core::ids::UserId;
use fedrecsim_core::rng::{PortableDraws, Purpose};
use fedrecsim_model::model::blocks::Model;
use fedrecsim_model::model::kernel::MAX_DIMENSION;
use fedrecsim_model::model::kernel::logistic::{LogisticStep, Target};
use fedrecsim_model::model::table::{SharedTable, Table, TableShape};

/// Describes the method to the registry.
pub const ENTRY: Entry = Entry {
    name: "pfedrec",
    summary: "shared item table, fine-tuned by each client for its own scores; private score function",
    source: "Zhang et al., Dual Personalization on Federated Recommendation, IJCAI 2023; code \
             Zhangcx19/IJCAI-23-PFedRec abc2380",
    schema: &|| schemars::schema_for!(PFedRecParameters),
    resolve: &|_| Vec::new(),
    placement: Placement::Federated,
    draws_negatives: true,
    sizes: &|value, size| {
        sizes_of_item_table("E", (value, size), |p: PFedRecParameters| {
            p.latent_dimension
        })
    },
    build: &|value, problem| {
        Ok(Box::new(PFedRec::new(
            parameters("pfedrec", value)?,
            problem,
        )))
    },
};

/// Parameters of PFedRec; the defaults are the published ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PFedRecParameters {
    /// Latent dimension k.
    #[schemars(range(min = 1, max = MAX_DIMENSION))]
    pub latent_dimension: u32,
    /// Passes over the local samples per round.
    #[schemars(range(min = 1, max = 10_000))]
    pub local_epochs: u32,
    /// Samples per batch.
    #[schemars(range(min = 1))]
    pub batch_size: u32,
    /// Learning rate of w and b (`lr`).
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub learning_rate: f64,
    /// The item table's learning rate is `learning_rate` x number of items x this (`lr_eta`).
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub item_learning_rate_multiplier: f64,
    /// Weight decay of w, b and E (`l2_regularization`); the published runs have none.
    #[schemars(range(min = 0))]
    pub weight_decay: f64,
}

impl Default for PFedRecParameters {
    fn default() -> Self {
        Self {
            latent_dimension: 32,
            local_epochs: 1,
            batch_size: 256,
            learning_rate: 0.1,
            item_learning_rate_multiplier: 80.0,
            weight_decay: 0.0,
        }
    }
}

/// Holds what all clients share.
#[derive(Debug)]
pub struct PFedRec {
    training: Arc<VectorTraining>,
    initial: SharedTable,
    initial_w: Vec<f32>,
    initial_b: f32,
}

impl PFedRec {
    /// Makes the method with random initial values, which are the same for all users: E is drawn
    /// from N(0, 1), and w and b from U(-1/sqrt k, 1/sqrt k).
    pub(crate) fn new(parameters: PFedRecParameters, problem: &Problem) -> Self {
        let shape = TableShape::of_items(problem.items, parameters.latent_dimension);
        let mut global = problem.streams.stream(Purpose::GlobalInit, 0, 0);
        let initial = Table::from_fn(shape, || global.standard_normal() as f32);
        let mut private = problem.streams.stream(Purpose::PrivateInit, 0, 0);
        let reach = 1.0 / (shape.dimension as f64).sqrt();
        let mut uniform = || private.uniform_within(reach) as f32;
        let initial_w = (0..shape.dimension).map(|_| uniform()).collect();
        let initial_b = uniform();
        Self::from_start(parameters, initial, initial_w, initial_b)
    }

    /// Makes the method with these initial values: the table that is downloaded first, and every
    /// user's score function.
    pub fn from_start(
        parameters: PFedRecParameters,
        initial: Table,
        initial_w: Vec<f32>,
        initial_b: f32,
    ) -> Self {
        let rate = parameters.learning_rate as f32;
        let multiplier = parameters.item_learning_rate_multiplier;
        let step = LogisticStep {
            target: Target::Both,
            vector_rate: rate,
            bias_rate: rate,
            row_rate: (parameters.learning_rate * initial.shape().rows as f64 * multiplier) as f32,
            weight_decay: parameters.weight_decay as f32,
        };
        let training = VectorTraining {
            epochs: parameters.local_epochs,
            batch_size: parameters.batch_size as usize,
            steps: VectorTraining::dual_steps(step),
            has_bias: true,
            names: ["w", "b", "E"],
        };
        Self {
            training: Arc::new(training),
            initial: Arc::new(initial),
            initial_w,
            initial_b,
        }
    }
}

impl Method for PFedRec {
    fn initial(&self) -> Model {
        Model::of_table("E", Arc::clone(&self.initial))
    }

    fn client(&self, _user: UserId) -> Box<dyn Client> {
        let table = TunedTable::new(&self.initial);
        Box::new(VectorClient::new(
            &self.training,
            self.initial_w.clone(),
            self.initial_b,
            Some(table),
        ))
    }
}
