//! Carries out `resume`, which goes on from a checkpoint to the report that the run would have had.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use super::ResumeArgs;
use super::inputs::Inputs;
use super::run::{Finished, Output, carry_out, warn};
use crate::checkpoint::{self, Found, Header, Keeper, Opened};
use crate::error::{Error, Result};
use crate::method::Entry;
use crate::method::registry::vocabulary_of;
use crate::report::ReportFolder;
#[cfg(feature = "npz")]
use crate::report::model_file::ModelFile;
use crate::scenario::{self, AvailabilityPattern, Scenario, SpeedSpec};
use crate::sim::Checkpoints;

/// Goes on with the run whose checkpoint is in a folder, and writes its report there. The other arguments are those of
/// [`run`](super::run).
///
/// # Errors
/// [`Error::Checkpoint`] if there is no sound checkpoint, or one of other data or of another version; the errors that
/// keep a run from starting, and a report from being written.
pub fn resume(
    arguments: &ResumeArgs,
    methods: &[Entry],
    interrupted: Arc<AtomicBool>,
    visible: bool,
    started: Instant,
) -> Result<Finished> {
    // The folder is locked before a checkpoint is looked for, as a run at work there would replace the checkpoint
    // meanwhile.
    let folder = ReportFolder::reopen(&arguments.folder)?;
    let Found { checkpoint, passed_over } = checkpoint::find(folder.path())?;
    let Opened { header, world: archive } = checkpoint;
    for reason in passed_over {
        warn(&format!("{reason}; going on from the checkpoint after round {}", header.rounds));
    }
    if is_complete(&folder, &header) {
        let folder = arguments.folder.display();
        return Err(Error::Usage(format!("{folder} holds the report of a complete run: there is nothing to resume")));
    }
    let file = format!("{}.toml", header.name);
    let mut scenario = scenario::parse(&header.scenario, &file, &[], &vocabulary_of(methods))?;
    if let Some(parameters) = scenario.method.parameters.as_object_mut() {
        let in_order = header.parameters.iter().filter_map(|key| parameters.remove_entry(key)).collect();
        let others = std::mem::replace(parameters, in_order);
        parameters.extend(others);
    }
    let directories = arguments.data_dir.as_ref().map_or(header.data_directories.clone(), |named| vec![named.clone()]);
    // The report shows the scenario as it was given, wherever its files are read from.
    let placed = placed(&scenario, &header.directory, &directories);
    let inputs = Inputs::load(&placed, &directories, methods)?;
    header.check(&scenario, &inputs.fingerprint())?;
    let (command, warnings) = (header.command.clone(), header.warnings.clone());
    let store = Box::new(Keeper::new(folder.path(), header));
    #[cfg(feature = "npz")]
    let model_file = arguments.save_model.as_ref().map(|path| ModelFile::create(path, true)).transpose()?;
    let output = Output {
        folder,
        #[cfg(feature = "npz")]
        model_file,
        threads: arguments.threads,
        json: arguments.json,
        visible,
        command,
        warnings,
    };
    carry_out(scenario, inputs.world, Checkpoints { resumed: Some(archive), store }, output, interrupted, started)
}

/// Returns whether `folder` has the final report of this run. A complete run removes its checkpoints, so one that is
/// there all the same was put there by hand, or belongs to a run that was killed while it removed them.
fn is_complete(folder: &ReportFolder, header: &Header) -> bool {
    folder.earlier_report().is_some_and(|(digest, is_complete)| is_complete && header.replaces != Some(digest))
}

/// Returns `scenario` with the paths of its files replaced by where the run found them. That run began in `directory`,
/// and this process may be in another one: a relative path is tried from `directory`, then below each of
/// `data_directories`. A path that is not found any more stays as it is.
fn placed(scenario: &Scenario, directory: &Path, data_directories: &[PathBuf]) -> Scenario {
    let mut placed = scenario.clone();
    let speeds = match &mut placed.devices.speed {
        SpeedSpec::Trace(path) => Some(path),
        SpeedSpec::Lognormal { .. } | SpeedSpec::Classes(_) => None,
    };
    let stays = match &mut placed.availability.pattern {
        AvailabilityPattern::Trace(spec) => Some(&mut spec.path),
        AvailabilityPattern::Always | AvailabilityPattern::Daily(_) | AvailabilityPattern::OnOff(_) => None,
    };
    for path in [placed.dataset.path.as_mut(), speeds, stays].into_iter().flatten() {
        let places = std::iter::once(directory).chain(data_directories.iter().map(PathBuf::as_path));
        // An absolute path that is joined to a folder stays as it is.
        if let Some(found) = places.map(|folder| folder.join(&*path)).find(|place| place.exists()) {
            *path = found;
        }
    }
    placed
}
