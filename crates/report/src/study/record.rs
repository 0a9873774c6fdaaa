//! Remembers what a study began with, so that results of two studies are never mixed in one folder.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::plan::{Plan, Shard};
use crate::read;
use fedrecsim_core::Result;
use fedrecsim_scenario::{self as scenario, MethodVocabulary};

/// The version of its layout.
const FORMAT: u32 = 1;

/// The inputs of a study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudyRecord {
    /// Version of this layout.
    pub format: u32,
    /// The title.
    pub title: String,
    /// The study file as it was.
    pub file: String,
    /// The part of the runs that this folder is for, such as `3/16`; absent if it is for all of
    /// them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<String>,
    /// The seeds.
    pub seeds: Vec<u64>,
    /// The arms.
    pub arms: Vec<ArmRecord>,
}

/// An arm that a study began with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArmRecord {
    /// Its name.
    pub name: String,
    /// Its scenario as resolved, without the seed.
    pub scenario: Value,
    /// The memory that one of its runs was estimated to need; absent if there is no estimate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// The wall-clock time that one of its rounds was estimated to take; absent if there is no
    /// estimate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_s: Option<f64>,
    /// The part of that time that is neither training nor scoring, which more threads may not
    /// shorten; absent if there is no estimate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial_s: Option<f64>,
}

impl StudyRecord {
    /// The name of the file in the study's folder.
    pub const FILE_NAME: &str = "study.json";

    /// Returns the record of `plan`, whose file has this text. Estimates are taken over from
    /// `earlier` for arms that are in it.
    ///
    /// # Errors
    /// Those of [`PlannedArm::without_seed`](super::plan::PlannedArm::without_seed).
    pub fn of(
        plan: &Plan,
        text: &str,
        shard: Option<Shard>,
        earlier: Option<&Self>,
    ) -> Result<Self> {
        let known = |name: &str| earlier?.arms.iter().find(|known| known.name == name);
        let arms = plan.arms.iter().map(|arm| {
            let known = known(&arm.arm.name);
            Ok(ArmRecord {
                name: arm.arm.name.clone(),
                scenario: arm.without_seed()?,
                memory_bytes: known.and_then(|known| known.memory_bytes),
                round_s: known.and_then(|known| known.round_s),
                serial_s: known.and_then(|known| known.serial_s),
            })
        });
        Ok(Self {
            format: FORMAT,
            title: plan.study.title.clone(),
            file: text.to_owned(),
            shard: shard.map(|shard| shard.to_string()),
            seeds: plan.study.seeds.clone(),
            arms: arms.collect::<Result<_>>()?,
        })
    }

    /// Reads the record in the folder of a study.
    ///
    /// # Errors
    /// [`Error::Read`](fedrecsim_core::Error::Read) if there is none, or one of another version.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(Self::FILE_NAME);
        read::json(&path, FORMAT, "the record of a study")
    }

    /// Returns the text of the file.
    ///
    /// # Errors
    /// [`Error::Write`](fedrecsim_core::Error::Write) for what JSON cannot express, which no study
    /// holds.
    pub fn render(&self) -> Result<String> {
        read::pretty(Self::FILE_NAME, self)
    }

    /// Returns, as sentences, the changes from this record, which was read from its file, to `now`
    /// after which results of both must not stand in one table. Arms and seeds that were added are
    /// no such change.
    pub fn changes(&self, now: &Self, vocabulary: &[MethodVocabulary]) -> Vec<String> {
        let mut told = Vec::new();
        let part = |of: &Self| of.shard.clone().unwrap_or_else(|| "all runs".to_owned());
        if self.shard != now.shard {
            let (was, is) = (part(self), part(now));
            told.push(format!("the part: it was {was}, and is {is}"));
        }
        if self.shard.is_some() && (self.seeds != now.seeds || self.arms.len() != now.arms.len()) {
            // The runs of a part depend on the number of all runs before them.
            told.push("the list of arms or seeds, on which the parts depend".to_owned());
        }
        told.extend(
            self.seeds
                .iter()
                .filter(|seed| !now.seeds.contains(seed))
                .map(|seed| format!("seed {seed} is gone")),
        );
        for arm in &self.arms {
            match now.arms.iter().find(|other| other.name == arm.name) {
                None => told.push(format!("arm `{}` is gone", arm.name)),
                Some(other) => {
                    let current = |of: &ArmRecord| {
                        let (name, scenario) = (&of.name, &of.scenario);
                        read::without_seed(read::brought_up_to_date(name, scenario, vocabulary))
                    };
                    let differences = scenario::differences(&current(arm), &current(other));
                    let keys: Vec<String> = differences.iter().map(ToString::to_string).collect();
                    if !keys.is_empty() {
                        told.push(format!("arm `{}`: {}", arm.name, keys.join("; ")));
                    }
                }
            }
        }
        told
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::tests::results as sample;
    use fedrecsim_methods::registry::vocabulary;

    fn record(values: &[&str], seeds: &[u64], shard: Option<Shard>) -> StudyRecord {
        let plan = sample::plan(&[("rounds", values)], seeds);
        StudyRecord::of(&plan, "text", shard, None).unwrap()
    }

    /// If this fails, results of another study enter a table, or a study cannot be extended.
    #[test]
    fn only_what_changes_results_that_exist_counts_as_a_change() {
        let before = record(&["2", "3"], &[1, 2], None);
        assert_eq!(
            before.changes(&record(&["2", "3", "4"], &[1, 2, 3], None), &vocabulary()),
            [""; 0],
            "something was added"
        );
        assert_eq!(
            before.changes(&record(&["2"], &[1], None), &vocabulary()),
            ["seed 2 is gone", "arm `rounds=3` is gone"]
        );
        let mut other = before.clone();
        other.arms[1].scenario["training"]["rounds"] = 9.into();
        assert_eq!(
            before.changes(&other, &vocabulary()),
            ["arm `rounds=3`: training.rounds: 3 and 9"]
        );
    }

    /// If this fails, a study that an older program began cannot go on.
    #[test]
    fn keys_that_have_moved_are_no_change() {
        let now = record(&["2"], &[1], None);
        let mut before = now.clone();
        let dataset = before.arms[0].scenario["dataset"].as_object_mut().unwrap();
        let split = dataset["split"]["leave-one-out"].clone();
        dataset["split"] = "leave-one-out".into();
        dataset.extend(split.as_object().unwrap().clone());
        assert_ne!(before, now);
        assert_eq!(before.changes(&now, &vocabulary()), [""; 0]);
    }

    /// If this fails, two parts of a study that were made of different lists are put together, with
    /// runs that no part has.
    #[test]
    fn a_part_does_not_change_its_list() {
        let shard = |index, count| Some(Shard { index, count });
        let before = record(&["2", "3"], &[1, 2], shard(1, 2));
        assert_eq!(
            before.changes(&record(&["2", "3"], &[1, 2], shard(1, 2)), &vocabulary()),
            [""; 0]
        );
        assert_eq!(
            before
                .changes(&record(&["2", "3"], &[1, 2, 3], shard(1, 2)), &vocabulary())
                .len(),
            1
        );
        let told = before.changes(&record(&["2", "3"], &[1, 2], shard(2, 2)), &vocabulary());
        assert_eq!(told, ["the part: it was 1/2, and is 2/2"]);
    }

    #[test]
    fn a_record_is_read_back_and_another_version_refused() {
        let record = record(&["2", "3"], &[1], None);
        let folder = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            std::fs::write(folder.path().join(StudyRecord::FILE_NAME), text).unwrap();
            StudyRecord::read(folder.path())
        };
        let text = record.render().unwrap();
        assert_eq!(read(&text).unwrap(), record);
        let other = text.replacen("\"format\": 1", "\"format\": 7", 1);
        let refused = read(&other).unwrap_err().to_string();
        assert!(
            refused.contains("study.json") && refused.contains("version 7"),
            "{refused}"
        );
        assert!(read("{}").is_err() && read("no").is_err());
    }

    /// If this fails, a study that goes on rehearses all of its arms once more.
    #[test]
    fn estimates_are_taken_over() {
        let mut before = record(&["2", "3"], &[1], None);
        before.arms[0].memory_bytes = Some(7);
        let plan = sample::plan(&[("rounds", &["2", "3"])], &[1]);
        let now = StudyRecord::of(&plan, "text", None, Some(&before)).unwrap();
        assert_eq!(
            (now.arms[0].memory_bytes, now.arms[1].memory_bytes),
            (Some(7), None)
        );
    }
}
