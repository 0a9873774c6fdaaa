//! The table of what uploads tell: what is claimed about users' privacy, what an audit could guess, and which arms no
//! other one beats in accuracy, bytes and privacy together.

use super::courses::point;
use super::document::Block;
use super::runs_cell;
use crate::metric::Direction;
use crate::report::courses::{Against, unbeaten_in_all};
use crate::report::html::table::Cell;
use crate::report::setup::claim;
use crate::report::{figures, words};
use crate::study::measures::Measure;
use crate::study::names::Names;
use crate::study::quantities::{Quantity, direction};
use crate::study::results::{ArmResults, Results};

/// Returns the table; nothing if no run has an audit or does anything about privacy.
pub(super) fn blocks(results: &Results, names: &Names) -> Vec<Block> {
    let quantities = results.privacy();
    let has_claims = results.arms.iter().flat_map(ArmResults::reports).any(|report| report.run.privacy.is_some());
    if quantities.is_empty() && !has_claims {
        return Vec::new();
    }
    let labels: Vec<String> = quantities.iter().map(Quantity::label).collect();
    let mut header: Vec<&str> = ["arm", "runs"].into_iter().chain(labels.iter().map(String::as_str)).collect();
    header.extend(has_claims.then_some("what is claimed"));
    let front = front(results);
    header.extend(front.is_some().then_some("on the front"));
    let row = |arm: usize| {
        let mut cells = vec![names.labels[arm].as_str().into(), runs_cell(&results.arms[arm])];
        for quantity in &quantities {
            let mean = results.summary(arm, &Measure::Whole(quantity.clone())).map(|summary| summary.mean);
            cells.push(mean.map_or_else(Cell::none, |mean| Cell::number(quantity.words(mean), mean)));
        }
        cells.extend(has_claims.then(|| weakest_claim(&results.arms[arm]).map_or_else(Cell::none, Cell::from)));
        cells.extend(front.as_ref().map(|on_front| if on_front.contains(&arm) { "yes".into() } else { Cell::none() }));
        cells
    };
    let title = "What uploads tell";
    let mut blocks = vec![Block::Heading(title.to_owned())];
    blocks.extend(explanations(results, front.is_some(), quantities.contains(&Quantity::AuditAuc)).map(Block::Text));
    blocks.extend(names.sentence().map(Block::Text));
    blocks.push(Block::table(title, &header, (0..results.arms.len()).map(row).collect()));
    blocks
}

/// Returns what a reader has to know about the columns.
fn explanations(results: &Results, has_front: bool, has_audit: bool) -> impl Iterator<Item = String> {
    let audit = "The audit guesses which items a user has rated, from decoded uploads alone. AUC .5 is chance and 1 \
                 certainty; precision is the share of rated items among as many guesses. Of its three guesses the best one \
                 is shown.";
    let figure = results.figures.first().map_or_else(String::new, |figure| figures::label(figure));
    let front = format!(
        "An arm is on the front if no other one is at least as good in {figure}, in bytes up and down until the selected \
         round, and in the AUC from all uploads of a user, and better in one of the three. Arms without an audit are not \
         considered."
    );
    has_audit.then(|| audit.to_owned()).into_iter().chain(has_front.then_some(front))
}

/// Returns the claim of the run that claims the least; `None` if no run does anything about privacy.
fn weakest_claim(arm: &ArmResults) -> Option<String> {
    let epsilon = |epsilon: Option<f64>| epsilon.unwrap_or(f64::INFINITY);
    let claims = arm.reports().filter_map(|report| report.run.privacy);
    let weakest = claims.max_by(|one, other| epsilon(one.epsilon).total_cmp(&epsilon(other.epsilon)))?;
    let text = claim(&weakest);
    let runs = arm.reports().count() as u64;
    Some(if runs > 1 { format!("{text}; the weakest claim of {}", words::counted(runs, "run")) } else { text })
}

/// Returns the arms that no other one beats in accuracy, bytes and what all uploads tell; `None` if fewer than two arms
/// have all three.
fn front(results: &Results) -> Option<Vec<usize>> {
    let figure = results.figures.first()?;
    let sign = if direction(figure) == Direction::HigherIsBetter { -1.0 } else { 1.0 };
    let of_arm = |(place, arm): (usize, &ArmResults)| {
        let auc = results.summary(place, &Measure::Whole(Quantity::LinkedAuditAuc))?.mean;
        let at = point(arm, figure, Against::Bytes)?.at;
        Some((place, [at.x, sign * at.y, auc]))
    };
    let (places, costs): (Vec<usize>, Vec<[f64; 3]>) = results.arms.iter().enumerate().filter_map(of_arm).unzip();
    (places.len() > 1).then(|| unbeaten_in_all(&costs).into_iter().map(|place| places[place]).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::report::record::{AuditFigures, AuditRecord, PrivacyRecord};
    use crate::scenario::{Adjacency, Trust};
    use crate::study::results::RunState;
    use crate::study::sample;

    /// Returns the sample with an audit of this AUC for every arm.
    fn audited(aucs: &[f64]) -> Results {
        let mut results = sample::results();
        for (arm, auc) in results.arms.iter_mut().zip(aucs) {
            for run in &mut arm.runs {
                let RunState::Done(report) = &mut run.state else { continue };
                let figures = |auc| AuditFigures { auc, precision: auc / 2.0 };
                report.run.audit = Some(AuditRecord {
                    presence: figures(0.5),
                    norm: figures(auc - 0.1),
                    linked: Some([figures(0.5), figures(*auc), figures(0.5)]),
                    ..AuditRecord::default()
                });
            }
        }
        results
    }

    fn rows(blocks: &[Block]) -> Vec<Vec<&str>> {
        let Some(Block::Table(table)) = blocks.last() else { panic!("no table") };
        table.rows.iter().map(|row| row.iter().map(|cell| cell.text.as_str()).collect()).collect()
    }

    /// If this fails, a saving stands beside what another arm gives away, or an arm is recommended that another one beats.
    #[test]
    fn every_arm_has_its_best_guess_and_the_front_weighs_three_things() {
        let names = Names::of(&["dense", "int8"]);
        let blocks_of = |results: &Results| blocks(results, &names);
        assert!(blocks_of(&sample::results()).is_empty(), "nothing is known");
        let all = blocks_of(&audited(&[0.9, 0.8]));
        let row = ["int8", "3", "0.700", "0.350", "0.800", "0.400", "yes"];
        assert_eq!(rows(&all)[1], row);
        assert_eq!(rows(&all)[0].last(), Some(&"yes"), "it is the most accurate one");
        let mut worse = audited(&[0.8, 0.9]);
        for run in &mut worse.arms[1].runs {
            if let RunState::Done(report) = &mut run.state {
                report.rounds.iter_mut().for_each(|round| round.up_bytes *= 9);
            }
        }
        assert_eq!(rows(&blocks_of(&worse))[1].last(), Some(&"-"), "another arm is better in all three");
    }

    /// If this fails, the tables of a study claim more than the weakest of its runs.
    #[test]
    fn the_weakest_claim_stands_in_the_table() {
        let mut results = sample::results();
        let nothing = PrivacyRecord {
            epsilon: None,
            delta: Some(1e-5),
            adjacency: Some(Adjacency::Replace),
            trust: Some(Trust::Local),
            sampling: None,
            times: 3,
            no_epsilon: None,
        };
        for (number, run) in results.arms[0].runs.iter_mut().enumerate() {
            if let RunState::Done(report) = &mut run.state {
                report.run.privacy = Some(PrivacyRecord { epsilon: Some(number as f64), ..nothing });
            }
        }
        assert_eq!(weakest_claim(&results.arms[1]), None);
        let claim = weakest_claim(&results.arms[0]).unwrap();
        assert!(claim.starts_with("epsilon 2.0000 at delta") && claim.ends_with("of 3 runs"), "{claim}");
        if let RunState::Done(report) = &mut results.arms[0].runs[1].state {
            report.run.privacy = Some(nothing);
        }
        assert!(weakest_claim(&results.arms[0]).unwrap().starts_with("no epsilon"));
    }
}
