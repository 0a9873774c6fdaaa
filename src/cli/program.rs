//! Carries out command lines: as the program, which prints and returns an exit code, or within
//! another one.

use std::ffi::OsString;
use std::io::{ErrorKind, IsTerminal, Write};
use std::process::ExitCode;

use super::args::{BoardCommand, Cli, CodecCommand, Command, DataCommand, RunOptions, parsed};
use super::ranks::{self, Leave};
use super::run::run;
use super::stage_times::StageTimes;
use super::study::{search, study};
use super::{
    Finished, Session, board, calibrate, codec_bench, data, demo, events, explain, follow, inspect,
    join, leak_test, methods_page, new, recommend, reports, resume, screen, serve, signals, table,
};
use crate::method::Entry;
use crate::{Error, Result};
use fedrecsim_core::memory;
use fedrecsim_ranks::{Crew, Other, Place};

/// The exit code of a command that was refused before it began, which all processes of a run know
/// of.
const REFUSED: u8 = 2;

/// Runs the whole `fedrecsim` command with these methods: carries out the command line of this
/// process.
///
/// A `main` of one line that adds a method of its own is in `examples/item_mean.rs`.
pub fn program(methods: &[Entry]) -> ExitCode {
    let words = std::env::args_os().collect();
    program_of(words, Vec::new(), Session::new(methods)).into()
}

/// Carries out the command line `words`, which begin with the program's name, and returns the exit
/// code. `itself` is the command that starts this program, such as an interpreter and its script;
/// empty for a plain executable. `session` has the methods, and who follows a run.
pub fn program_of(words: Vec<OsString>, itself: Vec<OsString>, session: Session<'_>) -> u8 {
    let session = Session {
        is_program: true,
        visible: std::io::stderr().is_terminal(),
        itself,
        ..session
    };
    let parsed = Cli::of(understood(words));
    let command = parsed.unwrap_or_else(|refusal| refusal.exit()).command;
    let mut membership = None;
    let finished = memory::caught(|| execute(command, &session, &mut membership))
        .and_then(|finished| finished.map(print));
    let refused = |error: &Error| error.exit_code() == REFUSED;
    let is_in_order = finished.as_ref().err().is_none_or(refused);
    let finished = finished.unwrap_or_else(Finished::from);
    let errors = finished.errors.iter();
    errors.for_each(|error| screen::error(&error.to_string()));
    // The end of MPI waits for the other processes. After a failure these may wait for this one,
    // and it ends without: mpirun then ends the others.
    if let Some(leave) = membership.filter(|_| is_in_order) {
        leave();
    }
    finished.exit_code()
}

/// Carries out a command within this program: `words` are those of a command line, after the name
/// of the program.
///
/// # Errors
/// [`Error::Usage`] for words that no command takes, and what keeps the command from its end. What
/// stops a run early is no error here; [`Finished`] has it.
pub fn carry_out<W: Into<OsString>>(
    words: impl IntoIterator<Item = W>,
    session: &Session,
) -> Result<Finished> {
    execute(parsed(words)?, session, &mut None)
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
    membership: &mut Option<Leave>,
) -> Result<Finished> {
    let (vocabulary, columns) = (session.vocabulary(), screen::of_text());
    Ok(match command {
        Command::Demo(arguments) => demo::demo(&arguments, session)?,
        Command::New(arguments) => new::new(&arguments.file, &vocabulary)?.into(),
        Command::Run(arguments) => on_place(
            &arguments.options,
            membership,
            session,
            |other| follow::follow_run(&arguments, session, other),
            |crew| run(&arguments, session, crew),
        )?,
        Command::Resume(arguments) => on_place(
            &arguments.options,
            membership,
            session,
            |other| follow::follow_resume(&arguments, session, other),
            |crew| resume::resume(&arguments, session, crew),
        )?,
        Command::Serve(arguments) => serve::serve(arguments, session)?,
        Command::Join(arguments) => join::join(&arguments, session)?,
        Command::Calibrate(arguments) => calibrate::calibrate(arguments, session)?,
        Command::Diff(arguments) => reports::diff(&arguments, &vocabulary)?,
        Command::Study(arguments) => study(&arguments, session)?,
        Command::Search(arguments) => search(&arguments, session)?,
        Command::Compare(arguments) => reports::compare(&arguments, &vocabulary)?.into(),
        Command::Board(BoardCommand::Run(arguments)) => board::run(&arguments, session),
        Command::Board(BoardCommand::Build(arguments)) => board::build(&arguments)?,
        Command::Html(arguments) => Finished::in_files(reports::html(&arguments, &vocabulary)?),
        Command::Events(arguments) => events::events(&arguments, session)?,
        Command::Recommend(arguments) => recommend::recommend(&arguments, session)?.into(),
        Command::Replay(arguments) => events::replay(&arguments, session)?,
        Command::LeakTest(input) => leak_test::leak_test(&input, session)?,
        Command::Validate(arguments) => inspect::validate(&arguments, session),
        Command::Migrate(arguments) => inspect::migrate(&arguments)?.into(),
        Command::Explain(arguments) => explain::explain(&arguments, &vocabulary, columns)?.into(),
        Command::Schema => inspect::schema(&vocabulary).into(),
        Command::Methods(arguments) if arguments.markdown => {
            methods_page::page(session.methods)?.into()
        }
        Command::Methods(_) => explain::methods(session.methods, columns).into(),
        Command::Codecs => explain::codecs(&vocabulary, columns).into(),
        Command::Table(arguments) => table::table(&arguments)?.into(),
        Command::Codec(CodecCommand::Bench(arguments)) => {
            codec_bench::bench(&arguments, &vocabulary, codec_bench::MEASURED_FOR)?.into()
        }
        Command::Data(DataCommand::List(arguments)) => data::list(&arguments, columns)?.into(),
        Command::Data(DataCommand::Fetch(arguments)) => data::fetch(&arguments, session.visible),
        Command::Data(DataCommand::Describe(arguments)) => data::describe(&arguments, &vocabulary)?,
        Command::Presets => inspect::presets(columns).into(),
        Command::Completions(arguments) => inspect::completions(&arguments).into(),
        Command::Man(arguments) => inspect::man(&arguments)?.into(),
    })
}

/// Finds out what this process is among those of its run, and has it `follow` process 0 or `lead`
/// the run.
fn on_place(
    options: &RunOptions,
    membership: &mut Option<Leave>,
    session: &Session,
    follow: impl FnOnce(Other) -> Result<()>,
    lead: impl FnOnce(Option<Crew>) -> Result<Finished>,
) -> Result<Finished> {
    if !session.is_program {
        return lead(None);
    }
    signals::listen(&session.interrupted)?;
    let (place, leave) = ranks::join(&session.interrupted)?;
    *membership = Some(leave);
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
    let finished = lead(crew)?;
    if let Some(times) = times {
        screen::print(&times.table());
    }
    Ok(finished)
}

/// Prints the warnings and the output. An output that cannot be printed is an error, unless files
/// have what it says.
fn print(mut finished: Finished) -> Finished {
    let warnings = finished.warnings.iter();
    warnings.for_each(|text| screen::warn(text));
    let mut stdout = std::io::stdout();
    let printed = stdout
        .write_all(screen::for_stdout(&finished.output).as_bytes())
        .and_then(|()| stdout.flush());
    match printed {
        Ok(()) => {}
        // A reader that takes only the first lines and closes the pipe has what it wants.
        Err(reason) if reason.kind() == ErrorKind::BrokenPipe => {}
        Err(reason) if finished.is_in_files => screen::warn(&format!(
            "the summary cannot be printed: {reason}; the report has it"
        )),
        Err(reason) => finished
            .errors
            .push(Error::write("standard output", reason)),
    }
    finished
}
