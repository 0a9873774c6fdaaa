//! Solves for the user vector that best fits a user's positives, with all other items as weak
//! negatives.
//!
//! Implicit alternating least squares (Hu, Koren and Volinsky 2008, Collaborative Filtering for
//! Implicit Feedback Datasets, equation 4) solves this for every user:
//!
//! x = (w_0 Y^T Y + sum_i w_i y_i y_i^T + ridge I)^(-1) sum_i b_i y_i,
//!
//! with the item table Y (m x k) and sums over the user's positives i. The first term stands for
//! all items at once, so that the work is that of the positives and of one k x k system. All
//! computation is in double precision in a fixed order (contract 1). Tables hold single precision.

use ndarray::{Array2, ArrayView2};

use super::algebra::{
    Result, add_gram, factorise, mixed_dot, solve, triangle_values, write_triangle,
};
use super::table::Table;

/// Describes a user's positives by their rows of the item table and their weights.
#[derive(Clone, Copy, Debug)]
pub struct Positives<'a> {
    /// The items, in the order of the sum.
    pub items: &'a [u32],
    /// The weights w_i, which positives have in addition to their weight among all items; 1 for
    /// each if there are none.
    pub weights: Option<&'a [f64]>,
    /// The offset b_i - w_i. It is 0 if the weight among all items pulls positives to 0 like any
    /// other item, and w_0 if it pulls them to 1, as in the cited paper.
    pub target_offset: f64,
}

/// Describes w_0 Y^T Y (k x k).
#[derive(Clone, Copy, Debug)]
pub enum WeightedGram<'a> {
    /// As a matrix, of which only the upper triangle is read.
    Matrix(&'a Array2<f64>),
    /// As w_0 and the values of the upper triangle of Y^T Y, row after row.
    Triangle(f64, &'a [f32]),
}

impl WeightedGram<'_> {
    /// Writes the upper triangle to that of `matrix`.
    ///
    /// # Panics
    /// If there is another number of values, a defect of the caller.
    fn write_to(self, matrix: &mut Array2<f64>) {
        match self {
            Self::Matrix(gram) => {
                assert_eq!(gram.dim(), matrix.dim(), "the Gram matrix of all items");
                matrix.assign(gram);
            }
            Self::Triangle(weight, values) => {
                let count = triangle_values(matrix.ncols());
                assert_eq!(values.len(), count, "the Gram matrix of all items");
                let weighted = |value: &f32| f64::from(*value) * weight;
                write_triangle(matrix, values, weighted);
            }
        }
    }
}

/// Solves for user vectors. Its memory is reused from user to user, and nothing passes between
/// them.
#[derive(Clone, Debug, Default)]
pub struct LeastSquares {
    matrix: Array2<f64>,
    rows: Vec<f64>,
}

impl LeastSquares {
    /// Returns the user vector x (k values) for `positives`.
    ///
    /// `ridge` is the weight of the regulariser for this user. Costs n k^2 / 2 + k^3 / 6 multiply-adds for n positives
    /// ([`Self::multiply_adds`]).
    ///
    /// # Errors
    /// [`NotPositiveDefinite`](super::algebra::AlgebraError::NotPositiveDefinite) if `ridge` is too
    /// small for the rounding of the rest, or if the table holds something that is not a number.
    ///
    /// # Panics
    /// If shapes do not fit, if an item is not in the table, or if there is not one weight for each
    /// item. All are defects of the caller.
    pub fn user_vector(
        &mut self,
        weighted_gram: WeightedGram<'_>,
        table: &Table,
        positives: Positives<'_>,
        ridge: f64,
    ) -> Result<Vec<f64>> {
        let (dimension, count) = (table.shape().dimension, positives.items.len());
        self.rows.clear();
        for &item in positives.items {
            let row = table.row(item as usize);
            self.rows.extend(row.iter().map(|value| f64::from(*value)));
        }
        let shape = (dimension, dimension);
        if self.matrix.dim() != shape {
            self.matrix = Array2::zeros(shape);
        }
        weighted_gram.write_to(&mut self.matrix);
        self.matrix
            .diag_mut()
            .iter_mut()
            .for_each(|value| *value += ridge);
        // Each item has added a row of the table, so that this cannot fail.
        let rows = ArrayView2::from_shape((count, dimension), &self.rows);
        let rows = rows.unwrap_or_else(|error| unreachable!("{error}"));
        add_gram(&mut self.matrix, &rows, positives.weights);
        let mut vector = vec![0.0; dimension];
        let rows = self.rows.chunks_exact(dimension.max(1));
        for (position, row) in rows.enumerate() {
            let weight = positives.weights.map_or(1.0, |weights| weights[position]);
            let weight = weight + positives.target_offset;
            let sums = vector.iter_mut().zip(row);
            sums.for_each(|(sum, value)| *sum += weight * value);
        }
        factorise(&mut self.matrix)?;
        solve(&self.matrix, &mut vector);
        Ok(vector)
    }

    /// Returns the number of multiply-adds of [`Self::user_vector`] for `positives` items in
    /// `dimension` dimensions.
    pub fn multiply_adds(positives: usize, dimension: usize) -> u64 {
        let (n, k) = (positives as u64, dimension as u64);
        n * k * (k + 1) / 2 + n * k + k * k * k / 6 + k * k
    }
}

/// Returns the upper triangle of Y^T Y (k x k, zeros below the diagonal) for the item table Y (m x
/// k), summed over the rows in their order.
pub fn gram_of_table(table: &Table) -> Array2<f64> {
    let dimension = table.shape().dimension;
    let mut gram = Array2::zeros((dimension, dimension));
    let rows = table.view().mapv(f64::from);
    add_gram(&mut gram, &rows.as_standard_layout().view(), None);
    gram
}

/// Returns x . y in double precision, in the order of the algebra's scalar products. Elements
/// beyond the shorter length are left out.
pub fn score(vector: &[f64], row: &[f32]) -> f64 {
    mixed_dot(vector, row)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use ndarray::array;

    use super::*;
    use crate::table::TableShape;
    use fedrecsim_core::rng::{PortableDraws, Purpose, Streams};

    fn table(items: usize, dimension: usize) -> Table {
        let mut stream = Streams::new(3).stream(Purpose::GlobalInit, 0, 0);
        let shape = TableShape::new(items, dimension);
        Table::from_fn(shape, || stream.standard_normal() as f32)
    }

    /// Returns the loss that the vector minimises, by its definition over all items of the
    /// catalogue.
    fn loss(table: &Table, items: &[u32], weights: &[f64], all: f64, ridge: f64, x: &[f64]) -> f64 {
        let every: f64 = (0..table.shape().rows)
            .map(|row| all * score(x, table.row(row)).powi(2))
            .sum();
        let own: f64 = items
            .iter()
            .zip(weights)
            .map(|(&item, weight)| weight * (1.0 - score(x, table.row(item as usize))).powi(2))
            .sum();
        every + own + ridge * x.iter().map(|value| value * value).sum::<f64>()
    }

    /// If this fails, the closed form does not minimise the loss, since some step from it lowers
    /// the loss.
    #[test]
    fn no_step_from_the_solution_lowers_the_loss() {
        let table = table(30, 7);
        let (items, weights) = ([2u32, 3, 11, 29], [1.0, 0.5, 2.0, 0.25]);
        let (all, ridge) = (0.3, 0.05);
        let weighted_gram = gram_of_table(&table).mapv(|value| all * value);
        let positives = Positives {
            items: &items,
            weights: Some(&weights),
            target_offset: 0.0,
        };
        let x = LeastSquares::default()
            .user_vector(
                WeightedGram::Matrix(&weighted_gram),
                &table,
                positives,
                ridge,
            )
            .unwrap();
        let at = |x: &[f64]| loss(&table, &items, &weights, all, ridge, x);
        for axis in 0..7 {
            let moved = |step: f64| {
                let mut other = x.clone();
                other[axis] += step;
                at(&other)
            };
            assert!(moved(1e-3) > at(&x) && moved(-1e-3) > at(&x));
            let slope = (moved(1e-4) - moved(-1e-4)) / 2e-4;
            assert!(slope.abs() < 1e-8, "{slope}");
        }
    }

    #[test]
    fn the_solution_of_one_dimension_is_a_division() {
        let table = Table::new(TableShape::new(2, 1), vec![2.0, 3.0]);
        let weighted_gram = gram_of_table(&table);
        assert_eq!(weighted_gram, array![[13.0]]);
        let positives = Positives {
            items: &[1],
            weights: Some(&[4.0]),
            target_offset: 1.0,
        };
        let x = LeastSquares::default()
            .user_vector(WeightedGram::Matrix(&weighted_gram), &table, positives, 1.0)
            .unwrap();
        // (4 + 1) * 3 / (13 + 4 * 9 + 1).
        assert!((x[0] - 0.3).abs() < 1e-15);
    }

    #[test]
    #[should_panic(expected = "the Gram matrix of all items")]
    fn a_matrix_of_another_size_is_a_defect_of_the_caller() {
        let positives = Positives {
            items: &[3],
            weights: None,
            target_offset: 0.0,
        };
        let _ = LeastSquares::default().user_vector(
            WeightedGram::Matrix(&Array2::eye(2)),
            &table(4, 3),
            positives,
            1.0,
        );
    }
}
