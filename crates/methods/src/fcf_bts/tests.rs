#![allow(clippy::unwrap_used)]
use std::cell::RefCell;

use super::bandit::Bandit;
use super::server::{ChoosingServer, change};
use super::*;
use crate::declare::Declared;
use crate::server::Download;
use crate::tests::{problem_of, with_step};
use fedrecsim_core::{InvitationId, Round};
use fedrecsim_data::dataset::OwnData;
use fedrecsim_model::archive::{Archive, ArchiveReader};

fn method(parameters: FcfBtsParameters) -> Declared<FcfBts> {
    Declared::new(parameters, &problem_of(2, 10))
}

fn small(row_share: f64) -> FcfBtsParameters {
    FcfBtsParameters {
        latent_dimension: 3,
        regularization: 0.5,
        row_share,
        ..FcfBtsParameters::default()
    }
}

/// Returns what participants of the next step receive.
fn sent(server: &dyn Server) -> Model {
    match server.download() {
        Download::Shared(model) => model,
        other => panic!("{other:?}"),
    }
}

/// Makes a step of two users, whose uploads `change` sees before the server does, and returns the
/// model that they have received.
fn step(
    method: &dyn Method,
    server: &mut dyn Server,
    number: u32,
    change: impl Fn(&mut ModelUpdate),
) -> Model {
    let model = sent(server);
    let mut sums = server.accumulator();
    for (user, items) in [(0, &[0, 2, 5][..]), (1, &[2, 5, 6, 9])] {
        let names = (UserId(user), Round(number), InvitationId(number));
        let task = LocalTask::new(names, &model, OwnData::new(items), Streams::new(4), 1e6);
        let mut client = method.client(names.0);
        let mut trained = client.train(&task, &mut Scratch::default()).unwrap();
        change(&mut trained.update);
        let sent = Contribution::fresh(names.0, names.2, &trained.update, &model);
        sums.absorb(&[sent]).unwrap();
    }
    with_step(number, |step| server.step(sums, step)).unwrap();
    model
}

/// The worked example: mu 0 and tau 1, rewards .5 and 1 of precision 1. If this fails, a reward
/// counts for more or less than its precision.
#[test]
fn beliefs_are_those_of_the_worked_example() {
    let mut bandit = Bandit::new(2);
    bandit.learn(1, 0.5, 1.0);
    assert_eq!((bandit.means[1], bandit.precisions[1]), (0.25, 2.0));
    bandit.learn(1, 1.0, 1.0);
    assert_eq!((bandit.means[1], bandit.precisions[1]), (0.5, 3.0));
    assert_eq!((bandit.means[0], bandit.precisions[0]), (0.0, 1.0));
}

/// If this fails, a change is measured against something else than the gradient before, or a row
/// that travels for the first time is worth more than all.
#[test]
fn a_reward_is_the_share_by_which_a_gradient_has_changed() {
    assert!((change(&[3.0, 4.0], &[3.0, 4.5]) - 0.1).abs() < 1e-8);
    assert_eq!(change(&[3.0, 4.0], &[3.0, 4.0]), 0.0);
    assert_eq!(change(&[3.0, 4.0], &[-3.0, 4.0]), 1.0);
    assert_eq!(change(&[0.0, 0.0], &[0.1, 0.0]), 1.0);
}

/// If this fails, rows that are known to pay are not preferred, or rows of which nothing is known are
/// not tried.
#[test]
fn the_bandit_chooses_what_pays_and_tries_what_it_does_not_know() {
    let mut stream = Streams::new(1).named("test", 0, 0);
    let mut bandit = Bandit::new(6);
    for row in [0, 1, 3, 5] {
        bandit.learn(row, f64::from(u8::from(row == 3)), 1e6);
    }
    let chosen: Vec<Vec<u32>> = (0..50).map(|_| bandit.choose(3, &mut stream)).collect();
    let times = |row| chosen.iter().filter(|rows| rows.contains(&row)).count();
    assert!(times(3) > 40, "a row that pays: {}", times(3));
    assert!(
        times(2) > 10 && times(4) > 10,
        "rows that nobody knows: {} and {}",
        times(2),
        times(4)
    );
    let is_ascending = |rows: &Vec<u32>| rows.is_sorted() && rows.len() == 3;
    assert!(chosen.iter().all(is_ascending), "{chosen:?}");
}

/// If this fails, a row is rewarded for another one's gradients, for those of another step or in another
/// way, the bandit learns where chance chooses, or a checkpoint forgets what it has learned.
#[test]
fn gradients_reward_the_rows_that_have_travelled() {
    for (choice, reward) in [
        (Choice::Bandit, Reward::Change),
        (Choice::Bandit, Reward::Length),
        (Choice::Random, Reward::Change),
    ] {
        let parameters = FcfBtsParameters {
            choice,
            reward,
            ..small(0.6)
        };
        let method = method(parameters.clone());
        let server = || ChoosingServer::new(method.averager(), parameters.clone(), Streams::new(4));
        let (mut server, mut restored) = (server(), server());
        let (mut expected, mut before) = (Bandit::new(10), vec![[0.0; 3]; 10]);
        for number in 0..4 {
            let sums = RefCell::new(vec![[0.0; 3]; 10]);
            let model = step(&method, &mut server, number, |update| {
                let gradients = update.blocks[0].apply(None).unwrap();
                for (sums, row) in sums
                    .borrow_mut()
                    .iter_mut()
                    .zip(gradients.as_slice().chunks(3))
                {
                    let values = sums.iter_mut().zip(row);
                    values.for_each(|(sum, value)| *sum += f64::from(*value));
                }
            });
            for row in received(model.table(0)).into_iter().map(|row| row as usize) {
                let now = sums.borrow()[row];
                let length = |of: [f64; 3]| of.iter().map(|of| of * of).sum::<f64>().sqrt();
                let moved = [0, 1, 2].map(|at| now[at] - before[row][at]);
                let worth = match reward {
                    Reward::Length => length(now),
                    Reward::Change => (length(moved) / length(before[row])).min(1.0),
                };
                before[row] = now;
                if choice == Choice::Bandit {
                    expected.learn(row, worth, 1.0);
                }
            }
            assert_eq!(server.bandit.precisions, expected.precisions);
            let means = server.bandit.means.iter().zip(&expected.means);
            for (row, (found, expected)) in means.enumerate() {
                assert!(
                    (found - expected).abs() < 1e-5,
                    "{row}: {found}, {expected}"
                );
            }
        }
        let is_known = expected.precisions.iter().any(|of| *of > 2.0);
        assert_eq!(is_known, choice == Choice::Bandit, "no row came twice");

        let mut archive = Archive::default();
        let mut save = StateVisitor::Save(&mut archive);
        server.visit_state(&mut save).unwrap();
        restored.set_model(server.model().clone()).unwrap();
        let mut reader = ArchiveReader::of_bytes(archive.take().unwrap(), Vec::new());
        let mut restore = StateVisitor::Restore(&mut reader);
        restored.visit_state(&mut restore).unwrap();
        for number in 4..6 {
            let models = [&mut server, &mut restored].map(|of| step(&method, of, number, |_| {}));
            assert_eq!(models[0], models[1]);
            assert_eq!(server.bandit.means, restored.bandit.means);
        }
    }
}

/// If this fails, a key of the bandit does nothing where chance chooses or all rows travel, and nobody
/// hears of it.
#[test]
fn keys_of_the_bandit_are_warned_of_where_it_chooses_nothing() {
    let faults = |choice, row_share| {
        let mut parameters = FcfBtsParameters {
            choice,
            row_share,
            reward: Reward::Length,
            reward_precision: 2.0,
            ..FcfBtsParameters::default()
        };
        FcfBts::resolve(&mut parameters).len()
    };
    assert_eq!(faults(Choice::Bandit, 0.5), 0);
    assert_eq!(faults(Choice::Random, 0.5), 2);
    assert_eq!(faults(Choice::Random, 1.0), 3);
}

/// If this fails, FCF-BTS has another arithmetic than the method that it is compared with.
#[test]
fn all_rows_make_it_fcf_to_the_bit() {
    let parameters = Fcf {
        latent_dimension: 3,
        regularization: 0.5,
        ..Fcf::default()
    };
    let (chosen, whole) = (
        method(small(1.0)),
        Declared::<Fcf>::new(parameters, &problem_of(2, 10)),
    );
    let (mut one, mut other) = (chosen.server(), whole.server());
    for number in 0..3 {
        step(&chosen, &mut *one, number, |_| {});
        step(&whole, &mut *other, number, |_| {});
        assert_eq!(one.model(), other.model());
    }
    assert_ne!(one.model(), &chosen.initial());
}

/// If this fails, rows that nobody has received move, by noise for privacy or by a frame's zeros, a
/// participant receives more than the share, or whoever scores does not get all rows.
#[test]
fn rows_that_do_not_travel_stay() {
    let method = method(small(0.3));
    let mut server = method.server();
    let mut seen = Vec::new();
    for number in 0..4 {
        let before = server.model().clone();
        let model = step(&method, &mut *server, number, |update| {
            // A dense frame with noise on every row.
            let mut table = update.blocks[0].apply(None).unwrap();
            table
                .as_mut_slice()
                .iter_mut()
                .for_each(|value| *value += 0.5);
            update.blocks[0] = TableUpdate::whole(table);
        });
        let rows = received(model.table(0));
        assert_eq!(rows.len(), 3);
        for row in 0..10 {
            let [old, now] = [&before, server.model()].map(|model| model.table(0).row(row));
            let travelled = rows.contains(&(row as u32));
            assert_eq!(old != now, travelled, "row {row} in step {number}");
            assert_eq!(model.table(0).row(row) == old, travelled);
        }
        match server.download_to_score() {
            Some(Download::Shared(all)) => assert_eq!(&all, server.model()),
            other => panic!("{other:?}"),
        }
        seen.push(rows);
    }
    assert!(seen.iter().any(|rows| *rows != seen[0]), "{seen:?}");
}

/// If this fails, a positive whose row has not come counts as one, or another row is taken for it.
#[test]
fn a_device_learns_from_the_rows_that_it_has_received() {
    let method = method(small(0.3));
    let table = |rows: usize, values: &[f32]| Table::new(TableShape::new(rows, 3), values.to_vec());
    let received = table(
        4,
        &[0.0, 0.0, 0.0, 0.2, 0.1, -0.3, 0.0, 0.0, 0.0, 0.4, -0.1, 0.5],
    );
    let alone = table(2, &[0.2, 0.1, -0.3, 0.4, -0.1, 0.5]);
    let [model, other] = [received, alone].map(|table| Model::of_table("Y", table));
    let trained = |method: &dyn Method, model: &Model, items: &[u32]| {
        let names = (UserId(0), Round(0), InvitationId(0));
        let task = LocalTask::new(names, model, OwnData::new(items), Streams::new(4), 1e6);
        let mut client = method.client(names.0);
        client.train(&task, &mut Scratch::default()).unwrap()
    };
    let found = trained(&method, &model, &[2, 3]);
    let expected = trained(&method, &other, &[1]);
    let [found_update, expected_update] = [&found, &expected].map(|of| &of.update.blocks[0]);
    assert_eq!(found_update.rows, RowSet::Listed(vec![1, 3]));
    assert_eq!(found_update.values, expected_update.values);
    assert_eq!((found.loss, found.work), (expected.loss, expected.work));
}
