//! The values of arms over their seeds: those of every column, their means, and how they differ from
//! those of the arm that they are compared to.

use std::collections::BTreeSet;

use super::columns::{Run, RunColumn};
use super::reach::{self, Goal, PERCENTS};
use super::results::{ArmResults, Results};
use super::statistics::Summary;
use crate::chart::Cost;
use crate::column::{Cell, Column, Place, Unit};
use crate::metrics::{self, ANY};
use crate::read::{SavedReport, SavedRun};
use crate::rounds::{self, Has};

impl Results {
    /// Returns all columns: every metric that a run has, the validation part's first one, the
    /// costs, what was claimed and found out about privacy, how sparse the shared table is where
    /// that was published, and what was spent until goals were reached.
    pub(crate) fn columns(&self) -> Vec<RunColumn<'_>> {
        let listed = rounds::columns(&self.has(), Place::Study).into_iter();
        let goals = self.goals();
        let until = goals.flat_map(|goal| PERCENTS.map(|percent| self.until(goal, percent)));
        let mut columns: Vec<RunColumn<'_>> = listed
            .map(|column| column.of_part(Run::figures))
            .chain(until.flatten())
            .collect();
        let is_private =
            |column: &RunColumn<'_>| column.is_in(Place::Privacy) || column.unit == Unit::Epsilon;
        columns.retain(|column| !is_private(column) || self.has_value(column, |_| true));
        columns
    }

    /// Returns the column of this name; `None` if there is none.
    pub(crate) fn column(&self, name: &str) -> Option<RunColumn<'_>> {
        let mut columns = self.columns().into_iter();
        columns.find(|column| column.name == name)
    }

    /// Returns the columns that are shown at a place. Bytes that were of no use and modelled bytes
    /// are among the costs if some run has any of them, up or down.
    pub(crate) fn columns_at(&self, place: Place) -> Vec<RunColumn<'_>> {
        let mut columns = self.columns();
        let kind = |name: &str| {
            name.trim_start_matches("down_")
                .trim_start_matches("up_")
                .to_owned()
        };
        let any: Vec<String> = columns
            .iter()
            .filter(|column| {
                column.is_in(Place::CostsIfAny) && self.has_value(column, |bytes| bytes > 0.0)
            })
            .map(|column| kind(&column.name))
            .collect();
        columns.retain(|column| {
            let is_there = column.is_in(Place::CostsIfAny) && any.contains(&kind(&column.name));
            column.is_in(place) || (place == Place::Costs && is_there)
        });
        columns
    }

    /// Returns what the runs have: their metrics, the first one on the validation part as well, energy
    /// and carbon, and how sparse the shared table is if that was published. Nearly every method shares
    /// a table, and few readers want to know it.
    fn has(&self) -> Has {
        let splits = || {
            let reports = self.arms.iter().flat_map(ArmResults::reports);
            reports.map(|report| &report.run.accuracy)
        };
        let names = metrics::ordered(splits().flat_map(|split| split.test.keys())).into_iter();
        let is_validated = |name: &&String| {
            let mut validation = splits().filter_map(|split| split.validation.as_ref());
            validation.any(|validation| validation.contains_key(*name))
        };
        let validated = self.metrics.first().filter(is_validated);
        let mut references = self.references.iter();
        let is_sparse = references.any(|of| rounds::is_sparsity(&of.figure));
        let has = |has: fn(&SavedRun) -> bool| {
            let mut runs = self.arms.iter().flat_map(ArmResults::reports);
            runs.any(|report| has(&report.run))
        };
        let others = [
            ("published sparsity", is_sparse),
            ("lists", has(|run| run.beyond_accuracy.is_some())),
            ("energy", has(|run| run.energy.is_some())),
            ("server energy", has(|run| run.server_energy_j.is_some())),
            ("carbon", has(|run| run.carbon.is_some())),
            ("newcomers", has(|run| run.newcomers.is_some())),
        ];
        let newcomers = self.arms.iter().flat_map(ArmResults::reports);
        let newcomers = newcomers.flat_map(|report| &report.run.newcomers);
        let after = newcomers.flat_map(|newcomers| &newcomers.after_ratings);
        let newcomer_ratings: BTreeSet<u32> = after.map(|after| after.ratings).collect();
        Has {
            newcomer_ratings: newcomer_ratings.into_iter().collect(),
            metrics: names
                .map(|name| format!("test_{name}"))
                .chain(validated.map(|name| format!("validation_{name}")))
                .collect(),
            others: others
                .into_iter()
                .filter(|(_, is_there)| *is_there)
                .map(|(name, _)| name)
                .collect(),
            ..Has::default()
        }
    }

    /// Returns what was spent until a share of a best accuracy was reached: bytes up, all bytes,
    /// and virtual time.
    pub(crate) fn until(&self, goal: Goal, percent: u32) -> [RunColumn<'_>; 3] {
        let whose = match goal {
            Goal::Own => "own",
            Goal::Compared => "compared",
        };
        [
            ("up_bytes", "sent up", Unit::Bytes, Cost::Uploads),
            ("bytes", "sent up and down", Unit::Bytes, Cost::Bytes),
            ("virtual_time_s", "virtual time", Unit::Seconds, Cost::Time),
        ]
        .map(|(what, label, unit, cost)| {
            let name = format!("{what}_to_{percent}_percent_of_{whose}_best");
            let doc = format!("spent until {percent} % of the best accuracy were reached");
            Column::new(name, unit, doc, move |run: &Run<'_>| {
                let row = run.results.reached((run.arm, run.report), goal, percent)?;
                Some(cost.at(&run.report.rounds, row))
            })
            .labelled(label)
        })
    }

    /// Returns the round when a run reached a goal, by its row; `None` if it never did, or there is
    /// no such goal.
    fn reached(
        &self,
        (arm, report): (usize, &SavedReport),
        goal: Goal,
        percent: u32,
    ) -> Option<usize> {
        let metric = self.metrics.first()?;
        let best = match goal {
            Goal::Own => reach::best(report, metric),
            Goal::Compared => {
                let same_seed = |other: &&SavedReport| other.run.seed == report.run.seed;
                // The arm that others are compared to has its own best as its goal.
                let is_goal = self.arms.iter().any(|other| other.compare_to == Some(arm));
                let compared = self.arms[arm].compare_to.or(is_goal.then_some(arm))?;
                let compared = self.arms[compared].reports().find(same_seed)?;
                reach::best(compared, metric)
            }
        };
        reach::reach(report, metric, best?, percent)
    }

    /// Returns whether some run has a value of a column that `is_wanted` accepts.
    fn has_value<'a>(&'a self, column: &RunColumn<'a>, is_wanted: impl Fn(f64) -> bool) -> bool {
        let arms = 0..self.arms.len();
        let mut values = arms.flat_map(|arm| self.values(arm, column));
        values.any(|(_, value)| is_wanted(value))
    }

    /// Returns the values of an arm with their seeds, for the runs that have one.
    pub(crate) fn values<'a>(&'a self, arm: usize, column: &RunColumn<'a>) -> Vec<(u64, f64)> {
        let value = |report: &'a SavedReport| {
            let run = Run {
                results: self,
                arm,
                report,
            };
            Some((report.run.seed, column.of(&run).number()?))
        };
        self.arms[arm].reports().filter_map(value).collect()
    }

    /// Returns whose best accuracies serve as goals.
    pub(crate) fn goals(&self) -> impl Iterator<Item = Goal> {
        let compared = self.is_compared().then_some(Goal::Compared);
        std::iter::once(Goal::Own).chain(compared)
    }

    /// Returns the summary of an arm's values; `None` if there is none.
    pub(crate) fn summary<'a>(&'a self, arm: usize, column: &RunColumn<'a>) -> Option<Summary> {
        let values = self.values(arm, column).into_iter();
        let summary = Summary::of(&values.map(|(_, value)| value).collect::<Vec<_>>());
        summary.map(|summary| summary.within(range(column)))
    }

    /// Returns the cell with the mean of a column over an arm's runs.
    pub(crate) fn mean<'a>(&'a self, arm: usize, column: &RunColumn<'a>) -> Cell {
        let mean = self.summary(arm, column).map(|summary| summary.mean);
        column.unit.cell(mean)
    }

    /// Returns the summary of what `combine` makes of the values of an arm and of the one that it is
    /// compared to, over the seeds that both have; `None` if it is compared to none, or something is
    /// divided by 0.
    fn paired<'a>(
        &'a self,
        arm: usize,
        column: &RunColumn<'a>,
        combine: fn(f64, f64) -> f64,
    ) -> Option<Summary> {
        self.paired_with(self.arms[arm].compare_to?, arm, column, combine)
    }

    /// Returns the same for an arm and another one.
    fn paired_with<'a>(
        &'a self,
        other: usize,
        arm: usize,
        column: &RunColumn<'a>,
        combine: fn(f64, f64) -> f64,
    ) -> Option<Summary> {
        let (ours, theirs) = (self.values(arm, column), self.values(other, column));
        let pairs = Summary::of_pairs(&ours, &theirs, combine);
        pairs.filter(|pairs| pairs.mean.is_finite())
    }

    /// Returns the summary of the differences between an arm and the one that it is compared to.
    pub(crate) fn difference<'a>(&'a self, arm: usize, column: &RunColumn<'a>) -> Option<Summary> {
        self.difference_to(self.arms[arm].compare_to?, arm, column)
    }

    /// Returns the summary of the differences between an arm and another one.
    pub(super) fn difference_to<'a>(
        &'a self,
        other: usize,
        arm: usize,
        column: &RunColumn<'a>,
    ) -> Option<Summary> {
        let pairs = self.paired_with(other, arm, column, |our, their| our - their)?;
        Some(pairs.within(of_differences(range(column))))
    }

    /// Returns the summary of these differences as shares of the values that they are taken to.
    pub(crate) fn relative_difference<'a>(
        &'a self,
        arm: usize,
        column: &RunColumn<'a>,
    ) -> Option<Summary> {
        let pairs = self.paired(arm, column, |our, their| (our - their) / their)?;
        // Nothing is less than nothing by more than all of it.
        let lowest = if is_never_below_0(column) {
            -1.0
        } else {
            f64::NEG_INFINITY
        };
        Some(pairs.within([lowest, f64::INFINITY]))
    }

    /// Returns the summary of how many times less an arm has than the one that it is compared to.
    pub(crate) fn times_less<'a>(&'a self, arm: usize, column: &RunColumn<'a>) -> Option<Summary> {
        let pairs = self.paired(arm, column, |our, their| their / our)?;
        let lowest = if is_never_below_0(column) {
            0.0
        } else {
            f64::NEG_INFINITY
        };
        Some(pairs.within([lowest, f64::INFINITY]))
    }
}

/// Returns the lowest and the highest value that a column can have.
fn range(column: &RunColumn<'_>) -> [f64; 2] {
    match column.unit {
        Unit::Accuracy if column.is_in(Place::Newcomers) => [0.0, 1.0],
        Unit::Accuracy => metrics::range(column.name.trim_start_matches("validation-")),
        Unit::Share | Unit::Chance => [0.0, 1.0],
        Unit::Number | Unit::Name => ANY,
        _ => [0.0, f64::INFINITY],
    }
}

fn is_never_below_0(column: &RunColumn<'_>) -> bool {
    range(column)[0] == 0.0
}

/// Returns the lowest and the highest difference between two values of a range.
pub(super) fn of_differences([lowest, highest]: [f64; 2]) -> [f64; 2] {
    [lowest - highest, highest - lowest]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::record::SPARSITY_THRESHOLDS;
    use crate::study::results::RunState;
    use crate::tests::results as sample;

    fn names(columns: &[RunColumn<'_>]) -> Vec<String> {
        columns
            .iter()
            .map(|column| column.name.to_string())
            .collect()
    }

    /// Returns results of one run.
    fn of(report: SavedReport) -> Results {
        let mut results = sample::results();
        results.arms.truncate(1);
        results.arms[0].runs.truncate(1);
        results.arms[0].runs[0].report = Some(Box::new(report));
        results
    }

    fn value(results: &Results, name: &str) -> Option<f64> {
        let column = results.column(name)?;
        results.values(0, &column).first().map(|(_, value)| *value)
    }

    /// If this fails, the interval of a share, of bytes or of their differences holds what cannot be.
    #[test]
    fn intervals_over_seeds_keep_within_the_range_of_their_figure() {
        let mut results = sample::results();
        for (arm, values) in [(0, [0.99, 0.40, 0.99]), (1, [0.01, 0.60, 0.01])] {
            for (run, value) in results.arms[arm].runs.iter_mut().zip(values) {
                let run = &mut run.report.as_mut().unwrap().run;
                run.accuracy.test.insert("hr@10".to_owned(), value);
                run.virtual_time_s = 1e3 * value;
            }
        }
        let of = |name: &str| {
            let column = results.column(name).unwrap();
            let compared = 1 - results.arms[1].compare_to.unwrap();
            let all = [
                results.summary(0, &column),
                results.difference(compared, &column),
                results.relative_difference(compared, &column),
                results.times_less(compared, &column),
            ];
            all.map(|of| of.unwrap().interval().unwrap())
        };
        let [share, difference, relative, times] = of("hr@10");
        assert_eq!((share, difference), ([0.0, 1.0], [-1.0, 1.0]));
        assert_eq!((relative[0], times[0]), (-1.0, 0.0));
        let [seconds, ..] = of("virtual_time_s");
        assert!(seconds[0] == 0.0 && seconds[1] > 1e3, "{seconds:?}");
    }

    /// If this fails, a table does not tell measured bytes from modelled ones or used ones from
    /// others, or has columns of nothing.
    #[test]
    fn costs_have_columns_for_what_some_run_has() {
        let mut results = sample::results();
        for run in results.arms.iter_mut().flat_map(|arm| &mut arm.runs) {
            let Some(report) = &mut run.report else {
                continue;
            };
            for flow in [&mut report.run.bytes.up, &mut report.run.bytes.down] {
                (
                    flow.lost,
                    flow.cancelled,
                    flow.in_flight,
                    flow.late,
                    flow.stale,
                ) = (0, 0, 0, 0, 0);
            }
            report.run.work.unused_download_bytes = 0;
        }
        let always = [
            "up_bytes",
            "down_bytes",
            "inference_bytes",
            "virtual_time_s",
            "wall_time_s",
            "threads",
            "peak_memory_bytes",
        ];
        assert_eq!(names(&results.clone().columns_at(Place::Costs)), always);
        if let Some(report) = &mut results.arms[1].runs[0].report {
            report.run.bytes.up.modelled = 5;
            report.run.bytes.down.stale = 7;
            report.run.work.unused_download_bytes = 4;
        }
        let costs = results.columns_at(Place::Costs);
        let added = [
            "up_unused_bytes",
            "down_unused_bytes",
            "up_modelled_bytes",
            "down_modelled_bytes",
        ];
        assert_eq!(
            (costs.len(), &names(&costs)[2..6]),
            (11, &added.map(String::from)[..])
        );
        let down = results.values(1, &results.column("down_unused_bytes").unwrap());
        assert_eq!(
            down.iter().map(|(_, bytes)| *bytes).sum::<f64>(),
            11.0,
            "a download that led to nothing arrived"
        );
    }

    /// If this fails, a column of a study's tables holds another one's figures.
    #[test]
    fn every_column_is_what_the_report_says() {
        let report = sample::report(3, 0.5);
        let results = of(report.clone());
        let run = &report.run;
        for (name, expected) in [
            ("up_bytes", Some(run.bytes.up.sent as f64)),
            ("down_bytes", Some(run.bytes.down.sent as f64)),
            (
                "inference_bytes",
                run.inference_bytes.map(|bytes| bytes as f64),
            ),
            ("virtual_time_s", Some(run.virtual_time_s)),
            ("wall_time_s", Some(run.wall.total_s)),
            ("threads", Some(f64::from(run.wall.threads))),
            (
                "peak_memory_bytes",
                run.wall.peak_rss_bytes.map(|bytes| bytes as f64),
            ),
            ("hr@10", Some(0.5)),
            ("mrr", None),
            ("c_above_1e-2_averaged", None),
        ] {
            assert_eq!(value(&results, name), expected, "{name}");
        }
        let mut all = names(&results.columns());
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count, "two columns have one name");
        let validation = results.column("validation-hr@10").unwrap();
        assert_eq!(validation.label, "validation HR@10");
        let of_validation = run.accuracy.validation.as_ref().unwrap()["hr@10"];
        assert_eq!(value(&results, "validation-hr@10"), Some(of_validation));
        let mut judged = report.clone();
        judged.run.selected_round = Some(1);
        judged.run.inference_bytes = Some(7);
        (judged.run.bytes.up.modelled, judged.run.bytes.down.modelled) = (8, 9);
        judged.run.scenario =
            serde_json::json!({ "codec": { "downlink": { "select": "needed-rows" } } });
        let [first, last] = [0, 3]
            .map(|row| [rounds::UP, rounds::DOWN].map(|name| judged.rounds.at(name, row).unwrap()));
        assert!(first[0] < last[0] && first[1] < last[1]);
        let down = judged.run.bytes.down.sent as f64;
        let judged = of(judged);
        for (name, expected) in [
            ("up_modelled_bytes", 8.0),
            ("down_modelled_bytes", 9.0),
            ("up_bytes_to_selected_round", first[0]),
            ("down_bytes_to_selected_round_and_score", first[1] + 7.0),
            // Rows do not score.
            ("down_bytes", down + 7.0),
        ] {
            assert_eq!(value(&judged, name), Some(expected), "{name}");
        }
        let mut averaged = report.clone();
        for (above, share) in SPARSITY_THRESHOLDS
            .into_iter()
            .zip([1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4])
        {
            let shares = vec![None, Some(share), None, None];
            averaged
                .rounds
                .set(&rounds::share_column(above, "averaged"), shares);
        }
        let mut averaged = of(averaged);
        averaged.references[0].figure = "c_above_0_averaged".to_owned();
        let sparsity = averaged.columns_at(Place::Sparsity);
        let shares: Vec<f64> = sparsity
            .iter()
            .map(|column| averaged.values(0, column)[0].1)
            .collect();
        assert_eq!(shares, [0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]);
        assert_eq!(
            (&*sparsity[0].label, &*sparsity[1].name),
            ("above 1e-1", "c_above_1e-2_averaged")
        );
        assert!(
            rounds::is_sparsity("c_above_0_averaged")
                && !rounds::is_sparsity("c_above_1e-7_averaged")
                && !rounds::is_sparsity("hr@10")
        );
        assert_eq!(Unit::Bytes.words(2.4e9), "2.40 GB");
    }

    /// If this fails, an arm is said to reach the best of another one that it never reached.
    #[test]
    fn goals_of_the_compared_arm_are_those_of_its_run_with_the_same_seed() {
        let results = sample::results();
        let [up, ..] = results.until(Goal::Own, 99);
        assert_eq!(results.values(1, &up).len(), 3);
        // The arm ends at nine tenths of the other one's best.
        let [up, ..] = results.until(Goal::Compared, 95);
        assert_eq!(results.values(1, &up), []);
        assert!(
            results
                .column("up_bytes_to_95_percent_of_compared_best")
                .is_some()
        );
        let mut alone = results.clone();
        alone.arms[1].compare_to = None;
        let names = names(&alone.columns());
        assert!(names.iter().all(|name| !name.contains("compared")));
    }

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
}
