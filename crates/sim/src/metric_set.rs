//! The metrics of a run, and the data of every user that they are computed from.

use fedrecsim_core::metric::{Metric, Needs};
use fedrecsim_core::{Error, Result};
use fedrecsim_data::dataset::{Dataset, RatingScale};
use fedrecsim_scenario::{EvaluationSpec, Selection};

/// The metrics of a run, with what they need.
#[derive(Clone, Debug)]
pub(crate) struct MetricSet {
    /// The metrics.
    pub metrics: Vec<Metric>,
    /// Whether one of them needs ranks among the candidates.
    pub among_candidates: bool,
    /// Whether one of them needs ranks in the catalogue.
    pub in_catalogue: bool,
    /// The length of the lists of items that users would be shown; 0 where no item is held out.
    pub list_length: u32,
    /// The range that predicted ratings are clipped to; `None` where no ratings are predicted.
    pub scale: Option<RatingScale>,
}

impl MetricSet {
    /// Returns the metrics that `spec` names, to be computed on `dataset`.
    ///
    /// # Errors
    /// [`Error::Dataset`] for a figure that the data set cannot have: an error of ratings where
    /// there are none or none are held out, or a rank where no item is held out.
    pub(crate) fn new(spec: &EvaluationSpec, dataset: &Dataset) -> Result<Self> {
        let metrics = spec.metrics();
        for metric in &metrics {
            let name = metric.name();
            let is_error = metric.needs() == Needs::PredictedRatings;
            let reason = match (is_error, dataset.holds_items_out()) {
                (true, true) => {
                    "compares predicted with held-out ratings, but the split holds single items out"
                }
                (false, false) => "ranks a held-out item, but the split holds ratings out",
                (true, false) if dataset.rating_scale().is_none() => {
                    "compares predicted with true ratings, but the data set is implicit: it has no ratings, or all of \
                     them are alike"
                }
                _ => continue,
            };
            return Err(Error::Dataset(format!(
                "`{name}` (evaluation.metrics) {reason}"
            )));
        }
        check_validation(spec, dataset)?;
        let scale = if dataset.holds_items_out() {
            None
        } else {
            dataset.rating_scale()
        };
        let needs = |needs| spec.needs(needs);
        let (among_candidates, in_catalogue) = (
            needs(Needs::RankAmongCandidates),
            needs(Needs::RankInCatalogue),
        );
        Ok(Self {
            metrics,
            among_candidates,
            in_catalogue,
            list_length: match dataset.holds_items_out() {
                true => spec.list_length(),
                false => 0,
            },
            scale,
        })
    }
}

/// Checks that there are validation items if rounds are chosen by them. Where a column says what is held out,
/// that is known only now.
fn check_validation(spec: &EvaluationSpec, dataset: &Dataset) -> Result<()> {
    let key = match spec.selection {
        _ if dataset.has_validation_items() => return Ok(()),
        Selection::BestValidation => "evaluation.selection = \"best-validation\"",
        _ if spec.patience.is_some() => "evaluation.patience",
        _ => return Ok(()),
    };
    Err(Error::Dataset(format!(
        "{key} goes by validation items, and none are held out: give some rows the part `validation` \
         (dataset.columns.part), or leave the key out"
    )))
}
