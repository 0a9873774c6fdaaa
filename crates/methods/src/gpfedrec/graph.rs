//! Makes a graph of users by the item tables that they send, and a table for each user from it.

use std::sync::Arc;

use ndarray::{Array2, ArrayView1};

use super::{GpFedRec, Graph};
use crate::prelude::*;
use crate::server::{Download, PersonalDownloads, downcast};
use fedrecsim_core::stages::{Stage, enter};
use fedrecsim_model::SharedTable;
use fedrecsim_model::algebra::{add_pair_products, mirror_upper, product_by_pool};
use fedrecsim_model::blocks::BlockValues;
use fedrecsim_model::magnitude::MagnitudeCounts;

/// The number of columns of the users' tables that are in double precision at a time.
const COLUMNS: usize = 4096;

/// The tables that users have sent, in the order of users.
struct Uploads {
    shape: TableShape,
    tables: Vec<Table>,
}

impl Uploads {
    /// Calls `each` for parts of all tables: the first column, and the values of all users there.
    fn in_parts(&self, mut each: impl FnMut(usize, Array2<f64>)) {
        let all = self.shape.values();
        for first in (0..all).step_by(COLUMNS) {
            let columns = first..all.min(first + COLUMNS);
            let rows = self.tables.iter();
            let values = rows.flat_map(|table| &table.as_slice()[columns.clone()]);
            let values = values.map(|value| f64::from(*value)).collect();
            let part = Array2::from_shape_vec((self.tables.len(), columns.len()), values);
            // There are as many values of every user as columns.
            each(first, part.unwrap_or_else(|fault| unreachable!("{fault}")));
        }
    }

    /// Returns the scalar products of the tables (n x n).
    fn products(&self) -> Array2<f64> {
        let mut products = Array2::zeros((self.tables.len(), self.tables.len()));
        self.in_parts(|_, part| {
            add_pair_products(&mut products, &part.view());
        });
        mirror_upper(&mut products);
        products
    }

    /// Returns the sums of all tables with each row of `weights` (n x n).
    fn sums(&self, weights: &Array2<f64>) -> Vec<Table> {
        let mut sums = vec![Table::zeros(self.shape); weights.nrows()];
        self.in_parts(|first, part| {
            let of_part = product_by_pool(&weights.view(), &part.view());
            for (sum, values) in sums.iter_mut().zip(of_part.rows()) {
                let target = sum.as_mut_slice()[first..].iter_mut().zip(values);
                target.for_each(|(sum, value)| *sum = *value as f32);
            }
        });
        sums
    }
}

/// What the last step has made: E, and R of each participant, in the order of users.
#[derive(Clone, Debug)]
struct Made {
    model: Model,
    users: Vec<UserId>,
    tables: Vec<SharedTable>,
}

impl Made {
    /// Returns what there is before a step: R of everybody is E.
    fn of_nobody(model: Model) -> Self {
        Self {
            model,
            users: Vec::new(),
            tables: Vec::new(),
        }
    }
}

impl PersonalDownloads for Made {
    fn download(&self, user: UserId) -> Result<Model> {
        let e = self.model.table(0);
        let known = self.users.binary_search(&user).ok();
        let r = known.map_or(e, |at| &self.tables[at]);
        let of_e = self.model.layout().blocks()[0].clone();
        let of_r = BlockLayout::item_table("R", of_e.shape);
        let tables = [e, r].map(|table| BlockValues::Table(Arc::clone(table)));
        Model::new(Layout::new(vec![of_e, of_r]), tables.into())
    }
}

/// Holds the parameters, and what the last step has made.
pub(super) struct GraphServer {
    parameters: GpFedRec,
    last: Arc<Made>,
}

impl GraphServer {
    pub(super) fn new(parameters: GpFedRec, model: Model) -> Self {
        Self {
            parameters,
            last: Arc::new(Made::of_nobody(model)),
        }
    }

    /// Returns A to the power of the propagations, for the scalar products of the users' tables.
    fn weights(&self, products: &Array2<f64>, step: &StepContext<'_>) -> Array2<f64> {
        let graph = self.parameters.graph;
        let mut neighbours = self.neighbours(&likeness(products, graph));
        if graph == Graph::Random {
            draw_as_many(&mut neighbours, step);
        }
        let adjacency = adjacency(&neighbours);
        let mut power = adjacency.clone();
        for _ in 1..self.parameters.propagations {
            power = product_by_pool(&power.view(), &adjacency.view());
        }
        power
    }

    /// Returns the neighbours of each user, ascending.
    pub(super) fn neighbours(&self, likeness: &Array2<f64>) -> Vec<Vec<usize>> {
        let (p, users) = (&self.parameters, likeness.nrows());
        let threshold = p.threshold * likeness.sum() / (users * users) as f64;
        let of = |row: ArrayView1<'_, f64>| -> Vec<usize> {
            let mut all: Vec<usize> = (0..users).collect();
            if p.neighbours == 0 {
                all.retain(|other| row[*other] > threshold);
                return all;
            }
            all.sort_by(|a, b| row[*b].total_cmp(&row[*a]));
            all.truncate(p.neighbours as usize);
            all.sort_unstable();
            all
        };
        likeness.rows().into_iter().map(of).collect()
    }
}

/// Returns what makes two users neighbours, for the scalar products of their tables.
pub(super) fn likeness(products: &Array2<f64>, graph: Graph) -> Array2<f64> {
    let lengths = products.diag().mapv(math::sqrt);
    Array2::from_shape_fn(products.dim(), |(i, j)| {
        let lengths = lengths[i] * lengths[j];
        let cosine = match lengths > 0.0 {
            true => products[(i, j)] / lengths,
            false => 0.0,
        };
        match graph {
            Graph::Paper => cosine,
            Graph::PublishedCode | Graph::Random => 1.0 - cosine,
        }
    })
}

/// Replaces the neighbours of each user by as many that are drawn.
fn draw_as_many(neighbours: &mut [Vec<usize>], step: &StepContext<'_>) {
    let users = neighbours.len();
    let mut stream = step.named_stream("gpfedrec/graph");
    for of_user in neighbours {
        let count = of_user.len();
        *of_user = (0..users).collect();
        stream.keep_drawn(of_user, count);
    }
}

/// Returns A, in which a user without neighbours is its own.
pub(super) fn adjacency(neighbours: &[Vec<usize>]) -> Array2<f64> {
    let mut weights = Array2::zeros((neighbours.len(), neighbours.len()));
    for (user, of_user) in neighbours.iter().enumerate() {
        match of_user.is_empty() {
            true => weights[(user, user)] = 1.0,
            false => of_user
                .iter()
                .for_each(|other| weights[(user, *other)] = 1.0 / of_user.len() as f64),
        }
    }
    weights
}

impl Server for GraphServer {
    fn model(&self) -> &Model {
        &self.last.model
    }

    fn set_model(&mut self, model: Model) -> Result<()> {
        self.model().check_same_layout(&model)?;
        self.last = Arc::new(Made::of_nobody(model));
        Ok(())
    }

    fn download(&self) -> Download {
        Download::PerUser(self.last.clone())
    }

    fn accumulator(&self) -> Box<dyn Accumulator> {
        Box::new(Sent::default())
    }

    fn step(&mut self, sums: Box<dyn Accumulator>, step: &StepContext<'_>) -> Result<StepReport> {
        let Sent { tables, report } = *downcast::<Sent>(sums)?;
        if tables.is_empty() {
            return Ok(report);
        }
        let _stage = enter(Stage::Aggregate);
        let mut last_of_each: Vec<(UserId, Table)> = Vec::with_capacity(tables.len());
        for sent in tables {
            last_of_each.pop_if(|before| before.0 == sent.0);
            last_of_each.push(sent);
        }
        let shape = self.model().table(0).shape();
        let (users, tables): (Vec<UserId>, Vec<Table>) = last_of_each.into_iter().unzip();
        let uploads = Uploads { shape, tables };
        let tables = uploads.sums(&self.weights(&uploads.products(), step));
        let mean = mean_of(&tables);
        step.check_magnitude("E", largest_magnitude(mean.as_slice()))?;
        let mut model = self.model().clone();
        model.set_table(0, mean.into())?;
        let (n, values) = (users.len() as u64, shape.values() as u64);
        self.last = Arc::new(Made {
            tables: tables.into_iter().map(Arc::new).collect(),
            model,
            users,
        });
        // The products, R of everybody, and E.
        let multiply_adds = values * (n * (n + 1) / 2 + n * n + n);
        Ok(StepReport {
            multiply_adds,
            ..report
        })
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        let last = Arc::make_mut(&mut self.last);
        state.plain(&mut last.users)?;
        let shape = last.model.table(0).shape();
        let nothing = || Arc::new(Table::zeros(shape));
        last.tables.resize_with(last.users.len(), nothing);
        let mut tables = last.tables.iter_mut();
        tables.try_for_each(|table| state.values(Arc::make_mut(table).as_mut_slice()))
    }
}

/// Returns the mean of tables of one shape, of which there is at least one.
fn mean_of(tables: &[Table]) -> Table {
    let mut sums = vec![0.0; tables[0].shape().values()];
    for table in tables {
        let values = sums.iter_mut().zip(table.as_slice());
        values.for_each(|(sum, value)| *sum += f64::from(*value));
    }
    let count = tables.len() as f64;
    let means = sums.iter().map(|sum| (sum / count) as f32);
    Table::new(tables[0].shape(), means.collect())
}

/// Holds the tables that have arrived, in the order of users. Where rounds do not wait, a user may
/// have sent several, of which the last one counts.
#[derive(Default)]
struct Sent {
    tables: Vec<(UserId, Table)>,
    report: StepReport,
}

impl Accumulator for Sent {
    fn absorb(&mut self, contributions: &[Contribution<'_>]) -> Result<()> {
        for contribution in contributions {
            let received = contribution.received.table(0);
            let table = contribution.update.blocks[0].apply(Some(received))?;
            let counts = MagnitudeCounts::of(table.as_slice(), 1.0);
            self.report.uploads.add_times(&counts, 1);
            self.tables.push((contribution.user, table));
        }
        Ok(())
    }

    fn merge(&mut self, other: Box<dyn Accumulator>) -> Result<()> {
        let other = *downcast::<Self>(other)?;
        self.report.uploads.add_times(&other.report.uploads, 1);
        self.tables.extend(other.tables);
        self.tables.sort_by_key(|(user, _)| *user);
        Ok(())
    }
}
