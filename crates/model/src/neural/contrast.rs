//! Implements the supervised contrast of labelled rows (Khosla et al., NeurIPS 2020): rows of one
//! label attract one another, and all others repel.

use crate::kernel::lane_math::{LANES, Lanes, exp_neg_abs, quad_sum};
use crate::per_instruction_set;

/// The number of rows that are worked on at once, and of vectors that are added at once.
const AT_ONCE: usize = 4;

/// The least length of a row that it is divided by.
const SHORTEST: f32 = 1e-12;

/// Adds `weight` times the gradient of the contrast of `rows` (m x `dimension`) to `gradient`, and
/// returns the contrast. It is the mean over rows i of -(temperature / base) times the mean, over
/// the other rows j of i's label, of z_ij - ln sum of exp z_ia over all other rows a. Here z_ij is
/// the cosine of rows i and j over the temperature. A row that is alone with its label adds nothing.
///
/// It takes 3 m^2 k multiply-adds and 2 m^2 exponentials, and the memory of some copies of the rows.
/// Its loops run over all rows of a column, which compilers turn into vector operations.
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
    let per_temperature = 1.0 / temperature;
    let all = Units::of(&units, dimension, per_temperature);
    let sums = all.sums_of_exponentials();
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
    let pushed = all.pushed(&factors);
    let totals = of_labels.sums(labels, &units, dimension);
    let mut contrast = 0.0;
    for (i, ((label, length), sum)) in labels.iter().zip(&lengths).zip(&sums).enumerate() {
        let row = i * dimension..(i + 1) * dimension;
        let unit = &units[row.clone()];
        let others = of_labels.others(*label) as f32;
        let total = &totals[*label as usize * dimension..][..dimension];
        // h of the row: those of its label pull, and all push.
        let pull = |at: usize| match others > 0.0 {
            true => 2.0 / others * (total[at] - unit[at]),
            false => 0.0,
        };
        let h = |at: usize| share * per_temperature * (pushed[at * all.height + i] - pull(at));
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

/// Rows of length one.
struct Units {
    /// The values of all rows in one column, and then those in the next. Rows and columns are filled up
    /// with zeros.
    columns: Vec<f32>,
    /// The number of values in a column, a multiple of [`LANES`].
    height: usize,
    rows: usize,
    per_temperature: f32,
}

impl Units {
    fn of(units: &[f32], dimension: usize, per_temperature: f32) -> Self {
        let rows = units.len() / dimension;
        let height = rows.next_multiple_of(LANES);
        let mut columns = vec![0.0; dimension.next_multiple_of(AT_ONCE) * height];
        for (row, unit) in units.chunks_exact(dimension).enumerate() {
            let values = columns[row..].iter_mut().step_by(height);
            values.zip(unit).for_each(|(to, value)| *to = *value);
        }
        Self {
            columns,
            height,
            rows,
            per_temperature,
        }
    }

    /// Calls `work` with the first of each [`AT_ONCE`] rows and the exponentials of their cosines with all
    /// rows, over the temperature and less the largest that there can be. The exponential of a row with
    /// itself is zero, and so are those of padding.
    fn for_each_few(&self, mut work: impl FnMut(usize, &mut [Vec<f32>; AT_ONCE])) {
        let mut e = [(); AT_ONCE].map(|()| vec![0.0; self.height]);
        for first in (0..self.rows).step_by(AT_ONCE) {
            let rows = first..self.rows.min(first + AT_ONCE);
            e.iter_mut().for_each(|e| e.fill(0.0));
            for columns in self.columns.chunks_exact(AT_ONCE * self.height) {
                let columns = parts(columns, self.height);
                for (row, e) in rows.clone().zip(&mut e) {
                    add(e, columns.map(|column| column[row]), columns);
                }
            }
            for (row, e) in rows.zip(&mut e) {
                exponentials(e.as_chunks_mut().0, self.per_temperature);
                e[row] = 0.0;
                e[self.rows..].fill(0.0);
            }
            work(first, &mut e);
        }
    }

    fn sums_of_exponentials(&self) -> Vec<f32> {
        let mut sums = Vec::with_capacity(self.height);
        self.for_each_few(|_, e| sums.extend(e.iter().map(|e| sum(e.as_chunks().0))));
        sums.truncate(self.rows);
        sums
    }

    /// Returns for each row the sum of all others, each times its exponential and the sum of the two
    /// rows' `factors`. The sums are in columns, as the rows here.
    fn pushed(&self, factors: &[f32]) -> Vec<f32> {
        let mut pushed = vec![0.0; self.columns.len()];
        self.for_each_few(|first, weights| {
            for (own, weights) in factors[first..].iter().zip(&mut *weights) {
                weigh(weights, *own, factors);
            }
            // The weight of two rows is the same in either order, so that whole columns take what these
            // rows add.
            let weights = weights.each_ref().map(Vec::as_slice);
            let columns = self.columns.chunks_exact(self.height);
            for (column, pushed) in columns.zip(pushed.chunks_exact_mut(self.height)) {
                add(
                    pushed,
                    std::array::from_fn(|row| column[first + row]),
                    weights,
                );
            }
        });
        pushed
    }
}

/// Returns the parts of so many values.
fn parts(values: &[f32], length: usize) -> [&[f32]; AT_ONCE] {
    std::array::from_fn(|part| &values[part * length..][..length])
}

per_instruction_set! {
    /// Adds vectors to `target`, one after the other, each times its scale.
    fn add(target: &mut [f32], scales: [f32; AT_ONCE], vectors: [&[f32]; AT_ONCE]) {
        let [a, b, c, d] = vectors;
        for ((((target, a), b), c), d) in target.iter_mut().zip(a).zip(b).zip(c).zip(d) {
            *target = *target + scales[0] * a + scales[1] * b + scales[2] * c + scales[3] * d;
        }
    }
}

per_instruction_set! {
    /// Replaces cosines by their exponentials.
    fn exponentials(cosines: &mut [Lanes], per_temperature: f32) {
        for cosines in cosines {
            let mut below = [0.0; LANES];
            for lane in 0..LANES {
                below[lane] = (1.0 - cosines[lane]) * per_temperature;
            }
            *cosines = exp_neg_abs(&below);
        }
    }
}

per_instruction_set! {
    /// Multiplies exponentials by the sum of a row's `own` factor and each of the `others`.
    fn weigh(e: &mut [f32], own: f32, others: &[f32]) {
        for (e, other) in e.iter_mut().zip(others) {
            *e *= own + other;
        }
    }
}

per_instruction_set! {
    fn sum(values: &[Lanes]) -> f32 {
        let mut total = [0.0; LANES];
        for values in values {
            for lane in 0..LANES {
                total[lane] += values[lane];
            }
        }
        quad_sum(&total)
    }
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

    /// If this fails, the gradient is not that of the contrast where rows or columns are more than are
    /// worked on at once, labels are of one row, or a weight is not 1.
    #[test]
    fn the_gradient_is_that_of_finite_differences() {
        const K: usize = 6;
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
