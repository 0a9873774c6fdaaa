#![allow(clippy::unwrap_used)]
//! Compares mixtures with the specification's example, and a training with plain arithmetic.

use super::*;
use crate::declare::Declared;
use crate::mixtures::{alignment, composite, likeness, on_simplex};
use crate::server::{Download, StepWeights, WeightTotals};
use crate::tests::{holding, problem_of, with_step};
use fedrecsim_core::math::gradient::numeric_gradient;
use fedrecsim_core::{InvitationId, Round};
use fedrecsim_data::dataset::OwnData;
use fedrecsim_data::dataset::negatives::Samples;

const SHAPE: TableShape = TableShape::new(3, 2);

/// What three users with three items and two dimensions send: their tables, directions and numbers
/// of samples.
const SENT: [([f32; 6], [f32; 4], f32); 3] = [
    ([1.0, 0.0, 0.0, 1.0, -1.0, -1.0], [1.0, 0.0, 0.0, 1.0], 2.0),
    ([2.0, 0.0, 0.0, 1.0, -2.0, -1.0], [0.8, 0.6, -0.6, 0.8], 1.0),
    ([0.0, 1.0, 1.0, 0.0, -1.0, -1.0], [-1.0, 0.0, 0.0, 1.0], 1.0),
];

fn small(mixed_share: f64) -> Declared<FedCa> {
    let parameters = FedCa {
        latent_dimension: 2,
        directions: 2,
        mixed_share,
        ..FedCa::default()
    };
    Declared::new(parameters, &problem_of(3, 3))
}

fn table_of_user(user: usize) -> Table {
    Table::new(SHAPE, SENT[user].0.to_vec())
}

fn directions_of(user: usize) -> Table {
    Table::new(TableShape::new(2, 2), SENT[user].1.to_vec())
}

/// Returns a server that has made a step of what the users send.
fn after_a_step(method: &Declared<FedCa>) -> Box<dyn Server> {
    let mut server = method.server();
    let mut sums = server.accumulator();
    for (user, (_, _, samples)) in SENT.iter().enumerate() {
        let n = Table::new(TableShape::new(1, 1), vec![*samples]);
        let blocks = [table_of_user(user), directions_of(user), n];
        let update = ModelUpdate::of_blocks(blocks.map(TableUpdate::whole).into());
        let received = Model::none();
        let (user, id) = (UserId(user as u32), InvitationId(user as u32));
        let sent = Contribution::fresh(user, id, &update, &received);
        sums.absorb(&[sent]).unwrap();
    }
    let normalise = |_: &WeightTotals| -> StepWeights { unreachable!("no table is weighed") };
    let step = StepContext::new(0, 3, &normalise, Streams::new(5));
    server.step(sums, &step).unwrap();
    server
}

fn download(server: &dyn Server, user: u32) -> Model {
    match server.download() {
        Download::PerUser(made) => made.download(UserId(user)).unwrap(),
        other => panic!("{other:?} is not of each user"),
    }
}

fn assert_close(found: impl IntoIterator<Item = f64>, expected: &[f64]) {
    let found: Vec<f64> = found.into_iter().collect();
    let mut pairs = found.iter().zip(expected);
    let is_close = found.len() == expected.len() && pairs.all(|(a, b)| (a - b).abs() < 1e-4);
    assert!(is_close, "{found:?}, not {expected:?}");
}

fn values(table: &Table) -> impl Iterator<Item = f64> {
    table.as_slice().iter().copied().map(f64::from)
}

/// If this fails, likeness, alignment or their composition are not those of the specification's
/// example, in the code's mixture or in the paper's.
#[test]
fn weights_are_those_of_the_example() {
    let tables = [0, 1, 2].map(table_of_user);
    let first = Principal::of(tables[1].as_slice(), 2, None, 1).unwrap();
    assert_close(
        first.scores(0, tables[1].as_slice()),
        &[-1.9142, -0.2898, 2.2040],
    );
    let of = |mixture| with_step(0, |step| likeness(mixture, &tables.each_ref(), step)).unwrap();
    let (code, paper) = (of(Mixture::PublishedCode), of(Mixture::Paper));
    assert_close([code[(0, 1)], code[(0, 2)]], &[0.3997, 1.0]);
    assert_close([paper[(0, 1)], paper[(0, 2)]], &[1.0 / 3.0, 0.2]);
    let aligned = |u, v| alignment(&directions_of(u), &directions_of(v));
    assert_close(
        [aligned(0, 0), aligned(0, 1), aligned(0, 2), aligned(1, 2)],
        &[1.0, 0.8, 0.0, 0.0],
    );
    for (mixture, likeness, expected) in [
        (Mixture::PublishedCode, code, [0.6800, 0.1899, 0.1300]),
        (Mixture::Paper, paper, [0.6205, 0.2513, 0.1282]),
    ] {
        let p = FedCa {
            mixture,
            ..FedCa::default()
        };
        let of_user = |v: usize| {
            let share = f64::from(SENT[v].2) / 4.0;
            composite(&p.mixing(), share, (likeness[(0, v)], aligned(0, v)))
        };
        assert_close(on_simplex(&[0, 1, 2].map(of_user)), &expected);
    }
    assert_close(on_simplex(&[1.5, 0.2, 0.1]), &[1.0, 0.0, 0.0]);
}

/// If this fails, a user is mixed by how others are to somebody else, or not by those before it.
#[test]
fn each_user_is_mixed_by_how_it_is_to_all_others() {
    let method = small(1.0);
    let server = after_a_step(&method);
    let (tables, p) = ([0, 1, 2].map(table_of_user), FedCa::default().mixing());
    let alike = with_step(0, |step| likeness(p.mixture, &tables.each_ref(), step)).unwrap();
    for u in 0..3 {
        let of_other = |v: usize| {
            let aligned = alignment(&directions_of(u), &directions_of(v));
            composite(&p, f64::from(SENT[v].2) / 4.0, (alike[(u, v)], aligned))
        };
        let weights = on_simplex(&[0, 1, 2].map(of_other));
        let mut mixture = vec![0.0; 6];
        for (weight, table) in weights.iter().zip(&tables) {
            let sums = mixture.iter_mut().zip(values(table));
            sums.for_each(|(sum, value)| *sum += weight * value);
        }
        assert_close(values(download(&*server, u as u32).table(0)), &mixture);
    }
}

/// If this fails, a user that was drawn does not move towards its mixture, or one that was not
/// receives something.
#[test]
fn who_is_drawn_moves_towards_its_mixture() {
    let method = small(1.0);
    let server = after_a_step(&method);
    let mixture = download(&*server, 0);
    let mixed = [1.0599, 0.13, 0.13, 0.87, -1.1899, -1.0];
    assert_close(values(mixture.table(0)), &mixed);
    let mut client = method.client(UserId(0));
    client.replace_personal_table(table_of_user(0)).unwrap();
    let u = client.personal_vector().unwrap().unwrap().values;
    let scores = |client: &dyn Client, model: &Model| {
        let mut scratch = Scratch::default();
        let own = OwnData::new(&[]);
        let context = ScoringContext::new(UserId(0), model, own, Streams::new(1), &mut scratch);
        let mut scores = [0.0; 3];
        client
            .scorer(context)
            .unwrap()
            .score(&[0, 1, 2], &mut scores)
            .unwrap();
        scores.map(f64::from)
    };
    let moved = [1.0060, 0.0130, 0.0130, 0.9870, -1.0190, -1.0];
    let by_u = |table: &[f64]| -> Vec<f64> {
        let row = |row: &[f64]| row.iter().zip(&u).map(|(a, b)| a * f64::from(*b)).sum();
        table.chunks(2).map(row).collect()
    };
    assert_close(scores(&*client, &mixture), &by_u(&moved));
    let own: Vec<f64> = values(&table_of_user(0)).collect();
    assert_close(scores(&*client, &Model::none()), &by_u(&own));

    let one = small(0.4);
    let server = after_a_step(&one);
    let received = (0..3).filter(|user| !download(&*server, *user).layout().is_empty());
    assert_eq!(received.count(), 1);
    let mean = [1.0, 1.0 / 3.0, 1.0 / 3.0, 2.0 / 3.0, -4.0 / 3.0, -1.0];
    assert_close(values(server.model().table(0)), &mean);
}

/// Returns the principal directions of these rows of the table in `update`, each as often as it is here.
fn directions_by(update: &ModelUpdate, rows: &[u32], k: usize) -> Vec<f32> {
    let table = update.blocks[0].apply(None).unwrap();
    let found = Principal::of(&table.gathered(rows), k, None, k).unwrap();
    found.directions()
}

/// If this fails, a row that several samples have counts once in the principal directions, or one that
/// none has counts, too.
#[test]
fn a_row_counts_as_often_as_it_is_sampled() {
    let rows = [[1.0, 2.0], [-0.5, 0.25], [0.75, -1.5], [9.0, 9.0]];
    let counted = Principal::of(rows.as_flattened(), 2, Some(&[2.0, 1.0, 1.0, 0.0]), 2).unwrap();
    let written = [rows[0], rows[0], rows[1], rows[2]];
    let written = Principal::of(written.as_flattened(), 2, None, 2).unwrap();
    let wide = |of: &Principal| of.directions().into_iter().map(f64::from);
    assert_close(wide(&counted), &wide(&written).collect::<Vec<_>>());
    let once = Principal::of(rows[..3].as_flattened(), 2, None, 2).unwrap();
    assert_ne!(once.directions(), written.directions());
}

/// If this fails, a device by the paper sends directions of its negatives, too.
#[test]
fn directions_by_the_paper_are_of_positives_alone() {
    let parameters = FedCa {
        latent_dimension: 2,
        mixture: Mixture::Paper,
        ..FedCa::default()
    };
    let method: Declared<FedCa> = Declared::new(parameters, &problem_of(3, 5));
    let (none, own) = (Model::none(), OwnData::new(&[1, 2, 4]));
    let names = (UserId(1), Round(0), InvitationId(0));
    let task = LocalTask::new(names, &none, own, Streams::new(3), 1e6);
    let mut scratch = holding(Samples {
        items: vec![1, 3, 2, 4, 0],
        labels: vec![1.0, 0.0, 1.0, 1.0, 0.0],
    });
    let trained = method.client(UserId(1)).train(&task, &mut scratch).unwrap();
    let update = trained.update;
    let found: Vec<f32> = floats(&update.blocks[1].values).collect();
    assert_eq!(found, directions_by(&update, &[1, 2, 4], 2));
    assert_ne!(found, directions_by(&update, &[1, 3, 2, 4, 0], 2));
}

/// If this fails, a device does not go on from its own table, does not send the whole of it, steps
/// otherwise than Adam along the gradient, or passes over its samples after the loss has settled.
#[test]
fn a_device_goes_on_from_its_own_table_by_adam() {
    const K: usize = 2;
    let parameters = FedCa {
        latent_dimension: K as u32,
        local_epochs: 3,
        early_stop_tolerance: 0.0,
        ..FedCa::default()
    };
    let problem = problem_of(3, 5);
    let method: Declared<FedCa> = Declared::new(parameters.clone(), &problem);
    let mut client = method.client(UserId(1));
    let u = client.personal_vector().unwrap().unwrap().values;
    let mut plain: Vec<f64> = u.iter().copied().map(f64::from).collect();
    plain.extend(values(method.initial().table(0)));
    let (items, labels) = (vec![1, 3, 4, 3], vec![1.0, 0.0, 1.0, 0.0]);
    let loss = |at: &[f64]| {
        let of = |(item, label): (&u32, &f32)| {
            let row = &at[K + *item as usize * K..][..K];
            let score: f64 = row.iter().zip(at).map(|(a, b)| a * b).sum();
            let sign = if *label > 0.5 { -1.0 } else { 1.0 };
            math::ln_1p(math::exp(sign * score))
        };
        items.iter().zip(&labels).map(of).sum::<f64>() / items.len() as f64
    };
    let none = Model::none();
    for round in 0..2 {
        let own = OwnData::new(&[1, 4]);
        let names = (UserId(1), Round(round), InvitationId(round));
        let task = LocalTask::new(names, &none, own, Streams::new(3), 1e6);
        let mut scratch = holding(Samples {
            items: items.clone(),
            labels: labels.clone(),
        });
        let trained = client.train(&task, &mut scratch).unwrap();
        let [mut first, mut second] = [vec![0.0; plain.len()], vec![0.0; plain.len()]];
        for step in 1..=3 {
            let gradient = numeric_gradient(&plain, loss);
            for (at, slope) in gradient.iter().enumerate() {
                first[at] = 0.9 * first[at] + 0.1 * slope;
                second[at] = 0.999 * second[at] + 0.001 * slope * slope;
                let step = f64::from(step);
                let m = first[at] / (1.0 - math::pow(0.9, step));
                let v = second[at] / (1.0 - math::pow(0.999, step));
                plain[at] -= 0.01 * m / (math::sqrt(v) + 1e-8);
            }
        }
        let blocks = &trained.update.blocks;
        assert_eq!(blocks[0].rows, RowSet::All);
        assert_close(floats(&blocks[0].values).map(f64::from), &plain[K..]);
        let u = client.personal_vector().unwrap().unwrap().values;
        assert_close(u.into_iter().map(f64::from), &plain[..K]);
        assert_eq!(floats(&blocks[2].values).collect::<Vec<_>>(), [4.0]);
        assert_eq!(
            floats(&blocks[1].values).collect::<Vec<_>>(),
            directions_by(&trained.update, &items, K)
        );
    }
    let settled = FedCa {
        local_epochs: 50,
        early_stop_tolerance: 10.0,
        ..parameters
    };
    let method: Declared<FedCa> = Declared::new(settled, &problem);
    let own = OwnData::new(&[1, 4]);
    let names = (UserId(1), Round(0), InvitationId(0));
    let task = LocalTask::new(names, &none, own, Streams::new(3), 1e6);
    let mut scratch = holding(Samples { items, labels });
    let trained = method.client(UserId(1)).train(&task, &mut scratch).unwrap();
    assert_eq!(trained.work.row_visits, 2 * 3, "two passes of three rows");
}
