//! Projects rows on a few basis vectors that sender and receiver draw from the same seed.

use super::candidates::Candidates;
use crate::codec::buffer::Buffer;
use fedrecsim_core::math;
use fedrecsim_core::rng::{PortableDraws, Streams};

/// An orthonormal basis of a random subspace.
pub(super) struct Basis {
    /// The vectors (rank x columns).
    vectors: Vec<f32>,
    rank: usize,
    columns: usize,
}

impl Basis {
    /// Draws a basis of `rank` vectors of `columns` values, or of `columns` vectors if that is
    /// fewer. The vectors are drawn from a normal distribution and made orthonormal one after the
    /// other (Gram-Schmidt), in double precision.
    pub(crate) fn of_seed(seed: u64, rank: usize, columns: usize) -> Self {
        let rank = rank.min(columns);
        let mut stream = Streams::new(seed).named("codec/basis", rank as u64, columns as u64);
        let mut drawn: Vec<Vec<f64>> = Vec::with_capacity(rank);
        while drawn.len() < rank {
            let mut vector: Vec<f64> = (0..columns).map(|_| stream.standard_normal()).collect();
            for other in &drawn {
                let along = dot(&vector, other);
                vector
                    .iter_mut()
                    .zip(other)
                    .for_each(|(value, other)| *value -= along * other);
            }
            let length = math::sqrt(dot(&vector, &vector));
            // A vector that is nearly in the span of the others has lost its digits, so another one
            // is drawn.
            if length > 1e-3 {
                vector.iter_mut().for_each(|value| *value /= length);
                drawn.push(vector);
            }
        }
        Self {
            vectors: drawn
                .into_iter()
                .flatten()
                .map(|value| value as f32)
                .collect(),
            rank,
            columns,
        }
    }

    /// Returns the number of vectors.
    pub(crate) fn rank(&self) -> usize {
        self.rank
    }

    /// Returns the rows as coefficients: their products with the vectors.
    pub(crate) fn project(&self, candidates: &Candidates) -> Candidates {
        let mut values = Buffer::default();
        values.reserve(candidates.rows.len() * self.rank);
        for row in candidates.values.chunks_exact(self.columns.max(1)) {
            let product = |vector: &[f32]| {
                row.iter()
                    .zip(vector)
                    .map(|(value, other)| value * other)
                    .sum::<f32>()
            };
            values.extend(self.vectors.chunks_exact(self.columns.max(1)).map(product));
        }
        Candidates {
            rows: candidates.rows.clone(),
            values,
            columns: self.rank,
            slots: Vec::new(),
        }
    }

    /// Returns the rows that have these coefficients.
    pub(crate) fn expand(&self, coefficients: &[f32]) -> Buffer {
        let mut values = Buffer::default();
        values.reserve(coefficients.len() / self.rank.max(1) * self.columns);
        for of_row in coefficients.chunks_exact(self.rank.max(1)) {
            let start = values.len();
            values.resize(start + self.columns, 0.0);
            for (coefficient, vector) in of_row
                .iter()
                .zip(self.vectors.chunks_exact(self.columns.max(1)))
            {
                let pairs = values[start..].iter_mut().zip(vector);
                pairs.for_each(|(value, other)| *value += coefficient * other);
            }
        }
        values
    }
}

fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, projected rows come back longer or shorter than they are.
    #[test]
    fn a_basis_is_orthonormal_and_a_seed_names_it() {
        for (rank, columns) in [(1, 1), (3, 8), (8, 8), (20, 8)] {
            let basis = Basis::of_seed(7, rank, columns);
            assert_eq!(basis.rank(), rank.min(columns));
            let vectors: Vec<&[f32]> = basis.vectors.chunks_exact(columns).collect();
            for (i, one) in vectors.iter().enumerate() {
                for (j, other) in vectors.iter().enumerate() {
                    let product: f32 = one.iter().zip(*other).map(|(one, other)| one * other).sum();
                    assert!(
                        (product - f32::from(u8::from(i == j))).abs() < 1e-5,
                        "{i} and {j}: {product}"
                    );
                }
            }
            assert_eq!(basis.vectors, Basis::of_seed(7, rank, columns).vectors);
            assert!(columns == 1 || basis.vectors != Basis::of_seed(8, rank, columns).vectors);
        }
    }

    /// If this fails, rows lose more than what is outside of the subspace.
    #[test]
    fn what_is_in_the_subspace_comes_back() {
        let basis = Basis::of_seed(3, 4, 4);
        let values = (0..8).map(|value| value as f32 - 3.0).collect();
        let rows = Candidates {
            rows: vec![2, 9],
            values,
            columns: 4,
            slots: Vec::new(),
        };
        let back = basis.expand(&basis.project(&rows).values);
        assert!(
            back.iter()
                .zip(rows.values.iter())
                .all(|(back, value)| (back - value).abs() < 1e-5),
            "{back:?}"
        );
    }
}
