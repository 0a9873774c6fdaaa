//! Reads a report back from `run.json` and `rounds.csv`.
//!
//! `run.json` has the version of its layout. A report of a newer version is refused; one of an
//! older version is read, and what it does not have has its default.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use ciborium::Value as Tree;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::file_names::RUN_JSON;
use super::frame::Frame;
use super::record::{FORMAT, RunRecord};
use super::{metrics, rounds};
use fedrecsim_core::{Error, Result};
use fedrecsim_scenario::migrate::migrate;
use fedrecsim_scenario::{self as scenario, CodecSpec, MethodSpec, MethodVocabulary, Scenario};

/// A report that was read back.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedReport {
    /// The folder that it was read from.
    pub folder: PathBuf,
    /// The run as a whole.
    pub run: SavedRun,
    /// What runs are compared by of every finished round, in order.
    pub(crate) rounds: Frame,
    /// What tables read of the run, once they have.
    pub(crate) figures: OnceLock<Tree>,
    /// Its metrics over users who were drawn anew, once tables have asked for them; copies share
    /// them.
    pub(crate) redrawn: Arc<OnceLock<Redrawn>>,
}

/// The metrics of a run over users who were drawn anew, draw by draw, by their names.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Redrawn(pub(crate) Vec<(String, Vec<f64>)>);

/// The record in `run.json`, with the scenario as it stands there.
pub type SavedRun = RunRecord<Value>;

impl SavedReport {
    /// Reads the report in `folder`.
    ///
    /// # Errors
    /// [`Error::Read`] for a file that is not there or is not that of a report, for a newer version
    /// of the layout, and for rounds that are not as many as the run says.
    pub fn read(folder: &Path) -> Result<Self> {
        let run = SavedRun::read(folder)?;
        let compared = [rounds::ROUND, rounds::TIME, rounds::UP, rounds::DOWN];
        let is_wanted = |name: &str| {
            let is_share = name.starts_with("c_above_") && name.ends_with("_averaged");
            compared.contains(&name) || is_share || metrics::of_column(name).is_some()
        };
        let path = folder.join("rounds.csv");
        let rounds = Frame::read(&path, is_wanted)?;
        if let Some(missing) = compared
            .iter()
            .find(|name| rounds.names().all(|n| n != **name))
        {
            return Err(Error::read(path, format!("it has no column `{missing}`")));
        }
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
            figures: OnceLock::new(),
            redrawn: Arc::default(),
        })
    }
}

/// The longest JSON file that is read. The results of a study with thousands of runs have some MiB.
const LONGEST_JSON: u64 = 128 << 20;

/// Reads a JSON file that has the version of its layout.
///
/// # Errors
/// [`Error::Read`] for a file that is not there, has a newer version than `known`, or is not what
/// `what` says.
pub(crate) fn json<T: DeserializeOwned>(path: &Path, known: u32, what: &str) -> Result<T> {
    #[derive(Deserialize)]
    struct Layout {
        format: Option<u64>,
    }
    let refused = |reason: String| Error::read(path, format!("it is not {what}: {reason}"));
    let told = |reason: serde_json::Error| refused(reason.to_string());
    let mut text = Vec::new();
    let file = fs::File::open(path);
    // One byte above the limit is enough to know that the file is too long.
    file.and_then(|file| file.take(LONGEST_JSON + 1).read_to_end(&mut text))
        .map_err(|reason| Error::read(path, reason))?;
    if text.len() as u64 > LONGEST_JSON {
        let limit = LONGEST_JSON >> 20;
        return Err(refused(format!("it has more than {limit} MiB")));
    }
    let Layout { format } = serde_json::from_slice(&text).map_err(told)?;
    let format = format.ok_or_else(|| refused("it has no `format`".to_owned()))?;
    if format > known.into() {
        let reason = format!(
            "its layout has version {format}, and this program reads version {known}: a newer program has written it"
        );
        return Err(Error::read(path, reason));
    }
    serde_json::from_slice(&text).map_err(told)
}

/// Returns the text of a JSON file: indented, with a line break at the end.
///
/// # Errors
/// [`Error::Write`] for what JSON cannot express.
pub(crate) fn pretty(name: &str, value: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string_pretty(value);
    Ok(text.map_err(|reason| Error::write(name, reason.into()))? + "\n")
}

/// Reads `run.json`.
pub(crate) fn run_json<T: DeserializeOwned>(path: &Path) -> Result<T> {
    json(path, FORMAT, "the run.json of a report")
}

impl SavedRun {
    /// Reads the `run.json` in `folder`.
    ///
    /// # Errors
    /// [`Error::Read`], as [`SavedReport::read`].
    pub fn read(folder: &Path) -> Result<Self> {
        // A pattern such as `runs/*/*` takes in the logs that lie beside the folders.
        if folder.is_file() {
            let reason = "it is a file; a report is a folder with a run.json";
            return Err(Error::read(folder, reason));
        }
        run_json(&folder.join(RUN_JSON))
    }

    /// Returns whether the run came to its end and had the scenario `saved`, which is as
    /// [`as_saved`] returns it.
    pub fn completes(&self, saved: &Value, vocabulary: &[MethodVocabulary]) -> bool {
        self.complete && brought_up_to_date(&self.name, &self.scenario, vocabulary) == *saved
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

    /// Returns the bytes that the server sent. Where clients downloaded the rows alone that they
    /// trained on, what the evaluated users would download in order to score is among them, since
    /// nobody scores with these rows.
    pub(crate) fn down_bytes(&self) -> u64 {
        let codec = self.scenario.get("codec");
        let codec = codec.and_then(|codec| CodecSpec::deserialize(codec).ok());
        let to_score = codec
            .filter(CodecSpec::downloads_needed_rows)
            .and(self.inference_bytes);
        self.bytes.down.sent + to_score.unwrap_or_default()
    }
}

/// Returns the run whose report is in `folder`, as far as a document shows it, and the numbers of
/// its `rounds.csv` and `network.csv`.
///
/// # Errors
/// [`Error::Read`] for a file that is not there or is not that of a report, and the errors of a
/// scenario whose method is not among `vocabulary`.
pub(crate) fn whole(
    folder: &Path,
    vocabulary: &[MethodVocabulary],
) -> Result<(RunRecord, Frame, Frame)> {
    let path = folder.join(RUN_JSON);
    let refuse = |reason: serde_json::Error| {
        Error::read(
            &path,
            format!("it is not the run.json of a report: {reason}"),
        )
    };
    let mut run: Value = run_json(&path)?;
    let name = run["name"].as_str().unwrap_or_default();
    let scenario = scenario_of(name, &run["scenario"], vocabulary)?;
    run["scenario"] = serde_json::to_value(&scenario).map_err(refuse)?;
    // A method without parameters is written as its name alone.
    let MethodSpec { name, parameters } = &scenario.method;
    run["scenario"]["method"] = serde_json::json!({ name: parameters });
    let mut record = RunRecord {
        scenario,
        ..serde_json::from_value::<RunRecord>(run).map_err(refuse)?
    };
    let table = |name| Frame::read(&folder.join(name), |_| true);
    let (rounds, network) = (table("rounds.csv")?, table("network.csv")?);
    let [told, of_rounds, of_network] = [record.rounds as usize, rounds.len(), network.len()];
    if told != of_rounds || told != of_network {
        let reason = format!(
            "run.json has {told} rounds, rounds.csv {of_rounds} and network.csv {of_network}"
        );
        return Err(Error::read(folder, reason));
    }
    record.per_user = folder.join("users.csv").exists().then(Vec::new);
    Ok((record, rounds, network))
}

/// Returns the scenario that a `run.json` holds.
///
/// # Errors
/// Those of a scenario that this program does not know, as one of another program's method.
pub(crate) fn scenario_of(
    name: &str,
    saved: &Value,
    vocabulary: &[MethodVocabulary],
) -> Result<Scenario> {
    let file = format!("{name}.toml");
    let mut scenario = scenario::parse(&text_of(&file, saved)?, &file, &[], vocabulary)?;
    // A table of TOML is sorted by its keys, and the parameters had an order of their own.
    let order = saved["method"]
        .get(&scenario.method.name)
        .and_then(Value::as_object);
    if let (Some(order), Some(parameters)) = (order, scenario.method.parameters.as_object_mut()) {
        let in_order = order
            .keys()
            .filter_map(|key| parameters.remove_entry(key))
            .collect();
        let others = std::mem::replace(parameters, in_order);
        parameters.extend(others);
    }
    Ok(scenario)
}

/// Returns a saved scenario as the text of `file`. A report of an older version has keys where they
/// stood then.
fn text_of(file: &str, saved: &Value) -> Result<String> {
    let text = toml::to_string(saved)
        .map_err(|reason| Error::Usage(format!("scenario {file}: {reason}")))?;
    Ok(migrate(&text, file)?.text)
}

/// Returns a scenario as it is read back from `run.json`. It is written and read here, too, as the
/// last bit of a number may change on that way.
///
/// # Errors
/// [`Error::Usage`] for a scenario that JSON cannot express, which no file gives.
pub fn as_saved(scenario: &Scenario) -> Result<Value> {
    let saved = serde_json::to_string(scenario).and_then(|text| serde_json::from_str(&text));
    saved.map_err(|reason| Error::Usage(format!("scenario {}: {reason}", scenario.name)))
}

/// Returns a scenario as it is saved, without its seed.
pub(crate) fn without_seed(mut scenario: Value) -> Value {
    if let Some(table) = scenario.as_object_mut() {
        table.shift_remove("seed");
    }
    scenario
}

/// Returns a saved scenario with its keys where they stand now, so that reports of different
/// versions can be compared. One that this program does not know, as one of another program's method,
/// has no defaults for what it leaves out.
pub(crate) fn brought_up_to_date(
    name: &str,
    saved: &Value,
    vocabulary: &[MethodVocabulary],
) -> Value {
    let known = scenario_of(name, saved, vocabulary);
    let known = known.and_then(|scenario| as_saved(&scenario));
    let moved = || toml::from_str(&text_of(name, saved).ok()?).ok();
    (known.ok().or_else(moved)).unwrap_or_else(|| saved.clone())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::ReportFolder;
    use crate::record::RunRecord;
    use crate::tests::records as sample;

    fn written(record: &RunRecord) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        ReportFolder::create(folder.path(), true)
            .unwrap()
            .write(record)
            .unwrap();
        folder
    }

    /// If this fails, reports of one scenario by two versions are told apart where the program does
    /// not know the method.
    #[test]
    fn the_scenario_of_an_unknown_method_has_its_keys_where_they_stand_now() {
        let saved = |evaluation: Value| serde_json::json!({ "method": { "own": { "rate": 0.5 } }, "evaluation": evaluation });
        let old = saved(serde_json::json!({ "candidates": 50, "ranking": "sampled" }));
        let new = saved(serde_json::json!({ "ranking": { "sampled": { "candidates": 50 } } }));
        for scenario in [old, new.clone()] {
            assert_eq!(brought_up_to_date("a", &scenario, &[]), new);
        }
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
        let (mut up, mut down) = (0, 0);
        for (row, round) in record.per_round.iter().enumerate() {
            up += round.bytes.up.sent;
            down += round.bytes.down.sent;
            let read = |name: &str| report.rounds.at(name, row);
            assert_eq!(read("round"), Some(round.round.into()));
            assert_eq!(read("virtual_time_s"), Some(round.virtual_time_s));
            assert_eq!(read(rounds::UP), Some(up as f64));
            assert_eq!(read(rounds::DOWN), Some(down as f64));
            let test = round
                .accuracy
                .as_ref()
                .map(|accuracy| accuracy.test["hr@10"]);
            assert_eq!(read("test_hr@10"), test);
            let averaged = round.sparsity.map(|sparsity| sparsity.averaged[3]);
            assert_eq!(read("c_above_1e-4_averaged"), averaged);
        }
        let some = |name: &str| report.rounds.get(name).iter().flatten().count();
        assert!(some("test_hr@10") < 5, "the sample skips no evaluation");
        assert!(
            some("c_above_1e-4_averaged") > 0,
            "the sample shares no table"
        );
        let without = SavedReport::read(written(&sample::popularity()).path()).unwrap();
        assert!(without.rounds.get("c_above_1e-4_averaged").is_empty());
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
        let file = SavedReport::read(&folder.path().join("rounds.csv")).unwrap_err();
        assert!(file.to_string().contains("it is a file;"), "{file}");
        let refused = |name: &str, change: &dyn Fn(String) -> String| {
            let path = folder.path().join(name);
            let text = fs::read_to_string(&path).unwrap();
            fs::write(&path, change(text.clone())).unwrap();
            let error = SavedReport::read(folder.path()).unwrap_err();
            fs::write(&path, text).unwrap();
            error.to_string()
        };
        let told = refused("run.json", &|text| {
            text.replacen("\"format\": 2", "\"format\": 3", 1)
        });
        assert!(
            told.contains("version 3, and this program reads version 2"),
            "{told}"
        );
        assert!(
            refused("run.json", &|text| text.replacen("\"format\": 2,", "", 1))
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
            told.contains("rounds.csv:3: \"two\" is no finite number for the column `round`"),
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
