//! Presets as the keys that a scenario file could say instead of their names.

use serde_json::Value as Json;

use super::presets;
use super::raw::{RawDevices, RawNetwork};

/// A preset as a list of keys, for printing.
#[derive(Clone, Debug, PartialEq)]
pub struct Listing {
    /// The table of the scenario file that it belongs to.
    pub table: &'static str,
    /// Name.
    pub name: &'static str,
    /// Source of the numbers.
    pub source: &'static str,
    /// Keys and their values, in the order of the table.
    pub keys: Vec<(String, f64)>,
}

/// Every preset, networks first.
pub fn presets() -> Vec<Listing> {
    let networks = presets::networks().into_iter().map(|preset| Listing {
        table: "network",
        name: preset.name,
        source: preset.source,
        keys: keys(serde_json::to_value(RawNetwork::from(&preset.values))),
    });
    let devices = presets::devices().into_iter().map(|preset| Listing {
        table: "devices",
        name: preset.name,
        source: preset.source,
        keys: keys(serde_json::to_value(RawDevices::from(&preset.values))),
    });
    networks.chain(devices).collect()
}

/// The numbers of a table. Converting it cannot fail, as it holds nothing but a name and numbers.
fn keys(table: serde_json::Result<Json>) -> Vec<(String, f64)> {
    let table = table.unwrap_or_default();
    let numbers = table.as_object().into_iter().flatten();
    numbers.filter_map(|(key, value)| Some((key.clone(), value.as_f64()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_lists_all_keys_and_a_source() {
        // `fedrecsim presets` would print a table with holes.
        for listing in presets() {
            let expected = if listing.table == "network" { 9 } else { 2 };
            assert_eq!(listing.keys.len(), expected, "{}", listing.name);
            assert!(listing.source.len() > 40, "{}", listing.name);
        }
    }
}
