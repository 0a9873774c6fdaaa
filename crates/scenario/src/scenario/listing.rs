//! Shows presets as the keys that a scenario file could give instead of their names.

use serde_json::Value as Json;

use super::presets;
use super::raw::{RawAvailability, RawDevices, RawFault, RawNetwork, RawServerLink};

/// A preset as a list of keys, for printing.
#[derive(Clone, Debug, PartialEq)]
pub struct Listing {
    /// The table of the scenario file that it belongs to; `faults` is a list of tables.
    pub table: &'static str,
    /// Name of the preset.
    pub name: &'static str,
    /// Source of the numbers.
    pub source: &'static str,
    /// Keys and their values as TOML, in the order of the table. In a list of tables there is one
    /// line for each.
    pub keys: Vec<(String, String)>,
}

/// Returns every preset, networks first.
pub fn presets() -> Vec<Listing> {
    let listing = |table, name, source, keys| Listing {
        table,
        name,
        source,
        keys,
    };
    let networks = presets::networks().into_iter().map(|preset| {
        let raw = serde_json::to_value(RawNetwork::from(&preset.values));
        listing("network", preset.name, preset.source, keys(raw))
    });
    let server_links = presets::server_links().into_iter().map(|preset| {
        let raw = serde_json::to_value(RawServerLink::from(&preset.values));
        listing("network.server", preset.name, preset.source, keys(raw))
    });
    let devices = presets::devices().into_iter().map(|preset| {
        let raw = serde_json::to_value(RawDevices::from(&preset.values));
        listing("devices", preset.name, preset.source, keys(raw))
    });
    let availabilities = presets::availabilities().into_iter().map(|preset| {
        let raw = serde_json::to_value(RawAvailability::from(&preset.values));
        listing("availability", preset.name, preset.source, keys(raw))
    });
    let faults = presets::faults().into_iter().map(|preset| {
        let raw = serde_json::to_value(RawFault::from(&preset.values));
        listing("faults", preset.name, preset.source, keys(raw))
    });
    networks
        .chain(server_links)
        .chain(devices)
        .chain(availabilities)
        .chain(faults)
        .collect()
}

/// Returns the keys of a table without the preset's name. The conversion cannot fail, as the table
/// holds only names and numbers.
fn keys(table: serde_json::Result<Json>) -> Vec<(String, String)> {
    let table = table.unwrap_or_default();
    let keys = table
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| *key != "preset");
    keys.map(|(key, value)| (key.clone(), in_toml(value)))
        .collect()
}

/// Returns a value as it may stand behind an equals sign, with whole numbers written without a
/// fraction.
fn in_toml(value: &Json) -> String {
    let list = |items: &[Json]| items.iter().map(in_toml).collect::<Vec<_>>();
    match value {
        Json::Array(items) if items.iter().any(Json::is_object) => {
            format!("[\n  {},\n]", list(items).join(",\n  "))
        }
        Json::Array(items) => format!("[{}]", list(items).join(", ")),
        Json::Object(object) => {
            let keys: Vec<String> = object
                .iter()
                .map(|(key, value)| format!("{key} = {}", in_toml(value)))
                .collect();
            format!("{{ {} }}", keys.join(", "))
        }
        Json::Number(number) => number
            .as_f64()
            .map_or_else(|| number.to_string(), |number| number.to_string()),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn every_preset_lists_all_keys_and_a_source() {
        // If this fails, `fedrecsim presets` prints a table with cells left empty.
        for listing in presets() {
            let expected = match (listing.table, listing.name) {
                ("network", _) => 9,
                ("network.server", "nginx-worker") => 1,
                ("network.server", _) => 2,
                ("devices", "phone-wifi" | "phone-lte" | "phone-all-times") => 4,
                ("faults", "regional-outage") => 5,
                ("faults", _) => 3,
                ("devices", "phone-classes" | "phone-classes-all-times") => 1,
                ("availability", "night-charging" | "short-stays") => 1,
                ("devices", _) => 2,
                ("availability", _) => 0,
                (table, _) => panic!("a preset of {table}"),
            };
            assert_eq!(listing.keys.len(), expected, "{}", listing.name);
            assert!(listing.source.len() > 40, "{}", listing.name);
        }
    }

    #[test]
    fn the_keys_of_a_preset_say_the_same_as_its_name() {
        // If this fails, a user who copies what `fedrecsim presets` shows gets other numbers or a
        // fault.
        for listing in presets() {
            let text: String = listing
                .keys
                .iter()
                .map(|(key, value)| format!("{key} = {value}\n"))
                .collect();
            let table: toml::Table =
                toml::from_str(&text).unwrap_or_else(|error| panic!("{text}{error}"));
            assert_eq!(table.len(), listing.keys.len(), "{text}");
        }
    }
}
