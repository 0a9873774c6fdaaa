//! From a run record to files: JSON, CSV, Markdown, SVG.
//!
//! Reading order: [`record`] is what a run leaves; [`check`] is what it must satisfy; [`json`], [`table`],
//! [`markdown`] and [`plot`] turn it into text; [`folder`] puts the text into files; [`terminal`] and [`progress`] are what
//! a user sees while and after it runs. Exporters are pure: they take a record and return text.

pub mod check;
pub mod cost;
pub mod figures;
mod finite;
pub mod json;
pub mod plot;
pub mod progress;
pub mod record;
#[cfg(test)]
mod sample;
pub mod table;
pub mod words;
