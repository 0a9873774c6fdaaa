//! Implements FedGram's arithmetic: what a device computes, and one step of the server.
//!
//! The loss is that of implicit alternating least squares (see
//! [`least_squares`](fedrecsim_model::least_squares)):
//!
//! ```text
//! sum over users u of ( sum over its positives i of (1 - x_u . y_i)^2 + a0 sum over all items j of (x_u . y_j)^2
//!                       + lambda (n_u + a0 m) |x_u|^2 )
//! + lambda sum over items i of (n_i + a0 n) |y_i|^2
//! ```
//!
//! with n users, m items, n_u positives of user u and n_i users with item i among their positives.
//! Devices minimise it over x_u exactly. The server needs two sums for its gradient with respect to
//! Y, all negatives included: for each item i, the sum of (x_u . y_i - 1) x_u over the users with i
//! among their positives; and the sum G of x_u x_u^T over all users.

use ndarray::ArrayViewMut2;

use crate::sums::UploadSums;
use fedrecsim_core::math::pow;
use fedrecsim_model::algebra::{
    Result, product, symmetric_eigen, triangle_values, upper_triangular,
};
use fedrecsim_model::least_squares::score;
use fedrecsim_model::{Table, per_instruction_set};

/// Holds the constants of the loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Constants {
    /// The weight a0 of an item as a negative. That of a positive is 1.
    pub unobserved_weight: f64,
    /// The weight lambda of the regulariser.
    pub regularization: f64,
    /// The exponent nu of the sum of weights that the regulariser is multiplied by, which is 1 in
    /// FedGram.
    pub regularization_exponent: f64,
}

impl Constants {
    /// Returns the weight lambda (count + a0 others)^nu of the regulariser for a user with `count`
    /// positives in a catalogue of `others` items, or for an item that is a positive of `count` of
    /// `others` users.
    pub(crate) fn ridge(&self, count: f64, others: f64) -> f64 {
        let weights = count + self.unobserved_weight * others;
        match self.regularization_exponent {
            1.0 => self.regularization * weights,
            exponent => self.regularization * pow(weights, exponent),
        }
    }
}

/// Returns the gradients w_i (x . y_i - 1) x of the rows of `items` with these weights, one after the
/// other (n k values).
pub(crate) fn row_gradients(
    vector: &[f64],
    table: &Table,
    (items, weights): (&[u32], &[f64]),
) -> Vec<f32> {
    let mut gradients = Vec::with_capacity(items.len() * vector.len());
    for (&item, weight) in items.iter().zip(weights) {
        let error = weight * (score(vector, table.row(item as usize)) - 1.0);
        gradients.extend(vector.iter().map(|value| (error * value) as f32));
    }
    gradients
}

per_instruction_set! {
    /// Returns the upper triangle of x x^T, row after row (k (k + 1) / 2 values).
    pub(crate) fn outer_triangle(vector: &[f64]) -> Vec<f32> {
        let mut triangle = Vec::with_capacity(triangle_values(vector.len()));
        for (row, x) in vector.iter().enumerate() {
            triangle.extend(vector[row..].iter().map(|y| (x * y) as f32));
        }
        triangle
    }
}

/// Makes one step of every row of the item table (m x k), from the sums of the gradients of its
/// rows and of the triangles of x x^T:
///
/// ```text
/// y_i -= eta ((a0 + n_i / n) G + ridge_i I)^(-1) (g_i + a0 G y_i + ridge_i y_i),  ridge_i = lambda (n_i + a0 n)
/// ```
///
/// `rate` is eta, 1 for a whole Newton step. The inverted matrix approximates the Hessian of row i:
/// the sum of x_u x_u^T over the users with i among their positives, weighted or not, is replaced by n_i / n times G,
/// so that one eigendecomposition of G serves all rows. Without participants nothing moves. With
/// noise on the sums, a negative n_i counts as 0, and all eigenvalues of G are raised by the
/// magnitude of its most negative one. This ridge follows the noise, in the spirit of AdaSSP for
/// private linear regression (Wang, UAI 2018), which takes its ridge from the known scale of the
/// noise. Costs 3 m k^2 multiply-adds and the decomposition.
///
/// # Errors
/// [`AlgebraError::NotFinite`](fedrecsim_model::algebra::AlgebraError::NotFinite) if a
/// participant sent something that is not a finite number.
pub(crate) fn newton_step(
    sums: &UploadSums,
    table: &mut ArrayViewMut2<'_, f32>,
    constants: &Constants,
    rate: f64,
) -> Result<()> {
    let (a0, users) = (constants.unobserved_weight, sums.participants);
    if users <= 0.0 {
        return Ok(());
    }
    let gram = upper_triangular(&sums.blocks[1], table.ncols());
    let eigen = symmetric_eigen(&gram.view())?;
    // All matrices are diagonal in the coordinates of the eigenvectors.
    let eigenvectors = eigen.vectors.t().as_standard_layout().into_owned();
    let rows = table.mapv(f64::from);
    let rows = product(&rows.as_standard_layout().view(), &eigenvectors.view());
    let mut steps = product(&sums.matrix(), &eigenvectors.view());
    let noise = eigen.noise();
    for ((mut step, row), senders) in steps
        .rows_mut()
        .into_iter()
        .zip(rows.rows())
        .zip(&sums.senders)
    {
        let senders = senders.max(0.0);
        let ridge = constants.ridge(senders, users);
        let curvature = a0 + senders / users;
        for ((step, y), value) in step.iter_mut().zip(row).zip(&eigen.values) {
            // G has no negative eigenvalues, but rounding can make one slightly negative. Noise, a
            // coarse codec's included, can make any negative, and is of about that size in the
            // others.
            let value = (value + noise).max(0.0);
            *step = (*step + (a0 * value + ridge) * y) / (curvature * value + ridge);
        }
    }
    let steps = product(&steps.view(), &eigen.vectors.view());
    for (y, step) in table.iter_mut().zip(&steps) {
        *y = (f64::from(*y) - rate * step) as f32;
    }
    Ok(())
}
