#![allow(clippy::unwrap_used)]
use super::*;
use crate::tests::{AtWork, problem_of, sent};
use fedrecsim_core::UserId;
use fedrecsim_core::math::gradient::gradient_check;
use fedrecsim_data::dataset::OwnData;

const USERS: usize = 3;
const ITEMS: usize = 5;
const K: usize = 4;

fn at_work() -> AtWork<Ncf> {
    let method = Ncf {
        latent_dimension: K as u32,
        learning_rate: 0.01,
        ..Ncf::default()
    };
    let mut one = AtWork::new(method, problem_of(USERS, ITEMS));
    let mut stream = one.problem.streams.stream(Purpose::GlobalInit, 1, 0);
    // Larger values than those of the method keep most of the rectifiers far from their kink.
    let mut draw = || 0.4 * stream.standard_normal() as f32;
    let values: Vec<f32> = one.memory.values.iter().map(|_| draw()).collect();
    network::set(&mut one.model, 0, &values);
    one.memory = one.method.memory(&one.model);
    one
}

fn batch() -> Vec<Sample> {
    let sample = |number: u32| Sample {
        user: number % 3,
        item: number * 2 % 5,
        is_positive: number.is_multiple_of(3),
    };
    (0..20).map(sample).collect()
}

/// Returns the logit of a user and an item by the definition of the network.
fn logit(values: &[f64], user: usize, item: usize) -> f64 {
    let row = |row: usize| values[row * K..(row + 1) * K].to_vec();
    let mut inputs = [row(user), row(USERS + item)].concat();
    let mut rest = &values[(USERS + ITEMS) * K..];
    for (layer, outputs) in [32, 16, 8, 1].into_iter().enumerate() {
        let (weights, others) = rest.split_at(inputs.len() * outputs);
        let (bias, others) = others.split_at(outputs);
        rest = others;
        let sums = weights.chunks_exact(inputs.len()).zip(bias);
        let sums = sums.map(|(weights, bias)| {
            weights.iter().zip(&inputs).map(|(w, x)| w * x).sum::<f64>() + bias
        });
        inputs = sums
            .map(|sum| if layer < 3 { sum.max(0.0) } else { sum })
            .collect();
    }
    inputs[0]
}

fn mean_loss(values: &[f64]) -> f64 {
    let batch = batch();
    let loss = |sample: &Sample| {
        let z = logit(values, sample.user as usize, sample.item as usize);
        z.max(0.0) + libm::log1p(libm::exp(-z.abs())) - if sample.is_positive { z } else { 0.0 }
    };
    batch.iter().map(loss).sum::<f64>() / batch.len() as f64
}

fn values_of(one: &AtWork<Ncf>) -> Vec<f64> {
    let values = network::parameters(&one.model, 0);
    values.iter().map(|value| f64::from(*value)).collect()
}

/// If this fails, embeddings or network do not follow the gradient of the stated loss.
#[test]
fn the_gradient_agrees_with_central_differences() {
    let mut one = at_work();
    let (start, mut buffers) = (values_of(&one), Buffers::default());
    // The second step would show a row that is not cleared between batches. The rate of zero keeps
    // the parameters.
    for _ in 0..2 {
        let (adam, sizes) = (AdamSettings::with_rate(0.0), (USERS, ITEMS));
        let loss = one
            .method
            .step((&mut one.memory, &mut buffers), sizes, &batch(), &adam);
        assert!((f64::from(loss) / 20.0 - mean_loss(&start)).abs() < 1e-5);
        let gradient: Vec<f64> = one
            .memory
            .gradient
            .iter()
            .map(|value| f64::from(*value))
            .collect();
        gradient_check(1e-3, &start, &gradient, mean_loss)
            .unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}

/// If this fails, devices score with another network than the one that the server trains.
#[test]
fn a_device_scores_with_the_network_of_the_server() {
    let one = at_work();
    for user in 0..USERS {
        let mut scratch = Scratch::default();
        let context = ScoringContext::new(
            UserId::from(user),
            &one.model,
            OwnData::new(&[]),
            one.problem.streams,
            &mut scratch,
        );
        let scorer = one.method.scorer(context).unwrap();
        let mut scores = [0.0; 3];
        scorer.score(&[0, 2, 4], &mut scores).unwrap();
        for (score, item) in scores.into_iter().zip([0, 2, 4]) {
            assert!((f64::from(score) - logit(&values_of(&one), user, item)).abs() < 1e-5);
        }
    }
}

/// If this fails, passes do not learn what users have sent, count other work than theirs, or do not
/// begin with a model that is set.
#[test]
fn passes_lower_the_loss_and_go_on_from_a_model_that_is_set() {
    let ratings = sent(&[&[0], &[1], &[0]]);
    let mut one = at_work();
    let mut pass = |number: u32| one.pass(&ratings, number);
    let first = pass(0);
    let last = (1..300).map(&mut pass).last().unwrap();
    assert!(
        last.loss.unwrap() < 0.2 * first.loss.unwrap(),
        "{:?} to {:?}",
        first.loss,
        last.loss
    );
    // Three positives with four negatives each make one batch.
    assert_eq!(
        (first.row_visits, first.multiply_adds),
        (2 * 15, 3 * 15 * (8 * 32 + 32 * 16 + 16 * 8 + 8))
    );
    let mut other = at_work();
    other.model = one.model.clone();
    other.pass(&ratings, 300);
    one.memory = one.method.memory(&one.model);
    one.pass(&ratings, 300);
    assert_eq!(other.model, one.model);
}

/// If this fails, training starts from other values than the stated ones.
#[test]
fn embeddings_and_weights_start_with_the_stated_deviation_and_biases_at_zero() {
    let method = Ncf {
        deviation: 0.5,
        ..Ncf::default()
    };
    let start = AtWork::new(method, problem_of(40, 40)).model;
    for (name, table) in start.tables() {
        let values = table.as_slice();
        let deviation = (values
            .iter()
            .map(|value| f64::from(value * value))
            .sum::<f64>()
            / values.len() as f64)
            .sqrt();
        let expected = if name.starts_with('b') { 0.0 } else { 0.5 };
        let is_large = values.len() > 100;
        assert!(
            (deviation - expected).abs() < if is_large { 0.05 } else { 0.4 },
            "{name}: {deviation}"
        );
    }
}
