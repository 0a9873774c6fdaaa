//! Implements methods whose model is a matrix of weights between items: users send their ratings
//! once, the server makes the matrix of them, and a device adds up the rows of its own positives.
//!
//! The matrix has m x m values in single precision. It is made in one step, and further steps change
//! nothing and cost nothing. Recent positives may count more when a device scores, which keeps times
//! on it, and in the matrix, for which a device sends the weights.

use ndarray::Array2;

use super::Parameters;
use super::prelude::*;
use super::recency::{self, Recency, sent_weights, weighted_positives};
use fedrecsim_core::UserId;
use fedrecsim_data::dataset::OwnData;
use fedrecsim_model::per_instruction_set;

pub(super) mod ease;
pub(super) mod itemknn;
#[cfg(test)]
mod tests;

/// Declares how the matrix follows from what users have sent.
pub(crate) trait ByMatrix: Parameters + Send + Sync + 'static {
    /// The name in scenario files.
    const NAME: &'static str;

    /// The summary that `fedrecsim methods` prints, on one line.
    const SUMMARY: &'static str;

    /// The paper that the method follows.
    const SOURCE: &'static str;

    /// The formulas of the method.
    const FORMULA: &'static [&'static str];

    /// The name of the matrix.
    const MATRIX: &'static str;

    /// Returns how recent positives count more.
    fn recency(&self) -> Option<&Recency>;

    /// Returns the matrix for the ratings, with the number of multiply-adds that it takes. Row i holds
    /// what a positive i adds to the scores of all items.
    ///
    /// # Errors
    /// An error of the method, such as a singular system.
    fn weigh(&self, pass: &Pass<'_, Remembered<usize>>) -> Result<(Table, u64)>;
}

impl<M: ByMatrix> Central for M {
    type Parameters = Self;
    /// The number of users whose ratings are in the matrix.
    type Memory = Remembered<usize>;

    const NAME: &str = M::NAME;
    const SUMMARY: &str = M::SUMMARY;
    const SOURCE: &str = M::SOURCE;
    const FORMULA: &[&str] = M::FORMULA;
    const DRAWS_NEGATIVES: bool = false;

    fn resolve(p: &mut Self) -> Vec<ParameterFault> {
        recency::idle(p.recency())
    }

    fn new(parameters: Self, _problem: &Problem) -> Self {
        parameters
    }

    fn blocks(&self, size: ProblemSize) -> Vec<Block> {
        // A catalogue of 2^32 items or more is refused on reading.
        vec![item_table(M::MATRIX, size.items, size.items as u32)]
    }

    /// A user sends the positives with their weights in training.
    fn sent(&self, own: (&OwnData<'_>, UserId)) -> Result<(Vec<u32>, Vec<f32>)> {
        sent_weights(own, self.recency())
    }

    /// Another run may have other parameters, for which the matrix is made again.
    fn begin_anew(&self, memory: &mut Remembered<usize>) {
        memory.0 = 0;
    }

    /// Makes the matrix, unless there are no more ratings than before.
    fn pass(&self, pass: Pass<'_, Remembered<usize>>) -> Result<StepReport> {
        if pass.ratings.len() == pass.memory.0 {
            return Ok(StepReport::default());
        }
        let (matrix, multiply_adds) = self.weigh(&pass)?;
        let largest = largest_magnitude(matrix.as_slice());
        pass.step.check_magnitude(M::MATRIX, largest)?;
        pass.model.set_table(0, matrix.into())?;
        pass.memory.0 = pass.ratings.len();
        Ok(StepReport {
            multiply_adds,
            ..StepReport::default()
        })
    }

    fn scorer<'a>(&'a self, context: ScoringContext<'a>) -> Scoring<'a> {
        let (own, weights) = weighted_positives((&context.own, context.user), self.recency())?;
        let matrix = context.model.table(0);
        Ok(Box::new(move |items: &[u32], scores: &mut [f32]| {
            add_rows(matrix, (&own, &weights), items, scores)
        }))
    }
}

/// Writes to `scores` the sum over a user's positives of their weight times the element of their
/// row for each of `items`, in double precision and in the order of the positives.
fn add_rows(matrix: &Table, (own, weights): (&[u32], &[f64]), items: &[u32], scores: &mut [f32]) {
    let all = matrix.view().ncols();
    let rows = own.iter().map(|positive| matrix.row(*positive as usize));
    let rows = rows.zip(weights);
    // Whole rows are added by vector operations, single elements are looked up one by one.
    if items.len() > all / 8 {
        let mut sums = vec![0.0; all];
        rows.for_each(|(row, weight)| add_row(&mut sums, *weight, row));
        for (score, item) in scores.iter_mut().zip(items) {
            *score = sums[*item as usize] as f32;
        }
    } else {
        let mut sums = vec![0.0; items.len()];
        for (row, weight) in rows {
            for (sum, item) in sums.iter_mut().zip(items) {
                *sum += weight * f64::from(row[*item as usize]);
            }
        }
        for (score, sum) in scores.iter_mut().zip(sums) {
            *score = sum as f32;
        }
    }
}

per_instruction_set! {
    /// Adds the weighted elements of a row to `sums`.
    fn add_row(sums: &mut [f64], weight: f64, row: &[f32]) {
        for (sum, value) in sums.iter_mut().zip(row) {
            *sum += weight * f64::from(*value);
        }
    }
}

/// Returns for each pair of items the sum over users of the product of both weights, and on the
/// diagonal that of the squares, together with the number of additions. With weights of 1 these are
/// numbers of users. Only the upper triangle is filled.
fn counts(pass: &Pass<'_, Remembered<usize>>) -> (Array2<f64>, u64) {
    let items = pass.problem.items;
    let mut counts = Array2::zeros((items, items));
    let mut additions = 0;
    for user in pass.ratings {
        let weights = user.ratings.iter().map(|weight| f64::from(*weight));
        let positives: Vec<(u32, f64)> = user.items.iter().copied().zip(weights).collect();
        for (position, &(first, weight)) in positives.iter().enumerate() {
            let mut row = counts.row_mut(first as usize);
            for &(second, other) in &positives[position..] {
                row[second as usize] += weight * other;
            }
        }
        let positives = positives.len() as u64;
        additions += positives * (positives + 1) / 2;
    }
    (counts, additions)
}
