//! The table of what uploads tell: what is claimed about users' privacy, what an audit could guess,
//! and which arms no other one beats in accuracy, bytes and privacy together.

use serde_json::Value;

use super::{arm_columns, section};
use crate::chart::{loss, unbeaten};
use crate::column::{Cell, Place, Unit};
use crate::document::Block;
use crate::record::PrivacyRecord;
use crate::setup::claim;
use crate::study::columns::RunColumn;
use crate::study::names::Names;
use crate::study::results::{ArmResults, Results};
use crate::{metrics, words};

/// Returns the table; nothing if no run has an audit or does anything about privacy.
pub(super) fn blocks(results: &Results, names: &Names) -> Vec<Block> {
    // An epsilon stands beside the claim that it belongs to, and is no mean.
    let columns = results.columns_at(Place::Privacy);
    let reports = || results.arms.iter().flat_map(ArmResults::reports);
    let has_claims = reports().any(|report| report.run.privacy.is_some());
    if columns.is_empty() && !has_claims {
        return Vec::new();
    }
    let mut table = arm_columns(names);
    for column in &columns {
        table.add(&*column.label, move |arm| results.mean(*arm, column));
    }
    if has_claims {
        let names = ["epsilon", "what is claimed"];
        table.add_pair(names, |arm| claims(&results.arms[*arm]));
    }
    let front = front(results);
    let mut texts = Vec::new();
    let has = |name| columns.iter().any(|column| column.name == name);
    if has("audit_auc") {
        let outer = match has("audit_outer_product") {
            true => {
                " The outer product is that of a user vector with itself, where uploads have one: 1 gives the vector away."
            }
            false => "",
        };
        texts.push(format!(
            "The audit guesses which items a user has rated, from the decoded uploads of the \
             audited rounds alone. An AUC of .5 is chance and 1 is certainty; one below .5 is \
             turned round. Precision is the share of rated items among as many guesses. The audit \
             has three scores, and each column shows the highest. This is a lower bound: a better \
             probe may find more.{outer}"
        ));
    }
    if let Some(on_front) = front {
        let metric = results.metrics.first();
        texts.push(format!(
            "An arm is on the front unless another arm with the same data and candidates is at \
             least as good in three figures and better in one: {}, bytes (up and down until the \
             selected round, and to score) and the AUC from all audited uploads. Figures are \
             compared as the tables show them. Arms without an audit are not considered.",
            metric.map_or_else(String::new, |metric| metrics::label(metric))
        ));
        table.add("on the front", move |arm| match on_front.contains(arm) {
            true => "yes".into(),
            false => Cell::none(),
        });
    }
    section(
        texts,
        table.table("What uploads tell", 0..results.arms.len()),
    )
}

/// Returns the epsilon and the claim of the run that claims the least.
fn claims(arm: &ArmResults) -> [Cell; 2] {
    let Some(weakest) = weakest_claim(arm) else {
        return [Cell::none(), Cell::none()];
    };
    let of_several = match arm.reports().count() as u64 {
        0 | 1 => String::new(),
        runs => format!("; the weakest claim of {}", words::counted(runs, "run")),
    };
    let claimed = format!("{}{of_several}", claim(&weakest));
    [Unit::Epsilon.cell(weakest.epsilon), claimed.into()]
}

/// Returns the claim of the run that claims the least; `None` if no run does anything about
/// privacy.
fn weakest_claim(arm: &ArmResults) -> Option<PrivacyRecord> {
    let size = |claim: &PrivacyRecord| claim.epsilon.unwrap_or(f64::INFINITY);
    let claims = arm.reports().filter_map(|report| report.run.privacy);
    claims.max_by(|one, other| size(one).total_cmp(&size(other)))
}

/// An arm by its place, with what it costs.
type Costs = (usize, [f64; 3]);

/// Returns the arms that no other one with the same data and candidates beats in accuracy, bytes
/// and what all audited uploads tell; `None` if no two arms can be compared.
fn front(results: &Results) -> Option<Vec<usize>> {
    let metric = results.metrics.first()?;
    let mut groups: Vec<(Value, Vec<Costs>)> = Vec::new();
    for (place, arm) in results.arms.iter().enumerate() {
        let (Some(report), Some(costs)) = (arm.reports().next(), costs(results, place, metric))
        else {
            continue;
        };
        let kind = compared_by(&report.run.scenario);
        match groups.iter_mut().find(|(other, _)| *other == kind) {
            Some((_, arms)) => arms.push((place, costs)),
            None => groups.push((kind, vec![(place, costs)])),
        }
    }
    let of_group = |(_, arms): &(Value, Vec<Costs>)| -> Vec<usize> {
        let costs: Vec<[f64; 3]> = arms.iter().map(|(_, costs)| *costs).collect();
        let places = unbeaten(&costs).into_iter();
        places.map(|place| arms[place].0).collect()
    };
    let can_compare = groups.iter().any(|(_, arms)| arms.len() > 1);
    can_compare.then(|| groups.iter().flat_map(of_group).collect())
}

/// Returns what arms have to have in common for their accuracies to be compared: the data, the pool
/// of negatives, and how candidates are drawn.
fn compared_by(scenario: &Value) -> Value {
    let evaluation = ["ranking", "candidates", "shared_candidates", "item_table"];
    let evaluation = evaluation.map(|key| scenario["evaluation"][key].clone());
    serde_json::json!([scenario["dataset"], evaluation])
}

/// Returns the bytes, the accuracy and the AUC of an arm as costs, with as many digits as tables
/// show.
fn costs<'a>(results: &'a Results, place: usize, metric: &str) -> Option<[f64; 3]> {
    let mean = |column: &RunColumn<'a>| Some(results.summary(place, column)?.mean);
    let spent = results.columns_at(Place::Savings);
    let bytes: Option<f64> = spent.iter().map(mean).sum();
    let accuracy = mean(&results.column(metric)?)?;
    let auc = mean(&results.column("audit_linked_auc")?)?;
    let rounded = |value: f64, digits: f64| (value * digits).round() / digits;
    Some([
        bytes?,
        rounded(loss(metrics::better(metric), accuracy), 1e4),
        rounded(auc, 1e3),
    ])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::record::{AuditRecord, PrivacyRecord};
    use crate::rounds::UP;
    use crate::tests::results as sample;
    use fedrecsim_scenario::{Adjacency, Trust};
    use fedrecsim_sim::outcome::AuditFigures;

    /// Returns the sample with an audit of this AUC for every arm.
    fn audited(aucs: &[f64]) -> Results {
        let mut results = sample::results();
        for (arm, auc) in results.arms.iter_mut().zip(aucs) {
            for run in &mut arm.runs {
                let Some(report) = &mut run.report else {
                    continue;
                };
                let figures = |auc| AuditFigures {
                    auc,
                    precision: auc / 2.0,
                };
                report.run.audit = Some(AuditRecord {
                    presence: figures(0.5),
                    norm: figures(auc - 0.1),
                    against_mean: figures(0.5),
                    linked: Some([figures(0.5), figures(*auc), figures(0.5)]),
                    ..AuditRecord::default()
                });
            }
        }
        results
    }

    fn rows(blocks: &[Block]) -> Vec<Vec<&str>> {
        let Some(Block::Table(table)) = blocks.last() else {
            panic!("no table")
        };
        table
            .rows
            .iter()
            .map(|row| row.iter().map(|cell| cell.text.as_str()).collect())
            .collect()
    }

    /// If this fails, a saving stands beside what another arm gives away, or an arm is recommended
    /// that another one beats.
    #[test]
    fn every_arm_has_its_best_guess_and_the_front_weighs_three_things() {
        let names = Names::of(&["dense", "int8"]);
        let blocks_of = |results: &Results| blocks(results, &names);
        assert!(blocks_of(&sample::results()).is_empty(), "nothing is known");
        let all = blocks_of(&audited(&[0.9, 0.8]));
        let row = ["int8", "0.700", "0.350", "0.800", "0.400", "yes"];
        assert_eq!(rows(&all)[1], row);
        assert_eq!(
            rows(&all)[0].last(),
            Some(&"yes"),
            "it is the most accurate one"
        );
        let mut worse = audited(&[0.8, 0.9]);
        for run in &mut worse.arms[1].runs {
            if let Some(report) = &mut run.report {
                sample::multiply(report, &[UP], 9.0);
            }
        }
        assert_eq!(
            rows(&blocks_of(&worse))[1].last(),
            Some(&"-"),
            "another arm is better in all three"
        );
        for run in &mut worse.arms[1].runs {
            if let Some(report) = &mut run.report {
                report.run.scenario["dataset"]["name"] = "another".into();
            }
        }
        assert_eq!(
            front(&worse),
            None,
            "arms with other data cannot be compared"
        );
        // A guess that is wrong more often than chance is as good as its opposite.
        let inverted = audited(&[0.8, 0.1]);
        let auc = |arm| costs(&inverted, arm, "hr@10").unwrap()[2];
        assert_eq!([auc(0), auc(1)], [0.8, 0.9]);
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
            if let Some(report) = &mut run.report {
                report.run.privacy = Some(PrivacyRecord {
                    epsilon: Some(number as f64),
                    ..nothing
                });
            }
        }
        let told = |results: &Results, arm: usize| claims(&results.arms[arm]).map(|cell| cell.text);
        assert_eq!(told(&results, 1), ["-", "-"]);
        let [epsilon, claim] = told(&results, 0);
        assert_eq!(
            epsilon, "2.000",
            "an epsilon is the largest one and no mean"
        );
        assert!(
            claim.starts_with("epsilon 2.0000 at delta") && claim.ends_with("of 3 runs"),
            "{claim}"
        );
        if let Some(report) = &mut results.arms[0].runs[1].report {
            report.run.privacy = Some(nothing);
        }
        let [epsilon, claim] = told(&results, 0);
        assert!(
            epsilon == "-" && claim.starts_with("no epsilon"),
            "one run without a claim takes it from all: {claim}"
        );
    }
}
