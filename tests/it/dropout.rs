use fedrecsim::sim::outcome::SplitFigures;

use crate::support::{run, small};

/// Accuracy per round where everybody drops out, nearly all of them in the phase that `slow` makes the longest by
/// a factor of a million. The model is private, so what a device keeps is all that can change.
fn accuracies(slow: &str) -> Vec<SplitFigures> {
    let private = [
        "method.fedrap.tables=\"d-only\"",
        "method.fedrap.learning_rate_tables=100",
        "dataset.negatives.pool=\"unrated\"",
        "network.dropout=1",
        "network.rtt_ms=0",
        "training.rounds=4",
    ];
    let outcome = run(small(&[&private[..], &[slow]].concat()), 2);
    assert!(outcome.rounds.iter().all(|round| (round.dropped, round.aggregated) == (40, 0)), "{slow}");
    outcome.rounds.into_iter().map(|round| round.accuracy.unwrap()).collect()
}

/// If this fails, a device keeps what it never finished to compute, or never had downloaded.
#[test]
fn a_device_that_is_cut_off_before_its_training_ends_is_as_before() {
    for slow in ["network.downlink_median_mbit_per_s=1e-6", "devices.median_ns_per_row_visit=1e9"] {
        let accuracies = accuracies(slow);
        assert!(accuracies.iter().all(|accuracy| *accuracy == accuracies[0]), "{slow}: {accuracies:?}");
    }
}

/// If this fails, a device forgets what it has learned because its upload did not arrive.
#[test]
fn a_device_that_is_cut_off_while_it_uploads_keeps_what_it_has_learned() {
    let accuracies = accuracies("network.uplink_median_mbit_per_s=1e-6");
    let hr = |accuracy: &SplitFigures| accuracy.test["hr@10"];
    assert!(hr(&accuracies[3]) > hr(&accuracies[0]), "{accuracies:?}");
}
