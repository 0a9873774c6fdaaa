//! Studies: many runs that differ in a few keys, repeated over seeds, and what they have in common
//! and do not.
//!
//! ```text
//!  study file --file--> arms (name, base, overrides) --plan--> runs (arm, seed), in parts
//!                                                                 |
//!      record: what the runs began with; what changed since       |  each is a process of its own (`cli::study`)
//!                                                                 v
//!  tables and pictures <--tables-- summaries <--results, statistics, reach-- reports read back
//! ```
//!
//! Reading order: [`file`](mod@file) is the study as its file says it; [`plan`] resolves every arm
//! and lists the runs; `power` says what difference
//! they can show; [`record`] remembers what a study began with; [`compare`] makes arms of
//! reports that exist; [`against`] compares arms to others than the study says; [`results`] gathers
//! the reports by arm and seed; `columns` lists what tables show of a run, `reach` says when one came
//! near the best accuracy, `statistics` has means and intervals, `bootstrap` draws users and seeds
//! anew, `pooled` pools arms that repeat one experiment, and `values` has those of arms; `grounds` says what
//! can be compared, `standing` where arms stand, and `answer` and `sentence` which one is best; [`sharing`] says which arms draw the same cohorts;
//! [`search`] makes trials of the arms whose settings are searched for; [`saved`] puts results into
//! a file and takes them out again; `names`
//! shortens what tables call the arms; [`tables`] writes it all down.
//!
//! Everything here is a function from plain data to plain data. Processes, folders and signals are
//! matters of the command line.

pub mod against;
mod answer;
mod bootstrap;
mod columns;
pub mod compare;
mod explained;
pub mod file;
mod grounds;
mod names;
pub(crate) mod plan;
mod pooled;
mod power;
mod reach;
mod record;
mod results;
pub mod saved;
pub mod search;
pub(crate) mod sentence;
mod sharing;
pub(crate) mod standing;
pub(crate) mod statistics;
pub mod tables;
mod values;

pub use self::{
    columns::reference,
    explained::explained,
    plan::{Plan, PlannedArm, RunId, Shard},
    record::{ArmRecord, StudyRecord},
    results::{ArmResults, Results, RunResult, RunState},
    sharing::depends_on_timing,
};
pub use crate::read::as_saved;
