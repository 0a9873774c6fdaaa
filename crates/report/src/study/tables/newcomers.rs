//! The table of what users or items get that come late (`[joins]`).

use super::{arm_columns, section};
use crate::column::{Cell, Place};
use crate::document::Block;
use crate::metrics;
use crate::study::columns::RunColumn;
use crate::study::names::Names;
use crate::study::results::{ArmResults, Results};

/// Returns the table; nothing if nobody comes late.
pub(super) fn blocks(results: &Results, names: &Names) -> Vec<Block> {
    let mut reports = results.arms.iter().flat_map(ArmResults::reports);
    let comes = reports.any(|report| report.run.newcomers.is_some());
    let Some(metric) = results.metrics.first().filter(|_| comes) else {
        return Vec::new();
    };
    let columns = results.columns_at(Place::Newcomers);
    let mut table = arm_columns(names);
    for column in &columns {
        table.add(&*column.label, move |arm| cell(results, *arm, column));
    }
    let text = format!(
        "{} of users or items that come late, and of what they are held against, as means over seeds: with so many ratings, \
         and after the last evaluated round. The baseline ranks for new users by popularity, and new items by chance. Time and bytes \
         are those until the newcomers had 95 % of the others, by NDCG where it is measured, over the runs in which they did.",
        metrics::label(metric)
    );
    let table = table.table("What newcomers get", 0..results.arms.len());
    section([text], table)
}

/// Returns the mean of an arm, with the number of runs that have a value if some have none.
fn cell<'a>(results: &'a Results, arm: usize, column: &RunColumn<'a>) -> Cell {
    let (mean, runs) = (
        results.mean(arm, column),
        results.arms[arm].reports().count(),
    );
    match results.values(arm, column).len() {
        having if having > 0 && having < runs => Cell {
            text: format!("{} ({having} of {runs} runs)", mean.text),
            ..mean
        },
        _ => mean,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::tests::results as sample;
    use fedrecsim_sim::outcome::{Accuracy, AfterRatings, Joined, Newcomers, Warm};

    fn accuracy(value: f64) -> Accuracy {
        Accuracy::from([("hr@10".to_owned(), value), ("ndcg@10".to_owned(), 0.9)])
    }

    fn newcomers() -> Newcomers {
        let after = |ratings| AfterRatings {
            ratings,
            users: 5,
            test: accuracy(f64::from(ratings) / 100.0),
        };
        Newcomers {
            after_ratings: vec![after(0), after(10)],
            baselines: [("popularity".to_owned(), accuracy(0.2))].into(),
            joined: Some(Joined {
                users: 5,
                test: accuracy(0.3),
                ..Joined::default()
            }),
            others: Some(accuracy(0.4)),
            metric: "ndcg@10".to_owned(),
            warm: Some(Warm {
                round: 7,
                since_s: 2.5,
                bytes_per_user: 1000.0,
            }),
            ..Newcomers::default()
        }
    }

    /// If this fails, a study shows another figure of newcomers than its runs have, hides that they were not
    /// warm in all of them, or has figures of runs in which nobody comes.
    #[test]
    fn newcomers_stand_beside_what_they_are_held_against() {
        let mut results = sample::results();
        assert_eq!(results.metrics[0], "hr@10");
        let names = Names::of(&["dense", "int8"]);
        assert!(blocks(&results, &names).is_empty(), "nobody comes");
        for (number, run) in results.arms[0].runs.iter_mut().enumerate() {
            let mut found = newcomers();
            if number == 0 {
                found.warm = None;
            }
            run.report.as_mut().unwrap().run.newcomers = Some(found);
        }
        let blocks = blocks(&results, &names);
        let [_, Block::Text(text), Block::Table(table)] = &blocks[..] else {
            panic!("{blocks:?}")
        };
        assert!(text.starts_with("HR@10 of users or items"), "{text}");
        let row = |row: &[Cell]| row.iter().map(|cell| cell.text.clone()).collect::<Vec<_>>();
        let expected = [
            ("arm", "dense"),
            ("scored", "5"),
            ("by the baseline", "0.2000"),
            ("ratings: 0", "0.0000"),
            ("ratings: 10", "0.1000"),
            ("after they came", "0.3000"),
            ("the others", "0.4000"),
            ("time to 95 %", "2.50 s (2 of 3 runs)"),
            ("bytes to 95 %", "1.00 kB (2 of 3 runs)"),
        ];
        assert_eq!(table.header, expected.map(|(head, _)| head));
        assert_eq!(row(&table.rows[0]), expected.map(|(_, cell)| cell));
        assert_eq!(row(&table.rows[1])[1..], ["-"; 8]);
    }

    /// If this fails, an interval of an accuracy of newcomers ends where none can be.
    #[test]
    fn accuracies_of_newcomers_have_the_range_of_a_metric() {
        let mut results = sample::results();
        for (run, value) in results.arms[0].runs.iter_mut().zip([0.0, 0.1, 0.0]) {
            let mut found = newcomers();
            found.joined.as_mut().unwrap().test = accuracy(value);
            run.report.as_mut().unwrap().run.newcomers = Some(found);
        }
        let column = results.column("newcomers_joined").unwrap();
        let interval = results.summary(0, &column).unwrap().interval().unwrap();
        assert_eq!(interval[0], 0.0);
    }
}
