//! Runs with codecs that are composed in the scenario.

use fedrecsim_model::codec::BlockCodecs;
use fedrecsim_sim::Outcome;

use crate::support::{Workshop, assert_balanced, assert_finite, run, small_with};

/// The usual uplink: differences in four bits, with what was left out sent later.
const INT4: &str =
    "codec.uplink={ delta = true, values = \"int4\", entropy = \"ans\", error_feedback = true }";
const DELTA_DOWN: &str =
    "codec.downlink={ delta = true, values = { dead-zone = { zone = 1.5 } }, entropy = \"auto\" }";

const MODES: [&str; 4] = [
    "\"synchronous\"",
    "{ over-selection = { factor = 1.8 } }",
    "{ semi-synchronous = { deadline_s = 0.12, maximum_staleness = 2 } }",
    "{ fedbuff = { concurrency = 8, buffer = 4 } }",
];

fn ndcg(outcome: &Outcome) -> f64 {
    outcome
        .rounds
        .last()
        .unwrap()
        .accuracy
        .as_ref()
        .unwrap()
        .test["ndcg@10"]
}

/// If this fails, a composed codec loses bytes in some mode, or depends on threads.
#[test]
fn compositions_run_in_every_mode_and_repeat_their_digest() {
    for mode in MODES {
        let mode = format!("training.mode={mode}");
        let worldly = [
            "network.preset=\"mobile-pessimistic\"",
            "network.dropout=0.2",
            "training.rounds=6",
        ];
        let codecs = [INT4, DELTA_DOWN, "codec.first_download=\"seed\"", &mode];
        let share = if mode.contains("fedbuff") {
            &[][..]
        } else {
            &["training.participation={ share = 0.5 }"]
        };
        let overrides = [&worldly[..], &codecs, share].concat();
        let once = run(small_with("fedmf", &overrides), 1);
        assert_balanced(&once);
        assert_finite(&once);
        assert_eq!(
            once.digest,
            run(small_with("fedmf", &overrides), 3).digest,
            "{mode}"
        );
    }
}

/// If this fails, every method pays for bytes that a codec has saved, or a method does not get by
/// with a lossy codec.
#[test]
fn fewer_bits_are_fewer_bytes_for_every_method() {
    for method in [
        "fedrap",
        "feddad",
        "pfedrec",
        "fedmf",
        "fedncf",
        "fedrecon",
        "fcf",
        "fcf-bts",
        "fedgram",
        "fedspec",
        "privirec",
        "fedtide",
        "gpfedrec",
        "fedca",
        "fedem",
        "fedea",
        "cofedrec",
        "fedcia",
        "fedcia-gsp",
        "fedpeft",
        "lightfr",
        "adafedrec",
    ] {
        let sent = |overrides: &[&str]| {
            let outcome = run(small_with(method, overrides), 2);
            assert_balanced(&outcome);
            assert_finite(&outcome);
            (outcome.bytes.up.sent, outcome.bytes.down.sent)
        };
        let (up, down) = sent(&[]);
        let (less_up, less_down) = sent(&[INT4, "codec.downlink={ values = \"int8\" }"]);
        assert!(
            3 * less_up < up && 2 * less_down < down,
            "{method}: {up} to {less_up}, {down} to {less_down}"
        );
    }
}

/// If this fails, rows that the server has not chosen take bytes, or whoever is evaluated does not
/// download all rows.
#[test]
fn chosen_rows_alone_travel_and_all_are_scored_with() {
    let rows = [
        "codec.uplink=\"rows-f32\"",
        "codec.downlink=\"rows-f32\"",
        "network.dropout=0",
    ];
    let run_of = |share| {
        let share = format!("method={{ fcf-bts = {{ row_share = {share} }} }}");
        run(small_with("random", &[&rows[..], &[&share]].concat()), 2)
    };
    let (all, some) = (run_of("1"), run_of("0.1"));
    let sent = |outcome: &Outcome| [outcome.bytes.up.sent, outcome.bytes.down.sent];
    for (whole, part) in sent(&all).into_iter().zip(sent(&some)) {
        assert!(8 * part < whole, "{part} of {whole}");
    }
    let inference = |outcome: &Outcome| outcome.rounds.last().unwrap().inference_bytes;
    assert_eq!(inference(&some), inference(&all));
    assert!(inference(&some) > Some(40 * 150 * 32 * 4));
}

/// If this fails, the codec of one block is used for another.
#[test]
fn a_single_block_has_a_codec_of_its_own() {
    let scenario = small_with("fedncf", &[]);
    let blocks: Vec<String> = {
        let world = crate::support::world(scenario);
        let layout = world.upload_layout(
            fedrecsim_methods::Phase::default(),
            fedrecsim_core::UserId(0),
        );
        layout
            .blocks()
            .iter()
            .map(|block| block.name.to_string())
            .collect()
    };
    let name = &blocks[0];
    let own = format!("codec.blocks.{name}.uplink={{ delta = true, values = \"int8\" }}");
    let world = crate::support::world(small_with("fedncf", &[&own]));
    let lossless = |codecs: &BlockCodecs| {
        let layout = world.upload_layout(
            fedrecsim_methods::Phase::default(),
            fedrecsim_core::UserId(0),
        );
        layout
            .blocks()
            .iter()
            .map(|block| codecs.of_block(block).is_lossless())
            .collect::<Vec<_>>()
    };
    let expected: Vec<bool> = (0..blocks.len()).map(|place| place > 0).collect();
    assert_eq!(
        (lossless(&world.uplink), lossless(&world.downlink)),
        (expected, vec![true; blocks.len()])
    );
}

/// If this fails, what the simulator says that differences save is not what a receiver needs.
#[test]
fn differences_take_fewer_bytes_than_tables_and_say_what_versions_cost() {
    let rounds = "training.rounds=8";
    let whole = run(small_with("fedmf", &[rounds]), 2);
    let changes = run(
        small_with(
            "fedmf",
            &[rounds, DELTA_DOWN, "codec.first_download=\"seed\""],
        ),
        2,
    );
    assert!(10 * changes.bytes.down.sent < whole.bytes.down.sent);
    let versions = changes.rounds.last().unwrap().versions.unwrap();
    assert_eq!(versions.model_bytes, 4 * 150 * 32);
    assert_eq!(versions.acknowledgement_bytes, 4 * 40);
    assert!(versions.differences_bytes > 0 && versions.differences_bytes < versions.model_bytes);
    assert_eq!(whole.rounds.last().unwrap().versions, None);
    // A participant of the last round is one version behind, so scoring needs a single difference.
    let inference = changes.rounds.last().unwrap().inference_bytes.unwrap();
    assert!(inference < changes.bytes.down.sent / 6, "{inference}");
    assert!(ndcg(&changes).is_finite());
}

/// If this fails, a mistake in a composition is found only when the run is under way, or not at
/// all.
#[test]
fn compositions_that_contradict_themselves_or_the_method_are_refused() {
    for (overrides, parts) in [
        (
            &["codec.uplink={ error_feedback = true }"][..],
            &["error_feedback", "needs `delta = true`"][..],
        ),
        (
            &["codec.downlink={ delta = true, error_feedback = true }"],
            &["is for uploads"],
        ),
        (
            &["codec.first_download=\"seed\""],
            &["first_download", "belongs to downloads with `delta = true`"],
        ),
        (
            &["codec.uplink={ select = { top-share = 1.5 } }"],
            &["top-share", "at most 1"],
        ),
        (&["codec.uplink={ values = \"int5\" }"], &["int5", "int8"]),
        (
            &["codec.blocks.X.uplink=\"dense-f32\""],
            &["no block `X`", "it has `C`"],
        ),
        (
            &["method=\"metamf\"", "codec.downlink={ delta = true }"],
            &["a download per user", "versions for each user"],
        ),
        (
            &["method=\"adafedrec\"", "codec.downlink={ delta = true }"],
            &["a download per user", "versions for each user"],
        ),
        (
            &["method=\"fcf-bts\"", "codec.downlink={ delta = true }"],
            &["other rows in each step", "to zero"],
        ),
    ] {
        let workshop = Workshop::new();
        workshop.refused(
            workshop.small(),
            overrides,
            &[parts, &["small.toml"]].concat(),
        );
    }
}

/// If this fails, a key does nothing and nobody hears of it.
#[test]
fn keys_of_a_composition_without_an_effect_are_warned_of() {
    let workshop = Workshop::new();
    let codec = "codec.uplink={ rounding = \"nearest\", scale = \"block\" }";
    workshop
        .run(workshop.small(), &[codec, "training.rounds=1"])
        .unwrap();
    let told = workshop.run_json()["warnings"].to_string();
    assert!(
        told.contains("`rounding` has no effect") && told.contains("`scale` has no effect"),
        "{told}"
    );
}
