#![allow(clippy::unwrap_used)]
use super::*;
use crate::declare::Declared;
use crate::tests::{problem_of, score, with_step};
use fedrecsim_core::{InvitationId, Round, Streams};
use fedrecsim_data::dataset::OwnData;

const USERS: [&[u32]; 2] = [&[0, 1], &[1, 2]];

/// Returns the model after this many rounds of both users.
fn after(parameters: &PriviRec, rounds: u32) -> (Declared<PriviRec>, Model) {
    let method = Declared::<PriviRec>::new(parameters.clone(), &problem_of(2, 3));
    let (mut server, mut scratch) = (method.server(), Scratch::default());
    for round in 0..rounds {
        let received = server.model().clone();
        let mut sums = server.accumulator();
        for (user, items) in (0..).map(UserId).zip(USERS) {
            let names = (user, Round(round), InvitationId(round));
            let task = LocalTask::new(names, &received, OwnData::new(items), Streams::new(1), 1e6);
            let trained = method.client(user).train(&task, &mut scratch).unwrap();
            let sent = Contribution::fresh(user, InvitationId(round), &trained.update, &received);
            sums.absorb(&[sent]).unwrap();
        }
        with_step(round, |step| server.step(sums, step)).unwrap();
    }
    let model = server.model().clone();
    (method, model)
}

/// Returns the scores of all items for the first user.
fn scores(parameters: &PriviRec, rounds: u32) -> Vec<f32> {
    let (method, model) = after(parameters, rounds);
    let scratch = &mut Scratch::default();
    let own = OwnData::new(USERS[0]);
    let context = ScoringContext::new(UserId(0), &model, own, Streams::new(1), scratch);
    score(&*method.client(UserId(0)), context, &[0, 1, 2])
}

/// The worked example: users (1, 1, 0) and (0, 1, 1) have N with the singular values 1 and .7071, and
/// the first right singular vector (.5, .7071, .5). If this fails, the graph, the filter or a degree
/// enters scores in another way.
#[test]
fn scores_are_those_of_the_worked_example() {
    for sends_counts in [false, true] {
        let of_rank = |latent_dimension, low_pass_weight| PriviRec {
            latent_dimension,
            low_pass_weight,
            sends_counts,
            coverage: 0.3,
            ..PriviRec::default()
        };
        for (parameters, expected) in [
            (of_rank(1, 0.3), [0.753_553, 1.153_553, 0.753_553]),
            // All three vectors make the whole graph: rows of N^T N, and an identity that passes all.
            (of_rank(3, 0.0), [0.853_553, 0.853_553, 0.353_553]),
        ] {
            let found = scores(&parameters, 30);
            for (found, expected) in found.iter().zip(expected) {
                assert!((found - expected).abs() < 1e-4, "{found} for {expected}");
            }
        }
    }
}

/// V has orthonormal columns and D shortens its rows, so that the sum of n rows of A is no longer than
/// the root of n. A device sends an nth of it, n times. If this fails, one user can move the sum of
/// uploads further than by 1.
#[test]
fn no_user_sends_more_than_the_bound() {
    let (method, model) = after(
        &PriviRec {
            coverage: 0.3,
            ..PriviRec::default()
        },
        0,
    );
    for items in [&[2][..], &[0, 1], &[0, 1, 2]] {
        let names = (UserId(0), Round(0), InvitationId(0));
        let task = LocalTask::new(names, &model, OwnData::new(items), Streams::new(1), 1e6);
        let client = &mut method.client(UserId(0));
        let update = client.train(&task, &mut Scratch::default()).unwrap().update;
        let squares = floats(&update.blocks[0].values).map(|value| f64::from(value).powi(2));
        let length = squares.sum::<f64>().sqrt();
        assert!(length <= 1.0 + 1e-6, "{length} of {items:?}");
    }
}

/// If this fails, a graph whose rank is that of the model is not found from any start in a step, or
/// with another number of users the low-pass filter has another weight.
#[test]
fn one_step_finds_a_graph_of_the_same_rank() {
    let parameters = PriviRec {
        latent_dimension: 2,
        coverage: 0.3,
        ..PriviRec::default()
    };
    let (once, often) = (scores(&parameters, 1), scores(&parameters, 9));
    for (once, often) in once.iter().zip(&often) {
        assert!((once - often).abs() < 1e-5, "{once} and {often}");
    }
}
