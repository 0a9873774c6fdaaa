//! Makes the item filter of a client: GF-CF's item graph and ideal low-pass filter, from the rows of
//! the client's users alone.

use ndarray::{Array1, Array2, Axis, s};

use crate::prelude::*;
use fedrecsim_model::algebra::{AlgebraError, product, symmetric_eigen};

/// The filter between some items.
pub(super) struct Filter {
    /// The items that somebody of the client has, ascending. Between others the filter is 0.
    pub items: Vec<u32>,
    /// A row and a column for each of them.
    pub values: Array2<f64>,
}

/// Returns N^T N + w D^(-1/2) V V^T D^(1/2) of users with these items. N has 1 over the root of the
/// lengths of row and column where a user has an item, D the numbers of users of items, and V the
/// first `vectors` right singular vectors of N, at most as many as N has rank.
///
/// # Errors
/// Those of the decomposition, which finite rows do not have.
pub(super) fn filter(
    users: &[&[u32]],
    vectors: usize,
    low_pass_weight: f64,
) -> std::result::Result<Filter, AlgebraError> {
    let mut items = users.concat();
    items.sort_unstable();
    items.dedup();
    let mut n = Array2::zeros((users.len(), items.len()));
    for (mut row, user) in n.rows_mut().into_iter().zip(users) {
        for item in *user {
            if let Ok(at) = items.binary_search(item) {
                row[at] = 1.0;
            }
        }
    }
    let root = |count: f64| math::sqrt(count);
    let of_users: Array1<f64> = n.sum_axis(Axis(1)).mapv(root);
    let of_items: Array1<f64> = n.sum_axis(Axis(0)).mapv(root);
    n /= &of_items;
    n /= &of_users.mapv(|root| root.max(1.0)).insert_axis(Axis(1));
    // There are fewer users than items: N^T u / s is the right singular vector of the left one u.
    let eigen = symmetric_eigen(&product(&n.view(), &n.t()).view())?;
    // The largest one is 1.
    let rank = eigen.values.iter().take_while(|value| **value > 1e-9);
    let rank = rank.count().min(vectors);
    let mut v = product(&eigen.vectors.slice(s![..rank, ..]), &n.view());
    for (mut row, value) in v.rows_mut().into_iter().zip(&eigen.values) {
        row /= math::sqrt(*value);
    }
    let mut low_pass = product(&v.t(), &v.view());
    low_pass *= &of_items;
    low_pass /= &of_items.insert_axis(Axis(1));
    let values = product(&n.t(), &n.view()) + low_pass_weight * low_pass;
    Ok(Filter { items, values })
}
