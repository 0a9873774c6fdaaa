//! Runs the scenarios that are as large as this program promises to hold, each in a process of its
//! own.
//!
//! A run that takes more memory or time than promised ends the benchmark with an error. The limits
//! are those of two cores with nothing else to do, and leave a multiple of what is needed.
#![allow(clippy::expect_used)] // A benchmark without its program or its folder has nothing better to do than to stop.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

const GB: f64 = 1e9;

/// A scenario and the most that it may take.
struct Limit {
    scenario: &'static str,
    peak_bytes: f64,
    total_s: Option<f64>,
}

const LIMITS: [Limit; 3] = [
    Limit {
        scenario: "generated-1m-users",
        peak_bytes: 8.0 * GB,
        total_s: Some(300.0),
    },
    Limit {
        scenario: "ml1m-fedrap",
        peak_bytes: 4.0 * GB,
        total_s: None,
    },
    Limit {
        scenario: "generated-24000x7500-fedrap",
        peak_bytes: 8.0 * GB,
        total_s: None,
    },
];

/// Part of the program's message if a data set is missing.
const NO_DATA: &str = "there is no such file";

/// Runs all of them, one after the other, and returns what was wrong, in words.
pub(crate) fn runs() -> Vec<String> {
    LIMITS.iter().filter_map(|limit| run(limit).err()).collect()
}

fn run(limit: &Limit) -> Result<(), String> {
    let name = limit.scenario;
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = tempfile::tempdir().expect("a temporary folder");
    let child = Command::new(env!("CARGO_BIN_EXE_fedrecsim"))
        .current_dir(project)
        .arg("run")
        .arg(project.join("scenarios").join(name).with_extension("toml"))
        .args(["--json", "--threads", "2", "--out"])
        .arg(out.path().join("report"))
        .stderr(Stdio::piped())
        .output()
        .expect("the program of this package");
    if !child.status.success() {
        let told = String::from_utf8_lossy(&child.stderr);
        let told = told.trim_end();
        // Without the data set there is nothing to measure, which is no error.
        if told.contains(NO_DATA) {
            println!("scale, {name}: skipped, its data set is not there");
            return Ok(());
        }
        return Err(format!("{name}: {told}"));
    }
    let report: Value =
        serde_json::from_slice(&child.stdout).map_err(|error| format!("{name}: {error}"))?;
    let figure = |place: &str| report.pointer(place).and_then(Value::as_f64);
    let (Some(total_s), Some(round_ms), Some(peak)) = (
        figure("/wall/total_s"),
        figure("/wall/per_round_ms"),
        figure("/wall/peak_rss_bytes"),
    ) else {
        return Err(format!(
            "{name}: the report has no time or no peak of memory"
        ));
    };
    println!(
        "scale, {name}: {total_s:.1} s, {:.2} s a round, {:.2} GB at most",
        round_ms / 1e3,
        peak / GB
    );
    if peak > limit.peak_bytes {
        return Err(format!(
            "{name} took {:.2} GB, more than {:.0}",
            peak / GB,
            limit.peak_bytes / GB
        ));
    }
    match limit.total_s {
        Some(most) if total_s > most => {
            Err(format!("{name} took {total_s:.0} s, more than {most:.0}"))
        }
        _ => Ok(()),
    }
}
