//! Runs of a study that something else than the command carries out: threads of a program in
//! another language, or the workers of a cluster.
//!
//! [`in_threads`] is `study` with a thread of this process for each run. Elsewhere, [`prepare`]
//! lists the runs and what each takes, [`carry_out`] does one of them wherever it is called,
//! `study` with `--no-run` writes the tables, and [`listed`] says what has become of each. The
//! folder is that of `study`, so that either may go on with what the other has begun.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::carrier::How;
use super::child::{Start, failure_of_report, note_failure};
use super::execute::CHECKPOINTS;
use super::fit::{self, Rehearsal};
use super::folder::{StudyFolder, ToDo};
use super::within::carry;
use super::{
    StudyEnd, begun, carried_out, out, planned, refuse_unknown_arms, wanted_runs, without_data,
};
use crate::cli::StudyArgs;
use crate::cli::inputs::threads_of;
use fedrecsim_core::error::{Error, Result};
use fedrecsim_methods::method::Entry;
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
pub struct Held {
    _folder: StudyFolder,
}

/// Carries out a study in threads of this process, and tells lines of progress as runs end.
///
/// # Errors
/// Those of `study`.
pub fn in_threads(
    arguments: &StudyArgs,
    methods: &[Entry],
    interrupted: &Arc<AtomicBool>,
    tell: &(dyn Fn(&str) + Sync),
) -> Result<StudyEnd> {
    carried_out(arguments, methods, interrupted, How::Threads { tell })
}

/// Checks a study, takes and begins its folder, rehearses the arms that have runs to do with
/// `threads`, and lists its runs. Arms whose data set is not there are left out where the study
/// says so.
///
/// # Errors
/// Those of `study`.
pub fn prepare(
    arguments: &StudyArgs,
    methods: &[Entry],
    threads: usize,
    interrupted: &Arc<AtomicBool>,
) -> Result<(Held, Vec<Prepared>)> {
    let rehearsal = Rehearsal::in_any_process(threads);
    let (plan, text) = planned(arguments, methods)?;
    refuse_unknown_arms(arguments, &plan)?;
    let (folder, mut record) = begun(arguments, (&plan, &text))?;
    let runs = runs_with_data(arguments, &plan);
    let mut arms = Vec::new();
    for run in &runs {
        if folder.to_do(&plan, *run)? != ToDo::Nothing {
            arms.push(run.arm);
        }
    }
    arms.dedup();
    fit::estimate(
        arguments,
        methods,
        &plan,
        &arms,
        Some(rehearsal),
        &mut record,
        interrupted,
    )?;
    if interrupted.load(Ordering::Relaxed) {
        return Err(Error::Interrupted);
    }
    folder.write_record(&record)?;
    let prepared = described(&plan, &record, &folder, &runs)?;
    Ok((Held { _folder: folder }, prepared))
}

/// Lists the runs of a study and what has become of each, without taking its folder.
///
/// # Errors
/// Those of a study that is not there or has faults, and of a report that cannot be read.
pub fn listed(arguments: &StudyArgs, methods: &[Entry]) -> Result<Vec<Prepared>> {
    let (plan, text) = planned(arguments, methods)?;
    let folder = StudyFolder::shared(out(arguments, &plan));
    let record = StudyRecord::of(&plan, &text, arguments.shard, folder.record()?.as_ref())?;
    described(&plan, &record, &folder, &runs_with_data(arguments, &plan))
}

/// Returns the wanted runs whose data set is there, or has to be.
fn runs_with_data(arguments: &StudyArgs, plan: &Plan) -> Vec<RunId> {
    let without_data = without_data(arguments, plan);
    wanted_runs(arguments, plan)
        .into_iter()
        .filter(|run| !without_data.contains(&run.arm))
        .collect()
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
/// [`Error::Interrupted`] if `interrupted` was set, after a checkpoint that was due;
/// [`Error::Usage`] for a run that the study does not have, or on which another process is at work.
pub fn carry_out(
    arguments: &StudyArgs,
    methods: &[Entry],
    (arm, seed): (&str, u64),
    interrupted: &Arc<AtomicBool>,
) -> Result<Option<String>> {
    let (plan, _) = planned(arguments, methods)?;
    let found = plan
        .runs(None)
        .into_iter()
        .find(|run| plan.arms[run.arm].arm.name == arm && run.seed == seed);
    let run =
        found.ok_or_else(|| Error::Usage(format!("the study has no run {arm}, seed {seed}")))?;
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
    let planned = &plan.arms[run.arm];
    let every = planned.scenario.training.rounds.div_ceil(CHECKPOINTS);
    let start = Start {
        folder: of_report.clone(),
        to_do,
        base: planned.arm.base.clone(),
        set: planned.arm.set.clone(),
        seed,
        checkpoint_every: arguments.checkpoint_every.map_or(every, u32::from).max(1),
        threads: threads_of(arguments.threads),
    };
    let reason = carry(&start, arguments.data_dir.as_deref(), methods, interrupted)?;
    reason
        .iter()
        .try_for_each(|reason| note_failure(&of_report, reason))?;
    Ok(reason)
}
