//! Sums figures over users and computes their means.

use std::collections::BTreeMap;

use super::{DrawProbabilities, Formula, Metric, Place, RatingErrors};

/// Sums of some figures over users. The numbers that the means are taken over are kept with them,
/// so that sums can be merged.
#[derive(Clone, Debug, Default)]
pub struct MetricSums {
    metrics: Vec<Metric>,
    sums: Vec<Sum>,
    probabilities: DrawProbabilities,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    value: f64,
    /// Number of users or ratings.
    count: u64,
}

impl MetricSums {
    /// Returns sums of `metrics` over nobody yet.
    pub fn new(metrics: &[Metric]) -> Self {
        let sums = vec![Sum::default(); metrics.len()];
        Self {
            metrics: metrics.to_vec(),
            sums,
            probabilities: DrawProbabilities::default(),
        }
    }

    /// Adds one user whose held-out item stands at `place`. A figure that needs a rank which
    /// `place` does not have is not changed.
    pub fn add_place(&mut self, place: &Place) {
        if let Some(in_catalogue) = place.in_catalogue {
            self.probabilities.set(in_catalogue);
        }
        for (metric, sum) in self.metrics.iter().zip(&mut self.sums) {
            let cutoff = metric.cutoff_or_all();
            let value = match (metric.formula(), place) {
                (
                    Formula::Rank(gain),
                    Place {
                        among_candidates: Some(rank),
                        ..
                    },
                ) => gain(*rank, cutoff),
                (
                    Formula::ExpectedRank(gain),
                    Place {
                        in_catalogue: Some(_),
                        ..
                    },
                ) => self.probabilities.mean(gain, cutoff),
                _ => continue,
            };
            *sum = Sum {
                value: sum.value + value,
                count: sum.count + 1,
            };
        }
    }

    /// Adds the errors of one user, which must belong to the same figures.
    pub fn add_errors(&mut self, errors: &RatingErrors) {
        for ((metric, sum), value) in self.metrics.iter().zip(&mut self.sums).zip(&errors.sums) {
            if let Formula::Error(_) = metric.formula() {
                *sum = Sum {
                    value: sum.value + value,
                    count: sum.count + errors.ratings,
                };
            }
        }
    }

    /// Adds everything that `other` has summed, which must be the same figures.
    pub fn merge(&mut self, other: &Self) {
        for (sum, other) in self.sums.iter_mut().zip(&other.sums) {
            *sum = Sum {
                value: sum.value + other.value,
                count: sum.count + other.count,
            };
        }
    }

    /// Returns the means by name. A figure that was never added to has none.
    pub fn means(&self) -> BTreeMap<String, f64> {
        let known = self
            .metrics
            .iter()
            .zip(&self.sums)
            .filter(|(_, sum)| sum.count > 0);
        let mean = |(metric, sum): (&Metric, &Sum)| {
            let mean = sum.value / sum.count as f64;
            let figure = match metric.formula() {
                Formula::Rank(_) | Formula::ExpectedRank(_) => mean,
                Formula::Error(measure) => (measure.of_mean)(mean),
            };
            (metric.name(), figure)
        };
        known.map(mean).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::CataloguePlace;
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
    fn merging_is_the_same_as_adding_one_by_one() {
        let all = metrics(&["hr@5", "expected-ndcg@5", "mrr"]);
        let (mut whole, mut left, mut right) = (
            MetricSums::new(&all),
            MetricSums::new(&all),
            MetricSums::new(&all),
        );
        for rank in 0..10 {
            let in_catalogue = Some(CataloguePlace {
                rank: 3 * rank,
                items: 40,
                drawn: 12,
            });
            let place = Place {
                among_candidates: Some(rank),
                in_catalogue,
            };
            whole.add_place(&place);
            if rank < 4 {
                left.add_place(&place)
            } else {
                right.add_place(&place)
            }
        }
        left.merge(&right);
        for (name, value) in whole.means() {
            assert!((left.means()[&name] - value).abs() < 1e-15, "{name}");
        }
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
