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
//! made anew for that V. FedRecon trains u before V anyway. No source says for which table the u
//! that scores is made; here it is made for the client's own table, which also gives the scores.
//!
//! The published rates are 0.1 for u and 0.5 for V with batches of five explicit ratings. Here the
//! mean is taken over batches of 256 and then over all clients, so that the rate of V is much
//! larger, and u takes several passes. Both are choices of this simulator.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rule::ServerRule;
use super::tuned_table::TunedTable;
use super::user_vector::score_items;
use super::{
    Averager, Client, Entry, LocalTask, LocalUpdate, Method, PersonalTable, Phase, Placement,
    Problem, Scorer, ScoringContext, Scratch, Server, largest_magnitude, minibatch, parameters,
    sizes_of_item_table,
};
use fedrecsim_core::error::Result;
use fedrecsim_core::ids::UserId;
use fedrecsim_core::rng::{PortableDraws, Purpose};
use fedrecsim_model::model::blocks::{Model, ModelUpdate};
use fedrecsim_model::model::kernel::MAX_DIMENSION;
use fedrecsim_model::model::layout::Layout;
use fedrecsim_model::model::private::Private;
use fedrecsim_model::model::state::StateVisitor;
use fedrecsim_model::model::table::{RowSet, SharedTable, Table, TableShape, TableUpdate};
use local::{LocalSettings, Session};

pub mod local;

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry {
    name: "fedrecon",
    summary: "federated reconstruction: no private state; a user vector is made anew from one half of the samples, and \
              the item table trained on the other",
    source: "Singhal et al., Federated Reconstruction: Partially Local Federated Learning, NeurIPS 2021; code \
             google-research/federated 23b1081, in the implicit form that the PFedRec paper compares with",
    schema: &|| schemars::schema_for!(FedReconParameters),
    resolve: &|_| Vec::new(),
    placement: Placement::Federated,
    draws_negatives: true,
    sizes: &|value, size| {
        sizes_of_item_table("V", (value, size), |p: FedReconParameters| {
            p.latent_dimension
        })
    },
    build: &|value, problem| {
        Ok(Box::new(FedRecon::new(
            parameters("fedrecon", value)?,
            problem,
        )))
    },
};

/// Parameters of FedRecon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct FedReconParameters {
    /// Latent dimension k.
    #[schemars(range(min = 1, max = MAX_DIMENSION))]
    pub latent_dimension: u32,
    /// Passes over the support samples, in which only the user vector moves.
    #[schemars(range(min = 1, max = 10_000))]
    pub reconstruction_epochs: u32,
    /// Passes over the query samples, in which only the item table moves.
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
    /// How far the server goes along the mean of the differences.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub learning_rate_server: f64,
    /// Whether a client reconstructs its user vector from one half of its samples and trains the
    /// table on the other, as in Algorithm 1. Otherwise all samples do both, which the authors'
    /// code can do as well (`split_dataset`).
    pub splits_samples: bool,
    /// Whether a client keeps the item table that it has tuned, and scores with it (DualPer of
    /// PFedRec's authors). The tables are averaged as before.
    pub dual_personalization: bool,
    /// Whether all uploads weigh the same, which noise on the sum and every epsilon need. Otherwise
    /// an upload says its number of query samples, and weighs as much.
    pub equal_weights: bool,
}

impl Default for FedReconParameters {
    fn default() -> Self {
        Self {
            latent_dimension: 32,
            reconstruction_epochs: 10,
            local_epochs: 1,
            batch_size: 256,
            learning_rate_user: 1.0,
            learning_rate_items: 10_000.0,
            learning_rate_server: 1.0,
            splits_samples: true,
            dual_personalization: false,
            equal_weights: false,
        }
    }
}

/// Holds what all clients share.
#[derive(Debug)]
pub(crate) struct FedRecon {
    settings: Arc<LocalSettings>,
    server_rate: f64,
    initial: SharedTable,
    dual: bool,
    equal_weights: bool,
}

impl FedRecon {
    /// Makes the method for a problem of this size. V is drawn from N(0, 1).
    pub(crate) fn new(parameters: FedReconParameters, problem: &Problem) -> Self {
        let shape = TableShape::of_items(problem.items, parameters.latent_dimension);
        let mut stream = problem.streams.stream(Purpose::GlobalInit, 0, 0);
        let initial = Arc::new(Table::from_fn(shape, || stream.standard_normal() as f32));
        let settings = LocalSettings {
            reconstruction_epochs: parameters.reconstruction_epochs,
            epochs: parameters.local_epochs,
            batch_size: parameters.batch_size as usize,
            reconstruction_rate: parameters.learning_rate_user as f32,
            item_rate: parameters.learning_rate_items as f32,
            reach: 0.05,
            splits_samples: parameters.splits_samples,
        };
        let FedReconParameters {
            learning_rate_server,
            dual_personalization,
            equal_weights,
            ..
        } = parameters;
        let (server_rate, dual) = (learning_rate_server, dual_personalization);
        Self {
            settings: Arc::new(settings),
            server_rate,
            initial,
            dual,
            equal_weights,
        }
    }
}

impl Method for FedRecon {
    fn initial(&self) -> Model {
        Model::of_table("V", Arc::clone(&self.initial))
    }

    fn upload_layout(&self, _phase: Phase) -> Layout {
        let layout = Layout::of_table("V", self.initial.shape());
        if self.equal_weights {
            layout
        } else {
            layout.weighted()
        }
    }

    fn trains_on_sampled_rows(&self) -> bool {
        !self.dual
    }

    fn client(&self, _user: UserId) -> Box<dyn Client> {
        let table = self
            .dual
            .then(|| Box::new(Private::new(TunedTable::new(&self.initial))));
        Box::new(FedReconClient {
            settings: Arc::clone(&self.settings),
            table,
            equal_weights: self.equal_weights,
        })
    }

    fn server(&self) -> Box<dyn Server> {
        let rule = ServerRule {
            rate: self.server_rate,
            ..ServerRule::MEAN
        };
        Box::new(Averager::with_rules(
            self.initial(),
            self.upload_layout(Phase::default()),
            &[rule],
        ))
    }
}

#[derive(Clone)]
struct FedReconClient {
    settings: Arc<LocalSettings>,
    /// The table that the user scores with, under dual personalisation.
    table: Option<Box<Private<TunedTable>>>,
    equal_weights: bool,
}

impl Client for FedReconClient {
    fn train(&mut self, task: &LocalTask<'_>, scratch: &mut Scratch) -> Result<LocalUpdate> {
        let table = task.model.table(0);
        let shape = table.shape();
        minibatch::draw_samples(task, &mut scratch.samples)?;
        let Scratch {
            samples,
            round_rows,
            packed,
            batch,
            values,
            ..
        } = scratch;
        let padding_row = minibatch::gather(table, samples, round_rows, packed);
        let mut samples = round_rows.samples().to_vec();
        let mut stream = task.named_stream("fedrecon/participation");
        let (dimension, stream) = (shape.dimension, &mut stream);
        let mut session = Session {
            rows: packed,
            padding_row,
            dimension,
            batch,
            stream,
        };
        let trained = local::train(&self.settings, &mut session, &mut samples);
        task.check_magnitude("u", largest_magnitude(&trained.user))?;
        let rows = round_rows.rows();
        task.check_magnitude(
            "V",
            packed.copy_bytes(rows.len(), shape.dimension, 0, values),
        )?;
        let update = TableUpdate::of_rows(
            shape,
            RowSet::Listed(rows.to_vec()),
            std::mem::take(values).into(),
        );
        if let Some(own) = &mut self.table {
            own.get_mut().keep(table, &update);
        }
        let mut update = ModelUpdate::of_table(update);
        if !self.equal_weights {
            update = update.weighing(trained.query_samples as f32);
        }
        Ok(LocalUpdate::new(update, trained.loss, trained.row_visits))
    }

    fn was_sent(&mut self, update: &ModelUpdate) {
        if let Some(table) = &mut self.table {
            table.get_mut().was_sent(update);
        }
    }

    fn scorer<'a>(
        &'a self,
        context: &ScoringContext<'a>,
        scratch: &mut Scratch,
    ) -> Result<Box<dyn Scorer + 'a>> {
        let table = match &self.table {
            Some(own) => Arc::new(own.get().whole()?),
            None => Arc::clone(context.model.table(0)),
        };
        context.draw_samples(&mut scratch.samples)?;
        let Scratch {
            samples,
            round_rows,
            packed,
            batch,
            ..
        } = scratch;
        let padding_row = minibatch::gather(&table, samples, round_rows, packed);
        let mut stream = context.named_stream("fedrecon/scoring");
        let mut support = round_rows.samples().to_vec();
        let dimension = table.shape().dimension;
        let mut session = Session {
            rows: packed,
            padding_row,
            dimension,
            batch,
            stream: &mut stream,
        };
        let (user, _) = local::reconstruct(&self.settings, &mut session, &mut support);
        Ok(Box::new(move |items: &[u32], scores: &mut [f32]| {
            score_items(&user, &table, items, scores)
        }))
    }

    fn personal_table(&self) -> Result<Option<PersonalTable>> {
        self.table
            .as_ref()
            .map(|table| table.get().shown_as("V"))
            .transpose()
    }

    fn replace_personal_table(&mut self, values: Table) -> Result<()> {
        self.table = Some(Box::new(Private::new(TunedTable::new(&Arc::new(values)))));
        Ok(())
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        self.table
            .as_mut()
            .map_or(Ok(()), |table| table.get_mut().visit_state(state))
    }
}
