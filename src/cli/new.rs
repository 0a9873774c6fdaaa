//! Carries out `new`: writes a scenario to begin with, and the schema by which editors check it.

use std::path::Path;

use crate::cli::inspect;
use crate::cli::output_file::write_file;
use crate::{Error, Result};
use fedrecsim_core::shell_word;
use fedrecsim_scenario::MethodVocabulary;

/// A scenario with the keys that are changed first.
const SCENARIO: &str = include_str!("new.toml");

/// The file that the first line of the scenario names.
const SCHEMA: &str = "fedrecsim.schema.json";

/// Writes the scenario to `path` and, unless it is there, the schema with this vocabulary beside it.
/// Returns what to do with them.
///
/// # Errors
/// [`Error::Usage`] if something is there, and [`Error::Write`] if it cannot be written.
pub(crate) fn new(path: &Path, vocabulary: &[MethodVocabulary]) -> Result<String> {
    if path.symlink_metadata().is_ok() {
        let message = format!("{} is there; name another file", path.display());
        return Err(Error::Usage(message));
    }
    let word = shell_word(&path.to_string_lossy());
    let text = match word.chars().any(char::is_control) {
        true => SCENARIO.to_owned(),
        false => SCENARIO.replacen("run FILE", &format!("run {word}"), 1),
    };
    write_file(path, text.as_bytes(), false)?;
    let beside = path.with_file_name(SCHEMA);
    let schema = match beside.symlink_metadata() {
        Ok(_) => String::new(),
        Err(_) => {
            write_file(&beside, inspect::schema(vocabulary).as_bytes(), false)?;
            format!(
                "; its editor completes and checks keys by {}",
                beside.display()
            )
        }
    };
    let path = path.display();
    Ok(format!(
        "written to {path}{schema}\nnow: fedrecsim run {word}\n"
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use fedrecsim_methods::registry::vocabulary;
    use fedrecsim_scenario::{Strictness, parse_with_warnings};

    fn check(text: &str) {
        parse_with_warnings(text, "new.toml", &[], &vocabulary(), Strictness::Strict)
            .unwrap_or_else(|error| panic!("{error}"));
    }

    /// If this fails, what somebody begins with is refused, or has keys without an effect.
    #[test]
    fn the_scenario_and_each_other_choice_in_it_are_valid() {
        check(SCENARIO);
        let other = |start: &str, count: usize, now: &str| {
            let mut lines: Vec<String> = SCENARIO.lines().map(str::to_owned).collect();
            let first = lines
                .iter()
                .position(|line| line.starts_with(start))
                .unwrap();
            for line in &mut lines[first..first + count] {
                *line = line.trim_start_matches("# ").to_owned();
            }
            lines.retain(|line| !line.starts_with(now));
            lines.join("\n")
        };
        let public = other("# name = \"ml-100k\"", 1, "name = \"generated\"");
        check(&public.replace("generator =", "# generator ="));
        let own = other("# name = \"delimited\"", 3, "name = \"generated\"");
        check(&own.replace("generator =", "# generator ="));
        check(&other("# uplink", 1, "uplink = \"rows-f32\""));
    }

    #[test]
    fn a_file_that_is_there_stays_and_the_command_is_quoted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("my scenario.toml");
        let told = new(&path, &vocabulary()).unwrap();
        let command = format!("fedrecsim run '{}'", path.display());
        assert!(told.contains(&format!("now: {command}\n")), "{told}");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(&command), "{text}");
        let again = new(&path, &[]).unwrap_err().to_string();
        assert!(again.ends_with("is there; name another file"), "{again}");
        // An editor that finds no schema complains of the first line.
        let first = text.lines().next().unwrap().trim_start_matches("#:schema ");
        let schema = folder.path().join(first);
        let text = std::fs::read_to_string(&schema).unwrap();
        assert!(text.contains("\"fedmf\""), "{text:.100}");
        std::fs::write(&schema, "mine").unwrap();
        new(&folder.path().join("other.toml"), &vocabulary()).unwrap();
        assert_eq!(std::fs::read_to_string(&schema).unwrap(), "mine");
    }
}
