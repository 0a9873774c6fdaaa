//! The columns of runs: what the tables of a study show of every run. `columns.csv` lists them.

use std::collections::BTreeMap;

use ciborium::Value as Tree;
use serde::Serialize;

use super::results::Results;
use crate::column::{self, Column, Place};
use crate::read::{SavedReport, SavedRun};
use crate::record::{ByDirection, SPARSITY_THRESHOLDS};
use crate::reference::of_newcomers;
use crate::rounds::{self, Has, share_column};
use fedrecsim_sim::outcome::{Accuracy, AuditFigures, Warm};

/// A run that has come to its end, among the results of its study.
pub(crate) struct Run<'a> {
    pub(super) results: &'a Results,
    pub(super) arm: usize,
    pub(super) report: &'a SavedReport,
}

/// A column of runs.
pub(crate) type RunColumn<'a> = Column<'a, Run<'a>>;

/// The figures of a run that columns read.
#[derive(Serialize)]
struct Row<'a> {
    #[serde(flatten)]
    run: &'a SavedRun,
    /// With what it takes to score if clients download only the rows that they need.
    down_bytes: u64,
    unused: ByDirection<u64>,
    energy_j: Option<f64>,
    co2_g: Option<f64>,
    up_to_selected_round: Option<f64>,
    down_to_selected_round_and_score: Option<f64>,
    guess: Option<AuditFigures>,
    linked_guess: Option<AuditFigures>,
    /// Newcomers by the study's first metric: by the baseline, after so many ratings, after they came,
    /// and the others then.
    newcomers_scored: Option<u64>,
    newcomers_baseline: Option<f64>,
    newcomers_after: BTreeMap<String, f64>,
    newcomers_joined: Option<f64>,
    newcomers_others: Option<f64>,
    newcomers_warm: Option<&'a Warm>,
    /// The shares of the averaged table after the last round, by their thresholds.
    averaged: [Option<f64>; SPARSITY_THRESHOLDS.len()],
}

impl Run<'_> {
    /// Returns what the list of columns reads. It is put together once.
    pub(super) fn figures(&self) -> &Tree {
        let SavedReport {
            run,
            rounds,
            figures,
            ..
        } = self.report;
        figures.get_or_init(|| {
            let selected = rounds::selected(run, rounds);
            let at_selected = |name| rounds.at(name, selected?);
            let last_share = |above| {
                let shares = rounds.get(&share_column(above, "averaged"));
                shares.iter().rev().find_map(|share| *share)
            };
            let newcomers = run.newcomers.as_ref();
            let metric = self.results.metrics.first();
            let by_metric = |accuracy: &Accuracy| accuracy.get(metric?).copied();
            let after = newcomers.iter().flat_map(|of| &of.after_ratings);
            let scored = after.clone().map(|of| of.users).max();
            let after = after.filter_map(|of| Some((of.ratings.to_string(), by_metric(&of.test)?)));
            rounds::tree(&Row {
                run,
                newcomers_scored: newcomers
                    .and_then(|of| Some(of.joined.as_ref()?.users))
                    .or(scored),
                newcomers_baseline: newcomers
                    .and_then(|of| by_metric(of.baselines.get(of_newcomers(of))?)),
                newcomers_after: after.collect(),
                newcomers_joined: newcomers.and_then(|of| by_metric(&of.joined.as_ref()?.test)),
                newcomers_others: newcomers.and_then(|of| by_metric(of.others.as_ref()?)),
                newcomers_warm: newcomers.and_then(|of| of.warm.as_ref()),
                down_bytes: run.down_bytes(),
                unused: ByDirection {
                    up: run.bytes.up.unused(),
                    down: run.bytes.down.unused() + run.work.unused_download_bytes,
                },
                energy_j: run.energy.map(|energy| energy.total_j()),
                co2_g: run.carbon.map(|carbon| carbon.devices_g + carbon.server_g),
                up_to_selected_round: at_selected(rounds::UP),
                down_to_selected_round_and_score: at_selected(rounds::DOWN)
                    .map(|down| down + run.inference_bytes.unwrap_or_default() as f64),
                guess: run.audit.map(|audit| audit.best_guess()),
                linked_guess: run.audit.and_then(|audit| audit.best_linked_guess()),
                averaged: SPARSITY_THRESHOLDS.map(last_share),
            })
        })
    }
}

/// Returns the reference of all columns as Markdown.
pub fn reference() -> String {
    let mut text = "# Columns\n\nEvery column of the tables of reports and studies. `fedrecsim explain \
                    --columns` prints this file.\nA column that depends on what a run has is there if the run has it: one \
                    for each metric and split, for each\nrule of `[[faults]]`, for each number of ratings of newcomers, for lists, for \
                    energy, for the sparsity of the\nshared table, for a third party and for epsilon.\n\n"
        .to_owned();
    let without_metrics = Has {
        metrics: Vec::new(),
        ..Has::all()
    };
    for (file, place, has) in [
        ("rounds.csv", Place::Rounds, &Has::all()),
        ("network.csv", Place::Network, &Has::all()),
        ("users.csv", Place::Users, &Has::all()),
        ("items.csv", Place::Items, &Has::all()),
        ("study.csv and summary.csv", Place::Study, &without_metrics),
    ] {
        text += &column::reference(file, &rounds::columns(has, place));
    }
    text + "A study also has every metric of its runs by its name, the first one on the validation part as\n\
           `validation-METRIC`, and what was spent until 90, 95 and 99 % of the best accuracy were reached, as in\n\
           `up_bytes_to_90_percent_of_own_best`.\n"
}
