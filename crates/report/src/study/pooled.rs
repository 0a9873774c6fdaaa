//! Pools the arms that repeat one experiment, such as the same method under several cuts.
//!
//! A user counts once for each of the arms in which it is tested, and is drawn with all of them, so
//! that what an interval says of users takes nobody for several people.

use std::sync::Arc;

use rayon::prelude::*;

use super::bootstrap::{Shares, population};
use super::results::{ArmResults, Results, RunResult, RunState};
use crate::read::{Redrawn, SavedReport, SavedRun};

impl Results {
    /// Returns the results with one arm for each experiment that several arms repeat, and no other
    /// arms; `None` if there is none. They have nothing but the metrics, and only the seeds with
    /// which all of these arms have run.
    pub(crate) fn pooled(&self) -> Option<Self> {
        let mut experiments: Vec<&str> = Vec::new();
        for experiment in self.arms.iter().filter_map(|arm| arm.experiment.as_deref()) {
            if !experiments.contains(&experiment) {
                experiments.push(experiment);
            }
        }
        let place_of = |arm: &ArmResults| {
            let own = arm.experiment.as_deref();
            experiments.iter().position(|of| Some(*of) == own)
        };
        let pool = |experiment: &&str| {
            let is_own = |arm: &&ArmResults| arm.experiment.as_deref() == Some(*experiment);
            let arms: Vec<&ArmResults> = self.arms.iter().filter(is_own).collect();
            let other = arms[0].compare_to.map(|place| &self.arms[place]);
            let seeds: Vec<u64> = arms[0].runs.iter().map(|run| run.seed).collect();
            let runs = seeds.par_iter();
            let runs = runs.filter_map(|seed| self.pooled_run(*seed, &arms));
            let (runs, shares) = runs.unzip();
            let arm = ArmResults {
                name: (*experiment).to_owned(),
                experiment: None,
                timing: Vec::new(),
                compare_to: other.and_then(place_of),
                chosen_from: arms[0].chosen_from,
                runs,
            };
            (arm, shares)
        };
        let pools = experiments.par_iter().map(pool);
        let (mut arms, shares): (Vec<ArmResults>, Vec<Vec<Vec<Shares>>>) = pools.unzip();
        self.draw_pools(&mut arms, shares);
        let is_pooled = arms.iter().any(|arm| !arm.runs.is_empty());
        is_pooled.then(|| Self {
            title: self.title.clone(),
            shard: self.shard.clone(),
            metrics: self.metrics.clone(),
            references: Vec::new(),
            courses: Vec::new(),
            arms,
        })
    }

    /// Draws the users of pools with these shares, arm by arm and run by run.
    fn draw_pools(&self, arms: &mut [ArmResults], shares: Vec<Vec<Vec<Shares>>>) {
        let mut reports: Vec<&mut SavedReport> = arms
            .iter_mut()
            .flat_map(|arm| arm.runs.iter_mut())
            .filter_map(|run| run.report.as_deref_mut())
            .collect();
        let runs = reports.iter().map(|report| &report.run);
        let runs: Vec<_> = shares.into_iter().flatten().zip(runs).collect();
        let redrawn = Redrawn::of(&runs, self.draws());
        for (report, redrawn) in reports.iter_mut().zip(redrawn) {
            report.redrawn = Arc::new(redrawn.into());
        }
    }

    /// Returns what the runs of these arms with a seed come to, and what their users add to metrics;
    /// `None` unless all have come to their end, have the values of single users, and mean the same
    /// user by a number.
    fn pooled_run(&self, seed: u64, arms: &[&ArmResults]) -> Option<(RunResult, Vec<Shares>)> {
        let of_arm = |arm: &&ArmResults| {
            let mut reports = arm.reports();
            reports.find(|report| report.run.seed == seed).cloned()
        };
        let reports: Vec<SavedReport> = arms.iter().map(of_arm).collect::<Option<_>>()?;
        if !share_users(reports.iter().map(|report| &report.run)) {
            return None;
        }
        let mut all = Shares::read(&reports[0], &self.metrics);
        for report in &reports[1..] {
            let more = Shares::read(report, &self.metrics);
            for sums in &mut all {
                sums.add(more.iter().find(|of| of.name == sums.name)?);
            }
        }
        let mut report = reports.into_iter().next()?;
        let pooled = all
            .iter()
            .map(|of| Some((of.name.clone(), of.over(|_| 1.0)?)));
        report.run.accuracy.test = pooled.collect::<Option<_>>()?;
        report.run.size.users = all.iter().map(Shares::users).max()? as u64;
        report.figures = Default::default();
        let run = RunResult {
            seed,
            folder: report.folder.clone(),
            state: RunState::Done,
            report: Some(Box::new(report)),
        };
        Some((run, all))
    }
}

/// Returns whether a number means the same user in all of these runs. A cut in time numbers users by
/// their first rating, and a later cut adds users behind those who are there. New users come behind
/// them at every cut, and have other numbers at each.
fn share_users<'r>(mut runs: impl Iterator<Item = &'r SavedRun>) -> bool {
    let kind = |run: &SavedRun| {
        let (users, data) = population(run);
        let by_time = &run.scenario["dataset"]["split"]["global-time"];
        let has_new = by_time["new_users"] == true;
        (data, (!by_time.is_object()).then_some(users), has_new)
    };
    let first = runs.next().map(kind);
    first.is_none_or(|first| !first.2 && runs.all(|run| kind(run) == first))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::study::tables::{files_against, markdown};
    use crate::tests::results as sample;

    /// If this fails, a study without repetitions has rows of them, or one with them has a row for
    /// seeds that some repetition lacks, or none.
    #[test]
    fn repetitions_with_all_runs_are_one_row() {
        let mut results = sample::results();
        assert_eq!(results.pooled(), None);
        let folder = tempfile::tempdir().unwrap();
        for (place, arm) in results.arms.iter_mut().enumerate() {
            arm.experiment = Some("method=fedmf".to_owned());
            arm.compare_to = None;
            for run in &mut arm.runs {
                let report = run.report.as_mut().unwrap();
                report.folder = folder.path().join(format!("{place}-{}", run.seed));
                std::fs::create_dir(&report.folder).unwrap();
                let users = match place {
                    0 => "user,held_out,test_hr@10\n0,1,1\n1,,\n",
                    _ => "user,held_out,test_hr@10\n0,1,1\n1,1,0\n2,1,0\n",
                };
                std::fs::write(report.folder.join("users.csv"), users).unwrap();
            }
        }
        results.metrics = vec!["hr@10".to_owned()];
        results.arms[0].runs.pop();
        let pooled = results.pooled().unwrap();
        let [arm] = &pooled.arms[..] else {
            panic!("not one experiment")
        };
        let seeds: Vec<u64> = arm.runs.iter().map(|run| run.seed).collect();
        assert_eq!(
            (arm.name.as_str(), &seeds[..]),
            ("method=fedmf", &[1, 2][..])
        );
        let of_run = &arm.runs[0].report.as_ref().unwrap().run;
        assert_eq!((of_run.accuracy.test["hr@10"], of_run.size.users), (0.5, 3));
        assert!(pooled.estimate(0, "hr@10").is_some());
        let files = files_against(&results, "study", "other").unwrap();
        let (name, lines) = files.last().unwrap();
        let lines = String::from_utf8(lines.clone()).unwrap();
        assert_eq!(name, "pooled-against-other.csv");
        assert!(lines.contains("\nmethod=fedmf,hr@10,2,0.5,"), "{lines}");
        let text = markdown(&results);
        let (head, _) = text
            .split_once("## HR@10 (test), repetitions pooled")
            .unwrap();
        // The leaderboard has one row for all repetitions.
        let rows = head.lines().filter(|line| line.starts_with("| "));
        let names: Vec<&str> = rows.filter_map(|row| row.split(" | ").next()).collect();
        assert_eq!(names[..], ["| arm", "| ---", "| method=fedmf"], "{head}");
    }

    /// If this fails, users of repetitions whose numbers mean other people are taken for the same.
    #[test]
    fn only_runs_with_the_same_users_are_pooled() {
        let run = |users: u64, split: serde_json::Value| {
            let mut run = sample::report_of(1, "hr@10", &[0.5]).run;
            run.size.users = users;
            run.scenario["dataset"]["split"] = split;
            run
        };
        let share = |a: &_, b: &_| super::share_users([a, b].into_iter());
        let cut = |cut: f64| serde_json::json!({ "global-time": { "cut": cut } });
        let (early, late) = (run(10, cut(0.6)), run(12, cut(0.7)));
        assert!(share(&early, &late));
        let new = serde_json::json!({ "global-time": { "cut": 0.6, "new_users": true } });
        assert!(!share(&run(10, new.clone()), &run(10, new)));
        let share_of = |share: f64| serde_json::json!({ "holdout": { "share": share } });
        assert!(share(&run(10, share_of(0.1)), &run(10, share_of(0.2))));
        assert!(!share(&run(10, share_of(0.1)), &run(11, share_of(0.2))));
        assert!(!share(&early, &run(10, share_of(0.1))));
        let mut other = late.clone();
        other.scenario["dataset"]["name"] = "ml-1m".into();
        assert!(!share(&early, &other));
    }
}
