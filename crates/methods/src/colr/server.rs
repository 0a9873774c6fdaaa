//! Implements CoLR's server, which adds up A and adds the mean of A times B to the item table.

use std::sync::Arc;

use super::{ColrParameters, Downloaded, add_product, basis, model_of, numbers_of};
use crate::prelude::*;
use crate::server::{Download, WeightTotals, downcast};
use crate::sums::UploadSums;

/// Implements the server.
pub(super) struct LowRankServer {
    parameters: ColrParameters,
    /// V, with the seed and the number of the next step.
    model: Model,
    /// The layout of uploads, which have A.
    upload: Layout,
    /// The mean of A of the last step.
    mean: Table,
}

impl LowRankServer {
    /// Makes the server that starts with the model of `averager`.
    pub(super) fn new(parameters: &ColrParameters, averager: &Averager) -> Self {
        Self {
            parameters: parameters.clone(),
            model: averager.model().clone(),
            upload: averager.upload_layout().clone(),
            mean: Table::zeros(averager.upload_layout().blocks()[0].shape),
        }
    }
}

impl Server for LowRankServer {
    fn model(&self) -> &Model {
        &self.model
    }

    fn set_model(&mut self, model: Model) -> Result<()> {
        self.model.replace(model)
    }

    fn upload_use(&self) -> UploadUse {
        UploadUse::Sum
    }

    fn download(&self) -> Download {
        if self.parameters.download == Downloaded::Table {
            return Download::Shared(self.model.clone());
        }
        let mean = BlockLayout::item_table("A", self.mean.shape()).statistic();
        let numbers = self.model.layout().blocks()[1].clone();
        let layout = Layout::new(vec![mean, numbers]);
        let model = model_of(layout, Arc::new(self.mean.clone()), numbers_of(&self.model));
        // The mean has the shape of this layout.
        Download::Shared(model.unwrap_or_else(|fault| unreachable!("{fault}")))
    }

    fn accumulator(&self) -> Box<dyn Accumulator> {
        Box::new(ByStep {
            sums: Vec::new(),
            upload: self.upload.clone(),
            totals: WeightTotals::default(),
        })
    }

    fn step(&mut self, sums: Box<dyn Accumulator>, step: &StepContext<'_>) -> Result<StepReport> {
        let ByStep { sums, totals, .. } = *downcast::<ByStep>(sums)?;
        let divisor = (step.normalise)(&totals).divisor;
        let [seed, number] = numbers_of(&self.model);
        let mut report = StepReport::default();
        self.mean = Table::zeros(self.mean.shape());
        for (sent_for, sums) in &sums {
            if *sent_for != number && self.parameters.download == Downloaded::Aggregate {
                return Err(Error::Usage(format!(
                    "an update for step {sent_for} of the server arrives in step {number}, in \
                     another basis than those that devices are told of: with `download = \
                     \"aggregate\"`, no update may be late"
                )));
            }
            let means = sums.blocks[0].iter().map(|sum| (sum / divisor) as f32);
            let mean = Table::new(self.mean.shape(), means.collect());
            let table = self.model.table_mut(0);
            let is_sent = |row: &usize| sums.senders[*row] != 0.0;
            let rows = (0..sums.senders.len()).filter(is_sent);
            let product = mean.shape().dimension * table.shape().dimension;
            report.multiply_adds += (rows.clone().count() * product) as u64;
            let basis = basis([seed, *sent_for], &self.parameters);
            add_product(table, &basis, &mean, rows);
            report.uploads.add_times(&sums.magnitudes, 1);
            if *sent_for == number {
                self.mean = mean;
            }
        }
        step.check_magnitude("V", largest_magnitude(self.model.table(0).as_slice()))?;
        let (layout, table) = (self.model.layout().clone(), Arc::clone(self.model.table(0)));
        self.model = model_of(layout, table, [seed, number + 1])?;
        Ok(report)
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        match self.parameters.download {
            Downloaded::Table => Ok(()),
            Downloaded::Aggregate => state.values(self.mean.as_mut_slice()),
        }
    }
}

/// Holds the sums of a step.
struct ByStep {
    /// The sums of A of those who trained in the basis of the same step, in the order of their
    /// first arrival.
    sums: Vec<(u64, UploadSums)>,
    upload: Layout,
    totals: WeightTotals,
}

impl ByStep {
    /// Returns the sums of those who trained in the basis of `step`.
    fn of(&mut self, step: u64) -> &mut UploadSums {
        let known = self.sums.iter().position(|(known, _)| *known == step);
        let place = known.unwrap_or_else(|| {
            self.sums.push((step, UploadSums::of(&self.upload)));
            self.sums.len() - 1
        });
        &mut self.sums[place].1
    }
}

impl Accumulator for ByStep {
    fn absorb(&mut self, contributions: &[Contribution<'_>]) -> Result<()> {
        for contribution in contributions {
            let (weight, is_fresh) = (contribution.weight, contribution.is_fresh);
            self.totals.add(1.0, weight, is_fresh);
            let [_, step] = numbers_of(contribution.received);
            self.of(step).absorb(&[*contribution])?;
        }
        Ok(())
    }

    fn merge(&mut self, other: Box<dyn Accumulator>) -> Result<()> {
        let other = *downcast::<Self>(other)?;
        self.totals.merge(&other.totals);
        for (step, sums) in other.sums {
            self.of(step).add(sums);
        }
        Ok(())
    }
}
