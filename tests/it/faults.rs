use std::sync::Arc;

use fedrecsim_core::Streams;
use fedrecsim_data::dataset;
use fedrecsim_data::population::Traces;
use fedrecsim_methods::registry::{METHODS, check};
use fedrecsim_sim::outcome::{Flow, RoundRecord};
use fedrecsim_sim::{self as sim, Outcome, RunControl, World};

use crate::support::{Workshop, assert_balanced, run, small, small_with, world};

/// Bytes of a dense frame: the header, and 150 rows of 32 values.
const FRAME: u64 = 28 + 4 * 150 * 32;

/// Runs rounds of everybody with this rule about transfers.
fn with_rule(rule: &str, overrides: &[&str]) -> Outcome {
    let rule = format!("faults=[{{ {rule} }}]");
    let outcome = run(
        small_with("fedmf", &[&[rule.as_str()], overrides].concat()),
        2,
    );
    assert_balanced(&outcome);
    outcome
}

/// Returns the bytes of all rounds that arrived, and those that were lost, up and down.
fn arrived_and_lost(outcome: &Outcome) -> [(u64, u64); 2] {
    let counts = |flow: Flow| (flow.delivered, flow.lost);
    [counts(outcome.bytes.up), counts(outcome.bytes.down)]
}

/// If this fails, a frame that never arrives is averaged, or its bytes are not counted.
#[test]
fn a_dropped_frame_is_sent_whole_and_never_arrives() {
    let outcome = with_rule(
        "effect = \"drop\", direction = \"up\", users = { numbers = [3, 17] }",
        &[],
    );
    let round = 40 * FRAME;
    assert_eq!(
        arrived_and_lost(&outcome),
        [(3 * 38 * FRAME, 3 * 2 * FRAME), (3 * round, 0)]
    );
    assert!(
        outcome
            .rounds
            .iter()
            .all(|round| (round.aggregated, round.lost) == (38, 2))
    );
    let outcome = with_rule(
        "effect = \"drop\", direction = \"down\", users = { numbers = [3] }",
        &[],
    );
    assert_eq!(
        arrived_and_lost(&outcome),
        [(3 * 39 * FRAME, 0), (3 * 39 * FRAME, 3 * FRAME)]
    );
}

/// If this fails, energy is spent on downloads that no device has received, or their bytes are
/// taken for received ones.
#[test]
fn nobody_receives_a_dropped_frame_however_its_way_ends() {
    let drop = "effect = \"drop\", probability = 0.4";
    // The transfer goes on to its end, on a link that others share, or until a deadline, a dropout
    // or a departure.
    let unreceived = |overrides: &[&str]| {
        let bytes = with_rule(drop, overrides).bytes;
        for flow in [bytes.up, bytes.down] {
            assert!(
                0 < flow.unreceived && flow.unreceived <= flow.sent - flow.delivered,
                "{flow:?}"
            );
        }
        [bytes.up, bytes.down]
    };
    for flow in unreceived(&[])
        .into_iter()
        .chain(unreceived(&["network.server.downlink_mbit_per_s=5"]))
    {
        assert_eq!(flow.unreceived, flow.lost);
    }
    let mobile = "network={preset=\"mobile-pessimistic\", dropout=0.3}";
    let hurried =
        "training.mode.over-selection={factor=1.0, deadline_s=0.5, stragglers=\"cancelled\"}";
    for server in ["training.rounds=4", "network.server.connections=10"] {
        let bytes = unreceived(&[
            "training.rounds=4",
            mobile,
            server,
            hurried,
            "availability.pattern.on-off={mean_on_s=3, mean_off_s=1}",
        ]);
        assert!(
            bytes
                .iter()
                .all(|flow| flow.unreceived < flow.lost + flow.cancelled),
            "{bytes:?}"
        );
    }
    let none = with_rule("effect = { cut_at_byte = 500 }", &[]).bytes;
    assert_eq!(
        (none.up.unreceived, none.down.unreceived),
        (0, 0),
        "what comes before the cut is received"
    );
}

/// If this fails, a connection that breaks loses more or fewer bytes than it carried.
#[test]
fn a_connection_that_breaks_at_a_byte_loses_exactly_those_before_it() {
    for bytes in [0, 1, 28, 5000, FRAME - 1] {
        for shared in [
            &[][..],
            &[
                "network.server.uplink_mbit_per_s=10",
                "network.server.connections=7",
            ],
        ] {
            let cut = |direction: &str| {
                let rule = format!(
                    "effect = {{ cut_at_byte = {bytes} }}, direction = \"{direction}\", users = {{ numbers = [5] }}"
                );
                with_rule(&rule, &[&["training.rounds=1"], shared].concat())
            };
            assert_eq!(
                arrived_and_lost(&cut("up")),
                [(39 * FRAME, bytes), (40 * FRAME, 0)]
            );
            assert_eq!(
                arrived_and_lost(&cut("down")),
                [(39 * FRAME, 0), (39 * FRAME, bytes)]
            );
        }
    }
    // The frame has no such byte.
    let beyond = with_rule(&format!("effect = {{ cut_at_byte = {FRAME} }}"), &[]);
    assert_eq!(beyond.rounds, run(small_with("fedmf", &[]), 2).rounds);
}

/// If this fails, a damaged frame is trained on or averaged, or a receiver does not notice one.
#[test]
fn corrupted_frames_of_every_codec_and_direction_are_noticed() {
    for codec in ["dense-f32", "rows-f32", "sparse-f32"] {
        let codecs = [
            format!("codec.uplink=\"{codec}\""),
            format!("codec.downlink=\"{codec}\""),
        ];
        let codecs = codecs.each_ref().map(String::as_str);
        let overrides = [&codecs[..], &["training.rounds=6"]].concat();
        let whole = run(small_with("fedmf", &overrides), 2);
        let initial = world(small_with("fedmf", &overrides)).method.initial();
        for direction in ["up", "down"] {
            let outcome = with_rule(
                &format!("effect = \"corrupt\", direction = \"{direction}\""),
                &overrides,
            );
            assert!(
                outcome
                    .rounds
                    .iter()
                    .all(|round| (round.aggregated, round.lost) == (0, 40)),
                "{codec}"
            );
            let (lost, delivered) = if direction == "up" {
                (outcome.bytes.up, outcome.bytes.down.delivered)
            } else {
                (outcome.bytes.down, outcome.bytes.up.delivered)
            };
            assert_eq!(
                (lost.delivered, lost.lost),
                (0, lost.sent),
                "{codec}, {direction}"
            );
            assert_eq!(
                delivered > 0,
                direction == "up",
                "{codec}: a download is of use before its upload is damaged"
            );
            assert_eq!(
                outcome.model, initial,
                "{codec}, {direction}: the model has moved"
            );
        }
        assert!(
            whole.rounds.iter().all(|round| round.aggregated == 40),
            "{codec}"
        );
    }
}

/// If this fails, a damaged update is averaged with the sound ones.
#[test]
fn a_corrupted_upload_counts_as_little_as_one_that_was_never_sent() {
    let who = "direction = \"up\", users = { share = 0.3 }";
    let corrupted = with_rule(&format!("effect = \"corrupt\", {who}"), &[]);
    let dropped = with_rule(&format!("effect = \"drop\", {who}"), &[]);
    assert!(corrupted.rounds[0].lost > 3);
    // The only difference is that the server has received the corrupted ones.
    let mut received = dropped.rounds;
    received
        .iter_mut()
        .for_each(|round| round.bytes.up.unreceived = 0);
    assert_eq!(corrupted.rounds, received);
    assert_eq!(corrupted.model, dropped.model);
    assert_ne!(
        corrupted.digest, dropped.digest,
        "the digest covers what was not received"
    );
}

/// If this fails, a delay takes another time than its own, or changes something besides time.
#[test]
fn a_delay_moves_virtual_time_by_itself_and_nothing_else() {
    let whole = run(small_with("fedmf", &[]), 2);
    for (rule, later) in [
        ("effect = { delay_s = 2.5 }, direction = \"up\"", 2.5),
        ("effect = { delay_s = 2.5 }, direction = \"down\"", 2.5),
        ("effect = { delay_s = 2.5 }", 5.0),
    ] {
        for shared in [&[][..], &["network.server.connections=40"]] {
            let delayed = with_rule(rule, shared);
            for (delayed, whole) in delayed.rounds.iter().zip(&whole.rounds) {
                assert!(
                    (delayed.duration_s - whole.duration_s - later).abs() < 1e-8,
                    "{rule}: {}",
                    delayed.duration_s
                );
                assert_eq!(
                    (delayed.bytes, &delayed.accuracy),
                    (whole.bytes, &whole.accuracy),
                    "{rule}"
                );
            }
            assert_eq!(delayed.model.table(0), whole.model.table(0), "{rule}");
        }
    }
}

/// If this fails, a rule acts before it begins or after it ends.
#[test]
fn a_rule_acts_within_its_window_of_time() {
    // A round lasts a second.
    let alike = [
        "network.rtt_ms=500",
        "devices.speed.lognormal.median_ns_per_row_visit=1e-3",
        "network.rates.lognormal.uplink_median_mbit_per_s=0.30764800",
    ];
    let whole = run(
        small_with("fedmf", &[&alike[..], &["training.rounds=4"]].concat()),
        2,
    );
    let begins = |round: usize| whole.rounds[round - 2].virtual_time_s;
    // A download begins with its round, and an upload in the middle of it.
    let window = |direction: &str, from: f64, until: f64| {
        let rule = format!(
            "effect = \"drop\", direction = \"{direction}\", from_s = {from}, until_s = {until}"
        );
        let outcome = with_rule(&rule, &[&alike[..], &["training.rounds=4"]].concat());
        outcome
            .rounds
            .iter()
            .map(|round| round.lost)
            .collect::<Vec<_>>()
    };
    assert_eq!(window("up", begins(2), begins(3)), [0, 40, 0, 0]);
    assert_eq!(window("up", begins(3), 1e9), [0, 0, 40, 40]);
    assert_eq!(
        window("down", begins(4), begins(4) + 1e-9),
        [0, 0, 0, 40],
        "the window has its beginning"
    );
    assert_eq!(
        window("down", begins(4) - 1e-9, begins(4)),
        [0, 0, 0, 0],
        "and not its end"
    );
    assert_eq!(window("down", 0.0, 1e-9), [40, 0, 0, 0]);
}

/// Overrides for a private model on every device. Its download takes a second, its training a
/// minute or so, and its upload 224 seconds.
const PRIVATE: [&str; 8] = [
    "method.fedrap.tables=\"d-only\"",
    "method.fedrap.learning_rate_tables=100",
    "dataset.negatives.pool=\"unrated\"",
    "network.rtt_ms=0",
    "network.rates.lognormal.downlink_median_mbit_per_s=224e-6",
    "network.rates.lognormal.uplink_median_mbit_per_s=1e-6",
    "devices.speed.lognormal.median_ns_per_row_visit=1e8",
    "training.rounds=1",
];

/// Runs a round that everybody leaves after this many seconds.
fn departure(seconds: f64) -> Outcome {
    let workshop = Workshop::new();
    workshop.write("stays.csv", &format!("user,on,off\n0,0,{seconds}\n"));
    let scenario = small(
        &[
            &PRIVATE[..],
            &["availability.pattern.trace={ path = \"stays.csv\", period_s = 1e6 }"],
        ]
        .concat(),
    );
    let dataset = dataset::load(&scenario.dataset, &[], Streams::new(scenario.seed)).unwrap();
    let traces = Traces::load(&scenario, &dataset, &[workshop.path("")]).unwrap();
    let world = World::with_traces(
        check(scenario, METHODS).unwrap(),
        Arc::new(dataset),
        &traces,
    )
    .unwrap();
    let outcome = sim::run(world, &RunControl::with_threads(2), &mut ()).unwrap();
    assert!(outcome.stopped_by.is_none(), "{:?}", outcome.stopped_by);
    assert_balanced(&outcome);
    assert_eq!(
        (outcome.rounds[0].aggregated, outcome.rounds[0].lost),
        (0, 40)
    );
    assert!(
        (outcome.rounds[0].virtual_time_s - seconds).abs() < 1e-9,
        "they leave together"
    );
    outcome
}

/// If this fails, a device that leaves has learned from a training that it did not finish, forgets
/// one that it finished, or its bytes are not counted.
#[test]
fn who_leaves_keeps_what_was_finished_and_loses_what_was_on_its_way() {
    let nothing = ["faults=[{ effect = \"drop\", direction = \"down\" }]"];
    let untouched = run(small(&[&PRIVATE[..], &nothing].concat()), 2).rounds[0]
        .accuracy
        .clone();
    let header = 28 * 40;
    let downloading = departure(0.5);
    assert_eq!(downloading.rounds[0].accuracy, untouched);
    assert_eq!(arrived_and_lost(&downloading), [(0, 0), (0, header / 2)]);
    let training = departure(10.0);
    assert_eq!(training.rounds[0].accuracy, untouched);
    assert_eq!(arrived_and_lost(&training), [(0, 0), (header, 0)]);
    assert_eq!(training.durations["compute"].count, 0);
    let uploading = departure(200.0);
    assert_ne!(
        uploading.rounds[0].accuracy, untouched,
        "what was learned stays on the device"
    );
    assert_eq!(uploading.durations["compute"].count, 40);
    let [(0, lost), (delivered, 0)] = arrived_and_lost(&uploading) else {
        panic!("{:?}", uploading.bytes)
    };
    assert_eq!(delivered, header);
    // The uplink carries a byte in eight seconds.
    assert!((40 * 15..40 * 25).contains(&lost), "{lost} bytes");
}

/// If this fails, bytes of users who come and go are not accounted for, or users take part while
/// they are gone.
#[test]
fn users_who_come_and_go_take_part_while_they_are_there() {
    let stays = "availability.pattern.on-off={ mean_on_s = 20, mean_off_s = 60 }";
    let slow = [
        "network.rtt_ms=4000",
        "network.rates.lognormal.uplink_median_mbit_per_s=0.1",
        "training.rounds=6",
    ];
    let always = run(small_with("fedmf", &slow), 2);
    for mode in [
        "\"synchronous\"",
        "{ semi-synchronous = { deadline_s = 8 } }",
        "{ fedbuff = { concurrency = 9, buffer = 5 } }",
    ] {
        let mode = format!("training.mode={mode}");
        let outcome = run(
            small_with("fedmf", &[&slow[..], &[stays, &mode]].concat()),
            2,
        );
        assert_balanced(&outcome);
        let sum = |of: fn(&RoundRecord) -> u32| outcome.rounds.iter().map(of).sum::<u32>();
        // Users are available a quarter of the time, and about one in three leaves within the seven
        // seconds of a participation.
        assert!(sum(|round| round.invited) < 6 * 20, "{mode}");
        assert!(
            sum(|round| round.lost) > 5 && sum(|round| round.aggregated) > 10,
            "{mode}: {:?}",
            outcome.rounds
        );
        assert_eq!(outcome.durations["round"].count, 6);
    }
    assert!(
        always
            .rounds
            .iter()
            .all(|round| (round.invited, round.aggregated) == (40, 40))
    );
}

/// If this fails, an outage lets its users start or go on, keeps others away, or ends late.
#[test]
fn an_outage_takes_its_users_out_of_their_round_and_of_the_next_ones() {
    // A round lasts a second, and an upload is the second half of it.
    let alike = [
        "network.rtt_ms=500",
        "devices.speed.lognormal.median_ns_per_row_visit=1e-3",
        "network.rates.lognormal.uplink_median_mbit_per_s=0.30764800",
    ];
    let whole = run(
        small_with("fedmf", &[&alike[..], &["training.rounds=5"]].concat()),
        2,
    );
    let ends = |round: usize| whole.rounds[round - 1].virtual_time_s;
    for server in [&[][..], &["network.server.connections=40"]] {
        // It begins in the middle of the uploads of round 2, and ends in round 3 or 4.
        let (from, until) = (ends(2) - 0.5, ends(3) + 0.25);
        let rule = format!(
            "effect = \"outage\", users = {{ numbers = [3, 17] }}, from_s = {from}, until_s = {until}"
        );
        let outcome = with_rule(
            &rule,
            &[&alike[..], &["training.rounds=5"], server].concat(),
        );
        let counts: Vec<(u32, u32, u32)> = outcome
            .rounds
            .iter()
            .map(|round| (round.invited, round.aggregated, round.lost))
            .collect();
        assert_eq!(
            counts,
            [
                (40, 40, 0),
                (40, 38, 2),
                (38, 38, 0),
                (38, 38, 0),
                (40, 40, 0)
            ],
            "{server:?}"
        );
        let lost = outcome.rounds[1].bytes.up.lost;
        assert!(
            0 < lost && lost < 2 * FRAME,
            "{lost} bytes of the two uploads"
        );
        assert_eq!(
            (outcome.bytes.up.unreceived, outcome.bytes.down.lost),
            (0, 0)
        );
    }
}

/// If this fails, a whole region does not go at once, or users are invited during an outage.
#[test]
fn recurring_outages_take_a_region_out_at_once() {
    let rule = "effect = { recurring_outage = { mean_gap_s = 20, mean_duration_s = 10 } }, users = { share = 0.4 }";
    let outcome = with_rule(rule, &["network.rtt_ms=4000", "training.rounds=30"]);
    let region = 40
        - outcome
            .rounds
            .iter()
            .map(|round| round.invited)
            .min()
            .unwrap();
    assert!((8..=24).contains(&region), "{region} users");
    let (mut all, mut out, mut lost) = (0, 0, 0);
    for round in &outcome.rounds {
        match (40 - round.invited, round.lost) {
            (0, 0) => all += 1,
            (0, dropped) if dropped == region => lost += 1,
            (away, 0) if away == region => out += 1,
            other => panic!("{other:?} of {region} users are away or lost in one round"),
        }
    }
    assert!(
        all > 3 && out > 3 && lost > 0,
        "{all} rounds with everybody, {out} without the region, {lost} with its loss"
    );
}
