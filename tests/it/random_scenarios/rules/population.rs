//! Repairs what a scenario says of its users and items, and returns how many there are.

use fedrecsim_methods::Entry;
use fedrecsim_methods::registry::METHODS;
use toml::Value;

use super::kinds::{AT_SERVER, UNTRAINED};
use super::{Draft, Population};
use crate::random_scenarios::files;

impl Draft {
    pub(super) fn generated(&mut self) -> Population {
        self.0.remove("dataset.path");
        self.remove_below("dataset.columns");
        self.remove_below("dataset.subset");
        for key in [
            "k_core",
            "minimum_positives",
            "positive_from",
            "repeated_pairs",
            "on_unusable_user",
        ] {
            self.0.remove(&*format!("dataset.{key}"));
        }
        let (users, items) = (
            self.integer("dataset.generator.users", 0),
            self.integer("dataset.generator.items", 0),
        );
        self.cap_real("dataset.generator.ratings_per_user", items as f64);
        // Every user has at least three ratings, and at most half of the catalogue if that is more.
        self.cap("dataset.minimum_interactions", 3);
        Population {
            users,
            unrated: items - (items / 2).max(3),
        }
    }

    /// Has users come later only where the others are there from the start, and some of both are
    /// tested, and items only where a method draws negatives and one item of each user is held out.
    pub(super) fn mend_joins(&mut self, population: &Population) {
        let trains_on_devices = !self.is_one_of(&UNTRAINED)
            && !self.is_one_of(&AT_SERVER)
            && !self.is_one_of(&["fedpergnn"]);
        let all_are_ranked = self.is("dataset.name", "generated")
            && !self.has_below("dataset.split.k-fold")
            && !self.splits_at_one_time();
        let draws_none = |entry: &&Entry| !entry.draws_negatives;
        let without: Vec<_> = METHODS.iter().filter(draws_none).collect();
        let items_can = !without.iter().any(|entry| self.is_one_of(&[entry.name]))
            && !self.has_below("audit")
            && !self.is("dataset.negatives.pool", "symmetric")
            && !self.has_below("dataset.split.holdout")
            && !self.is("dataset.split", "holdout");
        let wanted = ["joins.items", "joins.users"].map(|key| self.0.contains_key(key));
        let (others, own) = match wanted {
            [true, _] if items_can => ("joins.users", "joins.local_trainings"),
            [_, true] => ("joins.items", "joins.stage_s"),
            _ => return self.remove_below("joins"),
        };
        if !trains_on_devices || !all_are_ranked || population.users < 2 {
            return self.remove_below("joins");
        }
        self.remove_below(others);
        self.0.remove(others);
        self.0.remove(own);
        if others == "joins.users" {
            let stage_s = self.0.entry("joins.stage_s");
            stage_s.or_insert(Value::Float(0.5));
        }
        self.keep_chosen("joins.users");
        self.keep_chosen("joins.items");
        for key in [
            "training.start",
            "evaluation.item_table",
            "evaluation.users",
        ] {
            self.0.remove(key);
        }
    }

    /// Lets tastes go with devices only where these differ by a lognormal spread.
    pub(super) fn mend_device_correlation(&mut self) {
        if self.real("devices.speed.lognormal.log_sigma", 0.0) == 0.0 {
            self.0.remove("dataset.generator.device_correlation");
        }
    }

    pub(super) fn in_a_file(&mut self) -> Population {
        self.remove_below("dataset.generator");
        if self.is("dataset.name", "delimited") {
            self.0
                .entry("dataset.path")
                .or_insert_with(|| "ratings.txt".into());
            self.mend_columns();
        } else {
            self.remove_below("dataset.columns");
        }
        self.mend_clock();
        self.mend_subset();
        if self.splits_at_one_time() {
            self.set("dataset.repeated_pairs", "keep");
        }
        if !self.is("dataset.repeated_pairs", "keep")
            && self.0.contains_key("dataset.repeated_pairs")
        {
            // A few rows of the file repeat others, and users without them may fall below a minimum.
            self.0.remove("dataset.k_core");
            self.0
                .insert("dataset.minimum_interactions", Value::Integer(0));
        }
        // That of Amazon leaves nobody out: everybody has more ratings.
        let default_minimum = if self.is("dataset.name", "lastfm-2k") {
            10
        } else {
            0
        };
        let minimum = self.integer("dataset.minimum_interactions", default_minimum);
        let with_timestamps = self.boolean("dataset.subset.with_timestamps", false)
            && self.0.contains_key("dataset.columns.order");
        const GAP: &str = "dataset.split.leave-one-out.session_gap_days";
        // With these, a core leaves some user too few ratings to split, or nobody as many as the minimum.
        if minimum > 2 || with_timestamps || self.0.contains_key(GAP) {
            self.0.remove("dataset.k_core");
        }
        let filter = files::Filter {
            with_timestamps,
            minimum: match self.real(GAP, 0.0) > 4.0 {
                // Users with fewer ratings are left out with their sessions.
                true => minimum.max(files::MOST_RATINGS - 1),
                false => minimum,
            },
            core: self.integer("dataset.k_core", 0),
        };
        let (users, items) = match self.splits_at_one_time() {
            true => filter.of_first_quarter(),
            false => filter.remaining(),
        };
        Population {
            users,
            unrated: items - files::MOST_RATINGS,
        }
    }

    /// Gives the ratings of a split by a clock times, and leaves enough users to be tested.
    fn mend_clock(&mut self) {
        if self.goes_by_clock() {
            self.cap("dataset.minimum_interactions", 8);
            if self.0.contains_key("dataset.columns.order") {
                // Some users in the file have no times.
                self.0
                    .insert("dataset.subset.with_timestamps", Value::Boolean(true));
            }
        }
        if self.splits_at_one_time() {
            self.set("dataset.negatives.pool", "not-in-train");
            // Who can be tested is known only when the ratings have been split.
            self.cap("evaluation.users", 1);
        }
    }

    /// Has a subset only where it says what is kept, and somebody is.
    fn mend_subset(&mut self) {
        let has_times = match self.is("dataset.name", "delimited") {
            true => self.0.contains_key("dataset.columns.timestamp"),
            false => !["lastfm-2k", "filmtrust"]
                .iter()
                .any(|name| self.is("dataset.name", name)),
        };
        if !has_times {
            self.0.remove("dataset.subset.with_timestamps");
        }
        let counts =
            ["users", "items", "newest_per_user"].map(|key| format!("dataset.subset.{key}"));
        let keeps_some = counts.iter().any(|key| self.0.contains_key(&**key));
        if !keeps_some && !self.boolean("dataset.subset.with_timestamps", false) {
            self.remove_below("dataset.subset");
        }
    }

    /// Gives columns by name only if a header line has their names, and different ones to all.
    fn mend_columns(&mut self) {
        if !self.0.contains_key("dataset.columns.rating") {
            self.0.remove("dataset.columns.rating_range");
            self.0.remove("dataset.positive_from");
        }
        if !self.0.contains_key("dataset.columns.timestamp") {
            self.0.remove("dataset.columns.timestamp_format");
        }
        // Without the key there is a header if a column is given by name.
        let header = self.boolean("dataset.columns.header", true);
        let mut taken = Vec::new();
        for path in files::COLUMNS {
            let Some(column) = self.0.get_mut(path) else {
                continue;
            };
            let position = match column {
                Value::Integer(position) => *position,
                _ if header => continue,
                _ => 1,
            };
            let free = (position..)
                .find(|position| !taken.contains(position))
                .unwrap();
            taken.push(free);
            *column = Value::Integer(free);
        }
    }
}
