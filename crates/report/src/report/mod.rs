//! Turns a run record into files: JSON, CSV, Markdown and SVG.
//!
//! Reading order: [`record`] is what a run leaves; [`check`] is what it must satisfy; [`json`],
//! [`mod@csv`], [`network`], [`users`], [`markdown`], `plot` and [`html`] turn it into text;
//! [`EXPORTERS`] lists them; [`ReportFolder`] puts the text into files, and `model_file` the
//! parameters of the model into another one; `progress` and [`terminal`] are what a user sees
//! during the run and after it. `arrow` makes tables of rounds, users and events for programs in
//! other languages. [`difference`] compares two reports, and [`read`] reads one back. [`events`]
//! writes what happens on links and devices during the run. The other exporters are pure: they take
//! a record and return text.

#[cfg(feature = "arrow")]
pub mod arrow;
mod cell;
pub mod charts;
pub mod check;
pub mod cost;
pub mod courses;
pub mod csv;
pub mod difference;
pub mod events;
mod exporter;
pub mod figures;
mod finite;
mod folder;
pub mod html;
pub mod json;
pub mod ledger_lines;
pub mod load;
mod lock;
pub mod markdown;
#[cfg(feature = "npz")]
pub mod model_file;
pub mod network;
#[cfg(feature = "plots")]
pub mod overrides;
#[cfg(feature = "plots")]
pub mod plot;
#[cfg(feature = "cli")]
pub mod progress;
pub mod read;
pub mod record;
#[cfg(test)]
pub(crate) mod sample;
pub mod setup;
mod summing_up;
pub mod table;
pub mod terminal;
pub mod users;
pub mod words;

pub use exporter::{EXPORTERS, Exporter, Files};
pub use folder::{EarlierReport, ReportFolder};
pub use lock::FolderLock;
