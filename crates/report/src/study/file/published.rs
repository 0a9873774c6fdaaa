//! Reads courses that somebody else has published for the arms of a study.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::include::text_of_shipped;
use super::{Arm, Faults};
use fedrecsim_core::metric::Metric;

/// Holds the course of a metric that somebody else has published for an arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PublishedCourse {
    /// The arm, by its place among the arms.
    pub arm: usize,
    /// The metric.
    #[serde(alias = "figure")]
    pub metric: String,
    /// Rounds, from 1 and ascending, with the value after each.
    pub points: Vec<(u32, f64)>,
}

/// The most bytes of a file of courses.
const MOST_BYTES: u64 = 16 << 20;

/// The columns that every file of courses begins with.
const COLUMNS: [&str; 2] = ["arm", "round"];

/// Reads the CSV file that `written` names. It has the columns `arm` and `round`, then one for every metric. A cell without a value is empty, and an empty name of an
/// arm repeats the one above. Notes every fault of the file.
pub(super) fn read(
    written: &Spanned<PathBuf>,
    arms: &[Arm],
    faults: &mut Faults,
) -> Vec<PublishedCourse> {
    let path = written.as_ref();
    match courses(path, arms) {
        Ok(courses) => courses,
        Err(reason) => {
            faults.at(
                written.span(),
                format!("`published_courses`, {}: {reason}", path.display()),
            );
            Vec::new()
        }
    }
}

fn courses(path: &Path, arms: &[Arm]) -> Result<Vec<PublishedCourse>, String> {
    let told = |reason: csv::Error| reason.to_string();
    let text: Box<dyn Read> = match (File::open(path), text_of_shipped(path)) {
        (Ok(file), _) => {
            let bytes = file.metadata().map_err(|reason| reason.to_string())?.len();
            if bytes > MOST_BYTES {
                return Err("it is longer than 16 MiB".to_owned());
            }
            Box::new(file)
        }
        (Err(_), Some(text)) => Box::new(text.as_bytes()),
        (Err(reason), None) => return Err(reason.to_string()),
    };
    let mut reader = csv::Reader::from_reader(text);
    let header = reader.headers().map_err(told)?.clone();
    let metrics: Vec<&str> = header.iter().skip(COLUMNS.len()).collect();
    if metrics.is_empty()
        || !header
            .iter()
            .zip(COLUMNS)
            .all(|(name, wanted)| name == wanted)
    {
        return Err(
            "its columns are `arm`, `round` and one for every metric, such as `rmse`".to_owned(),
        );
    }
    if let Some(unknown) = metrics.iter().find(|name| Metric::named(name).is_none()) {
        return Err(format!("its column `{unknown}` is no metric"));
    }
    let mut courses: Vec<PublishedCourse> = Vec::new();
    let mut current = None;
    for record in reader.records() {
        let record = record.map_err(told)?;
        let line = record.position().map_or(0, csv::Position::line);
        let at_line = |reason: String| format!("line {line}: {reason}");
        let cell = |place: usize| record.get(place).unwrap_or_default();
        let name = cell(0);
        if !name.is_empty() {
            current = arms.iter().position(|arm| arm.name == name);
        }
        let arm = current.ok_or_else(|| at_line(format!("there is no arm `{name}`")))?;
        let round = cell(1).parse().ok().filter(|round: &u32| *round > 0);
        let no_round = || at_line(format!("{:?} is no round; the first one is 1", cell(1)));
        let round = round.ok_or_else(no_round)?;
        for (place, metric) in (COLUMNS.len()..).zip(&metrics) {
            let cell = cell(place);
            if cell.is_empty() {
                continue;
            }
            let value = cell.parse().ok().filter(|value: &f64| value.is_finite());
            let value = value.ok_or_else(|| at_line(format!("{cell:?} is no finite number")))?;
            let is_its = |course: &PublishedCourse| course.arm == arm && course.metric == *metric;
            let place = courses.iter().position(is_its).unwrap_or_else(|| {
                courses.push(PublishedCourse {
                    arm,
                    metric: (*metric).to_owned(),
                    points: Vec::new(),
                });
                courses.len() - 1
            });
            let points = &mut courses[place].points;
            if points.last().is_some_and(|(last, _)| *last >= round) {
                return Err(at_line(format!(
                    "the rounds of an arm ascend, and round {round} is there or a later one is"
                )));
            }
            points.push((round, value));
        }
    }
    Ok(courses)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Returns what is read of a file with this text for the arms `a` and `b`.
    fn read_text(text: &str) -> Result<Vec<PublishedCourse>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("courses.csv");
        std::fs::write(&path, text).unwrap();
        let arm = |name: &str| Arm {
            name: name.to_owned(),
            experiment: name.to_owned(),
            base: PathBuf::new(),
            set: Vec::new(),
            values: Vec::new(),
            compare_to: None,
            space: Vec::new(),
            chosen_from: None,
        };
        courses(&path, &[arm("a"), arm("b, c=1")])
    }

    /// If this fails, a published course stands beside another arm, metric or round.
    #[test]
    fn a_course_is_that_of_its_arm_and_metric() {
        let read = read_text("arm,round,rmse,mae\na,1,1.5,1\n,3,1.25,\n\"b, c=1\",1,2,\n").unwrap();
        let course = |arm, metric: &str, points: &[(u32, f64)]| PublishedCourse {
            arm,
            metric: metric.to_owned(),
            points: points.to_vec(),
        };
        let expected = [
            course(0, "rmse", &[(1, 1.5), (3, 1.25)]),
            course(0, "mae", &[(1, 1.0)]),
            course(1, "rmse", &[(1, 2.0)]),
        ];
        assert_eq!(read, expected);
    }

    /// If this fails, a mistake in the file goes unnoticed, or the message does not say where it
    /// is.
    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, reason) in [
            ("arm,rmse\na,1\n", "its columns are"),
            ("arm,round,speed\n", "`speed` is no metric"),
            (
                "arm,round,rmse\na,1,1\nz,1,1\n",
                "line 3: there is no arm `z`",
            ),
            ("arm,round,rmse\n,1,1\n", "line 2: there is no arm ``"),
            ("arm,round,rmse\na,0,1\n", "line 2: \"0\" is no round"),
            (
                "arm,round,rmse\na,1,inf\n",
                "line 2: \"inf\" is no finite number",
            ),
            (
                "arm,round,rmse\na,2,1\n,2,1\n",
                "line 3: the rounds of an arm ascend",
            ),
            ("arm,round,rmse\na,2\n", "found record with 2 fields"),
        ] {
            let found = read_text(text).unwrap_err();
            assert!(found.contains(reason), "{text:?}: {found}");
        }
    }
}
