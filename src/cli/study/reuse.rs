//! Takes runs that other studies have made already.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::OpenStudy;
use super::folder::{ToDo, record_in};
use super::merge::take_run;
use crate::method::{Entry, METHODS};
use crate::{Error, Result};
use fedrecsim_report::report::SavedRun;
use fedrecsim_report::study::{RunId, as_saved};
use fedrecsim_sim::checkpoint;

/// Copies those of `runs` that are still to begin from the folders of other studies, where a
/// complete run has the same scenario and seed and was made by this executable and no other one,
/// and returns how many they are. Such a run would come to the same result; its wall times are
/// those of the study that made it. Runs with methods of other crates or of Python are made again,
/// since such a method may have changed while the executable has not.
///
/// # Errors
/// [`Error::Read`] for a folder without a study, and for runs that cannot be read;
/// [`Error::Write`].
pub(super) fn reuse(work: &OpenStudy, runs: &[RunId], studies: &[PathBuf]) -> Result<usize> {
    let mut found = Vec::new();
    for study in studies {
        record_in(study)?;
        found.append(&mut complete_runs(study)?);
    }
    let mut taken = 0;
    for &run in runs {
        let scenario = work.plan.scenario(run);
        let is_known = |method: &Entry| method.name == scenario.method.name;
        let begins = matches!(work.to_do(run)?, ToDo::Begin | ToDo::BeginAnew);
        if !begins || !METHODS.iter().any(is_known) {
            continue;
        }
        let scenario = as_saved(&scenario)?;
        if let Some((_, folder)) = found.iter().find(|(other, _)| *other == scenario) {
            take_run(folder, &work.folder_of(run))?;
            taken += 1;
        }
    }
    Ok(taken)
}

/// Returns the complete runs of a study that this executable has made from their beginning, arm by
/// arm: the scenario and the folder of each.
fn complete_runs(study: &Path) -> Result<Vec<(Value, PathBuf)>> {
    let executable = checkpoint::executable_digest();
    let is_ours = |run: &SavedRun| {
        !executable.is_empty() && run.executable == executable && run.other_builds.is_empty()
    };
    let mut found = Vec::new();
    for arm in folders_in(&study.join("runs"))? {
        for folder in folders_in(&arm)? {
            let run = SavedRun::read(&folder).ok();
            if let Some(run) = run.filter(|run| run.failure().is_none() && is_ours(run)) {
                found.push((run.scenario, folder));
            }
        }
    }
    Ok(found)
}

/// Returns the folders in `folder`, by their names; none if it is not there, as in a study whose
/// runs have not begun.
fn folders_in(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let refuse = |reason| Error::read(folder, reason);
    let entries: std::io::Result<Vec<PathBuf>> = fs::read_dir(folder)
        .map_err(refuse)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect();
    let mut folders = entries.map_err(refuse)?;
    folders.retain(|path| path.is_dir());
    folders.sort();
    Ok(folders)
}
