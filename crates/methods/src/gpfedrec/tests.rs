#![allow(clippy::unwrap_used)]
//! Compares the graph with the specification's example, and a training with its gradient.

use super::graph::{adjacency, likeness};
use super::*;
use crate::declare::Declared;
use crate::server::{Download, StepWeights, WeightTotals};
use crate::tests::{holding, problem_of};
use fedrecsim_core::{InvitationId, Round};
use fedrecsim_data::dataset::OwnData;
use fedrecsim_data::dataset::negatives::Samples;
use fedrecsim_model::archive::{Archive, ArchiveReader};
use ndarray::Array2;

const USERS: u32 = 3;

/// The tables of three users with two items and two dimensions.
const TABLES: [[f32; 4]; 3] = [
    [1.0, 0.0, 0.0, 1.0],
    [1.0, 0.0, 0.5, 1.0],
    [-1.0, 0.0, 1.0, 0.0],
];

fn small(graph: Graph) -> GpFedRec {
    GpFedRec {
        latent_dimension: 2,
        graph,
        ..GpFedRec::default()
    }
}

/// Returns a server that has made a step of the users' tables, which arrive at two peers.
fn after_a_step(method: &Declared<GpFedRec>) -> Box<dyn Server> {
    step_with(method, &TABLES).unwrap()
}

/// Returns a server that has made a step of these tables of its users.
fn step_with(
    method: &Declared<GpFedRec>,
    tables: &[[f32; 4]; USERS as usize],
) -> Result<Box<dyn Server>> {
    let mut server = method.server();
    let received = method.initial();
    let send = |users: std::ops::Range<u32>| {
        let mut sums = method.server().accumulator();
        for user in users {
            let values = tables[user as usize].to_vec();
            let table = Table::new(TableShape::new(2, 2), values);
            let update = ModelUpdate::of_table(TableUpdate::whole(table));
            let sent = Contribution::fresh(UserId(user), InvitationId(user), &update, &received);
            sums.absorb(&[sent]).unwrap();
        }
        sums
    };
    let mut sums = send(1..3);
    sums.merge(send(0..1)).unwrap();
    let normalise = |_: &WeightTotals| -> StepWeights { unreachable!("no table is weighed") };
    let step = StepContext::new(0, USERS, &normalise, Streams::new(5));
    server.step(sums, &step)?;
    Ok(server)
}

fn downloads(server: &dyn Server, users: &[UserId]) -> Vec<Model> {
    match server.download() {
        Download::PerUser(made) => made.downloads(users).unwrap(),
        other => panic!("{other:?} is not of each user"),
    }
}

fn assert_close(found: &[f32], expected: &[f32]) {
    let pairs = found.iter().zip(expected);
    let is_close = pairs.clone().all(|(a, b)| (a - b).abs() < 6e-5);
    assert!(
        is_close && found.len() == expected.len(),
        "{found:?}, not {expected:?}"
    );
}

/// If this fails, neighbours, the users' tables or their mean are not those of the specification's
/// example, in the code's graph and in the paper's.
#[test]
fn tables_are_those_of_the_example() {
    let x = Array2::from_shape_fn((3, 4), |(user, at)| f64::from(TABLES[user][at]));
    let products = x.dot(&x.t());
    let [code, paper] = [Graph::PublishedCode, Graph::Paper].map(|of| likeness(&products, of));
    for (found, expected) in [
        (code[(0, 1)], 0.0572),
        (code[(0, 2)], 1.5),
        (code[(1, 2)], 1.2357),
        (paper[(0, 1)], 0.9428),
        (paper[(1, 2)], -0.2357),
    ] {
        assert!(
            (found - expected).abs() < 5e-5,
            "{found} instead of {expected}"
        );
    }
    let third = [-1.0, 0.0, 1.0, 0.0];
    let of_others = [1.0, 0.0, 0.25, 1.0];
    for (graph, own) in [
        (Graph::PublishedCode, [third, third, of_others]),
        (Graph::Paper, [of_others, of_others, third]),
    ] {
        let method = Declared::new(small(graph), &problem_of(USERS as usize, 2));
        let server = after_a_step(&method);
        let all = [0, 1, 2].map(UserId);
        for (download, own) in downloads(&*server, &all).iter().zip(own) {
            assert_close(download.table(1).as_slice(), &own);
            assert_eq!(download.table(0), server.model().table(0));
        }
        let (a, b) = (own[0], own[2]);
        let mean: Vec<f32> = (0..4).map(|at| (2.0 * a[at] + b[at]) / 3.0).collect();
        assert_close(server.model().table(0).as_slice(), &mean);
        // The neighbours of neighbours: those of the first two have each other's tables.
        let twice = GpFedRec {
            propagations: 2,
            ..small(graph)
        };
        let twice = Declared::new(twice, &problem_of(USERS as usize, 2));
        let of_neighbours = match graph {
            Graph::Paper => own,
            _ => [of_others, of_others, third],
        };
        let found = downloads(&*after_a_step(&twice), &all);
        for (download, own) in found.iter().zip(of_neighbours) {
            assert_close(download.table(1).as_slice(), &own);
        }
        // A user who did not take part in the step has no neighbours, and gets the mean.
        let newcomer = downloads(&*server, &[UserId(7)]).remove(0);
        assert_eq!(newcomer.table(1), server.model().table(0));
    }
}

/// If this fails, a graph of everybody is not the plain mean, a user without neighbours has no
/// table, or a fixed number of neighbours or a random graph has other numbers of them.
#[test]
fn neighbours_are_as_many_as_asked_for() {
    let everybody = GpFedRec {
        threshold: -1.0,
        ..small(Graph::PublishedCode)
    };
    let method = Declared::new(everybody, &problem_of(USERS as usize, 2));
    let server = after_a_step(&method);
    let mean = [1.0 / 3.0, 0.0, 0.5, 2.0 / 3.0];
    assert_close(server.model().table(0).as_slice(), &mean);
    assert_close(
        downloads(&*server, &[UserId(1)])[0].table(1).as_slice(),
        &mean,
    );
    let two = GpFedRec {
        neighbours: 2,
        ..small(Graph::PublishedCode)
    };
    let likeness = Array2::from_shape_vec((2, 2), vec![0.0, 1.0, 1.0, 0.0]).unwrap();
    assert_eq!(two.neighbours_by(&likeness), [[0, 1], [0, 1]]);
    let alone = adjacency(&[vec![], vec![0]]);
    assert_eq!(alone.as_slice().unwrap(), [1.0, 0.0, 1.0, 0.0]);
    let random = Declared::new(small(Graph::Random), &problem_of(USERS as usize, 2));
    let server = after_a_step(&random);
    let own = downloads(&*server, &[UserId(0)])[0]
        .table(1)
        .as_slice()
        .to_vec();
    let is_one = |table: &[f32; 4]| own.iter().zip(table).all(|(a, b)| (a - b).abs() < 1e-6);
    assert!(
        TABLES.iter().any(is_one),
        "{own:?} is not one neighbour's table"
    );
}

/// If this fails, a run goes on although a table that nobody is mixed with has diverged.
#[test]
fn a_table_that_is_not_finite_is_a_divergence_whoever_its_neighbours_are() {
    let one = GpFedRec {
        neighbours: 1,
        ..small(Graph::Paper)
    };
    let method = Declared::new(one, &problem_of(USERS as usize, 2));
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut tables = TABLES;
        tables[1][2] = value;
        let refused = step_with(&method, &tables).err();
        assert!(
            matches!(refused, Some(Error::Diverged { .. })),
            "{value}: {refused:?}"
        );
    }
}

/// If this fails, the server forgets neighbours in a checkpoint.
#[test]
fn a_step_that_is_restored_sends_the_same_tables() {
    let method = Declared::new(small(Graph::PublishedCode), &problem_of(USERS as usize, 2));
    let mut server = after_a_step(&method);
    let mut archive = Archive::default();
    server
        .visit_state(&mut StateVisitor::Save(&mut archive))
        .unwrap();
    let mut other = method.server();
    other.set_model(server.model().clone()).unwrap();
    let mut reader = ArchiveReader::of_bytes(archive.take().unwrap(), Vec::new());
    other
        .visit_state(&mut StateVisitor::Restore(&mut reader))
        .unwrap();
    let all = [0, 1, 2].map(UserId);
    assert_eq!(downloads(&*server, &all), downloads(&*other, &all));
}

/// If this fails, rows are pulled by another share of their distance, those of samples otherwise than
/// all others, or what is private is pulled along.
#[test]
fn every_row_goes_a_share_of_its_way_to_the_own_table() {
    const ITEMS: usize = 3;
    let shape = TableShape::new(ITEMS, 2);
    let e = Table::new(shape, vec![0.5, -0.25, 1.0, 0.75, 1.0, 0.0]);
    let r = Table::new(shape, vec![0.25, 0.5, -1.0, 0.5, 0.0, 1.0]);
    let trained = |regularization: f64, local_epochs: u32| {
        let parameters = GpFedRec {
            regularization,
            local_epochs,
            ..small(Graph::PublishedCode)
        };
        let method: Declared<GpFedRec> = Declared::new(parameters, &problem_of(1, ITEMS));
        let layout = method.download_layout(Phase::default(), Class::default());
        let model = Model::of_tables(layout, vec![e.clone(), r.clone()]);
        let samples = Samples {
            items: vec![0, 1],
            labels: vec![1.0, 0.0],
        };
        let names = (UserId(0), Round(0), InvitationId(0));
        let task = LocalTask::new(names, &model, OwnData::new(&[0]), Streams::new(1), 1e6);
        let mut client = method.client(UserId(0));
        let trained = client.train(&task, &mut holding(samples)).unwrap();
        trained.update.blocks[0].apply(None).unwrap()
    };
    let (free, pulled) = (trained(0.0, 1), trained(0.05, 1));
    assert_ne!(free.row(0), e.row(0));
    assert_eq!(free.row(2), e.row(2), "no sample has item 2");
    // A step takes 0.1 (3 x 80 - 1) 2 x 0.05 / 6 of the distance.
    let share: f32 = 0.398_333_3;
    for item in 0..ITEMS {
        let [free, e, r] = [&free, &e, &r].map(|table| table.row(item));
        let expected = |at: usize| free[at] + share * (r[at] - e[at]);
        assert_close(pulled.row(item), &[expected(0), expected(1)]);
    }
    let left = (1.0 - share) * (1.0 - share);
    assert_close(trained(0.05, 2).row(2), &[left, 1.0 - left]);
}
