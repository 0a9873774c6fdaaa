//! The output folder: claimed before the run starts, filled when it ends.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::exporter::{self, EXPORTERS, Exporter, RUN_JSON};
use super::lock::{self, FolderLock};
use super::record::RunRecord;
use crate::error::{Error, Result};

/// The beginning and the end of the names of files that are not yet complete.
const PARTIAL: (&str, &str) = (".fedrecsim-", ".partial");

/// A folder that a report can be written to, held open for one run.
///
/// No other process can take it meanwhile. If it is dropped with nothing in it, it removes the folders that it made
/// (never a file), so that a run which failed before there was anything to report leaves no trace.
#[derive(Debug)]
#[must_use]
pub struct ReportFolder {
    path: PathBuf,
    /// Folders that were made for this report, outermost first.
    made: Vec<PathBuf>,
    lock: Option<FolderLock>,
    /// What the report consists of.
    exporters: Vec<Exporter>,
}

impl ReportFolder {
    /// Claims `path` for a report: makes the folder, parents included, locks it, removes what a killed run left half
    /// written, and tries to write a file, which is removed again. A folder with nothing else in it is free. With
    /// `overwrite` any folder is taken as it is.
    ///
    /// # Errors
    /// [`Error::Usage`], so that the run does not start: something is there already and `overwrite` is false, it is
    /// not a folder, another process is at work in it, or it cannot be written to.
    pub fn create(path: impl Into<PathBuf>, overwrite: bool) -> Result<Self> {
        let path = path.into();
        // `exists` would not do, as it returns false for a dangling link.
        match fs::symlink_metadata(&path) {
            Ok(_) if !overwrite && !is_free_folder(&path) => {
                return Err(Error::Usage(format!(
                    "the report folder {} is there already; name another one with --out, or replace the report in it with --overwrite",
                    path.display()
                )));
            }
            Ok(_) if !path.is_dir() => {
                return Err(Error::Usage(format!(
                    "the report cannot go to {}, which is not a folder; name another one with --out",
                    path.display()
                )));
            }
            _ => {}
        }
        let mut folder = Self { path, made: Vec::new(), lock: None, exporters: EXPORTERS.to_vec() };
        let claimed = folder.claim();
        claimed.map_err(|error| match error {
            Error::Write { source, .. } => Error::Usage(format!(
                "the report cannot be written to {}: {source}; name another folder with --out",
                folder.path.display()
            )),
            other => other,
        })?;
        Ok(folder)
    }

    /// Takes the folder of a run that was stopped, with whatever else is in it.
    ///
    /// # Errors
    /// [`Error::Read`] if there is none; otherwise the same as for [`Self::create`].
    pub fn reopen(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        fs::read_dir(&path).map_err(|reason| Error::read(&path, reason))?;
        Self::create(path, true)
    }

    /// Has the report consist of what these exporters make.
    pub fn with_exporters(mut self, exporters: Vec<Exporter>) -> Self {
        self.exporters = exporters;
        self
    }

    fn claim(&mut self) -> Result<()> {
        self.make_folders().map_err(|reason| Error::write(&self.path, reason))?;
        self.lock = Some(FolderLock::take(&self.path)?);
        // The folder must be locked before: only then are the leftovers those of a killed run, not of one at work.
        self.remove_leftovers().and_then(|()| self.try_writing()).map_err(|reason| Error::write(&self.path, reason))
    }

    /// Returns the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the report: `run.json`, `rounds.csv`, `summary.md` and the charts. Files of an earlier report in
    /// the folder are replaced, or removed where this one has no such file; other files are left alone.
    ///
    /// Everything is rendered before anything is written, and each file appears whole under its name or not at all;
    /// `run.json` is the last, so that the run does not count as complete before all of its report is there.
    ///
    /// # Errors
    /// The errors of the exporters if they refuse the record, or [`Error::Write`] with the file.
    pub fn write(&self, record: &RunRecord) -> Result<()> {
        let files = exporter::render(&self.exporters, record)?;
        let (last, others): (Vec<_>, Vec<_>) = files.iter().partition(|(name, _)| *name == RUN_JSON);
        others.iter().try_for_each(|(name, bytes)| self.put(name, bytes))?;
        for name in exporter::file_names(&self.exporters).filter(|name| files.iter().all(|(other, _)| other != name)) {
            self.if_there(name, |path| fs::remove_file(path))?;
        }
        last.iter().try_for_each(|(name, bytes)| self.put(name, bytes))
    }

    /// Forces the report to the disk, after which the run's checkpoints may be removed.
    ///
    /// # Errors
    /// [`Error::Write`] with the file.
    pub fn sync(&self) -> Result<()> {
        // The file is opened for writing because not every system forces a read-only file to the disk.
        let force = |path: &Path| fs::File::options().append(true).open(path)?.sync_all();
        exporter::file_names(&self.exporters).try_for_each(|name| self.if_there(name, force))
    }

    /// Returns the BLAKE3 hash of the `run.json` in the folder (hexadecimal) and whether it is of a run that came to
    /// its end; `None` if there is none.
    pub fn earlier_report(&self) -> Option<(String, bool)> {
        let text = fs::read(self.path.join(RUN_JSON)).ok()?;
        let report: Option<serde_json::Value> = serde_json::from_slice(&text).ok();
        let is_complete = report.is_some_and(|report| report["complete"] == true);
        Some((blake3::hash(&text).to_hex().to_string(), is_complete))
    }

    fn make_folders(&mut self) -> io::Result<()> {
        let missing: Vec<PathBuf> = self
            .path
            .ancestors()
            .take_while(|folder| !folder.as_os_str().is_empty() && !folder.is_dir())
            .map(Path::to_path_buf)
            .collect();
        for folder in missing.into_iter().rev() {
            fs::create_dir(&folder)?;
            self.made.push(folder);
        }
        Ok(())
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
        let probe = self.path.join(partial_name("probe"));
        fs::File::create(&probe)?.write_all(b"probe")?;
        fs::remove_file(&probe)
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let (path, partial) = (self.path.join(name), self.path.join(partial_name(name)));
        fs::write(&partial, bytes).and_then(|()| fs::rename(&partial, &path)).map_err(|error| {
            // The first error is the one to report. What may be left over is a hidden file with a telling name.
            let _ = fs::remove_file(&partial);
            Error::write(path, error)
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

impl Drop for ReportFolder {
    fn drop(&mut self) {
        self.lock = None;
        for folder in self.made.iter().rev() {
            // It fails on a folder with anything in it, which keeps a report, and the loop ends with the first one that
            // stays.
            if fs::remove_dir(folder).is_err() {
                break;
            }
        }
    }
}

/// Returns whether the folder holds nothing but what a killed run leaves or a run holds while it is at work.
fn is_free_folder(path: &Path) -> bool {
    fs::read_dir(path).is_ok_and(|mut entries| {
        entries.all(|entry| entry.is_ok_and(|entry| entry.file_name() == lock::FILE_NAME || is_leftover(&entry)))
    })
}

/// Returns whether `entry` is a file of a report or a checkpoint that was not completed.
fn is_leftover(entry: &fs::DirEntry) -> bool {
    let name = entry.file_name();
    name.to_str().is_some_and(|name| name.starts_with(PARTIAL.0) && name.ends_with(PARTIAL.1))
}

/// Returns a name that no user's file has, in the same folder because a rename does not cross file systems.
fn partial_name(name: &str) -> String {
    format!("{}{name}{}", PARTIAL.0, PARTIAL.1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::report::sample;
    use crate::report::{charts, json};

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn usage_error(path: &Path, overwrite: bool) -> String {
        match ReportFolder::create(path, overwrite) {
            Err(Error::Usage(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_report_is_its_charts_and_three_files_and_no_leftovers() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("reports/quickstart-1");
        let folder = ReportFolder::create(&path, false).unwrap();
        folder.write(&sample::run(3)).unwrap();
        drop(folder);
        let mut expected = charts::file_names(&sample::run(3));
        assert_eq!(expected.len(), if cfg!(feature = "plots") { 4 } else { 0 });
        expected.extend(["rounds.csv", "run.json", "summary.md"]);
        expected.sort_unstable();
        assert_eq!(names(&path), expected);
        assert_eq!(fs::read_to_string(path.join("run.json")).unwrap(), json::render(&sample::run(3)).unwrap());
    }

    #[test]
    fn a_folder_with_anything_in_it_is_refused_before_the_run_and_left_as_it_was() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("notes.txt"), "mine").unwrap();
        let text = usage_error(root.path(), false);
        assert!(text.contains("--out") && text.contains("--overwrite"), "{text}");
        assert_eq!(names(root.path()), ["notes.txt"]);
    }

    /// If this fails, a run that was killed keeps the next one from starting.
    #[test]
    fn an_empty_folder_is_free_and_stays_when_it_is_given_up() {
        let root = tempfile::tempdir().unwrap();
        drop(ReportFolder::create(root.path(), false).unwrap());
        assert!(root.path().is_dir());
        ReportFolder::create(root.path(), false).unwrap().write(&sample::run(2)).unwrap();
        assert!(usage_error(root.path(), false).contains("--overwrite"));
    }

    #[test]
    fn a_file_in_the_way_is_refused_even_with_overwrite() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("taken");
        fs::write(&file, "precious").unwrap();
        assert!(usage_error(&file, false).contains("--out"));
        assert!(usage_error(&file, true).contains("not a folder"));
        let below = usage_error(&file.join("report"), false);
        assert!(below.contains("cannot be written") && below.contains("report"), "{below}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_to_nowhere_is_something_that_is_there() {
        let root = tempfile::tempdir().unwrap();
        let link = root.path().join("link");
        std::os::unix::fs::symlink(root.path().join("nowhere"), &link).unwrap();
        assert!(usage_error(&link, false).contains("there already"));
    }

    #[test]
    fn overwriting_replaces_the_report_and_keeps_every_other_file() {
        let root = tempfile::tempdir().unwrap();
        ReportFolder::create(root.path(), true).unwrap().write(&sample::run(3)).unwrap();
        fs::write(root.path().join("notes.txt"), "mine").unwrap();
        let mut second = sample::run(2);
        second.per_round.iter_mut().for_each(|round| round.sparsity = None);
        ReportFolder::create(root.path(), true).unwrap().write(&second).unwrap();
        let left = names(root.path());
        assert!(left.contains(&"notes.txt".to_owned()));
        assert!(!left.contains(&"sparsity-by-round.svg".to_owned()), "a chart of the run before would mislead");
        assert!(fs::read_to_string(root.path().join("run.json")).unwrap().contains("\"rounds\": 2"));
    }

    #[test]
    fn a_folder_that_was_given_up_is_removed_with_the_parents_that_were_made_for_it() {
        let root = tempfile::tempdir().unwrap();
        drop(ReportFolder::create(root.path().join("a/b/c"), false).unwrap());
        assert!(names(root.path()).is_empty());
    }

    #[test]
    fn giving_up_removes_nothing_that_holds_a_file_or_was_there_before() {
        let root = tempfile::tempdir().unwrap();
        let folder = ReportFolder::create(root.path().join("a/b"), false).unwrap();
        fs::write(root.path().join("a/other.txt"), "mine").unwrap();
        drop(folder);
        assert_eq!(names(&root.path().join("a")), ["other.txt"]);
        drop(ReportFolder::create(root.path(), true).unwrap());
        assert!(root.path().is_dir());
    }

    #[test]
    fn a_refused_record_leaves_no_file() {
        let root = tempfile::tempdir().unwrap();
        let folder = ReportFolder::create(root.path().join("report"), false).unwrap();
        let mut record = sample::run(2);
        record.virtual_time_s = f64::NAN;
        assert!(matches!(folder.write(&record), Err(Error::NonFinite { .. })));
        assert_eq!(names(folder.path()), [lock::FILE_NAME]);
    }

    /// If this fails, a report of which half is missing counts as that of a complete run, and nothing adds the rest.
    #[test]
    fn what_says_that_a_run_is_complete_is_written_last() {
        let root = tempfile::tempdir().unwrap();
        let folder = ReportFolder::create(root.path(), true).unwrap();
        assert_eq!(folder.earlier_report(), None);
        for name in ["rounds.csv", "summary.md"].into_iter().chain(charts::file_names(&sample::run(3))) {
            let in_the_way = root.path().join(name);
            fs::create_dir_all(in_the_way.join("mine")).unwrap();
            assert!(matches!(folder.write(&sample::run(3)), Err(Error::Write { path, .. }) if path == in_the_way));
            assert!(!names(root.path()).iter().any(|name| name == RUN_JSON || name.ends_with(".partial")), "{name}");
            fs::remove_dir_all(in_the_way).unwrap();
        }
        folder.write(&sample::run(3)).unwrap();
        let (digest, is_complete) = folder.earlier_report().unwrap();
        assert!(is_complete);
        let mut stopped = sample::run(2);
        stopped.complete = false;
        folder.write(&stopped).unwrap();
        assert!(matches!(folder.earlier_report(), Some((other, false)) if other != digest));
    }

    /// If this fails, a report is thought to be on the disk although it could not be forced there.
    #[test]
    fn a_report_that_cannot_be_forced_to_the_disk_is_named() {
        let root = tempfile::tempdir().unwrap();
        let folder = ReportFolder::create(root.path(), true).unwrap();
        for name in exporter::file_names(EXPORTERS) {
            folder.sync().unwrap();
            let in_the_way = root.path().join(name);
            fs::create_dir(&in_the_way).unwrap();
            assert!(matches!(folder.sync(), Err(Error::Write { path, .. }) if path == in_the_way));
            fs::remove_dir(in_the_way).unwrap();
        }
    }

    /// If this fails, what a killed run has left half written stays for ever, or keeps the next one from starting.
    #[test]
    fn leftovers_of_a_run_that_was_killed_go_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let killed = ReportFolder::create(root.path(), false).unwrap();
        let leave = |names: &[&str]| names.iter().for_each(|name| fs::write(root.path().join(name), "half").unwrap());
        leave(&[".fedrecsim-run.json.partial", ".fedrecsim-checkpoint.partial", ".fedrecsim-probe.partial"]);
        assert!(
            matches!(ReportFolder::create(root.path(), false), Err(Error::Usage(text)) if text.contains("at work"))
        );
        assert_eq!(names(root.path()).len(), 4, "they are of a run that is at work");
        // A killed run leaves the file of the lock as well.
        drop(killed);
        leave(&[lock::FILE_NAME]);
        drop(ReportFolder::create(root.path(), false).unwrap());
        assert!(names(root.path()).is_empty());
        leave(&["checkpoint-5.bin", "x.partial", ".fedrecsim-notes", ".fedrecsim-x.partial"]);
        fs::create_dir(root.path().join(".fedrecsim-folder.partial")).unwrap();
        assert!(usage_error(root.path(), false).contains("is there already"));
        drop(ReportFolder::reopen(root.path()).unwrap());
        assert_eq!(
            names(root.path()),
            [".fedrecsim-folder.partial", ".fedrecsim-notes", "checkpoint-5.bin", "x.partial"]
        );
        let nowhere = root.path().join("nowhere");
        assert!(matches!(ReportFolder::reopen(&nowhere), Err(Error::Read { .. })));
        assert!(!nowhere.exists());
    }
}
