//! Implements FedSpec, a federated spectral filter of low rank.
//!
//! Let x_u be the indicator of the positives of user u, and n_i the number of users with item i
//! among their positives. The method computes the leading eigenvectors U of M = sum over u of D x_u
//! K_u x_u^T D with D = diag(n^(-d)), d being 1/4 unless `damping_exponent` says otherwise, by
//! block power iteration. A device gets the rows of A = D U and sends, for each positive p, the sum
//! of K_pq A_q over its positives q. So uploads have the rows of positives alone, no negatives are
//! drawn, and a device keeps no state. The server makes a Nystroem step of the sums, so that two to
//! four rounds in which everybody takes part are enough.
//!
//! For scoring, the eigenvectors are weighted by a filter (s^2 / (s^2 + lambda))^(1/2) per column,
//! as in a regression of items on items with a ridge of lambda (EASE), and by n_j^(d + b2) / (1 -
//! |Z_j|^2) per item j. A device adds up the weighted rows of its positives, with more weight on
//! recent ones if it likes. Times never leave the device.
//!
//! An upload discloses the user's positives, which are its rows. With `sends_counts` the server
//! only adds uploads up, so that secure aggregation can hide them, at the price of a dense table
//! and of counts.
//!
//! Source: This method is the project's own. Prior work is close: federated graph filtering (arXiv
//! 2501.16888) and FedCIA (arXiv 2504.14208).

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::listed_sums;
use super::recency::{Recency, weighted_positives};
use super::user_vector::{DistinctPositives, score_items};
use super::{
    Client, Entry, LocalTask, LocalUpdate, Method, Phase, Placement, Problem, Scorer,
    ScoringContext, Scratch, Server, parameters, sizes_by,
};
use fedrecsim_core::error::Result;
use fedrecsim_core::ids::UserId;
use fedrecsim_core::rng::{PortableDraws, Purpose, Streams};
use fedrecsim_model::model::algebra::qr::thin_qr;
use fedrecsim_model::model::blocks::{Model, ModelUpdate};
use fedrecsim_model::model::kernel::MAX_DIMENSION;
use fedrecsim_model::model::layout::{BlockLayout, Layout};
use fedrecsim_model::model::state::StateVisitor;
use fedrecsim_model::model::table::{Table, TableShape, TableUpdate};

pub mod numerics;
mod server;
#[cfg(test)]
mod tests;

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry {
    name: "fedspec",
    summary: "spectral filter of low rank: devices send sums of rows of their positives, the server finds eigenvectors",
    source: "an own method of this project (block power iteration with Nystroem steps; close to arXiv 2501.16888)",
    schema: &|| schemars::schema_for!(FedSpecParameters),
    resolve: &|_| Vec::new(),
    placement: Placement::Federated,
    draws_negatives: false,
    sizes: &|value, size| sizes_by(value, |p: FedSpecParameters| p.layout(size.items)),
    build: &|value, problem| {
        Ok(Box::new(FedSpec::new(
            parameters("fedspec", value)?,
            problem,
        )))
    },
};

/// Parameters of FedSpec.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct FedSpecParameters {
    /// Number r of eigenvectors, the latent dimension. A catalogue of fewer items has as many as
    /// items.
    #[schemars(range(min = 1, max = MAX_DIMENSION))]
    pub latent_dimension: u32,
    /// The ridge lambda, as a multiple l0 of the least of the r eigenvalues.
    #[schemars(range(min = 0))]
    pub ridge: f64,
    /// Exponent d by which an item's count n_i damps its part in the eigenvectors, D =
    /// diag(n^(-d)). 0 damps nothing: counts enter scores by `popularity_exponent` and
    /// `popularity_weight` alone then, and still take their share of a clip.
    #[schemars(range(min = 0, max = 1))]
    pub damping_exponent: f64,
    /// Exponent b2 by which an item's count weights its score, beside that of the filter.
    #[schemars(range(min = 0))]
    pub popularity_exponent: f64,
    /// Weight beta of an item's popularity, its share of the users, in its score. Above 0, the
    /// other part of the score is scaled to a standard deviation of 0.05 over all items.
    #[schemars(range(min = 0))]
    pub popularity_weight: f64,
    /// The part f of K that does not depend on times: K_pq = f + (1 - f) exp(-|rho_p - rho_q| /
    /// kernel_length), rho_p being the number of the user's positives that are strictly later than
    /// p.
    #[schemars(range(min = 0, max = 1))]
    pub timeless_share: f64,
    /// Number of positives over which the other part of K falls to 1/e.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub kernel_length: f64,
    /// Share of the users who must have sent an upload before the server steps. Until then A stays
    /// as it is, and another upload of the same user does not count. With `sends_counts` it does,
    /// since a sum does not say who is in it, and with noise on the sum and `poisson` as many count
    /// as are expected.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0.0))]
    pub coverage: f64,
    /// Whether devices send a count of 1 for each of their positives and for themselves beside the
    /// rows, so that the server uses nothing but sums, which secure aggregation and noise on the
    /// sum need. Otherwise it counts who has sent which row.
    pub sends_counts: bool,
    /// Lets recent positives count more when a device scores. Left out: all count alike.
    pub recency: Option<Recency>,
}

impl Default for FedSpecParameters {
    fn default() -> Self {
        Self {
            latent_dimension: 48,
            ridge: 2.0,
            damping_exponent: 0.25,
            popularity_exponent: 0.0,
            popularity_weight: 0.0,
            timeless_share: 1.0,
            kernel_length: 50.0,
            coverage: 0.9,
            sends_counts: false,
            recency: None,
        }
    }
}

impl FedSpecParameters {
    /// Returns the shape of A for this many items.
    fn table(&self, items: usize) -> TableShape {
        TableShape {
            rows: items,
            dimension: (self.latent_dimension as usize).min(items),
        }
    }

    /// Returns the layout of the model for this many items: A, the filter of its columns, the
    /// weights of items in scores and, if it has a weight, the items' popularity.
    fn layout(&self, items: usize) -> Layout {
        let column = TableShape {
            rows: items,
            dimension: 1,
        };
        let mut blocks = vec![
            BlockLayout::item_table("A", self.table(items)),
            BlockLayout::weights(
                "filter",
                TableShape {
                    rows: 1,
                    dimension: self.table(items).dimension,
                },
            ),
            BlockLayout::weights("item weights", column),
        ];
        if self.popularity_weight > 0.0 {
            blocks.push(BlockLayout::weights("popularity", column));
        }
        Layout::new(blocks)
    }
}

/// The positions of the model's blocks.
const TABLE: usize = 0;
const FILTER: usize = 1;
const ITEM_WEIGHTS: usize = 2;
const POPULARITY: usize = 3;

/// The standard deviation to which scores are scaled where popularity is added to them.
const DEVIATION: f64 = 0.05;

/// Holds what all clients share.
#[derive(Debug)]
pub(crate) struct FedSpec {
    shared: Arc<Shared>,
    streams: Streams,
}

#[derive(Debug)]
struct Shared {
    parameters: FedSpecParameters,
    items: usize,
}

impl FedSpec {
    /// Makes the method for a problem of this size.
    pub(crate) fn new(parameters: FedSpecParameters, problem: &Problem) -> Self {
        Self {
            shared: Arc::new(Shared {
                parameters,
                items: problem.items,
            }),
            streams: problem.streams,
        }
    }
}

impl Method for FedSpec {
    /// Makes A of the orthonormal columns of a matrix of normal draws. Before the first step the
    /// filter and the weights are 1.
    fn initial(&self) -> Model {
        let Shared { parameters, items } = &*self.shared;
        let mut stream = self.streams.stream(Purpose::GlobalInit, 0, 0);
        let TableShape { rows, dimension } = parameters.table(*items);
        let drawn =
            ndarray::Array2::from_shape_simple_fn((rows, dimension), || stream.standard_normal());
        // There are at least as many items as columns, and all draws are finite, so that this
        // cannot fail.
        let columns = thin_qr(&drawn.view())
            .unwrap_or_else(|error| unreachable!("{error}"))
            .q;
        let mut tables = vec![Table::from_array(columns.mapv(|value| value as f32))];
        let layout = parameters.layout(*items);
        tables.extend(
            layout.blocks()[FILTER..]
                .iter()
                .map(|block| Table::from_fn(block.shape, || 1.0)),
        );
        super::network::model_of(layout, tables)
    }

    fn upload_layout(&self, _phase: Phase) -> Layout {
        let shape = self.shared.parameters.table(self.shared.items);
        let sums = BlockLayout::item_table("sums of rows", shape).statistic();
        let told = self
            .shared
            .parameters
            .sends_counts
            .then(|| listed_sums::told_layouts(shape.rows));
        Layout::new(
            [sums]
                .into_iter()
                .chain(told.into_iter().flatten())
                .collect(),
        )
    }

    fn client(&self, _user: UserId) -> Box<dyn Client> {
        Box::new(FedSpecClient {
            shared: Arc::clone(&self.shared),
        })
    }

    fn server(&self) -> Box<dyn Server> {
        Box::new(server::SpectralServer::new(
            Arc::clone(&self.shared),
            self.initial(),
        ))
    }
}

/// Implements a device, which keeps no state from one participation to the next.
#[derive(Clone)]
struct FedSpecClient {
    shared: Arc<Shared>,
}

impl Client for FedSpecClient {
    fn train(&mut self, task: &LocalTask<'_>, _scratch: &mut Scratch) -> Result<LocalUpdate> {
        let FedSpecParameters {
            timeless_share,
            kernel_length,
            sends_counts,
            ..
        } = self.shared.parameters;
        let DistinctPositives { items, later } = DistinctPositives::of(&task.own);
        let table = task.model.table(TABLE);
        let sums = numerics::kernel_sums(table, &items, &later, timeless_share, kernel_length);
        task.check_magnitude("the sums of rows", super::largest_magnitude(&sums))?;
        let (count, shape) = (items.len() as u64, table.shape());
        let told = sends_counts
            .then(|| listed_sums::told_by(shape.rows, &items))
            .transpose()?;
        let sums = TableUpdate::listed(shape, items, &sums, 1.0)?;
        let update = ModelUpdate::of_blocks(
            [sums]
                .into_iter()
                .chain(told.into_iter().flatten())
                .collect(),
        );
        // Two passes in the order of time, the sum of all rows, and its addition to each.
        Ok(LocalUpdate::new(update, 0.0, count)
            .with_multiply_adds(6 * count * shape.dimension as u64))
    }

    fn scorer<'a>(
        &'a self,
        context: &ScoringContext<'a>,
        _scratch: &mut Scratch,
    ) -> Result<Box<dyn Scorer + 'a>> {
        let parameters = &self.shared.parameters;
        let (positives, weights) = weighted_positives(&context.own, parameters.recency.as_ref());
        let (model, beta) = (context.model, parameters.popularity_weight as f32);
        let vector = numerics::profile(
            model.table(TABLE),
            &positives,
            &weights,
            model.table(FILTER).as_slice(),
        );
        let item_weights = model.table(ITEM_WEIGHTS).as_slice();
        let score = move |items: &[u32], scores: &mut [f32]| {
            score_items(&vector, model.table(TABLE), items, scores);
            items
                .iter()
                .zip(scores)
                .for_each(|(item, score)| *score *= item_weights[*item as usize]);
        };
        if beta == 0.0 {
            return Ok(Box::new(score));
        }
        let all: Vec<u32> = (0..self.shared.items as u32).collect();
        let mut scores = vec![0.0; all.len()];
        score(&all, &mut scores);
        let deviation = numerics::deviation(&scores);
        let scale = if deviation > 0.0 {
            (DEVIATION / deviation) as f32
        } else {
            1.0
        };
        let popularity = model.table(POPULARITY).as_slice();
        Ok(Box::new(move |items: &[u32], scores: &mut [f32]| {
            score(items, scores);
            for (item, score) in items.iter().zip(scores) {
                *score = *score * scale + beta * popularity[*item as usize];
            }
        }))
    }

    fn visit_state(&mut self, _state: &mut StateVisitor<'_>) -> Result<()> {
        Ok(())
    }
}
