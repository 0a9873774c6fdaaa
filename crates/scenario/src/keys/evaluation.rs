//! `[evaluation]`: the metrics, what held-out items are ranked against, and the round
//! that counts.

use super::{NegativePool, Scenario, SplitSpec, name_of};
use crate::check::Checker;
use crate::{choices, keys, suggest, variants};
use fedrecsim_core::metric::{FAMILIES, Metric, Needs};

keys! {
    /// How accuracy is measured.
    pub struct EvaluationSpec {
        /// Evaluate after every this many rounds, and always after the last.
        every_rounds: u32 = 1, >= 1;
        /// The metrics. `hr@K`, `recall@K`, `precision@K`, `ndcg@K`, `map@K` and `mrr` rank held-out
        /// items; with `expected-` before their names they are exact expectations over all draws of
        /// the sampled candidates, which have no noise of sampling. `hr` alone stands for `hr@K` at
        /// each of `cutoffs`, and so do the others. With `k-fold`: `rmse` and `mae`.
        /// The default is `hr`, `ndcg` and `mrr`, or `rmse` and `mae`.
        #[schemars(length(min = 1, max = 32), inner(length(min = 1, max = 40)))]
        metrics: Vec<String> = ["hr", "ndcg", "mrr"].map(String::from).into();
        /// The metric that `selection` judges rounds by and that every report shows first; one of
        /// `metrics`. The default is `hr@10` where that is one of them, else the first.
        #[schemars(length(min = 1, max = 40))]
        headline: String = "hr@10".to_owned();
        /// What the held-out item is ranked against.
        ranking: Ranking = Ranking::Sampled(SampledSpec::default());
        /// The K of metrics that are named without one. That of the headline is always among them;
        /// none is beyond the number of sampled candidates.
        #[schemars(length(min = 1, max = 16), inner(range(min = 1, max = 100_000)))]
        cutoffs: Vec<u32> = vec![5, 10, 20];
        /// The item table that users score with, where the method has each keep one of its own
        /// (FedRAP's D_i, the E_i of PFedRec). Training is not affected.
        item_table: ItemTable = ItemTable::Own;
        /// Which round a run is judged by.
        selection: Selection = Selection::Last;
        /// The run ends when the headline on the validation items has not become better in this many
        /// evaluations. Left out: it goes on to its last round.
        patience: Option<u32> = None, >= 1;
        /// Evaluate this many users, the same ones throughout; 0 means all.
        users: u32 = 0;
    }
}

impl EvaluationSpec {
    /// Returns the metrics, each once, in the order of their names in the file.
    pub fn metrics(&self) -> Vec<Metric> {
        let names = self.metrics.iter();
        suggest::once(names.flat_map(|name| Metric::all_named(name, &self.cutoffs)))
    }

    /// Returns the metric that a run is judged by. A checked scenario names one of
    /// [`Self::metrics`]; of one that was put together otherwise, and names none, it is the first.
    pub fn headline(&self) -> Option<Metric> {
        Metric::named(&self.headline).or_else(|| self.metrics().into_iter().next())
    }

    /// Returns how many items the lists have that reports describe beyond accuracy: as many as the
    /// cutoff of the headline, or the first cutoff where it has none.
    pub fn list_length(&self) -> u32 {
        let metrics = self.headline().into_iter().chain(self.metrics());
        let cutoffs = metrics.filter_map(|metric| metric.cutoff);
        let mut cutoffs = cutoffs.chain(self.cutoffs.iter().copied());
        cutoffs.next().unwrap_or_default()
    }

    /// Returns whether any of the metrics needs this.
    pub fn needs(&self, needs: Needs) -> bool {
        self.metrics().iter().any(|metric| metric.needs() == needs)
    }
}

variants! {
    /// What the held-out item is ranked against.
    #[derive(Copy)]
    pub enum Ranking {
        /// A fixed sample of items that the user never rated.
        Sampled(SampledSpec),
        /// Every item that the user never rated.
        FullCatalogue,
    }
}

keys! {
    /// A sample of candidates, drawn once per run.
    #[derive(Copy)]
    pub struct SampledSpec {
        /// Number of candidates; the user has rated none of them.
        candidates: u32 = 99, >= 1, <= 1_000_000;
        /// Whether validation and test share one draw of candidates (FedRAP's code) or have their
        /// own (PFedRec's). Under `global-time` they have their own, and those of validation may be
        /// what the user takes after the cut.
        shared_candidates: bool = true;
    }
}

choices! {
    /// The item table that users score with, where each keeps one of its own.
    pub enum ItemTable {
        /// The user's own, if the method has one.
        Own,
        /// The shared one alone, as every user can download it.
        Shared,
        /// The own one of another user, who is drawn for each user once per run.
        AnotherUsers,
    }

    /// Which round a run is judged by.
    pub enum Selection {
        /// The last one.
        Last,
        /// The best by the headline on the validation items, the last of equals (PFedRec's
        /// code).
        BestValidation,
        /// The best by the headline on the **test** part (FedRAP's code): an optimistic
        /// choice, named as such in reports.
        BestTest,
    }
}

pub(super) const CANDIDATES: &str = "evaluation.ranking.sampled.candidates";

/// The largest cutoff that a name may have; the key `cutoffs` has the same limit.
const MAX_CUTOFF: u32 = 100_000;

/// Fills in what depends on other keys: the metrics of the split, the first of them as the headline
/// and its cutoff, and those default cutoffs that can tell methods apart.
pub(super) fn fill(scenario: &mut Scenario, checker: &Checker<'_>) {
    let has = |key: &str| checker.file.has(&format!("evaluation.{key}"));
    let evaluation = &mut scenario.evaluation;
    if scenario.dataset.split.holds_ratings_out() && !has("metrics") {
        evaluation.metrics = ["rmse", "mae"].map(String::from).into();
    }
    let names = |name: &str| evaluation.metrics.iter().any(|listed| listed == name);
    if !has("headline") && !names("hr") && !names("hr@10") {
        let named = evaluation.metrics.iter();
        let first = named.flat_map(|name| Metric::all_named(name, &[10])).next();
        evaluation.headline = first.map_or_else(String::new, |metric| metric.name());
    }
    // A family that is named without a cutoff is measured at the headline's cutoff too.
    if let Some((family, Some(cutoff))) = Metric::family_and_cutoff(&evaluation.headline)
        && evaluation.metrics.iter().any(|name| name == family.name)
    {
        evaluation.cutoffs.push(cutoff);
    }
    if let (Ranking::Sampled(sampled), false) = (evaluation.ranking, has("cutoffs")) {
        let headline = evaluation.headline().and_then(|metric| metric.cutoff);
        evaluation
            .cutoffs
            .retain(|cutoff| *cutoff <= sampled.candidates || Some(*cutoff) == headline);
    }
    evaluation.cutoffs.sort_unstable();
    evaluation.cutoffs.dedup();
}

pub(super) fn check(scenario: &Scenario, checker: &mut Checker<'_>) {
    let (evaluation, split) = (&scenario.evaluation, scenario.dataset.split);
    if check_names(evaluation, checker) {
        check_headline(evaluation, checker);
        if let Ranking::Sampled(sampled) = evaluation.ranking {
            check_cutoffs(evaluation, sampled.candidates, checker);
        }
        check_needs(scenario, checker);
    }
    let draws = matches!(evaluation.ranking, Ranking::Sampled(_))
        && evaluation.needs(Needs::RankAmongCandidates);
    if scenario.dataset.negatives.pool == NegativePool::Symmetric && !draws {
        checker.contradiction(
            "dataset.negatives.pool",
            "evaluation.ranking",
            "the pool `symmetric` leaves out the candidates that a held-out item is ranked against, and none are \
             drawn here: take `not-in-train`",
        );
    }
    let usual = EvaluationSpec::default();
    for (key, is_usual) in [
        ("ranking", evaluation.ranking == usual.ranking),
        ("cutoffs", evaluation.cutoffs == usual.cutoffs),
    ] {
        // A printed scenario has the usual values.
        if split.holds_ratings_out() && !is_usual {
            checker.fault(
                &format!("evaluation.{key}"),
                format!(
                    "`{key}` says how held-out items are ranked, but `dataset.split` is \
                     `{}`, which holds ratings out",
                    name_of(&split)
                ),
            );
        }
    }
    if evaluation.selection == Selection::BestValidation && !split.has_validation_items() {
        let reason = match split.holds_ratings_out() {
            true => format!(
                "`dataset.split` is `{}`, which holds none out",
                name_of(&split)
            ),
            false => format!("none are held out (`{}`)", split.validation_key()),
        };
        checker.fault(
            "evaluation.selection",
            format!("`best-validation` needs validation items, but {reason}"),
        );
    }
    if evaluation.patience.is_some() && !split.has_validation_items() {
        checker.contradiction(
            "evaluation.patience",
            split.validation_key(),
            format!(
                "`patience` goes by validation items, but none are held out (`{}`)",
                split.validation_key()
            ),
        );
    }
    // A method about which nothing is known before the data are read is refused when users are
    // scored.
    let traffic = checker.traffic.as_ref();
    checker.refuse_if(
        evaluation.item_table != ItemTable::Own
            && traffic.is_some_and(|traffic| !traffic.keeps_personal_tables),
        "evaluation.item_table",
        "the users of this method keep no item table of their own that another one could replace",
    );
    checker.idle_if(
        !split.has_validation_items(),
        "evaluation.ranking.sampled.shared_candidates",
        &format!(
            "no validation item is held out (`{}`)",
            split.validation_key()
        ),
    );
    let is_without_cutoff = |name: &String| {
        let parsed = Metric::family_and_cutoff(name);
        parsed.is_some_and(|(family, cutoff)| family.has_cutoff && cutoff.is_none())
    };
    checker.idle_if(
        !evaluation.metrics.iter().any(is_without_cutoff),
        "evaluation.cutoffs",
        "every metric in `metrics` that has a cutoff names its own",
    );
}

/// Returns whether every metric is known, and notes a fault for each that is not.
fn check_names(evaluation: &EvaluationSpec, checker: &mut Checker<'_>) -> bool {
    let headline = checker.file.has("evaluation.headline");
    let headline = headline.then_some(("headline", &evaluation.headline));
    let metrics = evaluation.metrics.iter().map(|name| ("metrics", name));
    let mut are_known = true;
    for (key, name) in metrics.chain(headline) {
        if let Some(message) = name_fault(key, name) {
            checker.fault(&format!("evaluation.{key}"), message);
            are_known = false;
        }
    }
    are_known
}

/// Returns what is wrong with the name of a metric, which is the value of `key`. A list (`metrics`)
/// may name a family without a cutoff.
fn name_fault(key: &str, name: &str) -> Option<String> {
    let (family, cutoff) = name
        .split_once('@')
        .map_or((name, None), |(family, cutoff)| (family, Some(cutoff)));
    let Some(known) = FAMILIES.iter().find(|known| known.name == family) else {
        let names: Vec<&str> = FAMILIES.iter().map(|family| family.name).collect();
        let suggestion = suggest::instead_of(family, &names);
        return Some(format!("unknown metric `{name}` in `{key}`{suggestion}"));
    };
    let number = Metric::named(name).and_then(|metric| metric.cutoff);
    match (cutoff, number) {
        (Some(cutoff), _) if !known.has_cutoff => Some(format!(
            "`{family}` has no cutoff: write `{family}` without `@{cutoff}`"
        )),
        (None, _) if known.has_cutoff && key != "metrics" => Some(format!(
            "`{key}` names one metric: write `{family}@10`, or another cutoff, for `{family}`"
        )),
        (Some(_), Some(cutoff)) if cutoff > MAX_CUTOFF => Some(format!(
            "the cutoff of `{name}` must be at most {MAX_CUTOFF}"
        )),
        (Some(cutoff), None) => Some(format!(
            "`{cutoff}` is no cutoff of `{family}`: write a whole number from 1, as in `{family}@10`"
        )),
        _ => None,
    }
}

fn check_headline(evaluation: &EvaluationSpec, checker: &mut Checker<'_>) {
    let (headline, metrics) = (&evaluation.headline, evaluation.metrics());
    if metrics.iter().all(|metric| metric.name() != *headline) {
        let names = metrics.iter().map(|metric| format!("`{}`", metric.name()));
        let names = suggest::or_list(&names.collect::<Vec<_>>());
        checker.contradiction(
            "evaluation.headline",
            "evaluation.metrics",
            format!("`{headline}` is not among `metrics`; these are {names}"),
        );
    }
}

/// Refuses cutoffs beyond the number of candidates. Among C candidates the held-out item is one of
/// C + 1, so that it is always within the first C + 1.
fn check_cutoffs(evaluation: &EvaluationSpec, candidates: u32, checker: &mut Checker<'_>) {
    let beyond = |metric: &Metric| metric.cutoff.is_some_and(|cutoff| cutoff > candidates);
    if let Some(headline) = evaluation.headline().filter(beyond) {
        let (label, least) = (headline.label(), headline.cutoff.unwrap_or_default());
        checker.contradiction(
            CANDIDATES,
            "evaluation.headline",
            format!(
                "{label}, the headline (`evaluation.headline`), is the same for every method among {candidates} candidates; it takes {least}"
            ),
        );
    } else if let Some(metric) = evaluation.metrics().into_iter().find(beyond) {
        let cutoff = metric.cutoff.unwrap_or_default();
        let key = match evaluation.cutoffs.contains(&cutoff) {
            true => "evaluation.cutoffs",
            false => "evaluation.metrics",
        };
        let label = metric.label();
        checker.fault(
            key,
            format!(
                "{label} is the same for every method among {candidates} candidates \
                 (`{CANDIDATES}`): cutoffs may be at most {candidates}"
            ),
        );
    }
}

/// Checks that the split and the data have what each metric needs.
fn check_needs(scenario: &Scenario, checker: &mut Checker<'_>) {
    let split = scenario.dataset.split;
    let (holds_ratings, named) = (split.holds_ratings_out(), name_of(&split));
    let (to_predict, to_rank) = match split {
        SplitSpec::ByColumn(_) => (
            "`dataset.split.by-column.holds_out = \"ratings\"`",
            "`dataset.split.by-column.holds_out = \"items\"`",
        ),
        _ => (
            "`dataset.split = \"k-fold\"`",
            "`dataset.split = \"leave-one-out\"`",
        ),
    };
    for metric in scenario.evaluation.metrics() {
        let name = metric.name();
        let message = match metric.needs() {
            Needs::PredictedRatings if !holds_ratings => {
                let instead = match split {
                    SplitSpec::ByColumn(_) => "the split holds items out",
                    _ => "only `k-fold` holds ratings out",
                };
                format!(
                    "`{name}` compares predicted with held-out ratings, but {instead}: give {to_predict}"
                )
            }
            Needs::RankAmongCandidates | Needs::RankInCatalogue if holds_ratings => format!(
                "`{name}` ranks a held-out item, but `{named}` holds ratings out: take `rmse` or `mae`, or give {to_rank}"
            ),
            _ => continue,
        };
        return checker.contradiction("evaluation.metrics", "dataset.split", message);
    }
    // Whether other sources have ratings is known only when they are read.
    if let Some(columns) = &scenario.dataset.columns
        && holds_ratings
        && columns.rating.is_none()
    {
        checker.contradiction(
            "dataset.split",
            "dataset.columns.rating",
            format!(
                "`{named}` holds ratings out, but `dataset.columns` names no column of ratings: give \
                 `rating`"
            ),
        );
    }
}
