//! The table of how sparse the shared table is, where that was published.

use super::document::Block;
use super::runs_cell;
use crate::report::html::table::Cell;
use crate::study::measures::Measure;
use crate::study::names::Names;
use crate::study::quantities::Quantity;
use crate::study::results::Results;

/// Returns the table; nothing if the study has no published value of it.
pub(super) fn blocks(results: &Results, names: &Names) -> Vec<Block> {
    let quantities = results.sparsity();
    if quantities.is_empty() {
        return Vec::new();
    }
    let labels: Vec<String> = quantities.iter().map(Quantity::label).collect();
    let header: Vec<&str> = ["arm", "runs"]
        .into_iter()
        .chain(labels.iter().map(String::as_str))
        .chain(["source"])
        .collect();
    let rows = (0..results.arms.len())
        .map(|arm| row(results, names, &quantities, arm))
        .collect();
    let title = "How sparse the shared table is";
    let text = "The share of the averaged table's values after the last round whose magnitude is above each threshold, as the \
                mean over seeds, and in parentheses the published share.";
    let mut blocks = vec![
        Block::Heading(title.to_owned()),
        Block::Text(text.to_owned()),
    ];
    blocks.extend(names.sentence().map(Block::Text));
    blocks.push(Block::table(title, &header, rows));
    blocks
}

fn row(results: &Results, names: &Names, quantities: &[Quantity], arm: usize) -> Vec<Cell> {
    let mut cells = vec![
        names.labels[arm].as_str().into(),
        runs_cell(&results.arms[arm]),
    ];
    let mut source = None;
    for quantity in quantities {
        let mean = results
            .summary(arm, &Measure::Whole(quantity.clone()))
            .map(|summary| summary.mean);
        let published = results.reference(arm, &quantity.name());
        source = source.or_else(|| published?.source.clone());
        let published = published.map(|reference| format!("({})", quantity.words(reference.value)));
        let ours = mean.map(|mean| quantity.words(mean));
        let text = ours
            .into_iter()
            .chain(published)
            .collect::<Vec<_>>()
            .join(" ");
        cells.push(match mean {
            Some(mean) => Cell::number(text, mean),
            None if text.is_empty() => Cell::none(),
            None => text.into(),
        });
    }
    cells.push(source.map_or_else(Cell::none, Cell::from));
    cells
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::study::file::Reference;
    use crate::study::results::RunState;
    use crate::study::sample;
    use crate::study::tables::{csv, markdown};

    /// If this fails, a published share stands beside that of another threshold or another arm, or
    /// every study has a table that nobody asked for.
    #[test]
    fn shares_stand_beside_published_ones_and_only_where_there_are_any() {
        let mut results = sample::results();
        for run in &mut results.arms[1].runs {
            let RunState::Done(report) = &mut run.state else {
                continue;
            };
            let first = report.run.seed as f64 / 1000.0;
            report.rounds[3].averaged_above = Some([1.0, 0.99, 0.9, 0.8, 0.7, 0.5 + first, 0.1]);
        }
        assert!(
            !markdown(&results).contains("sparse")
                && !csv::arms(&results).unwrap().contains("c_above")
        );
        let reference = |arm: usize, figure: &str, value: f64| Reference {
            arm,
            figure: figure.to_owned(),
            value,
            standard_deviation: None,
            source: Some("arXiv v1, Table 3".to_owned()),
        };
        results
            .references
            .push(reference(1, "c_above_1e-2_averaged", 0.5268));
        results
            .references
            .push(reference(0, "c_above_1e-3_averaged", 0.7455));
        let text = markdown(&results);
        let header = "| arm | runs | above 1e-1 | above 1e-2 | above 1e-3 | above 1e-4 | above 1e-5 | above 1e-6 | above 0 |";
        for part in [
            header,
            "| dense | 3 | - | - | (74.55 %) | - | - | - | - | arXiv v1, Table 3 |",
            "| int8 | 3 | 10.00 % | 50.20 % (52.68 %) | 70.00 % | 80.00 % | 90.00 % | 99.00 % | 100.00 % | arXiv v1, Table 3 |",
        ] {
            assert!(text.contains(part), "no {part:?} in\n{text}");
        }
        let rows = csv::arms(&results).unwrap();
        let row = rows
            .lines()
            .find(|line| line.starts_with("int8,c_above_1e-2_averaged,3,0.502"))
            .unwrap();
        assert!(row.contains(",0.5268,,\"arXiv v1, Table 3\","), "{row}");
    }
}
