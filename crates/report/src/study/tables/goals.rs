//! The table of what it took to come near the best accuracy of an arm.

use super::document::Block;
use crate::report::html::table::Cell;
use crate::report::{figures, words};
use crate::study::measures::{Measure, SpentOn};
use crate::study::names::Names;
use crate::study::quantities;
use crate::study::reach::{Goal, PERCENTS};
use crate::study::results::Results;

/// Returns the table for the best accuracies of `goal`; nothing if there is no figure of accuracy.
pub(super) fn blocks(results: &Results, names: &Names, goal: Goal) -> Vec<Block> {
    let Some(figure) = results.figures.first() else {
        return Vec::new();
    };
    let header = [
        "arm",
        "share of the best",
        "runs that reach it",
        "sent up",
        "sent up and down",
        "virtual time",
    ];
    let mut rows = Vec::new();
    for (arm, arm_results) in results.arms.iter().enumerate() {
        for percent in PERCENTS {
            let of = |spent| {
                results.summary(
                    arm,
                    &Measure::Until {
                        goal,
                        percent,
                        spent,
                    },
                )
            };
            let mean = |spent, words: fn(f64) -> String| {
                of(spent).map_or_else(Cell::none, |summary| {
                    Cell::number(words(summary.mean), summary.mean)
                })
            };
            let reached = of(SpentOn::Time).map_or(0, |summary| summary.count);
            rows.push(vec![
                names.labels[arm].as_str().into(),
                Cell::number(format!("{percent} %"), percent),
                Cell::number(
                    format!("{reached} of {}", arm_results.reports().count()),
                    reached,
                ),
                mean(SpentOn::Up, quantities::bytes),
                mean(SpentOn::Both, quantities::bytes),
                mean(SpentOn::Time, words::duration),
            ]);
        }
    }
    let whose = match (goal, results.compared_by_all()) {
        (Goal::Compared, Some(arm)) => {
            format!(
                "of the best {} of `{}`",
                figures::label(figure),
                results.arms[arm].name
            )
        }
        (Goal::Compared, None) => format!(
            "of the best {} of the arm that each is compared to",
            figures::label(figure)
        ),
        _ => format!("of its own best {}", figures::label(figure)),
    };
    let text = "Means over the runs that reach the share, from the start of a run to the first evaluated round with it. Of \
                an error, which is better if it is lower, 90 % are reached at 10 % above the best. What devices then \
                download in order to score is not in these bytes; the table of costs has it.";
    let heading = format!("What it took to reach a share {whose}");
    let table = Block::table(&heading, &header, rows);
    let mut blocks = vec![Block::Heading(heading), Block::Text(text.to_owned())];
    blocks.extend(names.sentence().map(Block::Text));
    blocks.push(table);
    blocks
}
