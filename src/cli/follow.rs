//! The part of all processes of a run but the first one.

use std::path::PathBuf;
use std::sync::Arc;

use super::args::{ResumeArgs, RunArgs};
use super::inputs::{strictness, threads_of};
use super::ranks::{Side, contents, load};
use super::task::Task;
use super::{Session, resume, run};
use crate::{Error, Result};
use fedrecsim_core::memory;
use fedrecsim_model::ArchiveReader;
use fedrecsim_ranks::{Identity, Other, Rank, announce, contribute, serve};
use fedrecsim_sim::checkpoint::{self, PartKeeper};

/// The next task of a process.
struct Part {
    identity: Identity,
    task: Task,
    /// The folder of the run, for its parts of checkpoints.
    folder: PathBuf,
    resumed: Option<ArchiveReader>,
}

/// Answers what process 0 asks in its `run` with the same arguments. What this process cannot read,
/// process 0 tells.
///
/// # Errors
/// Those of [`serve`].
pub(crate) fn follow_run(arguments: &RunArgs, session: &Session, other: Other) -> Result<()> {
    let part = Task::of(&arguments.input, strictness(arguments.strict), session).and_then(|task| {
        Ok(Part {
            identity: task.identity()?,
            folder: run::folder_of(arguments, &task.scenario),
            task,
            resumed: None,
        })
    });
    follow(part, arguments.input.threads, session, other)
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
    let folder = arguments.folder.clone();
    let part = checkpoint::open_after(&folder, rounds).and_then(|found| {
        let task = resume::plan(arguments, &found.header, session, false)?.task;
        Ok(Part {
            identity: task.identity()?,
            task,
            folder,
            resumed: Some(found.world),
        })
    });
    follow(part, arguments.threads, session, other)
}

fn follow(
    part: Result<Part>,
    threads: Option<u16>,
    session: &Session,
    mut other: Other,
) -> Result<()> {
    let refuse = |other: &mut Other, error: Error| {
        announce(other.link.as_mut(), Err(error.to_string())).map(drop)
    };
    let Part {
        identity,
        task,
        folder,
        resumed,
    } = match part {
        Ok(part) => part,
        Err(error) => return refuse(&mut other, error),
    };
    if !announce(other.link.as_mut(), Ok(identity))? {
        return Ok(());
    }
    let place = (&task.placed, &task.directories[..], session.methods);
    let read = memory::contained(|| load(place, Side::Other(&mut other)));
    let inputs = match read {
        Ok(Some(inputs)) => inputs,
        Ok(None) => return Ok(()),
        Err(error) => return refuse(&mut other, error),
    };
    if !announce(other.link.as_mut(), Ok(contents(&inputs)))? {
        return Ok(());
    }
    let Other { rank, ranks, link } = other;
    serve(
        inputs.world,
        Rank {
            threads: threads_of(threads),
            interrupted: Arc::clone(&session.interrupted),
            rank,
            ranks,
            link,
            store: Box::new(PartKeeper::new(folder, (rank, ranks))),
            resumed,
        },
    )
}
