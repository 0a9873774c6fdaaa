//! Applies overrides from the command line, such as `training.rounds=5`.

use super::faults::{Fault, Place};
use super::tree::{self, Entry, Node, Table, Value};
use crate::error::{Error, Result};

/// Puts the override `text`, which is source number `source`, into the tree. Tables on the way to its key are made
/// where they are missing, and replace values that are no tables (`participation = "all"`).
///
/// # Errors
/// [`Error::Usage`] if `text` is not of the form `table.key=value`.
pub(super) fn apply(root: &mut Node, text: &str, source: usize, faults: &mut Vec<Fault>) -> Result<()> {
    let malformed = |reason: &str| Error::Usage(format!("--set {text}: {reason}"));
    let (keys, value) =
        text.split_once('=').ok_or_else(|| malformed("expected KEY=VALUE, such as training.rounds=5"))?;
    let value_offset = keys.len() + 1 + (value.len() - value.trim_start().len());
    if value.trim().is_empty() {
        return Err(malformed("no value after `=` (write \"\" for an empty text)"));
    }
    let value = tree::parse_value(value.trim(), source, value_offset, faults);

    let path =
        split_keys(keys).ok_or_else(|| malformed("a key is letters, digits, `-` and `_`, joined by single dots"))?;
    let mut table = table_of(root);
    let (last, way) = path.split_last().ok_or_else(|| malformed("no key before `=`"))?;
    let place = |(key, start): &(&str, usize)| Place { source, span: *start..start + key.len() };
    for step in way {
        let entry = entry_of(table, step.0, place(step));
        if !matches!(entry.node.value, Value::Table(_)) {
            // The override has made this table, so faults of it are shown in the override and not in the file.
            entry.key = place(step);
            entry.node.place = place(step);
        }
        table = table_of(&mut entry.node);
    }
    entry_of(table, last.0, place(last)).node = value;
    Ok(())
}

/// Returns the entry of `key`, which is made at `place` if there is none.
fn entry_of<'t>(table: &'t mut Table, key: &str, place: Place) -> &'t mut Entry {
    let made = || Entry { key: place.clone(), node: Node { place, value: Value::Table(Table::new()) } };
    table.entry(key.to_owned()).or_insert_with(made)
}

/// Returns the keys and where each starts in the text; `None` if one of them is empty or not a bare key.
fn split_keys(keys: &str) -> Option<Vec<(&str, usize)>> {
    let mut start = 0;
    let mut path = Vec::new();
    for part in keys.split('.') {
        let key = part.trim();
        if key.is_empty() || !key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
            return None;
        }
        path.push((key, start + (part.len() - part.trim_start().len())));
        start += part.len() + 1;
    }
    Some(path)
}

/// Returns the table in `node`, after replacing any other value with an empty table for the sake of a key below it.
fn table_of(node: &mut Node) -> &mut Table {
    if !matches!(node.value, Value::Table(_)) {
        node.value = Value::Table(Table::new());
    }
    match &mut node.value {
        Value::Table(table) => table,
        _ => unreachable!("made a table above"),
    }
}
