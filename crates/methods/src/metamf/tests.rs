//! Compares MetaMF's gradients with central differences through the whole chain of server, device
//! and loss.

#![allow(clippy::unwrap_used)]

use super::hypernetwork::{GROUP, Gradients, HyperNetwork, HyperShape};
use super::{MetaMf, MetaMfParameters};
use crate::declare::Declared;
use crate::declare::tests::start_of;
use crate::network;
use crate::prelude::*;
use crate::server::PersonalDownloads;
use crate::tests::{holding, problem_of};
use fedrecsim_core::math::gradient::gradient_check;
use fedrecsim_core::{InvitationId, Round};
use fedrecsim_data::dataset::OwnData;
use fedrecsim_data::dataset::negatives::Samples;
use fedrecsim_model::neural::optimizer::{AdamMoments, AdamSettings, scale};

const USERS: usize = 20;
const ITEMS: usize = 7;
const DIMENSION: usize = 8;
const MEMORY: usize = 6;
const HIDDEN: usize = 9;
const RANK: usize = 3;

/// Makes a network with its start.
fn started(parameters: &MetaMfParameters, problem: &Problem) -> HyperNetwork {
    let shape = HyperShape::new(parameters, problem);
    let values = network::parameters(&start_of(shape.blocks(), Streams::new(2)), 0);
    HyperNetwork {
        shape,
        values,
        starts: problem.starts,
    }
}

fn parameters() -> MetaMfParameters {
    MetaMfParameters {
        latent_dimension: DIMENSION as u32,
        memory_units: MEMORY as u32,
        hidden_units: HIDDEN as u32,
        item_rank: RANK as u32,
        ..MetaMfParameters::default()
    }
}

fn hypernetwork() -> HyperNetwork {
    let (users, items) = (USERS, ITEMS);
    let mut network = started(&parameters(), &problem_of(users, items));
    // Biases are made non-zero, so that their effect on the loss can be seen.
    for (place, value) in network
        .values
        .iter_mut()
        .enumerate()
        .filter(|(_, value)| **value == 0.0)
    {
        *value = 0.05 + 0.01 * (place % 7) as f32;
    }
    network
}

/// Returns the samples of a user, which are item positions with labels. Users have different
/// numbers of samples.
fn samples(user: u32) -> Vec<(u32, bool)> {
    (0..4 + user % 3)
        .map(|number| ((number * 2 + user) % 7, (number + user).is_multiple_of(2)))
        .collect()
}

fn generated(network: &HyperNetwork, user: u32) -> Model {
    network.download(UserId(user)).unwrap()
}

/// Holds the gradients that a device sends, of every item's row and of its network, and its loss.
struct DeviceGradient {
    rows: Vec<f32>,
    network: Vec<f32>,
    loss: f64,
}

fn device_gradient(network: &HyperNetwork, user: u32) -> DeviceGradient {
    let method = Declared::<MetaMf>::new(parameters(), &problem_of(USERS, ITEMS));
    let model = generated(network, user);
    let labelled = samples(user).into_iter();
    let (items, labels) = labelled
        .map(|(item, label)| (item, f32::from(label)))
        .unzip();
    let (samples, names) = (
        Samples { items, labels },
        (UserId(user), Round(0), InvitationId(0)),
    );
    let task = LocalTask::new(names, &model, OwnData::new(&[]), Streams::new(1), f32::MAX);
    let mut client = method.client(UserId(user));
    let sent = client.train(&task, &mut holding(samples)).unwrap();
    let values = |block: &TableUpdate| -> Vec<f32> {
        floats(&block.to_whole_bytes(None).unwrap()).collect()
    };
    let (rows, network) = sent.update.blocks.split_first().unwrap();
    DeviceGradient {
        rows: values(rows),
        network: network.iter().flat_map(values).collect(),
        loss: sent.loss,
    }
}

/// Returns the mean loss over all samples of `users`, as server and devices compute it.
fn mean_loss(network: &HyperNetwork, users: &[u32]) -> f64 {
    let count = |user: u32| samples(user).len() as f64;
    let sum: f64 = users
        .iter()
        .map(|&user| device_gradient(network, user).loss * count(user))
        .sum();
    sum / users.iter().map(|&user| count(user)).sum::<f64>()
}

/// Reads matrices from a flat slice of parameters, one after the other.
struct Reader<'a>(&'a [f64]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> &'a [f64] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    /// Reads a dense layer with its bias, and returns its outputs for the inputs `x`.
    fn layer(&mut self, x: &[f64], outputs: usize) -> Vec<f64> {
        let rows = self.take(x.len() * outputs).chunks_exact(x.len());
        let bias = self.take(outputs);
        rows.zip(bias)
            .map(|(row, bias)| row.iter().zip(x).map(|(w, x)| w * x).sum::<f64>() + bias)
            .collect()
    }

    fn head(&mut self, memory: &[f64], outputs: usize) -> Vec<f64> {
        let hidden: Vec<f64> = self
            .layer(memory, HIDDEN)
            .into_iter()
            .map(|unit| unit.max(0.0))
            .collect();
        self.layer(&hidden, outputs)
    }
}

/// Returns the same mean loss, computed in double precision from the published equations.
fn reference_loss(parameters: &[f64], users: &[u32]) -> f64 {
    let (dimension, memory, item_factors) = (DIMENSION, MEMORY, RANK);
    let (all_users, items) = (USERS, ITEMS);
    let (mut sum, mut count) = (0.0, 0);
    for &user in users {
        let mut reader = Reader(parameters);
        let embedding =
            &reader.take(all_users * dimension)[user as usize * dimension..][..dimension];
        let matrix = reader.take(dimension * memory);
        let column = |j: usize| {
            embedding
                .iter()
                .enumerate()
                .map(|(i, e)| e * matrix[i * memory + j])
                .sum()
        };
        let collaborative: Vec<f64> = (0..memory).map(column).collect();
        let units = dimension / 4;
        let first = reader.head(&collaborative, dimension * units + units);
        let second = reader.head(&collaborative, units + 1);
        let factors = reader.head(
            &collaborative,
            items * item_factors + item_factors * dimension,
        );
        let (left, right) = factors.split_at(items * item_factors);
        for (item, is_positive) in samples(user) {
            let row = &left[item as usize * item_factors..][..item_factors];
            let value = |d: usize| {
                row.iter()
                    .enumerate()
                    .map(|(f, left)| left * right[f * dimension + d])
                    .sum()
            };
            let embedding: Vec<f64> = (0..dimension).map(value).collect();
            let mut network = Reader(&first);
            let unit = network
                .layer(&embedding, units)
                .into_iter()
                .map(|unit| unit.max(0.0));
            let z = Reader(&second).layer(&unit.collect::<Vec<f64>>(), 1)[0];
            sum +=
                z.max(0.0) + libm::log1p(libm::exp(-z.abs())) - if is_positive { z } else { 0.0 };
            count += 1;
        }
    }
    sum / f64::from(count)
}

fn back_propagated(network: &HyperNetwork, users: &[u32]) -> Vec<f32> {
    let gradients: Vec<DeviceGradient> = users
        .iter()
        .map(|&user| device_gradient(network, user))
        .collect();
    let all_items: Vec<u32> = (0..7).collect();
    let contribution = |(user, gradient): (&u32, &DeviceGradient)| {
        // Only the rows of the user's samples have a gradient.
        let mut rows: Vec<u32> = samples(*user).iter().map(|(item, _)| *item).collect();
        rows.sort_unstable();
        rows.dedup();
        assert!(
            all_items
                .iter()
                .filter(|item| !rows.contains(item))
                .all(|item| {
                    gradient.rows[*item as usize * 8..(*item as usize + 1) * 8]
                        .iter()
                        .all(|value| *value == 0.0)
                })
        );
        let weight = samples(*user).len() as f32;
        let weighed = |values: &[f32]| values.iter().map(|value| weight * value).collect();
        let values = rows
            .iter()
            .map(|row| &gradient.rows[*row as usize * 8..][..8]);
        Gradients {
            user: UserId(*user),
            of_rows: weighed(&values.collect::<Vec<_>>().concat()),
            rows,
            of_network: weighed(&gradient.network),
        }
    };
    let contributions: Vec<_> = users.iter().zip(&gradients).map(contribution).collect();
    let mut total = vec![0.0; network.values.len()];
    contributions
        .chunks(GROUP)
        .for_each(|group| network.add_gradient(group, &mut total));
    let samples: usize = users.iter().map(|user| samples(*user).len()).sum();
    scale(&mut total, 1.0 / samples as f32);
    total
}

/// If this fails, the server does not step along the gradient of the devices' loss.
#[test]
fn back_propagation_agrees_with_central_differences() {
    let network = hypernetwork();
    // These are more users than one group of sixteen.
    let users: Vec<u32> = (0..18).collect();
    let gradient = back_propagated(&network, &users);
    let start: Vec<f64> = network
        .values
        .iter()
        .map(|value| f64::from(*value))
        .collect();
    assert!((mean_loss(&network, &users) - reference_loss(&start, &users)).abs() < 1e-6);
    let single: Vec<f64> = gradient.iter().map(|value| f64::from(*value)).collect();
    gradient_check(5e-4, &start, &single, |moved| reference_loss(moved, &users))
        .unwrap_or_else(|wrong| panic!("{wrong}"));
    let checked = gradient.iter().filter(|value| **value != 0.0).count();
    assert!(
        checked > 400,
        "only {checked} of {} gradients are not zero",
        gradient.len()
    );
    let untouched = 18 * 8..20 * 8;
    assert!(
        gradient[untouched].iter().all(|value| *value == 0.0),
        "users that sent nothing have no gradient"
    );
}

/// If this fails, what a user downloads depends on the other users who are invited.
#[test]
fn a_user_gets_the_same_alone_and_in_company() {
    let network = hypernetwork();
    let users: Vec<UserId> = (0..20).map(UserId).collect();
    let together = network.downloads(&users).unwrap();
    for (user, in_company) in (0..20).zip(&together) {
        assert_eq!(generated(&network, user), *in_company, "user {user}");
    }
    assert_ne!(
        together[0], together[1],
        "every user has a model of its own"
    );
    assert_eq!(together[0].table(0).as_slice().len(), 7 * 8);
    assert_eq!(
        network::parameters(&together[0], 1).len(),
        network.shape.prediction.parameters()
    );
}

/// If this fails, the initial parameters are not those of the published code.
#[test]
fn the_start_has_the_published_spread() {
    let (users, items) = (200, 100);
    let network = started(&MetaMfParameters::default(), &problem_of(users, items));
    let spread = |values: &[f32]| {
        (values
            .iter()
            .map(|value| f64::from(*value) * f64::from(*value))
            .sum::<f64>()
            / values.len() as f64)
            .sqrt()
    };
    let (embeddings, rest) = network.values.split_at(200 * 32);
    assert!((spread(embeddings) - 1.0).abs() < 0.03);
    let memory = &rest[..32 * 128];
    assert!((spread(memory) - (2.0f64 / 160.0).sqrt()).abs() < 0.005);
    let heads = [[256, 8], [8, 1], [800, 256]].map(|[a, b]| 128 * 512 + 512 + 513 * (a + b));
    assert_eq!(rest.len() - memory.len(), heads.iter().sum::<usize>());
}

/// If this fails, training from one step to the next does not lower the loss.
#[test]
fn steps_lower_the_loss() {
    let mut network = hypernetwork();
    let users: Vec<u32> = (0..20).collect();
    let before = mean_loss(&network, &users);
    let settings = AdamSettings::with_rate(3e-3);
    let mut moments = AdamMoments::zeros(network.values.len());
    for step in 1..=60 {
        let gradient = back_propagated(&network, &users);
        moments.step(&settings, step, &mut network.values, &gradient);
    }
    let after = mean_loss(&network, &users);
    assert!(after < 0.7 * before, "{before} to {after}");
}

/// If this fails, the virtual time of the server's step no longer follows from the arithmetic that
/// it takes.
#[test]
fn the_work_of_a_contribution_is_that_of_what_it_uses() {
    let network = hypernetwork();
    // The heads of the prediction network (8 to 2 to 1) have 18 and 3 outputs, that of the items 3
    // for a row and 24 for all rows. Each output has 9 inputs, each of the three hidden layers 6
    // times 9, and the memory 8 times 6. Back-propagation takes three times as much as going
    // forward; a row's gradient goes through the 3 x 8 factors and to them.
    let work =
        |rows: u64| 3 * ((18 + 3 + 3 * rows + 24) * 9 + 3 * 6 * 9 + 8 * 6) + 2 * rows * 3 * 8;
    for rows in [0, 1, 5] {
        assert_eq!(
            network.shape.multiply_adds(rows),
            work(rows as u64),
            "{rows} rows"
        );
    }
}
