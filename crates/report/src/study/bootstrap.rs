//! Intervals over users and seeds together, by drawing both anew.
//!
//! A draw takes as many users as there are, with replacement, and as many seeds. A user is a
//! cluster: whoever is drawn brings its values of all seeds and of both arms that are compared, so a
//! difference is paired by user and by seed (the pigeonhole bootstrap: A. B. Owen, Annals of Applied
//! Statistics 1(2), 2007). It is a little wider than need be, since it counts thrice what users and
//! seeds have to do with each other, and a little too narrow by seeds where these are few: of `n` it
//! sees `(n - 1) / n` of their variance. Student's t over seeds, which knows that, stands beside it.
//!
//! Users who are generated, or drawn from a file, are others with every seed, and are drawn anew for
//! each seed apart.

use std::collections::BTreeMap;

use rayon::prelude::*;
use serde_json::Value;

use super::results::{ArmResults, Results};
use super::statistics::{Estimate, holm};
use crate::column::Cell;
use crate::frame::Frame;
use crate::metrics;
use crate::read::{Redrawn, SavedReport, SavedRun};
use fedrecsim_core::metric::{Better, Metric};
use fedrecsim_core::rng::{PortableDraws as _, Streams};

/// The number of draws. Of many arms there are more: Holm's correction multiplies the smallest p by
/// their number.
const DRAWS: usize = 2000;
const DRAWS_FOR_EACH_ARM: usize = 100;

/// The most p of a difference that is called one.
const LEVEL: f64 = 0.05;

/// The column of `users.csv` with the number of a user's held-out items or ratings.
const HELD_OUT: &str = "held_out";

impl Redrawn {
    /// Returns the metrics of runs whose users have these shares, run by run, in the order of
    /// users. Runs with the same users have the same draws, which are made once for all of them.
    pub(super) fn of(runs: &[(Vec<Shares>, &SavedRun)], draws: usize) -> Vec<Self> {
        let users = |(all, run): &(Vec<Shares>, &SavedRun)| {
            // The same users are drawn in all runs of a data set, and in all arms.
            let seed = if has_own_users(run) { run.seed } else { 0 };
            (seed, all.iter().map(|of| of.count).max().unwrap_or(0))
        };
        let mut groups: BTreeMap<(u64, usize), Vec<usize>> = BTreeMap::new();
        for (place, run) in runs.iter().enumerate() {
            groups.entry(users(run)).or_default().push(place);
        }
        let names = runs.iter().map(|(all, _)| all.iter());
        let mut redrawn: Vec<Self> = names
            .map(|all| Self(all.map(|of| (of.name.clone(), Vec::new())).collect()))
            .collect();
        for ((seed, count), places) in groups {
            let of_draw = |draw| {
                let times = times_drawn(seed, count as u32, draw);
                let all = places.iter().flat_map(|&place| {
                    let (all, run) = &runs[place];
                    all.iter().map(move |of| (of, *run))
                });
                // Where few users are evaluated, a draw may have none of them.
                let own = |of: &Shares, run: &SavedRun| run.accuracy.test.get(&of.name).copied();
                let over = |(of, run): (&Shares, &SavedRun)| {
                    of.over(|user| f64::from(times[user]))
                        .unwrap_or_else(|| own(of, run).unwrap_or_default())
                };
                all.map(over).collect::<Vec<f64>>()
            };
            let draws: Vec<Vec<f64>> = (0..draws as u64).into_par_iter().map(of_draw).collect();
            let mut column = 0;
            for place in places {
                for (_, values) in &mut redrawn[place].0 {
                    values.extend(draws.iter().map(|draw| draw[column]));
                    column += 1;
                }
            }
        }
        redrawn
    }
}

/// Draws `count` users out of as many, with replacement. Returns how often each is drawn.
fn times_drawn(seed: u64, count: u32, draw: u64) -> Vec<u32> {
    let mut times = vec![0; count as usize];
    let mut stream = Streams::new(seed).named("study/users", count.into(), draw);
    for _ in 0..count {
        times[stream.below(count) as usize] += 1;
    }
    times
}

/// What every user of a run adds to a metric, which is a quotient of sums over users.
pub(super) struct Shares {
    pub(super) name: String,
    metric: Metric,
    /// The number of users.
    count: usize,
    /// The users who are evaluated, with what each adds to the sum above and to the one below.
    evaluated: Vec<(usize, [f64; 2])>,
}

impl Shares {
    /// Reads those of a run in the metrics that are wanted. There are none without `users.csv`, or
    /// where it cannot be read.
    pub(super) fn read(report: &SavedReport, wanted: &[String]) -> Vec<Self> {
        let is_wanted = |name: &str| {
            let metric = name.strip_prefix("test_");
            name == HELD_OUT || metric.is_some_and(|name| wanted.iter().any(|of| of == name))
        };
        let users = Frame::read(&report.folder.join("users.csv"), is_wanted);
        Self::of(&users.unwrap_or_default(), wanted)
    }

    /// Returns those of a `users.csv`; none without a column of the users' held-out items.
    fn of(users: &Frame, wanted: &[String]) -> Vec<Self> {
        let held_out = users.get(HELD_OUT);
        let of_metric = |name: &String| {
            let (metric, values) = (Metric::named(name)?, users.get(&format!("test_{name}")));
            let pairs = values.iter().zip(held_out);
            let share = |(value, held_out): (&Option<f64>, &Option<f64>)| {
                let both = value.zip(*held_out);
                both.map_or([0.0; 2], |(value, held_out)| metric.shares(value, held_out))
            };
            let count = pairs.len();
            let evaluated = pairs.map(share).enumerate();
            (count > 0).then(|| Self {
                name: name.clone(),
                metric,
                count,
                evaluated: evaluated.filter(|(_, sums)| *sums != [0.0; 2]).collect(),
            })
        };
        wanted.iter().filter_map(of_metric).collect()
    }

    /// Adds those of another run of the same users, of whom it may have more or fewer.
    pub(super) fn add(&mut self, other: &Self) {
        self.count = self.count.max(other.count);
        self.evaluated.extend(&other.evaluated);
        self.evaluated.sort_by_key(|(user, _)| *user);
        self.evaluated.dedup_by(|(user, more), (first, sums)| {
            let is_same = user == first;
            if is_same {
                *sums = [sums[0] + more[0], sums[1] + more[1]];
            }
            is_same
        });
    }

    /// Returns the number of users.
    pub(super) fn users(&self) -> usize {
        self.count
    }

    /// Returns the metric, each user taken so many times; `None` if nobody is evaluated.
    pub(super) fn over(&self, times: impl Fn(usize) -> f64) -> Option<f64> {
        let mut sums = [0.0; 2];
        for (user, [above, below]) in &self.evaluated {
            let times = times(*user);
            sums[0] += times * above;
            sums[1] += times * below;
        }
        (sums[1] > 0.0).then(|| self.metric.of_quotient(sums[0] / sums[1]))
    }
}

/// Returns whether the users of a run are others than those of runs with other seeds.
fn has_own_users(run: &SavedRun) -> bool {
    let dataset = &run.scenario["dataset"];
    let is = |value: &Value, name| value.as_str() == Some(name);
    is(&dataset["name"], "generated") || is(&dataset["subset"]["keep"], "random")
}

/// Returns what the users of two runs have to have in common to be the same: their number, and the
/// data set but for its split.
pub(super) fn population(run: &SavedRun) -> (u64, Value) {
    let mut dataset = run.scenario["dataset"].clone();
    if let Some(table) = dataset.as_object_mut() {
        table.retain(|key, _| !["split", "negatives"].contains(&key.as_str()));
    }
    (run.size.users, dataset)
}

/// What a comparison of an arm with another one has shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Comparison {
    /// The mean of the differences.
    pub mean: f64,
    /// Its draws of users and seeds.
    pub estimate: Estimate,
    /// Its p by Holm's correction for all arms of the table.
    pub p_of_all: f64,
    /// What can be said of the arm.
    pub verdict: Verdict,
}

/// What can be said of an arm beside the one that it is compared to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Ahead,
    Behind,
    /// The interval has 0 in it, or so many comparisons would have shown as much by chance.
    NoneShown,
}

impl Verdict {
    /// Returns the words for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ahead => "ahead",
            Self::Behind => "behind",
            Self::NoneShown => "none shown",
        }
    }
}

impl From<Verdict> for Cell {
    fn from(verdict: Verdict) -> Self {
        verdict.name().into()
    }
}

impl Results {
    /// Returns how often users and seeds are drawn.
    pub(super) fn draws(&self) -> usize {
        DRAWS.max(DRAWS_FOR_EACH_ARM * self.arms.len())
    }

    /// Draws the users of all runs that no table has asked for yet, on all cores.
    pub(super) fn draw_users(&self) {
        let arms = self.arms.iter();
        let reports = arms.flat_map(ArmResults::reports);
        let new: Vec<&SavedReport> = reports
            .filter(|report| report.redrawn.get().is_none())
            .collect();
        let read = |report: &&SavedReport| Shares::read(report, &self.metrics);
        let shares: Vec<Vec<Shares>> = new.par_iter().map(read).collect();
        let runs = new.iter().map(|report| &report.run);
        let runs: Vec<_> = shares.into_iter().zip(runs).collect();
        for (report, redrawn) in new.iter().zip(Redrawn::of(&runs, self.draws())) {
            report.redrawn.get_or_init(|| redrawn);
        }
    }

    /// Returns a metric of a run over draws of users; `None` if its users are not known.
    fn redrawn_run<'a>(&self, report: &'a SavedReport, metric: &str) -> Option<&'a [f64]> {
        if report.redrawn.get().is_none() {
            self.draw_users();
        }
        let Redrawn(all) = report.redrawn.get()?;
        let (_, values) = all.iter().find(|(name, _)| name == metric)?;
        Some(values)
    }

    /// Returns a metric of an arm's runs over draws of users; `None` unless there are runs with the
    /// metric, and the users of each.
    fn redrawn(&self, arm: usize, metric: &str) -> Option<Vec<(&SavedReport, &[f64])>> {
        let reports = self.arms[arm].reports();
        let measured = reports.filter(|report| report.run.accuracy.test.contains_key(metric));
        let redrawn = measured.map(|report| Some((report, self.redrawn_run(report, metric)?)));
        let runs: Option<Vec<_>> = redrawn.collect();
        runs.filter(|runs| !runs.is_empty())
    }

    /// Returns the mean of a metric over an arm's runs, with users and seeds drawn anew; `None` if the
    /// users are not known.
    pub(crate) fn estimate(&self, arm: usize, metric: &str) -> Option<Estimate> {
        let runs = self.redrawn(arm, metric)?.into_iter();
        let runs: Vec<&[f64]> = runs.map(|(_, values)| values).collect();
        Estimate::of(over_seeds(&runs, self.draws(), |run, draw| {
            run.get(draw).copied()
        }))
    }

    /// Returns the difference between an arm and the one that it is compared to, over the seeds that
    /// both have, with users and seeds drawn anew; `None` if these are not the same users.
    fn estimated_difference(&self, arm: usize, metric: &str) -> Option<(f64, Estimate)> {
        self.estimated_difference_to(self.arms[arm].compare_to?, arm, metric)
    }

    /// Returns the same for an arm and another one.
    pub(super) fn estimated_difference_to(
        &self,
        other: usize,
        arm: usize,
        metric: &str,
    ) -> Option<(f64, Estimate)> {
        let (ours, theirs) = (self.redrawn(arm, metric)?, self.redrawn(other, metric)?);
        let (mut pairs, mut sum) = (Vec::new(), 0.0);
        for (our, values) in ours {
            let is_pair = |(their, _): &&(&SavedReport, _)| their.run.seed == our.run.seed;
            if let Some((their, others)) = theirs.iter().find(is_pair) {
                if population(&our.run) != population(&their.run) {
                    return None;
                }
                pairs.push((values, *others));
                let [ours, theirs] = [our, their].map(|report| report.run.accuracy.test[metric]);
                sum += ours - theirs;
            }
        }
        let at =
            |(ours, theirs): &(&[f64], &[f64]), draw| Some(ours.get(draw)? - theirs.get(draw)?);
        let estimate = Estimate::of(over_seeds(&pairs, self.draws(), at))?;
        Some((sum / pairs.len() as f64, estimate))
    }

    /// Returns whether the users of some arm's runs are known.
    pub(crate) fn has_users(&self, metric: &str) -> bool {
        (0..self.arms.len()).any(|arm| self.redrawn(arm, metric).is_some())
    }

    /// Returns what the comparison of each arm has shown in a metric, in the order of the arms.
    pub(crate) fn comparisons(&self, metric: &str) -> Vec<Option<Comparison>> {
        let arms = 0..self.arms.len();
        let estimates: Vec<_> = arms
            .map(|arm| self.estimated_difference(arm, metric))
            .collect();
        let chances: Vec<f64> = estimates.iter().flatten().map(|(_, of)| of.p).collect();
        let mut of_all = holm(&chances).into_iter();
        let is_high_better = metrics::better(metric) == Better::Higher;
        let mut compared = |(mean, estimate): (f64, Estimate)| {
            let p_of_all = of_all.next()?;
            let is_shown = estimate.excludes_zero() && p_of_all <= LEVEL;
            let verdict = match (is_shown, (estimate.low > 0.0) == is_high_better) {
                (false, _) => Verdict::NoneShown,
                (true, true) => Verdict::Ahead,
                (true, false) => Verdict::Behind,
            };
            Some(Comparison {
                mean,
                estimate,
                p_of_all,
                verdict,
            })
        };
        let each = estimates.into_iter();
        each.map(|estimate| estimate.and_then(&mut compared))
            .collect()
    }
}

/// Returns the means over seeds that are drawn anew, draw by draw, of what `at` reads of the runs of
/// a seed in a draw. A single seed is always the one that is drawn, and so is fixed.
fn over_seeds<R>(runs: &[R], draws: usize, at: impl Fn(&R, usize) -> Option<f64>) -> Vec<f64> {
    let count = runs.len() as u32;
    let mean = |draw: usize| {
        let mut stream = Streams::new(0).named("study/seeds", count.into(), draw as u64);
        let mut sum = 0.0;
        for _ in 0..count {
            sum += at(&runs[stream.below(count) as usize], draw)?;
        }
        (count > 0).then(|| sum / f64::from(count))
    };
    (0..draws).map_while(mean).collect()
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::tests::results as sample;

    /// If this fails, a user who is tested at several cuts counts as several people, or the mean is
    /// not that of all tests.
    #[test]
    fn users_of_repetitions_are_clusters() {
        let of = |values: &[Option<f64>]| {
            let mut frame = Frame::default();
            frame.set("test_hr@10", values.to_vec());
            frame.set(HELD_OUT, values.iter().map(|of| of.map(|_| 1.0)).collect());
            Shares::of(&frame, &["hr@10".to_owned()]).remove(0)
        };
        let mut pooled = of(&[Some(1.0), None]);
        pooled.add(&of(&[Some(1.0), Some(0.0), Some(0.5)]));
        assert_eq!(pooled.users(), 3);
        let over = |times: [f64; 3]| pooled.over(|user| times[user]);
        assert_eq!(over([1.0; 3]), Some(2.5 / 4.0));
        assert_eq!(over([2.0, 1.0, 0.0]), Some(4.0 / 5.0));
        assert_eq!(over([0.0; 3]), None);
    }

    /// Has the runs of the sample's arms these values of users, by arm and seed.
    pub(crate) fn with_users(value: impl Fn(usize, u64, usize) -> f64, users: usize) -> Results {
        let mut results = sample::results();
        let draws = results.draws();
        let metrics = results.metrics.clone();
        for (place, arm) in results.arms.iter_mut().enumerate() {
            for run in &mut arm.runs {
                let report = run.report.as_mut().unwrap();
                let mut frame = Frame::default();
                let values = (0..users).map(|user| Some(value(place, run.seed, user)));
                frame.set("test_hr@10", values.collect());
                frame.set(HELD_OUT, vec![Some(1.0); users]);
                let shares = Shares::of(&frame, &metrics);
                let redrawn = Redrawn::of(&[(shares, &report.run)], draws).remove(0);
                report.redrawn = std::sync::Arc::new(redrawn.into());
            }
        }
        results
    }

    /// If this fails, users of one arm are held against others of another one, and a difference
    /// that every user has is lost in the spread of users.
    #[test]
    fn what_every_user_and_seed_has_in_common_is_certain() {
        let results = with_users(
            |arm, _, user| (user % 7) as f64 / 7.0 - 0.05 * arm as f64,
            70,
        );
        let [None, Some(found)] = results.comparisons("hr@10")[..] else {
            panic!("not one comparison")
        };
        assert!((found.estimate.low + 0.05).abs() < 1e-12, "{found:?}");
        assert!((found.estimate.high + 0.05).abs() < 1e-12, "{found:?}");
        assert_eq!(found.verdict, Verdict::Behind);
        let alone = results.estimate(0, "hr@10").unwrap();
        assert!(alone.high - alone.low > 0.1, "{alone:?}");
    }

    /// If this fails, a difference that half of the users have the other way round is called one.
    #[test]
    fn what_users_do_not_agree_on_is_not_shown() {
        let results = with_users(
            |arm, _, user| 0.5 + 0.2 * arm as f64 * if user.is_multiple_of(2) { 1.0 } else { -0.9 },
            60,
        );
        let found = results.comparisons("hr@10")[1].unwrap();
        assert_eq!(found.verdict, Verdict::NoneShown);
        assert!(found.estimate.p > 0.5 && !found.estimate.excludes_zero());
        // The deviation of a user's difference is .19, and that of the mean of 60 is .0245.
        assert!((found.estimate.error - 0.0245).abs() < 0.002, "{found:?}");
        assert!((found.estimate.could_show() - 2.8 * 0.0245).abs() < 0.006);
    }

    /// If this fails, the intervals have another confidence than they say: of 100 studies whose users
    /// are drawn anew, the truth is to be in about 95.
    #[test]
    fn intervals_cover_the_truth() {
        let covered = (0..100).filter(|study| {
            let value = |arm: usize, _: u64, user: usize| {
                let mut stream = Streams::new(*study).named("users", arm as u64, user as u64);
                0.5 + 0.2 * stream.standard_normal()
            };
            let results = with_users(value, 50);
            let of = results.comparisons("hr@10")[1].unwrap().estimate;
            of.low <= 0.0 && of.high >= 0.0
        });
        let covered = covered.count();
        assert!((88..=99).contains(&covered), "{covered}");
    }

    /// If this fails, errors are averaged over users, and those with few ratings count too much.
    #[test]
    fn an_error_is_that_of_all_ratings_drawn() {
        let mut frame = Frame::default();
        frame.set("test_rmse", vec![Some(2.0), Some(1.0), None]);
        frame.set(HELD_OUT, vec![Some(1.0), Some(3.0), None]);
        let run = sample::report_of(1, "rmse", &[1.25]).run;
        let shares = Shares::of(&frame, &["rmse".to_owned()]);
        let Redrawn(found) = Redrawn::of(&[(shares, &run)], 200).remove(0);
        let possible =
            |twos: f64, ones: f64| ((4.0 * twos + 3.0 * ones) / (twos + 3.0 * ones)).sqrt();
        let all = [
            possible(1.0, 1.0),
            possible(2.0, 1.0),
            possible(1.0, 2.0),
            2.0,
            1.0,
            1.25,
        ];
        for value in &found[0].1 {
            assert!(all.iter().any(|of| (of - value).abs() < 1e-12), "{value}");
        }
    }

    /// If this fails, folders of older programs, whose users are not known, have an interval over
    /// them, or users of two data sets are taken for the same.
    #[test]
    fn without_users_or_with_others_there_is_none() {
        let results = sample::results();
        assert_eq!(results.estimate(0, "hr@10"), None);
        assert_eq!(results.comparisons("hr@10"), [None, None]);
        let mut results = with_users(|_, _, _| 0.5, 10);
        for run in &mut results.arms[1].runs {
            run.report.as_mut().unwrap().run.size.users += 1;
        }
        assert_eq!(results.comparisons("hr@10"), [None, None]);
    }
}
