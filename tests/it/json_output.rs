use std::process::{Command, Output};
use std::sync::Mutex;

use fedrecsim::cli::{Followed, Session};
use serde_json::Value;

use crate::support::{Workshop, methods, small};

fn run(workshop: &Workshop, flags: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fedrecsim"))
        .arg("run")
        .arg(workshop.small())
        .args(["--threads", "2"])
        .args(flags)
        .arg("--out")
        .arg(workshop.report())
        .output()
        .unwrap()
}

fn number(json: &Value, path: &str) -> f64 {
    json.pointer(path)
        .and_then(Value::as_f64)
        .unwrap_or_else(|| panic!("{path} is no number in {json:#}"))
}

/// If this fails, scripts that read the printed object break.
#[test]
fn one_object_is_printed_and_nothing_else() {
    let workshop = Workshop::new();
    let output = run(&workshop, &["--json"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    // `from_slice` refuses anything after the first value.
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(json.is_object());
    assert_eq!(
        std::fs::read(workshop.report().join("run.json")).unwrap(),
        output.stdout
    );

    assert_eq!(json["digest"].as_str().map(str::len), Some(64));
    assert_eq!(
        (number(&json, "/rounds"), number(&json, "/selected_round")),
        (3.0, 3.0)
    );
    assert_eq!(json["complete"], true);
    assert!(json.get("stopped_by").is_none());
    for split in ["test", "validation"] {
        for figure in ["hr@10", "ndcg@10"] {
            let share = number(&json, &format!("/accuracy/{split}/{figure}"));
            assert!((0.0..=1.0).contains(&share), "{split} {figure}: {share}");
        }
    }
    for direction in ["up", "down"] {
        let bytes = |kind: &str| number(&json, &format!("/bytes/{direction}/{kind}"));
        assert_eq!(
            bytes("sent"),
            bytes("delivered") + bytes("lost") + bytes("cancelled") + bytes("in_flight")
        );
        assert!(bytes("sent") > 0.0);
    }
    assert!(number(&json, "/virtual_time_s") > 0.0);
    // Linux tells the peak memory; elsewhere it is null.
    let keys = ["total_s", "per_round_ms", "peak_rss_bytes"];
    for key in if cfg!(target_os = "linux") {
        &keys[..]
    } else {
        &keys[..2]
    } {
        assert!(number(&json, &format!("/wall/{key}")) > 0.0, "{key}");
    }
    assert_eq!(number(&json, "/wall/threads"), 2.0);
}

/// If this fails, a run that is a thread of another program, as in a study from Python, is said to
/// take what the whole program has taken.
#[test]
fn a_run_that_shares_its_process_tells_no_peak_memory() {
    let workshop = Workshop::new();
    let scenario = workshop.small();
    workshop.arguments(scenario, &[]).carry_out().unwrap();
    let wall = &workshop.run_json()["wall"];
    assert!(wall["peak_rss_bytes"].is_null() && number(wall, "/total_s") > 0.0);
}

/// If this fails, the table of rounds lacks one, has one twice, or does not add up to the run.
#[test]
fn rounds_csv_has_one_row_per_round() {
    let workshop = Workshop::new();
    assert!(run(&workshop, &["--json"]).status.success());
    let rows = workshop.rounds_csv();
    let rounds: Vec<&str> = rows.iter().map(|row| &row[0]).collect();
    assert_eq!(rounds, ["1", "2", "3"]);
    let mut reader = csv::Reader::from_path(workshop.report().join("rounds.csv")).unwrap();
    let column = reader
        .headers()
        .unwrap()
        .iter()
        .position(|name| name == "up_sent_bytes")
        .unwrap();
    let sent: f64 = rows
        .iter()
        .map(|row| row[column].parse::<f64>().unwrap())
        .sum();
    assert_eq!(sent, number(&workshop.run_json(), "/bytes/up/sent"));
}

/// If this fails, printing or the way of calling changes the result.
#[test]
fn the_digest_does_not_depend_on_what_is_printed() {
    let (first, second) = (Workshop::new(), Workshop::new());
    let (json, text) = (run(&first, &["--json"]), run(&second, &[]));
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    let digest = json["digest"].as_str().unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains(digest), "{text}");
    assert_eq!(
        crate::support::run(small(&[]), 1).digest,
        digest,
        "the command adds something to the library's run"
    );
}

/// If this fails, exit codes are not those that the help promises.
#[test]
fn the_process_ends_with_the_promised_exit_codes() {
    let exit_code = |flags: &[&str]| {
        let output = run(&Workshop::new(), flags);
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (code, output, errors) = exit_code(&["--set", "training.round=5"]);
    assert_eq!((code, output.as_str()), (Some(2), ""), "an unknown key");
    assert!(
        errors.starts_with("error: ") && errors.contains("did you mean `rounds`?"),
        "{errors}"
    );
    let (code, _, errors) = exit_code(&["--sed", "1"]);
    assert_eq!(code, Some(2), "an unknown flag: {errors}");
    let (code, output, errors) = exit_code(&[
        "--json",
        "--set",
        "method.fedrap.learning_rate_network=1e30",
    ]);
    assert_eq!(code, Some(1), "a diverged run");
    assert!(
        errors.starts_with("error: training diverged in round 1"),
        "{errors}"
    );
    assert_eq!(
        serde_json::from_str::<Value>(&output).unwrap()["complete"],
        false
    );
}

/// If this fails, whoever follows a run hears of it when it is over, or changes its result.
#[test]
fn who_follows_a_run_hears_of_each_round_before_the_report() {
    let (workshop, unfollowed) = (Workshop::new(), Workshop::new());
    unfollowed.run(unfollowed.small(), &[]).unwrap();
    let heard = Mutex::new(Vec::new());
    let follow = |followed: Followed<'_>| {
        assert!(!workshop.report().join("run.json").exists());
        heard.lock().unwrap().push(match followed {
            Followed::Begun { scenario, folder } => {
                assert_eq!(folder, Some(workshop.report().as_path()));
                scenario.name.clone()
            }
            Followed::Round { record, took } => {
                assert!(took.as_secs_f64() > 0.0);
                record.round.to_string()
            }
        });
    };
    let methods = methods();
    let mut session = Session::new(&methods);
    session.follow = Some(&follow);
    let arguments = workshop.arguments(workshop.small(), &[]);
    let finished = arguments.carry_out_in(&session).unwrap();
    assert!(finished.errors.is_empty());
    assert_eq!(*heard.lock().unwrap(), ["small", "1", "2", "3"]);
    let digest = |workshop: &Workshop| workshop.run_json()["digest"].clone();
    assert_eq!(digest(&workshop), digest(&unfollowed));
}
