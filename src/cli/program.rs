//! Runs the program: parses the arguments, carries out the command, prints, and returns the exit
//! code.

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use clap::Parser;

use super::ranks::{self, Membership, Other, Place};
use super::stage_times::StageTimes;
use super::{
    Cli, CodecCommand, Command, DataCommand, DataFetchArgs, Finished, Validation, follow, messages,
    width,
};
use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::memory;
use fedrecsim_methods::method::Entry;
use fedrecsim_methods::method::registry::vocabulary_of;
use fedrecsim_report::report::terminal;
use fedrecsim_sim::sim::Crew;

/// The exit code of a command that was refused before it began, which all processes of a run know
/// of.
const REFUSED: u8 = 2;

/// Runs the whole `fedrecsim` command with these methods: carries out the command line of this
/// process.
///
/// A `main` of one line that adds a method of its own is in `examples/item_mean.rs`.
pub fn program(methods: &[Entry]) -> ExitCode {
    ExitCode::from(program_of(
        std::env::args_os().collect(),
        methods,
        Vec::new(),
    ))
}

/// Carries out the command line `words`, the first of which is the program's name, and returns the
/// exit code. `itself` are the words that start this program, such as those of an interpreter and
/// its script; none if its own file does.
pub fn program_of(words: Vec<OsString>, methods: &[Entry], itself: Vec<OsString>) -> u8 {
    let started = Instant::now();
    let mut command = Cli::parse_from(understood(words)).command;
    if let Command::Study(arguments) = &mut command {
        arguments.program = itself;
    }
    let mut membership = None;
    let outcome = memory::caught(|| execute(command, methods, started, &mut membership))
        .and_then(|outcome| outcome);
    let is_in_order = outcome
        .as_ref()
        .err()
        .is_none_or(|error| error.exit_code() == REFUSED);
    let outcome = outcome.unwrap_or_else(|error| Done::failed(vec![error]));
    let code = outcome.exit_code();
    outcome
        .errors
        .iter()
        .for_each(|error| messages::error(&error.to_string()));
    // The end of MPI waits for the other processes. After a failure these may wait for this one,
    // and it ends without: mpirun then ends the others.
    if let Some(membership) = membership.filter(|_| is_in_order) {
        membership.leave();
    }
    code
}

/// Returns the words of a command line as the parser understands them. It takes `help --help` for
/// the help of a command called `--help`, where the help of `help` is meant.
fn understood(mut words: Vec<OsString>) -> Vec<OsString> {
    if let [_, command, option, ..] = &mut words[..]
        && command == "help"
        && (option == "--help" || option == "-h")
    {
        *option = "help".into();
    }
    words
}

/// The end of a command.
struct Done {
    /// The errors to tell.
    errors: Vec<Error>,
    /// Whether what was compared differs.
    differs: bool,
}

impl Done {
    fn failed(errors: Vec<Error>) -> Self {
        Self {
            errors,
            differs: false,
        }
    }

    fn quietly() -> Self {
        Self {
            errors: Vec::new(),
            differs: false,
        }
    }

    fn exit_code(&self) -> u8 {
        self.errors
            .iter()
            .map(Error::exit_code)
            .max()
            .unwrap_or(u8::from(self.differs))
    }
}

/// What a command prints on standard output.
enum Output {
    /// The result of the command, which is lost if it cannot be printed.
    Result(String),
    /// A message on a result that is in the report.
    Message(String),
}

/// Carries out `command` and prints its output.
fn execute(
    command: Command,
    methods: &[Entry],
    started: Instant,
    membership: &mut Option<Membership>,
) -> Result<Done> {
    let mut differs = false;
    let (output, mut errors) = match command {
        Command::Run(arguments) => {
            let follow =
                |interrupted, other| follow::follow_run(&arguments, methods, interrupted, other);
            let lead = |interrupted, visible, crew| {
                super::run::run_on_ranks(&arguments, methods, interrupted, visible, (started, crew))
            };
            match on_place(arguments.stage_times, membership, follow, lead)? {
                None => return Ok(Done::quietly()),
                Some(finished) => of_run(
                    finished,
                    arguments.json,
                    arguments.json || arguments.no_report,
                ),
            }
        }
        Command::Resume(arguments) => {
            let follow =
                |interrupted, other| follow::follow_resume(&arguments, methods, interrupted, other);
            let lead = |interrupted, visible, crew| {
                super::resume::resume_on_ranks(
                    &arguments,
                    methods,
                    interrupted,
                    visible,
                    (started, crew),
                )
            };
            match on_place(arguments.stage_times, membership, follow, lead)? {
                None => return Ok(Done::quietly()),
                Some(finished) => of_run(finished, arguments.json, arguments.json),
            }
        }
        Command::Diff(arguments) => {
            let comparison = super::diff(&arguments)?;
            differs = !comparison.is_equal();
            (Output::Result(comparison.to_string()), Vec::new())
        }
        Command::Study(arguments) => {
            ranks::refuse_several("study")?;
            let visible = std::io::stderr().is_terminal();
            let end = super::study(
                &arguments,
                methods,
                &super::signals::interrupted()?,
                visible,
            )?;
            (Output::Message(end.output), end.errors)
        }
        Command::Compare(arguments) => (
            Output::Result(super::compare(&arguments, &vocabulary_of(methods))?),
            Vec::new(),
        ),
        Command::Html(arguments) => (
            Output::Message(super::html(&arguments, &vocabulary_of(methods))?),
            Vec::new(),
        ),
        Command::Events(arguments) => {
            let (output, errors) =
                super::events(&arguments, methods, super::signals::interrupted()?)?.into_parts();
            (Output::Result(output), errors)
        }
        Command::Replay(arguments) => {
            let (output, errors) =
                super::replay(&arguments, methods, super::signals::interrupted()?)?.into_parts();
            (Output::Result(output), errors)
        }
        Command::Validate(arguments) => validated(super::validate(&arguments, methods)),
        Command::Explain(arguments) => (
            Output::Result(super::explain(
                &arguments,
                &vocabulary_of(methods),
                width::of_text(),
            )?),
            Vec::new(),
        ),
        Command::Schema => (
            Output::Result(super::schema(&vocabulary_of(methods))),
            Vec::new(),
        ),
        Command::Methods => (
            Output::Result(super::methods(methods, width::of_text())),
            Vec::new(),
        ),
        Command::Codecs => (
            Output::Result(super::codecs(&vocabulary_of(methods), width::of_text())),
            Vec::new(),
        ),
        Command::Table(arguments) => (Output::Result(super::table(&arguments)?), Vec::new()),
        Command::Codec(CodecCommand::Bench(arguments)) => (
            Output::Result(super::codec_bench(&arguments, &vocabulary_of(methods))?),
            Vec::new(),
        ),
        Command::Data(command) => {
            let (text, errors) = data(&command, methods)?;
            (Output::Result(text), errors)
        }
        Command::Presets => (Output::Result(super::presets(width::of_text())), Vec::new()),
        Command::Completions(arguments) => {
            (Output::Result(super::completions(&arguments)), Vec::new())
        }
        Command::Man(arguments) => (Output::Result(super::man(&arguments)?), Vec::new()),
    };
    errors.extend(print(&output).err());
    Ok(Done { errors, differs })
}

/// Finds out what this process is among those of its run, and has it `follow` process 0 or `lead`
/// the run; `None` if it has followed.
fn on_place(
    stage_times: bool,
    membership: &mut Option<Membership>,
    follow: impl FnOnce(Arc<AtomicBool>, Other) -> Result<()>,
    lead: impl FnOnce(Arc<AtomicBool>, bool, Option<Crew>) -> Result<Finished>,
) -> Result<Option<Finished>> {
    let visible = std::io::stderr().is_terminal();
    let interrupted = super::signals::interrupted()?;
    let (place, joined) = ranks::join(&interrupted)?;
    *membership = Some(joined);
    let times = stage_times.then(StageTimes::measure).transpose()?;
    let crew = match place {
        Place::Alone => None,
        Place::Zero(crew) => Some(crew),
        Place::Other(other) => {
            let followed = follow(interrupted, other);
            if followed.is_err() {
                // Process 0 may be waiting for an answer, and does not come to the end of MPI.
                *membership = None;
            }
            return followed.map(|()| None);
        }
    };
    let finished = lead(interrupted, visible, crew)?;
    print_times(times.as_deref());
    Ok(Some(finished))
}

/// Warns of what was found in scenarios, and returns the output and the errors.
fn validated(validation: Validation) -> (Output, Vec<Error>) {
    validation
        .warnings
        .iter()
        .for_each(|text| messages::warn(text));
    (Output::Result(validation.valid), validation.errors)
}

/// Lists, fetches or describes data sets.
fn data(command: &DataCommand, methods: &[Entry]) -> Result<(String, Vec<Error>)> {
    Ok(match command {
        DataCommand::List(arguments) => (super::data_list(arguments, width::of_text()), Vec::new()),
        DataCommand::Fetch(arguments) => data_fetch(arguments, std::io::stderr().is_terminal()),
        DataCommand::Describe(arguments) => (
            super::data_describe(arguments, &vocabulary_of(methods))?,
            Vec::new(),
        ),
    })
}

/// Fetches data sets.
#[cfg(feature = "fetch")]
fn data_fetch(arguments: &DataFetchArgs, visible: bool) -> (String, Vec<Error>) {
    super::data_fetch(arguments, visible)
}

/// Says that this program was built without what it takes to fetch anything.
#[cfg(not(feature = "fetch"))]
fn data_fetch(_arguments: &DataFetchArgs, _visible: bool) -> (String, Vec<Error>) {
    let message = "this program was built without the feature `fetch`, with which data sets are fetched: build it \
                   with `--features fetch`, or unpack them by hand in a data folder; `data list` has their addresses";
    (String::new(), vec![Error::Usage(message.to_owned())])
}

/// Prints where the time of a run went, if that was measured.
fn print_times(times: Option<&StageTimes>) {
    times
        .into_iter()
        .for_each(|times| messages::print(&times.table()));
}

/// Returns the output and the errors of a run, whose output is a summary unless `is_json`. It is
/// the run's result if `is_result` is true; otherwise the report is.
fn of_run(finished: Finished, is_json: bool, is_result: bool) -> (Output, Vec<Error>) {
    let (output, errors) = finished.into_parts();
    let output = match width::of_stdout() {
        Some(columns) if !is_json => terminal::fitted(&output, columns),
        _ => output,
    };
    (
        if is_result {
            Output::Result(output)
        } else {
            Output::Message(output)
        },
        errors,
    )
}

/// Prints on standard output.
///
/// # Errors
/// [`Error::Write`] if a result cannot be printed. A message that cannot is only warned of.
fn print(output: &Output) -> Result<()> {
    let (Output::Result(text) | Output::Message(text)) = output;
    let mut stdout = std::io::stdout();
    match (
        stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush()),
        output,
    ) {
        (Ok(()), _) => Ok(()),
        // A reader that takes only the first lines and closes the pipe has what it wants.
        (Err(reason), _) if reason.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        (Err(reason), Output::Result(_)) => Err(Error::write("standard output", reason)),
        (Err(reason), Output::Message(_)) => {
            messages::warn(&format!(
                "the summary cannot be printed: {reason}; the report has it"
            ));
            Ok(())
        }
    }
}
