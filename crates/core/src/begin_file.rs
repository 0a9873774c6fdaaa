//! Begins files that appear whole under their name or not at all.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The temporary name of a file that is being written. If it is dropped, what was written is removed.
#[derive(Debug)]
pub struct Partial(Option<PathBuf>);

impl Partial {
    /// Gives the file its name, in place of another file.
    ///
    /// # Errors
    /// The system's reason. What was written is removed.
    pub fn persist(mut self, path: &Path) -> io::Result<()> {
        fs::rename(self.path(), path)?;
        self.0 = None;
        Ok(())
    }

    /// Leaves the file under its temporary name, and returns that.
    pub fn keep(mut self) -> PathBuf {
        self.0.take().unwrap_or_default()
    }

    /// Returns the temporary name.
    pub fn path(&self) -> &Path {
        self.0.as_deref().unwrap_or(Path::new(""))
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // What may be left over is a hidden file with a telling name.
            let _ = fs::remove_file(path);
        }
    }
}

/// Begins a file under the temporary name `partial`, in the folder where it is to be.
/// [`Partial::persist`] gives it its name when all of it is written. A private file, which holds what
/// devices keep for themselves, can be read by its owner alone.
///
/// The file is always a new one: a link that somebody has put there is removed and not followed, and
/// so is what a killed process has left.
///
/// # Errors
/// The system's reason.
pub fn begin_file(partial: &Path, is_private: bool) -> io::Result<(File, Partial)> {
    match fs::remove_file(partial) {
        Err(reason) if reason.kind() != io::ErrorKind::NotFound => return Err(reason),
        _ => {}
    }
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if is_private {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    let file = options.open(partial)?;
    Ok((file, Partial(Some(partial.to_owned()))))
}

#[cfg(all(test, unix))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// If this fails, a file is written through a link to another one, or others read what is
    /// private.
    #[test]
    fn a_file_is_a_new_one_until_it_has_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let [path, partial, other] =
            ["a.csv", "partial", "other"].map(|name| folder.path().join(name));
        fs::write(&other, "before").unwrap();
        for (is_private, hidden) in [(true, 0o077), (false, 0)] {
            symlink(&other, &partial).unwrap();
            drop(begin_file(&partial, is_private).unwrap());
            assert!(!partial.is_symlink() && !partial.exists());
            fs::write(&partial, "of a process that was killed").unwrap();
            let (mut file, begun) = begin_file(&partial, is_private).unwrap();
            file.write_all(b"whole").unwrap();
            begun.persist(&path).unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"whole");
            let mode = fs::symlink_metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & hidden, 0, "{is_private}: {mode:o}");
            assert_eq!(mode & 0o600, 0o600);
            assert_eq!(fs::read(&other).unwrap(), b"before");
        }
    }
}
