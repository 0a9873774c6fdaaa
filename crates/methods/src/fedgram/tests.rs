#![allow(clippy::unwrap_used)]

use ndarray::{Array1, Array2, ArrayView2};

use super::numerics::*;
use super::{ByDensity, FedGram, FedGramParameters, MEAN_POSITIVES, POPULARITY, renew, tell};
use crate::declare::{Counts, Declared};
use crate::row_counts::said_of;
use crate::server::{Accumulator, Contribution, Server, UploadUse};
use crate::sums::UploadSums;
use crate::tests::{problem_of, with_step};
use crate::{Class, Method, Phase};
use fedrecsim_core::{InvitationId, PortableDraws, Purpose, Streams, UserId};
use fedrecsim_model::algebra::{
    add_gram, mirror_upper, packed_triangle, product, upper_triangular,
};
use fedrecsim_model::least_squares::{LeastSquares, Positives, WeightedGram, gram_of_table};
use fedrecsim_model::table::{RowSet, Table, TableShape, TableUpdate, floats};
use fedrecsim_model::{Model, ModelUpdate};

const CONSTANTS: Constants = Constants {
    unobserved_weight: 0.3,
    regularization: 0.02,
    regularization_exponent: 1.0,
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

/// Returns what these positives weigh in training.
fn weights(items: &[u32]) -> Vec<f64> {
    let weight = |item: &u32| 1.0 - 0.125 * f64::from(item % 4);
    items.iter().map(weight).collect()
}

fn user_vectors(table: &Array2<f32>) -> Vec<Vec<f64>> {
    let table = Table::from_array(table);
    let weighted_gram = gram_of_table(&table).mapv(|value| CONSTANTS.unobserved_weight * value);
    let mut solver = LeastSquares::default();
    let mut solve = |items: &Vec<u32>| {
        let positives = Positives {
            items,
            weights: Some(&weights(items)),
            target_offset: 0.0,
        };
        solver
            .user_vector(
                WeightedGram::Matrix(&weighted_gram),
                &table,
                positives,
                CONSTANTS.ridge(items.len() as f64, ITEMS as f64),
            )
            .unwrap()
    };
    users().iter().map(&mut solve).collect()
}

/// Returns an upload of these rows of a table of this shape.
fn listed((rows, dimension): (usize, usize), items: &[u32], values: &[f32]) -> TableUpdate {
    TableUpdate::listed(
        TableShape::new(rows, dimension),
        items.to_vec(),
        values,
        1.0,
    )
    .unwrap()
}

/// Returns the method for the tables of these tests.
fn method(sends_counts: bool) -> Declared<FedGram> {
    let parameters = FedGramParameters {
        latent_dimension: DIMENSION as u32,
        sends_counts,
        ..FedGramParameters::default()
    };
    Declared::new(parameters, &problem_of(4, ITEMS))
}

fn no_sums(method: &Declared<FedGram>) -> UploadSums {
    UploadSums::of(&method.upload_layout(Phase::default(), Class::default()))
}

/// Adds to `sums` an upload of these blocks.
fn absorb_blocks(sums: &mut UploadSums, blocks: Vec<TableUpdate>, received: &Model) {
    let update = ModelUpdate::of_blocks(blocks);
    let upload = Contribution::fresh(UserId(0), InvitationId(0), &update, received);
    sums.absorb(&[upload]).unwrap();
}

/// Adds to `sums` what a user with this vector and these positives sends, times `weight`. `told` is
/// what it says of itself.
fn absorb(
    sums: &mut UploadSums,
    table: &Array2<f32>,
    (vector, items): (&[f64], &[u32]),
    (told, weight): (Counts, f32),
) {
    let scaled = |values: Vec<f32>| -> Vec<f32> { values.iter().map(|v| weight * v).collect() };
    let received = Table::from_array(table);
    let gradients = scaled(row_gradients(vector, &received, (items, &weights(items))));
    let triangle = scaled(outer_triangle(vector));
    let mut blocks = vec![
        listed((ITEMS, DIMENSION), items, &gradients),
        listed((1, triangle.len()), &[0], &triangle),
    ];
    for said in said_of(told, ITEMS, items).unwrap() {
        let ones = scaled(floats(&said.values).collect());
        blocks.push(match said.rows {
            RowSet::Listed(rows) => TableUpdate::listed(said.shape, rows, &ones, 1.0).unwrap(),
            RowSet::All => TableUpdate::whole(Table::new(said.shape, ones)),
        });
    }
    absorb_blocks(sums, blocks, &Model::of_table("Y", received));
}

fn sums(table: &Array2<f32>, vectors: &[Vec<f64>]) -> UploadSums {
    let mut sums = no_sums(&method(false));
    for (vector, items) in vectors.iter().zip(users()) {
        absorb(&mut sums, table, (vector, &items), (Counts::Nothing, 1.0));
    }
    sums
}

/// Makes a whole Newton step.
fn step(sums: &UploadSums, table: &mut Array2<f32>) {
    newton_step(sums, &mut table.view_mut(), &CONSTANTS, 1.0).unwrap();
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
                loss += weights(&[item as u32])[0] * (1.0 - predicted) * (1.0 - predicted);
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
    step(&sums, &mut after);
    let exact = table.mapv(f64::from);
    let mut gram = Array2::<f64>::zeros((DIMENSION, DIMENSION));
    for vector in &vectors {
        let row = ArrayView2::from_shape((1, DIMENSION), vector).unwrap();
        add_gram(&mut gram, &row, None);
    }
    mirror_upper(&mut gram);
    for item in 0..ITEMS {
        let ridge = CONSTANTS.ridge(sums.senders[item], vectors.len() as f64);
        let share = CONSTANTS.unobserved_weight + sums.senders[item] / vectors.len() as f64;
        let step: Array1<f64> = (0..DIMENSION)
            .map(|c| exact[(item, c)] - f64::from(after[(item, c)]))
            .collect();
        let column = step.clone().into_shape_with_order((DIMENSION, 1)).unwrap();
        let product = product(&gram.view(), &column.view());
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
        step(&sums(&table, &vectors), &mut table);
    }
}

/// If this fails, merging the sums of two peers does not give the sums of all participants.
#[test]
fn merged_sums_are_the_sums_of_all_participants() {
    let table = table();
    let vectors = user_vectors(&table);
    let (mut left, mut right) = (no_sums(&method(false)), no_sums(&method(false)));
    for (index, (vector, items)) in vectors.iter().zip(users()).enumerate() {
        let half = if index < 2 { &mut left } else { &mut right };
        absorb(half, &table, (vector, &items), (Counts::Nothing, 1.0));
    }
    left.merge(Box::new(right)).unwrap();
    let whole = sums(&table, &vectors);
    assert_eq!(
        (left.participants, &left.senders),
        (whole.participants, &whole.senders)
    );
    for (left, whole) in left.blocks.iter().zip(&whole.blocks) {
        assert!(left.iter().zip(whole).all(|(a, b)| (a - b).abs() < 1e-12));
    }
}

#[test]
fn triangles_survive_their_way_and_a_step_of_nobody_moves_nothing() {
    let matrix = Array2::from_shape_fn(
        (3, 3),
        |(i, j)| if i <= j { (3 * i + j) as f64 } else { 0.0 },
    );
    assert_eq!(upper_triangular(&packed_triangle(&matrix), 3), matrix);
    assert_eq!(outer_triangle(&[2.0, 3.0]), [4.0, 6.0, 9.0]);
    let (mut moved, before) = (table(), table());
    step(&no_sums(&method(false)), &mut moved);
    assert_eq!(moved, before, "a step without participants");
}

/// If this fails, noise in G makes a step large in directions that G knows nothing of, or rounding
/// counts as noise.
#[test]
fn a_matrix_with_a_negative_eigenvalue_is_raised_by_it() {
    let two = FedGramParameters {
        latent_dimension: 2,
        ..FedGramParameters::default()
    };
    let method = Declared::<FedGram>::new(two, &problem_of(4, 2));
    let after = |last: f64, others: f64| {
        let mut sums = no_sums(&method);
        sums.participants = 4.0;
        sums.blocks = vec![vec![0.5; 4], vec![others, 0.0, last]];
        let mut table = Array2::from_elem((2, 2), 1.5f32);
        step(&sums, &mut table);
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

/// Returns how far one user can move the sums of a step: bounds of the length of all its gradients
/// together, and of its x x^T as a matrix (the upper triangle is a part of it). `count` is the
/// number of its positives and `ridge` that of [`Constants::ridge`]. What a device says, if it
/// does, moves the counts by the root of `count` and the participants by 1.
///
/// x minimises a0 sum of (x . y_j)^2 over all items + sum of (x . y_i - 1)^2 over the positives +
/// ridge |x|^2, which is `count` at x = 0. So |x|^2 is at most count / ridge, and the errors of the
/// positives have squares that add up to at most `count`. Where uploads are clipped to C, any user
/// moves both sums together by at most C.
fn largest_contribution(count: f64, ridge: f64) -> (f64, f64) {
    let square = count / ridge;
    (fedrecsim_core::math::sqrt(square * count), square)
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
                length(&row_gradients(
                    vector,
                    &Table::from_array(&table),
                    (&items, &weights(&items)),
                )),
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
        let method = FedGram {
            parameters: parameters.clone(),
            exponent,
        };
        let initial = Declared::<FedGram>::new(parameters.clone(), &problem_of(2, ITEMS)).initial();
        let mut told = initial.clone();
        tell(&mut told, MEAN_POSITIVES, vec![5.0]).unwrap();
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
    let table = table();
    let sums = sums(&table, &user_vectors(&table));
    assert_eq!(sums.mean_rows(), 3.5);
    assert_eq!(sums.shares()[3], 0.75);
}

/// If this fails, clipped uploads, which count for less than one user each, make another step than
/// whole ones.
#[test]
fn clipped_uploads_make_the_step_of_whole_ones() {
    let table = table();
    let after = |weight: f32| {
        let mut sums = no_sums(&method(true));
        for (vector, items) in user_vectors(&table).iter().zip(users()) {
            let told = (Counts::RowsAndSender, weight);
            absorb(&mut sums, &table, (vector, &items), told);
        }
        let mut after = table.clone();
        step(&sums, &mut after);
        (after, sums.mean_rows(), sums.shares())
    };
    let (whole, clipped) = (after(1.0), after(0.125));
    assert!(
        whole
            .0
            .iter()
            .zip(&clipped.0)
            .all(|(one, other)| (one - other).abs() < 1e-5)
    );
    assert_eq!((whole.1, whole.2), (clipped.1, clipped.2));
}

/// If this fails, devices are told another mean than the server has counted and steps with, or
/// none, or the server does not say that it uses nothing but sums.
#[test]
fn the_model_tells_the_mean_that_was_counted_last() {
    let parameters = FedGramParameters {
        latent_dimension: 2,
        popularity_weight: 1.0,
        by_density: Some(ByDensity::default()),
        ..FedGramParameters::default()
    };
    let method = Declared::<FedGram>::new(parameters, &problem_of(3, 5));
    let mut server = method.server();
    assert_eq!(server.upload_use(), UploadUse::Each);
    let told = |server: &dyn Server| server.model().named(MEAN_POSITIVES).unwrap().as_slice()[0];
    let step = |server: &mut dyn Server, uploads: &[&[u32]]| {
        let mut sums = no_sums(&method);
        for items in uploads {
            let rows = listed((5, 2), items, &vec![0.1; 2 * items.len()]);
            let triangle = listed((1, 3), &[0], &outer_triangle(&[0.5, 0.25]));
            absorb_blocks(&mut sums, vec![rows, triangle], server.model());
        }
        with_step(0, |step| server.step(Box::new(sums), step)).unwrap();
        told(server)
    };
    assert_eq!(told(&*server), 0.0, "nothing is counted yet");
    assert_eq!(
        step(&mut *server, &[&[0, 1, 2, 3], &[4], &[1, 2]]),
        7.0 / 3.0
    );
    let popularity = server.model().named(POPULARITY).unwrap();
    assert_eq!(popularity.as_slice()[1], 2.0 / 3.0);
    assert_eq!(
        step(&mut *server, &[]),
        7.0 / 3.0,
        "a step without participants"
    );
    let mut changed = server.model().clone();
    tell(&mut changed, super::GRAM, vec![0.0; 3]).unwrap();
    server.set_model(changed.clone()).unwrap();
    renew(&mut changed).unwrap();
    assert_eq!(server.model(), &changed, "Y^T Y follows from Y");
    assert_eq!(told(&*server), 7.0 / 3.0);
    assert_eq!(
        step(&mut *server, &[&[]]),
        1.0,
        "0 would say that nothing was counted"
    );
}
