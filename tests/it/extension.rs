use std::fs;
use std::num::NonZeroU32;
use std::sync::atomic::Ordering;

use fedrecsim::cli::{self, ResumeArgs, RunArgs, Session};
use fedrecsim_core::error::Error;
use fedrecsim_sim::sim::Stop;
use serde_json::Value;

use crate::checkpoints::{report, resume, resume_command, resuming};
use crate::support::{Workshop, assert_refusal, methods, run_command};

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

fn to_round(workshop: &Workshop, rounds: u32) -> ResumeArgs {
    ResumeArgs {
        rounds: NonZeroU32::new(rounds),
        ..resuming(&workshop.report(), &workshop.path(""))
    }
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
            let arguments = RunArgs {
                keep_checkpoint: true,
                ..workshop.arguments(workshop.small(), &overrides_begun)
            };
            run_command(&arguments).unwrap();
            assert!(
                without_checkpoints(report(&workshop.report())) == run_with(begun, overrides),
                "{overrides:?}"
            );
            // It is extended twice, as the extended run leaves a checkpoint, too.
            for longer in [5, 6] {
                assert!(
                    resume_command(&to_round(&workshop, longer))
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

/// If this fails, one checkpoint too many is kept, or none.
#[test]
fn a_complete_run_keeps_one_checkpoint_if_asked_to() {
    let workshop = Workshop::new();
    let mut arguments = workshop.arguments(workshop.small(), &[]);
    arguments.keep_checkpoint = true;
    arguments.options.checkpoint_every = NonZeroU32::new(1);
    run_command(&arguments).unwrap();
    let (_, files) = report(&workshop.report());
    let kept: Vec<&str> = files
        .iter()
        .map(|(name, _)| name.as_str())
        .filter(|name| name.starts_with("checkpoint-"))
        .collect();
    assert_eq!(kept, ["checkpoint-2.bin"]);
    let refused = resume(&workshop.report(), &workshop.path("")).unwrap_err();
    assert_refusal(
        &refused,
        &["there is nothing to resume", "--rounds N adds rounds"],
    );
    arguments.overwrite = false;
    assert_refusal(
        &run_command(&arguments).unwrap_err(),
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
    let arguments = RunArgs {
        keep_checkpoint: true,
        ..workshop.arguments(workshop.small(), &[])
    };
    run_command(&arguments).unwrap();
    let complete = fs::read(workshop.report().join("run.json")).unwrap();
    let mut extending = to_round(&workshop, 6);
    extending.options.max_wall_time = Some(std::time::Duration::ZERO);
    let stopped = resume_command(&extending)
        .unwrap()
        .errors
        .into_iter()
        .next();
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
    let mut arguments = workshop.arguments(workshop.small(), &["training.rounds=4"]);
    arguments.options.max_wall_time = Some(std::time::Duration::ZERO);
    run_command(&arguments).unwrap();
    assert_refusal(
        &resume_command(&to_round(&workshop, 1)).unwrap_err(),
        &["--rounds 1", "after round 1 already"],
    );
    // A run that was stopped may be made shorter, too; and longer again if its checkpoint is kept.
    assert!(
        resume_command(&to_round(&workshop, 2))
            .unwrap()
            .errors
            .is_empty()
    );
    assert!(report(&workshop.report()) == run_with(2, &[]));
    let refused = resume_command(&to_round(&workshop, 9)).unwrap_err();
    assert_refusal(
        &refused,
        &["there is no checkpoint in", "--keep-checkpoint"],
    );
    let kept = Workshop::new();
    let arguments = RunArgs {
        keep_checkpoint: true,
        ..kept.arguments(kept.small(), &[])
    };
    run_command(&arguments).unwrap();
    assert_refusal(
        &resume_command(&to_round(&kept, 3)).unwrap_err(),
        &["--rounds 3", "complete with its 3 rounds"],
    );
}

/// If this fails, a run that was stopped before it came to the rounds that were added goes on
/// without them.
#[test]
fn an_extension_that_was_stopped_at_once_keeps_its_rounds() {
    let workshop = Workshop::new();
    let arguments = RunArgs {
        keep_checkpoint: true,
        ..workshop.arguments(workshop.small(), &[])
    };
    run_command(&arguments).unwrap();
    let methods = methods();
    let session = Session::new(&methods);
    session.interrupted.store(true, Ordering::Relaxed);
    let stopped = cli::resume(&to_round(&workshop, 6), &session, None).unwrap();
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
    let mut arguments = workshop.arguments(workshop.small(), &["training.rounds=9"]);
    (arguments.options.max_wall_time, arguments.keep_checkpoint) =
        (Some(std::time::Duration::ZERO), true);
    run_command(&arguments).unwrap();
    for rounds in [2, 4] {
        assert!(
            resume_command(&to_round(&workshop, rounds))
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
