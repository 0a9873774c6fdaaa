//! Turns a run record into files: JSON, CSV, Markdown, pages and pictures.
//!
//! Reading order: [`record`] is what a run leaves, and [`check`](mod@check) what it must satisfy. A
//! table is a list of columns ([`column`], [`rounds`], [`users`]); [`frame`] holds their numbers.
//! [`document`] and [`chart`] are what is shown, as data, and [`run`] makes them of a run; [`html`]
//! and `plot` write them as pages and pictures. [`EXPORTERS`] lists the files of a report;
//! [`ReportFolder`] writes them, and `model_file` the parameters of the model. `progress` and
//! [`terminal`] are what a user sees during the run and after it. `arrow` makes tables for programs
//! in other languages. [`read`] reads a report back, and [`difference`] compares two. [`events`]
//! writes what happens on links and devices during the run, and [`board`] makes the page of many
//! people's studies. All but [`events`] are functions from data
//! to data.

pub mod board;
pub mod study;
#[cfg(test)]
mod tests;

#[cfg(feature = "arrow")]
pub mod arrow;
pub(crate) mod chart;
mod check;
pub(crate) mod column;
mod cost;
mod difference;
pub(crate) mod document;
mod doubts;
pub mod events;
pub(crate) mod exporter;
pub(crate) mod file_names;
mod finite;
mod folder;
pub(crate) mod frame;
pub mod groups;
pub mod html;
mod ledger_lines;
mod load;
mod lock;
mod made_folders;
mod markdown;
pub(crate) mod metrics;
#[cfg(feature = "npz")]
mod model_file;
#[cfg(feature = "plots")]
mod overrides;
#[cfg(feature = "plots")]
pub mod plot;
#[cfg(feature = "cli")]
pub mod progress;
pub(crate) mod read;
pub(crate) mod record;
mod reference;
pub(crate) mod rounds;
mod run;
pub(crate) mod setup;
mod summing_up;
pub mod table;
mod terminal;
pub(crate) mod users;
pub mod words;

#[cfg(feature = "npz")]
pub use self::model_file::{UserArrays, write_npz};
pub use self::{
    chart::{Axis, Chart, Series, Stroke, arm},
    check::check,
    column::{Cell, Unit},
    difference::{Comparison, compare},
    document::{Block, Document, Fact, Table},
    exporter::{EXPORTERS, Exporter, Files, run_json},
    folder::{EarlierReport, ReportFolder},
    lock::FolderLock,
    made_folders::MadeFolders,
    read::{SavedReport, SavedRun},
    record::{RunRecord, Wall},
    run::page_of_folder,
    terminal::summary,
};
