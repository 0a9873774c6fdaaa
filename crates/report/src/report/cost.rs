//! Sums up what a run had cost by the end of each round, in bytes and virtual time.

use super::record::{ByDirection, Energy, Flow, RunRecord, Work};
use fedrecsim_core::metric::Better;
use fedrecsim_scenario::scenario::DevicesSpec;

/// Everything that was spent up to the end of a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cost {
    /// The round, from 1.
    pub round: u32,
    /// Bytes sent by clients so far.
    pub up_bytes: u64,
    /// Bytes sent by the server so far.
    pub down_bytes: u64,
    /// Virtual time at the end of the round.
    pub virtual_time_s: f64,
}

impl Cost {
    /// Returns the bytes sent so far in both directions together.
    pub(crate) fn bytes(&self) -> u64 {
        self.up_bytes + self.down_bytes
    }
}

/// Returns the cost at the end of every finished round, in order.
pub(crate) fn by_round(record: &RunRecord) -> Vec<Cost> {
    let (mut up_bytes, mut down_bytes) = (0, 0);
    let mut costs = Vec::with_capacity(record.per_round.len());
    for round in &record.per_round {
        up_bytes += round.bytes.up.sent;
        down_bytes += round.bytes.down.sent;
        costs.push(Cost {
            round: round.round,
            up_bytes,
            down_bytes,
            virtual_time_s: round.virtual_time_s,
        });
    }
    costs
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
    devices
        .energy_nj_per_byte
        .or(devices.energy_nj_per_row_visit)
        .or(devices.energy_nj_per_multiply_add)?;
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

/// An accuracy that a run may reach as a goal, the test accuracy where it did, and what it had
/// cost.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Milestone {
    /// The goal in words.
    pub goal: String,
    /// The headline figure on the test part after the first evaluated round that reached the goal,
    /// and the cost at its end; `None` where no round did.
    pub reached: Option<(f64, Cost)>,
}

/// Shares of the selected round's figure that serve as goals.
const SHARES: [f64; 3] = [0.9, 0.95, 0.99];

/// Returns what the accuracy cost by the headline figure on the test part: the first evaluated
/// round that is better than the best baseline, the first rounds that come near the selected one,
/// and the selected round.
pub(crate) fn milestones(record: &RunRecord) -> Vec<Milestone> {
    let Some(headline) = record.scenario.evaluation.headline() else {
        return Vec::new();
    };
    let (name, label, direction) = (headline.name(), headline.label(), headline.better());
    let evaluated: Vec<(f64, Cost)> = record
        .per_round
        .iter()
        .zip(by_round(record))
        .filter_map(|(round, cost)| Some((*round.accuracy.as_ref()?.test.get(&name)?, cost)))
        .collect();
    let first = |reached: &dyn Fn(f64) -> bool| {
        evaluated
            .iter()
            .find(|(figure, _)| reached(*figure))
            .copied()
    };
    let mut milestones = Vec::new();
    let baselines = record
        .baselines
        .iter()
        .filter_map(|(of, split)| Some((of, *split.test.get(&name)?)));
    if let Some((best, figure)) = baselines.max_by(|a, b| direction.compare(a.1, b.1)) {
        let beyond = match direction {
            Better::Higher => "above",
            Better::Lower => "below",
        };
        milestones.push(Milestone {
            goal: format!("first evaluated round with {label} {beyond} `{best}`"),
            reached: first(&|reached| direction.compare(reached, figure).is_gt()),
        });
    }
    if let (Some(&selected), Some(round)) = (record.accuracy.test.get(&name), record.selected_round)
    {
        for share in SHARES {
            let percent = (100.0 * share).round();
            let goal = match direction {
                Better::Higher => {
                    format!(
                        "first evaluated round with {percent} % of the selected round's {label}"
                    )
                }
                Better::Lower => format!(
                    "first evaluated round with {label} at most {} % above the selected round's",
                    100.0 - percent
                ),
            };
            milestones.push(Milestone {
                goal,
                reached: first(&|reached| direction.reaches(reached, share, selected)),
            });
        }
        milestones.push(Milestone {
            goal: "selected round".to_owned(),
            reached: evaluated
                .iter()
                .find(|(_, cost)| cost.round == round)
                .copied(),
        });
    }
    milestones
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::report::sample;

    #[test]
    fn costs_add_up_to_the_totals_of_a_finished_run() {
        let record = sample::run(5);
        let costs = by_round(&record);
        assert_eq!(costs.len(), 5);
        assert_eq!(costs[4].up_bytes, record.bytes.up.sent);
        assert_eq!(
            costs[4].bytes(),
            record.bytes.up.sent + record.bytes.down.sent
        );
        assert_eq!(costs[0].down_bytes * 2, costs[1].down_bytes);
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
            milestones(record)
                .iter()
                .map(|m| m.reached.map(|(_, cost)| cost.round))
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
        let told: Vec<(String, Option<u32>)> = milestones(&record)
            .into_iter()
            .map(|m| (m.goal, m.reached.map(|(_, cost)| cost.round)))
            .collect();
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
        let milestones = milestones(&sample::nothing_finished());
        assert_eq!(milestones.len(), 1);
        assert_eq!(milestones[0].reached, None);
    }
}
