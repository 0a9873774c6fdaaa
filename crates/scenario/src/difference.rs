//! Names the keys that differ between two scenarios.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

/// A key that has not the same value in two scenarios.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The key with its tables, such as `training.rounds`.
    pub key: String,
    /// The values in the two scenarios; `None` where a scenario does not have the key.
    pub values: [Option<Value>; 2],
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [one, other] = self.values.each_ref().map(|value| match value {
            Some(value) => value.to_string(),
            None => "absent".to_owned(),
        });
        write!(out, "{}: {one} and {other}", self.key)
    }
}

/// Returns the keys that differ between two resolved scenarios, in the order of their names. Lists
/// are compared as wholes. Any two tables can be compared in this way.
pub fn differences(one: &Value, other: &Value) -> Vec<Difference> {
    let [one, other] = [one, other].map(|table| {
        let mut keys = Vec::new();
        flatten(table, "", &mut keys);
        keys.into_iter().collect::<BTreeMap<_, _>>()
    });
    let keys: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    keys.into_iter()
        .filter(|key| one.get(*key) != other.get(*key))
        .map(|key| Difference {
            key: key.clone(),
            values: [one.get(key).cloned(), other.get(key).cloned()],
        })
        .collect()
}

/// Lists the keys of a table and of the tables in it, by their paths below `path`.
pub(super) fn flatten(value: &Value, path: &str, keys: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(table) if !table.is_empty() => {
            for (name, value) in table {
                let path = match path {
                    "" => name.clone(),
                    path => format!("{path}.{name}"),
                };
                flatten(value, &path, keys);
            }
        }
        _ => keys.push((path.to_owned(), value.clone())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_key_that_differs_is_named_once_with_both_values() {
        let one = json!({ "seed": 1, "method": { "fedmf": { "k": 8 } }, "faults": [1, 2], "same": { "x": 1.5 } });
        let other = json!({ "seed": 2, "method": { "fedrap": {} }, "faults": [1, 3], "same": { "x": 1.5 } });
        let told: Vec<String> = differences(&one, &other)
            .iter()
            .map(ToString::to_string)
            .collect();
        let expected = [
            "faults: [1,2] and [1,3]",
            "method.fedmf.k: 8 and absent",
            "method.fedrap: absent and {}",
        ];
        assert_eq!(told, [&expected[..], &["seed: 1 and 2"]].concat());
        assert_eq!(differences(&one, &one), []);
    }
}
