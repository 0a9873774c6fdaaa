use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fedrecsim::cli::{Finished, Session};
use fedrecsim_core::{Error, Result};
use fedrecsim_report::FolderLock;
use fedrecsim_sim::Stop;
use serde_json::Value;

use crate::support::{Words, Workshop, assert_refusal, methods};

/// Overrides that let no frame arrive from some instant on, so that the run ends before its last
/// round and its checkpoints stay.
pub const DOOMED: [&str; 4] = [
    "training.rounds=50",
    "training.empty_rounds_limit=3",
    "network.preset=\"wifi-2020\"",
    "faults=[{ effect = \"drop\", from_s = 1.0 }]",
];

pub fn saving(workshop: &Workshop, overrides: &[&str], every: u32) -> Words {
    workshop
        .arguments(workshop.small(), overrides)
        .and(&["--checkpoint-every", &every.to_string()])
}

pub fn resume(folder: &Path, data: &Path) -> Result<Finished> {
    resuming(folder, data).carry_out()
}

/// Returns the words of `resume`, with one thread.
pub fn resuming(folder: &Path, data: &Path) -> Words {
    Words::new(&["resume"])
        .path(folder)
        .and(&[
            "--threads",
            "1",
            "--json",
            "--progress",
            "off",
            "--data-dir",
        ])
        .path(data)
}

/// Resumes with the program itself, as another build refuses the checkpoints of its runs, and
/// returns exit code and standard error.
pub fn resume_with_program(folder: &Path, flags: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fedrecsim"));
    let output = command
        .arg("resume")
        .arg(folder)
        .args(["--threads", "1", "--progress", "off"])
        .args(flags)
        .output()
        .unwrap();
    (
        output.status.code(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

pub fn has_checkpoint(folder: &Path) -> bool {
    let entries = fs::read_dir(folder)
        .map(|entries| entries.flatten().collect())
        .unwrap_or_else(|_| Vec::new());
    entries.iter().any(|entry| {
        entry
            .file_name()
            .to_string_lossy()
            .starts_with("checkpoint-")
    })
}

/// Returns the report without what depends on the host and the command line.
pub fn report(folder: &Path) -> (String, Vec<(String, String)>) {
    let mut run: Value =
        serde_json::from_str(&fs::read_to_string(folder.join("run.json")).unwrap()).unwrap();
    for host in ["wall", "command", "executable"] {
        run.as_object_mut().unwrap().shift_remove(host).unwrap();
    }
    let mut others: Vec<(String, String)> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            !["run.json", "summary.md", "report.html"]
                .iter()
                .any(|name| path.ends_with(name))
        })
        .map(|path| {
            (
                path.file_name().unwrap().to_string_lossy().into_owned(),
                contents(&path),
            )
        })
        .collect();
    others.sort();
    // The report is compared as text, because the order of keys counts, too.
    (run.to_string(), others)
}

fn contents(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned()
}

/// Returns the report of the same run when it is never stopped and leaves no checkpoints.
pub fn uninterrupted(overrides: &[&str]) -> (String, Vec<(String, String)>) {
    let workshop = Workshop::new();
    workshop.run(workshop.small(), overrides).unwrap();
    report(&workshop.report())
}

#[test]
fn a_run_that_is_interrupted_reports_its_rounds_and_is_resumed() {
    let overrides = ["training.rounds=300", "evaluation.every_rounds=50"];
    let workshop = Workshop::new();
    let arguments = saving(&workshop, &overrides, 3);
    let methods = methods();
    let session = Session::new(&methods);
    let (folder, flag) = (workshop.report(), Arc::clone(&session.interrupted));
    // This thread stands for a user who presses Ctrl-C once there is a checkpoint to go on from.
    let user = std::thread::spawn(move || {
        while !has_checkpoint(&folder) {
            std::thread::yield_now();
        }
        flag.store(true, Ordering::Relaxed);
    });
    let stopped = arguments.carry_out_in(&session).unwrap();
    user.join().unwrap();
    assert!(matches!(stopped.errors[..], [Error::Interrupted]));
    assert_eq!(workshop.run_json()["complete"], false);
    assert!(
        resume(&workshop.report(), &workshop.path(""))
            .unwrap()
            .errors
            .is_empty()
    );
    // No checkpoint is among the files, as a complete run has removed them.
    assert!(report(&workshop.report()) == uninterrupted(&overrides));
}

#[test]
fn a_damaged_checkpoint_is_passed_over_and_an_unsound_folder_refused() {
    let workshop = Workshop::new();
    let stopped = saving(&workshop, &DOOMED, 1)
        .carry_out()
        .unwrap()
        .errors
        .into_iter()
        .next()
        .unwrap();
    assert!(
        matches!(stopped.ended_by(), Some(Stop::NobodyFinished { .. })),
        "{stopped}"
    );
    let whole = report(&workshop.report());
    let mut names: Vec<u32> = whole
        .1
        .iter()
        .filter_map(|(name, _)| number(name))
        .collect();
    names.sort_unstable();
    let [older, newer] = names[..] else {
        panic!("not two checkpoints: {names:?}")
    };
    let path = |rounds: u32| workshop.report().join(format!("checkpoint-{rounds}.bin"));
    let bytes = fs::read(path(newer)).unwrap();
    fs::write(path(newer), &bytes[..bytes.len() / 2]).unwrap();
    let again = resume(&workshop.report(), &workshop.path(""))
        .unwrap()
        .errors
        .into_iter()
        .next()
        .unwrap();
    assert_eq!(again.to_string(), stopped.to_string());
    assert!(
        report(&workshop.report()) == whole,
        "its own checkpoints included"
    );
    for rounds in [older, newer] {
        fs::write(path(rounds), "nothing").unwrap();
    }
    assert_refusal(
        &resume(&workshop.report(), &workshop.path("")).unwrap_err(),
        &["no checkpoint in", "can be used"],
    );
    assert_refusal(
        &resume(&workshop.path("nowhere"), &workshop.path("")).unwrap_err(),
        &["nowhere"],
    );
}

fn number(name: &str) -> Option<u32> {
    name.strip_prefix("checkpoint-")?
        .strip_suffix(".bin")?
        .parse()
        .ok()
}

/// If this fails, a run goes on with other ratings than those that it began with.
#[test]
fn other_ratings_are_refused() {
    let workshop = Workshop::new();
    let ratings = |last: u32| -> String {
        (0..40)
            .flat_map(|user| (0..9).map(move |item| (user, (user * 7 + item * 11) % 99)))
            .chain([(39, last)])
            .map(|(user, item)| format!("{user} {item}\n"))
            .collect()
    };
    workshop.write("ratings.txt", &ratings(5));
    let source = [
        "method=\"fedmf\"",
        "dataset.name=\"delimited\"",
        "dataset.path=\"ratings.txt\"",
        "dataset.columns={ separator = \" \", user = 1, item = 2 }",
    ];
    let scenario = workshop.write(
        "ratings.toml",
        "training = { rounds = 3 }\nevaluation.ranking.sampled.candidates = 20\n",
    );
    let overrides = [&source[..], &DOOMED].concat();
    let arguments = workshop.arguments(scenario, &overrides);
    let every = ["--checkpoint-every", "1"];
    arguments.and(&every).carry_out().unwrap();
    resume(&workshop.report(), &workshop.path("")).unwrap();
    workshop.write("ratings.txt", &ratings(6));
    let error = resume(&workshop.report(), &workshop.path("")).unwrap_err();
    assert_refusal(
        &error,
        &["the data set or a trace is not what it was when the run began"],
    );
}

#[test]
fn a_folder_with_a_checkpoint_is_resumed_or_overwritten_but_not_mixed() {
    let workshop = Workshop::new();
    saving(&workshop, &DOOMED, 1).carry_out().unwrap();
    let arguments = saving(&workshop, &["training.rounds=2"], 5);
    assert_refusal(
        &arguments.carry_out().unwrap_err(),
        &["left a checkpoint in", "fedrecsim resume", "--overwrite"],
    );
    arguments.and(&["--overwrite"]).carry_out().unwrap();
    // Checkpoints of the run before would be taken for this one's if it were killed before it left
    // one of its own.
    assert!(!has_checkpoint(&workshop.report()));
    let error = resume(&workshop.report(), &workshop.path("")).unwrap_err();
    assert_refusal(&error, &["there is no checkpoint in", "--checkpoint-every"]);
}

/// If this fails, a run that replaces an older report cannot be resumed, or a complete report is
/// lost.
#[test]
fn only_the_report_that_the_run_was_to_replace_is_resumed_over() {
    let workshop = Workshop::new();
    workshop.run(workshop.small(), &[]).unwrap();
    let older = fs::read(workshop.report().join("run.json")).unwrap();
    let arguments = saving(&workshop, &DOOMED, 1).and(&["--overwrite"]);
    arguments.carry_out().unwrap();
    let stopped = report(&workshop.report());
    // The folder is now as if the run had been killed before it wrote its own report.
    fs::write(workshop.report().join("run.json"), &older).unwrap();
    resume(&workshop.report(), &workshop.path("")).unwrap();
    assert!(report(&workshop.report()) == stopped);
    fs::write(
        workshop.report().join("run.json"),
        [&older[..], b"\n"].concat(),
    )
    .unwrap();
    let error = resume(&workshop.report(), &workshop.path("")).unwrap_err();
    assert_refusal(&error, &["holds the report of a complete run"]);
}

/// If this fails, two processes write checkpoints over one another.
#[test]
fn a_folder_at_which_another_process_is_at_work_is_refused() {
    let workshop = Workshop::new();
    saving(&workshop, &DOOMED, 1).carry_out().unwrap();
    let other = FolderLock::take(&workshop.report()).unwrap();
    let arguments = saving(&workshop, &DOOMED, 1);
    for arguments in [&arguments, &arguments.and(&["--overwrite"])] {
        assert_refusal(
            &arguments.carry_out().unwrap_err(),
            &["another process is at work on the run in"],
        );
    }
    let refused = |workshop: &Workshop| resume(&workshop.report(), &workshop.path("")).unwrap_err();
    assert_refusal(
        &refused(&workshop),
        &["another process is at work on the run in"],
    );
    drop(other);
    resume(&workshop.report(), &workshop.path("")).unwrap();
}

/// If this fails, a run can be resumed only from the folder that it was started in, or reads other
/// files elsewhere.
#[test]
fn relative_paths_begin_where_the_run_was_started() {
    let workshop = Workshop::new();
    for folder in ["here", "there", "here/traces"] {
        fs::create_dir(workshop.path(folder)).unwrap();
    }
    let ratings: String = (0..40)
        .flat_map(|user| {
            (0..9).map(move |item| format!("{user} {}\n", (user * 7 + item * 11) % 99))
        })
        .collect();
    let devices: String = (0..40)
        .map(|user| format!("{user},{}\n", 1000 + user))
        .collect();
    workshop.write("here/ratings.txt", &ratings);
    workshop.write(
        "here/traces/devices.csv",
        &format!("user,ns_per_row_visit\n{devices}"),
    );
    workshop.write("here/traces/stays.csv", "user,on,off\n0,0,1000000\n");
    // A process that looks in its own folder first would find this file.
    workshop.write("there/ratings.txt", "1 1\n");
    let files = r#"
        method = "fedmf"
        evaluation.ranking.sampled.candidates = 20
        dataset = { name = "delimited", path = "ratings.txt", columns = { separator = " ", user = 1, item = 2 } }
        devices.speed.trace = { path = "traces/devices.csv" }
        availability.pattern.trace = { path = "traces/stays.csv" }
    "#;
    workshop.write("here/relative.toml", files);
    let command = |folder: &str, arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fedrecsim"));
        let output = command
            .current_dir(workshop.path(folder))
            .args(arguments)
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let overrides = DOOMED.iter().flat_map(|text| ["--set", text]);
    let run = [
        "run",
        "relative.toml",
        "--out",
        "../report",
        "--checkpoint-every",
        "1",
    ];
    let stopped = command(
        "here",
        &run.into_iter().chain(overrides).collect::<Vec<_>>(),
    );
    assert!(
        stopped.0 == Some(1) && stopped.1.contains("nobody finished"),
        "{stopped:?}"
    );
    let whole = report(&workshop.report());
    assert_eq!(command("there", &["resume", "../report"]), stopped);
    assert!(report(&workshop.report()) == whole);
    assert!(
        !whole.0.contains(&*workshop.path("").to_string_lossy()),
        "the report tells where it was made"
    );
    // Every line of the traces counts, too.
    for (trace, other) in [
        ("devices", format!("user,ns_per_row_visit\n{devices}40,7\n")),
        ("stays", "user,on,off\n0,0,999\n".into()),
    ] {
        let path = workshop.path(&format!("here/traces/{trace}.csv"));
        let before = fs::read(&path).unwrap();
        fs::write(&path, other).unwrap();
        let refused = command("there", &["resume", "../report"]);
        assert!(
            refused.0 == Some(2) && refused.1.contains("a trace is not what it was"),
            "{trace}: {refused:?}"
        );
        fs::write(&path, before).unwrap();
    }
    fs::remove_file(workshop.path("here/ratings.txt")).unwrap();
    let refused = command("there", &["resume", "../report"]);
    assert_eq!(refused.0, Some(2), "{refused:?}");
}
