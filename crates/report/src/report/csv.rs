//! Writes `rounds.csv`, which has one flat row per finished round and the units in the column
//! names.

use super::cell::Cell;
use super::record::{Flow, RoundRecord, RunRecord, SPARSITY_THRESHOLDS};
use super::{check, cost, figures};
use fedrecsim_core::error::{Error, Result};

/// Returns the rounds as CSV text with a header line.
///
/// A cell is empty where the round has no such figure (it was not evaluated, nothing was averaged),
/// never `NaN`. `up_*` is what clients send, `down_*` what they receive; `cumulative_*` runs from
/// the first round. Columns for a figure that no round has are left out. `lost_dropout`,
/// `lost_departure` and `lost_fault_N` for each fault rule add up to `dropped`; `stale` is a part
/// of `late`.
///
/// # Errors
/// The same as those of [`check::check`].
pub(crate) fn render(record: &RunRecord) -> Result<String> {
    check::check(record)?;
    let failed = |error: csv::Error| Error::write("rounds.csv", error.into());
    let mut writer = csv::Writer::from_writer(Vec::new());
    let (names, rows) = table(record);
    writer.write_record(names).map_err(failed)?;
    for cells in rows {
        writer
            .write_record(cells.iter().map(Cell::to_string))
            .map_err(failed)?;
    }
    finished("rounds.csv", writer)
}

/// Returns the names of the columns, and the cells of every round.
pub(super) fn table(record: &RunRecord) -> (Vec<String>, Vec<Vec<Cell>>) {
    let accuracy = figures::of_all_rounds(record);
    let sparsity = record
        .per_round
        .iter()
        .any(|round| round.sparsity.is_some());
    let energy = |round: &RoundRecord| {
        Some(cost::energy(&record.scenario.devices, &round.bytes, round.work)?.total_j())
    };
    let third_party = record.third_party_bytes.is_some();
    let rules = record.scenario.faults.len();
    let epsilon = |round: &RoundRecord| round.privacy.and_then(|privacy| privacy.epsilon);
    let claims_epsilon = record
        .per_round
        .iter()
        .any(|round| epsilon(round).is_some());
    let mut names = header(
        rules,
        &accuracy,
        energy(&RoundRecord::default()).is_some(),
        sparsity,
    );
    if third_party {
        names
            .extend(["third_party_up_sent_bytes", "third_party_down_sent_bytes"].map(String::from));
    }
    names.extend(claims_epsilon.then(|| "epsilon".to_owned()));
    let rows = record
        .per_round
        .iter()
        .zip(cost::by_round(record))
        .map(|(round, cost)| {
            let mut cells = row(round, &cost, rules, &accuracy, energy(round), sparsity);
            if third_party {
                let bytes = round.third_party_bytes.unwrap_or_default();
                cells.extend([bytes.up.sent, bytes.down.sent].map(Cell::count));
            }
            if claims_epsilon {
                cells.push(Cell::Number(epsilon(round)));
            }
            cells
        });
    let rows = rows.collect();
    (names, rows)
}

/// Returns the text that `writer` has written to the file `name`.
///
/// # Errors
/// [`Error::Write`] with the name.
pub(super) fn finished(name: &str, writer: csv::Writer<Vec<u8>>) -> Result<String> {
    let bytes = writer
        .into_inner()
        .map_err(|error| Error::write(name, std::io::Error::other(error)))?;
    String::from_utf8(bytes).map_err(|error| Error::write(name, std::io::Error::other(error)))
}

fn header(rules: usize, accuracy: &[(&str, &str)], energy: bool, sparsity: bool) -> Vec<String> {
    let mut names: Vec<String> = [
        "round",
        "virtual_time_s",
        "duration_s",
        "invited",
        "aggregated",
        "dropped",
        "cancelled",
        "late",
        "stale",
    ]
    .map(String::from)
    .into();
    names.extend(["lost_dropout", "lost_departure"].map(String::from));
    names.extend((0..rules).map(|rule| format!("lost_fault_{rule}")));
    names.push("loss".to_owned());
    names.extend(
        accuracy
            .iter()
            .map(|(split, name)| format!("{split}_{name}")),
    );
    for direction in ["up", "down"] {
        names.extend(flow_columns(&Flow::default()).map(|(name, _)| format!("{direction}_{name}")));
    }
    names.extend(
        [
            "cumulative_up_sent_bytes",
            "cumulative_down_sent_bytes",
            "inference_bytes",
        ]
        .map(String::from),
    );
    names.extend(
        [
            "row_visits",
            "lost_row_visits",
            "unused_row_visits",
            "unused_download_bytes",
        ]
        .map(String::from),
    );
    names.extend(
        [
            "multiply_adds",
            "lost_multiply_adds",
            "unused_multiply_adds",
        ]
        .map(String::from),
    );
    if energy {
        names.push("energy_j".to_owned());
    }
    if sparsity {
        for place in ["uploads", "averaged"] {
            names.extend(SPARSITY_THRESHOLDS.map(|threshold| share_column(threshold, place)));
        }
        names.push("c_above_0_union".to_owned());
    }
    names
}

/// Returns the column with the share of the shared table's values above a threshold, in the
/// `uploads` or as `averaged`.
pub(crate) fn share_column(threshold: f32, place: &str) -> String {
    format!("c_above_{}_{place}", threshold_name(threshold))
}

/// Returns a threshold as column names give it: `1e-4` for 0.0001, and `0` for zero.
pub(crate) fn threshold_name(threshold: f32) -> String {
    if threshold == 0.0 {
        "0".to_owned()
    } else {
        format!("{threshold:e}")
    }
}

pub(super) fn flow_columns(flow: &Flow) -> [(&'static str, u64); 14] {
    [
        ("sent_bytes", flow.sent),
        ("delivered_bytes", flow.delivered),
        ("lost_bytes", flow.lost),
        ("cancelled_bytes", flow.cancelled),
        ("in_flight_bytes", flow.in_flight),
        ("unreceived_bytes", flow.unreceived),
        ("useful_bytes", flow.useful),
        ("late_bytes", flow.late),
        ("stale_bytes", flow.stale),
        ("header_bytes", flow.header),
        ("index_bytes", flow.index),
        ("values_bytes", flow.values),
        ("frames", flow.frames),
        ("modelled_bytes", flow.modelled),
    ]
}

fn row(
    round: &RoundRecord,
    cost: &cost::Cost,
    rules: usize,
    accuracy: &[(&str, &str)],
    energy_j: Option<f64>,
    sparsity: bool,
) -> Vec<Cell> {
    let mut cells = vec![
        Cell::count(round.round),
        Cell::number(round.virtual_time_s),
        Cell::number(round.duration_s),
    ];
    let fates = [
        round.invited,
        round.aggregated,
        round.dropped,
        round.cancelled,
        round.late,
        round.stale,
    ];
    cells.extend(fates.map(Cell::count));
    cells.extend([round.losses.dropouts, round.losses.departures].map(Cell::count));
    cells.extend((0..rules).map(|rule| Cell::count(round.losses.by_fault(rule))));
    cells.push(Cell::Number(round.loss));
    for &(split, name) in accuracy {
        let figure = round.accuracy.as_ref().and_then(|measured| {
            figures::splits(measured)
                .find(|&(of, _)| of == split)
                .and_then(|(_, figures)| figures.get(name).copied())
        });
        cells.push(Cell::Number(figure));
    }
    for flow in [&round.bytes.up, &round.bytes.down] {
        cells.extend(flow_columns(flow).map(|(_, value)| Cell::count(value)));
    }
    cells.extend([cost.up_bytes, cost.down_bytes].map(Cell::count));
    cells.push(Cell::Count(round.inference_bytes));
    let work = round.work;
    let amounts = [
        work.finished,
        work.lost,
        work.unused,
        work.unused_download_bytes,
    ];
    let multiply_adds = [
        work.finished_multiply_adds,
        work.lost_multiply_adds,
        work.unused_multiply_adds,
    ];
    cells.extend(amounts.into_iter().chain(multiply_adds).map(Cell::count));
    cells.extend(energy_j.map(Cell::number));
    if sparsity {
        let shares = round.sparsity.map(|s| [s.uploads, s.averaged].concat());
        cells.extend(
            (0..2 * SPARSITY_THRESHOLDS.len()).map(|i| Cell::Number(shares.as_ref().map(|s| s[i]))),
        );
        cells.push(Cell::Number(
            round.sparsity.and_then(|sparsity| sparsity.union),
        ));
    }
    cells
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::report::sample;
    use fedrecsim_scenario::scenario::{FaultEffect, FaultSpec};
    use fedrecsim_sim::sim::outcome::losses::Losses;

    fn parsed(text: &str) -> (Vec<String>, Vec<Vec<String>>) {
        // The reader itself refuses rows of unequal length.
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let names = reader.headers().unwrap().iter().map(String::from).collect();
        let rows = reader
            .records()
            .map(|row| row.unwrap().iter().map(String::from).collect())
            .collect();
        (names, rows)
    }

    #[test]
    fn the_table_reads_like_this() {
        insta::assert_snapshot!(render(&sample::run(3)).unwrap());
    }

    #[test]
    fn rounds_without_evaluation_have_empty_cells_in_the_same_columns() {
        let mut record = sample::evaluated_every(2, 4);
        record.per_round[2].loss = None;
        record.per_round[2].sparsity = None;
        let (names, rows) = parsed(&render(&record).unwrap());
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
        let (names, rows) = parsed(&render(&sample::over_selected(2)).unwrap());
        let column = names.iter().position(|name| name == "energy_j").unwrap();
        let sum: f64 = rows
            .iter()
            .map(|row| row[column].parse::<f64>().unwrap())
            .sum();
        let total = sample::over_selected(2).energy.unwrap().total_j();
        assert!((sum - total).abs() < 1e-9 * total, "{sum} {total}");
        assert!(
            !parsed(&render(&sample::run(2)).unwrap())
                .0
                .contains(&"energy_j".to_owned())
        );
    }

    /// If this fails, a loss is in the column of another rule, or a rule without a loss has no
    /// column.
    #[test]
    fn every_fault_rule_has_a_column_and_the_causes_add_up() {
        let mut record = sample::run(2);
        record.scenario.faults = vec![FaultSpec::always(FaultEffect::Drop); 3];
        for round in &mut record.per_round {
            round.losses = Losses {
                dropouts: 40,
                departures: 2,
                faults: vec![0, 5],
            };
        }
        let (names, rows) = parsed(&render(&record).unwrap());
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
        assert_eq!((causes, cell("dropped")), ([40, 2, 0, 5, 0], 47));
    }

    #[test]
    fn cumulative_bytes_end_at_the_totals() {
        let record = sample::run(3);
        let (names, rows) = parsed(&render(&record).unwrap());
        let column = names
            .iter()
            .position(|name| name == "cumulative_down_sent_bytes")
            .unwrap();
        assert_eq!(rows[2][column], record.bytes.down.sent.to_string());
    }

    #[test]
    fn a_run_without_a_finished_round_leaves_a_header() {
        let (names, rows) = parsed(&render(&sample::nothing_finished()).unwrap());
        assert_eq!(names[0], "round");
        assert!(rows.is_empty());
    }

    #[test]
    fn nan_is_refused() {
        let mut record = sample::run(2);
        record.per_round[0].sparsity.as_mut().unwrap().uploads[3] = f64::NAN;
        assert!(matches!(render(&record), Err(Error::NonFinite { .. })));
    }
}
