#![allow(clippy::unwrap_used)]
use super::columns::StepColumns;
use super::features::Features;
use super::history::{History, Targets};
use super::learned::{COUNTS, Coefficients, Learned};
use super::neighbours;
use super::package::{self, Package, Statistics};
use super::statistics::{above_noise, counts, pairs, steps};
use super::*;
use crate::server::WeightTotals;
use fedrecsim_core::{InvitationId, Round, Timestamp};
use fedrecsim_data::dataset::OwnData;

const ITEMS: usize = 4;

/// The histories of two users on day 100. The first has items 0 and 1 since day 90 and item 2 since
/// day 99, the second item 0 since day 95 and item 3 since day 98.
fn histories() -> [History; 2] {
    let history = |items: &[u32], ages: &[f64]| History {
        items: items.to_vec(),
        ages: ages.to_vec(),
    };
    [
        history(&[0, 1, 2], &[10.0, 10.0, 1.0]),
        history(&[0, 3], &[5.0, 2.0]),
    ]
}

fn streams() -> Streams {
    Streams::new(1)
}

fn columns() -> StepColumns {
    StepColumns::new(ITEMS, 512, streams())
}

/// Returns the sums of these users' uploads, block by block, for the vectors of `model`.
fn sums(model: &Model, users: &[History]) -> Vec<Vec<f64>> {
    let package = Package::of(model);
    let widths = [COUNTS, package.rank(), ITEMS + 1];
    let mut sums: Vec<Vec<f64>> = widths
        .iter()
        .map(|width| vec![0.0; ITEMS * width])
        .collect();
    for history in users {
        let basis = history.items.iter().map(|item| package.basis(*item));
        let basis: Vec<Vec<f64>> = basis.collect();
        let counts = counts(history).into_iter().map(Vec::from);
        let blocks = [
            counts.collect(),
            pairs(history, &basis),
            steps(history, &columns()),
        ];
        for ((sums, rows), width) in sums.iter_mut().zip(blocks).zip(widths) {
            for (item, row) in history.items.iter().zip(rows) {
                let at = *item as usize * width;
                for (sum, value) in sums[at..at + width].iter_mut().zip(row) {
                    *sum += value;
                }
            }
        }
    }
    sums
}

/// Returns the model of the two users' statistics. As many vectors as items tell all of C.
fn model() -> Model {
    let mut model = package::initial(ITEMS, ITEMS, streams());
    let sums = sums(&model, &histories());
    let statistics = Statistics::of(&sums, (&model, &columns()))
        .unwrap()
        .unwrap();
    statistics.write(&mut model, &Learned::default());
    model
}

fn close(found: f64, expected: f64) {
    assert!(
        (found - expected).abs() < 6e-4,
        "{found} instead of {expected}"
    );
}

/// If this fails, counts are not those of the specification's example: by half-life, of returning
/// users, and of what they take first.
#[test]
fn counts_decay_and_tell_returning_users() {
    let model = package::initial(ITEMS, ITEMS, streams());
    let sums = sums(&model, &histories());
    let column = |at: usize| [0, 1, 2, 3].map(|item| sums[0][item * COUNTS + at]);
    let expect = |found: [f64; 4], expected: [f64; 4]| {
        found
            .into_iter()
            .zip(expected)
            .for_each(|(found, expected)| close(found, expected));
    };
    expect(column(2), [1.2071, 0.5, 0.9330, 0.8706]);
    expect(column(9), [0.0, 0.0, 0.9330, 0.8706]);
    expect(column(16), [0.0, 0.0, 0.9330, 0.8706]);
    expect(column(COUNTS - 1), [1.9488, 0.9659, 0.9965, 0.9931]);
    let steps = |from: usize, to: usize| 20.0 * sums[2][from * (ITEMS + 1) + to];
    close(steps(0, 2), 0.9965);
    close(steps(1, 2), 0.9965);
    close(steps(0, 3), 0.9931);
    close(steps(0, 4), 1.9896);
    assert_eq!(
        (steps(0, 1), steps(1, 0)),
        (0.0, 0.0),
        "items of one instant"
    );
}

/// If this fails, what a device makes of the package is not what the specification's example says.
#[test]
fn features_are_those_of_the_example() {
    let model = model();
    let package = Package::of(&model);
    let [_, second] = histories();
    let features = Features::of(&package, &second);
    assert_eq!(features.may_be_taken, [false, true, true, false]);
    close(features.together[1], 0.0508);
    close(features.together[2], 0.0516);
    let followed: Vec<(usize, f64)> = package.neighbours(0).take(2).collect();
    assert_eq!((followed[0].0, followed[1].0), (2, 3));
    close(followed[0].1, 0.5763);
    close(followed[1].1, 0.5744);
    let row = features.row(&package, 2);
    close(row[3], 1.0);
    close(features.row(&package, 1)[3], -1.0);
    close(row[4], -1.0);
}

/// If this fails, the mixture of counts is not the likeliest one, or a carried period weighs too much.
#[test]
fn mixtures_of_counts_follow_what_was_taken() {
    let learned = Learned::default();
    let mut twice = learned.clone();
    twice.coefficients = Coefficients {
        mixture: [1.0, 0.0],
        ..Coefficients::default()
    };
    let carried = Learned::carried(&[learned, twice], 0.5);
    close(carried.coefficients.mixture[0], 2.5 / 3.0);
}

/// If this fails, the server takes noise for counts, or counts without noise are changed.
#[test]
fn counts_below_the_noise_are_none() {
    let noisy = [5.0, 0.5, -2.0, 0.25, 1.5, 0.0];
    assert_eq!(above_noise(&noisy, 2), [3.0, 0.5, 0.0, 0.25, 0.0, 0.0]);
}

/// If this fails, counts are thrown away where noise hides which items occur together.
#[test]
fn counts_stay_where_pairs_are_lost_in_noise() {
    let mut model = package::initial(ITEMS, ITEMS, streams());
    let mut sums = sums(&model, &histories());
    // No eigenvalue is above the noise.
    for (value, basis) in sums[statistics::PAIRS_BLOCK]
        .iter_mut()
        .zip(model.table(0).as_slice())
    {
        *value = -f64::from(*basis);
    }
    let statistics = Statistics::of(&sums, (&model, &columns()))
        .unwrap()
        .unwrap();
    let before = model.clone();
    statistics.write(&mut model, &Learned::default());
    assert_eq!(
        model.table(0),
        before.table(0),
        "the basis of the next pairs"
    );
    let package = Package::of(&model);
    let history = &histories()[0];
    assert!(package.is_live(history.items[0]));
    let scores = Features::of(&package, history).scores(&package);
    assert!(scores.iter().all(|score| score.is_finite()), "{scores:?}");
    assert!(scores.iter().any(|score| *score != scores[0]), "{scores:?}");
    // Sums of nothing are still none.
    let nothing: Vec<Vec<f64>> = sums.iter().map(|block| vec![0.0; block.len()]).collect();
    assert!(
        Statistics::of(&nothing, (&before, &columns()))
            .unwrap()
            .is_none()
    );
}

/// If this fails, noise in the sums of Newton terms ends a run, or sends the weights away.
#[test]
fn a_newton_step_bears_negative_curvatures() {
    let mut learned = Learned::default();
    let before = learned.coefficients.weights;
    let mut terms = vec![0.0; 1 + before.len() + before.len() * (before.len() + 1) / 2];
    terms[1] = 8.0;
    terms[1 + before.len()] = -1e4;
    learned.step(&terms, false).unwrap();
    close(learned.coefficients.weights[0], before[0] - 8.0 / 20.0);
    assert_eq!(learned.coefficients.weights[1..], before[1..]);
}

/// If this fails, weights go on from where a step has made the loss larger, and leave for good.
#[test]
fn a_newton_step_that_was_too_long_is_made_shorter() {
    let mut learned = Learned::default();
    let before = learned.coefficients.weights;
    let count = before.len();
    let terms = |loss: f64| {
        let mut terms = vec![0.0; 1 + count + count * (count + 1) / 2];
        (terms[0], terms[1]) = (loss, 8.0);
        terms
    };
    // The prior weighs 20, so that the step is 8 / 20.
    for (loss, is_last, step) in [
        (100.0, false, 0.4),
        (101.0, false, 0.1),
        (101.0, false, 0.025),
        (f64::NAN, false, 0.00625),
        (101.0, true, 0.0),
    ] {
        learned.step(&terms(loss), is_last).unwrap();
        close(learned.coefficients.weights[0], before[0] - step);
    }
    learned.step(&terms(90.0), true).unwrap();
    close(learned.coefficients.weights[0], before[0] - 0.4);
}

/// If this fails, an upload says something of what its user took behind the end of the period.
#[test]
fn a_history_ends_where_its_period_does() {
    let own = OwnData::new(&[1, 3, 3, 7, 8]);
    let ages = [10.0, 12.0, 3.0, 5.0, 0.0];
    let history = History::older_than(5.0, &own, &ages);
    assert_eq!((history.items, history.ages), (vec![3, 1], vec![7.0, 5.0]));
    let targets = |from, to, only_first| {
        Targets {
            from,
            to,
            only_first,
        }
        .of(&own, &ages)
    };
    assert_eq!(targets(5.0, 0.0, false), [3, 7, 8]);
    assert_eq!(targets(5.0, 0.0, true), [7]);
    assert_eq!(targets(12.0, 5.0, false), [1, 3]);
}

/// If this fails, a lossy codec of the downlink lets the server take sums of one basis for those of
/// another.
#[test]
fn the_server_goes_by_the_basis_that_devices_received() {
    let size = ProblemSize {
        users: 1,
        items: ITEMS,
    };
    let parameters = FedTideParameters {
        period_days: 0.5,
        periods: 1,
        ..FedTideParameters::default()
    };
    let method = FedTide::new(parameters, &Problem::of_size(size, streams()));
    let mut received = method.initial();
    for value in received.table_mut(0).as_mut_slice() {
        *value = (8.0 * *value).round() / 8.0;
    }
    let own = OwnData {
        recency_ranks: (&[3u8, 2, 1][..]).into(),
        ..OwnData::new(&[0, 1, 3])
    };
    let names = (UserId(0), Round(0), InvitationId(0));
    let task = LocalTask::new(names, &received, own, streams(), 1e6);
    let mut client = method.client(UserId(0));
    let update = client.train(&task, &mut Scratch::default()).unwrap().update;
    let stepped = |mut server: Box<dyn Server>| {
        let mut sums = server.accumulator();
        let sent = Contribution::fresh(UserId(0), InvitationId(0), &update, &received);
        sums.absorb(&[sent]).unwrap();
        let normalise = |_: &WeightTotals| unreachable!("sums are not divided");
        let step = StepContext::new(0, 1, &normalise, streams());
        server.step(sums, &step).unwrap();
        server.model().clone()
    };
    let mut same = method.server();
    same.set_model(received.clone()).unwrap();
    assert!(stepped(method.server()) == stepped(same));
}

/// If this fails, a neighbour that stays is sent anew, or one is lost.
#[test]
fn neighbours_that_stay_keep_their_places() {
    let ids = |next: &[(usize, f64)], before: &[usize]| {
        let mut places = vec![0; 10];
        places[..before.len()].copy_from_slice(before);
        let row = neighbours::in_their_places(next, places);
        let triples = row.chunks(3);
        let of = |triple: &[f32]| ((256.0 * triple[0] + triple[1]) as usize, triple[2]);
        triples.take(3).map(of).collect::<Vec<(usize, f32)>>()
    };
    let first = ids(&[(300, 2.0), (7, 1.0)], &[]);
    assert_eq!(first, [(300, 255.0), (7, 128.0), (0, 0.0)]);
    let second = ids(&[(9, 4.0), (7, 4.0)], &[300, 7]);
    assert_eq!(second, [(9, 255.0), (7, 255.0), (0, 0.0)]);
}

/// A run of the plain version of the method, which tests/fixtures/fedtide/fedtide.py makes.
#[derive(serde::Deserialize)]
struct Recording {
    /// The items that each user took, and the day of each.
    users: Vec<Vec<(u32, f64)>>,
    end: f64,
    periods: u32,
    period_days: f64,
    items: usize,
    mixture: [f64; 2],
    weights: [f64; 6],
    /// The scores of all items for the first users; `None` for what may not be taken.
    scores: Vec<Vec<Option<f64>>>,
}

/// A user's rows, by item.
struct Rows {
    items: Vec<u32>,
    instants: Vec<Timestamp>,
}

impl Rows {
    fn before(&self, end: f64) -> OwnData<'_> {
        OwnData {
            instants: &self.instants,
            training_ends: Some(instant(end)),
            ..OwnData::new(&self.items)
        }
    }
}

impl Recording {
    fn read() -> Self {
        let text = include_str!("../../../../tests/fixtures/fedtide/fedtide.json");
        serde_json::from_str(text).unwrap()
    }

    fn rows(&self) -> Vec<Rows> {
        let of = |user: &Vec<(u32, f64)>| {
            let mut rows = user.clone();
            rows.sort_by_key(|(item, _)| *item);
            Rows {
                items: rows.iter().map(|(item, _)| *item).collect(),
                instants: rows.iter().map(|(_, day)| instant(*day)).collect(),
            }
        };
        self.users.iter().map(of).collect()
    }
}

fn instant(day: f64) -> Timestamp {
    Timestamp((day * 86_400e3).round() as i64 * 1_000_000)
}

/// If this fails, what devices and server learn from sums is not what a plain version learns that
/// has all ratings in one place and makes eigenvectors and mixtures exactly.
#[test]
fn sums_teach_what_all_ratings_in_one_place_teach() {
    let recording = Recording::read();
    let rows = recording.rows();
    let size = ProblemSize {
        users: rows.len(),
        items: recording.items,
    };
    let parameters = FedTideParameters {
        period_days: recording.period_days,
        periods: recording.periods,
        latent_dimension: recording.items as u32,
        ..FedTideParameters::default()
    };
    let method = FedTide::new(parameters, &Problem::of_size(size, streams()));
    let (mut server, mut scratch) = (method.server(), Scratch::default());
    let mut rounds = 0;
    while server.needs_participants() {
        let received = server.model().clone();
        let mut sums = server.accumulator();
        for (user, data) in rows.iter().enumerate() {
            let user = UserId(user as u32);
            let names = (user, Round(rounds), InvitationId(0));
            let task = LocalTask::new(names, &received, data.before(recording.end), streams(), 1e6);
            let task = LocalTask {
                phase: server.phase(),
                ..task
            };
            let trained = method.client(user).train(&task, &mut scratch).unwrap();
            let sent = Contribution::fresh(user, InvitationId(0), &trained.update, &received);
            let sent = Contribution {
                phase: server.phase(),
                ..sent
            };
            sums.absorb(&[sent]).unwrap();
        }
        let normalise = |_: &WeightTotals| unreachable!("sums are not divided");
        let step = StepContext::new(rounds, rows.len() as u32, &normalise, streams());
        server.step(sums, &step).unwrap();
        rounds += 1;
    }
    assert_eq!(rounds, 2 + 7 * recording.periods, "one round too many");
    let within = |found: f64, expected: f64, tolerance: f64, what: &str| {
        assert!(
            (found - expected).abs() < tolerance,
            "{what}: {found} instead of {expected}"
        );
    };
    let Coefficients { mixture, weights } = Package::of(server.model()).coefficients;
    within(mixture[0], recording.mixture[0], 2e-3, "share of counts");
    for (found, expected) in weights.iter().zip(recording.weights) {
        within(*found, expected, 5e-3, "weight");
    }
    let all: Vec<u32> = (0..recording.items as u32).collect();
    for (user, expected) in recording.scores.iter().enumerate() {
        let client = method.client(UserId(user as u32));
        let context = ScoringContext::new(
            UserId(user as u32),
            server.model(),
            rows[user].before(recording.end),
            streams(),
            &mut scratch,
        );
        let mut scores = vec![0.0; all.len()];
        let scorer = client.scorer(context).unwrap();
        scorer.score(&all, &mut scores).unwrap();
        for (found, expected) in scores.iter().zip(expected) {
            match expected {
                Some(expected) => within(f64::from(*found), *expected, 2e-2, "score"),
                None => assert!(*found < -1e6, "an own item has {found}"),
            }
        }
    }
}
