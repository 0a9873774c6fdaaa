//! Holds what the benchmarks share.

use std::time::Instant;

/// Returns the median of `repetitions` timings of `work`, in nanoseconds.
pub(crate) fn median_ns(repetitions: usize, mut work: impl FnMut()) -> f64 {
    let mut timings: Vec<f64> = (0..repetitions)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64() * 1e9
        })
        .collect();
    timings.sort_unstable_by(f64::total_cmp);
    timings[timings.len() / 2]
}
