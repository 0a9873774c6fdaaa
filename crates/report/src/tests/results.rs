//! Makes up studies and reports for the tests of this layer.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::frame::Frame;
use crate::read::{SavedReport, SavedRun};
use crate::record::Flow;
use crate::rounds;
use crate::study::file::{self, Changes, Reference};
use crate::study::{ArmResults, Plan, Results, RunResult};
use crate::tests::records as sample;
use fedrecsim_core::Result;
use fedrecsim_methods::registry::vocabulary;

/// A study of a base with two rounds, whose axes are to be put in the place of `AXES`.
pub(crate) const STUDY: &str = "base = \"base.toml\"\nseeds = [1]\nset = {}\nAXES\n";

/// The base.
pub(crate) const BASE: &str = "method = \"fedmf\"\ndataset.name = \"generated\"\ndataset.generator = { users = 20, items = 200 }\n\
                    training.rounds = 2\n";

/// Returns the plan of the study in `text`.
pub(crate) fn plan_of(text: &str) -> Result<Plan> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("base.toml"), BASE).unwrap();
    let study = file::parse(text, &folder.path().join("study.toml"), &Changes::default())?;
    Plan::of(study, &vocabulary(), |_| true)
}

/// Returns the plan of a study whose axes all have the same `key`.
pub(crate) fn try_plan(axes: &[(&str, &[&str])], seeds: &[u64], key: &str) -> Result<Plan> {
    let mut text = String::new();
    for (name, values) in axes {
        let values = values.join(", ");
        text.push_str(&format!(
            "[[axes]]\nname = \"{name}\"\nkey = \"{key}\"\nvalues = [{values}]\n"
        ));
    }
    plan_of(
        &STUDY
            .replace("AXES", &text)
            .replace("seeds = [1]", &format!("seeds = {seeds:?}")),
    )
}

/// Returns the plan of a study with one axis. Values that are no numbers get numbers of rounds.
pub(crate) fn plan(axes: &[(&str, &[&str])], seeds: &[u64]) -> Plan {
    let numbered: Vec<String> = axes[0]
        .1
        .iter()
        .zip(3..)
        .map(|(value, round)| match value.parse::<u32>() {
            Ok(_) => (*value).to_owned(),
            Err(_) => format!("{{ name = \"{value}\", value = {round} }}"),
        })
        .collect();
    let numbered: Vec<&str> = numbered.iter().map(String::as_str).collect();
    try_plan(&[(axes[0].0, &numbered)], seeds, "training.rounds").unwrap()
}

/// Returns the report of a run with this seed whose `hr@10` rises to `accuracy`.
pub(crate) fn report(seed: u64, accuracy: f64) -> SavedReport {
    report_of(
        seed,
        "hr@10",
        &[0.2, 0.5, 0.8, 1.0].map(|share| share * accuracy),
    )
}

/// Returns the report of a run with this seed and these values of `figure`.
pub(crate) fn report_of(seed: u64, figure: &str, values: &[f64]) -> SavedReport {
    let record = sample::run(values.len() as u32);
    let mut run: SavedRun = serde_json::from_value(serde_json::to_value(&record).unwrap()).unwrap();
    run.seed = seed;
    run.accuracy.test = [(figure.to_owned(), values[values.len() - 1])]
        .into_iter()
        .collect();
    let mut rounds = Frame::default();
    let count = values.len() as u32;
    let mut set = |name: &str, of: &dyn Fn(u32) -> f64| {
        rounds.set(name, (1..=count).map(|round| Some(of(round))).collect());
    };
    set(rounds::ROUND, &f64::from);
    set(rounds::TIME, &|round| 10.0 * f64::from(round));
    set(rounds::UP, &|round| 1e6 * f64::from(round));
    set(rounds::DOWN, &|round| 2e6 * f64::from(round));
    set(&format!("test_{figure}"), &|round| {
        values[round as usize - 1]
    });
    SavedReport {
        folder: PathBuf::new(),
        run,
        rounds,
        figures: OnceLock::new(),
        redrawn: Arc::default(),
    }
}

/// Multiplies columns of the rounds of a report.
pub(crate) fn multiply(report: &mut SavedReport, columns: &[&str], factor: f64) {
    for name in columns {
        let values = report.rounds.get(name).iter();
        let values = values
            .map(|value| value.map(|value| value * factor))
            .collect();
        report.rounds.set(name, values);
    }
}

/// Returns the results of two arms over three seeds: `dense` with accuracies around 0.5, and
/// `int8`, which has 0.05 less and sends half as much.
pub(crate) fn results() -> Results {
    let runs = |less: f64, bytes: u64| -> Vec<RunResult> {
        let run = |seed: u64| {
            let mut report = report(seed, 0.48 + 0.01 * seed as f64 - less);
            let sent = 4_000_000 / bytes;
            report.run.bytes.up = Flow {
                sent,
                delivered: sent,
                useful: sent,
                values: sent,
                ..Flow::default()
            };
            multiply(&mut report, &[rounds::UP], 1.0 / bytes as f64);
            let folder = Path::new("runs").join(seed.to_string());
            RunResult::of(folder, report)
        };
        [1, 2, 3].map(run).into()
    };
    let arm = |name: &str, compare_to, runs| ArmResults {
        name: name.to_owned(),
        experiment: None,
        timing: Vec::new(),
        compare_to,
        chosen_from: None,
        runs,
    };
    Results {
        title: "What codecs cost".to_owned(),
        arms: vec![
            arm("dense", None, runs(0.0, 1)),
            arm("int8", Some(0), runs(0.05, 2)),
        ],
        metrics: vec!["hr@10".to_owned()],
        references: vec![Reference {
            arm: 0,
            figure: "hr@10".to_owned(),
            value: 0.41,
            standard_deviation: Some(0.04),
            source: Some("FedRAP, table 3".to_owned()),
        }],
        courses: Vec::new(),
        shard: None,
    }
}
