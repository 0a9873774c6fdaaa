//! Steps with the whole tables that users send, for methods that compare them and make something of its
//! own for each user.

use std::sync::Arc;

use ndarray::Array2;

use crate::prelude::*;
use crate::server::{Download, PersonalDownloads, downcast};
use fedrecsim_core::stages::{Stage, enter};
use fedrecsim_model::SharedTable;
use fedrecsim_model::algebra::{add_pair_products, mirror_upper, weighted_sums};
use fedrecsim_model::magnitude::MagnitudeCounts;

/// The number of columns of the users' tables that are in double precision at a time.
const COLUMNS: usize = 4096;

/// What a step makes of the tables that users have sent, and what each user downloads of it.
pub(crate) trait Making: PersonalDownloads + Clone + 'static {
    /// The parameters of the method.
    type Parameters: Send;

    /// Returns what there is before a step.
    fn of_nobody(model: Model) -> Self;

    /// Returns the model.
    fn model(&self) -> &Model;

    /// Makes it anew of the tables of all blocks that each of these users has sent, of whom there is at
    /// least one, and returns the multiply-adds of a server that leaves no zero and no pair out.
    ///
    /// # Errors
    /// Those of the method, and of [`StepContext::check_magnitude`].
    fn made(
        &self,
        parameters: &Self::Parameters,
        sent: (Vec<UserId>, Vec<Vec<Table>>),
        step: &StepContext<'_>,
    ) -> Result<(Self, u64)>;

    /// Visits what it has beside the model.
    ///
    /// # Errors
    /// As [`StateVisitor::values`].
    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()>;
}

/// Returns the traffic of a method whose server makes each user a table from each upload.
pub(crate) fn traffic(declared: Traffic) -> Traffic {
    Traffic {
        has_personal_downloads: true,
        upload_use: UploadUse::Each,
        ..declared
    }
}

/// Holds the parameters, and what the last step has made.
pub(crate) struct MakingServer<M: Making> {
    parameters: M::Parameters,
    upload: Layout,
    last: Arc<M>,
}

impl<M: Making> MakingServer<M> {
    pub(crate) fn new(parameters: M::Parameters, averager: &Averager) -> Self {
        Self {
            parameters,
            upload: averager.upload_layout().clone(),
            last: Arc::new(M::of_nobody(averager.model().clone())),
        }
    }
}

impl<M: Making> Server for MakingServer<M> {
    fn model(&self) -> &Model {
        self.last.model()
    }

    fn set_model(&mut self, model: Model) -> Result<()> {
        self.model().check_same_layout(&model)?;
        self.last = Arc::new(M::of_nobody(model));
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
        let sent = sent.last_of_each();
        if sent.0.is_empty() {
            return Ok(report);
        }
        let _stage = enter(Stage::Aggregate);
        let (made, multiply_adds) = self.last.made(&self.parameters, sent, step)?;
        self.last = Arc::new(made);
        Ok(StepReport {
            multiply_adds,
            ..report
        })
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        Arc::make_mut(&mut self.last).visit_state(state)
    }
}

/// The tables of users, in their order.
pub(crate) struct Uploads {
    pub shape: TableShape,
    pub tables: Vec<Table>,
}

impl Uploads {
    /// Returns the scalar products of the tables (n x n).
    pub(crate) fn products(&self) -> Array2<f64> {
        let (users, all) = (self.tables.len(), self.shape.values());
        let mut products = Array2::zeros((users, users));
        for first in (0..all).step_by(COLUMNS) {
            let columns = first..all.min(first + COLUMNS);
            let mut part = Array2::zeros((users, columns.len()));
            for (mut row, table) in part.rows_mut().into_iter().zip(&self.tables) {
                let values = row.iter_mut().zip(&table.as_slice()[columns.clone()]);
                values.for_each(|(to, value)| *to = f64::from(*value));
            }
            add_pair_products(&mut products, &part.view());
        }
        mirror_upper(&mut products);
        products
    }

    /// Returns the sums of all tables with each row of `weights`, which has a column for each user.
    pub(crate) fn sums(&self, weights: &Array2<f64>) -> Vec<Table> {
        let mut sums = vec![Table::zeros(self.shape); weights.nrows()];
        let tables: Vec<&[f32]> = self.tables.iter().map(Table::as_slice).collect();
        let mut of_users: Vec<&mut [f32]> = sums.iter_mut().map(Table::as_mut_slice).collect();
        weighted_sums(&weights.view(), &tables, &mut of_users);
        sums
    }
}

/// Returns the number of samples of the participation, as the block that tells the server.
pub(crate) fn number_of_samples(scratch: &Scratch) -> TableUpdate {
    let samples = scratch.round_rows.samples.len() as f32;
    TableUpdate::whole(Table::new(TableShape::new(1, 1), vec![samples]))
}

/// Returns the mean of tables of one shape, of which there is at least one.
pub(crate) fn mean_of<'t>(shape: TableShape, tables: impl Iterator<Item = &'t Table>) -> Table {
    let (mut sums, mut count) = (vec![0.0; shape.values()], 0.0);
    for table in tables {
        let values = sums.iter_mut().zip(table.as_slice());
        values.for_each(|(sum, value)| *sum += f64::from(*value));
        count += 1.0;
    }
    let means = sums.iter().map(|sum| (sum / count) as f32);
    Table::new(shape, means.collect())
}

/// What a step has made: the model, and a table for each of some users, in their order.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub model: Model,
    pub users: Vec<UserId>,
    pub tables: Vec<SharedTable>,
}

impl Made {
    /// Returns what there is before a step.
    pub(crate) fn of_nobody(model: Model) -> Self {
        Self {
            model,
            users: Vec::new(),
            tables: Vec::new(),
        }
    }

    /// Returns the table that was made for a user, if one was.
    pub(crate) fn of(&self, user: UserId) -> Option<&SharedTable> {
        let known = self.users.binary_search(&user).ok();
        known.map(|at| &self.tables[at])
    }

    /// Visits what was made for users, whose tables have the shape of the model's first.
    ///
    /// # Errors
    /// As [`StateVisitor::values`].
    pub(crate) fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        state.plain(&mut self.users)?;
        let shape = self.model.table(0).shape();
        let nothing = || Arc::new(Table::zeros(shape));
        self.tables.resize_with(self.users.len(), nothing);
        let mut tables = self.tables.iter_mut();
        tables.try_for_each(|table| state.values(Arc::make_mut(table).as_mut_slice()))
    }
}

/// Holds what has arrived, in the order of users: the tables of all blocks, whole. Where rounds do
/// not wait, a user may have sent several times, of which the last one counts.
struct Sent {
    upload: Layout,
    sent: Vec<(UserId, Vec<Table>)>,
    report: StepReport,
}

impl Sent {
    /// Holds nothing yet. Uploads have this layout.
    fn new(upload: Layout) -> Self {
        Self {
            upload,
            sent: Vec::new(),
            report: StepReport::default(),
        }
    }

    /// Returns the last tables of each user.
    fn last_of_each(self) -> (Vec<UserId>, Vec<Vec<Table>>) {
        let mut last: Vec<(UserId, Vec<Table>)> = Vec::with_capacity(self.sent.len());
        for sent in self.sent {
            last.pop_if(|before| before.0 == sent.0);
            last.push(sent);
        }
        last.into_iter().unzip()
    }
}

impl Accumulator for Sent {
    fn absorb(&mut self, contributions: &[Contribution<'_>]) -> Result<()> {
        for contribution in contributions {
            let blocks = contribution.update.blocks.iter();
            let tables = blocks.zip(self.upload.blocks()).map(|(update, block)| {
                let table = update.apply(contribution.received.base_of(block))?;
                let counts = MagnitudeCounts::of(table.as_slice(), 1.0);
                self.report.uploads.add_times(&counts, 1);
                Ok(table)
            });
            let tables = tables.collect::<Result<_>>()?;
            self.sent.push((contribution.user, tables));
        }
        Ok(())
    }

    fn merge(&mut self, other: Box<dyn Accumulator>) -> Result<()> {
        let other = *downcast::<Self>(other)?;
        self.report.uploads.add_times(&other.report.uploads, 1);
        self.sent.extend(other.sent);
        self.sent.sort_by_key(|(user, _)| *user);
        Ok(())
    }
}
