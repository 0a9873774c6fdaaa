//! Puts results into a file beside the tables, without the reports, and takes them out again with
//! them.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::answer::Answer;
use super::results::{Results, RunState};
use crate::read::{self, SavedReport};
use fedrecsim_core::{Error, Result};

/// The name of the file.
pub const FILE_NAME: &str = "results.json";

/// The version of its layout.
const FORMAT: u32 = 1;

/// The content of the file.
#[derive(Serialize, Deserialize)]
struct Saved<R> {
    format: u64,
    #[serde(flatten)]
    results: R,
    /// The answer, for readers of the file alone: it follows from the reports.
    #[serde(skip_deserializing)]
    answer: Option<Answer>,
}

/// Returns the text of the file.
///
/// # Errors
/// [`Error::Write`] for a path that is no text.
pub(crate) fn render(results: &Results, answer: Option<Answer>) -> Result<String> {
    let saved = Saved {
        format: FORMAT.into(),
        results,
        answer,
    };
    read::pretty(FILE_NAME, &saved)
}

/// Reads the results whose tables are in `folder`, with the reports of the runs.
///
/// # Errors
/// [`Error::Read`] for a file that is not there, is of a newer version or is not such a file, and
/// for a report that is not where it was.
pub fn read(folder: &Path) -> Result<Results> {
    let path = folder.join(FILE_NAME);
    let saved = read::json(&path, FORMAT, "the results of a study")?;
    let Saved { mut results, .. }: Saved<Results> = saved;
    let compared = results.arms.iter().filter_map(|arm| arm.compare_to);
    let published = results.references.iter().map(|of| of.arm);
    let mut named = compared
        .chain(published)
        .chain(results.courses.iter().map(|of| of.arm));
    if named.any(|arm| arm >= results.arms.len()) {
        let reason = "it names an arm that it does not have";
        return Err(Error::read(path, reason));
    }
    for run in results.arms.iter_mut().flat_map(|arm| &mut arm.runs) {
        if run.state == RunState::Done {
            let beside = folder.join(&run.folder);
            let at = if beside.exists() {
                &beside
            } else {
                &run.folder
            };
            run.report = Some(Box::new(SavedReport::read(at)?));
        }
    }
    Ok(results)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use super::*;
    use crate::ReportFolder;
    use crate::study::file::PublishedCourse;
    use crate::tests::records as sample;

    /// If this fails, the page that is made of a study's folder tells something else than its
    /// tables.
    #[test]
    fn results_are_read_back_as_they_were_with_their_reports() {
        let root = tempfile::tempdir().unwrap();
        let mut results = crate::tests::results::results();
        results.arms.iter_mut().for_each(|arm| arm.runs.truncate(2));
        results.arms[1].runs[0].state = RunState::Failed("it exploded".to_owned());
        results.arms[1].runs[1].state = RunState::NotRun;
        results.arms[1]
            .runs
            .iter_mut()
            .for_each(|run| run.report = None);
        results.arms[1].timing = vec!["why".to_owned()];
        results.courses = vec![PublishedCourse {
            arm: 1,
            metric: "hr@10".to_owned(),
            points: vec![(1, 0.25), (2, 0.5)],
        }];
        for (number, run) in results.arms[0].runs.iter_mut().enumerate() {
            run.folder = Path::new("runs").join(number.to_string());
            let folder = root.path().join(&run.folder);
            ReportFolder::create(&folder, true)
                .unwrap()
                .write(&sample::run(3))
                .unwrap();
            run.report = Some(Box::new(SavedReport::read(&folder).unwrap()));
        }
        let path = root.path().join(FILE_NAME);
        let text = render(&results, results.answer()).unwrap();
        assert!(
            text.contains("\"sentence\": \"Popularity is ahead of dense: HR@10 .411; dense "),
            "{text}"
        );
        fs::write(&path, &text).unwrap();
        let found = read(root.path()).unwrap();
        // What was worked out for the answer is kept.
        found.answer();
        assert_eq!(found, results);
        for (from, to, told) in [
            (
                "\"format\": 1",
                "\"format\": 2",
                "version 2, and this program reads version 1",
            ),
            (
                "\"compare_to\": 0",
                "\"compare_to\": 2",
                "an arm that it does not have",
            ),
            (
                "\"courses\": [\n    {\n      \"arm\": 1",
                "\"courses\": [\n    {\n      \"arm\": 7",
                "an arm that it does not have",
            ),
            ("\"seed\": 1", "\"seed\": -1", "results.json"),
        ] {
            fs::write(&path, text.replacen(from, to, 1)).unwrap();
            let error = read(root.path()).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
    }
}
