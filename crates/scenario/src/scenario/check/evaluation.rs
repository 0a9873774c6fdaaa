//! The rules of `[evaluation]`: the figures must fit the split and the data, and the headline must
//! be one of them.

use super::super::spec::{
    DatasetSpec, EvaluationSpec, ItemTable, Ranking, Selection, SourceSpec, SplitSpec,
};
use super::super::suggest;
use super::super::traffic::Traffic;
use super::Checker;
use fedrecsim_core::metric::{FAMILIES, Metric, Needs};

/// The largest cutoff that a name may have; the key `cutoffs` has the same limit.
const MAX_CUTOFF: u32 = 100_000;

impl Checker<'_> {
    /// Returns the evaluation with its defaults filled in. `dataset` is `None` if it has a fault,
    /// which is noted already; leave-one-out is assumed then.
    pub(super) fn evaluation(
        &mut self,
        mut evaluation: EvaluationSpec,
        dataset: Option<&DatasetSpec>,
    ) -> EvaluationSpec {
        let split = dataset.map_or(
            SplitSpec::LeaveOneOut {
                validation_item: true,
            },
            |dataset| dataset.split,
        );
        if matches!(split, SplitSpec::KFold { .. }) && !self.file.has(&["evaluation", "metrics"]) {
            evaluation.metrics = ["rmse", "mae"].map(String::from).into();
        }
        if self.metric_names(&evaluation) {
            self.headline(&mut evaluation);
            self.cutoffs(&mut evaluation);
            self.figures_of_the_split(&evaluation, split, dataset);
        }
        if matches!(split, SplitSpec::KFold { .. }) {
            self.ranking_of_nothing(&evaluation);
        }
        if evaluation.selection == Selection::BestValidation && !split.has_validation_item() {
            let reason = match split {
                SplitSpec::LeaveOneOut { .. } => "`dataset.validation_item` is false",
                SplitSpec::KFold { .. } => "`dataset.split` is `k-fold`, which holds none out",
            };
            let message = format!("`best-validation` needs a validation item, but {reason}");
            self.fault(&["evaluation", "selection"], message);
        }
        evaluation
    }

    /// Refuses another item table than the users' own where they keep none. A method about which
    /// nothing is known before the data are read is refused when users are scored.
    pub(super) fn item_table(&mut self, item_table: ItemTable, traffic: Option<&Traffic>) {
        if item_table != ItemTable::Own
            && traffic.is_some_and(|traffic| !traffic.keeps_personal_tables)
        {
            let message = "the users of this method keep no item table of their own, in whose place they could score with \
                           another one";
            self.fault(&["evaluation", "item_table"], message);
        }
    }

    /// Refuses keys that say how held-out items are ranked where no item is held out. Keys with
    /// their default values are let pass, because a resolved scenario has every key.
    fn ranking_of_nothing(&mut self, evaluation: &EvaluationSpec) {
        let usual = EvaluationSpec::default();
        for (key, is_usual) in [
            ("ranking", evaluation.ranking == usual.ranking),
            ("candidates", evaluation.candidates == usual.candidates),
            (
                "shared_candidates",
                evaluation.shared_candidates == usual.shared_candidates,
            ),
            ("cutoffs", evaluation.cutoffs == usual.cutoffs),
        ] {
            if !is_usual {
                let message = format!(
                    "`{key}` says how held-out items are ranked, but `dataset.split` is `k-fold`, which holds ratings out"
                );
                self.fault(&["evaluation", key], message);
            }
        }
    }

    /// Returns whether every figure is known, and notes a fault for each that is not.
    fn metric_names(&mut self, evaluation: &EvaluationSpec) -> bool {
        let known = self.faults.len();
        for name in &evaluation.metrics {
            self.metric_name("metrics", name, true);
        }
        if self.file.has(&["evaluation", "headline"]) {
            self.metric_name("headline", &evaluation.headline, false);
        }
        self.faults.len() == known
    }

    /// Notes what is wrong with the name of a figure, which is the value of `key`. A list may name
    /// a family without a cutoff.
    fn metric_name(&mut self, key: &str, name: &str, in_list: bool) {
        let path = ["evaluation", key];
        let (family, cutoff) = name
            .split_once('@')
            .map_or((name, None), |(family, cutoff)| (family, Some(cutoff)));
        let Some(known) = FAMILIES.iter().find(|known| known.name == family) else {
            let names: Vec<&str> = FAMILIES.iter().map(|family| family.name).collect();
            let suggestion = suggest::instead_of(family, &names);
            return self.fault(
                &path,
                format!("unknown figure `{name}` in `{key}`{suggestion}"),
            );
        };
        let message = match (
            cutoff,
            Metric::named(name).and_then(|metric| metric.cutoff()),
        ) {
            (Some(cutoff), _) if !known.has_cutoff => {
                format!("`{family}` has no cutoff: write `{family}` without `@{cutoff}`")
            }
            (None, _) if known.has_cutoff && !in_list => {
                format!(
                    "`{key}` names one figure: write `{family}@10`, or another cutoff, for `{family}`"
                )
            }
            (Some(_), Some(cutoff)) if cutoff > MAX_CUTOFF => {
                format!("the cutoff of `{name}` must be at most {MAX_CUTOFF}")
            }
            (Some(cutoff), None) => {
                format!(
                    "`{cutoff}` is no cutoff of `{family}`: write a whole number from 1, as in `{family}@10`"
                )
            }
            _ => return,
        };
        self.fault(&path, message);
    }

    /// Fills in the headline, and checks that it is one of the figures.
    fn headline(&mut self, evaluation: &mut EvaluationSpec) {
        let is_written = self.file.has(&["evaluation", "headline"]);
        let names = |name: &str| evaluation.metrics.iter().any(|listed| listed == name);
        if !is_written && !names("hr") && !names("hr@10") {
            let first = evaluation
                .metrics
                .iter()
                .flat_map(|name| Metric::all_named(name, &[10]))
                .next();
            evaluation.headline = first.map_or_else(String::new, |metric| metric.name());
        }
        // A family that is named without a cutoff is measured at the headline's cutoff too.
        if let Some((family, Some(cutoff))) = Metric::family_and_cutoff(&evaluation.headline)
            && evaluation
                .metrics
                .iter()
                .any(|listed| listed == family.name)
        {
            evaluation.cutoffs.push(cutoff);
        }
        evaluation.cutoffs.sort_unstable();
        evaluation.cutoffs.dedup();
        if !evaluation
            .metrics()
            .iter()
            .any(|metric| metric.name() == evaluation.headline)
        {
            let names: Vec<String> = evaluation
                .metrics()
                .iter()
                .map(|metric| format!("`{}`", metric.name()))
                .collect();
            let message = format!(
                "`{}` is not among `metrics`; these are {}",
                evaluation.headline,
                suggest::or_list(&names)
            );
            self.contradiction(
                &["evaluation", "headline"],
                &["evaluation", "metrics"],
                message,
            );
        }
    }

    /// Refuses cutoffs beyond the number of candidates, and drops default ones. Among C candidates
    /// the held-out item is one of C + 1, so that it is always within the first C + 1.
    fn cutoffs(&mut self, evaluation: &mut EvaluationSpec) {
        let candidates = evaluation.candidates;
        if evaluation.ranking != Ranking::Sampled {
            return;
        }
        let headline = evaluation
            .headline()
            .filter(|metric| metric.cutoff().is_some_and(|cutoff| cutoff > candidates));
        if let Some(headline) = headline {
            let message = format!(
                "{}, the headline (`evaluation.headline`), says the same of every method among {candidates} candidates; \
                 it takes {}",
                headline.label(),
                headline.cutoff().unwrap_or_default()
            );
            return self.contradiction(
                &["evaluation", "candidates"],
                &["evaluation", "headline"],
                message,
            );
        }
        if !self.file.has(&["evaluation", "cutoffs"]) {
            // Only those of the default cutoffs are kept that can tell methods apart.
            evaluation.cutoffs.retain(|cutoff| *cutoff <= candidates);
        }
        let beyond = |metric: &Metric| metric.cutoff().is_some_and(|cutoff| cutoff > candidates);
        if let Some(metric) = evaluation.metrics().into_iter().find(beyond) {
            let of_a_family = evaluation
                .cutoffs
                .contains(&metric.cutoff().unwrap_or_default());
            let key = if of_a_family { "cutoffs" } else { "metrics" };
            let message = format!(
                "{} says the same of every method among {candidates} candidates (`evaluation.candidates`): cutoffs may be \
                 at most {candidates}",
                metric.label()
            );
            self.fault(&["evaluation", key], message);
        }
    }

    /// Checks that the split and the data have what each figure needs.
    fn figures_of_the_split(
        &mut self,
        evaluation: &EvaluationSpec,
        split: SplitSpec,
        dataset: Option<&DatasetSpec>,
    ) {
        let path = ["evaluation", "metrics"];
        let is_k_fold = matches!(split, SplitSpec::KFold { .. });
        for metric in evaluation.metrics() {
            let name = metric.name();
            let message = match metric.needs() {
                Needs::PredictedRatings if !is_k_fold => format!(
                    "`{name}` compares predicted with held-out ratings, but `leave-one-out` holds single items out: give \
                     `dataset.split = {{ k-fold = {{}} }}`"
                ),
                Needs::RankAmongCandidates | Needs::RankInCatalogue if is_k_fold => format!(
                    "`{name}` ranks a held-out item, but `k-fold` holds ratings out: take `rmse` or `mae`, or give \
                     `dataset.split = \"leave-one-out\"`"
                ),
                _ => continue,
            };
            return self.contradiction(&path, &["dataset", "split"], message);
        }
        // Whether other sources have ratings is known only when they are read.
        if let (true, Some(SourceSpec::Delimited(columns))) =
            (is_k_fold, dataset.map(|dataset| &dataset.source))
            && columns.rating.is_none()
        {
            self.fault(
                &["dataset", "split"],
                "`k-fold` holds ratings out, but `dataset.columns` names no column of ratings: give `rating`",
            );
        }
    }
}
