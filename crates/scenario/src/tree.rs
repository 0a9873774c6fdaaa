//! Parses the user's text into a tree of values that know their place.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::faults::{Fault, Place, Sources};

/// A value and where it was written.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// The place of its key; of an item of an array, that of the value.
    pub(super) key: Place,
    pub(super) place: Place,
    pub(super) value: Value,
}

/// The value as written.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Boolean(bool),
    Integer(i64),
    /// A finite number.
    Float(f64),
    String(String),
    /// A date or time, which is a string wherever one is expected.
    Datetime(String),
    Array(Vec<Node>),
    Table(Table),
    /// A number that is already reported as a fault; nothing more is said about it.
    Unusable,
}

/// The values of a table by key.
pub(super) type Table = BTreeMap<String, Node>;

impl Node {
    /// Returns a value without a key of its own.
    pub(super) fn at_place(place: Place, value: Value) -> Self {
        Self {
            key: place.clone(),
            place,
            value,
        }
    }

    /// Returns the value as JSON, without the keys at fault; a faulty number that may be needed
    /// counts as 1.
    pub(super) fn to_json(&self, faults: &[Fault]) -> Json {
        match &self.value {
            Value::Boolean(value) => (*value).into(),
            Value::Integer(value) => (*value).into(),
            Value::Float(value) => (*value).into(),
            Value::String(value) | Value::Datetime(value) => value.as_str().into(),
            Value::Array(nodes) => nodes.iter().map(|node| node.to_json(faults)).collect(),
            Value::Table(table) => {
                let is_named = |place: &Place| faults.iter().any(|fault| fault.place == *place);
                let is_sound = |node: &Node| {
                    let has_wrong_item = match &node.value {
                        Value::Array(items) => items.iter().any(|item| is_named(&item.place)),
                        _ => false,
                    };
                    !is_named(&node.key) && !is_named(&node.place) && !has_wrong_item
                };
                let is_number = |node: &Node| {
                    matches!(node.value, Value::Integer(_) | Value::Float(_))
                        && !is_named(&node.key)
                };
                let member = |(key, node): (&String, &Node)| match is_sound(node) {
                    true => Some((key.clone(), node.to_json(faults))),
                    false => is_number(node).then(|| (key.clone(), 1.into())),
                };
                Json::Object(table.iter().filter_map(member).collect())
            }
            Value::Unusable => Json::Null,
        }
    }

    /// Returns the value of `key` (`training.rounds`), from this node on. The values of an array
    /// are named by their number, from 0.
    pub(super) fn at(&self, key: &str) -> Option<&Self> {
        key.split('.').try_fold(self, Self::step)
    }

    fn step(&self, step: &str) -> Option<&Self> {
        match &self.value {
            Value::Table(table) => table.get(step),
            Value::Array(items) => items.get(step.parse::<usize>().ok()?),
            _ => None,
        }
    }

    /// Returns whether the value of `key`, from this node on, was written.
    pub(super) fn has(&self, key: &str) -> bool {
        self.at(key).is_some()
    }

    /// Returns the place of the deepest value on the way to `key`, from this node on, that was
    /// written.
    pub(super) fn place_of(&self, key: &str) -> &Place {
        let mut node = self;
        for step in key.split('.') {
            match node.step(step) {
                Some(inner) => node = inner,
                None => break,
            }
        }
        // A fault of a whole table is best shown at its name, unless an override has replaced the
        // table.
        let is_named =
            matches!(node.value, Value::Table(_)) && node.place.source == node.key.source;
        if is_named { &node.key } else { &node.place }
    }

    /// Returns the place that is shown for a fault in the value as a whole: a table's name rather
    /// than all of its text.
    pub(super) fn shown(&self) -> &Place {
        match self.value {
            Value::Table(_) => &self.key,
            _ => &self.place,
        }
    }

    /// Returns the values in a table or an array.
    fn inner(&self) -> Box<dyn Iterator<Item = &Self> + '_> {
        match &self.value {
            Value::Table(table) => Box::new(table.values()),
            Value::Array(items) => Box::new(items.iter()),
            _ => Box::new(std::iter::empty()),
        }
    }

    /// Returns whether something within the value that is shown at `shown` stands at one of
    /// `places`, or does itself, from this node on.
    pub(super) fn has_within(&self, shown: &Place, places: &[&Place]) -> bool {
        fn any(node: &Node, is: &dyn Fn(&Node) -> bool) -> bool {
            is(node) || node.inner().any(|inner| any(inner, is))
        }
        let stands = |node: &Self| places.contains(&&node.key) || places.contains(&&node.place);
        let is_shown = |node: &Self| node.key == *shown || node.place == *shown;
        any(self, &|node| is_shown(node) && any(node, &stands))
    }

    /// Returns the table in the node, after replacing any other value with an empty table for the
    /// sake of a key below it.
    pub(super) fn table_mut(&mut self) -> &mut Table {
        if !matches!(self.value, Value::Table(_)) {
            self.value = Value::Table(Table::new());
        }
        match &mut self.value {
            Value::Table(table) => table,
            _ => unreachable!("made a table above"),
        }
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
        return Ok(Node::at_place(Place::FILE, Value::Table(root)));
    }
    let fault = |error: &toml::de::Error| {
        let place = Place::new(Sources::FILE, error.span().unwrap_or(0..0));
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
        // A path of Windows, most of the time.
        _ if message.contains("escape") || message.contains("unicode") => {
            "in double quotes a backslash begins an escape: write a text with backslashes in single quotes, as in \
             'C:\\data'"
                .to_owned()
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
            let place = Place::new(source, span.start + offset..span.end + offset);
            faults.push(Fault::new(&place, message));
            None
        }
        Err(_) => {
            let place = Place::new(source, offset..offset + text.len());
            Some(Node::at_place(place, Value::String(text.to_owned())))
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
        Place::new(
            self.source,
            span.start + self.offset..span.end + self.offset,
        )
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
            node.key = place;
            entries.insert(key.get_ref().to_string(), node);
        }
        entries
    }

    fn node(&mut self, spanned: &Spanned<DeValue<'_>>) -> Node {
        let place = self.place(spanned);
        let value = match spanned.get_ref() {
            DeValue::Boolean(value) => Value::Boolean(*value),
            DeValue::String(value) => Value::String(value.to_string()),
            DeValue::Datetime(value) => Value::Datetime(value.to_string()),
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
        Node::at_place(place, value)
    }

    fn unusable(&mut self, place: &Place, message: &str) -> Value {
        self.faults.push(Fault::new(place, message));
        Value::Unusable
    }
}
