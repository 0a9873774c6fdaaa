//! Checks what was written against the JSON schema, which holds all rules for single keys, and
//! collects every fault.
//!
//! A general validator would do for correct files. This one exists for its messages: they give the
//! place in the user's text and the nearest known name, and report a mistake in one of many
//! alternatives as one fault.

use std::cell::Cell;

use serde_json::{Map, Value as Json, json};

use super::faults::{Fault, Place};
use super::plain_schema::{
    admits, bounds, choices, is_tagged, kind_in_words, length, literals, literals_of, required,
    tag, type_in_words, types, within,
};
use super::presets;
use super::suggest;
use super::tree::{Entry, Node, Table, Value};
use super::{migrate, plain_schema::decimal};

mod corrections;

/// The keywords of JSON schema that are followed here, and those that only describe. A schema with
/// any other keyword would state a rule that nothing checks.
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

/// The most unknown names for which a known one is looked for. Nobody reads more suggestions, and
/// the search for one takes longer than everything else that is done about a key.
const MOST_SUGGESTIONS: u32 = 200;

/// A schema that values are checked against.
pub(super) struct Rules<'s> {
    root: &'s Json,
    /// Unknown names for which a known one has been looked for.
    suggestions: Cell<u32>,
}

impl<'s> Rules<'s> {
    /// Makes the rules of `root`, the schema of the whole file, in which references are resolved.
    pub(super) fn new(root: &'s Json) -> Self {
        Self {
            root,
            suggestions: Cell::new(0),
        }
    }

    /// Counts a suggestion, and returns whether it may still be made.
    fn may_suggest(&self) -> bool {
        self.suggestions
            .set(self.suggestions.get().saturating_add(1));
        self.suggestions.get() <= MOST_SUGGESTIONS
    }

    /// Adds every fault of the whole file to `faults`.
    pub(super) fn check(&self, file: &Node, faults: &mut Vec<Fault>) {
        self.value(self.root, file, &file.place, "the scenario", faults);
    }

    /// Checks `node`, the value of the key `name`, which stands at `key`.
    fn value(
        &self,
        schema: &'s Json,
        node: &Node,
        key: &Place,
        name: &str,
        faults: &mut Vec<Fault>,
    ) {
        if matches!(node.value, Value::Unusable) {
            return;
        }
        let alternatives = self.alternatives(schema);
        let fitting: Vec<&Json> = alternatives
            .iter()
            .copied()
            .filter(|plain_schema| admits(plain_schema, &node.value))
            .collect();
        let Some(first) = fitting.first() else {
            let message = self.wrong_type(&alternatives, node, name);
            let fault = Fault::new(place_of_value(node, key), message);
            return faults.push(fault.or(value_of_type(&alternatives)));
        };
        match &node.value {
            Value::String(text) => self.string(&alternatives, &fitting, text, node, name, faults),
            Value::Table(table) if fitting.len() > 1 || is_tagged(first, &alternatives) => {
                self.tagged(&alternatives, table, node, key, name, faults);
            }
            Value::Table(table) => {
                self.table(first, table, place_of_value(node, key), name, faults)
            }
            Value::Array(items) => self.array(first, items, node, name, faults),
            Value::Integer(number) => {
                let written = number.to_string();
                faults.extend(bounds(first, *number as f64, &written, node, name));
            }
            Value::Float(number) => {
                faults.extend(bounds(first, *number, &decimal(*number), node, name));
            }
            Value::Boolean(_) | Value::Datetime | Value::Unusable => {}
        }
    }

    /// Returns the definition that a schema refers to, or itself.
    pub(super) fn target(&self, schema: &'s Json) -> &'s Json {
        let reference = schema.get("$ref").and_then(Json::as_str);
        reference
            .and_then(|reference| self.root.pointer(reference.strip_prefix('#')?))
            .unwrap_or(schema)
    }

    /// Returns the alternatives that `schema` offers, with references resolved.
    pub(super) fn alternatives(&self, schema: &'s Json) -> Vec<&'s Json> {
        let target = self.target(schema);
        if !std::ptr::eq(target, schema) {
            return self.alternatives(target);
        }
        let choices = schema.get("oneOf").or_else(|| schema.get("anyOf"));
        match choices.and_then(Json::as_array) {
            Some(choices) => (choices.iter())
                .flat_map(|choice| self.alternatives(choice))
                .collect(),
            None => vec![schema],
        }
    }

    /// Puts the table for a word that stands for it (`mode = "over-selection"`), and the defaults
    /// of the schema for what is left out.
    pub(super) fn complete(&self, value: &mut Json) {
        self.complete_as(self.root, value);
    }

    fn complete_as(&self, schema: &'s Json, value: &mut Json) {
        let alternatives = self.alternatives(schema);
        let chosen = |name: &str| {
            let tagged = |plain_schema: &&&Json| tag(plain_schema) == Some(name);
            let plain_schema = alternatives.iter().find(tagged)?;
            plain_schema.get("properties")?.get(name)
        };
        let is_choice = alternatives.len() > 1;
        if let Json::String(word) = value
            && is_choice
            && chosen(word).is_some()
        {
            let word = std::mem::take(word);
            *value = json!({ word: {} });
        }
        match value {
            Json::Array(items) => {
                let of_items = alternatives.iter().find_map(|schema| schema.get("items"));
                for item in items.iter_mut() {
                    of_items.inspect(|schema| self.complete_as(schema, item));
                }
            }
            Json::Object(table) => {
                let inner = table.iter_mut().next();
                if let Some((name, inner)) = inner
                    && is_choice
                    && let Some(schema) = chosen(name)
                {
                    return self.complete_as(schema, inner);
                }
                let mut plain = alternatives
                    .iter()
                    .filter(|schema| !is_tagged(schema, &alternatives));
                if let Some(schema) = plain.find(|schema| types(schema).any(|t| t == "object")) {
                    self.complete_table(schema, table);
                }
            }
            _ => {}
        }
    }

    fn complete_table(&self, schema: &'s Json, table: &mut Map<String, Json>) {
        let properties = schema.get("properties").and_then(Json::as_object);
        for (key, property) in properties.into_iter().flatten() {
            if let (false, Some(default)) = (table.contains_key(key), property.get("default")) {
                table.insert(key.clone(), without_nulls(default));
            }
        }
        for (key, inner) in table {
            let property = properties.and_then(|properties| properties.get(key));
            // The schema of a table with free names; false, which is no object, has no keys.
            if let Some(schema) = property.or_else(|| schema.get("additionalProperties")) {
                self.complete_as(schema, inner);
            }
        }
    }

    /// Returns the value that `key` has if it is left out of `file`: that of the preset which
    /// `file` names beside it, else the default.
    pub(super) fn usual(&self, key: &str, file: &Node) -> Option<Json> {
        let of_preset = presets::TABLES.iter().find_map(|table| {
            let below = key.strip_prefix(table)?.strip_prefix('.')?;
            let keys = presets::under(table, &file.at(table)?.to_json(&[]))?;
            let mut steps = below.split('.');
            let first = keys.get(steps.next()?)?;
            steps
                .try_fold(first, |value, step| value.get(step))
                .cloned()
        });
        of_preset.or_else(|| self.default_of(key))
    }

    fn default_of(&self, key: &str) -> Option<Json> {
        let (mut schema, mut default) = (self.root, None);
        for step in key.split('.') {
            let inner = |plain_schema: &&'s Json| plain_schema.get("properties")?.get(step);
            schema = self.alternatives(schema).iter().find_map(inner)?;
            let of_table = default.and_then(|default: &'s Json| default.get(step));
            default = schema.get("default").or(of_table);
        }
        default.cloned().or_else(|| self.empty(schema))
    }

    /// Returns a list without items, or a table of which every key is left out.
    fn empty(&self, schema: &'s Json) -> Option<Json> {
        let alternatives = self.alternatives(schema);
        let [plain_schema] = alternatives[..] else {
            return None;
        };
        if types(plain_schema).any(|t| t == "array") {
            return Some(json!([]));
        }
        let mut table = Map::new();
        plain_schema.get("properties")?;
        self.complete_table(plain_schema, &mut table);
        Some(Json::Object(table))
    }

    fn wrong_type(&self, alternatives: &[&'s Json], node: &Node, name: &str) -> String {
        let bare_words: Vec<&str> = alternatives
            .iter()
            .flat_map(|plain_schema| literals(plain_schema))
            .collect();
        let words = |plain_schema: &Json| match (literals_of(plain_schema), tag(plain_schema)) {
            (Some(literals), _) => literals
                .into_iter()
                .map(|literal| format!("`{literal}`"))
                .collect::<Vec<_>>(),
            (None, Some(tag)) if alternatives.len() > 1 && !bare_words.contains(&tag) => {
                vec![format!("`{{ {tag} = ... }}`")]
            }
            (None, _) => types(plain_schema)
                .filter_map(type_in_words)
                .map(str::to_owned)
                .collect(),
        };
        let mut expected: Vec<String> = Vec::new();
        for word in alternatives
            .iter()
            .flat_map(|plain_schema| words(plain_schema))
        {
            if !expected.contains(&word) {
                expected.push(word);
            }
        }
        // The message lists the names first, and then the types.
        expected.sort_by_key(|word| !word.starts_with('`'));
        let (expected, found) = (suggest::or_list(&expected), kind_in_words(&node.value));
        format!(
            "`{name}`: expected {expected}, found {found}{}",
            self.instead_of_value(alternatives, &node.value, name)
        )
    }

    /// Checks a string, which is one of the literals or a free text within its length.
    fn string(
        &self,
        alternatives: &[&'s Json],
        fitting: &[&'s Json],
        text: &str,
        node: &Node,
        name: &str,
        faults: &mut Vec<Fault>,
    ) {
        let literals: Vec<&str> = fitting
            .iter()
            .flat_map(|plain_schema| literals(plain_schema))
            .collect();
        if literals.contains(&text) {
            return;
        }
        if let Some(free) = fitting
            .iter()
            .find(|plain_schema| literals_of(plain_schema).is_none())
        {
            return faults.extend(length(
                free,
                ["minLength", "maxLength"],
                (text.chars().count(), "character"),
                node,
                name,
            ));
        }
        let message = match alternatives
            .iter()
            .find(|plain_schema| tag(plain_schema) == Some(text))
        {
            Some(plain_schema) => {
                let value = self.least_value(plain_schema, text);
                format!(
                    "`{text}` alone does not say enough: write `{name} = {{ {text} = {value} }}`"
                )
            }
            None => format!(
                "unknown value `{text}` for `{name}`{}",
                suggest::instead_of(text, &choices(alternatives))
            ),
        };
        let meant = suggest::nearest(text, &literals).map(Json::from);
        faults.push(Fault::new(&node.place, message).or(meant));
    }

    /// Checks a table that names one of several alternatives by its only key.
    fn tagged(
        &self,
        alternatives: &[&'s Json],
        table: &Table,
        node: &Node,
        key: &Place,
        name: &str,
        faults: &mut Vec<Fault>,
    ) {
        let tags: Vec<&str> = alternatives
            .iter()
            .filter_map(|plain_schema| tag(plain_schema))
            .collect();
        let words: Vec<&str> = alternatives
            .iter()
            .flat_map(|plain_schema| literals(plain_schema))
            .collect();
        for (chosen, entry) in table {
            let property = alternatives.iter().find_map(|plain_schema| {
                (tag(plain_schema) == Some(chosen.as_str()))
                    .then(|| plain_schema.get("properties")?.get(chosen))
                    .flatten()
            });
            match property {
                Some(schema) => self.value(schema, &entry.node, &entry.key, chosen, faults),
                None if !self.may_suggest() => {
                    faults.push(Fault::new(
                        &entry.key,
                        format!("unknown value `{chosen}` for `{name}`"),
                    ));
                }
                None => {
                    // In `method.lambda` for `method.fedrap.lambda`, the choice was left out.
                    let owners = alternatives.iter().filter_map(|plain_schema| {
                        let owner = tag(plain_schema)?;
                        self.has_key(plain_schema.get("properties")?.get(owner)?, chosen)
                            .then_some(owner)
                    });
                    let left_out = match suggest::nearest(chosen, &tags) {
                        None => owners.min_by_key(|owner| !table.contains_key(*owner)),
                        Some(_) => None,
                    };
                    // Here `method.name = "fedrap"` was written for `method = "fedrap"`.
                    let named = match &entry.node.value {
                        Value::String(text) if tags.contains(&text.as_str()) => Some(text),
                        _ => None,
                    };
                    let message = match left_out {
                        // Here a word was written as the key of a table, as in
                        // `effect = { drop = 1 }`.
                        _ if words.contains(&chosen.as_str()) => {
                            format!("`{chosen}` takes no value: write `{name} = \"{chosen}\"`")
                        }
                        _ if named.is_some() => format!(
                            "unknown value `{chosen}` for `{name}`; did you mean `{name} = \"{}\"`?",
                            named.map_or("", String::as_str)
                        ),
                        Some(alternative) => format!(
                            "unknown value `{chosen}` for `{name}`; did you mean `{name}.{alternative}.{chosen}`?"
                        ),
                        None => format!(
                            "unknown value `{chosen}` for `{name}`{}",
                            suggest::instead_of(chosen, &tags)
                        ),
                    };
                    faults.push(Fault::new(&entry.key, message));
                }
            }
        }
        let known: Vec<(&String, &Entry)> = table
            .iter()
            .filter(|(key, _)| tags.contains(&key.as_str()))
            .collect();
        if table.is_empty() {
            let message = format!(
                "`{name}` names nothing; expected one of {}",
                suggest::list(&tags)
            );
            faults.push(Fault::new(place_of_value(node, key), message));
        } else if known.len() > 1 {
            // The last one in the text is reported as the one too many; it is the override's if
            // there is one.
            let mut written: Vec<_> = known
                .iter()
                .map(|(key, entry)| (entry.key.source, entry.key.span.start, *key))
                .collect();
            written.sort();
            let names: Vec<&str> = written.iter().map(|(_, _, key)| key.as_str()).collect();
            if let Some(last) = names.last().and_then(|last| table.get(*last)) {
                let message = format!(
                    "`{name}` takes one of these, not several: {}",
                    suggest::list(&names)
                );
                faults.push(Fault::new(&last.key, message));
            }
        }
    }

    /// Checks an ordinary table: its keys must be known, and the required ones must be there.
    fn table(
        &self,
        schema: &'s Json,
        table: &Table,
        place: &Place,
        name: &str,
        faults: &mut Vec<Fault>,
    ) {
        let empty = Map::new();
        let properties = schema
            .get("properties")
            .and_then(Json::as_object)
            .unwrap_or(&empty);
        let open = schema
            .get("additionalProperties")
            .filter(|rule| **rule != Json::Bool(false));
        let known: Vec<&str> = properties.keys().map(String::as_str).collect();
        let mut suggested = Vec::new();
        // The faults that are shown, which are the first ones of the text, are the ones with
        // suggestions.
        let mut entries: Vec<(&String, &Entry)> = table.iter().collect();
        entries.sort_by_key(|(_, entry)| (entry.key.source, entry.key.span.start));
        for (key, entry) in entries {
            if let Some(property) = properties.get(key).or(open) {
                self.value(property, &entry.node, &entry.key, key, faults);
                continue;
            }
            if !self.may_suggest() {
                faults.push(Fault::new(&entry.key, format!("unknown key `{key}`")));
                continue;
            }
            if let Some(advice) = migrate::advice(name, key) {
                faults.push(Fault::new(&entry.key, advice));
                continue;
            }
            let nearest = suggest::nearest(key, &known);
            suggested.extend(nearest);
            let elsewhere = || match (self.home_of(key), self.as_a_choice(key, properties)) {
                (Some(home), _) => Some(format!("unknown key `{key}` here; it belongs {home}")),
                (None, Some(choice)) => {
                    Some(format!("unknown key `{key}`; did you mean `{choice}`?"))
                }
                (None, None) => None,
            };
            if let (None, Some(message)) = (nearest, elsewhere()) {
                faults.push(Fault::new(&entry.key, message));
                continue;
            }
            let message = format!("unknown key `{key}`{}", suggest::instead_of(key, &known));
            let is_needed = |meant: &str| {
                !table.contains_key(meant) && required(schema).any(|key| key == meant)
            };
            let instead = (!nearest.is_some_and(is_needed)).then_some(Json::Null);
            faults.push(Fault::new(&entry.key, message).or(instead));
        }
        // A misspelt required key is one mistake, not an unknown key and a missing one.
        for key in
            required(schema).filter(|key| !table.contains_key(*key) && !suggested.contains(key))
        {
            faults.push(Fault::new(
                place,
                self.missing(key, properties.get(key), place, name),
            ));
        }
    }

    fn missing(&self, key: &str, property: Option<&'s Json>, table: &Place, name: &str) -> String {
        let alternatives = property.map_or(Vec::new(), |property| self.alternatives(property));
        let choices = choices(&alternatives);
        let choices = if choices.is_empty() {
            String::new()
        } else {
            format!("; known: {}", suggest::list(&choices))
        };
        if *table != Place::FILE {
            return format!("missing key `{key}` in `{name}`{choices}");
        }
        match alternatives.as_slice() {
            [plain_schema] if types(plain_schema).any(|t| t == "object") => {
                let needed: Vec<&str> = required(plain_schema).collect();
                format!(
                    "missing table `[{key}]`, which needs {}",
                    suggest::list(&needed)
                )
            }
            _ => format!("missing key `{key}`{choices}"),
        }
    }

    fn array(
        &self,
        schema: &'s Json,
        items: &[Node],
        node: &Node,
        name: &str,
        faults: &mut Vec<Fault>,
    ) {
        faults.extend(length(
            schema,
            ["minItems", "maxItems"],
            (items.len(), "value"),
            node,
            name,
        ));
        if let Some(rule) = schema.get("items") {
            for (index, item) in items.iter().enumerate() {
                self.value(rule, item, &item.place, &format!("{name}[{index}]"), faults);
            }
        }
    }
}

/// Returns the place that is shown for a fault in the value as a whole: a table's name rather than
/// all of its text.
fn place_of_value<'p>(node: &'p Node, key: &'p Place) -> &'p Place {
    if matches!(node.value, Value::Table(_)) {
        key
    } else {
        &node.place
    }
}

/// Returns what would do instead of a value of the wrong type, where a number or a truth value is
/// wanted.
fn value_of_type(alternatives: &[&Json]) -> Option<Json> {
    let of_type = |wanted: &[&str]| {
        let is_wanted = |schema: &&&Json| types(schema).any(|t| wanted.contains(&t));
        alternatives.iter().find(is_wanted)
    };
    match of_type(&["integer", "number"]) {
        Some(plain_schema) => Some(within(plain_schema)),
        None => of_type(&["boolean"]).map(|_| false.into()),
    }
}

/// Returns a default without its nulls, which stand for absent options and which TOML cannot write.
fn without_nulls(json: &Json) -> Json {
    match json {
        Json::Object(object) => {
            let present = object.iter().filter(|(_, value)| !value.is_null());
            let members = present.map(|(key, value)| (key.clone(), without_nulls(value)));
            Json::Object(members.collect())
        }
        other => other.clone(),
    }
}
