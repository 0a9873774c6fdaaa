use fedrecsim_scenario::Scenario;
use fedrecsim_sim::Outcome;

use crate::support::{run, small_with};

/// Bits of a dense frame: the header, and 150 rows of 4 values.
const FRAME_BITS: f64 = 8.0 * (28.0 + 4.0 * 150.0 * 4.0);

const LATENCY_S: f64 = 0.015;

/// Overrides that make all users alike, with 8 Mbit/s down and 2 Mbit/s up, and devices that train
/// in a nanosecond.
const ALIKE: [&str; 7] = [
    "method.fedmf.latent_dimension=4",
    // The rate is so small that nothing diverges in some hundred rounds.
    "method.fedmf.learning_rate_items=0.01",
    "evaluation.every_rounds=1000000",
    "devices.speed.lognormal.median_ns_per_row_visit=1e-3",
    "network.rtt_ms=30",
    "network.rates.lognormal.downlink_median_mbit_per_s=8",
    "network.rates.lognormal.uplink_median_mbit_per_s=2",
];

/// Links of clients that are never the bottleneck.
const WIDE: [&str; 2] = [
    "network.rates.lognormal.downlink_median_mbit_per_s=1e6",
    "network.rates.lognormal.uplink_median_mbit_per_s=1e6",
];

fn scenario(overrides: &[&[&str]]) -> Scenario {
    small_with("fedmf", &[&ALIKE, &overrides.concat()[..]].concat())
}

#[track_caller]
fn assert_seconds(measured: f64, expected: f64) {
    // Times are integer nanoseconds, rounded once for every transfer that ends, and training takes
    // a nanosecond.
    assert!(
        (measured - expected).abs() < 1e-7,
        "{measured} s instead of {expected} s"
    );
}

/// Checks a duration of a histogram, which keeps three significant digits.
#[track_caller]
fn assert_recorded(measured: f64, expected: f64) {
    assert!(
        (measured / expected - 1.0).abs() < 2e-3,
        "{measured} s instead of {expected} s"
    );
}

/// If this fails, a user who has the server to himself is held back by it, or is faster than it.
#[test]
fn a_transfer_on_an_idle_link_takes_latency_and_size_over_the_smaller_rate() {
    let one = ["training.participation={ cohort = 1 }", "training.rounds=1"];
    for (down, up, slowest_down, slowest_up) in [
        (1000.0, 1000.0, 8e6, 2e6),
        (1.0, 0.5, 1e6, 0.5e6),
        (8.0, 2.0, 8e6, 2e6),
    ] {
        let server = [
            format!("network.server.downlink_mbit_per_s={down}"),
            format!("network.server.uplink_mbit_per_s={up}"),
        ];
        let outcome = run(scenario(&[&one, &server.each_ref().map(String::as_str)]), 1);
        let expected = 2.0 * LATENCY_S + FRAME_BITS / slowest_down + FRAME_BITS / slowest_up;
        assert_seconds(outcome.rounds[0].duration_s, expected);
    }
}

/// If this fails, a link that is wide enough for all costs time.
#[test]
fn a_server_wide_enough_for_all_changes_no_duration() {
    let alone = run(scenario(&[]), 2);
    let wide = [
        "network.server.downlink_mbit_per_s=320",
        "network.server.uplink_mbit_per_s=80",
    ];
    let shared = run(scenario(&[&wide, &["network.server.connections=40"]]), 2);
    for (alone, shared) in alone.rounds.iter().zip(&shared.rounds) {
        assert_seconds(shared.duration_s, alone.duration_s);
    }
    assert_eq!(alone.model, shared.model);
}

/// If this fails, the server's link is not shared equally, or not used fully.
#[test]
fn equal_transfers_on_the_servers_link_end_together_at_all_their_bytes_over_its_rate() {
    let server = [
        "network.server.downlink_mbit_per_s=8",
        "network.server.uplink_mbit_per_s=2",
    ];
    for n in [2.0, 7.0, 40.0] {
        let cohort = format!("training.participation={{ cohort = {n} }}");
        let outcome = run(scenario(&[&WIDE, &server, &[&cohort]]), 2);
        let (down, up) = (
            LATENCY_S + n * FRAME_BITS / 8e6,
            LATENCY_S + n * FRAME_BITS / 2e6,
        );
        for round in &outcome.rounds {
            assert_seconds(round.duration_s, down + up);
        }
        for (phase, expected) in [("download", down), ("upload", up)] {
            let recorded = outcome.durations[phase];
            assert_eq!(recorded.count, 3 * n as u64, "{phase}");
            assert_recorded(recorded.mean_s, expected);
            assert_recorded(recorded.max_s, expected);
        }
    }
}

/// If this fails, more transfers are in progress than the server has connections, or a free one is
/// not taken.
#[test]
fn a_cap_on_connections_serves_equal_transfers_in_batches() {
    for connections in [1, 10, 16, 40, 100] {
        let cap = format!("network.server.connections={connections}");
        let outcome = run(scenario(&[&[&cap], &["training.rounds=1"]]), 2);
        let transfer = FRAME_BITS / 8e6;
        // A user who is last in line comes with the last batch; batch b waits for b - 1 others.
        let batch_of = |place: u32| f64::from(place / connections + 1);
        let downloads = outcome.durations["download"];
        assert_recorded(downloads.max_s, LATENCY_S + batch_of(39) * transfer);
        let batches: f64 = (0..40).map(batch_of).sum();
        assert_recorded(downloads.mean_s, LATENCY_S + batches / 40.0 * transfer);
    }
}

/// If this fails, uploads overtake downloads that were in line before them, or a connection stays
/// with a frame that has left the sender.
#[test]
fn with_a_cap_that_divides_the_cohort_all_downloads_go_before_all_uploads() {
    // An upload takes longer than the latency, so that the next ones are in line when a batch has
    // ended.
    let outcome = run(
        scenario(&[&[
            "network.server.connections=10",
            "network.rtt_ms=1",
            "training.rounds=1",
        ]]),
        2,
    );
    assert_seconds(
        outcome.rounds[0].duration_s,
        4.0 * FRAME_BITS / 8e6 + 4.0 * FRAME_BITS / 2e6 + 0.0005,
    );
}

/// Returns mean and variance of the largest of n independent lognormals with median 1, by
/// integration over the normal.
fn largest_of(n: i32, sigma: f64) -> (f64, f64) {
    let step = 1e-3;
    let (mut below, mut mean, mut square) = (0.0, 0.0, 0.0);
    for number in 0..16_000 {
        let z = -8.0 + (f64::from(number) + 0.5) * step;
        let share = (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt() * step;
        // This is the normal's distribution function in the middle of the step.
        let density = f64::from(n) * (below + 0.5 * share).powi(n - 1) * share;
        let value = (sigma * z).exp();
        below += share;
        mean += density * value;
        square += density * value * value;
    }
    (mean, square - mean * mean)
}

/// If this fails, a round does not wait for its slowest participation, or transfers vary otherwise
/// than stated.
#[test]
fn a_round_lasts_as_long_as_the_largest_of_its_lognormal_uploads() {
    let sigma = 0.8;
    assert!(
        (largest_of(1, sigma).0 / (0.5 * sigma * sigma).exp() - 1.0).abs() < 1e-6,
        "the mean of a lognormal"
    );
    let rounds = 200;
    let varying = [
        "network.rates.lognormal.downlink_median_mbit_per_s=1e9",
        "network.rtt_ms=0",
        "network.rates.lognormal.transfer_log_sigma=0.8",
    ];
    for n in [1, 4, 16] {
        let cohort = format!("training.participation={{ cohort = {n} }}");
        let rounds_key = format!("training.rounds={rounds}");
        let outcome = run(scenario(&[&varying, &[&cohort, &rounds_key]]), 2);
        let mean = outcome.rounds.last().unwrap().virtual_time_s / f64::from(rounds);
        let (expected, variance) = largest_of(n, sigma);
        let standard_error = (variance / f64::from(rounds)).sqrt();
        let relative = mean / (FRAME_BITS / 2e6);
        assert!(
            (relative - expected).abs() < 3.0 * standard_error,
            "{n} uploads: {relative} of the median time instead of {expected} +- {standard_error}"
        );
    }
}

/// Runs 200 steps of the server with eight clients at a time, whose links and devices vary.
fn asynchronous(overrides: &[&str]) -> Outcome {
    let mode = [
        "training.mode={ fedbuff = { concurrency = 8, buffer = 4 } }",
        "training.rounds=200",
    ];
    let varying = [
        "network.rates.lognormal.transfer_log_sigma=0.5",
        "devices.speed.lognormal.median_ns_per_row_visit=2e5",
        "devices.speed.lognormal.log_sigma=0.5",
    ];
    run(scenario(&[&mode, &varying, overrides]), 2)
}

/// If this fails, fewer or more clients take part at a time than the scenario says, or some of a
/// participation's time belongs to none of its phases.
#[test]
fn in_the_asynchronous_mode_throughput_times_time_in_the_system_is_the_concurrency() {
    let server = [
        "network.server.uplink_mbit_per_s=4",
        "network.server.connections=5",
    ];
    for overrides in [&[][..], &server] {
        let outcome = asynchronous(overrides);
        let time = outcome.rounds.last().unwrap().virtual_time_s;
        let phases = ["download", "compute", "upload"].map(|phase| outcome.durations[phase]);
        // Little's law holds for long times only: a participation that has not ended counts in no
        // phase, and is no longer than the longest.
        let open_s = 8.0 * time
            - phases
                .iter()
                .map(|phase| phase.mean_s * phase.count as f64)
                .sum::<f64>();
        let longest = phases.iter().map(|phase| phase.max_s).fold(0.0, f64::max);
        let rounding = 1e-3 * 8.0 * time;
        assert!(
            (-rounding..8.0 * longest + rounding).contains(&open_s),
            "{open_s} s of 8 clients, at most {longest} each"
        );
        let throughput = phases[2].count as f64 / time;
        let in_system: f64 = phases.iter().map(|phase| phase.mean_s).sum();
        assert!(
            (throughput * in_system - 8.0).abs() < 0.16,
            "{throughput} a second x {in_system} s"
        );
        assert_eq!(phases[2].count, 4 * 200, "{overrides:?}");
    }
}

/// If this fails, the server's link carries more than it can, or idles while frames wait for it.
#[test]
fn a_saturated_server_takes_in_its_rate_over_the_size_of_an_update() {
    let server = [
        "network.server.uplink_mbit_per_s=0.2",
        "devices.speed.lognormal.median_ns_per_row_visit=2e3",
    ];
    let outcome = asynchronous(&server);
    let seconds = |round: usize| outcome.rounds[round].virtual_time_s;
    let throughput = 4.0 * 180.0 / (seconds(199) - seconds(19));
    let capacity = 0.2e6 / FRAME_BITS;
    assert!(
        (throughput / capacity - 1.0).abs() < 0.01,
        "{throughput} updates a second, room for {capacity}"
    );
}
