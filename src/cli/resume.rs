//! Carries out `resume`, which goes on from a checkpoint.

use std::path::{Path, PathBuf};

use super::args::ResumeArgs;
use super::carry_out::{Job, carry_out};
use super::inputs::threads_of;
use super::task::Task;
use super::{Finished, Session, leftovers, serve};
use crate::{Error, Result};
use fedrecsim_ranks::Crew;
use fedrecsim_report::{EarlierReport, ReportFolder};
use fedrecsim_scenario::{self as scenario, AvailabilityPattern, RatesSpec, Scenario, SpeedSpec};
use fedrecsim_sim::Checkpoints;
use fedrecsim_sim::checkpoint::{self, Build, Header, Keeper, Opened};

/// Goes on with the run whose checkpoint is in a folder, and writes its report there. The other
/// arguments are those of [`run`](super::run::run).
///
/// # Errors
/// [`Error::Unrestorable`] if there is no sound checkpoint, or one of another run, build or data set;
/// the errors that keep a run from starting, and a report from being written.
pub(crate) fn resume(
    arguments: &ResumeArgs,
    session: &Session,
    mut crew: Option<Crew>,
) -> Result<Finished> {
    let options = &arguments.options;
    // The folder is locked before a checkpoint is looked for, as a run at work there would replace
    // the checkpoint meanwhile.
    let folder = ReportFolder::reopen(&arguments.folder)?;
    let found = checkpoint::find(folder.path())?;
    let Opened {
        mut header,
        world: archive,
    } = found.checkpoint;
    for reason in found.passed_over {
        session.warn(&format!(
            "{reason}; going on from the checkpoint after round {}",
            header.rounds
        ));
    }
    header.check_folder(folder.path())?;
    serve::check_is_here(&header)?;
    let complete = leftovers::complete_run_in(&folder, &header);
    if complete.is_some() && arguments.rounds.is_none() {
        // It may have been killed before it removed its checkpoints.
        leftovers::remove_from(&folder)?;
    }
    check_rounds(arguments, &header, complete.as_ref())?;
    let Planned { saved, task, added } = plan(arguments, &header, session, complete.is_some())?;
    if let Some(crew) = &mut crew {
        let rounds = header.rounds.to_le_bytes().to_vec();
        crew.combine(&mut |_| Ok(()), || Ok(rounds))?;
    }
    let inputs = task.inputs(crew.as_mut(), session.methods)?;
    let running = Build::running(&crate::PROGRAM, &inputs.world.method.version())?;
    if !arguments.other_build {
        header.check_build(&running)?;
    }
    header.check(&saved, &inputs.fingerprint())?;
    header.take_over(running);
    header.scenario = task.scenario.to_toml()?;
    header.ranks = crew.as_ref().map_or(1, Crew::ranks) as u32;
    if let Some(added) = added {
        header.command.extend(["--set".to_owned(), added]);
    }
    header.replaces = complete.map(|report| report.digest).or(header.replaces);
    header.every = options.checkpoint_every.unwrap_or(header.every);
    let job = Job {
        controls: Vec::new(),
        options,
        saved: task.users_named(&options.save_users, &inputs)?,
        threads: threads_of(arguments.threads),
        model_file: options.model_file(true)?,
        command: header.command.clone(),
        warnings: header.warnings.clone(),
        other_builds: header.other_builds.clone(),
        expect_digest: None,
        keep: header.keep,
        crew,
        folder: Some(folder),
    };
    let keeper = Keeper::new(&arguments.folder, header, task.scenario.training.rounds);
    let checkpoints = Checkpoints {
        resumed: Some(archive),
        store: Box::new(keeper.until(options.deadline(session.started))),
    };
    carry_out(task.scenario, inputs.world, checkpoints, job, session)
}

/// The task of a resumed run.
pub(crate) struct Planned {
    /// The scenario of the checkpoint.
    saved: Scenario,
    /// The task, with the rounds that were added.
    pub task: Task,
    /// The override that adds rounds, if there is one.
    added: Option<String>,
}

/// Returns what the run of a checkpoint is to do. `is_complete` says whether it has its report.
///
/// # Errors
/// Those of a scenario that cannot be read.
pub(crate) fn plan(
    arguments: &ResumeArgs,
    header: &Header,
    session: &Session,
    is_complete: bool,
) -> Result<Planned> {
    let saved = scenario_of(header, &[], session)?;
    let named = arguments.data_dir.clone().map(|folder| vec![folder]);
    let directories = named.unwrap_or_else(|| header.data_directories.clone());
    // A run that was stopped soon after rounds were added to it has no checkpoint that says so.
    let earlier = Header::rounds_of_run_in(&arguments.folder)?
        .filter(|rounds| *rounds > header.rounds && *rounds != saved.training.rounds);
    let rounds = arguments.rounds.or(earlier.filter(|_| !is_complete));
    let added = rounds.map(|rounds| format!("training.rounds={rounds}"));
    let scenario = scenario_of(header, added.as_slice(), session)?;
    let task = Task {
        // The report shows the scenario as it was given, wherever its files are read from.
        placed: placed(&scenario, &header.directory, &directories),
        scenario,
        warnings: Vec::new(),
        directories,
        file: None,
        checkpoint: Some(header.rounds),
    };
    Ok(Planned { saved, task, added })
}

/// Returns the scenario of a checkpoint with these overrides.
fn scenario_of(header: &Header, overrides: &[String], session: &Session) -> Result<Scenario> {
    let file = format!("{}.toml", header.name);
    let mut scenario = scenario::parse(&header.scenario, &file, overrides, &session.vocabulary())?;
    if let Some(parameters) = scenario.method.parameters.as_object_mut() {
        let in_order = header
            .parameters
            .iter()
            .filter_map(|key| parameters.remove_entry(key))
            .collect();
        let others = std::mem::replace(parameters, in_order);
        parameters.extend(others);
    }
    Ok(scenario)
}

/// Checks that there are rounds to go on with; `complete` is the report of the run if it is
/// complete. A complete run removes its checkpoints, so one that is there all the same was to be
/// kept, was put there by hand, or belongs to a run that was killed while it removed them.
///
/// # Errors
/// [`Error::Usage`] if there are none.
fn check_rounds(
    arguments: &ResumeArgs,
    header: &Header,
    complete: Option<&EarlierReport>,
) -> Result<()> {
    let folder = arguments.folder.display();
    let refusal = match (arguments.rounds, complete) {
        (None, Some(_)) => {
            let more = match header.keep {
                true => "; --rounds N adds rounds to it",
                false => "",
            };
            format!("{folder} holds the report of a complete run: there is nothing to resume{more}")
        }
        (Some(asked), Some(report)) if u64::from(asked) <= report.rounds => format!(
            "--rounds {asked}: the run in {folder} is complete with its {} rounds; name more",
            report.rounds
        ),
        (Some(asked), _) if asked <= header.rounds => format!(
            "--rounds {asked}: the checkpoint in {folder} is after round {} already; name more",
            header.rounds
        ),
        _ => return Ok(()),
    };
    Err(Error::Usage(refusal))
}

/// Returns `scenario` with the paths of its files replaced by where the run found them. That run
/// began in `directory`, and this process may be in another one: a relative path is tried from
/// `directory`, then below each of `data_directories`. A path that is not found any more stays as
/// it is.
pub(super) fn placed(
    scenario: &Scenario,
    directory: &Path,
    data_directories: &[PathBuf],
) -> Scenario {
    let mut placed = scenario.clone();
    let mut paths: Vec<&mut PathBuf> = placed.dataset.path.as_mut().into_iter().collect();
    paths.extend(&mut placed.training.start);
    if let SpeedSpec::Trace { path } = &mut placed.devices.speed {
        paths.push(path);
    }
    if let AvailabilityPattern::Trace { path, .. } = &mut placed.availability.pattern {
        paths.push(path);
    }
    if let RatesSpec::Trace { path, .. } = &mut placed.network.rates {
        paths.push(path);
    }
    paths.extend(&mut placed.carbon.path);
    for path in paths {
        let data = data_directories.iter().map(PathBuf::as_path);
        // An absolute path that is joined to a folder stays as it is.
        let mut places = std::iter::once(directory)
            .chain(data)
            .map(|folder| folder.join(&*path));
        if let Some(found) = places.find(|place| place.exists()) {
            *path = found;
        }
    }
    placed
}
