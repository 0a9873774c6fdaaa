//! Writes the tables of a study for other programs: `study.csv` has a line for every run and figure,
//! `summary.csv` one for every arm and figure. Cells without a value are empty.

use std::collections::BTreeMap;
use std::io;

use serde::Serialize;

use super::state_name;
use crate::column::without_formula;
use crate::study::columns::RunColumn;
use crate::study::results::{Results, RunState};
use crate::study::statistics::{Estimate, Summary};
use fedrecsim_core::{Error, Result};

const RUNS: [&str; 7] = [
    "arm", "seed", "state", "figure", "value", "protocol", "report",
];

/// Returns a line for every run and figure, and one for every run without a result.
pub(crate) fn runs(results: &Results) -> Result<String> {
    let columns = results.columns();
    let mut lines = Vec::new();
    for (number, arm) in results.arms.iter().enumerate() {
        let values: Vec<_> = columns
            .iter()
            .map(|column| (&*column.name, results.values(number, column)))
            .collect();
        for run in &arm.runs {
            let report = run.report.as_ref();
            let mut line = |figure, value: Option<String>| {
                lines.push((
                    (&arm.name, run.seed, state_name(&run.state), figure),
                    (value, report.map(|of| &of.run.protocol), &run.folder),
                ));
            };
            match &run.state {
                RunState::Done => {
                    for (name, values) in &values {
                        let value = values.iter().find(|(seed, _)| *seed == run.seed);
                        value.inspect(|(_, value)| line(*name, text(Some(value))));
                    }
                }
                RunState::Failed(reason) => line("", text(Some(reason))),
                RunState::NotRun | RunState::NoData => line("", None),
            }
        }
    }
    written("study.csv", &RUNS, &lines)
}

const ARMS: [&str; 30] = [
    "arm",
    "figure",
    "runs",
    "mean",
    "standard_deviation",
    "interval_low",
    "interval_high",
    "compared_to",
    "pairs",
    "difference",
    "difference_low",
    "difference_high",
    "relative_difference",
    "relative_difference_low",
    "relative_difference_high",
    "times_less",
    "times_less_low",
    "times_less_high",
    "published",
    "published_standard_deviation",
    "published_in",
    "protocol",
    "users_low",
    "users_high",
    "difference_users_low",
    "difference_users_high",
    "difference_p",
    "difference_p_holm",
    "difference_shown",
    "difference_could_show",
];

/// Returns a line for every arm and figure.
pub(crate) fn arms(results: &Results) -> Result<String> {
    of_columns(results, results.columns(), "summary.csv")
}

/// Returns a line for every arm and metric of pooled results, which have nothing else.
pub(crate) fn pooled(results: &Results) -> Result<String> {
    let mut columns = results.columns();
    columns.retain(|column| results.metrics.iter().any(|metric| *metric == column.name));
    of_columns(results, columns, "pooled.csv")
}

fn of_columns<'r>(results: &'r Results, columns: Vec<RunColumn<'r>>, name: &str) -> Result<String> {
    let mean = |of: Option<Summary>| text(of.map(|of| of.mean));
    let ends = |of: Option<Summary>| {
        let ends = of.and_then(|of| of.interval());
        [0, 1].map(|end| text(ends.map(|ends| ends[end])))
    };
    let with_ends = |of: Option<Summary>| (mean(of), ends(of));
    let of_users = |estimate: Option<Estimate>| {
        let ends = estimate.map(|of| [of.low, of.high]);
        [0, 1].map(|end| text(ends.map(|ends| ends[end])))
    };
    let metrics = results.metrics.iter();
    let compared: BTreeMap<&str, _> = metrics
        .map(|metric| (metric.as_str(), results.comparisons(metric)))
        .collect();
    let mut lines = Vec::new();
    for (number, arm) in results.arms.iter().enumerate() {
        for column in &columns {
            let compared = compared.get(&*column.name).and_then(|of| of[number]);
            let ours = results.summary(number, column);
            let difference = results.difference(number, column);
            let compared_to = difference.and(arm.compare_to);
            let published = results.reference(number, &column.name);
            let deviation = published.and_then(|of| of.standard_deviation);
            lines.push((
                (&arm.name, &column.name, ours.map_or(0, |of| of.count)),
                (
                    mean(ours),
                    text(ours.and_then(|of| of.deviation)),
                    ends(ours),
                ),
                compared_to.map(|other| &results.arms[other].name),
                difference.map(|of| of.count),
                with_ends(difference),
                with_ends(results.relative_difference(number, column)),
                with_ends(results.times_less(number, column)),
                (text(published.map(|of| of.value)), text(deviation)),
                published.and_then(|of| of.source.as_ref()),
                arm.protocols().join("; "),
                of_users(results.estimate(number, &column.name)),
                of_users(compared.map(|of| of.estimate)),
                (
                    text(compared.map(|of| of.estimate.p)),
                    text(compared.map(|of| of.p_of_all)),
                    compared.map(|of| of.verdict.name()),
                    text(compared.map(|of| of.estimate.could_show())),
                ),
            ));
        }
    }
    written(name, &ARMS, &lines)
}

/// Returns a number in full.
fn text<T: ToString>(value: Option<T>) -> Option<String> {
    value.map(|value| value.to_string())
}

/// Returns lines, which are tuples, as the CSV file `name`. No cell of it is a formula.
pub(super) fn written(name: &str, header: &[&str], lines: &[impl Serialize]) -> Result<String> {
    let writer = || {
        let mut writer = csv::WriterBuilder::new();
        writer.has_headers(false).from_writer(Vec::new())
    };
    let write = || -> io::Result<String> {
        let mut plain = writer();
        lines.iter().try_for_each(|line| plain.serialize(line))?;
        let plain = plain.into_inner().map_err(|error| error.into_error())?;
        let mut reader = csv::ReaderBuilder::new();
        let mut reader = reader.has_headers(false).from_reader(&plain[..]);
        let mut safe = writer();
        safe.write_record(header)?;
        for line in reader.records() {
            safe.write_record(line?.iter().map(without_formula))?;
        }
        let bytes = safe.into_inner().map_err(|error| error.into_error())?;
        String::from_utf8(bytes).map_err(io::Error::other)
    };
    write().map_err(|reason| Error::write(name, reason))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::tests::results as sample;

    /// If this fails, a spreadsheet carries out what somebody has named an arm, or shows a number as
    /// text.
    #[test]
    fn no_cell_is_a_formula() {
        let mut results = sample::results();
        results.arms[0].name = "=HYPERLINK(\"http://x\",\"a\")".to_owned();
        results.arms[1].runs[2].state = RunState::Failed("@SUM(A1)".to_owned());
        results.arms[1].runs[2].report = None;
        for text in [runs(&results).unwrap(), arms(&results).unwrap()] {
            let mut reader = csv::Reader::from_reader(text.as_bytes());
            for record in reader.records().map(Result::unwrap) {
                for cell in record.iter().filter(|cell| cell.parse::<f64>().is_err()) {
                    assert!(!cell.starts_with(['=', '+', '-', '@']), "{cell}");
                }
            }
            assert!(text.contains("'=HYPERLINK"), "{text}");
        }
        let cells = ["-0.5", "-1e-5", "-x", "+x", "@x", "\t=x", "a=b", "", "-inf"];
        let safe = [
            "-0.5", "-1e-5", "'-x", "'+x", "'@x", "'\t=x", "a=b", "", "'-inf",
        ];
        assert_eq!(cells.map(without_formula), safe);
        let formulas = written("x.csv", &["a", "b"], &[["=1+1", "1"]]).unwrap();
        assert_eq!(formulas, "a,b\n'=1+1,1\n");
    }

    /// If this fails, the CSV files have other values than our pictures.
    #[test]
    fn every_run_and_every_arm_has_its_lines() {
        let mut results = sample::results();
        results.arms[1].runs[2].state = RunState::Failed("it exploded".to_owned());
        results.arms[1].runs[2].report = None;
        let text = runs(&results).unwrap();
        assert!(text.contains("dense,2,done,hr@10,0.5,"), "{text}");
        assert!(text.contains("int8,3,failed,,it exploded,,"), "{text}");
        assert!(
            text.contains("int8,1,done,up_bytes,2000000,")
                && text.contains("up_bytes_to_90_percent_of_own_best")
        );
        let text = arms(&results).unwrap();
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        let row = |arm: &str, figure: &str| {
            rows.iter()
                .find(|row| &row[0] == arm && &row[1] == figure)
                .unwrap()
        };
        assert_eq!(
            (&row("dense", "hr@10")[2], &row("dense", "hr@10")[3]),
            ("3", "0.5")
        );
        assert_eq!(
            (&row("dense", "hr@10")[7], &row("dense", "hr@10")[18]),
            ("", "0.41")
        );
        assert_eq!(&row("dense", "hr@10")[19], "0.04");
        let other = row("int8", "hr@10");
        assert_eq!(
            (&other[2], &other[7], &other[8], &other[18]),
            ("2", "dense", "2", "")
        );
        assert!((other[9].parse::<f64>().unwrap() + 0.05).abs() < 1e-9);
        assert!(
            (other[12].parse::<f64>().unwrap() + 0.1).abs() < 0.01,
            "{other:?}"
        );
        assert_eq!(&row("int8", "up_bytes_to_selected_round")[15], "2");
    }
}
