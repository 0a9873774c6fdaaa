//! The table of how far the courses of arms are from published ones.

use super::courses::course;
use super::section;
use crate::report::chart::Cost;
use crate::report::column::Unit;
use crate::report::document::{Block, Cell};
use crate::report::metrics;
use crate::study::file::PublishedCourse;
use crate::study::names::Names;
use crate::study::results::Results;

/// Returns the table; nothing if no course was published. An arm without a run that can be compared
/// has a row without distances.
pub(super) fn blocks(results: &Results, names: &Names) -> Vec<Block> {
    let row = |course| row(results, names, course);
    let rows: Vec<Vec<Cell>> = results.courses.iter().map(row).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let header = [
        "arm",
        "metric",
        "rounds",
        "mean distance",
        "largest distance",
        "in round",
        "in the last round",
    ];
    let text = "Each distance is the mean over seeds minus the published value, over the rounds for which there are both. The \
                mean and the largest distance ignore the sign.";
    let title = "How far the courses are from published ones";
    section(names, title, [text.to_owned()], header, rows)
}

fn row(results: &Results, names: &Names, published: &PublishedCourse) -> Vec<Cell> {
    let ours = course(&results.arms[published.arm], &published.figure);
    let rounds = &ours.x[Cost::Rounds as usize];
    let difference = |&(round, published): &(u32, f64)| {
        let place = rounds.iter().position(|place| *place == f64::from(round))?;
        Some((round, ours.y[place] - published))
    };
    let differences: Vec<(u32, f64)> = published.points.iter().filter_map(difference).collect();
    let count = differences.len();
    let mut cells = vec![
        names.labels[published.arm].as_str().into(),
        metrics::label(&published.figure).into(),
        Unit::Count.cell(count as u64),
    ];
    let largest = differences
        .iter()
        .max_by(|(_, one), (_, other)| one.abs().total_cmp(&other.abs()));
    let (Some((_, last)), Some((round, largest))) = (differences.last(), largest) else {
        cells.extend((0..4).map(|_| Cell::none()));
        return cells;
    };
    let sum: f64 = differences
        .iter()
        .map(|(_, difference)| difference.abs())
        .sum();
    cells.extend([
        Unit::Accuracy.cell(sum / count as f64),
        Unit::Accuracy.cell(largest.abs()),
        Unit::Count.cell(*round),
        Cell::number(format!("{last:+.4}"), *last),
    ]);
    cells
}

/// Returns the rounds of the published course of an arm, and the values after them.
#[cfg_attr(not(feature = "plots"), allow(dead_code))]
pub(super) fn published(
    results: &Results,
    arm: &str,
    metric: &str,
) -> Option<(Vec<f64>, Vec<f64>)> {
    let is_of =
        |course: &&PublishedCourse| results.arms[course.arm].name == arm && course.figure == metric;
    let course = results.courses.iter().find(is_of)?;
    Some(
        course
            .points
            .iter()
            .map(|(round, y)| (f64::from(*round), *y))
            .unzip(),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::tests::results as sample;

    /// If this fails, a run is said to be nearer to a published course than it is.
    #[test]
    fn distances_are_those_of_the_same_rounds() {
        let mut results = sample::results();
        let names = Names::of(&["dense", "int8"]);
        assert!(blocks(&results, &names).is_empty());
        let figure = "hr@10".to_owned();
        // The sample has .1, .25, .4 and .5 as means over its seeds, in four rounds.
        results.courses = vec![PublishedCourse {
            arm: 0,
            figure,
            points: vec![(1, 0.1), (2, 0.35), (4, 0.49), (9, 0.0)],
        }];
        let blocks = blocks(&results, &names);
        let Some(Block::Table(table)) = blocks.last() else {
            panic!("no table")
        };
        let row: Vec<&str> = table.rows[0]
            .iter()
            .map(|cell| cell.text.as_str())
            .collect();
        assert_eq!(
            row,
            ["dense", "HR@10", "3", "0.0367", "0.1000", "2", "+0.0100"]
        );
        let mut not_run = results.clone();
        not_run.arms[0].runs.clear();
        let blocks = super::blocks(&not_run, &names);
        let Some(Block::Table(table)) = blocks.last() else {
            panic!("no table")
        };
        let row: Vec<&str> = table.rows[0]
            .iter()
            .map(|cell| cell.text.as_str())
            .collect();
        assert_eq!(
            row,
            ["dense", "HR@10", "0", "-", "-", "-", "-"],
            "what was published stands without a run"
        );
        let drawn = published(&results, "dense", "hr@10").unwrap();
        assert_eq!((drawn.0.len(), drawn.0[1], drawn.1[1]), (4, 2.0, 0.35));
        assert_eq!(published(&results, "int8", "hr@10"), None);
    }
}
