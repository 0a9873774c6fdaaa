//! Clusters items by what users send, and gives a group of users the mean of its tables.

use std::sync::Arc;

use super::clusters::{clusters, group_of};
use super::{CoFedRec, LABELS};
use crate::declare::learn::contrast::packed;
use crate::prelude::*;
use crate::server::{Download, PersonalDownloads, downcast};
use crate::user_tables::{Sent, mean_of};
use fedrecsim_core::stages::{Stage, enter};
use fedrecsim_model::blocks::BlockValues;
use fedrecsim_model::{SharedTable, ValueType};

/// What the last step has made.
#[derive(Clone, Debug)]
struct Step {
    /// The mean of what was sent, which no device receives.
    model: Model,
    /// The packed clusters of items; none before the first step, and where none are sent.
    clusters: Vec<u8>,
    /// The users of the group, ascending, and its table.
    group: Vec<UserId>,
    table: SharedTable,
}

impl Step {
    fn before_the_first(model: Model) -> Self {
        Self {
            clusters: Vec::new(),
            group: Vec::new(),
            table: Arc::clone(model.table(0)),
            model,
        }
    }
}

impl PersonalDownloads for Step {
    fn download(&self, user: UserId) -> Result<Model> {
        let (mut layouts, mut blocks) = (Vec::new(), Vec::new());
        if !self.clusters.is_empty() {
            let shape = TableShape::new(1, self.clusters.len());
            layouts.push(BlockLayout::weights(LABELS, shape).of(ValueType::Bytes));
            blocks.push(BlockValues::Raw(self.clusters.clone().into()));
        }
        if self.group.binary_search(&user).is_ok() {
            layouts.push(self.model.layout().blocks()[0].clone());
            blocks.push(BlockValues::Table(Arc::clone(&self.table)));
        }
        Model::new(Layout::new(layouts), blocks)
    }
}

/// Holds the parameters, and what the last step has made.
pub(super) struct ClusterServer {
    parameters: CoFedRec,
    upload: Layout,
    last: Arc<Step>,
}

impl ClusterServer {
    pub(super) fn new(parameters: CoFedRec, averager: &Averager) -> Self {
        Self {
            parameters,
            upload: averager.upload_layout().clone(),
            last: Arc::new(Step::before_the_first(averager.model().clone())),
        }
    }

    /// Draws a user and a cluster, and returns the users that are most like it in the items of the
    /// cluster, ascending.
    fn draw_group(&self, tables: &[&Table], labels: &[u32], stream: &mut Stream) -> Vec<usize> {
        let core = stream.below(tables.len() as u32) as usize;
        let drawn = stream.below(self.parameters.clusters);
        let rows = (0..labels.len()).filter(|item| labels[*item] == drawn);
        let mut group = group_of(core, tables, &rows.collect::<Vec<_>>());
        group.sort_unstable();
        group
    }
}

impl Server for ClusterServer {
    fn model(&self) -> &Model {
        &self.last.model
    }

    fn set_model(&mut self, model: Model) -> Result<()> {
        self.model().check_same_layout(&model)?;
        self.last = Arc::new(Step::before_the_first(model));
        Ok(())
    }

    fn download(&self) -> Download {
        Download::PerUser(self.last.clone())
    }

    fn accumulator(&self) -> Box<dyn Accumulator> {
        Box::new(Sent::new(self.upload.clone()))
    }

    fn step(&mut self, sums: Box<dyn Accumulator>, step: &StepContext<'_>) -> Result<StepReport> {
        let sent = *downcast::<Sent>(sums)?;
        let report = sent.report;
        let (users, sent) = sent.last_of_each();
        if users.is_empty() {
            return Ok(report);
        }
        let _stage = enter(Stage::Aggregate);
        let p = &self.parameters;
        let tables: Vec<&Table> = sent.iter().map(|sent| &sent[0]).collect();
        let shape = self.model().table(0).shape();
        let mean = mean_of(shape, tables.iter().copied());
        step.check_magnitude("E", largest_magnitude(mean.as_slice()))?;
        let mut stream = step.named_stream("cofedrec/clusters");
        let (labels, of_clusters) =
            clusters(&mean, p.clusters as usize, p.cluster_starts, &mut stream);
        let mut last = Step::before_the_first(self.model().clone());
        if p.groups {
            let group = self.draw_group(&tables, &labels, &mut stream);
            last.table = mean_of(shape, group.iter().map(|user| tables[*user])).into();
            last.group = group.iter().map(|user| users[*user]).collect();
        }
        last.model.set_table(0, mean.into())?;
        if p.regularization > 0.0 {
            last.clusters = packed(&labels, p.bits());
        }
        self.last = Arc::new(last);
        // The two means, the cosines and the clusters.
        let multiply_adds = 3 * (shape.values() * users.len()) as u64 + of_clusters;
        Ok(StepReport {
            multiply_adds,
            ..report
        })
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        let last = Arc::make_mut(&mut self.last);
        state.plain(&mut last.clusters)?;
        state.plain(&mut last.group)?;
        state.values(Arc::make_mut(&mut last.table).as_mut_slice())
    }
}
