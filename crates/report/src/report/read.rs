//! Reads a report back: what `run.json` and `rounds.csv` say of a run, as far as runs are compared.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::csv::share_column;
use super::exporter::RUN_JSON;
use super::record::{
    AuditRecord, ByDirection, FORMAT, Flow, PrivacyRecord, SPARSITY_THRESHOLDS, SplitAccuracy,
    Wall, Work,
};
use fedrecsim_core::error::{Error, Result};
use fedrecsim_scenario::scenario::CodecSpec;

/// The file with the rounds of a report.
const ROUNDS_CSV: &str = "rounds.csv";

/// What the names of columns of test figures begin with.
const TEST: &str = "test_";

/// A report that was read back.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedReport {
    /// The folder that it was read from.
    pub folder: PathBuf,
    /// The run as a whole.
    pub run: SavedRun,
    /// Every finished round, in order.
    pub rounds: Vec<SavedRound>,
}

/// What `run.json` says of a run. The fields are those of [`RunRecord`](super::record::RunRecord).
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct SavedRun {
    /// Name of the scenario.
    pub name: String,
    /// The seed.
    pub seed: u64,
    /// Result digest (hexadecimal).
    pub digest: String,
    /// Number of finished rounds.
    pub rounds: u32,
    /// Whether every round of the scenario was finished.
    pub complete: bool,
    /// Why the run stopped early, in words.
    #[serde(default)]
    pub stopped_by: Option<String>,
    /// Whether the run is complete and no update was ever used, although its method learns from
    /// updates.
    #[serde(default)]
    pub learned_nothing: bool,
    /// The round (from 1) that the run is judged by.
    pub selected_round: Option<u32>,
    /// Accuracy at the selected round.
    pub accuracy: SplitAccuracy,
    /// Protocol in words, to stand beside every accuracy.
    pub protocol: String,
    /// The trivial baselines on the same split and candidates, by name.
    #[serde(default)]
    pub baselines: BTreeMap<String, SplitAccuracy>,
    /// Bytes of the whole run.
    pub bytes: ByDirection<Flow>,
    /// Bytes that the evaluated users would download in order to score after the selected round.
    #[serde(default)]
    pub inference_bytes: Option<u64>,
    /// Training work of the whole run, and downloads that led to nothing.
    #[serde(default)]
    pub work: Work,
    /// What a probe could read out of the uploads, over all audited rounds.
    #[serde(default)]
    pub audit: Option<AuditRecord>,
    /// What is claimed of users' privacy.
    #[serde(default)]
    pub privacy: Option<PrivacyRecord>,
    /// Virtual time at the end of the last finished round.
    pub virtual_time_s: f64,
    /// The scenario as resolved.
    pub scenario: Value,
    /// What the program was built from, and its version.
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
    /// BLAKE3 of the executable; empty if it is not known.
    #[serde(default)]
    pub executable: String,
    /// Other builds that earlier rounds were made by.
    #[serde(default)]
    pub other_builds: Vec<String>,
    /// Figures of the host.
    pub wall: Wall,
}

impl SavedRun {
    /// Returns the bytes that the server sent. Where clients downloaded the rows alone that they
    /// trained on, what the evaluated users would download in order to score is among them, since
    /// nobody scores with these rows.
    pub(crate) fn down_bytes(&self) -> u64 {
        let codec = self
            .scenario
            .get("codec")
            .and_then(|codec| CodecSpec::deserialize(codec).ok());
        let to_score = codec
            .filter(CodecSpec::downloads_needed_rows)
            .and(self.inference_bytes);
        self.bytes.down.sent + to_score.unwrap_or_default()
    }
}

/// What `rounds.csv` says of a finished round.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedRound {
    /// The round, from 1.
    pub round: u32,
    /// Virtual time at the end of the round.
    pub virtual_time_s: f64,
    /// Bytes sent by clients from the first round to the end of this one.
    pub up_bytes: u64,
    /// Bytes sent by the server from the first round to the end of this one.
    pub down_bytes: u64,
    /// The figures on the test part by their names; empty if the round was not evaluated.
    pub test: BTreeMap<String, f64>,
    /// The shares of the averaged shared table's values whose magnitude is above each of
    /// [`SPARSITY_THRESHOLDS`]; `None` if no table was averaged.
    pub averaged_above: Option<[f64; SPARSITY_THRESHOLDS.len()]>,
}

impl SavedReport {
    /// Reads the report in `folder`.
    ///
    /// # Errors
    /// [`Error::Read`] for a file that is not there, is not that of a report, or is of a version of
    /// the layout that this program does not read, and for rounds that are not as many as the run
    /// says.
    pub fn read(folder: &Path) -> Result<Self> {
        let run = SavedRun::read(folder)?;
        let path = folder.join(ROUNDS_CSV);
        let rounds = rounds(&path)?;
        if rounds.len() != run.rounds as usize {
            let found = rounds.len();
            return Err(Error::read(
                path,
                format!("it has {found} rounds, and run.json says {}", run.rounds),
            ));
        }
        Ok(Self {
            folder: folder.to_owned(),
            run,
            rounds,
        })
    }
}

impl SavedRun {
    /// Reads the `run.json` in `folder`.
    ///
    /// # Errors
    /// [`Error::Read`], as [`SavedReport::read`].
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(RUN_JSON);
        let text = fs::read(&path).map_err(|reason| Error::read(&path, reason))?;
        let refuse = |reason: String| {
            Error::read(
                &path,
                format!("it is not the run.json of a report: {reason}"),
            )
        };
        let run: Value =
            serde_json::from_slice(&text).map_err(|reason| refuse(reason.to_string()))?;
        match run.get("format").and_then(Value::as_u64) {
            None => return Err(refuse("it has no `format`".to_owned())),
            Some(format) if format != u64::from(FORMAT) => {
                let reason = format!(
                    "its layout has version {format}, and this program reads version {FORMAT}"
                );
                return Err(Error::read(&path, reason));
            }
            Some(_) => {}
        }
        serde_json::from_value(run).map_err(|reason| refuse(reason.to_string()))
    }

    /// Returns why the run has no result to compare: it stopped early, or it learned nothing;
    /// `None` if it has one.
    pub fn failure(&self) -> Option<String> {
        if self.learned_nothing {
            return Some("it has learned nothing: no update was ever used".to_owned());
        }
        let why = self
            .stopped_by
            .as_deref()
            .unwrap_or("the reason was not recorded");
        (!self.complete).then(|| format!("stopped after round {}: {why}", self.rounds))
    }
}

/// Reads the rows of `rounds.csv`.
fn rounds(path: &Path) -> Result<Vec<SavedRound>> {
    let refuse = |reason: csv::Error| Error::read(path, reason);
    let mut reader = csv::Reader::from_path(path).map_err(refuse)?;
    let header = reader.headers().map_err(refuse)?.clone();
    let place = |name: &str| {
        let found = header.iter().position(|column| column == name);
        found.ok_or_else(|| Error::read(path, format!("it has no column `{name}`")))
    };
    let (round, time) = (place("round")?, place("virtual_time_s")?);
    let (up, down) = (
        place("cumulative_up_sent_bytes")?,
        place("cumulative_down_sent_bytes")?,
    );
    let figures: Vec<(usize, &str)> = header
        .iter()
        .enumerate()
        .filter_map(|(place, name)| Some((place, name.strip_prefix(TEST)?)))
        .collect();
    let column = |threshold: f32| {
        header
            .iter()
            .position(|column| column == share_column(threshold, "averaged"))
    };
    let shares: Option<Vec<usize>> = SPARSITY_THRESHOLDS.into_iter().map(column).collect();
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(refuse)?;
        let line = record.position().map_or(0, csv::Position::line);
        let row = Row {
            path,
            line,
            header: &header,
            record: &record,
        };
        let mut test = BTreeMap::new();
        for &(place, name) in &figures {
            if record.get(place).is_some_and(|cell| !cell.is_empty()) {
                test.insert(name.to_owned(), row.number(place)?);
            }
        }
        rows.push(SavedRound {
            round: row.parsed(round)?,
            virtual_time_s: row.number(time)?,
            up_bytes: row.parsed(up)?,
            down_bytes: row.parsed(down)?,
            test,
            averaged_above: row.shares(shares.as_deref())?,
        });
    }
    Ok(rows)
}

/// A row of a file, which knows where it stands.
struct Row<'a> {
    path: &'a Path,
    line: u64,
    header: &'a csv::StringRecord,
    record: &'a csv::StringRecord,
}

impl Row<'_> {
    fn parsed<T: std::str::FromStr>(&self, place: usize) -> Result<T> {
        let cell = self.record.get(place).unwrap_or_default();
        cell.parse().map_err(|_| Error::MalformedLine {
            path: self.path.to_owned(),
            line: self.line,
            message: format!(
                "{cell:?} is no value of the column `{}`",
                self.header.get(place).unwrap_or_default()
            ),
        })
    }

    /// Returns the numbers at these places; `None` if there are no such places, or nothing stands
    /// there.
    fn shares(&self, places: Option<&[usize]>) -> Result<Option<[f64; SPARSITY_THRESHOLDS.len()]>> {
        let is_there = |place: &usize| self.record.get(*place).is_some_and(|cell| !cell.is_empty());
        let Some(places) = places.filter(|places| places.iter().all(is_there)) else {
            return Ok(None);
        };
        let shares = places
            .iter()
            .map(|place| self.number(*place))
            .collect::<Result<Vec<f64>>>()?;
        Ok(shares.try_into().ok())
    }

    /// Returns a number that is finite, as all are that a report has.
    fn number(&self, place: usize) -> Result<f64> {
        let number: f64 = self.parsed(place)?;
        if number.is_finite() {
            return Ok(number);
        }
        let message = format!(
            "`{}` is not a finite number",
            self.header.get(place).unwrap_or_default()
        );
        Err(Error::MalformedLine {
            path: self.path.to_owned(),
            line: self.line,
            message,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::report::record::RunRecord;
    use crate::report::{ReportFolder, cost, sample};

    fn written(record: &RunRecord) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        ReportFolder::create(folder.path(), true)
            .unwrap()
            .write(record)
            .unwrap();
        folder
    }

    /// If this fails, a table of a study shows other figures than the reports of its runs.
    #[test]
    fn a_report_is_read_back_as_it_was_written() {
        let record = sample::evaluated_every(2, 5);
        let folder = written(&record);
        let report = SavedReport::read(folder.path()).unwrap();
        assert_eq!(
            (report.run.seed, &report.run.digest),
            (record.seed, &record.digest)
        );
        assert_eq!(report.run.accuracy, record.accuracy);
        assert_eq!(
            (&report.run.bytes, report.run.wall),
            (&record.bytes, record.wall)
        );
        assert_eq!(
            report.run.scenario,
            serde_json::to_value(&record.scenario).unwrap()
        );
        assert_eq!(
            (report.run.failure(), &report.run.protocol),
            (None, &record.protocol)
        );
        for ((read, round), cost) in report
            .rounds
            .iter()
            .zip(&record.per_round)
            .zip(cost::by_round(&record))
        {
            assert_eq!(
                (read.round, read.virtual_time_s),
                (round.round, round.virtual_time_s)
            );
            assert_eq!(
                (read.up_bytes, read.down_bytes),
                (cost.up_bytes, cost.down_bytes)
            );
            let test = round
                .accuracy
                .as_ref()
                .map(|accuracy| accuracy.test.clone())
                .unwrap_or_default();
            assert_eq!(
                read.averaged_above,
                round.sparsity.map(|sparsity| sparsity.averaged)
            );
            assert_eq!(
                read.test.clone().into_iter().collect::<Vec<_>>(),
                test.into_iter().collect::<Vec<_>>()
            );
        }
        assert!(
            report.rounds.iter().any(|round| round.test.is_empty()),
            "the sample skips no evaluation"
        );
        assert!(
            report
                .rounds
                .iter()
                .any(|round| round.averaged_above.is_some()),
            "the sample shares no table"
        );
        let without = SavedReport::read(written(&sample::popularity()).path()).unwrap();
        assert!(
            without
                .rounds
                .iter()
                .all(|round| round.averaged_above.is_none())
        );
    }

    /// If this fails, the figures of a run that was stopped enter a mean as if it had come to its
    /// end.
    #[test]
    fn a_run_without_a_result_says_why() {
        let folder = written(&sample::interrupted(12, 60));
        let run = SavedRun::read(folder.path()).unwrap();
        assert_eq!(
            run.failure().as_deref(),
            Some("stopped after round 12: interrupted")
        );
    }

    /// If this fails, a report of another version or one that is cut off is misread.
    #[test]
    fn what_is_not_a_whole_report_of_this_version_is_refused() {
        let folder = written(&sample::run(3));
        let refused = |name: &str, change: &dyn Fn(String) -> String| {
            let path = folder.path().join(name);
            let text = fs::read_to_string(&path).unwrap();
            fs::write(&path, change(text.clone())).unwrap();
            let error = SavedReport::read(folder.path()).unwrap_err();
            fs::write(&path, text).unwrap();
            error.to_string()
        };
        let told = refused("run.json", &|text| {
            text.replacen("\"format\": 1", "\"format\": 2", 1)
        });
        assert!(
            told.contains("version 2, and this program reads version 1"),
            "{told}"
        );
        assert!(
            refused("run.json", &|text| text.replacen("\"format\": 1,", "", 1))
                .contains("no `format`")
        );
        assert!(refused("run.json", &|text| text[..50].to_owned()).contains("not the run.json"));
        let without_last = |text: String| {
            text.lines()
                .take(3)
                .map(|line| format!("{line}\n"))
                .collect::<String>()
        };
        let told = refused("rounds.csv", &without_last);
        assert!(
            told.contains("it has 2 rounds, and run.json says 3"),
            "{told}"
        );
        let told = refused("rounds.csv", &|text| text.replace("\n2,", "\ntwo,"));
        assert!(
            told.contains("rounds.csv:3: \"two\" is no value of the column `round`"),
            "{told}"
        );
        assert!(
            refused("rounds.csv", &|text| text.replacen(
                "virtual_time_s",
                "x",
                1
            ))
            .contains("no column")
        );
        assert!(SavedReport::read(&folder.path().join("absent")).is_err());
    }
}
