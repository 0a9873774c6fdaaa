//! The document of a run, which tells a researcher what was run, how accurate it was, and what that
//! cost: `summary.md` and `report.html`.
//!
//! Every section is a function from the record to blocks; a section with nothing to say is empty.

pub(super) mod charts;
mod systems;

use std::path::Path;

use super::charts::FILE_NAMES;
use super::column::{self, Place, Unit};
use super::cost;
use super::document::{Block, Cell, Document, Fact, Table};
use super::exporter::{EXPORTERS, Exporter, Files, PAGE};
use super::frame::Frame;
use super::html::{self, chart::MOST_POINTS, chart::drawn};
use super::record::{RunRecord, SPARSITY_THRESHOLDS, SplitAccuracy};
use super::rounds::{self, share_column};
use super::setup::{self, Caveat};
use super::words::{self, counted, share, thousands, threshold};
use super::{check, metrics, read};
use fedrecsim_core::error::Result;
use fedrecsim_core::metric::Metric;
use fedrecsim_scenario::scenario::MethodVocabulary;

/// The most rounds that the table of rounds shows at first.
const OPEN_AT_MOST: usize = 30;

/// Returns the document of a run that has just ended.
///
/// # Errors
/// Those of [`check::check`], and of
/// [`Scenario::to_toml`](fedrecsim_scenario::scenario::Scenario::to_toml).
pub(crate) fn document(record: &RunRecord) -> Result<Document> {
    check::check(record)?;
    let [rounds, network] = [Place::Rounds, Place::Network].map(|at| rounds::frame(record, at));
    of(record, &rounds, &network)
}

/// Returns the page of the run whose report is in `folder`: the same as the run would have left.
///
/// # Errors
/// [`Error::Read`](fedrecsim_core::error::Error::Read) for a file that is not there or is not that of a
/// report, the errors of a scenario whose method is not among `vocabulary`, and those of
/// [`html::render`].
pub fn page_of_folder(folder: &Path, vocabulary: &[MethodVocabulary]) -> Result<String> {
    html::render(&document_of_folder(folder, vocabulary)?)
}

fn document_of_folder(folder: &Path, vocabulary: &[MethodVocabulary]) -> Result<Document> {
    let (record, rounds, network) = read::whole(folder, vocabulary)?;
    of(&record, &rounds, &network)
}

/// Returns the exporters of this crate with one that makes the page.
pub fn exporters_with_page() -> Vec<Exporter> {
    let page = |record: &RunRecord| -> Result<Files> {
        let page = html::render(&document(record)?)?;
        Ok(vec![(PAGE, page.into_bytes())])
    };
    let with_page = |exporter: &Exporter| match exporter.files {
        [PAGE] => Exporter {
            render: page,
            ..*exporter
        },
        _ => *exporter,
    };
    EXPORTERS.iter().map(with_page).collect()
}

/// Returns the document. What the rounds had is read out of the tables, since a report that was
/// read back has no records of rounds.
fn of(record: &RunRecord, rounds: &Frame, network: &Frame) -> Result<Document> {
    let caveats = setup::caveats_of_the_run(record)
        .into_iter()
        .chain(setup::protocol_caveats(
            &record.scenario,
            record.draws_negatives,
        ))
        .chain(setup::assumptions(&record.scenario))
        .chain(setup::warnings(record));
    let mut blocks: Vec<Block> = caveats
        .map(|Caveat { headline, text }| Block::Note { headline, text })
        .collect();
    blocks.push(Block::heading("What was run"));
    blocks.push(Block::List(setup::describe(record)));
    blocks.push(Block::Facts(facts(record, rounds)));
    blocks.extend(accuracy(record, rounds));
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
        title: format!("{}, seed {}", record.name, record.seed),
        blocks,
    })
}

/// Returns the figures at the head of a page.
fn facts(record: &RunRecord, rounds: &Frame) -> Vec<Fact> {
    let fact = |name: &str, key: &str, value: Cell, remark: String| Fact {
        name: name.to_owned(),
        text: value.text,
        remark,
        key: key.to_owned(),
        value: value.number.unwrap_or_default(),
    };
    let mut facts = Vec::new();
    let last = evaluated(record, rounds).last().copied();
    for metric in metrics::headlines(&record.scenario.evaluation) {
        let name = metric.name();
        let (Some(value), Some(round)) = (record.accuracy.test.get(&name), record.selected_round)
        else {
            continue;
        };
        let at_last = last.and_then(|row| {
            let number = rounds.at(rounds::ROUND, row)?;
            let value = rounds.at(&format!("test_{name}"), row)?;
            (number != f64::from(round))
                .then(|| format!(" After round {number} it was {}.", words::accuracy(value)))
        });
        let remark = format!(
            "Round {round}, {}.{} Protocol: {}.",
            setup::selection(&record.scenario.evaluation),
            at_last.unwrap_or_default(),
            setup::protocol_of(record)
        );
        let (label, key) = (
            format!("{} (test)", metric.label()),
            format!("accuracy.test.{name}"),
        );
        facts.push(fact(&label, &key, Unit::Accuracy.cell(*value), remark));
    }
    let bytes = |name, key, bytes: u64, remark| fact(name, key, Unit::Bytes.cell(bytes), remark);
    let (up, down) = (record.bytes.up.sent, record.bytes.down.sent);
    let exact = |bytes: u64| format!("{} B", thousands(bytes));
    facts.push(bytes("Sent up", "bytes.up.sent", up, exact(up)));
    facts.push(bytes("Sent down", "bytes.down.sent", down, exact(down)));
    facts.extend(record.inference_bytes.map(|to_score| {
        let users = thousands(record.size.evaluated_users);
        let remark = format!("What {users} evaluated users would download.");
        bytes("To score", "inference_bytes", to_score, remark)
    }));
    let threads = counted(record.wall.threads.into(), "thread");
    for (name, key, seconds, remark) in [
        (
            "Virtual time",
            "virtual_time_s",
            record.virtual_time_s,
            String::new(),
        ),
        (
            "Wall time",
            "wall.total_s",
            record.wall.total_s,
            format!("On {threads}; no part of the result."),
        ),
    ] {
        facts.push(fact(name, key, Unit::Seconds.cell(seconds), remark));
    }
    facts.push(Fact {
        name: "Result digest".to_owned(),
        text: format!("`{}`", record.digest),
        key: "digest".to_owned(),
        value: record.digest.clone(),
        ..Fact::default()
    });
    facts
}

/// Returns the rows of the rounds that were evaluated.
fn evaluated(record: &RunRecord, rounds: &Frame) -> Vec<usize> {
    let Some(headline) = record.scenario.evaluation.headline() else {
        return Vec::new();
    };
    let values = rounds.get(&format!("test_{}", headline.name()));
    (0..values.len())
        .filter(|row| values[*row].is_some())
        .collect()
}

/// Gives the metric with a name on a split.
type Accuracies<'a> = &'a dyn Fn(&str, &str) -> Option<f64>;

fn accuracy(record: &RunRecord, rounds: &Frame) -> Vec<Block> {
    let mut blocks = vec![Block::heading("Accuracy")];
    if record.selected_round.is_none() {
        blocks.push(Block::text(
            "No round was finished, so there is no accuracy to report; the baselines need no training.",
        ));
    }
    blocks.push(charts::accuracy(record, rounds).into());
    let method = &record.scenario.method.name;
    let mut columns: Vec<(String, Accuracies)> = Vec::new();
    let at_selected = |split: &str, name: &str| value(&record.accuracy, split, name);
    if let Some(round) = record.selected_round {
        columns.push((format!("{method}, round {round}"), &at_selected));
    }
    let last = evaluated(record, rounds).last().copied();
    let last = last.and_then(|row| Some((row, rounds.at(rounds::ROUND, row)?)));
    let at_last = |split: &str, name: &str| rounds.at(&format!("{split}_{name}"), last?.0);
    if let Some((_, round)) = last.filter(|(_, round)| Some(*round as u32) != record.selected_round)
    {
        columns.push((format!("{method}, round {round}"), &at_last));
    }
    let baselines: Vec<_> = record
        .baselines
        .iter()
        .map(|(name, accuracy)| {
            (name.clone(), move |split: &str, name: &str| {
                value(accuracy, split, name)
            })
        })
        .collect();
    columns.extend(
        baselines
            .iter()
            .map(|(name, of)| (name.clone(), of as &dyn Fn(&str, &str) -> Option<f64>)),
    );
    let mut rows = Vec::new();
    let all = std::iter::once(&record.accuracy).chain(record.baselines.values());
    for split in ["test", "validation"] {
        let splits = all
            .clone()
            .filter_map(|accuracy| metrics::split(accuracy, split));
        for name in metrics::ordered(splits.flat_map(|metrics| metrics.keys())) {
            let label = Cell::from(format!("{} ({split})", metrics::label(name)));
            let cells = columns
                .iter()
                .map(|(_, of)| Unit::Accuracy.cell(of(split, name)));
            rows.push(std::iter::once(label).chain(cells).collect());
        }
    }
    let header = std::iter::once("metric").chain(columns.iter().map(|(name, _)| name.as_str()));
    let users = counted(record.size.evaluated_users, "user");
    let caption = format!(
        "Means over {users}. Protocol: {}.",
        setup::protocol_of(record)
    );
    blocks.push(Block::Table(Table::new(caption, header, rows)));
    if record.selected_round.is_some() {
        let selection = setup::selection(&record.scenario.evaluation);
        blocks.push(Block::text(format!("The round is {selection}.")));
    }
    blocks.push(pictures(&FILE_NAMES[..4]));
    blocks.push(Block::text(match cfg!(feature = "plots") {
        true => "The figures of every round are in `rounds.csv`.",
        false => {
            "This program was built without pictures. The figures of every round are in `rounds.csv`."
        }
    }));
    blocks
}

/// Returns pictures, if this build can draw any.
fn pictures(files: &[&str]) -> Block {
    let files = files.iter().filter(|_| cfg!(feature = "plots"));
    Block::Pictures(files.map(|file| (*file).to_owned()).collect())
}

fn value(accuracy: &SplitAccuracy, split: &str, name: &str) -> Option<f64> {
    metrics::split(accuracy, split)?.get(name).copied()
}

fn cost_of_accuracy(record: &RunRecord, rounds: &Frame) -> Vec<Block> {
    let free = record.bytes.up.sent + record.bytes.down.sent == 0 && record.virtual_time_s == 0.0;
    if rounds.len() == 0 {
        return Vec::new();
    }
    let mut blocks = Vec::new();
    let headline = record.scenario.evaluation.headline();
    let headline = headline.as_ref().map_or_else(String::new, Metric::label);
    let row = |cost::Milestone { goal, reached }: cost::Milestone| {
        let Some((row, figure)) = reached else {
            let dashes = [Cell::none(), Cell::none(), Cell::none()];
            return [goal.into(), Cell::none(), "never reached".into()]
                .into_iter()
                .chain(dashes)
                .collect();
        };
        let number = |unit: Unit, name| unit.cell(rounds.at(name, row));
        vec![
            goal.into(),
            number(Unit::Count, rounds::ROUND),
            Unit::Accuracy.cell(figure),
            number(Unit::Bytes, rounds::UP),
            number(Unit::Bytes, rounds::DOWN),
            number(Unit::Seconds, rounds::TIME),
        ]
    };
    if !free {
        let milestones = cost::milestones(record, rounds);
        let header = ["goal", "round", &format!("{headline} (test)"), "sent up"];
        let caption = format!(
            "Protocol: {}. Bytes and time are counted from the start of the run.",
            setup::protocol_of(record)
        );
        blocks.push(Block::heading("What the accuracy cost"));
        blocks.push(Block::Table(Table::new(
            caption,
            header.into_iter().chain(["sent down", "virtual time"]),
            milestones.into_iter().map(row).collect(),
        )));
    }
    blocks.push(every_round(record, rounds));
    blocks
}

/// Returns the rounds, which can be sorted.
fn every_round(record: &RunRecord, rounds: &Frame) -> Block {
    let has = rounds::Has::of_frame(rounds);
    let columns = column::at(rounds::columns(&has), Place::Page);
    let selected = record
        .selected_round
        .and_then(|round| rounds.find(rounds::ROUND, round.into()));
    let places = drawn(rounds.len(), MOST_POINTS, selected);
    let row = |place: &usize| {
        let cell =
            |column: &column::Column<'_, _>| column.unit.cell(rounds.at(&column.name, *place));
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
    let selected = record
        .selected_round
        .and_then(|round| rounds.find(rounds::ROUND, round.into()));
    let row = selected
        .filter(has_figures)
        .or_else(|| (0..rounds.len()).rev().find(has_figures));
    let (Some(row), Some(chart)) = (row, charts::sparsity(rounds)) else {
        return Vec::new();
    };
    let shown = |value: Option<f64>| {
        value.map_or_else(Cell::none, |value| Cell::number(share(value), value))
    };
    let rows = SPARSITY_THRESHOLDS.map(|above| {
        let shares = ["uploads", "averaged"].map(|place| shown(at(above, place, row)));
        std::iter::once(threshold(above).into())
            .chain(shares)
            .collect()
    });
    let round = rounds.at(rounds::ROUND, row).unwrap_or_default();
    let mut blocks = vec![
        Block::heading(format!("Sparsity of the shared table in round {round}")),
        Block::text(
            "Share of the values of the table (FedRAP's C) whose magnitude is above a threshold. A lossless sparse codec \
             leaves out exact zeros only, so what it can save stands in the first line.",
        ),
        chart.into(),
        pictures(&FILE_NAMES[4..]),
        Block::Table(Table::new(
            format!("Sparsity of the shared table in round {round}"),
            ["magnitude above", "in the uploads", "in the average"],
            rows.into(),
        )),
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
    let mut blocks = vec![
        Block::heading("What uploads give away"),
        Block::text(format!(
            "A probe that sees decoded uploads alone guessed which items their senders had rated, in {}. An AUC of 0.5 is \
             no better than a guess at random; the precision is the share of rated items among as many guesses as a user \
             has rated.",
            counted(audit.users, "upload")
        )),
        Block::Table(Table::new("What uploads give away", header, rows.collect())),
    ];
    blocks.extend(audit.outer_product.map(|share| {
        Block::text(format!(
            "Of the outer product of its vector with itself that a user uploads, the largest eigenvalue has {share:.4} of \
             the trace. At 1, the upload gives the vector away up to its sign."
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
        let arguments: Vec<String> = record.command.iter().map(|word| quoted(word)).collect();
        blocks.push(Block::Code {
            line: "The command that repeats the run".to_owned(),
            language: "sh",
            text: arguments.join(" ") + "\n",
        });
        blocks.push(Block::text(
            "`scenario.toml` beside this file is the scenario as resolved, and running it is the same run.",
        ));
    }
    let versions: Vec<String> = record
        .versions
        .iter()
        .map(|(name, version)| format!("{name} {version}"))
        .collect();
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

/// Returns an argument quoted so that a POSIX shell reads it back.
fn quoted(argument: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !argument.is_empty() && argument.chars().all(plain) {
        argument.to_owned()
    } else {
        format!("'{}'", argument.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests;
