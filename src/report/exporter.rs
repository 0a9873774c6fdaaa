//! The list of what a report consists of: each exporter turns a record into files.

use super::record::RunRecord;
use super::{charts, csv, json, markdown};
use crate::error::Result;

/// The contents of files, by their names.
pub type Files = Vec<(&'static str, Vec<u8>)>;

/// A part of a report. An exporter of its own takes a line in the list that [`ReportFolder::write_with`] is given.
///
/// [`ReportFolder::write_with`]: super::ReportFolder::write_with
#[derive(Clone, Copy, Debug)]
pub struct Exporter {
    /// The names of the files that it may write. Those of an earlier report are removed where it does not write them.
    pub files: &'static [&'static str],
    /// Renders the files of a record, by their names.
    pub render: fn(&RunRecord) -> Result<Files>,
}

/// The file that is written last, since a run counts as complete when it is there.
pub const RUN_JSON: &str = "run.json";

/// The exporters of this crate, in the order in which their files are written.
pub const EXPORTERS: &[Exporter] = &[
    Exporter { files: &["rounds.csv"], render: |record| text("rounds.csv", csv::render(record)) },
    Exporter { files: &["summary.md"], render: |record| text("summary.md", markdown::render(record)) },
    Exporter { files: &charts::FILE_NAMES, render: drawn },
    Exporter { files: &[RUN_JSON], render: |record| text(RUN_JSON, json::render(record)) },
];

/// Returns the names of the files that `exporters` may write, in their order.
pub fn file_names(exporters: &[Exporter]) -> impl Iterator<Item = &'static str> {
    exporters.iter().flat_map(|exporter| exporter.files.iter().copied())
}

/// Returns one file of text.
fn text(name: &'static str, rendered: Result<String>) -> Result<Files> {
    Ok(vec![(name, rendered?.into_bytes())])
}

/// Returns the charts; none in a build without the feature `plots`.
fn drawn(record: &RunRecord) -> Result<Files> {
    #[cfg(feature = "plots")]
    let charts = super::plot::charts(record)?;
    #[cfg(not(feature = "plots"))]
    let charts: Vec<(&str, String)> = super::check::check(record).map(|()| Vec::new())?;
    Ok(charts.into_iter().map(|(name, chart)| (name, chart.into_bytes())).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::report::{ReportFolder, sample};

    /// If this fails, a program cannot add a file of its own to reports, or a file of an earlier report stays that the
    /// exporter no longer writes.
    #[test]
    fn an_exporter_of_ones_own_takes_a_line() {
        let digest = Exporter {
            files: &["digest.txt"],
            render: |record| {
                let is_complete = record.complete.then(|| ("digest.txt", record.digest.clone().into_bytes()));
                Ok(is_complete.into_iter().collect())
            },
        };
        let (root, exporters) = (tempfile::tempdir().unwrap(), [EXPORTERS, &[digest]].concat());
        let mut record = sample::run(3);
        let folder = ReportFolder::create(root.path(), true).unwrap();
        folder.write_with(&record, &exporters).unwrap();
        let path = root.path().join("digest.txt");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), record.digest);
        assert!(root.path().join(RUN_JSON).exists());
        record.complete = false;
        folder.write_with(&record, &exporters).unwrap();
        assert!(!path.exists(), "the digest of an earlier report stays");
    }
}
