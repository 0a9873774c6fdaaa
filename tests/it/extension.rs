use std::fs;
use std::sync::atomic::Ordering;

use fedrecsim::cli::Session;
use fedrecsim_core::Error;
use fedrecsim_sim::Stop;
use serde_json::Value;

use crate::checkpoints::{report, resume, resuming};
use crate::support::{Words, Workshop, assert_refusal, methods};

/// Returns the report and its files, without the command, which says how the run came to its
/// rounds.
fn run_with(rounds: u32, overrides: &[&str]) -> (String, Vec<(String, String)>) {
    let workshop = Workshop::new();
    let rounds = format!("training.rounds={rounds}");
    workshop
        .run(workshop.small(), &[overrides, &[rounds.as_str()]].concat())
        .unwrap();
    report(&workshop.report())
}

/// Returns the files of a report that are no checkpoints.
fn without_checkpoints(
    (run, files): (String, Vec<(String, String)>),
) -> (String, Vec<(String, String)>) {
    (
        run,
        files
            .into_iter()
            .filter(|(name, _)| !name.starts_with("checkpoint-"))
            .collect(),
    )
}

fn to_round(workshop: &Workshop, rounds: u32) -> Words {
    resuming(&workshop.report(), &workshop.path("")).and(&["--rounds", &rounds.to_string()])
}

/// Returns the words of a run that keeps its last checkpoint.
fn keeping(workshop: &Workshop, overrides: &[&str]) -> Words {
    let arguments = workshop.arguments(workshop.small(), overrides);
    arguments.and(&["--keep-checkpoint"])
}

/// If this fails, rounds that are added to a complete run come to another result than a run that
/// was begun with them. Most of these runs evaluate a last round that the longer run does not.
#[test]
fn a_complete_run_is_extended_to_the_result_of_a_longer_one() {
    let fedbuff = "training.mode={ fedbuff = { concurrency = 12, buffer = 4 } }";
    let cases: [&[&str]; 3] = [
        &["evaluation.every_rounds=4"],
        &[
            "method=\"fedmf\"",
            fedbuff,
            "network.preset=\"mobile-pessimistic\"",
            "evaluation.every_rounds=2",
        ],
        &[
            "method=\"pfedrec\"",
            "network.dropout=0.3",
            "training.participation={ share = 0.4 }",
        ],
    ];
    for overrides in cases {
        for begun in [1, 3] {
            let workshop = Workshop::new();
            let rounds = format!("training.rounds={begun}");
            let overrides_begun = [overrides, &[rounds.as_str()]].concat();
            keeping(&workshop, &overrides_begun).carry_out().unwrap();
            assert!(
                without_checkpoints(report(&workshop.report())) == run_with(begun, overrides),
                "{overrides:?}"
            );
            // It is extended twice, as the extended run leaves a checkpoint, too.
            for longer in [5, 6] {
                assert!(
                    to_round(&workshop, longer)
                        .carry_out()
                        .unwrap()
                        .errors
                        .is_empty()
                );
                let extended = without_checkpoints(report(&workshop.report()));
                let whole = run_with(longer, overrides);
                let digest =
                    |run: &str| serde_json::from_str::<Value>(run).unwrap()["digest"].clone();
                assert_eq!(
                    digest(&extended.0),
                    digest(&whole.0),
                    "{overrides:?} from {begun} to {longer}"
                );
                assert!(extended == whole, "{overrides:?} from {begun} to {longer}");
            }
        }
    }
}

/// If this fails, one checkpoint too many is kept, or one that rounds are added to or that another run
/// starts from is not.
#[test]
fn a_complete_run_keeps_one_checkpoint_if_asked_to() {
    let workshop = Workshop::new();
    let arguments = keeping(&workshop, &[]).and(&["--checkpoint-every", "1"]);
    arguments.carry_out().unwrap();
    let (_, files) = report(&workshop.report());
    let kept: Vec<&str> = files
        .iter()
        .map(|(name, _)| name.as_str())
        .filter(|name| name.starts_with("checkpoint-"))
        .collect();
    assert_eq!(kept, ["checkpoint-2.bin", "checkpoint-end.bin"]);
    let refused = resume(&workshop.report(), &workshop.path("")).unwrap_err();
    assert_refusal(
        &refused,
        &["there is nothing to resume", "--rounds N adds rounds"],
    );
    assert_refusal(
        &arguments.carry_out().unwrap_err(),
        &["the report folder", "is there already"],
    );
    assert!(
        workshop.report().join("checkpoint-2.bin").is_file(),
        "a refusal has removed it"
    );
}

/// If this fails, a run that was stopped while it was extended cannot be finished.
#[test]
fn an_extension_that_was_stopped_is_resumed() {
    let workshop = Workshop::new();
    keeping(&workshop, &[]).carry_out().unwrap();
    let complete = fs::read(workshop.report().join("run.json")).unwrap();
    let extending = to_round(&workshop, 6).and(&["--max-wall-time", "0s"]);
    let stopped = extending.carry_out().unwrap().errors.into_iter().next();
    assert!(
        matches!(
            stopped.as_ref().and_then(Error::ended_by),
            Some(Stop::TimeIsUp { rounds: 3 })
        ),
        "{stopped:?}"
    );
    // The folder is now as if the extension had been killed before it wrote its own report.
    fs::write(workshop.report().join("run.json"), complete).unwrap();
    assert!(
        resume(&workshop.report(), &workshop.path(""))
            .unwrap()
            .errors
            .is_empty()
    );
    assert!(without_checkpoints(report(&workshop.report())) == run_with(6, &[]));
}

#[test]
fn rounds_that_are_over_already_are_refused() {
    let workshop = Workshop::new();
    let arguments = workshop.arguments(workshop.small(), &["training.rounds=4"]);
    let in_no_time = arguments.and(&["--max-wall-time", "0s"]);
    in_no_time.carry_out().unwrap();
    assert_refusal(
        &to_round(&workshop, 1).carry_out().unwrap_err(),
        &["--rounds 1", "after round 1 already"],
    );
    // A run that was stopped may be made shorter, too; and longer again if its checkpoint is kept.
    assert!(
        to_round(&workshop, 2)
            .carry_out()
            .unwrap()
            .errors
            .is_empty()
    );
    assert!(report(&workshop.report()) == run_with(2, &[]));
    let refused = to_round(&workshop, 9).carry_out().unwrap_err();
    assert_refusal(
        &refused,
        &["there is no checkpoint in", "--keep-checkpoint"],
    );
    let kept = Workshop::new();
    keeping(&kept, &[]).carry_out().unwrap();
    assert_refusal(
        &to_round(&kept, 3).carry_out().unwrap_err(),
        &["--rounds 3", "complete with its 3 rounds"],
    );
}

/// If this fails, a run that was stopped before it came to the rounds that were added goes on
/// without them.
#[test]
fn an_extension_that_was_stopped_at_once_keeps_its_rounds() {
    let workshop = Workshop::new();
    keeping(&workshop, &[]).carry_out().unwrap();
    let methods = methods();
    let session = Session::new(&methods);
    session.interrupted.store(true, Ordering::Relaxed);
    let stopped = to_round(&workshop, 6).carry_out_in(&session).unwrap();
    assert!(matches!(stopped.errors[..], [Error::Interrupted]));
    assert_eq!(workshop.run_json()["rounds"], 2);
    assert!(
        resume(&workshop.report(), &workshop.path(""))
            .unwrap()
            .errors
            .is_empty()
    );
    assert!(without_checkpoints(report(&workshop.report())) == run_with(6, &[]));
}

/// If this fails, a run that was made shorter counts as one of as many rounds as it was to have at
/// first.
#[test]
fn a_run_that_was_made_shorter_is_extended_again() {
    let workshop = Workshop::new();
    let arguments = keeping(&workshop, &["training.rounds=9"]);
    let in_no_time = arguments.and(&["--max-wall-time", "0s"]);
    in_no_time.carry_out().unwrap();
    for rounds in [2, 4] {
        assert!(
            to_round(&workshop, rounds)
                .carry_out()
                .unwrap()
                .errors
                .is_empty()
        );
        assert!(
            without_checkpoints(report(&workshop.report())) == run_with(rounds, &[]),
            "{rounds}"
        );
    }
}
