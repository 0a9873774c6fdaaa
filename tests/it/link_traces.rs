use std::io::Cursor;
use std::sync::Arc;

use fedrecsim_core::Streams;
use fedrecsim_data::dataset;
use fedrecsim_data::population::Traces;
use fedrecsim_methods::registry::{METHODS, check};
use fedrecsim_model::ArchiveReader;
use fedrecsim_scenario::Scenario;
use fedrecsim_sim::testing::CheckpointsInMemory;
use fedrecsim_sim::{self as sim, Checkpoints, Outcome, RunControl, World};

use crate::support::{Workshop, assert_balanced, run, small_with};

const HEADER: &str = "user,time_s,down_mbit_per_s,up_mbit_per_s\n";

/// Bytes of a dense frame: the header, and 150 rows of 32 values.
const FRAME_BYTES: f64 = 28.0 + 4.0 * 150.0 * 32.0;

/// The key that names the trace of these tests.
const TRACE: &str = "network.rates.trace={ path = \"links.csv\" }";

/// Returns the world of a scenario whose trace of links has these lines.
fn world(scenario: Scenario, lines: &str) -> World {
    let workshop = Workshop::new();
    workshop.write("links.csv", &format!("{HEADER}{lines}"));
    let dataset = dataset::load(&scenario.dataset, &[], Streams::new(scenario.seed)).unwrap();
    let traces = Traces::load(&scenario, &dataset, &[workshop.path("")]).unwrap();
    World::with_traces(
        check(scenario, METHODS).unwrap(),
        Arc::new(dataset),
        &traces,
    )
    .unwrap()
}

fn traced(overrides: &[&str], lines: &str) -> Outcome {
    let scenario = small_with("fedmf", &[&[TRACE], overrides].concat());
    let outcome = sim::run(
        world(scenario, lines),
        &RunControl::with_threads(2),
        &mut (),
    )
    .unwrap();
    assert!(outcome.stopped_by.is_none(), "{:?}", outcome.stopped_by);
    assert_balanced(&outcome);
    outcome
}

/// If this fails, a rate from a file is another one than the same rate from a key.
#[test]
fn a_trace_of_one_rate_is_that_rate() {
    let rates = [
        "network.rates.lognormal.downlink_median_mbit_per_s=8",
        "network.rates.lognormal.uplink_median_mbit_per_s=2",
    ];
    for server in [
        &[][..],
        &[
            "network.server.downlink_mbit_per_s=30",
            "network.server.connections=20",
        ],
    ] {
        for sharing in ["network.sharing=\"equal\"", "network.sharing=\"tcp\""] {
            let others = [
                server,
                &["network.rtt_ms=30", "network.dropout=0.2", sharing],
            ]
            .concat();
            let drawn = run(small_with("fedmf", &[&rates[..], &others].concat()), 2);
            assert_eq!(
                traced(&others, "0,0,8,2\n").digest,
                drawn.digest,
                "{others:?}"
            );
            // A change to the same rate changes nothing.
            assert_eq!(
                traced(&others, "0,0,8,2\n0,0.011,8,2\n0,0.012,8,2\n").digest,
                drawn.digest,
                "{others:?}"
            );
        }
    }
}

/// If this fails, a transfer keeps its first rate, or one on a shared link misses a change.
#[test]
fn a_transfer_goes_on_at_the_rate_that_its_link_has_by_then() {
    let still = [
        "network.rtt_ms=0",
        "training.rounds=1",
        "devices.speed.lognormal.median_ns_per_row_visit=1e-3",
    ];
    // 8 Mbit/s for 10 ms carry 10,000 bytes of a download, and the rest comes at 0.8 Mbit/s.
    let lines = "0,0,8,100\n0,0.01,0.8,100\n0,900,8,100\n";
    let expected = 0.01 + (FRAME_BYTES - 10_000.0) * 8.0 / 0.8e6 + FRAME_BYTES * 8.0 / 100e6;
    for server in [
        &[][..],
        &["network.server.connections=40"],
        &[
            "network.server.downlink_mbit_per_s=400",
            "network.server.uplink_mbit_per_s=4000",
        ],
    ] {
        let outcome = traced(&[&still[..], server].concat(), lines);
        let found = outcome.rounds[0].duration_s;
        assert!(
            (found - expected).abs() < 1e-6,
            "{found} s instead of {expected} s, {server:?}"
        );
    }
    // While the server's link is what binds, a user's own rate changes nothing.
    let busy = traced(
        &[&still[..], &["network.server.downlink_mbit_per_s=20"]].concat(),
        lines,
    );
    let expected = 40.0 * FRAME_BYTES * 8.0 / 20e6 + FRAME_BYTES * 8.0 / 100e6;
    assert!(
        (busy.rounds[0].duration_s - expected).abs() < 1e-6,
        "{} s",
        busy.rounds[0].duration_s
    );
}

/// If this fails, frames pass through links that carry nothing, on a link of their own or on the
/// server's.
#[test]
fn a_transfer_waits_until_its_link_carries_something_again() {
    let still = [
        "network.rtt_ms=0",
        "training.rounds=1",
        "devices.speed.lognormal.median_ns_per_row_visit=1e-3",
    ];
    // What each user could send and receive in the first 20 ms is done, and the rest a day later.
    for (more, bytes_per_s) in [
        (&[][..], 1e6),
        (&["network.sharing=\"tcp\""], 0.97e6),
        (&["network.server.connections=40"], 1e6),
        (
            &["network.server={ uplink_mbit_per_s = 100, downlink_mbit_per_s = 100 }"],
            0.3125e6,
        ),
        (
            &[
                "network.sharing=\"tcp\"",
                "network.server.uplink_mbit_per_s=4000",
            ],
            0.97e6,
        ),
    ] {
        let lines = "0,0,8,8\n0,0.02,0,0\n0,86400,8,8\n";
        let outcome = traced(&[&still[..], more].concat(), lines);
        let expected = 86_400.0 + (2.0 * FRAME_BYTES - 0.02 * bytes_per_s) / bytes_per_s;
        let found = outcome.rounds[0].duration_s;
        assert!(
            (found - expected).abs() < 1e-6,
            "{found} s instead of {expected} s, {more:?}"
        );
    }
}

/// If this fails, a transfer that is cut off has carried other bytes than its link could by then.
#[test]
fn what_a_cut_off_loses_is_what_the_changing_link_has_carried() {
    // Everybody is gone after 30 ms: 10 ms at 8 Mbit/s, and 20 ms at 0.8 Mbit/s.
    let outage = "faults=[{ effect = \"outage\", from_s = 0.03, until_s = 50 }]";
    for server in [&[][..], &["network.server.connections=40"]] {
        let still = [
            "network.rtt_ms=0",
            "training.rounds=1",
            "training.mode={ fedbuff = { concurrency = 40, buffer = 40 } }",
        ];
        let outcome = traced(
            &[&still[..], &[outage], server].concat(),
            "0,0,8,100\n0,0.01,0.8,100\n0,900,8,100\n",
        );
        assert_eq!(outcome.bytes.down.lost, 40 * 12_000, "{server:?}");
    }
}

/// If this fails, a dropout that was planned at other rates than its transfer has comes after the
/// arrival, and costs nothing.
#[test]
fn a_dropout_is_where_its_transfer_is_and_not_where_it_was_planned_to_be() {
    // Uploads are planned for the first second, which is slow, and begin after it.
    let late = [
        "network.rtt_ms=0",
        "training.rounds=1",
        "devices.speed.lognormal.median_ns_per_row_visit=1e-3",
        "network.dropout=1",
        "faults=[{ effect = { delay_s = 2 }, direction = \"down\" }]",
    ];
    for server in [&[][..], &["network.server.connections=40"]] {
        let lines = "0,0,8,0.008\n0,1,8,8\n0,1000000,8,8\n";
        let outcome = traced(&[&late[..], server].concat(), lines);
        let round = &outcome.rounds[0];
        assert_eq!((round.lost, round.aggregated), (40, 0), "{server:?}");
        let share = outcome.bytes.up.lost as f64 / (40.0 * FRAME_BYTES);
        assert!(
            (share - 0.5).abs() < 0.15,
            "{share} of the bytes, {server:?}"
        );
    }
}

/// If this fails, a dropout comes at another instant, a day later or earlier, because the server has
/// a link that holds nobody back.
#[test]
fn a_dropout_while_a_link_carries_nothing_is_the_same_with_a_link_of_the_server() {
    // The link carries a download and a part of the upload in the first 40 ms of a day.
    let lines = "0,0,8,8\n0,0.04,0,0\n0,86400,8,8\n0,86400.04,0,0\n";
    for sharing in ["network.sharing=\"equal\"", "network.sharing=\"tcp\""] {
        let found = |server: &str| {
            let more = [
                "network.rtt_ms=10",
                "training.rounds=6",
                "training.participation={ cohort = 2 }",
                "network.dropout=1",
                sharing,
                server,
            ];
            let outcome = traced(&more, lines);
            let lost = outcome.bytes.up.lost + outcome.bytes.down.lost;
            let rounds = outcome.rounds.iter();
            (lost, rounds.map(|round| round.virtual_time_s).collect())
        };
        let (lost, ends): (u64, Vec<f64>) = found("network.server={}");
        assert!(ends[1] > 1000.0, "{ends:?}");
        assert!(lost > 0 || sharing.contains("tcp"));
        for server in ["{ connections = 40 }", "{ uplink_mbit_per_s = 4000 }"] {
            let with_link = found(&format!("network.server={server}"));
            assert_eq!(with_link, (lost, ends.clone()), "{sharing}, {server}");
        }
    }
}

/// If this fails, a run whose links change loses its place in the trace in a checkpoint.
#[test]
fn runs_over_a_trace_end_alike_from_every_checkpoint() {
    let lines =
        "0,0,1,0.1\n0,0.3,0.2,2\n0,0.7,4,0.05\n1,0,0.3,0.3\n1,0.05,2,0.1\n1,0.1,0.1,2\n2,0,1,1\n";
    for sharing in ["network.sharing=\"equal\"", "network.sharing=\"tcp\""] {
        for server in [
            "network.server={}",
            "network.server={ uplink_mbit_per_s = 2, connections = 7 }",
        ] {
            let scenario = small_with(
                "fedmf",
                &[
                    TRACE,
                    "training.rounds=4",
                    "network.dropout=0.1",
                    "training.mode={ semi-synchronous = { deadline_s = 0.6, maximum_staleness = 3 } }",
                    "training.participation={ cohort = 12 }",
                    sharing,
                    server,
                ],
            );
            let run = |resumed: Option<&[u8]>| {
                let store = CheckpointsInMemory::default();
                let resumed =
                    resumed.map(|bytes| ArchiveReader::new(Box::new(Cursor::new(bytes.to_vec()))));
                let checkpoints = Checkpoints {
                    resumed,
                    store: Box::new(store.clone()),
                };
                let world = world(scenario.clone(), lines);
                let outcome =
                    sim::run_from(world, &RunControl::with_threads(1), &mut (), checkpoints)
                        .unwrap();
                (outcome.digest, outcome.bytes, store.complete())
            };
            let (digest, bytes, saved) = run(None);
            assert!(
                bytes.up.in_flight + bytes.down.in_flight > 0,
                "nothing is under way at the end of a round"
            );
            for (rounds, checkpoint) in saved.iter().enumerate() {
                let (resumed, _, again) = run(Some(checkpoint));
                assert_eq!(
                    resumed,
                    digest,
                    "from round {}, {sharing}, {server}",
                    rounds + 1
                );
                assert!(again == saved[rounds + 1..], "its own checkpoints differ");
            }
        }
    }
}

/// If this fails, a bad trace is not refused before the run, or without its place.
#[test]
fn a_bad_trace_of_links_is_refused_with_file_and_line() {
    let workshop = Workshop::new();
    let scenario = workshop.small();
    workshop.refused(
        scenario.clone(),
        &[TRACE],
        &["links.csv", "there is no such file"],
    );
    workshop.write("links.csv", &format!("{HEADER}0,0,8,2\n0,5,fast,2\n"));
    workshop.refused(
        scenario.clone(),
        &[TRACE],
        &[
            "links.csv:3: expected 0 or a number",
            "`down_mbit_per_s`",
            "\"fast\"",
        ],
    );
    workshop.write("links.csv", &format!("{HEADER}0,0,8,2\n2,0,8,2\n"));
    workshop.refused(
        scenario,
        &[TRACE],
        &["links.csv:3: user 2 stands here, but no line has user 1"],
    );
}

/// If this fails, a checkpoint is resumed with other rates than those it was made with.
#[test]
fn a_trace_that_has_changed_is_told_apart() {
    let bytes = |lines: &str| {
        let workshop = Workshop::new();
        workshop.write("links.csv", &format!("{HEADER}{lines}"));
        let mut bytes = Vec::new();
        let scenario = small_with("fedmf", &[TRACE]);
        let dataset = dataset::load(&scenario.dataset, &[], Streams::new(1)).unwrap();
        let traces = Traces::load(&scenario, &dataset, &[workshop.path("")]).unwrap();
        traces.visit_bytes(&mut |part| bytes.extend_from_slice(part));
        bytes
    };
    let original = bytes("0,0,8,2\n0,5,8,3\n");
    for changed in [
        "0,0,8,2\n0,5,8,4\n",
        "0,0,8,2\n0,6,8,3\n",
        "0,0,9,2\n0,5,8,3\n",
        "0,0,8,2\n1,0,8,3\n",
    ] {
        assert_ne!(bytes(changed), original, "{changed}");
    }
}
