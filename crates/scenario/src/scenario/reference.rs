//! Lists every key of a scenario file with what may be written there, from the schema.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use super::suggest::nearest;

/// Describes a key of a scenario file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The path, such as `training.mode.fedbuff.buffer`. A list's tables are written `faults[]`.
    pub path: String,
    /// What may be written there, in words, with its range.
    pub kind: String,
    /// The default as TOML; `None` if there is none, or if it depends on other keys.
    pub default: Option<String>,
    /// What the key does.
    pub description: String,
    /// The names that may be written there, with their meanings.
    pub choices: Vec<(String, String)>,
}

/// Units by the ends of keys, the longer ones first.
const UNITS: &[(&str, &str)] = &[
    ("_mbit_per_s", "megabits a second"),
    ("_ns_per_row_visit", "nanoseconds a row visit"),
    ("_multiply_adds_per_s", "multiply-adds a second"),
    ("_per_s", "a second"),
    ("_per_day", "a day"),
    ("_joules", "joules"),
    ("_watt", "watts"),
    ("_bytes", "bytes"),
    ("_hours", "hours"),
    ("_h", "hours"),
    ("_mb", "megabytes"),
    ("_ms", "milliseconds"),
    ("_ns", "nanoseconds"),
    ("_s", "seconds"),
];

impl Key {
    /// Returns the unit in words that the end of the name states, if it does.
    pub fn unit(&self) -> Option<&'static str> {
        UNITS
            .iter()
            .find(|(end, _)| self.path.ends_with(end))
            .map(|(_, words)| *words)
    }

    /// Returns the last part of the path.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('.').next().unwrap_or(&self.path)
    }
}

/// Returns every key that `schema` allows, section after section in the order of the schema.
pub fn keys(schema: &Json) -> Vec<Key> {
    let mut keys = Vec::new();
    Walk {
        schema,
        keys: &mut keys,
        within: BTreeSet::new(),
    }
    .properties(schema, "");
    keys
}

/// Returns the keys that `asked` may mean: the one of this path with all below it, else those of
/// this name wherever they are.
///
/// # Errors
/// The nearest name that there is, if there is one.
pub fn find<'k>(keys: &'k [Key], asked: &str) -> Result<Vec<&'k Key>, Option<&'k str>> {
    let below = format!("{asked}.");
    let in_list = format!("{asked}[]");
    let is_meant = |key: &&Key| {
        key.path == asked || key.path.starts_with(&below) || key.path.starts_with(&in_list)
    };
    let by_path: Vec<&Key> = keys.iter().filter(is_meant).collect();
    if !by_path.is_empty() {
        return Ok(by_path);
    }
    let end = format!(".{asked}");
    let by_name: Vec<&Key> = keys
        .iter()
        .filter(|key| key.name() == asked || key.path.ends_with(&end))
        .collect();
    if !by_name.is_empty() {
        return Ok(by_name);
    }
    let names: Vec<&str> = keys
        .iter()
        .flat_map(|key| [key.path.as_str(), key.name()])
        .collect();
    Err(nearest(asked, &names))
}

struct Walk<'a> {
    schema: &'a Json,
    keys: &'a mut Vec<Key>,
    /// The definitions that are being described, so that one that refers to itself ends.
    within: BTreeSet<String>,
}

impl<'a> Walk<'a> {
    /// Lists the keys of a table.
    fn properties(&mut self, table: &'a Json, path: &str) {
        for (name, key) in table
            .get("properties")
            .and_then(Json::as_object)
            .into_iter()
            .flatten()
        {
            let path = if path.is_empty() {
                name.clone()
            } else {
                format!("{path}.{name}")
            };
            self.key(key, &path);
        }
    }

    /// Lists a key and those below it.
    fn key(&mut self, key: &'a Json, path: &str) {
        let alternatives = tagged(self.alternatives(key));
        let described = |json: &Json| {
            json.get("description")
                .and_then(Json::as_str)
                .map(str::to_owned)
        };
        let description = described(key)
            .or_else(|| described(self.target(key)))
            .unwrap_or_default();
        let choices: Vec<(String, String)> = alternatives
            .iter()
            .filter_map(|(choice, tag)| {
                let name = choice
                    .get("const")
                    .and_then(Json::as_str)
                    .map(|name| format!("\"{name}\""));
                let table = || Some(format!("{{ {} = ... }}", (*tag)?));
                Some((name.or_else(table)?, described(choice).unwrap_or_default()))
            })
            .collect();
        let is_named_too = |choice: &str| {
            let name = choice
                .strip_prefix("{ ")
                .and_then(|choice| choice.split(' ').next())
                .unwrap_or_default();
            choices
                .iter()
                .any(|(other, _)| *other == format!("\"{name}\""))
        };
        let (tables, mut choices): (Vec<_>, Vec<_>) = choices
            .iter()
            .cloned()
            .partition(|(choice, _)| is_named_too(choice));
        for (choice, meaning) in &mut choices {
            if tables.iter().any(|(table, _)| {
                *choice == format!("\"{}\"", table[2..].split(' ').next().unwrap_or(""))
            }) {
                meaning.push_str(" Or a table of its keys.");
            }
        }
        let mut kinds: Vec<String> = Vec::new();
        for (alternative, tag) in &alternatives {
            if alternative.get("const").is_none() && tag.is_none() {
                kinds.extend(kind_of(alternative));
            }
        }
        kinds.dedup();
        if !choices.is_empty() {
            kinds.insert(0, "one of the names below".to_owned());
        }
        let default = key
            .get("default")
            .filter(|default| !default.is_null() && !default.is_object())
            .map(toml_of);
        self.keys.push(Key {
            path: path.to_owned(),
            kind: kinds.join(", or "),
            default,
            description,
            choices,
        });
        for (alternative, tag) in alternatives {
            match tag {
                Some(tag) => {
                    let inner = &alternative["properties"][tag];
                    let inner_path = format!("{path}.{tag}");
                    self.below(inner, &inner_path);
                }
                None => self.below(alternative, path),
            }
        }
    }

    /// Lists the keys of a table or of a list's tables.
    fn below(&mut self, json: &'a Json, path: &str) {
        let name = json.get("$ref").and_then(Json::as_str).map(str::to_owned);
        if let Some(name) = &name
            && !self.within.insert(name.clone())
        {
            return;
        }
        let target = self.target(json);
        self.properties(target, path);
        if target.get("properties").is_none()
            && target.get("type").and_then(Json::as_str) != Some("array")
            && name.is_some()
        {
            for (alternative, tag) in tagged(self.alternatives(target)) {
                if let Some(tag) = tag {
                    self.below(&alternative["properties"][tag], &format!("{path}.{tag}"));
                }
            }
        }
        if let Some(items) = target.get("items") {
            self.below(items, &format!("{path}[]"));
        }
        if let Some(name) = name {
            self.within.remove(&name);
        }
    }

    /// Returns what a schema refers to, or itself.
    fn target(&self, json: &'a Json) -> &'a Json {
        let reference = json
            .get("$ref")
            .and_then(Json::as_str)
            .and_then(|reference| reference.strip_prefix('#'));
        reference
            .and_then(|path| self.schema.pointer(path))
            .unwrap_or(json)
    }

    /// Returns the alternatives of a schema, or itself if it has none.
    fn alternatives(&self, json: &'a Json) -> Vec<&'a Json> {
        let target = self.target(json);
        let listed = ["oneOf", "anyOf"]
            .iter()
            .find_map(|name| target.get(name).and_then(Json::as_array));
        match listed {
            Some(listed) => listed
                .iter()
                .flat_map(|alternative| self.alternatives(alternative))
                .collect(),
            None => vec![target],
        }
    }
}

/// Returns alternatives with the tags of those that are variants of a choice. Where there is
/// nothing to choose from, a table of one key that is required is a table like any other.
fn tagged(alternatives: Vec<&Json>) -> Vec<(&Json, Option<&str>)> {
    let is_choice = alternatives.len() > 1;
    let tag = |alternative| if is_choice { tag_of(alternative) } else { None };
    alternatives
        .into_iter()
        .map(|alternative| (alternative, tag(alternative)))
        .collect()
}

/// Returns the only key of an alternative that is a table of one key, such as `{ cohort = ... }`.
fn tag_of(alternative: &Json) -> Option<&str> {
    let required = alternative.get("required")?.as_array()?;
    let properties = alternative.get("properties")?.as_object()?;
    match (&required[..], properties.len()) {
        ([tag], 1) => tag.as_str(),
        _ => None,
    }
}

/// Returns in words what a schema without alternatives allows.
fn kind_of(json: &Json) -> Option<String> {
    let limit = |name: &str| json.get(name).and_then(Json::as_f64);
    let kind = match json.get("type")?.as_str()? {
        "boolean" => return Some("true or false".to_owned()),
        "string" => return Some("a text".to_owned()),
        "array" => return Some("a list".to_owned()),
        "object" => return Some("a table".to_owned()),
        "integer" => "an integer",
        _ => "a number",
    };
    let above = limit("exclusiveMinimum").map(|limit| format!("above {}", plain(limit)));
    let low = above.or_else(|| limit("minimum").map(|limit| format!("from {}", plain(limit))));
    let below = limit("exclusiveMaximum").map(|limit| format!("below {}", plain(limit)));
    // Limits of the types of integers say nothing to a reader.
    let stated = limit("maximum").filter(|limit| kind == "a number" || *limit < 4e9);
    let high = below.or_else(|| stated.map(|limit| format!("to {}", plain(limit))));
    Some(
        [Some(kind.to_owned()), low, high]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(" "),
    )
}

/// Returns a number as a person writes it: large ones by their power of ten.
fn plain(number: f64) -> String {
    if number.abs() >= 1e7 {
        format!("{number:e}")
    } else {
        format!("{number}")
    }
}

/// Returns a value as TOML writes it.
fn toml_of(value: &Json) -> String {
    match value {
        Json::Array(values) => format!(
            "[{}]",
            values.iter().map(toml_of).collect::<Vec<_>>().join(", ")
        ),
        Json::Object(table) => {
            let entries: Vec<String> = table
                .iter()
                .map(|(key, value)| format!("{key} = {}", toml_of(value)))
                .collect();
            format!("{{ {} }}", entries.join(", "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn schema() -> Json {
        json!({
            "properties": {
                "seed": { "type": "integer", "minimum": 0, "maximum": 9e18, "default": 1, "description": "The seed." },
                "mode": { "$ref": "#/$defs/Mode", "default": "still" },
                "noise": { "anyOf": [{ "$ref": "#/$defs/Noise" }], "description": "Noise." },
                "faults": { "type": "array", "items": { "$ref": "#/$defs/Fault" }, "description": "Rules." },
            },
            "$defs": {
                "Mode": { "description": "The mode.", "oneOf": [
                    { "type": "string", "const": "still", "description": "Nothing moves." },
                    { "type": "object", "required": ["moving"], "description": "All moves.",
                      "properties": { "moving": { "$ref": "#/$defs/Moving" } } },
                ] },
                "Moving": { "type": "object", "properties": {
                    "wait_s": { "type": "number", "exclusiveMinimum": 0, "maximum": 1e9, "description": "How long." },
                } },
                "Noise": { "type": "object", "required": ["scale"], "properties": {
                    "scale": { "type": "number", "minimum": 0, "description": "How much." },
                } },
                "Fault": { "type": "object", "properties": { "users": { "type": "boolean", "description": "Who." } } },
            },
        })
    }

    /// If this fails, the reference leaves out a key that a scenario may have.
    #[test]
    fn every_key_is_listed_with_what_may_be_written_there() {
        let keys = keys(&schema());
        let paths: BTreeSet<&str> = keys.iter().map(|key| key.path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "faults",
                "faults[].users",
                "mode",
                "mode.moving.wait_s",
                "noise",
                "noise.scale",
                "seed"
            ]
            .into()
        );
        let key = |path: &str| keys.iter().find(|key| key.path == path).unwrap();
        assert_eq!(key("seed").kind, "an integer from 0");
        assert_eq!(key("seed").default.as_deref(), Some("1"));
        assert_eq!(key("mode").description, "The mode.");
        assert_eq!(key("mode").choices.len(), 2);
        // A table that needs one key is no choice between tables.
        assert!(
            key("noise").choices.is_empty() && key("noise").kind == "a table",
            "{:?}",
            key("noise")
        );
        assert_eq!(key("noise.scale").kind, "a number from 0");
        assert_eq!(key("mode.moving.wait_s").kind, "a number above 0 to 1e9");
        assert_eq!(key("mode.moving.wait_s").unit(), Some("seconds"));
    }

    #[test]
    fn keys_are_found_by_path_by_name_or_nearly() {
        let keys = keys(&schema());
        let found = |asked: &str| {
            find(&keys, asked).map(|keys| keys.iter().map(|key| key.name()).collect::<Vec<_>>())
        };
        assert_eq!(found("mode").unwrap(), ["mode", "wait_s"]);
        assert_eq!(found("wait_s").unwrap(), ["wait_s"]);
        assert_eq!(found("wiat_s").unwrap_err(), Some("wait_s"));
        assert_eq!(found("nothing like it").unwrap_err(), None);
    }
}
