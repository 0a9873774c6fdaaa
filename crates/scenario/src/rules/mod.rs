//! Checks what was written against the JSON schema, which holds all rules for single keys, and
//! collects every fault.
//!
//! A general validator would do for correct files. This one exists for its messages: they give the
//! place in the user's text and the nearest known name, and report a mistake in one of many
//! forms as one fault.

use std::cell::{Cell, RefCell};

use serde_json::{Map, Value as Json, json};

use super::faults::{Fault, Place};
use super::form::{
    admits, bounds, choices, chosen, decimal, has_type, has_word, is_tagged, keys_of,
    kind_in_words, length, literals, literals_of, property, required, tag, type_in_words, types,
};
use super::tree::{Node, Table, Value};
use super::{migrate, suggest};

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

/// The most unknown names that get a suggestion. Nobody reads more suggestions, and the search for
/// one takes longer than everything else that is done about a key.
const MOST_SUGGESTIONS: u32 = 200;

/// A schema that values are checked against.
pub(super) struct Rules<'s> {
    root: &'s Json,
    /// The file that is checked.
    file: Option<&'s Node>,
    /// Unknown names that have got a suggestion.
    suggestions: Cell<u32>,
    /// The faults found.
    faults: RefCell<Vec<Fault>>,
}

impl<'s> Rules<'s> {
    /// Makes the rules of `root`, the schema of the whole file, which resolves references.
    pub(super) fn new(root: &'s Json) -> Self {
        Self {
            root,
            file: None,
            suggestions: Cell::new(0),
            faults: RefCell::default(),
        }
    }

    fn fault(&self, place: &Place, message: impl AsRef<str>) {
        self.faults.borrow_mut().push(Fault::new(place, message));
    }

    /// Counts a suggestion, and returns whether it may still be made.
    fn may_suggest(&self) -> bool {
        let made = self.suggestions.get();
        self.suggestions.set(made.saturating_add(1));
        made < MOST_SUGGESTIONS
    }

    /// Returns every fault of the whole file.
    pub(super) fn check(&mut self, file: &'s Node) -> Vec<Fault> {
        self.file = Some(file);
        self.value(self.root, file, "the scenario");
        self.faults.take()
    }

    /// Checks `node`, the value of the key `name`.
    fn value(&self, schema: &'s Json, node: &Node, name: &str) {
        if matches!(node.value, Value::Unusable) {
            return;
        }
        let forms = self.forms(schema);
        let fits = |form: &&Json| admits(form, &node.value);
        let fitting: Vec<&Json> = forms.iter().copied().filter(fits).collect();
        let Some(first) = fitting.first() else {
            return self.fault(node.shown(), self.wrong_type(&forms, node, name));
        };
        let message = match &node.value {
            Value::String(text) => self.string(&forms, &fitting, text, name),
            Value::Table(table) if fitting.len() > 1 || is_tagged(first, &forms) => {
                return self.tagged(&forms, table, node, name);
            }
            Value::Table(table) => return self.table(first, table, node.shown(), name),
            Value::Array(items) => {
                if let Some(rule) = first.get("items") {
                    for (index, item) in items.iter().enumerate() {
                        self.value(rule, item, &format!("{name}[{index}]"));
                    }
                }
                length(
                    first,
                    ["minItems", "maxItems"],
                    (items.len(), "value"),
                    name,
                )
            }
            Value::Integer(number) => bounds(first, *number as f64, &number.to_string(), name),
            Value::Float(number) => bounds(first, *number, &decimal(*number), name),
            Value::Boolean(_) | Value::Datetime(_) | Value::Unusable => None,
        };
        if let Some(message) = message {
            self.fault(&node.place, message);
        }
    }

    /// Returns the definition that a schema refers to, or itself.
    pub(super) fn target(&self, schema: &'s Json) -> &'s Json {
        let reference = schema.get("$ref").and_then(Json::as_str);
        reference
            .and_then(|reference| self.root.pointer(reference.strip_prefix('#')?))
            .unwrap_or(schema)
    }

    /// Returns the forms that `schema` offers, with references resolved.
    pub(super) fn forms(&self, schema: &'s Json) -> Vec<&'s Json> {
        let target = self.target(schema);
        if !std::ptr::eq(target, schema) {
            return self.forms(target);
        }
        let choices = schema.get("oneOf").or_else(|| schema.get("anyOf"));
        match choices.and_then(Json::as_array) {
            Some(choices) => (choices.iter())
                .flat_map(|choice| self.forms(choice))
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
        let forms = self.forms(schema);
        let is_choice = forms.len() > 1;
        if let Json::String(word) = value
            && is_choice
            && chosen(&forms, word).is_some()
        {
            let word = std::mem::take(word);
            *value = json!({ word: {} });
        }
        match value {
            Json::Array(items) => {
                let of_items = forms.iter().find_map(|form| form.get("items"));
                for item in items.iter_mut() {
                    of_items.inspect(|schema| self.complete_as(schema, item));
                }
            }
            Json::Object(table) => {
                if let Some((name, inner)) = table.iter_mut().next()
                    && is_choice
                    && let Some(schema) = chosen(&forms, name)
                {
                    return self.complete_as(schema, inner);
                }
                let mut plain = forms.iter().filter(|form| !is_tagged(form, &forms));
                if let Some(form) = plain.find(|form| has_type(form, "object")) {
                    self.complete_table(form, table);
                }
            }
            _ => {}
        }
    }

    fn complete_table(&self, form: &'s Json, table: &mut Map<String, Json>) {
        for (key, schema) in keys_of(form) {
            if let (false, Some(default)) = (table.contains_key(key), schema.get("default")) {
                table.insert(key.clone(), default.clone());
            }
        }
        for (key, inner) in table {
            // The schema of a table with free names; false, which is no object, has no keys.
            let open = || form.get("additionalProperties");
            if let Some(schema) = property(form, key).or_else(open) {
                self.complete_as(schema, inner);
            }
        }
    }

    fn wrong_type(&self, forms: &[&'s Json], node: &Node, name: &str) -> String {
        let bare_words: Vec<&str> = forms.iter().flat_map(|form| literals(form)).collect();
        let mut expected: Vec<String> = Vec::new();
        for form in forms {
            match (literals_of(form), tag(form)) {
                (Some(literals), _) => {
                    expected.extend(literals.iter().map(|word| format!("`{word}`")));
                }
                (None, Some(tag)) if forms.len() > 1 && !bare_words.contains(&tag) => {
                    expected.push(format!("`{{ {tag} = ... }}`"));
                }
                (None, _) => {
                    let words = types(form).filter_map(type_in_words);
                    expected.extend(words.map(str::to_owned));
                }
            }
        }
        let mut expected = suggest::once(expected);
        // The message lists the names first, and then the types.
        expected.sort_by_key(|word| !word.starts_with('`'));
        let (expected, found) = (suggest::or_list(&expected), kind_in_words(&node.value));
        format!(
            "`{name}`: expected {expected}, found {found}{}",
            self.instead_of_value(forms, &node.value, name)
        )
    }

    /// Returns what is wrong with a string, which is one of the literals or a free text within its
    /// length.
    fn string(
        &self,
        forms: &[&'s Json],
        fitting: &[&'s Json],
        text: &str,
        name: &str,
    ) -> Option<String> {
        if has_word(fitting, text) {
            return None;
        }
        let is_free = |schema: &&&Json| literals_of(schema).is_none();
        if let Some(free) = fitting.iter().find(is_free) {
            let length_in = (text.chars().count(), "character");
            return length(free, ["minLength", "maxLength"], length_in, name);
        }
        Some(if chosen(forms, text).is_some() {
            let value = self.least_value(forms, text);
            format!("`{text}` alone does not say enough: write `{name} = {{ {text} = {value} }}`")
        } else {
            let instead = suggest::instead_of(text, &choices(forms));
            format!("unknown value `{text}` for `{name}`{instead}")
        })
    }

    /// Checks a table that names one of several forms by its only key.
    fn tagged(&self, forms: &[&'s Json], table: &Table, node: &Node, name: &str) {
        let tags: Vec<&str> = forms.iter().filter_map(|schema| tag(schema)).collect();
        for (choice, inner) in table {
            if let Some(schema) = chosen(forms, choice) {
                self.value(schema, inner, choice);
            } else if has_word(forms, choice) {
                // Here a word was written as the key of a table, as in `effect = { drop = 1 }`.
                let message = format!("`{choice}` takes no value: write `{name} = \"{choice}\"`");
                self.fault(&inner.key, message);
            } else {
                let advice = match self.may_suggest() {
                    true => self.instead_of_choice(forms, &tags, choice, table, name),
                    false => String::new(),
                };
                let message = format!("unknown value `{choice}` for `{name}`{advice}");
                self.fault(&inner.key, message);
            }
        }
        // The last one in the text is reported as the one too many; it is the override's if there is
        // one.
        let mut known: Vec<_> = table
            .iter()
            .filter(|(key, _)| tags.contains(&key.as_str()))
            .map(|(key, node)| (node.key.source, node.key.span.start, key.as_str(), node))
            .collect();
        known.sort_by_key(|(source, start, ..)| (*source, *start));
        if table.is_empty() {
            let tags = suggest::list(&tags);
            self.fault(
                node.shown(),
                format!("`{name}` names nothing; expected one of {tags}"),
            );
        } else if let [_, .., (.., last)] = &known[..] {
            let names: Vec<&str> = known.iter().map(|(_, _, key, _)| *key).collect();
            let names = suggest::list(&names);
            let message = format!("`{name}` takes one of these, not several: {names}");
            self.fault(&last.key, message);
        }
    }

    /// Returns the end of a message about a choice that is none, which says what was probably meant.
    fn instead_of_choice(
        &self,
        forms: &[&'s Json],
        tags: &[&str],
        chosen: &str,
        table: &Table,
        name: &str,
    ) -> String {
        // Here `method.name = "fedrap"` was written for `method = "fedrap"`.
        if let Some(Value::String(text)) = table.get(chosen).map(|node| &node.value)
            && tags.contains(&text.as_str())
        {
            return format!("; did you mean `{name} = \"{text}\"`?");
        }
        if suggest::nearest(chosen, tags).is_none() {
            // In `method.lambda` for `method.fedrap.lambda`, the choice was left out.
            let owners = forms.iter().filter_map(|form| {
                let owner = tag(form)?;
                let has_key = self.has_key(property(form, owner)?, chosen);
                has_key.then_some(owner)
            });
            if let Some(owner) = owners.min_by_key(|owner| !table.contains_key(*owner)) {
                return format!("; did you mean `{name}.{owner}.{chosen}`?");
            }
        }
        suggest::instead_of(chosen, tags)
    }

    /// Checks an ordinary table: its keys must be known, and the required ones must be there.
    fn table(&self, schema: &'s Json, table: &Table, place: &Place, name: &str) {
        let open = schema
            .get("additionalProperties")
            .filter(|rule| **rule != Json::Bool(false));
        let known: Vec<&str> = keys_of(schema).map(|(key, _)| key.as_str()).collect();
        let mut suggested = Vec::new();
        // The faults that are shown, which are the first ones of the text, are the ones with
        // suggestions.
        let mut entries: Vec<(&String, &Node)> = table.iter().collect();
        entries.sort_by_key(|(_, node)| (node.key.source, node.key.span.start));
        for (key, node) in entries {
            if let Some(of_key) = property(schema, key).or(open) {
                self.value(of_key, node, key);
                continue;
            }
            if !self.may_suggest() {
                self.fault(&node.key, format!("unknown key `{key}`"));
                continue;
            }
            if let Some(new) = migrate::new_name(name, key) {
                self.fault(&node.key, self.instead_of_moved(name, key, new));
                continue;
            }
            let nearest = suggest::nearest(key, &known);
            suggested.extend(nearest);
            let elsewhere = match nearest {
                Some(_) => None,
                None => {
                    let home = self.home_of(key);
                    let home = home.map(|home| format!(" here; it belongs {home}"));
                    let choice = || self.as_a_choice(key, schema);
                    home.or_else(|| Some(format!("; did you mean `{}`?", choice()?)))
                }
            };
            let advice = elsewhere.unwrap_or_else(|| suggest::instead_of(key, &known));
            self.fault(&node.key, format!("unknown key `{key}`{advice}"));
        }
        // A misspelt required key is one mistake, not an unknown key and a missing one.
        for key in required(schema) {
            if !table.contains_key(key) && !suggested.contains(&key) {
                self.fault(place, self.missing(key, property(schema, key), place, name));
            }
        }
    }

    fn missing(&self, key: &str, property: Option<&'s Json>, table: &Place, name: &str) -> String {
        let forms = property.map_or(Vec::new(), |property| self.forms(property));
        let choices = match &choices(&forms)[..] {
            [] => String::new(),
            choices => format!("; known: {}", suggest::list(choices)),
        };
        if *table != Place::FILE {
            return format!("missing key `{key}` in `{name}`{choices}");
        }
        match forms.as_slice() {
            [form] if has_type(form, "object") => {
                let needed = suggest::list(&required(form).collect::<Vec<_>>());
                format!("missing table `[{key}]`, which needs {needed}")
            }
            _ => format!("missing key `{key}`{choices}"),
        }
    }
}
