//! Runs one simulation in several processes, which `mpirun` has started.
//!
//! Process 0 does what `run` and `resume` do in one process, and has the report. The others read
//! the same scenario and data, and answer what it asks of their users. Before the first round all
//! say what they are about to run.

mod data;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::inputs::Inputs;
use crate::{Error, Result};
#[cfg(feature = "mpi")]
use fedrecsim_ranks::Group;
use fedrecsim_ranks::{Identity, Place};

pub(crate) use data::{Side, load};

/// The variables that launchers tell the number of processes in.
const SIZES: [&str; 2] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"];

/// The variables that other launchers tell a process its own number in.
const NUMBERS: [&str; 2] = ["PMIX_RANK", "PMI_RANK"];

/// The variable that Slurm's `srun` tells the number of its processes in.
const SIZE_OF_STEP: &str = "SLURM_STEP_NUM_TASKS";

/// Leaves the group of a run, which waits until all other processes do so. A process that ends
/// without has mpirun end the others.
pub(crate) type Leave = Box<dyn FnOnce()>;

/// Finds out what this process is.
///
/// # Errors
/// [`Error::Usage`] if it is one of several and was built without MPI, or MPI does not work.
pub(crate) fn join(interrupted: &Arc<AtomicBool>) -> Result<(Place, Leave)> {
    match launched(|name| std::env::var(name).ok()) {
        Some(1) => Ok((Place::Alone, Box::new(|| ()))),
        started => join_group(started, interrupted),
    }
}

#[cfg(feature = "mpi")]
fn join_group(started: Option<u32>, interrupted: &Arc<AtomicBool>) -> Result<(Place, Leave)> {
    let (place, group) = Group::join(Arc::clone(interrupted))?;
    check_number(started, place.ranks())?;
    Ok((place, Box::new(|| group.leave())))
}

#[cfg(not(feature = "mpi"))]
fn join_group(started: Option<u32>, _interrupted: &Arc<AtomicBool>) -> Result<(Place, Leave)> {
    let started = in_words(started);
    Err(Error::Usage(format!(
        "a launcher such as mpirun has started {started} processes, but the program was built \
         without the feature `mpi`, so each would carry out the whole run; build it with `cargo build \
         --release --features mpi`, or a program of your own with `features = [\"mpi\"]` at \
         `fedrecsim` in its Cargo.toml, which takes OpenMPI and libclang (docs/how-to/cluster.md), or start \
         it without the launcher"
    )))
}

/// Checks that MPI knows of the processes that were started.
///
/// # Errors
/// [`Error::Usage`] if it does not, as each would carry out the whole run.
#[cfg_attr(not(feature = "mpi"), allow(dead_code))]
fn check_number(started: Option<u32>, found: u32) -> Result<()> {
    match started {
        Some(started) if started != found => Err(Error::Usage(format!(
            "a launcher has started {started} processes, and MPI knows of {found}: the launcher \
             belongs to another MPI; take the mpirun of the OpenMPI that this program was built \
             with"
        ))),
        _ => Ok(()),
    }
}

/// Returns how many processes were started, by the variables that launchers set: one without a
/// launcher, and `None` for an unknown number.
fn launched(variable: impl Fn(&str) -> Option<String>) -> Option<u32> {
    let number = |name: &str| variable(name)?.trim().parse().ok();
    if let Some(processes) = SIZES.iter().filter_map(|name| number(name)).max() {
        return Some(processes);
    }
    match NUMBERS.iter().any(|name| number(name).is_some()) {
        true => number(SIZE_OF_STEP),
        false => Some(1),
    }
}

fn in_words(processes: Option<u32>) -> String {
    processes.map_or("several".to_owned(), |processes| processes.to_string())
}

/// Returns an error unless the command is carried out by one process.
///
/// # Errors
/// [`Error::Usage`].
pub(crate) fn refuse_several(command: &str) -> Result<()> {
    match launched(|name| std::env::var(name).ok()) {
        Some(1) => Ok(()),
        processes => Err(Error::Usage(format!(
            "`{command}` runs in one process, and a launcher such as mpirun has started {}; only \
             `run` and `resume` can use several",
            in_words(processes)
        ))),
    }
}

/// Returns what all processes must have in common once they have read their data.
pub(crate) fn contents(inputs: &Inputs) -> Identity {
    let data = "digest of the data set and the traces";
    named([
        ("method's own version", inputs.world.method.version()),
        (data, inputs.fingerprint()),
    ])
}

/// Returns what processes have in common, each with its name.
pub(crate) fn named<const N: usize>(texts: [(&str, String); N]) -> Identity {
    texts
        .into_iter()
        .map(|(what, text)| (what.to_owned(), text))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, each of the processes that mpirun has started carries out the whole run, or a
    /// run by itself is refused.
    #[test]
    fn launchers_say_how_many_processes_there_are() {
        let with = |set: &'static [(&str, &str)]| {
            launched(move |name| {
                set.iter()
                    .find(|(other, _)| *other == name)
                    .map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(with(&[]), Some(1));
        assert_eq!(with(&[("SLURM_STEP_NUM_TASKS", "4")]), Some(1));
        assert_eq!(with(&[("OMPI_COMM_WORLD_SIZE", "4")]), Some(4));
        assert_eq!(
            with(&[("PMI_SIZE", "2"), ("OMPI_COMM_WORLD_SIZE", "no number")]),
            Some(2)
        );
        assert_eq!(with(&[("PMI_SIZE", "1")]), Some(1));
        assert_eq!(
            with(&[("PMIX_RANK", "3"), ("SLURM_STEP_NUM_TASKS", "4")]),
            Some(4)
        );
        assert_eq!(with(&[("PMI_RANK", "0")]), None);
        let refused = |started, found| {
            let checked = check_number(started, found);
            checked.err().map(|error| error.to_string())
        };
        assert_eq!([refused(Some(4), 4), refused(None, 1)], [None, None]);
        assert!(refused(Some(4), 1).is_some_and(|text| text.contains("another MPI")));
    }
}
