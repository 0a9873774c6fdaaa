//! Carries out `run`, from a scenario file to a report folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;

#[cfg(feature = "parquet")]
use super::args::TableFormat;
use super::carry_out::{Job, carry_out};
use super::estimates::Expected;
use super::inputs::{Inputs, absolute, data_directories, threads_of};
use super::inspect::strictness;
use super::{Finished, RunArgs, Session, leftovers, messages, ranks, reproduce};
use fedrecsim_core::error::{Error, Result};
use fedrecsim_ranks::Crew;
#[cfg(feature = "parquet")]
use fedrecsim_report::report::arrow;
use fedrecsim_report::report::{self, EXPORTERS, ReportFolder};
use fedrecsim_scenario::scenario::{self, Loaded, Scenario};
use fedrecsim_sim::checkpoint::{self, Build, Header, Keeper};
use fedrecsim_sim::sim::{Checkpoints, World};

/// Runs a scenario with the users of this process, and with those of `crew` if there are other
/// processes, and writes its report.
///
/// # Errors
/// Returns every error that keeps a run from starting, and a report from being written. A run that
/// stops early is no error here: its finished rounds are reported.
pub fn run(arguments: &RunArgs, session: &Session, mut crew: Option<Crew>) -> Result<Finished> {
    let (input, options, methods) = (&arguments.input, &arguments.options, session.methods);
    options.check()?;
    let Loaded { scenario, warnings } = scenario::load_with_warnings(
        &input.scenario,
        &input.overrides(),
        &session.vocabulary(),
        strictness(arguments.strict),
    )?;
    // The folder is claimed before anything is read or computed, as a run whose report cannot be
    // written is not worth its time.
    let folder = if arguments.no_report {
        None
    } else {
        Some(claim(arguments, &scenario)?)
    };
    let model_file = options.model_file(arguments.overwrite)?;
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
        expect(&inputs.world, arguments, session.visible)?;
    }
    let mut checkpoints = Checkpoints::none();
    if let Some(folder) = &folder {
        // The checkpoints of a run that this one replaces would be taken for its own.
        checkpoint::remove_all(folder.path())?;
        if options.checkpoint_every.is_some()
            || arguments.keep_checkpoint
            || options.max_wall_time.is_some()
        {
            let ranks = crew.as_ref().map_or(1, Crew::ranks) as u32;
            let about = (folder, &warnings[..], ranks);
            let header = header(arguments, &scenario, &inputs, &directories, about)?;
            let keeper = Keeper::new(folder.path(), header, scenario.training.rounds);
            checkpoints.store = Box::new(keeper.until(options.deadline(session.started)));
        }
    }
    let job = Job {
        options,
        threads: threads_of(input.threads),
        folder,
        model_file,
        command: reproduce::command(input),
        warnings,
        other_builds: Vec::new(),
        expect_digest: arguments.expect_digest.as_deref(),
        keep: arguments.keep_checkpoint,
        crew,
    };
    carry_out(scenario, inputs.world, checkpoints, job, session)
}

/// Says on standard error what a run of `world` will take, and refuses one that would not fit into
/// memory, unless it is forced.
///
/// # Errors
/// [`Error::Memory`], saying what would fit.
fn expect(world: &Arc<World>, arguments: &RunArgs, visible: bool) -> Result<()> {
    // If the first round fails, the run will say why.
    let Ok(expected) = Expected::of(world, threads_of(arguments.input.threads), false) else {
        return Ok(());
    };
    if visible {
        messages::note(&expected.line());
    }
    if arguments.force {
        Ok(())
    } else {
        expected.check()
    }
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
    let exporters = if arguments.options.html {
        report::run::exporters_with_page()
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
    (folder, warnings, ranks): (&ReportFolder, &[String], u32),
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
        warnings: warnings.to_vec(),
        directory: absolute(Path::new(".")),
        data_directories: directories.iter().map(|folder| absolute(folder)).collect(),
        replaces: folder.earlier_report().map(|report| report.digest),
        every: arguments.options.checkpoint_every.map_or(0, u32::from),
        keep: arguments.keep_checkpoint,
        rounds: 0,
        ranks,
    })
}
