//! The output folder: claimed before the run starts, filled when it ends.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::exporter::{self, EXPORTERS, Exporter};
use super::file_names::{self, RUN_JSON};
use super::lock::{self, FolderLock};
use super::record::RunRecord;
use fedrecsim_core::{Error, Partial, Result, begin_file};
use fedrecsim_sim::checkpoint;

#[cfg(test)]
mod tests;

/// The beginning and the end of the names of files that are not yet complete.
const PARTIAL: (&str, &str) = (".fedrecsim-", ".partial");

/// A folder that a report can be written to, held open for one run.
///
/// No other process can take it meanwhile. If it is dropped with nothing in it, it removes the
/// folders that it made (never a file), so that a run which failed before there was anything to
/// report leaves no trace.
#[derive(Debug)]
#[must_use]
pub struct ReportFolder {
    path: PathBuf,
    _lock: FolderLock,
    /// The files of the report.
    exporters: Vec<Exporter>,
}

/// A report that is in a folder already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarlierReport {
    /// BLAKE3 of its `run.json` (hexadecimal), which tells it from every other report.
    pub digest: String,
    /// Whether it is of a run that came to its end.
    pub is_complete: bool,
    /// Number of its finished rounds.
    pub rounds: u64,
}

impl ReportFolder {
    /// Claims `path` for a report: makes the folder, parents included, locks it, removes what a
    /// killed run left half written, and tries to write a file, which is removed again. A folder
    /// with nothing else in it is free. With `overwrite` any folder is taken as it is.
    ///
    /// # Errors
    /// [`Error::Usage`], so that the run does not start: something is there already and `overwrite`
    /// is false, it is not a folder, another process is at work in it, or it cannot be written to.
    pub fn create(path: impl Into<PathBuf>, overwrite: bool) -> Result<Self> {
        let path = path.into();
        // `exists` would not do, as it returns false for a dangling link.
        match fs::symlink_metadata(&path) {
            Ok(_) if (overwrite || path.is_file()) && !path.is_dir() => {
                return Err(Error::Usage(format!(
                    "the report cannot go to {}, which is not a folder; name another one with --out",
                    path.display()
                )));
            }
            Ok(_) if !overwrite && !is_free_folder(&path) => {
                return Err(Error::Usage(format!(
                    "the report folder {} is there already; name another one with --out, or replace the report in it with --overwrite",
                    path.display()
                )));
            }
            _ => {}
        }
        if checkpoint::is_in_the_way(&path) {
            return Err(Error::Usage(format!(
                "{} would be replaced by the resolved scenario of the report, and no report has \
                 written it; move it, or name another folder with --out",
                path.join(checkpoint::SCENARIO_FILE).display()
            )));
        }
        Self::claim(&path).map_err(|error| match error {
            Error::Write { source, .. } => Error::Usage(format!(
                "the report cannot be written to {}: {source}; name another folder with --out",
                path.display()
            )),
            other => other,
        })
    }

    /// Takes the folder of a stopped run with all its contents.
    ///
    /// # Errors
    /// [`Error::Read`] if there is none; otherwise the same as for [`Self::create`].
    pub fn reopen(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        fs::read_dir(&path).map_err(|reason| Error::read(&path, reason))?;
        Self::create(path, true)
    }

    /// Adds an exporter, in place of one for the same files if there is such a one.
    pub fn with_exporter(mut self, exporter: Exporter) -> Self {
        let same = |other: &&mut Exporter| other.files == exporter.files;
        match self.exporters.iter_mut().find(same) {
            Some(other) => *other = exporter,
            None => self.exporters.push(exporter),
        }
        self
    }

    fn claim(path: &Path) -> Result<Self> {
        let folder = Self {
            path: path.to_owned(),
            _lock: FolderLock::make_and_take(path)?,
            exporters: EXPORTERS.to_vec(),
        };
        // The folder must be locked before: only then are the leftovers those of a killed run, not
        // of one at work.
        folder
            .remove_leftovers()
            .and_then(|()| folder.try_writing())
            .map_err(|reason| Error::write(path, reason))?;
        Ok(folder)
    }

    /// Returns the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the report: `run.json`, `rounds.csv`, `network.csv`, `users.csv`, `summary.md`,
    /// `scenario.toml` and the charts. Files of an earlier report in the folder are replaced, or
    /// removed where this one has no such file; other files are left alone.
    ///
    /// Everything is rendered before anything is written, and all files are written before the first
    /// one gets its name: a full disk leaves the folder as it was. `run.json` gets its name last, so
    /// that the run does not count as complete before all of its report is there.
    ///
    /// # Errors
    /// The errors of the exporters if they refuse the record, or [`Error::Write`] with the file.
    pub fn write(&self, record: &RunRecord) -> Result<()> {
        let files = exporter::render(&self.exporters, record)?;
        self.write_files(
            &files
                .iter()
                .map(|(name, bytes)| (*name, &bytes[..]))
                .collect::<Vec<_>>(),
        )
    }

    /// Writes the files of a report that was rendered before, as [`Self::write`] does.
    ///
    /// # Errors
    /// [`Error::Write`] with the file.
    pub fn write_files(&self, files: &[(&str, &[u8])]) -> Result<()> {
        let written: Vec<(&str, Partial)> = files
            .iter()
            .map(|(name, bytes)| Ok((*name, self.write_partial(name, bytes)?)))
            .collect::<Result<_>>()?;
        let (last, others): (Vec<_>, Vec<_>) =
            written.into_iter().partition(|(name, _)| *name == RUN_JSON);
        self.name(others)?;
        for name in exporter::file_names(&self.exporters)
            .filter(|name| files.iter().all(|(other, _)| other != name))
        {
            self.if_there(name, |path| fs::remove_file(path))?;
        }
        self.name(last)
    }

    /// Forces the report to the disk, after which the run's checkpoints may be removed.
    ///
    /// # Errors
    /// [`Error::Write`] with the file.
    pub fn sync(&self) -> Result<()> {
        // The file is opened for writing because not every system forces a read-only file to the
        // disk.
        let force = |path: &Path| fs::File::options().append(true).open(path)?.sync_all();
        exporter::file_names(&self.exporters).try_for_each(|name| self.if_there(name, force))
    }

    /// Returns what the `run.json` in the folder says; `None` if there is none.
    pub fn earlier_report(&self) -> Option<EarlierReport> {
        let path = self.path.join(RUN_JSON);
        // To open a pipe would be to wait for its writer.
        let text = path.is_file().then(|| fs::read(&path).ok())??;
        let report: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
        Some(EarlierReport {
            digest: blake3::hash(&text).to_hex().to_string(),
            is_complete: report["complete"] == true,
            rounds: report["rounds"].as_u64().unwrap_or(0),
        })
    }

    fn remove_leftovers(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            if is_leftover(&entry) && !entry.file_type()?.is_dir() {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    fn try_writing(&self) -> io::Result<()> {
        // It is removed when its path is dropped, also if the disk is full.
        let probe = self.path.join(partial_name("probe"));
        let (mut file, _probe) = begin_file(&probe, false)?;
        file.write_all(b"probe")
    }

    fn write_partial(&self, name: &str, bytes: &[u8]) -> Result<Partial> {
        let is_private = file_names::OF_USERS.contains(&name) || name == checkpoint::END;
        let write = || {
            let (mut file, partial) = begin_file(&self.path.join(partial_name(name)), is_private)?;
            file.write_all(bytes)?;
            Ok(partial)
        };
        write().map_err(|error| Error::write(self.path.join(name), error))
    }

    fn name(&self, written: Vec<(&str, Partial)>) -> Result<()> {
        written.into_iter().try_for_each(|(name, partial)| {
            let path = self.path.join(name);
            partial
                .persist(&path)
                .map_err(|error| Error::write(path, error))
        })
    }

    fn if_there(&self, name: &str, what: impl Fn(&Path) -> io::Result<()>) -> Result<()> {
        let path = self.path.join(name);
        match what(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::write(path, error)),
            _ => Ok(()),
        }
    }
}

/// Returns whether the folder holds nothing but what a killed run leaves or a run holds while it is
/// at work. The scenario of a run that was killed before its first checkpoint is such a thing.
fn is_free_folder(path: &Path) -> bool {
    let is_scenario = |entry: &fs::DirEntry| {
        entry.file_name() == checkpoint::SCENARIO_FILE && !checkpoint::is_in_the_way(path)
    };
    let is_nobodys = |entry: fs::DirEntry| {
        entry.file_name() == lock::FILE_NAME || is_leftover(&entry) || is_scenario(&entry)
    };
    fs::read_dir(path).is_ok_and(|mut entries| entries.all(|entry| entry.is_ok_and(is_nobodys)))
}

/// Returns whether `entry` is a file of a report or a checkpoint that was not completed.
fn is_leftover(entry: &fs::DirEntry) -> bool {
    let name = entry.file_name();
    name.to_str()
        .is_some_and(|name| name.starts_with(PARTIAL.0) && name.ends_with(PARTIAL.1))
}

/// Returns a name that no user's file has, in the same folder because a rename does not cross file
/// systems.
fn partial_name(name: &str) -> String {
    format!("{}{name}{}", PARTIAL.0, PARTIAL.1)
}
