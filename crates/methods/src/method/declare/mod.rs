//! Turns a declaration into a method.
//!
//! A method that is a [`Declare`] states its parameters, its [blocks](Block), how it
//! [scores](Score), its [loss](Loss) and how a device goes through its samples ([`Training`]).
//! From the blocks follow the initial model, what travels, the sizes, the private state of a device
//! with its digest, copies and restoration, personal tables, and the server. A method whose
//! arithmetic is its own overrides [`Declare::train`], [`Declare::scorer`] or [`Declare::server`],
//! and still gets the rest.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Parameters;
use super::averager::Averager;
pub use super::row_counts::Counts;
use super::row_counts::{self, COUNTS};
use super::server::{Server, UploadUse};
use super::third_party::{Exchange, LocalRequest, ThirdParty};
use super::{
    Client, LocalTask, LocalUpdate, Method, OwnNoise, PersonalTable, Phase, Placement, Problem,
    Scorer, ScoringContext, Scratch,
};
pub use blocks::{
    Block, Start, constant, each, item_table, normal, perceptron, uniform, vector, weights,
};
use blocks::{Draw, Place};
use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::ids::UserId;
use fedrecsim_core::rng::{Purpose, Streams};
use fedrecsim_core::work::Work;
use fedrecsim_model::model::blocks::{Model, ModelUpdate};
use fedrecsim_model::model::layout::{Layout, ValueType};
use fedrecsim_model::model::private::Private;
use fedrecsim_model::model::row_table::RowTable;
use fedrecsim_model::model::state::StateVisitor;
use fedrecsim_model::model::table::{RowSet, SharedTable, Table, TableUpdate};
use fedrecsim_scenario::scenario::sizes::ProblemSize;
use fedrecsim_scenario::scenario::{ParameterFault, Traffic, TrafficBlock};
pub use learn::{Loss, Optimizer, Score, Training};
pub(crate) use tuned_table::TunedTable;

mod blocks;
pub(crate) mod learn;
#[cfg(test)]
mod tests;
mod tuned_table;

/// Declares a federated method. [`Entry::of`](super::Entry::of) makes an entry of it.
pub trait Declare: Debug + Send + Sync + Sized + 'static {
    /// The keys of the method's table in scenario files.
    type Parameters: Parameters;

    /// What a device remembers beside its private blocks; `()` if nothing.
    type Memory: Memory;

    /// The name in scenario files.
    const NAME: &'static str;

    /// The summary that `fedrecsim methods` prints, on one line.
    const SUMMARY: &'static str;

    /// The paper and the code that the method follows.
    const SOURCE: &'static str;

    /// The place where the method runs.
    const PLACEMENT: Placement = Placement::Federated;

    /// Whether training draws negatives as `dataset.negatives` says.
    const DRAWS_NEGATIVES: bool = true;

    /// Whether scores are predictions of ratings.
    const PREDICTS_RATINGS: bool = false;

    /// Whether the server makes a download for each user.
    const HAS_PERSONAL_DOWNLOADS: bool = false;

    /// Why `training.aggregation` has no meaning for the method; `None` if it has one.
    const WITHOUT_CONTROLS: Option<&'static str> = None;

    /// Fills in defaults that depend on other parameters, and returns the faults that bounds cannot
    /// express.
    fn resolve(_parameters: &mut Self::Parameters) -> Vec<ParameterFault> {
        Vec::new()
    }

    /// Makes the method from its parameters. It draws no model.
    fn new(parameters: Self::Parameters, problem: &Problem) -> Self;

    /// Lists the blocks for a problem of this size. Their names do not depend on it.
    fn blocks(&self, size: ProblemSize) -> Vec<Block>;

    /// Returns how a device scores. The default is that the method overrides [`Self::train`] and
    /// [`Self::scorer`].
    fn score(&self) -> Score {
        Score::Own
    }

    /// Returns the loss that training minimises.
    fn loss(&self) -> Loss {
        Loss::BinaryCrossEntropy
    }

    /// Returns how a device goes through its samples.
    fn training(&self) -> Training {
        Training::default()
    }

    /// Returns whether an upload says its number of samples and weighs as much. Otherwise all
    /// uploads weigh the same, which noise on the sum and every epsilon need.
    fn is_weighed(&self) -> bool {
        false
    }

    /// Returns what an upload says of itself beside its rows, so that the server need not count.
    fn counts(&self) -> Counts {
        Counts::Nothing
    }

    /// Returns whether training reads no other rows of downloaded item tables than those of its
    /// samples, and a device keeps no others. Only then can it download these rows alone.
    fn trains_on_sampled_rows(&self) -> bool {
        !matches!(self.score(), Score::Own)
    }

    /// Completes the initial model, in which `drawn` has the start of every block.
    fn initial(&self, drawn: Model) -> Model {
        drawn
    }

    /// Returns the layout of downloads. `declared` is that of the blocks that are downloaded.
    fn download_layout(&self, declared: Layout) -> Layout {
        declared
    }

    /// Trains on a participation.
    ///
    /// # Errors
    /// [`Error::Diverged`] if a parameter leaves the allowed range.
    fn train(
        &self,
        own: &mut Own<Self::Memory>,
        task: &LocalTask<'_>,
        scratch: &mut Scratch,
    ) -> Result<Trained> {
        learn::train(
            &self.score(),
            self.loss(),
            &self.training(),
            own,
            task,
            scratch,
        )
    }

    /// Makes the scorer of a user.
    ///
    /// # Errors
    /// Whatever the method finds wrong, such as a singular system.
    fn scorer<'a>(
        &'a self,
        own: &'a Own<Self::Memory>,
        context: &ScoringContext<'a>,
        _scratch: &mut Scratch,
    ) -> Result<Box<dyn Scorer + 'a>> {
        learn::scorer(self.score(), own, context)
    }

    /// Makes the server. `averager` follows the rules of the blocks.
    fn server(&self, averager: Averager) -> Box<dyn Server> {
        Box::new(averager)
    }

    /// Returns what the server uses of uploads. `averager` is what the rules of the blocks need.
    fn upload_use(&self, averager: UploadUse) -> UploadUse {
        averager
    }

    /// Returns whether the server makes sums of its own, to which noise can be added.
    fn makes_noisy_sums(&self) -> bool {
        false
    }

    /// Tells what the noise is worth that devices add by themselves.
    fn own_noise(&self) -> Option<OwnNoise> {
        None
    }

    /// Describes what devices exchange with a third party before they train.
    fn exchange(&self) -> Option<Exchange> {
        None
    }

    /// Makes the third party, in a method with an [`Self::exchange`].
    fn third_party(&self) -> Option<Box<dyn ThirdParty>> {
        None
    }

    /// Makes the request to the third party.
    ///
    /// # Errors
    /// Whatever the method finds wrong; the default finds that its devices ask nobody.
    fn request(&self, _own: &Own<Self::Memory>, task: &LocalTask<'_>) -> Result<LocalRequest> {
        Err(super::no_request(task.user))
    }
}

/// Is what a device remembers beside its private blocks.
pub trait Memory: Clone + Default + Send + 'static {
    /// Visits it, as [`Client::visit_state`] does.
    ///
    /// # Errors
    /// As [`StateVisitor::values`].
    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()>;
}

impl Memory for () {
    fn visit_state(&mut self, _state: &mut StateVisitor<'_>) -> Result<()> {
        Ok(())
    }
}

/// Remembers anything that can be serialised.
#[derive(Clone, Debug, Default)]
pub struct Remembered<T>(pub T);

impl<T: Clone + Default + Send + Serialize + DeserializeOwned + 'static> Memory for Remembered<T> {
    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        state.plain(&mut self.0)
    }
}

/// Holds what training yields.
#[derive(Debug)]
pub struct Trained {
    /// The update of each block that is uploaded, in the order of the declaration.
    pub blocks: Vec<TableUpdate>,
    /// The mean local loss.
    pub loss: f64,
    /// The number of samples, by which the upload weighs if the method is weighed.
    pub samples: usize,
    /// The work.
    pub work: Work,
}

/// Holds the private side of one user.
#[derive(Clone, Debug)]
pub struct Own<S> {
    plan: Arc<Plan>,
    values: Box<[f32]>,
    tables: Option<Box<OwnTables>>,
    /// What the device remembers beside its blocks.
    pub memory: S,
}

/// Holds the item tables of one user. It is boxed, since a population without them may have a
/// million users.
#[derive(Clone, Debug, Default)]
struct OwnTables {
    /// The private ones.
    private: Vec<RowTable>,
    /// What was made of shared ones that are kept.
    kept: Vec<TunedTable>,
}

impl<S> Own<S> {
    /// Returns the values of a private block.
    ///
    /// # Panics
    /// If the method declares no such block, here and below.
    pub fn get(&self, name: &str) -> &[f32] {
        &self.values[self.plan.place(name)]
    }

    /// Returns the values of a private block to write to.
    pub fn get_mut(&mut self, name: &str) -> &mut [f32] {
        &mut self.values[self.plan.place(name)]
    }

    /// Returns whether a block is private.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.plan
            .private
            .iter()
            .any(|(at, _)| self.plan.blocks[*at].name() == name)
    }

    /// Returns `length` values of private blocks that are declared one after the other, from this
    /// one on.
    pub(crate) fn run(&self, first: &str, length: usize) -> &[f32] {
        let start = self.plan.place(first).start;
        &self.values[start..start + length]
    }

    /// Returns the values of [`Self::run`] to write to.
    pub(crate) fn run_mut(&mut self, first: &str, length: usize) -> &mut [f32] {
        let start = self.plan.place(first).start;
        &mut self.values[start..start + length]
    }

    /// Returns a private item table, with the table that it starts from.
    pub(crate) fn rows_mut(&mut self, name: &str) -> (&mut RowTable, &Table) {
        let at = self.plan.position_of_rows(name);
        let rows = self
            .tables
            .as_mut()
            .and_then(|tables| tables.private.get_mut(at));
        (
            rows.unwrap_or_else(|| panic!("the device has no item table {name}")),
            &self.plan.starts_of_rows[at].1,
        )
    }

    /// Returns a private item table, with the table that it starts from.
    pub(crate) fn rows(&self, name: &str) -> (&RowTable, &Table) {
        let at = self.plan.position_of_rows(name);
        let rows = self
            .tables
            .as_ref()
            .and_then(|tables| tables.private.get(at));
        (
            rows.unwrap_or_else(|| panic!("the device has no item table {name}")),
            &self.plan.starts_of_rows[at].1,
        )
    }

    /// Returns the declaration of a block.
    pub fn block(&self, name: &str) -> &Block {
        self.plan.block(name)
    }

    /// Returns what the device has made of a shared item table, if it keeps that.
    pub(crate) fn kept(&self, name: &str) -> Option<&TunedTable> {
        let mut kept = self.plan.kept();
        let at = kept.position(|block| block.name() == name)?;
        self.tables.as_ref()?.kept.get(at)
    }

    /// Returns the item table that the user scores with: its own version if it keeps one, and
    /// otherwise that of the model.
    ///
    /// # Errors
    /// As [`TableUpdate::apply`].
    pub fn table(&self, name: &str, model: &Model) -> Result<SharedTable> {
        match self.kept(name) {
            Some(kept) => Ok(Arc::new(kept.whole()?)),
            None => Ok(Arc::clone(table_of(model, name))),
        }
    }

    fn kept_mut(&mut self) -> impl Iterator<Item = (usize, &mut TunedTable)> {
        let uploaded = self
            .plan
            .blocks
            .iter()
            .filter(|block| block.place.is_uploaded);
        let kept = uploaded.enumerate().filter(|(_, block)| block.is_kept);
        let tables = self.tables.iter_mut().flat_map(|tables| &mut tables.kept);
        kept.map(|(at, _)| at).zip(tables)
    }
}

/// Returns the table of a block of the model.
///
/// # Panics
/// If there is none, which is a defect of the method.
pub fn table_of<'m>(model: &'m Model, name: &str) -> &'m SharedTable {
    model
        .named(name)
        .unwrap_or_else(|| panic!("the model has no table {name}"))
}

/// Holds what follows from the blocks of a method.
#[derive(Debug)]
pub(crate) struct Plan {
    blocks: Vec<Block>,
    /// The private blocks that are no item tables, each with the place of its values.
    private: Vec<(usize, Range<usize>)>,
    /// The values of these blocks as they start, but for those that each user draws.
    starts: Vec<f32>,
    /// The private item tables as they start.
    starts_of_rows: Vec<(usize, SharedTable)>,
    streams: Streams,
}

/// Returns the layout of the blocks for which `is_meant` is true.
pub(crate) fn layout_of(blocks: &[Block], is_meant: impl Fn(&Block) -> bool) -> Layout {
    let meant = blocks.iter().filter(|block| is_meant(block));
    Layout::new(meant.map(|block| block.layout.clone()).collect())
}

/// Returns the layout of uploads.
fn upload_layout<M: Declare>(method: &M, blocks: &[Block], items: usize) -> Layout {
    let uploaded = blocks.iter().filter(|block| block.place.is_uploaded);
    let said = row_counts::said_layouts(method.counts(), items);
    let layout = Layout::new(uploaded.map(Block::sent).chain(said).collect());
    match method.is_weighed() {
        true => layout.weighted(),
        false => layout,
    }
}

/// Returns the model that blocks start with.
pub(crate) fn start_of(blocks: Vec<Block>, streams: Streams) -> Model {
    Plan::new(blocks, streams).1
}

impl Plan {
    /// Draws the starts, and returns them with the drawn model.
    fn new(blocks: Vec<Block>, streams: Streams) -> (Self, Model) {
        let mut global = streams.stream(Purpose::GlobalInit, 0, 0);
        let mut alike = streams.stream(Purpose::PrivateInit, 0, 0);
        let (mut model, mut private, mut starts) = (Vec::new(), Vec::new(), Vec::new());
        let mut starts_of_rows = Vec::new();
        for (at, block) in blocks.iter().enumerate() {
            if block.place.in_model {
                model.push(block.start.values(&mut global, &block.layout));
            } else if block.place.is_private() {
                let table = match block.draw {
                    Draw::Alike => block.start.table_of(&mut alike, &block.layout),
                    Draw::WithShared => block.start.table_of(&mut global, &block.layout),
                    // Each user makes these draws.
                    Draw::PerUser => Arc::new(Table::zeros(block.layout.shape)),
                };
                if block.is_item_table() {
                    starts_of_rows.push((at, table));
                } else {
                    private.push((at, starts.len()..starts.len() + table.as_slice().len()));
                    starts.extend_from_slice(table.as_slice());
                }
            }
        }
        let layout = layout_of(&blocks, |block| block.place.in_model);
        let drawn = Model::new(layout, model)
            .unwrap_or_else(|fault| panic!("a start does not fit its block: {fault}"));
        let plan = Self {
            blocks,
            private,
            starts,
            starts_of_rows,
            streams,
        };
        (plan, drawn)
    }

    fn block(&self, name: &str) -> &Block {
        let block = self.blocks.iter().find(|block| block.name() == name);
        block.unwrap_or_else(|| panic!("the method has no block {name}"))
    }

    fn place(&self, name: &str) -> Range<usize> {
        let mut private = self.private.iter();
        let found = private.find(|(at, _)| self.blocks[*at].name() == name);
        found.map_or_else(
            || panic!("the method has no private block {name}"),
            |(_, place)| place.clone(),
        )
    }

    fn position_of_rows(&self, name: &str) -> usize {
        let mut starts = self.starts_of_rows.iter();
        starts
            .position(|(at, _)| self.blocks[*at].name() == name)
            .unwrap_or_else(|| panic!("the method has no private item table {name}"))
    }

    fn kept(&self) -> impl Iterator<Item = &Block> {
        self.blocks.iter().filter(|block| block.is_kept)
    }

    /// Makes the private side of `user`, who keeps what is to be kept of `model`.
    fn own<S: Memory>(self: &Arc<Self>, user: UserId, model: &Model) -> Own<S> {
        let mut stream = self
            .streams
            .stream(Purpose::PrivateInit, u64::from(user.0), 0);
        let mut values: Box<[f32]> = self.starts.clone().into();
        for (at, place) in &self.private {
            let block = &self.blocks[*at];
            if block.draw == Draw::PerUser {
                let drawn = block.start.table_of(&mut stream, &block.layout);
                values[place.clone()].copy_from_slice(drawn.as_slice());
            }
        }
        let rows = |(at, _): &(usize, _)| RowTable::new(self.blocks[*at].layout.shape.dimension);
        let kept = |block: &Block| TunedTable::new(table_of(model, block.name()));
        let tables = OwnTables {
            private: self.starts_of_rows.iter().map(rows).collect(),
            kept: self.kept().map(kept).collect(),
        };
        let has_tables = !tables.private.is_empty() || !tables.kept.is_empty();
        Own {
            plan: Arc::clone(self),
            values,
            tables: has_tables.then(|| Box::new(tables)),
            memory: S::default(),
        }
    }
}

/// Is the method that follows from a declaration.
#[derive(Debug)]
pub struct Declared<M> {
    method: Arc<M>,
    plan: Arc<Plan>,
    initial: Model,
    download: Layout,
    upload: Layout,
}

impl<M: Declare> Declared<M> {
    /// Makes the method for a problem.
    pub fn new(parameters: M::Parameters, problem: &Problem) -> Self {
        Self::starting_at(parameters, problem, &[])
    }

    /// Makes the method for a problem, with these tables as the start of the blocks of these names.
    ///
    /// # Panics
    /// If a table has another shape than its block.
    pub fn starting_at(
        parameters: M::Parameters,
        problem: &Problem,
        starts: &[(&str, Table)],
    ) -> Self {
        let method = M::new(parameters, problem);
        let mut blocks = method.blocks(problem.size());
        for (name, table) in starts {
            let table = table.clone();
            for block in blocks.iter_mut().filter(|block| block.name() == *name) {
                let table = table.clone();
                block.start = Start::table(move |_, _| table.clone());
            }
        }
        let download =
            method.download_layout(layout_of(&blocks, |block| block.place.is_downloaded));
        let upload = upload_layout(&method, &blocks, problem.items);
        let (plan, drawn) = Plan::new(blocks, problem.streams);
        Self {
            initial: method.initial(drawn),
            method: Arc::new(method),
            plan: Arc::new(plan),
            download,
            upload,
        }
    }

    /// Returns what was declared.
    pub fn declared(&self) -> &M {
        &self.method
    }

    /// Makes the private side of a user.
    pub(crate) fn own(&self, user: UserId) -> Own<M::Memory> {
        self.plan.own(user, &self.initial)
    }

    fn averager(&self) -> Averager {
        let blocks = self.plan.blocks.iter().filter(|block| block.place.in_model);
        let rules: Vec<_> = blocks.map(|block| block.rule).collect();
        Averager::with_rules(self.initial.clone(), self.upload.clone(), &rules).counted_by(COUNTS)
    }

    /// Returns the sizes of the blocks that a run with these parameters makes.
    pub(crate) fn sizes(parameters: M::Parameters, size: ProblemSize) -> Layout {
        let method = M::new(parameters, &Problem::of_size(size, Streams::new(0)));
        let blocks = method.blocks(size);
        layout_of(&blocks, |block| {
            let Place {
                in_model,
                is_downloaded,
                ..
            } = block.place;
            in_model || is_downloaded || block.is_personal_table()
        })
    }

    /// Tells what the method exchanges with these parameters, from its declaration alone.
    pub(crate) fn traffic_with(parameters: M::Parameters) -> Traffic {
        // Neither names nor kinds of blocks depend on the size.
        let size = ProblemSize { users: 1, items: 1 };
        let method = M::new(parameters, &Problem::of_size(size, Streams::new(0)));
        let blocks = method.blocks(size);
        let download =
            method.download_layout(layout_of(&blocks, |block| block.place.is_downloaded));
        let upload = upload_layout(&method, &blocks, size.items);
        traffic(&method, &blocks, [&download, &upload])
    }
}

fn traffic<M: Declare>(method: &M, blocks: &[Block], [download, upload]: [&Layout; 2]) -> Traffic {
    let travelling = [(upload, true), (download, false)].into_iter();
    let rules = blocks.iter().filter(|block| block.place.in_model);
    let rules: Vec<_> = rules
        .map(|block| (block.layout.shape.rows, block.rule))
        .collect();
    let counts = method.counts() != Counts::Nothing;
    Traffic {
        blocks: travelling
            .flat_map(|(layout, is_uploaded)| traffic_blocks(layout, is_uploaded))
            .collect(),
        has_personal_downloads: M::HAS_PERSONAL_DOWNLOADS,
        trains_on_sampled_rows: keeps_nothing(blocks) && method.trains_on_sampled_rows(),
        keeps_personal_tables: blocks
            .iter()
            .any(|block| block.is_kept || block.is_personal_table()),
        upload_use: method.upload_use(super::averager::upload_use(&rules, upload, counts)),
        makes_noisy_sums: method.makes_noisy_sums(),
    }
}

fn keeps_nothing(blocks: &[Block]) -> bool {
    blocks.iter().all(|block| !block.is_kept)
}

/// Describes the blocks of a layout to the check of a scenario.
pub(crate) fn traffic_blocks(layout: &Layout, is_uploaded: bool) -> Vec<TrafficBlock> {
    let block = |block: &fedrecsim_model::model::layout::BlockLayout| TrafficBlock {
        name: block.name.to_string(),
        is_uploaded,
        has_floats: block.value_type == ValueType::F32,
        has_item_rows: block.kind == fedrecsim_model::model::layout::BlockKind::ItemTable,
    };
    layout.blocks().iter().map(block).collect()
}

impl<M: Declare> Method for Declared<M> {
    fn initial(&self) -> Model {
        self.initial.clone()
    }

    fn download_layout(&self, _phase: Phase) -> Layout {
        self.download.clone()
    }

    fn upload_layout(&self, _phase: Phase) -> Layout {
        self.upload.clone()
    }

    fn client(&self, user: UserId) -> Box<dyn Client> {
        Box::new(DeclaredClient {
            method: Arc::clone(&self.method),
            own: Private::new(self.own(user)),
        })
    }

    fn server(&self) -> Box<dyn Server> {
        self.method.server(self.averager())
    }

    fn exchange(&self, _phase: Phase) -> Option<Exchange> {
        self.method.exchange()
    }

    fn third_party(&self) -> Option<Box<dyn ThirdParty>> {
        self.method.third_party()
    }

    fn trains_on_sampled_rows(&self) -> bool {
        keeps_nothing(&self.plan.blocks) && self.method.trains_on_sampled_rows()
    }

    fn own_noise(&self) -> Option<OwnNoise> {
        self.method.own_noise()
    }

    fn predicts_ratings(&self) -> bool {
        M::PREDICTS_RATINGS
    }

    fn traffic(&self) -> Traffic {
        traffic(
            &*self.method,
            &self.plan.blocks,
            [&self.download, &self.upload],
        )
    }
}

struct DeclaredClient<M: Declare> {
    method: Arc<M>,
    own: Private<Own<M::Memory>>,
}

impl<M: Declare> Clone for DeclaredClient<M> {
    fn clone(&self) -> Self {
        Self {
            method: Arc::clone(&self.method),
            own: self.own.clone(),
        }
    }
}

impl<M: Declare> Client for DeclaredClient<M> {
    fn train(&mut self, task: &LocalTask<'_>, scratch: &mut Scratch) -> Result<LocalUpdate> {
        let own = self.own.get_mut();
        let Trained {
            mut blocks,
            loss,
            samples,
            work,
        } = self.method.train(own, task, scratch)?;
        let plan = Arc::clone(&own.plan);
        for ((at, kept), block) in own.kept_mut().zip(plan.kept()) {
            kept.keep(table_of(task.model, block.name()), &blocks[at]);
        }
        let said = match &blocks[..] {
            [
                TableUpdate {
                    rows: RowSet::Listed(rows),
                    shape,
                    ..
                },
                ..,
            ] => row_counts::said_of(self.method.counts(), shape.rows, rows)?,
            _ => Vec::new(),
        };
        blocks.extend(said);
        let mut update = ModelUpdate::of_blocks(blocks);
        if self.method.is_weighed() {
            update = update.weighing(samples as f32);
        }
        Ok(LocalUpdate { update, loss, work })
    }

    fn was_sent(&mut self, update: &ModelUpdate) {
        for (at, kept) in self.own.get_mut().kept_mut() {
            kept.was_sent(&update.blocks[at]);
        }
    }

    fn request(&self, task: &LocalTask<'_>, _scratch: &mut Scratch) -> Result<LocalRequest> {
        self.method.request(self.own.get(), task)
    }

    fn scorer<'a>(
        &'a self,
        context: &ScoringContext<'a>,
        scratch: &mut Scratch,
    ) -> Result<Box<dyn Scorer + 'a>> {
        self.method.scorer(self.own.get(), context, scratch)
    }

    fn personal_table(&self) -> Result<Option<PersonalTable>> {
        let own = self.own.get();
        let Some(tables) = &own.tables else {
            return Ok(None);
        };
        if let (Some(kept), Some(block)) = (tables.kept.first(), own.plan.kept().next()) {
            return Ok(Some(PersonalTable {
                name: block.layout.name.clone(),
                values: kept.whole()?,
                is_added: false,
            }));
        }
        let (at, start) = &own.plan.starts_of_rows[0];
        if start.shape().rows == 0 {
            return Ok(None);
        }
        Ok(Some(PersonalTable {
            name: own.plan.blocks[*at].layout.name.clone(),
            values: tables.private[0].whole(start),
            is_added: true,
        }))
    }

    fn replace_personal_table(&mut self, values: Table) -> Result<()> {
        match &mut self.own.get_mut().tables {
            Some(tables) if !tables.kept.is_empty() => {
                tables.kept[0] = TunedTable::new(&Arc::new(values));
            }
            Some(tables) => tables.private[0] = RowTable::holding(&values),
            None => return Err(Error::Usage(super::NO_PERSONAL_TABLE.to_owned())),
        }
        Ok(())
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        let Own {
            values,
            tables,
            memory,
            ..
        } = self.own.get_mut();
        state.values(values)?;
        if let Some(tables) = tables {
            let OwnTables { private, kept } = &mut **tables;
            private
                .iter_mut()
                .try_for_each(|table| state.row_table(table))?;
            kept.iter_mut()
                .try_for_each(|table| table.visit_state(state))?;
        }
        memory.visit_state(state)
    }
}
