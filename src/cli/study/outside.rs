//! Runs of a study that something else than the command carries out, such as the workers of a
//! cluster.
//!
//! [`prepare`] lists the runs and what each takes, [`carry_out`] does one of them wherever it is
//! called, `study` with `--no-run` writes the tables, and [`listed`] says what has become of each.
//! The folder is that of `study`, so that either may go on with what the other has begun. The words
//! are those of the command `study`.

use std::ffi::OsString;

use super::OpenStudy;
use super::carrier::failure_of_report;
use super::folder::{ToDo, arms_of, note_failure};
use crate::cli::Session;
use crate::cli::args::{Command, StudyRunsArgs, parsed};
use crate::cli::inputs::threads_of;
use crate::{Error, Result};
use fedrecsim_report::FolderLock;
use fedrecsim_report::study::{RunState, StudyRecord};

/// A run of a study, and what it takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Prepared {
    /// The name of its arm.
    pub arm: String,
    /// The seed.
    pub seed: u64,
    /// The folder of its report, below that of the study.
    pub folder: String,
    /// Whether its report is complete.
    pub is_done: bool,
    /// The reason why it has no result, if it was run and has none.
    pub failure: Option<String>,
    /// The name of its method.
    pub method: String,
    /// The number of its rounds.
    pub rounds: u32,
    /// The memory that it is expected to take in a process of its own; `None` if there is no
    /// estimate.
    pub memory_bytes: Option<u64>,
    /// The wall-clock time that a round is expected to take; `None` if there is no estimate.
    pub round_s: Option<f64>,
}

/// Reads the words of a study.
fn arguments(words: Vec<OsString>) -> Result<StudyRunsArgs> {
    match parsed(words)? {
        Command::Study(arguments) => Ok(arguments.runs),
        _ => Err(Error::Usage("expected the words of `study`".to_owned())),
    }
}

/// Checks a study, takes and begins its folder, rehearses the arms that have runs to do with
/// `threads`, and lists its runs. Nobody else begins in the folder until the lock is dropped. Arms
/// whose data set is not there are left out where the study says so.
///
/// # Errors
/// Those of `study`.
pub fn prepare(
    words: Vec<OsString>,
    session: &Session,
    threads: usize,
) -> Result<(FolderLock, Vec<Prepared>)> {
    let arguments = arguments(words)?;
    let work = OpenStudy::of(&arguments, &[], session)?;
    let (lock, mut record) = work.begin()?;
    let left = work.left_of(&work.runs_with_data())?;
    let arms = arms_of(left.iter().map(|(run, _)| run));
    work.estimate(&mut record, &arms, Some(threads))?;
    if session.is_interrupted() {
        return Err(Error::Interrupted);
    }
    work.write_record(&record)?;
    Ok((lock, described(&work, &record)?))
}

/// Lists the runs of a study and what has become of each, without taking its folder.
///
/// # Errors
/// Those of a study that is not there or has faults, and of a report that cannot be read.
pub fn listed(words: Vec<OsString>, session: &Session) -> Result<Vec<Prepared>> {
    let arguments = arguments(words)?;
    let work = OpenStudy::of(&arguments, &[], session)?;
    let (record, _) = work.record()?;
    described(&work, &record)
}

fn described(work: &OpenStudy, record: &StudyRecord) -> Result<Vec<Prepared>> {
    let mut runs = Vec::new();
    for run in work.runs_with_data() {
        let (known, scenario) = (&record.arms[run.arm], &work.plan.arms[run.arm].scenario);
        let failure = match work.result(run)?.state {
            RunState::Failed(reason) => Some(reason),
            _ => None,
        };
        runs.push(Prepared {
            arm: known.name.clone(),
            seed: run.seed,
            folder: work.plan.folder(run).display().to_string(),
            is_done: work.to_do(run)? == ToDo::Nothing,
            failure,
            method: scenario.method.name.clone(),
            rounds: scenario.training.rounds,
            memory_bytes: known.memory_bytes,
            round_s: known.round_s,
        });
    }
    Ok(runs)
}

/// Carries out one run of a study that was [prepared](prepare), from its last checkpoint if there
/// is one, and returns why it has no result; `None` if it has one. A run that is complete stays as
/// it is.
///
/// # Errors
/// [`Error::Interrupted`] if the session was interrupted, after a checkpoint that was due;
/// [`Error::Usage`] for a run that the study does not have, or that another process is working on.
pub fn carry_out(
    words: Vec<OsString>,
    session: &Session,
    (arm, seed): (&str, u64),
) -> Result<Option<String>> {
    let arguments = arguments(words)?;
    let work = OpenStudy::of(&arguments, &[], session)?;
    let mut runs = work.plan.runs(None).into_iter();
    let run = runs.find(|run| work.plan.arms[run.arm].arm.name == arm && run.seed == seed);
    let run =
        run.ok_or_else(|| Error::Usage(format!("the study has no run {arm}, seed {seed}")))?;
    let (to_do, folder) = (work.to_do(run)?, work.folder_of(run));
    if to_do == ToDo::Nothing {
        return Ok(failure_of_report(&folder));
    }
    if work.is_at_work(run) {
        return Err(Error::Usage(format!(
            "another process is at work on {arm}, seed {seed}"
        )));
    }
    let start = work.start(run, to_do, threads_of(arguments.threads));
    let reason = start.carry_out(session.methods, &session.interrupted)?;
    if let Some(reason) = &reason {
        note_failure(&folder, reason)?;
    }
    Ok(reason)
}
