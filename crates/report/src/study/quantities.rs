//! What is measured of a run: figures of accuracy, bytes, virtual time, what uploads tell, and what
//! it took on the host.

use std::borrow::Cow;

use crate::report::csv::{share_column, threshold_name};
use crate::report::figures;
use crate::report::read::{SavedReport, SavedRound};
use crate::report::record::SPARSITY_THRESHOLDS;
use crate::report::words;
use fedrecsim_core::metric::{Better, Metric};
use fedrecsim_core::units::Bytes;

/// One thing that is measured of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Quantity {
    /// A figure of accuracy on the test part at the selected round, by its name.
    Figure(String),
    /// A figure of accuracy on the validation part at the selected round, by its name.
    Validation(String),
    /// Bytes that clients sent.
    UpBytes,
    /// Bytes that the server sent, and what it takes to score where clients downloaded only the
    /// rows that they needed.
    DownBytes,
    /// Bytes that the evaluated users would download in order to score.
    InferenceBytes,
    /// Bytes that clients sent for nothing: cut off, given up, late, stale, or still under way at
    /// the end.
    UpUnused,
    /// Bytes that the server sent for nothing, with the downloads that arrived and led to no update
    /// that was used.
    DownUnused,
    /// Bytes that `[overheads]` adds to what clients sent, and that are in no frame.
    UpModelled,
    /// Bytes that `[overheads]` adds to what the server sent, and that are in no frame.
    DownModelled,
    /// Bytes that clients sent up to the round that the run is judged by.
    UpBytesToSelected,
    /// Bytes that the server sent up to the round that the run is judged by, and what the evaluated
    /// users download in order to score.
    DownBytesToSelected,
    /// Virtual time at the end of the last round.
    VirtualTime,
    /// Wall-clock time of the run.
    WallTime,
    /// The number of the run's threads.
    Threads,
    /// Peak memory of the run's process.
    PeakMemory,
    /// The epsilon that is claimed at the end of the run.
    Epsilon,
    /// The AUC of the audit's best guess which items a user has rated, from the uploads of one
    /// round.
    AuditAuc,
    /// The precision of the best such guess.
    AuditPrecision,
    /// The AUC of the audit's best guess from all audited uploads of a user together.
    LinkedAuditAuc,
    /// The precision of the best such guess.
    LinkedAuditPrecision,
    /// The share of the largest eigenvalue in an uploaded outer product of the user vector, which
    /// is 1 if the upload gives the vector away.
    OuterProduct,
    /// The share of the averaged shared table's values, after the last round, whose magnitude is
    /// above the threshold at this place of [`SPARSITY_THRESHOLDS`].
    TableAbove(usize),
}

/// Returns the quantities of how sparse the shared table is, from the largest threshold to the
/// smallest.
pub(crate) fn sparsity() -> impl Iterator<Item = Quantity> {
    (0..SPARSITY_THRESHOLDS.len())
        .rev()
        .map(Quantity::TableAbove)
}

/// Returns whether `name` is that of a quantity of [`sparsity`], such as `c_above_1e-2_averaged`.
pub(crate) fn is_sparsity(name: &str) -> bool {
    sparsity().any(|quantity| quantity.name() == name)
}

/// The quantities that say what a run cost, in the order of the tables.
pub(crate) const COSTS: [Quantity; 7] = [
    Quantity::UpBytes,
    Quantity::DownBytes,
    Quantity::InferenceBytes,
    Quantity::VirtualTime,
    Quantity::WallTime,
    Quantity::Threads,
    Quantity::PeakMemory,
];

/// The quantities of the bytes that nobody had any use for.
pub(crate) const UNUSED: [Quantity; 2] = [Quantity::UpUnused, Quantity::DownUnused];

/// The quantities of what is claimed about users' privacy, and of what an audit could read out of
/// uploads.
pub(crate) const PRIVACY: [Quantity; 6] = [
    Quantity::Epsilon,
    Quantity::AuditAuc,
    Quantity::AuditPrecision,
    Quantity::LinkedAuditAuc,
    Quantity::LinkedAuditPrecision,
    Quantity::OuterProduct,
];

/// The quantities of the bytes that the scenario's `[overheads]` adds to what was sent.
pub(crate) const OVERHEADS: [Quantity; 2] = [Quantity::UpModelled, Quantity::DownModelled];

/// The quantities that say what the model cost by which a run is judged.
pub(crate) const COSTS_OF_SELECTED: [Quantity; 2] =
    [Quantity::UpBytesToSelected, Quantity::DownBytesToSelected];

impl Quantity {
    /// Returns the name in CSV files, with the unit last.
    pub(crate) fn name(&self) -> Cow<'_, str> {
        let name = match self {
            Self::Figure(name) => name,
            Self::Validation(name) => return format!("validation-{name}").into(),
            Self::TableAbove(place) => {
                return share_column(SPARSITY_THRESHOLDS[*place], "averaged").into();
            }
            Self::UpBytes => "up_bytes",
            Self::DownBytes => "down_bytes",
            Self::InferenceBytes => "inference_bytes",
            Self::UpModelled => "up_modelled_bytes",
            Self::DownModelled => "down_modelled_bytes",
            Self::UpBytesToSelected => "up_bytes_to_selected_round",
            Self::DownBytesToSelected => "down_bytes_to_selected_round_and_score",
            Self::VirtualTime => "virtual_time_s",
            Self::WallTime => "wall_time_s",
            Self::Threads => "threads",
            Self::PeakMemory => "peak_memory_bytes",
            Self::UpUnused => "up_unused_bytes",
            Self::DownUnused => "down_unused_bytes",
            Self::Epsilon => "epsilon",
            Self::AuditAuc => "audit_auc",
            Self::AuditPrecision => "audit_precision",
            Self::LinkedAuditAuc => "audit_linked_auc",
            Self::LinkedAuditPrecision => "audit_linked_precision",
            Self::OuterProduct => "audit_outer_product",
        };
        name.into()
    }

    /// Returns the name in tables for readers.
    pub(crate) fn label(&self) -> String {
        match self {
            Self::Figure(name) => figures::label(name),
            Self::Validation(name) => format!("validation {}", figures::label(name)),
            Self::UpBytes => "sent up".to_owned(),
            Self::DownBytes => "sent down".to_owned(),
            Self::InferenceBytes => "to score".to_owned(),
            Self::UpModelled => "of it modelled, up".to_owned(),
            Self::DownModelled => "of it modelled, down".to_owned(),
            Self::UpBytesToSelected => "sent up to the selected round".to_owned(),
            Self::DownBytesToSelected => "sent down to the selected round, and to score".to_owned(),
            Self::VirtualTime => "virtual time".to_owned(),
            Self::WallTime => "wall time".to_owned(),
            Self::Threads => "threads".to_owned(),
            Self::PeakMemory => "peak memory".to_owned(),
            Self::UpUnused => "of it unused, up".to_owned(),
            Self::DownUnused => "of it unused, down".to_owned(),
            Self::Epsilon => "epsilon".to_owned(),
            Self::AuditAuc => "AUC, one upload".to_owned(),
            Self::AuditPrecision => "precision, one upload".to_owned(),
            Self::LinkedAuditAuc => "AUC, all audited uploads".to_owned(),
            Self::LinkedAuditPrecision => "precision, all audited uploads".to_owned(),
            Self::OuterProduct => "outer product".to_owned(),
            Self::TableAbove(place) => {
                format!("above {}", threshold_name(SPARSITY_THRESHOLDS[*place]))
            }
        }
    }

    /// Returns the value of a run; `None` if the run has none.
    pub(crate) fn of(&self, report: &SavedReport) -> Option<f64> {
        let run = &report.run;
        match self {
            Self::Figure(name) => run.accuracy.test.get(name).copied(),
            Self::Validation(name) => run.accuracy.validation.as_ref()?.get(name).copied(),
            Self::UpBytes => Some(run.bytes.up.sent as f64),
            Self::DownBytes => Some(run.down_bytes() as f64),
            Self::InferenceBytes => run.inference_bytes.map(|bytes| bytes as f64),
            Self::UpModelled => Some(run.bytes.up.modelled as f64),
            Self::DownModelled => Some(run.bytes.down.modelled as f64),
            Self::UpBytesToSelected => Some(selected(report)?.up_bytes as f64),
            Self::DownBytesToSelected => Some(
                selected(report)?.down_bytes as f64
                    + run.inference_bytes.unwrap_or_default() as f64,
            ),
            Self::VirtualTime => Some(run.virtual_time_s),
            Self::WallTime => Some(run.wall.total_s),
            Self::Threads => Some(f64::from(run.wall.threads)),
            Self::PeakMemory => run.wall.peak_rss_bytes.map(|bytes| bytes as f64),
            Self::UpUnused => Some(run.bytes.up.unused() as f64),
            Self::DownUnused => {
                Some((run.bytes.down.unused() + run.work.unused_download_bytes) as f64)
            }
            Self::Epsilon => run.privacy?.epsilon,
            Self::AuditAuc => Some(run.audit?.best_guess().auc),
            Self::AuditPrecision => Some(run.audit?.best_guess().precision),
            Self::LinkedAuditAuc => Some(run.audit?.best_linked_guess()?.auc),
            Self::LinkedAuditPrecision => Some(run.audit?.best_linked_guess()?.precision),
            Self::OuterProduct => run.audit?.outer_product,
            Self::TableAbove(place) => {
                let last = report
                    .rounds
                    .iter()
                    .rev()
                    .find_map(|round| round.averaged_above)?;
                Some(last[*place])
            }
        }
    }

    /// Returns a value that is not negative in words.
    pub(crate) fn words(&self, value: f64) -> String {
        match self {
            Self::Figure(_) | Self::Validation(_) => words::accuracy(value),
            Self::UpBytes
            | Self::DownBytes
            | Self::InferenceBytes
            | Self::UpModelled
            | Self::DownModelled
            | Self::UpUnused
            | Self::DownUnused
            | Self::UpBytesToSelected
            | Self::DownBytesToSelected
            | Self::PeakMemory => bytes(value),
            Self::Threads if value.fract() == 0.0 => value.to_string(),
            // A mean over runs.
            Self::Threads => format!("{value:.1}"),
            Self::Epsilon => words::epsilon(value, 3),
            Self::AuditAuc
            | Self::AuditPrecision
            | Self::LinkedAuditAuc
            | Self::LinkedAuditPrecision
            | Self::OuterProduct => format!("{value:.3}"),
            Self::VirtualTime | Self::WallTime => words::duration(value),
            Self::TableAbove(_) => format!("{:.2} %", 100.0 * value),
        }
    }
}

/// Returns the round that a run is judged by.
fn selected(report: &SavedReport) -> Option<&SavedRound> {
    let selected = report.run.selected_round?;
    report.rounds.iter().find(|round| round.round == selected)
}

/// Returns a number of bytes, which may be a mean, in words.
pub(crate) fn bytes(value: f64) -> String {
    Bytes::new(value.round() as u64).to_string()
}

/// Returns which of two values of the figure `name` is better; a figure that is not known is better
/// if it is higher.
pub(crate) fn direction(name: &str) -> Better {
    Metric::named(name).map_or(Better::Higher, |metric| metric.better())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::sample;

    /// If this fails, a column of a study's tables holds another one's figures.
    #[test]
    fn every_quantity_is_what_the_report_says() {
        let report = sample::report(3, 0.5);
        let values: Vec<Option<f64>> = COSTS.iter().map(|quantity| quantity.of(&report)).collect();
        let run = &report.run;
        let expected = [
            Some(run.bytes.up.sent as f64),
            Some(run.bytes.down.sent as f64),
            run.inference_bytes.map(|bytes| bytes as f64),
            Some(run.virtual_time_s),
            Some(run.wall.total_s),
            Some(f64::from(run.wall.threads)),
            run.wall.peak_rss_bytes.map(|bytes| bytes as f64),
        ];
        assert_eq!(values, expected);
        assert_eq!(Quantity::Figure("hr@10".to_owned()).of(&report), Some(0.5));
        assert_eq!(Quantity::Figure("mrr".to_owned()).of(&report), None);
        let all: Vec<Quantity> = COSTS
            .into_iter()
            .chain(UNUSED)
            .chain(OVERHEADS)
            .chain(COSTS_OF_SELECTED)
            .chain(PRIVACY)
            .chain(sparsity())
            .collect();
        let mut names: Vec<Cow<str>> = all.iter().map(Quantity::name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all.len());
        let validation = Quantity::Validation("hr@10".to_owned());
        assert_eq!(
            (validation.name().as_ref(), validation.label().as_str()),
            ("validation-hr@10", "validation HR@10")
        );
        let of_validation = run
            .accuracy
            .validation
            .as_ref()
            .and_then(|figures| figures.get("hr@10").copied());
        assert!(of_validation.is_some() && validation.of(&report) == of_validation);
        let mut judged = report.clone();
        judged.run.selected_round = Some(judged.rounds[0].round);
        judged.run.inference_bytes = Some(7);
        (judged.run.bytes.up.modelled, judged.run.bytes.down.modelled) = (8, 9);
        assert_eq!(
            OVERHEADS.map(|quantity| quantity.of(&judged)),
            [Some(8.0), Some(9.0)]
        );
        let (first, last) = (&judged.rounds[0], &judged.rounds[judged.rounds.len() - 1]);
        assert!(first.up_bytes < last.up_bytes && first.down_bytes < last.down_bytes);
        let of_selected = COSTS_OF_SELECTED.map(|quantity| quantity.of(&judged));
        assert_eq!(
            of_selected,
            [
                Some(first.up_bytes as f64),
                Some(first.down_bytes as f64 + 7.0)
            ]
        );
        judged.run.scenario =
            serde_json::json!({ "codec": { "downlink": { "select": "needed-rows" } } });
        assert_eq!(
            Quantity::DownBytes.of(&judged),
            Some(judged.run.bytes.down.sent as f64 + 7.0),
            "rows do not score"
        );
        assert!(
            sparsity().all(|quantity| quantity.of(&report).is_none()),
            "no table was averaged"
        );
        let mut averaged = report.clone();
        averaged.rounds[1].averaged_above = Some([1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4]);
        let shares: Vec<Option<f64>> = sparsity().map(|quantity| quantity.of(&averaged)).collect();
        assert_eq!(shares, [0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0].map(Some));
        let [above_tenth, above_hundredth] = [Quantity::TableAbove(6), Quantity::TableAbove(5)];
        assert_eq!(
            (
                above_tenth.label().as_str(),
                above_hundredth.name().as_ref()
            ),
            ("above 1e-1", "c_above_1e-2_averaged")
        );
        assert!(
            is_sparsity("c_above_0_averaged")
                && !is_sparsity("c_above_1e-7_averaged")
                && !is_sparsity("hr@10")
        );
        assert_eq!(Quantity::UpBytes.words(2.4e9), "2.40 GB");
        assert_eq!(direction("rmse"), Better::Lower);
    }
}
