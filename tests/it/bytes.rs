use fedrecsim_sim::Outcome;
use fedrecsim_sim::outcome::Flow;

use crate::support::{assert_balanced, assert_finite, run, small, small_with};

/// Bytes of a frame's header, as the documentation states.
const HEADER: u64 = 28;

const ITEMS: u64 = 150;

const CODECS: [&str; 3] = ["dense-f32", "rows-f32", "sparse-f32"];

/// If this fails, downloads and trainings for updates that nobody used count as useful, and so does
/// their energy.
#[test]
fn what_was_spent_on_unused_updates_is_all_that_was_not_spent_on_used_ones() {
    for (mode, ends_whole) in [
        ("\"synchronous\"", true),
        ("{ over-selection = { factor = 1.8 } }", true),
        (
            "{ over-selection = { factor = 1.8, stragglers = \"late\" } }",
            false,
        ),
        (
            "{ semi-synchronous = { deadline_s = 0.12, maximum_staleness = 1 } }",
            false,
        ),
    ] {
        let mode = format!("training.mode={mode}");
        let worldly = [
            "network.preset=\"mobile-pessimistic\"",
            "network.dropout=0.2",
            "training.rounds=8",
        ];
        let share = "training.participation={ share = 0.5 }";
        let outcome = run(
            small_with("pfedrec", &[&worldly[..], &[&mode, share]].concat()),
            2,
        );
        assert_balanced(&outcome);
        let used: u64 = outcome
            .rounds
            .iter()
            .map(|round| u64::from(round.aggregated))
            .sum();
        let (work, down) = (outcome.work, outcome.bytes.down);
        assert_eq!(
            down.delivered - work.unused_download_bytes,
            used * (HEADER + 4 * ITEMS * 32),
            "{mode}: {work:?}"
        );
        assert!(
            0 < work.unused && work.unused < work.finished,
            "{mode}: {work:?}"
        );
        let in_rounds: u64 = outcome
            .rounds
            .iter()
            .map(|round| round.work.unused_download_bytes)
            .sum();
        assert_eq!(
            in_rounds == work.unused_download_bytes,
            ends_whole,
            "{mode}: {in_rounds} of {work:?}"
        );
    }
}

/// If this fails, bytes are declared instead of measured, or somebody is charged twice.
#[test]
fn dense_frames_cost_exactly_what_their_shape_says() {
    for (method, dimension) in [("fedrap", 32), ("pfedrec", 32), ("fedmf", 32)] {
        for (participation, cohort) in [
            ("\"all\"", 40),
            ("{ cohort = 7 }", 7),
            ("{ share = 0.5 }", 20),
        ] {
            let participation = format!("training.participation={participation}");
            let outcome = run(small_with(method, &[&participation]), 2);
            assert_balanced(&outcome);
            let values = 4 * ITEMS * dimension;
            for round in &outcome.rounds {
                for flow in [round.bytes.up, round.bytes.down] {
                    let expected = Flow {
                        sent: cohort * (HEADER + values),
                        delivered: cohort * (HEADER + values),
                        useful: cohort * (HEADER + values),
                        header: cohort * HEADER,
                        values: cohort * values,
                        frames: cohort,
                        ..Flow::default()
                    };
                    assert_eq!(
                        flow, expected,
                        "{method}, {participation}, round {}",
                        round.round
                    );
                }
            }
            assert_eq!(outcome.bytes.up.sent, 3 * cohort * (HEADER + values));
        }
    }
}

/// If this fails, bytes vanish when somebody drops out.
#[test]
fn with_dropouts_every_byte_is_delivered_or_lost() {
    for codec in CODECS {
        let codecs = [
            format!("codec.uplink=\"{codec}\""),
            format!("codec.downlink=\"{codec}\""),
        ];
        // Without latency, a transfer that is cut off always has bytes that never left.
        let dropout = [
            "network.preset=\"wifi-2020\"",
            "network.rtt_ms=0",
            "network.dropout=0.5",
            "training.rounds=6",
        ];
        let outcome = run(
            small(&[&dropout[..], &codecs.each_ref().map(String::as_str)].concat()),
            2,
        );
        assert_balanced(&outcome);
        assert_finite(&outcome);
        let frame = HEADER + 4 * ITEMS * 8;
        for round in &outcome.rounds {
            let (up, down) = (round.bytes.up, round.bytes.down);
            assert!(round.lost > 0, "{codec}, round {}", round.round);
            assert_eq!(
                round.invited,
                round.aggregated + round.lost,
                "{codec}, round {}",
                round.round
            );
            assert_eq!(down.frames, u64::from(round.invited));
            assert!(
                up.frames >= u64::from(round.aggregated) && up.frames <= u64::from(round.invited)
            );
            assert_eq!(
                (up.in_flight, down.in_flight, up.cancelled, down.cancelled),
                (0, 0, 0, 0)
            );
            if codec == "dense-f32" {
                assert_eq!(
                    up.delivered,
                    u64::from(round.aggregated) * frame,
                    "round {}",
                    round.round
                );
                for flow in [up, down] {
                    let cut_off = flow.frames - flow.delivered / frame;
                    assert!(
                        flow.lost < cut_off.max(1) * frame,
                        "round {}: {flow:?}",
                        round.round
                    );
                }
            }
        }
        let lost = outcome
            .rounds
            .iter()
            .filter(|round| round.bytes.up.lost > 0 && round.bytes.down.lost > 0)
            .count();
        assert!(lost >= 3, "{codec}: transfers are hardly ever cut half-way");
    }
}

/// If this fails, a round without any update divides by zero.
#[test]
fn when_everybody_drops_out_the_table_stays_and_every_figure_is_finite() {
    for method in ["fedrap", "pfedrec", "fedmf"] {
        let outcome = run(small_with(method, &["network.dropout=1"]), 2);
        assert_balanced(&outcome);
        assert_finite(&outcome);
        for round in &outcome.rounds {
            assert_eq!(
                (round.invited, round.lost, round.aggregated, round.loss),
                (40, 40, 0, None),
                "{method}"
            );
            assert_eq!(round.bytes.up.delivered, 0, "{method}");
        }
        let averaged = outcome.rounds[0].sparsity.unwrap().averaged;
        assert!(
            outcome
                .rounds
                .iter()
                .all(|round| round.sparsity.unwrap().averaged == averaged),
            "{method}"
        );
    }
}

fn assert_same_model(method: &str, dense: &Outcome, other: &Outcome) {
    let scale = dense
        .model
        .table(0)
        .as_slice()
        .iter()
        .fold(1.0f32, |most, value| most.max(value.abs()));
    for (a, b) in dense
        .model
        .table(0)
        .as_slice()
        .iter()
        .zip(other.model.table(0).as_slice())
    {
        assert!((a - b).abs() <= 1e-5 * scale, "{method}: {a} became {b}");
    }
    for (dense, other) in dense.rounds.iter().zip(&other.rounds) {
        assert_eq!(
            dense.accuracy, other.accuracy,
            "{method}, round {}",
            dense.round
        );
    }
}

/// If this fails, a codec that calls itself lossless changes the training that it carries.
#[test]
fn every_uplink_trains_the_same_model_and_rows_are_smaller() {
    for method in ["fedrap", "pfedrec", "fedmf"] {
        let with = |uplink: &str| {
            run(
                small_with(method, &[&format!("codec.uplink=\"{uplink}\"")]),
                2,
            )
        };
        let [dense, rows, sparse] = CODECS.map(with);
        assert_same_model(method, &dense, &rows);
        assert_same_model(method, &dense, &sparse);
        assert!(rows.bytes.up.sent < dense.bytes.up.sent, "{method}");
        assert_eq!(
            rows.bytes.down, dense.bytes.down,
            "{method}: the other direction has its own codec"
        );
        assert!(
            rows.bytes.up.index > 0 && dense.bytes.up.index == 0,
            "{method}"
        );
        for outcome in [&dense, &rows, &sparse] {
            assert_balanced(outcome);
        }
    }
}

/// If this fails, the codec of the downlink changes the training.
#[test]
fn every_downlink_trains_the_same_model_to_the_bit() {
    let with = |downlink: &str| run(small(&[&format!("codec.downlink=\"{downlink}\"")]), 2);
    let [dense, rows, sparse] = CODECS.map(with);
    for other in [rows, sparse] {
        assert_eq!(dense.model.table(0), other.model.table(0));
        assert_eq!(dense.rounds[2].accuracy, other.rounds[2].accuracy);
    }
}

/// If this fails, the sparse codec sends zeros that it could leave out.
#[test]
fn a_sparse_c_is_smaller_on_the_wire() {
    let paper = [
        "method.fedrap.objective=\"paper\"",
        "method.fedrap.learning_rate_network=0.001",
        "method.fedrap.learning_rate_tables=0.01",
        "method.fedrap.lambda=0",
        "method.fedrap.mu=20",
        "training.rounds=6",
    ];
    let with = |uplink| run(small(&[&paper[..], &[uplink]].concat()), 2);
    let (dense, sparse) = (
        with("codec.uplink=\"dense-f32\""),
        with("codec.uplink=\"sparse-f32\""),
    );
    assert_same_model("fedrap", &dense, &sparse);
    let last = sparse.rounds.last().unwrap();
    let nonzero = last.sparsity.unwrap().uploads[0];
    assert!(
        nonzero < 0.9,
        "{nonzero} of the uploads are not zero: nothing to leave out"
    );
    let values = (nonzero * (40 * ITEMS * 8) as f64).round() as u64;
    assert_eq!(
        last.bytes.up.values,
        4 * values,
        "exactly the values that are not zero travel"
    );
    assert!(last.bytes.up.sent < dense.rounds.last().unwrap().bytes.up.sent);
}

/// If this fails, a baseline that needs no training is charged bytes and time for it.
#[test]
fn baselines_send_nothing_and_take_no_time() {
    for method in ["popularity", "random"] {
        let outcome = run(
            small_with(
                method,
                &["network.preset=\"wifi-2020\"", "network.dropout=0.5"],
            ),
            2,
        );
        assert_eq!(outcome.bytes, Default::default(), "{method}");
        for round in &outcome.rounds {
            assert_eq!((round.invited, round.virtual_time_s), (0, 0.0), "{method}");
            assert_eq!(
                round.accuracy.as_ref(),
                Some(&outcome.baselines[method]),
                "{method}"
            );
        }
    }
}

/// If this fails, a table that stays private travels (contract 4).
#[test]
fn a_private_table_sends_headers_only() {
    for codec in CODECS {
        let codecs = [
            format!("codec.uplink=\"{codec}\""),
            format!("codec.downlink=\"{codec}\""),
        ];
        let private = ["method.fedrap.tables=\"d-only\""];
        let outcome = run(
            small(&[&private[..], &codecs.each_ref().map(String::as_str)].concat()),
            2,
        );
        for flow in [outcome.bytes.up, outcome.bytes.down] {
            assert_eq!(
                (flow.sent, flow.header, flow.frames),
                (3 * 40 * HEADER, 3 * 40 * HEADER, 3 * 40),
                "{codec}"
            );
        }
        assert!(outcome.model.table(0).as_slice().is_empty());
    }
}

/// If this fails, what devices download in order to score is not told, or is mixed with what
/// training takes.
#[test]
fn scoring_takes_a_download_that_is_booked_apart() {
    let run_with = |method, overrides: &[&str]| run(small_with(method, overrides), 2);
    let outcome = run_with(
        "fedmf",
        &[
            "training.rounds=4",
            "evaluation.every_rounds=2",
            "evaluation.users=7",
        ],
    );
    let frame = outcome.bytes.down.sent / outcome.bytes.down.frames;
    let found: Vec<Option<u64>> = outcome
        .rounds
        .iter()
        .map(|round| round.inference_bytes)
        .collect();
    assert_eq!(found, [None, Some(7 * frame), None, Some(7 * frame)]);
    let unscored = run_with(
        "fedmf",
        &[
            "training.rounds=4",
            "evaluation.every_rounds=4",
            "evaluation.users=7",
        ],
    );
    assert_eq!(
        outcome.bytes, unscored.bytes,
        "training takes what it takes"
    );
    // A server that has everything scores for its users, and an untrained method has nothing to
    // send.
    for method in ["mf", "popularity"] {
        assert_eq!(
            run_with(method, &[]).rounds.last().unwrap().inference_bytes,
            Some(0),
            "{method}"
        );
    }
    let personal = run_with("metamf", &["training.rounds=1"]);
    let frame = personal.bytes.down.sent / personal.bytes.down.frames;
    assert_eq!(
        personal.rounds[0].inference_bytes,
        Some(40 * frame),
        "every user has a download of its own"
    );
}

/// If this fails, a device of few columns pays for the table of a larger one, or what its user
/// receives has another width than what it sends.
#[test]
fn each_device_pays_for_tables_of_its_own_width() {
    let values = |devices| {
        let method = format!("method={{ adafedrec = {{ devices = \"{devices}\" }} }}");
        let outcome = run(small(&[&method, "codec.downlink=\"dense-f32\""]), 2);
        assert_balanced(&outcome);
        [outcome.bytes.up, outcome.bytes.down].map(|flow| flow.values / flow.frames)
    };
    let published = |d: u64| 4 * (ITEMS * d + 16 * d + 89);
    for (devices, d) in [("large", 32), ("medium", 16), ("small", 8)] {
        assert_eq!(values(devices), [published(d); 2], "{devices}");
    }
    let [up, down] = values("mixed");
    assert!(up == down && published(8) < up && up < published(32));
}
