//! Folders that are made for what is to be written, and removed if nothing is.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fedrecsim_core::{Error, Result};

/// The folders that were made for one to be there, outermost first.
///
/// If this is dropped, those with nothing in them are removed (never a file), so that a command
/// which failed before there was anything to write leaves no trace.
#[derive(Debug, Default)]
#[must_use]
pub struct MadeFolders(Vec<PathBuf>);

impl MadeFolders {
    /// Makes the folder `path` and those that it is in, unless they are there.
    ///
    /// # Errors
    /// [`Error::Write`] if that cannot be done.
    pub fn make(path: &Path) -> Result<Self> {
        let ancestors = path.ancestors();
        let missing: Vec<&Path> = ancestors
            .take_while(|folder| !folder.as_os_str().is_empty() && !folder.is_dir())
            .collect();
        let mut made = Self::default();
        for folder in missing.into_iter().rev() {
            match fs::create_dir(folder) {
                Ok(()) => made.0.push(folder.to_owned()),
                // Another process has made it meanwhile.
                Err(reason) if reason.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {
                }
                Err(reason) => return Err(Error::write(path, reason)),
            }
        }
        Ok(made)
    }
}

impl Drop for MadeFolders {
    fn drop(&mut self) {
        for folder in self.0.iter().rev() {
            // A folder with anything in it cannot be removed, and those around it hold it.
            if fs::remove_dir(folder).is_err() {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// If this fails, a command that wrote nothing leaves folders behind, or takes away what was
    /// there or was written.
    #[test]
    fn folders_that_nobody_has_used_go_with_what_made_them() {
        let outer = tempfile::tempdir().unwrap();
        let (used, inner) = (outer.path().join("a"), outer.path().join("a/b/c"));
        let made = MadeFolders::make(&inner).unwrap();
        assert!(inner.is_dir());
        fs::write(used.join("file"), "").unwrap();
        drop(made);
        assert_eq!((used.is_dir(), used.join("b").exists()), (true, false));
        drop(MadeFolders::make(&used).unwrap());
        assert!(used.is_dir(), "it was there before");
        assert!(MadeFolders::make(&used.join("file/below")).is_err());
    }
}
