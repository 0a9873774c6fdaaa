//! Implements the supervised contrast of labelled rows (Khosla et al., NeurIPS 2020): rows of one
//! label attract one another, and all others repel.

use super::SampleMatrix;
use crate::kernel::Block;
use crate::kernel::lane_math::{LANES, exp_neg_abs, quad_sum};
use crate::per_instruction_set;

/// The least length of a row that it is divided by.
const SHORTEST: f32 = 1e-12;

/// Adds `weight` times the gradient of the contrast of `rows` (m x `dimension`) to `gradient`, and
/// returns the contrast. It is the mean over rows i of -(temperature / base) times the mean, over
/// the other rows j of i's label, of z_ij - ln sum of exp z_ia over all other rows a. Here z_ij is
/// the cosine of rows i and j over the temperature. A row that is alone with its label adds nothing.
///
/// It takes 3 m^2 k multiply-adds and 2 m^2 exponentials, and the memory of some copies of the rows.
pub fn add_contrast(
    (rows, dimension): (&[f32], usize),
    labels: &[u32],
    [temperature, base, weight]: [f32; 3],
    gradient: &mut [f32],
) -> f64 {
    let of_labels = ByLabel::of(labels);
    let lengths = rows.chunks_exact(dimension).map(|row| {
        let squares = row.iter().map(|value| value * value).sum::<f32>();
        squares.sqrt().max(SHORTEST)
    });
    let lengths: Vec<f32> = lengths.collect();
    let mut units = rows.to_vec();
    for (unit, length) in units.chunks_exact_mut(dimension).zip(&lengths) {
        unit.iter_mut().for_each(|value| *value /= length);
    }
    let mut lanes = SampleMatrix::default();
    let all: Vec<u32> = (0..labels.len() as u32).collect();
    lanes.gather(&all, &units, dimension);
    let per_temperature = 1.0 / temperature;
    let mut sums = vec![0.0; labels.len()];
    add_exponentials(
        &units,
        &lanes.blocks,
        (dimension, per_temperature),
        &mut sums,
    );
    let share = temperature / base / labels.len() as f32;
    // The share of each exponential in the gradient, which is zero where a row is alone.
    let factors = labels
        .iter()
        .zip(&sums)
        .map(|(label, sum)| match of_labels.others(*label) {
            0 => 0.0,
            _ => 1.0 / sum,
        });
    let factors: Vec<f32> = factors.collect();
    let mut pushed = vec![0.0; units.len()];
    push(
        &units,
        &lanes.blocks,
        (dimension, per_temperature),
        &factors,
        &mut pushed,
    );
    let totals = of_labels.sums(labels, &units, dimension);
    let mut contrast = 0.0;
    let all = labels.iter().zip(&lengths).zip(&sums).enumerate();
    for (i, ((label, length), sum)) in all {
        let row = i * dimension..(i + 1) * dimension;
        let (unit, pushed) = (&units[row.clone()], &pushed[row.clone()]);
        let others = of_labels.others(*label) as f32;
        let total = &totals[*label as usize * dimension..][..dimension];
        // h of the row: those of its label pull, and all push.
        let pull = |at: usize| match others > 0.0 {
            true => 2.0 / others * (total[at] - unit[at]),
            false => 0.0,
        };
        let h = |at: usize| share * per_temperature * (pushed[at] - pull(at));
        let along: f32 = (0..dimension).map(|at| h(at) * unit[at]).sum();
        let target = gradient[row].iter_mut().enumerate();
        target.for_each(|(at, slope)| *slope += weight * (h(at) - along * unit[at]) / length);
        if others > 0.0 {
            let attracted: f32 = (0..dimension)
                .map(|at| unit[at] * (total[at] - unit[at]))
                .sum();
            let log = fedrecsim_core::math::ln(f64::from(*sum)) + f64::from(per_temperature);
            contrast -= f64::from(share) * (f64::from(attracted * per_temperature / others) - log);
        }
    }
    contrast
}

/// The number of rows of each label.
struct ByLabel(Vec<usize>);

impl ByLabel {
    fn of(labels: &[u32]) -> Self {
        let mut counts = vec![0; labels.iter().max().map_or(0, |most| *most as usize + 1)];
        labels.iter().for_each(|label| counts[*label as usize] += 1);
        Self(counts)
    }

    /// Returns the number of other rows with the label of a row.
    fn others(&self, label: u32) -> usize {
        self.0[label as usize] - 1
    }

    /// Returns the sum of the rows of each label.
    fn sums(&self, labels: &[u32], rows: &[f32], dimension: usize) -> Vec<f32> {
        let mut sums = vec![0.0; self.0.len() * dimension];
        for (label, row) in labels.iter().zip(rows.chunks_exact(dimension)) {
            let sum = sums[*label as usize * dimension..].iter_mut();
            sum.zip(row).for_each(|(sum, value)| *sum += value);
        }
        sums
    }
}

per_instruction_set! {
    /// Adds to each of `sums` the exponentials of the cosines of its row with all others, over the
    /// temperature and less the largest that there can be.
    fn add_exponentials(
        units: &[f32],
        lanes: &[Block],
        (dimension, per_temperature): (usize, f32),
        sums: &mut [f32],
    ) {
        for (i, sum) in sums.iter_mut().enumerate() {
            let unit = &units[i * dimension..(i + 1) * dimension];
            let mut total = [0.0; LANES];
            for (group, columns) in lanes.chunks_exact(dimension).enumerate() {
                let e = exponentials((i, unit), (group, columns), (units.len() / dimension, per_temperature));
                for lane in 0..LANES {
                    total[lane] += e[lane];
                }
            }
            *sum += quad_sum(&total);
        }
    }
}

per_instruction_set! {
    /// Adds to each row of `pushed` all other rows, each times its exponential and the sum of the
    /// two rows' `factors`.
    fn push(
        units: &[f32],
        lanes: &[Block],
        (dimension, per_temperature): (usize, f32),
        factors: &[f32],
        pushed: &mut [f32],
    ) {
        let mut of_groups = factors.to_vec();
        of_groups.resize(factors.len().next_multiple_of(LANES), 0.0);
        let of_groups = of_groups.as_chunks::<LANES>().0;
        let mut totals = vec![Block::ZERO; dimension];
        for (i, pushed) in pushed.chunks_exact_mut(dimension).enumerate() {
            let unit = &units[i * dimension..(i + 1) * dimension];
            totals.fill(Block::ZERO);
            let groups = lanes.chunks_exact(dimension).zip(of_groups).enumerate();
            for (group, (columns, of_group)) in groups {
                let mut e = exponentials((i, unit), (group, columns), (factors.len(), per_temperature));
                for lane in 0..LANES {
                    e[lane] *= factors[i] + of_group[lane];
                }
                for (total, column) in totals.iter_mut().zip(columns) {
                    for lane in 0..LANES {
                        total.0[lane] += e[lane] * column.0[lane];
                    }
                }
            }
            for (pushed, total) in pushed.iter_mut().zip(&totals) {
                *pushed += quad_sum(&total.0);
            }
        }
    }
}

/// Returns the exponentials of row `i` with sixteen others, and zero for itself and for padding.
#[inline(always)]
fn exponentials(
    (i, unit): (usize, &[f32]),
    (group, columns): (usize, &[Block]),
    (rows, per_temperature): (usize, f32),
) -> [f32; LANES] {
    let mut below = [0.0; LANES];
    for (value, column) in unit.iter().zip(columns) {
        for lane in 0..LANES {
            below[lane] += value * column.0[lane];
        }
    }
    for lane in 0..LANES {
        below[lane] = (1.0 - below[lane]) * per_temperature;
    }
    let mut e = exp_neg_abs(&below);
    for lane in 0..LANES {
        let other = group * LANES + lane;
        if other == i || other >= rows {
            e[lane] = 0.0;
        }
    }
    e
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedrecsim_core::math::gradient::numeric_gradient;
    use fedrecsim_core::math::{exp, ln, sqrt};

    const ROWS: [f32; 8] = [1.0, 0.0, 3.0, 4.0, 0.0, 2.0, -1.0, 1.0];

    /// Returns the contrast of rows in double precision, term by term.
    fn plain(rows: &[f64], k: usize, labels: &[u32], temperature: f64, base: f64) -> f64 {
        let m = labels.len();
        let row = |i: usize| &rows[i * k..(i + 1) * k];
        let dot = |i: usize, j: usize| row(i).iter().zip(row(j)).map(|(a, b)| a * b).sum::<f64>();
        let z = |i: usize, j: usize| dot(i, j) / sqrt(dot(i, i) * dot(j, j)) / temperature;
        let mut total = 0.0;
        for i in 0..m {
            let others = || (0..m).filter(|j| *j != i);
            let alike: Vec<usize> = others().filter(|j| labels[*j] == labels[i]).collect();
            let log = ln(others().map(|j| exp(z(i, j))).sum::<f64>());
            let terms = alike.iter().map(|j| z(i, *j) - log);
            total += terms.sum::<f64>() / alike.len().max(1) as f64;
        }
        -temperature / base * total / m as f64
    }

    fn close(found: f64, expected: f64) -> bool {
        (found - expected).abs() < 1e-4
    }

    /// If this fails, items of one cluster are drawn together otherwise than in the specification's
    /// examples.
    #[test]
    fn contrast_and_gradient_are_those_of_the_examples() {
        let of = |labels: [u32; 4], temperature: f32| {
            let mut gradient = vec![0.0; 8];
            let numbers = [temperature, 0.5, 1.0];
            (
                add_contrast((&ROWS, 2), &labels, numbers, &mut gradient),
                gradient,
            )
        };
        let (contrast, gradient) = of([0, 0, 1, 1], 0.5);
        assert!(close(contrast, 0.6495), "{contrast}");
        let expected = [0.0, -0.1774, -0.1371, 0.1028, 0.3842, 0.0, -0.0444, -0.0444];
        let pairs = gradient.iter().zip(expected);
        assert!(
            pairs.clone().all(|(a, b)| close(f64::from(*a), b)),
            "{gradient:?}"
        );
        assert!(close(of([0, 0, 1, 1], 0.1).0, 0.1698));
        assert!(close(of([0; 4], 0.5).0, 1.4428));
        let three = [2.0, 0.0, 0.0, 2.0, -2.0, 0.0];
        let mut gradient = vec![0.0; 6];
        let contrast = add_contrast((&three, 2), &[0, 0, 1], [0.5, 0.5, 1.0], &mut gradient);
        assert!(close(contrast, 0.2734), "{contrast}");
    }

    /// If this fails, the gradient is not that of the contrast where rows fill several groups of
    /// lanes, labels are of one row, or a weight is not 1.
    #[test]
    fn the_gradient_is_that_of_finite_differences() {
        const K: usize = 3;
        let value = |at: usize| ((at * 37 + 11) % 101) as f32 / 40.0 - 1.2;
        let rows: Vec<f32> = (0..35 * K).map(value).collect();
        let labels: Vec<u32> = (0..35)
            .map(|row| if row == 7 { 9 } else { row % 4 })
            .collect();
        let mut gradient = vec![0.5; rows.len()];
        let contrast = add_contrast((&rows, K), &labels, [0.2, 0.4, 3.0], &mut gradient);
        let exact: Vec<f64> = rows.iter().copied().map(f64::from).collect();
        assert!(close(contrast, plain(&exact, K, &labels, 0.2, 0.4)));
        let slopes = numeric_gradient(&exact, |at| plain(at, K, &labels, 0.2, 0.4));
        for (found, slope) in gradient.iter().zip(&slopes) {
            assert!(
                close(f64::from(*found), 0.5 + 3.0 * slope),
                "{found}, {slope}"
            );
        }
    }
}
