//! The table of how far the courses of arms are from published ones.

use super::courses::curve;
use super::document::Block;
use crate::report::courses::{Against, Curve};
use crate::report::figures;
use crate::report::html::table::Cell;
use crate::study::file::PublishedCourse;
use crate::study::names::Names;
use crate::study::results::Results;

/// Returns the table; nothing if no course was published. An arm without a run that can be compared
/// has a row without distances.
pub(super) fn blocks(results: &Results, names: &Names) -> Vec<Block> {
    let rows: Vec<Vec<Cell>> = results
        .courses
        .iter()
        .map(|course| row(results, names, course))
        .collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let title = "How far the courses are from published ones";
    let header = [
        "arm",
        "figure",
        "rounds",
        "mean distance",
        "largest distance",
        "in round",
        "in the last round",
    ];
    let text = "Each distance is the mean over seeds minus the published value, over the rounds for which there are both. The \
                mean and the largest distance ignore the sign.";
    let mut blocks = vec![
        Block::Heading(title.to_owned()),
        Block::Text(text.to_owned()),
    ];
    blocks.extend(names.sentence().map(Block::Text));
    blocks.push(Block::table(title, &header, rows));
    blocks
}

fn row(results: &Results, names: &Names, course: &PublishedCourse) -> Vec<Cell> {
    let ours = curve(&results.arms[course.arm], &course.figure, Against::Rounds);
    let difference = |&(round, published): &(u32, f64)| {
        let at = ours
            .points
            .iter()
            .find(|point| point.x == f64::from(round))?;
        Some((round, at.y - published))
    };
    let differences: Vec<(u32, f64)> = course.points.iter().filter_map(difference).collect();
    let count = differences.len();
    let mut cells = vec![
        names.labels[course.arm].as_str().into(),
        figures::label(&course.figure).into(),
        Cell::number(count.to_string(), count as f64),
    ];
    let largest = differences
        .iter()
        .max_by(|(_, one), (_, other)| one.abs().total_cmp(&other.abs()));
    let (Some((_, last)), Some((round, largest))) = (differences.last(), largest) else {
        cells.extend((0..4).map(|_| Cell::none()));
        return cells;
    };
    let mean = differences
        .iter()
        .map(|(_, difference)| difference.abs())
        .sum::<f64>()
        / count as f64;
    let distance = |value: f64| Cell::number(format!("{value:.4}"), value);
    cells.extend([
        distance(mean),
        distance(largest.abs()),
        Cell::number(round.to_string(), *round),
    ]);
    cells.push(Cell::number(format!("{last:+.4}"), *last));
    cells
}

/// Returns the published course of an arm as a curve over rounds.
#[cfg_attr(not(feature = "plots"), allow(dead_code))]
pub(super) fn published(results: &Results, arm: &str, figure: &str) -> Option<Curve> {
    use crate::report::courses::Band;
    let is_of =
        |course: &&PublishedCourse| results.arms[course.arm].name == arm && course.figure == figure;
    let course = results.courses.iter().find(is_of)?;
    let band = |&(round, y): &(u32, f64)| Band {
        x: round.into(),
        y,
        low: y,
        high: y,
    };
    Some(Curve {
        label: arm.to_owned(),
        points: course.points.iter().map(band).collect(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::study::sample;

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
        assert_eq!(
            (drawn.points.len(), drawn.points[1].x, drawn.points[1].y),
            (4, 2.0, 0.35)
        );
        assert_eq!(published(&results, "int8", "hr@10"), None);
    }
}
