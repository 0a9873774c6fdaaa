//! The list of what a report consists of: each exporter turns a record into files.

use super::column::Place;
use super::record::RunRecord;
use super::{charts, json, rounds, run, users};
use fedrecsim_core::error::{Error, Result};
use fedrecsim_sim::checkpoint::{SCENARIO_FILE, scenario_text};

/// The contents of files, by their names.
pub type Files = Vec<(&'static str, Vec<u8>)>;

/// A part of a report. A program adds one of its own to the list that
/// [`ReportFolder::with_exporters`] is given.
///
/// [`ReportFolder::with_exporters`]: super::ReportFolder::with_exporters
#[derive(Clone, Copy, Debug)]
pub struct Exporter {
    /// The names of the files that it may write. Those of an earlier report are removed where it
    /// does not write them.
    pub files: &'static [&'static str],
    /// Renders the files of a record, by their names.
    pub render: fn(&RunRecord) -> Result<Files>,
}

/// The file that is written last, since a run counts as complete when it is there.
pub(crate) const RUN_JSON: &str = "run.json";

/// The file with the interactive page, which [`run::exporters_with_page`]
/// have made.
pub(crate) const PAGE: &str = "report.html";

/// The files with the tables of a run for Parquet, which `arrow::with_parquet` has made.
pub(crate) const PARQUET: [&str; 2] = ["rounds.parquet", "users.parquet"];

/// The exporters of this crate, in the order in which their files are written.
pub const EXPORTERS: &[Exporter] = &[
    Exporter {
        files: &["rounds.csv"],
        render: |record| text("rounds.csv", rounds::csv(record, Place::Rounds)),
    },
    Exporter {
        files: &["network.csv"],
        render: |record| text("network.csv", rounds::csv(record, Place::Network)),
    },
    Exporter {
        files: &["users.csv"],
        render: listed,
    },
    Exporter {
        files: &["summary.md"],
        render: |record| {
            text(
                "summary.md",
                run::document(record).map(|document| document.markdown()),
            )
        },
    },
    Exporter {
        files: &charts::FILE_NAMES,
        render: drawn,
    },
    Exporter {
        files: &[SCENARIO_FILE],
        render: resolved,
    },
    // The page is made for whoever asks. One of an earlier report, which would show its figures, is
    // removed.
    Exporter {
        files: &[PAGE],
        render: |_| Ok(Files::new()),
    },
    Exporter {
        files: &PARQUET,
        render: |_| Ok(Files::new()),
    },
    Exporter {
        files: &[RUN_JSON],
        render: |record| text(RUN_JSON, json::render(record)),
    },
];

/// Returns the names of the files that `exporters` may write, in their order.
pub(crate) fn file_names(exporters: &[Exporter]) -> impl Iterator<Item = &'static str> {
    exporters
        .iter()
        .flat_map(|exporter| exporter.files.iter().copied())
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

/// Returns one file of text.
fn text(name: &'static str, rendered: Result<String>) -> Result<Files> {
    Ok(vec![(name, rendered?.into_bytes())])
}

/// Returns the list of users; nothing if the totals of single users were not kept.
fn listed(record: &RunRecord) -> Result<Files> {
    let list = users::csv(record)?;
    Ok(list
        .map(|list| ("users.csv", list.into_bytes()))
        .into_iter()
        .collect())
}

/// Returns the resolved scenario as a file that can be run; nothing for a scenario that TOML cannot
/// express, which no file has given.
fn resolved(record: &RunRecord) -> Result<Files> {
    let text = record.scenario.to_toml().ok();
    Ok(text
        .map(|text| (SCENARIO_FILE, scenario_text(&text).into_bytes()))
        .into_iter()
        .collect())
}

/// Returns the charts; none in a build without the feature `plots`.
fn drawn(record: &RunRecord) -> Result<Files> {
    #[cfg(feature = "plots")]
    let charts = super::plot::charts(record)?;
    #[cfg(not(feature = "plots"))]
    let charts: Vec<(&str, String)> = super::check::check(record).map(|()| Vec::new())?;
    Ok(charts
        .into_iter()
        .map(|(name, chart)| (name, chart.into_bytes()))
        .collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::report::ReportFolder;
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
        let exporters = [EXPORTERS, &[digest]].concat();
        let folder = ReportFolder::create(root.path(), true)
            .unwrap()
            .with_exporters(exporters.clone());
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
}
