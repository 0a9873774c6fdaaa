//! The columns of runs: what the tables of a study show of every run.

use super::reach::{self, Goal, PERCENTS};
use super::results::{ArmResults, Results};
use crate::report::chart::Cost;
use crate::report::column::{self, Column, Place, Unit, Value};
use crate::report::read::SavedReport;
use crate::report::record::SPARSITY_THRESHOLDS;
use crate::report::rounds::{self, share_column};
use crate::report::words::threshold;
use crate::report::{metrics, users};

/// A run that has come to its end, among the results of its study.
pub(crate) struct Run<'a> {
    results: &'a Results,
    arm: usize,
    report: &'a SavedReport,
}

/// A column of runs.
pub(crate) type RunColumn<'a> = Column<'a, Run<'a>>;

const STUDY: &[Place] = &[Place::Study];
const COSTS: &[Place] = &[Place::Study, Place::Costs];
const COSTS_IF_ANY: &[Place] = &[Place::Study, Place::CostsIfAny];
const PRIVACY: &[Place] = &[Place::Study, Place::Privacy];

/// Returns whether `name` is that of a column of how sparse the shared table is, such as
/// `c_above_1e-2_averaged`.
pub(crate) fn is_sparsity(name: &str) -> bool {
    SPARSITY_THRESHOLDS
        .iter()
        .any(|above| share_column(*above, "averaged") == name)
}

/// Returns a column that reads a report.
fn column<'a, V: Into<Value>>(
    name: impl Into<std::borrow::Cow<'static, str>>,
    label: impl Into<std::borrow::Cow<'static, str>>,
    unit: Unit,
    doc: impl Into<std::borrow::Cow<'static, str>>,
    shown_in: &'static [Place],
    of: impl Fn(&SavedReport) -> V + 'a,
) -> RunColumn<'a> {
    let of = move |run: &Run<'a>| of(run.report);
    Column::new(name, unit, doc, shown_in, of).labelled(label)
}

/// Returns the number in the round that a run is judged by.
fn at_selected(report: &SavedReport, name: &str) -> Option<f64> {
    let selected = report.run.selected_round?;
    let row = report.rounds.find(rounds::ROUND, selected.into())?;
    report.rounds.at(name, row)
}

/// Returns the columns that do not depend on what the runs have.
fn fixed<'a>() -> Vec<RunColumn<'a>> {
    use Unit::{Bytes, Chance, Count, Epsilon, Seconds};
    vec![
        column(
            "up_bytes",
            "sent up",
            Bytes,
            "bytes sent by clients",
            COSTS,
            |report| report.run.bytes.up.sent,
        ),
        column(
            "down_bytes",
            "sent down",
            Bytes,
            "bytes sent by the server, with what it takes to score where clients downloaded only the rows that they needed",
            COSTS,
            |report| report.run.down_bytes(),
        ),
        column(
            "up_unused_bytes",
            "of it unused, up",
            Bytes,
            "bytes spent on uploads that were lost, cancelled, late, stale or in flight at the end",
            COSTS_IF_ANY,
            |report| report.run.bytes.up.unused(),
        ),
        column(
            "down_unused_bytes",
            "of it unused, down",
            Bytes,
            "bytes spent on downloads that did not arrive or led to no update that was used",
            COSTS_IF_ANY,
            |report| report.run.bytes.down.unused() + report.run.work.unused_download_bytes,
        ),
        column(
            "up_modelled_bytes",
            "of it modelled, up",
            Bytes,
            "bytes that `[overheads]` adds to what clients sent",
            COSTS_IF_ANY,
            |report| report.run.bytes.up.modelled,
        ),
        column(
            "down_modelled_bytes",
            "of it modelled, down",
            Bytes,
            "bytes that `[overheads]` adds to what the server sent",
            COSTS_IF_ANY,
            |report| report.run.bytes.down.modelled,
        ),
        column(
            "inference_bytes",
            "to score",
            Bytes,
            "bytes that the evaluated users would download in order to score",
            COSTS,
            |report| report.run.inference_bytes,
        ),
        column(
            "virtual_time_s",
            "virtual time",
            Seconds,
            "virtual time at the end of the last round",
            COSTS,
            |report| report.run.virtual_time_s,
        ),
        column(
            "wall_time_s",
            "wall time",
            Seconds,
            "time that the run took",
            COSTS,
            |report| report.run.wall.total_s,
        ),
        column(
            "threads",
            "threads",
            Count,
            "threads of the run",
            COSTS,
            |report| report.run.wall.threads,
        ),
        column(
            "peak_memory_bytes",
            "peak memory",
            Bytes,
            "peak memory of the run's process",
            COSTS,
            |report| report.run.wall.peak_rss_bytes,
        ),
        column(
            "up_bytes_to_selected_round",
            "sent up to the selected round",
            Bytes,
            "bytes sent by clients up to the selected round",
            &[Place::Study, Place::Savings],
            |report| at_selected(report, rounds::UP),
        ),
        column(
            "down_bytes_to_selected_round_and_score",
            "sent down to the selected round, and to score",
            Bytes,
            "bytes sent by the server up to the selected round, with what the evaluated users download in order to score",
            &[Place::Study, Place::Savings],
            |report| {
                let to_score = report.run.inference_bytes.unwrap_or_default() as f64;
                Some(at_selected(report, rounds::DOWN)? + to_score)
            },
        ),
        column(
            "epsilon",
            "epsilon",
            Epsilon,
            "the epsilon that is claimed",
            STUDY,
            |report| report.run.privacy?.epsilon,
        ),
        column(
            "audit_auc",
            "AUC, one upload",
            Chance,
            "AUC of the audit's best guess which items a user has rated, from the uploads of one round",
            PRIVACY,
            |report| Some(report.run.audit?.best_guess().auc),
        ),
        column(
            "audit_precision",
            "precision, one upload",
            Chance,
            "precision of that guess",
            PRIVACY,
            |report| Some(report.run.audit?.best_guess().precision),
        ),
        column(
            "audit_linked_auc",
            "AUC, all audited uploads",
            Chance,
            "AUC of the best guess from all audited uploads of a user together",
            PRIVACY,
            |report| Some(report.run.audit?.best_linked_guess()?.auc),
        ),
        column(
            "audit_linked_precision",
            "precision, all audited uploads",
            Chance,
            "precision of that guess",
            PRIVACY,
            |report| Some(report.run.audit?.best_linked_guess()?.precision),
        ),
        column(
            "audit_outer_product",
            "outer product",
            Chance,
            "share of the largest eigenvalue in an uploaded outer product of the user vector: 1 gives the vector away",
            PRIVACY,
            |report| report.run.audit?.outer_product,
        ),
    ]
}

/// Returns the column of the share of the averaged table above a threshold.
fn sparsity<'a>(above: f32) -> RunColumn<'a> {
    let name = share_column(above, "averaged");
    column(
        name.clone(),
        format!("above {}", threshold(above)),
        Unit::Share,
        "share of the averaged table's values above the threshold in magnitude, after the last round",
        &[Place::Study, Place::Sparsity],
        move |report| {
            report
                .rounds
                .get(&name)
                .iter()
                .rev()
                .find_map(|share| *share)
        },
    )
}

/// Returns the reference of all columns as Markdown.
pub fn reference() -> String {
    let mut text = "# Columns\n\n[Back to the README](../README.md)\n\nEvery column of the tables of reports and studies. `fedrecsim explain \
                    --columns` prints this file.\nA column that depends on what a run has is there if the run has it: one \
                    for each metric and split, for each\nrule of `[[faults]]`, for energy, for the sparsity of the shared \
                    table, for a third party and for epsilon.\n\n"
        .to_owned();
    for (file, place) in [
        ("rounds.csv", Place::Rounds),
        ("network.csv", Place::Network),
    ] {
        let columns = rounds::columns(&rounds::Has::all());
        text += &column::reference(file, &column::at(columns, place));
    }
    text += &column::reference("users.csv", &users::columns(None, true));
    let mut columns = fixed();
    columns.extend(SPARSITY_THRESHOLDS.into_iter().rev().map(sparsity));
    text += &column::reference("study.csv and summary.csv", &columns);
    text + "A study also has every metric of its runs by its name, the first one on the validation part as\n\
           `validation-METRIC`, and what was spent until 90, 95 and 99 % of the best accuracy were reached, as in\n\
           `up_bytes_to_90_percent_of_own_best`.\n"
}

impl Results {
    /// Returns all columns: every metric that a run has, the validation part's first one, the
    /// costs, what was claimed and found out about privacy, how sparse the shared table is where
    /// that was published, and what was spent until goals were reached.
    pub(crate) fn columns(&self) -> Vec<RunColumn<'_>> {
        let reports = self.arms.iter().flat_map(ArmResults::reports);
        let names = reports.flat_map(|report| report.run.accuracy.test.keys());
        let mut columns: Vec<RunColumn<'_>> = metrics::ordered(names)
            .into_iter()
            .map(|name| {
                let label = metrics::label(name);
                let doc = format!("{label} on the test part, at the selected round");
                column(
                    name.to_owned(),
                    label,
                    Unit::Accuracy,
                    doc,
                    STUDY,
                    move |report| report.run.accuracy.test.get(name).copied(),
                )
            })
            .collect();
        columns.extend(self.validation());
        columns.extend(fixed());
        // Nearly every method shares a table, and few readers want to know how sparse it is.
        if self.references.iter().any(|of| is_sparsity(&of.figure)) {
            columns.extend(SPARSITY_THRESHOLDS.into_iter().rev().map(sparsity));
        }
        for goal in self.goals() {
            columns.extend(
                PERCENTS
                    .into_iter()
                    .flat_map(|percent| self.until(goal, percent)),
            );
        }
        let is_private =
            |column: &RunColumn<'_>| column.is_in(Place::Privacy) || column.unit == Unit::Epsilon;
        columns.retain(|column| !is_private(column) || self.has(column, |_| true));
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
                column.is_in(Place::CostsIfAny) && self.has(column, |bytes| bytes > 0.0)
            })
            .map(|column| kind(&column.name))
            .collect();
        columns.retain(|column| {
            let is_there = column.is_in(Place::CostsIfAny) && any.contains(&kind(&column.name));
            column.is_in(place) || (place == Place::Costs && is_there)
        });
        columns
    }

    /// Returns the first metric on the validation part; `None` if no run has one.
    pub(crate) fn validation(&self) -> Option<RunColumn<'_>> {
        let name = self.figures.first()?;
        let label = format!("validation {}", metrics::label(name));
        let doc = format!(
            "{} on the validation part, at the selected round",
            metrics::label(name)
        );
        let column = column(
            format!("validation-{name}"),
            label,
            Unit::Accuracy,
            doc,
            STUDY,
            move |report| report.run.accuracy.validation.as_ref()?.get(name).copied(),
        );
        self.has(&column, |_| true).then_some(column)
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
            Column::new(name, unit, doc, STUDY, move |run: &Run<'_>| {
                let row = run.results.reached((run.arm, run.report), goal, percent)?;
                Some(cost.at(&run.report.rounds, row))
            })
            .labelled(label)
        })
    }

    /// Returns the round in which a run reached a goal, by its row; `None` if it never did, or there
    /// is no such goal.
    fn reached(
        &self,
        (arm, report): (usize, &SavedReport),
        goal: Goal,
        percent: u32,
    ) -> Option<usize> {
        let metric = self.figures.first()?;
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

    /// Returns whether some run has a value of a column for which `is_wanted` holds.
    fn has<'a>(&'a self, column: &RunColumn<'a>, is_wanted: impl Fn(f64) -> bool) -> bool {
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
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
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
        results.arms[0].runs[0].state = RunState::Done(Box::new(report));
        results
    }

    fn value(results: &Results, name: &str) -> Option<f64> {
        let column = results.column(name)?;
        results.values(0, &column).first().map(|(_, value)| *value)
    }

    /// If this fails, a table does not tell measured bytes from modelled ones or used ones from
    /// others, or has columns of nothing.
    #[test]
    fn costs_have_columns_for_what_some_run_has() {
        let mut results = sample::results();
        for run in results.arms.iter_mut().flat_map(|arm| &mut arm.runs) {
            let RunState::Done(report) = &mut run.state else {
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
        assert_eq!(names(&results.columns_at(Place::Costs)), always);
        if let RunState::Done(report) = &mut results.arms[1].runs[0].state {
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
                .set(&share_column(above, "averaged"), shares);
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
            is_sparsity("c_above_0_averaged")
                && !is_sparsity("c_above_1e-7_averaged")
                && !is_sparsity("hr@10")
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
}
