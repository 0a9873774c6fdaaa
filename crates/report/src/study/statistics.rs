//! Means over seeds with their intervals, and paired differences; intervals of draws, Holm's
//! correction and power.

use crate::metrics::ANY;

/// The 97.5 % quantiles of Student's t distribution for 1 to 30 degrees of freedom, which give
/// two-sided intervals of 95 %. Source: NIST/SEMATECH e-Handbook of Statistical Methods, section
/// 1.3.6.7.2.
const QUANTILES: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// The same for more degrees of freedom, as (degrees, quantile).
const FURTHER: [(f64, f64); 4] = [(30.0, 2.042), (40.0, 2.021), (60.0, 2.000), (100.0, 1.984)];

/// The quantile of the normal distribution, which the others approach.
const NORMAL: f64 = 1.960;

/// A mean with its spread, if that is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    /// Number of values.
    pub count: usize,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation, with one less than their number in the denominator; `None` of a
    /// single value.
    pub deviation: Option<f64>,
    /// Half the length of the 95 % interval around the mean, by Student's t; `None` of a single
    /// value.
    pub half_width: Option<f64>,
    /// The lowest and the highest value that there can be, at which the interval ends.
    range: [f64; 2],
}

impl Summary {
    /// Returns the summary of `values`; `None` if there is none. Sums are taken in the order of the
    /// values.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let (count, number) = (values.len(), values.len() as f64);
        if count == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / number;
        let squares = values.iter().map(|value| (value - mean) * (value - mean));
        let deviation = (count > 1).then(|| (squares.sum::<f64>() / (number - 1.0)).sqrt());
        Some(Self {
            count,
            mean,
            deviation,
            half_width: deviation.map(|of| quantile(count - 1) * of / number.sqrt()),
            range: ANY,
        })
    }

    /// Ends the interval where no value can be: Student's t knows nothing of the ends of a share.
    pub(crate) fn within(self, range: [f64; 2]) -> Self {
        Self { range, ..self }
    }

    /// Returns the summary of what `combine` makes of the values of `ours` and `theirs` with the
    /// same seed; `None` if no seed is in both.
    pub(crate) fn of_pairs(
        ours: &[(u64, f64)],
        theirs: &[(u64, f64)],
        combine: fn(f64, f64) -> f64,
    ) -> Option<Self> {
        let their = |seed: u64| theirs.iter().find(|(other, _)| *other == seed);
        let pair = |(seed, our): &(u64, f64)| their(*seed).map(|(_, their)| combine(*our, *their));
        let values: Vec<f64> = ours.iter().filter_map(pair).collect();
        Self::of(&values)
    }

    /// Returns the ends of the 95 % interval; `None` of a single value.
    pub(crate) fn interval(&self) -> Option<[f64; 2]> {
        let [lowest, highest] = self.range;
        let ends = |half| [self.mean - half, self.mean + half];
        // A mean of ones may be 1 and a last digit.
        self.half_width.map(ends).map(|[low, high]| {
            [
                low.max(lowest.min(self.mean)),
                high.min(highest.max(self.mean)),
            ]
        })
    }
}

/// A mean by its values in many draws of users and seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Estimate {
    /// The number of draws.
    pub draws: usize,
    /// The ends of the interval that holds 95 % of the draws.
    pub low: f64,
    /// Its other end.
    pub high: f64,
    /// The standard error: the standard deviation over the draws.
    pub error: f64,
    /// The chance of draws so far from 0 if there is no difference, for both directions.
    pub p: f64,
}

impl Estimate {
    /// Returns the estimate by the values in draws; `None` without any.
    pub(crate) fn of(mut values: Vec<f64>) -> Option<Self> {
        let error = Summary::of(&values)?.deviation.unwrap_or_default();
        values.sort_unstable_by(f64::total_cmp);
        // Draws cut the line into one part more than they are, and the truth is in each alike.
        let parts = values.len() as f64 + 1.0;
        let last = values.len() - 1;
        let low = ((0.025 * parts).floor() as usize)
            .saturating_sub(1)
            .min(last);
        // The draw that is beyond 0 least often, and the one that was made, count as well.
        let beyond = |is_beyond: fn(&&f64) -> bool| values.iter().filter(is_beyond).count();
        let fewest = beyond(|value| **value <= 0.0).min(beyond(|value| **value >= 0.0));
        Some(Self {
            draws: values.len(),
            low: values[low],
            high: values[last - low],
            error,
            p: (2.0 * (fewest as f64 + 1.0) / parts).min(1.0),
        })
    }

    /// Returns whether 0 is outside of the interval.
    pub(crate) fn excludes_zero(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }

    /// Returns the smallest difference that a study with this standard error shows with power .8.
    pub(crate) fn could_show(&self) -> f64 {
        DETECTABLE * self.error
    }
}

/// How many standard errors a difference has to have so that an interval of 95 % excludes 0 in 80 %
/// of all studies: the quantiles of the normal distribution at .975 and at .8.
pub(crate) const DETECTABLE: f64 = NORMAL + 0.842;

/// Returns the chances `p` as Holm's step-down correction has them for so many comparisons.
pub(crate) fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let (mut corrected, mut most) = (p.to_vec(), 0.0_f64);
    for (rank, place) in order.into_iter().enumerate() {
        most = most.max((p.len() - rank) as f64 * p[place]).min(1.0);
        corrected[place] = most;
    }
    corrected
}

/// Returns the 97.5 % quantile of Student's t. Between the tabulated degrees of freedom it is
/// linear in their reciprocal, which is right to the third digit.
fn quantile(degrees: usize) -> f64 {
    if let Some(quantile) = degrees
        .checked_sub(1)
        .and_then(|place| QUANTILES.get(place))
    {
        return *quantile;
    }
    let reciprocal = 1.0 / degrees as f64;
    for pair in FURTHER.windows(2) {
        let [(fewer, above), (more, below)] = [pair[0], pair[1]];
        if degrees as f64 <= more {
            return below
                + (above - below) * (reciprocal - 1.0 / more) / (1.0 / fewer - 1.0 / more);
        }
    }
    let [.., (last, above)] = FURTHER;
    NORMAL + (above - NORMAL) * reciprocal * last
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn assert_near(found: f64, expected: f64) {
        assert!(
            (found - expected).abs() < 5e-4 * expected.abs().max(1.0),
            "{found} is not near {expected}"
        );
    }

    /// The values are the first ten of Michelson's measurements of the speed of light, in 1000
    /// km/s; mean and deviation are those of Python's module `statistics`.
    #[test]
    fn mean_deviation_and_interval_are_those_of_other_programs() {
        let values = [
            299.85, 299.74, 299.90, 300.07, 299.93, 299.85, 299.95, 299.98, 299.98, 299.88,
        ];
        let summary = Summary::of(&values).unwrap();
        assert_near(summary.mean, 299.913);
        assert_near(summary.deviation.unwrap(), 0.090_927);
        let [low, high] = summary.interval().unwrap();
        assert!(
            (low - 299.847_96).abs() < 1e-4 && (high - 299.978_04).abs() < 1e-3,
            "{low} {high}"
        );
    }

    #[test]
    fn one_value_has_no_spread_and_none_has_no_mean() {
        let one = Summary::of(&[0.5]).unwrap();
        assert_eq!((one.mean, one.deviation, one.interval()), (0.5, None, None));
        assert_eq!(Summary::of(&[]), None);
    }

    /// If this fails, runs of different seeds are taken for a pair, and the interval is far too
    /// wide.
    #[test]
    fn differences_are_taken_between_the_same_seeds() {
        let ours = [(1, 0.5), (2, 0.7), (4, 0.1)];
        let theirs = [(2, 0.6), (3, 0.9), (1, 0.4)];
        let difference: fn(f64, f64) -> f64 = |our, their| our - their;
        let summary = Summary::of_pairs(&ours, &theirs, difference).unwrap();
        assert_eq!(summary.count, 2);
        assert_near(summary.mean, 0.1);
        assert!(summary.half_width.unwrap() < 1e-9);
        assert_eq!(
            Summary::of_pairs(&[(1, 0.5)], &[(2, 0.5)], difference),
            None
        );
    }

    /// The first example is that of textbooks: the smallest p of four is multiplied by 4, the next
    /// by 3 and 2, and none is less than the one before.
    #[test]
    fn many_comparisons_are_corrected_step_by_step() {
        let found = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (found, expected) in found.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((found - expected).abs() < 1e-12, "{found}");
        }
        assert_eq!(holm(&[0.7, 0.6]), [1.0, 1.0]);
        assert_eq!(holm(&[0.02]), [0.02]);
        assert_eq!(holm(&[]), [0.0; 0]);
    }

    /// If this fails, a table says that a hit rate may be 1.08 or below 0.
    #[test]
    fn an_interval_ends_where_no_value_can_be() {
        let of = |values: &[f64], range| Summary::of(values).unwrap().within(range).interval();
        let [low, high] = of(&[0.9, 1.0], [0.0, 1.0]).unwrap();
        assert!(
            (low - 0.95 + 12.706 * 0.05).abs() < 1e-9 && high == 1.0,
            "{low} {high}"
        );
        let [low, high] = of(&[10.0, 90.0], [0.0, f64::INFINITY]).unwrap();
        assert!(low == 0.0 && high > 500.0, "{low} {high}");
        assert_eq!(of(&[0.5], [0.0, 1.0]), None);
    }

    /// If this fails, an interval holds another share of the draws than 95 %.
    #[test]
    fn an_interval_holds_95_of_100_draws() {
        let found =
            Estimate::of((1..=1999).map(|value| f64::from(value) - 20.0).collect()).unwrap();
        assert_eq!((found.low, found.high), (30.0, 1930.0));
        // 20 of 1999 are at or below 0.
        assert!((found.p - 2.0 * 21.0 / 2000.0).abs() < 1e-12);
        assert!(found.excludes_zero() && Estimate::of(Vec::new()).is_none());
        let one = Estimate::of(vec![0.5]).unwrap();
        assert_eq!((one.low, one.high, one.error, one.p), (0.5, 0.5, 0.0, 1.0));
    }

    /// The quantiles are those of published tables.
    #[test]
    fn quantiles_between_and_beyond_the_table_are_right_to_the_third_digit() {
        let expected = [
            (1, 12.706),
            (4, 2.776),
            (30, 2.042),
            (35, 2.030),
            (50, 2.009),
            (80, 1.990),
            (120, 1.980),
            (1000, 1.962),
        ];
        for (degrees, tabulated) in expected {
            assert!(
                (quantile(degrees) - tabulated).abs() < 1e-3,
                "{degrees}: {}",
                quantile(degrees)
            );
        }
    }
}
