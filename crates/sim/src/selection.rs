//! Selects the round that a run is judged by.

use super::outcome::RoundRecord;
use fedrecsim_scenario::{EvaluationSpec, Selection};

/// Returns the position of the selected round: the last evaluated one, or the best by the headline
/// figure. Of equals it takes the last, as PFedRec's code does.
pub(super) fn select(rounds: &[RoundRecord], evaluation: &EvaluationSpec) -> Option<usize> {
    let headline = evaluation.headline()?;
    let name = headline.name();
    let figure = |round: &RoundRecord| {
        let accuracy = round.accuracy.as_ref()?;
        let figures = match evaluation.selection {
            Selection::Last | Selection::BestTest => &accuracy.test,
            Selection::BestValidation => accuracy.validation.as_ref()?,
        };
        figures.get(&name).copied()
    };
    let mut evaluated = rounds
        .iter()
        .enumerate()
        .filter_map(|(position, round)| Some((position, figure(round)?)));
    match evaluation.selection {
        Selection::Last => evaluated.next_back().map(|(position, _)| position),
        // `max_by` returns the last of equals.
        Selection::BestValidation | Selection::BestTest => evaluated
            .max_by(|a, b| headline.better().compare(a.1, b.1))
            .map(|(position, _)| position),
    }
}

/// Returns whether the headline on the validation items has not become better for so many
/// evaluations that the run ends (`evaluation.patience`).
pub(super) fn is_settled(rounds: &[RoundRecord], evaluation: &EvaluationSpec) -> bool {
    is_settled_after(0, rounds, evaluation)
}

/// Returns whether the run ends if the headline does not become better in the next evaluation.
pub(super) fn may_be_settled_next(rounds: &[RoundRecord], evaluation: &EvaluationSpec) -> bool {
    is_settled_after(1, rounds, evaluation)
}

/// Returns whether the run ends after so many `more` evaluations without a better headline.
fn is_settled_after(more: u32, rounds: &[RoundRecord], evaluation: &EvaluationSpec) -> bool {
    let (Some(patience), Some(headline)) = (evaluation.patience, evaluation.headline()) else {
        return false;
    };
    let (name, better) = (headline.name(), headline.better());
    let mut best: Option<f64> = None;
    let mut since = 0;
    for round in rounds {
        let validation = round
            .accuracy
            .as_ref()
            .and_then(|of| of.validation.as_ref());
        let Some(&value) = validation.and_then(|validation| validation.get(&name)) else {
            continue;
        };
        if best.is_none_or(|best| better.compare(value, best).is_gt()) {
            (best, since) = (Some(value), 0);
        } else {
            since += 1;
        }
    }
    since + more >= patience
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::outcome::SplitAccuracy;

    fn round(name: &str, test: f64, validation: Option<f64>) -> RoundRecord {
        let figures = |figure: f64| BTreeMap::from([(name.to_owned(), figure)]);
        let accuracy = SplitAccuracy {
            validation: validation.map(figures),
            test: figures(test),
        };
        RoundRecord {
            accuracy: Some(accuracy),
            ..RoundRecord::default()
        }
    }

    fn judged_by(selection: Selection) -> EvaluationSpec {
        EvaluationSpec {
            selection,
            ..EvaluationSpec::default()
        }
    }

    /// If this fails, a run ends while it still becomes better, or goes on for nothing.
    #[test]
    fn a_run_is_settled_when_its_patience_is_over() {
        let rounds: Vec<RoundRecord> = [0.1, 0.3, 0.3, 0.2]
            .map(|validation| round("hr@10", 0.0, Some(validation)))
            .into();
        let with = |patience| EvaluationSpec {
            patience,
            ..EvaluationSpec::default()
        };
        assert!(is_settled(&rounds, &with(Some(2))) && !is_settled(&rounds, &with(Some(3))));
        let may_be_next = |patience| may_be_settled_next(&rounds, &with(Some(patience)));
        assert!(may_be_next(3) && !may_be_next(4));
        assert!(!is_settled(&rounds[..3], &with(Some(2))) && !is_settled(&rounds, &with(None)));
    }

    #[test]
    fn selection_takes_the_last_of_equals_and_skips_rounds_without_accuracy() {
        let hr = |test, validation| round("hr@10", test, Some(validation));
        let rounds = [
            hr(0.9, 0.1),
            hr(0.2, 0.5),
            hr(0.3, 0.5),
            RoundRecord::default(),
        ];
        assert_eq!(select(&rounds, &judged_by(Selection::Last)), Some(2));
        assert_eq!(select(&rounds, &judged_by(Selection::BestTest)), Some(0));
        assert_eq!(
            select(&rounds, &judged_by(Selection::BestValidation)),
            Some(2)
        );
        assert_eq!(select(&rounds[3..], &judged_by(Selection::Last)), None);
    }

    /// If this fails, a run that is judged by its error is judged by its worst round.
    #[test]
    fn the_best_error_is_the_smallest() {
        let rounds = [0.99, 0.94, 0.94, 0.97].map(|rmse| round("rmse", rmse, None));
        let evaluation = EvaluationSpec {
            metrics: vec!["rmse".to_owned()],
            headline: "rmse".to_owned(),
            ..judged_by(Selection::BestTest)
        };
        assert_eq!(select(&rounds, &evaluation), Some(2));
        let unnamed = EvaluationSpec {
            headline: String::new(),
            ..evaluation
        };
        assert_eq!(
            select(&rounds, &unnamed),
            Some(2),
            "the first figure is the headline where none is named"
        );
    }
}
