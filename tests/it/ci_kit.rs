use std::fs;
use std::process::{Command, Output};

use fedrecsim_core::Error;
use fedrecsim_methods::registry::vocabulary;
use fedrecsim_report::{Comparison, compare};
use fedrecsim_sim::Stop;
use serde_json::Value;

use crate::support::{Workshop, assert_refusal};

fn fedrecsim(workshop: &Workshop, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fedrecsim"));
    command
        .current_dir(workshop.path(""))
        .args(arguments)
        .output()
        .unwrap()
}

fn diff(workshop: &Workshop, one: &str, other: &str) -> fedrecsim_core::Result<Comparison> {
    compare(&workshop.path(one), &workshop.path(other), &vocabulary())
}

/// Runs the small scenario with its report in the folder `name`, and returns its digest.
fn run_into(workshop: &Workshop, name: &str, overrides: &[&str]) -> String {
    let arguments = workshop.arguments_to(&workshop.path(name), &workshop.small(), overrides);
    arguments.carry_out().unwrap();
    let text = fs::read_to_string(workshop.path(name).join("run.json")).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()["digest"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// If this fails, a job in CI does not notice that a result has moved, or throws the report of the
/// new one away.
#[test]
fn another_digest_than_the_expected_one_is_an_error_and_reported() {
    let workshop = Workshop::new();
    let digest = run_into(&workshop, "first", &[]);
    let expecting = |expected: &str| {
        let arguments = workshop.arguments(workshop.small(), &[]);
        arguments.and(&["--overwrite", "--expect-digest", expected])
    };
    for expected in [&digest[..8], &digest] {
        assert!(expecting(expected).carry_out().unwrap().errors.is_empty());
    }
    fs::remove_dir_all(workshop.report()).unwrap();
    let finished = expecting("0123456789").carry_out().unwrap();
    let [mismatch @ Error::Told { .. }] = &finished.errors[..] else {
        panic!("{:?}", finished.errors)
    };
    assert_eq!(mismatch.exit_code(), 1);
    assert!(
        mismatch.to_string().contains("0123456789") && mismatch.to_string().contains(&digest),
        "{mismatch}"
    );
    assert_eq!(workshop.run_json()["digest"], digest.as_str());
    // The program says so, too, and takes capital letters, but no less than eight digits.
    let (capital, wrong) = (digest[..12].to_uppercase(), "0".repeat(64));
    for (expected, code) in [
        (capital.as_str(), 0),
        (&wrong, 1),
        (&digest[..7], 2),
        ("xxxxxxxx", 2),
    ] {
        let output = fedrecsim(
            &workshop,
            &[
                "run",
                "small.toml",
                "--no-report",
                "--expect-digest",
                expected,
            ],
        );
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{expected}: {told}");
        assert_eq!(told.contains(&digest), code == 1, "{expected}: {told}");
    }
}

/// If this fails, a run that was asked to leave nothing leaves something, or does not say what it
/// came to.
#[test]
fn a_run_without_a_report_prints_its_result_and_writes_nothing() {
    let workshop = Workshop::new();
    let digest = run_into(&workshop, "first", &[]);
    let with_report: Value =
        serde_json::from_str(&fs::read_to_string(workshop.path("first/run.json")).unwrap())
            .unwrap();
    let before = names(&workshop);
    let output = fedrecsim(&workshop, &["run", "small.toml", "--no-report", "--json"]);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&printed["digest"], &printed["accuracy"]),
        (&with_report["digest"], &with_report["accuracy"])
    );
    let output = fedrecsim(&workshop, &["run", "small.toml", "--no-report"]);
    let summary = String::from_utf8(output.stdout).unwrap();
    assert!(
        summary.contains(&digest) && !summary.contains("  report  "),
        "{summary}"
    );
    assert_eq!(names(&workshop), before);
    for flags in [
        ["--out", "x"],
        ["--checkpoint-every", "1"],
        ["--max-wall-time", "1m"],
    ] {
        let output = fedrecsim(
            &workshop,
            &[&["run", "small.toml", "--no-report"], &flags[..]].concat(),
        );
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
    }
}

fn names(workshop: &Workshop) -> Vec<String> {
    let entries = fs::read_dir(workshop.path("")).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// If this fails, two runs that differ are called equal, or nobody learns where they part.
#[test]
fn diff_tells_the_first_round_and_figure_and_every_key_that_differ() {
    let workshop = Workshop::new();
    let digests = [
        run_into(&workshop, "one", &[]),
        run_into(&workshop, "same", &["evaluation.selection=\"last\""]),
        run_into(&workshop, "codec", &["codec.uplink=\"rows-f32\""]),
        run_into(&workshop, "longer", &["training.rounds=5"]),
    ];
    let equal = diff(&workshop, "one", "same").unwrap();
    assert!(
        equal.is_equal() && equal.to_string().contains(&digests[0]),
        "{equal}"
    );
    let other = diff(&workshop, "one", "codec").unwrap().to_string();
    let told: Vec<&str> = other.lines().collect();
    assert!(
        told[0].starts_with("The scenarios of ") && told[0].ends_with(" differ in:"),
        "{other}"
    );
    assert_eq!(told[1], "  codec.uplink: \"dense-f32\" and \"rows-f32\"");
    assert!(
        told[2].starts_with("Round 1: virtual_time_s is "),
        "{other}"
    );
    assert!(
        told[3].starts_with("The digest is ") && told[3].contains(&digests[0]),
        "{other}"
    );
    assert!(told[3].contains(&digests[2]) && told.len() == 4, "{other}");
    let longer = diff(&workshop, "one", "longer/run.json")
        .unwrap()
        .to_string();
    assert!(
        longer.contains("  training.rounds: 3 and 5\n")
            && longer.contains("one has 3 rounds, and "),
        "{longer}"
    );
    // A change in a later round is told at its place, and the figures before it are not.
    let rounds = fs::read_to_string(workshop.path("same/rounds.csv")).unwrap();
    let (before, last) = rounds.trim_end().rsplit_once('\n').unwrap();
    let cells: Vec<&str> = last.split(',').collect();
    let changed = [&cells[..3], &["7"], &cells[4..]].concat().join(",");
    fs::write(
        workshop.path("same/rounds.csv"),
        format!("{before}\n{changed}\n"),
    )
    .unwrap();
    let later = diff(&workshop, "one", "same").unwrap();
    assert!(
        later.results[0].starts_with(&format!("Round 3: invited is {} in ", cells[3])),
        "{later}"
    );
    assert!(
        later.scenario.is_empty() && later.results.len() == 1,
        "{later}"
    );
}

/// If this fails, a script cannot tell equal runs from different ones, or from a path that is
/// wrong.
#[test]
fn diff_says_by_its_exit_code_whether_runs_are_equal() {
    let workshop = Workshop::new();
    run_into(&workshop, "one", &["training.rounds=1"]);
    run_into(&workshop, "other", &["training.rounds=1", "seed=4"]);
    fs::copy(workshop.path("one/run.json"), workshop.path("alone.json")).unwrap();
    workshop.write("wrong.json", "{ \"digest\": \"x\" }");
    for (one, other, code, part) in [
        ("one", "one/run.json", 0, "are equal"),
        ("one", "alone.json", 0, "The rounds were not compared"),
        ("one", "other", 1, "  seed: 3 and 4\n"),
        ("one", "nowhere", 2, "cannot read nowhere"),
        (
            "wrong.json",
            "one",
            2,
            "it is not the run.json of a report: it has no `format`",
        ),
        ("small.toml", "one", 2, "cannot read small.toml"),
    ] {
        let output = fedrecsim(&workshop, &["diff", one, other]);
        let told = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_eq!(output.status.code(), Some(code), "{one} {other}: {told}");
        assert!(told.contains(part), "{one} {other}: {told}");
    }
}

/// If this fails, the scenario beside a report is not the one that the report is of.
#[test]
fn the_scenario_in_the_report_runs_to_the_same_digest() {
    let workshop = Workshop::new();
    let overrides = [
        "network.preset=\"mobile-pessimistic\"",
        "training.mode={ over-selection = { factor = 1.5, deadline_s = 100 } }",
        "training.participation={ cohort = 10 }",
        "faults=[{ effect = \"drop\", probability = 0.1 }]",
        "seed=9",
    ];
    let digest = run_into(&workshop, "first", &overrides);
    let resolved = workshop.path("first/scenario.toml");
    let again = workshop.arguments_to(&workshop.path("again"), &resolved, &[]);
    again.carry_out().unwrap();
    let comparison = diff(&workshop, "first", "again").unwrap();
    assert!(
        comparison.is_equal() && comparison.to_string().contains(&digest),
        "{comparison}"
    );
    // The keys of the method's parameters stand in another order, which has no meaning.
    let resolved = |folder: &str| -> toml::Table {
        fs::read_to_string(workshop.path(folder).join("scenario.toml"))
            .unwrap()
            .parse()
            .unwrap()
    };
    assert_eq!(resolved("first"), resolved("again"));
}

/// If this fails, a report replaces the scenario that a user has written.
#[test]
fn a_scenario_of_the_users_own_is_not_replaced() {
    let workshop = Workshop::new();
    let own = fs::read_to_string(workshop.small()).unwrap();
    fs::create_dir(workshop.report()).unwrap();
    fs::write(workshop.report().join("scenario.toml"), &own).unwrap();
    let arguments = workshop.arguments(workshop.report().join("scenario.toml"), &[]);
    assert_refusal(
        &arguments.and(&["--overwrite"]).carry_out().unwrap_err(),
        &["scenario.toml would be replaced", "--out"],
    );
    assert_eq!(
        fs::read_to_string(workshop.report().join("scenario.toml")).unwrap(),
        own
    );
}

/// If this fails, a report tells its reader to run another program, or to overwrite a report.
#[test]
fn the_report_shows_the_command_that_repeats_the_run() {
    let workshop = Workshop::new();
    workshop.small();
    let flags = [
        "--set",
        "training.rounds=1",
        "--overwrite",
        "--threads",
        "1",
        "--checkpoint-every",
        "5",
    ];
    let output = fedrecsim(
        &workshop,
        &[
            &["run", "small.toml", "--out", "report", "--seed", "5"],
            &flags[..],
        ]
        .concat(),
    );
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let summary = fs::read_to_string(workshop.report().join("summary.md")).unwrap();
    assert!(
        summary.contains("```sh\nfedrecsim run small.toml --set training.rounds=1 --seed 5\n```"),
        "{summary}"
    );
    // The program of these tests is not called fedrecsim, and has methods of its own.
    let own = Workshop::new();
    own.run(own.small(), &["method=\"item-mean\"", "training.rounds=1"])
        .unwrap();
    let program = std::env::current_exe().unwrap();
    assert_eq!(
        own.run_json()["command"][0].as_str(),
        program.file_stem().unwrap().to_str()
    );
}

/// If this fails, another digest hides what stopped a run.
#[test]
fn no_digest_is_expected_of_a_run_whose_time_was_up() {
    let workshop = Workshop::new();
    let arguments = workshop.arguments(workshop.small(), &[]);
    let expecting = ["--max-wall-time", "0s", "--expect-digest", "00000000"];
    let finished = arguments.and(&expecting).carry_out().unwrap();
    let [stopped] = &finished.errors[..] else {
        panic!("{:?}", finished.errors);
    };
    assert!(matches!(stopped.ended_by(), Some(Stop::TimeIsUp { .. })));
}
