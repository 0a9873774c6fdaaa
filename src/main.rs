//! The `fedrecsim` command: parse, run, print, exit code.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use clap::Parser;
use fedrecsim::cli::{self, Cli, Command};
use fedrecsim::error::{Error, Result};
use fedrecsim::method::registry::vocabulary;

// Frames of tens of kilobytes come and go by the hundred in every round.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let started = Instant::now();
    match execute(Cli::parse().command, started) {
        Ok(errors) if errors.is_empty() => ExitCode::SUCCESS,
        Ok(errors) => report(&errors),
        Err(error) => report(&[error]),
    }
}

fn report(errors: &[Error]) -> ExitCode {
    errors.iter().for_each(|error| eprintln!("error: {error}"));
    ExitCode::from(errors.iter().map(Error::exit_code).max().unwrap_or(1))
}

/// Carries out `command`; what went wrong after its output was printed comes back as a list.
fn execute(command: Command, started: Instant) -> Result<Vec<Error>> {
    let (output, errors) = match command {
        Command::Run(arguments) => {
            let visible = std::io::stderr().is_terminal();
            let finished = cli::run(&arguments, interrupted_by_ctrl_c()?, visible, started)?;
            // Empty, but for a build that takes the times.
            eprint!("{}", fedrecsim::stages::table());
            (finished.output, finished.stopped_by.into_iter().collect())
        }
        Command::Validate(arguments) => {
            let validation = cli::validate(&arguments, &vocabulary());
            (validation.valid, validation.errors)
        }
        Command::Schema => (cli::schema(&vocabulary()), Vec::new()),
        Command::Methods => (cli::methods(), Vec::new()),
        Command::Presets => (cli::presets(), Vec::new()),
    };
    match std::io::stdout().write_all(output.as_bytes()) {
        // Whoever reads only the first lines has what it wants.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Error::write("standard output", error)),
        _ => Ok(errors),
    }
}

/// A flag that the first Ctrl-C sets, so that the finished rounds are reported; the second one ends the process.
fn interrupted_by_ctrl_c() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&flag);
    let handler = move || {
        if set.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    };
    ctrlc::set_handler(handler).map_err(|reason| Error::Usage(format!("cannot listen to Ctrl-C: {reason}")))?;
    Ok(flag)
}
