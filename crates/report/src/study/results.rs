//! Gathers the reports of a study's runs by arm and seed.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::file::{PublishedCourse, Reference};
use crate::read::SavedReport;

/// The results of a study, or of reports that are compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The title.
    pub title: String,
    /// Which part of the runs these are, such as `3/16`; `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<String>,
    /// The metrics that tables show. Pictures show the first one.
    #[serde(alias = "figures")]
    pub metrics: Vec<String>,
    /// Published values to stand beside.
    pub references: Vec<Reference>,
    /// Published courses to stand beside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub courses: Vec<PublishedCourse>,
    /// The arms, in the order of the study.
    pub arms: Vec<ArmResults>,
}

/// The results of one arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArmResults {
    /// The name.
    pub name: String,
    /// What arms have in common that repeat one experiment; `None` for an arm that repeats none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experiment: Option<String>,
    /// Why its cohorts and dropouts depend on its timing; empty if they do not.
    pub timing: Vec<String>,
    /// The arm that its differences are paired with, by its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compare_to: Option<usize>,
    /// The number of trials that its settings were chosen from, if a search has chosen them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen_from: Option<u32>,
    /// Its runs, in the order of the seeds.
    pub runs: Vec<RunResult>,
}

/// The result of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// The seed.
    pub seed: u64,
    /// The folder of its report, as it is shown. A relative one begins in the folder of the tables,
    /// or where the program was started.
    pub folder: PathBuf,
    /// What became of it.
    pub state: RunState,
    /// Its report, if it has come to its end; not in files, as it is in a file of its own.
    #[serde(skip)]
    pub report: Option<Box<SavedReport>>,
}

/// What became of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// It has come to its end.
    Done,
    /// It has no result to compare, for this reason.
    Failed(String),
    /// It has not been run, or not to its end.
    NotRun,
    /// It has not been run, since its data set is not on this machine.
    NoData,
}

impl RunResult {
    /// Returns the result of the run whose report is this one.
    pub fn of(folder: PathBuf, report: SavedReport) -> Self {
        let failure = report.run.failure();
        Self {
            seed: report.run.seed,
            folder,
            report: failure.is_none().then(|| Box::new(report)),
            state: failure.map_or(RunState::Done, RunState::Failed),
        }
    }
}

impl ArmResults {
    /// Returns the reports of the runs that have come to their end, in the order of the seeds.
    pub(crate) fn reports(&self) -> impl Iterator<Item = &SavedReport> {
        let done = self.runs.iter().filter(|run| run.state == RunState::Done);
        done.filter_map(|run| run.report.as_deref())
    }

    /// Returns the protocols of the arm's runs, each once.
    pub(crate) fn protocols(&self) -> Vec<&str> {
        let mut protocols: Vec<&str> = Vec::new();
        for report in self.reports() {
            if !protocols.contains(&report.run.protocol.as_str()) {
                protocols.push(&report.run.protocol);
            }
        }
        protocols
    }
}

impl Results {
    /// Returns whether some arm is compared to another one.
    pub(crate) fn is_compared(&self) -> bool {
        self.arms.iter().any(|arm| arm.compare_to.is_some())
    }

    /// Returns the arm that all others are compared to; `None` if they are compared to several, or
    /// not at all.
    pub(crate) fn compared_by_all(&self) -> Option<usize> {
        let (_, first) = self
            .arms
            .iter()
            .enumerate()
            .find_map(|(place, arm)| Some((place, arm.compare_to?)))?;
        let is_first =
            |(place, arm): (usize, &ArmResults)| place == first || arm.compare_to == Some(first);
        self.arms.iter().enumerate().all(is_first).then_some(first)
    }

    /// Returns the published value of a figure for an arm.
    pub(crate) fn reference(&self, arm: usize, figure: &str) -> Option<&Reference> {
        self.references
            .iter()
            .find(|reference| reference.arm == arm && reference.figure == figure)
    }

    /// Returns the results of the arms that `is_wanted` by their names, and of those that they are
    /// compared to.
    pub fn of_arms(self, is_wanted: impl Fn(&str) -> bool) -> Self {
        let wanted = || self.arms.iter().filter(|arm| is_wanted(&arm.name));
        let is_kept = |place: &usize| {
            is_wanted(&self.arms[*place].name) || wanted().any(|arm| arm.compare_to == Some(*place))
        };
        let kept: Vec<usize> = (0..self.arms.len()).filter(is_kept).collect();
        self.of_places(&kept)
    }

    /// Returns the results without the arms that have no run yet, unless that is all of them.
    pub(crate) fn of_begun_arms(&self) -> Self {
        let is_begun = |place: &usize| {
            let mut runs = self.arms[*place].runs.iter();
            runs.any(|run| run.state != RunState::NotRun)
        };
        let kept: Vec<usize> = (0..self.arms.len()).filter(is_begun).collect();
        match kept.is_empty() {
            true => self.clone(),
            false => self.clone().of_places(&kept),
        }
    }

    /// Returns the results of the arms at these places.
    fn of_places(mut self, kept: &[usize]) -> Self {
        let place_of = |old: usize| kept.iter().position(|place| *place == old);
        let is_kept = |arm: &mut usize| place_of(*arm).map(|place| *arm = place).is_some();
        self.references.retain_mut(|of| is_kept(&mut of.arm));
        self.courses.retain_mut(|of| is_kept(&mut of.arm));
        let mut places = 0..;
        self.arms.retain_mut(|arm| {
            arm.compare_to = arm.compare_to.and_then(place_of);
            places.next().is_some_and(|place| kept.contains(&place))
        });
        self
    }

    /// Returns the runs that failed, as (arm, seed, reason).
    pub fn failures(&self) -> Vec<(&str, u64, &str)> {
        let mut failures = Vec::new();
        for arm in &self.arms {
            for run in &arm.runs {
                if let RunState::Failed(reason) = &run.state {
                    failures.push((arm.name.as_str(), run.seed, reason.as_str()));
                }
            }
        }
        failures
    }

    /// Returns the numbers of runs that have come to their end, of those that have not been run,
    /// and of all.
    pub fn counts(&self) -> [usize; 3] {
        let states = self
            .arms
            .iter()
            .flat_map(|arm| &arm.runs)
            .map(|run| &run.state);
        let count = |wanted| states.clone().filter(|state| **state == wanted).count();
        [
            count(RunState::Done),
            count(RunState::NotRun),
            states.clone().count(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::results as sample;

    /// If this fails, arms without a run fill the tables, or differences are taken to another arm.
    #[test]
    fn arms_of_which_nothing_has_been_run_are_left_out() {
        let whole = sample::results();
        assert_eq!(whole.of_begun_arms(), whole);
        let mut results = whole.clone();
        let empty = ArmResults {
            name: "later".to_owned(),
            runs: Vec::new(),
            ..whole.arms[0].clone()
        };
        results.arms.insert(0, empty);
        results.arms[2].compare_to = Some(1);
        results
            .references
            .iter_mut()
            .for_each(|reference| reference.arm = 1);
        assert_eq!(results.of_begun_arms(), whole);
        results
            .arms
            .iter_mut()
            .flat_map(|arm| &mut arm.runs)
            .for_each(|run| run.state = RunState::NotRun);
        assert_eq!(
            results.of_begun_arms(),
            results,
            "nothing at all has been run"
        );
    }

    /// If this fails, the tables of some arms compare them to others than the study says.
    #[test]
    fn some_arms_are_shown_with_those_that_they_are_compared_to() {
        let mut results = sample::results();
        let mut third = results.arms[1].clone();
        third.name = "int4".to_owned();
        results.arms.insert(0, third);
        results
            .arms
            .iter_mut()
            .for_each(|arm| arm.compare_to = arm.compare_to.map(|_| 1));
        results.references[0].arm = 1;
        let left = results.clone().of_arms(|name| name == "int8");
        assert_eq!(
            left.arms
                .iter()
                .map(|arm| arm.name.as_str())
                .collect::<Vec<_>>(),
            ["dense", "int8"]
        );
        assert_eq!(
            (left.arms[1].compare_to, left.references[0].arm),
            (Some(0), 0)
        );
        let left = results.of_arms(|name| name == "dense");
        assert_eq!((left.arms.len(), left.arms[0].compare_to), (1, None));
    }
}
