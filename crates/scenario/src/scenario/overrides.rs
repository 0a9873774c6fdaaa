//! Applies overrides from the command line, such as `training.rounds=5`.

use super::faults::{Fault, Place, Sources};
use super::suggest;
use super::tree::{self, Entry, Node, Table, Value};
use fedrecsim_core::error::{Error, Result};

/// Puts the override `text`, which is source number `source`, into the tree. Tables on the way to
/// its key are made where they are missing, and replace values that are no tables
/// (`participation = "all"`).
///
/// Parameters of a method that is replaced as a whole fall away with a warning.
///
/// # Errors
/// [`Error::Usage`] if `text` is not of the form `table.key=value`.
pub(super) fn apply(
    root: &mut Node,
    text: &str,
    source: usize,
    faults: &mut Vec<Fault>,
    warnings: &mut Vec<Fault>,
) -> Result<()> {
    let malformed = |reason: &str| Error::Usage(format!("--set {text}: {reason}"));
    let (keys, value) = text
        .split_once('=')
        .ok_or_else(|| malformed("expected KEY=VALUE, such as training.rounds=5"))?;
    let value_offset = keys.len() + 1 + (value.len() - value.trim_start().len());
    if value.trim().is_empty() {
        return Err(malformed(
            "no value after `=` (write \"\" for an empty text)",
        ));
    }
    let Some(value) = tree::parse_value(value.trim(), source, value_offset, faults) else {
        return Ok(());
    };

    let path = split_keys(keys)
        .ok_or_else(|| malformed("a key is letters, digits, `-` and `_`, joined by single dots"))?;
    let mut table = table_of(root);
    let (last, way) = path
        .split_last()
        .ok_or_else(|| malformed("no key before `=`"))?;
    let place = |(key, start): &(&str, usize)| Place {
        source,
        span: *start..start + key.len(),
    };
    for step in way {
        let entry = entry_of(table, step.0, place(step));
        if !matches!(entry.node.value, Value::Table(_)) {
            // The override has made this table, so faults of it are shown in the override and not
            // in the file.
            entry.key = place(step);
            entry.node.place = place(step);
        }
        table = table_of(&mut entry.node);
    }
    let is_method = way.is_empty() && last.0 == "method";
    let entry = entry_of(table, last.0, place(last));
    let replaced = std::mem::replace(&mut entry.node, value);
    if is_method {
        warnings.extend(lost_parameters(&replaced, &entry.node, &place(last)));
    }
    Ok(())
}

/// Returns a warning about the parameters of the method `replaced` that are not in `chosen`, which
/// stands at `place`.
fn lost_parameters(replaced: &Node, chosen: &Node, place: &Place) -> Option<Fault> {
    let Value::Table(methods) = &replaced.value else {
        return None;
    };
    let (method, parameters) =
        methods
            .iter()
            .find_map(|(method, entry)| match &entry.node.value {
                Value::Table(parameters) => Some((method, parameters)),
                _ => None,
            })?;
    let is_lost = |key: &&String| !chosen.has(&format!("{method}.{key}"));
    let lost: Vec<&str> = parameters
        .keys()
        .filter(is_lost)
        .map(String::as_str)
        .collect();
    let what = match &lost[..] {
        [] => return None,
        [one] => format!("`{one}`, a parameter of `{method}`, falls away"),
        many => format!(
            "{}, parameters of `{method}`, fall away",
            suggest::list(many)
        ),
    };
    Some(Fault::new(
        place,
        format!("{what}, as this replaces the method and all that was said of it"),
    ))
}

/// What a file said before its overrides were put in.
pub(super) struct Overridden {
    /// The name of the data set, if there is one.
    source: Option<String>,
}

impl Overridden {
    pub(super) fn new(root: &Node) -> Self {
        Self {
            source: source_of(root).map(|(name, _)| name.to_owned()),
        }
    }

    /// Removes what the file says of its own data set if an override names another one, with a
    /// warning for each key. What an override says is never removed.
    pub(super) fn leave_out_the_old_source(&self, root: &mut Node, warnings: &mut Vec<Fault>) {
        let Some((name, place)) = source_of(root) else {
            return;
        };
        let name = name.to_owned();
        if place.source == Sources::FILE
            || self.source.is_none()
            || self.source.as_deref() == Some(name.as_str())
        {
            return;
        }
        let Value::Table(file) = &mut root.value else {
            return;
        };
        let Some(Value::Table(dataset)) =
            file.get_mut("dataset").map(|entry| &mut entry.node.value)
        else {
            return;
        };
        for (key, belongs_to) in [
            ("generator", "generated"),
            ("columns", "delimited"),
            ("path", "delimited"),
        ] {
            let is_of_the_file =
                |entry: &Entry| entry.key.source == Sources::FILE && is_of_the_file(&entry.node);
            if name == belongs_to || !dataset.get(key).is_some_and(is_of_the_file) {
                continue;
            }
            if let Some(entry) = dataset.remove(key) {
                let message =
                    format!("`{key}` falls away, as an override names another data set, `{name}`");
                warnings.push(Fault::new(&entry.key, message));
            }
        }
    }
}

/// Returns the name of the data set and where it stands.
fn source_of(root: &Node) -> Option<(&str, &Place)> {
    let Value::Table(file) = &root.value else {
        return None;
    };
    let Value::Table(dataset) = &file.get("dataset")?.node.value else {
        return None;
    };
    let name = &dataset.get("name")?.node;
    match &name.value {
        Value::String(text) => Some((text, &name.place)),
        _ => None,
    }
}

/// Returns whether all of a value was written in the file.
fn is_of_the_file(node: &Node) -> bool {
    let inner = match &node.value {
        Value::Table(table) => table.values().all(|entry| is_of_the_file(&entry.node)),
        _ => true,
    };
    node.place.source == Sources::FILE && inner
}

/// Returns the entry of `key`, which is made at `place` if there is none.
fn entry_of<'t>(table: &'t mut Table, key: &str, place: Place) -> &'t mut Entry {
    let made = || Entry {
        key: place.clone(),
        node: Node {
            place,
            value: Value::Table(Table::new()),
        },
    };
    table.entry(key.to_owned()).or_insert_with(made)
}

/// Returns the keys and where each starts in the text; `None` if one of them is empty or not a bare
/// key.
fn split_keys(keys: &str) -> Option<Vec<(&str, usize)>> {
    let mut start = 0;
    let mut path = Vec::new();
    for part in keys.split('.') {
        let key = part.trim();
        if key.is_empty()
            || !key
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
        {
            return None;
        }
        path.push((key, start + (part.len() - part.trim_start().len())));
        start += part.len() + 1;
    }
    Some(path)
}

/// Returns the table in `node`, after replacing any other value with an empty table for the sake of
/// a key below it.
fn table_of(node: &mut Node) -> &mut Table {
    if !matches!(node.value, Value::Table(_)) {
        node.value = Value::Table(Table::new());
    }
    match &mut node.value {
        Value::Table(table) => table,
        _ => unreachable!("made a table above"),
    }
}
