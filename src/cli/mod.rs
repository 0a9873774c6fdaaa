//! The command line: arguments and commands.
//!
//! Commands are functions from arguments to text, so that tests can call them. Only the [`program`] prints, handles
//! signals and sets exit codes.

mod args;
mod carry_out;
mod diff;
mod events;
mod inputs;
mod inspect;
mod leftovers;
mod messages;
mod methods;
mod output_file;
mod program;
#[cfg(test)]
mod readme;
mod reproduce;
mod resume;
mod run;
mod signals;

pub use args::{
    Cli, Command, DiffArgs, EventFormat, EventsArgs, InputArgs, ReplayArgs, ResumeArgs, RunArgs, ValidateArgs,
};
pub use carry_out::Finished;
pub use diff::diff;
pub use events::{events, replay};
pub use inspect::{Validation, presets, schema, validate};
pub use methods::methods;
pub use program::program;
pub use resume::resume;
pub use run::run;

use inspect::wrapped;
