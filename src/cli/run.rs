//! Carries out `run`, from a scenario file to a report folder.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use super::RunArgs;
#[cfg(feature = "parquet")]
use super::args::TableFormat;
use super::carry_out::{Finished, Output, carry_out};
use super::estimates::Expected;
use super::inputs::{Inputs, absolute, data_directories, threads_of};
use super::inspect::strictness;
use super::{leftovers, messages, ranks, reproduce};
use fedrecsim_core::error::{Error, Result};
use fedrecsim_methods::method::Entry;
use fedrecsim_methods::method::registry::vocabulary_of;
#[cfg(feature = "parquet")]
use fedrecsim_report::report::arrow;
use fedrecsim_report::report::model_file::ModelFile;
use fedrecsim_report::report::{EXPORTERS, ReportFolder, html};
use fedrecsim_scenario::scenario::{self, Loaded, Scenario};
use fedrecsim_sim::checkpoint::{self, Build, Header, Keeper};
use fedrecsim_sim::sim::{Checkpoints, Crew, World};

/// Runs a scenario with the one of `methods` that it names, and writes its report.
///
/// The run stops when `interrupted` is set; `visible` shows a progress bar on standard error;
/// `started` is when the command began, for the wall-clock figures.
///
/// # Errors
/// Returns every error that keeps a run from starting, and a report from being written. A run that
/// stops early is no error here: its finished rounds are reported.
pub fn run(
    arguments: &RunArgs,
    methods: &[Entry],
    interrupted: Arc<AtomicBool>,
    visible: bool,
    started: Instant,
) -> Result<Finished> {
    run_on_ranks(arguments, methods, interrupted, visible, (started, None))
}

/// Runs a scenario as [`run`] does, with the users of the other processes if there are any.
///
/// # Errors
/// As [`run`], and an error if another process is about to do something else.
pub(crate) fn run_on_ranks(
    arguments: &RunArgs,
    methods: &[Entry],
    interrupted: Arc<AtomicBool>,
    visible: bool,
    (started, mut crew): (Instant, Option<Crew>),
) -> Result<Finished> {
    let input = &arguments.input;
    if arguments.html {
        html::check()?;
    }
    let strictness = strictness(arguments.strict);
    let Loaded { scenario, warnings } = scenario::load_with_warnings(
        &input.scenario,
        &input.overrides(),
        &vocabulary_of(methods),
        strictness,
    )?;
    // The folder is claimed before anything is read or computed, as a run whose report cannot be
    // written is not worth its time.
    let folder = if arguments.no_report {
        None
    } else {
        Some(claim(arguments, &scenario)?)
    };
    let model_file = arguments
        .save_model
        .as_ref()
        .map(|path| ModelFile::create(path, arguments.overwrite))
        .transpose()?;
    let model_file = model_file.map(|file| file.with_users(&arguments.save_users));
    let directories = data_directories(input.data_dir.as_deref());
    let inputs = match &mut crew {
        None => Inputs::load(&scenario, &directories, methods)?,
        Some(crew) => ranks::assemble(
            crew,
            &ranks::plan(&scenario, None)?,
            (&scenario, &directories, methods),
        )?,
    };
    warnings.iter().for_each(|text| messages::warn(text));
    // What a run takes is estimated for one process.
    if crew.is_none() {
        expect(&inputs.world, input.threads, arguments.force, visible)?;
    }
    let mut checkpoints = Checkpoints::none();
    if let Some(folder) = &folder {
        // The checkpoints of a run that this one replaces would be taken for its own.
        checkpoint::remove_all(folder.path())?;
        if arguments.checkpoint_every.is_some()
            || arguments.keep_checkpoint
            || arguments.max_wall_time.is_some()
        {
            let about = header(arguments, &scenario, &inputs, &directories, folder)?;
            let ranks = crew.as_ref().map_or(1, Crew::ranks) as u32;
            let header = Header {
                warnings: warnings.clone(),
                ranks,
                ..about
            };
            let keeper = Keeper::new(folder.path(), header, scenario.training.rounds);
            checkpoints.store = Box::new(
                keeper.until(
                    arguments
                        .max_wall_time
                        .and_then(|limit| started.checked_add(limit)),
                ),
            );
        }
    }
    let output = Output {
        folder,
        model_file,
        threads: input.threads,
        json: arguments.json,
        visible,
        progress: arguments.progress,
        command: reproduce::command(input),
        warnings,
        other_builds: Vec::new(),
        expect_digest: arguments.expect_digest.clone(),
        keep: arguments.keep_checkpoint,
        crew,
    };
    carry_out(
        scenario,
        inputs.world,
        checkpoints,
        output,
        interrupted,
        started,
    )
}

/// Says on standard error what a run of `world` will take, and refuses one that would not fit into
/// memory, unless `force` is set.
///
/// # Errors
/// [`Error::Memory`], saying what would fit.
fn expect(
    world: &Arc<World>,
    threads: Option<NonZeroUsize>,
    force: bool,
    visible: bool,
) -> Result<()> {
    // If the first round fails, the run will say why.
    let Ok(expected) = Expected::of(world, threads_of(threads), false) else {
        return Ok(());
    };
    if visible {
        messages::note(&expected.line());
    }
    if force { Ok(()) } else { expected.check() }
}

/// Returns the folder for the report.
pub(crate) fn folder_of(arguments: &RunArgs, scenario: &Scenario) -> PathBuf {
    let by_default =
        || PathBuf::from("reports").join(format!("{}-{}", scenario.name, scenario.seed));
    arguments.out.clone().unwrap_or_else(by_default)
}

/// Claims the folder for the report.
fn claim(arguments: &RunArgs, scenario: &Scenario) -> Result<ReportFolder> {
    let path = folder_of(arguments, scenario);
    if !arguments.overwrite && leftovers::stopped_run_is_in(&path)? {
        let path = path.display();
        return Err(Error::Usage(format!(
            "a run that was stopped left a checkpoint in {path}; go on with it by `fedrecsim resume {path}`, name another folder with --out, or begin anew with --overwrite"
        )));
    }
    let folder = ReportFolder::create(path, arguments.overwrite)?;
    let exporters = if arguments.html {
        html::run::exporters()
    } else {
        EXPORTERS.to_vec()
    };
    #[cfg(feature = "parquet")]
    let exporters = match arguments.format {
        TableFormat::Csv => exporters,
        TableFormat::Parquet => arrow::with_parquet(exporters),
    };
    Ok(folder.with_exporters(exporters))
}

/// Returns what checkpoints of the run say about it.
fn header(
    arguments: &RunArgs,
    scenario: &Scenario,
    inputs: &Inputs,
    directories: &[PathBuf],
    folder: &ReportFolder,
) -> Result<Header> {
    let parameters = scenario.method.parameters.as_object();
    Ok(Header {
        build: Build::running(&crate::PROGRAM, &inputs.world.method.version())?,
        other_builds: Vec::new(),
        name: scenario.name.clone(),
        scenario: scenario.to_toml()?,
        parameters: parameters
            .into_iter()
            .flatten()
            .map(|(key, _)| key.clone())
            .collect(),
        fingerprint: inputs.fingerprint(),
        command: reproduce::command(&arguments.input),
        warnings: Vec::new(),
        directory: absolute(Path::new(".")),
        data_directories: directories.iter().map(|folder| absolute(folder)).collect(),
        replaces: folder.earlier_report().map(|report| report.digest),
        every: arguments.checkpoint_every.map_or(0, u32::from),
        keep: arguments.keep_checkpoint,
        rounds: 0,
        ranks: 1,
    })
}
