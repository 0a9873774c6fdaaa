//! The document of a run, which tells a researcher what was run, how accurate it was, and what that
//! cost: `summary.md` and `report.html`.
//!
//! Every section is a function from the record to blocks; a section with nothing to say is empty.

mod beyond_accuracy;
pub(super) mod charts;
pub(super) mod head;
mod newcomers;
mod systems;

use std::path::Path;

use super::column::{Cell, Column, Place, Unit};
use super::cost::{self, Milestone};
use super::document::{Block, Columns, Document, Table};
use super::file_names::PICTURES;
use super::frame::Frame;
use super::groups::{GroupOf, UserGroup};
use super::html::{self, chart::MOST_POINTS, chart::drawn};
use super::record::{RunRecord, SPARSITY_THRESHOLDS};
use super::rounds::{self, share_column};
use super::words::{self, counted, share, thousands, threshold};
use super::{check, metrics, read, setup};
use fedrecsim_core::metric::Metric;
use fedrecsim_core::{Result, shell_word};
use fedrecsim_scenario::MethodVocabulary;

/// The most rounds that the table of rounds shows at first.
const OPEN_AT_MOST: usize = 30;

/// Returns the document of a run that has just ended.
///
/// # Errors
/// Those of [`check::check`], and of
/// [`Scenario::to_toml`](fedrecsim_scenario::Scenario::to_toml).
pub(crate) fn document(record: &RunRecord) -> Result<Document> {
    check::check(record)?;
    let [rounds, network] = [Place::Rounds, Place::Network].map(|at| rounds::frame(record, at));
    of(record, &rounds, &network)
}

/// Returns the page of the run whose report is in `folder`: the same as the run would have left.
///
/// # Errors
/// [`Error::Read`](fedrecsim_core::Error::Read) for a file that is not there or is not that of a
/// report, the errors of a scenario whose method is not among `vocabulary`, and those of
/// [`html::render`].
pub fn page_of_folder(folder: &Path, vocabulary: &[MethodVocabulary]) -> Result<String> {
    html::render(&document_of_folder(folder, vocabulary)?)
}

fn document_of_folder(folder: &Path, vocabulary: &[MethodVocabulary]) -> Result<Document> {
    let (record, rounds, network) = read::whole(folder, vocabulary)?;
    of(&record, &rounds, &network)
}

/// Returns the document. The figures of rounds are read from the tables, since a report that was
/// read back has no records of rounds.
fn of(record: &RunRecord, rounds: &Frame, network: &Frame) -> Result<Document> {
    let mut blocks = vec![Block::Facts(head::facts(record, rounds))];
    blocks.extend(head::warnings(record, rounds));
    blocks.extend(charts::accuracy_by_metric(record, rounds).map(Block::from));
    blocks.push(Block::heading("What was run"));
    blocks.push(Block::List(setup::describe(record)));
    blocks.extend(accuracy(record, rounds));
    blocks.extend(accuracy_of_groups(record));
    blocks.extend(beyond_accuracy::section(record, rounds));
    blocks.extend(newcomers::newcomers(record, rounds));
    blocks.extend(cost_of_accuracy(record, rounds));
    blocks.extend(systems::participations(record));
    blocks.extend(systems::bytes(record, rounds));
    blocks.extend(systems::energy(record));
    blocks.extend(systems::virtual_time(record));
    blocks.extend(systems::server(record, network));
    blocks.extend(sparsity(record, rounds));
    blocks.extend(audit(record));
    blocks.extend(reproduce(record)?);
    Ok(Document {
        title: title(record),
        answer: head::answer(record),
        blocks,
    })
}

/// Returns the title, which names the method.
pub(super) fn title(record: &RunRecord) -> String {
    let method = &record.scenario.method.name;
    format!("{}: {method}, seed {}", record.name, record.seed)
}

fn accuracy(record: &RunRecord, rounds: &Frame) -> Vec<Block> {
    let mut blocks = vec![Block::heading("Accuracy")];
    if record.selected_round.is_none() {
        let why = match record.rounds {
            0 => "No round was finished",
            _ => "No finished round was evaluated (evaluation.every_rounds)",
        };
        blocks.push(Block::text(format!(
            "{why}, so there is no accuracy to report; the baselines need no training."
        )));
    }
    let selected = record
        .selected_round
        .map(|round| (round, record.accuracy.clone()));
    let last = head::last_evaluated(record, rounds);
    let last = last.filter(|(round, _)| Some(*round) != record.selected_round);
    let method = &record.scenario.method.name;
    let of_rounds = selected.into_iter().chain(last);
    let of_rounds = of_rounds.map(|(round, of)| (format!("{method}, round {round}"), of));
    let mut table = Columns::new();
    table.add("metric", |(split, name): &(&str, &str)| {
        format!("{} ({split})", metrics::label(name))
    });
    let baselines = charts::beside(record).map(|(name, of)| (name.clone(), of.clone()));
    for (name, accuracy) in of_rounds.chain(baselines) {
        table.add(name, move |(split, name): &(&str, &str)| {
            let value = metrics::split(&accuracy, split).and_then(|of| of.get(*name));
            Unit::Accuracy.cell(value.copied())
        });
    }
    let all = std::iter::once(&record.accuracy).chain(record.baselines.values());
    let rows = ["test", "validation"].into_iter().flat_map(|split| {
        let splits = all.clone().filter_map(|of| metrics::split(of, split));
        let names = metrics::ordered(splits.flat_map(|metrics| metrics.keys()));
        names.into_iter().map(move |name| (split, name))
    });
    let users = counted(record.size.evaluated_users, "user");
    let protocol = setup::protocol_of(record);
    let caption = format!("Means over {users}. Protocol: {protocol}.");
    blocks.push(Block::Table(table.table(&caption, rows)));
    if record.selected_round.is_some() {
        let selection = setup::selection(&record.scenario.evaluation);
        blocks.push(Block::text(format!("The round is {selection}.")));
    }
    blocks.push(pictures(&PICTURES[..4]));
    let without = match cfg!(feature = "plots") {
        true => "",
        false => "This program was built without pictures. ",
    };
    let text = format!("{without}The figures of every round are in `rounds.csv`.");
    blocks.push(Block::Text(text));
    blocks
}

/// Returns what a mean over users hides.
fn accuracy_of_groups(record: &RunRecord) -> Option<Block> {
    let headline = record.scenario.evaluation.headline()?;
    let of_all = record.accuracy.test.get(&headline.name()).copied();
    let mut table = Columns::new();
    table.add("users", |of: &&UserGroup| match of.group {
        GroupOf::Fastest => "the fifth with the shortest participations",
        GroupOf::Slowest => "the fifth with the longest participations",
        GroupOf::WorstServed => "the tenth that is served worst",
    });
    table.add("number", |of| Unit::Count.cell(Some(of.users as f64)));
    table.add(format!("{} (test)", headline.label()), |of| {
        Unit::Accuracy.cell(of.accuracy.get(&headline.name()).copied())
    });
    table.add("more than all users", |of| {
        let own = of.accuracy.get(&headline.name());
        Unit::Accuracy.cell(own.zip(of_all).map(|(own, all)| own - all))
    });
    table.add("updates used", |of| {
        let used = of.used as f64 / of.invited.max(1) as f64;
        Cell::number(share(used), used)
    });
    let groups = record.user_groups.iter();
    let groups = groups.filter(|of| of.accuracy.contains_key(&headline.name()));
    let caption = "Groups of users. A participation takes longer on a slow device or link, and with more ratings; one that is lost ends early.";
    let groups: Vec<&UserGroup> = groups.collect();
    (!groups.is_empty()).then(|| Block::Table(table.table(caption, groups)))
}

/// Returns pictures, if this build can draw any.
fn pictures(files: &[&str]) -> Block {
    let files = files.iter().filter(|_| cfg!(feature = "plots"));
    Block::Pictures(files.map(|file| (*file).to_owned()).collect())
}

fn cost_of_accuracy(record: &RunRecord, rounds: &Frame) -> Vec<Block> {
    let free = record.bytes.up.sent + record.bytes.down.sent == 0 && record.virtual_time_s == 0.0;
    if rounds.len() == 0 {
        return Vec::new();
    }
    let mut blocks = Vec::new();
    if !free {
        let headline = record.scenario.evaluation.headline();
        let headline = headline.as_ref().map_or_else(String::new, Metric::label);
        let mut table = Columns::new();
        let at = |unit: Unit, column| {
            move |of: &Milestone| {
                let value = of.reached.and_then(|(row, _)| rounds.at(column, row));
                unit.cell(value)
            }
        };
        table.add("goal", |of: &Milestone| of.goal.clone());
        table.add("round", at(Unit::Count, rounds::ROUND));
        table.add(format!("{headline} (test)"), |of| match of.reached {
            Some((_, figure)) => Unit::Accuracy.cell(figure),
            None => "never reached".into(),
        });
        table.add("sent up", at(Unit::Bytes, rounds::UP));
        table.add("sent down", at(Unit::Bytes, rounds::DOWN));
        table.add("virtual time", at(Unit::Seconds, rounds::TIME));
        let caption = format!(
            "Protocol: {}. Bytes and time are counted from the start of the run.",
            setup::protocol_of(record)
        );
        let table = table.table(&caption, cost::milestones(record, rounds));
        blocks.push(Block::heading("What the accuracy cost"));
        blocks.push(Block::Table(table));
    }
    blocks.push(every_round(record, rounds));
    blocks
}

/// Returns the rounds, which can be sorted.
fn every_round(record: &RunRecord, rounds: &Frame) -> Block {
    let has = rounds::Has::of_frame(rounds);
    let mut columns = rounds::columns(&has, Place::Page);
    // What the run is judged by comes first.
    let headlines = metrics::headlines(&record.scenario.evaluation);
    let shown: Vec<String> = headlines
        .iter()
        .map(|metric| format!("test_{}", metric.name()))
        .collect();
    columns.sort_by_key(|column| match &*column.name {
        rounds::ROUND => 0,
        name if shown.iter().any(|shown| shown == name) => 1,
        _ => 2,
    });
    let selected = rounds::selected(record, rounds);
    let places = drawn(rounds.len(), MOST_POINTS, selected);
    let row = |place: &usize| {
        let cell = |column: &Column<'_, _>| column.unit.cell(rounds.at(&column.name, *place));
        columns.iter().map(cell).collect()
    };
    let rows: Vec<Vec<Cell>> = places.iter().map(row).collect();
    let line = match rounds.len() <= MOST_POINTS {
        true => format!(
            "Every finished round: {}",
            counted(rows.len() as u64, "row")
        ),
        false => format!(
            "{} of {} finished rounds, at equal distances; `rounds.csv` has all",
            thousands(rows.len() as u64),
            thousands(rounds.len() as u64)
        ),
    };
    let caption = format!(
        "Finished rounds; the name of a column sorts by it. Protocol: {}.",
        setup::protocol_of(record)
    );
    let header = columns.iter().map(|column| &*column.label);
    Block::Folded {
        line,
        is_open: rounds.len() <= OPEN_AT_MOST,
        table: Table {
            is_sortable: true,
            ..Table::new(caption, header, rows)
        },
    }
}

/// Returns the sparsity of the shared table in the selected round, or in the last one that has such
/// figures.
fn sparsity(record: &RunRecord, rounds: &Frame) -> Vec<Block> {
    let at = |above: f32, place: &str, row| rounds.at(&share_column(above, place), row);
    let has_figures = |row: &usize| at(0.0, "uploads", *row).is_some();
    let row = rounds::selected(record, rounds)
        .filter(has_figures)
        .or_else(|| (0..rounds.len()).rev().find(has_figures));
    let (Some(row), Some(chart)) = (row, charts::sparsity(rounds)) else {
        return Vec::new();
    };
    let mut table = Columns::new();
    table.add("magnitude above", |above: &f32| threshold(*above));
    for (name, place) in [
        ("in the uploads", "uploads"),
        ("in the average", "averaged"),
    ] {
        table.add(name, move |above: &f32| {
            at(*above, place, row).map_or_else(Cell::none, |of| Cell::number(share(of), of))
        });
    }
    let round = rounds.at(rounds::ROUND, row).unwrap_or_default();
    let title = format!("Sparsity of the shared table in round {round}");
    let table = table.table(&title, SPARSITY_THRESHOLDS);
    let mut blocks = vec![
        Block::heading(title),
        Block::text(
            "Share of the values of the table (FedRAP's C) whose magnitude is above a threshold. A lossless sparse codec \
             leaves out exact zeros only, so what it can save stands in the first line.",
        ),
        chart.into(),
        pictures(&PICTURES[4..]),
        Block::Table(table),
    ];
    if let (Some(uploads), Some(union), Some(averaged)) = (
        at(0.0, "uploads", row),
        rounds.at("c_above_0_union", row),
        at(0.0, "averaged", row),
    ) {
        blocks.push(Block::text(format!(
            "Of the values of an upload, {} are exactly 0; of those of all uploads together, {} (no upload has another value \
             there); of those of the average, {}.",
            share(1.0 - uploads),
            share(1.0 - union),
            share(1.0 - averaged)
        )));
    }
    blocks
}

/// Returns what a server could have read out of uploads; nothing without an audit.
fn audit(record: &RunRecord) -> Vec<Block> {
    let Some(audit) = record.audit else {
        return Vec::new();
    };
    let scores = [
        ("a changed row", audit.presence),
        ("how far the row moves", audit.norm),
        (
            "how much it moves against the mean of the changes",
            audit.against_mean,
        ),
    ];
    let rows = scores.iter().enumerate().map(|(place, (name, one))| {
        let linked = audit.linked.map(|linked| linked[place]);
        let figures = [
            Some(one.auc),
            Some(one.precision),
            linked.map(|linked| linked.auc),
            linked.map(|linked| linked.precision),
        ];
        let cells = figures.map(|figure| Unit::Chance.cell(figure));
        std::iter::once(Cell::from(*name)).chain(cells).collect()
    });
    let header = [
        "guessed by",
        "AUC, one upload",
        "precision",
        "AUC, all uploads of a user",
        "precision",
    ];
    let rounds = match record.audited_rounds {
        0 => String::new(),
        rounds => format!(" of {}", counted(rounds.into(), "round")),
    };
    let mut blocks = vec![
        Block::heading("What uploads give away"),
        Block::text(format!(
            "A probe that sees decoded uploads alone guessed which items their senders had rated, in {}{rounds}. An AUC of \
             0.5 is no better than a guess at random; the precision is the share of rated items among as many guesses as \
             a user has rated.",
            counted(audit.users, "upload")
        )),
        Block::Table(Table::new("What uploads give away", header, rows.collect())),
    ];
    blocks.extend(audit.outer_product.map(|share| {
        Block::text(format!(
            "A user uploads the outer product of its vector with itself, whose largest eigenvalue \
             is {share:.4} of its trace. At 1, the upload gives the vector away up to its sign."
        ))
    }));
    blocks
}

/// Returns how the run can be repeated, what made it, and the scenario as it was resolved.
fn reproduce(record: &RunRecord) -> Result<Vec<Block>> {
    let mut blocks = vec![Block::heading("Reproduce")];
    if record.command.is_empty() {
        blocks.push(Block::text(
            "The run was not started from a command line; the scenario as resolved is in `scenario.toml`.",
        ));
    } else {
        let arguments: Vec<String> = record.command.iter().map(|word| shell_word(word)).collect();
        blocks.push(Block::Code {
            line: "The command that repeats the run".to_owned(),
            language: "sh",
            text: arguments.join(" ") + "\n",
        });
        blocks.push(Block::text(
            "`scenario.toml` beside this file is the scenario as resolved, and running it is the same run.",
        ));
    }
    let version = |(name, version)| format!("{name} {version}");
    let versions: Vec<String> = record.versions.iter().map(version).collect();
    let wall = &record.wall;
    let memory = wall.peak_rss_bytes.map_or_else(String::new, |bytes| {
        format!(", peak memory {}", words::bytes(bytes as f64))
    });
    blocks.push(Block::text(format!(
        "The same scenario, seed ({}) and build give the result digest\n`{}`\nat any number of threads.",
        record.seed, record.digest
    )));
    blocks.push(Block::text(format!(
        "Made by {}. This run took {} of wall time on {} threads, {} per round (median){memory}; none of that is in the digest.",
        versions.join(", "),
        words::duration(wall.total_s),
        wall.threads,
        words::duration(wall.per_round_ms / 1e3),
    )));
    blocks.push(Block::heading("Scenario"));
    blocks.push(Block::Code {
        line: "The scenario as resolved".to_owned(),
        language: "toml",
        text: record.scenario.to_toml()?,
    });
    Ok(blocks)
}

#[cfg(test)]
mod tests;
