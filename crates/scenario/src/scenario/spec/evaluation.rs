//! How accuracy is measured: the figures, what held-out items are ranked against, and the round
//! that counts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use fedrecsim_core::metric::{Metric, Needs};

/// How accuracy is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EvaluationSpec {
    /// Evaluate after every this many rounds, and always after the last.
    #[schemars(range(min = 1))]
    pub every_rounds: u32,
    /// The figures of accuracy. With `leave-one-out`: `hr@K`, `ndcg@K` and `mrr`, and their exact
    /// expectations over all draws of the sampled candidates, `expected-hr@K`, `expected-ndcg@K`
    /// and `expected-mrr`, which have no noise of sampling; `hr` alone stands for `hr@K` at each of
    /// `cutoffs`, and so do the others. With `k-fold`: `rmse` and `mae`. The default is `hr`,
    /// `ndcg` and `mrr`, or `rmse` and `mae`.
    #[schemars(length(min = 1, max = 32), inner(length(min = 1, max = 40)))]
    pub metrics: Vec<String>,
    /// The figure by which `selection` judges rounds and which every report shows first; one of
    /// `metrics`. The default is `hr@10` where that is one of them, else the first.
    #[schemars(length(min = 1, max = 40))]
    pub headline: String,
    /// What the held-out item is ranked against.
    pub ranking: Ranking,
    /// Number of sampled candidates, never rated by the user, drawn once per run.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub candidates: u32,
    /// Whether validation and test share one draw of candidates (FedRAP's code) or have their own
    /// (PFedRec's).
    pub shared_candidates: bool,
    /// The K of figures that are named without one. That of the headline is always among them; none
    /// is beyond the number of sampled candidates.
    #[schemars(length(min = 1, max = 16), inner(range(min = 1, max = 100_000)))]
    pub cutoffs: Vec<u32>,
    /// The item table that users score with, where the method has each keep one of its own
    /// (FedRAP's D_i, the E_i of PFedRec). Training is not affected.
    pub item_table: ItemTable,
    /// Which round a run is judged by.
    pub selection: Selection,
    /// Evaluate this many users, the same ones throughout; 0 means all.
    pub users: u32,
}

impl Default for EvaluationSpec {
    fn default() -> Self {
        Self {
            every_rounds: 1,
            metrics: ["hr", "ndcg", "mrr"].map(String::from).into(),
            headline: "hr@10".to_owned(),
            ranking: Ranking::Sampled,
            candidates: 99,
            shared_candidates: true,
            cutoffs: vec![5, 10, 20],
            item_table: ItemTable::Own,
            selection: Selection::Last,
            users: 0,
        }
    }
}

impl EvaluationSpec {
    /// Returns the figures, each once, in the order in which they are named.
    pub fn metrics(&self) -> Vec<Metric> {
        let mut metrics: Vec<Metric> = Vec::new();
        for metric in self
            .metrics
            .iter()
            .flat_map(|name| Metric::all_named(name, &self.cutoffs))
        {
            if !metrics.contains(&metric) {
                metrics.push(metric);
            }
        }
        metrics
    }

    /// Returns the figure that a run is judged by. A checked scenario names one of
    /// [`Self::metrics`]; of one that was put together otherwise, and names none, it is the first.
    pub fn headline(&self) -> Option<Metric> {
        Metric::named(&self.headline).or_else(|| self.metrics().into_iter().next())
    }

    /// Returns whether any of the figures needs this.
    pub fn needs(&self, needs: Needs) -> bool {
        self.metrics().iter().any(|metric| metric.needs() == needs)
    }
}

/// What the held-out item is ranked against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Ranking {
    /// A fixed sample of items that the user never rated.
    Sampled,
    /// Every item that the user never rated.
    FullCatalogue,
}

/// The item table that users score with, where each keeps one of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ItemTable {
    /// The user's own, as the method has it.
    Own,
    /// The shared one alone, as every user can download it.
    Shared,
    /// The own one of another user, who is drawn for each user once per run.
    AnotherUsers,
}

/// Which round a run is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Selection {
    /// The last one.
    Last,
    /// The best by the headline figure on the validation items, the last of equals (PFedRec's
    /// code).
    BestValidation,
    /// The best by the headline figure on the **test** part (FedRAP's code): an optimistic choice,
    /// named as such in reports.
    BestTest,
}
