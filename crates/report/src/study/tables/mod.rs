//! Writes the tables of a study: Markdown, an interactive page, CSV, and pictures.

mod courses;
mod csv;
mod goals;
mod page;
#[cfg(feature = "plots")]
mod pictures;
mod privacy;
mod published;
mod savings;
mod search;
mod sparsity;

use super::bootstrap::Comparison;
use super::file::Reference;
use super::names::Names;
use super::results::{ArmResults, Results, RunState};
use super::statistics::{Estimate, Summary};
use super::{plan, saved, sharing};
use crate::column::{Cell, Place, Unit};
use crate::document::{Block, Columns, Document, Table};
use crate::setup::without_stop;
use crate::{html, metrics, words};
use fedrecsim_core::Result;

pub use search::Found;

/// The contents of files, by their names.
pub type Files = Vec<(String, Vec<u8>)>;

/// The names of the pictures that every study has, whether or not this build can draw them.
#[cfg(any(test, feature = "plots"))]
pub(crate) const PICTURES: [&str; 6] = [
    "accuracy-by-uploads.svg",
    "accuracy-by-bytes.svg",
    "accuracy-by-time.svg",
    "accuracy-by-round.svg",
    "pareto-bytes.svg",
    "pareto-time.svg",
];

/// Returns the files of the results: `NAME.md`, `NAME.csv` with a line for every run and figure,
/// `summary.csv` with a line for every arm and figure, `pooled.csv` if arms repeat experiments, the
/// pictures, and `report.html`, for the name `name`.
///
/// # Errors
/// Those of the libraries that write CSV and draw.
pub fn files(results: &Results, name: &str) -> Result<Files> {
    results.draw_users();
    #[cfg(feature = "plots")]
    let pictures = pictures::all(results)?;
    #[cfg(not(feature = "plots"))]
    let pictures: Vec<(String, String)> = Vec::new();
    let names: Vec<&str> = pictures.iter().map(|(name, _)| name.as_str()).collect();
    let pooled = results.pooled();
    let text = document(results, pooled.as_ref(), &names).markdown();
    let arms = csv::arms(&results.of_begun_arms())?;
    let written = [
        (format!("{name}.md"), text),
        (format!("{name}.csv"), csv::runs(results)?),
        ("summary.csv".to_owned(), arms),
        (saved::FILE_NAME.to_owned(), saved::render(results)?),
    ];
    let page = html::render(&page::document(results, pooled.as_ref()))?;
    let page = [(html::FILE_NAME.to_owned(), page)];
    let pooled = match &pooled {
        Some(pooled) => Some(("pooled.csv".to_owned(), csv::pooled(pooled)?)),
        None => None,
    };
    let all = written
        .into_iter()
        .chain(pooled)
        .chain(pictures)
        .chain(page);
    Ok(all.map(|(name, text)| (name, text.into_bytes())).collect())
}

/// Returns the files of results that are compared to `other`, beside those of [`files`]:
/// `NAME-against-OTHER.md`, `summary-against-OTHER.csv`, and `pooled-against-OTHER.csv` if arms
/// repeat experiments.
///
/// # Errors
/// Those of the library that writes CSV.
pub fn files_against(results: &Results, name: &str, other: &str) -> Result<Files> {
    let other = plan::folder_of(other);
    let pooled = results.pooled();
    let text = document(results, pooled.as_ref(), &[]).markdown();
    let arms = csv::arms(&results.of_begun_arms())?;
    let mut files = vec![
        (format!("{name}-against-{other}.md"), text.into_bytes()),
        (format!("summary-against-{other}.csv"), arms.into_bytes()),
    ];
    if let Some(pooled) = &pooled {
        let text = csv::pooled(pooled)?;
        files.push((format!("pooled-against-{other}.csv"), text.into_bytes()));
    }
    Ok(files)
}

/// Returns the interactive page.
///
/// # Errors
/// Those of [`html::render`].
pub fn page(results: &Results) -> Result<String> {
    html::render(&page::document(results, results.pooled().as_ref()))
}

/// Returns the Markdown alone, without pictures.
pub fn markdown(results: &Results) -> String {
    document(results, results.pooled().as_ref(), &[]).markdown()
}

/// Returns the document of results, with tables of their pooled arms if there are any.
fn document(results: &Results, pooled: Option<&Results>, pictures: &[&str]) -> Document {
    let mut blocks = remarks(results);
    let begun = results.of_begun_arms();
    if begun.arms.len() < results.arms.len() {
        let others = results.arms.len() - begun.arms.len();
        let verb = if others == 1 { "is" } else { "are" };
        let others = words::counted(others as u64, "arm");
        blocks.push(Block::note(
            "",
            format!("{others} without any run {verb} left out of the tables."),
        ));
    }
    let results = &begun;
    blocks.extend(search::origin(results));
    let arms = results.arms.iter().map(|arm| arm.name.as_str());
    let names = Names::of(&arms.collect::<Vec<_>>());
    if let [only] = protocols(results)[..] {
        let only = without_stop(only);
        blocks.push(Block::text(format!("Protocol of every accuracy: {only}.")));
    }
    if let Some(pooled) = pooled {
        let arms = pooled.arms.iter().map(|arm| arm.name.as_str());
        let names = Names::of(&arms.collect::<Vec<_>>());
        blocks.push(Block::text(
            "Arms that repeat one experiment are one row of the tables with \"pooled\" above them. A user counts once for each of these arms in which it is tested, and is drawn with all of them. A row without a mean lacks a run, the values of single users, or the same users in all of its arms.",
        ));
        for metric in &pooled.metrics {
            let heading = format!("{} (test), repetitions pooled", metrics::label(metric));
            blocks.extend(accuracy(pooled, &names, metric, &heading));
        }
    }
    for metric in &results.metrics {
        let heading = format!("{} (test)", metrics::label(metric));
        blocks.extend(accuracy(results, &names, metric, &heading));
    }
    blocks.extend(published::blocks(results, &names));
    blocks.extend(sparsity::blocks(results, &names));
    blocks.extend(savings::blocks(results, &names));
    blocks.extend(costs(results, &names));
    blocks.extend(privacy::blocks(results, &names));
    for goal in results.goals() {
        blocks.extend(goals::blocks(results, &names, goal));
    }
    let arms = results.arms.iter();
    let sharing = sharing::remarks(arms.map(|arm| (arm.name.as_str(), &arm.timing[..])));
    if !sharing.is_empty() {
        blocks.push(Block::heading("What the arms do not share"));
        blocks.extend(sharing.into_iter().map(Block::Text));
    }
    if !pictures.is_empty() {
        let pictures = pictures.iter().map(|name| (*name).to_owned()).collect();
        blocks.extend([Block::heading("Pictures"), Block::Pictures(pictures)]);
    }
    blocks.extend(failures(results));
    Document {
        title: results.title.clone(),
        blocks,
        ..Document::default()
    }
}

/// Returns a section with a table, whose caption is its heading, and with texts above it.
fn section(names: &Names, texts: impl IntoIterator<Item = String>, table: Table) -> Vec<Block> {
    let mut blocks = vec![Block::heading(&*table.caption)];
    blocks.extend(texts.into_iter().chain(names.sentence()).map(Block::Text));
    blocks.push(Block::Table(Table {
        is_sortable: true,
        ..table
    }));
    blocks
}

/// Returns the columns that tables with a row for every arm begin with: the names of the arms, and
/// the numbers of their runs.
fn arm_columns<'a>(results: &'a Results, names: &'a Names) -> Columns<'a, usize> {
    let mut table = Columns::new();
    table.add("arm", |arm: &usize| names.labels[*arm].as_str());
    table.add("runs", |arm| runs_cell(&results.arms[*arm]));
    table
}

/// Returns what a reader has to know before believing a number.
fn remarks(results: &Results) -> Vec<Block> {
    let mut blocks = Vec::new();
    let counted = |count: usize, what| words::counted(count as u64, what);
    let [done, not_run, all] = results.counts();
    if let Some(shard) = &results.shard {
        let text = format!(
            "Partial: these are the runs of part {shard}. `--merge` puts the parts together."
        );
        blocks.push(Block::note("", text));
    }
    if not_run > 0 {
        let all = counted(all, "run");
        let text = format!("Partial: {not_run} of {all} have not been run to their end.");
        blocks.push(Block::note("", text));
    }
    let failed = results.failures().len();
    if failed > 0 {
        let verb = match failed {
            1 => "has failed and is",
            _ => "have failed and are",
        };
        let failed = counted(failed, "run");
        let text = format!("{failed} {verb} left out; the reasons stand at the end.");
        blocks.push(Block::note("", text));
    }
    let mut intervals = "Intervals are those of 95 % for the mean over seeds, by Student's t; with a single seed there is none.".to_owned();
    if !results
        .metrics
        .iter()
        .any(|metric| results.has_users(metric))
    {
        intervals += " None of them covers users, since no arm has the `users.csv` of all of its runs, with the values of single users.";
    }
    let pairs = match results.compared_by_all() {
        Some(arm) => {
            let name = &results.arms[arm].name;
            format!(" Differences to `{name}` are taken between runs with the same seed.")
        }
        None if results.is_compared() => {
            " Differences are taken to the arm that is named beside them, between runs with the same seed.".to_owned()
        }
        None => String::new(),
    };
    let (arms, runs) = (
        counted(results.arms.len(), "arm"),
        counted(done, "finished run"),
    );
    blocks.push(Block::Text(format!("{arms}, {runs}. {intervals}{pairs}")));
    blocks
}

/// Returns the protocols of all runs, each once.
fn protocols(results: &Results) -> Vec<&str> {
    let mut protocols: Vec<&str> = results
        .arms
        .iter()
        .flat_map(ArmResults::protocols)
        .collect();
    protocols.sort_unstable();
    protocols.dedup();
    protocols
}

/// Returns the table of one metric.
fn accuracy(results: &Results, names: &Names, metric: &str, heading: &str) -> Vec<Block> {
    let Some(column) = results.column(metric) else {
        return Vec::new();
    };
    let (column, protocols) = (&column, protocols(results));
    let comparisons = results.comparisons(metric);
    let compared: Vec<&Comparison> = comparisons.iter().flatten().collect();
    let mut table = arm_columns(results, names);
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
    let text = draws.map(|draws| drawn(results, draws, &compared));
    let texts: Vec<String> = text.into_iter().collect();
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
    if protocols.len() > 1 {
        table.add("protocol", |arm| match results.arms[*arm].protocols()[..] {
            [] => Cell::none(),
            ref protocols => protocols.join("; ").into(),
        });
    }
    let table = table.table(heading, 0..results.arms.len());
    let mut blocks = section(names, texts, table);
    if let ([only], Some(Block::Table(table))) = (&protocols[..], blocks.last_mut()) {
        table.caption = format!("{heading}. Protocol: {}.", without_stop(only));
    }
    blocks
}

/// Returns what the columns over users and seeds mean, and whether the study could have shown the
/// differences that it found.
fn drawn(results: &Results, draws: usize, compared: &[&Comparison]) -> String {
    let draws = words::thousands(draws as u64);
    let mut text = format!(
        "Over users too: the interval of 95 % over {draws} draws of users and seeds together, a user with all of its seeds."
    );
    if results.arms.iter().any(|arm| arm.reports().count() == 1) {
        text += " Where an arm has a single seed, users alone are drawn, and the interval says nothing about other seeds.";
    }
    if compared.is_empty() {
        return text;
    }
    let corrected = match compared.len() {
        1 => String::new(),
        count => format!(", and p is at most .05 by Holm's correction for {count} comparisons"),
    };
    text += &format!(
        " The same users and seeds are drawn in both arms. A difference is one, ahead or behind, only if this interval \
         excludes 0{corrected}. `could show` is the least difference that these users and seeds show in four of five \
         studies (power .8), 2.8 standard errors."
    );
    let is_small = |of: &&&Comparison| of.mean.abs() < of.estimate.could_show();
    let small = compared.iter().filter(is_small).count();
    if small > 0 {
        let all = words::counted(compared.len() as u64, "comparison");
        text += &format!(
            " In {small} of {all} the difference that was found is below that: the study is too small to tell it from none."
        );
    }
    text
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

/// Returns what the runs cost: means, with the standard deviation where there is one.
fn costs(results: &Results, names: &Names) -> Vec<Block> {
    let mut table = arm_columns(results, names);
    for column in results.columns_at(Place::Costs) {
        table.add(column.label.to_string(), move |arm| {
            let Some(summary) = results.summary(*arm, &column) else {
                return Cell::none();
            };
            let words = |value| column.unit.words(value);
            let spread = summary.deviation.filter(|deviation| *deviation > 0.0);
            let spread = spread.map_or_else(String::new, |of| format!(" ± {}", words(of)));
            Cell::number(format!("{}{spread}", words(summary.mean)), summary.mean)
        });
    }
    let text = "Means over the finished runs, ± the standard deviation. Wall time, threads and \
                memory depend on the host and are no part of the results; runs beside each other \
                slow each other down.";
    let table = table.table("What the runs cost", 0..results.arms.len());
    section(names, [text.to_owned()], table)
}

/// Returns the runs that failed, with their reasons.
fn failures(results: &Results) -> Vec<Block> {
    let failures = results.failures();
    if failures.is_empty() {
        return Vec::new();
    }
    let mut table = Columns::new();
    table.add("arm", |(arm, ..): &(&str, u64, &str)| arm.to_owned());
    table.add("seed", |(_, seed, _)| Cell::number(seed.to_string(), seed));
    table.add("reason", |(.., reason)| reason.to_owned());
    section(
        &Names::default(),
        [],
        table.table("Runs that failed", failures),
    )
}

/// Returns the words for a run without a result.
fn state_name(state: &RunState) -> &'static str {
    match state {
        RunState::Done => "done",
        RunState::Failed(_) => "failed",
        RunState::NotRun => "not run",
        RunState::NoData => "no data",
    }
}

/// Returns how many runs of an arm have a result, and how many of the others failed.
fn runs_cell(arm: &ArmResults) -> Cell {
    let of = |is_it: fn(&RunState) -> bool| arm.runs.iter().filter(|run| is_it(&run.state)).count();
    let failed = of(|state| matches!(state, RunState::Failed(_)));
    let (done, all) = (of(|state| *state == RunState::Done), arm.runs.len());
    if of(|state| *state == RunState::NoData) > 0 {
        return "no data".into();
    }
    let text = match (done == all, failed) {
        (true, _) => done.to_string(),
        (false, 0) => format!("{done} of {all}"),
        (false, failed) => format!("{done} of {all}, {failed} failed"),
    };
    Cell::number(text, done)
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
fn difference_cells(summary: Option<Summary>, number: impl Fn(f64) -> String) -> [Cell; 2] {
    let mean = summary.map_or_else(Cell::none, |summary| {
        Cell::number(number(summary.mean), summary.mean)
    });
    [mean, interval(summary, number)]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::study::bootstrap::tests::with_users;
    use crate::tests::results as sample;

    #[test]
    fn the_tables_of_a_study_read_like_this() {
        let mut results = sample::results();
        results.arms[1].timing =
            vec!["the next user is invited whenever an update arrives".to_owned()];
        insta::assert_snapshot!(markdown(&results));
    }

    /// If this fails, whoever reads a table takes a difference for one that users do not show, or is
    /// not told that seeds are fixed.
    #[test]
    fn intervals_over_users_stand_beside_those_over_seeds() {
        let value = |arm: usize, _: u64, user: usize| {
            let of_arm = if user.is_multiple_of(2) { 0.2 } else { -0.15 };
            0.5 + arm as f64 * of_arm
        };
        let mut results = with_users(value, 40);
        let text = markdown(&results);
        for part in [
            "| 95 % interval | over users too | difference | its 95 % interval | over users too | p | difference shown | could show |",
            "Over users too: the interval of 95 % over 2,000 draws of users and seeds together",
            "| none shown | 0.07",
            "In 1 of 1 comparison the difference that was found is below that",
        ] {
            assert!(text.contains(part), "no {part:?} in\n{text}");
        }
        assert!(
            !text.contains("None of them covers users") && !text.contains("single seed, users")
        );
        results.arms[0].runs.truncate(1);
        results.arms.push(results.arms[1].clone());
        let text = markdown(&results);
        for part in [
            "Where an arm has a single seed, users alone are drawn",
            "by Holm's correction for 2 comparisons",
            "| p (Holm) |",
        ] {
            assert!(text.contains(part), "no {part:?} in\n{text}");
        }
    }

    /// If this fails, a table repeats in every line what all arms share, or does not say it at all.
    #[test]
    fn what_all_arms_share_stands_above_the_tables() {
        let mut results = sample::results();
        results
            .arms
            .iter_mut()
            .for_each(|arm| arm.name = format!("data=ml-100k, codec={}", arm.name));
        let text = markdown(&results);
        let sentence = "All arms share `data=ml-100k`.\n\n| arm |";
        assert_eq!(
            text.matches(sentence).count(),
            text.matches("\n| arm |").count(),
            "{text}"
        );
        assert!(
            text.contains("| codec=int8 | codec=dense |") && !text.contains("| data=ml-100k"),
            "{text}"
        );
    }

    /// If this fails, a table with missing runs looks like a whole one.
    #[test]
    fn what_is_missing_is_marked() {
        let mut results = sample::results();
        results.arms[0].runs[2].state = RunState::NotRun;
        results.arms[1].runs[0].state =
            RunState::Failed("training diverged in round 1 | at the server".to_owned());
        results.shard = Some("1/2".to_owned());
        let text = markdown(&results);
        for part in [
            "> Partial: these are the runs of part 1/2.",
            "> Partial: 1 of 6 runs have not been run to their end.",
            "> 1 run has failed and is left out",
            "| int8 | 2 of 3, 1 failed |",
            "| int8 | 1 | training diverged in round 1 \\| at the server |",
        ] {
            assert!(text.contains(part), "no {part:?} in\n{text}");
        }
    }

    /// If this fails, accuracies of two protocols stand below each other as if they could be
    /// compared.
    #[test]
    fn arms_with_other_protocols_have_theirs_beside_them() {
        let mut results = sample::results();
        for run in &mut results.arms[1].runs {
            if let Some(report) = &mut run.report {
                report.run.protocol = "full catalogue".to_owned();
            }
        }
        let text = markdown(&results);
        assert!(
            !text.contains("Protocol of every accuracy") && text.contains("| full catalogue |"),
            "{text}"
        );
    }

    /// If this fails, a file of a study is missing.
    #[test]
    fn a_study_leaves_every_format() {
        let files = files(&sample::results(), "study").unwrap();
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        let mut expected = vec!["study.md", "study.csv", "summary.csv", "results.json"];
        expected.extend(PICTURES.iter().filter(|_| cfg!(feature = "plots")));
        expected.push(html::FILE_NAME);
        assert_eq!(names, expected);
    }
}
