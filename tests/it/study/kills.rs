//! What becomes of a study that is stopped or killed.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Output, Stdio};

use fedrecsim_report::FolderLock;

use super::{
    assert_ends, assert_same_tables, command, fedrecsim, one_by_one, run_json, study, workshop,
};
use crate::support::Workshop;

/// Two arms; the second one goes on for long enough to be stopped in the middle.
const STUDY: &str = r#"
base = "small.toml"
seeds = [1]

[[arms]]
name = "short"

[[arms]]
name = "long"
set = { "training.rounds" = 400, "evaluation.every_rounds" = 400, "method.fedrap.learning_rate_tables" = 0.01 }
"#;

const ARGUMENTS: [&str; 8] = one_by_one("study");

/// Starts the study and waits until its first run has ended and its second one has a checkpoint.
fn started(workshop: &Workshop) -> Child {
    workshop.write("study.toml", STUDY);
    let mut child = command(workshop, &ARGUMENTS)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (first, second) = (
        workshop.path("out/runs/short/1/run.json"),
        workshop.path("out/runs/long/1"),
    );
    let has_checkpoint = || {
        let names = fs::read_dir(&second)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.file_name());
        names
            .into_iter()
            .any(|name| name.to_string_lossy().starts_with("checkpoint-"))
    };
    while !(first.exists() && has_checkpoint()) {
        assert!(
            child.try_wait().unwrap().is_none(),
            "it ended before it could be stopped"
        );
        std::thread::yield_now();
    }
    child
}

/// Stops the study in the middle of its second run.
fn stopped(workshop: &Workshop) -> Output {
    let child = started(workshop);
    assert!(
        Command::new("kill")
            .args(["-TERM", &child.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
    child.wait_with_output().unwrap()
}

/// If this fails, a study that was stopped loses what it has, or comes to other results than one
/// that was not.
#[test]
fn a_study_that_is_stopped_goes_on_to_the_same_tables() {
    let workshop = workshop();
    let output = stopped(&workshop);
    assert_ends(&output, 1, &["interrupted"]);
    let first = fs::read(workshop.path("out/runs/short/1/run.json")).unwrap();
    let stopped = run_json(&workshop, "out/runs/long/1");
    assert_eq!(
        (&stopped["complete"], &stopped["stopped_by"]),
        (&false.into(), &"interrupted".into())
    );
    assert!(
        fs::read_to_string(workshop.path("out/study.md"))
            .unwrap()
            .contains("> Partial: 1 of 2 runs")
    );
    study(&workshop, &["--out", "out"]);
    assert_eq!(
        fs::read(workshop.path("out/runs/short/1/run.json")).unwrap(),
        first,
        "it was run once more"
    );
    study(&workshop, &["--out", "undisturbed"]);
    assert_same_tables(&workshop, "out", "undisturbed");
    let log = fs::read_to_string(workshop.path("out/runs/long/1.log")).unwrap();
    assert!(
        !log.lines()
            .skip_while(|line| !line.starts_with("error:"))
            .any(|line| line.starts_with("round 1/")),
        "{log}"
    );
}

/// If this fails, a study that a machine's memory killer or a power cut has ended has to be begun
/// anew, or its runs, which may outlive it, are counted as failed or carried out twice.
#[test]
fn a_study_that_is_killed_goes_on_to_the_same_tables() {
    let workshop = workshop();
    let mut child = started(&workshop);
    // This sends SIGKILL, which no process can prepare for.
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(
        !workshop.path("out/study.md").exists(),
        "it was killed too late for this test to mean anything"
    );
    let first = fs::read(workshop.path("out/runs/short/1/run.json")).unwrap();
    // The process of the second run may still be at work.
    assert_ends(&fedrecsim(&workshop, &ARGUMENTS), 0, &[]);
    assert_eq!(
        fs::read(workshop.path("out/runs/short/1/run.json")).unwrap(),
        first,
        "it was run once more"
    );
    study(&workshop, &["--out", "undisturbed"]);
    assert_same_tables(&workshop, "out", "undisturbed");
    let digest =
        |study: &str| run_json(&workshop, &format!("{study}/runs/long/1"))["digest"].clone();
    assert_eq!(digest("out"), digest("undisturbed"));
}

/// If this fails, a study starts a second process for a run that a killed study's process is still
/// at work on, and notes its refusal as the failure of the run.
#[test]
fn a_run_on_which_a_process_is_at_work_is_waited_for() {
    let workshop = workshop();
    let folder = workshop.path("out/runs/rate=10/1");
    study(&workshop, &["--out", "out"]);
    fs::remove_file(folder.join("run.json")).unwrap();
    let lock = FolderLock::take(&folder).unwrap();
    let mut command = command(&workshop, &["study", "study.toml", "--out", "out"]);
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let waits = lines
        .find(|line| line.contains("still at work"))
        .expect("it does not wait");
    assert!(waits.contains("rate=10, seed 1: "), "{waits}");
    drop(lock);
    let told: Vec<String> = lines.collect();
    assert!(
        child.wait().unwrap().success() && told[0].starts_with("1/1: rate=10, seed 1: "),
        "{told:?}"
    );
    assert!(folder.join("run.json").exists());
}

/// If this fails, a study fails in every run that was stopped as soon as the program is built anew,
/// or one of its reports is made by two builds.
#[test]
fn a_run_that_another_build_has_begun_is_begun_anew() {
    let workshop = workshop();
    stopped(&workshop);
    // A program file with one byte more runs as before, and stands for a build with a change.
    let other = workshop.path("other-build");
    fs::copy(env!("CARGO_BIN_EXE_fedrecsim"), &other).unwrap();
    File::options()
        .append(true)
        .open(&other)
        .unwrap()
        .write_all(b"x")
        .unwrap();
    let output = Command::new(&other)
        .args(ARGUMENTS)
        .current_dir(workshop.path(""))
        .output()
        .unwrap();
    let anew =
        "1/1: long, seed 1 (begun anew, as another build of the program left its checkpoint): ";
    assert_ends(&output, 0, &[anew]);
    let run = run_json(&workshop, "out/runs/long/1");
    assert!(
        run["complete"] == true && run.get("other_builds").is_none(),
        "{run}"
    );
}
