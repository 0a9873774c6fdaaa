//! Runs one simulation in several processes, which `mpirun` has started.
//!
//! Process 0 does what `run` and `resume` do in one process, and has the report. The others read the same scenario and data,
//! and answer what it asks of their users. Before the first round all say what they are about to run.

mod follow;
#[cfg(feature = "mpi")]
mod mpi;

use crate::error::{Error, Result};
use crate::sim::{Crew, Identity, Link};

pub use follow::{follow_resume, follow_run, resume_identity};

/// The variables with which launchers tell a process how many there are.
const SIZES: [&str; 2] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"];

/// What this process is among those of its run.
#[cfg_attr(not(feature = "mpi"), allow(dead_code))]
pub enum Place {
    /// It is the only one.
    Alone,
    /// It has the server, and these are the others.
    Zero(Crew),
    /// It has some of the users.
    Other(Other),
}

/// A process other than the first one.
pub struct Other {
    /// Its number.
    pub rank: u32,
    /// The number of all processes.
    pub ranks: u32,
    /// The way to process 0.
    pub link: Box<dyn Link>,
}

/// The membership of this process in its group, which it leaves when this is dropped.
pub struct Membership {
    #[cfg(feature = "mpi")]
    _group: Option<mpi::Group>,
}

/// Finds out what this process is.
///
/// # Errors
/// [`Error::Usage`] if it is one of several and was built without MPI, or MPI does not work.
pub fn join(interrupted: &std::sync::Arc<std::sync::atomic::AtomicBool>) -> Result<(Place, Membership)> {
    match launched(|name| std::env::var(name).ok()) {
        None | Some(1) => Ok((Place::Alone, Membership::alone())),
        Some(processes) => join_group(processes, interrupted),
    }
}

#[cfg(feature = "mpi")]
fn join_group(
    _processes: u32,
    interrupted: &std::sync::Arc<std::sync::atomic::AtomicBool>,
) -> Result<(Place, Membership)> {
    let (place, group) = mpi::Group::join(std::sync::Arc::clone(interrupted))?;
    Ok((place, Membership { _group: Some(group) }))
}

#[cfg(not(feature = "mpi"))]
fn join_group(
    processes: u32,
    _interrupted: &std::sync::Arc<std::sync::atomic::AtomicBool>,
) -> Result<(Place, Membership)> {
    Err(Error::Usage(format!(
        "this is one of {processes} processes that a launcher such as mpirun has started, and the program was built without \
         MPI, so that each would carry out the whole run; build it with `cargo build --release --features mpi`, which takes \
         OpenMPI and libclang (docs/scale.md), or start it without the launcher"
    )))
}

impl Membership {
    fn alone() -> Self {
        Self {
            #[cfg(feature = "mpi")]
            _group: None,
        }
    }
}

/// Returns how many processes a launcher has started; `None` if none has.
fn launched(variable: impl Fn(&str) -> Option<String>) -> Option<u32> {
    SIZES.iter().filter_map(|name| variable(name)?.trim().parse().ok()).max()
}

/// Returns an error unless the command is carried out by one process.
///
/// # Errors
/// [`Error::Usage`].
pub fn refuse_several(command: &str) -> Result<()> {
    match launched(|name| std::env::var(name).ok()) {
        Some(processes) if processes > 1 => Err(Error::Usage(format!(
            "`{command}` is carried out by one process, and a launcher such as mpirun has started {processes}; only `run` \
             and `resume` have a use for several"
        ))),
        _ => Ok(()),
    }
}

/// Returns what all processes of a run must have in common.
pub fn identity(build: &str, name: &str, scenario: &str, fingerprint: &str, checkpoint: Option<u32>) -> Identity {
    let checkpoint = checkpoint.map_or("none".to_owned(), |rounds| format!("that after round {rounds}"));
    [
        ("build of the program", build),
        ("scenario", name),
        ("resolved scenario", scenario),
        ("digest of the data set and the traces", fingerprint),
        ("checkpoint", &checkpoint),
    ]
    .map(|(what, text)| (what.to_owned(), text.to_owned()))
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, each of the processes that mpirun has started carries out the whole run, or a run by itself is refused.
    #[test]
    fn launchers_say_how_many_processes_there_are() {
        let with = |set: &'static [(&str, &str)]| {
            launched(move |name| set.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned()))
        };
        assert_eq!(with(&[]), None);
        assert_eq!(with(&[("OMPI_COMM_WORLD_SIZE", "4")]), Some(4));
        assert_eq!(with(&[("PMI_SIZE", "2"), ("OMPI_COMM_WORLD_SIZE", "no number")]), Some(2));
        assert_eq!(with(&[("PMI_SIZE", "1")]), Some(1));
    }
}
