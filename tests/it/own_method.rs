use fedrecsim_methods::registry::{METHODS, vocabulary_of};
use fedrecsim_scenario as scenario;
use serde_json::json;

use crate::import_paths::code_of;
use crate::support::{Words, Workshop, repository, small_with};

/// If this fails, a method of another program is not read, trained, scored or reported like those
/// of this crate, or the example no longer computes what it says. With full participation, one
/// round makes p_j the share of users who rated item j, which orders items by their counts.
#[test]
fn the_example_runs_as_a_command_and_comes_to_what_popularity_knows() {
    let workshop = Workshop::new();
    workshop
        .run(
            workshop.small(),
            &[
                "method=\"item-mean\"",
                "training.rounds=2",
                "codec.uplink=\"rows-f32\"",
            ],
        )
        .unwrap();
    let run = workshop.run_json();
    assert_eq!(
        run["scenario"]["method"],
        json!({ "item-mean": { "step_decay": 1.0 } })
    );
    assert_eq!(run["accuracy"], run["baselines"]["popularity"]);
    assert!(
        run["bytes"]["up"]["values"].as_u64() > Some(0),
        "the item means did not travel"
    );
}

/// If this fails, mistakes in another program's scenarios are not reported in the way of ours.
#[test]
fn scenario_files_know_the_examples_name_keys_and_ranges() {
    let workshop = Workshop::new();
    let cases: [(&str, &[&str]); 3] = [
        (
            "method=\"item-maen\"",
            &[
                "unknown value `item-maen` for `method`",
                "did you mean `item-mean`?",
            ],
        ),
        (
            "method.item-mean.step=1",
            &["unknown key `step`", "did you mean `step_decay`?"],
        ),
        (
            "method.item-mean.step_decay=2",
            &["`step_decay` must be at most 1, found 2"],
        ),
    ];
    for (wrong, parts) in cases {
        workshop.refused(workshop.small(), &["method=\"item-mean\"", wrong], parts);
    }
}

#[test]
fn the_commands_that_only_look_show_the_example() {
    let output = |command| Words::new(&[command]).carry_out().unwrap().output;
    let text = output("methods");
    assert!(
        text.contains("[method.item-mean]\n") && text.contains("step_decay = 1.0\n  # Exponent a"),
        "{text}"
    );
    assert!(output("schema").contains("\"item-mean\""));
}

/// If this fails, the crate's own list has a method that is not meant for it.
#[test]
fn without_being_named_the_example_is_unknown() {
    let text = "method = \"item-mean\"\ndataset.name = \"generated\"\ntraining.rounds = 1\n";
    let error = scenario::parse(text, "own.toml", &[], &vocabulary_of(METHODS))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("unknown value `item-mean` for `method`"),
        "{error}"
    );
    assert_eq!(small_with("item-mean", &[]).method.name, "item-mean");
}

/// If this fails, adding a method takes more than its file, its `mod` line and its line in the
/// registry.
#[test]
fn a_method_of_this_crate_is_one_file_and_a_line_in_two_lists() {
    let root = std::fs::read_to_string(repository("crates/methods/src/lib.rs")).unwrap();
    for method in ["fedmf", "pfedrec", "fedrap"] {
        let mut mentions = Vec::new();
        let root = [("methods".to_owned(), "lib.rs".to_owned(), root.clone())];
        for (crate_name, path, text) in root.into_iter().chain(crate::layers::sources()) {
            // The tests of a method may hold another one against it.
            if crate_name == "methods" && (path.starts_with(method) || path.ends_with("tests.rs")) {
                continue;
            }
            let code = code_of(&text);
            let words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
            mentions.extend(words.filter(|word| *word == method).map(|_| path.clone()));
        }
        // The folder of a method may hold others of its family, each with a line of its own.
        mentions.dedup();
        assert_eq!(mentions, ["lib.rs", "registry.rs"], "{method}");
    }
}
