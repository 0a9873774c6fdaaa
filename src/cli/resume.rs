//! `resume`: from a checkpoint to the report that the run would have had.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use super::ResumeArgs;
use super::run::{Finished, Output, carry_out, warn};
use super::world::Inputs;
use crate::checkpoint::{self, Found, Keeper, Opened};
use crate::error::{Error, Result};
use crate::method::Entry;
use crate::method::registry::vocabulary_of;
use crate::report::ReportFolder;
use crate::scenario;
use crate::sim::Checkpoints;

/// Goes on with the run whose checkpoint is in a folder, and writes its report there. The other arguments are those of
/// [`run`](super::run).
///
/// # Errors
/// [`Error::Checkpoint`] where there is no sound checkpoint, or one of other data or of
/// another version; what keeps a run from starting, and a report from being written.
pub fn resume(
    arguments: &ResumeArgs,
    methods: &[Entry],
    interrupted: Arc<AtomicBool>,
    visible: bool,
    started: Instant,
) -> Result<Finished> {
    let Found { checkpoint, passed_over } = checkpoint::find(&arguments.folder)?;
    let Opened { header, world: archive } = checkpoint;
    for reason in passed_over {
        warn(&format!("{reason}; going on from the checkpoint after round {}", header.rounds));
    }
    if is_complete(&arguments.folder) {
        let folder = arguments.folder.display();
        return Err(Error::Usage(format!("{folder} holds the report of a complete run: there is nothing to resume")));
    }
    let folder = ReportFolder::reopen(&arguments.folder)?;
    let file = format!("{}.toml", header.name);
    let mut scenario = scenario::parse(&header.scenario, &file, &[], &vocabulary_of(methods))?;
    if let Some(parameters) = scenario.method.parameters.as_object_mut() {
        let in_order = header.parameters.iter().filter_map(|key| parameters.remove_entry(key)).collect();
        let others = std::mem::replace(parameters, in_order);
        parameters.extend(others);
    }
    let directories = arguments.data_dir.as_ref().map_or(header.data_directories.clone(), |named| vec![named.clone()]);
    let inputs = Inputs::load(&scenario, &directories, methods)?;
    header.check(&scenario, &inputs.fingerprint())?;
    let command = header.command.clone();
    let store = Box::new(Keeper::new(&arguments.folder, header, Box::new(warn)));
    let output = Output { folder, threads: arguments.threads, json: arguments.json, visible, command };
    carry_out(scenario, inputs.world, Checkpoints { resumed: Some(archive), store }, output, interrupted, started)
}

/// Whether `folder` has the report of a run that came to its end. Its checkpoints are gone then; one that lies there all
/// the same was put there by hand, or belongs to a run that was killed while it tidied up.
fn is_complete(folder: &Path) -> bool {
    let report = std::fs::read(folder.join("run.json")).ok();
    let report: Option<serde_json::Value> = report.and_then(|text| serde_json::from_slice(&text).ok());
    report.is_some_and(|report| report["complete"] == true)
}
