//! Runs the program: parses the arguments, carries out the command, prints, and returns the exit code.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;

use super::{Cli, Command};
use crate::error::{Error, Result};
use crate::method::Entry;
use crate::method::registry::vocabulary_of;

/// Runs the whole `fedrecsim` command with these methods: carries out the command line of this process.
///
/// A `main` of one line that adds a method of its own is in `examples/item_mean.rs`.
pub fn program(methods: &[Entry]) -> ExitCode {
    let started = Instant::now();
    match execute(Cli::parse().command, methods, started) {
        Ok(errors) if errors.is_empty() => ExitCode::SUCCESS,
        Ok(errors) => report(&errors),
        Err(error) => report(&[error]),
    }
}

fn report(errors: &[Error]) -> ExitCode {
    errors.iter().for_each(|error| eprintln!("error: {error}"));
    ExitCode::from(errors.iter().map(Error::exit_code).max().unwrap_or(1))
}

/// Carries out `command`, and returns the errors that are no reason to withhold its output.
fn execute(command: Command, methods: &[Entry], started: Instant) -> Result<Vec<Error>> {
    let (output, errors) = match command {
        Command::Run(arguments) => {
            let visible = std::io::stderr().is_terminal();
            let finished = super::run(&arguments, methods, super::signals::interrupted()?, visible, started)?;
            // The table is empty, except in a build that measures these times.
            eprint!("{}", crate::stages::table());
            (finished.output, finished.stopped_by.into_iter().collect())
        }
        Command::Resume(arguments) => {
            let visible = std::io::stderr().is_terminal();
            let finished = super::resume(&arguments, methods, super::signals::interrupted()?, visible, started)?;
            eprint!("{}", crate::stages::table());
            (finished.output, finished.stopped_by.into_iter().collect())
        }
        Command::Events(arguments) => {
            let finished = super::events(&arguments, methods, super::signals::interrupted()?)?;
            (finished.output, finished.stopped_by.into_iter().collect())
        }
        Command::Replay(arguments) => {
            let finished = super::replay(&arguments, methods, super::signals::interrupted()?)?;
            (finished.output, finished.stopped_by.into_iter().collect())
        }
        Command::Validate(arguments) => {
            let validation = super::validate(&arguments, &vocabulary_of(methods));
            validation.warnings.iter().for_each(|text| super::run::warn(text));
            (validation.valid, validation.errors)
        }
        Command::Schema => (super::schema(&vocabulary_of(methods)), Vec::new()),
        Command::Methods => (super::methods(methods), Vec::new()),
        Command::Presets => (super::presets(), Vec::new()),
    };
    match std::io::stdout().write_all(output.as_bytes()) {
        // A reader that takes only the first lines and closes the pipe has what it wants.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Error::write("standard output", error)),
        _ => Ok(errors),
    }
}
