//! FedTide's server, which adds up statistics at the end of each period and fits what is learned.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::columns::StepColumns;
use super::learned::Learned;
use super::package::Statistics;
use super::statistics::{TARGETS_BLOCK, above_noise};
use super::{FedTideParameters, Stage};
use crate::prelude::*;
use crate::server::{Download, downcast};
use fedrecsim_model::Layout;
use fedrecsim_model::magnitude::MagnitudeCounts;
use fedrecsim_model::table::floats;

/// How often devices send the first statistics. Random vectors take one more step than those of the
/// period before.
pub(super) const FIRST_STATISTICS: u32 = 2;

/// The number of Newton steps of a period.
const NEWTON_STEPS: u32 = 5;

/// The steps of a period if everybody takes part in each: statistics, a mixture and Newton steps.
pub(super) const STEPS_OF_PERIOD: u32 = 2 + NEWTON_STEPS;

/// What the server keeps besides the model.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct State {
    /// The number of steps in the present stage.
    steps: u32,
    /// The sums of the present stage, block by block, and the number of uploads in them.
    sums: Vec<Vec<f64>>,
    uploads: f64,
    /// The statistics of the model, and those of the next one.
    present: Option<Statistics>,
    next: Option<Statistics>,
    /// What is being fitted, and what each period so far has taught.
    fitted: Learned,
    periods: Vec<Learned>,
    phase: u8,
    is_done: bool,
}

/// The server.
pub(super) struct TideServer {
    parameters: Arc<FedTideParameters>,
    columns: Arc<StepColumns>,
    model: Model,
    state: State,
}

impl TideServer {
    pub(super) fn new(
        parameters: &Arc<FedTideParameters>,
        columns: Arc<StepColumns>,
        model: Model,
    ) -> Self {
        Self {
            parameters: Arc::clone(parameters),
            columns,
            model,
            state: State::default(),
        }
    }

    fn layout(&self) -> Layout {
        let shape = self.model.table(0).shape();
        Stage::of(self.phase()).uploads(shape.rows, shape.dimension, self.columns.count())
    }

    /// Makes the statistics of a period from the sums of its uploads, which devices have made with
    /// the model that they received.
    fn statistics(
        &self,
        (received, step): (&Model, &StepContext<'_>),
    ) -> Result<Option<Statistics>> {
        let made = Statistics::of(&self.state.sums, (received, &self.columns));
        made.map_err(|cause| step.unsolvable("the sum of the uploads", cause))
    }

    /// Goes on to `stage`.
    fn begin(&mut self, stage: Stage) {
        let state = &mut self.state;
        state.phase = stage.phase().0;
        state.steps = 0;
    }

    /// Ends the statistics of a period. The mixtures of counts follow from what was taken in it.
    fn end_statistics(
        &mut self,
        period: u32,
        (received, step): (&Model, &StepContext<'_>),
    ) -> Result<()> {
        let made = self.statistics((received, step))?;
        let state = &mut self.state;
        let present = match &state.present {
            Some(present) if state.steps == 0 => present,
            // Nobody had a package when the period began, so that there is nothing to fit.
            _ => {
                self.end_first(period, made);
                return Ok(());
            }
        };
        state.next = made;
        let targets = above_noise(&state.sums[TARGETS_BLOCK], 1);
        if targets.iter().all(|taken| *taken == 0.0) {
            self.end_period(period);
            return Ok(());
        }
        state.fitted = Learned::from_targets(present.shares(), &targets);
        present.write_learned(&mut self.model, &state.fitted);
        self.begin(Stage::Mixture { period });
        Ok(())
    }

    /// Ends a step of the first statistics, which are the model.
    fn end_first(&mut self, period: u32, made: Option<Statistics>) {
        let state = &mut self.state;
        state.steps += 1;
        let is_last = made.is_none() || state.steps == FIRST_STATISTICS;
        if let Some(mut statistics) = made {
            if !is_last {
                statistics = statistics.without_neighbours();
            }
            statistics.write(&mut self.model, &Learned::default());
            state.present = Some(statistics);
        }
        if is_last {
            self.go_on_from(period);
        }
    }

    /// Ends a period: the model becomes that of its end, with what all periods have taught.
    fn end_period(&mut self, period: u32) {
        let state = &mut self.state;
        let learned = Learned::carried(&state.periods, self.parameters.carry);
        state.present = state.next.take().or(state.present.take());
        if let Some(present) = &state.present {
            present.write(&mut self.model, &learned);
        }
        self.go_on_from(period);
    }

    /// Goes on to the statistics of the period after this one, if there is one.
    fn go_on_from(&mut self, period: u32) {
        match period == self.parameters.periods {
            true => self.state.is_done = true,
            false => self.begin(Stage::Statistics { period: period + 1 }),
        }
    }

    /// Ends the present stage, or a step of it, with its sums.
    fn advance(&mut self, received: &Model, step: &StepContext<'_>) -> Result<()> {
        match Stage::of(self.phase()) {
            Stage::Statistics { period } => self.end_statistics(period, (received, step))?,
            Stage::Mixture { period } => {
                self.state.fitted.mix(&self.state.sums[0]);
                self.tell_learned();
                self.begin(Stage::Newton { period });
            }
            Stage::Newton { period } => {
                self.state.steps += 1;
                let is_last = self.state.steps == NEWTON_STEPS;
                let stepped = self.state.fitted.step(&self.state.sums[0], is_last);
                stepped.map_err(|cause| step.unsolvable("the sum of Newton terms", cause))?;
                self.tell_learned();
                if is_last {
                    self.state.periods.push(self.state.fitted.clone());
                    self.end_period(period);
                }
            }
        }
        Ok(())
    }

    /// Writes what is being fitted into the model.
    fn tell_learned(&mut self) {
        if let Some(present) = &self.state.present {
            present.write_learned(&mut self.model, &self.state.fitted);
        }
    }
}

impl Server for TideServer {
    fn model(&self) -> &Model {
        &self.model
    }

    fn set_model(&mut self, model: Model) -> Result<()> {
        self.model.replace(model)
    }

    fn phase(&self) -> Phase {
        Phase(self.state.phase)
    }

    fn download(&self) -> Download {
        Download::Shared(self.model.clone())
    }

    fn needs_participants(&self) -> bool {
        !self.state.is_done
    }

    fn upload_use(&self) -> UploadUse {
        UploadUse::Sum
    }

    fn accumulator(&self) -> Box<dyn Accumulator> {
        Box::new(StageSums::of(self.phase(), self.layout()))
    }

    fn step(&mut self, sums: Box<dyn Accumulator>, step: &StepContext<'_>) -> Result<StepReport> {
        let sums = *downcast::<StageSums>(sums)?;
        if self.state.is_done {
            return Ok(StepReport::default());
        }
        let uploads = step.expected_contributions.unwrap_or(sums.uploads);
        self.state.uploads += uploads;
        match self.state.sums.is_empty() {
            true => self.state.sums = sums.blocks,
            false => add_blocks(&mut self.state.sums, &sums.blocks),
        }
        let needed = match Stage::of(self.phase()) {
            Stage::Statistics { .. } => self.parameters.coverage * f64::from(step.users),
            _ => 0.0,
        };
        let mut report = StepReport {
            uploads: sums.magnitudes,
            ..StepReport::default()
        };
        if self.state.uploads < needed.max(1.0) {
            return Ok(report);
        }
        if matches!(Stage::of(self.phase()), Stage::Statistics { .. }) {
            let TableShape { rows, dimension } = self.model.table(0).shape();
            let (m, r) = (rows as u64, dimension as u64);
            report.multiply_adds = 10 * m * r * r + 80 * r * r * r;
        }
        // A step of noise alone has no receiver.
        let received = sums.received.unwrap_or_else(|| self.model.clone());
        self.advance(&received, step)?;
        (self.state.sums, self.state.uploads) = (Vec::new(), 0.0);
        Ok(report)
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        state.plain(&mut self.state)
    }

    /// The periods begin again, from the model.
    fn begin_anew(&mut self) {
        self.state = State::default();
    }
}

/// The sums of the uploads of one stage, in the order of the calls of [`Accumulator::absorb`].
struct StageSums {
    phase: Phase,
    layout: Layout,
    blocks: Vec<Vec<f64>>,
    uploads: f64,
    /// What the first sender received, which a lossy codec makes another model than the server's.
    received: Option<Model>,
    magnitudes: MagnitudeCounts,
}

impl StageSums {
    fn of(phase: Phase, layout: Layout) -> Self {
        let blocks = layout.blocks().iter();
        Self {
            phase,
            blocks: blocks
                .map(|block| vec![0.0; block.shape.values()])
                .collect(),
            layout,
            uploads: 0.0,
            received: None,
            magnitudes: MagnitudeCounts::default(),
        }
    }
}

fn add_blocks(sums: &mut [Vec<f64>], more: &[Vec<f64>]) {
    for (sum, more) in sums.iter_mut().flatten().zip(more.iter().flatten()) {
        *sum += more;
    }
}

impl Accumulator for StageSums {
    fn absorb(&mut self, contributions: &[Contribution<'_>]) -> Result<()> {
        for contribution in contributions {
            // What comes from an earlier stage is too late.
            if contribution.phase != self.phase {
                continue;
            }
            contribution.update.check(&self.layout)?;
            for (sums, block) in self.blocks.iter_mut().zip(&contribution.update.blocks) {
                let width = block.shape.dimension;
                for (row, bytes) in block.iter() {
                    let sums = &mut sums[row * width..(row + 1) * width];
                    for (sum, value) in sums.iter_mut().zip(floats(bytes)) {
                        *sum += f64::from(value);
                    }
                }
                self.magnitudes.add_bytes(&block.values);
            }
            self.uploads += 1.0;
            let received = || contribution.received.clone();
            self.received.get_or_insert_with(received);
        }
        Ok(())
    }

    fn merge(&mut self, other: Box<dyn Accumulator>) -> Result<()> {
        let other = *downcast::<Self>(other)?;
        add_blocks(&mut self.blocks, &other.blocks);
        self.uploads += other.uploads;
        self.received = self.received.take().or(other.received);
        self.magnitudes.add_times(&other.magnitudes, 1);
        Ok(())
    }
}
