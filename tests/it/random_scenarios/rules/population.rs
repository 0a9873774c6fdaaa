//! Repairs what a scenario says of its users and items, and returns how many there are.

use toml::Value;

use super::{Draft, Population};
use crate::random_scenarios::files;

impl Draft {
    pub(super) fn generated(&mut self) -> Population {
        self.0.remove("dataset.path");
        self.remove_below("dataset.columns");
        self.remove_below("dataset.subset");
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

    pub(super) fn in_a_file(&mut self) -> Population {
        self.remove_below("dataset.generator");
        if !["dataset.subset.users", "dataset.subset.items"]
            .iter()
            .any(|key| self.0.contains_key(*key))
        {
            self.remove_below("dataset.subset");
        }
        if self.is("dataset.name", "delimited") {
            self.0
                .entry("dataset.path")
                .or_insert_with(|| "ratings.txt".into());
            self.mend_columns();
        } else {
            self.remove_below("dataset.columns");
        }
        // That of `amazon-instant-video` leaves nobody out: everybody has more ratings.
        let default_minimum = if self.is("dataset.name", "lastfm-2k") {
            10
        } else {
            0
        };
        let minimum = self.integer("dataset.minimum_interactions", default_minimum);
        let (users, items) = files::remaining(minimum);
        Population {
            users,
            unrated: items - files::MOST_RATINGS,
        }
    }

    /// Gives columns by name only if a header line has their names, and different ones to all.
    fn mend_columns(&mut self) {
        if !self.0.contains_key("dataset.columns.rating") {
            self.0.remove("dataset.columns.rating_range");
        }
        let header = self.boolean("dataset.columns.header", false);
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
