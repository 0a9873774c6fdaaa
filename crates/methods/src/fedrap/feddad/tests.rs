#![allow(clippy::unwrap_used)]
//! Compares trainings with the specification's example and with plain arithmetic.

use super::*;
use crate::declare::Declared;
use crate::tests::{holding, problem_of, score};
use fedrecsim_core::math::gradient::numeric_gradient;
use fedrecsim_core::{InvitationId, Round};
use fedrecsim_data::dataset::OwnData;
use fedrecsim_data::dataset::negatives::Samples;

fn assert_close(found: impl IntoIterator<Item = f32>, expected: &[f64]) {
    let found: Vec<f32> = found.into_iter().collect();
    let mut pairs = found.iter().zip(expected);
    let is_close = pairs.all(|(a, b)| (f64::from(*a) - b).abs() < 1e-5);
    let is_close = is_close && found.len() == expected.len();
    assert!(is_close, "{found:?}, not {expected:?}");
}

/// Trains the device of the last user in this round, and returns what it makes of a, U, D and C.
fn trained(
    method: &Declared<FedDad>,
    client: &mut dyn Client,
    model: &Model,
    round: u32,
    samples: &Samples,
) -> [Vec<f32>; 4] {
    let user = UserId::from(model.table(1).shape().rows - 1);
    let names = (user, Round(round), InvitationId(round));
    let task = LocalTask::new(names, model, OwnData::new(&[0]), Streams::new(3), 1e6);
    let mut scratch = holding(Samples {
        items: samples.items.clone(),
        labels: samples.labels.clone(),
    });
    let trained = client.train(&task, &mut scratch).unwrap();
    let blocks = &trained.update.blocks;
    let layout = method.upload_layout(Phase::default(), Class::default());
    assert_eq!(blocks.len(), layout.blocks().len());
    let [c, u] = [0, 1].map(|at| blocks[at].apply(Some(model.table(at))).unwrap());
    let a = client.personal_vector().unwrap().unwrap().values;
    let d = client.personal_table().unwrap().unwrap().values;
    [
        a,
        u.as_slice().into(),
        d.as_slice().into(),
        c.as_slice().into(),
    ]
}

/// If this fails, a step is not that of the specification's example.
#[test]
fn a_step_is_that_of_the_example() {
    let parameters = FedDadParameters {
        latent_dimension: 1,
        local_epochs: 1,
        learning_rate_items: 2.0,
        weight_decay: 0.0,
        ..FedDadParameters::default()
    };
    let one = |value| Table::new(TableShape::new(1, 1), vec![value]);
    let starts = [
        ("C", one(0.4)),
        ("U", one(0.1)),
        ("a", one(0.5)),
        ("D", one(0.2)),
    ];
    let method = Declared::<FedDad>::starting_at(parameters, &problem_of(1, 1), &starts);
    let mut client = method.client(UserId(0));
    client.replace_personal_table(one(0.2)).unwrap();
    // Each user draws its own a.
    let a = f64::from(client.personal_vector().unwrap().unwrap().values[0]);
    assert_eq!(a, 0.5);
    let samples = Samples {
        items: vec![0],
        labels: vec![1.0],
    };
    // All penalties are in the loss: -ln .589040 - .1 (.4^2 + .2^2) + .1 (.1 + .4).
    let names = (UserId(0), Round(0), InvitationId(0));
    let model = method.initial();
    let task = LocalTask::new(names, &model, OwnData::new(&[0]), Streams::new(3), 1e6);
    let mut twin = method.client(UserId(0));
    twin.replace_personal_table(one(0.2)).unwrap();
    let mut scratch = holding(Samples {
        items: samples.items.clone(),
        labels: samples.labels.clone(),
    });
    let loss = twin.train(&task, &mut scratch).unwrap().loss;
    assert!((loss - 0.559_261).abs() < 1e-5, "{loss}");
    let found = trained(&method, &mut *client, &model, 0, &samples);
    assert_close(
        found.concat(),
        &[0.663_288, 0.133_288, 0.613_151, 0.773_151],
    );
}

/// If this fails, lambda and mu do not begin anew after the first round, as they do in the code.
#[test]
fn the_second_round_has_no_penalties() {
    let factors = [0, 1, 2, 3].map(|round| 0.1 * Ramp::Tanh.factor(round));
    assert_close(factors, &[0.1, 0.0, 0.009_966_8, 0.019_737_5]);
    assert_eq!([0, 5].map(|round| Ramp::Fixed.factor(round)), [1.0; 2]);
}

const K: usize = 2;
const USERS: usize = 3;
const ITEMS: usize = 4;
/// Where U, D and C begin behind a.
const PLACES: [usize; 4] = [
    K,
    K + K * USERS,
    K * (1 + USERS + ITEMS),
    K * (1 + USERS + 2 * ITEMS),
];

/// Returns the loss of the last user's samples at these a, U, D and C.
fn loss(at: &[f64], samples: &Samples, weight: f64) -> f64 {
    let [of_u, of_d, of_c, _] = PLACES;
    let (a, u) = (&at[..K], &at[of_u + K * (USERS - 1)..][..K]);
    let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / K as f64;
    let mut penalties = mean(&mut u.iter().map(|u| u.abs()))
        - mean(&mut a.iter().zip(u).map(|(a, u)| (a - u) * (a - u)));
    let mut losses = 0.0;
    let samples_of = samples.items.iter().zip(&samples.labels);
    let share = 1.0 / samples.items.len() as f64;
    for (item, label) in samples_of {
        let row = |first: usize| &at[first + K * *item as usize..][..K];
        let (d, c) = (row(of_d), row(of_c));
        let score: f64 = (0..K).map(|i| (a[i] + u[i]) * (d[i] + c[i])).sum();
        let sign = if *label > 0.5 { -1.0 } else { 1.0 };
        losses += share * math::ln_1p(math::exp(sign * score));
        let apart = mean(&mut d.iter().zip(c).map(|(d, c)| (d - c) * (d - c)));
        penalties += share * (mean(&mut c.iter().map(|c| c.abs())) - apart);
    }
    losses + weight * penalties
}

/// If this fails, a device steps elsewhere than down its loss, leaves something out of the decay, or
/// does not score with what it has made.
#[test]
fn steps_are_those_of_plain_arithmetic() {
    let parameters = FedDadParameters {
        latent_dimension: K as u32,
        local_epochs: 3,
        learning_rate_items: 2.0,
        weight_decay: 0.01,
        early_stop_tolerance: 0.0,
        ..FedDadParameters::default()
    };
    let method = Declared::<FedDad>::new(parameters, &problem_of(USERS, ITEMS));
    let user = UserId::from(USERS - 1);
    let mut client = method.client(user);
    let mut model = method.initial();
    let samples = Samples {
        items: vec![0, 2, 3, 2],
        labels: vec![1.0, 0.0, 1.0, 0.0],
    };
    let a = client.personal_vector().unwrap().unwrap().values;
    let d = client.personal_table().unwrap().unwrap().values;
    let parts = [
        &a[..],
        model.table(1).as_slice(),
        d.as_slice(),
        model.table(0).as_slice(),
    ];
    let mut plain: Vec<f64> = parts.concat().into_iter().map(f64::from).collect();
    for round in 0..3 {
        let found = trained(&method, &mut *client, &model, round, &samples);
        let mut rates = [0.5, 2.0].map(|rate: f64| rate * 0.97f64.powi(round as i32));
        let weight = 0.1 * f64::from(Ramp::Tanh.factor(round));
        for _ in 0..3 {
            let gradient = numeric_gradient(&plain, |at| loss(at, &samples, weight));
            for (at, slope) in gradient.iter().enumerate() {
                let rate = rates[usize::from(at >= PLACES[1])];
                plain[at] -= rate * (slope + 0.01 * plain[at]);
            }
            rates = rates.map(|rate| 0.95 * rate);
        }
        assert_close(found.concat(), &plain);
        let shapes = [0, 1].map(|at| model.table(at).shape());
        for (at, values) in [(0, &found[3]), (1, &found[1])] {
            let table = Table::new(shapes[at], values.clone());
            model.set_table(at, table.into()).unwrap();
        }
        let mut scratch = Scratch::default();
        let context = ScoringContext::new(
            user,
            &model,
            OwnData::new(&[]),
            Streams::new(1),
            &mut scratch,
        );
        let scores = score(&*client, context, &[0, 1, 2, 3]);
        let of_item = |item: usize| -> f64 {
            let value = |first: usize, i: usize| plain[PLACES[first] + i];
            let of = |i| {
                let x = plain[i] + value(0, K * (USERS - 1) + i);
                x * (value(1, K * item + i) + value(2, K * item + i))
            };
            (0..K).map(of).sum()
        };
        assert_close(scores, &(0..ITEMS).map(of_item).collect::<Vec<_>>());
    }
}
