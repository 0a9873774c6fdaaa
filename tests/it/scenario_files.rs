use std::path::{Path, PathBuf};

use fedrecsim_methods::registry::vocabulary;
use fedrecsim_scenario::{self as scenario, Scenario};

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

/// Returns the prose of the project: Markdown at the top and in `docs/`, whose shelves are folders.
fn documents() -> Vec<PathBuf> {
    let shelves = [
        "",
        "docs",
        "docs/tutorial",
        "docs/how-to",
        "docs/explanation",
        "docs/reference",
        "docs/findings",
    ];
    let documents = shelves.map(|folder| files_in(folder, "md")).concat();
    assert!(
        documents.iter().any(|path| path.ends_with("README.md")),
        "there is no README.md"
    );
    documents
}

/// Runs one round of a scenario on generated ratings, unless it is too large. Others are not run,
/// as their data may be absent.
fn try_one_round(mut scenario: Scenario) {
    if scenario.dataset.generator.is_some() && !LARGE.contains(&scenario.name.as_str()) {
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

/// If this fails, somebody who reads a scenario or a study has to scroll to the right.
#[test]
fn no_line_of_a_scenario_or_a_study_is_too_long() {
    let mut folders: Vec<PathBuf> = ["scenarios", "studies", "board"].map(repository).into();
    let (mut long, mut read_files) = (Vec::new(), 0);
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "toml") {
                let text = read(&path);
                let lines = text.lines().zip(1..);
                let lines = lines.filter(|(line, _)| line.chars().count() > 120);
                long.extend(lines.map(|(_, at)| format!("{}:{at}", path.display())));
                read_files += 1;
            }
        }
    }
    assert!(long.is_empty(), "more than 120 characters: {long:#?}");
    assert!(read_files > 80, "only {read_files} files were found");
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
        // A block with seeds is a study, and one with a package or a profile is read by Cargo.
        let others = ["seeds = [", "include = [", "[package]", "[profile."];
        let is_scenario =
            |(_, block): &(usize, String)| !others.iter().any(|other| block.contains(other));
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
fn blocks_are_found_by_their_language() {
    let text = "a\n```toml\nx = 1\n```\n```sh\nls\n```\n```toml\ny = 2\n```\n";
    assert_eq!(
        blocks(text, "toml"),
        [(2, "x = 1\n".to_owned()), (8, "y = 2\n".to_owned())]
    );
}
