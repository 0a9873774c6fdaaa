//! Sums metrics over users and computes their means.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ranking::Standing;
use super::{DrawProbabilities, Formula, Metric, Places};

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
    /// The gains of the current user, for each of the metrics; then its values.
    gains: Vec<Option<f64>>,
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
            ..Self::default()
        }
    }

    /// Adds one user by the places of the held-out items, if there are any, and returns the user's
    /// values. A metric that needs ranks which the places do not have is not changed, and has no
    /// value.
    pub fn add_places(&mut self, places: &Places) -> &[Option<f64>] {
        self.gains.clear();
        if places.held_out == 0 {
            self.gains.resize(self.sums.len(), None);
            return &self.gains;
        }
        self.gains.resize(self.sums.len(), Some(0.0));
        for (place, before) in places.ranked.iter().zip(0..) {
            if let Some(in_catalogue) = place.in_catalogue {
                self.probabilities.set(in_catalogue);
            }
            for ((metric, _), sum) in self.sums.iter().zip(&mut self.gains) {
                let cutoff = metric.cutoff_or_none();
                let gain = match metric.family().of {
                    Formula::Rank(worth) => place.among_candidates.map(|among| {
                        let is_within = u64::from(among) + u64::from(before) < cutoff.into();
                        let gain = || (worth.gain)(Standing { among, before });
                        if is_within { gain() } else { 0.0 }
                    }),
                    Formula::ExpectedRank(worth) => place
                        .in_catalogue
                        .map(|_| self.probabilities.mean(worth.gain, before, cutoff)),
                    Formula::Error { .. } => None,
                };
                *sum = sum.zip(gain).map(|(sum, gain)| sum + gain);
            }
        }
        for ((metric, sum), gain) in self.sums.iter_mut().zip(&mut self.gains) {
            match metric.family().of {
                Formula::Rank(worth) | Formula::ExpectedRank(worth) => {
                    if let Some(gain) = gain {
                        *gain /= (worth.of_best)(places.held_out, metric.cutoff_or_none());
                        sum.add(*gain, 1);
                    }
                }
                Formula::Error { .. } => *gain = None,
            }
        }
        &self.gains
    }

    /// Adds the errors of one user, which must belong to the same metrics, and returns the user's
    /// values; there is none without ratings.
    pub fn add_errors(&mut self, errors: &RatingErrors) -> &[Option<f64>] {
        self.gains.clear();
        self.gains.resize(self.sums.len(), None);
        let values = self.sums.iter_mut().zip(&mut self.gains);
        for (((metric, sum), own), value) in values.zip(&errors.sums) {
            if let Formula::Error { of_mean, .. } = metric.family().of {
                sum.add(*value, errors.ratings);
                *own = (errors.ratings > 0).then(|| of_mean(value / errors.ratings as f64));
            }
        }
        &self.gains
    }

    /// Returns the means by name. A metric that was never added to has none.
    pub fn means(&self) -> BTreeMap<String, f64> {
        let known = self.sums.iter().filter(|(_, sum)| sum.count > 0);
        let mean = |(metric, sum): &(Metric, Sum)| {
            let mean = sum.value / sum.count as f64;
            (metric.name(), metric.of_quotient(mean))
        };
        known.map(mean).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::Place;
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
        for rank in [0, 9, 10] {
            sums.add_places(&Places::only(Place::among_candidates(rank)));
        }
        let figures = sums.means();
        assert_eq!(figures["hr@1"], 1.0 / 3.0);
        assert_eq!(figures["hr@10"], 2.0 / 3.0);
        assert!((figures["ndcg@10"] - (1.0 + 1.0 / math::log2(11.0)) / 3.0).abs() < 1e-15);
        assert!((figures["mrr"] - (1.0 + 0.1 + 1.0 / 11.0) / 3.0).abs() < 1e-15);
    }

    /// If this fails, a user with several held-out items is not judged as in the literature. The
    /// list is + - + - - +, and a fourth item is missed by everybody.
    #[test]
    fn several_held_out_items_match_a_hand_count() {
        let names = ["hr@1", "ndcg@5", "mrr", "recall@5", "precision@5", "map@5"];
        let mut sums = MetricSums::new(&metrics(&names));
        let ranked = [0, 1, 3].map(Place::among_candidates).to_vec();
        sums.add_places(&Places {
            held_out: 4,
            ranked,
        });
        let found = sums.means();
        let gain = |position: f64| 1.0 / math::log2(position + 1.0);
        let ideal = gain(1.0) + gain(2.0) + gain(3.0) + gain(4.0);
        assert_eq!((found["hr@1"], found["mrr"]), (1.0, 1.0));
        assert_eq!((found["recall@5"], found["precision@5"]), (0.5, 0.4));
        assert!((found["ndcg@5"] - (gain(1.0) + gain(3.0)) / ideal).abs() < 1e-15);
        assert!((found["map@5"] - (1.0 + 2.0 / 3.0) / 4.0).abs() < 1e-15);
    }

    /// If this fails, a user whose items nobody had rated is left out, which flatters every method,
    /// or a user without any item is counted, which does the opposite.
    #[test]
    fn an_item_that_is_not_ranked_is_a_miss() {
        let mut sums = MetricSums::new(&metrics(&["hr@10", "expected-ndcg@10"]));
        sums.add_places(&Places::default());
        assert!(sums.means().is_empty());
        let ranked = Vec::new();
        sums.add_places(&Places {
            held_out: 1,
            ranked,
        });
        let found = sums.means();
        assert_eq!((found["hr@10"], found["expected-ndcg@10"]), (0.0, 0.0));
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

    /// If this fails, users that are drawn anew do not have the mean that the run reports.
    #[test]
    fn the_values_of_users_have_the_mean_of_all() {
        let all = metrics(&["rmse", "mae"]);
        let mut sums = MetricSums::new(&all);
        let users = [vec![(4.0, 5.0), (3.0, 3.0), (2.0, 4.0)], vec![(5.0, 4.5)]];
        let mut totals = [[0.0; 2]; 2];
        for predictions in users {
            let held_out = predictions.len() as f64;
            let values = sums.add_errors(&RatingErrors::of(&all, predictions));
            for ((metric, value), total) in all.iter().zip(values).zip(&mut totals) {
                let shares = metric.shares(value.unwrap(), held_out);
                total
                    .iter_mut()
                    .zip(shares)
                    .for_each(|(sum, of)| *sum += of);
            }
        }
        let means = sums.means();
        for (metric, [above, below]) in all.iter().zip(totals) {
            let found = metric.of_quotient(above / below);
            assert!((found - means[&metric.name()]).abs() < 1e-15);
        }
        assert_eq!(sums.add_errors(&RatingErrors::of(&all, [])), [None, None]);
        let ranks = metrics(&["hr@10", "mrr"]);
        let mut sums = MetricSums::new(&ranks);
        let of_rank = |rank| Places::only(Place::among_candidates(rank));
        assert_eq!(sums.add_places(&of_rank(1)), [Some(1.0), Some(0.5)]);
        assert_eq!(sums.add_places(&Places::default()), [None, None]);
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
