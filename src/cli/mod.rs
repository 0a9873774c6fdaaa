//! The command line: arguments and commands.
//!
//! Commands are functions from arguments to text, so that tests can call them. Only the [`program`]
//! prints, handles signals and sets exit codes.

mod args;
mod carry_out;
mod codecs;
mod compare;
mod data;
mod estimates;
mod events;
mod explain;
mod follow;
mod html;
mod inputs;
mod inspect;
mod leftovers;
mod memory;
mod messages;
mod methods;
mod migrate;
mod output_file;
mod program;
mod ranks;
mod reproduce;
mod resume;
mod run;
mod saved_users;
mod session;
mod shells;
mod signals;
mod stage_times;
mod study;
mod table;
#[cfg(test)]
mod tests;
mod width;

#[cfg(feature = "parquet")]
pub use args::TableFormat;
pub use args::{
    Cli, CodecBenchArgs, CodecCommand, Command, CompareArgs, CompletionsArgs, DataCommand,
    DataDescribeArgs, DataFetchArgs, DataListArgs, DiffArgs, EventFormat, EventsArgs, ExplainArgs,
    HtmlArgs, InputArgs, ManArgs, MigrateArgs, ProgressArg, ReplayArgs, ResumeArgs, RunArgs,
    RunOptions, StudyArgs, TableArgs, ValidateArgs,
};
pub use codecs::bench as codec_bench;
pub use codecs::codecs;
pub use compare::compare;
pub use data::{describe as data_describe, fetch as data_fetch, list as data_list};
pub use events::{events, replay};
pub use explain::explain;
pub use html::html;
pub use inputs::{Inputs, data_directories};
pub use inspect::{presets, schema, validate};
pub use methods::methods;
pub use migrate::migrate;
pub use program::{program, program_of};
pub use resume::resume;
pub use run::run;
pub use session::{Finished, Session};
pub use shells::{completions, man};
pub use study::{outside, study};
pub use table::table;

use inspect::wrapped;
