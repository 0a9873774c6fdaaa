//! Makes arms of reports that exist: those whose scenarios differ in nothing but the seed are one
//! arm.

use serde_json::Value;

use super::names::Names;
use super::results::{ArmResults, Results, RunResult};
use super::sharing;
use crate::metrics;
use crate::read::{self, SavedReport};
use fedrecsim_core::metric::Metric;
use fedrecsim_core::{Error, Result};
use fedrecsim_scenario::{self as scenario, Difference, MethodVocabulary};

/// The request of the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The title.
    pub title: String,
    /// The name of the arm that differences are paired with.
    pub compare_to: Option<String>,
    /// The metrics that are shown; empty for the headline of the first arm and its companion.
    pub metrics: Vec<String>,
}

/// An arm whose name is not known yet.
struct Group {
    scenario: Value,
    name: String,
    reports: Vec<SavedReport>,
}

/// Returns the results of `reports`. Arms are named after the keys that differ.
///
/// # Errors
/// [`Error::Usage`] for two reports of one scenario and seed, for an arm to compare to that is not
/// there, and for figures that no report has.
pub fn results(
    reports: Vec<SavedReport>,
    wanted: Wanted,
    vocabulary: &[MethodVocabulary],
) -> Result<Results> {
    let groups = grouped(reports, vocabulary)?;
    let names = names_of(&groups);
    let mut arms = Vec::new();
    let mut shown = wanted.metrics;
    for (group, name) in groups.into_iter().zip(names) {
        // This program may not know it, as with another program's method.
        let run = &group.reports[0].run;
        let scenario = read::scenario_of(&run.name, &run.scenario, vocabulary).ok();
        if let Some(scenario) = scenario.as_ref().filter(|_| shown.is_empty()) {
            let headlines = metrics::headlines(&scenario.evaluation);
            shown = headlines.iter().map(Metric::name).collect();
        }
        let timing = scenario
            .as_ref()
            .map(sharing::depends_on_timing)
            .unwrap_or_default();
        let reports = group.reports.into_iter();
        let runs = reports.map(|report| RunResult::of(report.folder.clone(), report));
        arms.push(ArmResults {
            name,
            experiment: None,
            timing,
            compare_to: None,
            chosen_from: None,
            runs: runs.collect(),
        });
    }
    if let Some(name) = &wanted.compare_to {
        let labels = Names::of_arms(&arms).labels;
        let mut names = arms.iter().zip(&labels);
        let Some(other) = names.position(|(arm, label)| arm.name == *name || label == name) else {
            let known: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
            let known = known.join("; ");
            return Err(Error::Usage(format!(
                "there is no arm `{name}`; known: {known}"
            )));
        };
        for (place, arm) in arms.iter_mut().enumerate() {
            arm.compare_to = (place != other).then_some(other);
        }
    }
    let results = Results {
        title: wanted.title,
        arms,
        metrics: shown,
        references: Vec::new(),
        courses: Vec::new(),
        shard: None,
    };
    let reports = || results.arms.iter().flat_map(ArmResults::reports);
    let has = |metric: &str| reports().any(|report| report.run.accuracy.test.contains_key(metric));
    match results.metrics.iter().find(|metric| !has(metric)) {
        Some(metric) if results.counts()[0] > 0 => {
            Err(Error::Usage(format!("no report has the metric `{metric}`")))
        }
        _ => Ok(results),
    }
}

/// Returns the reports by their scenarios, in the given order; seeds of one arm are sorted.
fn grouped(reports: Vec<SavedReport>, vocabulary: &[MethodVocabulary]) -> Result<Vec<Group>> {
    let mut groups: Vec<Group> = Vec::new();
    for report in reports {
        let run = &report.run;
        let scenario = read::brought_up_to_date(&run.name, &run.scenario, vocabulary);
        let scenario = read::without_seed(scenario);
        match groups.iter_mut().find(|group| group.scenario == scenario) {
            None => groups.push(Group {
                scenario,
                name: report.run.name.clone(),
                reports: vec![report],
            }),
            Some(group) => {
                let is_same = |other: &&SavedReport| other.run.seed == report.run.seed;
                if let Some(other) = group.reports.iter().find(is_same) {
                    return Err(Error::Usage(format!(
                        "{} and {} are reports of the same scenario and seed; leave one of them out",
                        other.folder.display(),
                        report.folder.display()
                    )));
                }
                group.reports.push(report);
            }
        }
    }
    groups
        .iter_mut()
        .for_each(|group| group.reports.sort_by_key(|report| report.run.seed));
    Ok(groups)
}

/// Returns a name for each group: the values of all keys that differ between any two groups.
fn names_of(groups: &[Group]) -> Vec<String> {
    let [first, others @ ..] = groups else {
        return Vec::new();
    };
    let differences: Vec<Vec<Difference>> = others
        .iter()
        .map(|other| scenario::differences(&first.scenario, &other.scenario))
        .collect();
    let mut keys: Vec<&str> = differences
        .iter()
        .flatten()
        .map(|difference| difference.key.as_str())
        .collect();
    keys.sort_unstable();
    keys.dedup();
    if keys.is_empty() {
        return vec![first.name.clone()];
    }
    let find = |differences: &[Difference], key: &str, side: usize| {
        let found = differences.iter().find(|difference| difference.key == key);
        found.map(|difference| difference.values[side].clone())
    };
    let in_first = |key: &str| differences.iter().find_map(|all| find(all, key, 0))?;
    let name = |value: &dyn Fn(&str) -> Option<Value>| {
        let part = |key: &&str| match value(key)? {
            Value::String(text) => Some(format!("{key}={text}")),
            other => Some(format!("{key}={other}")),
        };
        let parts: Vec<String> = keys.iter().filter_map(part).collect();
        match parts.is_empty() {
            true => "otherwise".to_owned(),
            false => parts.join(", "),
        }
    };
    let of_other = |all| name(&|key| find(all, key, 1).unwrap_or_else(|| in_first(key)));
    let others = differences.iter().map(|all| of_other(all));
    std::iter::once(name(&in_first)).chain(others).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;
    use crate::tests::results as sample;
    use fedrecsim_methods::registry::vocabulary;

    fn report(seed: u64, key: &str, value: Value) -> SavedReport {
        let mut report = sample::report(seed, 0.5);
        report.folder = format!("{key}-{seed}").into();
        report.run.scenario["training"][key] = value;
        report.run.scenario["seed"] = seed.into();
        report
    }

    fn wanted(compare_to: Option<&str>) -> Wanted {
        let metrics = vec!["hr@10".to_owned()];
        Wanted {
            title: "t".to_owned(),
            compare_to: compare_to.map(str::to_owned),
            metrics,
        }
    }

    /// If this fails, runs of different scenarios enter one mean, or nobody can tell which arm is
    /// which.
    #[test]
    fn arms_are_the_scenarios_apart_from_the_seed_and_are_named_after_what_differs() {
        let rounds = |seed, rounds: u32| report(seed, "rounds", json!(rounds));
        let reports = vec![rounds(2, 5), rounds(1, 5), rounds(1, 9)];
        let results = results(reports, wanted(Some("training.rounds=9")), &vocabulary()).unwrap();
        let names: Vec<&str> = results.arms.iter().map(|arm| arm.name.as_str()).collect();
        assert_eq!(names, ["training.rounds=5", "training.rounds=9"]);
        let seeds: Vec<u64> = results.arms[0].runs.iter().map(|run| run.seed).collect();
        assert_eq!((seeds, results.compared_by_all()), (vec![1, 2], Some(1)));
    }

    /// If this fails, runs of one scenario are two arms because an older program wrote some of them.
    #[test]
    fn a_report_of_an_older_program_is_in_the_arm_of_its_scenario() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/old-report");
        let old = SavedReport::read(&folder).unwrap();
        let mut new = old.clone();
        let run = &mut new.run;
        let scenario = read::scenario_of(&run.name, &run.scenario, &vocabulary()).unwrap();
        (run.format, run.seed) = (2, 2);
        run.scenario = serde_json::to_value(scenario).unwrap();
        run.scenario["seed"] = 2.into();
        assert_ne!(run.scenario["evaluation"], old.run.scenario["evaluation"]);
        let results = results(vec![old, new], wanted(None), &vocabulary()).unwrap();
        let seeds = results.arms.iter().map(|arm| arm.runs.len());
        assert_eq!(seeds.collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn one_scenario_alone_has_its_own_name() {
        let reports = vec![report(1, "rounds", json!(5))];
        assert_eq!(
            results(reports, wanted(None), &vocabulary()).unwrap().arms[0].name,
            "ml100k-fedrap"
        );
    }

    /// If this fails, a report counts twice in a mean.
    #[test]
    fn a_report_that_is_named_twice_is_refused_and_so_is_an_unknown_arm() {
        let rounds = |seed| report(seed, "rounds", json!(5));
        let error = results(vec![rounds(1), rounds(1)], wanted(None), &vocabulary()).unwrap_err();
        assert!(
            error.to_string().contains("the same scenario and seed"),
            "{error}"
        );
        let error = results(vec![rounds(1)], wanted(Some("x")), &vocabulary()).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("there is no arm `x`; known: `ml100k-fedrap`"),
            "{error}"
        );
        let metrics = vec!["mrr".to_owned()];
        let error = results(
            vec![rounds(1)],
            Wanted {
                metrics,
                ..wanted(None)
            },
            &vocabulary(),
        )
        .unwrap_err();
        assert!(
            error.to_string().contains("no report has the metric `mrr`"),
            "{error}"
        );
    }
}
