use fedrecsim_sim::outcome::SplitAccuracy;

use crate::support::{assert_balanced, run, small, small_with};

/// Returns the accuracy of each round when everybody drops out, nearly all of them in the phase
/// that `slow` makes the longest by a factor of a million. The model is private, so only what a
/// device keeps can change.
fn accuracies(slow: &str) -> Vec<SplitAccuracy> {
    let private = [
        "method.fedrap.tables=\"d-only\"",
        "method.fedrap.learning_rate_tables=100",
        "dataset.negatives.pool=\"unrated\"",
        "network.dropout=1",
        "network.rtt_ms=0",
        "training.rounds=4",
    ];
    let outcome = run(small(&[&private[..], &[slow]].concat()), 2);
    assert!(
        outcome
            .rounds
            .iter()
            .all(|round| (round.lost, round.aggregated) == (40, 0)),
        "{slow}"
    );
    outcome
        .rounds
        .into_iter()
        .map(|round| round.accuracy.unwrap())
        .collect()
}

/// If this fails, a device keeps a training that it never finished, or a download that never
/// arrived.
#[test]
fn a_device_that_is_cut_off_before_its_training_ends_is_as_before() {
    for slow in [
        "network.rates.lognormal.downlink_median_mbit_per_s=1e-6",
        "devices.speed.lognormal.median_ns_per_row_visit=1e9",
    ] {
        let accuracies = accuracies(slow);
        assert!(
            accuracies.iter().all(|accuracy| *accuracy == accuracies[0]),
            "{slow}: {accuracies:?}"
        );
    }
}

/// If this fails, a device forgets what it has learned because its upload did not arrive.
#[test]
fn a_device_that_is_cut_off_while_it_uploads_keeps_what_it_has_learned() {
    let accuracies = accuracies("network.rates.lognormal.uplink_median_mbit_per_s=1e-6");
    let hr = |accuracy: &SplitAccuracy| accuracy.test["hr@10"];
    assert!(hr(&accuracies[3]) > hr(&accuracies[0]), "{accuracies:?}");
}

/// If this fails, a frame that has just arrived is booked as lost, or stays on its way forever.
/// With phases of a nanosecond each, most cut-offs fall on the very instant when a phase ends.
#[test]
fn a_cut_off_at_the_instant_of_an_arrival_comes_after_it() {
    let instant = [
        "network.rates.lognormal.downlink_median_mbit_per_s=1e9",
        "network.rates.lognormal.uplink_median_mbit_per_s=1e9",
        "network.rtt_ms=0",
        "network.dropout=0.9",
        "devices.speed.lognormal.median_ns_per_row_visit=1e-3",
        "training.rounds=5",
    ];
    let outcome = run(small_with("fedmf", &instant), 2);
    assert_balanced(&outcome);
    assert_eq!(
        (outcome.bytes.up.in_flight, outcome.bytes.down.in_flight),
        (0, 0)
    );
    assert!(
        outcome
            .rounds
            .iter()
            .all(|round| round.virtual_time_s < 1e-6 && round.lost > 20)
    );
}
