//! Says what differs between the arms of a study, as its file has it.

use std::collections::{BTreeMap, BTreeSet};

use toml::Value;

use super::file::{Arm, Study};
use crate::document::Table;

/// The most keys that have a column each; of more, an arm's own stand below it.
const MOST_COLUMNS: usize = 6;

/// What a study changes in an arm, by key.
type Changes = BTreeMap<String, String>;

/// Returns what the arms that `is_wanted` accepts have in common and a table of what differs between
/// them. Keys that no arm changes are not told; they are those of the base.
pub fn explained(study: &Study, is_wanted: impl Fn(&Arm) -> bool) -> String {
    let arms: Vec<&Arm> = study.arms.iter().filter(|arm| is_wanted(arm)).collect();
    let changes: Vec<Changes> = arms.iter().map(|arm| changes(arm)).collect();
    let keys: BTreeSet<&str> = changes
        .iter()
        .flat_map(|of| of.keys().map(String::as_str))
        .collect();
    let differs = |key: &str| changes.iter().any(|of| of.get(key) != changes[0].get(key));
    let (different, shared): (Vec<&str>, Vec<&str>) =
        keys.into_iter().partition(|key| differs(key));
    let mut text = String::new();
    if let Some(first) = changes.first().filter(|_| !shared.is_empty()) {
        text += "the same in all arms:\n";
        for key in shared {
            text += &format!("  {key} = {}\n", first[key]);
        }
        text += "\n";
    }
    let own = |of: &Changes, key: &&str| of.get(*key).cloned();
    let all = arms.iter().zip(&changes);
    if different.len() > MOST_COLUMNS {
        for (arm, of) in all {
            let set = different
                .iter()
                .filter_map(|key| Some(format!("  {key} = {}\n", own(of, key)?)));
            text += &format!("{}\n{}", arm.name, set.collect::<String>());
        }
        return text;
    }
    let row = |(arm, of): (&&Arm, &Changes)| {
        let cells = different
            .iter()
            .map(|key| own(of, key).unwrap_or_else(|| "-".to_owned()));
        std::iter::once(arm.name.clone())
            .chain(cells)
            .map(Into::into)
            .collect()
    };
    let header = std::iter::once("arm").chain(different.iter().copied());
    text + &Table::new("", header, all.map(row).collect()).terminal()
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

    fn told(axes: &str) -> String {
        let text =
            format!("base = \"a.toml\"\nseeds = [1]\nset = {{ \"training.rounds\" = 3 }}\n{axes}");
        let study = parse(&text, Path::new("s.toml"), &OfLine::default()).unwrap();
        explained(&study, |_| true)
    }

    /// If this fails, two arms seem to be the same, or to differ in what they share.
    #[test]
    fn what_arms_share_is_told_once_and_what_differs_in_columns() {
        let text = told(
            "[[axes]]\nname = \"m\"\nvalues = [\n{ name = \"a\", set = { method = { fedmf = { loss = \"softmax\" } } } },\n\
             { name = \"b\", set = { method = \"fedmf\", \"training.rounds\" = 3, \"codec.uplink\" = { values = \"int8\" } } },\n]\n",
        );
        assert_eq!(
            text,
            "the same in all arms:\n  base = a.toml\n  method = fedmf\n  training.rounds = 3\n\n\
             arm  codec.uplink.values  method.fedmf.loss\n\
             m=a                    -            softmax\n\
             m=b                 int8                  -\n"
        );
    }

    #[test]
    fn many_keys_stand_below_each_arm() {
        let value = |n: usize| format!("{{ name = \"{n}\", set = {{ \"a.k{n}\" = {n} }} }},\n");
        let values: String = (0..7).map(value).collect();
        let text = told(&format!("[[axes]]\nname = \"n\"\nvalues = [\n{values}]\n"));
        assert!(text.ends_with("\nn=6\n  a.k6 = 6\n"), "{text}");
    }
}
