#![allow(clippy::unwrap_used)]
use super::*;
use crate::tests::{AtWork, problem_of, sent_with_weights, with_step};
use fedrecsim_core::math::gradient::numeric_gradient;

const ITEMS: usize = 7;
const DIMENSION: usize = 3;
const A0: f64 = 0.3;
const LAMBDA: f64 = 0.05;

fn ratings() -> Vec<UserRatings> {
    sent_with_weights(&[
        &[0, 1, 2],
        &[1, 2, 5],
        &[0, 3],
        &[2, 3, 4, 5],
        &[],
        &[0, 1, 2, 3],
    ])
}

fn at_work(exponent: f64) -> AtWork<Ials> {
    let parameters = IalsParameters {
        latent_dimension: DIMENSION as u32,
        unobserved_weight: A0,
        regularization: LAMBDA,
        regularization_exponent: exponent,
        ..IalsParameters::default()
    };
    let problem = problem_of(ratings().len(), ITEMS);
    AtWork::new(Ials::new(parameters, &problem), problem)
}

/// Returns the loss by its definition, over every pair of a user and an item. `values` holds X and
/// then Y.
fn loss(exponent: f64, values: &[f64]) -> f64 {
    let ratings = ratings();
    let (x, y) = values.split_at(ratings.len() * DIMENSION);
    let row =
        |values: &'_ [f64], row: usize| values[row * DIMENSION..(row + 1) * DIMENSION].to_vec();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let weight =
        |count: usize, others: usize| LAMBDA * (count as f64 + A0 * others as f64).powf(exponent);
    let mut loss = 0.0;
    for (user, sent) in ratings.iter().enumerate() {
        let x = row(x, user);
        loss += weight(sent.items.len(), ITEMS) * dot(&x, &x);
        for item in 0..ITEMS {
            let predicted = dot(&x, &row(y, item));
            loss += A0 * predicted * predicted;
            let at = sent.items.iter().position(|of| *of == item as u32);
            let weight = at.map_or(0.0, |at| f64::from(sent.ratings[at]));
            loss += weight * (1.0 - predicted).powi(2);
        }
    }
    let count = |item: usize| {
        ratings
            .iter()
            .filter(|sent| sent.items.contains(&(item as u32)))
            .count()
    };
    loss + (0..ITEMS)
        .map(|item| weight(count(item), ratings.len()) * dot(&row(y, item), &row(y, item)))
        .sum::<f64>()
}

/// Returns X as it is for the trainer's Y.
fn user_vectors(one: &AtWork<Ials>) -> Table {
    let (of_users, _) = both_sides(&ratings(), ITEMS);
    let constants = one.method.0.constants(0.0, ITEMS);
    with_step(0, |step| {
        one.method
            .solve(&constants, one.model.table(0), &of_users, step)
    })
    .unwrap()
}

fn values(x: &Table, y: &Table) -> Vec<f64> {
    x.as_slice()
        .iter()
        .chain(y.as_slice())
        .map(|value| f64::from(*value))
        .collect()
}

/// If this fails, users or items are solved for in another loss than the stated one: each half of a
/// pass must end where its half of the gradient vanishes.
#[test]
fn every_half_of_a_pass_ends_at_a_stationary_point() {
    for exponent in [0.0, 0.5, 1.0] {
        let mut one = at_work(exponent);
        for pass in 0..3 {
            let x = user_vectors(&one);
            let split = x.shape().values();
            let before = values(&x, one.model.table(0));
            let slopes = numeric_gradient(&before, |at| loss(exponent, at));
            assert!(
                slopes[..split].iter().all(|slope| slope.abs() < 1e-5),
                "users in pass {pass}: {slopes:?}"
            );
            one.pass(&ratings(), pass);
            let after = values(&x, one.model.table(0));
            let slopes = numeric_gradient(&after, |at| loss(exponent, at));
            assert!(
                slopes[split..].iter().all(|slope| slope.abs() < 1e-5),
                "items in pass {pass}: {slopes:?}"
            );
            assert!(
                loss(exponent, &after) < loss(exponent, &before),
                "pass {pass} has raised the loss"
            );
        }
    }
}

/// If this fails, a user without ratings spoils the others, or an item that nobody has rated is
/// recommended.
#[test]
fn rows_without_a_positive_are_zero() {
    let mut one = at_work(1.0);
    one.pass(&ratings(), 0);
    assert!(user_vectors(&one).row(4).iter().all(|value| *value == 0.0));
    assert!(one.model.table(0).row(6).iter().all(|value| *value == 0.0));
}

/// If this fails, a pass takes another virtual time than its arithmetic.
#[test]
fn the_work_is_that_of_the_solutions_and_the_gram_matrices() {
    let report = at_work(1.0).pass(&ratings(), 0);
    let solved = |counts: &[usize]| -> u64 {
        counts
            .iter()
            .map(|count| LeastSquares::multiply_adds(*count, DIMENSION))
            .sum()
    };
    let expected = solved(&[3, 3, 2, 4, 0, 4]) + solved(&[3, 3, 4, 3, 1, 2, 0]) + (7 + 6 + 7) * 6;
    assert_eq!(report.multiply_adds, expected);
}

/// If this fails, a device scores with the Gram matrix of an older table, or a model that is set
/// from outside is not used.
#[test]
fn a_model_that_is_set_brings_its_own_gram_matrix() {
    let mut one = at_work(1.0);
    one.pass(&ratings(), 0);
    let other = at_work(1.0);
    let mut model = other.model.clone();
    model
        .set_table(0, std::sync::Arc::clone(one.model.table(0)))
        .unwrap();
    assert_eq!(other.method.adopted(model).unwrap(), one.model);
}
