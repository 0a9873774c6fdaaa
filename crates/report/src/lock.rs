//! Locks a report folder, so that only one run at a time is at work in it.
//!
//! The system releases the lock however the process ends, so a killed run keeps nobody out. The
//! locked file is empty and hidden, and is removed with the run. If a killed run has left one, it
//! counts neither as a lock nor as content of the folder.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::made_folders::MadeFolders;
use fedrecsim_core::{Error, Result};

/// The name of the locked file, which no user's file has.
pub(super) const FILE_NAME: &str = ".fedrecsim.lock";

/// A lock on a folder, which no other process can take while this is held.
///
/// On a file system without locks, everybody gets it.
#[derive(Debug)]
pub struct FolderLock {
    /// The locked file, which is open as long as the lock is held.
    _file: File,
    path: PathBuf,
    /// The folders that were made for the lock, which go after its file if nothing else is there.
    _made: MadeFolders,
}

impl FolderLock {
    /// Makes `folder`, parents included, unless it is there, and takes its lock. Made folders with
    /// nothing in them are removed with the lock.
    ///
    /// # Errors
    /// Those of [`Self::take`] and [`MadeFolders::make`].
    pub fn make_and_take(folder: &Path) -> Result<Self> {
        let made = MadeFolders::make(folder)?;
        let mut lock = Self::take(folder)?;
        lock._made = made;
        Ok(lock)
    }

    /// Takes the lock of `folder`.
    ///
    /// # Errors
    /// [`Error::Usage`] if another process holds it, [`Error::Write`] if the folder is not there or
    /// cannot be written to.
    pub fn take(folder: &Path) -> Result<Self> {
        Self::take_for("the run in", folder)
    }

    /// Takes the lock of `folder`; `what` are the words for that which another process may be at
    /// work on there.
    ///
    /// # Errors
    /// Those of [`Self::take`].
    pub fn take_for(what: &str, folder: &Path) -> Result<Self> {
        let path = folder.join(FILE_NAME);
        let unwritten = |reason: io::Error| Error::write(&path, reason);
        loop {
            // What a link leads to is another file, which must not be made or locked.
            if path.is_symlink() {
                fs::remove_file(&path).map_err(unwritten)?;
            }
            let file = File::options()
                .create(true)
                .append(true)
                .open(&path)
                .map_err(unwritten)?;
            if let Err(TryLockError::WouldBlock) = file.try_lock() {
                return Err(Error::Usage(format!(
                    "another process is at work on {what} {}; wait for its end, or name another folder",
                    folder.display()
                )));
            }
            // The former holder may have ended in between and removed the file; then the next
            // process would lock another file.
            if is_still_at(&file, &path).map_err(unwritten)? {
                let _made = MadeFolders::default();
                return Ok(Self {
                    _file: file,
                    path,
                    _made,
                });
            }
        }
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        // Other systems cannot remove an open file, or not so that a new one can take its place.
        if cfg!(unix) {
            // A file that stays does no harm.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Returns whether `path` is still the name of `file`.
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

/// Returns whether `path` is still the name of `file`, which is always so as nobody removes it
/// here.
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
        assert!(
            matches!(&refused, Error::Usage(text) if text.contains("another process is at work")),
            "{refused}"
        );
        drop(first);
        drop(FolderLock::take(folder.path()).unwrap());
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            0,
            "it leaves nothing"
        );
    }

    #[test]
    fn a_file_that_nobody_holds_is_no_lock() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(FILE_NAME), "").unwrap();
        FolderLock::take(folder.path()).unwrap();
        let nowhere = folder.path().join("nowhere");
        assert!(matches!(
            FolderLock::take(&nowhere),
            Err(Error::Write { .. })
        ));
    }

    /// If this fails, one process holds a file that has lost its name, and another process the file
    /// that took its place.
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
