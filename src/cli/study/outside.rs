//! Runs of a study that something else than `study` starts, such as the workers of a cluster or a program in another
//! language.
//!
//! [`prepare`] lists the runs and what each takes, [`carry_out`] does one of them wherever it is called, and `study` with
//! `--no-run` writes the tables. The folder is that of `study`, so that either may go on with what the other has begun.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use clap::Parser;

use super::child::{Launcher, Start, failure_of_report, note_failure};
use super::execute::CHECKPOINTS;
use super::folder::{StudyFolder, ToDo};
use super::{fit, out, refuse_changes, refuse_unknown_arms, wanted_runs, without_data};
use crate::cli::inputs::threads_of;
use crate::cli::{Cli, Command, Finished, ProgressArg, StudyArgs, resume, run};
use crate::error::{Error, Result};
use crate::method::Entry;
use crate::method::registry::vocabulary_of;
use crate::study::file::{self, Changes};
use crate::study::plan::{Plan, RunId};
use crate::study::record::StudyRecord;

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
    /// The name of its method.
    pub method: String,
    /// The number of its rounds.
    pub rounds: u32,
    /// The memory that it is expected to take; `None` if there is no estimate.
    pub memory_bytes: Option<u64>,
    /// The wall-clock time that a round is expected to take; `None` if there is no estimate.
    pub round_s: Option<f64>,
}

/// Checks a study, rehearses the arms that have runs to do with `threads`, begins its folder, and lists its runs. Arms
/// whose data set is not there are left out where the study says so.
///
/// # Errors
/// Those of `study`.
pub fn prepare(
    arguments: &StudyArgs,
    methods: &[Entry],
    threads: usize,
    interrupted: &Arc<AtomicBool>,
) -> Result<Vec<Prepared>> {
    let (plan, text) = planned(arguments, methods)?;
    refuse_unknown_arms(arguments, &plan)?;
    let folder = StudyFolder::open(out(arguments, &plan))?;
    let earlier = folder.record()?;
    let mut record = StudyRecord::of(&plan, &text, arguments.shard, earlier.as_ref())?;
    if let Some(earlier) = &earlier {
        refuse_changes(earlier, &record, folder.path())?;
    }
    let without_data = without_data(arguments, &plan);
    let runs = wanted_runs(arguments, &plan).into_iter().filter(|run| !without_data.contains(&run.arm));
    let states = runs.map(|run| Ok((run, folder.to_do(&plan, run)? == ToDo::Nothing))).collect::<Result<Vec<_>>>()?;
    let mut arms: Vec<usize> = states.iter().filter(|(_, is_done)| !is_done).map(|(run, _)| run.arm).collect();
    arms.dedup();
    fit::estimate(arguments, methods, &plan, &arms, Some(threads), &mut record, interrupted)?;
    if interrupted.load(Ordering::Relaxed) {
        return Err(Error::Interrupted);
    }
    folder.write_record(&record)?;
    let prepared = |(run, is_done): (RunId, bool)| {
        let known = &record.arms[run.arm];
        Prepared {
            arm: known.name.clone(),
            seed: run.seed,
            folder: plan.folder(run).display().to_string(),
            is_done,
            method: plan.arms[run.arm].scenario.method.name.clone(),
            rounds: plan.arms[run.arm].scenario.training.rounds,
            memory_bytes: known.memory_bytes,
            round_s: known.round_s,
        }
    };
    Ok(states.into_iter().map(prepared).collect())
}

/// Carries out one run of a study that was [prepared](prepare), from its last checkpoint if there is one, and returns why
/// it has no result; `None` if it has one. A run that is complete stays as it is.
///
/// # Errors
/// [`Error::Interrupted`] if `interrupted` was set, after a checkpoint that was due; [`Error::Usage`] for a run that the
/// study does not have, or on which another process is at work.
pub fn carry_out(
    arguments: &StudyArgs,
    methods: &[Entry],
    (arm, seed): (&str, u64),
    interrupted: &Arc<AtomicBool>,
) -> Result<Option<String>> {
    let (plan, _) = planned(arguments, methods)?;
    let found = plan.runs(None).into_iter().find(|run| plan.arms[run.arm].arm.name == arm && run.seed == seed);
    let run = found.ok_or_else(|| Error::Usage(format!("the study has no run {arm}, seed {seed}")))?;
    let folder = StudyFolder::shared(out(arguments, &plan));
    let to_do = folder.to_do(&plan, run)?;
    let of_report = folder.run(&plan, run);
    if to_do == ToDo::Nothing {
        return Ok(failure_of_report(&of_report));
    }
    if folder.is_at_work(&plan, run) {
        return Err(Error::Usage(format!("another process is at work on {arm}, seed {seed}")));
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
    };
    let outcome = finished(arguments, methods, &start, interrupted);
    let reason = match outcome {
        Ok(Finished { stopped_by: Some(Error::Interrupted), .. }) | Err(Error::Interrupted) => {
            return Err(Error::Interrupted);
        }
        Ok(_) => failure_of_report(&of_report),
        Err(error) => Some(error.to_string()),
    };
    reason.iter().try_for_each(|reason| note_failure(&of_report, reason))?;
    Ok(reason)
}

/// Carries out the command by which `study` would start a process.
fn finished(
    arguments: &StudyArgs,
    methods: &[Entry],
    start: &Start,
    interrupted: &Arc<AtomicBool>,
) -> Result<Finished> {
    let folder = start.folder.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(|reason| Error::write(folder, reason))?;
    let launcher = Launcher {
        before: Vec::new(),
        program: "fedrecsim".into(),
        threads: threads_of(arguments.threads),
        data_dir: arguments.data_dir.clone(),
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
        Ok(_) => Err(Error::Usage("a run of a study begins or goes on, and nothing else".to_owned())),
        Err(refused) => Err(Error::Usage(refused.to_string())),
    }
}

/// Reads the study and resolves its arms.
fn planned(arguments: &StudyArgs, methods: &[Entry]) -> Result<(Plan, String)> {
    let changes = Changes { set: arguments.set.clone(), seeds: arguments.seeds.clone() };
    let (study, text) = file::load(&arguments.study, &changes)?;
    Ok((Plan::of(study, &vocabulary_of(methods))?, text))
}
