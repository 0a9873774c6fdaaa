//! The method that follows from a declaration: what travels, and the sides of server and client.

use std::fmt;
use std::sync::Arc;

use super::blocks::{Block, Start};
use super::own::{Own, Plan};
use super::tuned_table::TunedTable;
use super::{Declare, Kept, Memory, layout_of, table_of};
use crate::averager::{Averager, upload_use};
use crate::row_counts::{COUNTS, Counts, said_layouts, said_of};
use crate::third_party::{Exchange, Message, ThirdParty};
use crate::{
    Class, Classes, Client, LocalTask, Method, NO_PERSONAL_TABLE, OwnNoise, PersonalTable,
    PersonalVector, Phase, Problem, Scoring, ScoringContext, Scratch, Server, Trained,
};
use fedrecsim_core::{Error, Result, Streams, UserId};
use fedrecsim_model::row_table::RowTable;
use fedrecsim_model::{
    BlockKind, BlockLayout, Layout, Model, ModelUpdate, Private, RowSet, SharedTable, StateVisitor,
    Table, TableUpdate, ValueType,
};
use fedrecsim_scenario::sizes::ProblemSize;
use fedrecsim_scenario::{Traffic, TrafficBlock, UploadUse};

/// Returns the layout of uploads.
fn upload_layout<M: Declare>(method: &M, blocks: &[Block], items: usize) -> Layout {
    let uploaded = blocks.iter().filter(|block| block.place.is_uploaded);
    let said = said_layouts(method.counts(), items);
    let layout = Layout::new(uploaded.map(Block::sent).chain(said).collect());
    match method.is_weighed() {
        true => layout.weighted(),
        false => layout,
    }
}

/// Returns the layout of downloads.
fn download_layout(blocks: &[Block]) -> Layout {
    let layout = layout_of(blocks, |block| block.place.is_downloaded);
    let mut sent = blocks.iter().filter(|block| block.place.is_downloaded);
    match sent.position(|block| block.is_optional) {
        Some(first) => layout.optional_from(first),
        None => layout,
    }
}

/// The size of the smallest problem.
const SMALLEST: ProblemSize = ProblemSize { users: 1, items: 1 };

/// The method that follows from a declaration.
pub struct Declared<M> {
    method: Arc<M>,
    initial: Model,
    classes: Classes,
    /// What follows from the blocks of each class.
    sides: Vec<Side>,
}

/// What follows from the blocks of a class of users.
struct Side {
    plan: Arc<Plan>,
    download: Layout,
    upload: Layout,
}

impl Side {
    /// Draws the starts, and returns them with the drawn model.
    fn new<M: Declare>(method: &M, blocks: Vec<Block>, problem: &Problem) -> (Self, Model) {
        let download = download_layout(&blocks);
        let upload = upload_layout(method, &blocks, problem.items);
        let (plan, drawn) = Plan::new(blocks, problem.starts);
        let side = Self {
            plan: Arc::new(plan),
            download,
            upload,
        };
        (side, drawn)
    }
}

impl<M: Declare> fmt::Debug for Declared<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(M::NAME)
    }
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
        let classes = method.classes();
        let (first, drawn) = Side::new(&method, blocks, problem);
        let others = classes.all().skip(1).map(|class| {
            let blocks = method.blocks_of(class, problem.size());
            Side::new(&method, blocks, problem).0
        });
        Self {
            sides: [first].into_iter().chain(others).collect(),
            initial: method.initial(drawn),
            method: Arc::new(method),
            classes,
        }
    }

    /// Returns what was declared.
    pub fn declared(&self) -> &M {
        &self.method
    }

    /// Makes the private side of a user.
    pub(crate) fn own(&self, user: UserId) -> Own<M::Memory> {
        let side = self.side(self.classes.of(user));
        side.plan.own(user, &self.initial)
    }

    fn side(&self, class: Class) -> &Side {
        &self.sides[usize::from(class.0)]
    }

    pub(crate) fn averager(&self) -> Averager {
        let Side { plan, upload, .. } = self.side(Class::default());
        let blocks = plan.blocks.iter().filter(|block| block.place.in_model);
        let rules: Vec<_> = blocks.map(|block| block.rule).collect();
        Averager::with_rules(self.initial.clone(), upload.clone(), &rules).counted_by(COUNTS)
    }

    /// Returns the sizes of the blocks that a run with these parameters makes.
    pub(crate) fn sizes(parameters: M::Parameters, size: ProblemSize) -> Layout {
        let method = M::new(parameters, &Problem::of_size(size, Streams::new(0)));
        let blocks = method.blocks(size);
        layout_of(&blocks, |block| {
            let place = block.place;
            place.in_model || place.is_downloaded || block.is_personal_table()
        })
    }

    /// Makes what is declared for the smallest problem, with its blocks. Their names and kinds are
    /// the same for every size.
    fn smallest(parameters: M::Parameters) -> (M, Vec<Block>) {
        let method = M::new(parameters, &Problem::of_size(SMALLEST, Streams::new(0)));
        let blocks = method.blocks(SMALLEST);
        (method, blocks)
    }

    /// Names what a device keeps with these parameters, from the declaration alone. A table without
    /// rows is none.
    pub(crate) fn kept(parameters: M::Parameters) -> Vec<Kept> {
        let (method, blocks) = Self::smallest(parameters);
        let mut kept = Vec::new();
        for block in &blocks {
            let name = block.name().to_owned();
            if block.is_kept {
                kept.push(Kept::OwnVersion(name));
            } else if block.place.is_private() && block.layout.shape.rows > 0 {
                let has_item_rows = block.is_item_table();
                kept.push(Kept::Block {
                    name,
                    has_item_rows,
                });
            }
        }
        let remembers = Some(method.remembers()).filter(|text| !text.is_empty());
        kept.extend(remembers.map(Kept::Other));
        kept
    }

    /// Tells what the method exchanges with these parameters, from its declaration alone.
    pub(crate) fn traffic(parameters: M::Parameters) -> Traffic {
        let (method, blocks) = Self::smallest(parameters);
        let download = download_layout(&blocks);
        let upload = upload_layout(&method, &blocks, SMALLEST.items);
        let in_model = blocks.iter().filter(|block| block.place.in_model);
        let rules = in_model.map(|block| (block.layout.shape.rows, block.rule));
        let is_counted = method.counts() != Counts::Nothing;
        // What is no part of the model has no rule, and a server of the method's own has a use for
        // it.
        let mut uploaded = blocks.iter().filter(|block| block.place.is_uploaded);
        let used = match uploaded.any(|block| !block.place.in_model) {
            true if is_counted => UploadUse::Sum,
            true => UploadUse::Each,
            false => upload_use(rules, &upload, is_counted),
        };
        let mut personal = blocks.iter();
        method.traffic(Traffic {
            blocks: [
                traffic_blocks(&upload, true),
                traffic_blocks(&download, false),
            ]
            .concat(),
            has_personal_downloads: false,
            sends_chosen_rows: false,
            trains_on_sampled_rows: keeps_nothing(&blocks) && method.trains_on_sampled_rows(),
            keeps_personal_tables: personal.any(|block| block.is_kept || block.is_personal_table()),
            needs_everybody: false,
            upload_use: used,
            makes_noisy_sums: false,
            predicts_ratings: M::PREDICTS_RATINGS,
            least_steps: 0,
        })
    }
}

fn keeps_nothing(blocks: &[Block]) -> bool {
    blocks.iter().all(|block| !block.is_kept)
}

/// Describes the blocks of a layout to the check of a scenario.
pub(crate) fn traffic_blocks(layout: &Layout, is_uploaded: bool) -> Vec<TrafficBlock> {
    let block = |block: &BlockLayout| TrafficBlock {
        name: block.name.to_string(),
        is_uploaded,
        has_floats: block.value_type == ValueType::F32,
        has_item_rows: block.kind == BlockKind::ItemTable,
    };
    layout.blocks().iter().map(block).collect()
}

impl<M: Declare> Method for Declared<M> {
    fn initial(&self) -> Model {
        self.initial.clone()
    }

    fn classes(&self) -> Classes {
        self.classes.clone()
    }

    fn download_layout(&self, _phase: Phase, class: Class) -> Layout {
        self.side(class).download.clone()
    }

    fn upload_layout(&self, _phase: Phase, class: Class) -> Layout {
        self.side(class).upload.clone()
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
        keeps_nothing(&self.side(Class::default()).plan.blocks)
            && self.method.trains_on_sampled_rows()
    }

    fn own_noise(&self) -> Option<OwnNoise> {
        self.method.own_noise()
    }

    fn predicts_ratings(&self) -> bool {
        M::PREDICTS_RATINGS
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
    fn train(&mut self, task: &LocalTask<'_>, scratch: &mut Scratch) -> Result<Trained> {
        let own = self.own.get_mut();
        let (model, mut task) = (own.going_on(task.model)?, *task);
        task.model = &model;
        let mut trained = self.method.train(own, &task, scratch)?;
        let blocks = &mut trained.update.blocks;
        let plan = Arc::clone(&own.plan);
        for ((at, kept), block) in own.kept_mut().zip(plan.kept()) {
            let started = table_of(task.model, block.name());
            if block.goes_on.is_none() {
                kept.keep(started, &blocks[at]);
                continue;
            }
            // The server does not know what the device has started from.
            blocks[at] = TableUpdate::whole(blocks[at].apply(Some(started))?);
            kept.keep_whole(&blocks[at]);
        }
        if let Some(first) = blocks.first()
            && let RowSet::Listed(rows) = &first.rows
        {
            let said = said_of(self.method.counts(), first.shape.rows, rows)?;
            blocks.extend(said);
        }
        if !self.method.is_weighed() {
            trained.update.scalars.weight = None;
        }
        Ok(trained)
    }

    fn was_sent(&mut self, update: &ModelUpdate) {
        for (at, kept) in self.own.get_mut().kept_mut() {
            kept.was_sent(&update.blocks[at]);
        }
    }

    fn request(&self, task: &LocalTask<'_>, _scratch: &mut Scratch) -> Result<Message> {
        self.method.request(self.own.get(), task)
    }

    fn scorer<'a>(&'a self, context: ScoringContext<'a>) -> Scoring<'a> {
        self.method.scorer(self.own.get(), context)
    }

    fn personal_table(&self) -> Result<Option<PersonalTable>> {
        let own = self.own.get();
        if let (Some(kept), Some(block)) = (own.kept.first(), own.plan.kept().next()) {
            return Ok(Some(PersonalTable {
                name: block.layout.name.clone(),
                values: kept.whole()?,
                is_added: false,
            }));
        }
        let mut starts = own.plan.starts_of_rows.iter().zip(&own.private);
        let table = |((at, start), rows): (&(usize, SharedTable), &RowTable)| PersonalTable {
            name: own.plan.blocks[*at].layout.name.clone(),
            values: rows.whole(start),
            is_added: own.plan.shares_a_table_like(start),
        };
        let first = starts
            .next()
            .filter(|((_, start), _)| start.shape().rows > 0);
        Ok(first.map(table))
    }

    /// Returns the first private block that has a single row.
    fn personal_vector(&self) -> Result<Option<PersonalVector>> {
        let own = self.own.get();
        Ok(own.first_vector().map(|(name, values)| PersonalVector {
            name: name.clone(),
            values: values.to_vec(),
        }))
    }

    fn replace_personal_table(&mut self, values: Table) -> Result<()> {
        let own = self.own.get_mut();
        match (own.kept.first_mut(), own.private.first_mut()) {
            (Some(kept), _) => *kept = TunedTable::new(&Arc::new(values)),
            (None, Some(private)) => *private = RowTable::holding(&values),
            (None, None) => return Err(Error::Usage(NO_PERSONAL_TABLE.to_owned())),
        }
        Ok(())
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        let own = self.own.get_mut();
        state.values(&mut own.values)?;
        let mut private = own.private.iter_mut();
        private.try_for_each(|table| state.row_table(table))?;
        let mut kept = own.kept.iter_mut();
        kept.try_for_each(|table| table.visit_state(state))?;
        own.memory.visit_state(state)
    }
}
