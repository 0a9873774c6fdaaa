//! When a run came near the best accuracy: the first evaluated round that has 90, 95 and 99 % of it.

use crate::metrics::better;
use crate::read::SavedReport;

/// The shares of the best value that serve as goals, in percent.
pub(crate) const PERCENTS: [u32; 3] = [90, 95, 99];

/// Whose best value is the goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    /// The goal is the best value of the run itself.
    Own,
    /// The goal is the best value of the run with the same seed of the arm that this one is
    /// compared to.
    Compared,
}

/// Returns the values of a metric on the test part, after every round.
fn values<'r>(report: &'r SavedReport, metric: &str) -> &'r [Option<f64>] {
    report.rounds.get(&format!("test_{metric}"))
}

/// Returns the best value that a run had of a metric after any round; `None` if it was never
/// measured.
pub(crate) fn best(report: &SavedReport, metric: &str) -> Option<f64> {
    let values = values(report, metric).iter().flatten().copied();
    values.max_by(|one, other| better(metric).compare(*one, *other))
}

/// Returns the first round, by its row, with this many percent of `best` of a metric; `None` if there
/// was no such round. Of an error, which is better if it is lower, 90 % are reached at 10 % above
/// the best.
pub(crate) fn reach(report: &SavedReport, metric: &str, best: f64, percent: u32) -> Option<usize> {
    let share = f64::from(percent) / 100.0;
    let is_reached =
        |value: &Option<f64>| value.is_some_and(|value| better(metric).reaches(value, share, best));
    values(report, metric).iter().position(is_reached)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::results as sample;

    /// If this fails, an arm is said to be cheap by a round that did not reach the goal.
    #[test]
    fn a_goal_is_reached_in_the_first_round_that_has_its_share() {
        let report = sample::report_of(1, "hr@10", &[0.1, 0.5, 0.45, 0.56, 0.55]);
        assert_eq!(best(&report, "hr@10"), Some(0.56));
        let row = |best, percent| reach(&report, "hr@10", best, percent);
        assert_eq!(
            PERCENTS.map(|percent| row(0.56, percent)),
            [Some(3), Some(3), Some(3)]
        );
        assert_eq!(
            [row(0.5, 90), row(0.1, 90), row(0.7, 90)],
            [Some(1), Some(0), None]
        );
        assert_eq!(best(&report, "mrr"), None);
    }

    /// If this fails, an error is said to have reached its goal in its worst round.
    #[test]
    fn an_error_reaches_its_goal_from_above() {
        let report = sample::report_of(1, "rmse", &[1.2, 1.0, 0.95, 0.9]);
        assert_eq!(best(&report, "rmse"), Some(0.9));
        let rows = PERCENTS.map(|percent| reach(&report, "rmse", 0.9, percent));
        assert_eq!(rows, [Some(2), Some(3), Some(3)]);
    }
}
