use std::collections::BTreeSet;

use fedrecsim_core::{Error, InvitationId, UserId};
use fedrecsim_data::dataset::negatives::{NegativeSampler, Samples};
use fedrecsim_scenario::Scenario;
use fedrecsim_sim::outcome::RoundRecord;
use fedrecsim_sim::{self as sim, Outcome, RunControl, Stop};

use crate::support::{assert_balanced, run, small_with, world};

/// Overrides that make all users alike: 8 Mbit/s down, 2 Mbit/s up, 30 ms of round trip, 1
/// microsecond per row visit.
const ALIKE: [&str; 4] = [
    "network.rates.lognormal.downlink_median_mbit_per_s=8",
    "network.rates.lognormal.uplink_median_mbit_per_s=2",
    "network.rtt_ms=30",
    "devices.speed.lognormal.median_ns_per_row_visit=1000",
];

/// Bytes of the header and the values of a dense frame of 150 rows of 32 values.
const FRAME_BYTES: f64 = 28.0 + 4.0 * 150.0 * 32.0;

/// Returns the most row visits that a user of a FedMF scenario has in `round`. One epoch in one
/// batch visits every distinct item of the samples once.
fn most_row_visits(scenario: &Scenario, round: u32) -> usize {
    let world = world(scenario.clone());
    let mut sampler = NegativeSampler::new(world.dataset.items(), &scenario.dataset.negatives);
    let mut samples = Samples::default();
    let visits = |user: usize| {
        sampler
            .draw(
                &world.dataset,
                world.streams,
                UserId::from(user),
                InvitationId(round),
                &mut samples,
            )
            .unwrap();
        samples.items.iter().collect::<BTreeSet<_>>().len()
    };
    (0..world.dataset.users()).map(visits).max().unwrap()
}

/// Returns the time of a round without its transfers: twice the latency, and the slowest user's
/// work.
fn latency_and_work_s(scenario: &Scenario, round: u32) -> f64 {
    2.0 * 0.015 + most_row_visits(scenario, round) as f64 * 1e-6
}

fn assert_seconds(measured: f64, expected: f64) {
    // Times are integer nanoseconds, rounded a few times on the way.
    assert!(
        (measured - expected).abs() < 1e-8,
        "{measured} s instead of {expected} s"
    );
}

/// If this fails, virtual time is not what links and devices say.
#[test]
fn a_round_takes_latency_and_size_over_rate_and_work_times_speed() {
    let scenario = small_with(
        "fedmf",
        &[&ALIKE[..], &["method.fedmf.batch_size=100000"]].concat(),
    );
    let outcome = run(scenario.clone(), 2);
    let transfers = FRAME_BYTES * 8.0 / 8e6 + FRAME_BYTES * 8.0 / 2e6;
    let mut now = 0.0;
    for (round, record) in outcome.rounds.iter().enumerate() {
        let expected = latency_and_work_s(&scenario, round as u32) + transfers;
        assert_seconds(record.duration_s, expected);
        now += expected;
        assert_seconds(record.virtual_time_s, now);
    }
    // Histograms keep three significant digits.
    let median = outcome.durations["download"].p50_s;
    assert!(
        (median / (0.015 + FRAME_BYTES * 8.0 / 8e6) - 1.0).abs() < 2e-3,
        "median download {median} s"
    );
    assert_eq!(outcome.durations["upload"].count, 3 * 40);
}

/// The start-up of a transfer over TCP in a round trip of 30 ms, and the part of a rate that is
/// payload, after LV08.
const TCP: (f64, f64) = (13.01 * 0.015, 0.97);

/// If this fails, a round over TCP does not take two start-ups, payload over the rate that is left
/// for it, and work; or takes another time where transfers have connections of a server that holds
/// nobody back.
#[test]
fn a_round_over_tcp_takes_its_start_ups_and_the_bytes_beside_the_headers() {
    let tcp = [
        &ALIKE[..],
        &["method.fedmf.batch_size=100000", "network.sharing=\"tcp\""],
    ]
    .concat();
    let scenario = small_with("fedmf", &tcp);
    let outcome = run(scenario.clone(), 2);
    let (start_up, payload) = TCP;
    let transfers = FRAME_BYTES * 8.0 / (payload * 8e6) + FRAME_BYTES * 8.0 / (payload * 2e6);
    for (round, record) in outcome.rounds.iter().enumerate() {
        let expected =
            2.0 * start_up + transfers + most_row_visits(&scenario, round as u32) as f64 * 1e-6;
        assert_seconds(record.duration_s, expected);
    }
    let served = run(
        small_with(
            "fedmf",
            &[&tcp[..], &["network.server.connections=40"]].concat(),
        ),
        2,
    );
    // What is watched at the server's link is another thing where it has a limit.
    let but_for_the_link = |outcome: &Outcome| -> Vec<RoundRecord> {
        outcome
            .rounds
            .iter()
            .map(|round| RoundRecord {
                network: Default::default(),
                ..round.clone()
            })
            .collect()
    };
    assert_eq!(but_for_the_link(&served), but_for_the_link(&outcome));
    // A window of 4 MiB in a round trip of 60 s is 559 kbit/s.
    let far = run(
        small_with("fedmf", &[&tcp[..], &["network.rtt_ms=60000"]].concat()),
        2,
    );
    let window = 0.97 * 4_194_304.0 * 8.0 / 60.0;
    let expected = 2.0 * 13.01 * 30.0 + 2.0 * FRAME_BYTES * 8.0 / window;
    let work = most_row_visits(&scenario, 0) as f64 * 1e-6;
    assert!(
        (far.rounds[0].duration_s - expected - work).abs() < 1e-5,
        "{} s",
        far.rounds[0].duration_s
    );
}

/// If this fails, transfers over TCP do not share the server's link, or share more than its
/// payload.
#[test]
fn downloads_over_tcp_that_are_alike_share_the_payload_of_the_server_equally() {
    let overrides = [
        &ALIKE[..],
        &[
            "network.sharing=\"tcp\"",
            "network.server.downlink_mbit_per_s=20",
            "training.rounds=1",
        ],
    ];
    let outcome = run(small_with("fedmf", &overrides.concat()), 2);
    let (start_up, payload) = TCP;
    let expected = start_up + 40.0 * FRAME_BYTES * 8.0 / (payload * 20e6);
    for found in [
        outcome.durations["download"].p50_s,
        outcome.durations["download"].max_s,
    ] {
        assert!(
            (found / expected - 1.0).abs() < 2e-3,
            "{found} s instead of {expected} s"
        );
    }
    assert_balanced(&outcome);
}

/// If this fails, who is near the server has no more of its link than who is far, as with equal
/// shares.
#[test]
fn over_tcp_short_round_trips_have_more_of_a_full_link() {
    let spread = |sharing: &str| {
        let sharing = format!("network.sharing=\"{sharing}\"");
        let links = [
            "network.rtt_ms=40",
            "network.rtt_log_sigma=1.0",
            "network.server.downlink_mbit_per_s=20",
        ];
        let outcome = run(
            small_with(
                "fedmf",
                &[&links[..], &[&sharing, "training.rounds=1"]].concat(),
            ),
            2,
        );
        assert_balanced(&outcome);
        let downloads = outcome.durations["download"];
        downloads.max_s - downloads.p50_s
    };
    // Equal shares end together, but for the latency.
    assert!(
        spread("equal") < 0.4 && spread("tcp") > 2.0 * spread("equal"),
        "{} {}",
        spread("equal"),
        spread("tcp")
    );
}

/// If this fails, a link's rate changes more than its transfers.
#[test]
fn a_slower_link_lengthens_a_round_by_what_the_bytes_take_longer() {
    let batch = ["method.fedmf.batch_size=100000"];
    for (slower, difference) in [
        (
            "network.rates.lognormal.downlink_median_mbit_per_s=2",
            FRAME_BYTES * 8.0 * (1.0 / 2e6 - 1.0 / 8e6),
        ),
        (
            "network.rates.lognormal.uplink_median_mbit_per_s=0.5",
            FRAME_BYTES * 8.0 * (1.0 / 0.5e6 - 1.0 / 2e6),
        ),
        ("network.rtt_ms=130", 0.1),
    ] {
        let base = run(small_with("fedmf", &[&ALIKE[..], &batch].concat()), 2);
        let slow = run(
            small_with("fedmf", &[&ALIKE[..], &batch, &[slower]].concat()),
            2,
        );
        for (base, slow) in base.rounds.iter().zip(&slow.rounds) {
            assert_seconds(slow.duration_s - base.duration_s, difference);
        }
    }
}

/// If this fails, virtual time depends on the host, or work on the link.
#[test]
fn a_device_half_as_fast_computes_twice_as_long() {
    let compute = |speed: &str| {
        run(small_with("pfedrec", &[&ALIKE[..], &[speed]].concat()), 2).durations["compute"]
    };
    let (fast, slow) = (
        compute("devices.speed.lognormal.median_ns_per_row_visit=1000"),
        compute("devices.speed.lognormal.median_ns_per_row_visit=2000"),
    );
    assert_eq!(fast.count, slow.count);
    assert!(
        (slow.max_s / fast.max_s - 2.0).abs() < 5e-3,
        "{fast:?} {slow:?}"
    );
}

/// If this fails, sparse frames are charged as if they were dense.
#[test]
fn fewer_bytes_take_less_time() {
    let duration = |uplink: &str| {
        run(small_with("fedmf", &[&ALIKE[..], &[uplink]].concat()), 2).rounds[0].duration_s
    };
    assert!(duration("codec.uplink=\"rows-f32\"") < duration("codec.uplink=\"dense-f32\""));
}

/// If this fails, reaching the end of the clock is reported as a defect of the simulator, or costs
/// the rounds before.
#[test]
fn a_run_that_reaches_the_end_of_the_clock_says_so_and_keeps_its_rounds() {
    // An upload takes 153824 s. After eighteen rounds 443975241 s are left of 2^64 ns, after the
    // next one some hours.
    let first: Vec<u32> = (0..18).collect();
    let delays = format!(
        "faults=[{{ effect = {{ delay_s = 1e9 }}, direction = \"up\", users = {{ numbers = {first:?} }} }}, \
         {{ effect = {{ delay_s = 443_800_000.0 }}, direction = \"up\", users = {{ numbers = [18] }} }}]"
    );
    let slow = [
        "network.rates.lognormal.uplink_median_mbit_per_s=1e-6",
        "training.participation={ cohort = 1 }",
        "training.client_selection=\"round-robin\"",
        "training.rounds=25",
    ];
    // With work of 1e5 s, 51417 s are left for the twentieth round.
    let before_work = delays.replace("443_800_000.0", "441_870_000.0");
    let work = "devices.fixed_ms_per_participation=1e8";
    let deadline = "training.mode={ semi-synchronous = { deadline_s = 1e9 } }";
    for server in [&[][..], &["network.server.uplink_mbit_per_s=1e-6"]] {
        // The end of the clock is passed by the transfer itself, by a delay after it, by work, or by
        // a deadline.
        for (more, whole_rounds) in [
            (&[&*delays][..], 19),
            (&["faults=[{ effect = { delay_s = 1e9 } }]"], 9),
            (&[&*before_work, work], 19),
            (&[deadline, "faults=[{ effect = { delay_s = 1e9 } }]"], 18),
        ] {
            let world = world(small_with("fedmf", &[&slow, server, more].concat()));
            let outcome = sim::run(world, &RunControl::with_threads(1), &mut ()).unwrap();
            let stopped_by = outcome.stopped_by.as_ref();
            assert!(
                matches!(stopped_by.and_then(Error::ended_by), Some(Stop::TimeOverflow { round, .. }) if round.0 == whole_rounds),
                "{more:?}, {server:?}: {stopped_by:?}"
            );
            assert_eq!(outcome.rounds.len(), whole_rounds as usize, "{server:?}");
            assert_balanced(&outcome);
        }
    }
}
