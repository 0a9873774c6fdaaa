//! Searches for settings: what becomes of one that is stopped, and how a study takes over what it
//! has chosen.

use std::fs;
use std::process::{Command, Stdio};

use super::{assert_ends, command, fedrecsim, one_by_one, run_json, workshop};
use crate::support::Workshop;

/// A search of two trials, of which the second one goes on for long enough to be stopped in the
/// middle.
const STUDY: &str = r#"
base = "small.toml"
seeds = [1, 2]

[search]
trials = 2
space = { "training.rounds" = { among = [400] }, "method.fedrap.learning_rate_tables" = { log = [0.001, 0.01] } }
"#;

const ARGUMENTS: [&str; 8] = one_by_one("search");

fn read(workshop: &Workshop, path: &str) -> String {
    fs::read_to_string(workshop.path(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// If this fails, a search that was stopped loses trials or comes to another choice, or a study does
/// not run what was chosen.
#[test]
fn a_search_that_is_stopped_goes_on_to_the_same_choice_which_a_study_takes_over() {
    let workshop = workshop();
    workshop.write("study.toml", STUDY);
    let mut child = command(&workshop, &ARGUMENTS)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let first = workshop.path("out/runs/base,trial=00/1/run.json");
    let second = workshop.path("out/runs/base,trial=01/1");
    let has_checkpoint = || {
        let entries = fs::read_dir(&second).into_iter().flatten().flatten();
        let mut names = entries.map(|entry| entry.file_name());
        names.any(|name| name.to_string_lossy().starts_with("checkpoint-"))
    };
    while !(first.exists() && has_checkpoint()) {
        assert!(
            child.try_wait().unwrap().is_none(),
            "it ended before it could be stopped"
        );
        std::thread::yield_now();
    }
    let id = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-TERM", &id])
            .status()
            .unwrap()
            .success()
    );
    assert_ends(&child.wait_with_output().unwrap(), 1, &["interrupted"]);
    let before = fs::read(&first).unwrap();
    let text = read(&workshop, "out/search.md");
    assert!(text.contains("> Partial: 1 of 2 trials"), "{text}");
    assert!(
        !workshop.path("out/chosen.toml").exists(),
        "chosen from a part"
    );

    assert_ends(&fedrecsim(&workshop, &ARGUMENTS), 0, &[]);
    assert_eq!(fs::read(&first).unwrap(), before, "it was run once more");
    let undisturbed = ["search", "study.toml", "--out", "undisturbed"];
    assert_ends(&fedrecsim(&workshop, &undisturbed), 0, &[]);
    for file in ["search.csv", "search.md", "chosen.toml"] {
        let [one, other] =
            ["out", "undisturbed"].map(|out| read(&workshop, &format!("{out}/{file}")));
        assert_eq!(one, other, "{file}");
    }

    let chosen: toml::Table = read(&workshop, "out/chosen.toml").parse().unwrap();
    let trial = chosen["arms"]["base"]["trial"].as_integer().unwrap();
    workshop.write(
        "study.toml",
        &format!("chosen = \"out/chosen.toml\"\n{STUDY}"),
    );
    let arguments = ["study", "study.toml", "--seeds", "1", "--out", "studied"];
    assert_ends(&fedrecsim(&workshop, &arguments), 0, &[]);
    let digest = |run: &str| run_json(&workshop, run)["digest"].clone();
    assert_eq!(
        digest("studied/runs/base/1"),
        digest(&format!("out/runs/base,trial={trial:02}/1"))
    );
    let text = read(&workshop, "studied/study.md");
    assert!(
        text.contains("of all arms: the best of 2 trials."),
        "{text}"
    );
}

/// If this fails, trials that diverge keep a search from its end, or parts of a search come to
/// another choice than the whole.
#[test]
fn trials_that_diverge_count_and_parts_are_put_together() {
    let workshop = workshop();
    let space = "space = { \"training.divergence_limit\" = { among = [1e-6] } }";
    let text = STUDY.replace(STUDY.lines().last().unwrap(), space);
    workshop.write("study.toml", &text);
    let out = |more: &[&str]| fedrecsim(&workshop, &[&["search", "study.toml"], more].concat());
    assert_ends(
        &out(&["--out", "whole"]),
        0,
        &["1 run of the search failed"],
    );
    let chosen = read(&workshop, "whole/chosen.toml");
    assert!(
        chosen.contains("trial = 0\n") && chosen.contains("trials = 2\n"),
        "{chosen}"
    );
    let text = read(&workshop, "whole/search.md");
    assert!(text.contains("| base | 2 | 1 | 0 |"), "{text}");
    let csv = read(&workshop, "whole/search.csv");
    assert!(
        csv.contains("base,1,1,failed,") && csv.contains("diverged"),
        "{csv}"
    );

    assert_ends(&out(&["--shard", "1/2", "--out", "a"]), 0, &[]);
    assert!(
        !workshop.path("a/chosen.toml").exists(),
        "chosen from a part"
    );
    assert_ends(&out(&["--shard", "2/2", "--out", "b"]), 0, &[]);
    assert_ends(&out(&["--merge", "a", "b", "--out", "merged"]), 0, &[]);
    assert_eq!(read(&workshop, "merged/chosen.toml"), chosen);
}

/// If this fails, a search that can choose nothing leaves something behind.
#[test]
fn a_search_that_cannot_choose_is_refused_before_anything_runs() {
    let workshop = workshop();
    for (text, told) in [
        (
            format!("set = {{ \"dataset.split.leave-one-out.validation_item\" = false }}\n{STUDY}"),
            "study.toml: arm `base`: a search chooses by validation items, and none are held out",
        ),
        (
            STUDY.replace(STUDY.lines().last().unwrap(), "space = {}"),
            "study.toml:7:9: the search space of all arms is empty",
        ),
        (
            STUDY.replace("learning_rate_tables", "learning_rate_table"),
            "learning_rate_tables",
        ),
    ] {
        workshop.write("study.toml", &text);
        assert_ends(
            &fedrecsim(&workshop, &["search", "study.toml", "--out", "out"]),
            2,
            &[told],
        );
        assert!(!workshop.path("out/runs").exists(), "something ran");
    }
}
