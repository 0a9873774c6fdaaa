//! Holds what methods add to the scenario's language, and the schema of the whole language.
//!
//! This layer knows no method. Each registered one brings its name, the schema of its parameters
//! and a check for what a schema cannot say.

use std::fmt;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value as Json, json};

use super::keys::Scenario;
use super::plain_schema::{required, tag, types};
use super::rules::{KEYWORDS, Rules};
use super::sizes::{BlockSize, ProblemSize};
use super::traffic::TrafficOf;

/// Fills in what a method's parameters leave out, and returns the faults that a schema cannot
/// state.
pub type Resolve = dyn Fn(&mut Json) -> Vec<ParameterFault> + Send + Sync;

/// Returns the sizes of the largest blocks that a method makes with these parameters.
pub type SizesOf = dyn Fn(&Json, ProblemSize) -> Vec<BlockSize> + Send + Sync;

/// What scenario files have to know of a method.
#[derive(Clone)]
pub struct MethodVocabulary {
    /// Registered name of the method.
    pub name: &'static str,
    /// JSON schema of its table of parameters: an object without additional properties, as
    /// `schemars` derives it. Its defaults fill in what a file leaves out, so numbers with a
    /// fraction are better `f64` there: the default 0.1 of an `f32` would be written into every
    /// report as 0.10000000149011612.
    pub schema: schemars::Schema,
    /// Fills in defaults that depend on other parameters, so that a report shows what was really
    /// used, and returns the faults that the schema cannot state. The parameters obey the schema
    /// and have its defaults.
    pub resolve: &'static Resolve,
    /// Whether there is anything to train. Without training, keys that say how rounds are run have
    /// no meaning.
    pub trains: bool,
    /// Whether the method trains at the server, to which every user sends its ratings.
    pub runs_at_server: bool,
    /// Whether the server, or a third party as fast as the server, computes something that takes
    /// virtual time.
    pub server_computes: bool,
    /// Whether training draws negatives as `dataset.negatives` says.
    pub draws_negatives: bool,
    /// Why `training.aggregation` has no other value for the method than `method`; `None` if it has.
    pub without_controls: Option<&'static str>,
    /// Returns the sizes of the largest blocks that the method makes with these parameters.
    pub sizes: &'static SizesOf,
    /// Tells what the method exchanges with the server, by which the codecs of a scenario are
    /// checked.
    pub traffic: TrafficOf,
}

/// Shows the name.
impl fmt::Debug for MethodVocabulary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MethodVocabulary")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A fault in a method's parameters, or one of them that has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterFault {
    /// Whether the parameters cannot be used, or one of them has no effect.
    pub kind: ParameterFaultKind,
    /// Keys below the method's table; empty for a fault of the table as a whole.
    pub path: Vec<String>,
    /// What is wrong, as a sentence without a full stop.
    pub message: String,
}

impl ParameterFault {
    /// Returns the fault that `key` cannot be used as it is, because of what `message` says.
    pub fn wrong(key: &str, message: impl Into<String>) -> Self {
        Self {
            kind: ParameterFaultKind::Wrong,
            path: vec![key.to_owned()],
            message: message.into(),
        }
    }

    /// Returns the warning that `key` has no effect, because of what `because` says. The user is
    /// told only if the file has the key. It is for keys whose value is not the default, as a
    /// printed scenario has every key.
    pub fn without_effect(key: &str, because: &str) -> Self {
        let message = format!("`{key}` has no effect: {because}");
        Self {
            kind: ParameterFaultKind::WithoutEffect,
            path: vec![key.to_owned()],
            message,
        }
    }
}

/// What is wrong with a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterFaultKind {
    /// The parameters cannot be used.
    Wrong,
    /// Another parameter leaves this one without an effect, which the user is told.
    WithoutEffect,
}

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
        let tables = rules.alternatives(choice.get("properties")?.get(name)?);
        let [table] = &tables[..] else { return None };
        let is_enough = types(table).any(|t| t == "object") && required(table).next().is_none();
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
        let mut tables = rules.alternatives(schema);
        tables.retain(|plain_schema| plain_schema.get("type").is_some_and(|t| t == "object"));
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
    if object.get("default").is_some_and(Json::is_null) {
        object.shift_remove("default");
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
