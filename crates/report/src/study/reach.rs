//! What it took a run to come near the best accuracy: bytes and virtual time until the first
//! evaluated round that has 90, 95 and 99 % of it.

use super::quantities::direction;
use crate::report::read::{SavedReport, SavedRound};

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

/// What a run had spent at the end of a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spent {
    /// The round, from 1.
    pub round: u32,
    /// Bytes sent by clients.
    pub up_bytes: f64,
    /// Bytes sent in both directions.
    pub bytes: f64,
    /// Virtual time.
    pub virtual_time_s: f64,
}

impl Spent {
    fn of(round: &SavedRound) -> Self {
        Self {
            round: round.round,
            up_bytes: round.up_bytes as f64,
            bytes: round.up_bytes as f64 + round.down_bytes as f64,
            virtual_time_s: round.virtual_time_s,
        }
    }
}

/// Returns the best value that a run had of `figure` after any round; `None` if it was never
/// measured.
pub(crate) fn best(report: &SavedReport, figure: &str) -> Option<f64> {
    let values = report
        .rounds
        .iter()
        .filter_map(|round| round.test.get(figure).copied());
    values.max_by(|one, other| direction(figure).compare(*one, *other))
}

/// Returns what a run had spent after the first evaluated round with so many percent of `best` of
/// `figure`; `None` if there was no such round. Of an error, which is better if it is lower, 90 %
/// are reached at 10 % above the best.
pub(crate) fn reach(report: &SavedReport, figure: &str, best: f64, percent: u32) -> Option<Spent> {
    let share = f64::from(percent) / 100.0;
    let reached = |round: &&SavedRound| {
        round
            .test
            .get(figure)
            .is_some_and(|value| direction(figure).reaches(*value, share, best))
    };
    report.rounds.iter().find(reached).map(Spent::of)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::study::sample;

    /// If this fails, an arm is said to be cheap by a round that did not reach the goal.
    #[test]
    fn a_goal_is_reached_in_the_first_round_that_has_its_share() {
        let report = sample::report_of(1, "hr@10", &[0.1, 0.5, 0.45, 0.56, 0.55]);
        assert_eq!(best(&report, "hr@10"), Some(0.56));
        let round = |best, percent| reach(&report, "hr@10", best, percent).map(|spent| spent.round);
        assert_eq!(
            PERCENTS.map(|percent| round(0.56, percent)),
            [Some(4), Some(4), Some(4)]
        );
        assert_eq!(
            [round(0.5, 90), round(0.1, 90), round(0.7, 90)],
            [Some(2), Some(1), None]
        );
        let spent = reach(&report, "hr@10", 0.5, 90).unwrap();
        let second = &report.rounds[1];
        assert_eq!(spent.up_bytes, second.up_bytes as f64);
        assert_eq!(spent.bytes, (second.up_bytes + second.down_bytes) as f64);
        assert_eq!(spent.virtual_time_s, second.virtual_time_s);
        assert_eq!(best(&report, "mrr"), None);
    }

    /// If this fails, an error is said to have reached its goal in its worst round.
    #[test]
    fn an_error_reaches_its_goal_from_above() {
        let report = sample::report_of(1, "rmse", &[1.2, 1.0, 0.95, 0.9]);
        assert_eq!(best(&report, "rmse"), Some(0.9));
        let rounds = PERCENTS.map(|percent| reach(&report, "rmse", 0.9, percent).unwrap().round);
        assert_eq!(rounds, [3, 4, 4]);
    }
}
