//! Says in what two reports differ, as far as they tell results.

use std::fmt;
use std::path::Path;

use serde_json::Value;

use super::column::name_of_today;
use super::file_names::RUN_JSON;
use super::frame::Frame;
use super::read;
use super::rounds::ROUND;
use fedrecsim_core::{Error, Result};
use fedrecsim_scenario::{self as scenario, Difference, MethodVocabulary};

/// Keys of `run.json` that do not belong to the result, or are compared for themselves.
const NOT_COMPARED: [&str; 12] = [
    "format",
    "name",
    "command",
    "versions",
    "executable",
    "other_builds",
    "wall",
    "scenario",
    "digest",
    // The state follows from what the digest covers.
    "state_digest",
    "stopped_by",
    // They follow from the scenario, in words and with lines of its file.
    "warnings",
];

/// The parts of a report that are compared.
struct Report {
    /// The name under which it is shown: the path that it was read from.
    shown: String,
    run: Value,
    rounds: Option<Frame>,
}

impl Report {
    /// Reads a report: `path` is its folder or its `run.json`. Its `rounds.csv` is read if it is in
    /// the folder. The scenario of an older program has its keys where they stand now.
    ///
    /// # Errors
    /// [`Error::Read`] for a file that is not there or is not that of a report.
    fn read(path: &Path, vocabulary: &[MethodVocabulary]) -> Result<Self> {
        let file = if path.is_dir() {
            path.join(RUN_JSON)
        } else {
            path.to_owned()
        };
        let mut run: Value = read::run_json(&file)?;
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
            .map(|path| Frame::read(&path, |_| true))
            .transpose()?;
        let shown = path.display().to_string();
        for table in ["participations", "energy"] {
            if let Some(Value::Object(table)) = run.get_mut(table) {
                let renamed = std::mem::take(table).into_iter();
                *table = renamed
                    .map(|(key, value)| (name_of_today(&key).to_owned(), value))
                    .collect();
            }
        }
        run["scenario"] = read::brought_up_to_date(&shown, &run["scenario"], vocabulary);
        Ok(Self { shown, run, rounds })
    }

    fn digest(&self) -> &str {
        self.run["digest"].as_str().unwrap_or_default()
    }
}

/// What two reports differ in.
pub struct Comparison {
    /// The keys of the scenarios that differ.
    pub scenario: Vec<Difference>,
    /// The differences of the results, in sentences; the first round that differs comes first.
    pub results: Vec<String>,
    /// What could not be compared, as a sentence.
    remark: Option<&'static str>,
    /// The names of the two reports.
    shown: [String; 2],
    /// The digest of both, if they are equal.
    digest: String,
}

impl Comparison {
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
        let results = self.results.iter().map(String::as_str);
        let mut lines = results.chain(self.remark);
        lines.try_for_each(|line| writeln!(out, "{line}"))
    }
}

/// Returns the first round and figure where two tables differ, and what else differs, as sentences.
fn first_round(ours: &Frame, theirs: &Frame, [one, other]: [&str; 2]) -> Vec<String> {
    let mut told = Vec::new();
    let is_in = |frame: &Frame, name: &str| frame.names().any(|other| other == name);
    let differing = |row: usize| -> Vec<&str> {
        let shared = ours.names().filter(|name| is_in(theirs, name));
        shared
            .filter(|name| ours.at(name, row) != theirs.at(name, row))
            .collect()
    };
    let rows = 0..ours.len().min(theirs.len());
    let found = rows.map(|row| (row, differing(row)));
    if let Some((row, names)) = found.into_iter().find(|(_, names)| !names.is_empty()) {
        let value = |frame: &Frame, name| {
            let value = frame.at(name, row);
            value.map_or_else(|| "absent".to_owned(), |value| value.to_string())
        };
        let name = names[0];
        told.push(format!(
            "Round {}: {name} is {} in {one} and {} in {other}{}.",
            value(ours, ROUND),
            value(ours, name),
            value(theirs, name),
            and_others(
                names.len() - 1,
                ["figure of the round", "figures of the round"]
            )
        ));
    }
    if ours.len() != theirs.len() {
        let (ours, theirs) = (ours.len(), theirs.len());
        told.push(format!(
            "{one} has {ours} rounds, and {other} has {theirs}."
        ));
    }
    for (from, not_in, whose) in [(ours, theirs, one), (theirs, ours, other)] {
        let only: Vec<&str> = from.names().filter(|name| !is_in(not_in, name)).collect();
        if !only.is_empty() {
            told.push(format!("Only {whose} has the figures {}.", only.join(", ")));
        }
    }
    told
}

/// Returns that this many other things differ as well, as the end of a sentence.
fn and_others(count: usize, [one, several]: [&str; 2]) -> String {
    match count {
        0 => String::new(),
        1 => format!("; one other {one} differs as well"),
        many => format!("; {many} other {several} differ as well"),
    }
}

/// Returns the first figure of `run.json` that differs between two reports, and the number of
/// others, as a sentence.
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
    let others = and_others(others.len(), ["key", "keys"]);
    Some(format!("The totals differ in {first}{others}."))
}

/// Returns the comparison of the reports at two paths. `vocabulary` lists the methods that a
/// scenario may name.
///
/// # Errors
/// As [`Report::read`].
pub fn compare(one: &Path, other: &Path, vocabulary: &[MethodVocabulary]) -> Result<Comparison> {
    let (one, other) = (
        Report::read(one, vocabulary)?,
        Report::read(other, vocabulary)?,
    );
    let both_rounds = one.rounds.as_ref().zip(other.rounds.as_ref());
    let mut results = both_rounds.map_or_else(Vec::new, |(ours, theirs)| {
        first_round(ours, theirs, [&one.shown, &other.shown])
    });
    if results.is_empty() {
        results.extend(first_total(&one, &other));
    }
    let (ours, theirs) = (one.digest(), other.digest());
    if ours != theirs {
        let rest = match results.is_empty() {
            true => "Every figure is equal, but the parameters are not: the",
            false => "The",
        };
        let (one, other) = (&one.shown, &other.shown);
        results.push(format!(
            "{rest} digest is {ours} in {one} and {theirs} in {other}."
        ));
    }
    Ok(Comparison {
        scenario: scenario::differences(&one.run["scenario"], &other.run["scenario"]),
        results,
        remark: both_rounds.is_none().then_some(
            "The rounds were not compared, as there is no rounds.csv beside both; the totals of run.json were.",
        ),
        digest: ours.to_owned(),
        shown: [one.shown, other.shown],
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::record::FORMAT;
    use fedrecsim_methods::registry::vocabulary;

    /// If this fails, `diff` says that two runs of one scenario differ in keys that have only moved.
    #[test]
    fn keys_that_have_moved_are_no_difference() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/old-report");
        let old: Value = read::run_json(&folder.join(RUN_JSON)).unwrap();
        let scenario = read::scenario_of("old", &old["scenario"], &vocabulary()).unwrap();
        let mut new = old.clone();
        new["scenario"] = serde_json::to_value(scenario).unwrap();
        new["format"] = FORMAT.into();
        assert_ne!(old["scenario"], new["scenario"]);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), new.to_string()).unwrap();
        let comparison = compare(&folder.join(RUN_JSON), file.path(), &vocabulary()).unwrap();
        assert!(comparison.is_equal(), "{comparison}");
    }
}
