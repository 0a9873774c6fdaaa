//! Writes the tables of a study for other programs: `study.csv` has a line for every run and column,
//! `summary.csv` one for every arm and column. Cells without a value are empty.

use super::no_value;
use crate::column::Cell;
use crate::document::Columns;
use crate::study::file::Reference;
use crate::study::results::{ArmResults, Results, RunResult, RunState};
use crate::study::statistics::Summary;
use fedrecsim_core::Result;

/// A line of `study.csv`.
struct RunLine<'a> {
    arm: &'a ArmResults,
    run: &'a RunResult,
    column: String,
    value: Cell,
}

/// Returns a line for every run and column, and one for every run without a result.
pub(crate) fn runs(results: &Results) -> Result<String> {
    let columns = results.columns();
    let mut lines = Vec::new();
    for (number, arm) in results.arms.iter().enumerate() {
        let values: Vec<_> = columns
            .iter()
            .map(|column| (&column.name, results.values(number, column)))
            .collect();
        for run in &arm.runs {
            let line = |column: &str, value| RunLine {
                arm,
                run,
                column: column.to_owned(),
                value,
            };
            match &run.state {
                RunState::Done => lines.extend(values.iter().filter_map(|(name, values)| {
                    let (_, value) = values.iter().find(|(seed, _)| *seed == run.seed)?;
                    Some(line(name, number_of(Some(*value))))
                })),
                RunState::Failed(reason) => lines.push(line("", reason.as_str().into())),
                RunState::NotRun | RunState::NoData => lines.push(line("", Cell::none())),
            }
        }
    }
    let mut table = Columns::new();
    table.add("arm", |line: &RunLine<'_>| line.arm.name.clone());
    table.add("seed", |line| line.run.seed.to_string());
    table.add("state", |line| no_value(&line.run.state));
    table.add("quantity", |line| line.column.clone());
    table.add("value", |line| line.value.clone());
    table.add("protocol", |line| {
        let report = line.run.report.as_ref();
        report.map_or_else(Cell::none, |report| report.run.protocol.as_str().into())
    });
    table.add("report", |line| line.run.folder.display().to_string());
    table.table("", lines).csv("study.csv")
}

/// A line of `summary.csv`.
struct ArmLine<'a> {
    arm: &'a ArmResults,
    column: String,
    ours: Option<Summary>,
    difference: Option<Summary>,
    relative: Option<Summary>,
    times: Option<Summary>,
    published: Option<&'a Reference>,
}

/// Returns a line for every arm and column.
pub(crate) fn arms(results: &Results) -> Result<String> {
    let columns = results.columns();
    let columns = &columns;
    let of_arm = |(number, arm)| {
        columns.iter().map(move |column| ArmLine {
            arm,
            column: column.name.to_string(),
            ours: results.summary(number, column),
            difference: results.difference(number, column),
            relative: results.relative_difference(number, column),
            times: results.times_less(number, column),
            published: results.reference(number, &column.name),
        })
    };
    let lines = results.arms.iter().enumerate().flat_map(of_arm);
    let mut table = Columns::new();
    table.add("arm", |line: &ArmLine<'_>| line.arm.name.clone());
    table.add("quantity", |line| line.column.clone());
    table.add("runs", |line| {
        line.ours.map_or(0, |of| of.count).to_string()
    });
    table.add("mean", |line| number_of(line.ours.map(|of| of.mean)));
    table.add("standard_deviation", |line| {
        number_of(line.ours.and_then(|of| of.deviation))
    });
    table.add_pair(["interval_low", "interval_high"], |line| ends(line.ours));
    table.add("compared_to", |line| {
        let other = line.difference.and(line.arm.compare_to);
        other.map_or_else(Cell::none, |other| results.arms[other].name.clone().into())
    });
    table.add("pairs", |line| {
        let pairs = line.difference.map(|of| of.count.to_string());
        pairs.map_or_else(Cell::none, Cell::from)
    });
    type Differences = fn(&ArmLine<'_>) -> Option<Summary>;
    let all: [(&str, Differences); 3] = [
        ("difference", |line| line.difference),
        ("relative_difference", |line| line.relative),
        ("times_less", |line| line.times),
    ];
    for (name, of) in all {
        table.add(name, move |line| number_of(of(line).map(|of| of.mean)));
        let names = ["low", "high"].map(|end| format!("{name}_{end}"));
        table.add_pair(names, move |line| ends(of(line)));
    }
    table.add("published", |line| {
        number_of(line.published.map(|of| of.value))
    });
    table.add("published_standard_deviation", |line| {
        number_of(line.published.and_then(|of| of.standard_deviation))
    });
    table.add("published_in", |line| {
        let source = line.published.and_then(|of| of.source.clone());
        source.map_or_else(Cell::none, Cell::from)
    });
    table.add("protocol", |line| line.arm.protocols().join("; "));
    table.table("", lines).csv("summary.csv")
}

fn number_of(value: Option<f64>) -> Cell {
    value.map_or_else(Cell::none, |value| Cell::number("", value))
}

fn ends(summary: Option<Summary>) -> [Cell; 2] {
    let ends = summary.and_then(|summary| summary.interval());
    ends.map_or_else(
        || [Cell::none(), Cell::none()],
        |ends| ends.map(|end| number_of(Some(end))),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::tests::results as sample;

    /// If this fails, whoever draws a picture of their own from the files draws another one than
    /// ours.
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
        let row = |arm: &str, quantity: &str| {
            rows.iter()
                .find(|row| &row[0] == arm && &row[1] == quantity)
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
