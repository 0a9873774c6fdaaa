//! Makes a participation in FedRec, on a device or at a server that makes those of all users.

use super::numerics::{Memory, Participation};
use super::profile::{Profile, UserAlone, WithRatedItems};
use super::{Factors, Settings};
use crate::method::prelude::{LocalTask, Model, Result, ScoringContext, TableShape, TableUpdate};
use crate::method::user_vector::{collect_last_ratings, draw_unrated, score_items};

/// The positions of the item tables in a model.
pub(super) const V: usize = 0;
pub(super) const O: usize = 1;

/// Holds the items, rows and gradients of a participation. It is memory of a worker thread.
#[derive(Debug, Default)]
pub struct FedRecScratch {
    /// The rated items, then the virtual ones.
    pub(super) items: Vec<u32>,
    pub(super) ratings: Vec<f32>,
    unrated: Vec<u32>,
    rows: Vec<f32>,
    /// The gradient of each item's row of V, which is uploaded.
    pub(super) gradients: Vec<f32>,
    /// By how much the device has lowered the values of each item's row of O, which is uploaded;
    /// empty without O.
    pub(super) moves: Vec<f32>,
    order: Vec<u32>,
    memory: Memory,
}

impl FedRecScratch {
    /// Collects the items of a participation: the rated items, each with its last rating, then
    /// `per_rated` times as many unrated items (or as many as there are), drawn without
    /// replacement.
    pub(super) fn collect(&mut self, task: &LocalTask<'_>, catalogue: usize, per_rated: usize) {
        collect_last_ratings(&task.own, &mut self.items, &mut self.ratings);
        if per_rated == 0 {
            return;
        }
        let count = per_rated * self.items.len();
        let mut stream = task.named_stream("fedrec/virtual-items");
        draw_unrated(
            &self.items,
            (catalogue, count),
            &mut stream,
            &mut self.unrated,
        );
        self.items.extend_from_slice(&self.unrated);
    }

    /// Returns the updates of the tables of `factors`, which list the items in ascending order with
    /// what is uploaded for them.
    pub(super) fn updates(
        &mut self,
        factors: Factors,
        shape: TableShape,
    ) -> Result<Vec<TableUpdate>> {
        let (items, d) = (&self.items, shape.dimension);
        self.order.clear();
        self.order.extend(0..items.len() as u32);
        self.order
            .sort_unstable_by_key(|place| items[*place as usize]);
        let places = || self.order.iter().map(|place| *place as usize);
        let listed: Vec<u32> = places().map(|place| items[place]).collect();
        let tables = [&self.gradients, &self.moves]
            .into_iter()
            .take(factors.tables().len());
        let update = |values: &Vec<f32>| {
            self.rows.clear();
            places().for_each(|place| self.rows.extend(&values[place * d..(place + 1) * d]));
            TableUpdate::listed(shape, listed.clone(), &self.rows, 1.0)
        };
        tables.map(update).collect()
    }
}

impl Settings {
    /// Makes a participation with the items and ratings in `scratch`, in which `user_vector` is
    /// trained and the learning rate has fallen `decays` times. Leaves what is uploaded in
    /// `scratch`, and returns the mean squared error over the rated items and the number of rows
    /// that were visited. In SVD++, every visit of a row of V comes with one of the same item's row
    /// of O.
    pub(super) fn participate(
        &self,
        model: &Model,
        user_vector: &mut [f32],
        (iteration, decays): (u32, u32),
        scratch: &mut FedRecScratch,
    ) -> (f64, u64) {
        let parameters = &self.parameters;
        let dimension = user_vector.len();
        let FedRecScratch {
            items,
            ratings,
            rows,
            gradients,
            moves,
            memory,
            ..
        } = scratch;
        rows.clear();
        model.table(V).append_rows(items, rows);
        gradients.clear();
        gradients.resize(rows.len(), 0.0);
        moves.clear();
        let participation = Participation {
            style: parameters.style,
            rows,
            ratings,
            filling: self.filling,
            iteration,
            rate: self.rate(decays),
            regularization: parameters.regularization as f32,
        };
        let loss = match self.factors {
            Factors::Pmf => participation.train(user_vector, &mut UserAlone, gradients, memory),
            Factors::SvdPlusPlus => {
                model.table(O).append_rows(items, moves);
                let mut profile = WithRatedItems::new(ratings.len(), moves.clone(), dimension);
                let loss = participation.train(user_vector, &mut profile, gradients, memory);
                moves
                    .iter_mut()
                    .zip(profile.into_rows())
                    .for_each(|(old, new)| *old -= new);
                loss
            }
        };
        (
            loss,
            participation.row_visits(dimension) * self.factors.tables().len() as u64,
        )
    }
}

impl Factors {
    /// Writes to `scores` the rating that is predicted for each of `items`, for the user with this
    /// vector.
    pub(super) fn score(
        self,
        user_vector: &[f32],
        context: &ScoringContext<'_>,
        items: &[u32],
        scores: &mut [f32],
    ) {
        let table = context.model.table(V);
        if self == Self::Pmf {
            return score_items(user_vector, table, items, scores);
        }
        let (mut own, mut ratings, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        collect_last_ratings(&context.own, &mut own, &mut ratings);
        context.model.table(O).append_rows(&own, &mut rows);
        let mut profile = WithRatedItems::new(own.len(), rows, user_vector.len());
        score_items(profile.at(user_vector, own.len()), table, items, scores);
        // The profile for an item that the user has rated leaves the item itself out.
        for (item, score) in items.iter().zip(scores) {
            if let Ok(place) = own.binary_search(item) {
                score_items(
                    profile.at(user_vector, place),
                    table,
                    &[*item],
                    std::slice::from_mut(score),
                );
            }
        }
    }
}
