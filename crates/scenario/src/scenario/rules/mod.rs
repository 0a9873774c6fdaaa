//! Checks what was written against the JSON schema, which holds all rules for single keys, and
//! collects every fault.
//!
//! A general validator would do for correct files. This one exists for its messages: they give the
//! place in the user's text and the nearest known name, and report a mistake in one of many
//! alternatives as one fault.

use std::cell::Cell;

use serde_json::{Map, Value as Json};

use super::faults::{Fault, Place};
use super::plain_schema::{
    admits, bounds, choices, decimal, is_tagged, kind_in_words, length, literals, literals_of,
    required, tag, type_in_words, types, within,
};
use super::repair::Repair;
use super::suggest;
use super::tree::{Entry, Node, Table, Value};

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
        let mut alternatives = Vec::new();
        self.flatten(schema, &mut alternatives);
        let fitting: Vec<&Json> = alternatives
            .iter()
            .copied()
            .filter(|plain_schema| admits(plain_schema, &node.value))
            .collect();
        if fitting.is_empty() {
            let fault = Fault::new(
                place_of_value(node, key),
                self.wrong_type(&alternatives, node, name),
            );
            faults.push(fault.or(repair_of_type(&alternatives)));
            return;
        }
        match &node.value {
            Value::String(text) => self.string(&alternatives, &fitting, text, node, name, faults),
            Value::Table(table) if fitting.len() > 1 || is_tagged(fitting[0], &alternatives) => {
                self.tagged(&alternatives, table, node, key, name, faults);
            }
            Value::Table(table) => {
                self.table(fitting[0], table, place_of_value(node, key), name, faults)
            }
            Value::Array(items) => self.array(fitting[0], items, node, name, faults),
            Value::Integer(number) => bounds(
                fitting[0],
                *number as f64,
                &number.to_string(),
                node,
                name,
                faults,
            ),
            Value::Float(number) => {
                bounds(fitting[0], *number, &decimal(*number), node, name, faults)
            }
            Value::Boolean(_) | Value::Datetime | Value::Unusable => {}
        }
    }

    /// Adds the alternatives that `schema` offers to `into`, with references resolved.
    pub(super) fn flatten(&self, schema: &'s Json, into: &mut Vec<&'s Json>) {
        if let Some(target) = schema
            .get("$ref")
            .and_then(Json::as_str)
            .and_then(|name| self.resolve(name))
        {
            return self.flatten(target, into);
        }
        match schema
            .get("oneOf")
            .or_else(|| schema.get("anyOf"))
            .and_then(Json::as_array)
        {
            Some(choices) => choices.iter().for_each(|choice| self.flatten(choice, into)),
            None => into.push(schema),
        }
    }

    fn resolve(&self, reference: &str) -> Option<&'s Json> {
        self.root.pointer(reference.strip_prefix('#')?)
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
        let meant = suggest::nearest(text, &literals).map(Repair::word);
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
            let nearest = suggest::nearest(key, &known);
            suggested.extend(nearest);
            let (message, repair) = match (
                nearest,
                self.home_of(key),
                self.as_a_choice(key, properties),
            ) {
                (None, Some(home), _) => {
                    (format!("unknown key `{key}` here; it belongs {home}"), None)
                }
                (None, None, Some(choice)) => (
                    format!("unknown key `{key}`; did you mean `{choice}`?"),
                    None,
                ),
                (nearest, ..) => {
                    let repair = match nearest.filter(|meant| !table.contains_key(*meant)) {
                        Some(meant) => Repair::Rename(meant.to_owned()),
                        None => Repair::LeaveOut,
                    };
                    (
                        format!("unknown key `{key}`{}", suggest::instead_of(key, &known)),
                        Some(repair),
                    )
                }
            };
            faults.push(Fault::new(&entry.key, message).or(repair));
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
        let mut alternatives = Vec::new();
        if let Some(property) = property {
            self.flatten(property, &mut alternatives);
        }
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
fn repair_of_type(alternatives: &[&Json]) -> Option<Repair> {
    let has = |wanted: &str, plain_schema: &Json| types(plain_schema).any(|t| t == wanted);
    let number = alternatives
        .iter()
        .find(|alternative| has("integer", alternative) || has("number", alternative));
    let truth = || {
        alternatives
            .iter()
            .any(|alternative| has("boolean", alternative))
            .then(Repair::either)
    };
    number
        .map(|plain_schema| Repair::numbers(within(plain_schema)))
        .or_else(truth)
}
