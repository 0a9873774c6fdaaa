use std::fs;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use fedrecsim::cli::{self, Finished, ResumeArgs, RunArgs};
use fedrecsim::error::{Error, Result};
use serde_json::Value;

use crate::support::{Workshop, assert_refusal, methods, run_command};

/// From some instant on no frame arrives, so that the run ends before its last round and its checkpoints stay.
const DOOMED: [&str; 4] = [
    "training.rounds=50",
    "training.empty_rounds_limit=3",
    "network.preset=\"wifi-2020\"",
    "faults=[{ effect = \"drop\", from_s = 1.0 }]",
];

fn saving(workshop: &Workshop, overrides: &[&str], every: u32) -> RunArgs {
    RunArgs { checkpoint_every: NonZeroU32::new(every), ..workshop.arguments(workshop.small(), overrides) }
}

fn resume(folder: &Path, data: &Path) -> Result<Finished> {
    let (folder, data_dir) = (folder.to_owned(), Some(data.to_owned()));
    let arguments = ResumeArgs { folder, threads: NonZeroUsize::new(1), data_dir, json: true };
    cli::resume(&arguments, &methods(), Arc::default(), false, Instant::now())
}

fn has_checkpoint(folder: &Path) -> bool {
    let entries = fs::read_dir(folder).map(|entries| entries.flatten().collect()).unwrap_or_else(|_| Vec::new());
    entries.iter().any(|entry| entry.file_name().to_string_lossy().starts_with("checkpoint-"))
}

/// The report without what belongs to the host and the command line.
fn report(folder: &Path) -> (String, Vec<(String, String)>) {
    let mut run: Value = serde_json::from_str(&fs::read_to_string(folder.join("run.json")).unwrap()).unwrap();
    for host in ["wall", "command"] {
        run.as_object_mut().unwrap().shift_remove(host).unwrap();
    }
    let mut others: Vec<(String, String)> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| !["run.json", "summary.md"].iter().any(|name| path.ends_with(name)))
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), contents(&path)))
        .collect();
    others.sort();
    // As text: the order of keys counts, too.
    (run.to_string(), others)
}

fn contents(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned()
}

/// The report of the same run, never stopped and without checkpoints.
fn uninterrupted(overrides: &[&str]) -> (String, Vec<(String, String)>) {
    let workshop = Workshop::new();
    workshop.run(workshop.small(), overrides).unwrap();
    report(&workshop.report())
}

/// If this fails, a crash loses more than the rounds since the last checkpoint, or changes the result.
#[cfg(unix)]
#[test]
fn a_run_that_is_killed_is_resumed_to_the_same_report() {
    let overrides = [
        "method=\"fedmf\"",
        "method.fedmf.learning_rate_items=100",
        "training.rounds=400",
        "evaluation.every_rounds=100",
        "training.mode={ fedbuff = { concurrency = 12, buffer = 4 } }",
        "network.preset=\"mobile-pessimistic\"",
    ];
    let workshop = Workshop::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_fedrecsim"));
    command.arg("run").arg(workshop.small()).args(["--checkpoint-every", "2", "--threads", "1", "--out"]);
    command.arg(workshop.report()).args(overrides.iter().flat_map(|text| ["--set", text]));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !has_checkpoint(&workshop.report()) {
        assert!(child.try_wait().unwrap().is_none(), "it ended before there was a checkpoint");
        std::thread::yield_now();
    }
    // SIGKILL: nobody can prepare for it.
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!workshop.report().join("run.json").exists(), "it was killed too late for this test to mean anything");
    assert!(has_checkpoint(&workshop.report()));
    assert!(resume(&workshop.report(), &workshop.path("")).unwrap().stopped_by.is_none());
    assert!(report(&workshop.report()) == uninterrupted(&overrides));
}

#[test]
fn a_run_that_is_interrupted_reports_its_rounds_and_is_resumed() {
    let overrides = ["training.rounds=300", "evaluation.every_rounds=50"];
    let workshop = Workshop::new();
    let arguments = saving(&workshop, &overrides, 3);
    let interrupted = Arc::new(AtomicBool::new(false));
    let (folder, flag) = (workshop.report(), Arc::clone(&interrupted));
    // Whoever presses Ctrl-C, when there is something to go on from.
    let user = std::thread::spawn(move || {
        while !has_checkpoint(&folder) {
            std::thread::yield_now();
        }
        flag.store(true, Ordering::Relaxed);
    });
    let stopped = cli::run(&arguments, &methods(), interrupted, false, Instant::now()).unwrap();
    user.join().unwrap();
    assert!(matches!(stopped.stopped_by, Some(Error::Interrupted)));
    assert_eq!(workshop.run_json()["complete"], false);
    assert!(resume(&workshop.report(), &workshop.path("")).unwrap().stopped_by.is_none());
    // No checkpoint is among the files: there is nothing left to go on with.
    assert!(report(&workshop.report()) == uninterrupted(&overrides));
}

#[test]
fn a_damaged_checkpoint_is_passed_over_and_an_unsound_folder_refused() {
    let workshop = Workshop::new();
    let stopped = run_command(&saving(&workshop, &DOOMED, 1)).unwrap().stopped_by.unwrap();
    assert!(matches!(stopped, Error::NobodyFinished { .. }), "{stopped}");
    let whole = report(&workshop.report());
    let mut names: Vec<u32> = whole.1.iter().filter_map(|(name, _)| number(name)).collect();
    names.sort_unstable();
    let [older, newer] = names[..] else { panic!("not two checkpoints: {names:?}") };
    let path = |rounds: u32| workshop.report().join(format!("checkpoint-{rounds}.bin"));
    let bytes = fs::read(path(newer)).unwrap();
    fs::write(path(newer), &bytes[..bytes.len() / 2]).unwrap();
    let again = resume(&workshop.report(), &workshop.path("")).unwrap().stopped_by.unwrap();
    assert_eq!(again.to_string(), stopped.to_string());
    assert!(report(&workshop.report()) == whole, "its own checkpoints included");
    for rounds in [older, newer] {
        fs::write(path(rounds), "nothing").unwrap();
    }
    assert_refusal(&resume(&workshop.report(), &workshop.path("")).unwrap_err(), &["no checkpoint in", "can be used"]);
    assert_refusal(&resume(&workshop.path("nowhere"), &workshop.path("")).unwrap_err(), &["nowhere"]);
}

fn number(name: &str) -> Option<u32> {
    name.strip_prefix("checkpoint-")?.strip_suffix(".bin")?.parse().ok()
}

/// If this fails, a run goes on with ratings that it did not begin with.
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
    let scenario = workshop.write("ratings.toml", "training = { rounds = 3 }\nevaluation.candidates = 20\n");
    let overrides = [&source[..], &DOOMED].concat();
    let arguments = RunArgs { checkpoint_every: NonZeroU32::new(1), ..workshop.arguments(scenario, &overrides) };
    run_command(&arguments).unwrap();
    resume(&workshop.report(), &workshop.path("")).unwrap();
    workshop.write("ratings.txt", &ratings(6));
    let error = resume(&workshop.report(), &workshop.path("")).unwrap_err();
    assert_refusal(&error, &["the data set or a trace is not what it was when the run began"]);
}

#[test]
fn a_folder_with_a_checkpoint_is_resumed_or_overwritten_but_not_mixed() {
    let workshop = Workshop::new();
    run_command(&saving(&workshop, &DOOMED, 1)).unwrap();
    let mut arguments = saving(&workshop, &["training.rounds=2"], 5);
    assert_refusal(&run_command(&arguments).unwrap_err(), &["left a checkpoint in", "fedrecsim resume", "--overwrite"]);
    arguments.overwrite = true;
    run_command(&arguments).unwrap();
    // Those of the run before would be taken for this one's if it were killed before it left one of its own.
    assert!(!has_checkpoint(&workshop.report()));
    let error = resume(&workshop.report(), &workshop.path("")).unwrap_err();
    assert_refusal(&error, &["there is no checkpoint in", "--checkpoint-every"]);
}
