//! The lock of a report folder: one run at a time.
//!
//! The system holds it for the process and gives it up with it, however that ends, so that a run which was killed keeps
//! nobody out. The file that it is on is empty and hidden, and goes with the run, too; one that a kill has left is
//! taken for no lock, and no content.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// No user's file has such a name.
pub(super) const FILE_NAME: &str = ".fedrecsim.lock";

/// A folder that no other process takes while this is held.
///
/// Where the file system has no locks it is held by everybody.
#[derive(Debug)]
pub struct FolderLock {
    /// Open as long as it is held.
    _file: File,
    path: PathBuf,
}

impl FolderLock {
    /// Takes the lock of `folder`.
    ///
    /// # Errors
    /// [`Error::Usage`] if another process holds it, [`Error::Write`] if the folder is not there or cannot be written to.
    pub fn take(folder: &Path) -> Result<Self> {
        let path = folder.join(FILE_NAME);
        let unwritten = |reason: io::Error| Error::write(&path, reason);
        loop {
            let file = File::options().create(true).append(true).open(&path).map_err(unwritten)?;
            if let Err(TryLockError::WouldBlock) = file.try_lock() {
                return Err(Error::Usage(format!(
                    "another process is at work on the run in {}; wait for its end, or name another folder",
                    folder.display()
                )));
            }
            // Whoever had it may have ended in between, and taken the file along; the next one will lock another.
            if is_still_at(&file, &path).map_err(unwritten)? {
                return Ok(Self { _file: file, path });
            }
        }
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        // Elsewhere a file that is open cannot go, or not so that a new one can take its place.
        if cfg!(unix) {
            // What stays is in nobody's way.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Whether `path` is the name of `file`.
#[cfg(unix)]
fn is_still_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;

    let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    match fs::metadata(path) {
        Ok(named) => Ok(identity(named) == identity(file.metadata()?)),
        Err(reason) if reason.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(reason) => Err(reason),
    }
}

/// Whether `path` is the name of `file`: nobody takes it away.
#[cfg(not(unix))]
fn is_still_at(_file: &File, _path: &Path) -> io::Result<bool> {
    Ok(true)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// If this fails, two processes write checkpoints and reports over one another.
    #[test]
    fn a_second_one_is_refused_until_the_first_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let first = FolderLock::take(folder.path()).unwrap();
        let refused = FolderLock::take(folder.path()).unwrap_err();
        assert!(matches!(&refused, Error::Usage(text) if text.contains("another process is at work")), "{refused}");
        drop(first);
        drop(FolderLock::take(folder.path()).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "it leaves nothing");
    }

    #[test]
    fn a_file_that_nobody_holds_is_no_lock() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(FILE_NAME), "").unwrap();
        FolderLock::take(folder.path()).unwrap();
        let nowhere = folder.path().join("nowhere");
        assert!(matches!(FolderLock::take(&nowhere), Err(Error::Write { .. })));
    }

    /// If this fails, one process holds a file that has no name any more, and another one that which took its place.
    #[cfg(unix)]
    #[test]
    fn a_file_that_was_taken_away_is_not_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE_NAME);
        let file = File::create(&path).unwrap();
        assert!(is_still_at(&file, &path).unwrap());
        fs::remove_file(&path).unwrap();
        assert!(!is_still_at(&file, &path).unwrap());
        let _other = File::create(&path).unwrap();
        assert!(!is_still_at(&file, &path).unwrap());
    }
}
