use fedrecsim_core::SimTime;
use fedrecsim_scenario::Scenario;
use fedrecsim_sim::outcome::{
    Booking, ByDirection, Flow, Gauges, GaugesSince, Level, RoundRecord, RoundSpan,
};
use fedrecsim_sim::{Outcome, RoundObserver, RunControl, Simulation};
use serde_json::Value;

use crate::support::{Workshop, run, small, small_with, world};

/// Bytes of a dense frame: the header, and 150 rows of 32 values.
const FRAME: u64 = 28 + 4 * 150 * 32;

/// Links of one rate without latency, and devices that take next to no time.
const PLAIN: [&str; 4] = [
    "network.rates.lognormal.downlink_median_mbit_per_s=8",
    "network.rates.lognormal.uplink_median_mbit_per_s=8",
    "network.rtt_ms=0",
    "devices.speed.lognormal.median_ns_per_row_visit=1e-3",
];

/// Returns the bytes of a level in bit/s over its time.
fn bytes_of(level: Level) -> f64 {
    level.integral as f64 / 8e9
}

/// If this fails, the load of the server's link is not what the link carries, with or without a
/// limit.
#[test]
fn the_load_over_time_is_what_the_link_carried() {
    let mobile = "network={preset=\"mobile-pessimistic\"}";
    for (server, dropout) in [
        (&[][..], ""),
        (
            &["network.server.downlink_mbit_per_s=5"],
            "network.dropout=0.3",
        ),
        (
            &["network.server={downlink_mbit_per_s=20, uplink_mbit_per_s=3}"],
            "network.dropout=0.3",
        ),
        (
            &["network.server.connections=6", "network.sharing=\"tcp\""],
            "",
        ),
        (
            &[
                "network.server={uplink_mbit_per_s=9, connections=9}",
                "network.sharing=\"tcp\"",
            ],
            "network.dropout=0.2",
        ),
    ] {
        let more: Vec<&str> = server
            .iter()
            .copied()
            .chain([dropout])
            .filter(|key| !key.is_empty())
            .collect();
        let outcome = run(small_with("fedmf", &[&[mobile], &more[..]].concat()), 2);
        for round in &outcome.rounds {
            let levels = round.network.levels;
            for (level, flow) in [
                (levels.up_bits_per_s, round.bytes.up),
                (levels.down_bits_per_s, round.bytes.down),
            ] {
                // Ends are rounded up to a nanosecond, rates down to 1 bit/s, and bytes that were
                // carried down.
                let (integral, sent) = (bytes_of(level), flow.sent as f64);
                assert!(
                    (integral - sent).abs() <= 1e-5 * sent + 80.0,
                    "{more:?}: {integral} of {sent} bytes"
                );
            }
        }
    }
}

/// If this fails, the line for connections is longer or shorter than it was, or a wait is not
/// counted in full.
#[test]
fn a_line_of_three_for_one_connection_is_as_long_as_one_works_out_by_hand() {
    let one = [
        "network.server.connections=1",
        "training.participation={ cohort = 3 }",
        "training.rounds=2",
    ];
    let outcome = run(small_with("fedmf", &[&PLAIN[..], &one].concat()), 1);
    // A frame takes this long. Three downloads go one after the other, and behind them three
    // uploads. The second and the third user wait for their download for one and for two such
    // times, and each user waits two for its upload.
    let frame_s = FRAME as f64 * 8.0 / 8e6;
    let near = |found: f64, frames: f64| (found - frames * frame_s).abs() < 1e-6;
    for round in &outcome.rounds {
        let (network, waits) = (round.network, round.network.waits);
        let mean = |level: Level| level.mean_over(network.nanoseconds()).unwrap();
        assert!(near(round.duration_s, 6.0), "{} s", round.duration_s);
        assert_eq!(waits.count, 5);
        assert!(
            near(waits.total_s, 9.0) && near(waits.max_s, 2.0),
            "{waits:?}"
        );
        assert!(
            (waits.p50_s / (2.0 * frame_s) - 1.0).abs() < 0.01,
            "{waits:?}"
        );
        let levels = network.levels;
        assert_eq!(
            [
                levels.line.max,
                levels.transfers.max,
                levels.waiting_users.max
            ],
            [2, 1, 3]
        );
        for (level, expected) in [
            (levels.line, 9.0 / 6.0),
            (levels.transfers, 1.0),
            (levels.waiting_users, (4.0 * 3.0 + 2.0 + 1.0) / 6.0),
            (levels.up_bits_per_s, 4e6),
            (levels.down_bits_per_s, 4e6),
        ] {
            let found = mean(level);
            assert!(
                (found / expected - 1.0).abs() < 1e-5,
                "{found} instead of {expected}"
            );
        }
        assert_eq!(
            [levels.up_bits_per_s.max, levels.down_bits_per_s.max],
            [8_000_000; 2]
        );
    }
    let whole = outcome.network;
    assert_eq!((whole.waits.count, whole.levels.line.max), (10, 2));
    assert!(
        near(whole.waits.total_s, 18.0)
            && whole.ended.as_secs_f64() == outcome.rounds[1].virtual_time_s
    );
}

/// If this fails, transfers that share no link are not counted, or those with a third party are.
#[test]
fn without_a_limit_every_transfer_counts_while_it_lasts() {
    let outcome = run(
        small_with("fedmf", &[&PLAIN[..], &["training.rounds=1"]].concat()),
        1,
    );
    let levels = outcome.rounds[0].network.levels;
    assert_eq!(
        [
            levels.transfers.max,
            levels.waiting_users.max,
            levels.line.max
        ],
        [40, 40, 0]
    );
    assert_eq!(
        [levels.up_bits_per_s.max, levels.down_bits_per_s.max],
        [40 * 8_000_000; 2]
    );
    assert_eq!(outcome.network.waits.count, 0);
    let waits_in_line = small_with(
        "fedmf",
        &[&PLAIN[..], &["network.server.connections=40"]].concat(),
    );
    assert_eq!(
        run(waits_in_line, 1).network.waits.count,
        0,
        "a connection that is free at once is no wait"
    );
}

/// Adds up what it is told of the server's link, round by round.
#[derive(Default)]
struct Integrals {
    changes: Vec<GaugesSince>,
    rounds: Vec<Gauges<Level>>,
    records: Vec<RoundRecord>,
}

impl RoundObserver for Integrals {
    fn round_finished(&mut self, round: &RoundRecord, _total: ByDirection<Flow>) {
        self.records.push(round.clone());
    }

    fn happened(&mut self, round: Option<RoundSpan>, _bookings: &[Booking]) {
        let Some(span) = round else { return };
        let mut levels = Gauges::<Level>::default();
        let changes = std::mem::take(&mut self.changes);
        assert!(
            changes
                .iter()
                .all(|change| (span.began..span.ended).contains(&change.at)),
            "{span:?}"
        );
        let ends = changes
            .iter()
            .skip(1)
            .map(|change| change.at)
            .chain([span.ended]);
        for (change, until) in changes.iter().zip(ends) {
            for (level, value) in levels
                .as_mut_array()
                .into_iter()
                .zip(change.gauges.as_array())
            {
                level.pass(*value, until.since(change.at).as_nanos());
            }
        }
        self.rounds.push(levels);
    }

    fn server_changed(&mut self, changes: &[GaugesSince]) {
        assert!(changes.iter().map(|change| change.at).is_sorted());
        self.changes.extend(changes);
    }
}

/// A world where lines, late updates, dropouts, departures and faults all happen.
const BUSY: [&str; 7] = [
    "training.rounds=5",
    "training.mode.over-selection={factor=1.5, deadline_s=0.5, stragglers=\"late\"}",
    "training.participation.cohort=20",
    "network={preset=\"mobile-pessimistic\", dropout=0.1, server={connections=5, uplink_mbit_per_s=20}}",
    "availability.pattern.on-off={mean_on_s=30, mean_off_s=2}",
    "codec.uplink=\"rows-f32\"",
    "faults=[{effect=\"drop\", direction=\"up\", probability=0.1}]",
];

fn watched(scenario: Scenario, watch: bool) -> (Outcome, Integrals) {
    let mut simulation = Simulation::new(world(scenario), &RunControl::with_threads(2)).unwrap();
    if watch {
        simulation.watch_server().unwrap();
    }
    let mut integrals = Integrals::default();
    while simulation.step_watched(&mut integrals).unwrap().is_some() {}
    (
        simulation.finish_watched(&mut integrals).unwrap(),
        integrals,
    )
}

/// If this fails, a trace shows another load than the report, or to look at the server changes the
/// result.
#[test]
fn the_changes_that_are_told_add_up_to_the_record_and_change_nothing() {
    let unlimited = BUSY.map(|key| {
        if key.starts_with("network=") {
            "network.preset=\"mobile-pessimistic\""
        } else {
            key
        }
    });
    for overrides in [BUSY, unlimited] {
        let (outcome, told) = watched(small(&overrides), true);
        let recorded: Vec<Gauges<Level>> = told
            .records
            .iter()
            .map(|round| round.network.levels)
            .collect();
        assert_eq!(told.rounds, recorded);
        assert!(
            recorded.iter().all(|levels| levels.waiting_users.max >= 20),
            "{recorded:?}"
        );
        let (unwatched, silent) = watched(small(&overrides), false);
        assert_eq!(
            (outcome.digest, outcome.rounds),
            (unwatched.digest, unwatched.rounds)
        );
        assert!(
            silent.changes.is_empty()
                && silent
                    .rounds
                    .iter()
                    .all(|levels| *levels == Gauges::default())
        );
    }
}

/// If this fails, a simulation that is stopped at instants on the way has another load than one
/// that is not.
#[test]
fn stops_on_the_way_do_not_change_what_is_watched() {
    let (whole, _) = watched(small(&BUSY), false);
    let mut simulation =
        Simulation::new(world(small(&BUSY)), &RunControl::with_threads(1)).unwrap();
    let mut records: Vec<RoundRecord> = Vec::new();
    for step in 1..=40 {
        let until = fedrecsim_sim::Until::Time(SimTime::from_nanos(step * 77_000_000));
        simulation.step_until(until, &mut records).unwrap();
    }
    while let Some(record) = simulation.step().unwrap() {
        records.push(record);
    }
    assert_eq!(records, whole.rounds);
    assert_eq!(simulation.finish().unwrap().network, whole.network);
}

fn table(workshop: &Workshop, file: &str) -> Vec<std::collections::BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_path(workshop.report().join(file)).unwrap();
    reader.deserialize().collect::<csv::Result<_>>().unwrap()
}

/// If this fails, the load of the server is not in a file that a program can read, or `run.json`
/// says something else.
#[test]
fn the_report_has_a_line_for_every_round_and_the_run_in_its_summary() {
    let workshop = Workshop::new();
    workshop.run(workshop.small(), &BUSY).unwrap();
    let (rows, run) = (table(&workshop, "network.csv"), workshop.run_json());
    let column = |name: &str| {
        rows.iter()
            .map(|row| row[name].parse::<f64>().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(rows.len(), 5);
    let (begins, ends) = (column("virtual_begin_s"), column("virtual_end_s"));
    assert_eq!(
        (begins[0], &begins[1..], ends[4]),
        (0.0, &ends[..4], run["virtual_time_s"].as_f64().unwrap())
    );
    let network = &run["network"];
    for (name, path) in [
        ("up_mean_bytes_per_s", "/up/mean_bytes_per_s"),
        ("up_mean_share", "/up/mean_share"),
        ("down_mean_bytes_per_s", "/down/mean_bytes_per_s"),
        ("transfers_mean", "/transfers/mean"),
        ("line_mean", "/line/mean"),
        ("waiting_users_mean", "/waiting_users/mean"),
    ] {
        let weighted: f64 = column(name)
            .iter()
            .zip(begins.iter().zip(&ends))
            .map(|(mean, (a, b))| mean * (b - a))
            .sum();
        let (expected, found) = (
            weighted / ends[4],
            network.pointer(path).unwrap().as_f64().unwrap(),
        );
        assert!(
            (found / expected - 1.0).abs() < 1e-9 && found > 0.0,
            "{name}: {found}, by rounds {expected}"
        );
    }
    assert!(
        column("up_max_share").iter().all(|share| *share <= 1.0),
        "more than the link can carry"
    );
    assert!(
        rows.iter().all(|row| row["down_mean_share"].is_empty()),
        "it has no limit"
    );
    assert_eq!(network["transfers"]["max"], 5);
    let waits = &network["line_waits"];
    assert_eq!(
        column("line_wait_count").iter().sum::<f64>(),
        waits["count"].as_f64().unwrap()
    );
    let total: f64 = column("line_wait_total_s").iter().sum();
    assert!((total - waits["total_s"].as_f64().unwrap()).abs() < 1e-9 && total > 0.0);
    assert!(
        waits["p50_s"].as_f64() <= waits["p95_s"].as_f64()
            && waits["p95_s"].as_f64() <= waits["max_s"].as_f64()
    );
    let summary = std::fs::read_to_string(workshop.report().join("summary.md")).unwrap();
    assert!(
        summary.contains("users in line for a connection") && summary.contains("network.csv"),
        "{summary}"
    );
}

/// If this fails, a viewer has no tracks of the server's load, or they show another one than the
/// report.
#[test]
fn a_trace_of_events_has_tracks_of_the_load_of_the_server() {
    let workshop = Workshop::new();
    let input = workshop.input("events", &workshop.small(), &BUSY);
    let arguments = input.and(&["--threads", "2", "--format", "trace", "--out"]);
    let arguments = arguments.path(&workshop.path("events"));
    arguments.carry_out().unwrap();
    let trace: Value =
        serde_json::from_slice(&std::fs::read(workshop.path("events")).unwrap()).unwrap();
    let counters: Vec<&Value> = trace["traceEvents"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["ph"] == "C")
        .collect();
    let (outcome, _) = watched(small(&BUSY), false);
    let levels = outcome.network.levels;
    for (name, unit, max) in [
        (
            "server link up",
            "bytes_per_s",
            levels.up_bits_per_s.max / 8,
        ),
        (
            "server link down",
            "bytes_per_s",
            levels.down_bits_per_s.max / 8,
        ),
        ("transfers at once", "transfers", levels.transfers.max),
        ("line for connections", "users", levels.line.max),
        ("users waited for", "users", levels.waiting_users.max),
    ] {
        let track: Vec<_> = counters
            .iter()
            .filter(|event| event["name"] == name)
            .collect();
        let values = track
            .iter()
            .map(|event| event["args"][unit].as_u64().unwrap());
        // The run ends with some participations under way; the rounds do not record these.
        assert!(values.max().unwrap() >= max && max > 0, "{name}: {max}");
        assert!(
            track
                .iter()
                .map(|event| event["ts"].as_f64().unwrap())
                .is_sorted(),
            "{name}"
        );
    }
}
