//! The list of what a report consists of: each exporter turns a record into files.

use super::column::Place;
use super::file_names::{self, RUN_JSON};
use super::record::RunRecord;
use super::{check, html, read, rounds, run, users};
use fedrecsim_core::{Error, Result};
use fedrecsim_sim::checkpoint::{SCENARIO_FILE, scenario_text};

/// The contents of files, by their names.
pub type Files = Vec<(&'static str, Vec<u8>)>;

/// A part of a report. A program adds one of its own by [`ReportFolder::with_exporter`].
///
/// [`ReportFolder::with_exporter`]: super::ReportFolder::with_exporter
#[derive(Clone, Copy, Debug)]
pub struct Exporter {
    /// The names of the files that it may write. Those of an earlier report are removed where it
    /// does not write them.
    pub files: &'static [&'static str],
    /// Renders the files of a record, by their names.
    pub render: fn(&RunRecord) -> Result<Files>,
}

/// The exporters of every report, in the order of their files.
pub const EXPORTERS: &[Exporter] = &[
    Exporter {
        files: &["rounds.csv"],
        render: |record| one("rounds.csv", rounds::csv(record, Place::Rounds)?),
    },
    Exporter {
        files: &["network.csv"],
        render: |record| one("network.csv", rounds::csv(record, Place::Network)?),
    },
    // Without a list of users if their totals were not kept.
    Exporter {
        files: &["users.csv"],
        render: |record| one("users.csv", users::csv(record)?),
    },
    Exporter {
        files: &["items.csv"],
        render: |record| one("items.csv", users::items_csv(record)?),
    },
    Exporter {
        files: &["summary.md"],
        render: |record| one("summary.md", run::document(record)?.markdown()),
    },
    Exporter {
        files: &file_names::PICTURES,
        #[cfg(feature = "plots")]
        render: |record| {
            let pictures = super::plot::charts(record)?.into_iter();
            Ok(pictures
                .map(|(name, svg)| (name, svg.into_bytes()))
                .collect())
        },
        #[cfg(not(feature = "plots"))]
        render: |_| Ok(Files::new()),
    },
    // Without a file for a scenario that TOML cannot express, which no file has given.
    Exporter {
        files: &[SCENARIO_FILE],
        render: |record| {
            let text = record.scenario.to_toml().ok();
            one(SCENARIO_FILE, text.map(|text| scenario_text(&text)))
        },
    },
    Exporter {
        files: &[file_names::PAGE],
        render: |record| one(file_names::PAGE, html::render(&run::document(record)?)?),
    },
    // The Parquet tables are written on request. Those of an earlier report, which would show its
    // figures, are removed.
    Exporter {
        files: &file_names::PARQUET,
        render: |_| Ok(Files::new()),
    },
    Exporter {
        files: &[RUN_JSON],
        render: |record| one(RUN_JSON, run_json(record)?),
    },
];

/// Returns the names of the files that `exporters` may write, in their order.
pub(crate) fn file_names(exporters: &[Exporter]) -> impl Iterator<Item = &'static str> {
    let of = |exporter: &Exporter| exporter.files.iter().copied();
    exporters.iter().flat_map(of)
}

/// Renders the files of all `exporters`.
///
/// # Errors
/// Those of the exporters, and [`Error::Usage`] for a file that its exporter does not name, or that
/// two exporters make.
pub(crate) fn render(exporters: &[Exporter], record: &RunRecord) -> Result<Files> {
    let mut files = Files::new();
    for exporter in exporters {
        for (name, bytes) in (exporter.render)(record)? {
            if !exporter.files.contains(&name) || files.iter().any(|(other, _)| *other == name) {
                return Err(Error::Usage(format!(
                    "an exporter makes {name}, which it does not name or another one makes"
                )));
            }
            files.push((name, bytes));
        }
    }
    Ok(files)
}

/// Returns one file of text, or none.
fn one(name: &'static str, text: impl Into<Option<String>>) -> Result<Files> {
    let text = text.into();
    Ok(text
        .map(|text| (name, text.into_bytes()))
        .into_iter()
        .collect())
}

/// Returns `run.json`, which is also the one object that `run --json` prints: the record, indented,
/// with a line break at the end. The rounds are not in it; they are the rows of `rounds.csv`.
///
/// # Errors
/// Those of [`check::check`]: a number that is not finite is refused, never written as `null`.
pub fn run_json(record: &RunRecord) -> Result<String> {
    check::check(record)?;
    read::pretty(RUN_JSON, record)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::Value;

    use super::*;
    use crate::ReportFolder;
    use crate::record::{ByDirection, Flow, SplitAccuracy, Wall};
    use crate::tests::records as sample;

    /// If this fails, a program cannot add a file of its own to reports, or a file of an earlier
    /// report stays that the exporter no longer writes.
    #[test]
    fn an_exporter_of_ones_own_takes_a_line() {
        let digest = Exporter {
            files: &["digest.txt"],
            render: |record| {
                let is_complete = record
                    .complete
                    .then(|| ("digest.txt", record.digest.clone().into_bytes()));
                Ok(is_complete.into_iter().collect())
            },
        };
        let root = tempfile::tempdir().unwrap();
        let mut record = sample::run(3);
        let folder = ReportFolder::create(root.path(), true)
            .unwrap()
            .with_exporter(digest);
        let path = root.path().join("digest.txt");
        // Something stands in the way of the last file but `run.json`, without which the run does
        // not count as complete.
        std::fs::create_dir(&path).unwrap();
        folder.write(&record).unwrap_err();
        assert!(!root.path().join(RUN_JSON).exists());
        std::fs::remove_dir(&path).unwrap();
        folder.write(&record).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), record.digest);
        assert!(root.path().join(RUN_JSON).exists());
        record.complete = false;
        folder.write(&record).unwrap();
        assert!(!path.exists(), "the digest of an earlier report stays");
        assert!(
            render(&[digest, digest], &sample::run(3)).is_err(),
            "two exporters make one file"
        );
    }

    fn part<T: serde::de::DeserializeOwned>(json: &Value, path: &str) -> T {
        let value = json.pointer(path).unwrap_or_else(|| panic!("no {path}"));
        serde_json::from_value(value.clone()).unwrap()
    }

    #[test]
    fn the_promised_keys_are_there_and_say_what_the_record_says() {
        let record = sample::run(4);
        let json: Value = serde_json::from_str(&run_json(&record).unwrap()).unwrap();
        assert_eq!(part::<String>(&json, "/digest"), record.digest);
        assert_eq!(part::<u32>(&json, "/rounds"), 4);
        assert!(part::<bool>(&json, "/complete"));
        assert_eq!(
            part::<Option<u32>>(&json, "/selected_round"),
            record.selected_round
        );
        assert_eq!(part::<SplitAccuracy>(&json, "/accuracy"), record.accuracy);
        assert_eq!(part::<ByDirection<Flow>>(&json, "/bytes"), record.bytes);
        assert_eq!(part::<f64>(&json, "/virtual_time_s"), record.virtual_time_s);
        assert_eq!(part::<Wall>(&json, "/wall"), record.wall);
        for key in [
            "accuracy/test/hr@10",
            "accuracy/test/ndcg@10",
            "accuracy/validation/hr@10",
        ] {
            assert!(part::<f64>(&json, &format!("/{key}")) > 0.0, "{key}");
        }
        for direction in ["up", "down"] {
            for kind in ["sent", "delivered", "lost", "cancelled", "in_flight"] {
                part::<u64>(&json, &format!("/bytes/{direction}/{kind}"));
            }
        }
        for key in ["total_s", "per_round_ms", "peak_rss_bytes"] {
            assert!(part::<f64>(&json, &format!("/wall/{key}")) > 0.0, "{key}");
        }
        assert_eq!(
            part::<String>(&json, "/scenario/dataset/negatives/pool"),
            "unrated"
        );
    }

    #[test]
    fn a_run_that_finished_no_round_has_the_keys_too() {
        let json: Value =
            serde_json::from_str(&run_json(&sample::nothing_finished()).unwrap()).unwrap();
        assert_eq!(json["selected_round"], Value::Null);
        assert_eq!(json["rounds"], 0);
        assert_eq!(json["complete"], false);
        assert!(json["stopped_by"].is_string());
    }

    #[test]
    fn nan_is_refused_rather_than_written_as_null() {
        let mut record = sample::run(2);
        record.wall.per_round_ms = f64::NAN;
        assert!(
            matches!(run_json(&record), Err(Error::NonFinite { place, .. }) if place == "wall.per_round_ms")
        );
    }
}
