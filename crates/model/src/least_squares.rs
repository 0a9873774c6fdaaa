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
//!
//! A user with n positives, few beside k, is solved for in n dimensions (the identity of Woodbury).
//! With R^T R = w_0 Y^T Y + ridge I, S = diag(w)^(1/2), and U = S Y_u R^(-1) for the rows Y_u of the
//! positives,
//!
//! x = R^(-1) U^T (I + U U^T)^(-1) S^(-1) b.
//!
//! All users who receive the same Y^T Y and have as many positives share R^(-1).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use ndarray::{Array2, ArrayView2};

use super::algebra::{
    Result, add_gram, add_scaled, dot, factorise, invert_factor, mixed_dot, solve, triangle_values,
    write_triangle,
};
use super::table::Table;
use crate::per_instruction_set;

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

impl Positives<'_> {
    /// Returns s_i, the square root of w_i, and b_i / s_i for each positive; `None` if a weight is
    /// not above zero.
    fn roots_and_targets(&self) -> Option<(Vec<f64>, Vec<f64>)> {
        let roots = match self.weights {
            Some(weights) => weights.iter().map(|weight| weight.sqrt()).collect(),
            None => vec![1.0; self.items.len()],
        };
        assert_eq!(
            roots.len(),
            self.items.len(),
            "the weights of the positives"
        );
        let targets = roots.iter().map(|root| root + self.target_offset / root);
        let targets: Vec<f64> = targets.collect();
        let are_finite = targets.iter().all(|target| target.is_finite());
        are_finite.then_some((roots, targets))
    }
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
    /// Writes the upper triangle to that of `matrix`, with the ridge on the diagonal.
    ///
    /// # Panics
    /// If there is another number of values, a defect of the caller.
    fn write_with_ridge(self, ridge: f64, matrix: &mut Array2<f64>) {
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
        let mut diagonal = matrix.diag_mut();
        diagonal.iter_mut().for_each(|value| *value += ridge);
    }
}

/// A user has few positives if there are at least so many dimensions for each.
const FEW: usize = 4;

/// The most elements of all factors that are kept together (16 MiB).
const KEPT_ELEMENTS: usize = 1 << 21;

/// Holds R^(-1) of w_0 Y^T Y + ridge I for one Y^T Y. Whether one is kept changes no bit.
#[derive(Clone, Debug, Default)]
struct SharedInverses {
    /// The upper triangle of Y^T Y.
    gram: Vec<f32>,
    /// The inverses by the bits of w_0 and of the ridge.
    inverses: BTreeMap<[u64; 2], Array2<f64>>,
}

impl SharedInverses {
    /// Returns the elements of R^(-1) (k x k, upper triangle), row after row; `None` if the matrix is
    /// not positive definite.
    fn of(&mut self, weight: f64, gram: &[f32], (ridge, k): (f64, usize)) -> Option<&[f64]> {
        let is_full = (self.inverses.len() + 1) * k * k > KEPT_ELEMENTS;
        let key = [weight, ridge].map(f64::to_bits);
        if !have_same_bits(&self.gram, gram) || (is_full && !self.inverses.contains_key(&key)) {
            self.gram = gram.to_vec();
            self.inverses.clear();
        }
        let inverse = match self.inverses.entry(key) {
            Entry::Occupied(kept) => kept.into_mut(),
            Entry::Vacant(place) => {
                let mut matrix = Array2::zeros((k, k));
                WeightedGram::Triangle(weight, gram).write_with_ridge(ridge, &mut matrix);
                factorise(&mut matrix).ok()?;
                invert_factor(&mut matrix);
                place.insert(matrix)
            }
        };
        inverse.as_slice()
    }
}

per_instruction_set! {
    /// Adds `rows` (n x k) times the upper triangle of `matrix` (k x k) to `sums` (n x k).
    fn multiply_by_upper(rows: &[f64], matrix: &[f64], k: usize, sums: &mut [f64]) {
        for (j, row) in matrix.chunks_exact(k).enumerate() {
            for (sums, factors) in sums.chunks_exact_mut(k).zip(rows.chunks_exact(k)) {
                add_scaled(&mut sums[j..], factors[j], &row[j..]);
            }
        }
    }
}

per_instruction_set! {
    /// Adds the scalar products of `rows` (n x k) to the upper triangle of `matrix` (n x n).
    fn add_products(matrix: &mut Array2<f64>, rows: &[f64], k: usize) {
        for (i, one) in rows.chunks_exact(k).enumerate() {
            for (j, other) in rows.chunks_exact(k).enumerate().skip(i) {
                matrix[(i, j)] += dot(one, other);
            }
        }
    }
}

per_instruction_set! {
    /// Returns the upper triangle of `matrix` (k x k) times `vector`.
    fn upper_times(matrix: &[f64], vector: &[f64]) -> Vec<f64> {
        let mut products = Vec::with_capacity(vector.len());
        for (j, row) in matrix.chunks_exact(vector.len()).enumerate() {
            products.push(dot(&row[j..], &vector[j..]));
        }
        products
    }
}

/// Returns whether all values have the same bits.
fn have_same_bits(a: &[f32], b: &[f32]) -> bool {
    let pairs = a.iter().zip(b);
    // Without an early end, several values are compared at a time.
    let differing = pairs.fold(0, |bits, (a, b)| bits | (a.to_bits() ^ b.to_bits()));
    a.len() == b.len() && differing == 0
}

/// Holds Y^T Y of one Y. Whether one is kept changes no bit.
#[derive(Clone, Debug, Default)]
struct SharedGram {
    table: Vec<f32>,
    gram: Arc<Array2<f64>>,
}

/// Solves for user vectors. Its memory is reused from user to user, and what passes between them
/// does not depend on the user.
#[derive(Clone, Debug, Default)]
pub struct LeastSquares {
    matrix: Array2<f64>,
    rows: Vec<f64>,
    shared: SharedInverses,
    gram: SharedGram,
    products: Vec<f64>,
}

impl LeastSquares {
    /// Returns Y^T Y as [`gram_of_table`] does, which is computed once for all users in a row who
    /// have received the same table.
    pub fn gram_of(&mut self, table: &Table) -> Arc<Array2<f64>> {
        let values = table.as_slice();
        let is_known = have_same_bits(&self.gram.table, values)
            && self.gram.gram.nrows() == table.shape().dimension;
        if !is_known {
            self.gram = SharedGram {
                table: values.to_vec(),
                gram: Arc::new(gram_of_table(table)),
            };
        }
        Arc::clone(&self.gram.gram)
    }

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
        if let WeightedGram::Triangle(weight, gram) = weighted_gram
            && (1..=dimension / FEW).contains(&count)
            && let Some(vector) = self.vector_of_few((weight, gram), table, positives, ridge)
        {
            return Ok(vector);
        }
        self.rows.clear();
        for &item in positives.items {
            let row = table.row(item as usize);
            self.rows.extend(row.iter().map(|value| f64::from(*value)));
        }
        let shape = (dimension, dimension);
        if self.matrix.dim() != shape {
            self.matrix = Array2::zeros(shape);
        }
        weighted_gram.write_with_ridge(ridge, &mut self.matrix);
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

    /// Returns the user vector of a user with few positives; `None` if a weight is not above zero,
    /// or if the matrix without the positives is not positive definite.
    fn vector_of_few(
        &mut self,
        (weight, gram): (f64, &[f32]),
        table: &Table,
        positives: Positives<'_>,
        ridge: f64,
    ) -> Option<Vec<f64>> {
        let (roots, mut targets) = positives.roots_and_targets()?;
        let (k, count) = (table.shape().dimension, positives.items.len());
        let inverse = self.shared.of(weight, gram, (ridge, k))?;
        self.rows.clear();
        for (&item, root) in positives.items.iter().zip(&roots) {
            let row = table.row(item as usize).iter();
            self.rows.extend(row.map(|value| root * f64::from(*value)));
        }
        self.products.clear();
        self.products.resize(count * k, 0.0);
        multiply_by_upper(&self.rows, inverse, k, &mut self.products);
        let mut matrix = Array2::eye(count);
        add_products(&mut matrix, &self.products, k);
        factorise(&mut matrix).ok()?;
        solve(&matrix, &mut targets);
        let mut vector = vec![0.0; k];
        for (row, target) in self.products.chunks_exact(k).zip(&targets) {
            add_scaled(&mut vector, *target, row);
        }
        Some(upper_times(inverse, &vector))
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
    use crate::algebra::{packed_triangle, upper_triangular};
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

    /// If this fails, few positives are solved for in another way than many, or a user's vector
    /// depends on who was solved for before.
    #[test]
    fn few_positives_have_the_solution_of_many_whatever_was_solved_for_before() {
        let table = table(60, 40);
        let gram = packed_triangle(&gram_of_table(&table));
        let other = vec![1.0; gram.len()];
        let items: Vec<u32> = (0..10).map(|item| 6 * item).collect();
        let weights: Vec<f64> = (1..=10).map(|item| f64::from(item) / 4.0).collect();
        let mut used = LeastSquares::default();
        for (count, all, ridge, target_offset) in [
            (10, 0.3, 0.05, 0.3),
            (9, 0.3, 0.05, 0.0),
            (1, 0.3, 0.1, 0.3),
            (10, 2.0, 0.05, 0.0),
            (0, 0.3, 0.05, 0.0),
        ] {
            for weights in [None, Some(&weights[..count])] {
                let positives = Positives {
                    items: &items[..count],
                    weights,
                    target_offset,
                };
                let solve = |gram: WeightedGram<'_>, solver: &mut LeastSquares| {
                    solver.user_vector(gram, &table, positives, ridge).unwrap()
                };
                let whole = upper_triangular(&gram, 40) * all;
                let triangle = WeightedGram::Triangle(all, &gram);
                let of_many = solve(WeightedGram::Matrix(&whole), &mut used);
                let alone = solve(triangle, &mut LeastSquares::default());
                for solver_of_others in [false, true] {
                    if solver_of_others {
                        solve(WeightedGram::Triangle(all, &other), &mut used);
                    }
                    assert_eq!(solve(triangle, &mut used), alone);
                }
                let close = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-12;
                assert!(
                    of_many.iter().zip(&alone).all(close),
                    "{of_many:?}\n{alone:?}"
                );
            }
        }
    }

    /// If this fails, a positive that weighs nothing makes a vector of numbers that are none.
    #[test]
    fn few_positives_may_weigh_nothing() {
        let table = table(20, 8);
        let gram = packed_triangle(&gram_of_table(&table));
        let of = |items: &[u32], weights: &[f64]| {
            let positives = Positives {
                items,
                weights: Some(weights),
                target_offset: 0.0,
            };
            let gram = WeightedGram::Triangle(0.3, &gram);
            let vector = LeastSquares::default().user_vector(gram, &table, positives, 0.05);
            vector.unwrap()
        };
        let pairs = of(&[3, 5], &[1.0, 0.0]);
        let alone = of(&[3], &[1.0]);
        assert!(pairs.iter().zip(&alone).all(|(a, b)| (a - b).abs() < 1e-12));
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
