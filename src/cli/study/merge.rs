//! Takes runs from the folders of the parts of a study, and of other studies.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::OpenStudy;
use super::folder::{ToDo, failure_of, log_of};
use crate::cli::output_file::{copy_file, remove_if_there};
use crate::method::{Entry, METHODS};
use crate::{Error, Result};
use fedrecsim_report::study::{RunId, StudyRecord, as_saved};
use fedrecsim_report::{MadeFolders, SavedRun};
use fedrecsim_sim::checkpoint;

/// The file that is copied last, since a run counts as complete when it is there.
const LAST: &str = "run.json";

/// Copies the complete runs and the reasons of those that failed from `parts`. A run that is there
/// already stays.
///
/// # Errors
/// [`Error::Usage`] for a part of another study, naming what differs; [`Error::Read`] and
/// [`Error::Write`].
pub(super) fn merge(work: &OpenStudy, record: &StudyRecord, parts: &[PathBuf]) -> Result<()> {
    let vocabulary = work.session.vocabulary();
    for part in parts {
        let of_part = StudyRecord {
            shard: None,
            ..StudyRecord::read(part)?
        };
        let mut changes = of_part.changes(record, &vocabulary);
        let size = |record: &StudyRecord| record.arms.len() + record.seeds.len();
        if changes.is_empty() && size(&of_part) != size(record) {
            changes.push("arms or seeds were added since".to_owned());
        }
        if !changes.is_empty() {
            let (part, changes) = (part.display(), changes.join("; "));
            return Err(Error::Usage(format!(
                "{part} is a part of another study: {changes}"
            )));
        }
    }
    for run in work.plan.runs(None) {
        if work.to_do(run)? == ToDo::Nothing {
            continue;
        }
        let (saved, to) = (as_saved(&work.plan.scenario(run))?, work.folder_of(run));
        let is_whole = |report: SavedRun| report.completes(&saved, &vocabulary);
        for from in parts.iter().map(|part| part.join(work.plan.folder(run))) {
            if SavedRun::read(&from).is_ok_and(is_whole) {
                take_run(&from, &to)?;
                break;
            }
            copy_if_there(&failure_of(&from), &failure_of(&to))?;
            copy_if_there(&log_of(&from), &log_of(&to))?;
        }
    }
    Ok(())
}

/// Copies a run with what its process has printed to the folder `to`, where it counts as complete.
///
/// # Errors
/// [`Error::Read`] and [`Error::Write`].
fn take_run(from: &Path, to: &Path) -> Result<()> {
    copy_folder(from, to)?;
    remove_if_there(&failure_of(to))?;
    copy_if_there(&log_of(from), &log_of(to))
}

/// Copies the files of a report.
fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    let unread = |reason| Error::read(from, reason);
    let mut names = Vec::new();
    for entry in fs::read_dir(from).map_err(unread)? {
        let entry = entry.map_err(unread)?;
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if is_file && !entry.file_name().to_string_lossy().starts_with('.') {
            names.push(entry.file_name());
        }
    }
    names.sort_by_key(|name| name == LAST);
    let mut names = names.iter();
    names.try_for_each(|name| copy(&from.join(name), &to.join(name)))
}

fn copy_if_there(from: &Path, to: &Path) -> Result<()> {
    match from.is_file() {
        true => copy(from, to),
        false => Ok(()),
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let folder = to.parent().unwrap_or(Path::new("."));
    let _made = MadeFolders::make(folder)?;
    copy_file(from, to)
}

/// Copies those of `runs` that are still to begin from the folders of other studies, and returns
/// how many. It takes complete runs with the same scenario and seed that were made by this
/// executable alone. Such a run would come to the same result; its wall times are those of the
/// study that made it. Runs with methods of other crates or of Python are made again, since such a
/// method may have changed while the executable has not.
///
/// # Errors
/// [`Error::Read`] for a folder without a study, and for runs that cannot be read;
/// [`Error::Write`].
pub(super) fn reuse(work: &OpenStudy, runs: &[RunId], studies: &[PathBuf]) -> Result<usize> {
    let mut found = Vec::new();
    for study in studies {
        StudyRecord::read(study)?;
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
