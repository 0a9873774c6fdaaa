//! Tells apart kinds of methods that need different scenarios.

use super::Draft;

/// The methods that learn ratings.
pub(super) const LEARN_RATINGS: [&str; 5] =
    ["fedrec-pmf", "fedrec-svdpp", "fedpergnn", "pmf", "svdpp"];

/// The methods that train nothing.
pub(super) const UNTRAINED: [&str; 4] = ["popularity", "random", "global-mean", "user-mean"];

/// The methods whose server trains on ratings that users send as they are.
pub(super) const AT_SERVER: [&str; 10] = [
    "mf", "pmf", "svdpp", "ease", "itemknn", "ials", "bpr-mf", "ncf", "lightgcn", "centrap",
];

/// The methods whose server counts who has sent which row, unless devices say so.
const COUNT_SENDERS: [&str; 5] = [
    "fedgram",
    "fedspec",
    "privirec",
    "fedrec-pmf",
    "fedrec-svdpp",
];

/// The methods whose server weights uploads, unless all are to weigh the same.
const WEIGHT_UPLOADS: [&str; 4] = ["fedrecon", "metamf", "fedpergnn", "fedpeft"];

/// The methods whose server works with single uploads, whatever they say.
pub(super) const SINGLE_UPLOADS: [&str; 6] = [
    "gpfedrec", "fedca", "fedem", "fedea", "cofedrec", "cgfedrec",
];

impl Draft {
    /// Returns whether the method is one of `methods` without this option.
    fn is_without(&self, methods: &[&str], option: &str) -> bool {
        self.is_one_of(methods)
            && !methods
                .iter()
                .any(|name| self.boolean(&format!("method.{name}.{option}"), false))
    }

    /// Returns whether the server does more than add what it receives.
    pub(super) fn does_more_than_add(&self) -> bool {
        self.counts_senders()
            || self.is_without(&WEIGHT_UPLOADS, "equal_weights")
            || self.is_one_of(&SINGLE_UPLOADS)
            || self.is_one_of(&["adafedrec"])
    }

    /// Returns whether the server counts who has sent which row.
    pub(super) fn counts_senders(&self) -> bool {
        self.is_without(&COUNT_SENDERS, "sends_counts")
    }

    /// Returns whether the method is one of these.
    pub(super) fn is_one_of(&self, methods: &[&str]) -> bool {
        methods
            .iter()
            .any(|name| self.is("method", name) || self.has_below(&format!("method.{name}")))
    }

    /// Has users score with their own item tables where they keep none that another could stand
    /// for.
    pub(super) fn mend_item_table(&mut self) {
        let keeps_tuned_one = ["fedmf", "fedncf", "fedrecon"]
            .iter()
            .any(|name| self.boolean(&format!("method.{name}.dual_personalization"), false));
        let keeps_d = match self
            .0
            .get("method.fedrap.tables")
            .and_then(toml::Value::as_str)
        {
            Some("c-only") => false,
            Some("d-only") => !self.boolean("method.fedrap.aggregate_d", false),
            _ => self.is_one_of(&["fedrap"]),
        };
        if !keeps_tuned_one
            && !keeps_d
            && !self.is_one_of(&["pfedrec", "feddad", "fedcia"])
            && !self.is_one_of(&SINGLE_UPLOADS)
        {
            self.0.remove("evaluation.item_table");
        }
    }
}
