//! Carries out `run`, from a scenario file to a report folder.

use std::ffi::OsStr;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::args::{InputArgs, RunArgs, TableFormat, check_parquet};
use super::carry_out::{Job, carry_out, repeat};
use super::control::Control;
use super::estimates::Expected;
use super::inputs::{strictness, threads_of};
use super::keeping::header;
use super::task::Task;
use super::{Finished, Session, leftovers, memory, screen};
use crate::scenario::Scenario;
use crate::{Error, Result};
use fedrecsim_core::shell_word;
use fedrecsim_ranks::Crew;
use fedrecsim_report::ReportFolder;
#[cfg(feature = "parquet")]
use fedrecsim_report::arrow;
use fedrecsim_sim::checkpoint::{self, Keeper};
use fedrecsim_sim::deployment::Recorded;
use fedrecsim_sim::{Checkpoints, World};

/// Runs a scenario with the users of this process, and with those of `crew` if there are other
/// processes, and writes its report.
///
/// # Errors
/// Every error that keeps a run from starting, and a report from being written. A run that stops
/// early is no error here: its finished rounds are reported.
pub(crate) fn run(
    arguments: &RunArgs,
    session: &Session,
    mut crew: Option<Crew>,
) -> Result<Finished> {
    let options = &arguments.options;
    if arguments.format == TableFormat::Parquet {
        check_parquet()?;
    }
    if arguments.replay_arrivals.is_some() && crew.is_some() {
        return Err(Error::Usage(
            "--replay-arrivals repeats a run in one process; start it without mpirun".to_owned(),
        ));
    }
    if !arguments.control.is_empty() && crew.is_some() {
        return Err(Error::Usage(
            "--control runs in one process; start it without mpirun".to_owned(),
        ));
    }
    let mut task = Task::of(&arguments.input, strictness(arguments.strict), session)?;
    // The folder is claimed before anything is read or computed, as a run whose report cannot be
    // written is not worth its time.
    let folder = match arguments.no_report {
        true => None,
        false => Some(claim(arguments, &task.scenario)?),
    };
    let model_file = options.model_file(arguments.overwrite)?;
    let inputs = task.inputs(crew.as_mut(), session.methods)?;
    let controls = Control::all_of(arguments, (&task, &inputs), session)?;
    let [told, warnings] = inputs.remarks();
    told.iter().for_each(|text| session.note(text));
    task.warnings.extend(warnings);
    task.warnings.iter().for_each(|text| session.warn(text));
    // The cost of a run is estimated for one process.
    if crew.is_none() {
        expect(&inputs.world, arguments, session.visible)?;
    }
    let mut checkpoints = Checkpoints::none();
    if let Some(folder) = &folder {
        check_start(folder, &inputs.world)?;
        // The checkpoints of a run that this one replaces would be taken for its own.
        checkpoint::remove_all(folder.path())?;
        let at_the_end = arguments.keep_checkpoint || options.max_wall_time.is_some();
        if options.checkpoint_every.is_some() || at_the_end {
            let of_scenario = (&task.warnings[..], &task.directories[..]);
            let command = reproducing(&arguments.input);
            let mut header = header(&inputs, of_scenario, command)?;
            header.every = options.checkpoint_every.unwrap_or(0);
            header.keep = arguments.keep_checkpoint;
            header.replaces = folder.earlier_report().map(|report| report.digest);
            header.ranks = crew.as_ref().map_or(1, Crew::ranks) as u32;
            let keeper = Keeper::new(folder.path(), header, task.scenario.training.rounds);
            checkpoints.store = Box::new(keeper.until(options.deadline(session.started)));
        }
    }
    let job = Job {
        options,
        saved: task.users_named(&options.save_users, &inputs)?,
        threads: threads_of(arguments.input.threads),
        controls,
        folder,
        model_file,
        command: reproducing(&arguments.input),
        warnings: task.warnings,
        other_builds: Vec::new(),
        expect_digest: arguments.expect_digest.as_deref(),
        keep: arguments.keep_checkpoint,
        crew,
    };
    match &arguments.replay_arrivals {
        None => carry_out(task.scenario, inputs.world, checkpoints, job, session),
        Some(path) => {
            let recorded = recorded(path, &task.scenario)?;
            repeat(task.scenario, inputs.world, &recorded, job, session)
        }
    }
}

/// Reads what the server of a run of real time was told.
///
/// # Errors
/// As [`Recorded::read`], and those of opening the file.
fn recorded(path: &Path, scenario: &Scenario) -> Result<Recorded> {
    let file = File::open(path).map_err(|reason| Error::read(path, reason))?;
    let name = path.display().to_string();
    let scenario = scenario.to_toml()?;
    Recorded::read(&name, BufReader::new(file), &scenario)
}

/// Says on standard error what a run of `world` will take, and refuses one that would not fit into
/// memory, unless it is forced.
///
/// # Errors
/// [`Error::Memory`], saying what would fit.
fn expect(world: &Arc<World>, arguments: &RunArgs, visible: bool) -> Result<()> {
    // A study has rehearsed its runs. Where less is free now, or nobody knows, this process looks itself.
    let is_free = |needed| memory::free_bytes().is_none_or(|free| needed <= free);
    if arguments.known_memory.is_some_and(is_free) {
        return Ok(());
    }
    // If the first round fails, the run will say why.
    let Ok(expected) = Expected::of(world, threads_of(arguments.input.threads), false) else {
        return Ok(());
    };
    if visible {
        screen::note(&expected.line());
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
pub(super) fn claim(arguments: &RunArgs, scenario: &Scenario) -> Result<ReportFolder> {
    let path = folder_of(arguments, scenario);
    if !arguments.overwrite && leftovers::stopped_run_is_in(&path)? {
        let command = shell_word(&path.to_string_lossy());
        let path = path.display();
        return Err(Error::Usage(format!(
            "a run that was stopped left a checkpoint in {path}; go on with it by `fedrecsim resume {command}`, name another folder with --out, or begin anew with --overwrite"
        )));
    }
    let folder = ReportFolder::create(path, arguments.overwrite)?;
    #[cfg(feature = "parquet")]
    let folder = match arguments.format {
        TableFormat::Parquet => folder.with_exporter(arrow::PARQUET),
        _ => folder,
    };
    Ok(folder)
}

/// Refuses a run that starts from what is in its own folder, which it would replace.
fn check_start(folder: &ReportFolder, world: &World) -> Result<()> {
    let start = world
        .start
        .as_ref()
        .and_then(|start| start.file()?.parent());
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    match start.and_then(real) {
        Some(start) if real(folder.path()).as_ref() == Some(&start) => Err(Error::Usage(format!(
            "the run starts from the parameters in {} (training.start) and would replace them there; name another \
             folder with --out",
            folder.path().display()
        ))),
        _ => Ok(()),
    }
}

/// Returns the command that runs `input` once more: the name of the program that is running, and
/// the arguments that the result depends on.
pub(super) fn reproducing(input: &InputArgs) -> Vec<String> {
    let mut words = vec![
        program(),
        "run".to_owned(),
        shown(input.scenario.as_os_str()),
    ];
    let mut option = |name: &str, value: String| words.extend([name.to_owned(), value]);
    input
        .set
        .iter()
        .for_each(|text| option("--set", text.clone()));
    if let Some(seed) = input.seed {
        option("--seed", seed.to_string());
    }
    if let Some(folder) = &input.data_dir {
        option("--data-dir", shown(folder.as_os_str()));
    }
    words
}

/// Returns the name of the program that is running, without its folder: a program that offers these
/// commands with methods of its own has another one than `fedrecsim`.
pub(crate) fn program() -> String {
    let called = std::env::args_os().next().unwrap_or_default();
    let name = shown(Path::new(&called).file_name().unwrap_or_default());
    match name
        .strip_suffix(std::env::consts::EXE_SUFFIX)
        .unwrap_or(&name)
    {
        "" => "fedrecsim".to_owned(),
        name => name.to_owned(),
    }
}

fn shown(text: &OsStr) -> String {
    text.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::cli::args::{Command, parsed};

    /// If this fails, repeating a run overwrites its report, or leaves out an option that the
    /// result depends on.
    #[test]
    fn the_command_has_what_the_result_depends_on_and_nothing_else() {
        let line = "run a.toml --seed 7 --threads 2 --out o --data-dir d --set a.b=1 --set c=x=y --json \
                    --overwrite --checkpoint-every 5 --keep-checkpoint --max-wall-time 5m --expect-digest 01234567";
        let Command::Run(run) = parsed(line.split_whitespace()).unwrap() else {
            panic!("`run` is parsed as another command")
        };
        let words = reproducing(&run.input);
        let ours = std::env::current_exe().unwrap();
        assert_eq!(
            Some(words[0].as_str()),
            ours.file_stem().unwrap().to_str(),
            "this program is not fedrecsim"
        );
        assert_eq!(
            words[1..].join(" "),
            "run a.toml --set a.b=1 --set c=x=y --seed 7 --data-dir d"
        );
    }
}
