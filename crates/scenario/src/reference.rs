//! Lists every key of a scenario file with what may be written there, from the schema.

use serde::Serialize;
use serde_json::Value as Json;

use super::form::{has_word, is_tagged, keys_of, literals, tag};
use super::presets::in_toml;
use super::rules::Rules;
use super::suggest::nearest;

/// Describes a key of a scenario file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Key {
    /// The path, such as `training.mode.fedbuff.buffer`. A list's tables are written `faults[]`.
    pub path: String,
    /// What may be written there, in words, with its range.
    pub kind: String,
    /// The types of values in JSON's words, such as `number`.
    pub types: Vec<String>,
    /// The range of numbers.
    pub range: Range,
    /// The default as TOML; `None` if there is none, or if it depends on other keys.
    pub default: Option<String>,
    /// What the key does.
    pub description: String,
    /// The names that may be written there, with their meanings.
    pub choices: Vec<(String, String)>,
}

/// The numbers that a key may have, as the schema says it. There is no limit where nothing is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Range {
    /// The least number.
    pub minimum: Option<f64>,
    /// The number that all others are above.
    pub above: Option<f64>,
    /// The greatest number.
    pub maximum: Option<f64>,
    /// The number that all others are below.
    pub below: Option<f64>,
}

impl Range {
    /// Returns the range of a form. Limits of the types of integers say nothing to a reader.
    fn of(json: &Json) -> Self {
        let limit = |name: &str| json.get(name).and_then(Json::as_f64);
        let is_whole = json.get("type").and_then(Json::as_str) == Some("integer");
        Self {
            minimum: limit("minimum"),
            above: limit("exclusiveMinimum"),
            maximum: limit("maximum").filter(|limit| !is_whole || *limit < 4e9),
            below: limit("exclusiveMaximum"),
        }
    }
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
    let mut walk = Walk {
        rules: Rules::new(schema),
        keys: Vec::new(),
        within: Vec::new(),
    };
    walk.below(schema, "");
    walk.keys
}

/// Returns the keys that `asked` may mean: the one of this path with all below it, else those of
/// this name wherever they are.
///
/// # Errors
/// The nearest name that there is, if there is one.
pub fn find<'k>(keys: &'k [Key], asked: &str) -> Result<Vec<&'k Key>, Option<&'k str>> {
    let below = format!("{asked}.");
    let in_list = format!("{asked}[]");
    let by_path = |key: &&Key| {
        key.path == asked || key.path.starts_with(&below) || key.path.starts_with(&in_list)
    };
    let mut found: Vec<&Key> = keys.iter().filter(by_path).collect();
    if found.is_empty() {
        let end = format!(".{asked}");
        let by_name = |key: &&Key| key.path == asked || key.path.ends_with(&end);
        found = keys.iter().filter(by_name).collect();
    }
    if found.is_empty() {
        let names = keys.iter().flat_map(|key| [key.path.as_str(), key.name()]);
        return Err(nearest(asked, &names.collect::<Vec<_>>()));
    }
    Ok(found)
}

struct Walk<'a> {
    rules: Rules<'a>,
    keys: Vec<Key>,
    /// The tables that are being described, so that one that refers to itself ends.
    within: Vec<&'a Json>,
}

impl<'a> Walk<'a> {
    /// Lists a key and those below it.
    fn key(&mut self, key: &'a Json, path: &str) {
        let forms = self.rules.forms(key);
        let described = |json: &Json| Some(json.get("description")?.as_str()?.to_owned());
        let tables: Vec<&str> = forms
            .iter()
            .filter_map(|choice| tag(choice).filter(|_| forms.len() > 1))
            .collect();
        let mut choices = Vec::new();
        let (mut kinds, mut types, mut range) = (Vec::new(), Vec::new(), Range::default());
        for form in &forms {
            if let Some(kind) = form.get("type").and_then(Json::as_str) {
                types.push(kind.to_owned());
            }
            if range == Range::default() {
                range = Range::of(form);
            }
            let mut meaning = described(form).unwrap_or_default();
            match (&literals(form)[..], tag(form)) {
                ([_, ..], _) => {
                    for name in literals(form) {
                        if tables.contains(&name) {
                            meaning.push_str(" Or a table of its keys.");
                        }
                        choices.push((format!("\"{name}\""), meaning.clone()));
                    }
                }
                ([], Some(tag)) if forms.len() > 1 => {
                    if !has_word(&forms, tag) {
                        choices.push((format!("{{ {tag} = ... }}"), meaning));
                    }
                }
                ([], _) => kinds.extend(kind_of(form)),
            }
        }
        kinds.dedup();
        types.dedup();
        if !choices.is_empty() {
            kinds.insert(0, "one of the names below".to_owned());
        }
        let default = key.get("default").and_then(|default| match default {
            Json::Null => None,
            // A choice is named, and its keys have defaults of their own.
            Json::Object(table) => {
                let name = table.keys().find(|name| tables.contains(&name.as_str()))?;
                Some(format!("\"{name}\""))
            }
            value => Some(in_toml(value)),
        });
        self.keys.push(Key {
            path: path.to_owned(),
            kind: kinds.join(", or "),
            types,
            range,
            default,
            description: described(key)
                .or_else(|| described(self.rules.target(key)))
                .unwrap_or_default(),
            choices,
        });
        self.below(key, path);
    }

    /// Lists the keys of a table, of the tables of a list, or of those that a choice may have.
    fn below(&mut self, json: &'a Json, path: &str) {
        let forms = self.rules.forms(json);
        for table in &forms {
            if self.within.iter().any(|outer| std::ptr::eq(*outer, *table)) {
                continue;
            }
            self.within.push(table);
            for (name, key) in keys_of(table) {
                let path = match path {
                    "" => name.clone(),
                    path => format!("{path}.{name}"),
                };
                if is_tagged(table, &forms) {
                    self.below(key, &path);
                } else {
                    self.key(key, &path);
                }
            }
            if let Some(items) = table.get("items") {
                self.below(items, &format!("{path}[]"));
            }
            self.within.pop();
        }
    }
}

/// Returns in words what a form allows.
fn kind_of(json: &Json) -> Option<String> {
    let range = Range::of(json);
    let kind = match json.get("type")?.as_str()? {
        "boolean" => return Some("true or false".to_owned()),
        "string" => return Some("a text".to_owned()),
        "array" => return Some("a list".to_owned()),
        "object" => return Some("a table".to_owned()),
        "integer" => "an integer",
        _ => "a number",
    };
    let words = |word: &str, limit: Option<f64>| Some(format!("{word} {}", plain(limit?)));
    let low = words("above", range.above).or_else(|| words("from", range.minimum));
    let high = words("below", range.below).or_else(|| words("to", range.maximum));
    let words = [Some(kind.to_owned()), low, high].into_iter().flatten();
    Some(words.collect::<Vec<_>>().join(" "))
}

/// Returns a number as a person writes it: large ones by their power of ten.
fn plain(number: f64) -> String {
    if number.abs() >= 1e7 {
        format!("{number:e}")
    } else {
        format!("{number}")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeSet;

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
