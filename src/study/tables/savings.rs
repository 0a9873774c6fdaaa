//! The table of what each arm saves against the one that it is compared to, and what it loses.

use super::document::Block;
use super::interval;
use crate::report::figures;
use crate::report::html::table::Cell;
use crate::study::quantities::{COSTS_OF_SELECTED, Quantity};
use crate::study::results::{Measure, Results};

/// Returns the table; nothing if no arm is compared to another one.
pub(super) fn blocks(results: &Results) -> Vec<Block> {
    let Some(figure) = results.figures.first().filter(|_| results.is_compared()) else { return Vec::new() };
    let accuracy = Measure::Whole(Quantity::Figure(figure.clone()));
    let label = figures::label(figure);
    let change = format!("{label}, change");
    let header = [
        "arm",
        "compared to",
        "pairs",
        &change,
        "its 95 % interval",
        "times fewer bytes up",
        "its 95 % interval",
        "times fewer bytes down",
        "its 95 % interval",
    ];
    let mut rows = Vec::new();
    for (place, arm) in results.arms.iter().enumerate() {
        let Some(other) = arm.compare_to else { continue };
        let change = results.relative_difference(place, &accuracy);
        let pairs = change.map_or(0, |change| change.count);
        let mut cells: Vec<Cell> = vec![arm.name.clone().into(), results.arms[other].name.clone().into()];
        cells.push(Cell::number(pairs.to_string(), pairs as f64));
        cells.push(change.map_or_else(Cell::none, |change| Cell::number(percent(change.mean), change.mean)));
        cells.push(interval(change, percent));
        for quantity in COSTS_OF_SELECTED {
            let times = results.times_less(place, &Measure::Whole(quantity));
            cells.push(times.map_or_else(Cell::none, |times| Cell::number(factor(times.mean), times.mean)));
            cells.push(interval(times, factor));
        }
        rows.push(cells);
    }
    let text = "All columns are means over pairs of runs with the same seed: the change as a share of the accuracy that is \
                compared to, and how many times as many bytes the run sends that is compared to. Bytes are those up to \
                the round by which a run is judged; those down hold what the evaluated users download in order to score.";
    let title = "What is saved, and what is lost";
    vec![Block::Heading(title.to_owned()), Block::Text(text.to_owned()), Block::table(title, &header, rows)]
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

    /// If this fails, a saving is told against another arm than the one that stands beside it, or beside another loss.
    #[test]
    fn savings_and_losses_are_those_of_pairs() {
        let blocks = blocks(&sample::results());
        let Block::Table(table) = &blocks[2] else { panic!("no table") };
        let rows: Vec<Vec<&str>> =
            table.rows.iter().map(|row| row.iter().map(|cell| cell.text.as_str()).collect()).collect();
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0][..4], ["int8", "dense", "3", "-10.00 %"]);
        assert_eq!(rows[0][5..8], ["2.00", "2.00 to 2.00", "1.00"]);
        let mut alone = sample::results();
        alone.arms[1].compare_to = None;
        assert!(super::blocks(&alone).is_empty());
    }

    #[test]
    fn factors_have_three_digits() {
        assert_eq!([0.5, 2.0, 16.04, 175.3].map(factor), ["0.50", "2.00", "16.0", "175"]);
    }
}
