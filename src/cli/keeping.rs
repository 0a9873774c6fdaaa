//! A report folder in which a run leaves checkpoints, for `run` and for programs that carry out runs by
//! themselves.

use std::path::{Path, PathBuf};

use super::carry_out::remove_checkpoints;
use super::inputs::{Inputs, absolute};
use super::leftovers;
use crate::{Error, Result};
use fedrecsim_model::ArchiveReader;
use fedrecsim_report::{ReportFolder, RunRecord};
use fedrecsim_sim::CheckpointStore;
use fedrecsim_sim::checkpoint::{self, Build, Header, Keeper, Opened};

/// What is asked of the folder of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The folder.
    pub folder: PathBuf,
    /// The number of rounds from one checkpoint to the next; `None` for none at regular intervals.
    pub every: Option<u32>,
    /// Whether the last checkpoint and that of the end stay when the run is complete.
    pub keep: bool,
    /// Whether the run goes on from the newest checkpoint in the folder, if one is there.
    pub resume: bool,
}

/// A report folder that one run has, with its checkpoints.
pub struct Keeping {
    folder: ReportFolder,
    keep: bool,
    store: Keeper,
    resumed: Option<ArchiveReader>,
    warnings: Vec<String>,
}

impl Keeping {
    /// Claims the folder for a run of these inputs, whose scenario has these warnings and was read from
    /// data in `directories`.
    ///
    /// # Errors
    /// [`Error::Usage`] for a folder with another report or a stopped run, and [`Error::Unrestorable`] for
    /// a checkpoint of another run, build or data set.
    pub fn claim(
        asked: &Asked,
        inputs: &Inputs,
        (warnings, directories): (&[String], &[PathBuf]),
    ) -> Result<Self> {
        let path = &asked.folder;
        let rounds = inputs.world.scenario.training.rounds;
        let mut header = Header {
            every: asked.every.unwrap_or(0),
            keep: asked.keep,
            ..header(inputs, (warnings, directories), Vec::new())?
        };
        if asked.resume && checkpoint::is_in(path) {
            let (folder, found) = reopened(path, inputs)?;
            let Opened {
                header: left,
                world,
            } = found.checkpoint;
            header.rounds = left.rounds;
            header.replaces = left.replaces;
            let of_round = |reason: String| {
                let round = left.rounds;
                format!("{reason}; going on from the checkpoint after round {round}")
            };
            return Ok(Self {
                folder,
                keep: asked.keep,
                store: Keeper::new(path, header, rounds),
                resumed: Some(world),
                warnings: found.passed_over.into_iter().map(of_round).collect(),
            });
        }
        if leftovers::stopped_run_is_in(path)? {
            return Err(Error::Usage(format!(
                "a run that was stopped left a checkpoint in {}; go on with it by `resume=True`, or name another folder",
                path.display()
            )));
        }
        let folder = ReportFolder::create(path, false)?;
        checkpoint::remove_all(folder.path())?;
        Ok(Self {
            folder,
            keep: asked.keep,
            store: Keeper::new(path, header, rounds),
            resumed: None,
            warnings: Vec::new(),
        })
    }

    /// Returns the state to go on from, once; `None` if the run begins.
    pub fn take_resumed(&mut self) -> Option<ArchiveReader> {
        self.resumed.take()
    }

    /// Returns what was found wrong with checkpoints that were passed over.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the place for checkpoints.
    pub fn store(&mut self) -> &mut dyn CheckpointStore {
        &mut self.store
    }

    /// Writes the report, and removes the checkpoints of a complete run that are not to stay.
    ///
    /// # Errors
    /// [`Error::Write`] for a report that cannot be written. The checkpoints stay then.
    pub fn finish(self, record: &RunRecord) -> Result<()> {
        self.folder.write(record)?;
        match record.complete {
            true => remove_checkpoints(&self.folder, self.keep),
            false => Ok(()),
        }
    }
}

/// Takes the folder of a stopped run of these inputs, with its newest sound checkpoint.
pub(super) fn reopened(path: &Path, inputs: &Inputs) -> Result<(ReportFolder, checkpoint::Found)> {
    let world = &inputs.world;
    let folder = ReportFolder::reopen(path)?;
    let found = checkpoint::find(path)?;
    let header = &found.checkpoint.header;
    header.check_folder(path)?;
    if leftovers::complete_run_in(&folder, header).is_some() {
        return Err(Error::Usage(format!(
            "{} holds the report of a complete run: there is nothing to resume",
            path.display()
        )));
    }
    header.check_build(&Build::running(&crate::PROGRAM, &world.method.version())?)?;
    header.check(&world.scenario, &inputs.fingerprint())?;
    Ok((folder, found))
}

/// Returns what checkpoints of a run say about it, before its first round. `command` repeats it.
///
/// # Errors
/// Those of a scenario that cannot be written, and of a program that cannot read its own file.
pub(crate) fn header(
    inputs: &Inputs,
    (warnings, directories): (&[String], &[PathBuf]),
    command: Vec<String>,
) -> Result<Header> {
    let scenario = &inputs.world.scenario;
    let parameters = scenario.method.parameters.as_object();
    let keys = parameters.into_iter().flat_map(|table| table.keys());
    Ok(Header {
        build: Build::running(&crate::PROGRAM, &inputs.world.method.version())?,
        other_builds: Vec::new(),
        name: scenario.name.clone(),
        scenario: scenario.to_toml()?,
        parameters: keys.cloned().collect(),
        fingerprint: inputs.fingerprint(),
        command,
        warnings: warnings.to_vec(),
        directory: absolute(Path::new(".")),
        data_directories: directories.iter().map(|path| absolute(path)).collect(),
        replaces: None,
        every: 0,
        keep: false,
        rounds: 0,
        ranks: 1,
    })
}
