//! Checks what was written against the JSON schema, the one book of rules, and collects every fault.
//!
//! A general validator would do for correct files; this one exists for its messages: places in the user's
//! text, the nearest known name, and one fault where a mistake in one alternative of many is meant.

use serde_json::{Map, Value as Json};

use super::faults::{Fault, Place};
use super::suggest;
use super::tree::{Entry, Node, Table, Value};

/// The keywords of JSON schema that are followed here, and those that only describe. A schema with any other
/// keyword would state a rule that nobody checks.
pub(super) const KEYWORDS: [&str; 27] = [
    "$defs",
    "$ref",
    "$schema",
    "additionalProperties",
    "anyOf",
    "const",
    "default",
    "deprecated",
    "description",
    "enum",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "oneOf",
    "properties",
    "required",
    "title",
    "type",
    "$comment",
];

/// A schema, to be held against values.
pub(super) struct Rules<'s> {
    root: &'s Json,
}

impl<'s> Rules<'s> {
    /// `root` is the schema of the whole file; references are resolved in it.
    pub(super) fn new(root: &'s Json) -> Self {
        Self { root }
    }

    /// Every fault of the whole file.
    pub(super) fn check(&self, file: &Node, faults: &mut Vec<Fault>) {
        self.value(self.root, file, &file.place, "the scenario", faults);
    }

    /// Checks `node`, the value of the key `name`, which stands at `key`.
    fn value(&self, schema: &'s Json, node: &Node, key: &Place, name: &str, faults: &mut Vec<Fault>) {
        if matches!(node.value, Value::Unusable) {
            return;
        }
        let mut alternatives = Vec::new();
        self.flatten(schema, &mut alternatives);
        let fitting: Vec<&Json> = alternatives.iter().copied().filter(|leaf| admits(leaf, &node.value)).collect();
        if fitting.is_empty() {
            faults.push(Fault::new(place_of_value(node, key), self.wrong_type(&alternatives, node, name)));
            return;
        }
        match &node.value {
            Value::String(text) => self.string(&alternatives, &fitting, text, node, name, faults),
            Value::Table(table) if fitting.len() > 1 || is_tagged(fitting[0], &alternatives) => {
                self.tagged(&fitting, table, node, key, name, faults);
            }
            Value::Table(table) => self.table(fitting[0], table, place_of_value(node, key), name, faults),
            Value::Array(items) => self.array(fitting[0], items, node, name, faults),
            Value::Integer(number) => bounds(fitting[0], *number as f64, &number.to_string(), node, name, faults),
            Value::Float(number) => bounds(fitting[0], *number, &number.to_string(), node, name, faults),
            Value::Boolean(_) | Value::Datetime | Value::Unusable => {}
        }
    }

    /// The alternatives that `schema` offers, with references resolved and `null` (which TOML has not) left out.
    pub(super) fn flatten(&self, schema: &'s Json, into: &mut Vec<&'s Json>) {
        if let Some(target) = schema.get("$ref").and_then(Json::as_str).and_then(|name| self.resolve(name)) {
            return self.flatten(target, into);
        }
        match schema.get("oneOf").or_else(|| schema.get("anyOf")).and_then(Json::as_array) {
            Some(choices) => choices.iter().for_each(|choice| self.flatten(choice, into)),
            None if schema.get("type").is_some_and(|t| t == "null") => {}
            None => into.push(schema),
        }
    }

    fn resolve(&self, reference: &str) -> Option<&'s Json> {
        self.root.pointer(reference.strip_prefix('#')?)
    }

    fn wrong_type(&self, alternatives: &[&Json], node: &Node, name: &str) -> String {
        let mut expected: Vec<&str> = Vec::new();
        for word in alternatives.iter().flat_map(|leaf| types(leaf)).filter_map(type_in_words) {
            if !expected.contains(&word) {
                expected.push(word);
            }
        }
        format!("`{name}`: expected {}, found {}", suggest::or_list(&expected), kind_in_words(&node.value))
    }

    /// A string: one of the literals, or a free text within its length.
    fn string(
        &self,
        alternatives: &[&'s Json],
        fitting: &[&'s Json],
        text: &str,
        node: &Node,
        name: &str,
        faults: &mut Vec<Fault>,
    ) {
        let literals: Vec<&str> = fitting.iter().flat_map(|leaf| literals(leaf)).collect();
        if literals.contains(&text) {
            return;
        }
        if let Some(free) = fitting.iter().find(|leaf| literals_of(leaf).is_none()) {
            return length(free, "minLength", "maxLength", text.chars().count(), "characters", node, name, faults);
        }
        let tags: Vec<&str> = alternatives.iter().filter_map(|leaf| tag(leaf)).collect();
        let message = if tags.contains(&text) {
            format!("`{name}`: `{text}` needs its own keys: `{name} = {{ {text} = ... }}`")
        } else {
            let mut known = literals;
            known.extend(tags.iter().filter(|tag| !known.contains(tag)).copied().collect::<Vec<_>>());
            format!("unknown {name} `{text}`{}", suggest::instead_of(text, &known))
        };
        faults.push(Fault::new(&node.place, message));
    }

    /// A table that names one of several alternatives by its only key.
    fn tagged(
        &self,
        fitting: &[&'s Json],
        table: &Table,
        node: &Node,
        key: &Place,
        name: &str,
        faults: &mut Vec<Fault>,
    ) {
        let tags: Vec<&str> = fitting.iter().filter_map(|leaf| tag(leaf)).collect();
        for (chosen, entry) in table {
            let property = fitting.iter().find_map(|leaf| {
                (tag(leaf) == Some(chosen.as_str())).then(|| leaf.get("properties")?.get(chosen)).flatten()
            });
            match property {
                Some(schema) => self.value(schema, &entry.node, &entry.key, chosen, faults),
                None => {
                    let message = format!("unknown {name} `{chosen}`{}", suggest::instead_of(chosen, &tags));
                    faults.push(Fault::new(&entry.key, message));
                }
            }
        }
        let known: Vec<(&String, &Entry)> = table.iter().filter(|(key, _)| tags.contains(&key.as_str())).collect();
        if table.is_empty() {
            let message = format!("`{name}` names nothing; expected one of {}", suggest::list(&tags));
            faults.push(Fault::new(place_of_value(node, key), message));
        } else if known.len() > 1 {
            // The later one is the one that was added, by the override if there is one.
            let mut written: Vec<_> =
                known.iter().map(|(key, entry)| (entry.key.source, entry.key.span.start, *key)).collect();
            written.sort();
            let names: Vec<&str> = written.iter().map(|(_, _, key)| key.as_str()).collect();
            if let Some(last) = names.last().and_then(|last| table.get(*last)) {
                let message = format!("`{name}` must name exactly one of its kinds, found {}", suggest::list(&names));
                faults.push(Fault::new(&last.key, message));
            }
        }
    }

    /// An ordinary table: known keys, required keys.
    fn table(&self, schema: &'s Json, table: &Table, place: &Place, name: &str, faults: &mut Vec<Fault>) {
        let empty = Map::new();
        let properties = schema.get("properties").and_then(Json::as_object).unwrap_or(&empty);
        let open = schema.get("additionalProperties").filter(|rule| **rule != Json::Bool(false));
        for (key, entry) in table {
            match (properties.get(key), open) {
                (Some(property), _) => self.value(property, &entry.node, &entry.key, key, faults),
                (None, Some(property)) => self.value(property, &entry.node, &entry.key, key, faults),
                (None, None) => {
                    let known: Vec<&str> = properties.keys().map(String::as_str).collect();
                    let message = format!("unknown key `{key}`{}", suggest::instead_of(key, &known));
                    faults.push(Fault::new(&entry.key, message));
                }
            }
        }
        for key in required(schema).filter(|key| !table.contains_key(*key)) {
            faults.push(Fault::new(place, self.missing(key, properties.get(key), place, name)));
        }
    }

    fn missing(&self, key: &str, property: Option<&'s Json>, table: &Place, name: &str) -> String {
        let mut alternatives = Vec::new();
        if let Some(property) = property {
            self.flatten(property, &mut alternatives);
        }
        let needed: Vec<&str> = alternatives.iter().flat_map(|leaf| required(leaf)).collect();
        let is_table = !alternatives.is_empty() && alternatives.iter().all(|leaf| types(leaf).any(|t| t == "object"));
        match (is_table, *table == Place::FILE) {
            (true, true) if !needed.is_empty() => {
                format!("missing table `[{key}]`, which needs {}", suggest::list(&needed))
            }
            (_, true) => format!("missing key `{key}`"),
            _ => format!("missing key `{key}` in `{name}`"),
        }
    }

    fn array(&self, schema: &'s Json, items: &[Node], node: &Node, name: &str, faults: &mut Vec<Fault>) {
        length(schema, "minItems", "maxItems", items.len(), "values", node, name, faults);
        if let Some(rule) = schema.get("items") {
            for item in items {
                self.value(rule, item, &item.place, name, faults);
            }
        }
    }
}

/// What a fault in the value as a whole points at: a table's name rather than all of its text.
fn place_of_value<'p>(node: &'p Node, key: &'p Place) -> &'p Place {
    if matches!(node.value, Value::Table(_)) { key } else { &node.place }
}

/// The types that a schema without alternatives allows.
fn types(leaf: &Json) -> impl Iterator<Item = &str> {
    let (one, many) = match leaf.get("type") {
        Some(Json::String(one)) => (Some(one.as_str()), None),
        Some(Json::Array(many)) => (None, Some(many)),
        // A literal without a type is a string: there are no others here.
        _ if literals_of(leaf).is_some() => (Some("string"), None),
        _ => (None, None),
    };
    one.into_iter().chain(many.into_iter().flatten().filter_map(Json::as_str)).filter(|t| *t != "null")
}

fn admits(leaf: &Json, value: &Value) -> bool {
    types(leaf).any(|t| match value {
        Value::Boolean(_) => t == "boolean",
        Value::Integer(_) => t == "integer" || t == "number",
        Value::Float(_) => t == "number",
        Value::String(_) => t == "string",
        Value::Array(_) => t == "array",
        Value::Table(_) => t == "object",
        Value::Datetime | Value::Unusable => false,
    })
}

fn type_in_words(name: &str) -> Option<&'static str> {
    Some(match name {
        "boolean" => "true or false",
        "integer" => "an integer",
        "number" => "a number",
        "string" => "a string",
        "array" => "an array",
        "object" => "a table",
        _ => return None,
    })
}

fn kind_in_words(value: &Value) -> &'static str {
    match value {
        Value::Boolean(_) => "a boolean",
        Value::Integer(_) => "an integer",
        Value::Float(_) => "a number with a fraction",
        Value::String(_) => "a string",
        Value::Datetime => "a date or time",
        Value::Array(_) => "an array",
        Value::Table(_) => "a table",
        Value::Unusable => "an unusable number",
    }
}

/// The strings that a schema admits, if it lists them.
fn literals_of(leaf: &Json) -> Option<Vec<&str>> {
    match (leaf.get("const"), leaf.get("enum")) {
        (Some(literal), _) => Some(literal.as_str().into_iter().collect()),
        (None, Some(Json::Array(literals))) => Some(literals.iter().filter_map(Json::as_str).collect()),
        _ => None,
    }
}

fn literals(leaf: &Json) -> Vec<&str> {
    literals_of(leaf).unwrap_or_default()
}

/// The key that marks an alternative of an externally tagged enum: its only property, and required.
fn tag(leaf: &Json) -> Option<&str> {
    let properties = leaf.get("properties")?.as_object()?;
    let mut keys = properties.keys();
    let only = keys.next().filter(|_| keys.next().is_none())?;
    required(leaf).any(|key| key == only).then_some(only)
}

/// Whether `leaf` is the tagged one among several alternatives.
fn is_tagged(leaf: &Json, alternatives: &[&Json]) -> bool {
    alternatives.len() > 1 && tag(leaf).is_some()
}

fn required(leaf: &Json) -> impl Iterator<Item = &str> {
    leaf.get("required").and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str)
}

fn bounds(leaf: &Json, number: f64, written: &str, node: &Node, name: &str, faults: &mut Vec<Fault>) {
    // Bounds compare as f64: the integers beyond 2^53 that this could confuse are no bounds here.
    let rules: [(&str, &str, fn(f64, f64) -> bool); 4] = [
        ("minimum", "at least", |number, bound| number >= bound),
        ("exclusiveMinimum", "greater than", |number, bound| number > bound),
        ("maximum", "at most", |number, bound| number <= bound),
        ("exclusiveMaximum", "less than", |number, bound| number < bound),
    ];
    for (keyword, words, holds) in rules {
        let Some(rule) = leaf.get(keyword) else { continue };
        if rule.as_f64().is_some_and(|bound| !holds(number, bound)) {
            let bound = rule
                .as_f64()
                .filter(|b| b.fract() == 0.0 && b.abs() < 1e15)
                .map_or(rule.to_string(), |b| b.to_string());
            faults.push(Fault::new(&node.place, format!("`{name}` must be {words} {bound}, found {written}")));
        }
    }
}

#[allow(clippy::too_many_arguments)]
fn length(
    leaf: &Json,
    minimum: &str,
    maximum: &str,
    length: usize,
    unit: &str,
    node: &Node,
    name: &str,
    faults: &mut Vec<Fault>,
) {
    let limit = |keyword: &str| leaf.get(keyword).and_then(Json::as_u64);
    if let Some(limit) = limit(minimum).filter(|limit| (length as u64) < *limit) {
        let message = format!("`{name}` must have at least {limit} {unit}, found {length}");
        faults.push(Fault::new(&node.place, message));
    }
    if let Some(limit) = limit(maximum).filter(|limit| (length as u64) > *limit) {
        let message = format!("`{name}` must have at most {limit} {unit}, found {length}");
        faults.push(Fault::new(&node.place, message));
    }
}
