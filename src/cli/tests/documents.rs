//! Checks what the README, the other documents and the committed reports say against the program:
//! their scenarios, their commands, their links.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use crate::cli::args::{Cli, Command, DataCommand};
use crate::cli::study::is_named;
use crate::method::vocabulary;
use fedrecsim_report::study::{self, Plan, against, file::Changes};
use fedrecsim_scenario as scenario;

fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the files below `docs/` with this ending.
fn in_docs(end: &str) -> Vec<PathBuf> {
    let (mut found, mut open) = (Vec::new(), vec![project().join("docs")]);
    while let Some(folder) = open.pop() {
        for entry in folder.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|other| other == end) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Returns the README and the documents in `docs/`, each with its path.
fn documents() -> Vec<(PathBuf, String)> {
    let mut paths = in_docs("md");
    paths.push(project().join("README.md"));
    paths
        .into_iter()
        .map(|path| (path.clone(), std::fs::read_to_string(path).unwrap()))
        .collect()
}

/// Returns the names of the files that documents have their readers write, as in "Write `mine.toml`:" and
/// by `fedrecsim new`.
fn written_by_readers() -> Vec<String> {
    let documents = documents();
    let lines = documents.iter().flat_map(|(_, text)| text.lines());
    let name = |line: &str| {
        let shown = line.trim_end().strip_suffix("`:");
        let shown = shown.and_then(|text| text.rsplit('`').next());
        shown
            .or_else(|| line.strip_prefix("fedrecsim new "))
            .map(str::to_owned)
    };
    lines.filter_map(name).collect()
}

/// Returns the Markdown files of the committed reports, each with its path. Reports of the user's
/// own, which `.gitignore` keeps out, are nobody's business.
fn reports() -> Vec<(PathBuf, String)> {
    let ignored = std::fs::read_to_string(project().join(".gitignore")).unwrap();
    let mut found = Vec::new();
    let mut open: Vec<PathBuf> = ignored
        .lines()
        .filter_map(|line| line.strip_prefix("!/reports/"))
        .map(|kept| project().join("reports").join(kept))
        .collect();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(
                std::fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        } else if path.extension().is_some_and(|end| end == "md") {
            let text = std::fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
    found.sort();
    assert!(
        found.len() >= 20,
        "the committed reports are not where they are looked for"
    );
    found
}

/// Returns the code blocks of `language` in all documents.
fn blocks(language: &str) -> Vec<String> {
    blocks_of(&documents(), language)
}

/// Returns the code blocks of `language` in these documents.
fn blocks_of(documents: &[(PathBuf, String)], language: &str) -> Vec<String> {
    let opening = format!("```{language}\n");
    let of_text = |text: &str| -> Vec<String> {
        text.split(&opening)
            .skip(1)
            .map(|rest| rest.split("```").next().unwrap().to_owned())
            .collect()
    };
    documents
        .iter()
        .flat_map(|(_, text)| of_text(text))
        .collect()
}

/// Returns the command lines of these documents that start this program, each as its arguments: also those
/// that no test carries out, which are in blocks of `bash`.
fn commands(documents: &[(PathBuf, String)]) -> Vec<Vec<String>> {
    commands_of(
        &["sh", "bash"]
            .map(|kind| blocks_of(documents, kind))
            .concat(),
    )
}

/// Returns the command lines of these texts that start this program, each as its arguments.
fn commands_of(texts: &[String]) -> Vec<Vec<String>> {
    let mut commands = Vec::new();
    for text in texts {
        // A command may go on in the next line.
        for line in text.replace("\\\n", " ").lines() {
            // What follows is the shell's.
            let ends = ["#", " > ", " &", " || "];
            let line = ends
                .iter()
                .fold(line, |line, end| line.split(end).next().unwrap());
            let arguments = line
                .strip_prefix("fedrecsim ")
                .or_else(|| line.strip_prefix("cargo run --release -- "));
            if let Some(arguments) = arguments {
                let words = shlex::split(arguments)
                    .unwrap_or_else(|| panic!("{line}: a quotation mark is missing"));
                commands.push(["fedrecsim".to_owned()].into_iter().chain(words).collect());
            }
        }
    }
    commands
}

/// Returns the comments of the scenarios of this repository.
fn heads_of_scenarios() -> Vec<String> {
    let comment = |line: &str| Some(line.strip_prefix('#')?.trim_start().to_owned() + "\n");
    let files = std::fs::read_dir(project().join("scenarios")).unwrap();
    files
        .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap())
        .map(|text| text.lines().filter_map(comment).collect())
        .collect()
}

/// Returns a file of the project, or the name of one that comes with the program.
fn named(path: &Path) -> PathBuf {
    let there = project().join(path);
    if there.exists() {
        there
    } else {
        path.to_owned()
    }
}

fn load(path: &Path, overrides: &[String]) {
    let path = named(path);
    scenario::load(&path, overrides, &vocabulary()).unwrap_or_else(|error| panic!("{error}"));
}

fn load_study(path: &Path) -> Plan {
    let (study, _) =
        study::file::load(&named(path), &Changes::default()).unwrap_or_else(|e| panic!("{e}"));
    Plan::of(study, &vocabulary(), |_| true)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// If this fails, a study that is shipped with the program, or that the documents show, does not
/// work.
#[test]
fn studies_in_the_repository_and_in_the_documents_are_valid() {
    let folders = ["studies", "studies/papers"].map(|name| project().join(name).read_dir());
    let files = folders.into_iter().flat_map(Result::unwrap);
    let files = files.map(|entry| entry.unwrap().path());
    let files: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|e| e == "toml"))
        .collect();
    assert!(
        files
            .iter()
            .any(|path| path.ends_with("quickstart-codecs.toml"))
    );
    for path in &files {
        load_study(path);
    }
    let parts = ["studies/chosen", "studies/reality"].map(|name| project().join(name).read_dir());
    let parts = parts.into_iter().flat_map(Result::unwrap);
    let parts = parts.map(|entry| entry.unwrap().path());
    let parts = parts.filter(|path| path.extension().is_some_and(|e| e == "toml"));
    for path in files.into_iter().chain(parts) {
        let text = std::fs::read_to_string(&path).unwrap();
        let longest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(
            longest <= 120,
            "{}: {longest} characters in a line",
            path.display()
        );
    }
    let shown: Vec<String> = blocks("toml")
        .into_iter()
        .filter(|text| is_study(text) && !names_one_of(text, &written_by_readers()))
        .collect();
    assert!(!shown.is_empty(), "no document shows a study");
    for text in shown {
        let study = study::file::parse(
            &text,
            &project().join("studies/document.toml"),
            &Changes::default(),
        );
        Plan::of(
            study.unwrap_or_else(|error| panic!("{error}")),
            &vocabulary(),
            |_| true,
        )
        .unwrap_or_else(|e| panic!("{e}"));
    }
}

/// If this fails, editors complete and check the keys of another version, or of no scenario.
#[test]
fn the_schema_that_scenarios_name_is_that_of_the_program() {
    let name = "docs/reference/scenario.schema.json";
    let written = std::fs::read_to_string(project().join(name)).unwrap();
    let schema = crate::cli::inspect::schema(&vocabulary());
    let remedy = format!("{name} is not up to date: `fedrecsim schema > {name}`");
    assert!(written == schema, "{remedy}");
    for entry in project().join("scenarios").read_dir().unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        assert_eq!(text.lines().next().unwrap(), format!("#:schema ../{name}"));
    }
}

/// If this fails, a study that comes with the program looks for files of a checkout.
#[test]
fn studies_go_by_their_names() {
    for folder in ["studies", "studies/papers"] {
        for entry in project().join(folder).read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|end| end != "toml") {
                continue;
            }
            let name = Path::new(path.file_stem().unwrap());
            let (by_name, _) = study::file::load(name, &Changes::default())
                .unwrap_or_else(|error| panic!("{error}"));
            let (by_path, _) = study::file::load(&path, &Changes::default()).unwrap();
            let sets = |study: &study::file::Study| -> Vec<Vec<String>> {
                study.arms.iter().map(|arm| arm.overrides()).collect()
            };
            assert_eq!(sets(&by_name), sets(&by_path), "{}", path.display());
            assert_eq!(by_name.courses, by_path.courses, "{}", path.display());
        }
    }
}

/// Returns whether a block of TOML names a file that readers write.
fn names_one_of(text: &str, names: &[String]) -> bool {
    names.iter().any(|name| text.contains(&format!("{name:?}")))
}

/// Returns whether a block of TOML is a study, and no scenario.
fn is_study(text: &str) -> bool {
    text.contains("seeds = [") || text.starts_with("include = [")
}

#[test]
fn scenarios_in_the_documents_are_valid() {
    let (manifests, scenarios): (Vec<String>, Vec<String>) = blocks("toml")
        .into_iter()
        .filter(|text| !is_study(text))
        .partition(|text| text.starts_with("[package]") || text.contains("[profile."));
    assert!(
        scenarios.len() >= 2,
        "the documents have lost their scenarios"
    );
    let mut with_fedrecsim = 0;
    for text in manifests {
        let manifest: toml::Table = text
            .parse()
            .unwrap_or_else(|error| panic!("{error}\nin\n{text}"));
        let dependencies = manifest.get("dependencies");
        with_fedrecsim +=
            usize::from(dependencies.is_some_and(|found| found.get("fedrecsim").is_some()));
    }
    assert!(with_fedrecsim > 0, "no document has a manifest of a crate");
    for text in scenarios {
        scenario::parse(&text, "document.md", &[], &vocabulary())
            .unwrap_or_else(|error| panic!("{error}\nin\n{text}"));
    }
}

#[test]
fn the_mistake_in_the_documents_is_told_in_these_words() {
    let text = "method = \"popularity\"\ndataset.name = \"generated\"\nnetwork = \"lan\"\ntraining.rounds = 1\n";
    let error = scenario::parse(text, "wrong.toml", &[], &vocabulary()).unwrap_err();
    let expected = format!("$ fedrecsim validate wrong.toml\nerror: {error}\n");
    assert!(
        blocks("text").contains(&expected),
        "no document shows\n{expected}"
    );
}

/// If this fails, a document, a committed report or the head of a scenario shows a command that the
/// program refuses.
#[test]
fn commands_in_the_documents_name_scenarios_that_exist_and_values_that_fit() {
    let of_documents = commands(&documents());
    assert!(
        of_documents.len() >= 10,
        "the documents have lost their commands"
    );
    let of_reports = commands(&reports());
    assert!(
        of_reports.len() >= 3,
        "the reports have lost their commands"
    );
    let heads = commands_of(&heads_of_scenarios());
    assert!(heads.len() >= 4, "the scenarios have lost their commands");
    let written = written_by_readers();
    for arguments in [of_documents, of_reports, heads].concat() {
        // The page that has its readers write a file is executed as a whole.
        if arguments.iter().any(|word| written.contains(word)) {
            continue;
        }
        let parsed = Cli::of(&arguments).unwrap_or_else(|error| panic!("{arguments:?}: {error}"));
        match parsed.command {
            Command::Run(run) => load(&run.input.scenario, &run.input.overrides()),
            Command::Events(events) => load(&events.input.scenario, &events.input.overrides()),
            Command::Replay(replay) => load(&replay.input.scenario, &replay.input.overrides()),
            Command::LeakTest(input) => load(&input.scenario, &input.overrides()),
            Command::Validate(validate) => validate
                .scenarios
                .iter()
                .for_each(|path| load(path, &validate.set)),
            Command::Data(DataCommand::Describe(data)) => load(&data.scenario, &data.set),
            Command::Study(study) => {
                let plan = load_study(&study.runs.study);
                let names: Vec<&str> = plan.arms.iter().map(|arm| arm.arm.name.as_str()).collect();
                let is_there = |text: &String| names.iter().any(|name| is_named(name, text));
                assert!(
                    study.runs.arms.iter().all(is_there),
                    "{arguments:?}: no arm has this in its name"
                );
                for other in &study.compare_to {
                    against::places(&names, other)
                        .unwrap_or_else(|error| panic!("{arguments:?}: {error}"));
                }
            }
            _ => {}
        }
    }
}

#[test]
fn every_scenario_file_is_valid() {
    let files = std::fs::read_dir(project().join("scenarios"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let files: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|e| e == "toml"))
        .collect();
    assert!(files.iter().any(|path| path.ends_with("quickstart.toml")));
    files.iter().for_each(|path| load(path, &[]));
}

/// Returns the anchor of a heading, as the sites that show Markdown make it.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase().replace(' ', "-");
    kept.chars()
        .filter(|letter| letter.is_alphanumeric() || "-_".contains(*letter))
        .collect()
}

/// If this fails, a document or a committed report shows a picture that is not there, or leads to
/// nothing.
#[test]
fn links_of_the_documents_lead_somewhere() {
    let documents = [documents(), reports()].concat();
    for (path, text) in &documents {
        let targets: Vec<&str> = text
            .split("](")
            .skip(1)
            .map(|rest| rest.split(')').next().unwrap())
            .collect();
        for target in targets.into_iter().filter(|target| !target.contains("://")) {
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() {
                path.clone()
            } else {
                path.parent().unwrap().join(file)
            };
            assert!(file.exists(), "{}: no file for {target}", path.display());
            let linked = std::fs::read_to_string(&file).unwrap_or_default();
            let mut headings = linked
                .lines()
                .filter(|line| line.starts_with('#'))
                .map(|line| anchor(line.trim_start_matches('#').trim()));
            assert!(
                heading.is_empty() || headings.any(|known| known == heading),
                "{}: no heading for {target}",
                path.display()
            );
        }
    }
}

/// If this fails, a page is on no shelf of the site, or a shelf names a page that is not there.
#[test]
fn every_document_stands_on_a_shelf() {
    let docs = project().join("docs");
    let shelves = std::fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    for page in in_docs("md") {
        let name = page.strip_prefix(&docs).unwrap().to_str().unwrap();
        let is_shown = name == "SUMMARY.md" || shelves.contains(&format!("]({name})"));
        assert!(is_shown, "SUMMARY.md does not lead to {name}");
    }
}

/// If this fails, a picture is in `docs/` that no document shows.
#[test]
fn every_picture_of_the_documents_is_shown() {
    let text: String = documents().into_iter().map(|(_, text)| text).collect();
    for path in [in_docs("svg"), in_docs("png")].concat() {
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(
            text.contains(&format!("{name})")),
            "no document shows {name}"
        );
    }
}

/// If this fails, the README is no longer what somebody reads who comes for the first time.
#[test]
fn the_readme_is_short() {
    assert!(
        std::fs::metadata(project().join("README.md"))
            .unwrap()
            .len()
            <= 6_144
    );
}

/// If this fails, the page that a new contributor begins with has become a book.
#[test]
fn the_design_is_a_page() {
    assert!(
        std::fs::metadata(project().join("docs/design.md"))
            .unwrap()
            .len()
            <= 8_192
    );
}
