//! The columns of runs: what the tables of a study show of every run.

use std::borrow::Cow;

use super::results::Results;
use crate::column::{self, Column, Place, Unit, Value};
use crate::read::SavedReport;
use crate::record::SPARSITY_THRESHOLDS;
use crate::rounds::{self, share_column};
use crate::words::threshold;

/// A run that has come to its end, among the results of its study.
pub(crate) struct Run<'a> {
    pub(super) results: &'a Results,
    pub(super) arm: usize,
    pub(super) report: &'a SavedReport,
}

/// A column of runs.
pub(crate) type RunColumn<'a> = Column<'a, Run<'a>>;

pub(super) const STUDY: &[Place] = &[Place::Study];
const COSTS: &[Place] = &[Place::Study, Place::Costs];
const COSTS_IF_ANY: &[Place] = &[Place::Study, Place::CostsIfAny];
const PRIVACY: &[Place] = &[Place::Study, Place::Privacy];

/// Returns a column that reads a report.
pub(super) fn column<'a, V: Into<Value>>(
    name: impl Into<Cow<'static, str>>,
    label: impl Into<Cow<'static, str>>,
    unit: Unit,
    doc: impl Into<Cow<'static, str>>,
    shown_in: &'static [Place],
    of: impl Fn(&SavedReport) -> V + 'a,
) -> RunColumn<'a> {
    let of = move |run: &Run<'a>| of(run.report);
    Column::new(name, unit, doc, shown_in, of).labelled(label)
}

/// Returns the number in the round that a run is judged by.
fn at_selected(report: &SavedReport, name: &str) -> Option<f64> {
    let row = rounds::selected(&report.run, &report.rounds)?;
    report.rounds.at(name, row)
}

/// Returns the columns that do not depend on what the runs have.
pub(super) fn fixed<'a>() -> Vec<RunColumn<'a>> {
    use Unit::{Bytes, Chance, Count, Epsilon, Seconds};
    vec![
        column(
            "up_bytes",
            "sent up",
            Bytes,
            "bytes sent by clients",
            COSTS,
            |report| report.run.bytes.up.sent,
        ),
        column(
            "down_bytes",
            "sent down",
            Bytes,
            "bytes sent by the server, with what it takes to score where clients downloaded only the rows that they needed",
            COSTS,
            |report| report.run.down_bytes(),
        ),
        column(
            "up_unused_bytes",
            "of it unused, up",
            Bytes,
            "bytes spent on uploads that were lost, cancelled, late, stale or in flight at the end",
            COSTS_IF_ANY,
            |report| report.run.bytes.up.unused(),
        ),
        column(
            "down_unused_bytes",
            "of it unused, down",
            Bytes,
            "bytes spent on downloads that did not arrive or led to no update that was used",
            COSTS_IF_ANY,
            |report| report.run.bytes.down.unused() + report.run.work.unused_download_bytes,
        ),
        column(
            "up_modelled_bytes",
            "of it modelled, up",
            Bytes,
            "bytes that `[overheads]` adds to what clients sent",
            COSTS_IF_ANY,
            |report| report.run.bytes.up.modelled,
        ),
        column(
            "down_modelled_bytes",
            "of it modelled, down",
            Bytes,
            "bytes that `[overheads]` adds to what the server sent",
            COSTS_IF_ANY,
            |report| report.run.bytes.down.modelled,
        ),
        column(
            "inference_bytes",
            "to score",
            Bytes,
            "bytes that the evaluated users would download in order to score",
            COSTS,
            |report| report.run.inference_bytes,
        ),
        column(
            "virtual_time_s",
            "virtual time",
            Seconds,
            "virtual time at the end of the last round",
            COSTS,
            |report| report.run.virtual_time_s,
        ),
        column(
            "wall_time_s",
            "wall time",
            Seconds,
            "time that the run took",
            COSTS,
            |report| report.run.wall.total_s,
        ),
        column(
            "threads",
            "threads",
            Count,
            "threads of the run",
            COSTS,
            |report| report.run.wall.threads,
        ),
        column(
            "peak_memory_bytes",
            "peak memory",
            Bytes,
            "peak memory of the run's process",
            COSTS,
            |report| report.run.wall.peak_rss_bytes,
        ),
        column(
            "up_bytes_to_selected_round",
            "sent up to the selected round",
            Bytes,
            "bytes sent by clients up to the selected round",
            &[Place::Study, Place::Savings],
            |report| at_selected(report, rounds::UP),
        ),
        column(
            "down_bytes_to_selected_round_and_score",
            "sent down to the selected round, and to score",
            Bytes,
            "bytes sent by the server up to the selected round, with what the evaluated users download in order to score",
            &[Place::Study, Place::Savings],
            |report| {
                let to_score = report.run.inference_bytes.unwrap_or_default() as f64;
                Some(at_selected(report, rounds::DOWN)? + to_score)
            },
        ),
        column(
            "epsilon",
            "epsilon",
            Epsilon,
            "the epsilon that is claimed",
            STUDY,
            |report| report.run.privacy?.epsilon,
        ),
        column(
            "audit_auc",
            "AUC, one upload",
            Chance,
            "AUC of the audit's best guess which items a user has rated, from the uploads of one round",
            PRIVACY,
            |report| Some(report.run.audit?.best_guess().auc),
        ),
        column(
            "audit_precision",
            "precision, one upload",
            Chance,
            "precision of that guess",
            PRIVACY,
            |report| Some(report.run.audit?.best_guess().precision),
        ),
        column(
            "audit_linked_auc",
            "AUC, all audited uploads",
            Chance,
            "AUC of the best guess from all audited uploads of a user together",
            PRIVACY,
            |report| Some(report.run.audit?.best_linked_guess()?.auc),
        ),
        column(
            "audit_linked_precision",
            "precision, all audited uploads",
            Chance,
            "precision of that guess",
            PRIVACY,
            |report| Some(report.run.audit?.best_linked_guess()?.precision),
        ),
        column(
            "audit_outer_product",
            "outer product",
            Chance,
            "share of the largest eigenvalue in an uploaded outer product of the user vector: 1 gives the vector away",
            PRIVACY,
            |report| report.run.audit?.outer_product,
        ),
    ]
}

/// Returns the column of the share of the averaged table above a threshold.
pub(super) fn sparsity<'a>(above: f32) -> RunColumn<'a> {
    let name = share_column(above, "averaged");
    column(
        name.clone(),
        format!("above {}", threshold(above)),
        Unit::Share,
        "share of the averaged table's values above the threshold in magnitude, after the last round",
        &[Place::Study, Place::Sparsity],
        move |report| {
            report
                .rounds
                .get(&name)
                .iter()
                .rev()
                .find_map(|share| *share)
        },
    )
}

/// Returns the reference of all columns as Markdown.
pub fn reference() -> String {
    let mut text = "# Columns\n\n[Back to the README](../README.md)\n\nEvery column of the tables of reports and studies. `fedrecsim explain \
                    --columns` prints this file.\nA column that depends on what a run has is there if the run has it: one \
                    for each metric and split, for each\nrule of `[[faults]]`, for energy, for the sparsity of the shared \
                    table, for a third party and for epsilon.\n\n"
        .to_owned();
    for (file, place) in [
        ("rounds.csv", Place::Rounds),
        ("network.csv", Place::Network),
        ("users.csv", Place::Users),
    ] {
        let columns = rounds::columns(&rounds::Has::all());
        text += &column::reference(file, &column::at(columns, place));
    }
    let mut columns = fixed();
    columns.extend(SPARSITY_THRESHOLDS.into_iter().rev().map(sparsity));
    text += &column::reference("study.csv and summary.csv", &columns);
    text + "A study also has every metric of its runs by its name, the first one on the validation part as\n\
           `validation-METRIC`, and what was spent until 90, 95 and 99 % of the best accuracy were reached, as in\n\
           `up_bytes_to_90_percent_of_own_best`.\n"
}
