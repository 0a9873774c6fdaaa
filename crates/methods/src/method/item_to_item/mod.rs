//! Implements methods whose model is a matrix of weights between items: users send their ratings
//! once, the server makes the matrix of them, and a device adds up the rows of its own positives.
//!
//! An item that a user has rated is a positive, whatever the rating. The matrix has m x m values in
//! single precision. It is made in one step, and further steps change nothing and cost nothing. A
//! device may weight recent positives more; times never leave it.

use ndarray::Array2;

use super::prelude::*;
use super::recency::{Recency, weighted_positives};

pub mod ease;
pub mod itemknn;
#[cfg(test)]
mod tests;

/// Describes the matrix of a method for this many items.
fn matrix(name: &'static str, items: usize) -> Vec<Block> {
    // A catalogue of 2^32 items or more is refused on reading.
    vec![item_table(name, items, items as u32)]
}

/// Replaces the matrix by what `weigh` makes of the ratings of a catalogue of so many items, with
/// the number of multiply-adds that this takes, unless there are no more ratings than before. Row i
/// holds what a positive i adds to the scores of all items.
fn renew(
    pass: Pass<'_, Remembered<usize>>,
    name: &'static str,
    weigh: impl FnOnce(&[UserRatings], usize, &StepContext<'_>) -> Result<(Table, u64)>,
) -> Result<StepReport> {
    if pass.ratings.len() == pass.memory.0 {
        return Ok(StepReport::default());
    }
    let (matrix, multiply_adds) = weigh(pass.ratings, pass.problem.items, pass.step)?;
    pass.step
        .check_magnitude(name, largest_magnitude(matrix.as_slice()))?;
    pass.model.set_table(0, matrix.into())?;
    pass.memory.0 = pass.ratings.len();
    Ok(StepReport {
        multiply_adds,
        ..StepReport::default()
    })
}

/// Scores by adding up the rows of a user's own positives.
fn scorer<'a>(
    recency: Option<&Recency>,
    context: &ScoringContext<'a>,
) -> Result<Box<dyn Scorer + 'a>> {
    let (own, weights) = weighted_positives(&context.own, recency);
    let matrix = context.model.table(0);
    Ok(Box::new(move |items: &[u32], scores: &mut [f32]| {
        add_rows(matrix, (&own, &weights), items, scores)
    }))
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
