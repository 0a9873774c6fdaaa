//! FCF: federated collaborative filtering by implicit least squares, with the gradient of every item.
//!
//! Private: the user vector x_u, which has a closed form. Global: the item table Y. With c_ui = 1 + alpha y_ui (y_ui is 1
//! for the user's positives and 0 for all other items) a device solves
//! x_u = (Y^T C_u Y + lambda I)^(-1) Y^T C_u p_u and uploads c_ui (x_u . y_i - p_ui) x_u for **all** items, so that the
//! table of gradients does not say which items are positives.
//!
//! Source: Ammad-ud-din et al., Federated Collaborative Filtering for Privacy-Preserving Personalized Recommendation
//! System, arXiv 1901.09888, sections 3.1 and 3.2; FedRec's slides, equation 3.

use ndarray::{Array2, ArrayView2};

use crate::model::algebra::Result;
use crate::model::least_squares::{LeastSquares, Positives, Weights, score};

/// Returns x_u (k values) for a user's positives, `gram` being Y^T Y (its upper triangle).
///
/// # Errors
/// Those of [`LeastSquares::user_vector`].
pub fn user_vector(
    solver: &mut LeastSquares,
    gram: &Array2<f64>,
    table: &ArrayView2<'_, f32>,
    positives: &[u32],
    (confidence, regularization): (f64, f64),
) -> Result<Vec<f64>> {
    // C_u = I + alpha on the positives, and C_u p_u = 1 + alpha there.
    let positives = Positives { items: positives, weights: Weights::Equal(confidence), target_offset: 1.0 };
    solver.user_vector(gram, table, positives, regularization)
}

/// Returns c_ui (x_u . y_i - p_ui) x_u for every item (m k values). `positives` must ascend.
pub fn item_gradients(vector: &[f64], table: &ArrayView2<'_, f32>, positives: &[u32], confidence: f64) -> Vec<f32> {
    let mut gradients = Vec::with_capacity(table.len());
    let mut positives = positives.iter().copied().peekable();
    for (item, row) in table.rows().into_iter().enumerate() {
        let is_positive = positives.next_if_eq(&(item as u32)).is_some();
        while positives.next_if_eq(&(item as u32)).is_some() {}
        let (weight, target) = if is_positive { (1.0 + confidence, 1.0) } else { (1.0, 0.0) };
        let error = weight * (score(vector, &row) - target);
        gradients.extend(vector.iter().map(|value| (error * value) as f32));
    }
    gradients
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::model::least_squares::gram_of_table;

    const ALPHA: f64 = 4.0;
    const LAMBDA: f64 = 0.5;

    fn table() -> Array2<f32> {
        Array2::from_shape_fn((6, 3), |(item, column)| ((item * 7 + column * 5) % 11) as f32 / 5.0 - 1.0)
    }

    /// The paper's equation 1 for one user, by its definition.
    fn loss(table: &Array2<f32>, positives: &[u32], x: &[f64]) -> f64 {
        let items = table.rows().into_iter().enumerate().map(|(item, row)| {
            let target = f64::from(u8::from(positives.contains(&(item as u32))));
            (1.0 + ALPHA * target) * (target - score(x, &row)).powi(2)
        });
        items.sum::<f64>() + LAMBDA * x.iter().map(|value| value * value).sum::<f64>()
    }

    /// If this fails, the closed form or the gradients belong to another loss.
    #[test]
    fn the_user_vector_is_the_minimum_and_the_gradients_are_half_the_slopes() {
        let (table, positives) = (table(), [1u32, 4]);
        let gram = gram_of_table(&table.view()).unwrap();
        let mut solver = LeastSquares::default();
        let x = user_vector(&mut solver, &gram, &table.view(), &positives, (ALPHA, LAMBDA)).unwrap();
        for axis in 0..3 {
            let moved = |step: f64| {
                let mut other = x.clone();
                other[axis] += step;
                loss(&table, &positives, &other)
            };
            assert!(((moved(1e-4) - moved(-1e-4)) / 2e-4).abs() < 1e-7);
        }
        let gradients = item_gradients(&x, &table.view(), &positives, ALPHA);
        for item in 0..6 {
            for axis in 0..3 {
                let moved = |step: f32| {
                    let mut other = table.clone();
                    other[(item, axis)] += step;
                    loss(&other, &positives, &x)
                };
                let slope = (moved(0.015_625) - moved(-0.015_625)) / 0.031_25;
                assert!((slope / 2.0 - f64::from(gradients[item * 3 + axis])).abs() < 1e-6);
            }
        }
    }
}
