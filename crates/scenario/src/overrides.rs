//! Applies overrides from the command line, such as `training.rounds=5`.

use super::faults::{Fault, Override, Place, Sources};
use super::suggest;
use super::tree::{self, Node, Table, Value};
use fedrecsim_core::{Error, Result};

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
    Override { text, written }: &Override,
    source: usize,
    faults: &mut Vec<Fault>,
    warnings: &mut Vec<Fault>,
) -> Result<()> {
    let malformed = |reason: &str| {
        Error::Usage(match written {
            None => format!("--set {text}: {reason}"),
            Some((name, None)) => format!("{name} {text}: {reason}"),
            Some((file, Some(line))) => format!("{file}:{line}: {text}: {reason}"),
        })
    };
    let (keys, value) = text
        .split_once('=')
        .ok_or_else(|| malformed("expected KEY=VALUE, such as training.rounds=5"))?;
    if value.is_empty() {
        return Err(malformed(
            "no value after `=` (write \"\" for an empty text)",
        ));
    }
    // A tab from a shell is a separator, and no text around a value.
    let trimmed = match value.trim() {
        "" => value,
        trimmed => trimmed,
    };
    let value_offset = keys.len() + 1 + (value.len() - value.trim_start().len()) % value.len();
    let Some(value) = tree::parse_value(trimmed, source, value_offset, faults) else {
        return Ok(());
    };

    let path = split_keys(keys)
        .ok_or_else(|| malformed("a key is letters, digits, `-` and `_`, joined by single dots"))?;
    let (last, way) = path
        .split_last()
        .ok_or_else(|| malformed("no key before `=`"))?;
    let place = |(key, start): &(&str, usize)| Place::new(source, *start..start + key.len());
    let mut node = root;
    for step in way {
        node = child(node, step.0, place(step));
        if !matches!(node.value, Value::Table(_)) {
            // The override makes a table of this, so faults of it are shown in the override and not
            // in the file.
            (node.key, node.place) = (place(step), place(step));
        }
    }
    let replaced = child(node, last.0, place(last));
    let chosen = Node {
        key: replaced.key.clone(),
        ..value
    };
    if way.is_empty() && last.0 == "method" {
        warnings.extend(lost_parameters(replaced, &chosen, &place(last)));
    }
    *replaced = chosen;
    Ok(())
}

/// Returns the value of `key` in a table, which is an empty table made at `place` if there is none.
fn child<'n>(node: &'n mut Node, key: &str, place: Place) -> &'n mut Node {
    let made = || Node::at_place(place, Value::Table(Table::new()));
    node.table_mut().entry(key.to_owned()).or_insert_with(made)
}

/// Returns a warning about the parameters of the method `replaced` that are not in `chosen`, which
/// stands at `place`.
fn lost_parameters(replaced: &Node, chosen: &Node, place: &Place) -> Option<Fault> {
    let Value::Table(methods) = &replaced.value else {
        return None;
    };
    let (method, parameters) = methods
        .iter()
        .find_map(|(method, node)| match &node.value {
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
        [one] => format!("`{one}`, a parameter of `{method}`, is dropped"),
        many => format!(
            "{}, parameters of `{method}`, are dropped",
            suggest::list(many)
        ),
    };
    Some(Fault::new(place, format!("{what}: {REPLACES_METHOD}")))
}

/// How a warning ends of parameters that an override of the whole method drops. An arm of a study means it
/// so.
pub const REPLACES_METHOD: &str = "the override replaces the method and all its parameters";

/// What a warning says of keys of the data set that an override replaces. Who gives ratings means it so.
pub const REPLACES_SOURCE: &str = "an override names another data set";

/// Removes the file's keys for its own data set, which had the name `before`, if an override names
/// another one, with a warning for each key. What an override says is never removed.
pub(super) fn leave_out_the_old_source(
    before: Option<&str>,
    root: &mut Node,
    warnings: &mut Vec<Fault>,
) {
    let Some(name) = name_of_source(root).map(str::to_owned) else {
        return;
    };
    let is_overridden = root.place_of("dataset.name").source != Sources::FILE;
    if !is_overridden || before.is_none_or(|before| before == name) {
        return;
    }
    let dataset = child(root, "dataset", Place::FILE).table_mut();
    for (key, belongs_to) in [
        ("generator", "generated"),
        ("columns", "delimited"),
        ("path", "delimited"),
    ] {
        if name != belongs_to
            && dataset.get(key).is_some_and(is_of_the_file)
            && let Some(node) = dataset.remove(key)
        {
            let message = format!("`{key}` is dropped: {REPLACES_SOURCE}, `{name}`");
            warnings.push(Fault::new(&node.key, message));
        }
    }
}

/// Returns the name of the data set.
pub(super) fn name_of_source(root: &Node) -> Option<&str> {
    match &root.at("dataset.name")?.value {
        Value::String(name) => Some(name),
        _ => None,
    }
}

/// Returns whether a key and all of its value were written in the file.
fn is_of_the_file(node: &Node) -> bool {
    let inner = match &node.value {
        Value::Table(table) => table.values().all(is_of_the_file),
        _ => true,
    };
    [&node.key, &node.place].map(|place| place.source) == [Sources::FILE; 2] && inner
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
