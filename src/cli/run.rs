//! Carries out `run`, from a scenario file to a report folder.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::RunArgs;
use super::inputs::{Inputs, data_directories, threads_of};
use super::inspect::strictness;
use crate::checkpoint::{self, Header, Keeper, PROGRAM_VERSION};
use crate::error::{Error, Result};
use crate::method::Entry;
use crate::method::registry::vocabulary_of;
use crate::metric::Metric;
#[cfg(feature = "npz")]
use crate::report::model_file::ModelFile;
use crate::report::progress::{Progress, ProgressLine};
use crate::report::record::{RunRecord, Wall};
use crate::report::{FolderLock, ReportFolder, json, terminal};
use crate::scenario::{self, Loaded, Scenario};
use crate::sim::outcome::{ByDirection, Flow, RoundRecord};
use crate::sim::{self, Checkpoints, RoundObserver, RunControl, World};

/// The result of a run that has ended, complete or not.
#[derive(Debug)]
pub struct Finished {
    /// What to print on standard output.
    pub output: String,
    /// Why the run failed, if it did: what stopped it early, or that it learned nothing.
    pub stopped_by: Option<Error>,
}

/// Runs a scenario with the one of `methods` that it names, and writes its report.
///
/// The run stops when `interrupted` is set; `visible` shows a progress bar on standard error; `started` is when the
/// command began, for the wall-clock figures.
///
/// # Errors
/// Returns every error that keeps a run from starting, and a report from being written. A run that stops early is no
/// error here: its finished rounds are reported.
pub fn run(
    arguments: &RunArgs,
    methods: &[Entry],
    interrupted: Arc<AtomicBool>,
    visible: bool,
    started: Instant,
) -> Result<Finished> {
    let input = &arguments.input;
    let strictness = strictness(arguments.strict);
    let Loaded { scenario, warnings } =
        scenario::load_with_warnings(&input.scenario, &input.overrides(), &vocabulary_of(methods), strictness)?;
    let default_folder = || PathBuf::from("reports").join(format!("{}-{}", scenario.name, scenario.seed));
    let path = arguments.out.clone().unwrap_or_else(default_folder);
    if !arguments.overwrite && checkpoint::is_in(&path) {
        // Taking the lock gives another error if that run is still at work.
        FolderLock::take(&path)?;
        let path = path.display();
        return Err(Error::Usage(format!(
            "a run that was stopped left a checkpoint in {path}; go on with it by `fedrecsim resume {path}`, name another folder with --out, or begin anew with --overwrite"
        )));
    }
    // The folder is claimed before anything is read or computed, as a run whose report cannot be written is not worth
    // its time.
    let folder = ReportFolder::create(path, arguments.overwrite)?;
    #[cfg(feature = "npz")]
    let model_file =
        arguments.save_model.as_ref().map(|path| ModelFile::create(path, arguments.overwrite)).transpose()?;
    let directories = data_directories(input.data_dir.as_deref());
    let inputs = Inputs::load(&scenario, &directories, methods)?;
    warnings.iter().for_each(|text| warn(text));
    // The checkpoints of a run that this one replaces would be taken for its own.
    checkpoint::remove_all(folder.path())?;
    let command: Vec<String> = std::env::args().skip(1).collect();
    let mut checkpoints = Checkpoints::none();
    if let Some(every) = arguments.checkpoint_every {
        let header = Header {
            program: PROGRAM_VERSION.to_owned(),
            name: scenario.name.clone(),
            scenario: scenario.to_toml()?,
            parameters: scenario
                .method
                .parameters
                .as_object()
                .into_iter()
                .flatten()
                .map(|(key, _)| key.clone())
                .collect(),
            fingerprint: inputs.fingerprint(),
            command: command.clone(),
            warnings: warnings.clone(),
            directory: absolute(Path::new(".")),
            data_directories: directories.iter().map(|folder| absolute(folder)).collect(),
            replaces: folder.earlier_report().map(|(digest, _)| digest),
            every: every.get(),
            rounds: 0,
        };
        checkpoints.store = Box::new(Keeper::new(folder.path(), header));
    }
    let output = Output {
        folder,
        #[cfg(feature = "npz")]
        model_file,
        threads: input.threads,
        json: arguments.json,
        visible,
        command,
        warnings,
    };
    carry_out(scenario, inputs.world, checkpoints, output, interrupted, started)
}

/// The options of a run that say how it is carried out and where its report goes.
pub(super) struct Output {
    pub folder: ReportFolder,
    /// The file for the parameters, if they are asked for.
    #[cfg(feature = "npz")]
    pub model_file: Option<ModelFile>,
    pub threads: Option<NonZeroUsize>,
    pub json: bool,
    pub visible: bool,
    /// The arguments that the report shows.
    pub command: Vec<String>,
    /// The warnings about the scenario that the report shows.
    pub warnings: Vec<String>,
}

/// Prints a warning about something that does not stop a run.
pub(super) fn warn(text: &str) {
    eprintln!("warning: {text}");
}

/// Runs a world to its end, and writes the report.
pub(super) fn carry_out(
    scenario: Scenario,
    world: World,
    checkpoints: Checkpoints,
    output: Output,
    interrupted: Arc<AtomicBool>,
    started: Instant,
) -> Result<Finished> {
    let Output { folder, threads, json, visible, command, warnings, .. } = output;
    let threads = threads_of(threads);
    let progress = Progress::new(scenario.training.rounds, visible);
    let headline = scenario.evaluation.headline();
    let mut watch = Watch { progress, headline, last: Instant::now(), laps: Vec::new() };
    let control = RunControl { threads, interrupted };
    let outcome = sim::run_from(world, &control, &mut watch, checkpoints)?;
    watch.progress.finish();
    #[cfg(feature = "npz")]
    let model = outcome.model.clone();
    let total = started.elapsed();
    let wall = Wall {
        total_s: total.as_secs_f64(),
        per_round_ms: median(&watch.laps).as_secs_f64() * 1e3,
        peak_rss_bytes: peak_resident_bytes(),
        threads: threads as u32,
    };
    let (mut record, stopped_by) = RunRecord::of(scenario, outcome, wall, command);
    record.warnings = warnings;
    if let Err(error) = folder.write(&record) {
        return Err(without_report(error, stopped_by, &folder));
    }
    #[cfg(feature = "npz")]
    if let Some(file) = output.model_file {
        file.write(&model)?;
    }
    if record.complete {
        if checkpoint::is_in(folder.path()) {
            // The report is forced to the disk before the checkpoints go, as otherwise a power cut could leave neither.
            folder.sync()?;
            checkpoint::sync_folder(folder.path())?;
        }
        checkpoint::remove_all(folder.path())?;
    }
    let output = if json { json::render(&record)? } else { terminal::summary(&record, folder.path()) };
    Ok(Finished { output, stopped_by })
}

/// Returns the error of a run whose report cannot be written because of `error`.
fn without_report(error: Error, stopped_by: Option<Error>, folder: &ReportFolder) -> Error {
    match stopped_by {
        // A disk that had no room for the checkpoint has none for the report, and the first error says what to do.
        Some(first @ Error::CheckpointUnwritten { .. }) => {
            warn(&format!("the finished rounds are not reported: {error}"));
            first
        }
        _ => {
            if checkpoint::is_in(folder.path()) {
                let folder = folder.path().display();
                warn(&format!("the checkpoints in {folder} are left; `fedrecsim resume {folder}` comes to the report"));
            }
            error
        }
    }
}

/// Returns the folder as an absolute path, which is valid for a process that starts in another folder.
fn absolute(folder: &Path) -> PathBuf {
    std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned())
}

/// Shows progress and measures wall-clock time, neither of which reaches the result.
struct Watch {
    progress: Progress,
    headline: Option<Metric>,
    /// When the last round ended, or the first one began.
    last: Instant,
    /// Wall-clock time between the ends of rounds.
    laps: Vec<Duration>,
}

impl RoundObserver for Watch {
    fn round_finished(&mut self, round: &RoundRecord, total: ByDirection<Flow>) {
        let now = Instant::now();
        self.laps.push(now - std::mem::replace(&mut self.last, now));
        let figure = |metric: &Metric| Some((metric.label(), *round.accuracy.as_ref()?.test.get(&metric.name())?));
        self.progress.round_finished(&ProgressLine {
            round: round.round,
            accuracy: self.headline.as_ref().and_then(figure),
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

/// Returns the peak resident memory of this process, if the system is Linux and tells it.
fn peak_resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}
