//! The page of a study or a comparison: charts first, then the tables that Markdown has, then every
//! run.

use super::courses::{ChartArm, courses, front};
use super::state_name;
use crate::column::{Cell, Place};
use crate::document::{Block, Columns, Document, Table};
use crate::study::results::{ArmResults, Results, RunResult};

/// Returns the document of the page.
pub(super) fn document(results: &Results, pooled: Option<&Results>) -> Document {
    let mut document = super::document(results, pooled, &[]);
    let is_heading = |block: &Block| matches!(block, Block::Heading(_));
    let first = document.blocks.iter().position(is_heading);
    let tables = document
        .blocks
        .split_off(first.unwrap_or(document.blocks.len()));
    if let Some(metric) = results.metrics.first().filter(|_| results.counts()[0] > 0) {
        let arms = arms(results);
        let heading = Block::heading("Accuracy against what it cost");
        let charts = [
            courses(results, metric, &arms, "arm"),
            front(results, metric, &arms, "arm"),
        ];
        document.blocks.push(heading);
        document.blocks.extend(charts.map(Block::from));
    }
    document.blocks.extend(tables);
    document.blocks.push(Block::heading("Every run"));
    let table = runs(results);
    document.blocks.push(Block::Folded {
        line: format!("{} runs", table.rows.len()),
        is_open: table.rows.len() <= 30,
        table,
    });
    document
}

/// Returns the arms that have a run with a result, each with its protocol if others have other
/// ones.
fn arms(results: &Results) -> Vec<ChartArm<'_>> {
    let is_one = super::protocols(results).len() < 2;
    let all = results.arms.iter().enumerate();
    all.filter(|(_, arm)| arm.reports().next().is_some())
        .map(|(number, arm)| {
            let name = match is_one {
                true => arm.name.clone(),
                false => format!("{} ({})", arm.name, arm.protocols().join("; ")),
            };
            (number, name, arm)
        })
        .collect()
}

/// Returns every run with its metrics and costs.
fn runs(results: &Results) -> Table {
    type Row<'a> = (usize, &'a ArmResults, &'a RunResult);
    let metrics = results.metrics.iter();
    let mut columns: Vec<_> = metrics.filter_map(|name| results.column(name)).collect();
    columns.extend(results.columns_at(Place::Costs));
    let mut table = Columns::new();
    table.add("arm", |(_, arm, _): &Row<'_>| arm.name.clone());
    table.add("seed", |(.., run)| {
        Cell::number(run.seed.to_string(), run.seed)
    });
    table.add("state", |(.., run)| state_name(&run.state));
    for column in &columns {
        table.add(&*column.label, move |(number, _, run)| {
            let values = results.values(*number, column);
            let value = values.iter().find(|(seed, _)| *seed == run.seed);
            column.unit.cell(value.map(|(_, value)| *value))
        });
    }
    table.add("protocol", |(.., run)| {
        let report = run.report.as_ref();
        report.map_or_else(Cell::none, |report| report.run.protocol.as_str().into())
    });
    table.add("report", |(.., run)| run.folder.display().to_string());
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
    use crate::chart::Chart;
    use crate::html::chart::curves;
    use crate::rounds::{DOWN, TIME, UP};
    use crate::study::results::RunState;
    use crate::tests::results as sample;

    fn courses_of(results: &Results) -> Chart {
        courses(results, "hr@10", &arms(results), "arm")
    }

    fn front_of(results: &Results) -> Chart {
        front(results, "hr@10", &arms(results), "arm")
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
        let page = document(&results, None);
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
            ("dense", 4e6, 4.0)
        );
        assert!((dense.y[3] - 0.5).abs() < 1e-12 && dense.low[3] < 0.5 && dense.high[3] > 0.5);
        assert!(courses.note.starts_with("Protocol of every accuracy: "));
        let drawn = curves(front);
        let names: Vec<&str> = drawn.iter().map(|curve| curve.name.as_str()).collect();
        assert_eq!(names, ["dense", "int8"]);
        assert_eq!(axes(front).len(), 3);
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
        assert_eq!((level.x[1].clone(), level.x[3].len()), (vec![1e6, 4e6], 4));
        assert_eq!(level.y[1][0], level.y[1][1]);
        free(&mut results, 0);
        let chart = courses_of(&results);
        assert_eq!(
            (axes(&chart), curves(&chart)[0].x.len()),
            (vec!["rounds"], 1)
        );
        assert_eq!(
            axes(&front_of(&results)).len(),
            3,
            "a chart without any axis cannot be drawn"
        );
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
        assert!(
            courses.note.contains("cannot be compared")
                && courses.series[1].name.ends_with("(full catalogue)")
        );
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
        assert_eq!(document(&results, None).charts().count(), 0);
    }
}
