//! What the processes other than the first one do.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::{Other, identity};
use crate::checkpoint::{self, Build, Header, PartKeeper};
use crate::cli::inputs::{Inputs, data_directories, threads_of};
use crate::cli::inspect::strictness;
use crate::cli::{ResumeArgs, RunArgs, resume, run};
use crate::error::Result;
use crate::method::Entry;
use crate::method::registry::vocabulary_of;
use crate::model::archive::ArchiveReader;
use crate::scenario::{self, Loaded};
use crate::sim::{self, Identity, Rank};

/// What one process has read.
struct Read {
    inputs: Inputs,
    identity: Identity,
    resumed: Option<ArchiveReader>,
}

/// Answers what process 0 asks in its `run` with the same arguments. What this process cannot read, process 0 tells.
///
/// # Errors
/// Those of [`sim::serve`].
pub fn follow_run(arguments: &RunArgs, methods: &[Entry], interrupted: Arc<AtomicBool>, other: Other) -> Result<()> {
    let read = || {
        let input = &arguments.input;
        let Loaded { scenario, .. } = scenario::load_with_warnings(
            &input.scenario,
            &input.overrides(),
            &vocabulary_of(methods),
            strictness(arguments.strict),
        )?;
        let inputs = Inputs::load(&scenario, &data_directories(input.data_dir.as_deref()), methods)?;
        let folder = run::folder_of(arguments, &scenario);
        let build = Build::running(&inputs.world.method.version())?.describe();
        let identity = identity(&build, &scenario.name, &scenario.to_toml()?, &inputs.fingerprint(), None);
        Ok((Read { inputs, identity, resumed: None }, folder))
    };
    follow(read(), threads_of(arguments.input.threads), interrupted, other)
}

/// Answers what process 0 asks in its `resume` with the same arguments.
///
/// # Errors
/// As [`follow_run`].
pub fn follow_resume(
    arguments: &ResumeArgs,
    methods: &[Entry],
    interrupted: Arc<AtomicBool>,
    other: Other,
) -> Result<()> {
    let read = || {
        let folder = arguments.folder.clone();
        let found = checkpoint::find(&folder)?.checkpoint;
        let (header, resumed) = (found.header, found.world);
        let planned = resume::plan(arguments, &header, methods, false)?;
        let inputs = Inputs::load(&planned.placed, &planned.directories, methods)?;
        let build = Build::running(&inputs.world.method.version())?.describe();
        let identity = resume_identity(&build, &header, &planned.scenario.to_toml()?, &inputs);
        Ok((Read { inputs, identity, resumed: Some(resumed) }, folder))
    };
    follow(read(), threads_of(arguments.threads), interrupted, other)
}

/// Returns what all processes that go on with a run must have in common.
pub fn resume_identity(build: &str, header: &Header, scenario: &str, inputs: &Inputs) -> Identity {
    identity(build, &header.name, scenario, &inputs.fingerprint(), Some(header.rounds))
}

fn follow(
    read: Result<(Read, impl AsRef<Path>)>,
    threads: usize,
    interrupted: Arc<AtomicBool>,
    other: Other,
) -> Result<()> {
    let Other { rank, ranks, mut link } = other;
    let (read, folder) = match read {
        Ok(read) => read,
        Err(error) => return sim::announce(link.as_mut(), Err(error.to_string())).map(drop),
    };
    let Read { inputs, identity, resumed } = read;
    if !sim::announce(link.as_mut(), Ok(identity))? {
        return Ok(());
    }
    let store = Box::new(PartKeeper::new(folder.as_ref(), (rank, ranks)));
    sim::serve(inputs.world, Rank { threads, interrupted, rank, ranks, link, store, resumed })
}
