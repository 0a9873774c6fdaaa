//! Turns a run record into files: JSON, CSV, Markdown, pages and pictures.
//!
//! Reading order: [`record`] is what a run leaves, and [`check`] what it must satisfy. A table is a
//! list of columns ([`mod@column`], [`rounds`], [`users`]); [`frame`] holds their numbers. [`document`]
//! and [`chart`] are what is shown, as data, and [`run`] makes them of a run; [`html`] and `plot`
//! write them as pages and pictures. [`EXPORTERS`] lists the files of a report; [`ReportFolder`]
//! writes them, and `model_file` the parameters of the model. `progress` and [`terminal`] are what a
//! user sees during the run and after it. `arrow` makes tables for programs in other languages.
//! [`read`] reads a report back, and [`difference`] compares two. [`events`] writes what happens on
//! links and devices during the run. All but the last are functions from data to data.

#[cfg(feature = "arrow")]
pub mod arrow;
pub mod chart;
pub mod charts;
pub mod check;
pub mod column;
pub mod cost;
pub mod difference;
pub mod document;
pub mod events;
mod exporter;
mod finite;
mod folder;
pub mod frame;
pub mod html;
pub mod json;
pub mod ledger_lines;
pub mod load;
mod lock;
pub mod metrics;
#[cfg(feature = "npz")]
pub mod model_file;
#[cfg(feature = "plots")]
pub mod overrides;
#[cfg(feature = "plots")]
pub mod plot;
#[cfg(feature = "cli")]
pub mod progress;
pub mod read;
pub mod record;
pub mod rounds;
pub mod run;
pub mod setup;
mod summing_up;
pub mod table;
pub mod terminal;
pub mod users;
pub mod words;

pub use exporter::{EXPORTERS, Exporter, Files};
pub use folder::{EarlierReport, ReportFolder};
pub use lock::FolderLock;
