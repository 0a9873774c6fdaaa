//! Tests CoLR's gradients, its basis, its server and what devices keep.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::declare::Declared;
use crate::server::{Contribution, Download, StepContext, StepWeights, WeightTotals};
use crate::tests::problem;
use fedrecsim_core::InvitationId;
use fedrecsim_core::math::gradient::gradient_check;
use fedrecsim_model::kernel::RoundRows;

const DIMENSION: usize = 4;
const RANK: usize = 2;
const ITEMS: u32 = 5;

fn method(parameters: ColrParameters) -> Declared<Colr> {
    Declared::new(parameters, &problem())
}

fn basis_of(numbers: [u64; 2]) -> Vec<f32> {
    basis(numbers, &parameters(Downloaded::Table))
}

/// The shape of A.
const FACTORS: TableShape = TableShape::new(100, RANK);

fn parameters(download: Downloaded) -> ColrParameters {
    ColrParameters {
        latent_dimension: DIMENSION as u32,
        rank: RANK as u32,
        download,
        ..ColrParameters::default()
    }
}

/// Returns samples of five items; two occur more than once.
fn samples() -> RoundRows {
    let mut rows = RoundRows::default();
    rows.collect(
        &[0, 1, 2, 3, 4, 1, 3, 3],
        &[1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0],
        ITEMS as usize,
    );
    rows
}

fn mean_loss(table: &[f32], basis: &[f32], at: &[f64]) -> f64 {
    let (user, factors) = at.split_at(DIMENSION);
    let samples = samples();
    let loss = |&(row, is_positive): &(u32, bool)| {
        let row = row as usize;
        let value = |i: usize| {
            let moved = (0..RANK)
                .map(|f| factors[row * RANK + f] * f64::from(basis[f * DIMENSION + i]))
                .sum::<f64>();
            f64::from(table[row * DIMENSION + i]) + moved
        };
        let z: f64 = (0..DIMENSION).map(|i| user[i] * value(i)).sum();
        z.max(0.0) + libm::log1p(libm::exp(-z.abs())) - if is_positive { z } else { 0.0 }
    };
    samples.samples.iter().map(loss).sum::<f64>() / samples.samples.len() as f64
}

/// If this fails, devices do not follow the gradient of the loss in the basis that they share, or a
/// row that is trained is not V_j + A_j B.
#[test]
fn the_gradient_agrees_with_central_differences() {
    let basis = basis_of([7, 1]);
    let mut stream = Streams::new(2).stream(Purpose::PrivateInit, 0, 0);
    let mut draw = |count: usize| {
        (0..count)
            .map(|_| stream.standard_normal() as f32)
            .collect::<Vec<f32>>()
    };
    let (table, start_user, start) = (draw(20), draw(DIMENSION), draw(RANK * ITEMS as usize));
    let combined = |factors: &[f32]| {
        let mut rows = Table::new(TableShape::new(ITEMS as usize, DIMENSION), table.clone());
        let factors = Table::new(TableShape::new(ITEMS as usize, RANK), factors.to_vec());
        add_product(&mut rows, &basis, &factors, 0..ITEMS as usize);
        rows.as_slice().to_vec()
    };
    let (mut user, mut rows, mut factors) = (start_user.clone(), combined(&start), start.clone());
    let ratio = math::sqrt(RANK as f64 / DIMENSION as f64);
    let colr = Colr::new(
        ColrParameters {
            learning_rate_user: 1.0,
            learning_rate_items: 1.0 / ratio,
            ..parameters(Downloaded::Table)
        },
        &problem(),
    );
    let mut order = Streams::new(1).stream(Purpose::Shuffle, 0, 0);
    let with_order = (&mut samples(), &mut order);
    let (loss, work) = colr.descend(&basis, with_order, &mut user, &mut rows, &mut factors);
    let at: Vec<f64> = start_user
        .iter()
        .chain(&start)
        .map(|value| f64::from(*value))
        .collect();
    let after = user.iter().chain(&factors);
    let gradient: Vec<f64> = at
        .iter()
        .zip(after)
        .map(|(before, after)| before - f64::from(*after))
        .collect();
    gradient_check(2e-4, &at, &gradient, |at| mean_loss(&table, &basis, at)).unwrap();
    assert!(
        (loss - mean_loss(&table, &basis, &at)).abs() < 1e-6,
        "{}",
        loss
    );
    assert_eq!(work.row_visits, u64::from(ITEMS));
    let moved = combined(&factors);
    assert!(
        rows.iter()
            .zip(&moved)
            .all(|(row, moved)| (row - moved).abs() < 1e-5),
        "{rows:?} {moved:?}"
    );
}

/// If this fails, updates of successive steps stay in one subspace, or devices train in other bases
/// than the server adds.
#[test]
fn every_step_has_an_orthogonal_basis_of_its_own() {
    let basis = basis_of([7, 1]);
    assert_eq!(basis, basis_of([7, 1]));
    assert!(basis != basis_of([7, 2]) && basis != basis_of([8, 1]));
    let product = |a: usize, b: usize| -> f32 {
        let row = |row: usize| &basis[row * DIMENSION..(row + 1) * DIMENSION];
        row(a).iter().zip(row(b)).map(|(a, b)| a * b).sum()
    };
    let length = DIMENSION as f32 / RANK as f32;
    assert!((product(0, 0) - length).abs() < 1e-6 && (product(1, 1) - length).abs() < 1e-6);
    assert!(product(0, 1).abs() < 1e-6);
}

/// Returns an upload whose only row is that of `item`.
fn upload(shape: TableShape, item: u32, values: [f32; RANK]) -> ModelUpdate {
    ModelUpdate::of_table(TableUpdate::listed(shape, vec![item], &values, 1.0).unwrap())
}

/// Steps the server by these uploads, each with what its sender had downloaded.
fn step(server: &mut dyn Server, uploads: &[(ModelUpdate, Model)]) -> Result<()> {
    let mut sums = server.accumulator();
    for (user, (update, received)) in uploads.iter().enumerate() {
        let contribution = Contribution::fresh(
            UserId(user as u32),
            InvitationId(user as u32),
            update,
            received,
        );
        sums.absorb(&[contribution]).unwrap();
    }
    let normalise = |totals: &WeightTotals| StepWeights {
        kept: 0.0,
        divisor: totals.weights,
    };
    server
        .step(sums, &StepContext::new(0, 2, &normalise, Streams::new(0)))
        .map(|_| ())
}

fn download(server: &dyn Server) -> Model {
    match server.download() {
        Download::Shared(model) => model,
        other => panic!("{other:?}"),
    }
}

/// If this fails, the server adds something else than the mean of what clients have found, or adds
/// late updates in another basis than they were found in.
#[test]
fn the_server_adds_the_mean_of_a_times_the_basis_in_which_it_was_found() {
    let method = method(parameters(Downloaded::Table));
    let (mut server, shape) = (method.server(), FACTORS);
    let first = download(&*server);
    step(
        &mut *server,
        &[(upload(shape, 3, [2.0, 0.0]), first.clone())],
    )
    .unwrap();
    let second = download(&*server);
    let [seed, number] = numbers_of(&second);
    assert_eq!(number, 1);
    let late = (upload(shape, 3, [0.0, 4.0]), first.clone());
    step(
        &mut *server,
        &[(upload(shape, 3, [6.0, 0.0]), second), late],
    )
    .unwrap();
    let (old, new) = (basis_of([seed, 0]), basis_of([seed, 1]));
    for i in 0..DIMENSION {
        let expected =
            first.table(0).row(3)[i] + 2.0 * old[i] + 3.0 * new[i] + 2.0 * old[DIMENSION + i];
        assert!((server.model().table(0).row(3)[i] - expected).abs() < 1e-5);
    }
    assert_eq!(server.model().table(0).row(4), first.table(0).row(4));
}

/// If this fails, a device that is told the mean of A alone scores with another table than the
/// server has, or goes on with a table that lacks a step.
#[test]
fn devices_that_download_the_mean_have_the_servers_table_to_the_bit() {
    let method = method(parameters(Downloaded::Aggregate));
    let (mut server, shape) = (method.server(), FACTORS);
    let colr = Colr::new(parameters(Downloaded::Aggregate), &problem());
    colr.initial(method.initial());
    let mut held = Held::default();
    for number in 0..4 {
        let received = download(&*server);
        assert_eq!(received.layout().bytes(), 100 * RANK * 4 + 16);
        let table = colr.table(&held, UserId(1), &received).unwrap();
        assert_eq!(table.as_slice(), server.model().table(0).as_slice());
        held = Held(Some((number, table)));
        let found = [
            upload(shape, 2, [0.3, number as f32]),
            upload(shape, 50, [0.1, -0.7]),
        ];
        step(
            &mut *server,
            &found.map(|update| (update, received.clone())),
        )
        .unwrap();
    }
    let held = Held(held.0.map(|(_, table)| (2, table)));
    let missed = colr
        .table(&held, UserId(1), &download(&*server))
        .unwrap_err()
        .to_string();
    assert!(
        missed.contains("user 1: its device has the item table of step 2"),
        "{missed}"
    );
    let late = (upload(shape, 2, [1.0, 1.0]), download(&*method.server()));
    assert!(
        step(&mut *server, &[late])
            .unwrap_err()
            .to_string()
            .contains("no update may be late")
    );
}
