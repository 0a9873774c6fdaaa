//! What the processes of a run other than the first one do.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use super::inputs::{data_directories, threads_of};
use super::inspect::strictness;
use super::ranks::{Side, contents, load, plan};
use super::{ResumeArgs, RunArgs, Session, resume, run};
use fedrecsim_core::error::Result;
use fedrecsim_core::memory;
use fedrecsim_model::model::archive::ArchiveReader;
use fedrecsim_ranks::{Identity, Other, Rank, announce, contribute, serve};
use fedrecsim_scenario::scenario::{self, Loaded, Scenario};
use fedrecsim_sim::checkpoint::{self, PartKeeper};

/// What a process is about to do.
struct Task {
    plan: Identity,
    /// The scenario, with its files where this process finds them.
    scenario: Scenario,
    directories: Vec<PathBuf>,
    /// The folder of the run, in which its parts of checkpoints belong.
    folder: PathBuf,
    resumed: Option<ArchiveReader>,
}

/// Answers what process 0 asks in its `run` with the same arguments. What this process cannot read,
/// process 0 tells.
///
/// # Errors
/// Those of [`serve`].
pub(crate) fn follow_run(arguments: &RunArgs, session: &Session, other: Other) -> Result<()> {
    let task = || {
        let input = &arguments.input;
        let Loaded { scenario, .. } = scenario::load_with_warnings(
            &input.scenario,
            &input.overrides(),
            &session.vocabulary(),
            strictness(arguments.strict),
        )?;
        let directories = data_directories(input.data_dir.as_deref());
        let (plan, folder) = (plan(&scenario, None)?, run::folder_of(arguments, &scenario));
        Ok(Task {
            plan,
            scenario,
            directories,
            folder,
            resumed: None,
        })
    };
    follow(task(), arguments.input.threads, session, other)
}

/// Answers what process 0 asks in its `resume` with the same arguments.
///
/// # Errors
/// As [`follow_run`].
pub(crate) fn follow_resume(
    arguments: &ResumeArgs,
    session: &Session,
    mut other: Other,
) -> Result<()> {
    // Process 0 has found the checkpoint, and has looked at all of it.
    let Some(rounds) = contribute(other.link.as_mut(), Ok(Vec::new()))? else {
        return Ok(());
    };
    let rounds = u32::from_le_bytes(rounds.try_into().unwrap_or_default());
    let task = || {
        let folder = arguments.folder.clone();
        let found = checkpoint::open_after(&folder, rounds)?;
        let planned = resume::plan(arguments, &found.header, session, false)?;
        let plan = plan(&planned.scenario, Some(found.header.rounds))?;
        let (scenario, directories) = (planned.placed, planned.directories);
        Ok(Task {
            plan,
            scenario,
            directories,
            folder,
            resumed: Some(found.world),
        })
    };
    follow(task(), arguments.threads, session, other)
}

fn follow(
    task: Result<Task>,
    threads: Option<NonZeroUsize>,
    session: &Session,
    mut other: Other,
) -> Result<()> {
    let task = match task {
        Ok(task) => task,
        Err(error) => return announce(other.link.as_mut(), Err(error.to_string())).map(drop),
    };
    let Task {
        plan,
        scenario,
        directories,
        folder,
        resumed,
    } = task;
    if !announce(other.link.as_mut(), Ok(plan))? {
        return Ok(());
    }
    let inputs = match memory::contained(|| {
        load(
            &scenario,
            &directories,
            session.methods,
            Side::Other(&mut other),
        )
    }) {
        Ok(Some(inputs)) => inputs,
        Ok(None) => return Ok(()),
        Err(error) => {
            return announce(other.link.as_mut(), Err(error.to_string())).map(drop);
        }
    };
    if !announce(other.link.as_mut(), Ok(contents(&inputs)))? {
        return Ok(());
    }
    let Other { rank, ranks, link } = other;
    let store = Box::new(PartKeeper::new(folder, (rank, ranks)));
    serve(
        inputs.world,
        Rank {
            threads: threads_of(threads),
            interrupted: Arc::clone(&session.interrupted),
            rank,
            ranks,
            link,
            store,
            resumed,
        },
    )
}
