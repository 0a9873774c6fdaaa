//! The command line: arguments and commands.
//!
//! Commands are functions from arguments to text, so that tests can call them. Only the [`program`] prints, handles
//! signals and sets exit codes.

mod args;
#[cfg(test)]
mod documents;
mod estimates;
mod events;
mod explain;
mod inputs;
mod inspect;
mod memory;
mod methods;
mod program;
mod resume;
mod run;
mod signals;

pub use args::{
    Cli, Command, EventFormat, EventsArgs, ExplainArgs, InputArgs, ReplayArgs, ResumeArgs, RunArgs, ValidateArgs,
};
pub use events::{events, replay};
pub use explain::explain;
pub use inspect::{Validation, presets, schema, validate};
pub use methods::methods;
pub use program::program;
pub use resume::resume;
pub use run::{Finished, run};

use inspect::wrapped;
