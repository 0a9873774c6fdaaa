//! Says which build of the program is running.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use fedrecsim_core::{Error, Result};

/// A build of the program and of a method: two builds that differ in anything may come to different
/// results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// The version of the program.
    pub program: String,
    /// The commit, the compiler and the settings of the build.
    pub made_from: String,
    /// BLAKE3 (hexadecimal) of the executable, or of the library that holds this crate.
    pub executable: String,
    /// The method's own version ([`Method::version`](fedrecsim_methods::Method::version)).
    pub method: String,
}

impl Build {
    /// Returns the build that is running, with the method's own version.
    ///
    /// # Errors
    /// [`Error::Read`] if the executable cannot be read.
    pub fn running(program: &Program, method: &str) -> Result<Self> {
        let executable = executable_once().as_ref().map_err(|reason| {
            let path = std::env::current_exe().unwrap_or_default();
            Error::read(
                path,
                format!("{reason}; checkpoints name the build of the program by this file"),
            )
        })?;
        Ok(Self {
            program: program.version.to_owned(),
            made_from: format!(
                "build {}, commit {}, rustc {}",
                program.settings, program.commit, program.rustc
            ),
            executable: executable.clone(),
            method: method.to_owned(),
        })
    }

    /// Describes the build in a few words.
    pub fn describe(&self) -> String {
        let executable = self.executable.get(..16).unwrap_or(&self.executable);
        let method = if self.method.is_empty() {
            String::new()
        } else {
            format!(", method {}", self.method)
        };
        format!(
            "fedrecsim {}, {}, executable {executable}{method}",
            self.program, self.made_from
        )
    }
}

/// Returns BLAKE3 (hexadecimal) of the executable that is running, or of the library that holds
/// this crate; an empty text if it cannot be read.
pub fn executable_digest() -> String {
    executable_once().clone().unwrap_or_default()
}

/// Reads the executable once in the life of the process.
fn executable_once() -> &'static std::result::Result<String, String> {
    static EXECUTABLE: OnceLock<std::result::Result<String, String>> = OnceLock::new();
    EXECUTABLE.get_or_init(|| digest_of_executable().map_err(|reason| reason.to_string()))
}

/// The sources of the program.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// The version of the program.
    pub version: &'static str,
    /// The last commit that changed its sources, or `unknown`.
    pub commit: &'static str,
    /// The version of the compiler.
    pub rustc: &'static str,
    /// Profile, target and features.
    pub settings: &'static str,
}

impl Program {
    /// Returns the same by name, for reports.
    pub fn versions(&self) -> BTreeMap<String, String> {
        [
            ("fedrecsim", self.version),
            ("commit", self.commit),
            ("rustc", self.rustc),
            ("build", self.settings),
        ]
        .into_iter()
        .map(|(name, version)| (name.to_owned(), version.to_owned()))
        .collect()
    }
}

fn digest_of_executable() -> io::Result<String> {
    let mut digest = blake3::Hasher::new();
    digest.update_reader(File::open(executable()?)?)?;
    Ok(digest.finalize().to_hex().to_string())
}

/// Returns where the code of this crate can be read: the executable, or the library if another
/// program has loaded it.
fn executable() -> io::Result<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let program = std::env::current_exe();
    let Some(mapped) = file_of(&maps, executable as *const () as usize) else {
        return program;
    };
    // The link of a running program leads to its file even if another file has taken its name
    // since.
    let link = PathBuf::from("/proc/self/exe");
    if std::fs::read_link(&link).is_ok_and(|target| target == mapped) {
        Ok(link)
    } else {
        Ok(mapped.to_owned())
    }
}

/// Returns the file that is mapped at `address`, according to the text of `/proc/self/maps`; `None`
/// if it is not in there.
fn file_of(maps: &str, address: usize) -> Option<&Path> {
    maps.lines().find_map(|line| {
        // A line is: first-last permissions offset device inode, blanks, path.
        let (range, rest) = line.split_once(' ')?;
        let (first, last) = range.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        let is_in = (number(first)?..number(last)?).contains(&address);
        let path = rest.find('/').map(|start| Path::new(&rest[start..]));
        is_in.then_some(path?)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const PROGRAM: Program = Program {
        version: "0.1.0",
        commit: "c0ffee",
        rustc: "1.95.0",
        settings: "release",
    };

    /// If this fails, a library that another program loads is taken for that program, so that a
    /// build of it that was changed goes on with the checkpoints of another.
    #[test]
    fn the_file_at_an_address_is_the_library_that_is_loaded_there() {
        let maps = "5590-55a0 r-xp 00000000 08:01 12 /usr/bin/python3.12\n\
                    7f00-7f80 r-xp 00001000 08:01 13                         /site packages/own.so\n\
                    7ffe-7fff rw-p 00000000 00:00 0 \n";
        assert_eq!(
            file_of(maps, 0x7f7f),
            Some(Path::new("/site packages/own.so"))
        );
        assert_eq!(
            file_of(maps, 0x5590),
            Some(Path::new("/usr/bin/python3.12"))
        );
        assert_eq!((file_of(maps, 0x7f80), file_of(maps, 0x7ffe)), (None, None));
    }

    /// If this fails, the build of a checkpoint is not that of the program that wrote it.
    #[test]
    fn the_build_is_the_digest_of_this_program() {
        let ours = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let build = Build::running(&PROGRAM, "3").unwrap();
        assert_eq!(build.executable, blake3::hash(&ours).to_hex().to_string());
        let words = build.describe();
        for part in [
            PROGRAM.version,
            "commit ",
            "rustc 1.",
            "build ",
            &build.executable[..16],
            "method 3",
        ] {
            assert!(words.contains(part), "no {part:?} in {words}");
        }
    }
}
