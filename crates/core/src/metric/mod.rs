//! Defines figures of accuracy: what each is called, which direction is better, what it needs, and
//! how it is computed.
//!
//! A figure is a mean over users (or over their test ratings) of what one held-out item (or rating)
//! is worth. A new one is a function of a rank or of an error, and one line in [`FAMILIES`];
//! scenario files, the choice of the round and every report then know it. Sums are taken in the
//! order in which they are added, in double precision, so figures are the same on every machine.

use std::cmp::Ordering;

mod expected;
mod ranking;
mod rating;
mod sums;

pub use expected::DrawProbabilities;
pub use ranking::{CataloguePlace, Place, rank};
pub use rating::RatingErrors;
pub use sums::MetricSums;

/// Every figure that a scenario can ask for, in the order in which reports list them.
pub const FAMILIES: &[Family] = &[
    Family {
        name: "hr",
        label: "HR",
        of: Formula::Rank(ranking::hit),
        has_cutoff: true,
    },
    Family {
        name: "ndcg",
        label: "NDCG",
        of: Formula::Rank(ranking::discounted_gain),
        has_cutoff: true,
    },
    Family {
        name: "mrr",
        label: "MRR",
        of: Formula::Rank(ranking::reciprocal),
        has_cutoff: false,
    },
    Family {
        name: "expected-hr",
        label: "expected HR",
        of: Formula::ExpectedRank(ranking::hit),
        has_cutoff: true,
    },
    Family {
        name: "expected-ndcg",
        label: "expected NDCG",
        of: Formula::ExpectedRank(ranking::discounted_gain),
        has_cutoff: true,
    },
    Family {
        name: "expected-mrr",
        label: "expected MRR",
        of: Formula::ExpectedRank(ranking::reciprocal),
        has_cutoff: false,
    },
    Family {
        name: "rmse",
        label: "RMSE",
        of: Formula::Error(rating::ROOT_MEAN_SQUARE),
        has_cutoff: false,
    },
    Family {
        name: "mae",
        label: "MAE",
        of: Formula::Error(rating::MEAN_ABSOLUTE),
        has_cutoff: false,
    },
];

/// A function that returns what a held-out item is worth at `rank` (from 0). Ranks from `cutoff` on
/// count for nothing.
pub(crate) type Gain = fn(rank: u32, cutoff: u32) -> f64;

/// Figures that differ only by their cutoff.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Name in scenario files, without the cutoff.
    pub name: &'static str,
    /// Name in reports, without the cutoff.
    pub label: &'static str,
    /// The quantity that is averaged.
    pub of: Formula,
    /// Whether the name is followed by a cutoff, as in `hr@10`.
    pub has_cutoff: bool,
}

/// What a figure averages.
#[derive(Clone, Copy, Debug)]
pub enum Formula {
    /// The gain at the rank among the candidates.
    Rank(Gain),
    /// The exact expectation of that gain over all draws of the sampled candidates.
    ExpectedRank(Gain),
    /// A function of the difference between a predicted and a true rating.
    Error(rating::ErrorMeasure),
}

/// What has to be known of a user's held-out part to compute a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// The rank of held-out items among the candidates.
    RankAmongCandidates,
    /// The rank of held-out items among all items that the user has not rated.
    RankInCatalogue,
    /// Predictions of held-out ratings.
    PredictedRatings,
}

/// Which of two values of a figure is better.
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

    /// Returns whether `value` is at least as good as `share` (at most 1) of `best`: at least that
    /// share of a figure that is to be high, and at most `2 - share` times one that is to be low.
    pub fn reaches(self, value: f64, share: f64, best: f64) -> bool {
        match self {
            Self::Higher => value >= share * best,
            Self::Lower => value <= (2.0 - share) * best,
        }
    }
}

/// One figure: a family and, if the family has cutoffs, a cutoff.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    family: &'static Family,
    cutoff: Option<u32>,
}

impl PartialEq for Metric {
    fn eq(&self, other: &Self) -> bool {
        (self.family.name, self.cutoff) == (other.family.name, other.cutoff)
    }
}

impl Eq for Metric {}

impl Metric {
    /// Returns the figure of this full name, such as `hr@10` or `rmse`.
    pub fn named(name: &str) -> Option<Self> {
        let (family, cutoff) = Self::family_and_cutoff(name)?;
        (family.has_cutoff == cutoff.is_some()).then_some(Self { family, cutoff })
    }

    /// Returns the figures that `name` stands for in a scenario: a family that has cutoffs and is
    /// named without one stands for its figures at each of `cutoffs`. There is none for an unknown
    /// name, and for a cutoff where there can be none.
    pub fn all_named(name: &str, cutoffs: &[u32]) -> Vec<Self> {
        match Self::family_and_cutoff(name) {
            Some((family, None)) if family.has_cutoff => cutoffs
                .iter()
                .map(|&cutoff| Self {
                    family,
                    cutoff: Some(cutoff),
                })
                .collect(),
            _ => Self::named(name).into_iter().collect(),
        }
    }

    /// Returns the family that `name` begins with and the cutoff behind it, if any; `None` for an
    /// unknown family and for what is no cutoff.
    pub fn family_and_cutoff(name: &str) -> Option<(&'static Family, Option<u32>)> {
        let (family, cutoff) = match name.split_once('@') {
            // A sign, a leading zero and the cutoff 0 are refused, as no name is printed so.
            Some((family, digits)) => {
                let cutoff = digits
                    .parse()
                    .ok()
                    .filter(|cutoff: &u32| *cutoff > 0 && cutoff.to_string() == digits)?;
                (family, Some(cutoff))
            }
            None => (name, None),
        };
        FAMILIES
            .iter()
            .find(|known| known.name == family)
            .map(|family| (family, cutoff))
    }

    /// Returns the figure's name in scenario files and in the record of a run, such as `hr@10`.
    pub fn name(&self) -> String {
        self.with_cutoff(self.family.name)
    }

    /// Returns the figure's name in reports, such as `HR@10`.
    pub fn label(&self) -> String {
        self.with_cutoff(self.family.label)
    }

    fn with_cutoff(&self, name: &str) -> String {
        self.cutoff
            .map_or_else(|| name.to_owned(), |cutoff| format!("{name}@{cutoff}"))
    }

    /// Returns the figure's cutoff, if it has one.
    pub fn cutoff(&self) -> Option<u32> {
        self.cutoff
    }

    /// Returns which of two values is better.
    pub fn better(&self) -> Better {
        match self.family.of {
            Formula::Rank(_) | Formula::ExpectedRank(_) => Better::Higher,
            Formula::Error(_) => Better::Lower,
        }
    }

    /// Returns what has to be known to compute the figure.
    pub fn needs(&self) -> Needs {
        match self.family.of {
            Formula::Rank(_) => Needs::RankAmongCandidates,
            Formula::ExpectedRank(_) => Needs::RankInCatalogue,
            Formula::Error(_) => Needs::PredictedRatings,
        }
    }

    /// Returns a key that sorts figures in a list: families as in [`FAMILIES`], then cutoffs as
    /// numbers.
    pub fn order(&self) -> (usize, u32) {
        let place = FAMILIES
            .iter()
            .position(|family| family.name == self.family.name);
        (place.unwrap_or(FAMILIES.len()), self.cutoff.unwrap_or(0))
    }

    /// Returns the figure of `metrics` that is best shown beside this one: the first other one of
    /// the same kind and the same cutoff, as NDCG@10 is for HR@10.
    pub fn companion(&self, metrics: &[Self]) -> Option<Self> {
        let is_like = |other: &&Self| {
            *other != self && other.needs() == self.needs() && other.cutoff == self.cutoff
        };
        metrics.iter().find(is_like).copied()
    }

    fn formula(&self) -> Formula {
        self.family.of
    }

    /// Returns the cutoff, or the largest number for a figure without one, for which every rank
    /// counts.
    fn cutoff_or_all(&self) -> u32 {
        self.cutoff.unwrap_or(u32::MAX)
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
