//! Makes the page of a run.

mod charts;
mod tables;

use std::path::Path;

use super::saved::{self, Rows};
use super::{FILE_NAME, Fact, Page, Part};
use crate::report::record::{RunRecord, SplitAccuracy};
use crate::report::setup::{self, Caveat};
use crate::report::{EXPORTERS, Exporter, Files, figures, network, words};
use fedrecsim_core::error::Result;
use fedrecsim_core::metric::Metric;
use fedrecsim_core::units::Bytes;
use fedrecsim_scenario::scenario::MethodVocabulary;

/// Returns the exporters of this crate with one that makes the page.
pub fn exporters() -> Vec<Exporter> {
    let with_page = |exporter: &Exporter| match exporter.files {
        [FILE_NAME] => Exporter {
            render: exported,
            ..*exporter
        },
        _ => *exporter,
    };
    EXPORTERS.iter().map(with_page).collect()
}

/// Returns the page of `record` as a file.
fn exported(record: &RunRecord) -> Result<Files> {
    Ok(vec![(FILE_NAME, of_record(record)?.render()?.into_bytes())])
}

/// Returns the page of a run that has just ended.
///
/// # Errors
/// Those of [`check::check`](crate::report::check::check).
pub(crate) fn of_record(record: &RunRecord) -> Result<Page> {
    let network = Rows::parse(&network::render(record)?, Path::new("network.csv"))?;
    page(record, &network)
}

/// Returns the page of the run whose report is in `folder`, the same as [`of_record`] did when the
/// report was written.
///
/// # Errors
/// [`Error::Read`](fedrecsim_core::error::Error::Read) for a file that is not there or is not that of a
/// report, and the errors of a scenario whose method is not among `vocabulary`.
pub fn of_folder(folder: &Path, vocabulary: &[MethodVocabulary]) -> Result<Page> {
    let (record, network) = saved::read(folder, vocabulary)?;
    page(&record, &network)
}

fn page(record: &RunRecord, network: &Rows) -> Result<Page> {
    let mut parts: Vec<Part> = caveats(record).into_iter().map(note).collect();
    parts.push(Part::Text(what_was_run(record)));
    parts.push(Part::Facts(facts(record)));
    parts.push(Part::Heading("What the accuracy cost".to_owned()));
    parts.push(Part::Chart(charts::accuracy(record)));
    parts.extend(tables::accuracy(record));
    parts.extend(tables::milestones(record));
    parts.push(Part::Heading("Where every byte went".to_owned()));
    parts.extend(charts::ledger(record).map(Part::Chart));
    parts.push(tables::ledger(record));
    parts.extend(tables::participations(record));
    if let Some(load) = charts::load(network) {
        parts.push(Part::Heading("The server over time".to_owned()));
        parts.extend(
            [load]
                .into_iter()
                .chain(charts::crowd(network))
                .map(Part::Chart),
        );
        parts.extend(tables::server(record));
    }
    parts.extend(tables::durations(record));
    if let Some(sparsity) = charts::sparsity(record) {
        parts.push(Part::Heading("How sparse the shared table is".to_owned()));
        parts.push(Part::Chart(sparsity));
        parts.extend(tables::sparsity(record));
    }
    parts.extend(tables::audit(record));
    parts.push(Part::Heading("The run in full".to_owned()));
    parts.extend(tables::rounds(record));
    parts.push(Part::Lines {
        line: "The scenario as resolved".to_owned(),
        text: record.scenario.to_toml()?,
    });
    parts.push(Part::Text(reproduce(record)));
    Ok(Page {
        title: format!("{}, seed {}", record.name, record.seed),
        parts,
    })
}

fn note(Caveat { headline, text }: Caveat) -> Part {
    Part::Note { headline, text }
}

/// Returns what a reader has to know before believing a number.
fn caveats(record: &RunRecord) -> Vec<Caveat> {
    let of_run = setup::caveats_of_the_run(record).into_iter();
    let of_protocol = setup::protocol_caveats(&record.scenario, record.draws_negatives);
    of_run
        .chain(of_protocol)
        .chain(setup::assumptions(&record.scenario))
        .chain(setup::warnings(record))
        .collect()
}

/// Returns what was run in a few words.
fn what_was_run(record: &RunRecord) -> String {
    let sentences = setup::describe(record)
        .into_iter()
        .map(|(name, text)| format!("{name}: {text}."));
    sentences.collect::<Vec<_>>().join(" ")
}

/// Returns the figures at the head of the page.
fn facts(record: &RunRecord) -> Vec<Fact> {
    let mut facts = Vec::new();
    let protocol = format!("Protocol: {}", record.protocol.trim_end_matches('.'));
    let last = record
        .per_round
        .iter()
        .rev()
        .find_map(|round| Some((round.round, round.accuracy.as_ref()?)));
    for metric in figures::headlines(&record.scenario.evaluation) {
        let of = |split: &SplitAccuracy, metric: &Metric| split.test.get(&metric.name()).copied();
        if let (Some(value), Some(round)) = (of(&record.accuracy, &metric), record.selected_round) {
            let (name, key) = (
                format!("{} (test)", metric.label()),
                format!("accuracy.test.{}", metric.name()),
            );
            let at_last = last
                .filter(|(last, _)| *last != round)
                .and_then(|(last, split)| Some((last, of(split, &metric)?)));
            let at_last = at_last
                .map(|(last, value)| {
                    format!(" After round {last} it was {}.", words::accuracy(value))
                })
                .unwrap_or_default();
            let remark = format!("Round {round}, {}.{at_last} {protocol}.", judged(record));
            facts.push(Fact::of_key(name, words::accuracy(value), &key, value).with_remark(remark));
        }
    }
    for (name, key, bytes) in [
        ("Sent up", "bytes.up.sent", record.bytes.up.sent),
        ("Sent down", "bytes.down.sent", record.bytes.down.sent),
    ] {
        let remark = format!("{} B", words::thousands(bytes));
        facts.push(
            Fact::of_key(name, Bytes::new(bytes).to_string(), key, bytes).with_remark(remark),
        );
    }
    if let Some(bytes) = record.inference_bytes {
        let remark = format!(
            "What {} evaluated users would download.",
            words::thousands(record.size.evaluated_users)
        );
        let text = Bytes::new(bytes).to_string();
        facts.push(Fact::of_key("To score", text, "inference_bytes", bytes).with_remark(remark));
    }
    let time = record.virtual_time_s;
    facts.push(Fact::of_key(
        "Virtual time",
        words::duration(time),
        "virtual_time_s",
        time,
    ));
    let wall = record.wall.total_s;
    let remark = format!(
        "On {}; no part of the result.",
        words::counted(record.wall.threads.into(), "thread")
    );
    facts.push(
        Fact::of_key("Wall time", words::duration(wall), "wall.total_s", wall).with_remark(remark),
    );
    facts.push(Fact::of_key(
        "Result digest",
        format!("`{}`", record.digest),
        "digest",
        &record.digest,
    ));
    facts
}

/// Returns how the run's round was chosen.
fn judged(record: &RunRecord) -> String {
    setup::selection(&record.scenario.evaluation)
}

/// Returns how the run can be repeated, and what made it.
fn reproduce(record: &RunRecord) -> String {
    let command = match record.command.as_slice() {
        [] => "The run was not started from a command line.".to_owned(),
        command => format!("Repeat it by `{}`.", command.join(" ")),
    };
    let versions: Vec<String> = record
        .versions
        .iter()
        .map(|(name, version)| format!("{name} {version}"))
        .collect();
    format!("{command} Made by {}.", versions.join(", "))
}

#[cfg(test)]
mod tests;
