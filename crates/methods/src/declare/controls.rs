//! Wraps methods for `training.aggregation`: every device alone, or the plain mean in place of what
//! the method's server does.

use crate::third_party::{Exchange, ThirdParty};
use crate::{
    Class, Classes, Client, LocalTask, Method, OwnNoise, PersonalTable, PersonalVector, Phase,
    Scorer, Scoring, ScoringContext, Scratch, Trained,
};
use fedrecsim_core::{Result, UserId};
use fedrecsim_model::{
    BlockLayout, Layout, Model, ModelUpdate, Private, StateVisitor, Table, TableUpdate, ValueType,
};
use fedrecsim_scenario::Aggregation;

/// Returns `method` under this aggregation.
pub fn controlled(method: Box<dyn Method>, aggregation: Aggregation) -> Box<dyn Method> {
    match aggregation {
        Aggregation::Method => method,
        Aggregation::None | Aggregation::Mean => Box::new(Controlled {
            is_alone: aggregation == Aggregation::None,
            method,
        }),
    }
}

/// A method whose server takes the mean of what devices send, or whose devices train alone. The
/// server is that of [`Method::server`]'s default, which has nothing to do where devices are alone.
#[derive(Debug)]
struct Controlled {
    method: Box<dyn Method>,
    is_alone: bool,
}

impl Controlled {
    /// Returns what the method says, unless its devices train alone.
    fn unless_alone<T>(&self, says: impl FnOnce(&dyn Method) -> T) -> Option<T> {
        (!self.is_alone).then(|| says(&*self.method))
    }
}

impl Method for Controlled {
    fn initial(&self) -> Model {
        self.method.initial()
    }

    fn version(&self) -> String {
        self.method.version()
    }

    fn classes(&self) -> Classes {
        self.method.classes()
    }

    fn download_layout(&self, phase: Phase, class: Class) -> Layout {
        let Some(layout) = self.unless_alone(|method| method.download_layout(phase, class)) else {
            return Layout::none();
        };
        // What a method's own server makes for each user is not in the model, and is not sent here.
        let model = self.initial();
        let is_sent = |block: &&BlockLayout| model.layout().position(&block.name).is_some();
        Layout::new(layout.blocks().iter().filter(is_sent).cloned().collect())
    }

    fn upload_layout(&self, phase: Phase, class: Class) -> Layout {
        let layout = self.unless_alone(|method| method.upload_layout(phase, class));
        layout.unwrap_or_else(Layout::none)
    }

    fn client(&self, user: UserId) -> Box<dyn Client> {
        let client = self.method.client(user);
        match self.is_alone {
            true => {
                let (phase, class) = (Phase::default(), self.method.classes().of(user));
                let [download, upload] = [Method::download_layout, Method::upload_layout]
                    .map(|of| of(&*self.method, phase, class));
                Box::new(AloneClient::new(client, self.initial(), [download, upload]))
            }
            false => client,
        }
    }

    fn exchange(&self, phase: Phase) -> Option<Exchange> {
        self.unless_alone(|method| method.exchange(phase))?
    }

    fn third_party(&self) -> Option<Box<dyn ThirdParty>> {
        self.unless_alone(|method| method.third_party())?
    }

    fn trains_on_sampled_rows(&self) -> bool {
        self.unless_alone(|method| method.trains_on_sampled_rows()) == Some(true)
    }

    fn own_noise(&self) -> Option<OwnNoise> {
        self.unless_alone(|method| method.own_noise())?
    }

    fn predicts_ratings(&self) -> bool {
        self.method.predicts_ratings()
    }
}

/// The device of a user who trains alone: it goes on from its own version of the model, and
/// sends nothing of it.
struct AloneClient {
    client: Box<dyn Client>,
    start: Model,
    /// The blocks that the method's devices receive, and those that they send.
    traffic: [Layout; 2],
    /// The rows of each block of the model that differ from its start.
    changed: Private<Vec<TableUpdate>>,
}

impl AloneClient {
    fn new(client: Box<dyn Client>, start: Model, traffic: [Layout; 2]) -> Self {
        let shapes = start.layout().blocks().iter().map(|block| block.shape);
        let nothing = shapes.map(|shape| TableUpdate::nothing(shape, ValueType::F32));
        Self {
            changed: Private::new(nothing.collect()),
            client,
            start,
            traffic,
        }
    }

    /// Returns the device's own version of the model, without the blocks that a download may leave
    /// out: the method's devices have a version of these themselves.
    fn model(&self) -> Result<Model> {
        let mut model = Model::none();
        let blocks = self.start.layout().blocks().iter();
        for (at, (block, changed)) in blocks.zip(self.changed.get()).enumerate() {
            if !self.traffic[0].is_optional(&block.name) {
                let table = changed.apply(Some(self.start.table(at)))?;
                model = model.with_table(block, table.into())?;
            }
        }
        Ok(model)
    }
}

/// Returns the rows of `table` that differ from its start.
fn changes(start: &Table, table: &Table) -> Result<TableUpdate> {
    let rows = (0..table.shape().rows).filter(|row| table.row(*row) != start.row(*row));
    let rows: Vec<u32> = rows.map(|row| row as u32).collect();
    let values = table.gathered(&rows);
    TableUpdate::listed(table.shape(), rows, &values, 1.0)
}

impl Clone for AloneClient {
    fn clone(&self) -> Self {
        Self {
            client: self.client.snapshot(),
            start: self.start.clone(),
            traffic: self.traffic.clone(),
            changed: self.changed.clone(),
        }
    }
}

impl Client for AloneClient {
    fn train(&mut self, task: &LocalTask<'_>, scratch: &mut Scratch) -> Result<Trained> {
        let (model, mut alone) = (self.model()?, *task);
        alone.model = &model;
        let trained = self.client.train(&alone, scratch)?;
        for (block, update) in self.traffic[1].blocks().iter().zip(&trained.update.blocks) {
            let place = self.start.layout().position(&block.name);
            let table = model.named(&block.name);
            if let (Some(at), Some(table), false) = (place, table, block.is_statistic) {
                let table = update.apply(Some(table))?;
                self.changed.get_mut()[at] = changes(self.start.table(at), &table)?;
            }
        }
        let update = ModelUpdate::of_blocks(Vec::new());
        Ok(Trained { update, ..trained })
    }

    fn scorer<'a>(&'a self, context: ScoringContext<'a>) -> Scoring<'a> {
        Ok(Box::new(AloneScorer {
            client: &*self.client,
            model: self.model()?,
            context,
        }))
    }

    fn personal_table(&self) -> Result<Option<PersonalTable>> {
        self.client.personal_table()
    }

    fn personal_vector(&self) -> Result<Option<PersonalVector>> {
        self.client.personal_vector()
    }

    fn replace_personal_table(&mut self, values: Table) -> Result<()> {
        self.client.replace_personal_table(values)
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        self.client.visit_state(state)?;
        let mut changed = self.changed.get_mut().iter_mut();
        changed.try_for_each(|changed| state.update(changed))
    }
}

/// Scores with a device's own version of the model, which it holds.
struct AloneScorer<'a> {
    client: &'a dyn Client,
    model: Model,
    context: ScoringContext<'a>,
}

impl Scorer for AloneScorer<'_> {
    fn score(&self, items: &[u32], scores: &mut [f32]) -> Result<()> {
        let context = ScoringContext {
            model: &self.model,
            scratch: &mut Scratch::default(),
            ..self.context
        };
        self.client.scorer(context)?.score(items, scores)
    }
}
