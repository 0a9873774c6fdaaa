//! Holds the graph of users and items, along whose edges embeddings are propagated.

use rayon::prelude::*;

use fedrecsim_core::math::sqrt;
use fedrecsim_core::{Error, Result};
use fedrecsim_model::per_instruction_set;

/// The number of rows that a thread takes at a time.
const ROWS_AT_ONCE: usize = 64;

/// Holds the sparse matrix D^-1/2 A D^-1/2 for the symmetric adjacency matrix A of users and items
/// and the diagonal matrix D of their degrees. Nodes are the users and then the items. A node
/// without edges has a row of zeros.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Graph {
    /// For each node the position of its first edge, and behind them the number of all.
    starts: Vec<usize>,
    /// The node at the other end of each edge.
    ends: Vec<u32>,
    /// The weight of each edge.
    weights: Vec<f32>,
}

/// Holds the memory for propagating. Nothing passes from one propagation to the next.
#[derive(Clone, Debug, Default)]
pub(super) struct Layers {
    present: Vec<f32>,
    next: Vec<f32>,
}

impl Graph {
    /// Makes the graph of `edges`, which are different pairs of a user and an item, in an order
    /// that fixes that of all sums.
    ///
    /// # Errors
    /// [`Error::Dataset`] if there are no edges.
    pub(crate) fn new([users, items]: [usize; 2], edges: &[(u32, u32)]) -> Result<Self> {
        if edges.is_empty() {
            return Err(Error::Dataset(
                "lightgcn: users have sent no ratings, so that the graph of users and items has no edges".to_owned(),
            ));
        }
        let both = edges
            .iter()
            .map(|&(user, item)| (user as usize, users + item as usize));
        let directed = || {
            both.clone()
                .flat_map(|(user, item)| [(user, item), (item, user)])
        };
        let mut starts = vec![0; users + items + 1];
        directed().for_each(|(from, _)| starts[from + 1] += 1);
        (1..starts.len()).for_each(|node| starts[node] += starts[node - 1]);
        let root = |node: usize| sqrt((starts[node + 1] - starts[node]) as f64);
        let (mut ends, mut weights) = (vec![0; 2 * edges.len()], vec![0.0; 2 * edges.len()]);
        let mut next = starts.clone();
        for (from, to) in directed() {
            let place = next[from];
            next[from] += 1;
            ends[place] = to as u32;
            weights[place] = (1.0 / (root(from) * root(to))) as f32;
        }
        Ok(Self {
            starts,
            ends,
            weights,
        })
    }

    /// Returns the number of multiply-adds of [`Self::mean_of_layers`].
    pub(crate) fn multiply_adds(&self, dimension: usize, layers: u32) -> u64 {
        u64::from(layers) * (self.ends.len() * dimension) as u64
    }

    /// Replaces `mean` by the mean of E, M E, M^2 E and so on, with this number of layers besides
    /// E. M is the matrix of the graph, and E has a row of `dimension` values for each node.
    ///
    /// M is symmetric, so that the gradient with respect to E is the same mean of the gradient with
    /// respect to `mean`.
    pub(crate) fn mean_of_layers(
        &self,
        embeddings: &[f32],
        (dimension, layers): (usize, u32),
        memory: &mut Layers,
        mean: &mut Vec<f32>,
    ) {
        let Layers { present, next } = memory;
        present.clear();
        present.extend_from_slice(embeddings);
        next.resize(embeddings.len(), 0.0);
        mean.clear();
        mean.extend_from_slice(embeddings);
        for _ in 0..layers {
            self.propagate(present, next, dimension);
            std::mem::swap(present, next);
            mean.iter_mut()
                .zip(&*present)
                .for_each(|(sum, value)| *sum += value);
        }
        let share = 1.0 / (layers + 1) as f32;
        mean.iter_mut().for_each(|sum| *sum *= share);
    }

    /// Replaces `to` by M times `from`. Threads compute rows of their own, each in the order of its
    /// edges, so that they change no bit.
    fn propagate(&self, from: &[f32], to: &mut [f32], dimension: usize) {
        to.par_chunks_mut(ROWS_AT_ONCE * dimension)
            .enumerate()
            .for_each(|(part, rows)| {
                add_neighbours(self, from, dimension, part * ROWS_AT_ONCE, rows);
            });
    }
}

per_instruction_set! {
    /// Replaces `rows`, which begin with node `first`, by the weighted sums of the rows of their
    /// neighbours.
    fn add_neighbours(graph: &Graph, from: &[f32], dimension: usize, first: usize, rows: &mut [f32]) {
        for (node, row) in (first..).zip(rows.chunks_exact_mut(dimension)) {
            let edges = graph.starts[node]..graph.starts[node + 1];
            let neighbours = Neighbours { ends: &graph.ends[edges.clone()], weights: &graph.weights[edges], from };
            let mut done = 0;
            while done < dimension {
                done += match dimension - done {
                    64.. => neighbours.sum_columns::<64>(dimension, done, row),
                    32.. => neighbours.sum_columns::<32>(dimension, done, row),
                    16.. => neighbours.sum_columns::<16>(dimension, done, row),
                    4.. => neighbours.sum_columns::<4>(dimension, done, row),
                    _ => neighbours.sum_columns::<1>(dimension, done, row),
                };
            }
        }
    }
}

/// Describes the neighbours of a node.
struct Neighbours<'a> {
    ends: &'a [u32],
    weights: &'a [f32],
    /// The rows of all nodes.
    from: &'a [f32],
}

impl Neighbours<'_> {
    /// Replaces the `C` columns of `row` from `first` by the weighted sums of those of the
    /// neighbours, and returns `C`. The sums stay in registers until the last edge: in memory, each
    /// would wait for the one before to be stored.
    #[inline(always)]
    fn sum_columns<const C: usize>(
        &self,
        dimension: usize,
        first: usize,
        row: &mut [f32],
    ) -> usize {
        let mut sums = [0.0; C];
        for (end, weight) in self.ends.iter().zip(self.weights) {
            let start = *end as usize * dimension + first;
            for (sum, value) in sums.iter_mut().zip(&self.from[start..start + C]) {
                *sum += weight * value;
            }
        }
        row[first..first + C].copy_from_slice(&sums);
        C
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// If this fails, a column of an embedding has another sum where other columns stand beside it.
    #[test]
    fn columns_are_propagated_alike_however_many_there_are() {
        const NODES: usize = 5;
        // Sums of every width: 64, 32, 16, 4 and three times 1.
        const DIMENSION: usize = 119;
        let graph = Graph::new([2, 3], &[(0, 0), (0, 2), (1, 2), (1, 1)]).unwrap();
        let embeddings: Vec<f32> = (0..NODES * DIMENSION)
            .map(|number| (number as f32).sqrt())
            .collect();
        let (mut memory, mut all, mut one) = (Layers::default(), Vec::new(), Vec::new());
        graph.mean_of_layers(&embeddings, (DIMENSION, 3), &mut memory, &mut all);
        for column in 0..DIMENSION {
            let of_column = |values: &[f32]| {
                values
                    .iter()
                    .skip(column)
                    .step_by(DIMENSION)
                    .copied()
                    .collect::<Vec<_>>()
            };
            graph.mean_of_layers(&of_column(&embeddings), (1, 3), &mut memory, &mut one);
            assert_eq!(of_column(&all), one, "column {column}");
        }
    }
}
