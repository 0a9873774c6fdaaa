//! Sums over the vectors of all items, where a device spends most of its time.
//!
//! A sum over columns has eight partial sums, so that eight columns are worked on at a time. They are
//! added as one tree, whatever the instruction set (contract 1).

use fedrecsim_model::per_instruction_set;

/// The number of partial sums.
const LANES: usize = 8;

per_instruction_set! {
    /// Sets each product to the scalar product of a row with `weights`.
    pub(super) fn products(rows: &[f32], weights: &[f64], products: &mut [f64]) {
        for (row, product) in rows.chunks_exact(weights.len()).zip(products) {
            *product = sum(row, weights, |value, weight| value * weight);
        }
    }
}

per_instruction_set! {
    /// Sets each length to the sum of a row's squares times `weights`.
    pub(super) fn lengths(rows: &[f32], weights: &[f64], lengths: &mut [f64]) {
        for (row, length) in rows.chunks_exact(weights.len()).zip(lengths) {
            *length = sum(row, weights, |value, weight| value * value * weight);
        }
    }
}

per_instruction_set! {
    /// Adds each row times its factor to `sums`.
    pub(super) fn add_rows(rows: &[f32], factors: &[f64], sums: &mut [f64]) {
        for (row, factor) in rows.chunks_exact(sums.len()).zip(factors) {
            for (sum, value) in sums.iter_mut().zip(row) {
                *sum += factor * f64::from(*value);
            }
        }
    }
}

/// Returns the sum of what `each` makes of a row's values and their weights.
#[inline(always)]
fn sum(row: &[f32], weights: &[f64], each: impl Fn(f64, f64) -> f64) -> f64 {
    let mut sums = [0.0; LANES];
    let (rows, weights) = (row.chunks_exact(LANES), weights.chunks_exact(LANES));
    let rest = rows.remainder().iter().zip(weights.remainder());
    for (row, weights) in rows.zip(weights) {
        for lane in 0..LANES {
            sums[lane] += each(f64::from(row[lane]), weights[lane]);
        }
    }
    for (sum, (value, weight)) in sums.iter_mut().zip(rest) {
        *sum += each(f64::from(*value), *weight);
    }
    let four: [f64; 4] = std::array::from_fn(|lane| sums[lane] + sums[lane + 4]);
    (four[0] + four[2]) + (four[1] + four[3])
}

/// Returns the products of `a` and `b`, value by value.
pub(super) fn times(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a * b).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, a column is left out of a sum, or counted twice.
    #[test]
    fn sums_are_those_of_plain_loops() {
        for columns in [1, 7, 8, 19] {
            let rows: Vec<f32> = (0..3 * columns).map(|at| (at % 5) as f32 - 1.5).collect();
            let weights: Vec<f64> = (0..columns).map(|at| f64::from(at as u32) + 0.5).collect();
            let factors = [2.0, -1.0, 0.25];
            let (mut found, mut squares) = ([0.0; 3], [0.0; 3]);
            products(&rows, &weights, &mut found);
            lengths(&rows, &weights, &mut squares);
            let mut sums = vec![1.0; columns];
            add_rows(&rows, &factors, &mut sums);
            for (at, row) in rows.chunks(columns).enumerate() {
                let plain = |each: fn(f64) -> f64| {
                    let of = row.iter().zip(&weights);
                    of.map(|(value, weight)| each(f64::from(*value)) * weight)
                        .sum::<f64>()
                };
                // All of these numbers are exact.
                assert_eq!(found[at], plain(|value| value));
                assert_eq!(squares[at], plain(|value| value * value));
            }
            for (column, sum) in sums.iter().enumerate() {
                let of = rows[column..].iter().step_by(columns).zip(factors);
                let plain: f64 = of.map(|(value, factor)| f64::from(*value) * factor).sum();
                assert_eq!(*sum, 1.0 + plain);
            }
        }
    }
}
