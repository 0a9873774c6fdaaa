//! Clusters items by what users send, and gives a group of users the mean of its tables.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::alike::group_of;
use super::{CoFedRecParameters, LABELS};
use crate::declare::learn::contrast::packed;
use crate::prelude::*;
use crate::server::PersonalDownloads;
use crate::user_tables::{Making, mean_of};
use fedrecsim_model::blocks::BlockValues;
use fedrecsim_model::clusters::Search;
use fedrecsim_model::{SharedTable, ValueType};

/// How often centres of clusters move, at most.
const MOST_MOVES: usize = 300;

/// What the last step has made.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// The mean of what was sent, which no device receives.
    model: Model,
    /// The packed clusters of items; none before the first step, and where none are sent.
    clusters: Vec<u8>,
    /// The users of the group, ascending, and its table.
    group: Vec<UserId>,
    table: SharedTable,
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

/// Draws a user and one of the clusters that have items, and returns the users that are most like it
/// in these items, ascending.
fn draw_group(tables: &[&Table], labels: &[u32], stream: &mut Stream) -> Vec<usize> {
    let core = stream.below(tables.len() as u32) as usize;
    let occurring = Vec::from_iter(labels.iter().collect::<BTreeSet<_>>());
    let drawn = occurring[stream.below(occurring.len() as u32) as usize];
    let rows = (0..labels.len()).filter(|item| labels[*item] == *drawn);
    let mut group = group_of(core, tables, &rows.collect::<Vec<_>>());
    group.sort_unstable();
    group
}

impl Making for Step {
    /// The method's, and whether a group gets its mean.
    type Parameters = (CoFedRecParameters, bool);

    fn of_nobody(model: Model) -> Self {
        Self {
            clusters: Vec::new(),
            group: Vec::new(),
            table: Arc::clone(model.table(0)),
            model,
        }
    }

    fn model(&self) -> &Model {
        &self.model
    }

    fn made(
        &self,
        (p, has_groups): &Self::Parameters,
        (users, sent): (Vec<UserId>, Vec<Vec<Table>>),
        step: &StepContext<'_>,
    ) -> Result<(Self, u64)> {
        let tables: Vec<&Table> = sent.iter().map(|sent| &sent[0]).collect();
        let shape = self.model().table(0).shape();
        let mean = mean_of(shape, tables.iter().copied());
        step.check_magnitude("E", largest_magnitude(mean.as_slice()))?;
        let mut stream = step.named_stream("cofedrec/clusters");
        let search = Search {
            clusters: p.clusters as usize,
            starts: p.cluster_starts,
            moves: MOST_MOVES,
        };
        let rows: Vec<f64> = mean.as_slice().iter().copied().map(f64::from).collect();
        let found = search.run(&rows, shape.dimension, &mut stream);
        let labels = found.labels;
        let mut made = Self::of_nobody(self.model().clone());
        if *has_groups {
            let group = draw_group(&tables, &labels, &mut stream);
            made.table = mean_of(shape, group.iter().map(|user| tables[*user])).into();
            made.group = group.iter().map(|user| users[*user]).collect();
        }
        made.model.set_table(0, mean.into())?;
        if p.regularization > 0.0 {
            made.clusters = packed(&labels, p.bits());
        }
        // The two means, the cosines and the clusters.
        let multiply_adds = 3 * (shape.values() * users.len()) as u64 + found.multiply_adds;
        Ok((made, multiply_adds))
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        state.plain(&mut self.clusters)?;
        state.plain(&mut self.group)?;
        state.values(Arc::make_mut(&mut self.table).as_mut_slice())
    }
}
