//! Implements CoLR, correlated low-rank updates (Nguyen et al., WWW 2024, arXiv 2401.03748; code
//! NNHieu/CoLR-FedRec 9fb99e3, `fedrec/fedmf_colr.py`), on FedMF.
//!
//! The user vector u is private and the item table V (m x k) is shared, as in FedMF. In every step
//! of the server a matrix B (r x k) is drawn from a seed, the same for everybody. A client starts
//! from A = 0 (m x r) and trains u and A, with the logit u . (V_j + A_j B), and uploads A alone,
//! which has r / k of the values of V. The server averages A and adds A B to V. Since B is the same
//! for all, the sum of the A is all that the server needs, so that a secure sum can hide every
//! single one.
//!
//! B has orthogonal rows of length sqrt(k / r), and the gradient with respect to A is multiplied by
//! sqrt(r / k), both as in the authors' code. Two things are otherwise. The code divides each row
//! of the sum by the number of clients who trained it, which they send encrypted beside A; here the
//! mean is over all participants, so that nothing travels but A, and the rates are FedMF's. And the
//! code hands every client the whole model, while it counts A alone; here `download` says which of
//! the two travels.

use std::sync::{Arc, Mutex, PoisonError};

use ndarray::Array2;
use rand::Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::user_vector::score_items;
use super::{
    Client, Entry, LocalTask, LocalUpdate, Method, Phase, Placement, Problem, Scorer,
    ScoringContext, Scratch, Server, largest_magnitude, minibatch, parameters, sizes_by,
};
use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::ids::UserId;
use fedrecsim_core::rng::{PortableDraws, Purpose, Streams};
use fedrecsim_model::model::algebra::qr::thin_qr;
use fedrecsim_model::model::blocks::{BlockValues, Model, ModelUpdate};
use fedrecsim_model::model::kernel::MAX_DIMENSION;
use fedrecsim_model::model::layout::{BlockLayout, Layout, ValueType};
use fedrecsim_model::model::neural::dense::add_scaled;
use fedrecsim_model::model::private::Private;
use fedrecsim_model::model::state::StateVisitor;
use fedrecsim_model::model::table::{SharedTable, Table, TableShape, TableUpdate};
use fedrecsim_scenario::scenario::ParameterFault;
use local::LocalSettings;

mod local;
mod server;
#[cfg(test)]
mod tests;

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry {
    name: "colr",
    summary: "matrix factorisation whose item table moves by updates of low rank in a basis that all clients share",
    source: "Nguyen et al., Towards Efficient Communication and Secure Federated Recommendation System via Low-rank \
             Training, WWW 2024, arXiv 2401.03748; code NNHieu/CoLR-FedRec 9fb99e3",
    schema: &|| schemars::schema_for!(ColrParameters),
    resolve: &resolve,
    placement: Placement::Federated,
    draws_negatives: true,
    sizes: &|value, size| {
        sizes_by(value, |p: ColrParameters| {
            Layout::new(vec![p.table(size.items), p.factors(size.items), numbers()])
        })
    },
    build: &|value, problem| Ok(Box::new(Colr::new(parameters("colr", value)?, problem))),
};

/// What clients download.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Downloaded {
    /// The whole item table.
    Table,
    /// The mean of A of the step before, by which devices bring their own copy of the item table up
    /// to date. Every user must take part in every step, and a user who has missed one ends the run
    /// with an error.
    Aggregate,
}

/// Parameters of CoLR.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ColrParameters {
    /// Latent dimension k.
    #[schemars(range(min = 1, max = MAX_DIMENSION))]
    pub latent_dimension: u32,
    /// Rank r of updates, at most `latent_dimension`.
    #[schemars(range(min = 1, max = MAX_DIMENSION))]
    pub rank: u32,
    /// What clients download.
    pub download: Downloaded,
    /// Passes over the local samples per round.
    #[schemars(range(min = 1, max = 10_000))]
    pub local_epochs: u32,
    /// Samples per batch.
    #[schemars(range(min = 1))]
    pub batch_size: u32,
    /// Learning rate of the user vector.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub learning_rate_user: f64,
    /// Learning rate of A. The mean over a batch and then over clients makes it large.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub learning_rate_items: f64,
}

impl Default for ColrParameters {
    fn default() -> Self {
        Self {
            latent_dimension: 32,
            rank: 2,
            download: Downloaded::Table,
            local_epochs: 1,
            batch_size: 256,
            learning_rate_user: 0.1,
            learning_rate_items: 10_000.0,
        }
    }
}

impl ColrParameters {
    /// Returns the layout of V.
    fn table(&self, items: usize) -> BlockLayout {
        BlockLayout::item_table("V", TableShape::of_items(items, self.latent_dimension))
    }

    /// Returns the layout of A.
    fn factors(&self, items: usize) -> BlockLayout {
        BlockLayout::item_table("A", TableShape::of_items(items, self.rank)).statistic()
    }
}

/// Returns the layout of the two numbers that name B: the seed, and the number of the step.
fn numbers() -> BlockLayout {
    BlockLayout::weights(
        "seed and step",
        TableShape {
            rows: 1,
            dimension: 2,
        },
    )
    .of(ValueType::U64)
    .statistic()
}

/// Returns the fault that the schema cannot express.
fn resolve(value: &mut Value) -> Vec<ParameterFault> {
    match serde_json::from_value::<ColrParameters>(value.clone()) {
        Ok(parameters) if parameters.rank > parameters.latent_dimension => {
            vec![ParameterFault::wrong(
                "rank",
                "`rank` is greater than `latent_dimension`",
            )]
        }
        _ => Vec::new(),
    }
}

/// Holds what all clients share.
#[derive(Debug)]
pub(crate) struct Colr {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    parameters: ColrParameters,
    streams: Streams,
    initial: SharedTable,
    /// The newest table that a device has brought up to date, with its step. The tables of all
    /// devices have the same bits, so that one of them works it out for all.
    newest: Mutex<Option<(u64, SharedTable)>>,
}

impl Colr {
    /// Makes the method for a problem of this size. V is drawn from N(0, 1), and every user's u
    /// from U(-1/sqrt k, 1/sqrt k).
    pub(crate) fn new(parameters: ColrParameters, problem: &Problem) -> Self {
        let mut stream = problem.streams.stream(Purpose::GlobalInit, 0, 0);
        let shape = parameters.table(problem.items).shape;
        let initial = Arc::new(Table::from_fn(shape, || stream.standard_normal() as f32));
        let streams = problem.streams;
        Self {
            shared: Arc::new(Shared {
                parameters,
                streams,
                initial,
                newest: Mutex::new(None),
            }),
        }
    }
}

impl Shared {
    /// Returns a model of `table` and the numbers that name B.
    fn model(&self, table: SharedTable, layout: BlockLayout, numbers: [u64; 2]) -> Result<Model> {
        let bytes = numbers
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect::<Vec<u8>>();
        let layout = Layout::new(vec![layout, self::numbers()]);
        Model::new(
            layout,
            vec![BlockValues::Table(table), BlockValues::Raw(bytes.into())],
        )
    }

    /// Returns B (r x k, row-major) of a step.
    fn basis(&self, [seed, step]: [u64; 2]) -> Vec<f32> {
        let (k, r) = (
            self.parameters.latent_dimension as usize,
            self.parameters.rank as usize,
        );
        let mut stream = Streams::new(seed).named("colr/basis", 0, step);
        let drawn = Array2::from_shape_simple_fn((k, r), || stream.standard_normal());
        // There are at least as many rows as columns, and all draws are finite, so that this cannot
        // fail.
        let columns = thin_qr(&drawn.view())
            .unwrap_or_else(|error| unreachable!("{error}"))
            .q;
        let length = fedrecsim_core::math::sqrt(k as f64 / r as f64);
        columns
            .t()
            .iter()
            .map(|value| (length * value) as f32)
            .collect()
    }

    /// Adds A B to `table`, where A is zero but for `rows`, which are given with their values.
    fn add_product<'a>(
        &self,
        table: &mut Table,
        numbers: [u64; 2],
        rows: impl Iterator<Item = (usize, &'a [f32])>,
    ) {
        let basis = self.basis(numbers);
        for (row, factors) in rows {
            for (factor, direction) in factors
                .iter()
                .zip(basis.chunks_exact(table.shape().dimension))
            {
                add_scaled(*factor, direction, table.row_mut(row));
            }
        }
    }
}

/// Returns the two numbers in a model or a download.
fn numbers_of(model: &Model) -> [u64; 2] {
    let mut numbers = [0; 2];
    for (number, bytes) in numbers.iter_mut().zip(model.raw(1).as_chunks().0) {
        *number = u64::from_le_bytes(*bytes);
    }
    numbers
}

impl Method for Colr {
    fn initial(&self) -> Model {
        let seed = self.shared.streams.named("colr/seed", 0, 0).next_u64();
        let Shared {
            parameters,
            initial,
            ..
        } = &*self.shared;
        let model = self.shared.model(
            Arc::clone(initial),
            parameters.table(initial.shape().rows),
            [seed, 0],
        );
        // The table has been made with the shape of this layout.
        model.unwrap_or_else(|fault| unreachable!("{fault}"))
    }

    fn download_layout(&self, _phase: Phase) -> Layout {
        let (parameters, items) = (&self.shared.parameters, self.shared.initial.shape().rows);
        match parameters.download {
            Downloaded::Table => Layout::new(vec![parameters.table(items), numbers()]),
            Downloaded::Aggregate => Layout::new(vec![parameters.factors(items), numbers()]),
        }
    }

    fn upload_layout(&self, _phase: Phase) -> Layout {
        Layout::new(vec![
            self.shared
                .parameters
                .factors(self.shared.initial.shape().rows),
        ])
    }

    fn trains_on_sampled_rows(&self) -> bool {
        self.shared.parameters.download == Downloaded::Table
    }

    fn client(&self, user: UserId) -> Box<dyn Client> {
        let mut stream = self
            .shared
            .streams
            .stream(Purpose::PrivateInit, u64::from(user.0), 0);
        let dimension = self.shared.initial.shape().dimension;
        let reach = 1.0 / (dimension as f64).sqrt();
        let vector = (0..dimension)
            .map(|_| stream.uniform_within(reach) as f32)
            .collect();
        let table = (0, Arc::clone(&self.shared.initial));
        Box::new(ColrClient {
            shared: Arc::clone(&self.shared),
            user_vector: Private::new(vector),
            table,
        })
    }

    fn server(&self) -> Box<dyn Server> {
        Box::new(server::LowRankServer::new(
            Arc::clone(&self.shared),
            self.initial(),
        ))
    }
}

#[derive(Clone)]
struct ColrClient {
    shared: Arc<Shared>,
    user_vector: Private<Box<[f32]>>,
    /// The item table as it was at this step, where devices keep it.
    table: (u64, SharedTable),
}

impl ColrClient {
    /// Returns the item table that `download` says.
    fn table(&self, user: UserId, download: &Model) -> Result<SharedTable> {
        let [seed, step] = numbers_of(download);
        let (held, table) = &self.table;
        if self.shared.parameters.download == Downloaded::Table {
            return Ok(Arc::clone(download.table(0)));
        }
        if step == *held {
            return Ok(Arc::clone(table));
        }
        if step != held + 1 {
            return Err(Error::Usage(format!(
                "{user} has the item table of step {held} of the server and would need all changes until step {step}: \
                 with `download = \"aggregate\"`, every user has to take part in every step"
            )));
        }
        let mut newest = self
            .shared
            .newest
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some((_, table)) = newest.as_ref().filter(|(at, _)| *at == step) {
            return Ok(Arc::clone(table));
        }
        let (mut advanced, mean) = (Table::clone(table), download.table(0));
        self.shared.add_product(
            &mut advanced,
            [seed, *held],
            (0..mean.shape().rows).map(|row| (row, mean.row(row))),
        );
        let advanced = Arc::new(advanced);
        *newest = Some((step, Arc::clone(&advanced)));
        Ok(advanced)
    }
}

impl Client for ColrClient {
    fn train(&mut self, task: &LocalTask<'_>, scratch: &mut Scratch) -> Result<LocalUpdate> {
        let (numbers, table) = (numbers_of(task.model), self.table(task.user, task.model)?);
        let parameters = &self.shared.parameters;
        let (rank, items) = (parameters.rank as usize, table.shape().rows);
        let Scratch {
            samples,
            round_rows,
            ..
        } = scratch;
        minibatch::draw_samples(task, samples)?;
        round_rows.collect(&samples.samples.items, &samples.samples.labels, items);
        let mut rows = Vec::new();
        table.append_rows(round_rows.rows(), &mut rows);
        let mut factors = vec![0.0; rank * round_rows.rows().len()];
        let basis = self.shared.basis(numbers);
        let mut order = task.stream(Purpose::Shuffle);
        let model = local::LocalModel {
            user: self.user_vector.get_mut(),
            rows: &mut rows,
            factors: &mut factors,
        };
        let trained = local::train(
            &LocalSettings::of(parameters),
            &basis,
            round_rows,
            &mut order,
            model,
        );
        task.check_magnitude("u", largest_magnitude(self.user_vector.get()))?;
        task.check_magnitude("V", largest_magnitude(&rows))?;
        task.check_magnitude("A", largest_magnitude(&factors))?;
        let shape = parameters.factors(items).shape;
        let update = TableUpdate::listed(shape, round_rows.rows().to_vec(), &factors, 1.0)?;
        if parameters.download == Downloaded::Aggregate {
            self.table = (numbers[1], table);
        }
        let update = LocalUpdate::new(
            ModelUpdate::of_table(update),
            trained.loss,
            trained.row_visits,
        );
        Ok(update.with_multiply_adds(trained.multiply_adds))
    }

    fn scorer<'a>(
        &'a self,
        context: &ScoringContext<'a>,
        _scratch: &mut Scratch,
    ) -> Result<Box<dyn Scorer + 'a>> {
        let table = self.table(context.user, context.model)?;
        Ok(Box::new(move |items: &[u32], scores: &mut [f32]| {
            score_items(self.user_vector.get(), &table, items, scores)
        }))
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        state.values(self.user_vector.get_mut())?;
        if self.shared.parameters.download == Downloaded::Table {
            return Ok(());
        }
        state.plain(&mut self.table.0)?;
        state.shared_table(&mut self.table.1)
    }
}
