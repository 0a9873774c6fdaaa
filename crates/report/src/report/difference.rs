//! Says in what two reports differ, as far as they tell results.

use std::fmt;
use std::path::Path;

use serde_json::Value;

use super::exporter::RUN_JSON;
use super::read;
use fedrecsim_core::error::{Error, Result};
use fedrecsim_scenario::scenario::{self, Difference};

/// Keys of `run.json` that do not belong to the result, or are compared for themselves.
const NOT_COMPARED: [&str; 9] = [
    "name",
    "command",
    "versions",
    "executable",
    "other_builds",
    "wall",
    "scenario",
    "digest",
    "stopped_by",
];

/// What is compared of a report.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    /// The name under which it is shown: the path that it was read from.
    shown: String,
    run: Value,
    rounds: Option<Rounds>,
}

/// The rows of `rounds.csv`.
#[derive(Clone, Debug)]
struct Rounds {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Report {
    /// Reads a report: `path` is its folder or its `run.json`. Its `rounds.csv` is read if it is in
    /// the folder.
    ///
    /// # Errors
    /// [`Error::Read`] for a file that is not there or is not that of a report.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let file = if path.is_dir() {
            path.join(RUN_JSON)
        } else {
            path.to_owned()
        };
        let run = read::json(&file)?;
        for key in ["digest", "rounds", "scenario"] {
            if run.get(key).is_none() {
                let reason = format!("it is not the run.json of a report: it has no `{key}`");
                return Err(Error::read(&file, reason));
            }
        }
        // Beside a file of another name there may be the rounds of another run.
        let beside = (file.file_name() == Some(RUN_JSON.as_ref()))
            .then(|| file.with_file_name("rounds.csv"));
        let rounds = beside
            .filter(|path| path.exists())
            .map(|path| Rounds::read(&path))
            .transpose()?;
        Ok(Self {
            shown: path.display().to_string(),
            run,
            rounds,
        })
    }

    fn digest(&self) -> &Value {
        &self.run["digest"]
    }
}

impl Rounds {
    fn read(path: &Path) -> Result<Self> {
        let refuse = |reason: csv::Error| Error::read(path, reason);
        let mut reader = csv::Reader::from_path(path).map_err(refuse)?;
        let cells =
            |record: &csv::StringRecord| record.iter().map(str::to_owned).collect::<Vec<String>>();
        let columns = cells(reader.headers().map_err(refuse)?);
        let rows = reader
            .records()
            .map(|record| record.map(|record| cells(&record)));
        Ok(Self {
            columns,
            rows: rows.collect::<csv::Result<_>>().map_err(refuse)?,
        })
    }
}

/// What two reports differ in.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The names of the two reports.
    pub shown: [String; 2],
    /// The keys of the scenarios that differ.
    pub scenario: Vec<Difference>,
    /// What the results differ in, in sentences; the first round that differs comes first.
    pub results: Vec<String>,
    /// What could not be compared, in sentences.
    pub remarks: Vec<String>,
    /// The digest of both, if they are equal.
    digest: String,
}

impl Comparison {
    /// Compares two reports.
    pub(crate) fn of(one: &Report, other: &Report) -> Self {
        let mut results = Vec::new();
        let mut remarks = Vec::new();
        match (&one.rounds, &other.rounds) {
            (Some(ours), Some(theirs)) => results.extend(first_round(ours, theirs, [&one.shown, &other.shown])),
            _ => remarks.push(
                "The rounds were not compared, as there is no rounds.csv beside both; the totals of run.json were."
                    .to_owned(),
            ),
        }
        if results.is_empty() {
            results.extend(first_total(one, other));
        }
        if one.digest() != other.digest() {
            let [ours, theirs] =
                [one, other].map(|report| report.digest().as_str().unwrap_or_default());
            let rest = if results.is_empty() {
                "Every figure is equal, but the parameters are not: the"
            } else {
                "The"
            };
            results.push(format!(
                "{rest} digest is {ours} in {} and {theirs} in {}.",
                one.shown, other.shown
            ));
        }
        Self {
            shown: [one.shown.clone(), other.shown.clone()],
            scenario: scenario::differences(&one.run["scenario"], &other.run["scenario"]),
            results,
            remarks,
            digest: one.digest().as_str().unwrap_or_default().to_owned(),
        }
    }

    /// Returns whether nothing differs.
    pub fn is_equal(&self) -> bool {
        self.scenario.is_empty() && self.results.is_empty()
    }
}

/// Tells what differs, in lines of their own.
impl fmt::Display for Comparison {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [one, other] = &self.shown;
        if self.is_equal() {
            writeln!(out, "{one} and {other} are equal: digest {}", self.digest)?;
        }
        if !self.scenario.is_empty() {
            writeln!(out, "The scenarios of {one} and {other} differ in:")?;
            self.scenario
                .iter()
                .try_for_each(|difference| writeln!(out, "  {difference}"))?;
            if self.results.is_empty() {
                writeln!(out, "The results are equal all the same.")?;
            }
        }
        self.results
            .iter()
            .chain(&self.remarks)
            .try_for_each(|line| writeln!(out, "{line}"))
    }
}

/// Returns in which round and figure two tables differ first, and in what else, as sentences.
fn first_round(ours: &Rounds, theirs: &Rounds, [one, other]: [&str; 2]) -> Vec<String> {
    let mut told = Vec::new();
    let position = |column: &String| theirs.columns.iter().position(|theirs| theirs == column);
    let shared: Vec<(usize, usize)> = ours
        .columns
        .iter()
        .enumerate()
        .filter_map(|(place, column)| Some((place, position(column)?)))
        .collect();
    let differing = ours
        .rows
        .iter()
        .zip(&theirs.rows)
        .find_map(|(our_row, their_row)| {
            let mut places = shared
                .iter()
                .filter(|(our, their)| our_row.get(*our) != their_row.get(*their));
            let (our, their) = *places.next()?;
            Some((our_row, our, &their_row[their], places.count()))
        });
    if let Some((row, place, theirs, others)) = differing {
        let column = &ours.columns[place];
        let value = |text: &str| {
            if text.is_empty() {
                "absent".to_owned()
            } else {
                text.to_owned()
            }
        };
        let others = match others {
            0 => String::new(),
            1 => "; one other figure of the round differs as well".to_owned(),
            many => format!("; {many} other figures of the round differ as well"),
        };
        let (ours, theirs) = (value(&row[place]), value(theirs));
        // The first column is the number of the round.
        told.push(format!(
            "Round {}: {column} is {ours} in {one} and {theirs} in {other}{others}.",
            row[0]
        ));
    }
    if ours.rows.len() != theirs.rows.len() {
        told.push(format!(
            "{one} has {} rounds, and {other} has {}.",
            ours.rows.len(),
            theirs.rows.len()
        ));
    }
    let only = |from: &Rounds, not_in: &Rounds, whose: &str| -> Option<String> {
        let columns: Vec<&str> = from
            .columns
            .iter()
            .filter(|column| !not_in.columns.contains(column))
            .map(String::as_str)
            .collect();
        (!columns.is_empty())
            .then(|| format!("Only {whose} has the figures {}.", columns.join(", ")))
    };
    told.extend(
        [only(ours, theirs, one), only(theirs, ours, other)]
            .into_iter()
            .flatten(),
    );
    told
}

/// Returns the first figure of `run.json` in which two reports differ, and how many others there
/// are, as a sentence.
fn first_total(one: &Report, other: &Report) -> Option<String> {
    let [ours, theirs] = [one, other].map(|report| {
        let mut run = report.run.clone();
        if let Some(run) = run.as_object_mut() {
            NOT_COMPARED
                .iter()
                .for_each(|key| drop(run.shift_remove(*key)));
        }
        run
    });
    let differences = scenario::differences(&ours, &theirs);
    let (first, others) = differences.split_first()?;
    let others = match others.len() {
        0 => String::new(),
        1 => "; one other key differs as well".to_owned(),
        many => format!("; {many} other keys differ as well"),
    };
    Some(format!("The totals differ in {first}{others}."))
}

/// Returns the comparison of the reports at two paths.
///
/// # Errors
/// As [`Report::read`].
pub fn compare(one: &Path, other: &Path) -> Result<Comparison> {
    Ok(Comparison::of(&Report::read(one)?, &Report::read(other)?))
}
