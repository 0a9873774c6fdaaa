//! Runs of a study that something else than the command carries out: threads of a program in
//! another language, or the workers of a cluster.
//!
//! [`in_threads`] is `study` with a thread of this process for each run. Elsewhere, [`prepare`]
//! lists the runs and what each takes, [`carry_out`] does one of them wherever it is called,
//! `study` with `--no-run` writes the tables, and [`listed`] says what has become of each. The
//! folder is that of `study`, so that either may go on with what the other has begun.

use super::carrier::{How, failure_of_report};
use super::fit::Rehearsal;
use super::folder::{StudyFolder, ToDo, note_failure};
use super::{Work, out, planned, runs_with_data, start};
use crate::cli::inputs::threads_of;
use crate::cli::{Finished, Session, StudyArgs};
use fedrecsim_core::error::{Error, Result};
use fedrecsim_report::study::plan::{Plan, RunId};
use fedrecsim_report::study::record::StudyRecord;
use fedrecsim_report::study::results::RunState;

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

/// The folder of a study whose runs are carried out somewhere. Nobody else begins there until it is
/// dropped.
#[derive(Debug)]
pub struct Held(#[expect(dead_code)] StudyFolder);

/// Carries out a study in threads of this process, and tells lines of progress as runs end.
///
/// # Errors
/// Those of `study`.
pub fn in_threads(
    arguments: &StudyArgs,
    session: &Session,
    tell: &(dyn Fn(&str) + Sync),
) -> Result<Finished> {
    super::carry_out(arguments, session, How::Threads { tell })
}

/// Checks a study, takes and begins its folder, rehearses the arms that have runs to do with
/// `threads`, and lists its runs. Arms whose data set is not there are left out where the study
/// says so.
///
/// # Errors
/// Those of `study`.
pub fn prepare(
    arguments: &StudyArgs,
    session: &Session,
    threads: usize,
) -> Result<(Held, Vec<Prepared>)> {
    let rehearsal = Rehearsal::in_any_process(threads);
    let (plan, text) = planned(arguments, session)?;
    let mut work = Work::begin(arguments, session, plan, &text)?;
    let runs = work.runs_with_data();
    let mut arms = Vec::new();
    for run in &runs {
        if work.folder.to_do(&work.plan, *run)? != ToDo::Nothing {
            arms.push(run.arm);
        }
    }
    arms.dedup();
    work.estimate(&arms, Some(rehearsal))?;
    if session.is_interrupted() {
        return Err(Error::Interrupted);
    }
    work.folder.write_record(&work.record)?;
    let prepared = described(&work.plan, &work.record, &work.folder, &runs)?;
    Ok((Held(work.folder), prepared))
}

/// Lists the runs of a study and what has become of each, without taking its folder.
///
/// # Errors
/// Those of a study that is not there or has faults, and of a report that cannot be read.
pub fn listed(arguments: &StudyArgs, session: &Session) -> Result<Vec<Prepared>> {
    let (plan, text) = planned(arguments, session)?;
    let folder = StudyFolder::shared(out(arguments, &plan));
    let record = StudyRecord::of(&plan, &text, arguments.shard, folder.record()?.as_ref())?;
    described(&plan, &record, &folder, &runs_with_data(arguments, &plan))
}

fn described(
    plan: &Plan,
    record: &StudyRecord,
    folder: &StudyFolder,
    runs: &[RunId],
) -> Result<Vec<Prepared>> {
    let described = |run: &RunId| {
        let (known, scenario) = (&record.arms[run.arm], &plan.arms[run.arm].scenario);
        let failure = match folder.state(plan, *run)? {
            RunState::Failed(reason) => Some(reason),
            _ => None,
        };
        Ok(Prepared {
            arm: known.name.clone(),
            seed: run.seed,
            folder: plan.folder(*run).display().to_string(),
            is_done: folder.to_do(plan, *run)? == ToDo::Nothing,
            failure,
            method: scenario.method.name.clone(),
            rounds: scenario.training.rounds,
            memory_bytes: known.memory_bytes,
            round_s: known.round_s,
        })
    };
    runs.iter().map(described).collect()
}

/// Carries out one run of a study that was [prepared](prepare), from its last checkpoint if there
/// is one, and returns why it has no result; `None` if it has one. A run that is complete stays as
/// it is.
///
/// # Errors
/// [`Error::Interrupted`] if the session was interrupted, after a checkpoint that was due;
/// [`Error::Usage`] for a run that the study does not have, or on which another process is at work.
pub fn carry_out(
    arguments: &StudyArgs,
    session: &Session,
    (arm, seed): (&str, u64),
) -> Result<Option<String>> {
    let (plan, _) = planned(arguments, session)?;
    let is_it = |run: &RunId| plan.arms[run.arm].arm.name == arm && run.seed == seed;
    let run = plan.runs(None).into_iter().find(is_it);
    let run =
        run.ok_or_else(|| Error::Usage(format!("the study has no run {arm}, seed {seed}")))?;
    let folder = StudyFolder::shared(out(arguments, &plan));
    let to_do = folder.to_do(&plan, run)?;
    let of_report = folder.run(&plan, run);
    if to_do == ToDo::Nothing {
        return Ok(failure_of_report(&of_report));
    }
    if folder.is_at_work(&plan, run) {
        return Err(Error::Usage(format!(
            "another process is at work on {arm}, seed {seed}"
        )));
    }
    let threads = threads_of(arguments.threads);
    let start = start(arguments, &plan, &folder, run, to_do, threads);
    let reason = start.carry_out(session.methods, &session.interrupted)?;
    if let Some(reason) = &reason {
        note_failure(&of_report, reason)?;
    }
    Ok(reason)
}
