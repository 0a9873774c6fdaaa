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
//! of the sum by the number of clients who trained it, which they send encrypted beside A. Here the
//! mean is over all participants, so nothing travels but A, and the rates are FedMF's. And the code
//! hands every client the whole model, while it counts A alone; here `download` says which of the
//! two travels.

use std::ptr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use super::declare::{learn, orthonormal_columns};
use super::prelude::*;
use super::recent_step::{self, RecentStep, stepped};
use super::samples::CrossEntropy;
use fedrecsim_core::ErrorKind;
use fedrecsim_model::blocks::BlockValues;
use fedrecsim_model::kernel::{BatchRows, RoundRows};
use fedrecsim_model::neural::dense::{add_scaled, dot};
use fedrecsim_model::{SharedTable, ValueType};
use rand::Rng;

mod server;
#[cfg(test)]
mod tests;

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry::of::<Colr>();

choices! {
    /// What clients download.
    pub(crate) enum Downloaded {
        /// The whole item table.
        Table,
        /// The mean of A of the step before; devices bring their own copy of the item table up to
        /// date with it. Every user must take part in every step, and a user who has missed one
        /// ends the run with an error.
        Aggregate,
    }
}

parameters! {
    /// Parameters of CoLR.
    pub(crate) struct ColrParameters {
        /// Latent dimension k.
        latent_dimension: u32 = 32, >= 1, <= MAX_DIMENSION;
        /// Rank r of updates, at most `latent_dimension`.
        rank: u32 = 2, >= 1, <= MAX_DIMENSION;
        /// What clients download.
        download: Downloaded = Downloaded::Table;
        /// Passes over the local samples per round.
        local_epochs: u32 = 1, >= 1, <= 10_000;
        /// Samples per batch.
        batch_size: u32 = 256, >= 1;
        /// Learning rate of the user vector.
        learning_rate_user: f64 = 0.1, > 0.0;
        /// Learning rate of A. The mean over a batch and then over clients makes it large.
        learning_rate_items: f64 = 10_000.0, > 0.0;
        /// Steps the user vector towards the rows of recent positives before a device scores. Left
        /// out: it scores with the vector that it has trained.
        recency: Option<RecentStep> = None;
    }
}

/// Returns the values of the block of the two numbers that name B: the seed, and the number of the
/// step.
fn bytes_of(numbers: [u64; 2]) -> Vec<u8> {
    numbers.map(u64::to_le_bytes).concat()
}

/// Returns the two numbers in a model or a download.
fn numbers_of(model: &Model) -> [u64; 2] {
    let words = model.raw(1).as_chunks().0;
    [0, 1].map(|at| u64::from_le_bytes(words[at]))
}

/// Makes a model or a download of a table and the numbers that name B.
fn model_of(layout: Layout, table: SharedTable, numbers: [u64; 2]) -> Result<Model> {
    let numbers = BlockValues::Raw(bytes_of(numbers).into());
    Model::new(layout, vec![BlockValues::Table(table), numbers])
}

/// Holds what all clients share.
#[derive(Debug)]
pub(crate) struct Colr {
    parameters: ColrParameters,
    streams: Streams,
    start: OnceLock<SharedTable>,
    /// The newest table that a device has brought up to date. Most devices hold and receive the same
    /// tables, so that one of them works it out for all.
    newest: Mutex<Option<Advanced>>,
}

/// A table that a device has brought up to date, with what that followed from. Nothing else tells
/// tables apart: several simulations of one world have steps of the same numbers.
#[derive(Debug)]
struct Advanced {
    held: Weak<Table>,
    mean: Weak<Table>,
    table: SharedTable,
}

impl Advanced {
    /// Returns the table, if it follows from these.
    fn of(&self, held: &SharedTable, mean: &SharedTable) -> Option<SharedTable> {
        let is = |weak: &Weak<Table>, shared| ptr::eq(weak.as_ptr(), Arc::as_ptr(shared));
        (is(&self.held, held) && is(&self.mean, mean)).then(|| Arc::clone(&self.table))
    }
}

/// Returns B (r x k, row-major) of a step.
fn basis([seed, step]: [u64; 2], parameters: &ColrParameters) -> Vec<f32> {
    let [k, r] = [parameters.latent_dimension, parameters.rank];
    let mut stream = Streams::new(seed).named("colr/basis", 0, step);
    let columns = orthonormal_columns(&mut stream, k as usize, r as usize);
    let length = math::sqrt(f64::from(k) / f64::from(r));
    let values = columns.t().mapv(|value| (length * value) as f32);
    values.iter().copied().collect()
}

/// Adds A B to `table` in the basis `basis`, where A is zero but for `rows`.
fn add_product(table: &mut Table, basis: &[f32], a: &Table, rows: impl Iterator<Item = usize>) {
    let dimension = table.shape().dimension;
    for row in rows {
        for (factor, direction) in a.row(row).iter().zip(basis.chunks_exact(dimension)) {
            add_scaled(*factor, direction, table.row_mut(row));
        }
    }
}

/// The item table as it was at a step, where devices keep it; `None` before the first one.
#[derive(Clone, Default)]
pub(crate) struct Held(Option<(u64, SharedTable)>);

impl Memory for Held {
    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        if let StateVisitor::Digest(_) = state {
            // The digest covers the table at the server, which has the same.
            let mut steps = self.0.iter_mut().map(|(step, _)| step);
            return steps.try_for_each(|step| state.plain(step));
        }
        let mut held = self.0.as_ref().map(|(step, table)| {
            let TableShape { rows, dimension } = table.shape();
            (*step, rows, dimension)
        });
        state.plain(&mut held)?;
        if let Some((step, rows, dimension)) = held {
            let zeros = || Arc::new(Table::zeros(TableShape::new(rows, dimension)));
            let (_, table) = self.0.get_or_insert_with(|| (step, zeros()));
            state.shared_table(table)?;
        }
        Ok(())
    }
}

impl Colr {
    fn keeps_table(&self) -> bool {
        self.parameters.download == Downloaded::Aggregate
    }

    /// Returns the item table that `download` says.
    fn table(&self, held: &Held, user: UserId, download: &Model) -> Result<SharedTable> {
        let [seed, step] = numbers_of(download);
        if !self.keeps_table() {
            return Ok(Arc::clone(download.table(0)));
        }
        let start = || (0, Arc::clone(self.start.wait()));
        let (held, table) = held.0.clone().unwrap_or_else(start);
        if step == held {
            return Ok(table);
        }
        if step != held + 1 {
            return Err(Error::OfUser {
                kind: ErrorKind::RefusedInput,
                user: user.into(),
                reason: format!(
                    "its device has the item table of step {held} of the server and would need all \
                     changes until step {step}: with `download = \"aggregate\"`, every user has to \
                     take part in every step"
                ),
            });
        }
        let mean = download.table(0);
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = newest.as_ref().and_then(|newest| newest.of(&table, mean)) {
            return Ok(known);
        }
        let mut advanced = Table::clone(&table);
        let (basis, rows) = (basis([seed, held], &self.parameters), 0..mean.shape().rows);
        add_product(&mut advanced, &basis, mean, rows);
        let advanced = Arc::new(advanced);
        *newest = Some(Advanced {
            held: Arc::downgrade(&table),
            mean: Arc::downgrade(mean),
            table: Arc::clone(&advanced),
        });
        Ok(advanced)
    }

    /// Trains the user vector and the rows V_j + A_j B of the distinct items of `samples` by
    /// mini-batches, and returns A, the mean loss and the work. `factors` is A at the start.
    ///
    /// u and A take one simultaneous step for each batch, along the gradient of the batch's mean
    /// binary cross-entropy. With g_j = (p_j - y_j) / B, the gradients are the sum of g_j (V_j + A_j
    /// B) and g_j B u. So V_j + A_j B moves along B^T B u, which is worked out once for a batch.
    fn descend(
        &self,
        basis: &[f32],
        (samples, order): (&mut RoundRows, &mut Stream),
        user: &mut [f32],
        rows: &mut [f32],
        factors: &mut [f32],
    ) -> (f64, Work) {
        let p = &self.parameters;
        let ratio = math::sqrt(f64::from(p.rank) / f64::from(p.latent_dimension));
        let user_rate = p.learning_rate_user as f32;
        let factor_rate = (p.learning_rate_items * ratio) as f32;
        let (k, rank, distinct) = (user.len(), p.rank as usize, samples.rows.len());
        let row = |row: u32| row as usize * k..(row as usize + 1) * k;
        let (mut work, mut batch) = (Work::default(), BatchRows::default());
        let mut cross_entropy = CrossEntropy::default();
        let training = Training::of(p.local_epochs, p.batch_size);
        let loss = training.run(&mut samples.samples, order, |samples| {
            batch.collect(samples, distinct as u32);
            let loss = cross_entropy.of_rows(&batch, |at| dot(user, &rows[row(at)]));
            // B u, and B^T of it.
            let directions = basis.chunks_exact(k);
            let along: Vec<f32> = directions.map(|direction| dot(direction, user)).collect();
            let mut direction = vec![0.0; k];
            for (along, basis) in along.iter().zip(basis.chunks_exact(k)) {
                add_scaled(*along, basis, &mut direction);
            }
            for (sample, &at) in batch.rows().iter().enumerate() {
                let slope = cross_entropy.slope(sample);
                let step = -factor_rate * slope;
                let of_row = at as usize * rank..(at as usize + 1) * rank;
                add_scaled(-user_rate * slope, &rows[row(at)], user);
                add_scaled(step, &along, &mut factors[of_row]);
                add_scaled(step, &direction, &mut rows[row(at)]);
            }
            let distinct = batch.rows().len() as u64;
            work.row_visits += distinct;
            work.multiply_adds += (2 * basis.len()) as u64 + distinct * rank as u64;
            loss
        });
        (loss, work)
    }
}

impl Declare for Colr {
    type Parameters = ColrParameters;
    type Memory = Held;

    const NAME: &str = "colr";
    const SUMMARY: &str = "matrix factorisation whose item table moves by updates of low rank in a \
                           basis that all clients share";
    const SOURCE: &str = "Nguyen et al., Towards Efficient Communication and Secure Federated \
                          Recommendation System via Low-rank Training, WWW 2024, arXiv 2401.03748; \
                          code NNHieu/CoLR-FedRec 9fb99e3";
    const FORMULA: &[&str] = &[
        "s_i = u · (V_i + A_i B),  B (r × k) drawn from the seed of the step, B Bᵀ = (k / r) I",
        "L = mean BCE(s_i, y_i),  by u, and by A from 0 with the rate η √(r / k)",
        "V ← V + (mean of A) B",
    ];
    const DIFFERS: &str = "The code divides a row of the sum by the number of clients who trained \
                           it; here the mean is over all participants. The code hands the whole \
                           model to every client and counts A alone; here `download` says which of \
                           the two travels, and by default it is the whole table.";
    const WITHOUT_CONTROLS: Option<&str> =
        Some("devices send A alone, which the server turns into a change of the table");

    fn resolve(p: &mut ColrParameters) -> Vec<ParameterFault> {
        let fault = ParameterFault::wrong("rank", "`rank` is greater than `latent_dimension`");
        let wrong = (p.rank > p.latent_dimension).then_some(fault);
        let idle = recent_step::idle(p.recency.as_ref());
        wrong.into_iter().chain(idle).collect()
    }

    fn new(parameters: ColrParameters, problem: &Problem) -> Self {
        Self {
            parameters,
            streams: problem.streams,
            start: OnceLock::new(),
            newest: Mutex::new(None),
        }
    }

    fn blocks(&self, size: ProblemSize) -> Vec<Block> {
        let (k, rank) = (self.parameters.latent_dimension, self.parameters.rank);
        let table = item_table("V", size.items, k).start(normal(1.0));
        let layout = BlockLayout::item_table("A", TableShape::new(size.items, rank as usize));
        let factors = Block::of(layout.statistic());
        let (table, factors) = match self.keeps_table() {
            true => (table.server_only(), factors.made_by_server()),
            false => (table.download_only(), factors.upload_only()),
        };
        let seed = self.streams.named("colr/seed", 0, 0).next_u64();
        let layout = BlockLayout::weights("seed and step", TableShape::new(1, 2));
        let numbers = Block::of(layout.of(ValueType::U64).statistic()).download_only();
        let user = vector("u", k).private();
        vec![
            table,
            factors,
            numbers.start(Start::raw(bytes_of([seed, 0]))),
            user.start(uniform(1.0 / f64::from(k).sqrt())),
        ]
    }

    fn initial(&self, drawn: Model) -> Model {
        // This is the first and only call.
        let _ = self.start.set(Arc::clone(drawn.table(0)));
        drawn
    }

    fn traffic(&self, declared: Traffic) -> Traffic {
        Traffic {
            upload_use: UploadUse::Sum,
            needs_everybody: self.keeps_table(),
            ..declared
        }
    }

    fn remembers(&self) -> &'static str {
        match self.keeps_table() {
            true => "the item table of its last step",
            false => "",
        }
    }

    fn trains_on_sampled_rows(&self) -> bool {
        !self.keeps_table()
    }

    fn train(
        &self,
        own: &mut Own<Held>,
        task: &LocalTask<'_>,
        scratch: &mut Scratch,
    ) -> Result<Trained> {
        let numbers = numbers_of(task.model);
        let table = self.table(&own.memory, task.user, task.model)?;
        let mut rows = learn::draw_rows(task, &table, scratch)?;
        let samples = &mut scratch.round_rows;
        let shape = TableShape::new(table.shape().rows, self.parameters.rank as usize);
        let mut factors = vec![0.0; samples.rows.len() * shape.dimension];
        let basis = basis(numbers, &self.parameters);
        let with_order = (&mut *samples, &mut task.stream(Purpose::Shuffle));
        let user = own.get_mut("u");
        let (loss, work) = self.descend(&basis, with_order, user, &mut rows, &mut factors);
        for (name, values) in [("u", &*user), ("V", &rows), ("A", &factors)] {
            task.check_values(name, values)?;
        }
        if self.keeps_table() {
            own.memory = Held(Some((numbers[1], table)));
        }
        let update = TableUpdate::listed(shape, samples.rows.to_vec(), &factors, 1.0)?;
        Ok(Trained::new(ModelUpdate::of_table(update), loss, work))
    }

    fn scorer<'a>(&'a self, own: &'a Own<Held>, context: ScoringContext<'a>) -> Scoring<'a> {
        let table = self.table(&own.memory, context.user, context.model)?;
        let (user, of_user) = (own.get("u").to_vec(), (&context.own, context.user));
        let user = stepped(self.parameters.recency.as_ref(), user, &table, of_user)?;
        Ok(Box::new(Products::new(user, &table)))
    }

    fn server(&self, averager: Averager) -> Box<dyn Server> {
        Box::new(server::LowRankServer::new(&self.parameters, &averager))
    }
}
