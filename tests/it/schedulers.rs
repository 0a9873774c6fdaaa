use std::fs;
use std::path::Path;

use fedrecsim_core::Error;
use fedrecsim_sim::Stop;

use crate::checkpoints::{DOOMED, has_checkpoint, report, resume, resuming, saving, uninterrupted};
use crate::support::{Workshop, assert_refusal};

/// A wall-clock time that is over when the first round is.
const NO_TIME: [&str; 2] = ["--max-wall-time", "0s"];

/// If this fails, a job that stops in time loses its rounds, does not say so by its exit code, or
/// comes to another result than a run that had all the time.
#[test]
fn a_run_whose_time_is_up_stops_with_a_checkpoint_and_is_resumed() {
    let workshop = Workshop::new();
    let arguments = workshop.arguments(workshop.small(), &[]);
    let stopped = arguments
        .and(&NO_TIME)
        .carry_out()
        .unwrap()
        .errors
        .into_iter()
        .next()
        .unwrap();
    assert!(
        matches!(stopped.ended_by(), Some(Stop::TimeIsUp { rounds: 1 })),
        "{stopped}"
    );
    assert_eq!(stopped.exit_code(), Error::Interrupted.exit_code());
    let run = workshop.run_json();
    assert_eq!(
        (run["rounds"].as_u64(), run["complete"].as_bool()),
        (Some(1), Some(false))
    );
    assert_eq!(workshop.rounds_csv().len(), 1);
    assert!(workshop.report().join("checkpoint-1.bin").is_file());
    // The scenario has three rounds. One more is run before the time is up once more, and the last
    // one is no stop.
    let in_no_time = resuming(&workshop.report(), &workshop.path("")).and(&NO_TIME);
    let again = in_no_time.carry_out().unwrap().errors.into_iter().next();
    assert!(
        matches!(
            again.as_ref().and_then(Error::ended_by),
            Some(Stop::TimeIsUp { rounds: 2 })
        ),
        "{again:?}"
    );
    assert!(in_no_time.carry_out().unwrap().errors.is_empty());
    assert!(
        report(&workshop.report()) == uninterrupted(&[]),
        "checkpoints are left, or the result is another one"
    );
}

#[test]
fn a_run_with_time_enough_leaves_nothing_but_its_report() {
    let workshop = Workshop::new();
    let arguments = workshop.arguments(workshop.small(), &[]);
    let in_days = arguments.and(&["--max-wall-time", "12days"]);
    assert!(in_days.carry_out().unwrap().errors.is_empty());
    assert!(report(&workshop.report()) == uninterrupted(&[]));
}

/// If this fails, a run that was begun without checkpoints at intervals goes on without a way to
/// have any.
#[test]
fn resume_leaves_checkpoints_at_the_interval_that_it_is_given() {
    let workshop = Workshop::new();
    let arguments = workshop.arguments(workshop.small(), &DOOMED);
    arguments.and(&NO_TIME).carry_out().unwrap();
    let arguments = resuming(&workshop.report(), &workshop.path(""));
    let stopped = arguments
        .and(&["--checkpoint-every", "2"])
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
    let checkpoints = checkpoints_in(&workshop.report());
    assert_eq!(checkpoints.len(), 2, "{checkpoints:?}");
    assert!(
        checkpoints.iter().all(|rounds| rounds.is_multiple_of(2)),
        "{checkpoints:?}"
    );
}

fn checkpoints_in(folder: &Path) -> Vec<u32> {
    let number = |name: &str| {
        name.strip_prefix("checkpoint-")?
            .strip_suffix(".bin")?
            .parse()
            .ok()
    };
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries
        .filter_map(|entry| number(&entry.file_name().to_string_lossy()))
        .collect()
}

/// If this fails, a run goes on from the state of another one, whose checkpoint has come into its
/// folder.
#[test]
fn a_checkpoint_of_another_run_is_refused() {
    let (ours, theirs) = (Workshop::new(), Workshop::new());
    saving(&ours, &DOOMED, 1).carry_out().unwrap();
    let before = report(&ours.report());
    let overrides = [&DOOMED[..], &["seed=4", "training.rounds=60"]].concat();
    saving(&theirs, &overrides, 1).carry_out().unwrap();
    let newest = checkpoints_in(&theirs.report()).into_iter().max().unwrap();
    let copied = ours.report().join("checkpoint-49.bin");
    fs::copy(
        theirs.report().join(format!("checkpoint-{newest}.bin")),
        &copied,
    )
    .unwrap();
    let refused = resume(&ours.report(), &ours.path("")).unwrap_err();
    assert_refusal(
        &refused,
        &[
            "is of another run than the one in",
            "seed: 3 and 4",
            "remove it",
        ],
    );
    fs::remove_file(copied).unwrap();
    resume(&ours.report(), &ours.path("")).unwrap();
    assert!(
        report(&ours.report()) == before,
        "its own checkpoints are still those that it goes on from"
    );
}

/// If this fails, what a kill between the report and the clean-up has left stays forever, or is
/// taken for a run that was stopped.
#[test]
fn the_next_command_removes_what_a_complete_run_could_not() {
    let workshop = Workshop::new();
    let arguments = workshop.arguments(workshop.small(), &[]);
    arguments.and(&NO_TIME).carry_out().unwrap();
    let name = "checkpoint-1.bin";
    fs::copy(workshop.report().join(name), workshop.path(name)).unwrap();
    resume(&workshop.report(), &workshop.path("")).unwrap();
    let complete = report(&workshop.report());
    let leave = || {
        fs::copy(workshop.path(name), workshop.report().join(name)).unwrap();
        for hidden in [
            ".fedrecsim.lock",
            ".fedrecsim-checkpoint.partial",
            ".fedrecsim-run.json.partial",
        ] {
            fs::write(workshop.report().join(hidden), "").unwrap();
        }
    };
    leave();
    let refused = resume(&workshop.report(), &workshop.path("")).unwrap_err();
    assert_refusal(&refused, &["holds the report of a complete run"]);
    assert!(report(&workshop.report()) == complete, "after `resume`");
    leave();
    let refused = arguments.carry_out().unwrap_err();
    assert_refusal(&refused, &["is there already", "--overwrite"]);
    assert!(report(&workshop.report()) == complete, "after `run`");
    leave();
    arguments.and(&["--overwrite"]).carry_out().unwrap();
    assert!(
        report(&workshop.report()) == complete,
        "after `run --overwrite`"
    );
    assert!(!has_checkpoint(&workshop.report()));
}

/// What depends on signals, devices and executable files.
#[cfg(target_os = "linux")]
mod of_the_system {
    use std::fs::File;
    use std::process::{Command, Output, Stdio};

    use super::*;

    /// Returns the command `run` on the small scenario, or another program's, without standard
    /// output and error.
    fn program(path: &Path, workshop: &Workshop, flags: &[&str]) -> Command {
        let mut command = Command::new(path);
        command
            .arg("run")
            .arg(workshop.small())
            .args(["--threads", "1", "--out"])
            .arg(workshop.report())
            .args(flags);
        command
    }

    fn ours() -> &'static Path {
        Path::new(env!("CARGO_BIN_EXE_fedrecsim"))
    }

    fn full() -> Stdio {
        File::options()
            .write(true)
            .open("/dev/full")
            .unwrap()
            .into()
    }

    /// If this fails, a disk that is full, or a terminal that is gone, turns a result into a panic.
    #[test]
    fn a_message_that_cannot_be_printed_changes_no_exit_code() {
        let workshop = Workshop::new();
        let code = |command: &mut Command| {
            command
                .stdout(Stdio::null())
                .stderr(full())
                .status()
                .unwrap()
                .code()
        };
        let doomed: Vec<&str> = DOOMED.iter().flat_map(|text| ["--set", text]).collect();
        let saving = [&["--checkpoint-every", "1"], &doomed[..]].concat();
        assert_eq!(
            code(&mut program(ours(), &workshop, &saving)),
            Some(1),
            "a run that was stopped"
        );
        assert_eq!(
            code(&mut program(ours(), &workshop, &[])),
            Some(2),
            "a folder that is taken"
        );
        assert_eq!(
            code(Command::new(ours()).arg("walk")),
            Some(2),
            "a command that does not exist"
        );
        // Passing over a damaged checkpoint is told, and must not keep it from being passed over.
        let checkpoints = checkpoints_in(&workshop.report());
        let newest = checkpoints.iter().max().unwrap();
        fs::write(
            workshop.report().join(format!("checkpoint-{newest}.bin")),
            "damaged",
        )
        .unwrap();
        fs::remove_file(workshop.report().join("run.json")).unwrap();
        assert_eq!(
            code(Command::new(ours()).arg("resume").arg(workshop.report())),
            Some(1)
        );
        assert!(
            workshop.report().join("run.json").exists(),
            "it was not resumed"
        );
    }

    /// If this fails, the summary's place decides the exit code of a run whose report is there, or
    /// a result is lost without a word.
    #[test]
    fn output_that_cannot_be_printed_is_an_error_only_if_it_is_the_result() {
        let workshop = Workshop::new();
        let to_full = |command: &mut Command| -> (Option<i32>, String) {
            let Output { status, stderr, .. } = command.stdout(full()).output().unwrap();
            (status.code(), String::from_utf8(stderr).unwrap())
        };
        let (code, told) = to_full(&mut program(ours(), &workshop, &[]));
        assert_eq!(code, Some(0), "{told}");
        assert!(
            told.starts_with("warning: the summary cannot be printed"),
            "{told}"
        );
        let json = to_full(&mut program(ours(), &workshop, &["--overwrite", "--json"]));
        let schema = to_full(Command::new(ours()).arg("schema"));
        for (code, told) in [json, schema] {
            assert_eq!(code, Some(1), "{told}");
            assert!(
                told.starts_with("error: cannot write standard output"),
                "{told}"
            );
        }
    }

    /// If this fails, a log that was cut off is taken for a whole one, or a kill costs the one that
    /// was there.
    #[test]
    fn a_log_of_events_that_is_cut_off_does_not_take_the_place_of_another() {
        let workshop = Workshop::new();
        let (log, partial) = (
            workshop.write("log.jsonl", "before"),
            workshop.path(".fedrecsim-log.jsonl.partial"),
        );
        let events = |rounds: &str| {
            let mut command = Command::new(ours());
            command
                .arg("events")
                .arg(workshop.small())
                .args(["--set", rounds, "--overwrite", "--out"])
                .arg(&log);
            command.stderr(Stdio::null());
            command
        };
        let mut child = events("training.rounds=1000000").spawn().unwrap();
        while !partial.exists() {
            assert!(
                child.try_wait().unwrap().is_none(),
                "it ended before it began"
            );
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(fs::read_to_string(&log).unwrap(), "before");
        assert!(events("training.rounds=1").status().unwrap().success());
        assert!(fs::read_to_string(&log).unwrap().trim_end().ends_with('}'));
        assert!(!partial.exists());
    }

    /// If this fails, a program that was built anew goes on with what another build has begun, and
    /// nobody is told.
    #[test]
    fn another_build_resumes_only_when_asked_to_and_marks_the_report() {
        let workshop = Workshop::new();
        // A program file with one byte more runs as before, and stands for a build with a change.
        let other = workshop.path("other-build");
        fs::copy(ours(), &other).unwrap();
        let mut bytes = File::options().append(true).open(&other).unwrap();
        std::io::Write::write_all(&mut bytes, b"x").unwrap();
        drop(bytes);
        let stopped = program(ours(), &workshop, &["--max-wall-time", "0s"])
            .output()
            .unwrap();
        assert_eq!(stopped.status.code(), Some(1));
        let resume = |flags: &[&str]| {
            let output = Command::new(&other)
                .arg("resume")
                .arg(workshop.report())
                .args(flags)
                .output()
                .unwrap();
            (
                output.status.code(),
                String::from_utf8(output.stderr).unwrap()
                    + &String::from_utf8_lossy(&output.stdout),
            )
        };
        let (code, told) = resume(&[]);
        assert_eq!(code, Some(2), "{told}");
        assert!(
            told.contains("was left by another build of the program")
                && told.contains("--other-build"),
            "{told}"
        );
        assert_eq!(
            workshop.run_json()["rounds"],
            1,
            "the report of the finished rounds stays"
        );
        let (code, told) = resume(&["--other-build"]);
        assert_eq!(code, Some(0), "{told}");
        let mark = "More than one build of the program made this run.";
        assert!(told.contains(mark), "{told}");
        assert!(
            fs::read_to_string(workshop.report().join("summary.md"))
                .unwrap()
                .contains(mark)
        );
        let run = workshop.run_json();
        assert!(
            run["other_builds"][0]
                .as_str()
                .unwrap()
                .contains(", executable "),
            "{run}"
        );
        assert_eq!(run["complete"], true);
    }
}

/// If this fails, a report does not say what made it.
#[test]
fn the_report_names_commit_compiler_and_build() {
    let workshop = Workshop::new();
    workshop
        .run(workshop.small(), &["training.rounds=1"])
        .unwrap();
    let run = workshop.run_json();
    let version = |name: &str| {
        run["versions"][name]
            .as_str()
            .unwrap_or_else(|| panic!("no {name} in {run}"))
            .to_owned()
    };
    let commit = version("commit");
    let digits = commit.strip_suffix("-modified").unwrap_or(&commit);
    assert!(
        commit == "unknown"
            || (digits.len() == 40 && digits.bytes().all(|c| c.is_ascii_hexdigit())),
        "{commit}"
    );
    assert!(version("rustc").starts_with("1."));
    for part in [" for ", "cli", "npz", "plots"] {
        assert!(version("build").contains(part), "{}", version("build"));
    }
    assert!(run.get("other_builds").is_none());
}
