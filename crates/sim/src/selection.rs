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
