//! Runs the program: parses the arguments, carries out the command, prints, and returns the exit
//! code.

use std::ffi::OsString;
use std::io::{ErrorKind, IsTerminal, Write};
use std::process::ExitCode;

use clap::Parser;

use super::ranks::{self, Membership};
use super::stage_times::StageTimes;
use super::{
    Cli, CodecCommand, Command, DataCommand, Finished, RunOptions, Session, follow, messages,
    signals, width,
};
use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::memory;
use fedrecsim_methods::method::Entry;
use fedrecsim_ranks::{Crew, Other, Place};
use fedrecsim_report::report::{difference, terminal};

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
    let mut session = Session::new(methods);
    session.visible = std::io::stderr().is_terminal();
    let mut command = Cli::parse_from(understood(words)).command;
    if let Command::Study(arguments) = &mut command {
        arguments.program = itself;
    }
    let mut membership = None;
    let finished = memory::caught(|| execute(command, &session, &mut membership))
        .and_then(|finished| finished.map(print));
    let is_in_order = finished
        .as_ref()
        .err()
        .is_none_or(|error| error.exit_code() == REFUSED);
    let finished = finished.unwrap_or_else(Finished::from);
    let errors = finished.errors.iter();
    errors.for_each(|error| messages::error(&error.to_string()));
    // The end of MPI waits for the other processes. After a failure these may wait for this one,
    // and it ends without: mpirun then ends the others.
    if let Some(membership) = membership.filter(|_| is_in_order) {
        membership.leave();
    }
    finished.exit_code()
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

/// Carries out `command`.
fn execute(
    command: Command,
    session: &Session,
    membership: &mut Option<Membership>,
) -> Result<Finished> {
    let columns = width::of_text();
    Ok(match command {
        Command::Run(arguments) => on_place(
            &arguments.options,
            membership,
            session,
            |other| follow::follow_run(&arguments, session, other),
            |crew| super::run(&arguments, session, crew),
        )?,
        Command::Resume(arguments) => on_place(
            &arguments.options,
            membership,
            session,
            |other| follow::follow_resume(&arguments, session, other),
            |crew| super::resume(&arguments, session, crew),
        )?,
        Command::Diff(arguments) => {
            let comparison = difference::compare(&arguments.one, &arguments.other)?;
            Finished {
                differs: !comparison.is_equal(),
                ..comparison.to_string().into()
            }
        }
        Command::Study(arguments) => {
            ranks::refuse_several("study")?;
            signals::listen(&session.interrupted)?;
            super::study(&arguments, session)?
        }
        Command::Compare(arguments) => super::compare(&arguments, &session.vocabulary())?.into(),
        Command::Html(arguments) => {
            Finished::in_files(super::html(&arguments, &session.vocabulary())?)
        }
        Command::Events(arguments) => {
            signals::listen(&session.interrupted)?;
            super::events(&arguments, session)?
        }
        Command::Replay(arguments) => {
            signals::listen(&session.interrupted)?;
            super::replay(&arguments, session)?
        }
        Command::Validate(arguments) => super::validate(&arguments, session),
        Command::Migrate(arguments) => super::migrate(&arguments)?.into(),
        Command::Explain(arguments) => {
            super::explain(&arguments, &session.vocabulary(), columns)?.into()
        }
        Command::Schema => super::schema(&session.vocabulary()).into(),
        Command::Methods => super::methods(session.methods, columns).into(),
        Command::Codecs => super::codecs(&session.vocabulary(), columns).into(),
        Command::Table(arguments) => super::table(&arguments)?.into(),
        Command::Codec(CodecCommand::Bench(arguments)) => {
            super::codec_bench(&arguments, &session.vocabulary())?.into()
        }
        Command::Data(DataCommand::List(arguments)) => super::data_list(&arguments, columns).into(),
        Command::Data(DataCommand::Fetch(arguments)) => {
            super::data_fetch(&arguments, session.visible)
        }
        Command::Data(DataCommand::Describe(arguments)) => {
            super::data_describe(&arguments, &session.vocabulary())?.into()
        }
        Command::Presets => super::presets(columns).into(),
        Command::Completions(arguments) => super::completions(&arguments).into(),
        Command::Man(arguments) => super::man(&arguments)?.into(),
    })
}

/// Finds out what this process is among those of its run, and has it `follow` process 0 or `lead`
/// the run.
fn on_place(
    options: &RunOptions,
    membership: &mut Option<Membership>,
    session: &Session,
    follow: impl FnOnce(Other) -> Result<()>,
    lead: impl FnOnce(Option<Crew>) -> Result<Finished>,
) -> Result<Finished> {
    signals::listen(&session.interrupted)?;
    let (place, joined) = ranks::join(&session.interrupted)?;
    *membership = Some(joined);
    let times = options.stage_times.then(StageTimes::measure).transpose()?;
    let crew = match place {
        Place::Alone => None,
        Place::Zero(crew) => Some(crew),
        Place::Other(other) => {
            // Process 0 may be waiting for an answer, and does not come to the end of MPI.
            follow(other).inspect_err(|_| *membership = None)?;
            return Ok(Finished::default());
        }
    };
    let mut finished = lead(crew)?;
    if let Some(times) = times {
        messages::print(&times.table());
    }
    if let Some(columns) = width::of_stdout().filter(|_| !options.json) {
        finished.output = terminal::fitted(&finished.output, columns);
    }
    Ok(finished)
}

/// Prints the warnings and the output. An output that cannot be printed is an error, unless files have what it says.
fn print(mut finished: Finished) -> Finished {
    finished
        .warnings
        .iter()
        .for_each(|text| messages::warn(text));
    let mut stdout = std::io::stdout();
    let printed = stdout
        .write_all(finished.output.as_bytes())
        .and_then(|()| stdout.flush());
    match printed {
        // A reader that takes only the first lines and closes the pipe has what it wants.
        Err(reason) if reason.kind() == ErrorKind::BrokenPipe => {}
        Err(reason) if finished.is_in_files => messages::warn(&format!(
            "the summary cannot be printed: {reason}; the report has it"
        )),
        Err(reason) => {
            let error = Error::write("standard output", reason);
            finished.errors.push(error);
        }
        Ok(()) => {}
    }
    finished
}
