//! Reads back from a report folder what the page of a run shows.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::report::exporter::RUN_JSON;
use crate::report::read::SavedRun;
use crate::report::record::{
    AuditRecord, ByDirection, DeviceBytes, Distribution, Energy, FORMAT, Flow, LossTotals,
    NetworkSummary, ParticipationTotals, PrivacyRecord, ProblemSize, RoundRecord, RunRecord,
    SPARSITY_THRESHOLDS, Sparsity, SplitAccuracy, VersionsCost, Work,
};
use fedrecsim_core::error::{Error, Result};
use fedrecsim_scenario::scenario::{self, MethodVocabulary, Policy, Scenario};

/// The rows of a CSV file of a report, by the names of their columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rows {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Rows {
    /// Reads `text`, which is that of the file at `path`.
    ///
    /// # Errors
    /// [`Error::Read`] for text that is no table.
    pub(super) fn parse(text: &str, path: &Path) -> Result<Self> {
        let refuse = |reason: csv::Error| Error::read(path, reason);
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let cells =
            |record: &csv::StringRecord| record.iter().map(str::to_owned).collect::<Vec<String>>();
        let header = cells(reader.headers().map_err(refuse)?);
        let rows = reader
            .records()
            .map(|record| record.map(|record| cells(&record)));
        Ok(Self {
            header,
            rows: rows.collect::<csv::Result<_>>().map_err(refuse)?,
        })
    }

    fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(|reason| Error::read(path, reason))?;
        Self::parse(&text, path)
    }

    /// Returns the numbers of a column, with `None` for an empty cell; all `None` if there is no
    /// such column.
    pub(super) fn numbers(&self, name: &str) -> Vec<Option<f64>> {
        let place = self.header.iter().position(|column| column == name);
        self.rows
            .iter()
            .map(|row| row.get(place?)?.parse().ok())
            .collect()
    }

    /// Returns the cell of a row as a value of its kind; the default where it is empty or not
    /// there.
    fn cell<T: std::str::FromStr + Default>(&self, row: usize, name: &str) -> T {
        self.number(row, name).unwrap_or_default()
    }

    fn number<T: std::str::FromStr>(&self, row: usize, name: &str) -> Option<T> {
        let place = self.header.iter().position(|column| column == name)?;
        self.rows[row].get(place)?.parse().ok()
    }

    /// Returns the figures of a row whose columns begin with `prefix`.
    fn figures(&self, row: usize, prefix: &str) -> BTreeMap<String, f64> {
        let named = |column: &String| {
            let figure = column.strip_prefix(prefix)?;
            Some((figure.to_owned(), self.number(row, column)?))
        };
        self.header.iter().filter_map(named).collect()
    }
}

/// What `run.json` says besides what [`SavedRun`] holds.
#[derive(Deserialize)]
struct Rest {
    #[serde(default)]
    uploads_were_empty: bool,
    #[serde(default = "yes")]
    draws_negatives: bool,
    #[serde(default)]
    third_party_bytes: Option<ByDirection<Flow>>,
    #[serde(default)]
    versions_cost: Option<VersionsCost>,
    #[serde(default)]
    audit: Option<AuditRecord>,
    #[serde(default)]
    privacy: Option<PrivacyRecord>,
    participations: ParticipationTotals,
    losses: LossTotals,
    #[serde(default)]
    network: Option<NetworkSummary>,
    device_bytes: DeviceBytes,
    work: Work,
    #[serde(default)]
    energy: Option<Energy>,
    durations: BTreeMap<String, Distribution>,
    size: ProblemSize,
    policy: Policy,
    #[serde(default)]
    warnings: Vec<String>,
    command: Vec<String>,
    versions: BTreeMap<String, String>,
    #[serde(default)]
    executable: String,
    #[serde(default)]
    other_builds: Vec<String>,
}

/// Returns the record of the report in `folder` as far as a page shows it, and the rows of its
/// `network.csv`.
///
/// # Errors
/// [`Error::Read`] for a file that is not there or is not that of a report, and the errors of a
/// scenario whose method is not among `vocabulary`.
pub(super) fn read(folder: &Path, vocabulary: &[MethodVocabulary]) -> Result<(RunRecord, Rows)> {
    let run = SavedRun::read(folder)?;
    let path = folder.join(RUN_JSON);
    let text = fs::read(&path).map_err(|reason| Error::read(&path, reason))?;
    let rest: Rest = serde_json::from_slice(&text).map_err(|reason| {
        Error::read(
            &path,
            format!("it is not the run.json of a report: {reason}"),
        )
    })?;
    let scenario = scenario_of(&run.name, &run.scenario, vocabulary)?;
    let rows = Rows::read(&folder.join("rounds.csv"))?;
    let network = Rows::read(&folder.join("network.csv"))?;
    let per_round: Vec<RoundRecord> = (0..rows.rows.len()).map(|row| round(&rows, row)).collect();
    if per_round.len() != run.rounds as usize || network.rows.len() != per_round.len() {
        return Err(Error::read(
            folder,
            format!(
                "run.json tells of {} rounds, rounds.csv of {} and network.csv of {}",
                run.rounds,
                per_round.len(),
                network.rows.len()
            ),
        ));
    }
    Ok((record(run, rest, scenario, per_round), network))
}

/// Says that negatives were drawn, where an older report says nothing about it.
fn yes() -> bool {
    true
}

/// Returns the scenario that `run.json` holds.
fn scenario_of(name: &str, saved: &Value, vocabulary: &[MethodVocabulary]) -> Result<Scenario> {
    let text = toml::to_string(saved)
        .map_err(|reason| Error::Usage(format!("scenario {name}: {reason}")))?;
    let mut scenario = scenario::parse(&text, &format!("{name}.toml"), &[], vocabulary)?;
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

fn record(run: SavedRun, rest: Rest, scenario: Scenario, per_round: Vec<RoundRecord>) -> RunRecord {
    RunRecord {
        format: FORMAT,
        name: run.name,
        seed: run.seed,
        digest: run.digest,
        rounds: run.rounds,
        complete: run.complete,
        stopped_by: run.stopped_by,
        learned_nothing: run.learned_nothing,
        uploads_were_empty: rest.uploads_were_empty,
        selected_round: run.selected_round,
        accuracy: run.accuracy,
        protocol: run.protocol,
        draws_negatives: rest.draws_negatives,
        baselines: run.baselines,
        bytes: run.bytes,
        third_party_bytes: rest.third_party_bytes,
        inference_bytes: run.inference_bytes,
        versions_cost: rest.versions_cost,
        audit: rest.audit,
        privacy: rest.privacy,
        participations: rest.participations,
        losses: rest.losses,
        network: rest.network,
        device_bytes: rest.device_bytes,
        work: rest.work,
        energy: rest.energy,
        virtual_time_s: run.virtual_time_s,
        durations: rest.durations,
        size: rest.size,
        policy: rest.policy,
        per_round,
        per_user: None,
        scenario,
        warnings: rest.warnings,
        command: rest.command,
        versions: rest.versions,
        executable: rest.executable,
        other_builds: rest.other_builds,
        wall: run.wall,
    }
}

/// Returns a round as far as a page shows it.
fn round(rows: &Rows, row: usize) -> RoundRecord {
    let test = rows.figures(row, "test_");
    let validation = Some(rows.figures(row, "validation_")).filter(|figures| !figures.is_empty());
    let flow = |direction: &str| {
        let bytes = |what: &str| rows.cell(row, &format!("{direction}_{what}"));
        Flow {
            sent: bytes("sent_bytes"),
            ..Flow::default()
        }
    };
    RoundRecord {
        round: rows.cell(row, "round"),
        virtual_time_s: rows.cell(row, "virtual_time_s"),
        duration_s: rows.cell(row, "duration_s"),
        invited: rows.cell(row, "invited"),
        aggregated: rows.cell(row, "aggregated"),
        dropped: rows.cell(row, "dropped"),
        cancelled: rows.cell(row, "cancelled"),
        late: rows.cell(row, "late"),
        stale: rows.cell(row, "stale"),
        loss: rows.number(row, "loss"),
        accuracy: (!test.is_empty()).then_some(SplitAccuracy { test, validation }),
        bytes: ByDirection {
            up: flow("up"),
            down: flow("down"),
        },
        sparsity: sparsity(rows, row),
        ..RoundRecord::default()
    }
}

/// Returns the sparsity after a round; `None` if the round has none.
fn sparsity(rows: &Rows, row: usize) -> Option<Sparsity> {
    let shares = |place: &str| -> Option<[f64; SPARSITY_THRESHOLDS.len()]> {
        let share = |threshold: &f32| {
            let name = if *threshold == 0.0 {
                "0".to_owned()
            } else {
                format!("{threshold:e}")
            };
            rows.number(row, &format!("c_above_{name}_{place}"))
        };
        SPARSITY_THRESHOLDS
            .iter()
            .map(share)
            .collect::<Option<Vec<f64>>>()?
            .try_into()
            .ok()
    };
    Some(Sparsity {
        uploads: shares("uploads")?,
        averaged: shares("averaged")?,
        union: rows.number(row, "c_above_0_union"),
    })
}
