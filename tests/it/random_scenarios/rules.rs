//! Makes drawn keys fit together, so that a scenario can be run.

mod codecs;
mod kinds;
mod population;
mod privacy;

use std::collections::BTreeMap;

use toml::{Table, Value};

use kinds::{LEARN_RATINGS, UNTRAINED};

/// The most users with ratings, and the least number of items that every user has left unrated.
struct Population {
    users: i64,
    unrated: i64,
}

/// The weights of late updates, in each mode that has them.
const STALENESS: [&str; 3] = [
    "training.mode.semi-synchronous.staleness_weight",
    "training.mode.fedbuff.staleness_weight",
    "training.mode.fedasync.staleness_weight",
];

/// A scenario that is being made, as values by dotted path.
pub struct Draft(pub BTreeMap<&'static str, Value>);

impl Draft {
    /// Repairs values that were drawn without regard to one another.
    pub fn mend(mut self) -> Self {
        self.choose_method_for_needed_rows();
        self.keep_chosen("method");
        self.mend_method();
        self.mend_aggregation();
        self.mend_codecs();
        self.mend_split();
        self.mend_item_table();
        let population = if self.is("dataset.name", "generated") {
            self.generated()
        } else {
            self.in_a_file()
        };
        self.mend_rounds(&population);
        self.mend_sizes(&population);
        self.mend_cutoffs();
        self.mend_headline();
        self.keep_chosen("evaluation.ranking");
        self.keep_chosen("network.rates");
        self.mend_devices();
        self.mend_energy();
        self.mend_availability();
        self.mend_faults(population.users);
        self.mend_overheads();
        self.mend_privacy();
        // Whether anybody has rated something new between two instants depends on the data.
        if !self.has_validation_items() || self.splits_at_one_time() {
            if self.is("evaluation.selection", "best-validation") {
                self.set("evaluation.selection", "last");
            }
            self.0.remove("evaluation.patience");
        }
        // Only there has a rating an age.
        if !self.splits_at_one_time() && self.has_below("method.popularity") {
            self.remove_below("method.popularity");
            self.set("method", "popularity");
        }
        self.mend_joins(&population);
        self.mend_device_correlation();
        self.let_all_take_part_in_every_step();
        self
    }

    /// Leaves nothing in the file that could keep a user from a step, where the method needs
    /// everybody in every one.
    fn let_all_take_part_in_every_step(&mut self) {
        const HARMLESS: [&str; 6] = [
            "seed",
            "method",
            "dataset",
            "evaluation",
            "codec",
            "training.rounds",
        ];
        if self.is("method.colr.download", "aggregate") {
            // New users take part in no step.
            self.0.remove("dataset.split.global-time.new_users");
            self.0.retain(|path, _| {
                HARMLESS
                    .iter()
                    .any(|part| *path == *part || path.starts_with(&format!("{part}.")))
            });
        }
    }

    /// Keeps only the keys of the alternative that `choice` takes, and writes an alternative with
    /// keys as a table.
    fn keep_chosen(&mut self, choice: &'static str) {
        let chosen = match self.0.get(choice) {
            Some(Value::String(name)) => format!("{choice}.{name}."),
            // The choice is left to its default.
            _ => return self.remove_below(choice),
        };
        // In a table of one value (`{ share = 0.5 }`), no keys follow the name.
        let is_chosen = |path: &str| format!("{path}.").starts_with(&chosen);
        self.0
            .retain(|path, _| !path.starts_with(&format!("{choice}.")) || is_chosen(path));
        if self.0.keys().any(|path| is_chosen(path)) {
            self.0.remove(choice);
        }
    }

    fn mend_method(&mut self) {
        if self.boolean("method.fedrap.aggregate_d", false) {
            self.set("method.fedrap.tables", "d-only");
        }
        let dimension = self.integer("method.colr.latent_dimension", 32);
        if self.integer("method.colr.rank", 2) > dimension {
            self.0.insert("method.colr.rank", Value::Integer(dimension));
        }
        if self.learns_ratings()
            && [
                "lastfm-2k",
                "lastfm-2k-tags",
                "gowalla",
                "kuairec",
                "delimited",
            ]
            .iter()
            .any(|name| self.is("dataset.name", name))
        {
            self.set("dataset.name", "generated");
        }
    }

    /// Leaves other aggregations than its own to the methods that have them.
    fn mend_aggregation(&mut self) {
        let has_others = self.is_one_of(&["fedrap", "pfedrec", "fedmf", "fedncf", "fedrecon"]);
        let needs_shared_table =
            self.downloads_needed_rows() || self.is("evaluation.item_table", "shared");
        if !has_others || needs_shared_table {
            self.0.remove("training.aggregation");
        }
    }

    /// Returns whether the method learns ratings, which not every data set has.
    fn learns_ratings(&self) -> bool {
        self.is_one_of(&LEARN_RATINGS)
    }

    /// Takes the split of a column of parts if there is one, in a file that leaves each user something to train
    /// on. Gives k-fold, which holds ratings out, the ratings of so many users that nobody has all of
    /// them in one part.
    fn mend_split(&mut self) {
        if self.0.contains_key("dataset.columns.part") && self.is("dataset.name", "delimited") {
            self.set("dataset.split", "by-column");
            self.0.remove("dataset.k_core");
            self.0.remove("dataset.positive_from");
        } else {
            self.0.remove("dataset.columns.part");
        }
        let is_k_fold = self.is("dataset.split", "k-fold");
        self.keep_chosen("dataset.split");
        if self.goes_by_clock() {
            if ["generated", "lastfm-2k", "filmtrust"]
                .iter()
                .any(|name| self.is("dataset.name", name))
            {
                self.set("dataset.name", "ml-100k");
            }
            self.0
                .entry("dataset.columns.timestamp")
                .or_insert(Value::Integer(4));
        }
        if is_k_fold {
            // These are the methods of this crate that predict ratings.
            if !self.is("method", "global-mean") && !self.learns_ratings() {
                self.remove_below("method");
                self.set("method", "user-mean");
            }
            self.set("dataset.name", "generated");
            self.0.insert("dataset.generator.users", Value::Integer(20));
            self.0
                .insert("dataset.generator.items", Value::Integer(100));
            self.0
                .insert("dataset.generator.ratings_per_user", Value::Float(8.0));
            self.0
                .insert("dataset.generator.ratings_log_sigma", Value::Float(0.0));
            self.0.remove("dataset.minimum_interactions");
            self.remove_below("evaluation.ranking");
            for ranking in ["headline", "ranking", "cutoffs"] {
                self.0.remove(&*format!("evaluation.{ranking}"));
            }
            let metrics = ["rmse", "mae"].map(Value::from).into();
            self.0
                .entry("evaluation.metrics")
                .and_modify(|names| *names = Value::Array(metrics));
        }
        // A run that is judged by its validation item needs one, and k-fold holds none out.
        if is_k_fold && self.is("evaluation.selection", "best-validation") {
            self.set("evaluation.selection", "best-test");
        }
    }

    /// Returns whether one instant divides the ratings of all users.
    fn splits_at_one_time(&self) -> bool {
        self.has_below("dataset.split.global-time")
    }

    /// Returns whether the split or the method needs to know when users rated.
    fn goes_by_clock(&self) -> bool {
        let gap = "dataset.split.leave-one-out.session_gap_days";
        let mut keys = self.0.keys();
        self.splits_at_one_time()
            || self.0.contains_key(gap)
            || keys.any(|key| key.ends_with(".recency.half_life_days"))
    }

    /// Returns whether the split holds items out for validation.
    fn has_validation_items(&self) -> bool {
        if self.has_below("dataset.split.k-fold") {
            return false;
        }
        if self.0.contains_key("dataset.columns.part") {
            return true;
        }
        let split = ["holdout", "global-time"]
            .iter()
            .find(|split| self.has_below(&format!("dataset.split.{split}")));
        match split {
            Some(split) => self.real(&format!("dataset.split.{split}.validation_share"), 0.0) > 0.0,
            // A holdout by its name alone.
            None if self.is("dataset.split", "holdout") => false,
            None => self.boolean("dataset.split.leave-one-out.validation_item", true),
        }
    }

    /// Makes the headline one of the figures.
    fn mend_headline(&mut self) {
        let Some(headline) = self.0.get("evaluation.headline").cloned() else {
            return;
        };
        match self.0.get_mut("evaluation.metrics") {
            Some(Value::Array(names)) => names.push(headline),
            _ => drop(self.0.insert(
                "evaluation.metrics",
                Value::Array(vec![headline, "hr@2".into()]),
            )),
        }
    }

    /// Makes the keys of how rounds are run fit together, and those of who takes part.
    fn mend_rounds(&mut self, population: &Population) {
        if self.is_one_of(&UNTRAINED) {
            for choice in [
                "training.start",
                "training.mode",
                "training.client_selection",
            ] {
                self.0.remove(choice);
                self.remove_below(choice);
            }
        }
        self.mend_draws_of_each();
        let mode = self
            .0
            .get("training.mode")
            .and_then(Value::as_str)
            .unwrap_or("synchronous")
            .to_owned();
        self.cap("training.participation.cohort", population.users);
        self.cap("training.mode.fedbuff.concurrency", population.users);
        self.cap("training.mode.fedasync.concurrency", population.users);
        if mode.starts_with("fed") {
            self.0.remove("training.participation");
            if self.is("training.client_selection", "never-twice-in-a-row") {
                self.mend_repeats(&mode, population);
            }
        } else if self.is("training.client_selection", "never-twice-in-a-row") {
            // At most half of the users may be invited, those who are invited beyond the needed
            // ones included.
            let over_selected = mode == "over-selection";
            let factor = if over_selected {
                self.real("training.mode.over-selection.factor", 1.0)
            } else {
                1.0
            };
            let most = ((population.users / 2) as f64 / factor).floor() as i64;
            if most == 0 {
                self.set("training.client_selection", "uniform");
            } else {
                self.set("training.participation", "cohort");
                self.cap("training.participation.cohort", most);
            }
        }
        if mode == "over-selection" {
            self.mend_over_selection(population);
        }
        if !mode.starts_with("fed") {
            let steps =
                self.integer("training.rounds", 1) * self.integer("training.steps_per_round", 1);
            self.cap("training.empty_rounds_limit", steps);
        }
        let exploration = self.real("training.client_selection.oort.exploration", 0.9);
        let least = self
            .real("training.client_selection.oort.least_exploration", 0.2)
            .min(exploration);
        self.0.insert(
            "training.client_selection.oort.least_exploration",
            Value::Float(least),
        );
        self.keep_chosen("training.participation");
        self.keep_chosen("training.client_selection");
        for choice in STALENESS {
            self.keep_chosen(choice);
        }
        self.keep_chosen("training.mode");
    }

    /// Leaves enough users for two rounds in a row, which take twice the buffer.
    fn mend_repeats(&mut self, mode: &str, population: &Population) {
        let buffer = if mode == "fedbuff" {
            "training.mode.fedbuff.buffer"
        } else {
            ""
        };
        self.cap(buffer, population.users / 2);
        let buffer = self.integer(buffer, 1);
        if 2 * buffer > population.users || buffer == 0 {
            self.set("training.client_selection", "uniform");
            self.0
                .entry("training.mode.fedbuff.buffer")
                .and_modify(|buffer| *buffer = Value::Integer(1));
        }
    }

    /// Gives over-selection a deadline where everybody is needed, as nothing else makes a
    /// difference then.
    fn mend_over_selection(&mut self, population: &Population) {
        let users = population.users;
        let needed = match self.0.get("training.participation").and_then(Value::as_str) {
            Some("share") => ((self.real("training.participation.share", 1.0) * users as f64 + 0.5)
                as i64)
                .max(1),
            Some("cohort") => self.integer("training.participation.cohort", 1),
            _ => users,
        };
        if needed < users
            || self
                .0
                .contains_key("training.mode.over-selection.deadline_s")
        {
            return;
        }
        if users > 1 {
            self.set("training.participation", "cohort");
            self.cap("training.participation.cohort", users - 1);
        } else {
            self.0.insert(
                "training.mode.over-selection.deadline_s",
                Value::Float(10.0),
            );
        }
    }

    /// Keeps cutoffs within the number of candidates, as one beyond it tells nothing.
    fn mend_cutoffs(&mut self) {
        let candidates = self.integer("evaluation.ranking.sampled.candidates", 99);
        if self.is("evaluation.ranking", "full-catalogue") {
            return;
        }
        if let Some(Value::Array(cutoffs)) = self.0.get_mut("evaluation.cutoffs") {
            for cutoff in cutoffs {
                *cutoff = Value::Integer(cutoff.as_integer().unwrap().min(candidates));
            }
        }
    }

    /// Leaves a memory of devices only with its median, and only if some class has none.
    /// Leaves a radio's tail with both of its keys, and one way to say what electricity emits, whose file
    /// has the time zone of all users.
    fn mend_energy(&mut self) {
        let tail = ["power_mw", "length_s"].map(|key| format!("devices.radio_tail.{key}"));
        if tail.iter().any(|key| !self.0.contains_key(&**key)) {
            self.remove_below("devices.radio_tail");
        }
        let may_have_zones = self.is("availability.pattern", "daily")
            || self.has_below("availability.pattern.daily")
            || self.0.contains_key("availability.preset");
        if self.0.contains_key("carbon.g_per_kwh") || may_have_zones {
            self.0.remove("carbon.path");
        }
        if !self.0.contains_key("carbon.path") && !self.0.contains_key("carbon.g_per_kwh") {
            self.remove_below("carbon");
        }
    }

    fn mend_devices(&mut self) {
        let preset_of_classes = ["phone-classes", "phone-classes-all-times"]
            .iter()
            .any(|name| self.is("devices.preset", name));
        let every_class_has_its_own = match self.0.get("devices.speed").and_then(Value::as_str) {
            Some("classes") => match self.0.get("devices.speed.classes") {
                Some(Value::Array(classes)) => {
                    classes.iter().all(|class| class.get("memory_mb").is_some())
                }
                _ => unreachable!("always drawn"),
            },
            Some(_) => false,
            None => preset_of_classes,
        };
        if every_class_has_its_own || !self.0.contains_key("devices.memory.median_mb") {
            self.remove_below("devices.memory");
        }
        self.keep_chosen("devices.speed");
    }

    /// Keeps one pattern, and beside it a preset only if it is of the same pattern.
    fn mend_availability(&mut self) {
        let preset = match self.0.get("availability.pattern").and_then(Value::as_str) {
            Some("always") => "always",
            Some("daily") => "night-charging",
            Some("on-off") => "short-stays",
            Some("trace") => "",
            _ => {
                self.0.remove("availability.pattern");
                return self.remove_below("availability.pattern");
            }
        };
        if !self.is("availability.preset", preset) {
            self.0.remove("availability.preset");
        }
        self.keep_chosen("availability.pattern");
    }

    fn mend_sizes(&mut self, population: &Population) {
        self.cap("evaluation.users", population.users);
        self.cap("dataset.negatives.per_positive", population.unrated);
        if !self.0.contains_key("dataset.negatives.per_positive") && population.unrated < 4 {
            self.0
                .insert("dataset.negatives.per_positive", Value::Integer(1));
        }
        let lists = if self.boolean("evaluation.ranking.sampled.shared_candidates", true) {
            1
        } else {
            2
        };
        let ranks_items = !self.has_below("dataset.split.k-fold");
        if ranks_items
            && population.unrated
                < lists * self.integer("evaluation.ranking.sampled.candidates", 99)
        {
            self.set("evaluation.ranking", "full-catalogue");
        }
        self.mend_pool(population.unrated, lists);
    }

    /// Leaves candidates among the negatives where none are drawn, or too few items would be left.
    fn mend_pool(&mut self, unrated: i64, lists: i64) {
        let candidates = lists * self.integer("evaluation.ranking.sampled.candidates", 99);
        let left = unrated - candidates - self.integer("dataset.negatives.per_positive", 4);
        let ranks = !self.is("evaluation.ranking", "full-catalogue")
            && !self.has_below("dataset.split.k-fold");
        let is_drawn = match self.0.get("evaluation.metrics") {
            Some(Value::Array(names)) => names.iter().any(|name| {
                let name = name.as_str().unwrap_or_default();
                !name.starts_with("expected-")
            }),
            _ => true,
        };
        if self.is("dataset.negatives.pool", "symmetric") && !(ranks && is_drawn && left >= 0) {
            self.set("dataset.negatives.pool", "unrated");
        }
    }

    fn has_below(&self, table: &str) -> bool {
        self.0
            .keys()
            .any(|path| path.starts_with(&format!("{table}.")))
    }

    fn remove_below(&mut self, table: &str) {
        self.0
            .retain(|path, _| !path.starts_with(&format!("{table}.")));
    }

    fn set(&mut self, path: &'static str, literal: &str) {
        self.0.insert(path, literal.into());
    }

    fn is(&self, path: &str, literal: &str) -> bool {
        self.0.get(path).and_then(Value::as_str) == Some(literal)
    }

    fn boolean(&self, path: &str, default: bool) -> bool {
        self.0.get(path).and_then(Value::as_bool).unwrap_or(default)
    }

    fn integer(&self, path: &str, default: i64) -> i64 {
        self.0
            .get(path)
            .and_then(Value::as_integer)
            .unwrap_or(default)
    }

    fn real(&self, path: &str, default: f64) -> f64 {
        self.0
            .get(path)
            .and_then(Value::as_float)
            .unwrap_or(default)
    }

    fn cap(&mut self, path: &str, most: i64) {
        if let Some(Value::Integer(value)) = self.0.get_mut(path) {
            *value = (*value).min(most);
        }
    }

    fn cap_real(&mut self, path: &str, most: f64) {
        if let Some(Value::Float(value)) = self.0.get_mut(path) {
            *value = value.min(most);
        }
    }

    /// Returns the file, with dotted paths as nested tables.
    pub fn into_table(self) -> Table {
        let mut root = Table::new();
        for (path, value) in self.0 {
            let mut table = &mut root;
            let mut parts = path.split('.').peekable();
            while let Some(part) = parts.next() {
                if parts.peek().is_none() {
                    table.insert(part.to_owned(), value);
                    break;
                }
                table = table
                    .entry(part)
                    .or_insert_with(|| Value::Table(Table::new()))
                    .as_table_mut()
                    .unwrap();
            }
        }
        root
    }
}
