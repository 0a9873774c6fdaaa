//! Removes what a run leaves in a report folder if it is killed after its report is complete.

use std::path::Path;

use crate::Result;
use fedrecsim_report::{EarlierReport, ReportFolder};
use fedrecsim_sim::checkpoint::{self, Header};

/// Returns whether a run that was stopped has left a checkpoint in the folder at `path`. If a
/// report or a checkpoint is there, it removes what a killed run has left: files that were half
/// written, and the checkpoints of a run whose report is complete.
///
/// # Errors
/// An error if another process is at work in a folder with a checkpoint, or something cannot be
/// removed.
pub(crate) fn stopped_run_is_in(path: &Path) -> Result<bool> {
    if !checkpoint::is_in(path) && !path.join("run.json").is_file() {
        return Ok(false);
    }
    let folder = match ReportFolder::reopen(path) {
        Ok(folder) => folder,
        Err(error) if checkpoint::is_in(path) => return Err(error),
        // The folder will be refused for the report that is in it.
        Err(_) => return Ok(false),
    };
    remove_from(&folder)?;
    if !checkpoint::is_in(path) {
        return Ok(false);
    }
    let found = checkpoint::find(path);
    Ok(!found.is_ok_and(|found| complete_run_in(&folder, &found.checkpoint.header).is_some()))
}

/// Returns the report in `folder` if it is of a complete run, and the checkpoint with this header
/// is not that of a run which was to replace it.
pub(crate) fn complete_run_in(folder: &ReportFolder, header: &Header) -> Option<EarlierReport> {
    let report = folder.earlier_report()?;
    (report.is_complete && header.replaces.as_ref() != Some(&report.digest)).then_some(report)
}

/// Removes the checkpoints of a run whose report is complete from `folder`, except for one that is
/// to be kept.
///
/// # Errors
/// [`Error::Write`](fedrecsim_core::Error::Write) for a checkpoint that cannot be removed.
pub(crate) fn remove_from(folder: &ReportFolder) -> Result<()> {
    let path = folder.path();
    let Ok(found) = checkpoint::find(path) else {
        return Ok(());
    };
    let header = &found.checkpoint.header;
    // Checkpoints of yet another run are not those of the complete one.
    if complete_run_in(folder, header).is_none() || header.check_folder(path).is_err() {
        return Ok(());
    }
    if header.keep {
        checkpoint::remove_others(path)
    } else {
        checkpoint::remove_all(path)
    }
}
