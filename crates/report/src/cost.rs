//! What the accuracy of a run cost: when it first came near its goals.

use super::frame::Frame;
use super::record::RunRecord;
use super::rounds;
use fedrecsim_core::metric::Better;

/// An accuracy that a run may reach as a goal.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Milestone {
    /// The goal in words.
    pub goal: String,
    /// The first evaluated round that reached the goal, by its row in the table of rounds, and its
    /// headline metric on the test part; `None` where no round did.
    pub reached: Option<(usize, f64)>,
}

/// Shares of the selected round's accuracy that serve as goals.
const SHARES: [f64; 3] = [0.9, 0.95, 0.99];

/// Returns the goals by the headline metric on the test part: to be better than the best baseline,
/// to come near the selected round, and to be the selected round.
pub(crate) fn milestones(record: &RunRecord, rounds: &Frame) -> Vec<Milestone> {
    let Some(headline) = record.scenario.evaluation.headline() else {
        return Vec::new();
    };
    let (name, label, better) = (headline.name(), headline.label(), headline.better());
    let values = rounds.get(&format!("test_{name}"));
    let evaluated = || {
        (0..)
            .zip(values)
            .filter_map(|(row, value)| Some((row, (*value)?)))
    };
    let first =
        |is_reached: &dyn Fn(f64) -> bool| evaluated().find(|(_, value)| is_reached(*value));
    let mut milestones = Vec::new();
    let baselines = record
        .baselines
        .iter()
        .filter_map(|(of, split)| Some((of, *split.test.get(&name)?)));
    if let Some((best, value)) = baselines.max_by(|a, b| better.compare(a.1, b.1)) {
        let beyond = match better {
            Better::Higher => "above",
            Better::Lower => "below",
        };
        milestones.push(Milestone {
            goal: format!("first evaluated round with {label} {beyond} `{best}`"),
            reached: first(&|reached| better.compare(reached, value).is_gt()),
        });
    }
    let selected = record.accuracy.test.get(&name).copied();
    if let (Some(selected), true) = (selected, record.selected_round.is_some()) {
        for share in SHARES {
            let percent = (100.0 * share).round();
            let goal = match better {
                Better::Higher => format!("with {percent} % of the selected round's {label}"),
                Better::Lower => format!(
                    "with {label} at most {} % above the selected round's",
                    100.0 - percent
                ),
            };
            milestones.push(Milestone {
                goal: format!("first evaluated round {goal}"),
                reached: first(&|reached| better.reaches(reached, share, selected)),
            });
        }
        let row = rounds::selected(record, rounds);
        milestones.push(Milestone {
            goal: "selected round".to_owned(),
            reached: evaluated().find(|(place, _)| Some(*place) == row),
        });
    }
    milestones
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::column::Place;
    use crate::tests::records as sample;

    /// Returns the goals, each with the round that reached it.
    fn rounds_of(record: &RunRecord) -> Vec<(String, Option<u32>)> {
        let all = milestones(record, &rounds::frame(record, Place::Rounds));
        let round = |row: usize| record.per_round[row].round;
        all.into_iter()
            .map(|m| (m.goal, m.reached.map(|(row, _)| round(row))))
            .collect()
    }

    #[test]
    fn a_goal_is_reached_in_the_first_round_that_meets_it() {
        let mut record = sample::run(4);
        for (round, hr) in record.per_round.iter_mut().zip([0.1, 0.5, 0.45, 0.51]) {
            round
                .accuracy
                .as_mut()
                .unwrap()
                .test
                .insert("hr@10".into(), hr);
        }
        record.accuracy = record.per_round[3].accuracy.clone().unwrap();
        let rounds = |record: &RunRecord| -> Vec<Option<u32>> {
            rounds_of(record)
                .into_iter()
                .map(|(_, round)| round)
                .collect()
        };
        assert_eq!(
            rounds(&record),
            [Some(2), Some(2), Some(2), Some(4), Some(4)]
        );
        record
            .baselines
            .get_mut("popularity")
            .unwrap()
            .test
            .insert("hr@10".into(), 0.51);
        assert_eq!(
            rounds(&record),
            [None, Some(2), Some(2), Some(4), Some(4)],
            "equal to popularity is not above it"
        );
    }

    /// If this fails, a run that is judged by its error is reported to have reached its goal in its
    /// worst round.
    #[test]
    fn an_error_reaches_its_goals_from_above() {
        let record = sample::predicting([1.2, 1.0, 0.95, 0.9]);
        let told = rounds_of(&record);
        let expected = [
            ("first evaluated round with RMSE below `user-mean`", Some(2)),
            (
                "first evaluated round with RMSE at most 10 % above the selected round's",
                Some(3),
            ),
            (
                "first evaluated round with RMSE at most 5 % above the selected round's",
                Some(4),
            ),
            (
                "first evaluated round with RMSE at most 1 % above the selected round's",
                Some(4),
            ),
            ("selected round", Some(4)),
        ];
        assert_eq!(told, expected.map(|(goal, round)| (goal.to_owned(), round)));
    }

    #[test]
    fn a_run_without_a_finished_round_reached_nothing() {
        let told = rounds_of(&sample::nothing_finished());
        assert_eq!((told.len(), told[0].1), (1, None));
    }
}
