//! The command line: arguments and commands.
//!
//! Commands are functions from arguments to text, so that tests can call them. Only the [`program`] prints, handles
//! signals and sets exit codes.

mod args;
mod events;
mod inputs;
mod inspect;
mod methods;
mod program;
#[cfg(test)]
mod readme;
mod resume;
mod run;
mod signals;

pub use args::{Cli, Command, EventFormat, EventsArgs, InputArgs, ReplayArgs, ResumeArgs, RunArgs, ValidateArgs};
pub use events::{events, replay};
pub use inspect::{Validation, presets, schema, validate};
pub use methods::methods;
pub use program::program;
pub use resume::resume;
pub use run::{Finished, run};

use inspect::wrapped;
