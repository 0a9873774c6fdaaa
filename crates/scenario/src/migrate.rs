//! Rewrites files of older versions: keys that stand elsewhere now are moved there.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use toml_edit::visit_mut::{VisitMut, visit_table_like_mut};
use toml_edit::{DocumentMut, Formatted, Item, Key, Table, TableLike};

use fedrecsim_core::{Error, Result};

/// Choices by a word beside which a key with a new place stands. The word and the key would say the
/// same thing twice, so that the word goes.
const WORDS: &[(&str, &str, &str)] = &[
    ("dataset", "split", "leave-one-out"),
    ("evaluation", "ranking", "sampled"),
];

/// A file as it is written now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// The text, with comments and the order of keys as they were.
    pub text: String,
    /// A line for each key that has moved.
    pub moves: Vec<String>,
}

/// Returns what to write instead of the key `key` of `table`, if that has moved.
pub(super) fn advice(table: &str, key: &str) -> Option<String> {
    let new = new_name(table, key)?;
    Some(format!(
        "`{key}` stands elsewhere now: write `{table}.{new}`, or have `fedrecsim migrate` rewrite the file"
    ))
}

/// Returns the keys that have moved, by their tables, and where each stands in its table now.
fn moved() -> &'static BTreeMap<String, BTreeMap<String, String>> {
    static MOVED: OnceLock<BTreeMap<String, BTreeMap<String, String>>> = OnceLock::new();
    // The text is a part of the program, and tests read it, so that there is no error.
    MOVED.get_or_init(|| toml::from_str(include_str!("moved.toml")).unwrap_or_default())
}

fn new_name(table: &str, key: &str) -> Option<&'static str> {
    Some(moved().get(table)?.get(key)?)
}

/// Moves the keys of a scenario or a study, whose file is called `file`, to where they stand now.
///
/// # Errors
/// [`Error::Usage`] if `text` is no TOML.
pub fn migrate(text: &str, file: &str) -> Result<Migrated> {
    let mut document: DocumentMut = text
        .parse()
        .map_err(|error| Error::Usage(format!("{file}: {error}")))?;
    let mut moves = Vec::new();
    for table in moved().keys() {
        if let Some(inner) = document.get_mut(table).and_then(Item::as_table_like_mut) {
            move_keys(table, inner, &mut moves);
        }
    }
    Overrides { moves: &mut moves }.visit_document_mut(&mut document);
    Ok(Migrated {
        text: document.to_string(),
        moves,
    })
}

fn move_keys(name: &str, table: &mut dyn TableLike, moves: &mut Vec<String>) {
    let is_word = |table: &dyn TableLike, key: &str, word: &str| {
        table.get(key).and_then(Item::as_str) == Some(word)
    };
    let ranks_all = is_word(table, "ranking", "full-catalogue");
    if table.iter().all(|(key, _)| new_name(name, key).is_none()) {
        return;
    }
    for (_, key, word) in WORDS.iter().filter(|(table, ..)| *table == name) {
        if is_word(table, key, word) {
            table.remove(key);
        }
    }
    rebuild(table, |table, written, item| {
        let key = written.get();
        match new_name(name, key) {
            None => drop(table.entry_format(written).or_insert(item)),
            // A number of candidates has no meaning where all items are ranked.
            Some(new) if ranks_all && new.starts_with("ranking.") => {
                moves.push(format!("{name}.{key} had no effect and is left out"));
            }
            Some(new) => {
                moves.push(format!("{name}.{key} is {name}.{new}"));
                put(table, new, written, item);
            }
        }
    });
}

/// Takes everything out of a table and has it put back, so that the order stays.
fn rebuild(table: &mut dyn TableLike, mut put_back: impl FnMut(&mut dyn TableLike, &Key, Item)) {
    let keys: Vec<Key> = table.iter().map(|(key, _)| key.into()).collect();
    for key in keys {
        let written = table.key(&key).cloned();
        if let (Some(written), Some(item)) = (written, table.remove(&key)) {
            put_back(table, &written, item);
        }
    }
}

/// Puts `item` at `path` below `table`, as a dotted key with the comments of the key `written`.
fn put(table: &mut dyn TableLike, path: &str, written: &Key, item: Item) {
    match path.split_once('.') {
        None => {
            let key = Key::new(path).with_leaf_decor(written.leaf_decor().clone());
            table.entry_format(&key).or_insert(item);
        }
        Some((first, rest)) => {
            let mut dotted = Table::new();
            dotted.set_implicit(true);
            dotted.set_dotted(true);
            let inner = table.entry(first).or_insert(Item::Table(dotted));
            if let Some(inner) = inner.as_table_like_mut() {
                put(inner, rest, written, item);
            }
        }
    }
}

/// Renames the keys that a study sets, which are dotted texts (`"evaluation.candidates" = 50`), and
/// those that its axes name.
struct Overrides<'m> {
    moves: &'m mut Vec<String>,
}

impl Overrides<'_> {
    /// Returns the name that a dotted key has now, if it has moved.
    fn renamed(&mut self, key: &str) -> Option<String> {
        let (table, below) = key.split_once('.')?;
        let new = format!("{table}.{}", new_name(table, below)?);
        self.moves.push(format!("{key} is {new}"));
        Some(new)
    }
}

impl VisitMut for Overrides<'_> {
    fn visit_table_like_mut(&mut self, table: &mut dyn TableLike) {
        visit_table_like_mut(self, table);
        rebuild(table, |table, written, item| {
            let new = self.renamed(written.get());
            let key = new.map_or_else(
                || written.clone(),
                |new| Key::new(new).with_leaf_decor(written.leaf_decor().clone()),
            );
            table.entry_format(&key).or_insert(item);
        });
    }

    fn visit_string_mut(&mut self, text: &mut Formatted<String>) {
        if let Some(new) = self.renamed(&text.value().clone()) {
            let decor = text.decor().clone();
            *text = Formatted::new(new);
            *text.decor_mut() = decor;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn migrated(text: &str) -> String {
        migrate(text, "a.toml").unwrap().text
    }

    /// If this fails, a file loses a comment or the order of its keys, or says something else.
    #[test]
    fn keys_move_with_their_comments() {
        let old = "# A file.\n\
                   [dataset]\nname = \"ml-100k\"\nsplit = \"leave-one-out\" # the latest\n\
                   # None.\nvalidation_item = false # at all\n\n\
                   [evaluation]\nranking = \"sampled\"\n# Few.\ncandidates = 50\nusers = 3\n\n\
                   # Slow.\n[network]\npreset = \"lan\"\nuplink_median_mbit_per_s = 5\ncorrelation = 0.5\n\n\
                   [network.server]\nconnections = 3\n\n\
                   [availability.daily]\n# Hours.\nhours_on = 3\n\n\
                   [[devices.classes]]\nname = \"a\"\n\n[[devices.classes]]\nname = \"b\"\n";
        let new = "# A file.\n\
                   [dataset]\nname = \"ml-100k\"\n\
                   # None.\nsplit.leave-one-out.validation_item = false # at all\n\n\
                   [evaluation]\n# Few.\nranking.sampled.candidates = 50\nusers = 3\n\n\
                   # Slow.\n[network]\npreset = \"lan\"\nrates.lognormal.uplink_median_mbit_per_s = 5\n\
                   rates.lognormal.correlation = 0.5\n\n\
                   [network.server]\nconnections = 3\n\n\
                   [availability.pattern.daily]\n# Hours.\nhours_on = 3\n\n\
                   [[devices.speed.classes]]\nname = \"a\"\n\n[[devices.speed.classes]]\nname = \"b\"\n";
        assert_eq!(migrated(old), new);
        let again = migrate(new, "a.toml").unwrap();
        assert_eq!((again.text.as_str(), again.moves.len()), (new, 0));
    }

    #[test]
    fn dotted_keys_and_tables_in_a_line_are_moved_too() {
        assert_eq!(
            migrated("availability.daily.hours_on = 3\navailability.daily.jitter_hours = 1\n"),
            "availability.pattern.daily.hours_on = 3\navailability.pattern.daily.jitter_hours = 1\n"
        );
        let text = migrated("devices = { memory_median_mb = 5, memory_log_sigma = 0.5 }\n");
        let table: toml::Table = toml::from_str(&text).unwrap();
        let memory = &table["devices"]["memory"];
        assert_eq!(memory["median_mb"].as_integer(), Some(5));
        assert_eq!(memory["log_sigma"].as_float(), Some(0.5));
    }

    /// If this fails, a study sets a key that is not there any more.
    #[test]
    fn the_keys_that_a_study_sets_are_renamed() {
        let old = "[set]\n\"evaluation.candidates\" = 50 # few\n[[axes]]\nkey = \"network.correlation\"\n\
                   values = [{ set = { \"devices.memory_mb\" = 5 } }]\n";
        let new = "[set]\n\"evaluation.ranking.sampled.candidates\" = 50 # few\n[[axes]]\n\
                   key = \"network.rates.lognormal.correlation\"\n\
                   values = [{ set = { \"devices.memory.median_mb\" = 5 } }]\n";
        assert_eq!(migrated(old), new);
    }

    #[test]
    fn candidates_beside_a_full_ranking_are_left_out() {
        let old = "[evaluation]\nranking = \"full-catalogue\"\ncandidates = 50\n";
        let found = migrate(old, "a.toml").unwrap();
        assert_eq!(found.text, "[evaluation]\nranking = \"full-catalogue\"\n");
        assert_eq!(
            found.moves,
            ["evaluation.candidates had no effect and is left out"]
        );
    }
}
