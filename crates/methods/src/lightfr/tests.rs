#![allow(clippy::unwrap_used)]
use super::*;
use crate::declare::Declared;
use crate::tests::{problem_of, with_step};
use fedrecsim_core::{InvitationId, Round};
use fedrecsim_data::dataset::OwnData;

fn parameters(regularization: f64) -> LightFr {
    LightFr {
        code_length: 2,
        regularization,
        ..LightFr::default()
    }
}

/// The worked example: d = (1, 1) and (1, -1), both with the target 2, from b = (-1, 1), in seven
/// sweeps at most.
fn swept(hold: f64) -> (Vec<f32>, Vec<f64>, usize) {
    let table = Table::new(TableShape::new(2, 2), vec![1.0, 1.0, 1.0, -1.0]);
    let rated = Rated {
        items: vec![0, 1],
        targets: vec![2.0, 2.0],
    };
    let mut code = vec![-1.0, 1.0];
    let (errors, sweeps) = rated.sweep(&mut code, &table, (hold, 7));
    (code, errors, sweeps)
}

/// Without what holds the bits, the pulls are 6, -2, 2, 2, 2, -2 and so on for ever. If this fails, a
/// device never comes to its end, or bits are held by another weight.
#[test]
fn bits_are_those_of_the_worked_example() {
    // The pulls are 3.6, .4, 4.4 and .4, so that the second sweep changes nothing.
    assert_eq!(swept(2.4), (vec![1.0, 1.0], vec![0.0, 2.0], 2));
    assert_eq!(swept(0.0).2, 7);
}

/// If this fails, ratings ask for other products of codes, or low ones are kept.
#[test]
fn targets_are_those_of_the_scale() {
    let of_five = LightFr {
        lowest_rating: 1.0,
        highest_rating: 5.0,
        ..LightFr::default()
    };
    let targets = [1.0, 2.0, 3.0, 4.0, 5.0, 9.0].map(|rating| of_five.target(rating));
    assert_eq!(targets, [-62.0, -30.0, 1.0, 33.0, 65.0, 65.0]);
    assert_eq!(parameters(0.6).target(1.0), 2.0);
}

/// Returns the bits of two items, (1, -1) and (1, 1), after a step of devices with these codes and
/// items, whose codes are held where they are.
fn bits_after(devices: &[([f32; 2], &[u32])]) -> Vec<f32> {
    let start = Table::new(TableShape::new(2, 2), vec![1.0, -1.0, 1.0, 1.0]);
    let problem = problem_of(devices.len(), 2);
    let method = Declared::<LightFr>::starting_at(parameters(1e6), &problem, &[("d", start)]);
    let mut server = method.server();
    let received = server.model().clone();
    let mut sums = server.accumulator();
    for (user, (code, items)) in (0..).zip(devices) {
        let names = (UserId(user), Round(0), InvitationId(0));
        let task = LocalTask::new(names, &received, OwnData::new(items), problem.streams, 1e6);
        let mut own = method.own(UserId(user));
        own.get_mut("b").copy_from_slice(code);
        let trained = method
            .declared()
            .train(&mut own, &task, &mut Scratch::default())
            .unwrap();
        assert_eq!(own.get("b"), code, "what holds the bits is too weak");
        let sent = Contribution::fresh(names.0, names.2, &trained.update, &received);
        sums.absorb(&[sent]).unwrap();
    }
    with_step(0, |step| server.step(sums, step)).unwrap();
    server.model().table(0).as_slice().to_vec()
}

/// A device whose code is as the item's has the target as the product, and pulls at nothing; the
/// opposite one is four away from it, and pulls by (-4, 4). If this fails, the server divides by
/// another number than that of the participants, or has the opposite sign.
#[test]
fn the_server_takes_the_signs_of_pulls_and_bits() {
    let (same, opposite, other) = ([1.0, -1.0], [-1.0, 1.0], [1.0, 1.0]);
    let two = [(same, &[0][..]), (opposite, &[0])];
    // The mean pull is (-2, 2), and (1, -1) holds against it.
    assert_eq!(bits_after(&two), [-1.0, 1.0, 1.0, 1.0]);
    // Three devices have rated the item, and 4/3 would be enough. The mean over five is not.
    let more = [(same, &[0][..]), (other, &[1]), (other, &[1])];
    assert_eq!(
        bits_after(&[&two[..], &more].concat()),
        [1.0, -1.0, 1.0, 1.0]
    );
}
