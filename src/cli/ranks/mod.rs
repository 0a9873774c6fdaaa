//! Runs one simulation in several processes, which `mpirun` has started.
//!
//! Process 0 does what `run` and `resume` do in one process, and has the report. The others read the same scenario and data,
//! and answer what it asks of their users. Before the first round all say what they are about to run.

mod data;
#[cfg(feature = "mpi")]
mod mpi;

use std::path::PathBuf;

use super::inputs::Inputs;
use crate::checkpoint::Build;
use crate::error::{Error, Result};
use crate::method::Entry;
use crate::scenario::Scenario;
use crate::sim::{self, Crew, Identity, Link};

pub use data::{Side, load};

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

/// The membership of this process in the group of its run. A process that ends without leaving it has mpirun end the others.
pub struct Membership {
    #[cfg(feature = "mpi")]
    group: Option<mpi::Group>,
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
    Ok((place, Membership { group: Some(group) }))
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
    /// Leaves the group, which waits until all other processes do so.
    pub fn leave(self) {
        #[cfg(feature = "mpi")]
        self.group.into_iter().for_each(mpi::Group::leave);
    }

    fn alone() -> Self {
        Self {
            #[cfg(feature = "mpi")]
            group: None,
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

/// Returns what all processes must have in common before they read their data. `checkpoint` is the number of rounds of the
/// checkpoint that they go on from, if they do.
///
/// # Errors
/// Those of [`sim::check_on_ranks`], of a program that cannot read its own file, and of a scenario that cannot be written.
pub fn plan(scenario: &Scenario, checkpoint: Option<u32>) -> Result<Identity> {
    sim::check_on_ranks(scenario)?;
    let checkpoint = checkpoint.map_or("none".to_owned(), |rounds| format!("that after round {rounds}"));
    Ok(named([
        ("build of the program", Build::running("")?.describe().replace(", ", "\n")),
        ("scenario", scenario.name.clone()),
        ("resolved scenario", scenario.to_toml()?),
        ("checkpoint", checkpoint),
    ]))
}

/// Returns what all processes must have in common once they have read their data.
pub fn contents(inputs: &Inputs) -> Identity {
    named([
        ("method's own version", inputs.world.method.version()),
        ("digest of the data set and the traces", inputs.fingerprint()),
    ])
}

fn named<const N: usize>(texts: [(&str, String); N]) -> Identity {
    texts.into_iter().map(|(what, text)| (what.to_owned(), text)).collect()
}

/// Reads the data of process 0, once all processes have agreed on what they are about to run, and again on what they have
/// read.
///
/// # Errors
/// Those of reading, and an error if another process cannot begin or is about to run something else.
pub fn assemble(
    crew: &mut Crew,
    plan: &Identity,
    (scenario, directories, methods): (&Scenario, &[PathBuf], &[Entry]),
) -> Result<Inputs> {
    crew.agree(plan, false)?;
    let inputs = load(scenario, directories, methods, Side::Zero(crew))?;
    let inputs = inputs.ok_or_else(|| Error::Usage("the data of process 0 are not whole".to_owned()))?;
    crew.agree(&contents(&inputs), true)?;
    Ok(inputs)
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
