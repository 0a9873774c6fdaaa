//! Finds the users that are most alike.

use crate::prelude::*;

/// Returns the users up to the elbow of their likeness with user `core`, the most alike first: up to
/// the point that is farthest from the line between the first and the last one. Two users are as
/// alike as the cosines of these `rows` of their tables add up to.
pub(super) fn group_of(core: usize, tables: &[&Table], rows: &[usize]) -> Vec<usize> {
    let likeness = |table: &&Table| {
        let cosines = rows
            .iter()
            .map(|row| cosine(tables[core].row(*row), table.row(*row)));
        cosines.sum::<f64>()
    };
    let likeness: Vec<f64> = tables.iter().map(likeness).collect();
    let mut order: Vec<usize> = (0..tables.len()).collect();
    order.sort_by(|a, b| {
        let by_likeness = likeness[*b].total_cmp(&likeness[*a]);
        by_likeness.then((*a != core).cmp(&(*b != core)))
    });
    let sorted: Vec<f64> = order.iter().map(|user| likeness[*user]).collect();
    order.truncate(elbow(&sorted) + 1);
    order
}

fn cosine(one: &[f32], other: &[f32]) -> f64 {
    let product = |a: &[f32], b: &[f32]| -> f64 {
        let pairs = a.iter().zip(b);
        pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    let lengths = math::sqrt(product(one, one) * product(other, other));
    product(one, other) / lengths.max(1e-12)
}

/// Returns the place of the value that is farthest from the line between the first and the last one;
/// the first of equal ones counts.
pub(super) fn elbow(values: &[f64]) -> usize {
    let [Some(first), Some(last)] = [values.first(), values.last()] else {
        return 0;
    };
    let step = (last - first) / (values.len().max(2) - 1) as f64;
    let (mut found, mut farthest) = (0, 0.0);
    for (at, value) in values.iter().enumerate() {
        let distance = (value - (first + step * at as f64)).abs();
        if distance > farthest {
            (found, farthest) = (at, distance);
        }
    }
    found
}
