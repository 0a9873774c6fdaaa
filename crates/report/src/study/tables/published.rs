//! The table of how far the courses of arms are from published ones.

use super::courses::course;
use super::section;
use crate::chart::Cost;
use crate::column::{Cell, Unit};
use crate::document::{Block, Columns};
use crate::metrics;
use crate::study::file::PublishedCourse;
use crate::study::names::Names;
use crate::study::results::Results;

/// A published course, and our mean less its value for each round that has both.
type Row<'a> = (&'a PublishedCourse, Vec<(u32, f64)>);

/// Returns the table; nothing if no course was published. An arm without a run that can be compared
/// has a row without distances.
pub(super) fn blocks(results: &Results, names: &Names) -> Vec<Block> {
    if results.courses.is_empty() {
        return Vec::new();
    }
    let largest = |(_, all): &Row<'_>| {
        let all = all.iter().copied();
        all.max_by(|(_, one), (_, other)| one.abs().total_cmp(&other.abs()))
    };
    let mut table = Columns::new();
    table.add("arm", |(course, _): &Row<'_>| {
        names.labels[course.arm].as_str()
    });
    table.add("metric", |(course, _)| metrics::label(&course.metric));
    table.add("rounds", |(_, all)| Unit::Count.cell(all.len() as u64));
    table.add("mean distance", |(_, all)| {
        let sum: f64 = all.iter().map(|(_, difference)| difference.abs()).sum();
        let mean = (!all.is_empty()).then(|| sum / all.len() as f64);
        Unit::Accuracy.cell(mean)
    });
    table.add("largest distance", move |row| {
        Unit::Accuracy.cell(largest(row).map(|(_, difference)| difference.abs()))
    });
    table.add("in round", move |row| {
        Unit::Count.cell(largest(row).map(|(round, _)| round))
    });
    table.add("in the last round", |(_, all)| {
        let last = all.last();
        last.map_or_else(Cell::none, |(_, last)| {
            Cell::number(format!("{last:+.4}"), last)
        })
    });
    let text = "Each distance is the mean over seeds minus the published value, over the rounds that have both. The \
                mean and the largest distance ignore the sign.";
    let title = "How far the courses are from published ones";
    let rows = results
        .courses
        .iter()
        .map(|of| (of, differences(results, of)));
    section([text.to_owned()], table.table(title, rows))
}

fn differences(results: &Results, published: &PublishedCourse) -> Vec<(u32, f64)> {
    let ours = course(&results.arms[published.arm], &published.metric);
    let rounds = &ours.x[Cost::Rounds as usize];
    let difference = |&(round, published): &(u32, f64)| {
        let place = rounds.iter().position(|place| *place == f64::from(round))?;
        Some((round, ours.y[place] - published))
    };
    published.points.iter().filter_map(difference).collect()
}

/// Returns the rounds of the published course of an arm, and the values after them.
#[cfg_attr(not(feature = "plots"), allow(dead_code))]
pub(super) fn published(
    results: &Results,
    arm: &str,
    metric: &str,
) -> Option<(Vec<f64>, Vec<f64>)> {
    let is_of =
        |course: &&PublishedCourse| results.arms[course.arm].name == arm && course.metric == metric;
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
            metric: figure,
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
