//! Runs a world for `run` and `resume`, writes the report, and removes the checkpoints.

use std::fs::File;
use std::io::BufWriter;
use std::sync::Arc;
use std::time::Instant;

use super::args::RunOptions;
use super::control::Control;
use super::output_file::OutputFile;
use super::screen::warn;
use super::watch::Watch;
use super::{Finished, Session, memory, screen};
use crate::UserId;
use crate::scenario::Scenario;
use fedrecsim_core::{Error, ErrorKind, Result, shell_word};
use fedrecsim_data::dataset::KeptItems;
use fedrecsim_ranks::{self as ranks, Crew};
use fedrecsim_report::{self as report, ReportFolder, RunRecord, UserArrays, Wall};
use fedrecsim_sim::deployment::{Recorded, replay};
use fedrecsim_sim::{
    self as sim, Checkpoints, Outcome, RunControl, Simulation, Stop, World, checkpoint,
};

/// How a run is carried out, and where its report goes.
pub(crate) struct Job<'a> {
    pub options: &'a RunOptions,
    pub threads: usize,
    /// What the result is held against, if that was asked for.
    pub controls: Vec<Control>,
    /// The folder for the report, unless there is to be none.
    pub folder: Option<ReportFolder>,
    /// The file for the parameters, if they are asked for.
    pub model_file: Option<(OutputFile, File)>,
    /// The users whose private parameters that file has.
    pub saved: Vec<UserId>,
    /// The command that the report shows.
    pub command: Vec<String>,
    /// The warnings about the scenario that the report shows.
    pub warnings: Vec<String>,
    /// The other builds of the program that earlier rounds were made by, described.
    pub other_builds: Vec<String>,
    /// The beginning of the digest that is expected (hexadecimal), if one is.
    pub expect_digest: Option<&'a str>,
    /// Whether the last checkpoint of a complete run stays.
    pub keep: bool,
    /// The other processes of the run, if it has any.
    pub crew: Option<Crew>,
}

impl RunOptions {
    /// Begins the file for the parameters, if one is asked for.
    pub(crate) fn model_file(&self, overwrite: bool) -> Result<Option<(OutputFile, File)>> {
        let path = self.save_model.as_ref();
        let is_private = !self.save_users.is_empty();
        path.map(|path| OutputFile::create(path, overwrite, is_private))
            .transpose()
    }

    /// Returns when the run is to stop, if it began then.
    pub(crate) fn deadline(&self, started: Instant) -> Option<Instant> {
        started.checked_add(self.max_wall_time?)
    }
}

/// Begins to watch a run, and returns what controls it.
fn begin<'s>(scenario: &Scenario, job: &Job, session: &Session<'s>) -> (Watch<'s>, RunControl) {
    let mut watch = Watch::new(scenario, job.options.progress, session);
    let path = job.folder.as_ref().map(ReportFolder::path);
    watch.begin(scenario, path, session);
    let control = RunControl {
        threads: job.threads,
        interrupted: Arc::clone(&session.interrupted),
    };
    (watch, control)
}

/// Runs a world to its end, and writes the report.
pub(crate) fn carry_out(
    scenario: Scenario,
    world: Arc<World>,
    checkpoints: Checkpoints,
    mut job: Job,
    session: &Session,
) -> Result<Finished> {
    let (mut watch, control) = begin(&scenario, &job, session);
    let simulation = match job.crew.take() {
        None => sim::run_to_end(world, &control, &mut watch, checkpoints, None)?,
        Some(crew) => on_ranks(world, &control, &mut watch, checkpoints, crew)?,
    };
    let users = saved_users(&job.saved, &simulation)?;
    let mut outcome = simulation.finish_watched(&mut watch)?;
    let is_complete = outcome.stopped_by.is_none();
    let controls = std::mem::take(&mut job.controls).into_iter();
    for beside in controls.filter(|_| is_complete) {
        let warning = beside.stand_beside(&mut outcome, &scenario, &control)?;
        warning.iter().for_each(|text| session.warn(text));
        job.warnings.extend(warning);
    }
    conclude(scenario, (outcome, users), watch, job, session)
}

/// Repeats a run of real time from what its server was told, and writes the report.
pub(super) fn repeat(
    scenario: Scenario,
    world: Arc<World>,
    arrivals: &Recorded,
    job: Job,
    session: &Session,
) -> Result<Finished> {
    let (mut watch, control) = begin(&scenario, &job, session);
    let outcome = replay(world, &control, arrivals, &mut watch)?;
    conclude(scenario, (outcome, Vec::new()), watch, job, session)
}

/// Writes the report of a run that is over, and removes its checkpoints.
pub(super) fn conclude(
    scenario: Scenario,
    (outcome, users): (Outcome, Vec<UserArrays>),
    mut watch: Watch<'_>,
    job: Job,
    session: &Session,
) -> Result<Finished> {
    let Job {
        options,
        threads,
        folder,
        ..
    } = job;
    watch.finish();
    let model = outcome.model.clone();
    let wall = Wall {
        total_s: session.started.elapsed().as_secs_f64(),
        per_round_ms: watch.per_round().as_secs_f64() * 1e3,
        // Within another program, it is the peak of all that the process has ever done.
        peak_rss_bytes: session
            .is_program
            .then(memory::peak_resident_bytes)
            .flatten(),
        threads: threads as u32,
    };
    let (mut record, stopped_by) =
        RunRecord::of(scenario, outcome, wall, job.command, &crate::PROGRAM);
    record.warnings = job.warnings;
    record.other_builds = job.other_builds;
    report::check(&record)?;
    let mut errors = Vec::new();
    let mismatch = mismatch(&record, stopped_by.as_ref(), job.expect_digest);
    let reported = match folder
        .as_ref()
        .map(|folder| (folder, folder.write(&record)))
    {
        Some((folder, Err(error))) => {
            // What is printed then has the figures, which are nowhere else.
            errors.push(without_report(error, stopped_by, folder));
            None
        }
        reported => {
            errors.extend(stopped_by);
            reported.map(|(folder, _)| folder)
        }
    };
    errors.extend(mismatch);
    if let Some((output, file)) = job.model_file {
        let written = report::write_npz(BufWriter::new(file), &model, &users);
        let written = written.map_err(|reason| output.unwritten(reason));
        errors.extend(written.and_then(|_| output.publish()).err());
    }
    if let Some(folder) = reported.filter(|_| record.complete && errors.is_empty()) {
        remove_checkpoints(folder, job.keep)?;
    }
    Ok(Finished {
        output: if options.json {
            report::run_json(&record)?
        } else {
            let columns = screen::of_stdout().filter(|_| session.is_program);
            report::summary(&record, reported.map(ReportFolder::path), columns)
        },
        is_in_files: reported.is_some() && !options.json,
        errors,
        ..Finished::default()
    })
}

/// Runs a world whose users are in several processes. If it is stopped, what to do is told before
/// the report is written, as there may be no time for that.
fn on_ranks(
    world: Arc<World>,
    control: &RunControl,
    watch: &mut Watch<'_>,
    checkpoints: Checkpoints,
    crew: Crew,
) -> Result<Simulation> {
    let simulation = ranks::run_to_end(world, control, watch, checkpoints, crew)?;
    if let Some(error) = simulation.stopped_by()
        && (matches!(error, Error::Interrupted)
            || matches!(error.ended_by(), Some(Stop::ProcessLost { .. })))
    {
        watch.finish();
        warn(&error.to_string());
    }
    Ok(simulation)
}

/// Removes the checkpoints of a complete run from its folder, if `keep` is true except for the last
/// one.
pub(crate) fn remove_checkpoints(folder: &ReportFolder, keep: bool) -> Result<()> {
    if checkpoint::is_in(folder.path()) {
        // The report is forced to the disk before the checkpoints go, as otherwise a power cut
        // could leave neither.
        folder.sync()?;
        checkpoint::sync_folder(folder.path())?;
    }
    if keep {
        checkpoint::remove_others(folder.path())
    } else {
        checkpoint::remove_all(folder.path())
    }
}

/// Returns the error of a run whose digest is not the one that was expected; `None` if it is, and
/// for a run that its user or its wall-clock time has stopped, since such a run has no expected
/// digest.
fn mismatch(
    record: &RunRecord,
    stopped_by: Option<&Error>,
    expected: Option<&str>,
) -> Option<Error> {
    let is_cut_short = |error: &Error| {
        matches!(error, Error::Interrupted)
            || matches!(error.ended_by(), Some(Stop::TimeIsUp { .. }))
    };
    let (digest, expected) = (&record.digest, expected?);
    if stopped_by.is_some_and(is_cut_short) || digest.starts_with(expected) {
        return None;
    }
    Some(Error::Told {
        kind: ErrorKind::Failure,
        message: format!("the result digest is {digest}, and --expect-digest {expected} was given"),
    })
}

/// Returns the error of a run whose report cannot be written because of `error`.
fn without_report(error: Error, stopped_by: Option<Error>, folder: &ReportFolder) -> Error {
    match stopped_by {
        // A disk that had no room for the checkpoint has none for the report, and the first error
        // says what to do.
        Some(first) if matches!(first.ended_by(), Some(Stop::CheckpointUnwritten { .. })) => {
            warn(&format!("the finished rounds are not reported: {error}"));
            first
        }
        _ => {
            if checkpoint::is_in(folder.path()) {
                let command = shell_word(&folder.path().to_string_lossy());
                let folder = folder.path().display();
                warn(&format!(
                    "the checkpoints in {folder} are left; `fedrecsim resume {command}` makes the \
                     report"
                ));
            }
            error
        }
    }
}

/// Returns the arrays of `users` for the model's file, at the end of `simulation`. After a run that
/// was stopped within a round it is nothing, as some of the users are in training then.
///
/// # Errors
/// Defects of the simulator.
fn saved_users(users: &[UserId], simulation: &Simulation) -> Result<Vec<UserArrays>> {
    if simulation.stopped_by().is_some() {
        return Ok(Vec::new());
    }
    let dataset = &simulation.world().dataset;
    let items = dataset.items();
    let arrays = |user| {
        Ok(UserArrays {
            name: dataset.user_name(user).into_owned(),
            table: simulation.personal_table(user)?,
            vector: simulation.personal_vector(user)?,
            items: marked(&simulation.items_of(user)?, items),
        })
    };
    users.iter().map(|user| arrays(*user)).collect()
}

/// Returns for each item whether its user trains on it, or has it held out.
fn marked(kept: &KeptItems, all: usize) -> Vec<u8> {
    let mut items = vec![0; all];
    for item in &kept.training {
        items[*item as usize] = 1;
    }
    for (held_out, number) in [(&kept.validation, 2), (&kept.test, 3)] {
        for item in held_out {
            items[*item as usize] = number;
        }
    }
    items
}
