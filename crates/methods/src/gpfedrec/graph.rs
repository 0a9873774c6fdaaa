//! Makes a graph of users by the item tables that they send, and a table for each user from it.

use std::sync::Arc;

use ndarray::{Array2, ArrayView1};

use super::{GpFedRec, Graph};
use crate::prelude::*;
use crate::server::PersonalDownloads;
use crate::user_tables::{Made, Making, Uploads, mean_of};
use fedrecsim_model::algebra::product_by_pool;
use fedrecsim_model::blocks::BlockValues;

/// E, and R of each participant of the last step. R of anybody else is E.
#[derive(Clone, Debug)]
pub(super) struct Tables(Made);

impl PersonalDownloads for Tables {
    fn download(&self, user: UserId) -> Result<Model> {
        let e = self.0.model.table(0);
        let r = self.0.of(user).unwrap_or(e);
        let of_e = self.0.model.layout().blocks()[0].clone();
        let of_r = BlockLayout::item_table("R", of_e.shape);
        let tables = [e, r].map(|table| BlockValues::Table(Arc::clone(table)));
        Model::new(Layout::new(vec![of_e, of_r]), tables.into())
    }
}

impl GpFedRec {
    /// Returns A to the power of the propagations, for the scalar products of the users' tables.
    fn weights(&self, products: &Array2<f64>, step: &StepContext<'_>) -> Array2<f64> {
        let graph = self.graph;
        let mut neighbours = self.neighbours_by(&likeness(products, graph));
        if graph == Graph::Random {
            draw_as_many(&mut neighbours, step);
        }
        let adjacency = adjacency(&neighbours);
        let mut power = adjacency.clone();
        for _ in 1..self.propagations {
            power = product_by_pool(&power.view(), &adjacency.view());
        }
        power
    }

    /// Returns the neighbours of each user, ascending.
    pub(super) fn neighbours_by(&self, likeness: &Array2<f64>) -> Vec<Vec<usize>> {
        let users = likeness.nrows();
        let threshold = self.threshold * likeness.sum() / (users * users) as f64;
        let of = |row: ArrayView1<'_, f64>| -> Vec<usize> {
            let mut all: Vec<usize> = (0..users).collect();
            if self.neighbours == 0 {
                all.retain(|other| row[*other] > threshold);
                return all;
            }
            all.sort_by(|a, b| row[*b].total_cmp(&row[*a]));
            all.truncate(self.neighbours as usize);
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

impl Making for Tables {
    type Parameters = GpFedRec;

    fn of_nobody(model: Model) -> Self {
        Self(Made::of_nobody(model))
    }

    fn model(&self) -> &Model {
        &self.0.model
    }

    fn made(
        &self,
        parameters: &GpFedRec,
        (users, tables): (Vec<UserId>, Vec<Vec<Table>>),
        step: &StepContext<'_>,
    ) -> Result<(Self, u64)> {
        let shape = self.model().table(0).shape();
        let tables = tables.into_iter().flatten().collect();
        let uploads = Uploads { shape, tables };
        let products = uploads.products();
        // A table with a value that is no number may be nobody's neighbour. E would not show it then.
        if !products.diag().iter().all(|square| square.is_finite()) {
            return Err(step.diverged("E", f32::NAN));
        }
        let tables = uploads.sums(&parameters.weights(&products, step));
        let mean = mean_of(shape, tables.iter());
        step.check_magnitude("E", largest_magnitude(mean.as_slice()))?;
        let mut model = self.model().clone();
        model.set_table(0, mean.into())?;
        let (n, values) = (users.len() as u64, shape.values() as u64);
        let made = Made {
            tables: tables.into_iter().map(Arc::new).collect(),
            model,
            users,
        };
        // The products, R of everybody, E, and the powers of the graph.
        let powers = u64::from(parameters.propagations - 1) * n * n * n;
        let multiply_adds = values * (n * (n + 1) / 2 + n * n + n) + powers;
        Ok((Self(made), multiply_adds))
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        self.0.visit_state(state)
    }
}
