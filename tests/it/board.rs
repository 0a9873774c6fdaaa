use std::fs;
use std::path::Path;

use fedrecsim::cli::{Finished, Session};
use fedrecsim_core::{Error, Result};
use fedrecsim_methods::registry::METHODS;

use crate::support::{Words, Workshop, repository};

/// An entry of two arms, one of which is the control.
const STUDY: &str = r#"
base = "../../small.toml"
seeds = [1]
metrics = ["ndcg@10", "hr@10"]
set = { method = "fedmf", "training.rounds" = 2 }

[settings.small]
"audit.every_rounds" = 1

[settings.lan]
"network.preset" = "lan"

[settings.alone]
"training.aggregation" = "none"

[[axes]]
name = "track"
values = ["small"]

[[axes]]
name = "on"
values = ["lan", "alone"]
repeats = true
"#;

const FACTS: &str = r#"
by = "somebody"
method = "FedMF"
device_knows = "its own ratings"
"#;

/// A board in a workshop with the entry `one`.
fn board() -> Workshop {
    let workshop = Workshop::new();
    workshop.small();
    add(&workshop, "one", FACTS, STUDY);
    workshop
}

fn add(workshop: &Workshop, name: &str, facts: &str, study: &str) {
    let folder = workshop.path("board").join(name);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("entry.toml"), facts).unwrap();
    fs::write(folder.join("study.toml"), study).unwrap();
}

/// Adds the entry that says how all others are judged.
fn add_popularity(workshop: &Workshop) {
    let facts = format!("{FACTS}at_server = true\n");
    let study = STUDY.replace("[\"lan\", \"alone\"]", "[\"lan\"]");
    let study = study.replace(
        "[settings.alone]\n\"training.aggregation\" = \"none\"\n",
        "",
    );
    let study = study.replace("\"fedmf\"", "\"popularity\"");
    add(workshop, "popularity", &facts, &study);
}

/// Runs an entry into a folder.
fn run(workshop: &Workshop, entry: &str, out: &str, options: &[&str]) -> Result<Finished> {
    // Runs are threads of this process, since the program is not this one.
    let mut session = Session::new(METHODS);
    session.tell = Some(&|_| ());
    Words::new(&["board", "run"])
        .path(&workshop.path(entry))
        .and(&["--threads", "2", "--out"])
        .path(&workshop.path(out))
        .and(options)
        .carry_out_in(&session)
}

/// Makes the page of a board in a folder.
fn build(board: &Path, out: &Path) -> Result<Finished> {
    Words::new(&["board", "build"])
        .path(board)
        .and(&["--out"])
        .path(out)
        .carry_out()
}

#[track_caller]
fn assert_told(result: Result<Finished>, code: u8, parts: &[&str]) {
    let (told, ended) = match result {
        Ok(finished) => {
            let errors = finished.errors.iter().map(ToString::to_string);
            let codes = finished.errors.iter().map(Error::exit_code);
            (
                errors.collect::<Vec<_>>().join("\n"),
                codes.max().unwrap_or(0),
            )
        }
        Err(error) => (error.to_string(), error.exit_code()),
    };
    assert_eq!(ended, code, "{told}");
    for part in parts {
        assert!(told.contains(part), "no {part:?} in: {told}");
    }
}

/// If this fails, an entry is taken for repeated whose result has moved, or nobody is told by whom it
/// was otherwise.
#[test]
fn a_digest_that_moved_is_told_with_both() {
    let workshop = board();
    let path = workshop.path("board/one/results.json");
    let none = "entry `one`: it has no results.json yet";
    assert_told(
        run(&workshop, "board/one", "none", &[]),
        2,
        &[none, "--write"],
    );
    assert_told(run(&workshop, "board/one", "first", &["--write"]), 0, &[]);
    let noted = fs::read_to_string(&path).unwrap();
    let repeated = run(&workshop, "board/one", "second", &[]).unwrap();
    assert_eq!(
        repeated.output,
        "entry `one`: 2 arms repeated, 2 of them as noted\n"
    );

    let (before, rest) = noted.split_once("\"1\": \"").unwrap();
    let digest = &rest[..64];
    let other = "0".repeat(64);
    let moved = format!("{before}\"1\": \"{other}{}", &rest[64..]);
    fs::write(&path, &moved).unwrap();
    let told = [
        "entry `one` has moved",
        "arm `track=small, on=lan`, seed 1: the digest is ",
        &format!("{other} by results.json, and {digest} here"),
    ];
    assert_told(run(&workshop, "board/one", "third", &[]), 1, &told);
    let one = run(&workshop, "board/one", "fourth", &["--arms", "on=alone"]);
    assert_eq!(
        one.unwrap().output,
        "entry `one`: 1 arm repeated, 1 of them as noted; 1 not asked for, or without data here\n"
    );

    // Noting one arm again leaves the other as it was.
    let again = ["--arms", "on=lan", "--write"];
    assert_told(run(&workshop, "board/one", "fifth", &again), 0, &[]);
    assert_eq!(fs::read_to_string(&path).unwrap(), noted);

    let figure = noted.replacen("\"down_bytes\": ", "\"down_bytes\": 7", 1);
    fs::write(&path, figure).unwrap();
    let told = ["`down_bytes` is 7", "with the same digest"];
    assert_told(run(&workshop, "board/one", "sixth", &[]), 1, &told);

    fs::write(&path, &noted).unwrap();
    add(&workshop, "one", FACTS, &STUDY.replace("= 2 }", "= 3 }"));
    let told =
        ["the settings of the arm `track=small, on=lan` have changed since its results were noted"];
    assert_told(run(&workshop, "board/one", "seventh", &[]), 2, &told);
}

/// If this fails, an entry that cannot be repeated keeps others from it, or the runs of two get into
/// one folder.
#[test]
fn entries_are_repeated_one_after_the_other() {
    let workshop = board();
    add_popularity(&workshop);
    fs::create_dir(workshop.path("board/notes")).unwrap();
    let all = |out: &str, options: &[&str]| {
        let others = ["board/notes", "board/popularity"].map(|entry| workshop.path(entry));
        let others = others.map(|path| path.display().to_string());
        let words: Vec<&str> = others
            .iter()
            .map(String::as_str)
            .chain(options.iter().copied())
            .collect();
        run(&workshop, "board/one", out, &words).unwrap()
    };
    let noted = all("first", &["--write"]);
    assert_eq!(noted.output.matches("results.json").count(), 2);
    assert!(workshop.path("first/popularity/study.json").exists());
    let repeated = all("second", &[]);
    assert_eq!(
        repeated.output,
        "entry `one`: 2 arms repeated, 2 of them as noted\nentry `popularity`: 1 arm repeated, 1 of them as noted\n"
    );
    assert_told(Ok(repeated), 2, &["notes is no entry of a board"]);
}

/// If this fails, what is no entry is run or shown, or its author is not told what to mend.
#[test]
fn what_is_no_entry_is_refused_with_what_to_do() {
    let workshop = board();
    fs::create_dir(workshop.path("board/notes")).unwrap();
    let none = run(&workshop, "board/notes", "out", &[]);
    let told = [
        "is no entry of a board: it has no entry.toml",
        "beside it are one",
    ];
    assert_told(none, 2, &told);
    let none = build(&workshop.path("board/one"), &workshop.path("page"));
    assert_told(
        none,
        2,
        &["is no board: none of its folders has an entry.toml"],
    );

    add(&workshop, "two", &FACTS.replace("by =", "who ="), STUDY);
    let told = ["entry.toml", "unknown field `who`"];
    assert_told(run(&workshop, "board/two", "out", &[]), 2, &told);

    let without = STUDY.replace("values = [\"lan\", \"alone\"]", "values = [\"lan\"]");
    let without = without.replace(
        "[settings.alone]\n\"training.aggregation\" = \"none\"\n",
        "",
    );
    add(&workshop, "two", FACTS, &without);
    let told = ["entry `two` has no control", "as `no_control`"];
    assert_told(run(&workshop, "board/two", "out", &[]), 2, &told);
    let reason = format!("{FACTS}no_control = \"because\"\n");
    add(&workshop, "two", &reason, STUDY);
    let told = ["entry `two` says why it has no control, and has one"];
    assert_told(run(&workshop, "board/two", "out", &[]), 2, &told);

    // FCF's devices send gradients, of which nobody but the server makes a table.
    add(
        &workshop,
        "two",
        FACTS,
        &STUDY.replace("\"fedmf\"", "\"fcf\""),
    );
    let told = [
        "entry `two`: the method `fcf` cannot be alone: devices send gradients",
        "take `alone` out of the axis `on`",
    ];
    assert_told(run(&workshop, "board/two", "out", &[]), 2, &told);

    let axes = STUDY.replace("name = \"track\"", "name = \"data\"");
    add(&workshop, "two", FACTS, &axes);
    let told = ["the arm `data=small, on=lan` has no `track` and `on`"];
    assert_told(run(&workshop, "board/two", "out", &[]), 2, &told);
}

/// If this fails, two entries stand in one table that were asked different questions.
#[test]
fn an_entry_that_is_judged_otherwise_is_not_shown() {
    let workshop = board();
    add_popularity(&workshop);
    for entry in ["one", "popularity"] {
        let entry = format!("board/{entry}");
        assert_told(
            run(&workshop, &entry, &entry.replace('/', "-"), &["--write"]),
            0,
            &[],
        );
    }
    let [board, page] = ["board", "page"].map(|name| workshop.path(name));
    assert_told(build(&board, &page), 0, &[]);
    let page = fs::read_to_string(page.join("README.md")).unwrap();
    assert!(page.contains("## small\n"), "{page}");

    for (from, to, told) in [
        ("full catalogue", "full catalogue", None),
        ("leave-one-out", "3 folds", Some("is judged by: 3 folds")),
        (
            "negatives `not-in-train`",
            "negatives `unrated`",
            Some("negatives `unrated`"),
        ),
        (
            "\"popularity\": {",
            "\"popularity\": { \"recall@10\": 1.0,",
            Some("popularity has"),
        ),
    ] {
        let path = workshop.path("board/one/results.json");
        let noted = fs::read_to_string(&path).unwrap();
        fs::write(&path, noted.replace(from, to)).unwrap();
        let built = build(&board, &workshop.path("page"));
        match told {
            None => assert_told(built, 0, &[]),
            Some(told) => assert_told(built, 2, &["entry `one`, arm `track=small, on=lan`", told]),
        }
        fs::write(&path, noted).unwrap();
    }
}

/// If this fails, a method whose training diverges is taken for one that nobody has run.
#[test]
fn an_entry_that_failed_is_named_with_the_reason() {
    let workshop = board();
    let wild = "{ fedmf = { learning_rate_user = 1e9, learning_rate_items = 1e9 } }";
    let study = STUDY.replace("\"fedmf\"", wild);
    add(&workshop, "two", FACTS, &study);
    add(&workshop, "three", FACTS, STUDY);
    add_popularity(&workshop);
    for entry in ["one", "two", "popularity"] {
        let entry = format!("board/{entry}");
        let noted = run(&workshop, &entry, &entry.replace('/', "-"), &["--write"]);
        assert_told(noted, 0, &[]);
    }
    let [board, page] = ["board", "page"].map(|name| workshop.path(name));
    assert_told(build(&board, &page), 0, &[]);
    let page = fs::read_to_string(page.join("README.md")).unwrap();
    for part in [
        "Not run yet: three.",
        "Entries that failed, and why:\n\n- **`two`:** stopped after round 0: training diverged",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
}

/// If this fails, the committed page shows other figures than the committed results, or an entry has
/// other settings than those that its results are of.
#[test]
fn the_committed_page_is_that_of_the_committed_results() {
    let (board, workshop) = (repository("board"), Workshop::new());
    let out = workshop.path("page");
    assert_told(build(&board, &out), 0, &[]);
    let [committed, built] =
        [board, out].map(|folder| fs::read_to_string(folder.join("README.md")).unwrap());
    assert!(
        committed == built,
        "make the page again: fedrecsim board build"
    );
}
