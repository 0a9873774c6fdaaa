//! The schema of scenario files, which holds the rules of single keys.

use std::sync::{Arc, Mutex, PoisonError};

use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use serde_json::{Map, Value as Json, json};

use super::form::{has_type, property, required, tag};
use super::keys::{Scenario, without_nulls};
use super::rules::{KEYWORDS, Rules};
use super::vocabulary::MethodVocabulary;

/// A vocabulary's methods and their schemas, and the schema of scenario files that follows.
type Known = (Vec<(&'static str, Schema)>, Arc<Json>);

/// Returns [`schema`] of this vocabulary, which is made anew for another one than at the last call
/// alone. A study resolves thousands of scenarios by one vocabulary.
pub(crate) fn shared_schema(vocabulary: &[MethodVocabulary]) -> Arc<Json> {
    static LAST: Mutex<Option<Known>> = Mutex::new(None);
    // A thread that panics leaves nothing half written here.
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let is_of = |(methods, _): &&Known| {
        let same = |(known, method): (&(&str, Schema), &MethodVocabulary)| {
            (known.0, &known.1) == (method.name, &method.schema)
        };
        methods.len() == vocabulary.len() && methods.iter().zip(vocabulary).all(same)
    };
    if let Some((_, schema)) = last.as_ref().filter(is_of) {
        return Arc::clone(schema);
    }
    let methods = vocabulary
        .iter()
        .map(|method| (method.name, method.schema.clone()));
    let schema = Arc::new(schema(vocabulary));
    *last = Some((methods.collect(), Arc::clone(&schema)));
    schema
}

/// Returns the JSON schema of scenario files, with the parameters of every method in `vocabulary`.
pub fn schema(vocabulary: &[MethodVocabulary]) -> Json {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut root = Json::from(generator.into_root_schema_for::<Scenario>());
    let mut definitions = take_object(&mut root, "$defs");
    let mut choices = Vec::new();
    for method in vocabulary {
        let mut parameters = Json::from(method.schema.clone());
        // Two methods may have types of one name, so the method's name is put before those of its
        // definitions.
        for (name, definition) in take_object(&mut parameters, "$defs") {
            let name = format!("{}.{name}", method.name);
            definitions.insert(name, qualified(definition, method.name));
        }
        let mut parameters = qualified(parameters, method.name);
        if let Some(object) = parameters.as_object_mut() {
            object.shift_remove("$schema");
            object.shift_remove("title");
        }
        let description = parameters.get("description").cloned();
        choices.push(json!({
            "type": "object",
            "properties": { method.name: parameters },
            "required": [method.name],
            "additionalProperties": false,
            "description": description.unwrap_or_else(|| method.name.into()),
        }));
    }
    definitions.insert("Method".to_owned(), json!({
        "description": "The method: a table of its parameters (`[method.NAME]`), or its name alone for the defaults.",
        "oneOf": choices,
    }));
    root["title"] = "fedrecsim scenario".into();
    root["$defs"] = Json::Object(definitions);
    each_schema(&mut root, |object| {
        state_bounds_of_format(object);
        drop_null(object);
        drop_needless(object);
        unwrap_lines(object);
    });
    let rules = root.clone();
    each_schema(&mut root, |object| name_alone(object, &Rules::new(&rules)));
    root
}

/// Lets the name of a choice stand for its table, if that requires no key
/// (`mode = "over-selection"`).
fn name_alone(object: &mut Map<String, Json>, rules: &Rules<'_>) {
    let Some(Json::Array(choices)) = object.get_mut("oneOf") else {
        return;
    };
    let word = |choice: &Json| {
        let name = tag(choice)?;
        let tables = rules.forms(property(choice, name)?);
        let [table] = &tables[..] else { return None };
        let is_enough = has_type(table, "object") && required(table).next().is_none();
        let mut word = json!({ "type": "string", "const": name });
        if let Some(description) = choice.get("description") {
            word["description"] = description.clone();
        }
        is_enough.then_some(word)
    };
    *choices = choices
        .iter()
        .flat_map(|choice| [word(choice), Some(choice.clone())])
        .flatten()
        .collect();
}

/// Returns the places in the schema of `vocabulary` that state rules which scenario files are not
/// checked against; empty for a sound vocabulary.
pub fn unchecked_rules(vocabulary: &[MethodVocabulary]) -> Vec<String> {
    let root = schema(vocabulary);
    let mut found = Vec::new();
    find_unchecked(&Rules::new(&root), &root, "#", &mut found);
    found
}

fn find_unchecked<'s>(rules: &Rules<'s>, schema: &'s Json, place: &str, found: &mut Vec<String>) {
    let Some(object) = schema.as_object() else {
        return;
    };
    // These keywords hand the value on to other schemas, and a rule beside them would not be
    // checked.
    let hands_on = (["$ref", "oneOf", "anyOf"].iter()).any(|key| object.contains_key(*key));
    const PASSED_OVER: [&str; 7] = [
        "type",
        "minimum",
        "maximum",
        "properties",
        "required",
        "items",
        "enum",
    ];
    for key in object.keys().map(String::as_str) {
        if !KEYWORDS.contains(&key) || hands_on && PASSED_OVER.contains(&key) {
            found.push(format!("{place}/{key}"));
        }
    }
    if hands_on {
        let mut tables = rules.forms(schema);
        tables.retain(|form| form.get("type").is_some_and(|t| t == "object"));
        if tables.len() > 1 && tables.iter().any(|table| table.get("required").is_none()) {
            found.push(format!("{place}: several tables without a tag"));
        }
    }
    for (key, inner) in object {
        let place = format!("{place}/{key}");
        match (key.as_str(), inner) {
            ("properties" | "$defs", Json::Object(members)) => {
                for (name, member) in members {
                    find_unchecked(rules, member, &format!("{place}/{name}"), found);
                }
            }
            ("oneOf" | "anyOf", Json::Array(members)) => {
                for member in members {
                    find_unchecked(rules, member, &place, found);
                }
            }
            ("items" | "additionalProperties", _) => find_unchecked(rules, inner, &place, found),
            ("enum", Json::Array(literals)) if !literals.iter().all(Json::is_string) => {
                found.push(place)
            }
            ("const", literal) if !literal.is_string() => found.push(place),
            _ => {}
        }
    }
}

fn take_object(json: &mut Json, key: &str) -> Map<String, Json> {
    match json
        .as_object_mut()
        .and_then(|object| object.shift_remove(key))
    {
        Some(Json::Object(inner)) => inner,
        _ => Map::new(),
    }
}

/// Returns `schema` with its references pointing at the definitions of `method`.
fn qualified(mut schema: Json, method: &str) -> Json {
    each_schema(&mut schema, |object| {
        if let Some(Json::String(reference)) = object.get_mut("$ref")
            && let Some(name) = reference.strip_prefix("#/$defs/")
        {
            *reference = format!("#/$defs/{method}.{name}");
        }
    });
    schema
}

/// Adds the bounds of an integer's or a float's format as rules: schemars names only the width, and
/// JSON schema knows no rule but bounds.
fn state_bounds_of_format(object: &mut Map<String, Json>) {
    let bounds: (Json, Json) = match object.get("format").and_then(Json::as_str) {
        Some("uint32") => (0.into(), u32::MAX.into()),
        Some("int32") => (i32::MIN.into(), i32::MAX.into()),
        Some("uint64" | "uint") => (0.into(), i64::MAX.into()),
        Some("float") => (f64::from(f32::MIN).into(), f64::from(f32::MAX).into()),
        _ => return,
    };
    for (bound, exclusive, value) in [
        ("minimum", "exclusiveMinimum", bounds.0),
        ("maximum", "exclusiveMaximum", bounds.1),
    ] {
        if !object.contains_key(exclusive) {
            object.entry(bound).or_insert(value);
        }
    }
}

/// Removes the type of a choice, which its forms state, and keys with a default from those
/// that have to be written.
fn drop_needless(object: &mut Map<String, Json>) {
    if object.contains_key("oneOf") {
        object.shift_remove("type");
    }
    let properties = object.get("properties").cloned().unwrap_or_default();
    let default = |key: &Json| properties.get(key.as_str()?)?.get("default");
    if let Some(Json::Array(required)) = object.get_mut("required") {
        required.retain(|key| default(key).is_none());
        if required.is_empty() {
            object.shift_remove("required");
        }
    }
}

/// Removes null from the types and defaults of optional keys: TOML has no null, and such a key may
/// simply be absent.
fn drop_null(object: &mut Map<String, Json>) {
    if let Some(Json::Array(types)) = object.get_mut("type") {
        types.retain(|name| name != "null");
        if let [one] = types.as_slice() {
            let one = one.clone();
            object.insert("type".to_owned(), one);
        }
    }
    if let Some(Json::Array(choices)) = object.get_mut("anyOf") {
        choices.retain(|choice| choice.get("type").is_none_or(|name| name != "null"));
    }
    match object.get_mut("default") {
        Some(Json::Null) => drop(object.shift_remove("default")),
        Some(default) => *default = without_nulls(default.take()),
        None => {}
    }
}

/// Joins the lines of descriptions, which are doc comments and broken where the source code is;
/// only breaks between paragraphs have a meaning.
fn unwrap_lines(object: &mut Map<String, Json>) {
    if let Some(Json::String(text)) = object.get_mut("description") {
        let paragraphs = text.split("\n\n");
        let joined = paragraphs.map(|paragraph| paragraph.replace('\n', " "));
        *text = joined.collect::<Vec<_>>().join("\n\n");
    }
}

/// Changes a schema, and then those in it.
fn each_schema(json: &mut Json, mut change: impl FnMut(&mut Map<String, Json>)) {
    let own = |schema: &mut Schema| {
        schema.as_object_mut().into_iter().for_each(&mut change);
    };
    if let Ok(schema) = json.try_into() {
        RecursiveTransform(own).transform(schema);
    }
}
