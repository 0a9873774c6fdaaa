//! The order and the spelling of metrics.

use std::collections::BTreeSet;

use super::frame::Frame;
use super::record::{Accuracy, RunRecord, SplitAccuracy};
use fedrecsim_core::metric::{Better, Metric};
use fedrecsim_scenario::EvaluationSpec;

/// The range of what may be anything.
pub(crate) const ANY: [f64; 2] = [f64::NEG_INFINITY, f64::INFINITY];

/// Returns the metrics that are shown where there is room for few: the one that the run is judged
/// by, and its companion if there is one, as NDCG@10 is for HR@10.
pub(crate) fn headlines(evaluation: &EvaluationSpec) -> Vec<Metric> {
    let headline = evaluation.headline();
    let companion = headline.and_then(|headline| headline.companion(&evaluation.metrics()));
    headline.into_iter().chain(companion).collect()
}

/// Returns the label of a metric, as `HR@10` for `hr@10`.
pub(crate) fn label(name: &str) -> String {
    Metric::named(name).map_or_else(|| name.to_uppercase(), |metric| metric.label())
}

/// Returns which of two values of a metric is better; of one that is not known, the higher one.
pub(crate) fn better(name: &str) -> Better {
    Metric::named(name).map_or(Better::Higher, |metric| metric.better())
}

/// Returns the lowest and the highest value of a metric; of one that is not known, it may be any.
pub(crate) fn range(name: &str) -> [f64; 2] {
    match Metric::named(name).map(|metric| metric.better()) {
        Some(Better::Higher) => [0.0, 1.0],
        Some(Better::Lower) => [0.0, f64::INFINITY],
        None => ANY,
    }
}

/// Returns names in reading order: the known figures as they are listed, then others, each sorted
/// by the cutoff as a number.
pub(crate) fn ordered<'a>(names: impl IntoIterator<Item = &'a String>) -> Vec<&'a str> {
    let distinct: BTreeSet<&str> = names.into_iter().map(String::as_str).collect();
    let mut names: Vec<&str> = distinct.into_iter().collect();
    names.sort_by_key(|&name| {
        let metric = Metric::named(name);
        (metric.is_none(), metric, name)
    });
    names
}

/// Returns the accuracy of a split; `None` if there is no such split.
pub(crate) fn split<'a>(accuracy: &'a SplitAccuracy, wanted: &str) -> Option<&'a Accuracy> {
    match wanted {
        "test" => Some(&accuracy.test),
        _ => accuracy.validation.as_ref(),
    }
}

/// Returns the split and the metric of a column such as `test_hr@10`; `None` for other columns.
pub(crate) fn of_column(name: &str) -> Option<(&'static str, &str)> {
    ["test", "validation"].into_iter().find_map(|split| {
        let metric = name.strip_prefix(split)?.strip_prefix('_')?;
        Some((split, metric))
    })
}

/// Returns the accuracy of a round by its row in the table of rounds.
pub(crate) fn accuracy_at(rounds: &Frame, row: usize) -> SplitAccuracy {
    let of = |wanted: &str| -> Accuracy {
        let value = |column| {
            let (_, metric) = of_column(column).filter(|(split, _)| *split == wanted)?;
            Some((metric.to_owned(), rounds.at(column, row)?))
        };
        rounds.names().filter_map(value).collect()
    };
    SplitAccuracy {
        validation: Some(of("validation")),
        test: of("test"),
    }
}

/// Returns the columns of every metric that any round or the run as a whole has, in reading order.
pub(crate) fn columns_of(record: &RunRecord) -> Vec<String> {
    let rounds = record.per_round.iter();
    let all = rounds.filter_map(|round| round.accuracy.as_ref());
    let all: Vec<&SplitAccuracy> = std::iter::once(&record.accuracy).chain(all).collect();
    let mut columns = Vec::new();
    for name in ["test", "validation"] {
        let splits = all.iter().filter_map(|accuracy| split(accuracy, name));
        let metrics = ordered(splits.flat_map(|metrics| metrics.keys()));
        columns.extend(metrics.into_iter().map(|metric| format!("{name}_{metric}")));
    }
    columns
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::tests::records as sample;

    #[test]
    fn cutoffs_are_ordered_as_numbers() {
        let names =
            ["auc", "mrr", "hr@20", "ndcg@10", "hr@5", "hr@100", "ndcg@5"].map(String::from);
        assert_eq!(
            ordered(&names),
            ["hr@5", "hr@20", "hr@100", "ndcg@5", "ndcg@10", "mrr", "auc"]
        );
    }

    #[test]
    fn a_metric_of_a_single_round_is_not_forgotten() {
        let mut record = sample::evaluated_every(2, 4);
        let columns = columns_of(&record);
        assert!(columns.iter().all(|column| column.starts_with("test_")));
        record.per_round[0].accuracy = Some(sample::run(1).accuracy);
        assert!(columns_of(&record).contains(&"validation_hr@10".to_owned()));
    }
}
