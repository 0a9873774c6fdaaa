//! Defines the metrics: what each is called, which direction is better, what it needs, and how it is
//! computed.
//!
//! A metric is a mean over users of what their held-out items are worth, or over test ratings of an
//! error. A new one is a function of a place or of an error, and one line in [`FAMILIES`];
//! scenario files, the choice of the round and every report then know it. Sums are taken in a fixed
//! order and in double precision, so metrics are the same on every machine.

use std::cmp::Ordering;

mod expected;
mod lists;
mod popularity;
mod ranking;
mod sums;

use expected::DrawProbabilities;
pub use lists::{ListFigures, ListSums};
pub use popularity::{GroupCounts, Popularity, PopularityGroup};
pub use ranking::{CataloguePlace, Place, Places, Worth, ranks};
use ranking::{HIT, MAP, MRR, NDCG, PRECISION, RECALL};
pub use sums::{MetricSums, RatingErrors};

use Formula::{Error, ExpectedRank, Rank};

/// Every metric that a scenario can ask for, in the order of the reports.
pub const FAMILIES: &[Family] = &[
    Family::new("hr", "HR", Rank(HIT), true),
    Family::new("ndcg", "NDCG", Rank(NDCG), true),
    Family::new("mrr", "MRR", Rank(MRR), false),
    Family::new("recall", "recall", Rank(RECALL), true),
    Family::new("precision", "precision", Rank(PRECISION), true),
    Family::new("map", "MAP", Rank(MAP), true),
    Family::new("expected-hr", "expected HR", ExpectedRank(HIT), true),
    Family::new("expected-ndcg", "expected NDCG", ExpectedRank(NDCG), true),
    Family::new("expected-mrr", "expected MRR", ExpectedRank(MRR), false),
    Family::new(
        "expected-recall",
        "expected recall",
        ExpectedRank(RECALL),
        true,
    ),
    Family::new(
        "expected-precision",
        "expected precision",
        ExpectedRank(PRECISION),
        true,
    ),
    Family::new("expected-map", "expected MAP", ExpectedRank(MAP), true),
    Family::new(
        "rmse",
        "RMSE",
        Error {
            of_difference: |difference| difference * difference,
            of_mean: crate::math::sqrt,
            mean_of: |value| value * value,
        },
        false,
    ),
    Family::new(
        "mae",
        "MAE",
        Error {
            of_difference: f64::abs,
            of_mean: |mean| mean,
            mean_of: |value| value,
        },
        false,
    ),
];

/// Metrics that differ only by their cutoff.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Name in scenario files, without the cutoff.
    pub name: &'static str,
    /// Name in reports, without the cutoff.
    pub label: &'static str,
    /// How values follow from ranks or errors.
    pub of: Formula,
    /// Whether the name is followed by a cutoff, as in `hr@10`.
    pub has_cutoff: bool,
}

impl Family {
    const fn new(name: &'static str, label: &'static str, of: Formula, has_cutoff: bool) -> Self {
        Self {
            name,
            label,
            of,
            has_cutoff,
        }
    }
}

/// What a metric averages.
#[derive(Clone, Copy, Debug)]
pub enum Formula {
    /// What the held-out items of a user are worth at their ranks among the candidates.
    Rank(Worth),
    /// The exact expectation of that worth over all draws of the sampled candidates.
    ExpectedRank(Worth),
    /// A function of the difference between a predicted and a true rating, and the function from
    /// the mean of these to the metric.
    Error {
        /// What the difference of one prediction counts.
        of_difference: fn(f64) -> f64,
        /// The metric by the mean of these.
        of_mean: fn(f64) -> f64,
        /// The mean by the metric.
        mean_of: fn(f64) -> f64,
    },
}

/// The data of a user's held-out part that a metric is computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// The rank of held-out items among the candidates.
    RankAmongCandidates,
    /// The rank of held-out items among all items that the user has not rated.
    RankInCatalogue,
    /// Predictions of held-out ratings.
    PredictedRatings,
}

/// Which of two values of a metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// The higher value is better, as for shares of hits.
    Higher,
    /// The lower value is better, as for errors.
    Lower,
}

impl Better {
    /// Compares two values: the better one is the greater.
    pub fn compare(self, a: f64, b: f64) -> Ordering {
        match self {
            Self::Higher => a.total_cmp(&b),
            Self::Lower => b.total_cmp(&a),
        }
    }

    /// Returns whether `value` is at least as good as `share` (at most 1) of `best`. If high is
    /// good, that is at least `share` times `best`; if low is good, at most `2 - share` times
    /// `best`.
    pub fn reaches(self, value: f64, share: f64, best: f64) -> bool {
        match self {
            Self::Higher => value >= share * best,
            Self::Lower => value <= (2.0 - share) * best,
        }
    }
}

/// One metric: a family and, if the family has cutoffs, a cutoff. Metrics are ordered as in
/// [`FAMILIES`], and by their cutoffs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Metric {
    /// The place in [`FAMILIES`].
    family: usize,
    /// The cutoff, if the family has them.
    pub cutoff: Option<u32>,
}

impl Metric {
    /// Returns the metric of this full name, such as `hr@10` or `rmse`.
    pub fn named(name: &str) -> Option<Self> {
        Self::parsed(name).filter(|metric| metric.family().has_cutoff == metric.cutoff.is_some())
    }

    /// Returns the metrics that `name` stands for in a scenario: a family that has cutoffs and is
    /// named without one stands for its metrics at each of `cutoffs`. There is none for an unknown
    /// name, and for a cutoff where there can be none.
    pub fn all_named(name: &str, cutoffs: &[u32]) -> Vec<Self> {
        match Self::parsed(name) {
            Some(all) if all.cutoff.is_none() && all.family().has_cutoff => {
                let at = |cutoff: &u32| Self {
                    cutoff: Some(*cutoff),
                    ..all
                };
                cutoffs.iter().map(at).collect()
            }
            _ => Self::named(name).into_iter().collect(),
        }
    }

    /// Returns the family that `name` begins with and the cutoff behind it, if any; `None` for an
    /// unknown family and for what is no cutoff.
    pub fn family_and_cutoff(name: &str) -> Option<(&'static Family, Option<u32>)> {
        Self::parsed(name).map(|metric| (metric.family(), metric.cutoff))
    }

    /// Reads a name that may lack a cutoff, or have one too many.
    fn parsed(name: &str) -> Option<Self> {
        let (name, cutoff) = match name.split_once('@') {
            // A sign, a leading zero and the cutoff 0 are refused, as no name is printed so.
            Some((name, digits)) => {
                let cutoff = digits.parse().ok();
                let is_printed = |cutoff: &u32| *cutoff > 0 && cutoff.to_string() == digits;
                (name, Some(cutoff.filter(is_printed)?))
            }
            None => (name, None),
        };
        let family = FAMILIES.iter().position(|known| known.name == name)?;
        Some(Self { family, cutoff })
    }

    fn family(&self) -> &'static Family {
        &FAMILIES[self.family]
    }

    /// Returns the name in scenario files and in the record of a run, such as `hr@10`.
    pub fn name(&self) -> String {
        self.with_cutoff(self.family().name)
    }

    /// Returns the name in reports, such as `HR@10`.
    pub fn label(&self) -> String {
        self.with_cutoff(self.family().label)
    }

    /// Returns the cutoff; without one every rank counts.
    fn cutoff_or_none(&self) -> u32 {
        self.cutoff.unwrap_or(u32::MAX)
    }

    fn with_cutoff(&self, name: &str) -> String {
        self.cutoff
            .map_or_else(|| name.to_owned(), |cutoff| format!("{name}@{cutoff}"))
    }

    /// Returns which of two values is better.
    pub fn better(&self) -> Better {
        match self.needs() {
            Needs::RankAmongCandidates | Needs::RankInCatalogue => Better::Higher,
            Needs::PredictedRatings => Better::Lower,
        }
    }

    /// Returns what a user with this value adds to the sums over users: to that above the line and
    /// to that below it. `held_out` is the number of the user's held-out items or ratings.
    pub fn shares(&self, value: f64, held_out: f64) -> [f64; 2] {
        match self.family().of {
            Rank(_) | ExpectedRank(_) => [value, 1.0],
            Error { mean_of, .. } => [mean_of(value) * held_out, held_out],
        }
    }

    /// Returns the metric over users by the quotient of the sums of their [shares](Self::shares).
    pub fn of_quotient(&self, mean: f64) -> f64 {
        match self.family().of {
            Rank(_) | ExpectedRank(_) => mean,
            Error { of_mean, .. } => of_mean(mean),
        }
    }

    /// Returns what has to be known to compute the metric.
    pub fn needs(&self) -> Needs {
        match self.family().of {
            Rank(_) => Needs::RankAmongCandidates,
            ExpectedRank(_) => Needs::RankInCatalogue,
            Error { .. } => Needs::PredictedRatings,
        }
    }

    /// Returns the metric of `metrics` that is best shown beside this one: the first other one of
    /// the same kind and the same cutoff, as NDCG@10 is for HR@10.
    pub fn companion(&self, metrics: &[Self]) -> Option<Self> {
        let is_like = |other: &&Self| {
            *other != self && other.needs() == self.needs() && other.cutoff == self.cutoff
        };
        metrics.iter().find(is_like).copied()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn named(names: &[&str]) -> Vec<Metric> {
        names
            .iter()
            .map(|name| Metric::named(name).unwrap())
            .collect()
    }

    /// If this fails, a scenario that is printed cannot be read again, or two spellings mean one
    /// figure.
    #[test]
    fn a_figure_has_one_name_and_a_name_one_figure() {
        for name in [
            "hr@10",
            "ndcg@5",
            "mrr",
            "expected-hr@1",
            "expected-mrr",
            "rmse",
            "mae",
        ] {
            assert_eq!(Metric::named(name).unwrap().name(), name);
        }
        for name in [
            "hr", "mrr@5", "hr@0", "hr@+5", "hr@05", "hr@", "HR@10", "auc", "rmse@1", "",
        ] {
            assert_eq!(Metric::named(name), None, "{name:?}");
        }
        assert_eq!(
            Metric::named("expected-ndcg@10").unwrap().label(),
            "expected NDCG@10"
        );
    }

    #[test]
    fn a_family_stands_for_its_figures_at_every_cutoff() {
        assert_eq!(Metric::all_named("hr", &[5, 10]), named(&["hr@5", "hr@10"]));
        assert_eq!(Metric::all_named("hr@7", &[5, 10]), named(&["hr@7"]));
        assert_eq!(Metric::all_named("mrr", &[5, 10]), named(&["mrr"]));
        assert_eq!(Metric::all_named("mrr@7", &[5]), []);
    }

    /// If this fails, the worst round of a run that is judged by its error counts as the best.
    #[test]
    fn the_better_value_is_the_greater_whatever_the_direction() {
        let [hr, rmse] = ["hr@10", "rmse"].map(|name| Metric::named(name).unwrap().better());
        assert_eq!(
            (hr.compare(0.6, 0.5), rmse.compare(0.9, 1.0)),
            (Ordering::Greater, Ordering::Greater)
        );
        assert!(hr.reaches(0.45, 0.9, 0.5) && !hr.reaches(0.44, 0.9, 0.5));
        assert!(rmse.reaches(1.09, 0.9, 1.0) && !rmse.reaches(1.11, 0.9, 1.0));
    }

    #[test]
    fn a_companion_is_of_the_same_kind_and_cutoff() {
        let metrics = named(&[
            "hr@5",
            "hr@10",
            "ndcg@5",
            "ndcg@10",
            "mrr",
            "expected-hr@10",
            "rmse",
            "mae",
        ]);
        let of = |name: &str| {
            Metric::named(name)
                .unwrap()
                .companion(&metrics)
                .map(|metric| metric.name())
        };
        assert_eq!(of("hr@10").as_deref(), Some("ndcg@10"));
        assert_eq!(of("ndcg@5").as_deref(), Some("hr@5"));
        assert_eq!(of("rmse").as_deref(), Some("mae"));
        assert_eq!((of("mrr"), of("expected-hr@10")), (None, None));
    }
}
