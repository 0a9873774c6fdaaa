//! Carries out commands that run nothing: `validate`, `migrate`, `schema`, `presets`, `completions`
//! and `man`.

use clap::CommandFactory;

use super::args::{Cli, CompletionsArgs, ManArgs, MigrateArgs, ValidateArgs};
use super::estimates::Expected;
use super::inputs::{Inputs, beside_scenario, data_directories, strictness, threads_of};
use super::output_file::write_file;
use super::run::program;
use super::{Finished, Session, screen, wrapped};
use crate::method::Entry;
use crate::{Error, Result};
use fedrecsim_data::dataset::public::known;
use fedrecsim_report::study::file::or_study;
use fedrecsim_report::words::counted;
use fedrecsim_scenario::migrate::{Migrated, migrate as migrated};
use fedrecsim_scenario::{self as scenario, Loaded, MethodVocabulary, Override, Scenario};

/// Checks every file, even after a wrong one. Returns a line for each valid file, a warning for
/// each of its keys without effect, and an error for each of the other files.
pub(crate) fn validate(arguments: &ValidateArgs, session: &Session) -> Finished {
    let (vocabulary, strictness) = (session.vocabulary(), strictness(arguments.strict));
    let set = Override::of_line(&arguments.set);
    let mut finished = Finished::default();
    for path in &arguments.scenarios {
        let loaded = scenario::load_with_warnings(path, &set, &vocabulary, strictness);
        let Loaded { scenario, warnings } = match loaded {
            Ok(loaded) => loaded,
            Err(error) => {
                finished.errors.push(or_study(error, path));
                continue;
            }
        };
        finished.warnings.extend(warnings);
        let valid = format!("{}: valid, {}\n", path.display(), summary(&scenario));
        finished.output.push_str(&valid);
        if arguments.estimate {
            match expected(&scenario, arguments, session.methods) {
                Ok((expected, warnings)) => {
                    finished.warnings.extend(warnings);
                    let line = wrapped(&expected.line(), "  ", screen::of_text());
                    finished.output.push_str(&line);
                    finished.errors.extend(expected.check().err());
                }
                Err(error) => finished.errors.push(beside_scenario(error, path)),
            }
        }
    }
    finished
}

/// Rehearses the first rounds of a scenario. Returns what they take, and the warnings about its ratings.
fn expected(
    scenario: &Scenario,
    arguments: &ValidateArgs,
    methods: &[Entry],
) -> Result<(Expected, Vec<String>)> {
    let directories = data_directories(arguments.data_dir.as_deref());
    let inputs = Inputs::load(scenario, &directories, methods)?;
    let expected = Expected::of(&inputs.world, threads_of(arguments.threads), true)?;
    let [_, warnings] = inputs.remarks();
    Ok((expected, warnings))
}

fn summary(scenario: &Scenario) -> String {
    let dataset = &scenario.dataset;
    let data = match (&dataset.generator, known(dataset.name)) {
        (Some(generator), _) => {
            let (users, items) = (generator.users, generator.items);
            format!("{users} generated users and {items} items")
        }
        (None, Some(set)) => set.name.clone(),
        // A delimited file always has a path: the check of the scenario demands it.
        (None, None) => {
            let path = dataset.path.clone().unwrap_or_default();
            path.display().to_string()
        }
    };
    let rounds = counted(scenario.training.rounds.into(), "round");
    format!("{} on {data}, {rounds}", scenario.method.name)
}

/// Returns the JSON schema of scenario files, with a final end of line.
pub(crate) fn schema(vocabulary: &[MethodVocabulary]) -> String {
    format!("{:#}\n", scenario::schema(vocabulary))
}

/// Returns the presets with their numbers and sources, in lines of `width` columns as far as the
/// numbers allow it. A class of devices has a line of its own, which may be longer, since TOML does
/// not let it go over several lines.
pub(crate) fn presets(width: usize) -> String {
    let mut text = String::new();
    for table in scenario::presets::TABLES {
        let header = match table {
            "faults" => "[[faults]]".to_owned(),
            table => format!("[{table}]"),
        };
        text.push_str(&format!("{header}\n\n"));
        for preset in scenario::presets::of_table(table) {
            text.push_str(&format!("preset = \"{}\"\n", preset.name));
            let lines = preset.lines();
            let longest = lines.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
            for (key, value) in lines {
                let value = value.replace('\n', "\n  ");
                text.push_str(&format!("  {key:<longest$} = {value}\n"));
            }
            text.push_str(&wrapped(&preset.source, "  # ", width));
            text.push('\n');
        }
    }
    text
}

/// Rewrites every file that has a key in its old place, and says which keys have moved.
///
/// # Errors
/// [`Error::Read`] for a file that cannot be read, and those of [`migrated`]: no file has been
/// rewritten then. [`Error::Write`] for a file that cannot be written.
pub(crate) fn migrate(arguments: &MigrateArgs) -> Result<String> {
    let mut found = Vec::new();
    for path in &arguments.files {
        let text = std::fs::read_to_string(path).map_err(|reason| Error::read(path, reason))?;
        found.push((path, migrated(&text, &path.display().to_string())?));
    }
    let mut told = String::new();
    for (path, Migrated { text, moves }) in found {
        let name = path.display();
        if moves.is_empty() {
            told.push_str(&format!("{name}: nothing to move\n"));
            continue;
        }
        write_file(path, text.as_bytes(), true)?;
        for moved in moves {
            told.push_str(&format!("{name}: {moved}\n"));
        }
    }
    Ok(told)
}

/// Returns the script that completes the program's commands and options in a shell.
pub(crate) fn completions(arguments: &CompletionsArgs) -> String {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), program(), &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Returns the manual page of the program or of one of its commands, in the format that `man`
/// reads.
///
/// # Errors
/// [`Error::Usage`] if there is no such command.
pub(crate) fn man(arguments: &ManArgs) -> Result<String> {
    let mut root = Cli::command();
    root.build();
    let command = match &arguments.command {
        None => root,
        Some(name) => root.find_subcommand(name).cloned().ok_or_else(|| {
            Error::Usage(format!(
                "there is no command `{name}`; `{} --help` lists all",
                program()
            ))
        })?,
    };
    let mut page = Vec::new();
    let rendered = clap_mangen::Man::new(command).render(&mut page);
    rendered.map_err(|reason| Error::write("the manual page", reason))?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use fedrecsim_core::Error;
    use fedrecsim_methods::registry::{METHODS, vocabulary};

    #[test]
    fn one_wrong_file_does_not_hide_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let good = "method = \"popularity\"\ndataset.name = \"ml-100k\"\ntraining.rounds = 2\n";
        let scenarios = vec![
            write("wrong.toml", "sed = 1"),
            folder.path().join("absent.toml"),
            write("good.toml", good),
        ];
        let set = vec!["training.rounds=1".to_owned()];
        let arguments = ValidateArgs {
            scenarios,
            strict: false,
            set,
            estimate: false,
            data_dir: None,
            threads: None,
        };
        let validation = validate(&arguments, &Session::new(METHODS));
        assert!(
            validation
                .output
                .ends_with("good.toml: valid, popularity on ml-100k, 1 round\n"),
            "{}",
            validation.output
        );
        assert_eq!(validation.output.lines().count(), 1);
        assert!(matches!(
            validation.errors[..],
            [Error::Scenario { .. }, Error::Read { .. }]
        ));
    }

    #[test]
    fn the_printed_schema_is_one_json_document() {
        let printed: serde_json::Value = serde_json::from_str(&schema(&vocabulary())).unwrap();
        assert_eq!(printed, scenario::schema(&vocabulary()));
    }

    #[test]
    fn presets_are_shown_with_their_numbers_and_sources() {
        let text = presets(80);
        let is_class = |line: &str| line.trim_start().starts_with("{ ");
        assert!(
            text.lines()
                .all(|line| line.chars().count() <= 80 || is_class(line))
        );
        insta::assert_snapshot!(text);
    }
}
