//! Implements the QR decomposition by Householder reflections.

use ndarray::{Array2, ArrayView2};

use super::Result;
use super::arrays::check_finite;
use super::vector::{add_scaled, dot};
use crate::per_instruction_set;

/// Holds a matrix as Q R.
#[derive(Clone, Debug, PartialEq)]
pub struct ThinQr {
    /// Q (m x r), with orthonormal columns.
    pub q: Array2<f64>,
    /// R (r x r), which is upper triangular and has no negative element on its diagonal.
    pub r: Array2<f64>,
}

/// Decomposes `matrix` (m x r, m at least r) into Q R.
///
/// Since R has no negative element on its diagonal, Q R is unique for a matrix of full rank, and Q
/// of a matrix of independent normal draws is uniformly distributed. Costs 2 m r^2 multiply-adds.
///
/// # Errors
/// [`NotFinite`](super::AlgebraError::NotFinite) for an element that is not a finite number.
///
/// # Panics
/// If there are fewer rows than columns, a defect of the caller.
pub fn thin_qr(matrix: &ArrayView2<'_, f64>) -> Result<ThinQr> {
    let (rows, columns) = matrix.dim();
    assert!(rows >= columns, "a QR decomposition of {rows} x {columns}");
    check_finite(matrix)?;
    // The matrix is stored column after column, so that reflections run along memory.
    let mut work: Vec<f64> = matrix.t().iter().copied().collect();
    let diagonal = reflect(&mut work, rows, columns);
    let mut q = vec![0.0; rows * columns];
    reflect_back(&work, &mut q, rows, columns);
    let sign = |j: usize| if diagonal[j] < 0.0 { -1.0 } else { 1.0 };
    let r = Array2::from_shape_fn((columns, columns), |(i, j)| match i.cmp(&j) {
        std::cmp::Ordering::Less => sign(i) * work[j * rows + i],
        std::cmp::Ordering::Equal => diagonal[i].abs(),
        std::cmp::Ordering::Greater => 0.0,
    });
    let q = Array2::from_shape_fn((rows, columns), |(i, j)| sign(j) * q[j * rows + i]);
    Ok(ThinQr { q, r })
}

per_instruction_set! {
    /// Leaves in column j of `work` the unit vector of reflection j from element j downward, and R
    /// above it. Returns R's diagonal. The vector of a column that is already zero is zero, so that its
    /// reflection does nothing.
    fn reflect(work: &mut [f64], rows: usize, columns: usize) -> Vec<f64> {
        let mut diagonal = Vec::with_capacity(columns);
        for j in 0..columns {
            let (done, rest) = work.split_at_mut((j + 1) * rows);
            let vector = &mut done[j * rows + j..];
            let norm = dot(vector, vector).sqrt();
            // The image has the opposite sign of the first element, so that nothing cancels.
            let image = if vector[0] > 0.0 { -norm } else { norm };
            vector[0] -= image;
            diagonal.push(image);
            let length = dot(vector, vector).sqrt();
            if length > 0.0 {
                vector.iter_mut().for_each(|value| *value /= length);
            }
            for column in rest.chunks_exact_mut(rows) {
                let factor = -2.0 * dot(vector, &column[j..]);
                add_scaled(&mut column[j..], factor, vector);
            }
        }
        diagonal
    }
}

per_instruction_set! {
    /// Sets column j of `q` to the image of unit vector j under all reflections, the last one first.
    fn reflect_back(work: &[f64], q: &mut [f64], rows: usize, columns: usize) {
        for (j, column) in q.chunks_exact_mut(rows.max(1)).enumerate().take(columns) {
            column[j] = 1.0;
            // Reflections after the j-th do not change the unit vector.
            for i in (0..=j).rev() {
                let vector = &work[i * rows + i..(i + 1) * rows];
                let factor = -2.0 * dot(vector, &column[i..]);
                add_scaled(&mut column[i..], factor, vector);
            }
        }
    }
}
