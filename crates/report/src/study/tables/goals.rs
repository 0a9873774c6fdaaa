//! The table of what it took to come near the best accuracy of an arm.

use super::section;
use crate::column::Cell;
use crate::document::{Block, Columns};
use crate::metrics;
use crate::study::names::Names;
use crate::study::reach::{Goal, PERCENTS};
use crate::study::results::Results;

/// Returns the table for the best accuracies of `goal`; nothing if there is no metric.
pub(super) fn blocks(results: &Results, names: &Names, goal: Goal) -> Vec<Block> {
    let Some(metric) = results.metrics.first() else {
        return Vec::new();
    };
    let spent = PERCENTS.map(|percent| results.until(goal, percent));
    let mut table = Columns::new();
    // A row is an arm and the place of a share.
    table.add("arm", |(arm, _): &(usize, usize)| {
        names.labels[*arm].as_str()
    });
    table.add("share of the best", |(_, share)| {
        let percent = PERCENTS[*share];
        Cell::number(format!("{percent} %"), percent)
    });
    table.add("runs that reach it", |(arm, share)| {
        let reached = results.values(*arm, &spent[*share][0]).len();
        let runs = results.arms[*arm].reports().count();
        Cell::number(format!("{reached} of {runs}"), reached)
    });
    for place in 0..spent[0].len() {
        let (label, spent) = (spent[0][place].label.to_string(), &spent);
        table.add(label, move |(arm, share)| {
            results.mean(*arm, &spent[*share][place])
        });
    }
    let label = metrics::label(metric);
    let whose = match (goal, results.compared_by_all()) {
        (Goal::Compared, Some(arm)) => format!("the best {label} of `{}`", names.labels[arm]),
        (Goal::Compared, None) => format!("the best {label} of the arm that each is compared to"),
        _ => format!("its own best {label}"),
    };
    let text = "Means over the runs that reach the share, from the start of a run to the first evaluated round with it. For \
                an error, where lower is better, 90 % means 10 % above the best. These bytes leave \
                out the downloads for scoring, which the table of costs has.";
    let title = format!("What it took to reach a share of {whose}");
    let arms = 0..results.arms.len();
    let rows = arms.flat_map(|arm| (0..PERCENTS.len()).map(move |share| (arm, share)));
    section([text.to_owned()], table.table(&title, rows))
}
