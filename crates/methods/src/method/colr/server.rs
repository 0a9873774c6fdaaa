//! Implements CoLR's server, which adds up A and adds the mean of A times B to the item table.

use std::sync::Arc;

use super::{Downloaded, Shared, numbers_of};
use crate::method::largest_magnitude;
use crate::method::server::{
    Accumulator, Contribution, Download, Server, StepContext, StepReport, UploadUse, WeightTotals,
    downcast,
};
use fedrecsim_core::error::{Error, Result};
use fedrecsim_model::model::aggregate;
use fedrecsim_model::model::blocks::Model;
use fedrecsim_model::model::sent_rows::SentRows;
use fedrecsim_model::model::state::StateVisitor;
use fedrecsim_model::model::table::{Table, TableShape};

/// Implements the server.
pub(super) struct LowRankServer {
    shared: Arc<Shared>,
    /// V, with the seed and the number of the next step.
    model: Model,
    /// The mean of A of the last step.
    mean: Table,
}

impl LowRankServer {
    /// Makes the server that starts with `model`.
    pub(crate) fn new(shared: Arc<Shared>, model: Model) -> Self {
        let mean = Table::zeros(shared.parameters.factors(shared.initial.shape().rows).shape);
        Self {
            shared,
            model,
            mean,
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
        let parameters = &self.shared.parameters;
        if parameters.download == Downloaded::Table {
            return Download::Shared(self.model.clone());
        }
        let (mean, layout) = (
            Arc::new(self.mean.clone()),
            parameters.factors(self.mean.shape().rows),
        );
        let model = self.shared.model(mean, layout, numbers_of(&self.model));
        // The mean has been made with the shape of this layout.
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
        let Sums {
            by_step, totals, ..
        } = *downcast::<Sums>(sums)?;
        let divisor = (step.normalise)(&totals).divisor;
        let [seed, number] = numbers_of(&self.model);
        let mut report = StepReport::default();
        self.mean = Table::zeros(self.mean.shape());
        for (sent_for, sums) in &by_step {
            if *sent_for != number && self.shared.parameters.download == Downloaded::Aggregate {
                return Err(Error::Usage(format!(
                    "an update for step {sent_for} of the server arrives in step {number}, in another basis than those \
                     that devices are told of: with `download = \"aggregate\"`, no update may be late"
                )));
            }
            let mut mean = Table::zeros(self.mean.shape());
            let mut rows = Vec::new();
            for row in sums.iter() {
                let values = mean.row_mut(row.row as usize);
                values
                    .iter_mut()
                    .zip(row.sum)
                    .for_each(|(value, sum)| *value = (sum / divisor) as f32);
                rows.push(row.row as usize);
            }
            let table = self.model.table_mut(0);
            report.multiply_adds +=
                (rows.len() * mean.shape().dimension * table.shape().dimension) as u64;
            self.shared.add_product(
                table,
                [seed, *sent_for],
                rows.iter().map(|row| (*row, mean.row(*row))),
            );
            report.uploads.add_times(&sums.counts(), 1);
            if *sent_for == number {
                self.mean = mean;
            }
        }
        step.check_magnitude("V", largest_magnitude(self.model.table(0).as_slice()))?;
        let (table, layout) = (
            Arc::clone(self.model.table(0)),
            self.model.layout().blocks()[0].clone(),
        );
        self.model = self.shared.model(table, layout, [seed, number + 1])?;
        Ok(report)
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        match self.shared.parameters.download {
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
        let place = self
            .by_step
            .iter()
            .position(|(known, _)| *known == step)
            .unwrap_or_else(|| {
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
            self.totals
                .add(by_method, contribution.weight, contribution.is_fresh);
            let [_, step] = numbers_of(contribution.received);
            self.of(step).add(&[aggregate::Contribution {
                update: &contribution.update.blocks[0],
                base: None,
                intended: None,
                base_number: contribution.download_number,
                weight: contribution.weight * by_method,
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
