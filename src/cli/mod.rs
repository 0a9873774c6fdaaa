//! The command line: arguments, and the commands that need nothing but the scenario layer.
//!
//! Commands are functions from arguments to text, so that tests can call them; printing and exit codes are
//! `main`'s.

mod args;
mod inspect;
mod methods;
mod run;

pub use args::{Cli, Command, RunArgs, ValidateArgs};
pub use inspect::{Validation, presets, schema, validate};
pub use methods::methods;
pub use run::{Finished, run};

use inspect::wrapped;
