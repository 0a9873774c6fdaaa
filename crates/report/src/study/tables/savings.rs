//! The table of what each arm saves against the one that it is compared to, and what it loses.

use super::{difference_cells, section};
use crate::column::{Place, Unit};
use crate::document::{Block, Columns};
use crate::study::names::Names;
use crate::study::results::Results;

/// Returns the table; nothing if no arm is compared to another one.
pub(super) fn blocks(results: &Results, names: &Names) -> Vec<Block> {
    let metric = results.metrics.first().filter(|_| results.is_compared());
    let Some(tested) = metric.and_then(|name| results.column(name)) else {
        return Vec::new();
    };
    let mut validated = results.columns();
    validated.retain(|column| column.name.starts_with("validation-"));
    let accuracies: Vec<_> = [tested].into_iter().chain(validated).collect();
    let bytes = results.columns_at(Place::Savings);
    let interval = "its 95 % interval".to_owned();
    let mut table = Columns::new();
    table.add("arm", |(arm, _): &(usize, usize)| {
        names.labels[*arm].as_str()
    });
    table.add("compared to", |(_, other)| names.labels[*other].as_str());
    table.add("pairs", |(arm, _)| {
        let pairs = results.relative_difference(*arm, &accuracies[0]);
        Unit::Count.cell(pairs.map_or(0, |pairs| pairs.count) as u64)
    });
    for column in &accuracies {
        let name = format!("{}, change", column.label);
        table.add_pair([name, interval.clone()], move |(arm, _)| {
            difference_cells(results.relative_difference(*arm, column), percent)
        });
    }
    for (column, direction) in bytes.iter().zip(["up", "down"]) {
        let name = format!("times fewer bytes {direction}");
        table.add_pair([name, interval.clone()], move |(arm, _)| {
            difference_cells(results.times_less(*arm, column), factor)
        });
    }
    let mut text = "All columns are means over pairs of runs with the same seed: the change \
                    relative to the accuracy of the arm that is compared to, and how many times as \
                    many bytes that arm sends. Bytes count up to the selected round; bytes down \
                    include what the evaluated users download to score."
        .to_owned();
    if accuracies.len() > 1 {
        text += " Choose settings such as codecs by the change on the validation part: a choice by \
                 the test part also follows the luck of its items.";
    }
    let arms = results.arms.iter().enumerate();
    let rows = arms.filter_map(|(place, arm)| Some((place, arm.compare_to?)));
    let table = table.filled("What is saved, and what is lost", rows);
    section([text], table)
}

fn percent(share: f64) -> String {
    format!("{:+.2} %", 100.0 * share)
}

/// Returns a factor with three digits.
fn factor(times: f64) -> String {
    let digits = match times.abs() {
        100.0.. => 0,
        10.0.. => 1,
        _ => 2,
    };
    format!("{times:.digits$}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::tests::results as sample;

    /// If this fails, a saving is told against another arm than the one that stands beside it, or
    /// beside another loss.
    #[test]
    fn savings_and_losses_are_those_of_pairs() {
        let names = Names::of(&["dense", "int8"]);
        let blocks = blocks(&sample::results(), &names);
        let Block::Table(table) = &blocks[2] else {
            panic!("no table")
        };
        let rows: Vec<Vec<&str>> = table
            .rows
            .iter()
            .map(|row| row.iter().map(|cell| cell.text.as_str()).collect())
            .collect();
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0][..4], ["int8", "dense", "3", "-10.00 %"]);
        assert_eq!(table.header[5], "validation HR@10, change");
        assert_eq!(
            rows[0][5], "+0.00 %",
            "the sample's runs have one validation figure"
        );
        assert_eq!(rows[0][7..10], ["2.00", "2.00 to 2.00", "1.00"]);
        let mut alone = sample::results();
        alone.arms[1].compare_to = None;
        assert!(super::blocks(&alone, &names).is_empty());
    }

    #[test]
    fn factors_have_three_digits() {
        assert_eq!(
            [0.5, 2.0, 16.04, 175.3].map(factor),
            ["0.50", "2.00", "16.0", "175"]
        );
    }
}
