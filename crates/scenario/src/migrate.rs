//! Rewrites files of older versions: keys that stand elsewhere now are moved there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use toml_edit::visit_mut::{VisitMut, visit_table_like_mut};
use toml_edit::{Decor, DocumentMut, Formatted, Item, Key, RawString, Table, TableLike};

use fedrecsim_core::{Error, Result};

/// A file as it is written now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// The text, with comments and the order of keys as they were.
    pub text: String,
    /// A line for each key that has moved.
    pub moves: Vec<String>,
}

/// Returns what to write instead of the key `key` of `table`, which is `new` there now.
pub fn advice(table: &str, key: &str, new: &str) -> String {
    format!(
        "`{key}` stands elsewhere now: write `{table}.{new}`, or have `fedrecsim migrate` rewrite the file"
    )
}

/// Returns the keys that have moved, by their tables, and where each stands in its table now.
fn moved() -> &'static BTreeMap<String, BTreeMap<String, String>> {
    static MOVED: OnceLock<BTreeMap<String, BTreeMap<String, String>>> = OnceLock::new();
    // The text is a part of the program, and tests read it, so that there is no error.
    MOVED.get_or_init(|| toml::from_str(include_str!("moved.toml")).unwrap_or_default())
}

/// Returns where the key `key` of `table` stands in it now, if it has moved.
pub fn new_name(table: &str, key: &str) -> Option<&'static str> {
    Some(moved().get(table)?.get(key)?)
}

/// Moves the keys of a scenario or a study, whose file is called `file`, to where they stand now.
///
/// # Errors
/// [`Error::Usage`] if `text` is no TOML, or if something else stands where a key would go.
pub fn migrate(text: &str, file: &str) -> Result<Migrated> {
    let refuse = |reason: String| Error::Usage(format!("{file}: {reason}"));
    let mut document: DocumentMut = text.parse().map_err(|error| refuse(format!("{error}")))?;
    let mut moves = Vec::new();
    for table in moved().keys() {
        if let Some(inner) = document.get_mut(table).and_then(Item::as_table_like_mut) {
            move_keys(table, inner, &mut moves).map_err(refuse)?;
        }
    }
    let mut overrides = Overrides {
        moves,
        blocked: None,
    };
    overrides.visit_document_mut(&mut document);
    if let Some(reason) = overrides.blocked {
        return Err(refuse(reason));
    }
    let mut migrated = document.to_string();
    if text.contains("\r\n") {
        migrated = migrated.replace("\r\n", "\n").replace('\n', "\r\n");
    }
    Ok(Migrated {
        text: migrated,
        moves: overrides.moves,
    })
}

/// Moves the keys of the table `name`.
///
/// # Errors
/// What stands in the way of a key.
fn move_keys(name: &str, table: &mut dyn TableLike, moves: &mut Vec<String>) -> Result<(), String> {
    let is_word = |table: &dyn TableLike, key: &str, word: &str| {
        table.get(key).and_then(Item::as_str) == Some(word)
    };
    // A number of candidates has no meaning where all items are ranked, and a validation item none
    // where parts of all ratings are held out.
    let ranks_all = is_word(table, "ranking", "full-catalogue");
    let split = table.get("split").and_then(Item::as_table_like);
    let is_k_fold = is_word(table, "split", "k-fold")
        || split.is_some_and(|split| split.contains_key("k-fold"));
    let has_no_effect = |new: &str| {
        ranks_all && new.starts_with("ranking.") || is_k_fold && new.starts_with("split.")
    };
    let moving: Vec<(String, &str)> = table
        .iter()
        .filter_map(|(key, _)| Some((key.to_owned(), new_name(name, key)?)))
        .collect();
    if moving.is_empty() {
        return Ok(());
    }
    let mut taken = BTreeSet::new();
    for (key, new) in &moving {
        // A choice by a word, below which the key stands now, would say the same thing twice.
        let mut way = new.split('.');
        if let (Some(choice), Some(word)) = (way.next(), way.next())
            && is_word(table, choice, word)
        {
            table.remove(choice);
        }
        if !has_no_effect(new) && (!taken.insert(*new) || is_taken(table, new)) {
            return Err(format!(
                "`{name}.{key}` cannot move to `{name}.{new}`, as something else stands there; take one of the two out"
            ));
        }
    }
    rebuild(table, |table, written, item| {
        let key = written.get();
        match new_name(name, key) {
            None => insert(table, written.clone(), item),
            Some(new) if has_no_effect(new) => {
                moves.push(format!("{name}.{key} had no effect and is left out"));
            }
            Some(new) => {
                moves.push(format!("{name}.{key} is {name}.{new}"));
                put(table, new, written, item);
            }
        }
    });
    Ok(())
}

/// Returns whether something stands at `path` below `table`, or on the way to it.
fn is_taken(table: &dyn TableLike, path: &str) -> bool {
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    match table.get(first) {
        None => false,
        Some(_) if rest.is_empty() => true,
        Some(item) => item
            .as_table_like()
            .is_none_or(|inner| is_taken(inner, rest)),
    }
}

/// Takes everything out of a table and has it put back, so that the order stays.
fn rebuild(table: &mut dyn TableLike, mut put_back: impl FnMut(&mut dyn TableLike, &Key, Item)) {
    let keys: Vec<Key> = table.iter().map(|(key, _)| key.into()).collect();
    let taken: Vec<(Key, Item)> = keys
        .iter()
        .filter_map(|key| Some((table.key(key)?.clone(), table.remove(key)?)))
        .collect();
    for (written, item) in taken {
        put_back(table, &written, item);
    }
}

/// Puts `item` at `path` below `table`, as a dotted key with the comments of the key `written`.
fn put(table: &mut dyn TableLike, path: &str, written: &Key, item: Item) {
    let Some((first, rest)) = path.split_once('.') else {
        let key = Key::new(path).with_leaf_decor(written.leaf_decor().clone());
        return insert(table, key, item);
    };
    let mut dotted = Table::new();
    dotted.set_implicit(true);
    dotted.set_dotted(true);
    table.entry(first).or_insert(Item::Table(dotted));
    let comments = [written.leaf_decor().prefix(), suffix_of(&item)];
    if comments.iter().flatten().any(|text| is_comment(text)) {
        let above = table.key(first).map(|key| key.leaf_decor().clone());
        if let Some(inner) = table.get_mut(first) {
            spell_out(above.unwrap_or_default(), inner);
        }
    }
    if let Some(inner) = table.get_mut(first).and_then(Item::as_table_like_mut) {
        put(inner, rest, written, item);
    }
}

/// Inserts `item` as `key`. A table joins the one that stands there.
fn insert(table: &mut dyn TableLike, key: Key, mut item: Item) {
    if let Some(there) = table.get_mut(&key).and_then(Item::as_table_like_mut) {
        spell_out(key.leaf_decor().clone(), &mut item);
        if let Some(joining) = item.as_table_like_mut() {
            rebuild(joining, |_, key, item| insert(there, key.clone(), item));
        }
    } else {
        table.entry_format(&key).or_insert(item);
    }
}

fn suffix_of(item: &Item) -> Option<&RawString> {
    item.as_value()?.decor().suffix()
}

fn is_comment(text: &RawString) -> bool {
    text.as_str().is_some_and(|text| text.contains('#'))
}

/// Writes a table with dotted keys if it stands in a line, which has no room for comments. `above`
/// are the comments of its key.
fn spell_out(above: Decor, item: &mut Item) {
    if !item.is_inline_table() {
        return;
    }
    let behind = suffix_of(item).cloned().unwrap_or_default();
    let Ok(mut dotted) = std::mem::take(item).into_table() else {
        return;
    };
    dotted.set_implicit(true);
    dotted.set_dotted(true);
    let last = dotted.len().saturating_sub(1);
    for (place, (mut key, value)) in dotted.iter_mut().enumerate() {
        *key.leaf_decor_mut() = match place {
            0 => above.clone(),
            _ => Decor::default(),
        };
        if let Some(value) = value.as_value_mut() {
            *value.decor_mut() = Decor::default();
            if place == last {
                value.decor_mut().set_suffix(behind.clone());
            }
        }
    }
    *item = Item::Table(dotted);
}

/// Renames the keys that a study sets, which are dotted texts (`"evaluation.candidates" = 50`), and
/// those that its axes name.
struct Overrides {
    moves: Vec<String>,
    /// What stands in the way of a key.
    blocked: Option<String>,
}

impl Overrides {
    /// Returns the name that a dotted key has now, if it or a table that it is in has moved.
    fn renamed(&mut self, key: &str) -> Option<String> {
        let (table, below) = key.split_once('.')?;
        let end = below.find('.').unwrap_or(below.len());
        let new = format!(
            "{table}.{}{}",
            new_name(table, &below[..end])?,
            &below[end..]
        );
        self.moves.push(format!("{key} is {new}"));
        Some(new)
    }
}

impl VisitMut for Overrides {
    fn visit_table_like_mut(&mut self, table: &mut dyn TableLike) {
        visit_table_like_mut(self, table);
        let mut blocked = None;
        rebuild(table, |table, written, item| {
            let new = self.renamed(written.get());
            let key = new.map_or_else(
                || written.clone(),
                |new| Key::new(new).with_leaf_decor(written.leaf_decor().clone()),
            );
            if table.contains_key(&key) {
                let key = key.get();
                blocked = Some(format!(
                    "a key is `{key}` now, which is set too; take one of the two out"
                ));
            }
            table.entry_format(&key).or_insert(item);
        });
        self.blocked = self.blocked.take().or(blocked);
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
        let old = "[set]\n\"evaluation.candidates\" = 50 # few\n\"availability.on-off.mean_on_s\" = 3\n[[axes]]\n\
                   key = \"network.correlation\"\n\
                   values = [{ set = { \"devices.memory_mb\" = 5 } }]\n";
        let new = "[set]\n\"evaluation.ranking.sampled.candidates\" = 50 # few\n\
                   \"availability.pattern.on-off.mean_on_s\" = 3\n[[axes]]\n\
                   key = \"network.rates.lognormal.correlation\"\n\
                   values = [{ set = { \"devices.memory.median_mb\" = 5 } }]\n";
        assert_eq!(migrated(old), new);
    }

    /// If this fails, the file cannot be read any more, or a comment is lost.
    #[test]
    fn a_comment_finds_room_where_a_table_stood_in_a_line() {
        let old = "[evaluation]\n# Among few.\nranking = { sampled = { candidates = 20 } } # as others\n\
                   shared_candidates = false # own draws\n";
        let new = "[evaluation]\n# Among few.\nranking.sampled.candidates = 20 # as others\n\
                   ranking.sampled.shared_candidates = false # own draws\n";
        assert_eq!(migrated(old), new);
        let joined = "[evaluation]\ncandidates = 20 # few\n# Own.\n\
                      ranking = { sampled = { shared_candidates = false } } # draws\n";
        let new = "[evaluation]\nranking.sampled.candidates = 20 # few\n# Own.\n\
                   ranking.sampled.shared_candidates = false # draws\n";
        assert_eq!(migrated(joined), new);
        let in_a_line = "evaluation = { candidates = 3, users = 2 } # few\n";
        let table: toml::Table = toml::from_str(&migrated(in_a_line)).unwrap();
        let ranking = &table["evaluation"]["ranking"];
        assert_eq!(ranking["sampled"]["candidates"].as_integer(), Some(3));
    }

    /// If this fails, a key is lost without a word.
    #[test]
    fn a_key_whose_place_is_taken_is_refused() {
        let refused = |text: &str| migrate(text, "a.toml").unwrap_err().to_string();
        let evaluation = "[evaluation]\ncandidates = 50\nranking.sampled.candidates = 20\n";
        assert_eq!(
            refused(evaluation),
            "a.toml: `evaluation.candidates` cannot move to `evaluation.ranking.sampled.candidates`, \
             as something else stands there; take one of the two out"
        );
        for (text, key) in [
            (
                "[network]\nrates = \"trace\"\ncorrelation = 0.3\n",
                "network.correlation",
            ),
            (
                "[devices]\nmemory_mb = 5\nmemory_median_mb = 50\n",
                "devices.memory_median_mb",
            ),
            (
                "[availability]\npattern = \"always\"\ndaily = {}\n",
                "availability.daily",
            ),
            (
                "[set]\n\"devices.memory_mb\" = 5\n\"devices.memory_median_mb\" = 6\n",
                "is set too",
            ),
        ] {
            assert!(refused(text).contains(key), "{}", refused(text));
        }
        let both =
            "[evaluation]\ncandidates = 5\nranking.sampled.shared_candidates = false # own\n";
        assert_eq!(
            migrated(both),
            "[evaluation]\nranking.sampled.candidates = 5\nranking.sampled.shared_candidates = false # own\n"
        );
        let word = "[network]\nrates = \"lognormal\"\ncorrelation = 0.3\n";
        assert_eq!(
            migrated(word),
            "[network]\nrates.lognormal.correlation = 0.3\n"
        );
    }

    #[test]
    fn the_ends_of_lines_stay() {
        let old = "# A.\r\n[evaluation]\r\ncandidates = 50 # few\r\n";
        assert_eq!(
            migrated(old),
            "# A.\r\n[evaluation]\r\nranking.sampled.candidates = 50 # few\r\n"
        );
    }

    /// If this fails, a file makes two choices where only one can be made.
    #[test]
    fn keys_of_a_choice_that_is_not_made_are_left_out() {
        for (table, choice, key) in [
            (
                "evaluation",
                "ranking = \"full-catalogue\"\n",
                "candidates = 50",
            ),
            ("dataset", "split = \"k-fold\"\n", "validation_item = true"),
            (
                "dataset",
                "split.k-fold.folds = 5\n",
                "validation_item = false",
            ),
        ] {
            let found = migrate(&format!("[{table}]\n{choice}{key}\n"), "a.toml").unwrap();
            assert_eq!(found.text, format!("[{table}]\n{choice}"));
            let name = key.split(' ').next().unwrap();
            let reason = format!("{table}.{name} had no effect and is left out");
            assert_eq!(found.moves, [reason]);
        }
    }
}
