//! Implements the server side of methods whose server combines what clients send by a rule for each
//! block.

use std::sync::Arc;

use super::robust::trimmed_sums;
use super::row_counts::{RowCounts, can_be_counts};
use super::rule::{Combine, Moments, ServerRule};
use super::server::{
    Accumulator, Contribution, Server, StepContext, StepReport, UploadUse, WeightTotals, downcast,
};
use fedrecsim_core::{Error, Result};
use fedrecsim_model::aggregate::{Averaging, BlockContribution};
use fedrecsim_model::magnitude::{MagnitudeCounts, SupportCount};
use fedrecsim_model::sent_rows::SentRows;
use fedrecsim_model::{BlockLayout, Layout, Model, StateVisitor, ValueType};

/// Combines what clients send, block by block.
#[derive(Clone)]
pub struct Averager {
    model: Model,
    upload: Layout,
    rules: Vec<ServerRule>,
    moments: Vec<Moments>,
    /// The position of the block of uploads that lists the rows that devices have sent, if there is
    /// one.
    counts: Option<usize>,
    /// The rate of a block by the number of the step, in place of that of its rule.
    schedule: Option<(usize, Schedule)>,
}

/// Returns the rate of a step of this number.
type Schedule = Arc<dyn Fn(u32) -> f64 + Send + Sync>;

impl Averager {
    /// Makes a server with this model, uploads of this layout, and a rule for each block of the
    /// model in their order. Blocks beyond the list have [`ServerRule::MEAN`]. A block of the model is
    /// changed by the upload's block of the same name.
    pub fn with_rules(model: Model, upload: Layout, rules: &[ServerRule]) -> Self {
        let blocks = model.layout().blocks();
        let mut rules = rules.to_vec();
        rules.resize(blocks.len(), ServerRule::MEAN);
        let moments = rules.iter().zip(blocks);
        let moments = moments.map(|(rule, block)| Moments::of(rule, block.shape));
        Self {
            moments: moments.collect(),
            model,
            upload,
            rules,
            counts: None,
            schedule: None,
        }
    }

    /// Returns the same server that takes the number of senders of each row from this block of
    /// uploads, which lists the rows that a device has sent ([`can_be_counts`]). If uploads have no
    /// such block, and for blocks of another number of rows, it counts senders. What is said in an
    /// update of a smaller weight counts less.
    pub(crate) fn counted_by(mut self, block: &str) -> Self {
        let said = self.upload.position(block);
        self.counts = said.filter(|at| can_be_counts(&self.upload.blocks()[*at]));
        self
    }

    /// Returns the layout of uploads.
    pub fn upload_layout(&self) -> &Layout {
        &self.upload
    }

    /// Returns the same server that steps the block at `position` with the rate that `rate` returns
    /// for the number of the step.
    pub fn with_rate(
        self,
        position: usize,
        rate: impl Fn(u32) -> f64 + Send + Sync + 'static,
    ) -> Self {
        Self {
            schedule: Some((position, Arc::new(rate))),
            ..self
        }
    }

    /// Returns the sums for a block of the model and the position of its block in uploads, if it
    /// has one.
    fn sums(&self, (block, rule): (&BlockLayout, &ServerRule)) -> Option<(usize, BlockSums)> {
        let at = self.upload.position(&block.name)?;
        let sent = &self.upload.blocks()[at];
        if sent.value_type != ValueType::F32 || block.shape != sent.shape {
            return None;
        }
        let sums = match rule.combine {
            _ if rule.is_mean() && !sent.is_statistic => {
                BlockSums::Whole(Averaging::new(block.shape))
            }
            Combine::TrimmedMean { .. } => {
                BlockSums::Sent(SentRows::new(block.shape).keeping_each())
            }
            _ => BlockSums::Sent(SentRows::new(block.shape)),
        };
        Some((at, sums))
    }

    /// Steps the block at `position` by the sums of what was sent for it. Returns the magnitudes of
    /// what was sent, and how many values are not 0 in some whole table that was averaged.
    fn finish_block(
        &mut self,
        position: usize,
        sums: BlockSums,
        (totals, counts): (&WeightTotals, Option<&RowCounts>),
        step: &StepContext<'_>,
    ) -> Result<(MagnitudeCounts, SupportCount)> {
        let weights = (step.normalise)(totals);
        let seen = match sums {
            BlockSums::Whole(averaging) => {
                let table = self.model.table(position);
                let aggregate = averaging.finish(table, weights.kept, weights.divisor);
                self.model.set_table(position, aggregate.table.into())?;
                (aggregate.uploads, aggregate.union)
            }
            BlockSums::Sent(sent) => {
                let counts = counts.filter(|counts| counts.rows() == sent.rows());
                self.step_sent_rows(position, &sent, (weights.divisor, counts), step);
                (sent.counts, SupportCount::default())
            }
        };
        self.rules[position].soften(self.model.table_mut(position).as_mut_slice());
        Ok(seen)
    }

    /// Moves the rows that were sent by the block's rule. They are changed in place, so that a step
    /// of few rows is cheap.
    fn step_sent_rows(
        &mut self,
        position: usize,
        rows: &SentRows,
        (divisor, counts): (f64, Option<&RowCounts>),
        step: &StepContext<'_>,
    ) {
        let (rule, moments) = (self.rules[position], &mut self.moments[position]);
        let sent = self
            .upload
            .position(&self.model.layout().blocks()[position].name);
        let is_statistic = sent.is_some_and(|at| self.upload.blocks()[at].is_statistic);
        let sign = if is_statistic { -1.0 } else { 1.0 };
        let rate = match &self.schedule {
            Some((of, rate)) if *of == position => rate(step.step),
            _ => rule.rate_at(step.step),
        };
        let table = self.model.table_mut(position);
        let mut direction = vec![0.0; table.shape().dimension];
        for row in rows.iter() {
            let divisor = match rule.combine {
                Combine::Mean | Combine::TrimmedMean { .. } => divisor,
                Combine::Sum => 1.0,
                Combine::MeanPerSender => match counts.map(|counts| counts.senders(row.row)) {
                    None => f64::from(row.senders),
                    Some(Some(senders)) => senders,
                    Some(None) => continue,
                },
            };
            let trimmed;
            let sums = match rule.combine {
                Combine::TrimmedMean { share } => {
                    trimmed = trimmed_sums(&row.each, share);
                    &trimmed
                }
                _ => &row.sum,
            };
            for (direction, sum) in direction.iter_mut().zip(sums) {
                *direction = sign * sum / divisor;
            }
            let at = row.row as usize;
            rule.apply(rate, &direction, moments, (at, table.row_mut(at)));
        }
    }
}

/// Returns what a server uses of uploads whose blocks of the model have this many rows and these
/// rules. `is_counted` says whether devices count the rows that they send.
pub(super) fn upload_use(
    mut rules: impl Iterator<Item = (usize, ServerRule)>,
    upload: &Layout,
    is_counted: bool,
) -> UploadUse {
    let counted = upload.blocks().iter().rfind(|block| can_be_counts(block));
    let counted = counted.filter(|_| is_counted).map(|block| block.shape.rows);
    let uses_each = rules.any(|(rows, rule)| match rule.combine {
        Combine::MeanPerSender => counted != Some(rows),
        Combine::TrimmedMean { .. } => true,
        Combine::Mean | Combine::Sum => false,
    });
    let mut sent = upload.blocks().iter();
    let has_floats = sent.all(|sent| sent.value_type == ValueType::F32);
    match (uses_each, has_floats, upload.weighted) {
        (true, ..) => UploadUse::Each,
        (false, true, false) => UploadUse::Sum,
        (false, ..) => UploadUse::WeightedSum,
    }
}

impl Server for Averager {
    fn model(&self) -> &Model {
        &self.model
    }

    fn set_model(&mut self, model: Model) -> Result<()> {
        self.model.replace(model)
    }

    fn upload_use(&self) -> UploadUse {
        let blocks = self.model.layout().blocks().iter();
        let rules = blocks.map(|block| block.shape.rows).zip(self.rules.clone());
        upload_use(rules, &self.upload, self.counts.is_some())
    }

    fn accumulator(&self) -> Box<dyn Accumulator> {
        let blocks = self.model.layout().blocks().iter().zip(&self.rules);
        let counts = |at: usize| (at, SentRows::new(self.upload.blocks()[at].shape));
        Box::new(Sums {
            upload: self.upload.clone(),
            blocks: blocks.map(|block| self.sums(block)).collect(),
            counts: self.counts.map(counts),
            totals: WeightTotals::default(),
        })
    }

    fn step(&mut self, sums: Box<dyn Accumulator>, step: &StepContext<'_>) -> Result<StepReport> {
        let sums = *downcast::<Sums>(sums)?;
        let counts = sums.counts.map(|(_, sent)| RowCounts::of(&sent));
        let mut report = StepReport::default();
        for (position, sent) in sums.blocks.into_iter().enumerate() {
            let Some((_, sent)) = sent else { continue };
            let weights = (&sums.totals, counts.as_ref());
            let (magnitudes, union) = self.finish_block(position, sent, weights, step)?;
            report.uploads.add_times(&magnitudes, 1);
            report.union += union;
        }
        Ok(report)
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        let mut moments = self.moments.iter_mut();
        moments.try_for_each(|moments| moments.visit_state(state))
    }
}

/// Holds the sums of a step.
struct Sums {
    upload: Layout,
    /// For each block of the model, the position of the upload's block of the same name, and the
    /// sums; `None` if uploads have no such block.
    blocks: Vec<Option<(usize, BlockSums)>>,
    /// The position of the upload's block that lists the rows sent, and its sums.
    counts: Option<(usize, SentRows)>,
    totals: WeightTotals,
}

/// Holds the sums of one block.
enum BlockSums {
    /// The sums are over whole tables.
    Whole(Averaging),
    /// The sums are over the rows that were sent.
    Sent(SentRows),
}

impl Accumulator for Sums {
    fn absorb(&mut self, contributions: &[Contribution<'_>]) -> Result<()> {
        for contribution in contributions {
            let Contribution {
                weight, is_fresh, ..
            } = *contribution;
            self.totals
                .add(contribution.weight_by_method(), weight, is_fresh);
        }
        let of_block = |at: usize| -> Vec<BlockContribution<'_>> {
            let block = &self.upload.blocks()[at];
            let contributions = contributions.iter();
            contributions
                .map(|contribution| of_block(contribution, block, at))
                .collect()
        };
        for (at, sums) in self.blocks.iter_mut().flatten() {
            match sums {
                BlockSums::Whole(averaging) => averaging.add(&of_block(*at)),
                BlockSums::Sent(sent) => sent.add(&of_block(*at)),
            }
        }
        if let Some((at, sums)) = &mut self.counts {
            sums.add(&of_block(*at));
        }
        Ok(())
    }

    fn merge(&mut self, other: Box<dyn Accumulator>) -> Result<()> {
        let other = *downcast::<Self>(other)?;
        self.totals.merge(&other.totals);
        if let (Some((_, sums)), Some((_, more))) = (&mut self.counts, other.counts) {
            sums.merge(more);
        }
        let blocks = self.blocks.iter_mut().flatten();
        for ((_, sums), (_, more)) in blocks.zip(other.blocks.into_iter().flatten()) {
            match (sums, more) {
                (BlockSums::Whole(sums), BlockSums::Whole(more)) => sums.merge(more),
                (BlockSums::Sent(sums), BlockSums::Sent(more)) => sums.merge(more),
                _ => {
                    let misfit = "two sums of a step are of different rules";
                    return Err(Error::Update(misfit.to_owned()));
                }
            }
        }
        Ok(())
    }
}

/// Returns the part of a contribution that belongs to one block.
fn of_block<'a>(
    contribution: &Contribution<'a>,
    block: &BlockLayout,
    at: usize,
) -> BlockContribution<'a> {
    let by_method = contribution.weight_by_method();
    let table = |model: &'a Model| model.named(&block.name).filter(|_| !block.is_statistic);
    BlockContribution {
        update: &contribution.update.blocks[at],
        base: table(contribution.received),
        intended: contribution.intended.and_then(table),
        base_number: contribution.download_number,
        weight: contribution.weight * by_method,
        base_weight: contribution.base_weight * by_method,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::Phase;
    use crate::tests::with_step;
    use fedrecsim_core::Streams;
    use fedrecsim_core::{InvitationId, UserId};
    use fedrecsim_model::ModelUpdate;
    use fedrecsim_model::{Table, TableShape, TableUpdate};
    use fedrecsim_scenario::StepWeights;

    /// Returns the value of a table of one value, 10, after a step of half of what a client has
    /// sent for it, which is 3.
    fn after_a_step(upload: BlockLayout) -> f32 {
        let shape = TableShape::new(1, 1);
        let model = Model::of_table("V", Table::from_fn(shape, || 10.0));
        let upload = Layout::new(vec![upload]);
        let rule = ServerRule {
            rate: 0.5,
            ..ServerRule::MEAN
        };
        let mut server = Averager::with_rules(model.clone(), upload, &[rule]);
        let update =
            ModelUpdate::of_table(TableUpdate::listed(shape, vec![0], &[3.0], 1.0).unwrap());
        let contribution = Contribution {
            user: UserId(0),
            invitation_id: InvitationId(0),
            phase: Phase::default(),
            update: &update,
            received: &model,
            intended: None,
            download_number: 0,
            weight: 1.0,
            base_weight: 1.0,
            is_fresh: true,
        };
        let mut sums = server.accumulator();
        sums.absorb(&[contribution]).unwrap();
        let normalise = |totals: &WeightTotals| StepWeights {
            kept: 0.0,
            divisor: totals.weights,
        };
        server
            .step(sums, &StepContext::new(0, 1, &normalise, Streams::new(0)))
            .unwrap();
        server.model().table(0).as_slice()[0]
    }

    /// If this fails, a server goes up the slope of a gradient, or away from what clients have made
    /// of the table.
    #[test]
    fn a_gradient_is_gone_down_and_a_table_is_approached() {
        let table = BlockLayout::item_table("V", TableShape::new(1, 1));
        assert_eq!(after_a_step(table.clone().statistic()), 10.0 - 0.5 * 3.0);
        assert_eq!(after_a_step(table), 10.0 + 0.5 * (3.0 - 10.0));
    }

    /// If this fails, a server divides by another number of senders than devices say, or by less
    /// than noise on it, loses counts that another accumulator has, or takes another block for
    /// counts.
    #[test]
    fn counts_that_devices_say_are_divided_by_unless_noise_is_larger() {
        let rows = TableShape::new(3, 1);
        let model = Model::of_table("V", Table::zeros(rows));
        let blocks = [
            BlockLayout::item_table("V", rows),
            BlockLayout::item_table("counts", rows),
        ];
        let upload = Layout::new(blocks.map(BlockLayout::statistic).to_vec());
        let rules = [ServerRule {
            combine: Combine::MeanPerSender,
            ..ServerRule::MEAN
        }];
        let after = |said: [f32; 3]| {
            let mut server =
                Averager::with_rules(model.clone(), upload.clone(), &rules).counted_by("counts");
            assert_eq!(server.upload_use(), UploadUse::Sum);
            let listed =
                |values: [f32; 3]| TableUpdate::listed(rows, vec![0, 1, 2], &values, 1.0).unwrap();
            let mut sums = server.accumulator();
            for half in [said.map(|count| count - 1.0), [1.0; 3]] {
                let update = ModelUpdate::of_blocks(vec![listed([-3.0; 3]), listed(half)]);
                let mut other = server.accumulator();
                other
                    .absorb(&[Contribution::fresh(
                        UserId(0),
                        InvitationId(0),
                        &update,
                        &model,
                    )])
                    .unwrap();
                sums.merge(other).unwrap();
            }
            with_step(0, |step| server.step(sums, step)).unwrap();
            server.model().table(0).as_slice().to_vec()
        };
        assert_eq!(
            after([3.0, 1.0, 0.0]),
            [2.0, 6.0, 0.0],
            "nobody says that the last row was sent"
        );
        assert_eq!(
            after([3.0, 1.0, -2.0]),
            [2.0, 3.0, 3.0],
            "noise is at least 2"
        );
        let counted_by = |block: &str, layout: &Layout| {
            Averager::with_rules(model.clone(), layout.clone(), &rules)
                .counted_by(block)
                .upload_use()
        };
        assert_eq!(counted_by("other", &upload), UploadUse::Each);
        let wide = BlockLayout::item_table("counts", TableShape::new(3, 2)).statistic();
        let long = BlockLayout::item_table("counts", TableShape::new(4, 1)).statistic();
        let state = BlockLayout::item_table("counts", rows);
        for block in [wide, long, state] {
            let layout = Layout::new(vec![BlockLayout::item_table("V", rows).statistic(), block]);
            assert_eq!(counted_by("counts", &layout), UploadUse::Each);
        }
    }
}
