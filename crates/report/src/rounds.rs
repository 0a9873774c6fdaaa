//! The rows of rounds: `rounds.csv`, `network.csv`, and the table of rounds on a page. `columns.csv`
//! lists their columns.
//!
//! A cell is empty where the round has no such figure: it was not evaluated, nothing was averaged,
//! or no time has passed. It is never `NaN`.

use ciborium::Value as Tree;
use serde::Serialize;

use super::check;
use super::column::{self, Column, Place};
use super::frame::Frame;
use super::load::NetworkSummary;
use super::metrics;
use super::record::{ByDirection, Energy, RoundRecord, RunRecord, SPARSITY_THRESHOLDS, grams};
use super::words::threshold;
use fedrecsim_core::Result;
use fedrecsim_sim::outcome::Waits;

/// What columns of a round are read from: its record, and what is worked out from it and from the
/// rounds before it.
#[derive(Serialize)]
struct Row<'a> {
    #[serde(flatten)]
    record: &'a RoundRecord,
    /// Bytes sent by clients and by the server from the first round on.
    sent: ByDirection<u64>,
    /// Participations lost to each fault rule.
    faults: Vec<u64>,
    energy_j: Option<f64>,
    co2_g: f64,
    load: Option<NetworkSummary>,
    began_s: f64,
    ended_s: f64,
    /// Of no waits at all, the sum is 0, and there is neither a quantile nor a maximum.
    waits: Option<Waits>,
}

/// What not every run has, and what there are columns of in a run that has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Has {
    /// The columns of accuracy, such as `test_hr@10`.
    pub metrics: Vec<String>,
    /// The number of fault rules.
    pub fault_rules: usize,
    /// After how many ratings newcomers are scored.
    pub newcomer_ratings: Vec<u32>,
    /// Other things, as `columns.csv` names them.
    pub others: Vec<&'static str>,
}

impl Has {
    pub(crate) fn of(record: &RunRecord) -> Self {
        let any = |has: fn(&RoundRecord) -> bool| record.per_round.iter().any(has);
        let others = [
            ("energy", record.energy.is_some()),
            ("carbon", record.carbon.is_some()),
            ("newcomers", record.newcomers.is_some()),
            ("sparsity", any(|round| round.sparsity.is_some())),
            ("third party", record.third_party_bytes.is_some()),
            (
                "epsilon",
                any(|round| round.privacy.and_then(|privacy| privacy.epsilon).is_some()),
            ),
        ];
        let there = others.into_iter().filter(|(_, is_there)| *is_there);
        Self {
            metrics: metrics::columns_of(record),
            fault_rules: record.scenario.faults.len(),
            newcomer_ratings: Vec::new(),
            others: there.map(|(name, _)| name).collect(),
        }
    }

    /// Returns what a run with everything would have.
    pub(crate) fn all() -> Self {
        Self {
            metrics: ["test_hr@10", "validation_hr@10"].map(String::from).into(),
            fault_rules: 1,
            newcomer_ratings: vec![3],
            others: vec![
                "lists",
                "energy",
                "server energy",
                "carbon",
                "newcomers",
                "sparsity",
                "third party",
                "epsilon",
                "published sparsity",
            ],
        }
    }

    /// Returns what a table that was read has, as far as a page shows it.
    pub(crate) fn of_frame(frame: &Frame) -> Self {
        let is_metric = |name: &&str| metrics::of_column(name).is_some();
        Self {
            metrics: frame.names().filter(is_metric).map(str::to_owned).collect(),
            ..Self::default()
        }
    }
}

/// The column with the round's number, from 1.
pub(crate) const ROUND: &str = "round";
/// The column with the virtual time at the end of the round.
pub(crate) const TIME: &str = "virtual_time_s";
/// The columns with the bytes sent by clients and by the server since the run began.
pub(crate) const UP: &str = "cumulative_up_sent_bytes";
pub(crate) const DOWN: &str = "cumulative_down_sent_bytes";

/// Returns the listed columns of a run that has this.
pub(crate) fn columns(has: &Has, place: Place) -> Vec<Column<'static, Tree>> {
    let mut all = Vec::new();
    for line in column::listed(place) {
        let needed = line.needed.as_str();
        if line.name.contains("{rule}") {
            let rules = (0..has.fault_rules).map(|rule| rule.to_string());
            all.extend(rules.map(|rule| line.column(&[("rule", &rule)])));
        } else if line.name.contains("{ratings}") {
            let numbers = has.newcomer_ratings.iter().map(u32::to_string);
            all.extend(numbers.map(|number| line.column(&[("ratings", &number)])));
        } else if line.name.contains('{') {
            let column = |name: &String| {
                let (split, metric) = metrics::of_column(name)?;
                let is_of_test = split == "test" && has.others.contains(&needed);
                let is_wanted = needed.is_empty() || needed == split || is_of_test;
                is_wanted.then_some(())?;
                let label = metrics::label(metric);
                let (metric, label) = (("name", metric), ("label", &*label));
                Some(line.column(&[("metric", name), ("split", split), metric, label]))
            };
            all.extend(has.metrics.iter().filter_map(column));
        } else if needed.is_empty() || has.others.contains(&needed) {
            all.push(line.column(&[]));
        }
    }
    all
}

/// Returns the column with the share of the shared table's values above a threshold, in the
/// `uploads` or as `averaged`.
pub(crate) fn share_column(above: f32, place: &str) -> String {
    format!("c_above_{}_{place}", threshold(above))
}

/// Returns whether `name` is that of a column of how sparse the averaged table is, such as
/// `c_above_1e-2_averaged`.
pub(crate) fn is_sparsity(name: &str) -> bool {
    let names = SPARSITY_THRESHOLDS.map(|above| share_column(above, "averaged"));
    names.iter().any(|averaged| averaged == name)
}

/// Returns the row of the round that a run is judged by.
pub(crate) fn selected<S>(record: &RunRecord<S>, rounds: &Frame) -> Option<usize> {
    rounds.find(ROUND, record.selected_round?.into())
}

/// Returns the rows of a run's rounds.
pub(crate) fn rows(record: &RunRecord) -> impl Iterator<Item = Tree> {
    let mut sent = ByDirection::<u64>::default();
    record.per_round.iter().map(move |round| {
        sent.up += round.bytes.up.sent;
        sent.down += round.bytes.down.sent;
        let energy = Energy::of(
            &record.scenario.devices,
            &round.bytes,
            (round.work, round.metered),
        );
        let (network, rules) = (&round.network, 0..record.scenario.faults.len());
        tree(&Row {
            record: round,
            sent,
            faults: rules.map(|rule| round.losses.by_fault(rule)).collect(),
            energy_j: energy.map(|energy| energy.total_j()),
            co2_g: grams(round.metered.co2_ng + round.server_co2_ng),
            load: NetworkSummary::of(network, &record.scenario.network),
            began_s: network.began.as_secs_f64(),
            ended_s: network.ended.as_secs_f64(),
            waits: Some(network.waits).filter(|waits| waits.count > 0),
        })
    })
}

/// Returns a row as a tree; columns are paths into it.
pub(super) fn tree(row: &impl Serialize) -> Tree {
    // It cannot fail: rows consist of numbers and names, and `check` serialises the same records.
    Tree::serialized(row).unwrap_or(Tree::Null)
}

/// Returns `rounds.csv` or `network.csv`.
///
/// # Errors
/// Those of [`check::check`].
pub(crate) fn csv(record: &RunRecord, place: Place) -> Result<String> {
    check::check(record)?;
    let columns = columns(&Has::of(record), place);
    Ok(column::csv(&columns, rows(record)))
}

/// Returns the columns of the table of rounds, or of the server's link, as numbers.
pub(crate) fn frame(record: &RunRecord, place: Place) -> Frame {
    let columns = columns(&Has::of(record), place);
    Frame::of(&columns, rows(record))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::tests::records as sample;
    use fedrecsim_core::Error;
    use fedrecsim_scenario::FaultSpec;
    use fedrecsim_sim::outcome::{Joined, Losses, NewcomersRecord, Waits};

    fn csv_of(record: &RunRecord) -> Result<String> {
        csv(record, Place::Rounds)
    }

    fn parsed(text: &str) -> (Vec<String>, Vec<Vec<String>>) {
        // The reader itself refuses rows of unequal length.
        let mut reader = ::csv::Reader::from_reader(text.as_bytes());
        let names = reader.headers().unwrap().iter().map(String::from).collect();
        let rows = reader
            .records()
            .map(|row| row.unwrap().iter().map(String::from).collect())
            .collect();
        (names, rows)
    }

    #[test]
    fn the_table_of_rounds_reads_like_this() {
        insta::assert_snapshot!(csv_of(&sample::run(3)).unwrap());
    }

    /// If this fails, a column has a path that leads nowhere.
    #[test]
    fn every_listed_column_of_a_round_has_a_number_in_some_run() {
        let mut record = sample::over_selected(2);
        record.scenario.network.server.downlink_mbit_per_s = Some(1000.0);
        record.scenario.network.server.uplink_mbit_per_s = Some(1000.0);
        record.scenario.faults = vec![FaultSpec::default()];
        record.third_party_bytes = Some(ByDirection::default());
        for round in &mut record.per_round {
            round.third_party_bytes = Some(ByDirection::default());
            let test = round.accuracy.clone().unwrap_or_default().test;
            round.newcomers = Some(NewcomersRecord {
                joined: Some(Joined {
                    test,
                    ..Joined::default()
                }),
                ..NewcomersRecord::default()
            });
        }
        let places = [Place::Rounds, Place::Network];
        let columns: Vec<_> = places
            .map(|place| columns(&Has::all(), place))
            .into_iter()
            .flatten()
            .collect();
        let rows: Vec<Tree> = rows(&record).collect();
        for column in columns.iter().filter(|column| column.name != "epsilon") {
            let has_number = rows.iter().any(|row| column.of(row).number().is_some());
            assert!(has_number, "{}", column.name);
        }
    }

    #[test]
    fn rounds_without_evaluation_have_empty_cells_in_the_same_columns() {
        let mut record = sample::evaluated_every(2, 4);
        record.per_round[2].loss = None;
        record.per_round[2].sparsity = None;
        let (names, rows) = parsed(&csv_of(&record).unwrap());
        let column = |name: &str| {
            names
                .iter()
                .position(|n| n == name)
                .unwrap_or_else(|| panic!("no column {name}"))
        };
        let cells = |name: &str| -> Vec<bool> {
            rows.iter()
                .map(|row| !row[column(name)].is_empty())
                .collect()
        };
        assert_eq!(cells("test_hr@10"), [false, true, false, true]);
        assert_eq!(cells("loss"), [true, true, false, true]);
        assert_eq!(cells("c_above_1e-4_averaged"), [true, true, false, true]);
        assert!(!names.iter().any(|name| name.starts_with("validation_")));
    }

    #[test]
    fn energy_has_a_column_where_the_scenario_states_it() {
        let (names, rows) = parsed(&csv_of(&sample::over_selected(2)).unwrap());
        let column = names.iter().position(|name| name == "energy_j").unwrap();
        let sum: f64 = rows
            .iter()
            .map(|row| row[column].parse::<f64>().unwrap())
            .sum();
        let total = sample::over_selected(2).energy.unwrap().total_j();
        assert!((sum - total).abs() < 1e-9 * total, "{sum} {total}");
        assert!(
            !parsed(&csv_of(&sample::run(2)).unwrap())
                .0
                .contains(&"energy_j".to_owned())
        );
    }

    /// If this fails, a loss is in the column of another rule, or a rule without a loss has no
    /// column.
    #[test]
    fn every_fault_rule_has_a_column_and_the_causes_add_up() {
        let mut record = sample::run(2);
        record.scenario.faults = vec![FaultSpec::default(); 3];
        for round in &mut record.per_round {
            round.losses = Losses {
                dropouts: 40,
                departures: 2,
                faults: vec![0, 5],
            };
        }
        let (names, rows) = parsed(&csv_of(&record).unwrap());
        let cell = |name: &str| {
            rows[1][names.iter().position(|n| n == name).unwrap()]
                .parse::<u64>()
                .unwrap()
        };
        let causes = [
            "lost_dropout",
            "lost_departure",
            "lost_fault_0",
            "lost_fault_1",
            "lost_fault_2",
        ]
        .map(cell);
        assert_eq!((causes, cell("lost")), ([40, 2, 0, 5, 0], 47));
    }

    #[test]
    fn cumulative_bytes_end_at_the_totals() {
        let record = sample::run(3);
        let (names, rows) = parsed(&csv_of(&record).unwrap());
        let column = names
            .iter()
            .position(|name| name == "cumulative_down_sent_bytes")
            .unwrap();
        assert_eq!(rows[2][column], record.bytes.down.sent.to_string());
    }

    #[test]
    fn a_run_without_a_finished_round_leaves_a_header() {
        let (names, rows) = parsed(&csv_of(&sample::nothing_finished()).unwrap());
        assert_eq!(names[0], "round");
        assert!(rows.is_empty());
    }

    #[test]
    fn nan_is_refused() {
        let mut record = sample::run(2);
        record.per_round[0].sparsity.as_mut().unwrap().uploads[3] = f64::NAN;
        assert!(matches!(csv_of(&record), Err(Error::NonFinite { .. })));
    }

    #[test]
    fn the_table_of_the_network_reads_like_this() {
        let mut record = sample::run(2);
        record.scenario.network.server.downlink_mbit_per_s = Some(1000.0);
        record.per_round[1].network.waits = Waits::default();
        insta::assert_snapshot!(csv(&record, Place::Network).unwrap());
    }
}
