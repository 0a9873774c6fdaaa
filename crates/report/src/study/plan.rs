//! Resolves the arms of a study, refuses those that cannot be run, and lists the runs in their
//! parts.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde_json::Value;

use super::file::{Arm, Study};
use crate::metrics;
use crate::read::{as_saved, without_seed};
use crate::rounds::is_sparsity;
use fedrecsim_core::metric::Metric;
use fedrecsim_core::{Error, Result};
use fedrecsim_scenario::{
    self as scenario, Loaded, MethodVocabulary, REPLACES_METHOD, Scenario, Strictness,
};

/// The longest name of an arm's folder, in bytes.
const LONGEST_FOLDER: usize = 100;

/// A study whose arms are all known to be sound.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The study.
    pub study: Study,
    /// Its arms, in the order of the study.
    pub arms: Vec<PlannedArm>,
    /// The metrics that tables show; pictures show the first one.
    pub metrics: Vec<String>,
    /// Warnings about the arms' scenarios, each once with the first arm that has it.
    pub warnings: Vec<String>,
}

/// An arm with its scenario.
#[derive(Clone, Debug)]
pub struct PlannedArm {
    /// The arm as the file says it.
    pub arm: Arm,
    /// The name of its folder.
    pub folder: String,
    /// Its scenario, resolved, with the first seed of the study.
    pub scenario: Scenario,
}

/// One run of a study.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunId {
    /// The arm, by its place in the plan.
    pub arm: usize,
    /// The seed.
    pub seed: u64,
}

/// A part of a study's runs: number `index` (from 1) of `count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// The number of the part, from 1.
    pub index: usize,
    /// The number of parts.
    pub count: usize,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text
            .split_once('/')
            .and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
        match parts {
            Some((index, count)) if (1..=count).contains(&index) => Ok(Self { index, count }),
            _ => Err("expected a part and the number of parts, such as 3/16".to_owned()),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.index, self.count)
    }
}

impl Plan {
    /// Resolves every arm of `study`.
    ///
    /// An arm that `is_wanted`, by its name, does not ask for stands as in the file if it cannot have
    /// the overrides of the command line.
    ///
    /// # Errors
    /// [`Error::Usage`] with the faults of all arms, and for two wanted arms that come to the same
    /// scenario.
    pub fn of(
        study: Study,
        vocabulary: &[MethodVocabulary],
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<Self> {
        let first_seed = study.seeds.first().copied().unwrap_or_default();
        let (mut arms, mut warnings) = (Vec::<PlannedArm>::new(), Vec::<(String, String)>::new());
        // Arms often share a fault of their base, which is told once.
        let mut faults: Vec<(String, Vec<String>)> = Vec::new();
        for arm in &study.arms {
            let as_asked = resolved(arm, first_seed, vocabulary);
            let loaded = as_asked.or_else(|error| match is_wanted(&arm.name) {
                true => Err(error),
                false => resolved(&arm.of_file(study.last_overrides), first_seed, vocabulary),
            });
            match loaded {
                Ok(loaded) => {
                    let told = |warning: &String| !warning.ends_with(REPLACES_METHOD);
                    let is_asked = is_wanted(&arm.name);
                    for warning in loaded
                        .warnings
                        .into_iter()
                        .filter(told)
                        .filter(|_| is_asked)
                    {
                        if !warnings.iter().any(|(known, _)| *known == warning) {
                            warnings.push((warning, arm.name.clone()));
                        }
                    }
                    arms.push(PlannedArm {
                        arm: arm.clone(),
                        folder: folder_of(&arm.name),
                        scenario: loaded.scenario,
                    });
                }
                Err(error) => {
                    let fault = error.to_string();
                    match faults.iter_mut().find(|(other, _)| *other == fault) {
                        Some((_, names)) => names.push(arm.name.clone()),
                        None => faults.push((fault, vec![arm.name.clone()])),
                    }
                }
            }
        }
        let mut told: Vec<String> = faults.iter().map(of_arms).collect();
        let wanted = arms.iter().filter(|arm| is_wanted(&arm.arm.name));
        told.extend(duplicates(wanted)?);
        if !told.is_empty() {
            return Err(Error::Usage(told.join("\n")));
        }
        let metrics = shown(&study, &arms)?;
        let of_arm = |(warning, arm)| format!("arm `{arm}`: {warning}");
        let of_arms = warnings.into_iter().map(of_arm);
        let warnings = study.warnings.iter().cloned().chain(of_arms).collect();
        Ok(Self {
            study,
            arms,
            metrics,
            warnings,
        })
    }

    /// Returns the runs of a part, or all of them, arm by arm.
    pub fn runs(&self, shard: Option<Shard>) -> Vec<RunId> {
        let seeds = self.study.seeds.iter().copied();
        let arms = 0..self.arms.len();
        let all = arms.flat_map(|arm| seeds.clone().map(move |seed| RunId { arm, seed }));
        // Neighbours go to different parts, so that every part has its share of every arm.
        let is_in = |place: usize| shard.is_none_or(|shard| place % shard.count == shard.index - 1);
        let numbered = all.enumerate().filter(|(place, _)| is_in(*place));
        numbered.map(|(_, run)| run).collect()
    }

    /// Returns the scenario of a run.
    pub fn scenario(&self, run: RunId) -> Scenario {
        Scenario {
            seed: run.seed,
            ..self.arms[run.arm].scenario.clone()
        }
    }

    /// Returns the name of a run for messages.
    pub fn name(&self, run: RunId) -> String {
        format!("{}, seed {}", self.arms[run.arm].arm.name, run.seed)
    }

    /// Returns the folder of a run's report, below that of the study.
    pub fn folder(&self, run: RunId) -> PathBuf {
        ["runs", &self.arms[run.arm].folder, &run.seed.to_string()]
            .iter()
            .collect()
    }
}

impl PlannedArm {
    /// Returns the scenario without its seed, which arms are compared by.
    ///
    /// # Errors
    /// [`Error::Usage`] for a scenario that JSON cannot express, which no file gives.
    pub(crate) fn without_seed(&self) -> Result<Value> {
        as_saved(&self.scenario).map(without_seed)
    }
}

/// Returns what tells a scenario from that of another arm, whatever their seeds.
pub(super) fn fingerprint(scenario: &Scenario) -> Result<Value> {
    Ok(with_floats(without_seed(as_saved(scenario)?)))
}

/// Returns the scenario of an arm with a seed, and the warnings about it.
///
/// # Errors
/// Those of the scenario.
pub(crate) fn resolved(arm: &Arm, seed: u64, vocabulary: &[MethodVocabulary]) -> Result<Loaded> {
    let mut set = arm.set.clone();
    set.push(format!("seed={seed}").into());
    scenario::load_with_warnings(&arm.base, &set, vocabulary, Strictness::Lenient)
}

/// Returns a fault with the arms that have it, at least one.
pub(super) fn of_arms((fault, arms): &(String, Vec<String>)) -> String {
    let (first, others) = (&arms[0], arms.len() - 1);
    match others {
        0 => format!("arm `{first}`: {fault}"),
        1 => format!("arm `{first}` and 1 other: {fault}"),
        _ => format!("arm `{first}` and {others} others: {fault}"),
    }
}

/// Returns the pairs of arms that come to the same scenario, as sentences.
fn duplicates<'a>(arms: impl Iterator<Item = &'a PlannedArm>) -> Result<Vec<String>> {
    let mut seen: Vec<(Value, &str)> = Vec::new();
    let mut told = Vec::new();
    for arm in arms {
        let scenario = fingerprint(&arm.scenario)?;
        match seen.iter().find(|(other, _)| *other == scenario) {
            Some((_, other)) => told.push(format!(
                "the arms `{other}` and `{}` come to the same scenario; leave one of them out",
                arm.arm.name
            )),
            None => seen.push((scenario, &arm.arm.name)),
        }
    }
    Ok(told)
}

/// Returns `value` with every number as one with a fraction, so that 10 and 10.0 are the same.
fn with_floats(value: Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().map_or(Value::Number(number), Value::from),
        Value::Array(values) => values.into_iter().map(with_floats).collect(),
        Value::Object(table) => table
            .into_iter()
            .map(|(key, value)| (key, with_floats(value)))
            .collect(),
        other => other,
    }
}

/// Returns the metrics that tables show.
fn shown(study: &Study, arms: &[PlannedArm]) -> Result<Vec<String>> {
    if study.metrics.is_empty() {
        let first = arms.first();
        let metrics = first.map(|arm| metrics::headlines(&arm.scenario.evaluation));
        return Ok(metrics.iter().flatten().map(Metric::name).collect());
    }
    let measured = |name: &&String| {
        let of_arm = |arm: &PlannedArm| arm.scenario.evaluation.metrics();
        let mut all = arms.iter().flat_map(of_arm);
        all.any(|metric| metric.name() == **name)
    };
    let published = study.references.iter().map(|reference| &reference.figure);
    let published = published.filter(|figure| !is_sparsity(figure));
    match study
        .metrics
        .iter()
        .chain(published)
        .find(|name| !measured(name))
    {
        Some(name) => Err(Error::Usage(format!(
            "no arm of the study measures `{name}`; name it in `evaluation.metrics` and `evaluation.cutoffs`"
        ))),
        None => Ok(study.metrics.clone()),
    }
}

/// Returns the name of an arm's folder: the arm's name as far as all file systems take it, and
/// where they do not, the beginning of its digest.
pub(super) fn folder_of(name: &str) -> String {
    let plain = name.replace(", ", ",");
    let is_kept = |letter: char| letter.is_ascii_alphanumeric() || "._=+-,".contains(letter);
    let kept = |letter| if is_kept(letter) { letter } else { '-' };
    let folder: String = plain.chars().map(kept).collect();
    if folder == plain && folder.len() <= LONGEST_FOLDER && !folder.starts_with('.') {
        return folder;
    }
    let digest = blake3::hash(name.as_bytes()).to_hex();
    let visible = folder.trim_start_matches('.').chars();
    let folder: String = visible.take(LONGEST_FOLDER).collect();
    format!("{folder}-{}", &digest[..8])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::study::file;
    use crate::tests::results as sample;

    /// If this fails, two parts run the same, or a run is in no part.
    #[test]
    fn every_run_is_in_exactly_one_part_and_every_part_has_its_share_of_every_arm() {
        let plan = sample::plan(&[("codec", &["a", "b", "c"])], &[1, 2, 3, 4, 5, 6]);
        let all = plan.runs(None);
        assert_eq!(all.len(), 18);
        for count in [1, 2, 3, 4, 6, 18, 20] {
            let parts = (1..=count).map(|index| plan.runs(Some(Shard { index, count })));
            let mut together: Vec<RunId> = parts.clone().flatten().collect();
            together.sort_unstable();
            assert_eq!(together, all, "{count} parts");
            if [2, 3, 6].contains(&count) {
                for (part, arm) in parts.flat_map(|part| (0..3).map(move |arm| (part.clone(), arm)))
                {
                    assert_eq!(
                        part.iter().filter(|run| run.arm == arm).count(),
                        6 / count,
                        "{count} parts"
                    );
                }
            }
        }
    }

    #[test]
    fn a_part_is_written_with_a_slash() {
        assert_eq!(
            "3/16".parse(),
            Ok(Shard {
                index: 3,
                count: 16
            })
        );
        for wrong in ["0/4", "5/4", "1", "1/0", "a/b", ""] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }

    /// If this fails, the reports of two arms go to the same folder, or to one outside of the
    /// study.
    #[test]
    fn folders_are_named_after_arms_and_stay_apart() {
        assert_eq!(
            folder_of("codec=dense, dropout=0.2"),
            "codec=dense,dropout=0.2"
        );
        let odd = ["a/b", "a b", "..", "a*b", &"x".repeat(150), "ä"].map(folder_of);
        for folder in &odd {
            assert!(
                folder.is_ascii() && !folder.contains('/') && !folder.starts_with('.'),
                "{folder}"
            );
            assert_eq!(
                odd.iter().filter(|other| *other == folder).count(),
                1,
                "{folder}"
            );
        }
    }

    /// If this fails, somebody looks for a fault of a study on the command line, or in another line of
    /// the study or of the files that it is made of.
    #[test]
    fn faults_of_arms_stand_where_the_study_says_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("study.toml");
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("base.toml", sample::BASE);
        write(
            "more.toml",
            "# shared\n[settings.none]\n\"training.rounds\" = 0\n",
        );
        write(
            "chosen.toml",
            "[arms.\"chosen\"]\ntrials = 1\ntrial = 0\nseed = 1\nmetric = \"ndcg@10\"\nvalidation = 0.1\n\
             set = { \"training.round\" = 3 }\n",
        );
        let text = r#"base = "base.toml"
seeds = [1]
include = ["more.toml"]
chosen = "chosen.toml"

[[axes]]
name = "rounds"
key = "training.rounds"
values = [2,
  -2]

[[arms]]
name = "included"
use = "none"

[[arms]]
name = "own"
[arms.set]
"training.steps" = 1

[[arms]]
name = "chosen"
"#;
        let study = file::parse(text, &path, &file::Changes::default()).unwrap();
        let vocabulary = fedrecsim_methods::registry::vocabulary();
        let told = Plan::of(study, &vocabulary, |_| true)
            .unwrap_err()
            .to_string();
        for (file, line, arm) in [
            ("study.toml", 10, "rounds=-2"),
            ("more.toml", 3, "included"),
            ("study.toml", 19, "own"),
            ("chosen.toml", 7, "chosen"),
        ] {
            let place = format!(
                "arm `{arm}`: {}:{line}: ",
                folder.path().join(file).display()
            );
            assert!(told.contains(&place), "no {place} in {told}");
        }
        assert!(!told.contains("--set"), "{told}");
    }

    /// If this fails, a study runs the same scenario twice and shows a difference of nothing.
    #[test]
    fn arms_that_come_to_the_same_scenario_are_refused() {
        let error = sample::try_plan(&[("rounds", &["2", "2.5", "3"])], &[1], "training.rounds")
            .unwrap_err();
        assert!(error.to_string().contains("arm `rounds=2.5`"), "{error}");
        // The base of the sample has two rounds already.
        let text = sample::STUDY.replace(
            "AXES",
            "[[arms]]\nname = \"a\"\n[[arms]]\nname = \"b\"\nset = { \"training.rounds\" = 2 }",
        );
        let error = sample::plan_of(&text).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(
            error
                .to_string()
                .contains("the arms `a` and `b` come to the same scenario"),
            "{error}"
        );
    }

    /// If this fails, a fault of the base is told once for every arm, or hides those of single
    /// arms.
    #[test]
    fn faults_of_all_arms_are_told_and_shared_ones_once() {
        let error = sample::try_plan(
            &[("dropout", &["0.1", "2.0", "3.0"])],
            &[1],
            "network.dropout",
        )
        .unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("arm `dropout=2.0`") && text.contains("arm `dropout=3.0`"),
            "{text}"
        );
        let text = sample::STUDY.replace("set = {}", "set = { \"training.rounds\" = 0 }");
        let axes = "[[axes]]\nname = \"d\"\nkey = \"network.dropout\"\nvalues = [0.1, 0.2, 0.3]";
        let text = sample::plan_of(&text.replace("AXES", axes))
            .unwrap_err()
            .to_string();
        assert!(
            text.starts_with("arm `d=0.1` and 2 others: ") && !text.contains("d=0.2"),
            "{text}"
        );
    }

    #[test]
    fn a_metric_that_nobody_measures_is_refused() {
        let text = sample::STUDY
            .replace("seeds", "metrics = [\"hr@7\"]\nseeds")
            .replace("AXES", "");
        assert!(
            sample::plan_of(&text)
                .unwrap_err()
                .to_string()
                .contains("no arm of the study measures `hr@7`")
        );
        assert_eq!(
            sample::plan_of(&sample::STUDY.replace("AXES", ""))
                .unwrap()
                .metrics,
            ["hr@10", "ndcg@10"]
        );
    }
}
