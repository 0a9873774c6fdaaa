//! What goes wrong on one of several ranks ends the run with a reason, and never hangs.

use fedrecsim_core::Error;
use fedrecsim_ranks::{self as ranks, Crew};
use fedrecsim_sim::{self as sim, Checkpoints, Outcome, RunControl, Simulation, Stop};

use super::harness::{Fault, Way, checkpoint};
use crate::support::{small, small_with, world};

/// If this fails, a run goes on with a part of another checkpoint, or without some of its users'
/// parameters.
#[test]
fn a_part_that_is_not_the_one_of_the_checkpoint_is_refused() {
    let scenario = small(&["training.rounds=4"]);
    let first = Way {
        ends_after: Some(2),
        ..Way::new(2, 1)
    };
    first.run(&scenario);
    first
        .files
        .lock()
        .unwrap()
        .get_mut(&(2, 1, 2))
        .unwrap()
        .push(0);
    let resumed = checkpoint(&first.files, (2, 2));
    let checkpoints = Checkpoints {
        resumed: Some(resumed),
        store: first.store(0),
    };
    let error = sim::run_from(
        world(scenario),
        &RunControl::with_threads(1),
        &mut (),
        checkpoints,
    )
    .unwrap_err();
    assert!(
        matches!(&error, Error::Unrestorable(text) if text.contains("part 1")),
        "{error}"
    );
}

/// If this fails, a run hangs or loses its finished rounds when a machine is lost, or nobody knows
/// what to go on from.
#[test]
fn the_loss_of_a_rank_ends_the_run_with_its_finished_rounds() {
    let scenario = small(&["training.rounds=50", "evaluation.every_rounds=50"]);
    let way = Way {
        fault: Some(Fault::Lost(2, 5)),
        ..Way::new(3, 1)
    };
    let outcome = way.run(&scenario);
    let stopped = outcome
        .stopped_by
        .as_ref()
        .map(ToString::to_string)
        .unwrap_or_default();
    for part in [
        "rank 2 of the run was lost",
        "the last checkpoint is after round 0",
    ] {
        assert!(stopped.contains(part), "{stopped}");
    }
    assert!(
        (1..50).contains(&outcome.rounds.len()),
        "{}",
        outcome.rounds.len()
    );
    assert!(
        outcome
            .stopped_by
            .is_some_and(|error| error.exit_code() == 1)
    );
}

/// If this fails, a training that fails on another machine ends the run in another way than it
/// would have here.
#[test]
fn a_training_that_diverges_elsewhere_ends_the_run_as_it_does_here() {
    let overrides = [
        "method.fedrap.objective=\"paper\"",
        "method.fedrap.lambda=1",
        "training.rounds=20",
    ];
    let scenario = small(&[&overrides[..], &["method.fedrap.learning_rate_network=100"]].concat());
    let outcome = sim::run(
        world(scenario.clone()),
        &RunControl::with_threads(1),
        &mut (),
    )
    .unwrap();
    let reason = |outcome: &Outcome| {
        outcome
            .stopped_by
            .as_ref()
            .map(ToString::to_string)
            .unwrap()
    };
    let elsewhere = Way::new(40, 1).run(&scenario);
    assert!(
        reason(&outcome).starts_with("training diverged"),
        "{}",
        reason(&outcome)
    );
    assert_eq!(
        (reason(&elsewhere), &elsewhere.digest),
        (reason(&outcome), &outcome.digest)
    );
}

/// If this fails, users are scored with other tables than in one process, and nothing says so.
#[test]
fn what_only_one_process_does_is_refused_before_the_first_round() {
    let scenario = small_with("pfedrec", &["evaluation.item_table=\"another-users\""]);
    let (of_zero, _of_one) = ranks::in_memory(1);
    let (control, crew) = (RunControl::with_threads(1), Crew::new(vec![of_zero]));
    let refused = ranks::run_to_end(
        world(scenario),
        &control,
        &mut (),
        Checkpoints::none(),
        crew,
    )
    .err();
    let told = refused
        .map(|error| (error.exit_code(), error.to_string()))
        .unwrap();
    assert!(
        told.0 == 2 && told.1.contains("another-users") && told.1.contains("one process"),
        "{told:?}"
    );
}

/// If this fails, all processes of a run wait for each other forever because one of them has
/// panicked.
#[test]
fn a_rank_that_panics_ends_the_run_with_its_reason() {
    let scenario = small(&["training.rounds=4"]);
    let way = Way {
        ends_after: Some(2),
        fault: Some(Fault::Panic(2)),
        ..Way::new(3, 1)
    };
    let error = way.end(&scenario, |simulation| {
        simulation.and_then(Simulation::finish).unwrap_err()
    });
    assert!(
        error
            .to_string()
            .contains("it panicked: this panic belongs to the test"),
        "{error}"
    );
    assert_eq!(error.exit_code(), 1);
}

/// If this fails, a disk that is full on one machine costs the finished rounds, or is told as a
/// defect of the simulator.
#[test]
fn a_rank_without_room_for_its_part_ends_the_run_with_its_finished_rounds() {
    let scenario = small(&["training.rounds=4"]);
    let way = Way {
        ends_after: Some(2),
        fault: Some(Fault::FullDisk(1)),
        ..Way::new(3, 1)
    };
    let outcome = way.run(&scenario);
    let stopped = outcome.stopped_by.unwrap();
    assert!(
        matches!(
            stopped.ended_by(),
            Some(Stop::CheckpointUnwritten { rounds: 2, .. })
        ),
        "{stopped}"
    );
    assert!(
        stopped.to_string().contains("no space left on device"),
        "{stopped}"
    );
    assert_eq!(outcome.rounds.len(), 2);
}

/// If this fails, a run hangs where rank 0 gives up while other ranks still wait to be rid of their
/// answers.
#[test]
fn rank_zero_that_gives_up_hears_the_others_out() {
    let scenario = small(&["training.rounds=4"]);
    for messages in 0..5 {
        let fault = Some(Fault::NoMemory(3, messages));
        let way = Way {
            waits: true,
            fault,
            ..Way::new(4, 1)
        };
        let ended = way.end(&scenario, |simulation| {
            simulation
                .and_then(Simulation::finish)
                .map(|outcome| outcome.stopped_by)
        });
        assert!(
            matches!(&ended, Err(Error::Memory(text)) if text.contains("as the test wants it")),
            "{ended:?}"
        );
    }
}
