//! Scenario files: keys, presets, checks, and the schema.

pub mod scenario;
