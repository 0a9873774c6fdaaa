use fedrecsim_methods::Entry;
use fedrecsim_sim::testing::check_resumed_runs;

use crate::support::{methods, run, small_with, world};

/// Modes, with worlds that have participations in every phase when a round ends.
pub const MODES: [(&str, &[&str]); 14] = [
    (
        "synchronous",
        &[
            "network.dropout=0.3",
            "training.participation={ share = 0.4 }",
        ],
    ),
    (
        "on a shared link",
        &[
            "network.server.downlink_mbit_per_s=0.5",
            "network.server.connections=3",
        ],
    ),
    (
        "several steps in a round",
        &[
            "training.steps_per_round=3",
            "training.participation={ cohort = 4 }",
            "network.dropout=0.3",
        ],
    ),
    (
        "several steps of a buffer in a round",
        &[
            "training.steps_per_round=5",
            "training.mode={ fedbuff = { concurrency = 12, buffer = 2 } }",
            "network.preset=\"mobile-pessimistic\"",
        ],
    ),
    (
        "over-selection",
        &[
            "training.mode={ over-selection = { factor = 1.5, deadline_s = 100 } }",
            "training.participation={ cohort = 10 }",
            "network.preset=\"mobile-pessimistic\"",
        ],
    ),
    (
        "by utility",
        &[
            "training.client_selection={ oort = { exploration = 0.5 } }",
            "training.participation={ cohort = 10 }",
            "network.preset=\"mobile-pessimistic\"",
        ],
    ),
    (
        "late ones go on",
        &[
            "training.mode={ over-selection = { factor = 2.0, stragglers = \"late\" } }",
            "training.participation={ cohort = 10 }",
            "network.preset=\"mobile-pessimistic\"",
            "network.server.uplink_mbit_per_s=0.2",
            "training.client_selection=\"round-robin\"",
        ],
    ),
    (
        "semi-synchronous",
        &[
            "training.mode={ semi-synchronous = { deadline_s = 0.4, maximum_staleness = 3 } }",
            "training.participation={ cohort = 12 }",
            "network.preset=\"mobile-pessimistic\"",
            "training.client_selection=\"never-twice-in-a-row\"",
        ],
    ),
    (
        "fedbuff",
        &[
            "training.mode={ fedbuff = { concurrency = 12, buffer = 4 } }",
            "network.preset=\"mobile-pessimistic\"",
            "network.dropout=0.2",
            "devices.speed.lognormal.log_sigma=2.0",
        ],
    ),
    (
        "fedbuff on a shared link",
        &[
            "training.mode={ fedbuff = { concurrency = 12, buffer = 3 } }",
            "network.server.uplink_mbit_per_s=0.3",
            "network.server.downlink_mbit_per_s=0.3",
            "network.server.connections=5",
            "availability.pattern.on-off={ mean_on_s = 60, mean_off_s = 30 }",
            "devices.speed.lognormal.median_ns_per_row_visit=1000000",
        ],
    ),
    (
        "fedasync",
        &[
            "training.mode={ fedasync = { concurrency = 8 } }",
            "network.preset=\"mobile-pessimistic\"",
            "training.client_selection=\"by-data-size\"",
        ],
    ),
    (
        "semi-synchronous over tcp",
        &[
            "training.mode={ semi-synchronous = { deadline_s = 1.5, maximum_staleness = 3 } }",
            "training.participation={ cohort = 12 }",
            "network.preset=\"mobile-pessimistic\"",
            "network.sharing=\"tcp\"",
            "network.server={ uplink_mbit_per_s = 1, downlink_mbit_per_s = 1, connections = 9 }",
        ],
    ),
    (
        "fedbuff with outages",
        &[
            "training.mode={ fedbuff = { concurrency = 12, buffer = 4 } }",
            "network.preset=\"mobile-pessimistic\"",
            "devices.speed.lognormal.median_ns_per_row_visit=1000000",
            "faults=[{ effect = { recurring_outage = { mean_gap_s = 9, mean_duration_s = 3 } }, users = { share = 0.5 } }]",
        ],
    ),
    (
        "fedasync with faults",
        &[
            "training.mode={ fedasync = { concurrency = 8 } }",
            "network.preset=\"mobile-pessimistic\"",
            "devices.speed.lognormal.median_ns_per_row_visit=1000000",
            "faults=[{ effect = \"drop\", probability = 0.2 }, { effect = { delay_s = 2 }, probability = 0.3 }]",
        ],
    ),
];

/// If this fails, a run that was stopped and resumed comes to another result than one that was not.
#[test]
fn every_method_in_every_mode_ends_alike_from_every_checkpoint() {
    for (mode, overrides) in MODES {
        let takes_part = |entry: &Entry| mode == "synchronous" || entry.placement.trains();
        for entry in methods().into_iter().filter(takes_part) {
            let what = format!("{} {mode}", entry.name);
            let scenario = small_with(entry.name, &[&["training.rounds=3"], overrides].concat());
            check_resumed_runs(&|| Ok(world(scenario.clone())))
                .unwrap_or_else(|reason| panic!("{what}: {reason}"));
        }
    }
}

/// If this fails, a run with row requests forgets the requests when it is stopped and resumed.
#[test]
fn downloads_that_were_asked_for_end_alike_from_every_checkpoint() {
    let exact = [
        "codec.uplink=\"rows-f32\"",
        "codec.downlink={ select = \"needed-rows\" }",
    ];
    let lossy = [
        "codec.uplink={ delta = true, values = \"int8\" }",
        "codec.downlink={ select = \"needed-rows\", values = \"int4\" }",
    ];
    for ((mode, overrides), codecs) in MODES.iter().flat_map(|mode| [(mode, exact), (mode, lossy)])
    {
        let scenario = small_with(
            "fedmf",
            &[&["training.rounds=4"], *overrides, &codecs].concat(),
        );
        check_resumed_runs(&|| Ok(world(scenario.clone())))
            .unwrap_or_else(|reason| panic!("{mode}: {reason}"));
    }
}

/// If this fails, no participation of the modes above is under way at the end of a round, so
/// resuming them shows little.
#[test]
fn the_worlds_above_leave_participations_in_every_phase() {
    let mut lengths = Vec::new();
    for (mode, overrides) in MODES {
        let scenario = small_with("fedmf", &[&["training.rounds=2"], overrides].concat());
        let outcome = run(scenario, 1);
        let unfinished = outcome.bytes.up.in_flight + outcome.bytes.down.in_flight;
        lengths.push((mode, unfinished));
    }
    let with_some = lengths.iter().filter(|(_, bytes)| *bytes > 0).count();
    assert!(with_some >= 5, "{lengths:?}");
}
