#![allow(clippy::unwrap_used)]

use super::gradient::{Gradient, LocalData};
use super::graph::{GraphNetwork, ITEM, OUTPUT, OWN as OWN_LAYER, Predictor, USER, layers};
use super::matching::Matchmaker;
use super::{FedPerGnnParameters, upload};
use crate::third_party::{ArrivedRequest, ThirdParty};
use crate::{LocalTask, Phase};
use fedrecsim_core::math::gradient::gradient_check;
use fedrecsim_core::{InvitationId, PortableDraws, Streams, UserId};
use fedrecsim_data::dataset::OwnData;
use fedrecsim_model::table::{TableShape, floats};
use fedrecsim_model::{Model, ModelUpdate};

/// The length of embeddings in these tests.
const K: usize = 3;

/// The device's rated items; three of them are its own items of the graph.
const OWN: [u32; 3] = [4, 0, 2];
const LABELS: [f32; 5] = [0.2, 1.0, 0.6, 0.0, 0.8];

/// Returns numbers from U(-1, 1).
fn numbers(name: &str, count: usize) -> Vec<f32> {
    let mut stream = Streams::new(3).named(name, 0, 0);
    (0..count)
        .map(|_| stream.uniform_within(1.0) as f32)
        .collect()
}

/// Returns the neighbours of the own items; the second item has none.
fn neighbours() -> Vec<Vec<f32>> {
    let values = numbers("neighbours", 6 * K);
    let (first, third) = values.split_at(2 * K);
    vec![first.to_vec(), Vec::new(), third.to_vec()]
}

/// Returns factors of dropout for every label, about a fifth of them zero.
fn dropout() -> Vec<f32> {
    numbers("dropout", 2 * K * LABELS.len())
        .iter()
        .map(|draw| if *draw < -0.6 { 0.0 } else { 1.25 })
        .collect()
}

/// Reads the parameters of dense layers from a flat slice, one after the other.
struct Reader<'a>(&'a [f64]);

/// A dense layer: its weights, row after row, and its bias.
struct Dense<'a>(Vec<&'a [f64]>, &'a [f64]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> &'a [f64] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    fn layer(&mut self, inputs: usize, outputs: usize) -> Dense<'a> {
        let weights = self.take(inputs * outputs).chunks_exact(inputs).collect();
        Dense(weights, self.take(outputs))
    }
}

impl Dense<'_> {
    fn apply(&self, x: &[f64]) -> Vec<f64> {
        let rows = self.0.iter().zip(self.1);
        rows.map(|(row, bias)| row.iter().zip(x).map(|(w, x)| w * x).sum::<f64>() + bias)
            .collect()
    }

    fn activated(&self, x: &[f64]) -> Vec<f64> {
        self.apply(x).into_iter().map(logistic).collect()
    }
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-x))
}

fn leaky(x: f64) -> f64 {
    if x < 0.0 { 0.3 * x } else { x }
}

fn weighted(vectors: &[Vec<f64>], weights: &[f64]) -> Vec<f64> {
    (0..K)
        .map(|at| {
            vectors
                .iter()
                .zip(weights)
                .map(|(vector, weight)| weight * vector[at])
                .sum()
        })
        .collect()
}

/// Returns a network whose parameters are drawn.
fn network(predictor: Predictor) -> GraphNetwork {
    let count = layers(K, predictor)[OUTPUT].bias.end;
    GraphNetwork::new(K, predictor, numbers("parameters", count))
}

/// Returns the mean squared error in double precision, from the equations of the published network
/// one after the other.
fn reference_loss(
    flat: &[f64],
    predictor: Predictor,
    neighbours: &[Vec<f32>],
    dropout: &[f32],
) -> f64 {
    let mut reader = Reader(flat);
    let user = reader.take(K).to_vec();
    let rows: Vec<&[f64]> = reader.take(LABELS.len() * K).chunks_exact(K).collect();
    let [neighbour, own] = [0, 1].map(|_| reader.layer(K, K));
    let to_neighbour = reader.layer(2 * K, 1);
    let aggregate = reader.layer(2 * K, K);
    let [of_user, of_item] = [0, 1].map(|_| reader.layer(K, K));
    let to_item = reader.layer(2 * K, 1);
    let expanded = reader.layer(2 * K, K);
    let output = reader.layer(
        if predictor == Predictor::Product {
            K
        } else {
            2 * K
        },
        1,
    );
    assert!(reader.0.is_empty());

    let own: Vec<Vec<f64>> = OWN
        .iter()
        .map(|item| own.activated(rows[*item as usize]))
        .collect();
    let states = own.iter().zip(neighbours).map(|(own, embeddings)| {
        let known = embeddings
            .chunks_exact(K)
            .map(|one| one.iter().map(|x| f64::from(*x)).collect::<Vec<_>>());
        let known: Vec<Vec<f64>> = known.map(|embedding| neighbour.apply(&embedding)).collect();
        let attention = known
            .iter()
            .map(|one| leaky(to_neighbour.apply(&[&own[..], one].concat())[0]));
        let attention: Vec<f64> = attention.collect();
        aggregate.apply(&[&weighted(&known, &attention)[..], own].concat())
    });
    let states: Vec<Vec<f64>> = states.collect();
    let mut loss = 0.0;
    for (sample, label) in LABELS.iter().enumerate() {
        let factors = |part: usize| {
            let place = (2 * sample + part) * K;
            (0..K).map(move |at| {
                dropout
                    .get(place + at)
                    .map_or(1.0, |factor| f64::from(*factor))
            })
        };
        let dropped = |values: Vec<f64>, part| -> Vec<f64> {
            values
                .iter()
                .zip(factors(part))
                .map(|(v, f)| v * f)
                .collect()
        };
        let (user, item) = (
            dropped(of_user.activated(&user), 0),
            dropped(of_item.activated(rows[sample]), 1),
        );
        let logits = states
            .iter()
            .map(|state| libm::exp(leaky(to_item.apply(&[&user[..], state].concat())[0])));
        let attention: Vec<f64> = logits.collect();
        let sum: f64 = attention.iter().sum();
        let attention: Vec<f64> = attention.iter().map(|value| value / sum).collect();
        let vector = expanded.apply(&[weighted(&own, &attention), user].concat());
        let features = match predictor {
            Predictor::PublishedCode => [vector, item].concat(),
            Predictor::Product => vector.iter().zip(&item).map(|(a, b)| a * b).collect(),
        };
        let error = logistic(output.apply(&features)[0]) - f64::from(*label);
        loss += error * error;
    }
    loss / LABELS.len() as f64
}

/// If this fails, a device or the server does not step along the gradient of the device's loss.
#[test]
fn the_gradient_agrees_with_central_differences() {
    for predictor in [Predictor::PublishedCode, Predictor::Product] {
        for (neighbours, dropout) in [
            (neighbours(), Vec::new()),
            (neighbours(), dropout()),
            (vec![Vec::new(); 3], Vec::new()),
        ] {
            let network = network(predictor);
            let (user, rows) = (numbers("user", K), numbers("rows", LABELS.len() * K));
            let local = LocalData {
                user: &user,
                rows: &rows,
                labels: &LABELS,
                own: &OWN,
                neighbours: &neighbours,
                dropout: &dropout,
            };
            let (
                Gradient {
                    user: by_user,
                    rows: by_rows,
                    network: by_network,
                    loss,
                },
                _,
            ) = local.gradient(&network);
            let double = |parts: [&[f32]; 3]| -> Vec<f64> {
                parts.concat().iter().map(|x| f64::from(*x)).collect()
            };
            let start = double([&user, &rows, &network.values]);
            let reference = |at: &[f64]| reference_loss(at, predictor, &neighbours, &dropout);
            assert!(
                (loss - reference(&start)).abs() < 1e-6,
                "{predictor:?}: {loss} and {}",
                reference(&start)
            );
            let found = double([&by_user, &by_rows, &by_network]);
            gradient_check(1e-3, &start, &found, reference).unwrap_or_else(|wrong| {
                panic!(
                    "{predictor:?}, {} neighbours: {wrong}",
                    neighbours.concat().len() / K
                )
            });
        }
    }
}

/// Returns the outputs for all rated items of a device with this embedding, with what it has
/// gathered.
fn outputs(predictor: Predictor, user: &[f32]) -> Vec<f32> {
    let (network, rows) = (network(predictor), numbers("rows", 5 * K));
    let own = rows[..3 * K].chunks_exact(K);
    let own: Vec<Vec<f32>> = own.map(|row| network.activated(OWN_LAYER, row)).collect();
    let expansion = network.expand(&own, &network.gather(&own, &neighbours()));
    let user = network.expand_user(&expansion, &network.activated(USER, user));
    let item = |row: &[f32]| network.activated(ITEM, row);
    let output = |row| network.output(&network.features(&user.vector, &item(row)));
    rows.chunks_exact(K).map(output).collect()
}

/// If this fails, one of the predictors is the other one, and reports on the published code are not
/// about it.
#[test]
fn the_published_predictor_orders_items_alike_for_everybody_and_the_product_does_not() {
    let order = |predictor, user: &[f32]| {
        let outputs = outputs(predictor, user);
        let mut items: Vec<usize> = (0..outputs.len()).collect();
        items.sort_by(|a, b| outputs[*a].total_cmp(&outputs[*b]));
        items
    };
    let users: Vec<Vec<f32>> = (0..20)
        .map(|user| numbers(&format!("user {user}"), K).repeat(1))
        .collect();
    let distinct = |predictor| {
        let orders = users
            .iter()
            .map(|user| order(predictor, &user.iter().map(|x| 8.0 * x).collect::<Vec<_>>()));
        orders.collect::<std::collections::BTreeSet<_>>().len()
    };
    assert_eq!(distinct(Predictor::PublishedCode), 1);
    assert!(distinct(Predictor::Product) > 1);
}

fn sizes() -> FedPerGnnParameters {
    FedPerGnnParameters {
        own_items: 4,
        neighbours_per_item: 2,
        latent_dimension: K as u32,
        ..FedPerGnnParameters::default()
    }
}

const KEY: [u8; 32] = [7; 32];

fn request_of(user: u32, invitation: u32, update: &ModelUpdate) -> ArrivedRequest<'_> {
    ArrivedRequest {
        user: UserId(user),
        invitation_id: InvitationId(invitation),
        phase: Phase::default(),
        update,
    }
}

/// Returns a third party that these users, with these items each, have asked; a user's embedding
/// repeats its number.
fn matchmaker(users: &[(u32, &[u32])]) -> Matchmaker {
    let mut third_party = Matchmaker::new(sizes(), Streams::new(1));
    for (user, items) in users {
        let request = sizes().request(&KEY, items, vec![*user as f32; K]);
        let arrived = request_of(*user, 0, &request);
        third_party.absorb(&[arrived]).unwrap();
    }
    third_party
}

/// Returns the users whose embeddings `user` is sent for each of `items`.
fn told(third_party: &Matchmaker, user: u32, items: &[u32], invitation: u32) -> Vec<Vec<u32>> {
    let request = sizes().request(&KEY, items, vec![0.5; K]);
    let arrived = request_of(user, invitation, &request);
    let reply = third_party.reply(&arrived).unwrap();
    let found = sizes().neighbours_in(Some(&reply.update), items.len());
    let told = found.concat().len() / K;
    assert_eq!(reply.work.row_visits as usize, told);
    let users = |embeddings: &Vec<f32>| {
        let embeddings = embeddings.chunks_exact(K);
        embeddings.map(|embedding| embedding[0] as u32).collect()
    };
    found.iter().map(users).collect()
}

/// If this fails, a device is told of users who share no item with it, of itself, or of more users
/// than it may.
#[test]
fn the_third_party_finds_the_others_who_asked_for_an_item() {
    let third_party = matchmaker(&[
        (1, &[5, 6]),
        (2, &[6, 7, 9]),
        (3, &[7]),
        (4, &[6]),
        (5, &[6]),
    ]);
    let found = told(&third_party, 1, &[6, 5, 7, 8], 0);
    assert_eq!(
        (&found[1], found[3].len()),
        (&vec![], 0),
        "nobody else has asked for 5, and nobody for 8"
    );
    let mut of_seven = found[2].clone();
    of_seven.sort_unstable();
    assert_eq!(of_seven, [2, 3]);
    let drawn = (0..60).map(|invitation| told(&third_party, 1, &[6], invitation).remove(0));
    let drawn: std::collections::BTreeSet<Vec<u32>> = drawn.collect();
    let all = [[2, 4], [4, 2], [2, 5], [5, 2], [4, 5], [5, 4]].map(Vec::from);
    assert_eq!(
        drawn,
        all.into(),
        "every pair of the three others in every order"
    );
}

/// If this fails, the third party reads from a request which items a device has.
#[test]
fn pseudonyms_are_no_item_numbers_and_differ_by_key() {
    let words = |key: [u8; 32]| -> Vec<u8> {
        sizes().request(&key, &[0, 1, 2], vec![0.0; K]).blocks[0]
            .values
            .to_vec()
    };
    let items: Vec<u64> = words(KEY)
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
        .collect();
    assert!(items.iter().all(|item| *item > 1_000), "{items:?}");
    assert_eq!(words(KEY), words(KEY));
    assert_ne!(words(KEY), words([8; 32]));
}

/// Returns the update of the item table of a task with three rated rows of twenty, with these
/// parameters.
fn update_of_items(parameters: &FedPerGnnParameters) -> ModelUpdate {
    let names = (UserId(0), fedrecsim_core::Round(0), InvitationId(0));
    let model = Model::none();
    let task = LocalTask::new(names, &model, OwnData::new(&[]), Streams::new(1), 1e6);
    let shape = TableShape {
        rows: 20,
        dimension: K,
    };
    let gradients = [1.0, 2.0, 3.0, -1.0, -2.0, -3.0, 0.5, 0.5, 0.5];
    ModelUpdate::of_table(
        upload::of_items(parameters, &task, shape, (&[3, 7, 11], &gradients)).unwrap(),
    )
}

/// If this fails, the rows of an upload tell which items a user has rated, or the gradients of
/// these are spoilt where no noise was asked for.
#[test]
fn rated_rows_are_hidden_among_as_many_others_as_asked_for() {
    let parameters = FedPerGnnParameters {
        epsilon: 0.0,
        pseudo_items: 10,
        ..FedPerGnnParameters::default()
    };
    let sent = update_of_items(&parameters).blocks.remove(0);
    let rows: Vec<(usize, Vec<f32>)> = sent
        .iter()
        .map(|(row, bytes)| (row, floats(bytes).collect()))
        .collect();
    assert_eq!(rows.len(), 13);
    let of = |item: usize| rows.iter().find(|(row, _)| *row == item).unwrap().1.clone();
    assert_eq!(
        [of(3), of(7), of(11)].concat(),
        [1.0, 2.0, 3.0, -1.0, -2.0, -3.0, 0.5, 0.5, 0.5]
    );
    let others = rows
        .iter()
        .filter(|(row, _)| ![3, 7, 11].contains(row))
        .flat_map(|(_, values)| values);
    let squares: Vec<f32> = others.map(|value| value * value).collect();
    let spread = squares.iter().sum::<f32>() / squares.len() as f32;
    // The rated rows have a standard deviation of 1.8.
    assert!((0.8..8.0).contains(&spread), "{spread}");
    assert_eq!(
        update_of_items(&FedPerGnnParameters {
            pseudo_items: 1_000,
            ..parameters
        })
        .blocks[0]
            .iter()
            .count(),
        20
    );
}

/// If this fails, the noise on gradients is not that of the published code.
#[test]
fn noise_has_the_scale_that_epsilon_and_the_norm_give() {
    let noisy = FedPerGnnParameters {
        pseudo_items: 0,
        epsilon: 0.5,
        clip_norm: 3.0,
        ..FedPerGnnParameters::default()
    };
    assert_eq!(
        (
            noisy.gradient_noise(),
            FedPerGnnParameters {
                epsilon: 0.0,
                ..noisy.clone()
            }
            .gradient_noise()
        ),
        (12.0, 0.0)
    );
    // Where 32 devices send it and the server takes their mean at the rate, the published scale is
    // that of the weights.
    let published = FedPerGnnParameters::default();
    let of_mean = published.learning_rate * published.gradient_noise() / f64::sqrt(32.0);
    assert!((of_mean - 0.01 * 2.0 * 0.1 / f64::sqrt(32.0)).abs() < 1e-12);
    let values: Vec<f32> = floats(&update_of_items(&noisy).blocks[0].values).collect();
    assert!(values.iter().any(|value| value.abs() > 6.0), "{values:?}");
    let mut many = vec![0.0; 20_000];
    upload::add_noise(
        &mut many,
        noisy.gradient_noise(),
        Streams::new(1).named("test", 0, 0),
    );
    let magnitude =
        many.iter().map(|value| f64::from(value.abs())).sum::<f64>() / many.len() as f64;
    assert!((11.5..12.5).contains(&magnitude), "{magnitude}");
}

/// If this fails, a device's gradient is larger than the noise is made for, or another direction.
#[test]
fn all_parts_of_a_gradient_are_clipped_together() {
    let mut gradient = Gradient {
        user: vec![3.0],
        rows: vec![0.0, 4.0],
        network: vec![12.0],
        loss: 1.0,
    };
    gradient.clip(13.5);
    assert_eq!(
        (gradient.user[0], gradient.rows[1], gradient.network[0]),
        (3.0, 4.0, 12.0)
    );
    gradient.clip(1.3);
    for (found, expected) in [
        (gradient.user[0], 0.3),
        (gradient.rows[1], 0.4),
        (gradient.network[0], 1.2),
    ] {
        assert!(
            (found - expected).abs() < 1e-5,
            "{found} and not {expected}"
        );
    }
}

/// If this fails, `as_published_labels` does not show what the published preprocessing does to
/// ratings.
#[test]
fn the_published_preprocessing_makes_every_star_rating_zero() {
    let proper = FedPerGnnParameters::default();
    let published = FedPerGnnParameters {
        as_published_labels: true,
        ..proper.clone()
    };
    for (rating, label) in [(1.0, 0.2), (3.0, 0.6), (5.0, 1.0)] {
        assert_eq!(
            (proper.label(rating), published.label(rating)),
            (label, 0.0)
        );
    }
    assert_eq!(
        (published.label(100.0), proper.scale(), published.scale()),
        (1.0, 5.0, 100.0)
    );
}
