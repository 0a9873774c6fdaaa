//! Moves rows as the server of FCF does, and lets a bandit choose those that travel.

use super::bandit::Bandit;
use super::{Choice, FcfBtsParameters, Reward};
use crate::prelude::*;
use crate::server::{Download, downcast};
use fedrecsim_model::aggregate::BlockContribution;
use fedrecsim_model::sent_rows::{SentRow, SentRows};

/// The server, with the rows of the next step.
pub(super) struct ChoosingServer {
    averager: Averager,
    parameters: FcfBtsParameters,
    streams: Streams,
    pub(super) bandit: Bandit,
    /// The sum of the gradients of each row when it was sent last (m x k).
    before: Vec<f32>,
    /// The rows that participants receive, ascending.
    chosen: Vec<u32>,
}

impl ChoosingServer {
    pub(super) fn new(averager: Averager, parameters: FcfBtsParameters, streams: Streams) -> Self {
        let shape = averager.model().table(0).shape();
        let mut server = Self {
            averager,
            parameters,
            streams,
            bandit: Bandit::new(shape.rows),
            before: vec![0.0; shape.values()],
            chosen: Vec::new(),
        };
        server.choose_for(0);
        server
    }

    /// Chooses the rows for the step of this number.
    fn choose_for(&mut self, step: u32) {
        let all = self.averager.model().table(0).shape().rows;
        let share = (self.parameters.row_share * all as f64).round() as usize;
        let mut stream = self
            .streams
            .named("fcf-bts/rows", u64::MAX, u64::from(step));
        self.chosen = self.bandit.choose(share.clamp(1, all.max(1)), &mut stream);
    }

    /// Rewards the bandit for a row that has been sent, unless chance chooses.
    fn learn(&mut self, sent: &SentRow) {
        let row = sent.row as usize;
        let before = &mut self.before[row * sent.sum.len()..][..sent.sum.len()];
        let reward = match self.parameters.reward {
            Reward::Length => length(sent.sum.iter().copied()),
            Reward::Change => change(before, &sent.sum),
        };
        for (before, sum) in before.iter_mut().zip(&sent.sum) {
            *before = *sum as f32;
        }
        if self.parameters.choice == Choice::Bandit {
            let precision = self.parameters.reward_precision;
            self.bandit.learn(row, reward, precision);
        }
    }
}

fn length(values: impl Iterator<Item = f64>) -> f64 {
    math::sqrt(values.map(|value| value * value).sum())
}

/// Returns the distance between two gradients as a share of the length of the first, and 1 at most.
pub(super) fn change(before: &[f32], now: &[f64]) -> f64 {
    let before = before.iter().map(|value| f64::from(*value));
    let moved = before.clone().zip(now).map(|(before, now)| now - before);
    (length(moved) / (length(before) + 1e-8)).min(1.0)
}

impl Server for ChoosingServer {
    fn model(&self) -> &Model {
        self.averager.model()
    }

    fn set_model(&mut self, model: Model) -> Result<()> {
        self.averager.set_model(model)
    }

    /// Sends the chosen rows; all others are zero.
    fn download(&self) -> Download {
        let table = self.model().table(0);
        if self.chosen.len() == table.shape().rows {
            return Download::Shared(self.model().clone());
        }
        let mut sent = Table::zeros(table.shape());
        for row in self.chosen.iter().map(|row| *row as usize) {
            sent.row_mut(row).copy_from_slice(table.row(row));
        }
        Download::Shared(Model::of_table("Y", sent))
    }

    fn download_to_score(&self) -> Option<Download> {
        Some(Download::Shared(self.model().clone()))
    }

    fn upload_use(&self) -> UploadUse {
        self.averager.upload_use()
    }

    fn accumulator(&self) -> Box<dyn Accumulator> {
        Box::new(Sums {
            averaged: self.averager.accumulator(),
            gradients: SentRows::new(self.model().table(0).shape()),
        })
    }

    fn step(&mut self, sums: Box<dyn Accumulator>, step: &StepContext<'_>) -> Result<StepReport> {
        let Sums {
            averaged,
            gradients,
        } = *downcast::<Sums>(sums)?;
        gradients.iter().for_each(|sent| self.learn(sent));
        let report = self.averager.step(averaged, step)?;
        self.choose_for(step.step + 1);
        Ok(report)
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        self.averager.visit_state(state)?;
        state.plain(&mut self.bandit.means)?;
        state.plain(&mut self.bandit.precisions)?;
        state.values(&mut self.before)?;
        state.plain(&mut self.chosen)
    }
}

/// Holds the sums of a step, for the averager and for the bandit.
struct Sums {
    averaged: Box<dyn Accumulator>,
    gradients: SentRows,
}

impl Accumulator for Sums {
    /// Leaves out the rows that the sender has not received: a frame may hold zeros there, and noise
    /// for privacy is on every row.
    fn absorb(&mut self, contributions: &[Contribution<'_>]) -> Result<()> {
        for contribution in contributions {
            let rows = super::received(contribution.received.table(0));
            let block = rows_of(&contribution.update.blocks[0], rows);
            self.gradients.add(&[BlockContribution {
                update: &block,
                base: None,
                intended: None,
                base_number: 0,
                weight: contribution.weight,
                base_weight: 0.0,
            }]);
            let update = ModelUpdate::of_table(block);
            self.averaged.absorb(&[Contribution {
                update: &update,
                ..*contribution
            }])?;
        }
        Ok(())
    }

    fn merge(&mut self, other: Box<dyn Accumulator>) -> Result<()> {
        let other = *downcast::<Self>(other)?;
        self.gradients.merge(other.gradients);
        self.averaged.merge(other.averaged)
    }
}

/// Returns what `update` lists of these rows, which ascend.
fn rows_of(update: &TableUpdate, rows: Vec<u32>) -> TableUpdate {
    let positions: Vec<Option<usize>> = update.positions_of(&rows).collect();
    let (mut listed, mut values) = (Vec::new(), Vec::new());
    for (row, position) in rows.into_iter().zip(positions) {
        if let Some(position) = position {
            listed.push(row);
            values.extend_from_slice(update.row_values(position));
        }
    }
    TableUpdate::of_rows(update.shape, RowSet::Listed(listed), values.into())
}
