//! Writes the tables of a study: Markdown, an interactive page, CSV, and pictures.

mod against;
mod courses;
mod csv;
mod document;
mod goals;
mod page;
#[cfg(feature = "plots")]
mod pictures;
mod privacy;
mod published;
mod savings;
mod sparsity;

pub use against::files_against;
use document::{Block, Document};

use super::file::Reference;
use super::measures::Measure;
use super::names::Names;
use super::quantities::Quantity;
use super::results::{ArmResults, Results, RunState};
use super::statistics::Summary;
use super::{saved, sharing};
use crate::report::html::{self, table::Cell};
use crate::report::{figures, words};
use fedrecsim_core::error::Result;

/// The contents of files, by their names.
pub type Files = Vec<(String, Vec<u8>)>;

/// The names of the pictures that every study has, whether or not this build can draw them.
pub(crate) const PICTURES: [&str; 6] = [
    "accuracy-by-uploads.svg",
    "accuracy-by-bytes.svg",
    "accuracy-by-time.svg",
    "accuracy-by-round.svg",
    "pareto-bytes.svg",
    "pareto-time.svg",
];

/// Returns the files of the results: `NAME.md`, `NAME.csv` with a line for every run and quantity,
/// `summary.csv` with a line for every arm and quantity, the pictures, and `report.html` where this
/// build can make it, for the name `name`.
///
/// # Errors
/// Those of the libraries that write CSV and draw.
pub fn files(results: &Results, name: &str) -> Result<Files> {
    #[cfg(feature = "plots")]
    let pictures = pictures::all(results)?;
    #[cfg(not(feature = "plots"))]
    let pictures: Vec<(String, String)> = Vec::new();
    let names: Vec<&str> = pictures.iter().map(|(name, _)| name.as_str()).collect();
    let document = document(results, &names);
    let mut files: Files = vec![
        (format!("{name}.md"), document.markdown().into_bytes()),
        (format!("{name}.csv"), csv::runs(results)?.into_bytes()),
        (
            "summary.csv".to_owned(),
            csv::arms(&results.of_begun_arms())?.into_bytes(),
        ),
        (
            saved::FILE_NAME.to_owned(),
            saved::render(results)?.into_bytes(),
        ),
    ];
    files.extend(
        pictures
            .into_iter()
            .map(|(name, picture)| (name, picture.into_bytes())),
    );
    if html::check().is_ok() {
        files.push((html::FILE_NAME.to_owned(), page(results)?.into_bytes()));
    }
    Ok(files)
}

/// Returns the interactive page.
///
/// # Errors
/// [`Error::Usage`](fedrecsim_core::error::Error::Usage) in a build without the feature `html`.
pub fn page(results: &Results) -> Result<String> {
    page::page(results).render()
}

/// Returns the Markdown alone, without pictures.
pub fn markdown(results: &Results) -> String {
    document(results, &[]).markdown()
}

fn document(results: &Results, pictures: &[&str]) -> Document {
    let mut blocks = remarks(results);
    let begun = results.of_begun_arms();
    if begun.arms.len() < results.arms.len() {
        let others = results.arms.len() - begun.arms.len();
        let verb = if others == 1 { "is" } else { "are" };
        let others = words::counted(others as u64, "arm");
        blocks.push(Block::Note(format!(
            "{others}, of which nothing has been run, {verb} left out of the tables."
        )));
    }
    let results = &begun;
    let names = Names::of(
        &results
            .arms
            .iter()
            .map(|arm| arm.name.as_str())
            .collect::<Vec<_>>(),
    );
    let protocols = protocols(results);
    if let [only] = &protocols[..] {
        blocks.push(Block::Text(format!(
            "Protocol of every accuracy: {}.",
            only.trim_end_matches('.')
        )));
    }
    for figure in &results.figures {
        blocks.extend(accuracy(results, &names, figure, protocols.len() > 1));
    }
    blocks.extend(published::blocks(results, &names));
    blocks.extend(sparsity::blocks(results, &names));
    blocks.extend(savings::blocks(results, &names));
    blocks.extend(costs(results, &names));
    blocks.extend(privacy::blocks(results, &names));
    for goal in results.goals() {
        blocks.extend(goals::blocks(results, &names, goal));
    }
    let sharing = sharing::remarks(
        results
            .arms
            .iter()
            .map(|arm| (arm.name.as_str(), &arm.timing[..])),
    );
    if !sharing.is_empty() {
        blocks.push(Block::Heading("What the arms do not share".to_owned()));
        blocks.extend(sharing.into_iter().map(Block::Text));
    }
    if !pictures.is_empty() {
        blocks.push(Block::Heading("Pictures".to_owned()));
        blocks.extend(
            pictures
                .iter()
                .map(|name| Block::Picture((*name).to_owned())),
        );
    }
    blocks.extend(failures(results));
    Document {
        title: results.title.clone(),
        blocks,
    }
}

/// Returns what a reader has to know before believing a number.
fn remarks(results: &Results) -> Vec<Block> {
    let mut blocks = Vec::new();
    let [done, not_run, all] = results.counts();
    if let Some(shard) = &results.shard {
        let text = format!(
            "Partial: these are the runs of part {shard}. `--merge` puts the parts together."
        );
        blocks.push(Block::Note(text));
    }
    if not_run > 0 {
        let text = format!(
            "Partial: {not_run} of {} have not been run to their end.",
            words::counted(all as u64, "run")
        );
        blocks.push(Block::Note(text));
    }
    let failed = results.failures().len();
    if failed > 0 {
        let verb = if failed == 1 {
            "has failed and is"
        } else {
            "have failed and are"
        };
        blocks.push(Block::Note(format!(
            "{} {verb} left out; the reasons stand at the end.",
            words::counted(failed as u64, "run")
        )));
    }
    let intervals = "Intervals are those of 95 % for the mean over seeds, by Student's t; with a single seed there is none.";
    let pairs = match results.compared_by_all() {
        Some(arm) => {
            let name = &results.arms[arm].name;
            Some(format!(" Differences to `{name}` are taken between runs with the same seed."))
        }
        None if results.is_compared() => Some(
            " Differences are taken to the arm that is named beside them, between runs with the same seed.".to_owned(),
        ),
        None => None,
    };
    let runs = words::counted(done as u64, "finished run");
    let arms = words::counted(results.arms.len() as u64, "arm");
    blocks.push(Block::Text(format!(
        "{arms}, {runs}. {intervals}{}",
        pairs.unwrap_or_default()
    )));
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

/// Returns the table of one figure of accuracy.
fn accuracy(results: &Results, names: &Names, figure: &str, with_protocol: bool) -> Vec<Block> {
    let measure = Measure::Whole(Quantity::Figure(figure.to_owned()));
    let arms = 0..results.arms.len();
    let has_references = arms
        .clone()
        .any(|arm| results.reference(arm, figure).is_some());
    let mut header = vec!["arm", "runs", "mean", "standard deviation", "95 % interval"];
    let (is_compared, has_several) = (results.is_compared(), results.compared_by_all().is_none());
    if is_compared {
        header.extend(["difference", "its 95 % interval"]);
        header.extend(has_several.then_some("compared to"));
    }
    if has_references {
        header.extend(["published", "ours less published", "source"]);
    }
    if with_protocol {
        header.push("protocol");
    }
    let row = |arm: usize| {
        let summary = results.summary(arm, &measure);
        let mut cells = vec![
            names.labels[arm].as_str().into(),
            runs_cell(&results.arms[arm]),
        ];
        cells.extend(
            [summary.map(|s| s.mean), summary.and_then(|s| s.deviation)].map(Cell::accuracy),
        );
        cells.push(interval(summary, |value| format!("{value:.4}")));
        if is_compared {
            let difference = results.difference(arm, &measure);
            cells.push(difference.map_or_else(Cell::none, |d| {
                Cell::number(format!("{:+.4}", d.mean), d.mean)
            }));
            cells.push(interval(difference, |value| format!("{value:+.4}")));
            let other = results.arms[arm]
                .compare_to
                .map_or_else(Cell::none, |other| names.labels[other].as_str().into());
            cells.extend(has_several.then_some(other));
        }
        if has_references {
            let reference = results.reference(arm, figure);
            cells.extend(published(reference, summary.map(|summary| summary.mean)));
            cells.push(
                reference
                    .and_then(|reference| reference.source.clone())
                    .map_or_else(Cell::none, Cell::from),
            );
        }
        if with_protocol {
            cells.push(match results.arms[arm].protocols()[..] {
                [] => Cell::none(),
                ref protocols => protocols.join("; ").into(),
            });
        }
        cells
    };
    let heading = format!("{} (test)", figures::label(figure));
    let caption = match protocols(results)[..] {
        [only] => format!("{heading}. Protocol: {}.", only.trim_end_matches('.')),
        _ => heading.clone(),
    };
    let mut blocks = vec![Block::Heading(heading)];
    blocks.extend(names.sentence().map(Block::Text));
    blocks.push(Block::table(&caption, &header, arms.map(row).collect()));
    blocks
}

/// Returns a published value, and how far the mean of our runs is from it. The words
/// `beyond 2 s.d.` mark a difference of more than two of its standard deviations.
fn published(reference: Option<&Reference>, mean: Option<f64>) -> [Cell; 2] {
    let Some(&Reference {
        value,
        standard_deviation,
        ..
    }) = reference
    else {
        return [Cell::none(), Cell::none()];
    };
    let text = match standard_deviation {
        Some(deviation) => format!("{value:.4} ± {deviation:.4}"),
        None => format!("{value:.4}"),
    };
    let difference = mean.map_or_else(Cell::none, |mean| {
        let difference = mean - value;
        let is_far = standard_deviation.is_some_and(|deviation| difference.abs() > 2.0 * deviation);
        Cell::number(
            format!(
                "{difference:+.4}{}",
                if is_far { ", beyond 2 s.d." } else { "" }
            ),
            difference,
        )
    });
    [Cell::number(text, value), difference]
}

/// Returns what the runs cost: means, with the standard deviation where there is one.
fn costs(results: &Results, names: &Names) -> Vec<Block> {
    let quantities = results.costs();
    let labels: Vec<String> = quantities.iter().map(Quantity::label).collect();
    let header: Vec<&str> = ["arm", "runs"]
        .into_iter()
        .chain(labels.iter().map(String::as_str))
        .collect();
    let cell = |arm: usize, quantity: &Quantity| {
        let Some(summary) = results.summary(arm, &Measure::Whole(quantity.clone())) else {
            return Cell::none();
        };
        let text = match summary.deviation.filter(|deviation| *deviation > 0.0) {
            None => quantity.words(summary.mean),
            Some(deviation) => format!(
                "{} ± {}",
                quantity.words(summary.mean),
                quantity.words(deviation)
            ),
        };
        Cell::number(text, summary.mean)
    };
    let row = |arm: usize| {
        let name = [
            names.labels[arm].as_str().into(),
            runs_cell(&results.arms[arm]),
        ];
        name.into_iter()
            .chain(quantities.iter().map(|quantity| cell(arm, quantity)))
            .collect()
    };
    let text = "Means over the finished runs, ± the standard deviation. Wall time, threads and memory are those of the \
                host; they are not part of the results, and runs beside each other slow one another.";
    let mut blocks = vec![
        Block::Heading("What the runs cost".to_owned()),
        Block::Text(text.to_owned()),
    ];
    blocks.extend(names.sentence().map(Block::Text));
    let rows = (0..results.arms.len()).map(row).collect();
    blocks.push(Block::table("What the runs cost, as means.", &header, rows));
    blocks
}

/// Returns the runs that failed, with their reasons.
fn failures(results: &Results) -> Vec<Block> {
    let row = |(arm, seed, reason): (&str, u64, &str)| {
        vec![
            arm.into(),
            Cell::number(seed.to_string(), seed),
            reason.into(),
        ]
    };
    let rows: Vec<Vec<Cell>> = results.failures().into_iter().map(row).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let heading = "Runs that failed";
    vec![
        Block::Heading(heading.to_owned()),
        Block::table(heading, &["arm", "seed", "reason"], rows),
    ]
}

/// Returns how many runs of an arm have a result, and how many of the others failed.
fn runs_cell(arm: &ArmResults) -> Cell {
    let failed = arm
        .runs
        .iter()
        .filter(|run| matches!(run.state, RunState::Failed(_)))
        .count();
    let (done, all) = (arm.reports().count(), arm.runs.len());
    if arm.runs.iter().any(|run| run.state == RunState::NoData) {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::study::sample;

    #[test]
    fn the_tables_of_a_study_read_like_this() {
        let mut results = sample::results();
        results.arms[1].timing =
            vec!["the next user is invited whenever an update arrives".to_owned()];
        insta::assert_snapshot!(markdown(&results));
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
            if let RunState::Done(report) = &mut run.state {
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
        expected.extend(cfg!(feature = "html").then_some(html::FILE_NAME));
        assert_eq!(names, expected);
    }
}
