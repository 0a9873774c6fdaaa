//! Suggests how to write what a wrong value or key was probably meant to be.

use serde_json::Value as Json;

use super::super::plain_schema::{admits, literals, required, tag, types};
use super::super::suggest;
use super::super::tree::Value;
use super::Rules;

impl<'s> Rules<'s> {
    /// Returns the end of a message about a value of a wrong type, which says how to write what was
    /// probably meant.
    pub(super) fn instead_of_value(
        &self,
        alternatives: &[&'s Json],
        value: &Value,
        name: &str,
    ) -> String {
        let admits = |wanted: &str| {
            alternatives
                .iter()
                .any(|plain_schema| types(plain_schema).any(|t| t == wanted))
        };
        match value {
            // In `network = "lan"`, the text is the value of one key of the table.
            Value::String(text) => {
                let tables = alternatives
                    .iter()
                    .filter_map(|plain_schema| plain_schema.get("properties")?.as_object());
                let takes = |schema: &'s Json| {
                    self.alternatives(schema)
                        .iter()
                        .any(|plain_schema| literals(plain_schema).contains(&text.as_str()))
                };
                let key = tables
                    .flatten()
                    .find(|(_, schema)| takes(schema))
                    .map(|(key, _)| key);
                match (key, self.only_key(alternatives, value)) {
                    (Some(key), _) => format!("; did you mean `{name}.{key} = \"{text}\"`?"),
                    // In `trace = "a.csv"`, the text is the value of the only required key.
                    (None, Some(key)) => format!("; write `{name} = {{ {key} = \"{text}\" }}`"),
                    (None, None) => String::new(),
                }
            }
            Value::Array(items)
                if admits("object")
                    && !items.is_empty()
                    && items
                        .iter()
                        .all(|item| matches!(item.value, Value::Table(_))) =>
            {
                format!("; write `[{name}]` for `[[{name}]]`")
            }
            Value::Table(_)
                if alternatives
                    .iter()
                    .any(|plain_schema| self.lists_tables(plain_schema)) =>
            {
                "; write its header in double brackets (`[[`)".to_owned()
            }
            Value::Float(number)
                if admits("integer") && number.fract() == 0.0 && number.abs() < 1e15 =>
            {
                format!("; write `{number}`")
            }
            Value::Integer(_) => {
                let takers = self.takers(alternatives, value);
                let only = self
                    .only_key(alternatives, value)
                    .filter(|_| takers.is_empty());
                let tag = if let [tag] = takers[..] {
                    Some(tag)
                } else {
                    only
                };
                tag.map_or(String::new(), |tag| {
                    format!("; write `{name} = {{ {tag} = {} }}`", in_short(value))
                })
            }
            // In `participation = 0.5`, the number is the value of one of the choices that could
            // take it. In `users = [3, 4]`, the list is that of one that takes a list of such
            // items.
            Value::Float(_) | Value::Array(_) => {
                let written = |tag: &&str| format!("`{name} = {{ {tag} = {} }}`", in_short(value));
                let choices: Vec<String> = self
                    .takers(alternatives, value)
                    .iter()
                    .map(written)
                    .collect();
                if choices.is_empty() {
                    String::new()
                } else {
                    format!("; write {}", suggest::or_list(&choices))
                }
            }
            _ => String::new(),
        }
    }

    fn lists_tables(&self, plain_schema: &'s Json) -> bool {
        plain_schema.get("items").is_some_and(|schema| {
            let mut items = self.alternatives(schema).into_iter();
            items.any(|item| types(item).any(|t| t == "object"))
        })
    }

    /// Returns the key of the only table among the alternatives, if that table requires no other
    /// key and the key takes any value of this type.
    fn only_key(&self, alternatives: &[&'s Json], value: &Value) -> Option<&'s str> {
        let mut tables = alternatives
            .iter()
            .filter(|plain_schema| types(plain_schema).any(|t| t == "object"));
        let (table, None) = (tables.next()?, tables.next()) else {
            return None;
        };
        let mut keys = required(table);
        let (key, None) = (keys.next()?, keys.next()) else {
            return None;
        };
        let takes = |schema: &&Json| admits(schema, value) && literals(schema).is_empty();
        self.alternatives(table.get("properties")?.get(key)?)
            .iter()
            .any(takes)
            .then_some(key)
    }

    /// Returns the choices whose tables could hold `value` behind their names.
    fn takers(&self, alternatives: &[&'s Json], value: &Value) -> Vec<&'s str> {
        let takes = |plain_schema: &'s Json| {
            let tag = tag(plain_schema).filter(|_| alternatives.len() > 1)?;
            self.alternatives(plain_schema.get("properties")?.get(tag)?)
                .iter()
                .any(|plain_schema| {
                    admits(plain_schema, value) && self.takes_items(plain_schema, value)
                })
                .then_some(tag)
        };
        alternatives
            .iter()
            .filter_map(|plain_schema| takes(plain_schema))
            .collect()
    }

    /// Returns whether a list may have the first item of `value`; true if that is no list, or an
    /// empty one.
    fn takes_items(&self, plain_schema: &'s Json, value: &Value) -> bool {
        let (Value::Array(items), Some(schema)) = (value, plain_schema.get("items")) else {
            return true;
        };
        let of_items = self.alternatives(schema);
        items.first().is_none_or(|item| {
            of_items
                .iter()
                .any(|plain_schema| admits(plain_schema, &item.value))
        })
    }

    /// Returns how to write `key` if it is not a key but a choice of one of `properties`:
    /// `effect = "drop"` for `drop`.
    pub(super) fn as_a_choice(
        &self,
        key: &str,
        properties: &'s serde_json::Map<String, Json>,
    ) -> Option<String> {
        properties.iter().find_map(|(owner, schema)| {
            let choices = self.alternatives(schema);
            let chosen =
                |plain_schema: &&&Json| tag(plain_schema) == Some(key) && choices.len() > 1;
            match choices.iter().find(chosen) {
                Some(plain_schema) => Some(format!(
                    "{owner} = {{ {key} = {} }}",
                    self.least_value(plain_schema, key)
                )),
                None => choices
                    .iter()
                    .any(|plain_schema| literals(plain_schema).contains(&key))
                    .then(|| format!("{owner} = \"{key}\"")),
            }
        })
    }

    /// Returns what has to stand behind the key of a tagged alternative: its required keys, if it
    /// is a table.
    pub(super) fn least_value(&self, plain_schema: &'s Json, tag: &str) -> String {
        let property = plain_schema
            .get("properties")
            .and_then(|properties| properties.get(tag));
        let alternatives = property.map_or(Vec::new(), |property| self.alternatives(property));
        match alternatives.as_slice() {
            [table] if types(table).any(|t| t == "object") => {
                let keys: Vec<String> = required(table).map(|key| format!("{key} = ...")).collect();
                if keys.is_empty() {
                    "{}".to_owned()
                } else {
                    format!("{{ {} }}", keys.join(", "))
                }
            }
            _ => "...".to_owned(),
        }
    }

    /// Returns whether `key` is a key of the table that `schema` describes.
    pub(super) fn has_key(&self, schema: &'s Json, key: &str) -> bool {
        self.alternatives(schema).iter().any(|plain_schema| {
            plain_schema
                .get("properties")
                .is_some_and(|known| known.get(key).is_some())
        })
    }

    /// Returns in words where in the file the key `key` is known, if that is in few places. In TOML
    /// a key that is written below a `[table]` belongs to that table, which is easily forgotten.
    pub(super) fn home_of(&self, key: &str) -> Option<String> {
        let mut homes = Vec::new();
        self.find_homes(self.root, "", key, &mut homes);
        match homes.as_slice() {
            [top] if top.is_empty() => {
                Some("at the top of the file, above the first `[table]`".to_owned())
            }
            [] | [_, _, _, _, _, ..] => None,
            homes => {
                let homes: Vec<String> = homes.iter().map(|home| format!("`[{home}]`")).collect();
                Some(format!("to {}", suggest::or_list(&homes)))
            }
        }
    }

    fn find_homes(&self, schema: &'s Json, path: &str, key: &str, homes: &mut Vec<String>) {
        for plain_schema in self.alternatives(schema) {
            let Some(properties) = plain_schema.get("properties").and_then(Json::as_object) else {
                continue;
            };
            if properties.contains_key(key) {
                homes.push(path.to_owned());
            }
            // This depth is enough for every table that people write; a schema may refer to itself.
            if path.matches('.').count() >= 3 {
                continue;
            }
            for (name, property) in properties {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                self.find_homes(property, &path, key, homes);
            }
        }
    }
}

/// Returns a value as it may be written, or its beginning and end if it is long.
fn in_short(value: &Value) -> String {
    match value {
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        _ => "[...]".to_owned(),
    }
}
