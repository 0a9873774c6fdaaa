#![allow(clippy::unwrap_used)]
use ndarray::Array2;

use super::*;
use crate::item_to_item::ease::Ease;
use crate::item_to_item::itemknn::ItemKnn;
use crate::tests::{AtWork, problem_of, sent_with_weights};
use fedrecsim_core::Timestamp;

const ITEMS: usize = 7;

fn ratings() -> Vec<UserRatings> {
    sent_with_weights(&[
        &[0, 1, 2],
        &[1, 2, 5],
        &[0, 3],
        &[2, 3, 4, 5],
        &[1, 4],
        &[0, 1, 2, 3],
    ])
}

fn matrix_of<M: Central<Memory = Remembered<usize>>>(method: M) -> Table {
    let mut one = AtWork::new(method, problem_of(6, ITEMS));
    one.pass(&ratings(), 0);
    Table::clone(one.model.table(0))
}

/// Returns the sum over users of the product of their weights of both items.
fn together(i: usize, j: usize) -> f64 {
    let of_user = |user: &UserRatings| {
        let weight = |of: usize| {
            let at = user.items.iter().position(|item| *item as usize == of);
            at.map_or(0.0, |at| f64::from(user.ratings[at]))
        };
        weight(i) * weight(j)
    };
    ratings().iter().map(of_user).sum()
}

/// If this fails, ratings or items that a user did not like count in the matrix, or times count
/// there though they are only to count on the device, or are scaled for one who was away.
#[test]
fn a_user_sends_positives_with_their_weights_in_training() {
    let day = |day: i64| Timestamp(day * 86_400_000_000_000);
    let instants = [day(10), day(20), day(5), day(15)];
    let own = OwnData {
        labels: Some(&[true, true, false, true]),
        ratings: (&[4.0f32, 5.0, 1.0, 3.0][..]).into(),
        instants: &instants,
        training_ends: Some(day(25)),
        ..OwnData::new(&[1, 3, 4, 6])
    };
    let sent = |in_training: bool| {
        let recency = Recency {
            floor: 0.25,
            half_life_days: Some(5.0),
            in_training,
            ..Recency::default()
        };
        let method = Ease {
            recency: Some(recency),
            ..Ease::default()
        };
        Central::sent(&method, (&own, UserId(0))).unwrap()
    };
    assert_eq!(sent(false), (vec![1, 3, 6], vec![1.0; 3]));
    assert_eq!(sent(true), (vec![1, 3, 6], vec![0.375, 0.75, 0.5]));
}

/// If this fails, EASE is not the regression of every item on the others: the gradient X^T (X - X
/// B) - lambda B of its loss must vanish off the diagonal, which is constrained.
#[test]
fn ease_is_stationary_off_the_diagonal() {
    for lambda in [0.5, 3.0, 500.0] {
        let matrix = matrix_of(Ease {
            regularization: lambda,
            ..Ease::default()
        });
        let b = Array2::from_shape_fn((ITEMS, ITEMS), |(i, j)| f64::from(matrix.row(i)[j]));
        for i in 0..ITEMS {
            assert_eq!(b[(i, i)], 0.0);
            for j in (0..ITEMS).filter(|j| *j != i) {
                let explained: f64 = (0..ITEMS).map(|k| together(i, k) * b[(k, j)]).sum();
                let gradient = together(i, j) - explained - lambda * b[(i, j)];
                assert!(
                    gradient.abs() < 1e-5,
                    "lambda {lambda}, ({i}, {j}): {gradient}"
                );
            }
        }
        assert!(
            matrix.row(6).iter().all(|value| *value == 0.0),
            "nobody has rated item 6"
        );
    }
}

/// If this fails, later steps make the matrix again and take virtual time, or ratings that arrive
/// late are left out.
#[test]
fn the_matrix_is_made_again_for_new_ratings_alone() {
    let method = Ease {
        regularization: 2.0,
        ..Ease::default()
    };
    let mut one = AtWork::new(method, problem_of(6, ITEMS));
    let all = ratings();
    let first = one.pass(&all[..4], 0);
    // Four users of 3, 3, 2 and 4 items.
    assert_eq!(first.multiply_adds, 6 + 6 + 3 + 10 + 7 * 7 * 7 / 2 + 7 * 7);
    let model = one.model.clone();
    assert_eq!(one.pass(&all[..4], 1), StepReport::default());
    assert_eq!(one.model, model);
    one.pass(&all, 2);
    assert_ne!(one.model, model);
}

/// If this fails, a run that starts from another one scores with the matrix of the other's
/// parameters.
#[test]
fn another_run_makes_the_matrix_again() {
    let with = |regularization| Ease {
        regularization,
        ..Ease::default()
    };
    let mut one = AtWork::new(with(2.0), problem_of(6, ITEMS));
    one.pass(&ratings(), 0);
    one.method = with(50.0);
    Central::begin_anew(&one.method, &mut one.memory);
    one.pass(&ratings(), 0);
    assert_eq!(*one.model.table(0), matrix_of(with(50.0)).into());
}

/// If this fails, a device scores with other rows than those of its positives, or without their
/// weights.
#[test]
fn a_score_is_the_weighted_sum_over_own_positives() {
    let matrix = matrix_of(Ease {
        regularization: 1.0,
        ..Ease::default()
    });
    let mut scores = [0.0; 3];
    add_rows(&matrix, (&[1, 4], &[1.0, 0.25]), &[0, 2, 6], &mut scores);
    for (score, item) in scores.into_iter().zip([0, 2, 6]) {
        assert!((score - (matrix.row(1)[item] + 0.25 * matrix.row(4)[item])).abs() < 1e-6);
    }
}

/// If this fails, a score depends on how many others are asked for with it.
#[test]
fn a_score_is_the_same_among_few_items_and_among_all() {
    let (mut next, items) = (0.1f32, 40);
    let matrix = Table::from_fn(TableShape::new(items, items), || {
        next = (next * 37.0 + 0.3).fract();
        next - 0.5
    });
    let score = |asked: &[u32]| {
        let mut scores = vec![0.0; asked.len()];
        add_rows(&matrix, (&[1, 7, 30], &[1.0, 0.3, 0.7]), asked, &mut scores);
        scores
    };
    let all = score(&(0..items as u32).collect::<Vec<_>>());
    for (item, among_all) in all.iter().enumerate() {
        assert_eq!(score(&[item as u32])[0].to_bits(), among_all.to_bits());
    }
}

/// If this fails, an item keeps other items than the most similar ones, or ties depend on chance.
#[test]
fn an_item_keeps_its_most_similar_items() {
    let cosine =
        |i: usize, j: usize| together(i, j) / ((together(i, i) * together(j, j)).sqrt() + 2.0);
    for neighbours in [1, 2, 100] {
        let matrix = matrix_of(ItemKnn {
            neighbours,
            shrinkage: 2.0,
            ..ItemKnn::default()
        });
        for i in 0..ITEMS {
            let mut others: Vec<usize> = (0..ITEMS)
                .filter(|&j| i != j && together(i, j) > 0.0)
                .collect();
            others.sort_by(|&a, &b| cosine(i, b).total_cmp(&cosine(i, a)));
            let kept = &others[..others.len().min(neighbours as usize)];
            for j in 0..ITEMS {
                let expected = if kept.contains(&j) {
                    cosine(i, j) as f32
                } else {
                    0.0
                };
                assert!(
                    (matrix.row(i)[j] - expected).abs() < 1e-7,
                    "k = {neighbours}, ({i}, {j})"
                );
            }
        }
    }
}
