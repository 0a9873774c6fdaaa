//! Writes the tables of a study for other programs: `study.csv` has a line for every run and
//! quantity, `summary.csv` one for every arm and quantity. Cells without a value are empty.

use csv::Writer;

use super::no_value;
use crate::study::results::{Results, RunState};
use crate::study::statistics::Summary;
use fedrecsim_core::error::{Error, Result};

/// Returns a line for every run and quantity, and one for every run without a result.
pub(crate) fn runs(results: &Results) -> Result<String> {
    let mut writer = Writer::from_writer(Vec::new());
    let name = "study.csv";
    write(
        name,
        &mut writer,
        &[
            "arm", "seed", "state", "quantity", "value", "protocol", "report",
        ],
    )?;
    let columns = results.columns();
    for (number, arm) in results.arms.iter().enumerate() {
        let values: Vec<(&str, Vec<(u64, f64)>)> = columns
            .iter()
            .map(|column| (&*column.name, results.values(number, column)))
            .collect();
        for run in &arm.runs {
            let (seed, folder) = (run.seed.to_string(), run.folder.display().to_string());
            let report = match &run.state {
                RunState::Done(report) => report,
                RunState::Failed(reason) => {
                    write(
                        name,
                        &mut writer,
                        &[&arm.name, &seed, "failed", "", reason, "", &folder],
                    )?;
                    continue;
                }
                state => {
                    let cells = [&*arm.name, &seed, no_value(state), "", "", "", &folder];
                    write(name, &mut writer, &cells)?;
                    continue;
                }
            };
            for (quantity, values) in &values {
                let Some((_, value)) = values.iter().find(|(other, _)| *other == run.seed) else {
                    continue;
                };
                let protocol = &report.run.protocol;
                let cells = [
                    &arm.name,
                    &seed,
                    "done",
                    quantity,
                    &value.to_string(),
                    protocol,
                    &folder,
                ];
                write(name, &mut writer, &cells)?;
            }
        }
    }
    finished(name, writer)
}

/// Returns a line for every arm and quantity.
pub(crate) fn arms(results: &Results) -> Result<String> {
    let mut writer = Writer::from_writer(Vec::new());
    let name = "summary.csv";
    let header = [
        "arm",
        "quantity",
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
    ];
    write(name, &mut writer, &header)?;
    for (number, arm) in results.arms.iter().enumerate() {
        let protocol = arm.protocols().join("; ");
        let compared_to = arm
            .compare_to
            .map_or("", |other| results.arms[other].name.as_str());
        for column in results.columns() {
            let (summary, difference) = (
                results.summary(number, &column),
                results.difference(number, &column),
            );
            let reference = results.reference(number, &column.name);
            let mut cells = vec![arm.name.clone(), column.name.to_string()];
            cells.push(summary.map_or(0, |summary| summary.count).to_string());
            cells.extend([
                number_of(summary.map(|s| s.mean)),
                number_of(summary.and_then(|s| s.deviation)),
            ]);
            cells.extend(ends(summary));
            cells.push(difference.map_or("", |_| compared_to).to_owned());
            cells.push(
                difference.map_or_else(String::new, |difference| difference.count.to_string()),
            );
            cells.push(number_of(difference.map(|difference| difference.mean)));
            cells.extend(ends(difference));
            for share in [
                results.relative_difference(number, &column),
                results.times_less(number, &column),
            ] {
                cells.push(number_of(share.map(|share| share.mean)));
                cells.extend(ends(share));
            }
            cells.push(number_of(reference.map(|reference| reference.value)));
            cells.push(number_of(
                reference.and_then(|reference| reference.standard_deviation),
            ));
            cells.push(
                reference
                    .and_then(|reference| reference.source.clone())
                    .unwrap_or_default(),
            );
            cells.push(protocol.clone());
            let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
            write(name, &mut writer, &cells)?;
        }
    }
    finished(name, writer)
}

fn number_of(value: Option<f64>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn ends(summary: Option<Summary>) -> [String; 2] {
    match summary.and_then(|summary| summary.interval()) {
        Some(ends) => ends.map(|end| end.to_string()),
        None => Default::default(),
    }
}

fn write(name: &str, writer: &mut Writer<Vec<u8>>, cells: &[&str]) -> Result<()> {
    writer
        .write_record(cells)
        .map_err(|error| Error::write(name, error.into()))
}

fn finished(name: &str, writer: Writer<Vec<u8>>) -> Result<String> {
    let bytes = writer
        .into_inner()
        .map_err(|error| Error::write(name, std::io::Error::other(error)))?;
    String::from_utf8(bytes).map_err(|error| Error::write(name, std::io::Error::other(error)))
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
