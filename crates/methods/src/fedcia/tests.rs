#![allow(clippy::unwrap_used)]
use super::filter::filter;
use super::gsp::FedCiaGsp;
use super::*;
use crate::declare::Declared;
use crate::tests::{holding, problem_of, score, with_step};
use fedrecsim_core::math::gradient::gradient_check;
use fedrecsim_core::{InvitationId, Round, Streams};
use fedrecsim_data::dataset::OwnData;
use fedrecsim_data::dataset::negatives::Samples;

fn close(found: impl IntoIterator<Item = f64>, expected: &[f64]) {
    let found: Vec<f64> = found.into_iter().collect();
    assert_eq!(found.len(), expected.len());
    for (one, other) in found.iter().zip(expected) {
        assert!((one - other).abs() < 1e-5, "{found:?} for {expected:?}");
    }
}

fn table(rows: usize, values: &[f32]) -> Table {
    Table::new(TableShape::new(rows, values.len() / rows), values.to_vec())
}

/// Trains two users of three items for a round, compares the model with the mean of what they send, which
/// has the opposite `sign` where it is a gradient, and returns the scores of the first one.
fn after_a_round<M: Declare>(
    (method, sign): (&Declared<M>, f64),
    users: [(&[u32], Samples); 2],
) -> Vec<f32> {
    let mut server = method.server();
    let received = server.model().clone();
    let mut sums = server.accumulator();
    let mut clients = [0, 1].map(|user| method.client(UserId(user)));
    let own = OwnData::new(users[0].0);
    let mut means = vec![0.0; 9];
    for ((items, samples), (number, client)) in users.into_iter().zip((0..).zip(&mut clients)) {
        let names = (UserId(number), Round(0), InvitationId(0));
        let task = LocalTask::new(names, &received, OwnData::new(items), Streams::new(1), 1e6);
        let trained = client.train(&task, &mut holding(samples)).unwrap();
        let (user, id) = (names.0, names.2);
        let sent = trained.update.blocks[0].apply(None).unwrap();
        let values = means.iter_mut().zip(sent.as_slice());
        values.for_each(|(mean, value)| *mean += sign * f64::from(*value) / 2.0);
        sums.absorb(&[Contribution::fresh(user, id, &trained.update, &received)])
            .unwrap();
    }
    with_step(0, |step| server.step(sums, step)).unwrap();
    let found = server.model().table(0).as_slice();
    close(found.iter().copied().map(f64::from), &means);
    let (model, scratch) = (server.model().clone(), &mut Scratch::default());
    let context = ScoringContext::new(UserId(0), &model, own, Streams::new(1), scratch);
    score(&*clients[0], context, &[0, 1, 2])
}

/// The worked example: users (1, 1, 0) and (0, 1, 1) on one client. If this fails, a degree, the
/// low-pass filter or its scaling enters the filter in another way.
#[test]
fn the_filter_of_several_users_is_that_of_the_worked_example() {
    let found = filter(&[&[0, 1], &[1, 2]], 1, 0.3).unwrap();
    assert_eq!(found.items, [0, 1, 2]);
    close(found.values.row(0).to_vec(), &[0.575, 0.503_553, 0.075]);
    let scores = &found.values.row(0) + &found.values.row(1);
    close(scores, &[1.003_553, 1.153_553, 0.503_553]);
    // Vectors beyond the rank are members of the null space, and are not taken.
    let [two, many] = [2, 32].map(|vectors| filter(&[&[0, 1], &[1, 2]], vectors, 0.3).unwrap());
    assert_eq!(two.values, many.values);
}

/// Filters have (1 + w) / n between a user's n items, .65 here, and the mean of both is F. If this
/// fails, the server adds something to F that it had before, divides by another number, or a device
/// scores with another row of it.
#[test]
fn scores_of_the_mean_filter_are_those_by_hand() {
    let method = Declared::<FedCiaGsp>::new(FedCiaGsp::default(), &problem_of(2, 3));
    let users = [&[0, 1][..], &[1, 2]].map(|items| (items, Samples::default()));
    let scores = after_a_round((&method, -1.0), users)
        .into_iter()
        .map(f64::from);
    close(
        scores,
        &[60.0 * 0.65 + 1.3, 60.0 * 0.975 + 1.3, 60.0 * 0.325],
    );
}

/// If this fails, one user can move a sum of filters further than by 1 + w, whatever it has rated.
#[test]
fn no_user_sends_a_longer_filter_than_the_bound() {
    for items in [&[2][..], &[0, 1], &[0, 1, 2, 3, 4, 5, 6]] {
        let found = filter(&[items], 1, 0.3).unwrap();
        let squares: f64 = found.values.iter().map(|value| value * value).sum();
        close([squares.sqrt()], &[1.3]);
    }
}

/// The worked example. If this fails, tables move towards similarities at another rate, or along the
/// square of the distance.
#[test]
fn a_step_of_the_alignment_is_that_of_the_worked_example() {
    let (start, s) = (
        table(2, &[1.0, 0.0, 0.0, 1.0]),
        table(2, &[1.0, 0.5, 0.5, 1.0]),
    );
    let mut moved = start.clone();
    align(&mut moved, &s, 1, [0.1, 0.0]);
    let values = |table: &Table| Vec::from_iter(table.as_slice().iter().copied().map(f64::from));
    close(values(&moved), &[1.0, 0.141_421, 0.141_421, 1.0]);
    for nothing in [table(2, &[0.0; 4]), similarity(&start).0] {
        let mut same = start.clone();
        align(&mut same, &nothing, 5, [0.1, 0.5]);
        assert_eq!(
            same.as_slice(),
            start.as_slice(),
            "there is nothing to move to"
        );
    }
}

/// If this fails, an alignment descends along something else than the distance, with weight decay. The
/// similarity is not symmetric, as one with noise is.
#[test]
fn an_alignment_descends_along_the_distance() {
    let v: Vec<f32> = (0u8..6).map(|at| 0.3 * f32::from(at) - 0.7).collect();
    let s = [1.0, 0.2, -0.4, 0.6, 0.8, 0.1, 0.0, -0.3, 1.5];
    let (start, rate, decay) = (table(3, &v), 1e-3, 0.2);
    let mut moved = start.clone();
    align(&mut moved, &table(3, &s), 1, [rate, decay]);
    let steps = start.as_slice().iter().zip(moved.as_slice());
    let gradient: Vec<f64> = steps.map(|(a, b)| f64::from(a - b) / rate).collect();
    let loss = |v: &[f64]| {
        let product = |i: usize, j: usize| v[2 * i] * v[2 * j] + v[2 * i + 1] * v[2 * j + 1];
        let error = |at: usize| product(at / 3, at % 3) - f64::from(s[at]);
        let squares: f64 = (0..9).map(|at| error(at).powi(2)).sum();
        squares.sqrt() + decay / 2.0 * v.iter().map(|v| v * v).sum::<f64>()
    };
    let at: Vec<f64> = v.iter().copied().map(f64::from).collect();
    gradient_check(2e-3, &at, &gradient, loss).unwrap();
}

/// If this fails, the slopes are not those of the stated loss, in one of its two forms.
#[test]
fn slopes_are_those_of_both_objectives() {
    let (k, decay) = (2, 0.1);
    let parameters = [0.4f32, -0.9, 1.2, 0.3, -0.5, 0.8, 0.7, -0.2];
    let pairs = [(0, 1), (2, 1)];
    for objective in [Objective::PublishedCode, Objective::Paper] {
        let of_loss = |at: &[f64]| {
            let row = |row: u32| &at[k * (row as usize + 1)..][..k];
            let length = |row: &[f64]| row.iter().map(|value| value * value).sum::<f64>();
            let error = |item: u32, label: f64| {
                let products = at[..k].iter().zip(row(item)).map(|(u, v)| u * v);
                match objective {
                    Objective::PublishedCode => {
                        products
                            .map(|product| (product - label).powi(2))
                            .sum::<f64>()
                            / k as f64
                    }
                    Objective::Paper => (products.sum::<f64>() - label).powi(2),
                }
            };
            let of_pair = |(positive, negative): &(u32, u32)| {
                let rows = length(row(*positive)) + length(row(*negative));
                let errors = error(*positive, 1.0) + error(*negative, 0.0);
                (errors + decay * (length(&at[..k]) + rows)) / 4.0
            };
            pairs.iter().map(of_pair).sum()
        };
        let mut gradient = vec![0.0; parameters.len()];
        let goal = (objective, decay as f32);
        let loss = slopes(goal, (k, &parameters), &pairs, &mut gradient);
        let [at, gradient] = [&parameters[..], &gradient].map(|values| {
            let values = values.iter().copied().map(f64::from);
            values.collect::<Vec<f64>>()
        });
        close([f64::from(loss)], &[of_loss(&at)]);
        gradient_check(1e-3, &at, &gradient, of_loss).unwrap();
    }
}

/// If this fails, Adam starts anew in every participation, or a device forgets its table.
#[test]
fn a_device_goes_on_from_its_table_and_moments() {
    let parameters = FedCia {
        latent_dimension: 2,
        weight_decay: 0.0,
        learning_rate: 0.1,
        ..FedCia::default()
    };
    let method = Declared::<FedCia>::new(parameters, &problem_of(2, 3));
    let samples = Samples {
        items: vec![0, 2],
        labels: vec![1.0, 0.0],
    };
    let mut own = method.own(UserId(0));
    let start = own.get("u").to_vec();
    let mut lengths = Vec::new();
    for round in 0..3 {
        let names = (UserId(0), Round(round), InvitationId(round));
        let model = method.initial();
        let task = LocalTask::new(names, &model, OwnData::new(&[0]), Streams::new(1), 1e6);
        let (before, mut scratch) = (own.get("u").to_vec(), holding(samples.clone()));
        method
            .declared()
            .train(&mut own, &task, &mut scratch)
            .unwrap();
        lengths.push(f64::from((own.get("u")[0] - before[0]).abs()));
    }
    // The first step of Adam has the length of the rate. Those after it have it only if it starts anew.
    close([lengths[0]], &[0.1]);
    assert!((lengths[2] - 0.1).abs() > 1e-4, "{lengths:?}");
    assert_eq!(own.get("steps"), [3.0]);
    assert!(own.get("u") != start);
}

/// If this fails, devices do not get the mean of what both have sent, or score with a table that is
/// not moved towards it.
#[test]
fn a_device_scores_with_the_aligned_table() {
    let score_of = |alignment_steps| {
        let parameters = FedCia {
            latent_dimension: 2,
            alignment_steps,
            ..FedCia::default()
        };
        let method = Declared::<FedCia>::new(parameters, &problem_of(2, 3));
        let samples = |items: [u32; 2]| Samples {
            items: items.to_vec(),
            labels: vec![1.0, 0.0],
        };
        after_a_round(
            (&method, 1.0),
            [(&[0], samples([0, 1])), (&[2], samples([2, 1]))],
        )
    };
    let (moved, left) = (score_of(1), score_of(0));
    assert!(moved.iter().zip(&left).all(|(one, other)| one != other));
}
