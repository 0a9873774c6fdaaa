//! Says what differs between the arms of a study, as its file has it.

use std::collections::{BTreeMap, BTreeSet};

use toml::Value;

use super::file::{Arm, Study};
use crate::document::Table;

/// The keys by which arms are told apart first if one table would be too wide.
const FIRST: [&str; 2] = ["dataset.name", "method"];

/// The most characters of a value in a table.
const MOST_OF_A_VALUE: usize = 24;

/// What a study changes in an arm, by key.
type Changes = BTreeMap<String, String>;

/// An arm, by its name, and what the study changes in it.
type Changed<'a> = (&'a str, Changes);

/// Returns what the arms that `is_wanted` accepts have in common and tables of this many columns of what
/// differs between them. Keys that no arm changes are not told; they are those of the base.
pub fn explained(study: &Study, columns: usize, is_wanted: impl Fn(&Arm) -> bool) -> String {
    let arms = study.arms.iter().filter(|arm| is_wanted(arm));
    let arms: Vec<Changed<'_>> = arms.map(|arm| (arm.name.as_str(), changes(arm))).collect();
    part(&arms.iter().collect::<Vec<_>>(), None, columns)
}

/// Returns what these arms have in common beside what was `told` of more arms, and how they differ: in a
/// table or, if it would be too wide, in parts whose arms have the same value of a key.
fn part(arms: &[&Changed<'_>], told: Option<&BTreeSet<&str>>, columns: usize) -> String {
    let keys = arms
        .iter()
        .flat_map(|(_, of)| of.keys().map(String::as_str));
    let keys: BTreeSet<&str> = keys.collect();
    let value = |key: &str, (_, of): &Changed<'_>| of.get(key).cloned();
    let differs = |key: &str| {
        arms.iter()
            .any(|arm| value(key, arm) != value(key, arms[0]))
    };
    let (different, shared): (BTreeSet<&str>, BTreeSet<&str>) =
        keys.into_iter().partition(|key| differs(key));
    let mut text = match (arms, told) {
        (_, None) => "the same in all arms:\n".to_owned(),
        _ if different.is_empty() => {
            let names: Vec<&str> = arms.iter().map(|(name, _)| *name).collect();
            format!("{}:\n", names.join("; "))
        }
        _ => format!("the same in these {} arms:\n", arms.len()),
    };
    let is_told = |key: &&&str| told.is_some_and(|told| told.contains(*key));
    let mut news = shared.iter().filter(|key| !is_told(key)).peekable();
    match news.peek() {
        None if told.is_some() && different.is_empty() => text.push_str("  as above\n"),
        None => text.clear(),
        Some(_) => {}
    }
    text.extend(news.map(|key| format!("  {key} = {}\n", arms[0].1[*key])));
    if different.is_empty() {
        return text;
    }
    let table = table(arms, &different).terminal();
    let width = table.lines().map(|line| line.chars().count()).max();
    if width.is_none_or(|width| width <= columns) {
        return match text.is_empty() {
            true => table,
            false => [text, table].join("\n"),
        };
    }
    let by = different.iter().min_by_key(|key| {
        let values: BTreeSet<Option<String>> = arms.iter().map(|arm| value(key, arm)).collect();
        (!FIRST.contains(*key), values.contains(&None), values.len())
    });
    let mut parts: Vec<(Option<String>, Vec<&Changed<'_>>)> = Vec::new();
    for arm in arms {
        let of_arm = by.and_then(|key| value(key, arm));
        match parts.iter_mut().find(|(value, _)| *value == of_arm) {
            Some((_, part)) => part.push(arm),
            None => parts.push((of_arm, vec![arm])),
        }
    }
    let parts = parts
        .iter()
        .map(|(_, arms)| part(arms, Some(&shared), columns));
    std::iter::once(text)
        .filter(|text| !text.is_empty())
        .chain(parts)
        .collect::<Vec<_>>()
        .join("\n")
}

/// Returns a table with a row for each arm and a column for each key, whose last parts stand below
/// those before them. What the names of all arms begin with is the head of theirs.
fn table(arms: &[&Changed<'_>], keys: &BTreeSet<&str>) -> Table {
    let heads: Vec<(&str, &str)> = keys.iter().map(|key| head(key, keys)).collect();
    let start = common_start(&arms.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    let first = if start.is_empty() { "arm" } else { start };
    let lower = std::iter::once(first).chain(heads.iter().map(|(_, last)| *last));
    let rows = arms.iter().map(|(name, of)| {
        let cells = keys
            .iter()
            .map(|key| of.get(*key).map_or("-".to_owned(), |value| cut(value)));
        let name = name[start.len()..].to_owned();
        std::iter::once(name).chain(cells).map(Into::into).collect()
    });
    if heads.iter().all(|(before, _)| before.is_empty()) {
        return Table::new("", lower, rows.collect());
    }
    let upper = std::iter::once("").chain(heads.iter().map(|(before, _)| *before));
    let lower = lower.map(|text| text.to_owned().into()).collect();
    Table::new("", upper, std::iter::once(lower).chain(rows).collect())
}

/// Returns the end of a key that no other key has, in two parts: before the last dot, and after it.
fn head<'k>(key: &'k str, keys: &BTreeSet<&str>) -> (&'k str, &'k str) {
    let Some((before, last)) = key.rsplit_once('.') else {
        return ("", key);
    };
    let starts = before
        .rmatch_indices('.')
        .map(|(dot, _)| dot + 1)
        .chain([0]);
    let mut ends = starts.map(|start| &key[start..]);
    let is_own = |end: &&str| {
        let is_other = |other: &&&str| **other != key && other.ends_with(&format!(".{end}"));
        !keys.iter().any(|other| is_other(&other))
    };
    let end = ends.find(is_own).unwrap_or(key);
    (&end[..end.len() - last.len()], last)
}

/// Returns what all names begin with, up to the end of a word such as `method=`.
fn common_start<'n>(names: &[&'n str]) -> &'n str {
    let Some((first, others)) = names.split_first() else {
        return "";
    };
    let is_common = |end: &usize| others.iter().all(|name| name.starts_with(&first[..*end]));
    let ends = first.match_indices(['=', ' ']).map(|(place, _)| place + 1);
    let end = ends.filter(is_common).max().unwrap_or(0);
    &first[..end]
}

/// Returns a value that fits a cell.
fn cut(value: &str) -> String {
    match value.char_indices().nth(MOST_OF_A_VALUE) {
        None => value.to_owned(),
        Some(_) => value.chars().take(MOST_OF_A_VALUE - 3).collect::<String>() + "...",
    }
}

/// Returns what an arm's overrides come to: a later one of a key counts, and a table of a method or a
/// codec is taken apart.
fn changes(arm: &Arm) -> Changes {
    let base = ("base".to_owned(), arm.base.display().to_string());
    let mut all = Changes::from([base]);
    for set in &arm.set {
        let Some((key, value)) = set.text.split_once('=') else {
            continue;
        };
        let (key, value) = (key.trim(), value.trim());
        // What stood below the key before is gone.
        all.retain(|other, _| other != key && !other.starts_with(&format!("{key}.")));
        match format!("value = {value}").parse::<toml::Table>() {
            Ok(table) => add(key, &table["value"], &mut all),
            Err(_) => drop(all.insert(key.to_owned(), value.to_owned())),
        }
    }
    all
}

/// Adds a value, or those of a table, below a key.
fn add(key: &str, value: &Value, all: &mut Changes) {
    match value {
        Value::Table(table) if !table.is_empty() => {
            // A method is named by its table.
            if key == "method" && table.len() == 1 {
                all.extend(table.keys().map(|name| (key.to_owned(), name.clone())));
            }
            for (name, value) in table {
                add(&format!("{key}.{name}"), value, all);
            }
        }
        Value::Table(_) => {}
        Value::String(text) => drop(all.insert(key.to_owned(), text.clone())),
        value => drop(all.insert(key.to_owned(), value.to_string())),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::path::Path;

    use super::super::file::{Changes as OfLine, parse};
    use super::*;

    fn told(axes: &str, columns: usize) -> String {
        let text =
            format!("base = \"a.toml\"\nseeds = [1]\nset = {{ \"training.rounds\" = 3 }}\n{axes}");
        let study = parse(&text, Path::new("s.toml"), &OfLine::default()).unwrap();
        explained(&study, columns, |_| true)
    }

    const TWO: &str = "[[axes]]\nname = \"m\"\nvalues = [\n\
         { name = \"a\", set = { method = { fedmf = { loss = \"softmax\" } } } },\n\
         { name = \"b\", set = { method = \"fedmf\", \"training.rounds\" = 3, \"codec.uplink\" = { values = \"int8\" } } },\n]\n";

    /// If this fails, two arms seem to be the same, or to differ in what they share.
    #[test]
    fn what_arms_share_is_told_once_and_what_differs_in_columns() {
        assert_eq!(
            told(TWO, 80),
            "the same in all arms:\n  base = a.toml\n  method = fedmf\n  training.rounds = 3\n\n    \
             uplink.   fedmf.\n\
             m=   values     loss\n\
             a         -  softmax\n\
             b      int8        -\n"
        );
    }

    /// If this fails, a study of many methods is one table that nobody can read, or no table.
    #[test]
    fn a_table_that_is_too_wide_is_taken_apart() {
        let value = |n: usize| {
            let method = ["fedmf", "fedncf"][n % 2];
            format!("{{ name = \"{n}\", set = {{ method = {{ {method} = {{ k = {n} }} }} }} }},\n")
        };
        let values: String = (0..4).map(value).collect();
        let axes = format!("[[axes]]\nname = \"n\"\nvalues = [\n{values}]\n");
        let whole = told(&axes, 80);
        assert!(
            whole.ends_with("\n3   fedncf       -        3\n"),
            "{whole}"
        );
        let parts = told(&axes, 20);
        assert_eq!(
            parts,
            "the same in all arms:\n  base = a.toml\n  training.rounds = 3\n\n\
             the same in these 2 arms:\n  method = fedmf\n\n    fedmf.\nn=       k\n0        0\n2        2\n\n\
             the same in these 2 arms:\n  method = fedncf\n\n    fedncf.\nn=        k\n1         1\n3         3\n"
        );
        let single = told(TWO, 10);
        assert!(
            single.ends_with("\nm=b:\n  codec.uplink.values = int8\n"),
            "{single}"
        );
        // An arm that changes nothing of its own is there all the same.
        let plain = TWO.replace("{ fedmf = { loss = \"softmax\" } }", "\"fedmf\"");
        let single = told(&plain, 10);
        assert!(single.contains("\nm=a:\n  as above\n"), "{single}");
    }

    /// If this fails, two columns have one head, or a long value makes a table of one column.
    #[test]
    fn heads_differ_and_values_are_cut() {
        let keys = BTreeSet::from([
            "codec.uplink.values",
            "codec.blocks.V.uplink.values",
            "seed",
        ]);
        assert_eq!(
            head("codec.uplink.values", &keys),
            ("codec.uplink.", "values")
        );
        assert_eq!(
            head("codec.blocks.V.uplink.values", &keys),
            ("V.uplink.", "values")
        );
        assert_eq!(head("seed", &keys), ("", "seed"));
        assert_eq!(cut(&"x".repeat(30)), "x".repeat(21) + "...");
        assert_eq!(common_start(&["a=b, c=1", "a=b, c=2"]), "a=b, c=");
    }
}
