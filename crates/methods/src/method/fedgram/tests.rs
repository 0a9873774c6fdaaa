#![allow(clippy::unwrap_used)]

use ndarray::{Array1, Array2, ArrayView2};

use super::numerics::*;
use super::{ByDensity, Counts, FedGram, FedGramParameters};
use crate::method::Method;
use crate::method::declare::Declared;
use crate::method::listed_sums::Told;
use crate::method::tests::problem_of;
use fedrecsim_core::rng::{PortableDraws, Purpose, Streams};
use fedrecsim_model::model::algebra::gram::{add_gram, mirror_upper};
use fedrecsim_model::model::algebra::product::product;
use fedrecsim_model::model::algebra::triangle::{packed_triangle, unpacked_triangle};
use fedrecsim_model::model::least_squares::{LeastSquares, Positives, Weights, gram_of_table};
use fedrecsim_model::model::table::{Table, TableShape, TableUpdate};

const CONSTANTS: Constants = Constants {
    unobserved_weight: 0.3,
    regularization: 0.02,
    regularization_exponent: 1.0,
    server_rate: 1.0,
};
const ITEMS: usize = 12;
const DIMENSION: usize = 4;

fn table() -> Array2<f32> {
    let mut stream = Streams::new(5).stream(Purpose::GlobalInit, 0, 0);
    Array2::from_shape_fn((ITEMS, DIMENSION), |_| stream.standard_normal() as f32)
}

fn users() -> Vec<Vec<u32>> {
    vec![
        vec![0, 3, 4],
        vec![1, 3, 7, 9],
        vec![0, 9],
        vec![3, 5, 6, 7, 8],
    ]
}

fn user_vectors(table: &Array2<f32>) -> Vec<Vec<f64>> {
    let weighted_gram = gram_of_table(&table.view())
        .unwrap()
        .mapv(|value| CONSTANTS.unobserved_weight * value);
    let mut solver = LeastSquares::default();
    let mut solve = |items: &Vec<u32>| {
        let positives = Positives {
            items,
            weights: Weights::Equal(1.0),
            target_offset: 0.0,
        };
        solver
            .user_vector(
                &weighted_gram,
                &table.view(),
                positives,
                CONSTANTS.ridge(items.len() as f64, ITEMS as f64),
            )
            .unwrap()
    };
    users().iter().map(&mut solve).collect()
}

/// Returns an upload of these rows of a table of this shape.
fn listed((rows, dimension): (usize, usize), items: &[u32], values: &[f32]) -> TableUpdate {
    TableUpdate::listed(TableShape { rows, dimension }, items.to_vec(), values, 1.0).unwrap()
}

/// Adds to `sums` what a user with this vector and these positives sends.
fn absorb(sums: &mut Sums, table: &Array2<f32>, vector: &[f64], items: &[u32]) {
    let gradients = row_gradients(vector, &table.view(), items);
    sums.absorb(
        1.0,
        (&listed((ITEMS, DIMENSION), items, &gradients), None),
        &outer_triangle(vector),
    )
    .unwrap();
}

fn sums(table: &Array2<f32>, vectors: &[Vec<f64>]) -> Sums {
    let mut sums = Sums::default();
    vectors
        .iter()
        .zip(users())
        .for_each(|(vector, items)| absorb(&mut sums, table, vector, &items));
    sums
}

/// Returns the loss by its definition, over every pair of a user and an item.
fn loss(table: &Array2<f64>, vectors: &[Vec<f64>]) -> f64 {
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(a, b)| a * b).sum::<f64>();
    let (mut loss, mut counts) = (0.0, [0u32; ITEMS]);
    for (x, items) in vectors.iter().zip(users()) {
        for (item, row) in table.rows().into_iter().enumerate() {
            let predicted = dot(x, &row.to_vec());
            loss += CONSTANTS.unobserved_weight * predicted * predicted;
            if items.contains(&(item as u32)) {
                loss += (1.0 - predicted) * (1.0 - predicted);
                counts[item] += 1;
            }
        }
        loss += CONSTANTS.ridge(items.len() as f64, ITEMS as f64) * dot(x, x);
    }
    for (row, count) in table.rows().into_iter().zip(counts) {
        loss += CONSTANTS.ridge(f64::from(count), vectors.len() as f64)
            * dot(&row.to_vec(), &row.to_vec());
    }
    loss
}

/// If this fails, the server minimises another loss than the devices, or leaves part of the
/// negatives out.
#[test]
fn the_step_times_the_stated_matrix_is_half_the_slope_of_the_loss() {
    let table = table();
    let vectors = user_vectors(&table);
    let sums = sums(&table, &vectors);
    let mut after = table.clone();
    sums.step(&mut after.view_mut(), &CONSTANTS).unwrap();
    let exact = table.mapv(f64::from);
    let mut gram = Array2::<f64>::zeros((DIMENSION, DIMENSION));
    for vector in &vectors {
        let row = ArrayView2::from_shape((1, DIMENSION), vector).unwrap();
        add_gram(&mut gram, &row, None).unwrap();
    }
    mirror_upper(&mut gram).unwrap();
    for item in 0..ITEMS {
        let ridge = CONSTANTS.ridge(sums.gradients.senders[item], vectors.len() as f64);
        let share =
            CONSTANTS.unobserved_weight + sums.gradients.senders[item] / vectors.len() as f64;
        let step: Array1<f64> = (0..DIMENSION)
            .map(|c| exact[(item, c)] - f64::from(after[(item, c)]))
            .collect();
        let column = step.clone().into_shape_with_order((DIMENSION, 1)).unwrap();
        let product = product(&gram.view(), &column.view()).unwrap();
        for axis in 0..DIMENSION {
            let moved = |by: f64| {
                let mut other = exact.clone();
                other[(item, axis)] += by;
                loss(&other, &vectors)
            };
            let slope = (moved(1e-4) - moved(-1e-4)) / 2e-4;
            let claimed = share * product[(axis, 0)] + ridge * step[axis];
            assert!(
                (slope / 2.0 - claimed).abs() < 1e-5,
                "item {item}: {} is not {claimed}",
                slope / 2.0
            );
        }
    }
}

#[test]
fn a_round_lowers_the_loss() {
    let mut table = table();
    let mut last = f64::INFINITY;
    for _ in 0..4 {
        let vectors = user_vectors(&table);
        let now = loss(&table.mapv(f64::from), &vectors);
        assert!(now < last, "{now} after {last}");
        last = now;
        sums(&table, &vectors)
            .step(&mut table.view_mut(), &CONSTANTS)
            .unwrap();
    }
}

/// If this fails, merging the sums of two peers does not give the sums of all participants.
#[test]
fn merged_sums_are_the_sums_of_all_participants() {
    let table = table();
    let vectors = user_vectors(&table);
    let (mut left, mut right) = (Sums::default(), Sums::default());
    for (index, (vector, items)) in vectors.iter().zip(users()).enumerate() {
        let half = if index < 2 { &mut left } else { &mut right };
        absorb(half, &table, vector, &items);
    }
    left.merge(right);
    let whole = sums(&table, &vectors);
    assert_eq!(
        (left.participants, &left.gradients.senders),
        (whole.participants, &whole.gradients.senders)
    );
    assert!(
        left.gradients
            .rows
            .iter()
            .zip(&whole.gradients.rows)
            .all(|(a, b)| (a - b).abs() < 1e-12)
    );
    assert!(
        left.triangle
            .iter()
            .zip(&whole.triangle)
            .all(|(a, b)| (a - b).abs() < 1e-12)
    );
}

#[test]
fn triangles_survive_their_way_and_contributions_of_another_shape_are_refused() {
    let matrix = Array2::from_shape_fn(
        (3, 3),
        |(i, j)| if i <= j { (3 * i + j) as f64 } else { 0.0 },
    );
    assert_eq!(
        unpacked_triangle(&packed_triangle(&matrix), 3).unwrap(),
        matrix
    );
    assert!(unpacked_triangle(&[0.0; 5], 3).is_err());
    assert_eq!(outer_triangle(&[2.0, 3.0]), [4.0, 6.0, 9.0]);
    let mut sums = Sums::default();
    assert!(
        sums.absorb(1.0, (&listed((2, 2), &[1], &[0.0; 2]), None), &[0.0; 2])
            .is_err()
    );
    assert_eq!(sums, Sums::default());
    sums.absorb(
        0.5,
        (&listed((2, 2), &[0, 1], &[0.0, 0.0, 2.0, 2.0]), None),
        &[4.0; 3],
    )
    .unwrap();
    assert!(
        sums.absorb(1.0, (&listed((3, 2), &[1], &[0.0; 2]), None), &[0.0; 3])
            .is_err()
    );
    assert_eq!(
        (&sums.gradients.senders, sums.participants),
        (&vec![0.0, 0.5], 0.5),
        "a row of zeros was not sent"
    );
    assert_eq!(
        (&sums.gradients.rows[2..], &sums.triangle),
        (&[1.0; 2][..], &vec![2.0; 3])
    );
    let sums = Sums::default();
    let mut table = Array2::from_elem((2, 2), 1.5f32);
    sums.step(&mut table.view_mut(), &CONSTANTS).unwrap();
    assert_eq!(
        table,
        Array2::from_elem((2, 2), 1.5),
        "a step without participants"
    );
}

/// If this fails, noise in G makes a step large in directions of which G says nothing, or rounding
/// counts as noise.
#[test]
fn a_matrix_with_a_negative_eigenvalue_is_raised_by_it() {
    let after = |last: f64, others: f64| {
        let mut sums = Sums {
            participants: 4.0,
            ..Sums::default()
        };
        sums.absorb(0.0, (&listed((2, 2), &[0, 1], &[1.0; 4]), None), &[0.0; 3])
            .unwrap();
        sums.gradients.rows.fill(0.5);
        sums.triangle = vec![others, 0.0, last];
        let mut table = Array2::from_elem((2, 2), 1.5f32);
        sums.step(&mut table.view_mut(), &CONSTANTS).unwrap();
        table
    };
    assert_eq!(after(-2.0, 3.0), after(0.0, 5.0));
    let raised = |by: f64| after(0.0, 3.0 + by);
    assert_eq!(
        after(-2.9e-6, 3.0),
        raised(0.0),
        "less than a millionth of 3 is rounding"
    );
    assert_eq!(after(-3.1e-6, 3.0), raised(3.1e-6));
    assert_ne!(
        raised(2.9e-6),
        raised(0.0),
        "the case before the last can fail"
    );
}

/// If this fails, one user can move the sums of gradients or of x x^T further than is written down.
#[test]
fn no_user_sends_more_than_the_bound() {
    let length = |values: &[f32]| {
        values
            .iter()
            .map(|value| f64::from(*value).powi(2))
            .sum::<f64>()
            .sqrt()
    };
    for scale in [1e-3f32, 0.1, 1.0, 30.0] {
        let table = table().mapv(|value| scale * value);
        for (vector, items) in user_vectors(&table).iter().zip(users()) {
            let ridge = CONSTANTS.ridge(items.len() as f64, ITEMS as f64);
            let (gradients, outer) = largest_contribution(items.len() as f64, ridge);
            let found = (
                length(&row_gradients(vector, &table.view(), &items)),
                length(&outer_triangle(vector)),
            );
            assert!(
                found.0 <= gradients && found.1 <= outer,
                "{found:?} is more than {gradients}, {outer}"
            );
        }
    }
}

/// If this fails, a device's negatives weigh more or less where data is denser, or devices and the
/// server minimise different losses: the weights must be those of the counted mean, and before
/// anything is counted those of the device's own positives.
#[test]
fn by_density_the_weights_follow_from_the_counted_mean() {
    let by_density = ByDensity {
        unobserved_per_positive: 4.0,
        regularization: 3.0,
    };
    let parameters = FedGramParameters {
        by_density: Some(by_density),
        ..FedGramParameters::default()
    };
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} is not {b}");
    for exponent in [0.0, 0.5, 1.0] {
        let method = FedGram::with_exponent(parameters.clone(), exponent);
        let initial = Declared::<FedGram>::new(parameters.clone(), &problem_of(2, ITEMS)).initial();
        let counted = Counts {
            mean_positives: 5.0,
            ..Counts::default()
        };
        let (mut told, table) = (initial.clone(), Table::clone(initial.table(0)));
        method.renew(&mut told, table, counted).unwrap();
        for (model, mean) in [(initial, 2.0), (told, 5.0)] {
            let constants = method.constants_of_model(&model, 2);
            close(constants.unobserved_weight * ITEMS as f64, 4.0 * mean);
            close(constants.ridge(mean, ITEMS as f64), 3.0);
            assert_eq!(constants, method.constants(mean, ITEMS));
        }
        assert_eq!(
            method.constants(0.0, ITEMS),
            method.constants(1.0, ITEMS),
            "a user without positives has finite weights"
        );
    }
    let mut sums = Sums::default();
    assert_eq!(
        (sums.mean_positives(), sums.popularity()),
        (0.0, Vec::new())
    );
    let table = table();
    user_vectors(&table)
        .iter()
        .zip(users())
        .for_each(|(vector, items)| absorb(&mut sums, &table, vector, &items));
    assert_eq!(sums.mean_positives(), 3.5);
    assert_eq!(sums.popularity()[3], 0.75);
}

/// If this fails, clipped uploads, which count for less than one user each, make another step than
/// whole ones.
#[test]
fn clipped_uploads_make_the_step_of_whole_ones() {
    let table = table();
    let step = |weight: f32| {
        let mut sums = Sums::default();
        for (vector, items) in user_vectors(&table).iter().zip(users()) {
            let scaled = |values: Vec<f32>| {
                values
                    .iter()
                    .map(|value| weight * value)
                    .collect::<Vec<f32>>()
            };
            let gradients = scaled(row_gradients(vector, &table.view(), &items));
            let counts = listed((ITEMS, 1), &items, &vec![weight; items.len()]);
            let told = Told {
                counts: &counts,
                participants: f64::from(weight),
            };
            let rows = listed((ITEMS, DIMENSION), &items, &gradients);
            sums.absorb(1.0, (&rows, Some(told)), &scaled(outer_triangle(vector)))
                .unwrap();
        }
        let mut after = table.clone();
        sums.step(&mut after.view_mut(), &CONSTANTS).unwrap();
        (after, sums.mean_positives(), sums.popularity())
    };
    let (whole, clipped) = (step(1.0), step(0.125));
    assert!(
        whole
            .0
            .iter()
            .zip(&clipped.0)
            .all(|(one, other)| (one - other).abs() < 1e-5)
    );
    assert_eq!((whole.1, whole.2), (clipped.1, clipped.2));
}
