//! Implements FedSpec's arithmetic: what a device adds up, and how scores are filtered.

use crate::spectral::sum_of_rows;
use fedrecsim_core::math;
use fedrecsim_model::Table;
use fedrecsim_model::algebra::Spectrum;

/// Returns, for each of `items`, the sum of K_pq A_q over all of them (n r values, row after row),
/// in single precision.
///
/// `later` holds rho, the number of the user's positives that are strictly later than each item,
/// and K_pq is f + (1 - f) exp(-|rho_p - rho_q| / length) with f = `timeless_share`. The
/// exponential is a product along the order of time, so that two passes add everything up instead
/// of one pass for each pair.
pub(crate) fn kernel_sums(
    table: &Table,
    items: &[u32],
    later: &[u32],
    timeless_share: f64,
    length: f64,
) -> Vec<f32> {
    let rank = table.shape().dimension;
    let row = |position: usize| {
        let row = table.row(items[position] as usize).iter();
        row.map(|value| f64::from(*value))
    };
    let mut total = vec![0.0; rank];
    for position in 0..items.len() {
        let values = total.iter_mut().zip(row(position));
        values.for_each(|(sum, value)| *sum += value);
    }
    let mut sums = vec![0.0; items.len() * rank];
    if timeless_share < 1.0 {
        // Items of one time have the same rho, so that their order does not matter but for the
        // order of additions.
        let mut order: Vec<usize> = (0..items.len()).collect();
        order.sort_by_key(|position| (later[*position], items[*position]));
        for with_itself in [true, false] {
            let (mut decayed, mut before) = (vec![0.0; rank], None);
            for &position in &order {
                let distance = before.map_or(0, |before| later[position].abs_diff(before));
                let factor = math::exp(-f64::from(distance) / length);
                let sum = &mut sums[position * rank..(position + 1) * rank];
                for ((sum, decayed), value) in sum.iter_mut().zip(&mut decayed).zip(row(position)) {
                    *decayed *= factor;
                    *sum += *decayed + if with_itself { value } else { 0.0 };
                    *decayed += value;
                }
                before = Some(later[position]);
            }
            order.reverse();
        }
    }
    let (share, rest) = (timeless_share, 1.0 - timeless_share);
    let with_total = sums.iter().zip(total.iter().cycle());
    let whole = with_total.map(|(sum, total)| share * total + rest * sum);
    whole.map(|value| value as f32).collect()
}

/// Returns the sum over `items` of their weight times their row of A, times the squared filter of
/// each column. Its product with a row of A is the product of both rows of the filtered table.
pub(crate) fn profile(table: &Table, items: &[u32], weights: &[f64], filter: &[f32]) -> Vec<f32> {
    let weighted = items.iter().copied().zip(weights.iter().copied());
    let sums = sum_of_rows(table, weighted);
    let filtered = sums
        .iter()
        .zip(filter.iter().map(|value| f64::from(*value)));
    let filtered = filtered.map(|(sum, filter)| sum * filter * filter);
    filtered.map(|value| value as f32).collect()
}

/// Returns the filter of each column, (s^2 / (s^2 + lambda))^(1/2) for the eigenvalue s^2, where
/// lambda is `ridge` times the least eigenvalue; and |Z_i|^2 of each row of the filtered
/// eigenvectors.
pub(crate) fn filtered(spectrum: &Spectrum, ridge: f64) -> (Vec<f64>, Vec<f64>) {
    let lambda = ridge * spectrum.values.last().copied().unwrap_or(0.0);
    let filter = |value: &f64| match *value > 0.0 {
        true => math::sqrt(value / (value + lambda)),
        false => 0.0,
    };
    let filter: Vec<f64> = spectrum.values.iter().map(filter).collect();
    let lengths = spectrum.vectors.rows().into_iter().map(|row| {
        let squares = row.iter().zip(&filter);
        let squares = squares.map(|(value, filter)| (value * filter) * (value * filter));
        squares.sum()
    });
    (filter.clone(), lengths.collect())
}
