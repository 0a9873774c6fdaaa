//! Carries out a run of a study in a thread of this process.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use clap::Parser;

use super::child::{Launcher, Start, failure_of_report, forget_failure};
use super::folder::{ToDo, log_of};
use crate::cli::{Cli, Command, Finished, ProgressArg, resume, run};
use fedrecsim_core::error::{Error, Result};
use fedrecsim_methods::method::Entry;

/// Carries out in this thread what a process of a study's run does, and returns why the run has no
/// result; `None` if it has one.
///
/// # Errors
/// [`Error::Interrupted`] if `interrupted` was set.
pub(crate) fn carry(
    start: &Start,
    data_dir: Option<&Path>,
    methods: &[Entry],
    interrupted: &Arc<AtomicBool>,
) -> Result<Option<String>> {
    let folder = start.folder.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(|reason| Error::write(folder, reason))?;
    forget_failure(&start.folder)?;
    note_beginning(start)?;
    match finished(start, data_dir, methods, interrupted) {
        Ok(Finished {
            stopped_by: Some(Error::Interrupted),
            ..
        })
        | Err(Error::Interrupted) => Err(Error::Interrupted),
        Ok(_) => Ok(failure_of_report(&start.folder)),
        Err(error) => Ok(Some(error.to_string())),
    }
}

/// Writes to the log of a run that it begins, or that it goes on from a checkpoint.
fn note_beginning(start: &Start) -> Result<()> {
    let log = log_of(&start.folder);
    let unwritten = |reason| Error::write(&log, reason);
    let mut options = File::options();
    let (options, words) = match start.to_do {
        ToDo::Resume => (options.append(true), "goes on from its last checkpoint"),
        ToDo::Begin | ToDo::BeginAnew | ToDo::Nothing => {
            (options.write(true).truncate(true), "begins")
        }
    };
    let mut file = options.create(true).open(&log).map_err(unwritten)?;
    writeln!(
        file,
        "{words}, with {} rounds from one checkpoint to the next",
        start.checkpoint_every
    )
    .map_err(unwritten)
}

/// Carries out the command of a run. Its words are read as those of a process are, so that either
/// is the same run.
fn finished(
    start: &Start,
    data_dir: Option<&Path>,
    methods: &[Entry],
    interrupted: &Arc<AtomicBool>,
) -> Result<Finished> {
    let data_dir = data_dir.map(Path::to_owned);
    let launcher = Launcher {
        before: Vec::new(),
        program: "fedrecsim".into(),
        data_dir,
    };
    let (now, interrupted) = (Instant::now(), Arc::clone(interrupted));
    match Cli::try_parse_from(launcher.words(start)).map(|cli| cli.command) {
        Ok(Command::Run(mut of_run)) => {
            of_run.progress = ProgressArg::Off;
            run(&of_run, methods, interrupted, false, now)
        }
        Ok(Command::Resume(mut of_run)) => {
            of_run.progress = ProgressArg::Off;
            resume(&of_run, methods, interrupted, false, now)
        }
        Ok(_) => Err(Error::Usage(
            "a run of a study begins or goes on, and nothing else".to_owned(),
        )),
        Err(refused) => Err(Error::Usage(refused.to_string())),
    }
}
