//! What the clients of a run spent, and what its accuracy cost.

use super::frame::Frame;
use super::record::{ByDirection, Energy, Flow, RunRecord, Work};
use super::rounds;
use fedrecsim_core::metric::Better;
use fedrecsim_scenario::scenario::DevicesSpec;

/// Returns whether a scenario with these devices states any energy.
pub(crate) fn states_energy(devices: &DevicesSpec) -> bool {
    devices
        .energy_nj_per_byte
        .or(devices.energy_nj_per_row_visit)
        .or(devices.energy_nj_per_multiply_add)
        .is_some()
}

/// Returns the energy that clients with these devices spent on `bytes` and `work`; `None` if the
/// scenario states none. A device spends energy on every byte that it sends and on every byte that
/// it receives. The wasted part is what was spent on updates that were not used, their downloads
/// and trainings included.
pub(crate) fn energy(
    devices: &DevicesSpec,
    bytes: &ByDirection<Flow>,
    work: Work,
) -> Option<Energy> {
    if !states_energy(devices) {
        return None;
    }
    let per_byte_j = devices.energy_nj_per_byte.unwrap_or(0.0) / 1e9;
    let per_visit_j = devices.energy_nj_per_row_visit.unwrap_or(0.0) / 1e9;
    let per_multiply_add_j = devices.energy_nj_per_multiply_add.unwrap_or(0.0) / 1e9;
    let training_j = |row_visits: u64, multiply_adds: u64| {
        row_visits as f64 * per_visit_j + multiply_adds as f64 * per_multiply_add_j
    };
    let handled = bytes.up.sent + (bytes.down.sent - bytes.down.unreceived);
    let useful = bytes.up.useful + bytes.down.useful;
    // Downloads that a round finds to be unused may have been sent in an earlier one.
    let unused = (handled - useful.min(handled)) + work.unused_download_bytes;
    Some(Energy {
        transfer_j: handled as f64 * per_byte_j,
        training_j: training_j(
            work.finished + work.lost,
            work.finished_multiply_adds + work.lost_multiply_adds,
        ),
        wasted_j: unused as f64 * per_byte_j
            + training_j(
                work.lost + work.unused,
                work.lost_multiply_adds + work.unused_multiply_adds,
            ),
    })
}

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
    if let (Some(selected), Some(round)) = (selected, record.selected_round) {
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
        let row = rounds.find(rounds::ROUND, round.into());
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
    use crate::report::column::Place;
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
    fn energy_is_bytes_and_row_visits_times_their_price_and_absent_without_one() {
        let mut record = sample::run(1);
        assert_eq!(
            energy(&record.scenario.devices, &record.bytes, record.work),
            None
        );
        record.scenario.devices.energy_nj_per_byte = Some(5.0);
        let flow = |sent, useful| Flow {
            sent,
            useful,
            ..Flow::default()
        };
        let bytes = ByDirection {
            up: flow(1_000_000_000, 900_000_000),
            down: flow(3_000_000_000, 3_000_000_000),
        };
        let work = Work {
            finished: 2_000_000_000,
            lost: 500_000_000,
            ..Work::default()
        };
        let spent = energy(&record.scenario.devices, &bytes, work).unwrap();
        assert_eq!(
            (spent.transfer_j, spent.training_j, spent.wasted_j),
            (20.0, 0.0, 0.5)
        );
        let down = Flow {
            sent: 3_500_000_000,
            lost: 500_000_000,
            unreceived: 500_000_000,
            ..bytes.down
        };
        let swallowed = energy(
            &record.scenario.devices,
            &ByDirection { down, ..bytes },
            work,
        )
        .unwrap();
        assert_eq!(
            swallowed, spent,
            "what no device receives costs no device anything"
        );
        record.scenario.devices.energy_nj_per_row_visit = Some(2.0);
        let spent = energy(&record.scenario.devices, &bytes, work).unwrap();
        assert_eq!((spent.total_j(), spent.wasted_j), (25.0, 1.5));
        let work = Work {
            unused: 1_000_000_000,
            unused_download_bytes: 600_000_000,
            ..work
        };
        let spent = energy(&record.scenario.devices, &bytes, work).unwrap();
        assert_eq!(
            (spent.total_j(), spent.wasted_j),
            (25.0, 6.5),
            "downloads and trainings for updates not used"
        );
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
