use std::path::{Path, PathBuf};

use clap::Parser;
use fedrecsim::cli::{Cli, Command, DataCommand};
use fedrecsim_methods::method::registry::vocabulary;
use fedrecsim_scenario::scenario::{self, Scenario, SourceSpec};

use crate::support::{assert_balanced, assert_finite, repository, run};

/// Names of scenarios that other files refer to.
const PROMISED: [&str; 5] = [
    "ml100k-fedmf",
    "ml100k-fedrap",
    "ml100k-pfedrec",
    "ml100k-popularity",
    "quickstart",
];

/// Scenarios whose one round would take longer than all other tests;
/// `cargo bench --bench simulation scale` runs them.
const LARGE: [&str; 2] = ["generated-1m-users", "generated-24000x7500-fedrap"];

/// Returns the files below `folder` whose names have this extension, in order.
fn files_in(folder: &str, extension: &str) -> Vec<PathBuf> {
    let Ok(entries) = repository(folder).read_dir() else {
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|found| found == extension));
    files.sort();
    files
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the prose of the project: Markdown at the top and in `docs/`.
fn documents() -> Vec<PathBuf> {
    let documents = [files_in("", "md"), files_in("docs", "md")].concat();
    assert!(
        documents.iter().any(|path| path.ends_with("README.md")),
        "there is no README.md"
    );
    documents
}

/// Runs one round of a scenario on generated ratings, unless it is too large. Others are not run,
/// as their data may be absent.
fn try_one_round(mut scenario: Scenario) {
    if matches!(scenario.dataset.source, SourceSpec::Generated { .. })
        && !LARGE.contains(&scenario.name.as_str())
    {
        scenario.training.rounds = 1;
        let outcome = run(scenario, 2);
        assert_finite(&outcome);
        assert_balanced(&outcome);
    }
}

/// If this fails, a scenario that is shipped with the program does not work.
#[test]
fn every_scenario_file_is_valid_and_runs() {
    let files = files_in("scenarios", "toml");
    let names: Vec<&str> = files
        .iter()
        .filter_map(|path| path.file_stem()?.to_str())
        .collect();
    for name in PROMISED.into_iter().chain(LARGE) {
        assert!(names.contains(&name), "scenarios/{name}.toml is gone");
    }
    for file in files {
        let scenario =
            scenario::load(&file, &[], &vocabulary()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(
            Some(scenario.name.as_str()),
            file.file_stem().and_then(|stem| stem.to_str())
        );
        try_one_round(scenario);
    }
}

/// Returns the fenced blocks of a Markdown text in `language`, each with the line (from 1) that it
/// starts after.
fn blocks(text: &str, language: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut open: Option<(usize, bool, String)> = None;
    for (line, content) in text.lines().enumerate() {
        match (content.trim().strip_prefix("```"), &mut open) {
            (Some(info), None) => open = Some((line + 1, info == language, String::new())),
            (Some(_), Some(_)) => {
                found.extend(
                    open.take()
                        .filter(|(_, wanted, _)| *wanted)
                        .map(|(line, _, block)| (line, block)),
                );
            }
            (None, Some((_, _, block))) => *block += &format!("{content}\n"),
            (None, None) => {}
        }
    }
    found
}

/// If this fails, a reader who copies an example from the documentation gets an error.
#[test]
fn every_example_of_a_scenario_is_valid_and_runs() {
    let mut examples = 0;
    for document in documents() {
        // A block with seeds is a study.
        let is_scenario = |(_, block): &(usize, String)| {
            !block.starts_with("[dependencies]") && !block.contains("seeds = [")
        };
        for (line, block) in blocks(&read(&document), "toml")
            .into_iter()
            .filter(is_scenario)
        {
            let place = format!("{}:{line}", document.display());
            let scenario = scenario::parse(&block, &place, &[], &vocabulary());
            try_one_round(scenario.unwrap_or_else(|error| panic!("the block at {place}\n{error}")));
            examples += 1;
        }
    }
    assert!(examples > 0, "the documentation shows no scenario");
}

/// Returns the words of a command line as a shell would split it, up to a comment or a redirection.
fn words(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut quote = None;
    let mut inside = false;
    for character in line.chars() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (None, '\'' | '"') => {
                quote = Some(character);
                if !inside {
                    words.push(String::new());
                }
            }
            (None, '#' | '>') if !inside => break,
            (None, ' ') => {
                inside = false;
                continue;
            }
            _ if inside => words.last_mut().unwrap().push(character),
            _ => words.push(character.to_string()),
        }
        inside = true;
    }
    words
}

/// Returns every command of this program in `text` with its line, without `fedrecsim` or
/// `cargo run --release --`.
fn commands(text: &str) -> Vec<(usize, Vec<String>)> {
    let command = |line: &str| {
        let line = line.trim_start_matches(['#', '$', ' ']);
        let arguments = line
            .strip_prefix("fedrecsim ")
            .or_else(|| line.strip_prefix("cargo run --release -- "))?;
        Some(words(arguments))
    };
    text.lines()
        .enumerate()
        .filter_map(|(line, text)| Some((line + 1, command(text)?)))
        .collect()
}

/// If this fails, a command that the documentation or the head of a scenario shows is refused.
#[test]
fn every_command_that_is_shown_is_accepted() {
    let mut shown = Vec::new();
    for document in documents() {
        for (start, block) in blocks(&read(&document), "sh") {
            let place = |line| format!("{}:{}", document.display(), start + line);
            shown.extend(
                commands(&block)
                    .into_iter()
                    .map(|(line, words)| (place(line), words)),
            );
        }
    }
    for file in files_in("scenarios", "toml") {
        let place = |line| format!("{}:{line}", file.display());
        shown.extend(
            commands(&read(&file))
                .into_iter()
                .map(|(line, words)| (place(line), words)),
        );
    }
    assert!(shown.len() >= 4, "{shown:?}");
    for (place, words) in shown {
        let arguments = std::iter::once("fedrecsim".to_owned()).chain(words);
        let parsed =
            Cli::try_parse_from(arguments).unwrap_or_else(|error| panic!("{place}: {error}"));
        let (files, overrides) = match parsed.command {
            Command::Run(run) => (vec![run.input.scenario.clone()], run.input.overrides()),
            Command::Events(events) => (
                vec![events.input.scenario.clone()],
                events.input.overrides(),
            ),
            Command::Replay(replay) => (
                vec![replay.input.scenario.clone()],
                replay.input.overrides(),
            ),
            Command::Validate(validate) => (validate.scenarios, validate.set),
            Command::Data(DataCommand::Describe(data)) => (vec![data.scenario], data.set),
            Command::Data(_)
            | Command::Resume(_)
            | Command::Study(_)
            | Command::Compare(_)
            | Command::Diff(_)
            | Command::Html(_)
            | Command::Explain(_)
            | Command::Migrate(_)
            | Command::Schema
            | Command::Methods
            | Command::Codecs
            | Command::Codec(_)
            | Command::Table(_)
            | Command::Presets
            | Command::Completions(_)
            | Command::Man(_) => continue,
        };
        for file in files {
            let scenario = scenario::load(&repository("").join(&file), &overrides, &vocabulary());
            scenario.unwrap_or_else(|error| panic!("{place}: {error}"));
        }
    }
}

/// If this fails, the documentation links to a file that does not exist.
#[test]
fn every_file_that_the_documentation_links_to_exists() {
    for document in documents() {
        let text = read(&document);
        for (place, _) in text.match_indices("](") {
            let target = text[place + 2..].split([')', '#', ' ']).next().unwrap();
            if !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:") {
                let file = document.parent().unwrap().join(target);
                assert!(file.exists(), "{} links to {target}", document.display());
            }
        }
        for (place, _) in text.match_indices("scenarios/") {
            let name: String = text[place..]
                .chars()
                .take_while(|c| c.is_alphanumeric() || "/-_.".contains(*c))
                .collect();
            if name.ends_with(".toml") {
                assert!(
                    repository(&name).is_file(),
                    "{} names {name}",
                    document.display()
                );
            }
        }
    }
}

#[test]
fn commands_are_split_as_a_shell_does() {
    let split = |line: &str| commands(line).remove(0).1;
    assert_eq!(
        split("#   fedrecsim run a.toml --set x=1 # a comment"),
        ["run", "a.toml", "--set", "x=1"]
    );
    assert_eq!(split("$ fedrecsim schema > file"), ["schema"]);
    assert_eq!(
        split("cargo run --release -- run 'a b' --set y={\"z\"}"),
        ["run", "a b", "--set", "y={z}"]
    );
    assert!(commands("cargo test --release\ncargo build").is_empty());
}

#[test]
fn blocks_are_found_by_their_language() {
    let text = "a\n```toml\nx = 1\n```\n```sh\nls\n```\n```toml\ny = 2\n```\n";
    assert_eq!(
        blocks(text, "toml"),
        [(2, "x = 1\n".to_owned()), (8, "y = 2\n".to_owned())]
    );
}
