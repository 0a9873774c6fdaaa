//! The file in a report folder that holds the scenario of the run. It tells a checkpoint of another
//! run.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use serde_json::Value;

use fedrecsim_core::{Error, Result, begin_file};
use fedrecsim_scenario as scenario;

/// The name of the file.
pub const FILE_NAME: &str = "scenario.toml";

/// The name of the file while it is written.
const PARTIAL: &str = ".fedrecsim-scenario.toml.partial";

/// The beginning of the file. A scenario that a user has put there does not begin with it.
const MARK: &str =
    "# Written by fedrecsim: the scenario of this run with every preset and default filled in.\n";

/// Returns the text of the file for the scenario `resolved`, in TOML.
pub fn text_of(resolved: &str) -> String {
    format!(
        "{MARK}# `fedrecsim run` with this file comes to the digest that run.json names.\n\n{resolved}"
    )
}

/// Returns whether `folder` has something under the file's name that no run has written, so that it
/// must not be replaced.
pub fn is_in_the_way(folder: &Path) -> bool {
    let path = folder.join(FILE_NAME);
    match fs::symlink_metadata(&path) {
        Err(_) => false,
        // Only a file is read, since to open a pipe would be to wait for its writer.
        Ok(found) => {
            !found.is_file() || !fs::read(&path).is_ok_and(|text| text.starts_with(MARK.as_bytes()))
        }
    }
}

/// Writes the file of the scenario `resolved`, and returns when it is on the disk.
pub(super) fn write(folder: &Path, resolved: &str) -> io::Result<()> {
    let (mut file, partial) = begin_file(&folder.join(PARTIAL), false)?;
    file.write_all(text_of(resolved).as_bytes())?;
    file.sync_all()?;
    partial.persist(&folder.join(FILE_NAME))
}

/// Returns the file's text; `None` if there is none that a run has written.
///
/// # Errors
/// [`Error::Read`] if it is there and cannot be read.
pub(super) fn read(folder: &Path) -> Result<Option<String>> {
    let path = folder.join(FILE_NAME);
    if !path.exists() || is_in_the_way(folder) {
        return Ok(None);
    }
    fs::read_to_string(&path)
        .map(Some)
        .map_err(|reason| Error::read(path, reason))
}

/// Returns in words the keys that differ between the scenarios `ours` and `theirs`, in TOML. The
/// number of rounds does not count.
///
/// # Errors
/// [`Error::Unrestorable`] for a text that is not TOML.
pub(super) fn differences(ours: &str, theirs: &str) -> Result<Vec<String>> {
    let read = |text: &str| -> Result<Value> {
        let mut table: Value = toml::from_str(text).map_err(|reason| {
            Error::Unrestorable(format!(
                "the text of its scenario cannot be read: {}",
                reason.message()
            ))
        })?;
        if let Some(training) = table.get_mut("training").and_then(Value::as_object_mut) {
            training.shift_remove("rounds");
        }
        Ok(table)
    };
    Ok(scenario::differences(&read(ours)?, &read(theirs)?)
        .iter()
        .map(ToString::to_string)
        .collect())
}
