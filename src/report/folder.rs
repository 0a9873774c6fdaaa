//! The output folder: claimed before the run starts, filled when it ends.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::record::RunRecord;
use super::{csv, json, markdown, plot};
use crate::error::{Error, Result};

/// A folder that a report can be written to, held open for one run.
///
/// Dropped with nothing in it, it takes the folders that it made away again (never a file), so that a run which failed
/// before there was anything to tell leaves no trace.
#[derive(Debug)]
#[must_use]
pub struct ReportFolder {
    path: PathBuf,
    /// Folders that were made for this report, outermost first.
    made: Vec<PathBuf>,
}

impl ReportFolder {
    /// Claims `path` for a report: makes the folder, parents included, and tries it with a file that is
    /// removed again. A folder with nothing in it is free: a run that was killed leaves one. With `overwrite` any
    /// folder is taken as it is.
    ///
    /// # Errors
    /// [`Error::Usage`], so that the run does not start: something is there already and `overwrite` is false, it is
    /// not a folder, or it cannot be written to.
    pub fn create(path: impl Into<PathBuf>, overwrite: bool) -> Result<Self> {
        let path = path.into();
        // Not `exists`, which takes a dangling link for nothing.
        match fs::symlink_metadata(&path) {
            Ok(_) if !overwrite && !is_empty_folder(&path) => {
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
        let mut folder = Self { path, made: Vec::new() };
        folder.make_folders().and_then(|()| folder.try_writing()).map_err(|cause| {
            Error::Usage(format!(
                "the report cannot be written to {}: {cause}; name another folder with --out",
                folder.path.display()
            ))
        })?;
        Ok(folder)
    }

    /// Takes the folder of a run that was stopped, with whatever is in it.
    ///
    /// # Errors
    /// [`Error::Usage`] for what is no folder, or cannot be written to.
    pub fn reopen(path: impl Into<PathBuf>) -> Result<Self> {
        Self::create(path, true)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the report: `run.json`, `rounds.csv`, `summary.md` and the charts. Files of an earlier report in
    /// the folder are replaced, or removed where this one has no such file; other files are left alone.
    ///
    /// Everything is rendered before anything is written, and each file appears whole under its name or not at all.
    ///
    /// # Errors
    /// A record that the exporters refuse, or [`Error::Write`] with the file.
    pub fn write(&self, record: &RunRecord) -> Result<()> {
        let charts = plot::charts(record)?;
        let mut files = vec![
            ("run.json", json::render(record)?),
            ("rounds.csv", csv::render(record)?),
            ("summary.md", markdown::render(record)?),
        ];
        files.extend(charts);
        for (name, text) in &files {
            self.put(name, text.as_bytes())?;
        }
        for name in plot::FILE_NAMES {
            if !files.iter().any(|(written, _)| *written == name) {
                self.remove_if_there(name)?;
            }
        }
        Ok(())
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

    fn try_writing(&self) -> io::Result<()> {
        let probe = self.path.join(partial_name("probe"));
        fs::File::create(&probe)?.write_all(b"probe")?;
        fs::remove_file(&probe)
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let (path, partial) = (self.path.join(name), self.path.join(partial_name(name)));
        fs::write(&partial, bytes).and_then(|()| fs::rename(&partial, &path)).map_err(|error| {
            // The first failure is the one to tell; a leftover is a hidden file with a telling name.
            let _ = fs::remove_file(&partial);
            Error::write(path, error)
        })
    }

    fn remove_if_there(&self, name: &str) -> Result<()> {
        let path = self.path.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::write(path, error)),
            _ => Ok(()),
        }
    }
}

impl Drop for ReportFolder {
    fn drop(&mut self) {
        for folder in self.made.iter().rev() {
            // Fails on a folder with anything in it, which is what keeps a report, and stops at the first that stays.
            if fs::remove_dir(folder).is_err() {
                break;
            }
        }
    }
}

fn is_empty_folder(path: &Path) -> bool {
    fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

/// A name that no user's file has, in the same folder because a rename does not cross file systems.
fn partial_name(name: &str) -> String {
    format!(".fedrecsim-{name}.partial")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::report::sample;

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
    fn a_report_is_seven_files_and_no_leftovers() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("reports/quickstart-1");
        let folder = ReportFolder::create(&path, false).unwrap();
        folder.write(&sample::run(3)).unwrap();
        drop(folder);
        assert_eq!(
            names(&path),
            [
                "accuracy-by-bytes.svg",
                "accuracy-by-round.svg",
                "accuracy-by-time.svg",
                "rounds.csv",
                "run.json",
                "sparsity-by-round.svg",
                "summary.md"
            ]
        );
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
        assert!(names(folder.path()).is_empty());
    }
}
