//! The schema of scenario files, which holds the rules of single keys.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value as Json, json};

use super::form::{has_type, property, required, tag};
use super::keys::{Scenario, without_nulls};
use super::rules::{KEYWORDS, Rules};
use super::vocabulary::MethodVocabulary;

/// Returns the JSON schema of scenario files, with the parameters of every method in `vocabulary`.
pub fn schema(vocabulary: &[MethodVocabulary]) -> Json {
    let mut root = Json::from(
        SchemaSettings::draft2020_12()
            .into_generator()
            .into_root_schema_for::<Scenario>(),
    );
    let mut definitions = Map::new();
    let mut choices = Vec::new();
    for method in vocabulary {
        let mut parameters = Json::from(method.schema.clone());
        if let Json::Object(object) = &mut parameters {
            object.shift_remove("$schema");
            object.shift_remove("title");
            // Two methods may have types of one name, so the method's name is put before those of
            // its definitions.
            for (name, definition) in take_object(object, "$defs") {
                definitions.insert(
                    format!("{}.{name}", method.name),
                    qualified(definition, method.name),
                );
            }
        }
        let parameters = qualified(parameters, method.name);
        let description = parameters
            .get("description")
            .cloned()
            .unwrap_or_else(|| method.name.into());
        choices.push(json!({
            "type": "object",
            "properties": { method.name: parameters },
            "required": [method.name],
            "additionalProperties": false,
            "description": description,
        }));
    }
    definitions.insert("Method".to_owned(), json!({
        "description": "The method: a table of its parameters (`[method.NAME]`), or its name alone for the defaults.",
        "oneOf": choices,
    }));
    if let Json::Object(object) = &mut root {
        let mut all = take_object(object, "$defs");
        all.extend(definitions);
        object.insert("title".to_owned(), "fedrecsim scenario".into());
        object.insert("$defs".to_owned(), Json::Object(all));
    }
    each_object(&mut root, &mut |object| {
        state_bounds_of_format(object);
        drop_null(object);
        drop_needless(object);
        unwrap_lines(object);
    });
    let rules = root.clone();
    each_object(&mut root, &mut |object| {
        name_alone(object, &Rules::new(&rules))
    });
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
    found.extend(
        object
            .keys()
            .filter(|key| !KEYWORDS.contains(&key.as_str()))
            .map(|key| format!("{place}/{key}")),
    );
    if ["$ref", "oneOf", "anyOf"]
        .iter()
        .any(|key| object.contains_key(*key))
    {
        // These keywords hand the value on to other schemas, and a rule beside them would not be
        // checked.
        const PASSED_OVER: [&str; 7] = [
            "type",
            "minimum",
            "maximum",
            "properties",
            "required",
            "items",
            "enum",
        ];
        found.extend(
            PASSED_OVER
                .iter()
                .filter(|key| object.contains_key(**key))
                .map(|key| format!("{place}/{key}")),
        );
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
                members.iter().for_each(|(name, member)| {
                    find_unchecked(rules, member, &format!("{place}/{name}"), found)
                });
            }
            ("oneOf" | "anyOf", Json::Array(members)) => {
                members
                    .iter()
                    .for_each(|member| find_unchecked(rules, member, &place, found));
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

fn take_object(object: &mut Map<String, Json>, key: &str) -> Map<String, Json> {
    match object.shift_remove(key) {
        Some(Json::Object(inner)) => inner,
        _ => Map::new(),
    }
}

/// Returns `schema` with its references pointing at the definitions of `method`.
fn qualified(mut schema: Json, method: &str) -> Json {
    each_object(&mut schema, &mut |object| {
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
    let has_default = |key: &Json| {
        let property = object.get("properties")?.get(key.as_str()?)?;
        property.get("default")
    };
    let required = object.get("required").and_then(Json::as_array);
    let needed: Option<Vec<Json>> = required.map(|keys| {
        let keys = keys.iter().filter(|key| has_default(key).is_none());
        keys.cloned().collect()
    });
    match needed {
        Some(keys) if keys.is_empty() => drop(object.shift_remove("required")),
        Some(keys) => drop(object.insert("required".to_owned(), keys.into())),
        None => {}
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
        let paragraphs: Vec<String> = text
            .split("\n\n")
            .map(|paragraph| paragraph.replace('\n', " "))
            .collect();
        *text = paragraphs.join("\n\n");
    }
}

fn each_object(json: &mut Json, change: &mut impl FnMut(&mut Map<String, Json>)) {
    match json {
        Json::Object(object) => {
            change(object);
            object
                .values_mut()
                .for_each(|inner| each_object(inner, change));
        }
        Json::Array(items) => items
            .iter_mut()
            .for_each(|inner| each_object(inner, change)),
        _ => {}
    }
}
