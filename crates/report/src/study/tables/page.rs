//! The page of a study or a comparison: charts first, then the tables that Markdown has, then every
//! run.

use super::courses::{ChartArm, courses, courses_of_seeds, front};
use super::{Whole, state_name};
use crate::chart::{Chart, Cost, Series, Stroke};
use crate::column::{Cell, Place};
use crate::document::{Block, Columns, Document, Table};
use crate::reference::in_words;
use crate::study::grounds;
use crate::study::names::{Names, is_popularity};
use crate::study::results::{ArmResults, Results, RunResult};

/// The most arms of which single seeds are drawn: those of more cover each other.
const MOST_ARMS_WITH_SEEDS: usize = 12;

/// Returns the document of the page.
pub(super) fn document(whole: &Whole<'_>) -> Document {
    let mut document = super::document(whole, &[]);
    let results = &whole.begun;
    let is_board = |block: &Block| matches!(block, Block::Board(_));
    let board = document.blocks.iter().position(is_board);
    if let Some(board) = board.filter(|_| results.counts()[0] > 0) {
        let rest = document.blocks.split_off(board + 1);
        let charts = charts(results).into_iter();
        document.blocks.extend(charts.map(Block::from));
        document.blocks.extend(rest);
    }
    document.blocks.push(Block::heading("Every run"));
    let table = runs(results);
    document.blocks.push(Block::Folded {
        line: format!("{} runs", table.rows.len()),
        is_open: table.rows.len() <= 30,
        table,
    });
    document
}

/// Returns the courses and the front in every metric.
fn charts(results: &Results) -> Vec<Chart> {
    let labels = Names::of_arms(&results.arms).labels;
    let all = results.arms.iter().zip(labels).enumerate();
    let arms: Vec<ChartArm<'_>> = all
        .filter(|(_, (arm, _))| arm.reports().next().is_some())
        .map(|(number, (arm, label))| (number, label, arm))
        .collect();
    let of_metric = |metric: &String| {
        let mut courses = courses(results, metric, &arms, "arm");
        if arms.len() <= MOST_ARMS_WITH_SEEDS {
            let seeds = |(number, _, arm): &ChartArm<'_>| -> Vec<Series> {
                let all = courses_of_seeds(arm, metric);
                let is_alone = all.len() < 2;
                let all = all.into_iter().filter(|_| !is_alone);
                let of_arm = |series| Series {
                    arm: Some(*number),
                    ..series
                };
                all.map(of_arm).collect()
            };
            courses.series.extend(arms.iter().flat_map(seeds));
        }
        courses.series.extend(reference(results, metric));
        let mut front = front(results, metric, &arms, "arm");
        front.series.iter_mut().for_each(|point| {
            // The leaderboard has the same intervals.
            let estimate = point.arm.and_then(|arm| results.estimate(arm, metric));
            if let Some(estimate) = estimate {
                (point.low, point.high) = (vec![estimate.low], vec![estimate.high]);
            }
        });
        [courses, front]
    };
    let mut charts: Vec<Chart> = results.metrics.iter().flat_map(of_metric).collect();
    if let Some(users) = users_of_all(results) {
        charts.iter_mut().for_each(|chart| per_user(chart, users));
    }
    charts
}

/// Returns the level of the baseline, if no arm ranks by it and all arms can be compared with it.
fn reference(results: &Results, metric: &str) -> Option<Series> {
    let is_arm = results.arms.iter().any(is_popularity);
    let is_one = grounds::classes(&results.grounds()).len() == 1;
    let (name, value) = results.reference_in(metric).filter(|_| is_one && !is_arm)?;
    Some(Series {
        name: in_words(name).to_owned(),
        stroke: Stroke::Dash,
        y: vec![value],
        ..Series::default()
    })
}

/// Returns the number of users, if all runs have the same.
fn users_of_all(results: &Results) -> Option<f64> {
    let reports = results.arms.iter().flat_map(ArmResults::reports);
    let mut users = reports.map(|report| report.run.size.users);
    let first = users.next().filter(|users| *users > 0)?;
    users.all(|users| users == first).then_some(first as f64)
}

/// Has the bytes of a chart be those of a user, as the leaderboard has them.
fn per_user(chart: &mut Chart, users: f64) {
    for cost in [Cost::Bytes, Cost::Uploads] {
        let axis = &mut chart.across[cost as usize];
        axis.title = format!("{}, per user", axis.title);
        for series in &mut chart.series {
            let places = series.x.get_mut(cost as usize);
            places
                .into_iter()
                .flatten()
                .for_each(|bytes| *bytes /= users);
        }
    }
}

/// Returns every run with its metrics and costs.
fn runs(results: &Results) -> Table {
    type Row<'a> = (usize, &'a ArmResults, &'a RunResult);
    let metrics = results.metrics.iter();
    let mut columns: Vec<_> = metrics.filter_map(|name| results.column(name)).collect();
    columns.extend(results.columns_at(Place::Costs));
    let labels = Names::of_arms(&results.arms).labels;
    let mut table = Columns::new();
    table.add("arm", |(arm, ..): &Row<'_>| labels[*arm].clone());
    table.add("seed", |(.., run)| {
        Cell::number(run.seed.to_string(), run.seed)
    });
    for column in &columns {
        table.add(&*column.label, move |(number, _, run)| {
            let values = results.values(*number, column);
            let value = values.iter().find(|(seed, _)| *seed == run.seed);
            column.unit.cell(value.map(|(_, value)| *value))
        });
    }
    table.add("state", |(.., run)| state_name(&run.state));
    table.add("folder", |(.., run)| {
        let folder = run.folder.display().to_string();
        Cell {
            link: Some(format!("{folder}/")),
            ..folder.into()
        }
    });
    let arms = results.arms.iter().enumerate();
    let rows = arms.flat_map(|(number, arm)| arm.runs.iter().map(move |run| (number, arm, run)));
    Table {
        is_sortable: true,
        ..table.table("Every run, with the folder of its report.", rows)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::html::chart::curves;
    use crate::rounds::{DOWN, TIME, UP};
    use crate::study::results::RunState;
    use crate::tests::results as sample;

    fn courses_of(results: &Results) -> Chart {
        charts(results).remove(0)
    }

    fn front_of(results: &Results) -> Chart {
        charts(results).remove(1)
    }

    fn axes(chart: &Chart) -> Vec<&str> {
        let axes = chart.axes_in_use().into_iter();
        axes.map(|axis| chart.across[axis].name).collect()
    }

    /// If this fails, the page of a study shows other courses than its runs had, or a front that is
    /// none.
    #[test]
    fn the_charts_have_every_arm_with_its_band_and_the_front() {
        let results = sample::results();
        let page = document(&Whole::of(&results, None));
        let [courses, front] = page.charts().collect::<Vec<_>>()[..] else {
            panic!("not two charts")
        };
        assert_eq!(
            axes(courses),
            ["all bytes", "uploads", "virtual time", "rounds"]
        );
        let dense = &courses.series[0];
        assert_eq!(
            (dense.name.as_str(), dense.x[1][3], dense.x[3][3]),
            ("dense", 4e6 / 943.0, 4.0)
        );
        assert!((dense.y[3] - 0.5).abs() < 1e-12 && dense.low[3] < 0.5 && dense.high[3] > 0.5);
        let seeds = |arm| {
            let own = courses.series.iter().filter(|of| of.arm == Some(arm));
            own.filter_map(|of| of.seed).collect::<Vec<_>>()
        };
        assert_eq!((seeds(0), seeds(1)), (vec![1, 2, 3], vec![1, 2, 3]));
        assert_eq!(courses.across[1].title, "uploaded so far, per user");
        let names: Vec<&str> = front.series.iter().map(|of| of.name.as_str()).collect();
        assert_eq!(names, ["dense", "int8"]);
        // Time and rounds are the same for both.
        assert_eq!(axes(front), ["all bytes", "uploads"]);
        let table = page.blocks.iter().rev().find_map(|block| match block {
            Block::Folded { table, .. } => Some(table),
            _ => None,
        });
        assert_eq!(table.unwrap().rows.len(), 6);
    }

    /// If this fails, an arm that costs nothing has no place in the chart, or axes of nothing are
    /// offered.
    #[test]
    fn an_arm_that_costs_nothing_is_a_level() {
        let mut results = sample::results();
        let free = |results: &mut Results, arm: usize| {
            for run in &mut results.arms[arm].runs {
                if let Some(report) = &mut run.report {
                    sample::multiply(report, &[UP, DOWN, TIME], 0.0);
                }
            }
        };
        free(&mut results, 1);
        let level = &curves(&courses_of(&results))[1];
        let ends = [1e6, 4e6].map(|bytes| bytes / 943.0_f32);
        assert_eq!((&level.x[1][..], level.x[3].len()), (&ends[..], 4));
        assert_eq!(level.y[1][0], level.y[1][1]);
        free(&mut results, 0);
        let chart = courses_of(&results);
        assert_eq!(
            (axes(&chart), curves(&chart)[0].x.len()),
            (vec!["rounds"], 1)
        );
        assert_eq!(axes(&front_of(&results)), ["rounds"]);
    }

    /// If this fails, a study with few results has no page, or accuracies of two protocols look
    /// comparable.
    #[test]
    fn there_is_a_page_whatever_is_missing() {
        let mut results = sample::results();
        for run in &mut results.arms[1].runs {
            if let Some(report) = &mut run.report {
                report.run.protocol = "full catalogue".to_owned();
                report.run.selected_round = None;
            }
        }
        let courses = courses_of(&results);
        assert!(courses.note.contains("judged alike") && courses.series[1].name == "int8");
        assert_eq!(
            curves(&front_of(&results)).len(),
            1,
            "an arm without a selected round is on the front"
        );
        results.arms[0].runs.truncate(1);
        assert!(
            curves(&courses_of(&results))[0].low.is_empty(),
            "one seed has an interval"
        );
        for arm in &mut results.arms {
            arm.runs
                .iter_mut()
                .for_each(|run| run.state = RunState::NotRun);
        }
        assert_eq!(document(&Whole::of(&results, None)).charts().count(), 0);
    }
}
