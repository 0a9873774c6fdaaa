//! Implements methods whose model is a matrix of weights between items: users send their ratings
//! once, the server makes the matrix of them, and a device adds up the rows of its own positives.
//!
//! An item that a user has rated is a positive, whatever the rating. The matrix has m x m values in
//! single precision. It is made in one step, and further steps change nothing and cost nothing. A
//! device may weight recent positives more; times never leave it.

use std::fmt::Debug;
use std::sync::Arc;

use ndarray::Array2;

use super::central::{CentralMethod, CentralScoring, CentralTrainer, UserRatings};
use super::recency::{Recency, weighted_positives};
use super::server::{StepContext, StepReport};
use super::{Problem, Scorer, ScoringContext, Scratch, largest_magnitude};
use fedrecsim_core::error::Result;
use fedrecsim_model::model::blocks::Model;
use fedrecsim_model::model::layout::{BlockLayout, Layout};
use fedrecsim_model::model::state::StateVisitor;
use fedrecsim_model::model::table::{Table, TableShape};

pub mod ease;
pub mod itemknn;
#[cfg(test)]
mod tests;

/// Makes the matrix of a method.
pub(super) trait Weigher: Clone + Debug + Send + Sync + 'static {
    /// The name of the matrix.
    const MATRIX: &'static str;

    /// Returns the matrix for these ratings of a catalogue of `items` items, and the number of
    /// multiply-adds that this takes. Row i holds what a positive i adds to the scores of all
    /// items.
    ///
    /// # Errors
    /// Divergence.
    fn weigh(
        &self,
        ratings: &[UserRatings],
        items: usize,
        step: &StepContext<'_>,
    ) -> Result<(Table, u64)>;
}

/// Describes a method by its matrix.
#[derive(Debug)]
pub(super) struct ItemToItem<W> {
    weigher: W,
    recency: Option<Recency>,
    items: usize,
}

impl<W: Weigher> ItemToItem<W> {
    /// Makes the method for a problem of this size.
    pub(crate) fn new(weigher: W, recency: Option<Recency>, problem: &Problem) -> Self {
        Self {
            weigher,
            recency,
            items: problem.items,
        }
    }
}

/// Returns the layout of a matrix of this name for this many items.
fn layout(matrix: &'static str, items: usize) -> Layout {
    Layout::new(vec![BlockLayout::item_table(
        matrix,
        TableShape {
            rows: items,
            dimension: items,
        },
    )])
}

impl<W: Weigher> CentralMethod for ItemToItem<W> {
    type Scoring = AddRows;

    fn items(&self) -> usize {
        self.items
    }

    /// Makes a trainer with a matrix of zeros.
    fn trainer(&self) -> Box<dyn CentralTrainer> {
        let matrix = Table::zeros(TableShape {
            rows: self.items,
            dimension: self.items,
        });
        let model = Model::of_table(W::MATRIX, matrix);
        Box::new(Trainer {
            weigher: self.weigher.clone(),
            model,
            users: 0,
        })
    }

    fn scoring(&self) -> AddRows {
        AddRows {
            recency: self.recency.clone(),
        }
    }
}

/// Adds up the rows of a user's own positives.
#[derive(Clone, Debug)]
pub(super) struct AddRows {
    recency: Option<Recency>,
}

impl CentralScoring for AddRows {
    fn scorer<'a>(
        &'a self,
        context: &ScoringContext<'a>,
        _scratch: &mut Scratch,
    ) -> Result<Box<dyn Scorer + 'a>> {
        let (own, weights) = weighted_positives(&context.own, self.recency.as_ref());
        let model = context.model;
        Ok(Box::new(move |items: &[u32], scores: &mut [f32]| {
            add_rows(model.table(0), (&own, &weights), items, scores);
        }))
    }
}

/// Writes to `scores` the sum over a user's positives of their weight times the element of their
/// row for each of `items`, in double precision and in the order of the positives.
fn add_rows(matrix: &Table, (own, weights): (&[u32], &[f64]), items: &[u32], scores: &mut [f32]) {
    let mut sums = vec![0.0; items.len()];
    for (&positive, weight) in own.iter().zip(weights) {
        let row = matrix.row(positive as usize);
        for (sum, &item) in sums.iter_mut().zip(items) {
            *sum += weight * f64::from(row[item as usize]);
        }
    }
    scores
        .iter_mut()
        .zip(sums)
        .for_each(|(score, sum)| *score = sum as f32);
}

/// Returns for each pair of items the number of users who have rated both, and on the diagonal the
/// number of users of each item, together with the number of additions. Only the upper triangle is
/// filled.
fn counts(ratings: &[UserRatings], items: usize) -> (Array2<f64>, u64) {
    let mut counts = vec![0.0; items * items];
    let mut additions = 0;
    for UserRatings { items: rated, .. } in ratings {
        for (position, &first) in rated.iter().enumerate() {
            let row = &mut counts[first as usize * items..(first as usize + 1) * items];
            rated[position..]
                .iter()
                .for_each(|&second| row[second as usize] += 1.0);
        }
        let rated = rated.len() as u64;
        additions += rated * (rated + 1) / 2;
    }
    // The vector has as many elements as the shape.
    let counts = Array2::from_shape_vec((items, items), counts)
        .unwrap_or_else(|error| unreachable!("{error}"));
    (counts, additions)
}

/// Makes the matrix when ratings have arrived.
struct Trainer<W> {
    weigher: W,
    model: Model,
    /// The number of users whose ratings the matrix was made of.
    users: usize,
}

impl<W: Weigher> CentralTrainer for Trainer<W> {
    fn model(&self) -> &Model {
        &self.model
    }

    fn set_model(&mut self, model: Model) -> Result<()> {
        self.model.replace(model)
    }

    fn pass(&mut self, ratings: &[UserRatings], step: &StepContext<'_>) -> Result<StepReport> {
        if ratings.len() == self.users {
            return Ok(StepReport::default());
        }
        let items = self.model.table(0).shape().rows;
        let (matrix, multiply_adds) = self.weigher.weigh(ratings, items, step)?;
        step.check_magnitude(W::MATRIX, largest_magnitude(matrix.as_slice()))?;
        self.model.set_table(0, Arc::new(matrix))?;
        self.users = ratings.len();
        Ok(StepReport {
            multiply_adds,
            ..StepReport::default()
        })
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        state.plain(&mut self.users)
    }
}
