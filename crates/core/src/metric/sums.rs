//! Sums metrics over users and computes their means.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{DrawProbabilities, Formula, Metric, Place};

/// Errors of some predictions, summed for each of a list of metrics.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RatingErrors {
    /// Number of predictions.
    pub ratings: u64,
    /// The sum of errors for each metric. It is 0 for a metric of ranks.
    pub sums: Vec<f64>,
}

impl RatingErrors {
    /// Returns the errors of `predictions`, pairs of a predicted and a true rating, for each of
    /// `metrics`.
    pub fn of(metrics: &[Metric], predictions: impl IntoIterator<Item = (f32, f32)>) -> Self {
        let mut errors = Self {
            ratings: 0,
            sums: vec![0.0; metrics.len()],
        };
        for (predicted, rating) in predictions {
            errors.ratings += 1;
            let difference = f64::from(predicted) - f64::from(rating);
            for (metric, sum) in metrics.iter().zip(&mut errors.sums) {
                if let Formula::Error { of_difference, .. } = metric.family().of {
                    *sum += of_difference(difference);
                }
            }
        }
        errors
    }
}

/// Sums of some metrics over users. The numbers that the means are taken over are kept with them.
#[derive(Clone, Debug, Default)]
pub struct MetricSums {
    sums: Vec<(Metric, Sum)>,
    probabilities: DrawProbabilities,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    value: f64,
    /// Number of users or ratings.
    count: u64,
}

impl Sum {
    fn add(&mut self, value: f64, count: u64) {
        self.value += value;
        self.count += count;
    }
}

impl MetricSums {
    /// Returns sums of `metrics` over nobody yet.
    pub fn new(metrics: &[Metric]) -> Self {
        Self {
            sums: metrics
                .iter()
                .map(|metric| (*metric, Sum::default()))
                .collect(),
            probabilities: DrawProbabilities::default(),
        }
    }

    /// Adds one user whose held-out item stands at `place`. A metric that needs a rank which
    /// `place` does not have is not changed.
    pub fn add_place(&mut self, place: &Place) {
        if let Some(in_catalogue) = place.in_catalogue {
            self.probabilities.set(in_catalogue);
        }
        for (metric, sum) in &mut self.sums {
            // Without a cutoff every rank counts.
            let cutoff = metric.cutoff.unwrap_or(u32::MAX);
            let value = match metric.family().of {
                Formula::Rank(gain) => place.among_candidates.map(|rank| gain(rank, cutoff)),
                Formula::ExpectedRank(gain) => place
                    .in_catalogue
                    .map(|_| self.probabilities.mean(gain, cutoff)),
                Formula::Error { .. } => None,
            };
            if let Some(value) = value {
                sum.add(value, 1);
            }
        }
    }

    /// Adds the errors of one user, which must belong to the same metrics.
    pub fn add_errors(&mut self, errors: &RatingErrors) {
        for ((metric, sum), value) in self.sums.iter_mut().zip(&errors.sums) {
            if let Formula::Error { .. } = metric.family().of {
                sum.add(*value, errors.ratings);
            }
        }
    }

    /// Returns the means by name. A metric that was never added to has none.
    pub fn means(&self) -> BTreeMap<String, f64> {
        let known = self.sums.iter().filter(|(_, sum)| sum.count > 0);
        let mean = |(metric, sum): &(Metric, Sum)| {
            let mean = sum.value / sum.count as f64;
            let value = match metric.family().of {
                Formula::Rank(_) | Formula::ExpectedRank(_) => mean,
                Formula::Error { of_mean, .. } => of_mean(mean),
            };
            (metric.name(), value)
        };
        known.map(mean).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::math;

    fn metrics(names: &[&str]) -> Vec<Metric> {
        names
            .iter()
            .map(|name| Metric::named(name).unwrap())
            .collect()
    }

    #[test]
    fn figures_match_a_hand_count() {
        let mut sums = MetricSums::new(&metrics(&["hr@1", "hr@10", "ndcg@10", "mrr"]));
        [0, 9, 10]
            .into_iter()
            .for_each(|rank| sums.add_place(&Place::among_candidates(rank)));
        let figures = sums.means();
        assert_eq!(figures["hr@1"], 1.0 / 3.0);
        assert_eq!(figures["hr@10"], 2.0 / 3.0);
        assert!((figures["ndcg@10"] - (1.0 + 1.0 / math::log2(11.0)) / 3.0).abs() < 1e-15);
        assert!((figures["mrr"] - (1.0 + 0.1 + 1.0 / 11.0) / 3.0).abs() < 1e-15);
    }

    #[test]
    fn errors_are_averaged_over_ratings_and_not_over_users() {
        let both = metrics(&["rmse", "mae"]);
        let mut sums = MetricSums::new(&both);
        sums.add_errors(&RatingErrors::of(
            &both,
            [(4.0, 5.0), (3.0, 3.0), (2.0, 4.0)],
        ));
        sums.add_errors(&RatingErrors::of(&both, []));
        sums.add_errors(&RatingErrors::of(&both, [(5.0, 5.0)]));
        let figures = sums.means();
        assert_eq!(
            (figures["rmse"], figures["mae"]),
            (math::sqrt(5.0 / 4.0), 0.75)
        );
    }

    /// If this fails, a run without test ratings reports an error of 0, or NaN.
    #[test]
    fn what_was_never_measured_has_no_figure() {
        assert!(
            MetricSums::new(&metrics(&["hr@10", "rmse"]))
                .means()
                .is_empty()
        );
    }
}
