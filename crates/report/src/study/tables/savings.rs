//! The table of what each arm saves against the one that it is compared to, and what it loses.

use super::document::Block;
use super::interval;
use crate::report::html::table::Cell;
use crate::study::measures::Measure;
use crate::study::names::Names;
use crate::study::quantities::{COSTS_OF_SELECTED, Quantity};
use crate::study::results::Results;
use crate::study::statistics::Summary;

/// Returns the table; nothing if no arm is compared to another one.
pub(super) fn blocks(results: &Results, names: &Names) -> Vec<Block> {
    let Some(figure) = results.figures.first().filter(|_| results.is_compared()) else {
        return Vec::new();
    };
    let tested = Quantity::Figure(figure.clone());
    let accuracies: Vec<Quantity> = [tested].into_iter().chain(results.validation()).collect();
    let changes: Vec<String> = accuracies
        .iter()
        .map(|quantity| format!("{}, change", quantity.label()))
        .collect();
    let interval_of = "its 95 % interval";
    let mut header = vec!["arm", "compared to", "pairs"];
    for column in changes
        .iter()
        .map(String::as_str)
        .chain(["times fewer bytes up", "times fewer bytes down"])
    {
        header.extend([column, interval_of]);
    }
    let mut rows = Vec::new();
    for (place, arm) in results.arms.iter().enumerate() {
        let Some(other) = arm.compare_to else {
            continue;
        };
        let changes: Vec<Option<Summary>> = accuracies
            .iter()
            .map(|quantity| results.relative_difference(place, &Measure::Whole(quantity.clone())))
            .collect();
        let pairs = changes[0].map_or(0, |change| change.count);
        let mut cells: Vec<Cell> = [place, other]
            .map(|place| names.labels[place].as_str().into())
            .into();
        cells.push(Cell::number(pairs.to_string(), pairs as f64));
        for change in changes {
            cells.push(change.map_or_else(Cell::none, |change| {
                Cell::number(percent(change.mean), change.mean)
            }));
            cells.push(interval(change, percent));
        }
        for quantity in COSTS_OF_SELECTED {
            let times = results.times_less(place, &Measure::Whole(quantity));
            cells.push(times.map_or_else(Cell::none, |times| {
                Cell::number(factor(times.mean), times.mean)
            }));
            cells.push(interval(times, factor));
        }
        rows.push(cells);
    }
    let text = "All columns are means over pairs of runs with the same seed: the change as a share of the accuracy that is \
                compared to, and how many times as many bytes the run sends that is compared to. Bytes are those up to \
                the round by which a run is judged; those down hold what the evaluated users download in order to score.";
    let by_validation = " Choose settings such as codecs by the change on the validation part: a choice by the test part \
                         follows the luck of its items as well.";
    let text = text.to_owned()
        + if accuracies.len() > 1 {
            by_validation
        } else {
            ""
        };
    let title = "What is saved, and what is lost";
    let mut blocks = vec![Block::Heading(title.to_owned()), Block::Text(text)];
    blocks.extend(names.sentence().map(Block::Text));
    blocks.push(Block::table(title, &header, rows));
    blocks
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
    use crate::study::sample;

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
