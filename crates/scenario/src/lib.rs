//! Scenario files: keys, presets, rules between keys, and every fault with its place.

pub mod scenario;
