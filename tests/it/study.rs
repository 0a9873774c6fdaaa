use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::support::Workshop;

mod against;
#[cfg(unix)]
mod kills;
#[cfg(unix)]
mod search;
#[cfg(unix)]
mod slurm;

/// Two arms of a few rounds, with two seeds.
const STUDY: &str = r#"
title = "Rates"
base = "small.toml"
seeds = [1, 2]
compare_to = "rate=10"
set = { "training.rounds" = 4 }

[[axes]]
name = "rate"
key = "method.fedrap.learning_rate_tables"
values = [10, 1]
"#;

/// Figures of the host, which differ from run to run.
const OF_THE_HOST: [&str; 3] = ["wall_time_s", "threads", "peak_memory_bytes"];

fn workshop() -> Workshop {
    let workshop = Workshop::new();
    workshop.small();
    workshop.write("study.toml", STUDY);
    workshop
}

/// Returns the arguments of a study or a search that is stopped in the middle: one run at a time,
/// with a checkpoint after every round.
#[cfg(unix)]
const fn one_by_one(command: &str) -> [&str; 8] {
    [
        command,
        "study.toml",
        "--jobs",
        "1",
        "--checkpoint-every",
        "1",
        "--out",
        "out",
    ]
}

/// Runs the program in the folder of the workshop.
fn fedrecsim(workshop: &Workshop, arguments: &[&str]) -> Output {
    command(workshop, arguments).output().unwrap()
}

fn command(workshop: &Workshop, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fedrecsim"));
    command
        .args(arguments)
        .current_dir(workshop.path(""))
        .stdin(Stdio::null());
    command
}

#[track_caller]
fn assert_ends(output: &Output, code: i32, parts: &[&str]) {
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{told}");
    parts
        .iter()
        .for_each(|part| assert!(told.contains(part), "no {part:?} in: {told}"));
}

/// Runs a study of the workshop, which must end well.
#[track_caller]
fn study(workshop: &Workshop, arguments: &[&str]) -> Output {
    let output = fedrecsim(
        workshop,
        &[&["study", "study.toml", "--threads", "2"], arguments].concat(),
    );
    assert_ends(&output, 0, &[]);
    output
}

/// Returns the lines of a file of tables, without those of the host's figures.
fn lines(workshop: &Workshop, file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(workshop.path(file))
        .unwrap_or_else(|error| panic!("{file}: {error}"));
    let is_result = |line: &&str| !OF_THE_HOST.iter().any(|figure| line.contains(figure));
    text.lines().filter(is_result).map(str::to_owned).collect()
}

/// Checks that two studies came to the same figures.
#[track_caller]
fn assert_same_tables(workshop: &Workshop, one: &str, other: &str) {
    for file in ["study.csv", "summary.csv"] {
        assert_eq!(
            lines(workshop, &format!("{one}/{file}")),
            lines(workshop, &format!("{other}/{file}")),
            "{file}"
        );
    }
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Returns `run.json` of a run of a study.
fn run_json(workshop: &Workshop, run: &str) -> Value {
    json(&workshop.path(&format!("{run}/run.json")))
}

/// Returns the rows of `summary.csv` by arm and figure.
fn summary(workshop: &Workshop, folder: &str) -> BTreeMap<(String, String), csv::StringRecord> {
    let mut reader = csv::Reader::from_path(workshop.path(folder).join("summary.csv")).unwrap();
    let rows = reader.records().map(Result::unwrap);
    rows.map(|row| ((row[0].to_owned(), row[1].to_owned()), row))
        .collect()
}

/// If this fails, a study's tables show other figures than its runs have, or a file of it is
/// missing.
#[test]
fn a_study_runs_every_arm_with_every_seed_and_sums_them_up() {
    let workshop = workshop();
    let output = study(&workshop, &["--out", "out"]);
    let names = [
        "study.json",
        "study.md",
        "results.json",
        "study.csv",
        "summary.csv",
        "pareto-bytes.svg",
        "accuracy-by-time.svg",
    ];
    for name in names {
        assert!(workshop.path("out").join(name).is_file(), "no {name}");
    }
    let of_run = |arm: &str, seed: u64| {
        let run = run_json(&workshop, &format!("out/runs/{arm}/{seed}"));
        assert_eq!(
            (run["seed"].as_u64(), run["rounds"].as_u64()),
            (Some(seed), Some(4)),
            "{arm}, {seed}"
        );
        assert!(
            run["wall"]["peak_rss_bytes"].as_u64().unwrap() > 0,
            "the memory of a run is that of its process"
        );
        [
            run["accuracy"]["test"]["hr@10"].as_f64().unwrap(),
            run["bytes"]["up"]["sent"].as_f64().unwrap(),
        ]
    };
    let [fast, slow] = ["rate=10", "rate=1"].map(|arm| [of_run(arm, 1), of_run(arm, 2)]);
    let rows = summary(&workshop, "out");
    let row = |arm: &str, figure: &str| rows[&(arm.to_owned(), figure.to_owned())].clone();
    let number = |cell: &str| cell.parse::<f64>().unwrap();
    assert_eq!(
        number(&row("rate=10", "hr@10")[3]),
        (fast[0][0] + fast[1][0]) / 2.0
    );
    assert_eq!(
        number(&row("rate=1", "up_bytes")[3]),
        (slow[0][1] + slow[1][1]) / 2.0
    );
    let difference = ((slow[0][0] - fast[0][0]) + (slow[1][0] - fast[1][0])) / 2.0;
    assert!((number(&row("rate=1", "hr@10")[9]) - difference).abs() < 1e-12);
    let printed = String::from_utf8(output.stdout).unwrap();
    for part in [
        "# Rates",
        "| rate=10 | 2 |",
        "| over users too | p | difference shown | could show |",
        "over 2,000 draws of users and seeds together",
    ] {
        assert!(printed.contains(part), "no {part:?} in {printed}");
    }
    let of_users = [22, 23, 24, 25].map(|cell| number(&row("rate=1", "hr@10")[cell]));
    assert!(
        of_users[0] < of_users[1] && of_users[2] <= difference && difference <= of_users[3],
        "{of_users:?}"
    );
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("4/4: ") && told.contains("HR@10"), "{told}");
    assert!(
        told.contains("HR@10 that 2 seeds can show with power .8: 0.155"),
        "{told}"
    );
    for run in [
        "rate=1, seed 1:",
        "rate=1, seed 2:",
        "rate=10, seed 1:",
        "rate=10, seed 2:",
    ] {
        assert_eq!(told.matches(run).count(), 1, "{run} in {told}");
    }
    let tables = std::fs::read_to_string(workshop.path("out/study.md")).unwrap();
    assert!(
        tables.contains("- **Protocol of every accuracy:** leave-one-out"),
        "{tables}"
    );
    assert!(
        !workshop.path("out/study.html").exists(),
        "the page of an earlier version is written"
    );
    assert!(workshop.path("out/report.html").exists());
}

/// If this fails, a study that goes on runs what it has once more, or does not run what was added.
#[test]
fn what_is_there_is_kept_and_what_was_added_is_run() {
    let workshop = workshop();
    study(&workshop, &["--out", "out"]);
    let before = std::fs::read(workshop.path("out/runs/rate=1/2/run.json")).unwrap();
    let output = study(&workshop, &["--out", "out"]);
    assert!(
        !String::from_utf8_lossy(&output.stderr).contains("1/"),
        "something was run"
    );
    let more = STUDY
        .replace("[1, 2]", "[1, 2, 3]")
        .replace("[10, 1]", "[10, 1, 2]");
    workshop.write("study.toml", &more);
    let output = study(&workshop, &["--out", "out"]);
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("5/5: "),
        "three new seeds and two runs of a new arm"
    );
    // Figures of the host are in the file, so that a run which was repeated has another one.
    assert_eq!(
        std::fs::read(workshop.path("out/runs/rate=1/2/run.json")).unwrap(),
        before
    );
    assert!(workshop.path("out/runs/rate=2/3/run.json").exists());
}

/// If this fails, runs of two different studies stand in one table.
#[test]
fn a_study_that_has_changed_is_refused_with_what_changed() {
    let workshop = workshop();
    study(&workshop, &["--out", "out"]);
    let before = lines(&workshop, "out/study.csv");
    let again = ["study", "study.toml", "--out", "out"];
    workshop.write(
        "study.toml",
        &STUDY.replace("\"training.rounds\" = 4", "\"training.rounds\" = 5"),
    );
    let changed = "arm `rate=10`: training.rounds: 4 and 5";
    assert_ends(
        &fedrecsim(&workshop, &again),
        2,
        &["has changed", changed, "arm `rate=1`:"],
    );
    workshop.write(
        "study.toml",
        &STUDY.replace("[1, 2]", "[1]").replace("[10, 1]", "[10]"),
    );
    assert_ends(
        &fedrecsim(&workshop, &again),
        2,
        &["seed 2 is gone", "arm `rate=1` is gone"],
    );
    workshop.write("study.toml", STUDY);
    let set = [&again[..], &["--set", "codec.uplink=sparse-f32"]].concat();
    assert_ends(&fedrecsim(&workshop, &set), 2, &["codec.uplink"]);
    assert_eq!(lines(&workshop, "out/study.csv"), before);
}

/// If this fails, a cluster that shares the runs comes to other tables than one machine.
#[test]
fn parts_that_are_put_together_are_the_whole_study() {
    let workshop = workshop();
    study(&workshop, &["--out", "whole"]);
    study(&workshop, &["--shard", "1/3", "--out", "a"]);
    study(&workshop, &["--shard", "2/3", "--out", "b"]);
    let text = std::fs::read_to_string(workshop.path("a/study.md")).unwrap();
    assert!(
        text.contains("> Partial: these are the runs of part 1/3."),
        "{text}"
    );
    study(&workshop, &["--merge", "a", "b", "--out", "merged"]);
    let text = std::fs::read_to_string(workshop.path("merged/study.md")).unwrap();
    assert!(text.contains("> Partial: 1 of 4 runs"), "{text}");
    study(&workshop, &["--shard", "3/3", "--out", "c"]);
    study(&workshop, &["--merge", "a", "b", "c", "--out", "merged"]);
    assert_same_tables(&workshop, "merged", "whole");
    workshop.write("study.toml", &STUDY.replace("= 4", "= 5"));
    let other = fedrecsim(
        &workshop,
        &["study", "study.toml", "--merge", "a", "--out", "other"],
    );
    assert_ends(
        &other,
        2,
        &["a is a part of another study", "training.rounds: 4 and 5"],
    );
}

/// If this fails, a run that another study has made is made once more, or one of another scenario
/// stands in its place.
#[test]
fn runs_of_other_studies_are_taken_where_the_scenario_is_the_same() {
    let workshop = workshop();
    study(&workshop, &["--out", "first"]);
    workshop.write(
        "study.toml",
        &STUDY
            .replace("[10, 1]", "[10, 2]")
            .replace("seeds = [1, 2]", "seeds = [2, 3]"),
    );
    let output = study(&workshop, &["--out", "second", "--reuse", "first"]);
    assert_ends(
        &output,
        0,
        &[
            "1 of 4 runs are taken from other studies",
            "rate=10, seed 3",
            "rate=2, seed 2",
        ],
    );
    let read = |path: &str| std::fs::read_to_string(workshop.path(path)).unwrap();
    assert_eq!(
        read("first/runs/rate=10/2/run.json"),
        read("second/runs/rate=10/2/run.json")
    );
    study(&workshop, &["--out", "alone"]);
    assert_same_tables(&workshop, "second", "alone");
    let ours = read("first/runs/rate=10/2/run.json");
    let other_executable = ours.replace("\"executable\": \"", "\"executable\": \"0");
    let resumed_by_another = ours.replace(
        "\"executable\"",
        "\"other_builds\": [\"fedrecsim 0.0.9\"], \"executable\"",
    );
    for (out, run) in [("third", other_executable), ("fourth", resumed_by_another)] {
        assert_ne!(run, ours);
        workshop.write("first/runs/rate=10/2/run.json", &run);
        let output = study(&workshop, &["--out", out, "--reuse", "first"]);
        assert_ends(&output, 0, &["0 of 4 runs are taken from other studies"]);
    }
    let nowhere = fedrecsim(
        &workshop,
        &[
            "study",
            "study.toml",
            "--out",
            "fifth",
            "--reuse",
            "nowhere",
        ],
    );
    assert_ends(&nowhere, 2, &["nowhere"]);
}

/// If this fails, one run that fails takes the others with it, or is not to be seen in the tables.
#[test]
fn a_run_that_fails_is_marked_and_the_others_go_on() {
    let workshop = workshop();
    let broken = "\n[[arms]]\nname = \"broken\"\nset = { \"training.divergence_limit\" = 1e-6 }\n";
    workshop.write("study.toml", &(STUDY.to_owned() + broken));
    let arguments = ["study", "study.toml", "--out", "out"];
    let output = fedrecsim(&workshop, &arguments);
    assert_ends(
        &output,
        1,
        &[
            "broken, seed 1: failed",
            "training diverged",
            "2 of 6 runs of the study failed",
        ],
    );
    let text = std::fs::read_to_string(workshop.path("out/study.md")).unwrap();
    assert!(
        text.contains("| 0 of 2, 2 failed |\n") && text.contains("## Runs that failed"),
        "{text}"
    );
    assert!(text.contains("| rate=1 | .4"), "{text}");
    let log = std::fs::read_to_string(workshop.path("out/runs/broken/1.log")).unwrap();
    assert!(log.contains("error: training diverged"), "{log}");
    // The tables alone come to the same.
    let tables = lines(&workshop, "out/study.csv");
    assert_ends(
        &fedrecsim(&workshop, &[&arguments[..], &["--no-run"]].concat()),
        1,
        &["2 of 6 runs"],
    );
    assert_eq!(lines(&workshop, "out/study.csv"), tables);
}

/// If this fails, a mistake shows after hours, or leaves something behind.
#[test]
fn bad_input_is_refused_before_anything_runs() {
    let workshop = workshop();
    let refused = |text: &str, more: &[&str], parts: &[&str]| {
        workshop.write("study.toml", text);
        assert_ends(
            &fedrecsim(
                &workshop,
                &[&["study", "study.toml", "--out", "out"], more].concat(),
            ),
            2,
            parts,
        );
        assert!(!workshop.path("out/runs").exists(), "something ran");
    };
    refused(
        &STUDY.replace("[10, 1]", "[]"),
        &[],
        &["study.toml:11:10", "the axis `rate` is empty"],
    );
    refused(
        &STUDY.replace("[10, 1]", "[10, 10]"),
        &[],
        &["has the value `10` twice"],
    );
    refused(
        &STUDY.replace("[10, 1]", "[10, 10.0]"),
        &[],
        &["come to the same scenario"],
    );
    refused(
        &STUDY.replace("[10, 1]", "[10, -1]"),
        &[],
        &["arm `rate=-1`: ", "learning_rate_tables"],
    );
    let same = ["--set", "method.fedrap.learning_rate_tables=5", "--dry-run"];
    refused(STUDY, &same, &["come to the same scenario"]);
    let some = ["--arms", "rate=10"];
    study(&workshop, &[&same[..], &some].concat());
    let other = format!(
        "{STUDY}[[arms]]\nname = \"other\"\nset = {{ method = {{ fedmf = {{ latent_dimension = 4 }} }} }}\n"
    );
    let of_fedrap = ["--set", "method.fedrap.lambda=0.5", "--dry-run"];
    refused(&other, &of_fedrap, &["arm `other`", "not several"]);
    study(&workshop, &[&of_fedrap[..], &some].concat());
    refused(
        &STUDY.replace("small.toml", "absent.toml"),
        &[],
        &["absent.toml"],
    );
    refused(
        STUDY,
        &["--memory", "0.001"],
        &["arm `rate=10` needs", "a run may have 1.00 MB"],
    );
    refused(STUDY, &["--launch", "nice 'x"], &["--launch nice 'x"]);
    let arguments = [
        "study",
        "study.toml",
        "--out",
        "out",
        "--launch",
        "/nowhere/at-all",
    ];
    assert_ends(
        &fedrecsim(&workshop, &arguments),
        2,
        &["cannot start `/nowhere/at-all"],
    );
    std::fs::create_dir(workshop.path("mine")).unwrap();
    workshop.write("mine/letter.txt", "dear");
    let output = fedrecsim(&workshop, &["study", "study.toml", "--out", "mine"]);
    assert_ends(&output, 2, &["mine is there already and holds no study"]);
}

/// If this fails, the studies of the project are there in its checkout alone.
#[test]
fn a_study_that_comes_with_the_program_runs_by_its_name() {
    let workshop = Workshop::new();
    let mut words = vec!["study", "quickstart-codecs", "--seeds", "1", "--out", "out"];
    words.extend(["--set", "training.rounds=2", "--arms", "codec=rows"]);
    words.extend(["--set", "dataset.generator.users=30"]);
    let output = fedrecsim(&workshop, &words);
    assert_ends(&output, 0, &[]);
    assert!(workshop.path("out/report.html").is_file());
    // A study given for a scenario, and the other way round.
    for (words, told) in [
        (
            ["study", "ml100k-fedmf"],
            "`ml100k-fedmf` is a scenario: `fedrecsim run ml100k-fedmf`",
        ),
        (
            ["run", "quickstart-codecs"],
            "`quickstart-codecs` is a study: `fedrecsim study quickstart-codecs`",
        ),
        (
            ["validate", "quickstart-codes"],
            "`quickstart-codecs` is a study: `fedrecsim study",
        ),
        (["run", "quickstrat"], "did you mean `quickstart`?"),
        (
            ["study", "quickstart"],
            "`quickstart` is a scenario: `fedrecsim run quickstart`",
        ),
    ] {
        assert_ends(&fedrecsim(&workshop, &words), 2, &[told]);
    }
    let output = fedrecsim(&workshop, &["study", "papers"]);
    assert_ends(
        &output,
        2,
        &["no study of this name comes with the program"],
    );
    // Its base and the file that it includes come with it as well.
    let paper = ["study", "fedrap-figure-6-not-in-train", "--dry-run"];
    let output = fedrecsim(&workshop, &paper);
    assert_ends(&output, 0, &[]);
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(listed.contains(": ml100k-fedrap.toml --set"), "{listed}");
}

/// If this fails, a table of a paper cannot be made where some of its data sets are missing, or a
/// cell that nobody has run stands there as if it were measured.
#[test]
fn arms_without_data_are_left_out_where_the_study_allows_it() {
    let workshop = workshop();
    let arm = "[[arms]]\nname = \"elsewhere\"\nset = { \"dataset.name\" = \"ml-1m\", \"dataset.path\" = \"nowhere\" }\n";
    let reference = "[[references]]\nfigures = [\"hr@10\"]\narms.elsewhere = \"0.5 ± 0.1\"\n";
    let refused = format!("{STUDY}{arm}{reference}");
    workshop.write("study.toml", &refused);
    let output = fedrecsim(&workshop, &["study", "study.toml", "--out", "out"]);
    assert_ends(&output, 2, &["arm `elsewhere`", "nowhere"]);
    // Where another command starts the runs, nothing is estimated, and the files are looked for all
    // the same.
    let another = arm
        .replace("elsewhere", "another")
        .replace("ml-1m", "ml-100k");
    workshop.write("study.toml", &format!("{refused}{another}"));
    let output = fedrecsim(
        &workshop,
        &[
            "study",
            "study.toml",
            "--out",
            "launched",
            "--launch",
            "env",
        ],
    );
    assert_ends(&output, 2, &["arm `elsewhere`", "arm `another`", "nowhere"]);
    assert!(!workshop.path("launched/runs").exists(), "something ran");
    study(
        &workshop,
        &["--out", "launched", "--launch", "env", "--arms", "rate=10"],
    );
    workshop.write(
        "study.toml",
        &format!("missing_data = \"leave-out\"\n{refused}"),
    );
    let output = study(&workshop, &["--out", "left-out"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains(" left out, since the data set is not here"),
        "{said}"
    );
    let table = std::fs::read_to_string(workshop.path("left-out/study.md")).unwrap();
    assert!(
        table.contains("| elsewhere | - |")
            && table.contains("| no data |\n")
            && table.contains("| 0.5000 ± 0.1000 |"),
        "{table}"
    );
    let row = summary(&workshop, "left-out")[&("elsewhere".to_owned(), "hr@10".to_owned())].clone();
    assert_eq!(
        (&row[2], &row[3], &row[18], &row[19]),
        ("0", "", "0.5", "0.1")
    );
    // A file that is there and that nobody can read is not one that is missing.
    workshop.write("nowhere", "PK\u{3}\u{4}, an archive");
    for launch in [&[][..], &["--launch", "env"]] {
        let output = fedrecsim(
            &workshop,
            &[&["study", "study.toml", "--out", "archive"], launch].concat(),
        );
        assert_ends(&output, 2, &["arm `elsewhere`", "zip archive"]);
    }
    assert!(!workshop.path("archive/runs").exists(), "something ran");
}

#[test]
fn a_study_can_be_listed_without_being_run() {
    let workshop = workshop();
    let output = study(
        &workshop,
        &["--dry-run", "--shard", "1/4", "--seeds", "5,6,7"],
    );
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(
        printed.contains("2 arms with the seeds 5, 6, 7: 6 runs, of which part 1/4 has 2"),
        "{printed}"
    );
    assert!(
        printed.contains("rate=1: small.toml --set training.rounds=4"),
        "{printed}"
    );
    let alone = study(&workshop, &["--dry-run", "--seeds", "5"]);
    let printed = String::from_utf8(alone.stdout).unwrap();
    assert!(
        printed.contains("One seed: intervals cover users alone, with the seed fixed"),
        "{printed}"
    );
    assert!(!workshop.path("reports").exists());
}

/// If this fails, the folder of an older program, whose reports do not have the values of single
/// users, is refused, or its tables claim an interval over users.
#[test]
fn without_the_values_of_users_there_is_students_t_alone() {
    let workshop = workshop();
    study(&workshop, &["--out", "out"]);
    for arm in ["rate=10", "rate=1"] {
        for seed in ["1", "2"] {
            let path = workshop.path(&format!("out/runs/{arm}/{seed}/users.csv"));
            std::fs::write(path, "user,invited\n0,1\n").unwrap();
        }
    }
    let output = study(&workshop, &["--out", "out", "--no-run"]);
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(
        printed.contains("None of them covers users") && !printed.contains("over users too"),
        "{printed}"
    );
    assert!(printed.contains("| its 95 % interval |"), "{printed}");
}

/// If this fails, the runs of a study cannot be started by a cluster's own command.
#[cfg(unix)]
#[test]
fn another_command_can_start_the_runs() {
    let workshop = workshop();
    study(
        &workshop,
        &[
            "--out",
            "out",
            "--launch",
            "env 'MARK=a b'",
            "--jobs",
            "2",
            "--seeds",
            "1",
        ],
    );
    assert!(workshop.path("out/runs/rate=1/1/run.json").exists());
}

/// If this fails, reports that exist are summed up otherwise than the runs of a study.
#[test]
fn reports_that_exist_are_compared_as_a_study_compares_its_runs() {
    let workshop = workshop();
    study(&workshop, &["--out", "out"]);
    let runs =
        ["rate=10/1", "rate=1/2", "rate=1/1", "rate=10/2"].map(|run| format!("out/runs/{run}"));
    let folders: Vec<&str> = runs.iter().map(String::as_str).collect();
    let to = "method.fedrap.learning_rate_tables=10";
    let compare =
        |more: &[&str]| fedrecsim(&workshop, &[&["compare"], &folders[..], more].concat());
    let output = compare(&["--to", to, "--out", "compared"]);
    assert_ends(&output, 0, &[]);
    let (studied, compared) = (summary(&workshop, "out"), summary(&workshop, "compared"));
    for (arm, name) in [
        ("rate=10", to),
        ("rate=1", "method.fedrap.learning_rate_tables=1"),
    ] {
        for figure in [
            "hr@10",
            "up_bytes",
            "virtual_time_s",
            "up_bytes_to_90_percent_of_compared_best",
        ] {
            let row = |rows: &BTreeMap<(String, String), csv::StringRecord>, arm: &str| {
                let row = &rows[&(arm.to_owned(), figure.to_owned())];
                [2, 3, 4, 5, 6, 8, 9, 10, 11].map(|cell| row[cell].to_owned())
            };
            assert_eq!(row(&studied, arm), row(&compared, name), "{arm}, {figure}");
        }
    }
    assert!(
        workshop.path("compared/compare.md").exists()
            && workshop.path("compared/pareto-time.svg").exists()
    );
    assert_ends(&compare(&["--out", "compared"]), 2, &["is there already"]);
    assert_ends(
        &compare(&["out/runs/rate=1/1"]),
        2,
        &["the same scenario and seed"],
    );
    assert_ends(&fedrecsim(&workshop, &["compare", "out"]), 2, &["run.json"]);
}

/// If this fails, a few arms of a large study cannot be run alone, or get other figures then.
#[test]
fn some_arms_can_be_run_and_the_others_later() {
    let workshop = workshop();
    let output = study(
        &workshop,
        &["--out", "some", "--arms", "rate=10", "--seeds", "2"],
    );
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(
        printed.contains("| rate=10 | .") && !printed.contains("rate=1 "),
        "{printed}"
    );
    assert!(!workshop.path("some/runs/rate=1").exists());
    study(&workshop, &["--out", "some"]);
    study(&workshop, &["--out", "all"]);
    assert_same_tables(&workshop, "some", "all");
    let unknown = fedrecsim(
        &workshop,
        &["study", "study.toml", "--out", "none", "--arms", "rat=10"],
    );
    assert_ends(&unknown, 2, &["--arms rat=10: no arm has this in its name"]);
    assert!(!workshop.path("none").exists());
}
