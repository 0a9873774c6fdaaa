//! Implements FedRec's client, and what it shares with a server that makes the participations of
//! all users itself.

use std::sync::Arc;

use super::numerics::{Memory, Participation, Style};
use super::profile::{Profile, UserAlone, WithRatedItems};
use super::{Factors, Shared};
use crate::method::row_counts::counts_of;
use crate::method::user_vector::{collect_last_ratings, draw_unrated, score_items};
use crate::method::{
    Client, LocalTask, LocalUpdate, Scorer, ScoringContext, Scratch, largest_magnitude,
};
use fedrecsim_core::error::Result;
use fedrecsim_core::ids::UserId;
use fedrecsim_model::model::blocks::{Model, ModelUpdate};
use fedrecsim_model::model::private::Private;
use fedrecsim_model::model::state::StateVisitor;
use fedrecsim_model::model::table::{TableShape, TableUpdate};

/// The positions of the item tables in a model.
pub(super) const V: usize = 0;
pub(super) const O: usize = 1;

#[derive(Clone)]
pub(super) struct FedRecClient {
    shared: Arc<Shared>,
    user_vector: Private<Box<[f32]>>,
    /// The number of the user's participations, by which its own learning rate falls in the
    /// stochastic style.
    participations: u32,
}

impl FedRecClient {
    /// Makes the client of `user`, before its first participation.
    pub(crate) fn new(shared: Arc<Shared>, user: UserId) -> Self {
        let user_vector = Private::new(shared.initial_user_vector(user));
        Self {
            shared,
            user_vector,
            participations: 0,
        }
    }
}

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
    fn collect(&mut self, task: &LocalTask<'_>, catalogue: usize, per_rated: usize) {
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

    /// Returns the update of the tables of `factors` that lists the items in ascending order with
    /// what is uploaded for them, and with a count of 1 for each if the device sends counts.
    pub(super) fn update(
        &mut self,
        factors: Factors,
        shape: TableShape,
        sends_counts: bool,
    ) -> Result<ModelUpdate> {
        let Self {
            items,
            gradients,
            moves,
            order,
            rows,
            ..
        } = self;
        let (d, is_sorted) = (shape.dimension, items.is_sorted());
        order.clear();
        order.extend(0..items.len() as u32);
        if !is_sorted {
            order.sort_unstable_by_key(|place| items[*place as usize]);
        }
        let listed: Vec<u32> = order.iter().map(|place| items[*place as usize]).collect();
        let mut blocks = Vec::new();
        for values in [gradients, moves].into_iter().take(factors.tables().len()) {
            let values = match is_sorted {
                true => &values[..],
                false => {
                    rows.clear();
                    let places = order.iter().map(|place| *place as usize);
                    places.for_each(|place| {
                        rows.extend_from_slice(&values[place * d..(place + 1) * d])
                    });
                    &rows[..]
                }
            };
            blocks.push(TableUpdate::listed(shape, listed.clone(), values, 1.0)?);
        }
        if sends_counts {
            blocks.push(counts_of(shape.rows, &listed)?);
        }
        Ok(ModelUpdate::of_blocks(blocks))
    }
}

impl Shared {
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
        let Self {
            factors,
            parameters,
            shape,
            filling,
            ..
        } = self;
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
            filling: *filling,
            iteration,
            rate: self.rate(decays),
            regularization: parameters.regularization as f32,
        };
        let loss = match factors {
            Factors::Pmf => participation.train(user_vector, &mut UserAlone, gradients, memory),
            Factors::SvdPlusPlus => {
                model.table(O).append_rows(items, moves);
                let mut profile =
                    WithRatedItems::new(ratings.len(), moves.clone(), shape.dimension);
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
            participation.row_visits(shape.dimension) * factors.tables().len() as u64,
        )
    }
}

impl Client for FedRecClient {
    fn train(&mut self, task: &LocalTask<'_>, scratch: &mut Scratch) -> Result<LocalUpdate> {
        let Shared {
            factors,
            parameters,
            shape,
            ..
        } = &*self.shared;
        let scratch = &mut scratch.fedrec;
        scratch.collect(
            task,
            shape.rows,
            parameters.virtual_items_per_rated as usize,
        );
        let iteration = self.shared.iteration(task.step.0);
        let decays = match parameters.style {
            Style::Batch => iteration,
            Style::Stochastic => self.participations,
        };
        let vector = self.user_vector.get_mut();
        let (loss, row_visits) =
            self.shared
                .participate(task.model, vector, (iteration, decays), scratch);
        self.participations += 1;
        task.check_magnitude("U", largest_magnitude(vector))?;
        task.check_magnitude("gradient of V", largest_magnitude(&scratch.gradients))?;
        task.check_magnitude("step of O", largest_magnitude(&scratch.moves))?;
        let update = scratch.update(*factors, *shape, parameters.sends_counts)?;
        Ok(LocalUpdate::new(update, loss, row_visits))
    }

    fn scorer<'a>(
        &'a self,
        context: &ScoringContext<'a>,
        _scratch: &mut Scratch,
    ) -> Result<Box<dyn Scorer + 'a>> {
        let context = *context;
        Ok(Box::new(move |items: &[u32], scores: &mut [f32]| {
            self.shared
                .factors
                .score(self.user_vector.get(), &context, items, scores);
        }))
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        state.values(self.user_vector.get_mut())?;
        state.plain(&mut self.participations)
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
