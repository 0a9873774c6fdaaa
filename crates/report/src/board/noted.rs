//! What the runs of an entry came to, as it is committed: digests and figures.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::POPULARITY;
use crate::read;
use crate::study::file::{Arm, Study};
use crate::study::{Results, RunState};
use fedrecsim_core::Result;

/// The version of the layout of the file.
const FORMAT: u32 = 1;

/// The columns of a study that are noted, beside its metrics.
const COLUMNS: [&str; 6] = [
    "up_bytes",
    "down_bytes",
    "virtual_time_s",
    "epsilon",
    "audit_auc",
    "audit_linked_auc",
];

/// The results of an entry, in the order of its study.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Noted {
    /// The version of the layout.
    format: u32,
    /// Its arms that have been run.
    pub arms: Vec<NotedArm>,
}

/// The results of an arm.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NotedArm {
    /// The name, such as `track=generated, on=lan`.
    pub name: String,
    /// Tells settings from others.
    pub settings: String,
    /// The number of trials that its settings were chosen from; absent if they are as written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trials: Option<u32>,
    /// The result digest of each seed.
    pub digests: BTreeMap<u64, String>,
    /// Why it has no result; absent if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// What it is judged by.
    pub protocol: String,
    /// The number of users.
    pub users: u64,
    /// The number of them who are tested.
    pub tested_users: u64,
    /// The metrics of popularity on the same test.
    pub popularity: BTreeMap<String, f64>,
    /// The means over seeds of its metrics, and of what they cost.
    pub figures: BTreeMap<String, f64>,
    /// The intervals of metrics that hold 95 % of draws of users and seeds.
    pub intervals: BTreeMap<String, [f64; 2]>,
}

impl Noted {
    /// The name of the file.
    pub const FILE_NAME: &str = "results.json";

    /// Returns what is to be noted of those arms of `study` that have come to their end.
    pub fn of(results: &Results, study: &Study) -> Self {
        let noted = |arm: &Arm| NotedArm::of(results, arm);
        Self {
            format: FORMAT,
            arms: study.arms.iter().filter_map(noted).collect(),
        }
    }

    /// Reads what was noted of the entry in `folder`; nothing if it has no such file.
    ///
    /// # Errors
    /// [`Error::Read`](fedrecsim_core::Error::Read) for another file, and for one of a newer program.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(Self::FILE_NAME);
        match path.exists() {
            true => read::json(&path, FORMAT, "the results of an entry"),
            false => Ok(Self::default()),
        }
    }

    /// Returns the text of the file.
    ///
    /// # Errors
    /// None that results of runs give.
    pub fn render(&self) -> Result<String> {
        read::pretty(Self::FILE_NAME, self)
    }

    /// Returns the results of `now` with those of the other arms of `study` that were noted before.
    pub fn and(&self, now: Self, study: &Study) -> Self {
        let noted = |arm: &Arm| {
            let mut all = now.arms.iter().chain(&self.arms);
            all.find(|of| of.name == arm.name).cloned()
        };
        Self {
            format: FORMAT,
            arms: study.arms.iter().filter_map(noted).collect(),
        }
    }

    /// Returns in what `now` differs, in sentences that say who says which.
    pub fn moved(&self, now: &Self) -> Vec<String> {
        let mut told = Vec::new();
        for new in &now.arms {
            match self.arms.iter().find(|old| old.name == new.name) {
                Some(old) => told.extend(old.moved(new)),
                None => told.push(format!(
                    "arm `{}`: {} has nothing of it; --write notes it",
                    new.name,
                    Self::FILE_NAME
                )),
            }
        }
        told
    }
}

impl NotedArm {
    /// Returns what is to be noted of an arm; `None` if no run of it has ended.
    fn of(results: &Results, arm: &Arm) -> Option<Self> {
        let place = results.arms.iter().position(|of| of.name == arm.name)?;
        let of_arm = &results.arms[place];
        let failed = of_arm.runs.iter().find_map(|run| match &run.state {
            RunState::Failed(reason) => Some(reason.clone()),
            _ => None,
        });
        let mut noted = Self {
            name: arm.name.clone(),
            settings: settings_of(arm),
            trials: arm.chosen_from,
            failed,
            ..Self::default()
        };
        let Some(first) = of_arm.reports().next() else {
            return noted.failed.is_some().then_some(noted);
        };
        let digests = of_arm.reports().map(|report| &report.run);
        noted.digests = digests.map(|run| (run.seed, run.digest.clone())).collect();
        noted.protocol.clone_from(&first.run.protocol);
        noted.users = first.run.size.users;
        noted.tested_users = first.run.size.evaluated_users;
        let popularity = first.run.baselines.get(POPULARITY);
        for metric in &results.metrics {
            let value = popularity.and_then(|of| of.test.get(metric));
            noted
                .popularity
                .extend(value.map(|value| (metric.clone(), *value)));
            let drawn = results.estimate(place, metric);
            let interval = drawn.map(|of| (metric.clone(), [of.low, of.high]));
            noted.intervals.extend(interval);
        }
        let metrics = results.metrics.iter().map(String::as_str);
        for name in metrics.chain(COLUMNS) {
            let column = results.column(name);
            let mean = column.and_then(|column| results.summary(place, &column));
            noted
                .figures
                .extend(mean.map(|of| (name.to_owned(), of.mean)));
        }
        Some(noted)
    }

    /// Returns a figure.
    pub(super) fn figure(&self, name: &str) -> Option<f64> {
        self.figures.get(name).copied()
    }

    /// Returns in what `now` differs.
    fn moved(&self, now: &Self) -> Vec<String> {
        let (name, file) = (&now.name, Noted::FILE_NAME);
        let mut told = Vec::new();
        let result = |of: &Self| match &of.failed {
            Some(reason) => format!("failed ({reason})"),
            None => "came to its end".to_owned(),
        };
        if self.failed != now.failed {
            return vec![format!(
                "arm `{name}`: by {file} it {}, and here it {}",
                result(self),
                result(now)
            )];
        }
        for (seed, here) in &now.digests {
            match self.digests.get(seed) {
                Some(noted) if noted != here => told.push(format!(
                    "arm `{name}`, seed {seed}: the digest is {noted} by {file}, and {here} here"
                )),
                Some(_) => {}
                None => told.push(format!(
                    "arm `{name}`, seed {seed}: {file} has no digest of it"
                )),
            }
        }
        let is_left = |seed: &&u64| !now.digests.contains_key(*seed);
        told.extend(self.digests.keys().filter(is_left).map(|seed| {
            format!("arm `{name}`, seed {seed}: {file} has a digest of it, and it was not repeated")
        }));
        // What is no part of a result's digest, such as an audit.
        for (figure, here) in now.figures.iter().filter(|_| told.is_empty()) {
            let noted = self.figure(figure);
            if noted != Some(*here) {
                let noted = noted.map_or_else(|| "nothing".to_owned(), |of| of.to_string());
                return vec![format!(
                    "arm `{name}`: `{figure}` is {noted} by {file}, and {here} here, with the same digest"
                )];
            }
        }
        told
    }
}

/// Returns what tells the settings of an arm from others.
pub(super) fn settings_of(arm: &Arm) -> String {
    let digest = blake3::hash(arm.overrides().join("\n").as_bytes()).to_hex();
    digest[..16].to_owned()
}
