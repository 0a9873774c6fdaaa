//! Tells kinds of methods apart of which scenarios ask different things.

use super::Draft;

/// The methods that learn ratings.
pub(super) const LEARN_RATINGS: [&str; 5] = ["fedrec-pmf", "fedrec-svdpp", "fedpergnn", "pmf", "svdpp"];

/// The methods whose server trains on ratings that users send as they are.
pub(super) const AT_SERVER: [&str; 10] =
    ["mf", "pmf", "svdpp", "ease", "itemknn", "ials", "bpr-mf", "ncf", "lightgcn", "centrap"];

/// The methods whose server does more than add what it receives. FedGram and FedSpec need not.
const DO_MORE_THAN_ADD: [&str; 7] =
    ["fedgram", "fedrec-pmf", "fedrec-svdpp", "fedrecon", "fedspec", "metamf", "fedpergnn"];

/// The methods whose server counts who has sent which row. FedGram and FedSpec need not.
const COUNT_SENDERS: [&str; 4] = ["fedgram", "fedspec", "fedrec-pmf", "fedrec-svdpp"];

impl Draft {
    /// Returns whether devices send the counts that the server would otherwise make.
    fn sends_counts(&self) -> bool {
        ["fedgram", "fedspec"].iter().any(|name| self.boolean(&format!("method.{name}.sends_counts"), false))
    }

    /// Returns whether the server does more than add what it receives.
    pub(super) fn does_more_than_add(&self) -> bool {
        self.is_one_of(&DO_MORE_THAN_ADD) && !self.sends_counts()
    }

    /// Returns whether the server counts who has sent which row.
    pub(super) fn counts_senders(&self) -> bool {
        self.is_one_of(&COUNT_SENDERS) && !self.sends_counts()
    }

    /// Returns whether the method is one of these.
    pub(super) fn is_one_of(&self, methods: &[&str]) -> bool {
        methods.iter().any(|name| self.is("method", name) || self.has_below(&format!("method.{name}")))
    }

    /// Has users score with their own item tables where they keep none that another could stand for.
    pub(super) fn mend_item_table(&mut self) {
        let keeps_tuned_one = ["fedmf", "fedncf", "fedrecon"]
            .iter()
            .any(|name| self.boolean(&format!("method.{name}.dual_personalization"), false));
        let keeps_d = match self.0.get("method.fedrap.tables").and_then(toml::Value::as_str) {
            Some("c-only") => false,
            Some("d-only") => !self.boolean("method.fedrap.aggregate_d", false),
            _ => self.is_one_of(&["fedrap"]),
        };
        if !keeps_tuned_one && !keeps_d && !self.is_one_of(&["pfedrec"]) {
            self.0.remove("evaluation.item_table");
        }
    }
}
