//! Runs a world for `run` and `resume`: shows progress, writes the report, and removes the
//! checkpoints.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::args::ProgressArg;
use super::inputs::threads_of;
use super::memory;
use super::messages::warn;
use super::saved_users::saved_users;
use super::width;
use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::metric::Metric;
use fedrecsim_report::report::model_file::ModelFile;
use fedrecsim_report::report::progress::{
    LINES_EVERY, LatestAccuracy, Progress, ProgressLine, Show,
};
use fedrecsim_report::report::record::{RunRecord, Wall};
use fedrecsim_report::report::{ReportFolder, check, json, terminal};
use fedrecsim_scenario::scenario::Scenario;
use fedrecsim_sim::checkpoint;
use fedrecsim_sim::sim::outcome::{ByDirection, Flow, RoundRecord};
use fedrecsim_sim::sim::{self, Checkpoints, Crew, RoundObserver, RunControl, Simulation, World};

/// The result of a run that has ended, complete or not.
#[derive(Debug, Default)]
pub struct Finished {
    /// What to print on standard output.
    pub output: String,
    /// What stopped it early, if anything did.
    pub stopped_by: Option<Error>,
    /// What its result differs in from what was expected of it, if it does.
    pub mismatch: Option<Error>,
}

impl Finished {
    /// Returns the output, and the errors that are no reason to withhold it.
    pub(crate) fn into_parts(self) -> (String, Vec<Error>) {
        (
            self.output,
            self.stopped_by.into_iter().chain(self.mismatch).collect(),
        )
    }
}

/// The options of a run that say how it is carried out and where its report goes.
pub(crate) struct Output {
    /// The folder for the report, unless there is to be none.
    pub folder: Option<ReportFolder>,
    /// The file for the parameters, if they are asked for.
    pub model_file: Option<ModelFile>,
    pub threads: Option<NonZeroUsize>,
    pub json: bool,
    /// Whether standard error is a terminal.
    pub visible: bool,
    /// How progress is to be shown.
    pub progress: ProgressArg,
    /// The command that the report shows.
    pub command: Vec<String>,
    /// The warnings about the scenario that the report shows.
    pub warnings: Vec<String>,
    /// The other builds of the program that earlier rounds were made by, described.
    pub other_builds: Vec<String>,
    /// The beginning of the digest that is expected (hexadecimal), if one is.
    pub expect_digest: Option<String>,
    /// Whether the last checkpoint of a complete run stays.
    pub keep: bool,
    /// The other processes of the run, if it has any.
    pub crew: Option<Crew>,
}

/// Runs a world to its end, and writes the report.
pub(crate) fn carry_out(
    scenario: Scenario,
    world: impl Into<Arc<World>>,
    checkpoints: Checkpoints,
    output: Output,
    interrupted: Arc<AtomicBool>,
    started: Instant,
) -> Result<Finished> {
    let Output {
        folder,
        threads,
        json,
        visible,
        progress,
        command,
        warnings,
        other_builds,
        ..
    } = output;
    let threads = threads_of(threads);
    let progress = Progress::new(scenario.training.rounds, shown(progress, visible));
    let headline = scenario.evaluation.headline();
    let mut watch = Watch {
        progress,
        headline,
        accuracy: None,
        last: Instant::now(),
        laps: Vec::new(),
    };
    let control = RunControl {
        threads,
        interrupted,
    };
    let simulation = match output.crew {
        None => sim::run_to_end(world, &control, &mut watch, checkpoints)?,
        Some(crew) => on_ranks(world, &control, &mut watch, checkpoints, crew)?,
    };
    let users = output.model_file.as_ref().map_or(Ok(Vec::new()), |file| {
        saved_users(file.users(), &simulation)
    })?;
    let outcome = simulation.finish_watched(&mut watch)?;
    watch.progress.finish();
    let model = outcome.model.clone();
    let total = started.elapsed();
    let wall = Wall {
        total_s: total.as_secs_f64(),
        per_round_ms: median(&watch.laps).as_secs_f64() * 1e3,
        peak_rss_bytes: memory::peak_resident_bytes(),
        threads: threads as u32,
    };
    let (mut record, stopped_by) = RunRecord::of(scenario, outcome, wall, command, &crate::PROGRAM);
    record.warnings = warnings;
    record.other_builds = other_builds;
    check::check(&record)?;
    if let Some(folder) = &folder
        && let Err(error) = folder.write(&record)
    {
        return Err(without_report(error, stopped_by, folder));
    }
    if let Some(file) = output.model_file {
        file.write(&model, &users)?;
    }
    if let Some(folder) = folder.as_ref().filter(|_| record.complete) {
        remove_checkpoints(folder, output.keep)?;
    }
    let mismatch = mismatch(&record, stopped_by.as_ref(), output.expect_digest);
    let path = folder.as_ref().map(ReportFolder::path);
    let output = if json {
        json::render(&record)?
    } else {
        terminal::summary(&record, path)
    };
    Ok(Finished {
        output,
        stopped_by,
        mismatch,
    })
}

/// Runs a world whose users are in several processes. If it is stopped, what to do is told before
/// the report is written, as there may be no time for that.
fn on_ranks(
    world: impl Into<Arc<World>>,
    control: &RunControl,
    watch: &mut Watch,
    checkpoints: Checkpoints,
    crew: Crew,
) -> Result<Simulation> {
    let simulation = sim::run_to_end_on_ranks(world, control, watch, checkpoints, crew)?;
    if let Some(error @ (Error::Interrupted | Error::RankLost { .. })) = simulation.stopped_by() {
        watch.progress.finish();
        warn(&error.to_string());
    }
    Ok(simulation)
}

/// Returns how progress is shown where standard error is a terminal, or is none.
fn shown(asked: ProgressArg, is_terminal: bool) -> Show {
    match asked {
        ProgressArg::Off => Show::Nothing,
        ProgressArg::Rounds => Show::Lines(Duration::ZERO),
        ProgressArg::Auto if is_terminal => Show::Bar(width::of_stderr()),
        ProgressArg::Auto => Show::Lines(LINES_EVERY),
    }
}

/// Removes the checkpoints of a complete run from its folder, if `keep` is true except for the last
/// one.
fn remove_checkpoints(folder: &ReportFolder, keep: bool) -> Result<()> {
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
/// for a run that its user or its wall-clock time has stopped, from which no digest can be
/// expected.
fn mismatch(
    record: &RunRecord,
    stopped_by: Option<&Error>,
    expected: Option<String>,
) -> Option<Error> {
    if matches!(
        stopped_by,
        Some(Error::Interrupted | Error::TimeIsUp { .. })
    ) {
        return None;
    }
    let expected = expected.filter(|expected| !record.digest.starts_with(expected.as_str()))?;
    Some(Error::OtherDigest {
        expected,
        found: record.digest.clone(),
    })
}

/// Returns the error of a run whose report cannot be written because of `error`.
fn without_report(error: Error, stopped_by: Option<Error>, folder: &ReportFolder) -> Error {
    match stopped_by {
        // A disk that had no room for the checkpoint has none for the report, and the first error
        // says what to do.
        Some(first @ Error::CheckpointUnwritten { .. }) => {
            warn(&format!("the finished rounds are not reported: {error}"));
            first
        }
        _ => {
            if checkpoint::is_in(folder.path()) {
                let folder = folder.path().display();
                warn(&format!(
                    "the checkpoints in {folder} are left; `fedrecsim resume {folder}` comes to the report"
                ));
            }
            error
        }
    }
}

/// Shows progress and measures wall-clock time, neither of which reaches the result.
struct Watch {
    progress: Progress,
    headline: Option<Metric>,
    /// The figure that was measured last.
    accuracy: Option<LatestAccuracy>,
    /// When the last round ended, or the first one began.
    last: Instant,
    /// Wall-clock time between the ends of rounds.
    laps: Vec<Duration>,
}

impl RoundObserver for Watch {
    fn round_finished(&mut self, round: &RoundRecord, total: ByDirection<Flow>) {
        let now = Instant::now();
        self.laps.push(now - std::mem::replace(&mut self.last, now));
        let figure = |metric: &Metric| {
            let value = *round.accuracy.as_ref()?.test.get(&metric.name())?;
            Some(LatestAccuracy {
                label: metric.label(),
                value,
                round: round.round,
            })
        };
        self.accuracy = self
            .headline
            .as_ref()
            .and_then(figure)
            .or_else(|| self.accuracy.take());
        self.progress.round_finished(&ProgressLine {
            round: round.round,
            accuracy: self.accuracy.clone(),
            bytes: total.up.sent + total.down.sent,
            virtual_time_s: round.virtual_time_s,
        });
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.progress.finish();
    }
}

fn median(laps: &[Duration]) -> Duration {
    let mut sorted = laps.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}
