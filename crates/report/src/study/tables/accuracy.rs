//! The tables of accuracy: a row for every arm, with its intervals, what it has more than the arm that it
//! is compared to, and what was published.

use super::{arm_columns, runs_cell, section};
use crate::column::{Cell, Unit};
use crate::document::{Block, Table};
use crate::metrics;
use crate::study::bootstrap::Comparison;
use crate::study::file::Reference;
use crate::study::grounds;
use crate::study::names::Names;
use crate::study::results::Results;
use crate::study::statistics::{Estimate, Summary};
use crate::words;

/// The table of a metric, and the texts above it, which may be empty.
struct OfMetric {
    table: Table,
    /// What its columns mean.
    columns: String,
    /// Whether the study was large enough for its differences.
    differences: String,
}

/// Returns the table of each metric. `rows` says in their headings what the rows are. A text on columns
/// stands above the first of the tables that it is true of.
pub(super) fn accuracies(results: &Results, names: &Names, rows: &str) -> Vec<Block> {
    let (mut blocks, mut said) = (Vec::new(), String::new());
    for metric in &results.metrics {
        let heading = format!("{} (test){rows}", metrics::label(metric));
        let Some(found) = accuracy(results, names, metric, &heading) else {
            continue;
        };
        let columns = (found.columns != said).then(|| found.columns.clone());
        let texts = columns.into_iter().chain([found.differences]);
        blocks.extend(section(texts.filter(|text| !text.is_empty()), found.table));
        said = found.columns;
    }
    blocks
}

/// Returns what there is of one metric; `None` if no run has it.
fn accuracy(results: &Results, names: &Names, metric: &str, heading: &str) -> Option<OfMetric> {
    let column = results.column(metric)?;
    let (column, grounds) = (&column, results.grounds());
    let comparisons = results.comparisons(metric);
    let compared: Vec<&Comparison> = comparisons.iter().flatten().collect();
    let mut table = arm_columns(names);
    let summary = move |arm: &usize| results.summary(*arm, column);
    table.add("mean", move |arm| results.mean(*arm, column));
    table.add("standard deviation", move |arm| {
        Unit::Accuracy.cell(summary(arm).and_then(|of| of.deviation))
    });
    table.add("95 % interval", move |arm| {
        interval(summary(arm), |value| format!("{value:.4}"))
    });
    let mut estimates = (0..results.arms.len()).map(|arm| results.estimate(arm, metric));
    let draws = estimates.find_map(|of| Some(of?.draws));
    if draws.is_some() {
        table.add("over users too", move |arm| {
            between(results.estimate(*arm, metric), |value| {
                format!("{value:.4}")
            })
        });
    }
    let of_columns = draws.map(|draws| drawn(results, draws, compared.len()));
    let of_metric = too_small(&compared);
    if results.is_compared() {
        table.add_pair(["difference", "its 95 % interval"], move |arm| {
            let signed = |value| format!("{value:+.4}");
            difference_cells(results.difference(*arm, column), signed)
        });
        if !compared.is_empty() {
            let (of, several) = (&comparisons, compared.len() > 1);
            table.add("over users too", |arm: &usize| {
                between(of[*arm].map(|of| of.estimate), |value| {
                    format!("{value:+.4}")
                })
            });
            table.add(if several { "p (Holm)" } else { "p" }, |arm| {
                let p = of[*arm].map(|of| of.p_of_all);
                p.map_or_else(Cell::none, |p| Cell::number(format!("{p:.3}"), p))
            });
            table.add("difference shown", |arm| {
                of[*arm].map_or_else(Cell::none, |of| of.verdict.into())
            });
            table.add("could show", |arm| {
                Unit::Accuracy.cell(of[*arm].map(|of| of.estimate.could_show()))
            });
        }
        if results.compared_by_all().is_none() {
            table.add("compared to", |arm| {
                let other = results.arms[*arm].compare_to;
                other.map_or_else(Cell::none, |other| names.labels[other].as_str().into())
            });
        }
    }
    let reference = move |arm: &usize| results.reference(*arm, &column.name);
    if (0..results.arms.len()).any(|arm| reference(&arm).is_some()) {
        table.add_pair(["published", "ours less published"], move |arm| {
            published(reference(arm), summary(arm).map(|of| of.mean))
        });
        table.add("source", move |arm| {
            let source = reference(arm).and_then(|of| of.source.clone());
            source.map_or_else(Cell::none, Cell::from)
        });
    }
    if grounds::classes(&grounds).len() > 1 {
        table.add("judged by", |arm| {
            let of = grounds[*arm].as_ref();
            of.map_or_else(Cell::none, |of| of.in_words().into())
        });
    }
    if grounds::pools(&grounds).len() > 1 {
        table.add("negatives", |arm| {
            let pool = grounds[*arm].as_ref().and_then(|of| of.negatives.clone());
            pool.map_or_else(Cell::none, |pool| pool.replace("negatives ", "").into())
        });
    }
    table.add("runs", |arm| runs_cell(&results.arms[*arm]));
    Some(OfMetric {
        table: table.filled(heading, 0..results.arms.len()),
        columns: of_columns.unwrap_or_default(),
        differences: of_metric,
    })
}

/// Returns what the columns over users and seeds mean.
fn drawn(results: &Results, draws: usize, comparisons: usize) -> String {
    let draws = words::thousands(draws as u64);
    let mut text = format!(
        "Over users too: the interval of 95 % over {draws} draws of users and seeds together, a user with all of its seeds."
    );
    if results.arms.iter().any(|arm| arm.reports().count() == 1) {
        text += " Where an arm has a single seed, users alone are drawn, and the interval says nothing about other seeds.";
    }
    let corrected = match comparisons {
        0 => return text,
        1 => String::new(),
        count => format!(", and p is at most .05 by Holm's correction for {count} comparisons"),
    };
    text += &format!(
        " The same users and seeds are drawn in both arms. A difference is one, ahead or behind, only if this interval \
         excludes 0{corrected}. `could show` is the least difference that these users and seeds show in four of five \
         studies (power .8), 2.8 standard errors."
    );
    text
}

/// Returns whether the study could have shown the differences that it found; nothing if it could all.
fn too_small(compared: &[&Comparison]) -> String {
    let is_small = |of: &&&Comparison| of.mean.abs() < of.estimate.could_show();
    match compared.iter().filter(is_small).count() {
        0 => String::new(),
        small => {
            let all = words::counted(compared.len() as u64, "comparison");
            format!(
                "In {small} of {all} the difference that was found is below what could be shown: the study is too small to tell it from none."
            )
        }
    }
}

/// Returns a published value, and how far the mean of our runs is from it. The words
/// `beyond 2 s.d.` mark a difference of more than two of its standard deviations.
fn published(reference: Option<&Reference>, mean: Option<f64>) -> [Cell; 2] {
    let Some(reference) = reference else {
        return [Cell::none(), Cell::none()];
    };
    let (value, deviation) = (reference.value, reference.standard_deviation);
    let spread = deviation.map_or_else(String::new, |deviation| format!(" ± {deviation:.4}"));
    let difference = mean.map_or_else(Cell::none, |mean| {
        let difference = mean - value;
        let is_far = deviation.is_some_and(|deviation| difference.abs() > 2.0 * deviation);
        let far = if is_far { ", beyond 2 s.d." } else { "" };
        Cell::number(format!("{difference:+.4}{far}"), difference)
    });
    [
        Cell::number(format!("{value:.4}{spread}"), value),
        difference,
    ]
}

/// Returns the interval of a mean; rows are sorted by its lower end.
fn interval(summary: Option<Summary>, number: impl Fn(f64) -> String) -> Cell {
    let ends = summary.and_then(|summary| summary.interval());
    ends.map_or_else(Cell::none, |[low, high]| {
        Cell::number(format!("{} to {}", number(low), number(high)), low)
    })
}

/// Returns the interval of draws; rows are sorted by its lower end.
fn between(estimate: Option<Estimate>, number: impl Fn(f64) -> String) -> Cell {
    estimate.map_or_else(Cell::none, |Estimate { low, high, .. }| {
        Cell::number(format!("{} to {}", number(low), number(high)), low)
    })
}

/// Returns a mean and its interval.
pub(super) fn difference_cells(
    summary: Option<Summary>,
    number: impl Fn(f64) -> String,
) -> [Cell; 2] {
    let mean = summary.map_or_else(Cell::none, |summary| {
        Cell::number(number(summary.mean), summary.mean)
    });
    [mean, interval(summary, number)]
}
