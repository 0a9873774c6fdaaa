//! Writes a file that appears whole under its name or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::{Error, Result};
use fedrecsim_core::{Partial, begin_file};
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
    partial: Option<Partial>,
    overwrite: bool,
    is_private: bool,
}

impl OutputFile {
    /// Begins the file `path`, which a user has named, and returns it with what is to be written to.
    /// If it exists, that is an error unless `overwrite` is true. A link stays, and the file that it
    /// leads to is replaced.
    ///
    /// # Errors
    /// [`Error::Usage`] if the file exists, and [`Error::Write`] if it cannot be written.
    pub(crate) fn create(path: &Path, overwrite: bool, is_private: bool) -> Result<(Self, File)> {
        if !overwrite && fs::symlink_metadata(path).is_ok() {
            return Err(is_there(path, ""));
        }
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let is_special = fs::metadata(&path).is_ok_and(|found| !found.is_file() && !found.is_dir());
        if !is_special {
            return Self::beside(path, overwrite, is_private);
        }
        let file = File::options().write(true).open(&path);
        let file = file.map_err(|reason| Error::write(&path, reason))?;
        let output = Self {
            path,
            partial: None,
            overwrite,
            is_private,
        };
        Ok((output, file))
    }

    /// Begins the file `path` of a folder. A link that somebody has put there is replaced, and not
    /// followed.
    ///
    /// # Errors
    /// As [`Self::create`].
    fn beside(path: PathBuf, overwrite: bool, is_private: bool) -> Result<(Self, File)> {
        if !overwrite && fs::symlink_metadata(&path).is_ok() {
            return Err(is_there(&path, ""));
        }
        let Some(name) = path.file_name().filter(|_| !path.is_dir()) else {
            return Err(Error::Usage(format!(
                "{} is not the name of a file; name another one",
                path.display()
            )));
        };
        let name = format!(".fedrecsim-{}.partial", name.to_string_lossy());
        let begun = begin_file(&path.with_file_name(name), is_private);
        let (file, partial) = begun.map_err(|reason| Error::write(&path, reason))?;
        let output = Self {
            path,
            partial: Some(partial),
            overwrite,
            is_private,
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
            let kept = format!("what was written is in {}; ", partial.keep().display());
            return Err(is_there(&self.path, &kept));
        }
        // A file that is replaced keeps its permissions, if the system lets it and they let nobody
        // read what is private.
        if let Ok(replaced) = fs::symlink_metadata(&self.path)
            && !self.is_private
            && replaced.is_file()
        {
            let _ = fs::set_permissions(partial.path(), replaced.permissions());
        }
        let published = partial.persist(&self.path);
        published.map_err(|reason| self.unwritten(reason))
    }
}

/// Writes a file that a user has named, whole or not at all.
///
/// # Errors
/// As [`OutputFile::create`] and [`OutputFile::publish`].
pub(crate) fn write_file(path: &Path, bytes: &[u8], overwrite: bool) -> Result<()> {
    write(OutputFile::create(path, overwrite, false)?, bytes)
}

/// Writes files to a folder, none of them through a link. All are written before the first one gets
/// its name, so that a full disk leaves the folder as it was.
///
/// # Errors
/// As [`write_file`].
pub(crate) fn write_files(folder: &Path, files: Files, overwrite: bool) -> Result<()> {
    let written = files.into_iter().map(|(name, bytes)| {
        let begun = OutputFile::beside(folder.join(name), overwrite, false)?;
        write_all(begun, &bytes)
    });
    let written: Vec<OutputFile> = written.collect::<Result<_>>()?;
    written.into_iter().try_for_each(OutputFile::publish)
}

/// Copies a file to one of a folder, with its permissions.
///
/// # Errors
/// As [`write_file`], also for a file that cannot be read.
pub(crate) fn copy_file(from: &Path, to: &Path) -> Result<()> {
    let (output, mut file) = OutputFile::beside(to.to_owned(), true, true)?;
    let mut copy = || {
        let mut source = File::open(from)?;
        io::copy(&mut source, &mut file)?;
        file.set_permissions(source.metadata()?.permissions())
    };
    copy().map_err(|reason| output.unwritten(reason))?;
    output.publish()
}

/// Writes a file that was begun, and gives it its name.
///
/// # Errors
/// As [`OutputFile::publish`].
pub(crate) fn write(begun: (OutputFile, File), bytes: &[u8]) -> Result<()> {
    write_all(begun, bytes)?.publish()
}

fn write_all((output, mut file): (OutputFile, File), bytes: &[u8]) -> Result<OutputFile> {
    let written = file.write_all(bytes);
    written.map_err(|reason| output.unwritten(reason))?;
    Ok(output)
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
            OutputFile::create(&path, false, false)
                .unwrap_err()
                .to_string()
                .contains("--overwrite")
        );
        let (output, mut file) = OutputFile::create(&path, true, false).unwrap();
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
        let (output, mut file) = OutputFile::create(&path, true, false).unwrap();
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
        let (output, mut file) = OutputFile::create(&path, false, false).unwrap();
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

    /// If this fails, a file of somebody else is written through a link in the folder of a study.
    #[cfg(unix)]
    #[test]
    fn no_link_in_a_folder_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let [other, from, to] = ["other", "from", "study.md"].map(|name| folder.path().join(name));
        fs::write(&other, "before").unwrap();
        fs::write(&from, "copied").unwrap();
        for (name, text) in [
            ("study.md", "made"),
            (".fedrecsim-study.md.partial", "copied"),
        ] {
            std::os::unix::fs::symlink(&other, folder.path().join(name)).unwrap();
            if text == "made" {
                let file = ("study.md".to_owned(), b"made".to_vec());
                write_files(folder.path(), vec![file], true).unwrap();
            } else {
                copy_file(&from, &to).unwrap();
            }
            assert!(!to.is_symlink());
            assert_eq!(fs::read_to_string(&to).unwrap(), text);
        }
        assert_eq!(fs::read_to_string(&other).unwrap(), "before");
        assert_eq!(names(folder.path()), ["from", "other", "study.md"]);
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
            let (output, mut out) = OutputFile::create(path, true, false).unwrap();
            out.write_all(b"whole").unwrap();
            output.publish().unwrap();
            assert!(path.is_symlink());
            assert_eq!(path.is_file(), is_file);
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "whole");
        assert_eq!(names(folder.path()), ["device", "file", "link"]);
    }
}
