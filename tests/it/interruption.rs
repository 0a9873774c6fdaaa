use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fedrecsim::cli::Session;
use fedrecsim_core::Error;
use fedrecsim_methods::registry::METHODS;
use fedrecsim_sim::{self as sim, Outcome, RunControl};
use serde_json::Value;

use crate::support::{InterruptAfter, Workshop, assert_balanced, run, small, small_with, world};

fn interrupted_after(after: u32, method: &str) -> Outcome {
    let flag = Arc::new(AtomicBool::new(false));
    let control = RunControl {
        threads: 2,
        interrupted: Arc::clone(&flag),
    };
    let scenario = small_with(method, &["training.rounds=5"]);
    sim::run(
        world(scenario),
        &control,
        &mut InterruptAfter { after, flag },
    )
    .unwrap()
}

/// If this fails, Ctrl-C throws work away, or reports a round that was not finished.
#[test]
fn an_interrupted_run_keeps_its_finished_rounds() {
    for method in ["fedrap", "popularity"] {
        let outcome = interrupted_after(2, method);
        assert!(
            matches!(outcome.stopped_by, Some(Error::Interrupted)),
            "{method}: {:?}",
            outcome.stopped_by
        );
        assert_balanced(&outcome);
        let whole = run(small_with(method, &["training.rounds=5"]), 1);
        // Apart from the last evaluation, the rounds are those of the whole run.
        assert_eq!(outcome.rounds, whole.rounds[..2], "{method}");
    }
}

/// If this fails, a run that had nothing more to do is called incomplete.
#[test]
fn an_interruption_after_the_last_round_stops_nothing() {
    let outcome = interrupted_after(5, "fedrap");
    assert!(outcome.stopped_by.is_none());
    assert_eq!(
        outcome.digest,
        run(small_with("fedrap", &["training.rounds=5"]), 1).digest
    );
}

#[test]
fn a_command_that_is_interrupted_at_once_leaves_a_report_without_rounds() {
    let workshop = Workshop::new();
    let arguments = workshop.arguments(workshop.small(), &[]);
    let session = Session::new(METHODS);
    session.interrupted.store(true, Ordering::Relaxed);
    let finished = arguments.carry_out_in(&session).unwrap();
    let error = finished
        .errors
        .into_iter()
        .next()
        .expect("it was not stopped");
    assert_eq!(
        (error.to_string().as_str(), error.exit_code()),
        ("interrupted", 1)
    );
    let json = workshop.run_json();
    assert_eq!(
        (json["rounds"].as_u64(), json["complete"].as_bool()),
        (Some(0), Some(false))
    );
    assert_eq!(json["stopped_by"], "interrupted");
    // Nothing was sent, so there is nothing to account for.
    assert_eq!(json["bytes"]["up"]["sent"], 0);
}

/// A child process that is killed when the test ends.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It has ended already unless the test failed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until the child has made its report folder. By then its handler of Ctrl-C is in place and
/// the run begins.
fn wait_for_folder(child: &mut Child, folder: &Path) {
    while !folder.exists() {
        assert!(
            child.try_wait().unwrap().is_none(),
            "it ended before it began"
        );
        std::thread::yield_now();
    }
}

/// If this fails, Ctrl-C on the terminal ends the process without a report, or with the exit code
/// of success.
#[cfg(unix)]
#[test]
fn ctrl_c_ends_the_process_with_a_report() {
    assert_ends_with_a_report("-INT");
}

/// If this fails, a run that a scheduler, a container or `timeout` ends loses its finished rounds.
#[cfg(unix)]
#[test]
fn sigterm_ends_the_process_with_a_report() {
    assert_ends_with_a_report("-TERM");
}

/// If this fails, a run whose terminal is closed loses its finished rounds.
#[cfg(target_os = "linux")]
#[test]
fn sighup_ends_the_process_with_a_report() {
    // The process that runs the tests may ignore the signal, which children inherit.
    let with_default = ["env", "--default-signal=HUP"];
    if !Command::new(with_default[0])
        .args([with_default[1], "true"])
        .status()
        .is_ok_and(|status| status.success())
    {
        println!("skipped: `env` cannot set a signal to its default");
        return;
    }
    assert_of_a_process_ends_with_a_report(&with_default, "-HUP");
}

/// If this fails, `nohup` does not keep a run alive.
#[cfg(target_os = "linux")]
#[test]
fn a_run_that_ignores_sighup_goes_on_when_its_terminal_is_closed() {
    let workshop = Workshop::new();
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "trap '' HUP; exec \"$0\" \"$@\"",
        env!("CARGO_BIN_EXE_fedrecsim"),
        "run",
    ]);
    command
        .arg(workshop.small())
        .args(["--threads", "1", "--set", "training.rounds=300"]);
    command
        .args(["--set", "evaluation.every_rounds=300"])
        .arg("--out")
        .arg(workshop.report());
    let mut child = Ended(
        command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    wait_for_folder(&mut child.0, &workshop.report());
    let send = |signal: &str| {
        assert!(
            Command::new("kill")
                .args([signal, &child.0.id().to_string()])
                .status()
                .unwrap()
                .success()
        );
    };
    // The process is stopped meanwhile, so that it cannot come to its end before the signal.
    send("-STOP");
    assert!(
        !workshop.report().join("run.json").exists(),
        "it came to its end too early for this test to mean anything"
    );
    send("-HUP");
    send("-CONT");
    assert_eq!(child.0.wait().unwrap().code(), Some(0));
    assert_eq!(workshop.run_json()["complete"], true);
}

#[cfg(unix)]
fn assert_ends_with_a_report(signal: &str) {
    assert_of_a_process_ends_with_a_report(&[], signal);
}

/// Sends `signal` to a run, which the program `before` with its arguments starts if it is not
/// empty, and another one of the kind that does not end the process at once.
#[cfg(unix)]
fn assert_of_a_process_ends_with_a_report(before: &[&str], signal: &str) {
    use std::io::Read;

    let workshop = Workshop::new();
    let words = [before, &[env!("CARGO_BIN_EXE_fedrecsim")]].concat();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    // Nobody would wait for so many rounds. The run ends because of the signal.
    command.arg("run").arg(workshop.small()).args([
        "--json",
        "--threads",
        "1",
        "--progress",
        "off",
    ]);
    command
        .args([
            "--set",
            "training.rounds=1000000",
            "--set",
            "evaluation.every_rounds=1000000",
        ])
        .arg("--out")
        .arg(workshop.report());
    let mut child = Ended(
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    wait_for_folder(&mut child.0, &workshop.report());
    // A scheduler sends the same signal to each process of a job, and some send several. The process
    // is stopped meanwhile, so that they arrive together.
    let pid = child.0.id().to_string();
    for signal in ["-STOP", signal, "-TERM", "-CONT"] {
        assert!(
            Command::new("kill")
                .args([signal, &pid])
                .status()
                .unwrap()
                .success()
        );
    }
    let (mut output, mut errors) = (String::new(), String::new());
    child
        .0
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut output)
        .unwrap();
    child
        .0
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut errors)
        .unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(1), "{errors}");
    assert_eq!(errors, "error: interrupted\n");
    let printed: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(
        (
            printed["complete"].as_bool(),
            printed["stopped_by"].as_str()
        ),
        (Some(false), Some("interrupted"))
    );
    assert_eq!(printed, workshop.run_json());
    assert_eq!(
        workshop.rounds_csv().len() as u64,
        printed["rounds"].as_u64().unwrap()
    );
}

/// If this fails, the small scenario cannot be interrupted in the middle of its run, and the tests
/// above prove nothing.
#[test]
fn the_small_scenario_has_rounds_to_interrupt() {
    assert!(small(&[]).training.rounds > 1);
}
