//! Implements CoLR's server, which adds up A and adds the mean of A times B to the item table.

use std::sync::Arc;

use super::{ColrParameters, Downloaded, add_product, basis, model_of, numbers_of};
use crate::method::prelude::*;
use crate::method::server::{Download, WeightTotals, downcast};
use fedrecsim_model::model::aggregate;
use fedrecsim_model::model::sent_rows::SentRows;

/// Implements the server.
pub(super) struct LowRankServer {
    parameters: ColrParameters,
    /// V, with the seed and the number of the next step.
    model: Model,
    /// The mean of A of the last step.
    mean: Table,
}

impl LowRankServer {
    /// Makes the server that starts with the model of `averager`.
    pub(super) fn new(parameters: &ColrParameters, averager: Averager) -> Self {
        Self {
            parameters: parameters.clone(),
            model: averager.model().clone(),
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
        Box::new(Sums {
            shape: self.mean.shape(),
            by_step: Vec::new(),
            totals: WeightTotals::default(),
        })
    }

    fn step(&mut self, sums: Box<dyn Accumulator>, step: &StepContext<'_>) -> Result<StepReport> {
        let sums = *downcast::<Sums>(sums)?;
        let divisor = (step.normalise)(&sums.totals).divisor;
        let [seed, number] = numbers_of(&self.model);
        let mut report = StepReport::default();
        self.mean = Table::zeros(self.mean.shape());
        for (sent_for, sums) in &sums.by_step {
            if *sent_for != number && self.parameters.download == Downloaded::Aggregate {
                return Err(Error::Usage(format!(
                    "an update for step {sent_for} of the server arrives in step {number}, in \
                     another basis than those that devices are told of: with `download = \
                     \"aggregate\"`, no update may be late"
                )));
            }
            let mut mean = Table::zeros(self.mean.shape());
            for sent in sums.iter() {
                let values = mean.row_mut(sent.row as usize).iter_mut().zip(sent.sum);
                values.for_each(|(value, sum)| *value = (sum / divisor) as f32);
            }
            let table = self.model.table_mut(0);
            let product = mean.shape().dimension * table.shape().dimension;
            report.multiply_adds += (sums.iter().count() * product) as u64;
            let rows = sums
                .iter()
                .map(|sent| (sent.row as usize, mean.row(sent.row as usize)));
            add_product(table, &basis([seed, *sent_for], &self.parameters), rows);
            report.uploads.add_times(&sums.counts(), 1);
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
struct Sums {
    shape: TableShape,
    /// The sums of A of those who trained in the basis of the same step, in the order in which they
    /// first came.
    by_step: Vec<(u64, SentRows)>,
    totals: WeightTotals,
}

impl Sums {
    /// Returns the sums of those who trained in the basis of `step`.
    fn of(&mut self, step: u64) -> &mut SentRows {
        let known = self.by_step.iter().position(|(known, _)| *known == step);
        let place = known.unwrap_or_else(|| {
            self.by_step.push((step, SentRows::new(self.shape)));
            self.by_step.len() - 1
        });
        &mut self.by_step[place].1
    }
}

impl Accumulator for Sums {
    fn absorb(&mut self, contributions: &[Contribution<'_>]) -> Result<()> {
        for contribution in contributions {
            let by_method = contribution.weight_by_method();
            let (weight, is_fresh) = (contribution.weight, contribution.is_fresh);
            self.totals.add(by_method, weight, is_fresh);
            let [_, step] = numbers_of(contribution.received);
            self.of(step).add(&[aggregate::Contribution {
                update: &contribution.update.blocks[0],
                base: None,
                intended: None,
                base_number: contribution.download_number,
                weight: weight * by_method,
                base_weight: 0.0,
            }]);
        }
        Ok(())
    }

    fn merge(&mut self, other: Box<dyn Accumulator>) -> Result<()> {
        let other = *downcast::<Self>(other)?;
        self.totals.merge(&other.totals);
        for (step, sums) in &other.by_step {
            self.of(*step).merge(sums);
        }
        Ok(())
    }
}
