//! Presets: named sets of keys that are put under those of a scenario file before it is read.
//!
//! They stand in `presets.toml`, each with the source of its numbers.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

use super::difference::flatten;

/// A named set of keys of one table.
#[derive(Clone, Debug, Deserialize)]
pub struct Preset {
    /// Name, as a scenario's `preset` key gives it.
    pub name: String,
    /// Where the numbers come from, and which of them nobody has measured.
    pub source: String,
    keys: Map<String, Json>,
}

/// The tables that have presets, in the order of the list. `faults` is a list of tables.
pub const TABLES: [&str; 5] = [
    "network",
    "network.server",
    "devices",
    "availability",
    "faults",
];

/// Returns the presets of a table.
pub fn of_table(table: &str) -> &'static [Preset] {
    static PRESETS: OnceLock<BTreeMap<String, Vec<Preset>>> = OnceLock::new();
    // The text is a part of the program, and a test reads it, so that there is no error.
    let all =
        PRESETS.get_or_init(|| toml::from_str(include_str!("presets.toml")).unwrap_or_default());
    all.get(table).map_or(&[], Vec::as_slice)
}

impl Preset {
    /// Returns the keys below the table and their values as TOML.
    pub fn lines(&self) -> Vec<(String, String)> {
        let mut keys = Vec::new();
        flatten(&Json::Object(self.keys.clone()), "", &mut keys);
        let lines = keys.into_iter();
        lines.map(|(key, value)| (key, in_toml(&value))).collect()
    }
}

/// Returns a value as it may stand behind an equals sign. The tables of a list have a line each.
pub(super) fn in_toml(value: &Json) -> String {
    let list = |items: &[Json], between: &str| {
        let items: Vec<String> = items.iter().map(in_toml).collect();
        items.join(between)
    };
    match value {
        Json::Array(items) if items.iter().any(Json::is_object) => {
            format!("[\n  {},\n]", list(items, ",\n  "))
        }
        Json::Array(items) => format!("[{}]", list(items, ", ")),
        Json::Object(table) => {
            let keys: Vec<String> = table
                .iter()
                .map(|(key, value)| format!("{key} = {}", in_toml(value)))
                .collect();
            format!("{{ {} }}", keys.join(", "))
        }
        other => other.to_string(),
    }
}

/// Returns the names of the presets of a table, as a schema lists what may be written.
pub(super) fn names(table: &str) -> Vec<Json> {
    let choice = |preset: &Preset| json!({ "type": "string", "const": preset.name, "description": preset.source });
    of_table(table).iter().map(choice).collect()
}

/// Returns the keys of the preset that `written` names, if it names one.
pub(super) fn under(table: &str, written: &Json) -> Option<&'static Map<String, Json>> {
    let name = written.get("preset")?.as_str()?;
    let preset = of_table(table).iter().find(|preset| preset.name == name)?;
    Some(&preset.keys)
}

/// Puts the keys of each preset that a scenario names under those that are written beside it.
pub(super) fn put_under(scenario: &mut Json) {
    for table in TABLES {
        let written = scenario.pointer_mut(&format!("/{}", table.replace('.', "/")));
        let tables = match written {
            Some(Json::Array(tables)) => tables.iter_mut().collect(),
            table => Vec::from_iter(table),
        };
        for written in tables {
            let keys = under(table, written);
            if let (Some(keys), Some(written)) = (keys, written.as_object_mut()) {
                put_keys_under(written, keys);
            }
        }
    }
}

fn put_keys_under(written: &mut Map<String, Json>, keys: &Map<String, Json>) {
    for (key, value) in keys {
        match (written.get_mut(key), value) {
            (None, value) => drop(written.insert(key.clone(), value.clone())),
            // A word stands for its table (`pattern = "daily"`).
            (Some(written @ Json::String(_)), Json::Object(keys))
                if written.as_str().is_some_and(|word| keys.contains_key(word)) =>
            {
                *written = value.clone();
            }
            (Some(Json::Object(written)), Json::Object(keys)) => {
                // Two tables of one key each, which differ, are two variants of a choice.
                let is_other_variant =
                    [written.len(), keys.len()] == [1, 1] && written.keys().ne(keys.keys());
                if !is_other_variant {
                    put_keys_under(written, keys);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::DevicesSpec;

    fn devices(name: &str) -> DevicesSpec {
        let keys = under("devices", &serde_json::json!({ "preset": name })).unwrap();
        let mut devices: DevicesSpec = serde_json::from_value(Json::Object(keys.clone())).unwrap();
        devices.preset = Some(name.to_owned());
        devices
    }

    /// If this fails, `fedrecsim presets` prints a table with cells left empty.
    #[test]
    fn every_table_has_presets_with_sources_and_keys() {
        for table in TABLES {
            assert!(of_table(table).len() >= 3, "{table}");
            for preset in of_table(table) {
                assert!(preset.source.len() > 40, "{}", preset.name);
                let text: String = preset
                    .lines()
                    .iter()
                    .map(|(key, value)| format!("{key} = {value}\n"))
                    .collect();
                let read: Json = toml::from_str(&text).unwrap();
                assert_eq!(read, Json::Object(preset.keys.clone()), "{text}");
            }
        }
    }

    /// If this fails, a preset whose point is the time of an app's start or of dense layers has
    /// none, or one that is not what its source works out.
    #[test]
    fn presets_of_all_times_state_them_and_the_older_ones_do_not() {
        let names: Vec<_> = of_table("devices")
            .iter()
            .map(|preset| preset.name.as_str())
            .filter(|name| devices(name).assumes_times())
            .collect();
        assert_eq!(names, ["phone-all-times", "phone-classes-all-times"]);
        let phone = devices("phone-all-times");
        let tenth_of_peak_ns = 10.0 / (8.0 * 2.4);
        assert!((phone.ns_per_multiply_add - tenth_of_peak_ns).abs() < 0.05);
        let times = devices("phone-classes-all-times").times();
        assert_eq!(times, [0.0, 0.0, 0.25, 400.0, 0.5, 800.0, 1.25, 2000.0]);
        assert!(
            !DevicesSpec {
                fixed_ms_per_participation: 5.0,
                ..phone
            }
            .assumes_times(),
            "a time of one's own"
        );
    }

    #[test]
    fn energy_per_byte_is_what_its_source_works_out() {
        // A mW per Mbit/s is a nJ per bit.
        let per_byte = |[down, up, on_top]: [f64; 3],
                        [down_mbit_per_s, up_mbit_per_s]: [f64; 2]| {
            8.0 * (down + on_top / down_mbit_per_s + up + on_top / up_mbit_per_s) / 2.0
        };
        let stated = |name| devices(name).energy_nj_per_byte.map(f64::round);
        assert_eq!(
            stated("phone-wifi"),
            Some(per_byte([137.01, 283.17, 132.86], [34.5, 26.3]).round())
        );
        assert_eq!(
            stated("phone-lte"),
            Some(per_byte([51.97, 438.39, 1288.04], [13.0, 6.0]).round())
        );
    }
}
