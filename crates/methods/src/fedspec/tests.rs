#![allow(clippy::unwrap_used)]
use ndarray::Array2;

use super::*;
use crate::declare::Declared;
use crate::tests::problem_of;
use fedrecsim_model::algebra::nystroem;

/// The positions of the model's blocks.
const TABLE: usize = 0;
const ITEM_WEIGHTS: usize = 2;
const POPULARITY: usize = 3;
use fedrecsim_scenario::{StepWeights, WeightTotals};

const ITEMS: usize = 9;
const RANK: usize = 3;

fn table() -> Table {
    let mut stream = Streams::new(3).stream(Purpose::GlobalInit, 0, 0);
    Table::from_fn(TableShape::new(ITEMS, RANK), || {
        stream.standard_normal() as f32
    })
}

fn method(parameters: FedSpec) -> Declared<FedSpec> {
    let parameters = FedSpec {
        latent_dimension: RANK as u32,
        ..parameters
    };
    Declared::new(parameters, &problem_of(6, ITEMS))
}

/// If this fails, two passes in the order of time are not the sum over all pairs.
#[test]
fn sums_of_a_device_are_those_over_all_pairs() {
    let (table, items, later) = (table(), [0u32, 2, 3, 7, 8], [4u32, 0, 2, 2, 1]);
    for (share, length) in [(1.0, 50.0), (0.5, 2.0), (0.0, 1.5)] {
        let sums = numerics::kernel_sums(&table, &items, &later, share, length);
        for p in 0..items.len() {
            for column in 0..RANK {
                let of_pair = |q: usize| {
                    let distance = f64::from(later[p].abs_diff(later[q]));
                    let kernel = share + (1.0 - share) * (-distance / length).exp();
                    kernel * f64::from(table.row(items[q] as usize)[column])
                };
                let expected: f64 = (0..items.len()).map(of_pair).sum();
                let found = f64::from(sums[p * RANK + column]);
                assert!(
                    (found - expected).abs() < 1e-5,
                    "{found} for {expected}, f = {share}"
                );
            }
        }
    }
}

/// If this fails, the server's step does not find the eigenvectors of a matrix that has no others.
#[test]
fn a_step_finds_the_eigenvectors_of_a_matrix_of_low_rank() {
    let start = table().view().mapv(f64::from);
    let factors = Array2::from_shape_fn((ITEMS, RANK), |(i, j)| ((i * (j + 2)) % 7) as f64 - 2.0);
    let matrix = factors.dot(&factors.t());
    let spectrum = nystroem(&matrix.dot(&start).view(), &start.view())
        .unwrap()
        .unwrap();
    let images = matrix.dot(&spectrum.vectors);
    for (column, value) in spectrum.values.iter().enumerate() {
        for (image, vector) in images
            .column(column)
            .iter()
            .zip(spectrum.vectors.column(column))
        {
            assert!(
                (image - value * vector).abs() < 1e-8 * spectrum.values[0],
                "{image} for {value} x {vector}"
            );
        }
    }
    let (filter, lengths) = numerics::filtered(&spectrum, 1.0);
    assert!(
        (filter[RANK - 1] - 0.5f64.sqrt()).abs() < 1e-12,
        "the least eigenvalue is lambda itself"
    );
    assert!(lengths.iter().all(|length| (0.0..1.0).contains(length)));
    let nothing = Array2::zeros((ITEMS, RANK));
    assert_eq!(nystroem(&nothing.view(), &start.view()).unwrap(), None);
    let tiny = nystroem(&(matrix.dot(&start) * 1e-200).view(), &start.view())
        .unwrap()
        .unwrap();
    let error = (&tiny.vectors - &spectrum.vectors)
        .iter()
        .fold(0.0, |most: f64, value| most.max(value.abs()));
    assert!(
        error < 1e-8,
        "the size of M makes no difference, but {error}"
    );
}

/// If this fails, the table moves before enough users have sent their sums, or an upload counts
/// twice.
#[test]
fn a_step_waits_until_enough_users_have_sent_theirs() {
    let method = method(FedSpec {
        coverage: 0.6,
        ..FedSpec::default()
    });
    let mut server = method.server();
    let before = server.model().clone();
    let shape = before.table(TABLE).shape();
    let upload = |items: &[u32]| {
        let later: Vec<u32> = (0..items.len() as u32).rev().collect();
        let sums = numerics::kernel_sums(before.table(TABLE), items, &later, 1.0, 50.0);
        ModelUpdate::of_table(TableUpdate::listed(shape, items.to_vec(), &sums, 1.0).unwrap())
    };
    let uploads = [
        upload(&[0, 1, 2]),
        upload(&[1, 2, 5]),
        upload(&[0, 3, 4, 8]),
    ];
    let normalise = |totals: &WeightTotals| StepWeights {
        kept: 0.0,
        divisor: totals.weights,
    };
    let mut step = |users: &[u32], number: u32| {
        let mut sums = server.accumulator();
        for &user in users {
            let update = &uploads[user as usize];
            let contribution = Contribution::fresh(
                UserId(user),
                fedrecsim_core::InvitationId(number),
                update,
                &before,
            );
            sums.absorb(&[contribution]).unwrap();
        }
        server
            .step(
                sums,
                &StepContext::new(number, 5, &normalise, Streams::new(1)),
            )
            .unwrap();
        server.model().clone()
    };
    assert_eq!(
        step(&[0, 1], 0),
        before,
        "two of five users are fewer than 60 %"
    );
    assert_eq!(
        step(&[1, 0], 1),
        before,
        "the same two have sent theirs before"
    );
    let after = step(&[2], 2);
    assert_ne!(after, before);
    // Items 1 and 2 have two users, and items 6 and 7 none, which counts as one.
    let weights = after.table(ITEM_WEIGHTS).as_slice();
    assert!(weights.iter().all(|weight| *weight >= 1.0), "{weights:?}");
    assert!(
        after.table(TABLE).row(6).iter().all(|value| *value == 0.0),
        "nobody has item 6"
    );
}

/// If this fails, a filter is applied to one side of a score alone, or a profile leaves weights
/// out.
#[test]
fn a_profile_has_the_filter_of_both_sides() {
    let table = table();
    let found = numerics::profile(&table, &[1, 4], &[1.0, 0.5], &[1.0, 0.5, 0.0]);
    for (column, factor) in [(0, 1.0), (1, 0.25), (2, 0.0)] {
        let expected = factor * (table.row(1)[column] + 0.5 * table.row(4)[column]);
        assert!((found[column] - expected).abs() < 1e-6);
    }
    assert_eq!(deviation(&[1.0, 3.0]), 1.0);
    assert_eq!(deviation(&[]), 0.0);
}

/// Returns how far one user can move the sum of all uploads: a bound of the length of its rows o
/// together, for this many positives and columns of A.
///
/// K is positive semidefinite with ones on its diagonal, so that it stretches by at most its trace,
/// which is the number of positives. A has rows of a matrix with orthonormal columns, times n^(-d),
/// which is at most 1, since d is not negative and n at least 1: a row is no longer than 1, and all
/// rows together no longer than the root of the number of columns. What a device says, if it does,
/// moves the counts by the root of `positives` and the participants by 1. Where uploads are clipped
/// to C, any user moves all sums together by at most C.
fn largest_contribution(positives: f64, columns: f64) -> f64 {
    positives * math::sqrt(positives.min(columns))
}

/// If this fails, one user can move the sum of uploads further than is written down.
#[test]
fn no_user_sends_more_than_the_bound() {
    let drawn = table().view().mapv(f64::from);
    let columns = fedrecsim_model::algebra::thin_qr(&drawn.view()).unwrap().q;
    let table = Table::from_array(&columns.mapv(|value| value as f32));
    for items in [&[4u32][..], &[0, 2, 3], &[0, 1, 2, 3, 4, 5, 6, 7, 8]] {
        let later: Vec<u32> = (0..items.len() as u32).rev().collect();
        for (share, length) in [(1.0, 50.0), (0.3, 5.0), (0.0, 1000.0)] {
            let sums = numerics::kernel_sums(&table, items, &later, share, length);
            let found = sums
                .iter()
                .map(|value| f64::from(*value).powi(2))
                .sum::<f64>()
                .sqrt();
            let bound = largest_contribution(items.len() as f64, RANK as f64);
            assert!(
                found <= bound * (1.0 + 1e-6),
                "{found} is more than {bound}"
            );
        }
    }
    // A user of whose items one column has nothing but ones moves the sum as far as the bound says.
    let ones = Table::from_fn(TableShape::new(4, 1), || 0.5);
    let sums = numerics::kernel_sums(&ones, &[0, 1, 2, 3], &[0; 4], 1.0, 1.0);
    let found = sums
        .iter()
        .map(|value| f64::from(*value).powi(2))
        .sum::<f64>()
        .sqrt();
    assert!(
        (found - largest_contribution(4.0, 1.0)).abs() < 1e-6,
        "{found}"
    );
}

/// Returns the model after one step of uploads of these items, each in the sums with `weight`.
fn after_uploads(of_users: &[(u32, &[u32])], weight: f32, expected: Option<f64>) -> Model {
    after_uploads_with(FedSpec::default(), &[], of_users, weight, expected)
}

/// Returns the model after one step of uploads of these items, each in the sums with `weight`, and
/// one more upload that has nothing but `noise` on the counts of these items.
fn after_uploads_with(
    parameters: FedSpec,
    noise: &[(u32, f32)],
    of_users: &[(u32, &[u32])],
    weight: f32,
    expected: Option<f64>,
) -> Model {
    let method = method(FedSpec {
        coverage: 0.5,
        popularity_weight: 1.0,
        sends_counts: true,
        ..parameters
    });
    let (mut server, layout) = (method.server(), method.upload_layout(Phase(0), Class(0)));
    let before = server.model().clone();
    let mut sums = server.accumulator();
    for (user, items) in of_users {
        let rows =
            numerics::kernel_sums(before.table(TABLE), items, &vec![0; items.len()], 1.0, 50.0);
        let scaled = |values: &[f32]| {
            values
                .iter()
                .map(|value| weight * value)
                .collect::<Vec<f32>>()
        };
        let listed = |block: usize, values: &[f32]| {
            TableUpdate::listed(
                layout.blocks()[block].shape,
                items.to_vec(),
                &scaled(values),
                1.0,
            )
            .unwrap()
        };
        let itself = TableUpdate::whole(Table::new(layout.blocks()[2].shape, vec![weight]));
        let blocks = vec![listed(0, &rows), listed(1, &vec![1.0; items.len()]), itself];
        let update = ModelUpdate::of_blocks(blocks);
        sums.absorb(&[Contribution::fresh(
            UserId(*user),
            fedrecsim_core::InvitationId(0),
            &update,
            &before,
        )])
        .unwrap();
    }
    let (items, values): (Vec<u32>, Vec<f32>) = noise.iter().copied().unzip();
    let noisy = |block: usize, items: &[u32], values: &[f32]| {
        TableUpdate::listed(layout.blocks()[block].shape, items.to_vec(), values, 1.0).unwrap()
    };
    let update = ModelUpdate::of_blocks(vec![
        noisy(0, &[], &[]),
        noisy(1, &items, &values),
        noisy(2, &[], &[]),
    ]);
    if !noise.is_empty() {
        sums.absorb(&[Contribution::fresh(
            UserId(5),
            fedrecsim_core::InvitationId(0),
            &update,
            &before,
        )])
        .unwrap();
    }
    let normalise = |totals: &WeightTotals| StepWeights {
        kept: 0.0,
        divisor: totals.weights,
    };
    let mut step = StepContext::new(0, 6, &normalise, Streams::new(1));
    step.expected_contributions = expected;
    server.step(sums, &step).unwrap();
    server.model().clone()
}

const THREE: [(u32, &[u32]); 3] = [(0, &[0, 1, 2, 4]), (1, &[1, 2, 5, 6]), (2, &[0, 3, 4, 8])];

/// If this fails, clipped uploads, which count for less than one user each, leave other item counts
/// than whole ones, or the share of an item among the users is not that of those who have it.
#[test]
fn clipped_uploads_count_as_whole_ones_do() {
    let (whole, clipped) = (
        after_uploads(&THREE, 1.0, None),
        after_uploads(&THREE, 0.125, None),
    );
    for (block, (_, table)) in whole.tables().enumerate() {
        for (one, other) in table.as_slice().iter().zip(clipped.table(block).as_slice()) {
            assert!(
                (one - other).abs() < 1e-5,
                "block {block}: {one} and {other}"
            );
        }
    }
    assert_eq!(whole.table(POPULARITY).as_slice()[1], 2.0 / 3.0);
}

/// If this fails, the number of those who really took part decides where noise is to hide it, or a
/// second upload of a user is taken out of a sum that does not say who is in it.
#[test]
fn a_sum_counts_uploads_or_as_many_as_were_expected() {
    let start = method(FedSpec {
        popularity_weight: 1.0,
        ..FedSpec::default()
    })
    .initial();
    assert_eq!(
        after_uploads(&THREE, 1.0, Some(2.9)),
        start,
        "fewer than half of six users were expected"
    );
    assert_ne!(after_uploads(&THREE[..1], 1.0, Some(3.0)), start);
    assert_eq!(after_uploads(&THREE[..2], 1.0, None), start);
    let twice = [THREE[0], THREE[1], THREE[0]];
    assert_ne!(
        after_uploads(&twice, 1.0, None),
        start,
        "three uploads of two users"
    );
}

/// If this fails, directions of pure noise come out as the strongest of all.
#[test]
fn eigenvectors_that_noise_is_larger_than_are_left_out() {
    let start = Array2::from_shape_fn((4, 3), |(i, j)| if i == j { 1.0 } else { 0.0 });
    let images = |values: [f64; 3]| {
        Array2::from_shape_fn((4, 3), |(i, j)| if i == j { values[i] } else { 0.0 })
    };
    let spectrum = |values| nystroem(&images(values).view(), &start.view()).unwrap();
    let found = spectrum([5.0, -0.5, 0.25]).unwrap();
    assert_eq!(
        (found.vectors.ncols(), found.values.len()),
        (1, 1),
        "0.25 is less than the noise of 0.5"
    );
    assert!((found.values[0] - 5.0).abs() < 1e-12);
    assert_eq!(spectrum([5.0, 2.0, -0.5]).unwrap().values.len(), 2);
    assert_eq!(
        spectrum([5.0, 2.0, -1e-12]).unwrap().values.len(),
        3,
        "rounding is no noise"
    );
    assert_eq!(spectrum([0.25, -0.5, 0.1]), None);
}

/// Returns the weights of items in scores and the table after three users' uploads, with this
/// damping and this noise on the counts.
fn damped(damping_exponent: f64, noise: &[(u32, f32)]) -> (Vec<f32>, Vec<f32>) {
    let parameters = FedSpec {
        damping_exponent,
        ridge: 0.0,
        ..FedSpec::default()
    };
    let model = after_uploads_with(parameters, noise, &THREE, 1.0, Some(3.0));
    (
        model.table(ITEM_WEIGHTS).as_slice().to_vec(),
        model.table(TABLE).as_slice().to_vec(),
    )
}

/// If this fails, an item whose count is below the noise is damped by that count, which makes the
/// noise in its row large, or the exponent of the damping makes another difference than it should.
#[test]
fn counts_below_the_noise_damp_as_much_as_the_noise() {
    // Item 7, which nobody has, comes out at -16, so that all counts are taken for 16.
    let noise = [(7, -16.0)];
    let (undamped, plain) = damped(0.0, &noise);
    for (exponent, factor) in [(0.25, 2.0), (0.5, 4.0), (1.0 / 3.0, 16f32.cbrt())] {
        let (weights, table) = damped(exponent, &noise);
        assert!(
            weights
                .iter()
                .zip(&undamped)
                .all(|(one, other)| (one / (other * factor) - 1.0).abs() < 1e-5)
        );
        assert!(
            table
                .iter()
                .zip(&plain)
                .all(|(one, other)| (factor * one - other).abs() < 1e-5),
            "{table:?}, {plain:?}"
        );
    }
    assert_eq!(
        damped(0.0, &[]),
        (undamped, plain),
        "without damping and with b2 = 0 counts make no difference"
    );
}

/// If this fails, noise changes counts that are larger than it, or is compared with counts in other
/// units than users.
#[test]
fn counts_above_the_noise_stay_as_they_are() {
    // Two users have each of the items 0, 1, 2 and 4, and one each of the others but 7, where noise
    // comes out at -1.5 users.
    let of = |noise: f32, weight| after_counts(&[(7, noise)], weight);
    for (counts, what) in [
        (of(-1.5, 1.0), "whole"),
        (of(-1.5 * 0.125, 0.125), "clipped"),
    ] {
        for (item, expected) in [(0, 2.0), (1, 2.0), (3, 1.5), (4, 2.0), (5, 1.5), (7, 1.5)] {
            assert!(
                (counts[item] - expected).abs() < 1e-4,
                "{what} uploads, item {item}: {}",
                counts[item]
            );
        }
    }
}

/// Returns the counts that a table's damping shows, each as the fourth power of what damping by d =
/// 1/4 adds to the weight of an item whose row is all but left out.
fn after_counts(noise: &[(u32, f32)], weight: f32) -> Vec<f32> {
    let parameters = FedSpec {
        ridge: 1e12,
        ..FedSpec::default()
    };
    let model = after_uploads_with(parameters, noise, &THREE, weight, Some(3.0));
    model
        .table(ITEM_WEIGHTS)
        .as_slice()
        .iter()
        .map(|weight| weight.powi(4))
        .collect()
}
