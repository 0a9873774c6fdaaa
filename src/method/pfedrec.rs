//! Implements PFedRec, dual personalisation (Zhang et al., IJCAI 2023; code Zhangcx19/IJCAI-23-PFedRec abc2380).
//!
//! The score function (w, b) and the last fine-tuned item table E_i are private, and the item table E is shared. In
//! every round a client starts from the downloaded E. On each batch it steps (w, b) and then, with the new (w, b), the
//! rows of E. Items are scored with the client's own E_i from before averaging. The authors' code also uploads b but
//! never uses its average, so that this simulator does not send it.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::minibatch::{self, Schedule};
use super::{
    Client, Entry, LocalTask, LocalUpdate, Method, Placement, Problem, Scorer, ScoringContext, Scratch, parameters,
    sizes_of_item_table,
};
use crate::error::Result;
use crate::ids::UserId;
use crate::model::blocks::{Model, ModelUpdate};
use crate::model::kernel::logistic::{LogisticStep, Target};
use crate::model::kernel::score::{ScaledSum, score_sums};
use crate::model::kernel::{MAX_DIMENSION, prefetch};
use crate::model::layout::ValueType;
use crate::model::private::Private;
use crate::model::state::StateVisitor;
use crate::model::table::{SharedTable, Table, TableShape, TableUpdate};
use crate::rng::{PortableDraws, Purpose};

/// Describes the method to the registry.
pub const ENTRY: Entry = Entry {
    name: "pfedrec",
    summary: "shared item table, fine-tuned by each client for its own scores; private score function",
    source: "Zhang et al., Dual Personalization on Federated Recommendation, IJCAI 2023; code \
             Zhangcx19/IJCAI-23-PFedRec abc2380",
    schema: || schemars::schema_for!(PFedRecParameters),
    resolve: |_| Vec::new(),
    placement: Placement::Federated,
    draws_negatives: true,
    sizes: |value, size| sizes_of_item_table("E", (value, size), |p: PFedRecParameters| p.latent_dimension),
    build: |value, problem| Ok(Box::new(PFedRec::new(parameters("pfedrec", value)?, problem))),
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
    shared: Arc<Shared>,
    shape: TableShape,
}

#[derive(Debug)]
struct Shared {
    parameters: PFedRecParameters,
    steps: [LogisticStep; 2],
    initial: SharedTable,
    initial_w: Vec<f32>,
    initial_b: f32,
}

impl PFedRec {
    /// Makes the method with random initial values, which are the same for all users: E is drawn from N(0, 1), and w
    /// and b from U(-1/sqrt k, 1/sqrt k).
    pub fn new(parameters: PFedRecParameters, problem: &Problem) -> Self {
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

    /// Makes the method with these initial values: the table that is downloaded first, and every user's score function.
    pub fn from_start(parameters: PFedRecParameters, initial: Table, initial_w: Vec<f32>, initial_b: f32) -> Self {
        let shape = initial.shape();
        let rate = parameters.learning_rate as f32;
        let row_rate = (parameters.learning_rate * shape.rows as f64 * parameters.item_learning_rate_multiplier) as f32;
        let weight_decay = parameters.weight_decay as f32;
        let step = |target| LogisticStep { target, vector_rate: rate, bias_rate: rate, row_rate, weight_decay };
        let steps = [step(Target::Vector), step(Target::Rows)];
        let shared = Shared { parameters, steps, initial: Arc::new(initial), initial_w, initial_b };
        Self { shared: Arc::new(shared), shape }
    }
}

impl Method for PFedRec {
    fn initial(&self) -> Model {
        Model::of_table("E", Arc::clone(&self.shared.initial))
    }

    fn client(&self, _user: UserId) -> Box<dyn Client> {
        Box::new(PFedRecClient {
            shared: Arc::clone(&self.shared),
            own: Private::new(PrivateParameters {
                w: self.shared.initial_w.clone(),
                b: self.shared.initial_b,
                downloaded: Arc::clone(&self.shared.initial),
                tuned: TableUpdate::nothing(self.shape, ValueType::F32),
            }),
        })
    }
}

/// Holds the private parameters of one user.
#[derive(Clone)]
struct PrivateParameters {
    w: Vec<f32>,
    b: f32,
    /// The table that the last participation started from, which the participants of a round share.
    downloaded: SharedTable,
    /// The update that fine-tuning made of it, as it was before the uplink's codec or a privacy mechanism changed it.
    tuned: TableUpdate,
}

#[derive(Clone)]
struct PFedRecClient {
    shared: Arc<Shared>,
    own: Private<PrivateParameters>,
}

impl Client for PFedRecClient {
    fn train(&mut self, task: &LocalTask<'_>, scratch: &mut Scratch) -> Result<LocalUpdate> {
        let parameters = &self.shared.parameters;
        let schedule = Schedule {
            epochs: parameters.local_epochs,
            batch_size: parameters.batch_size as usize,
            steps: &self.shared.steps,
            names: ["w", "b"],
        };
        let own = self.own.get_mut();
        let trained = minibatch::train(task, &schedule, &mut own.w, &mut own.b, scratch)?;
        let table = minibatch::update(task, scratch, trained.others_scale, "E")?;
        own.downloaded = Arc::clone(task.model.table(0));
        own.tuned = table.clone();
        Ok(LocalUpdate::new(ModelUpdate::of_table(table), trained.loss, trained.row_visits))
    }

    fn was_sent(&mut self, update: &ModelUpdate) {
        if let [table] = &update.blocks[..] {
            self.own.get_mut().tuned.values = table.values.clone();
        }
    }

    fn scorer<'a>(&'a self, _context: &ScoringContext<'a>, _scratch: &mut Scratch) -> Result<Box<dyn Scorer + 'a>> {
        let own = self.own.get();
        Ok(Box::new(move |items: &[u32], scores: &mut [f32]| {
            let row = |(&item, position): (&u32, Option<usize>)| match position {
                Some(position) => {
                    let plain = own.tuned.row_values(position).as_chunks().0;
                    prefetch(plain);
                    ScaledSum { scaled: &[], scale: 0.0, plain }
                }
                None => {
                    let scaled = own.downloaded.row(item as usize);
                    ScaledSum { scaled, scale: own.tuned.others_scale, plain: &[] }
                }
            };
            let rows: Vec<ScaledSum<'_, [u8; 4]>> = items.iter().zip(own.tuned.positions_of(items)).map(row).collect();
            score_sums(&own.w, own.b, &rows, scores);
        }))
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        let PrivateParameters { w, b, downloaded, tuned } = self.own.get_mut();
        state.values(w)?;
        state.value(b)?;
        state.shared_table(downloaded)?;
        state.update(tuned)
    }
}
