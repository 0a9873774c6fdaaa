//! Runs in every mode, held against the simulation and against their replay.

use super::ways::on_breaking_ways;
use super::*;

/// If this fails, sockets lead to another model than the simulation, or carry other frames than its
/// ledger has.
#[test]
fn a_run_over_sockets_comes_to_the_state_of_the_simulation() {
    for text in [
        "",
        "method=\"metamf\"",
        "method=\"adafedrec\"",
        "method=\"fedpergnn\"",
        "codec.downlink={ select = \"needed-rows\" }",
        "codec.uplink={ delta = true, values = \"int4\", error_feedback = true }\n\
         codec.downlink={ delta = true, values = \"int8\" }",
    ] {
        let (outcome, heard) = served(text, |address| {
            thread::scope(|scope| {
                for users in [0..9, 9..10, 10..30] {
                    scope.spawn(move || device_process(address, users).unwrap());
                }
            });
        });
        let simulated = simulated(text);
        assert!(simulated.state_digest.is_some());
        assert_eq!(outcome.state_digest, simulated.state_digest, "{text}");
        assert_eq!(outcome.bytes, simulated.bytes, "{text}");
        assert_eq!(
            heard.waited_for[0], "0..29",
            "the server says whom it waits for"
        );
    }
}

/// If this fails, those who come later are there from the start in real time, and nobody says so.
#[test]
fn newcomers_are_refused_in_real_time() {
    let alone = "training.rounds=1";
    let (_, heard) = served(alone, |address| device_process(address, 0..30).unwrap());
    for joins in [
        "joins={ users = { share = 0.2 }, at_s = 1 }",
        "joins={ items = { share = 0.2 }, at_s = 1, stage_s = 1 }",
    ] {
        let (refused, _) = served_keeping(joins, Kept::default(), |_| ());
        let recorded = Recorded::read("arrivals.jsonl", heard.arrivals.as_bytes(), alone);
        let (world, control) = (world(joins).unwrap().0, RunControl::with_threads(1));
        let replayed = replay(world, &control, &recorded.unwrap(), &mut ());
        for refused in [refused, replayed] {
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains("`run` simulates newcomers"), "{refused}");
        }
    }
}

/// If this fails, a model of a deployment depends on something that its server does not see, or a
/// mode does not end where devices are other processes.
#[test]
fn every_mode_over_sockets_is_repeated_from_what_arrived() {
    // Its devices are scored in every round, and some are cancelled before they ask.
    let asking = format!(
        "{}\ncodec.downlink={{ select = \"needed-rows\" }}",
        MODES[0]
    );
    for mode in MODES.into_iter().chain([&asking[..]]) {
        let text = format!("{mode}\ntraining.rounds=5");
        let (outcome, heard) = served(&text, |address| {
            thread::scope(|scope| {
                for users in [0..9, 9..10, 10..30] {
                    scope.spawn(move || device_process(address, users).unwrap());
                }
            });
        });
        assert!(outcome.stopped_by.is_none(), "{text}");
        check_replay(&text, &outcome, &heard);
    }
}

/// If this fails, a connection that breaks ends a run that waits for nobody in particular, an update
/// counts twice, or a device comes back with another state than the server believes.
#[test]
fn in_every_mode_a_broken_connection_is_a_dropout_and_leaves_the_state_known() {
    for mode in MODES {
        let text = format!("{mode}\ntraining.rounds=12");
        let (outcome, heard) = served(&text, |address| {
            thread::scope(|scope| {
                scope.spawn(move || device_process(address, 0..10).unwrap());
                on_breaking_ways(address, 10..30, [1_500, 4_000]);
            });
        });
        assert!(outcome.stopped_by.is_none(), "{text}");
        let aggregated: u32 = outcome.rounds.iter().map(|round| round.aggregated).sum();
        let sound: u64 = outcome
            .rounds
            .iter()
            .map(|round| u64::from(round.late))
            .sum();
        assert!(
            u64::from(aggregated) + sound <= u64::from(uploads(&heard.arrivals)),
            "{text}"
        );
        check_replay(&text, &outcome, &heard);
    }
}

/// If this fails, a connection that breaks ends the run, or an update counts twice.
#[test]
fn a_process_whose_connection_breaks_comes_back_with_its_devices() {
    let (outcome, _) = served("training.rounds=6", |address| {
        thread::scope(|scope| {
            scope.spawn(move || device_process(address, 0..10).unwrap());
            on_breaking_ways(address, 10..30, [6_000, 9_000]);
        });
    });
    assert!(outcome.stopped_by.is_none());
    for round in &outcome.rounds {
        assert_eq!(round.aggregated + round.lost, round.invited, "{round:?}");
    }
    assert!(outcome.rounds.last().unwrap().aggregated > 0);
}
