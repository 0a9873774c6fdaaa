//! Checks what the README says against the program: its scenarios, its commands, its links.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use clap::Parser;

use super::{Cli, Command};
use crate::method::registry::vocabulary;
use crate::scenario;

const README: &str = include_str!("../../README.md");

fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the code blocks of `language`.
fn blocks(language: &str) -> Vec<&'static str> {
    let opening = format!("```{language}\n");
    README.split(&opening).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// Returns the command lines of the README that start this program, each as its arguments.
fn commands() -> Vec<Vec<&'static str>> {
    let lines = blocks("sh").into_iter().flat_map(str::lines);
    let arguments = lines.filter_map(|line| {
        let line = line.split('#').next()?.split(" > ").next()?;
        line.strip_prefix("fedrecsim ").or_else(|| line.strip_prefix("cargo run --release -- "))
    });
    arguments.map(|line| std::iter::once("fedrecsim").chain(line.split_whitespace()).collect()).collect()
}

fn load(path: &Path, overrides: &[String]) {
    let path = project().join(path);
    scenario::load(&path, overrides, &vocabulary()).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn scenarios_in_the_readme_are_valid() {
    let scenarios = blocks("toml");
    assert!(scenarios.len() >= 2, "the README has lost its scenarios");
    for text in scenarios {
        scenario::parse(text, "README.md", &[], &vocabulary()).unwrap_or_else(|error| panic!("{error}\nin\n{text}"));
    }
}

#[test]
fn the_mistake_in_the_readme_is_told_in_these_words() {
    let text = "method = \"popularity\"\ndataset.name = \"generated\"\nnetwork = \"lan\"\ntraining.rounds = 1\n";
    let error = scenario::parse(text, "wrong.toml", &[], &vocabulary()).unwrap_err();
    let expected = format!("$ fedrecsim validate wrong.toml\nerror: {error}\n");
    assert!(blocks("text").contains(&expected.as_str()), "the README does not show\n{expected}");
}

#[test]
fn commands_in_the_readme_name_scenarios_that_exist_and_values_that_fit() {
    let commands = commands();
    assert!(commands.len() >= 10, "the README has lost its commands");
    for arguments in commands {
        let parsed = Cli::try_parse_from(&arguments).unwrap_or_else(|error| panic!("{arguments:?}: {error}"));
        match parsed.command {
            Command::Run(run) => load(&run.input.scenario, &run.input.overrides()),
            Command::Events(events) => load(&events.input.scenario, &events.input.overrides()),
            Command::Replay(replay) => load(&replay.input.scenario, &replay.input.overrides()),
            Command::Validate(validate) => validate.scenarios.iter().for_each(|path| load(path, &validate.set)),
            Command::Resume(_) | Command::Diff(_) | Command::Schema | Command::Methods | Command::Presets => {}
        }
    }
}

#[test]
fn every_scenario_file_is_valid() {
    let files = std::fs::read_dir(project().join("scenarios")).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|e| e == "toml")).collect();
    assert!(files.iter().any(|path| path.ends_with("quickstart.toml")));
    files.iter().for_each(|path| load(path, &[]));
}

#[test]
fn links_of_the_readme_lead_somewhere() {
    let headings: Vec<String> = README
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .map(|heading| heading.to_lowercase().replace(' ', "-").replace(',', ""))
        .collect();
    let targets: Vec<&str> = README.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()).collect();
    assert!(targets.len() >= 5);
    for target in targets {
        match target.strip_prefix('#') {
            Some(heading) => assert!(headings.iter().any(|known| known == heading), "no heading for {target}"),
            None => assert!(project().join(target).exists(), "no file for {target}"),
        }
    }
}
