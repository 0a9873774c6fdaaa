//! Gathers the reports of a study's runs by arm and seed.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::columns::RunColumn;
use super::file::{PublishedCourse, Reference};
use super::reach::Goal;
use super::statistics::Summary;
use crate::report::read::SavedReport;
use fedrecsim_core::error::Result;

/// The results of a study, or of reports that are compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results<S = RunState> {
    /// The title.
    pub title: String,
    /// Which part of the runs these are, such as `3/16`; `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<String>,
    /// The metrics that tables show. Pictures show the first one.
    pub figures: Vec<String>,
    /// Published values to stand beside.
    pub references: Vec<Reference>,
    /// Published courses to stand beside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub courses: Vec<PublishedCourse>,
    /// The arms, in the order of the study.
    pub arms: Vec<ArmResults<S>>,
}

/// The results of one arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArmResults<S = RunState> {
    /// The name.
    pub name: String,
    /// Why its cohorts and dropouts depend on its timing; empty if they do not.
    pub timing: Vec<String>,
    /// The arm to which its differences are paired, by its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compare_to: Option<usize>,
    /// Its runs, in the order of the seeds.
    pub runs: Vec<RunResult<S>>,
}

/// The result of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult<S = RunState> {
    /// The seed.
    pub seed: u64,
    /// The folder of its report, as it is shown. A relative one begins in the folder of the tables,
    /// or where the program was started.
    pub folder: PathBuf,
    /// What became of it.
    pub state: S,
}

/// What became of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum RunState {
    /// It has come to its end, and this is its report.
    Done(Box<SavedReport>),
    /// It has no result to compare, for this reason.
    Failed(String),
    /// It has not been run, or not to its end.
    NotRun,
    /// It has not been run, since its data set is not on this machine.
    NoData,
}

impl<S> Results<S> {
    /// Returns the results with the states of runs in another form.
    ///
    /// # Errors
    /// Those of `other`.
    pub(crate) fn with_states<T>(
        &self,
        other: impl Fn(&RunResult<S>) -> Result<T>,
    ) -> Result<Results<T>> {
        let run = |run: &RunResult<S>| {
            Ok(RunResult {
                state: other(run)?,
                seed: run.seed,
                folder: run.folder.clone(),
            })
        };
        let arm = |arm: &ArmResults<S>| {
            Ok(ArmResults {
                name: arm.name.clone(),
                timing: arm.timing.clone(),
                compare_to: arm.compare_to,
                runs: arm.runs.iter().map(run).collect::<Result<_>>()?,
            })
        };
        Ok(Results {
            title: self.title.clone(),
            shard: self.shard.clone(),
            figures: self.figures.clone(),
            references: self.references.clone(),
            courses: self.courses.clone(),
            arms: self.arms.iter().map(arm).collect::<Result<_>>()?,
        })
    }
}

impl ArmResults {
    /// Returns the reports of the runs that have come to their end, in the order of the seeds.
    pub(crate) fn reports(&self) -> impl Iterator<Item = &SavedReport> {
        self.runs.iter().filter_map(|run| match &run.state {
            RunState::Done(report) => Some(&**report),
            RunState::Failed(_) | RunState::NotRun | RunState::NoData => None,
        })
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

    /// Returns the arm to which all others are compared; `None` if they are compared to several, or
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

    /// Returns whose best accuracies serve as goals.
    pub(crate) fn goals(&self) -> Vec<Goal> {
        let compared = self.is_compared().then_some(Goal::Compared);
        [Goal::Own].into_iter().chain(compared).collect()
    }

    /// Returns the summary of an arm's values; `None` if there is none.
    pub(crate) fn summary<'a>(&'a self, arm: usize, column: &RunColumn<'a>) -> Option<Summary> {
        let values: Vec<f64> = self
            .values(arm, column)
            .into_iter()
            .map(|(_, value)| value)
            .collect();
        Summary::of(&values)
    }

    /// Returns the summary of the differences between an arm and the one that it is compared to,
    /// over the seeds that both have; `None` if it is compared to none.
    pub(crate) fn difference<'a>(&'a self, arm: usize, column: &RunColumn<'a>) -> Option<Summary> {
        let other = self.arms[arm].compare_to?;
        Summary::of_differences(&self.values(arm, column), &self.values(other, column))
    }

    /// Returns the summary of the differences as shares of the values that they are taken to, see
    /// [`Self::difference`]; `None` also if one of these is 0.
    pub(crate) fn relative_difference<'a>(
        &'a self,
        arm: usize,
        column: &RunColumn<'a>,
    ) -> Option<Summary> {
        let other = self.arms[arm].compare_to?;
        let share = |our: f64, their: f64| (our - their) / their;
        let shares = Summary::of_pairs(
            &self.values(arm, column),
            &self.values(other, column),
            share,
        );
        // Of nothing there is no share.
        shares.filter(|shares| shares.mean.is_finite())
    }

    /// Returns the summary of how many times less an arm has than the one that it is compared to,
    /// over the seeds that both have; `None` if it is compared to none, or has nothing.
    pub(crate) fn times_less<'a>(&'a self, arm: usize, column: &RunColumn<'a>) -> Option<Summary> {
        let other = self.arms[arm].compare_to?;
        let times = Summary::of_pairs(
            &self.values(arm, column),
            &self.values(other, column),
            |our, their| their / our,
        );
        times.filter(|times| times.mean.is_finite())
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
        let wanted = |arm: &ArmResults| is_wanted(&arm.name);
        let is_compared_to = |place: usize| {
            self.arms
                .iter()
                .any(|arm| wanted(arm) && arm.compare_to == Some(place))
        };
        let places = 0..self.arms.len();
        let kept = places
            .filter(|place| wanted(&self.arms[*place]) || is_compared_to(*place))
            .collect();
        self.of_places(kept)
    }

    /// Returns the results without the arms of which nothing has been run, unless that is all of
    /// them.
    pub(crate) fn of_begun_arms(&self) -> Self {
        let is_begun = |arm: &ArmResults| arm.runs.iter().any(|run| run.state != RunState::NotRun);
        let kept: Vec<usize> = (0..self.arms.len())
            .filter(|place| is_begun(&self.arms[*place]))
            .collect();
        if kept.is_empty() {
            self.clone()
        } else {
            self.clone().of_places(kept)
        }
    }

    /// Returns the results of the arms at these places.
    fn of_places(self, kept: Vec<usize>) -> Self {
        let place_of = |old: usize| kept.iter().position(|place| *place == old);
        let references = self.references.into_iter();
        let references = references
            .filter_map(|of| {
                Some(Reference {
                    arm: place_of(of.arm)?,
                    ..of
                })
            })
            .collect();
        let arms = self
            .arms
            .into_iter()
            .enumerate()
            .filter(|(place, _)| kept.contains(place));
        let arms = arms
            .map(|(_, arm)| ArmResults {
                compare_to: arm.compare_to.and_then(place_of),
                ..arm
            })
            .collect();
        let courses = self.courses.into_iter();
        let courses = courses
            .filter_map(|of| {
                Some(PublishedCourse {
                    arm: place_of(of.arm)?,
                    ..of
                })
            })
            .collect();
        Self {
            arms,
            references,
            courses,
            ..self
        }
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
        let runs = || self.arms.iter().flat_map(|arm| &arm.runs);
        let done = runs()
            .filter(|run| matches!(run.state, RunState::Done(_)))
            .count();
        let not_run = runs().filter(|run| run.state == RunState::NotRun).count();
        [done, not_run, runs().count()]
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::tests::results as sample;

    /// If this fails, a mean holds runs of another arm, or a difference pairs other seeds.
    #[test]
    fn means_are_those_of_the_arm_and_differences_those_of_the_seeds() {
        let results = sample::results();
        let summary = results
            .summary(1, &results.column("hr@10").unwrap())
            .unwrap();
        assert_eq!(
            (summary.count, (summary.mean * 1e6).round()),
            (3, 450_000.0)
        );
        let difference = results
            .difference(1, &results.column("hr@10").unwrap())
            .unwrap();
        assert!(
            (difference.mean + 0.05).abs() < 1e-12 && difference.half_width.unwrap() < 1e-9,
            "{difference:?}"
        );
        assert_eq!(
            results.difference(0, &results.column("hr@10").unwrap()),
            None,
            "an arm is not compared with itself"
        );
        assert_eq!(results.counts(), [6, 0, 6]);
    }

    /// If this fails, arms of which nothing has been run fill the tables, or differences are taken
    /// to another arm.
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

    /// If this fails, a run that failed counts as one that was never begun, or its figures enter a
    /// mean.
    #[test]
    fn a_run_that_failed_is_told_and_left_out() {
        let mut results = sample::results();
        results.arms[1].runs[0].state = RunState::Failed("it exploded".to_owned());
        results.arms[1].runs[1].state = RunState::NotRun;
        assert_eq!(results.failures(), [("int8", 1, "it exploded")]);
        assert_eq!(results.counts(), [4, 1, 6]);
        assert_eq!(
            results
                .summary(1, &results.column("hr@10").unwrap())
                .unwrap()
                .count,
            1
        );
        assert_eq!(
            results
                .difference(1, &results.column("hr@10").unwrap())
                .unwrap()
                .count,
            1
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
