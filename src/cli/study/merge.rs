//! Puts the runs in the folders of parts together in one.

use std::fs;
use std::path::{Path, PathBuf};

use super::OpenStudy;
use super::folder::{ToDo, failure_of, forget, log_of, record_in};
use crate::{Error, Result};
use fedrecsim_report::report::SavedRun;
use fedrecsim_report::study::{StudyRecord, as_saved};

/// The file that is copied last, since a run counts as complete when it is there.
const LAST: &str = "run.json";

/// Copies the complete runs and the reasons of those that failed from `parts`. A run that is there
/// already stays.
///
/// # Errors
/// [`Error::Usage`] for a part of another study, naming what differs; [`Error::Read`] and
/// [`Error::Write`].
pub(super) fn merge(work: &OpenStudy, record: &StudyRecord, parts: &[PathBuf]) -> Result<()> {
    for part in parts {
        let of_part = StudyRecord {
            shard: None,
            ..record_in(part)?
        };
        let mut changes = of_part.changes(record);
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
        let is_whole = |report: SavedRun| report.complete && report.scenario == saved;
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
pub(super) fn take_run(from: &Path, to: &Path) -> Result<()> {
    copy_folder(from, to)?;
    forget(&failure_of(to))?;
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
    let copied = fs::create_dir_all(folder).and_then(|()| fs::copy(from, to));
    copied.map(drop).map_err(|reason| Error::write(to, reason))
}
