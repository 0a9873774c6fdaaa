//! Parses the user's text into a tree of values that know their place.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::faults::{Fault, Place, Sources};

/// A value and where it was written.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) place: Place,
    pub(super) value: Value,
}

/// What was written.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Boolean(bool),
    Integer(i64),
    /// A finite number.
    Float(f64),
    String(String),
    Datetime,
    Array(Vec<Node>),
    Table(Table),
    /// A number that is already reported as a fault; nothing more is said about it.
    Unusable,
}

/// The entries of a table by key.
pub(super) type Table = BTreeMap<String, Entry>;

/// A key's place and its value.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: Place,
    pub(super) node: Node,
}

impl Node {
    /// Returns the value as JSON. Where one of `faults` says what would do instead, that stands
    /// there.
    pub(super) fn to_json(&self, faults: &[Fault]) -> Json {
        match &self.value {
            Value::Boolean(value) => (*value).into(),
            Value::Integer(value) => (*value).into(),
            Value::Float(value) => (*value).into(),
            Value::String(value) => value.as_str().into(),
            Value::Array(nodes) => nodes.iter().map(|node| node.to_json(faults)).collect(),
            Value::Table(table) => {
                let member = |(key, entry): (&String, &Entry)| {
                    let fault = faults
                        .iter()
                        .find(|fault| fault.place == entry.key || fault.place == entry.node.place);
                    match fault.and_then(|fault| fault.instead.clone()) {
                        Some(Json::Null) => None,
                        Some(instead) => Some((key.clone(), instead)),
                        None => Some((key.clone(), entry.node.to_json(faults))),
                    }
                };
                Json::Object(table.iter().filter_map(member).collect())
            }
            Value::Datetime | Value::Unusable => Json::Null,
        }
    }

    /// Returns the value of `key` (`training.rounds`), from this node on. The values of an array
    /// are named by their number, from 0.
    pub(super) fn at(&self, key: &str) -> Option<&Self> {
        key.split('.')
            .try_fold(self, |node, step| match &node.value {
                Value::Table(table) => table.get(step).map(|entry| &entry.node),
                Value::Array(items) => items.get(step.parse::<usize>().ok()?),
                _ => None,
            })
    }

    /// Returns whether the value of `key`, from this node on, was written.
    pub(super) fn has(&self, key: &str) -> bool {
        self.at(key).is_some()
    }

    /// Returns the place of the deepest value on the way to `key`, from this node on, that was
    /// written.
    pub(super) fn place_of(&self, key: &str) -> &Place {
        let (mut node, mut place) = (self, &self.place);
        for step in key.split('.') {
            if let Value::Table(table) = &node.value
                && let Some(entry) = table.get(step)
            {
                node = &entry.node;
                // A fault of a whole table is best shown at its name, unless an override has
                // replaced the table.
                let is_named =
                    matches!(node.value, Value::Table(_)) && node.place.source == entry.key.source;
                place = if is_named { &entry.key } else { &node.place };
            } else if let Some(item) = node.at(step) {
                (node, place) = (item, &item.place);
            } else {
                break;
            }
        }
        place
    }
}

const NO_VALUE: &str = "there is no value after `=`";

/// Parses the scenario file. A fault is added to `faults` for every number that no key can take.
///
/// # Errors
/// Returns the syntax errors, if there are any, because nothing can be said about the rest of a
/// broken file.
pub(super) fn parse_file(text: &str, faults: &mut Vec<Fault>) -> Result<Node, Vec<Fault>> {
    let (document, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        let root = Reader {
            source: Sources::FILE,
            offset: 0,
            faults,
        }
        .table(document.get_ref());
        return Ok(Node {
            place: Place::FILE,
            value: Value::Table(root),
        });
    }
    let fault = |error: &toml::de::Error| {
        let place = Place {
            source: Sources::FILE,
            span: error.span().unwrap_or(0..0),
        };
        let is_after_equals = text
            .get(..place.span.start)
            .is_some_and(|before| before.trim_end().ends_with('='));
        match error.message() {
            // In `{ preset = }`, the parser takes the brace for a text that lacks its quotes.
            "invalid literal string, expected `'`" if is_after_equals => {
                Fault::new(&place, NO_VALUE)
            }
            message => Fault::new(
                &place,
                in_our_words(message, text.get(place.span.clone()).unwrap_or("")),
            ),
        }
    };
    Err(errors.iter().map(fault).collect())
}

/// Rewords the parser's `message` about `written` where it says what the grammar expects and not
/// what the user has to do.
fn in_our_words(message: &str, written: &str) -> String {
    match message {
        "invalid mantissa, expected digits" => {
            "a number has digits before its point and after it, as in 0.5".to_owned()
        }
        "duplicate key" => format!(
            "`{}` stands here for the second time",
            written.trim_matches(['[', ']'])
        ),
        "string values must be quoted, expected literal string"
        | "invalid boolean, expected `true`"
        | "invalid boolean, expected `false`"
        | "invalid float, expected `nan`"
        | "invalid float, expected `inf`" => {
            let written = written.trim();
            let correction = match written.to_lowercase().as_str() {
                "" => return NO_VALUE.to_owned(),
                "true" | "yes" | "on" => "; write `true`",
                "false" | "no" | "off" => "; write `false`",
                _ => "",
            };
            format!("`{written}` is neither a number nor a text in quotes{correction}")
        }
        _ => message
            .replace(", expected newline, `#`", ": the line should end here")
            .replace(", expected nothing", ""),
    }
}

/// Parses the value of an override as TOML, or else takes the text itself as a string. `offset` is
/// where `text` starts in its source. Returns nothing, after a fault, for a text that begins as a
/// table, an array or a quoted text and is none.
pub(super) fn parse_value(
    text: &str,
    source: usize,
    offset: usize,
    faults: &mut Vec<Fault>,
) -> Option<Node> {
    match DeValue::parse(text) {
        Ok(value) => Some(
            Reader {
                source,
                offset,
                faults,
            }
            .node(&value),
        ),
        Err(error) if text.starts_with(['{', '[', '"', '\'']) => {
            let span = error.span().unwrap_or(0..text.len());
            let message = in_our_words(error.message(), text.get(span.clone()).unwrap_or(""));
            let place = Place {
                source,
                span: span.start + offset..span.end + offset,
            };
            faults.push(Fault::new(&place, message));
            None
        }
        Err(_) => {
            let place = Place {
                source,
                span: offset..offset + text.len(),
            };
            Some(Node {
                place,
                value: Value::String(text.to_owned()),
            })
        }
    }
}

/// Turns the tree of the toml crate into ours.
struct Reader<'f> {
    source: usize,
    offset: usize,
    faults: &'f mut Vec<Fault>,
}

impl Reader<'_> {
    fn place<T>(&self, spanned: &Spanned<T>) -> Place {
        let span = spanned.span();
        Place {
            source: self.source,
            span: span.start + self.offset..span.end + self.offset,
        }
    }

    fn table(&mut self, table: &DeTable<'_>) -> Table {
        let mut entries = Table::new();
        for (key, value) in table {
            let place = self.place(key);
            let mut node = self.node(value);
            // A table that exists only through the keys below it (`[a.b]`) has no place of its own.
            if node.place.span.is_empty() {
                node.place = place.clone();
            }
            entries.insert(key.get_ref().to_string(), Entry { key: place, node });
        }
        entries
    }

    fn node(&mut self, spanned: &Spanned<DeValue<'_>>) -> Node {
        let place = self.place(spanned);
        let value = match spanned.get_ref() {
            DeValue::Boolean(value) => Value::Boolean(*value),
            DeValue::String(value) => Value::String(value.to_string()),
            DeValue::Datetime(_) => Value::Datetime,
            DeValue::Array(array) => {
                Value::Array(array.iter().map(|item| self.node(item)).collect())
            }
            DeValue::Table(table) => Value::Table(self.table(table)),
            DeValue::Integer(number) => {
                match i64::from_str_radix(number.as_str(), number.radix()) {
                    Ok(value) => Value::Integer(value),
                    Err(_) => {
                        self.unusable(&place, "an integer must lie between -2^63 and 2^63 - 1")
                    }
                }
            }
            DeValue::Float(number) => match number.as_str().parse::<f64>() {
                Ok(value) if value.is_finite() => Value::Float(value),
                _ => self.unusable(&place, "a number must be finite"),
            },
        };
        Node { place, value }
    }

    fn unusable(&mut self, place: &Place, message: &str) -> Value {
        self.faults.push(Fault::new(place, message));
        Value::Unusable
    }
}
