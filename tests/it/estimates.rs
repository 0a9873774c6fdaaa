//! What `validate --estimate` says of a run, beside what the run then takes.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use fedrecsim_sim::{self as sim, RehearsalLength, RunControl};
use serde_json::Value;

use crate::support::{Workshop, small_with, world};

/// Asserts that two amounts differ by at most 30 %.
fn assert_near(what: &str, estimated: f64, found: f64) {
    assert!(
        (estimated - found).abs() <= 0.3 * found.max(1e-9),
        "{what}: estimated {estimated}, found {found}"
    );
}

/// Returns the length of a rehearsal of this many rounds.
fn of_rounds(rounds: u32) -> RehearsalLength {
    RehearsalLength {
        rounds,
        at_least: Duration::ZERO,
        at_most: Duration::from_secs(60),
    }
}

/// If this fails, somebody who sizes a deployment from an estimate buys too much or too little.
#[test]
fn bytes_and_virtual_time_of_a_round_are_as_estimated() {
    let fedbuff = "training.mode={ fedbuff = { concurrency = 20, buffer = 10 } }";
    let cases: [(&str, &[&str]); 6] = [
        ("fedrap", &[]),
        ("fedmf", &["codec.uplink=\"dense-f32\""]),
        ("pfedrec", &["network.dropout=0.2"]),
        ("fedmf", &["training.participation={ cohort = 25 }"]),
        ("fedncf", &["codec.uplink=\"sparse-f32\""]),
        ("fedmf", &[fedbuff]),
    ];
    for (method, overrides) in cases {
        let rounds = ["training.rounds=6"];
        let world = Arc::new(world(small_with(method, &[overrides, &rounds].concat())));
        let estimate = sim::estimate(&world, 2, of_rounds(3)).unwrap();
        let outcome = sim::run(world, &RunControl::with_threads(2), &mut ()).unwrap();
        let rounds = outcome.rounds.len() as f64;
        let case = |what: &str| format!("{method} {overrides:?}: {what}");
        assert_near(
            &case("bytes up"),
            estimate.bytes_per_round.up,
            outcome.bytes.up.sent as f64 / rounds,
        );
        assert_near(
            &case("bytes down"),
            estimate.bytes_per_round.down,
            outcome.bytes.down.sent as f64 / rounds,
        );
        let virtual_time_s = outcome.rounds.last().unwrap().virtual_time_s / rounds;
        assert_near(
            &case("virtual time"),
            estimate.virtual_time_per_round_s,
            virtual_time_s,
        );
    }
}

/// If this fails, somebody who has differences sent down is told that everybody downloads the whole
/// model each time, or that nobody does.
#[test]
fn downloads_of_differences_are_as_estimated() {
    let int8 = "codec.downlink={ delta = true, values = \"int8\" }";
    let dead_zone = "codec.downlink={ delta = true, values = { dead-zone = { step = 1.0, zone = 1.5 } }, entropy = \"auto\" }";
    let seed = "codec.first_download=\"seed\"";
    let cohort = |size: u32| format!("training.participation={{ cohort = {size} }}");
    let cases: [(&str, &[&str]); 5] = [
        ("fedmf", &[int8]),
        ("fedmf", &[int8, &cohort(10)]),
        ("fedmf", &[dead_zone, &cohort(4)]),
        ("fedrap", &[int8, seed, &cohort(10)]),
        ("fedncf", &[dead_zone, &cohort(15), "network.dropout=0.1"]),
    ];
    for (method, overrides) in cases {
        let rounds = ["training.rounds=30"];
        let world = Arc::new(world(small_with(method, &[overrides, &rounds].concat())));
        let estimated = sim::estimate(&world, 2, of_rounds(3))
            .unwrap()
            .bytes_per_round
            .down;
        let outcome = sim::run(world, &RunControl::with_threads(2), &mut ()).unwrap();
        let found = outcome.bytes.down.sent as f64 / outcome.rounds.len() as f64;
        assert_near(&format!("{method} {overrides:?}"), estimated, found);
    }
}

/// If this fails, an estimate in front of a run reaches its result.
#[test]
fn a_rehearsal_leaves_the_run_as_it_is() {
    let scenario = || small_with("fedrap", &["training.rounds=3"]);
    let rehearsed = Arc::new(world(scenario()));
    sim::estimate(&rehearsed, 2, of_rounds(2)).unwrap();
    let control = RunControl::with_threads(2);
    let digest = sim::run(rehearsed, &control, &mut ()).unwrap().digest;
    assert_eq!(
        digest,
        sim::run(world(scenario()), &control, &mut ())
            .unwrap()
            .digest
    );
}

/// If this fails, the memory that uploads take while they wait for the step is not counted, or
/// counted as if every upload were a whole table.
#[test]
fn uploads_of_whole_tables_are_held_as_their_changed_rows() {
    let held = |codec: &str| {
        let overrides = [
            "dataset.generator.items=4000",
            &format!("codec.uplink=\"{codec}\""),
        ];
        let world = Arc::new(world(small_with("fedmf", &overrides)));
        sim::estimate(&world, 1, of_rounds(1))
            .unwrap()
            .memory
            .uploads_bytes as f64
    };
    let (dense, rows) = (held("dense-f32"), held("rows-f32"));
    assert!(
        rows > 0.0 && dense > 0.8 * rows && dense < 1.2 * rows,
        "{dense} and {rows}"
    );
}

/// If this fails, methods that train nothing, or at the server, cannot be estimated.
#[test]
fn methods_without_training_devices_have_estimates() {
    for method in ["popularity", "mf"] {
        let world = Arc::new(world(small_with(method, &[])));
        let estimate = sim::estimate(&world, 1, of_rounds(2)).unwrap();
        // An actor takes some bytes, and its device keeps none.
        assert!(
            estimate.memory.devices_bytes <= 300 * world.dataset.users() as u64,
            "{method}: {estimate:?}"
        );
    }
}

/// If this fails, somebody whose rates are too high is told that the simulator has a defect.
#[test]
fn an_estimate_of_a_run_that_diverges_says_so() {
    let world = Arc::new(world(small_with(
        "fedmf",
        &["training.divergence_limit=1e-6", "training.rounds=3"],
    )));
    let error = sim::estimate(&world, 1, of_rounds(2))
        .unwrap_err()
        .to_string();
    assert!(error.contains("diverged"), "{error}");
}

/// If this fails, a run is killed in the middle for memory that `validate --estimate` left out, or
/// one that fits is refused.
#[cfg(target_os = "linux")]
#[test]
fn a_run_has_the_peak_that_was_estimated() {
    let workshop = Workshop::new();
    let scenario = workshop.small();
    let program = |command: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_fedrecsim"))
            .current_dir(workshop.path(""))
            // The allocator keeps what was freed for a second, so that a slow host would have more.
            .env("MIMALLOC_PURGE_DELAY", "0")
            .args(command)
            .arg(&scenario)
            .args(["--threads", "2", "--set", "method=\"fedmf\""])
            .args(["--set", "dataset.generator={ users = 8000, items = 1000 }"])
            .args(["--set", "training.rounds=4"])
            .args(["--set", "training.participation={ cohort = 400 }"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    };
    let told = program(&["validate", "--estimate"]);
    let words: Vec<&str> = told.split_whitespace().collect();
    let needs = words.iter().position(|word| *word == "needs").unwrap();
    assert_eq!(words[needs + 2], "MB", "{told}");
    let estimated = 1e6 * words[needs + 1].parse::<f64>().unwrap();
    let run: Value = serde_json::from_str(&program(&["run", "--json"])).unwrap();
    let found = run["wall"]["peak_rss_bytes"].as_f64().unwrap();
    assert!(
        (0.95..1.35).contains(&(estimated / found)),
        "estimated {estimated}, found {found}"
    );
}
