//! Finds clusters of rows, and the users that are most alike.

use crate::prelude::*;

/// How often a search moves its centres, at most.
const MOST_MOVES: usize = 300;

/// Returns the cluster of each row of `table`, one of `clusters`, with the number of multiply-adds
/// that this took: k-means (Lloyd) from centres that are drawn by their distances (k-means++), the
/// best of so many `starts`.
pub(super) fn clusters(
    table: &Table,
    clusters: usize,
    starts: u32,
    stream: &mut Stream,
) -> (Vec<u32>, u64) {
    let rows: Vec<f64> = table.as_slice().iter().copied().map(f64::from).collect();
    let k = table.shape().dimension;
    let mut best: Option<(f64, Vec<u32>)> = None;
    let mut multiply_adds = 0;
    for _ in 0..starts {
        let mut search = Search::new(&rows, k, clusters.min(table.shape().rows), stream);
        let spread = search.run();
        multiply_adds += search.multiply_adds;
        if best.as_ref().is_none_or(|(least, _)| spread < *least) {
            best = Some((spread, search.labels));
        }
    }
    (
        best.map_or_else(Vec::new, |(_, labels)| labels),
        multiply_adds,
    )
}

/// A search from one start.
struct Search<'r> {
    rows: &'r [f64],
    k: usize,
    centres: Vec<f64>,
    labels: Vec<u32>,
    multiply_adds: u64,
}

fn squared_distance(one: &[f64], other: &[f64]) -> f64 {
    let pairs = one.iter().zip(other);
    pairs.map(|(a, b)| (a - b) * (a - b)).sum()
}

impl<'r> Search<'r> {
    /// Draws the centres: each is a row, by its squared distance from the centres before.
    fn new(rows: &'r [f64], k: usize, clusters: usize, stream: &mut Stream) -> Self {
        let count = rows.len() / k;
        let row = |at: usize| &rows[at * k..(at + 1) * k];
        let mut centres = row(stream.below(count as u32) as usize).to_vec();
        let mut least: Vec<f64> = vec![f64::INFINITY; count];
        while centres.len() < clusters * k {
            let newest = &centres[centres.len() - k..];
            for (at, least) in least.iter_mut().enumerate() {
                *least = least.min(squared_distance(row(at), newest));
            }
            let drawn = stream.open_unit() * least.iter().sum::<f64>();
            let mut before = 0.0;
            let passes = least.iter().position(|distance| {
                before += distance;
                before > drawn
            });
            // If all rows are centres, any will do.
            centres.extend_from_slice(row(passes.unwrap_or(0)));
        }
        Self {
            labels: vec![0; count],
            multiply_adds: (count * clusters * k) as u64,
            rows,
            k,
            centres,
        }
    }

    /// Moves centres to the means of their rows until no row changes its cluster, and returns the
    /// sum of squared distances. A cluster without rows keeps its centre.
    fn run(&mut self) -> f64 {
        let mut spread = self.assign().1;
        for _ in 0..MOST_MOVES {
            self.move_centres();
            let (has_changed, new_spread) = self.assign();
            spread = new_spread;
            if !has_changed {
                break;
            }
        }
        spread
    }

    /// Gives each row the label of its next centre; the first of equal ones counts. Returns whether
    /// a label has changed, and the sum of squared distances.
    fn assign(&mut self) -> (bool, f64) {
        let (mut has_changed, mut spread) = (false, 0.0);
        for (row, label) in self.rows.chunks_exact(self.k).zip(&mut self.labels) {
            let (mut next, mut least) = (0, f64::INFINITY);
            for (number, centre) in (0..).zip(self.centres.chunks_exact(self.k)) {
                let distance = squared_distance(row, centre);
                if distance < least {
                    (next, least) = (number, distance);
                }
            }
            has_changed |= *label != next;
            (*label, spread) = (next, spread + least);
        }
        self.multiply_adds += (self.rows.len() * (self.centres.len() / self.k)) as u64;
        (has_changed, spread)
    }

    fn move_centres(&mut self) {
        let k = self.k;
        let mut sums = vec![0.0; self.centres.len()];
        let mut counts = vec![0.0; self.centres.len() / k];
        for (row, label) in self.rows.chunks_exact(k).zip(&self.labels) {
            counts[*label as usize] += 1.0;
            let sum = sums[*label as usize * k..].iter_mut();
            sum.zip(row).for_each(|(sum, value)| *sum += value);
        }
        let centres = self.centres.chunks_exact_mut(k).zip(sums.chunks_exact(k));
        for ((centre, sum), count) in centres.zip(&counts).filter(|(_, count)| **count > 0.0) {
            let values = centre.iter_mut().zip(sum);
            values.for_each(|(value, sum)| *value = sum / count);
        }
    }
}

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
