//! Writes a file that appears whole under its name or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::{Error, Result};
use fedrecsim_report::study::tables::Files;

/// A file that is written under a temporary name beside its own.
///
/// If it is dropped without [`Self::publish`], what was written is removed, and a file that was
/// there before stays.
#[derive(Debug)]
#[must_use]
pub(crate) struct OutputFile {
    path: PathBuf,
    /// The temporary name; `None` for a device or a pipe, which is written to as it is.
    partial: Option<PathBuf>,
    overwrite: bool,
}

impl OutputFile {
    /// Begins the file `path`, and returns it with what is to be written to. If it exists, that is
    /// an error unless `overwrite` is true.
    ///
    /// # Errors
    /// [`Error::Usage`] if the file exists, and [`Error::Write`] if it cannot be written.
    pub(crate) fn create(path: &Path, overwrite: bool) -> Result<(Self, File)> {
        if !overwrite && fs::symlink_metadata(path).is_ok() {
            return Err(is_there(path, ""));
        }
        let is_special = fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir());
        // A link stays, and the file that it leads to is replaced.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let Some(name) = path.file_name().filter(|_| !path.is_dir()) else {
            return Err(Error::Usage(format!(
                "{} is not the name of a file; name another one",
                path.display()
            )));
        };
        let (partial, file) = if is_special {
            (None, File::options().write(true).open(&path))
        } else {
            let name = format!(".fedrecsim-{}.partial", name.to_string_lossy());
            let partial = path.with_file_name(name);
            let file = File::create(&partial);
            (Some(partial), file)
        };
        let file = file.map_err(|reason| Error::write(&path, reason))?;
        let output = Self {
            path,
            partial,
            overwrite,
        };
        Ok((output, file))
    }

    /// Returns the error of a file that cannot be written because of `reason`.
    pub(crate) fn unwritten(&self, reason: io::Error) -> Error {
        Error::write(&self.path, reason)
    }

    /// Gives the file its name. All of it must have been written.
    ///
    /// # Errors
    /// [`Error::Write`] if it cannot have the name, and [`Error::Usage`] if another file has taken
    /// it meanwhile.
    pub(crate) fn publish(mut self) -> Result<()> {
        let Some(partial) = self.partial.take() else {
            return Ok(());
        };
        if !self.overwrite && fs::symlink_metadata(&self.path).is_ok() {
            return Err(is_there(
                &self.path,
                &format!("what was written is in {}; ", partial.display()),
            ));
        }
        // A file that is replaced keeps its permissions, if the system lets it.
        if let Ok(replaced) = fs::metadata(&self.path) {
            let _ = fs::set_permissions(&partial, replaced.permissions());
        }
        fs::rename(&partial, &self.path).map_err(|reason| {
            // The first error is the one to report. What may be left over is a hidden file with a
            // telling name.
            let _ = fs::remove_file(&partial);
            self.unwritten(reason)
        })
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if let Some(partial) = &self.partial {
            // What may be left over is a hidden file with a telling name.
            let _ = fs::remove_file(partial);
        }
    }
}

/// Writes a file whole or not at all.
///
/// # Errors
/// As [`OutputFile::create`] and [`OutputFile::publish`].
pub(crate) fn write_file(path: &Path, bytes: &[u8], overwrite: bool) -> Result<()> {
    let (output, mut file) = OutputFile::create(path, overwrite)?;
    file.write_all(bytes)
        .map_err(|reason| Error::write(path, reason))?;
    output.publish()
}

/// Writes files to a folder, each as [`write_file`] does.
///
/// # Errors
/// Those of [`write_file`].
pub(crate) fn write_files(folder: &Path, files: Files, overwrite: bool) -> Result<()> {
    let mut files = files.into_iter();
    files.try_for_each(|(name, bytes)| write_file(&folder.join(name), &bytes, overwrite))
}

/// Removes a file if it is there.
pub(crate) fn remove_if_there(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(reason) if reason.kind() != io::ErrorKind::NotFound => Err(Error::write(path, reason)),
        _ => Ok(()),
    }
}

fn is_there(path: &Path, more: &str) -> Error {
    let path = path.display();
    Error::Usage(format!(
        "{path} is there already; {more}name another file, or give --overwrite"
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// If this fails, a file that is cut off is taken for a whole one, or a failure costs the file
    /// that was there.
    #[test]
    fn a_file_has_its_name_only_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        fs::write(&path, "before").unwrap();
        assert!(
            OutputFile::create(&path, false)
                .unwrap_err()
                .to_string()
                .contains("--overwrite")
        );
        let (output, mut file) = OutputFile::create(&path, true).unwrap();
        file.write_all(b"half").unwrap();
        assert_eq!(
            names(folder.path()),
            [".fedrecsim-events.jsonl.partial", "events.jsonl"]
        );
        drop(output);
        assert_eq!(
            (names(folder.path()), fs::read_to_string(&path).unwrap()),
            (vec!["events.jsonl".into()], "before".into())
        );
        let (output, mut file) = OutputFile::create(&path, true).unwrap();
        file.write_all(b"whole").unwrap();
        output.publish().unwrap();
        assert_eq!(
            (names(folder.path()), fs::read_to_string(&path).unwrap()),
            (vec!["events.jsonl".into()], "whole".into())
        );
    }

    /// If this fails, a file of another process that has come into being meanwhile is lost, or what
    /// was written is.
    #[test]
    fn a_file_that_has_come_into_being_meanwhile_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let (output, mut file) = OutputFile::create(&path, false).unwrap();
        file.write_all(b"ours").unwrap();
        fs::write(&path, "theirs").unwrap();
        let told = output.publish().unwrap_err().to_string();
        assert!(told.contains(".fedrecsim-events.jsonl.partial"), "{told}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");
        assert_eq!(
            fs::read_to_string(folder.path().join(".fedrecsim-events.jsonl.partial")).unwrap(),
            "ours"
        );
    }

    /// If this fails, `--out /dev/null --overwrite` replaces the device, and a link is replaced in
    /// place of its file.
    #[cfg(unix)]
    #[test]
    fn a_device_and_a_link_stay_what_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let (device, link, file) = (
            folder.path().join("device"),
            folder.path().join("link"),
            folder.path().join("file"),
        );
        std::os::unix::fs::symlink("/dev/null", &device).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        fs::write(&file, "before").unwrap();
        for (path, is_file) in [(&device, false), (&link, true)] {
            let (output, mut out) = OutputFile::create(path, true).unwrap();
            out.write_all(b"whole").unwrap();
            output.publish().unwrap();
            assert!(path.is_symlink());
            assert_eq!(path.is_file(), is_file);
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "whole");
        assert_eq!(names(folder.path()), ["device", "file", "link"]);
    }
}
