//! The baseline that results are held against: popularity, or a mean of ratings where ratings are
//! predicted.

use std::collections::BTreeMap;

use fedrecsim_sim::outcome::{Newcomers, SplitAccuracy};

use crate::metrics;

/// The method that rankings are held against.
pub(crate) const POPULARITY: &str = "popularity";

/// The baseline that is chance alone.
pub(crate) const RANDOM: &str = "random";

/// Returns the name of the baseline that knows nothing of newcomers: popularity can rank for new users,
/// and only chance ranks new items.
pub(crate) fn of_newcomers(newcomers: &Newcomers) -> &'static str {
    match newcomers.items {
        0 => POPULARITY,
        _ => RANDOM,
    }
}

/// Returns the name of the baseline that a metric of a split (`test` or `validation`) of runs with these
/// baselines is held against: popularity, or the best one in the mean where popularity has no such
/// metric; `None` if no baseline has it.
pub(crate) fn reference<'a>(
    runs: impl IntoIterator<Item = &'a BTreeMap<String, SplitAccuracy>>,
    (split, metric): (&str, &str),
) -> Option<&'a str> {
    let mut sums: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for (name, accuracy) in runs.into_iter().flatten() {
        let accuracy = metrics::split(accuracy, split);
        if let Some(value) = accuracy.and_then(|of| of.get(metric)) {
            let (sum, count) = sums.entry(name).or_default();
            *sum += value;
            *count += 1.0;
        }
    }
    if let Some((name, _)) = sums.get_key_value(POPULARITY) {
        return Some(name);
    }
    let means = sums.into_iter().filter(|(name, _)| *name != RANDOM);
    means
        .map(|(name, (sum, count))| (name, sum / count))
        .reduce(
            |best, other| match metrics::better(metric).compare(other.1, best.1).is_gt() {
                true => other,
                false => best,
            },
        )
        .map(|(name, _)| name)
}

/// Returns a baseline as it stands in a sentence.
pub(crate) fn in_words(name: &str) -> &str {
    match name {
        "global-mean" => "the mean of all ratings",
        "user-mean" => "each user's mean rating",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn baselines(of: &[(&str, &str, f64)]) -> BTreeMap<String, SplitAccuracy> {
        let mut all: BTreeMap<String, SplitAccuracy> = BTreeMap::new();
        for (name, metric, value) in of {
            let accuracy = all.entry((*name).to_owned()).or_default();
            accuracy.test.insert((*metric).to_owned(), *value);
            let validation = accuracy.validation.get_or_insert_default();
            validation.insert((*metric).to_owned(), -*value);
        }
        all
    }

    /// If this fails, a method is called good that predicts worse than a mean, or is held against chance.
    #[test]
    fn errors_are_held_against_the_best_mean_and_rankings_against_popularity() {
        let errors = baselines(&[("global-mean", "rmse", 0.75), ("user-mean", "rmse", 0.81)]);
        assert_eq!(reference([&errors], ("test", "rmse")), Some("global-mean"));
        let of_validation = reference([&errors], ("validation", "rmse"));
        assert_eq!(of_validation, Some("user-mean"), "the other split decides");
        let other = baselines(&[("global-mean", "rmse", 1.25), ("user-mean", "rmse", 0.81)]);
        assert_eq!(
            reference([&errors, &other], ("test", "rmse")),
            Some("user-mean")
        );
        let hits = baselines(&[("popularity", "hr@10", 0.3), ("random", "hr@10", 0.4)]);
        assert_eq!(reference([&hits], ("test", "hr@10")), Some("popularity"));
        assert_eq!(reference([&hits], ("test", "rmse")), None);
    }
}
