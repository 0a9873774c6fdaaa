//! What keys must have to do with each other, so that a scenario is one that can be run.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::files;

/// The users with ratings, at most, and the items that every user has left unrated, at least.
struct Population {
    users: i64,
    unrated: i64,
}

/// A scenario in the making: values by dotted path.
pub struct Draft(pub BTreeMap<&'static str, Value>);

impl Draft {
    /// Mends what was drawn without regard to the rest.
    pub fn mend(mut self) -> Self {
        self.keep_chosen("method");
        self.keep_chosen("training.participation");
        self.mend_method();
        let population = if self.is("dataset.name", "generated") { self.generated() } else { self.in_a_file() };
        self.mend_sizes(&population);
        if !self.boolean("dataset.validation_item", true) && self.is("evaluation.selection", "best-validation") {
            self.set("evaluation.selection", "last");
        }
        self
    }

    /// Of a choice with tables, the chosen one's keys are kept; what has keys is written as a table.
    fn keep_chosen(&mut self, choice: &'static str) {
        let chosen = match self.0.get(choice) {
            Some(Value::String(name)) => format!("{choice}.{name}."),
            // Left to its default.
            _ => return self.remove_below(choice),
        };
        // A table of one value (`{ share = 0.5 }`) has nothing behind the name.
        let is_chosen = |path: &str| format!("{path}.").starts_with(&chosen);
        self.0.retain(|path, _| !path.starts_with(&format!("{choice}.")) || is_chosen(path));
        if self.0.keys().any(|path| is_chosen(path)) {
            self.0.remove(choice);
        }
    }

    fn mend_method(&mut self) {
        if self.boolean("method.fedrap.aggregate_d", false) {
            self.set("method.fedrap.tables", "d-only");
        }
    }

    fn generated(&mut self) -> Population {
        self.0.remove("dataset.path");
        self.remove_below("dataset.columns");
        let (users, items) = (self.integer("dataset.generator.users", 0), self.integer("dataset.generator.items", 0));
        self.cap_real("dataset.generator.ratings_per_user", items as f64);
        // Everybody has three ratings, and rates no more than half of the catalogue beyond them.
        self.cap("dataset.minimum_interactions", 3);
        Population { users, unrated: items - (items / 2).max(3) }
    }

    fn in_a_file(&mut self) -> Population {
        self.remove_below("dataset.generator");
        if self.is("dataset.name", "delimited") {
            self.0.entry("dataset.path").or_insert_with(|| "ratings.txt".into());
            self.mend_columns();
        } else {
            self.remove_below("dataset.columns");
        }
        let default_minimum = if self.is("dataset.name", "lastfm-2k") { 10 } else { 0 };
        let minimum = self.integer("dataset.minimum_interactions", default_minimum);
        let (users, items) = files::remaining(minimum);
        Population { users, unrated: items - files::MOST_RATINGS }
    }

    /// Columns are known by name only where a header line has their names, and no two are the same.
    fn mend_columns(&mut self) {
        let header = self.boolean("dataset.columns.header", false);
        let mut taken = Vec::new();
        for path in files::COLUMNS {
            let Some(column) = self.0.get_mut(path) else { continue };
            let position = match column {
                Value::Integer(position) => *position,
                _ if header => continue,
                _ => 1,
            };
            let free = (position..).find(|position| !taken.contains(position)).unwrap();
            taken.push(free);
            *column = Value::Integer(free);
        }
    }

    fn mend_sizes(&mut self, population: &Population) {
        self.cap("training.participation.cohort", population.users);
        self.cap("evaluation.users", population.users);
        self.cap("dataset.negatives.per_positive", population.unrated);
        if !self.0.contains_key("dataset.negatives.per_positive") && population.unrated < 4 {
            self.0.insert("dataset.negatives.per_positive", Value::Integer(1));
        }
        let lists = if self.boolean("evaluation.shared_candidates", true) { 1 } else { 2 };
        if population.unrated < lists * self.integer("evaluation.candidates", 99) {
            self.set("evaluation.ranking", "full-catalogue");
        }
    }

    fn remove_below(&mut self, table: &str) {
        self.0.retain(|path, _| !path.starts_with(&format!("{table}.")));
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
        self.0.get(path).and_then(Value::as_integer).unwrap_or(default)
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

    /// The file: dotted paths as nested tables.
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
                table = table.entry(part).or_insert_with(|| Value::Table(Table::new())).as_table_mut().unwrap();
            }
        }
        root
    }
}
