//! The table of what it took to come near the best accuracy of an arm.

use super::section;
use crate::report::document::{Block, Cell};
use crate::report::metrics;
use crate::study::names::Names;
use crate::study::reach::{Goal, PERCENTS};
use crate::study::results::Results;

/// Returns the table for the best accuracies of `goal`; nothing if there is no metric.
pub(super) fn blocks(results: &Results, names: &Names, goal: Goal) -> Vec<Block> {
    let Some(metric) = results.figures.first() else {
        return Vec::new();
    };
    let header = ["arm", "share of the best", "runs that reach it"];
    let labels = results
        .until(goal, PERCENTS[0])
        .map(|column| column.label.to_string());
    let mut rows = Vec::new();
    for (arm, arm_results) in results.arms.iter().enumerate() {
        for percent in PERCENTS {
            let columns = results.until(goal, percent);
            let reached = results.values(arm, &columns[0]).len();
            let runs = arm_results.reports().count();
            let spent = columns.map(|column| {
                let mean = results.summary(arm, &column).map(|summary| summary.mean);
                column.unit.cell(mean)
            });
            let head = [
                Cell::from(names.labels[arm].as_str()),
                Cell::number(format!("{percent} %"), percent),
                Cell::number(format!("{reached} of {runs}"), reached),
            ];
            rows.push(head.into_iter().chain(spent).collect());
        }
    }
    let label = metrics::label(metric);
    let whose = match (goal, results.compared_by_all()) {
        (Goal::Compared, Some(arm)) => format!("the best {label} of `{}`", results.arms[arm].name),
        (Goal::Compared, None) => format!("the best {label} of the arm that each is compared to"),
        _ => format!("its own best {label}"),
    };
    let text = "Means over the runs that reach the share, from the start of a run to the first evaluated round with it. Of \
                an error, which is better if it is lower, 90 % are reached at 10 % above the best. What devices then \
                download in order to score is not in these bytes; the table of costs has it.";
    let title = format!("What it took to reach a share of {whose}");
    let header = header.map(String::from).into_iter().chain(labels);
    section(names, &title, [text.to_owned()], header, rows)
}
