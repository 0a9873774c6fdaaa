//! Counts how many values of a table are large, as a measure of its sparsity, and finds the largest
//! magnitude.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use crate::per_instruction_set;

/// The thresholds on |C| above which values are counted (Table 3 of the papers).
pub const MAGNITUDE_THRESHOLDS: [f32; 7] = [0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1];

/// Holds the numbers of values with a magnitude above each of [`MAGNITUDE_THRESHOLDS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MagnitudeCounts {
    /// The number of values that were counted.
    pub values: u64,
    /// The number of values above each threshold.
    pub above: [u64; 7],
}

impl MagnitudeCounts {
    /// Counts `values`, each times `scale`.
    pub fn of(values: &[f32], scale: f32) -> Self {
        let mut counts = Self {
            values: values.len() as u64,
            above: [0; 7],
        };
        count_scaled(values, scale, &mut counts.above);
        counts
    }

    /// Counts the values of single precision that `bytes` holds.
    pub fn add_bytes(&mut self, bytes: &[u8]) {
        let values = bytes.as_chunks().0;
        let above = count_bytes(values).map(u64::from);
        let values = values.len() as u64;
        self.add_times(&Self { values, above }, 1);
    }

    /// Adds `times` times the counts of `other`.
    pub fn add_times(&mut self, other: &Self, times: u64) {
        self.values += times * other.values;
        for (count, other) in self.above.iter_mut().zip(other.above) {
            *count += times * other;
        }
    }

    /// Returns the share of values above each threshold, or zeros if no values were counted.
    pub fn shares(&self) -> [f64; 7] {
        self.above.map(|count| {
            if self.values == 0 {
                0.0
            } else {
                count as f64 / self.values as f64
            }
        })
    }
}

per_instruction_set! {
    /// Returns the largest magnitude of `values`: 0 if there are none, infinity if one of them is
    /// infinite, and NaN if one is NaN.
    pub fn largest_magnitude(values: &[f32]) -> f32 {
        largest_magnitude_inlined(values)
    }
}

/// Does the same as [`largest_magnitude`], inlined for callers that are themselves compiled for an
/// instruction set.
#[inline(always)]
pub(crate) fn largest_magnitude_inlined(values: &[f32]) -> f32 {
    // Magnitudes order like their bit patterns, and every NaN comes after infinity.
    f32::from_bits(
        values
            .iter()
            .fold(0, |largest, value| largest.max(value.abs().to_bits())),
    )
}

/// Counts the values that are not 0 in at least one of several tables, which is the support of
/// their average.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SupportCount {
    /// The number of values of a table.
    pub values: u64,
    /// The number of those that are not 0 in at least one table.
    pub nonzero: u64,
}

impl AddAssign for SupportCount {
    fn add_assign(&mut self, other: Self) {
        self.values += other.values;
        self.nonzero += other.nonzero;
    }
}

impl SupportCount {
    /// Returns the share of the values that are not 0 in some table; `None` if there are no values.
    pub fn share(&self) -> Option<f64> {
        (self.values > 0).then(|| self.nonzero as f64 / self.values as f64)
    }
}

per_instruction_set! {
    /// Adds to `above` how many of `values`, each times `scale`, have a magnitude above each
    /// threshold.
    fn count_scaled(values: &[f32], scale: f32, above: &mut [u64; MAGNITUDE_THRESHOLDS.len()]) {
        // Slices of this size are few enough for counts of 32 bits, and so small that the second
        // pass finds them in the cache.
        for slice in values.chunks(4096) {
            let of_slice = count_magnitudes(slice, #[inline(always)] |value: f32| (value * scale).abs());
            above.iter_mut().zip(of_slice).for_each(|(sum, count)| *sum += u64::from(count));
        }
    }
}

per_instruction_set! {
    /// Does the same as [`count_above`], which is inlined.
    fn count_bytes(values: &[[u8; 4]]) -> [u32; MAGNITUDE_THRESHOLDS.len()] {
        count_above(values)
    }
}

/// Returns how many of `values` have a magnitude above each of [`MAGNITUDE_THRESHOLDS`].
#[inline(always)]
pub(super) fn count_above(values: &[[u8; 4]]) -> [u32; MAGNITUDE_THRESHOLDS.len()] {
    count_magnitudes(
        values,
        #[inline(always)]
        |value: [u8; 4]| f32::from_le_bytes(value).abs(),
    )
}

#[inline(always)]
fn count_magnitudes<V: Copy>(
    values: &[V],
    magnitude_of: impl Fn(V) -> f32,
) -> [u32; MAGNITUDE_THRESHOLDS.len()] {
    const ABOVE: [f32; 7] = MAGNITUDE_THRESHOLDS;
    // In a dense table, all values of most slices are above the fourth threshold, and so above
    // those before it. The counts are variables: with an array the compiler vectorises over four
    // thresholds and not over sixteen values.
    let [mut d, mut e, mut f, mut g] = [0u32; 4];
    for value in values {
        let magnitude = magnitude_of(*value);
        d += u32::from(magnitude > ABOVE[3]);
        e += u32::from(magnitude > ABOVE[4]);
        f += u32::from(magnitude > ABOVE[5]);
        g += u32::from(magnitude > ABOVE[6]);
    }
    if d as usize == values.len() {
        return [d, d, d, d, e, f, g];
    }
    let [mut a, mut b, mut c] = [0u32; 3];
    for value in values {
        let magnitude = magnitude_of(*value);
        a += u32::from(magnitude > ABOVE[0]);
        b += u32::from(magnitude > ABOVE[1]);
        c += u32::from(magnitude > ABOVE[2]);
    }
    [a, b, c, d, e, f, g]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, a report shows another sparsity than the tables have.
    #[test]
    fn values_on_a_threshold_are_not_above_it_and_signs_do_not_count() {
        let values = [0.0, -0.0, 1e-6, -2e-6, 1e-1, -0.2, 3.0f32];
        let bytes = values.map(f32::to_le_bytes);
        assert_eq!(count_above(&bytes), [5, 4, 3, 3, 3, 3, 2]);
        let counts = MagnitudeCounts::of(&values, 1.0);
        assert_eq!((counts.values, counts.above), (7, [5, 4, 3, 3, 3, 3, 2]));
        assert_eq!(
            MagnitudeCounts::of(&values, 0.5).above,
            [5, 3, 3, 3, 3, 3, 1],
            "1e-6, 2e-6 and 0.2 are halved"
        );
    }

    #[test]
    fn a_value_on_any_threshold_is_above_the_smaller_ones_alone() {
        for (at, threshold) in MAGNITUDE_THRESHOLDS.into_iter().enumerate() {
            let expected: [u32; 7] = std::array::from_fn(|smaller| u32::from(smaller < at));
            assert_eq!(
                count_above(&[threshold.to_le_bytes()]),
                expected,
                "{threshold}"
            );
            assert_eq!(
                MagnitudeCounts::of(&[-threshold], 1.0).above,
                expected.map(u64::from),
                "{threshold}"
            );
        }
    }

    #[test]
    fn pieces_without_tiny_values_are_counted_like_any_other() {
        let values = [2e-4, -2e-3, 2e-2, 0.2f32];
        assert_eq!(
            count_above(&values.map(f32::to_le_bytes)),
            [4, 4, 4, 4, 3, 2, 1]
        );
        let with_nan = [f32::NAN, 2e-4, 0.2, f32::INFINITY];
        assert_eq!(
            count_above(&with_nan.map(f32::to_le_bytes)),
            [3, 3, 3, 3, 2, 2, 2],
            "NaN is above nothing"
        );
    }

    #[test]
    fn the_shares_of_nothing_are_zero() {
        assert_eq!(MagnitudeCounts::default().shares(), [0.0; 7]);
    }
}
