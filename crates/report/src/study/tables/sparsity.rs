//! The table of how sparse the shared table is, where that was published.

use super::{arm_columns, section};
use crate::column::{Cell, Place};
use crate::document::Block;
use crate::study::names::Names;
use crate::study::results::Results;

/// Returns the table; nothing if the study has no published value of it.
pub(super) fn blocks(results: &Results, names: &Names) -> Vec<Block> {
    let columns = results.columns_at(Place::Sparsity);
    if columns.is_empty() {
        return Vec::new();
    }
    let mut table = arm_columns(names);
    for column in &columns {
        table.add(&*column.label, move |arm| {
            let ours = results.mean(*arm, column);
            let published = results.reference(*arm, &column.name);
            let published = published.map(|of| format!("({})", column.unit.words(of.value)));
            let text = match published {
                None => ours.text,
                Some(published) if ours.number.is_none() => published,
                Some(published) => format!("{} {published}", ours.text),
            };
            Cell { text, ..ours }
        });
    }
    table.add("source", |arm| {
        let reference = |column: &_| results.reference(*arm, column)?.source.clone();
        let source = columns.iter().find_map(|column| reference(&*column.name));
        source.map_or_else(Cell::none, Cell::from)
    });
    let text = "The share of the averaged table's values after the last round whose magnitude is above each threshold, as the \
                mean over seeds, and in parentheses the published share.";
    let table = table.table("How sparse the shared table is", 0..results.arms.len());
    section([text.to_owned()], table)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::record::SPARSITY_THRESHOLDS;
    use crate::rounds::share_column;
    use crate::study::file::Reference;
    use crate::study::tables::{csv, markdown};
    use crate::tests::results as sample;

    /// If this fails, a published share stands beside that of another threshold or another arm, or
    /// every study has a table that nobody asked for.
    #[test]
    fn shares_stand_beside_published_ones_and_only_where_there_are_any() {
        let mut results = sample::results();
        for run in &mut results.arms[1].runs {
            let Some(report) = &mut run.report else {
                continue;
            };
            let first = report.run.seed as f64 / 1000.0;
            let shares = [1.0, 0.99, 0.9, 0.8, 0.7, 0.5 + first, 0.1];
            for (above, share) in SPARSITY_THRESHOLDS.into_iter().zip(shares) {
                let column = vec![None, None, None, Some(share)];
                report.rounds.set(&share_column(above, "averaged"), column);
            }
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
        let header = "| arm | above 1e-1 | above 1e-2 | above 1e-3 | above 1e-4 | above 1e-5 | above 1e-6 | above 0 |";
        for part in [
            header,
            "| dense | - | - | (74.55 %) | - | - | - | - | arXiv v1, Table 3 |",
            "| int8 | 10.00 % | 50.20 % (52.68 %) | 70.00 % | 80.00 % | 90.00 % | 99.00 % | 100.00 % | arXiv v1, Table 3 |",
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
