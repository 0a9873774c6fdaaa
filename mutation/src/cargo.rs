//! Builds the copy, and tells which mutants do not compile.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::weave::Piece;

/// The two test binaries of the copy.
#[derive(Clone, Debug)]
pub struct Binaries {
    /// The unit tests of the library.
    pub lib: PathBuf,
    /// The integration tests.
    pub it: PathBuf,
}

/// A folder with a crate, and how it is built.
pub struct Crate<'a> {
    /// The folder of the crate.
    pub folder: &'a Path,
    /// The folder of what is built.
    pub target: &'a Path,
    /// How many compilers work at a time.
    pub jobs: u32,
}

#[derive(Deserialize)]
struct Line {
    reason: String,
    message: Option<Message>,
    target: Option<Target>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    name: String,
}

#[derive(Deserialize)]
struct Message {
    level: String,
    message: String,
    rendered: Option<String>,
    spans: Vec<Span>,
}

#[derive(Deserialize)]
struct Span {
    file_name: String,
    byte_start: usize,
    byte_end: usize,
    is_primary: bool,
}

impl Crate<'_> {
    /// Checks the library. Returns the mutants that do not compile, which is none of them if
    /// everything does.
    ///
    /// # Errors
    ///
    /// Returns an error if the compiler refuses something that is no mutant.
    pub fn refused(&self, pieces: &BTreeMap<String, Vec<Piece>>) -> Result<BTreeSet<usize>> {
        let (lines, succeeded) = self.cargo(&["check", "--lib"])?;
        if succeeded {
            return Ok(BTreeSet::new());
        }
        let errors: Vec<&Message> = lines
            .iter()
            .filter_map(|line| line.message.as_ref())
            .filter(|m| m.level == "error")
            .collect();
        let refused: BTreeSet<usize> = errors
            .iter()
            .flat_map(|error| blamed(error, pieces))
            .collect();
        if refused.is_empty() {
            bail!(
                "the copy does not compile, and no mutant is to blame:\n{}",
                rendered(&errors)
            );
        }
        Ok(refused)
    }

    /// Builds the test binaries.
    ///
    /// # Errors
    ///
    /// Returns an error if something does not compile.
    pub fn tests(&self) -> Result<Binaries> {
        let (lines, succeeded) = self.cargo(&["test", "--no-run", "--lib", "--test", "it"])?;
        let errors: Vec<&Message> = lines
            .iter()
            .filter_map(|line| line.message.as_ref())
            .filter(|m| m.level == "error")
            .collect();
        if !succeeded {
            bail!(
                "the tests of the copy do not compile:\n{}",
                rendered(&errors)
            );
        }
        let executable = |kind: &str, name: &str| {
            let found = lines.iter().find_map(|line| {
                let target = line.target.as_ref()?;
                let is_it = target.name == name && target.kind.iter().any(|other| other == kind);
                line.executable.clone().filter(|_| is_it)
            });
            found.with_context(|| format!("cargo names no test binary of {name}"))
        };
        Ok(Binaries {
            lib: executable("lib", "fedrecsim")?,
            it: executable("test", "it")?,
        })
    }

    fn cargo(&self, arguments: &[&str]) -> Result<(Vec<Line>, bool)> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .args(arguments)
            .args([
                "--locked",
                "--message-format=json",
                "--jobs",
                &self.jobs.to_string(),
            ])
            .env("CARGO_TARGET_DIR", self.target)
            .current_dir(self.folder)
            .stderr(Stdio::inherit())
            .output()
            .context("cargo cannot be started")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let lines = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Line>(line).ok());
        Ok((
            lines
                .filter(|line| line.reason.starts_with("compiler-"))
                .collect(),
            output.status.success(),
        ))
    }
}

/// Returns the mutants that an error is about: those that it points into, wherever it says so, or
/// else the innermost one around the place.
fn blamed(error: &Message, pieces: &BTreeMap<String, Vec<Piece>>) -> Vec<usize> {
    let here = |span: &Span| pieces.get(&span.file_name).into_iter().flatten();
    let inside = |span: &Span| -> Vec<usize> {
        let holds = |piece: &&Piece| {
            piece.added.start < span.byte_start && span.byte_end <= piece.added.end
        };
        here(span).filter(holds).map(|piece| piece.mutant).collect()
    };
    let around = |span: &Span| {
        let holds = |piece: &&Piece| {
            piece.whole.start <= span.byte_start && span.byte_end <= piece.whole.end
        };
        here(span)
            .filter(holds)
            .min_by_key(|piece| piece.whole.len())
            .map(|piece| piece.mutant)
    };
    let (primary, secondary): (Vec<&Span>, Vec<&Span>) =
        error.spans.iter().partition(|span| span.is_primary);
    for spans in [&primary, &secondary] {
        let found: Vec<usize> = spans.iter().flat_map(|span| inside(span)).collect();
        if !found.is_empty() {
            return found;
        }
    }
    primary
        .iter()
        .chain(&secondary)
        .filter_map(|span| around(span))
        .take(1)
        .collect()
}

fn rendered(errors: &[&Message]) -> String {
    let texts = errors
        .iter()
        .map(|error| error.rendered.as_deref().unwrap_or(&error.message));
    texts.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(spans: &[(usize, usize, bool)]) -> Message {
        let span = |&(byte_start, byte_end, is_primary): &(usize, usize, bool)| Span {
            file_name: "src/x.rs".to_owned(),
            byte_start,
            byte_end,
            is_primary,
        };
        let spans = spans.iter().map(span).collect();
        Message {
            level: "error".to_owned(),
            message: String::new(),
            rendered: None,
            spans,
        }
    }

    #[test]
    fn an_error_is_put_down_to_the_mutant_that_it_points_at() {
        let piece = |mutant, added, whole| Piece {
            mutant,
            added,
            whole,
        };
        // 1 is around 2; 3 stands alone.
        let here = vec![
            piece(1, 10..20, 10..60),
            piece(2, 30..40, 30..50),
            piece(3, 70..80, 70..80),
        ];
        let pieces = BTreeMap::from([("src/x.rs".to_owned(), here)]);
        assert_eq!(blamed(&error(&[(12, 15, true)]), &pieces), [1]);
        assert_eq!(
            blamed(&error(&[(42, 45, true)]), &pieces),
            [2],
            "the other branch has another type"
        );
        assert_eq!(blamed(&error(&[(55, 56, true)]), &pieces), [1]);
        assert_eq!(
            blamed(&error(&[(30, 50, true), (14, 16, false)]), &pieces),
            [1],
            "its branches differ in their types"
        );
        assert_eq!(
            blamed(&error(&[(0, 5, true), (72, 75, false)]), &pieces),
            [3]
        );
        assert_eq!(blamed(&error(&[(0, 5, true)]), &pieces), [0; 0]);
        assert_eq!(blamed(&error(&[]), &pieces), [0; 0]);
    }
}
