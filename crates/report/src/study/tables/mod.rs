//! Writes the tables of a study: Markdown, an interactive page, CSV, and pictures.

mod accuracy;
mod board;
mod courses;
mod csv;
mod goals;
mod head;
mod newcomers;
mod page;
#[cfg(feature = "plots")]
mod pictures;
mod privacy;
mod published;
mod savings;
mod search;
mod sparsity;

use self::accuracy::{accuracies, difference_cells};
use super::answer::Answer;
use super::names::{self, Names};
use super::results::{ArmResults, Results, RunState};
use super::{plan, saved, sharing};
use crate::column::{Cell, Place};
use crate::document::{Block, Columns, Document, Table};
use crate::{html, words};
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
    let whole = Whole::of(results, pooled.as_ref());
    let text = document(&whole, &names).markdown();
    let arms = csv::arms(&whole.begun)?;
    let written = [
        (format!("{name}.md"), text),
        (format!("{name}.csv"), csv::runs(results)?),
        ("summary.csv".to_owned(), arms),
        (
            saved::FILE_NAME.to_owned(),
            saved::render(results, whole.answer.clone())?,
        ),
    ];
    let page = html::render(&page::document(&whole))?;
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
    let whole = Whole::of(results, pooled.as_ref());
    let text = document(&whole, &[]).markdown();
    let arms = csv::arms(&whole.begun)?;
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
    let pooled = results.pooled();
    html::render(&page::document(&Whole::of(results, pooled.as_ref())))
}

/// Returns the Markdown alone, without pictures.
pub fn markdown(results: &Results) -> String {
    let pooled = results.pooled();
    document(&Whole::of(results, pooled.as_ref()), &[]).markdown()
}

/// Results with what documents say of them.
struct Whole<'a> {
    results: &'a Results,
    /// Those of the arms that have a run.
    begun: Results,
    /// Those of arms that repeat one experiment, as one arm each; `None` if there are none.
    pooled: Option<&'a Results>,
    /// The short names of the arms that have a run.
    names: Names,
    /// The answer, by the pooled arms if there are any.
    answer: Option<Answer>,
    /// Where the arms that have a run stand.
    board: Option<Answer>,
}

impl<'a> Whole<'a> {
    fn of(results: &'a Results, pooled: Option<&'a Results>) -> Self {
        let begun = results.of_begun_arms();
        let board = begun.answer();
        Self {
            results,
            names: Names::of_arms(&begun.arms),
            answer: pooled.map_or_else(|| board.clone(), Results::answer),
            board,
            begun,
            pooled,
        }
    }
}

/// Returns the document of results, with tables of their pooled arms if there are any.
fn document(whole: &Whole<'_>, pictures: &[&str]) -> Document {
    let Whole {
        results,
        begun,
        pooled,
        names,
        answer,
        board,
    } = whole;
    let mut blocks = incomplete(results);
    if begun.arms.len() < results.arms.len() {
        let others = results.arms.len() - begun.arms.len();
        let verb = if others == 1 { "is" } else { "are" };
        let others = words::counted(others as u64, "arm");
        blocks.push(Block::note(
            "",
            format!("{others} without any run {verb} left out of the tables."),
        ));
    }
    let results = begun;
    let said = answer.as_ref();
    let more = said.into_iter().flat_map(|of| of.more.iter().cloned());
    blocks.extend(more.map(Block::Text));
    blocks.extend(head::warnings(results, names));
    blocks.push(head::shared(results, names));
    let of_pools = pooled.zip(answer.as_ref());
    blocks.extend(
        board
            .as_ref()
            .map(|board| board::board(results, board, of_pools)),
    );
    blocks.push(remarks(results, names));
    blocks.extend(search::origin(results));
    if let Some(pooled) = pooled {
        let names = &Names::of_arms(&pooled.arms);
        blocks.push(Block::text(
            "Arms that repeat one experiment are one row of the tables with \"pooled\" above them. A user counts once for each of these arms in which it is tested, and is drawn with all of them. A row without a mean lacks a run, the values of single users, or the same users in all of its arms.",
        ));
        blocks.extend(accuracies(pooled, names, ", repetitions pooled"));
    }
    blocks.extend(accuracies(results, names, ""));
    blocks.extend(published::blocks(results, names));
    let has_run = results.counts()[0] > 0;
    blocks.extend(sparsity::blocks(results, names));
    blocks.extend(newcomers::blocks(results, names));
    blocks.extend(savings::blocks(results, names));
    if has_run {
        blocks.extend(costs(results, names));
    }
    blocks.extend(privacy::blocks(results, names));
    for goal in results.goals().filter(|_| has_run) {
        blocks.extend(goals::blocks(results, names, goal));
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
    blocks.extend(in_full(results, names));
    Document {
        title: results.title.clone(),
        answer: said.map_or_else(|| nothing(results), |of| of.sentence.clone()),
        blocks,
    }
}

/// Returns the sentence on results without a finished run, if runs have failed.
fn nothing(results: &Results) -> String {
    match &results.failures()[..] {
        [] => String::new(),
        [(first, _, reason), ..] => format!("No run has finished: {first}: {reason}."),
    }
}

/// Returns the names of arms in full beside the short ones; nothing if none was shortened.
fn in_full(results: &Results, names: &Names) -> Vec<Block> {
    let arms = || results.arms.iter().zip(&names.labels);
    let is_whole = |(arm, label): (&ArmResults, &String)| {
        let without_shared = || {
            let parts = names::parts_of(&[&*arm.name]).into_iter().flatten();
            let own = parts.filter(|part| !names.shared.iter().any(|of| of == part));
            own.collect::<Vec<_>>().join(names::JOINT)
        };
        *label == arm.name || *label == without_shared()
    };
    if arms().all(is_whole) {
        return Vec::new();
    }
    let mut table = Columns::new();
    table.add("arm", |(_, label): &(&ArmResults, &String)| label.as_str());
    table.add("in full", |(arm, _)| arm.name.as_str());
    vec![
        Block::Quiet("The names of the arms".to_owned()),
        Block::Table(table.table("The names of the arms, in full.", arms())),
    ]
}

/// Returns a section with a table, whose caption is its heading, and with texts above it.
fn section(texts: impl IntoIterator<Item = String>, table: Table) -> Vec<Block> {
    let mut blocks = vec![Block::heading(&*table.caption)];
    blocks.extend(texts.into_iter().map(Block::Text));
    blocks.push(Block::Table(Table {
        is_sortable: true,
        ..table
    }));
    blocks
}

/// Returns the column that tables with a row for every arm begin with: the names of the arms.
fn arm_columns<'a>(names: &'a Names) -> Columns<'a, usize> {
    let mut table = Columns::new();
    table.add("arm", |arm: &usize| names.labels[*arm].as_str());
    table
}

/// Returns notes that runs are missing, if some are.
fn incomplete(results: &Results) -> Vec<Block> {
    let mut blocks = Vec::new();
    let counted = |count: usize, what| words::counted(count as u64, what);
    let [_, not_run, all] = results.counts();
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
    blocks
}

/// Returns what the tables below stand on.
fn remarks(results: &Results, names: &Names) -> Block {
    let counted = |count: usize, what| words::counted(count as u64, what);
    let [done, ..] = results.counts();
    let mut intervals = "Intervals are those of 95 % for the mean over seeds, by Student's t, and end where no value can be, as a share ends at 0 and 1; with a single seed there is none.".to_owned();
    if !results
        .metrics
        .iter()
        .any(|metric| results.has_users(metric))
    {
        intervals += " None of them covers users, since no arm has the `users.csv` of all of its runs, with the values of single users.";
    }
    let pairs = match results.compared_by_all() {
        Some(arm) => {
            let name = &names.labels[arm];
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
    Block::Text(format!("{arms}, {runs}. {intervals}{pairs}"))
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

/// Returns what the runs cost: means, with the standard deviation where there is one.
fn costs(results: &Results, names: &Names) -> Vec<Block> {
    let mut table = arm_columns(names);
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
    section([text.to_owned()], table)
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
    section([], table.table("Runs that failed", failures))
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
            "In 1 of 1 comparison the difference that was found is below what could be shown",
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

    /// If this fails, a paragraph stands above every table, or a study with one seed has columns without a
    /// value.
    #[test]
    fn columns_are_explained_once_and_have_values() {
        let value = |arm: usize, _: u64, user: usize| (arm + user) as f64 / 100.0;
        let mut results = with_users(value, 40);
        results.metrics.push(results.metrics[0].clone());
        let text = markdown(&results);
        assert!(text.contains("| standard deviation |"), "{text}");
        let told = text.matches("Over users too: the interval").count();
        assert_eq!(told, 1, "{text}");
        results.arms.iter_mut().for_each(|arm| arm.runs.truncate(1));
        let text = markdown(&results);
        assert!(!text.contains("| standard deviation |"), "{text}");
        assert!(text.contains("| over users too |"), "{text}");
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
        assert_eq!(text.matches("`data=ml-100k`").count(), 1, "{text}");
        assert!(
            text.contains("seeds 1 to 3; `data=ml-100k`\n")
                && text.contains("- **Differs:** `codec`")
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
            "| 2 of 3, 1 failed |",
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
