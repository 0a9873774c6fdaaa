#![allow(clippy::unwrap_used)]

use ndarray::{Array1, Array2, ArrayView1, ArrayViewMut1, Axis, array, s};
use proptest::prelude::*;

use super::blocked::{Factors, Part, Threads, whole_columns};
use super::product::transposed_product;
use super::svd::left_singular_vectors;
use super::*;
use fedrecsim_core::rng::{PortableDraws, Purpose, Streams};

/// Returns a matrix of standard normal draws.
fn normal(rows: usize, columns: usize, seed: u64) -> Array2<f64> {
    let mut stream = Streams::new(seed).stream(Purpose::GlobalInit, 0, 0);
    Array2::from_shape_fn((rows, columns), |_| stream.standard_normal())
}

/// Returns a symmetric matrix of normal draws.
fn symmetric(size: usize, seed: u64) -> Array2<f64> {
    let mut matrix = normal(size, size, seed);
    mirror_upper(&mut matrix);
    matrix
}

/// Returns X^T X + I for a matrix X of normal draws, with both triangles.
fn positive_definite(size: usize, seed: u64) -> Array2<f64> {
    let mut matrix = Array2::eye(size);
    add_gram(&mut matrix, &normal(size, size, seed).view(), None);
    mirror_upper(&mut matrix);
    matrix
}

/// Returns the largest magnitude of the difference.
fn distance(a: &Array2<f64>, b: &Array2<f64>) -> f64 {
    assert_eq!(a.dim(), b.dim());
    a.iter()
        .zip(b)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f64::max)
}

fn assert_orthonormal_rows(matrix: &Array2<f64>) {
    let gram = product(&matrix.view(), &matrix.t().as_standard_layout().view());
    assert!(distance(&gram, &Array2::eye(matrix.nrows())) < 1e-12);
}

fn owned_transpose(matrix: &Array2<f64>) -> Array2<f64> {
    matrix.t().as_standard_layout().into_owned()
}

/// Returns the first digits of a digest of the bits of all values.
fn digest<'a>(values: impl IntoIterator<Item = &'a f64>) -> String {
    let mut hasher = blake3::Hasher::new();
    values.into_iter().for_each(|value| {
        hasher.update(&value.to_bits().to_le_bytes());
    });
    hasher.finalize().to_hex()[..16].to_owned()
}

#[test]
fn eigenvectors_and_eigenvalues_put_the_matrix_together_again() {
    for size in [0, 1, 2, 3, 17, 64, 128] {
        let matrix = symmetric(size, 1);
        let eigen = symmetric_eigen(&matrix.view()).unwrap();
        assert_orthonormal_rows(&eigen.vectors);
        assert!(eigen.values.iter().is_sorted_by(|a, b| a >= b));
        let mut scaled = eigen.vectors.clone();
        scaled
            .rows_mut()
            .into_iter()
            .zip(&eigen.values)
            .for_each(|(mut row, value)| row *= *value);
        let again = transposed_product(&eigen.vectors.view(), &scaled.view());
        assert!(
            distance(&again, &matrix) < 1e-12 * (1 + size) as f64,
            "{size}"
        );
    }
}

/// If this fails, eigenvalues are wrong although vectors and values fit each other.
#[test]
fn eigenvalues_agree_with_closed_forms() {
    // The eigenvalues of the second difference are 2 - 2 cos(j pi / (n + 1)), which have closed
    // forms for n = 5.
    let matrix = Array2::from_shape_fn((5, 5), |(i, j): (usize, usize)| match i.abs_diff(j) {
        0 => 2.0,
        1 => -1.0,
        _ => 0.0,
    });
    let root = 3f64.sqrt();
    let eigen = symmetric_eigen(&matrix.view()).unwrap();
    for (value, expected) in eigen
        .values
        .iter()
        .zip([2.0 + root, 3.0, 2.0, 1.0, 2.0 - root])
    {
        assert!(
            (value - expected).abs() < 1e-14,
            "{value} is not {expected}"
        );
    }
    // Only the upper triangle is read, and the element of largest magnitude is positive.
    let upper = array![[2.0, 1.0], [f64::MAX, 2.0]];
    let eigen = symmetric_eigen(&upper.view()).unwrap();
    assert!((eigen.values[0] - 3.0).abs() < 1e-15 && (eigen.values[1] - 1.0).abs() < 1e-15);
    assert!(eigen.vectors[(0, 0)] > 0.0 && eigen.vectors[(1, 0)] * eigen.vectors[(1, 1)] < 0.0);
    assert_eq!(
        symmetric_eigen(&Array2::zeros((3, 3)).view())
            .unwrap()
            .values
            .to_vec(),
        [0.0; 3]
    );
}

/// If this fails, a matrix is not the sum of its singular vectors times what they make of it, or a
/// singular value is not the length of that.
#[test]
fn singular_vectors_span_the_matrix_and_values_are_lengths() {
    for (rows, columns) in [(1, 1), (5, 1), (40, 40), (300, 48)] {
        let matrix = normal(rows, columns, 2);
        let (vectors, values) = left_singular_vectors(&matrix.view()).unwrap();
        assert_orthonormal_rows(&owned_transpose(&vectors));
        assert!(values.is_sorted_by(|a, b| a >= b) && values.iter().all(|value| *value > 0.0));
        let coordinates = transposed_product(&vectors.view(), &matrix.view());
        let again = product(&vectors.view(), &coordinates.view());
        assert!(distance(&again, &matrix) < 1e-12, "{rows} x {columns}");
        let gram = product(&coordinates.view(), &owned_transpose(&coordinates).view());
        let squares: Vec<f64> = values.iter().map(|value| value * value).collect();
        let difference = distance(&gram, &Array2::from_diag(&Array1::from(squares)));
        assert!(difference < 1e-11, "{rows} x {columns}: {difference}");
        let largest = |column: Vec<f64>| {
            column
                .into_iter()
                .fold(0.0, |a: f64, b| if b.abs() > a.abs() { b } else { a })
        };
        let mut columns = vectors.columns().into_iter();
        assert!(columns.all(|column| largest(column.to_vec()) > 0.0));
    }
}

/// If this fails, a user base of lower rank than the model's dimension ends in divisions by zero.
#[test]
fn a_matrix_of_lower_rank_has_a_full_set_of_singular_vectors() {
    let mut matrix = Array2::zeros((6, 4));
    matrix
        .column_mut(1)
        .assign(&array![3.0, 0.0, 4.0, 0.0, 0.0, 0.0]);
    matrix
        .column_mut(3)
        .assign(&array![3.0, 0.0, 4.0, 0.0, 0.0, 0.0]);
    let (vectors, values) = left_singular_vectors(&matrix.view()).unwrap();
    assert!(
        (values[0] - 50f64.sqrt()).abs() < 1e-14
            && values.iter().skip(1).all(|value| *value < 1e-14)
    );
    assert_orthonormal_rows(&owned_transpose(&vectors));
    let (zero, _) = left_singular_vectors(&Array2::zeros((3, 2)).view()).unwrap();
    assert_orthonormal_rows(&owned_transpose(&zero));
}

#[test]
fn qr_gives_orthonormal_columns_and_a_triangle() {
    for (rows, columns) in [(1, 1), (9, 9), (200, 33)] {
        let matrix = normal(rows, columns, 3);
        let qr = thin_qr(&matrix.view()).unwrap();
        assert_orthonormal_rows(&owned_transpose(&qr.q));
        assert!(distance(&product(&qr.q.view(), &qr.r.view()), &matrix) < 1e-12);
        assert!(
            qr.r.indexed_iter()
                .all(|((i, j), value)| i < j || (i == j && *value > 0.0) || *value == 0.0)
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn solutions_solve_their_systems(size in 1usize..70, seed: u64) {
        let matrix = positive_definite(size, seed);
        let b = normal(1, size, seed ^ 1).into_raw_vec_and_offset().0;
        let (mut factor, mut x) = (matrix.clone(), b.clone());
        factorise(&mut factor).unwrap();
        solve(&factor, &mut x);
        let x = Array2::from_shape_vec((size, 1), x).unwrap();
        let expected = Array2::from_shape_vec((size, 1), b).unwrap();
        let residual = distance(&product(&matrix.view(), &x.view()), &expected);
        prop_assert!(residual < 1e-8, "{residual}");
    }

    #[test]
    fn an_update_of_rank_n_is_n_updates_of_rank_one(
        count in 0usize..11, size in 1usize..20, weighted: bool, seed: u64
    ) {
        let rows = normal(count, size, seed);
        let weights: Vec<f64> = normal(1, count, seed ^ 1).into_iter().collect();
        let start = positive_definite(size, seed ^ 2);
        let (mut at_once, mut one_by_one) = (start.clone(), start.clone());
        add_gram(&mut at_once, &rows.view(), weighted.then_some(&weights[..]));
        for (row, weight) in rows.rows().into_iter().zip(&weights) {
            add_gram(&mut one_by_one, &row.insert_axis(Axis(0)), weighted.then_some(&[*weight]));
        }
        prop_assert_eq!(&at_once, &one_by_one);
        // The lower triangle does not change.
        prop_assert!(at_once.indexed_iter().all(|((i, j), value)| i <= j || *value == start[(i, j)]));
    }
}

/// If this fails, an inverse is not one, or writes below the diagonal.
#[test]
fn the_inverse_times_the_matrix_is_the_identity() {
    for size in [1, 2, 9, 40] {
        let matrix = positive_definite(size, 7);
        let mut inverse = matrix.clone();
        invert(&mut inverse).unwrap();
        assert!(
            inverse
                .indexed_iter()
                .all(|((i, j), value)| i <= j || *value == matrix[(i, j)])
        );
        mirror_upper(&mut inverse);
        assert!(
            distance(
                &product(&matrix.view(), &inverse.view()),
                &Array2::eye(size)
            ) < 1e-9
        );
    }
    let mut indefinite = array![[1.0, 2.0], [2.0, 1.0]];
    assert!(matches!(
        invert(&mut indefinite),
        Err(AlgebraError::NotPositiveDefinite { pivot: 1, .. })
    ));
}

#[test]
fn what_cannot_be_done_is_an_error_that_says_why() {
    let mut indefinite = array![[1.0, 2.0], [2.0, 1.0]];
    assert_eq!(
        factorise(&mut indefinite),
        Err(AlgebraError::NotPositiveDefinite {
            pivot: 1,
            value: -3.0
        })
    );
    let mut not_a_number = array![[f64::NAN]];
    assert!(matches!(
        factorise(&mut not_a_number),
        Err(AlgebraError::NotPositiveDefinite { pivot: 0, .. })
    ));
    let infinite = array![[1.0, f64::INFINITY], [0.0, 1.0]];
    assert!(matches!(
        symmetric_eigen(&infinite.view()),
        Err(AlgebraError::NotFinite)
    ));
    assert!(matches!(
        left_singular_vectors(&infinite.view()),
        Err(AlgebraError::NotFinite)
    ));
    let message = factorise(&mut array![[-1.0]]).unwrap_err().to_string();
    assert_eq!(
        message,
        "the matrix is not positive definite: pivot 0 is -1e0"
    );
}

/// Returns the sum of the products of row `i` of `left` and column `j` of `right`, which are added to
/// `start` in their order.
fn running_sum(start: f64, left: ArrayView1<'_, f64>, right: ArrayView1<'_, f64>) -> f64 {
    let products = left.iter().zip(right);
    products.fold(start, |sum, (a, b)| sum + a * b)
}

fn bits(matrix: &Array2<f64>) -> Vec<u64> {
    matrix.iter().map(|value| value.to_bits()).collect()
}

/// If this fails, a sum depends on the blocks into which a product is divided, or an element is
/// touched that does not count.
#[test]
fn a_product_in_blocks_has_the_bits_of_running_sums() {
    for (rows, depth, columns) in [
        (1, 1, 1),
        (8, 9, 17),
        (131, 5, 140),
        (13, 600, 75),
        (0, 3, 2),
    ] {
        let (left, right) = (normal(rows, depth, 1), normal(depth, columns, 2));
        let start = normal(rows, columns, 3);
        let turned = (owned_transpose(&left), owned_transpose(&right));
        let views = [
            (left.view(), right.view()),
            (turned.0.t(), turned.1.t()),
            (left.view(), turned.1.t()),
        ];
        // The zeros of a triangle, read from either end.
        let triangles: [fn(usize) -> usize; 3] =
            [whole_columns, |j| j, |j| 40usize.saturating_sub(j)];
        let cases = views
            .into_iter()
            .flat_map(|view| triangles.map(|first| (view, first)));
        for ((left, right), first) in cases {
            for (part, sign) in [(Part::Whole, 1.0), (Part::Upper, -1.0)] {
                let mut found = start.clone();
                let factors = Factors {
                    left,
                    sign,
                    right,
                    first,
                };
                factors.add_to(found.view_mut(), part, Threads::One);
                let expected = Array2::from_shape_fn(start.dim(), |(i, j)| {
                    if part == Part::Upper && j < i {
                        return start[(i, j)];
                    }
                    let from = first(j).min(depth);
                    let row = left.row(i).mapv(|value| sign * value);
                    let column = right.column(j);
                    running_sum(
                        start[(i, j)],
                        row.slice(s![from..]),
                        column.slice(s![from..]),
                    )
                });
                assert_eq!(
                    bits(&found),
                    bits(&expected),
                    "{rows} x {depth} x {columns}, {part:?}"
                );
            }
        }
    }
}

/// If this fails, a distance is not the running sum in the order of the values, or the last points are left
/// out where they are fewer than eight.
#[test]
fn squared_distances_have_the_bits_of_their_definition() {
    let matrix = positive_definite(40, 3);
    for (count, values) in [(0, 3), (1, 3), (8, 0), (19, 5), (40, 33)] {
        let rows = matrix.rows().into_iter().take(count);
        let points: Vec<Vec<f64>> = rows.map(|row| row.to_vec()[..values].to_vec()).collect();
        let expected = Array2::from_shape_fn((count, count), |(u, v)| {
            let pairs = points[u].iter().zip(&points[v]);
            pairs.fold(0.0, |sum, (a, b)| sum + (a - b) * (a - b))
        });
        let found = squared_distances(&points);
        assert_eq!(bits(&found), bits(&expected), "{count} points of {values}");
    }
}

/// If this fails, a sum is not the running one in the order of the rows, a weight of zero takes part, or the
/// last columns are left out where a strip is not full.
#[test]
fn weighted_sums_have_the_bits_of_their_definition() {
    for (count, values) in [(0, 3), (1, 64), (7, 0), (9, 65), (40, 130)] {
        let rows = normal(40, 130, 6).mapv(|value| value as f32);
        let mut rows: Vec<Vec<f32>> = (rows.rows().into_iter().take(count))
            .map(|row| row.to_vec()[..values].to_vec())
            .collect();
        let mut weights = normal(5, count, 7).mapv(|weight| weight.max(0.0));
        // Zero times infinity is no number, so that a zero that takes part shows.
        if let (Some(last), true) = (rows.last_mut(), count > 1) {
            last.fill(f32::INFINITY);
            weights.column_mut(count - 1).fill(0.0);
            weights[(4, count - 1)] = 1.0;
        }
        let mut found = [(); 5].map(|()| vec![f32::NAN; values]);
        let rows: Vec<&[f32]> = rows.iter().map(Vec::as_slice).collect();
        let mut sums = found.each_mut().map(Vec::as_mut_slice);
        weighted_sums(&weights.view(), &rows, &mut sums);
        for (weights, found) in weights.rows().into_iter().zip(&found) {
            for (c, found) in found.iter().enumerate() {
                let products = weights.iter().zip(&rows).filter(|(w, _)| **w != 0.0);
                let expected = products.fold(0.0, |sum, (w, row)| sum + w * f64::from(row[c]));
                let bits = (found.to_bits(), (expected as f32).to_bits());
                assert_eq!(bits.0, bits.1, "{count} rows, column {c}");
            }
        }
    }
}

/// If this fails, the number of threads changes results.
#[test]
fn threads_change_no_bit() {
    let matrix = positive_definite(400, 8);
    let transposed = owned_transpose(&matrix);
    let computed = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.unwrap().install(|| {
            let mut inverse = matrix.clone();
            invert(&mut inverse).unwrap();
            let mut of_pairs = Array2::zeros((400, 400));
            add_pair_products(&mut of_pairs, &matrix.view());
            mirror_upper(&mut of_pairs);
            let product = product_by_pool(&matrix.view(), &transposed.view());
            let points: Vec<_> = matrix.rows().into_iter().map(|row| row.to_vec()).collect();
            let apart = squared_distances(&points);
            let rows = matrix.mapv(|value| value as f32);
            let rows: Vec<&[f32]> = rows
                .rows()
                .into_iter()
                .filter_map(|row| row.to_slice())
                .collect();
            let mut sums = Array2::zeros((400, 400));
            let targets = sums.rows_mut().into_iter();
            let mut targets: Vec<_> = targets.filter_map(ArrayViewMut1::into_slice).collect();
            weighted_sums(&matrix.view(), &rows, &mut targets);
            [of_pairs, product, inverse, apart, sums.mapv(f64::from)].map(|matrix| bits(&matrix))
        })
    };
    let by_three = computed(3);
    assert_eq!(computed(1), by_three);
    let product = bits(&product(&matrix.view(), &transposed.view()));
    assert_eq!(by_three[..2], [product.clone(), product]);
}

/// If this fails, a matrix that is divided has another factor or inverse than one that is not.
#[test]
fn divided_matrices_have_the_bits_of_their_definitions() {
    let size = 170;
    let matrix = positive_definite(size, 9);
    let mut factor = matrix.clone();
    factorise(&mut factor).unwrap();
    let mut expected = matrix.clone();
    for j in 0..size {
        let root = expected[(j, j)].sqrt();
        let inverse = 1.0 / root;
        expected
            .slice_mut(s![j, j..])
            .mapv_inplace(|value| value * inverse);
        expected[(j, j)] = root;
        for (i, k) in (j + 1..size).flat_map(|i| (i..size).map(move |k| (i, k))) {
            expected[(i, k)] += -expected[(j, i)] * expected[(j, k)];
        }
    }
    assert_eq!(bits(&factor), bits(&expected));
    let mut w = Array2::<f64>::zeros((size, size));
    for i in (0..size).rev() {
        let inverse = 1.0 / factor[(i, i)];
        w[(i, i)] = inverse;
        for j in i + 1..size {
            let terms = (i + 1..=j).rev();
            let terms = terms.map(|k| -factor[(i, k)] * inverse * w[(k, j)]);
            w[(i, j)] = terms.fold(0.0, |sum, term| sum + term);
        }
    }
    let mut inverse = matrix.clone();
    invert(&mut inverse).unwrap();
    let expected = Array2::from_shape_fn((size, size), |(i, j)| match i <= j {
        true => running_sum(0.0, w.slice(s![i, j..]), w.slice(s![j, j..])),
        false => matrix[(i, j)],
    });
    assert_eq!(bits(&inverse), bits(&expected));
}

/// If this fails, an operation sums in another order than before, or depends on the processor, and
/// the digests of methods that use it change.
#[test]
fn results_are_pinned_to_the_bit() {
    let matrix = positive_definite(37, 4);
    let mut factor = matrix.clone();
    factorise(&mut factor).unwrap();
    let mut x = vec![1.0; 37];
    solve(&factor, &mut x);
    let mut inverse = positive_definite(150, 4);
    invert(&mut inverse).unwrap();
    let eigen = symmetric_eigen(&matrix.view()).unwrap();
    let (vectors, values) = left_singular_vectors(&normal(101, 29, 5).view()).unwrap();
    let qr = thin_qr(&normal(101, 29, 6).view()).unwrap();
    let digests = [
        ("gram", digest(&matrix)),
        ("cholesky", digest(&factor)),
        ("solve", digest(&x)),
        ("inverse", digest(&inverse)),
        ("eigenvalues", digest(&eigen.values)),
        ("eigenvectors", digest(&eigen.vectors)),
        ("singular values", digest(&values)),
        ("left singular vectors", digest(&vectors)),
        ("qr", digest(qr.q.iter().chain(&qr.r))),
    ];
    insta::assert_debug_snapshot!(digests);
}

/// If this fails, a matrix of low rank whose other columns are nothing but rounding has no
/// decomposition.
#[test]
fn columns_whose_squares_vanish_do_not_keep_a_decomposition_from_its_end() {
    let matrix = Array2::from_shape_fn((5, 3), |(i, j)| {
        [1.0, 1e-170, 3e-171][j] * ((i * (j + 2) + 1) % 4) as f64
    });
    let (vectors, values) = left_singular_vectors(&matrix.view()).unwrap();
    assert_eq!(values.iter().filter(|value| **value > 0.0).count(), 1);
    assert_orthonormal_rows(&owned_transpose(&vectors));
    let coordinates = transposed_product(&vectors.view(), &matrix.view());
    let again = product(&vectors.view(), &coordinates.view());
    assert!(distance(&again, &matrix) < 1e-12);
}

/// If this fails, matrices that do not fit each other are computed with.
#[test]
#[should_panic(expected = "the rows of the right factor")]
fn wrong_shapes_are_defects_of_the_caller() {
    product(&normal(2, 3, 1).view(), &normal(2, 3, 1).view());
}

/// If this fails, rounding counts as noise, or noise as rounding.
#[test]
fn noise_is_what_is_below_zero_beyond_rounding() {
    let of = |values: [f64; 2]| {
        symmetric_eigen(&Array2::from_diag(&array![values[0], values[1]]).view())
            .unwrap()
            .noise()
    };
    assert_eq!(
        [of([4.0, -0.5]), of([4.0, 0.5]), of([-2.0, -3.0])],
        [0.5, 0.0, 3.0]
    );
    assert_eq!(
        [of([4.0, -3.9e-6]), of([4.0, -4.1e-6])],
        [0.0, 4.1e-6],
        "a millionth of 4 is rounding, and more is not"
    );
    assert_eq!(
        symmetric_eigen(&Array2::<f64>::zeros((0, 0)).view())
            .unwrap()
            .noise(),
        0.0
    );
}
