use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::Arc;

use fedrecsim_core::UserId;
use fedrecsim_core::legs::{Job, Peer, Route};
use fedrecsim_scenario::Scenario;
use fedrecsim_sim::outcome::{
    Booking, ByDirection, Ending, Flow, LinkEvent, RoundRecord, RoundSpan,
};
use fedrecsim_sim::testing::{Clause, Contract, contract};
use fedrecsim_sim::{self as sim, Outcome, RoundObserver, RunControl, Simulation, World};

use crate::support::{assert_balanced, assert_finite, small_with};

/// A method that has a third party.
mod acquainted;
/// Tests of the method of this crate that has a third party.
mod fedpergnn;

use acquainted::{ACQUAINTED, LEAKING};

/// Overrides that make all users alike: 8 Mbit/s, 10 ms of latency, 1 microsecond per row visit.
const ALIKE: [&str; 5] = [
    "network.rates.lognormal.downlink_median_mbit_per_s=8",
    "network.rates.lognormal.uplink_median_mbit_per_s=8",
    "network.rtt_ms=20",
    "devices.speed.lognormal.median_ns_per_row_visit=1000",
    "codec.uplink=\"rows-f32\"",
];

fn acquainted(overrides: &[&str]) -> Scenario {
    // Parameters are those of a method that trains, and nobody reads them.
    let mut scenario = small_with("fedmf", &[&ALIKE[..], overrides].concat());
    scenario.method.name = ACQUAINTED.name.to_owned();
    scenario
}

fn world(scenario: &Scenario) -> World {
    let streams = fedrecsim_core::Streams::new(scenario.seed);
    let dataset = fedrecsim_data::dataset::load(&scenario.dataset, &[], streams).unwrap();
    World::with_methods(scenario.clone(), Arc::new(dataset), &[ACQUAINTED]).unwrap()
}

fn run(scenario: &Scenario, threads: usize, observer: &mut dyn RoundObserver) -> Outcome {
    sim::run(
        world(scenario),
        &RunControl::with_threads(threads),
        observer,
    )
    .unwrap()
}

/// If this fails, the contract cannot be checked for methods with phases and a third party, or a
/// private number in a request is overlooked.
#[test]
fn the_contract_covers_phases_and_requests() {
    contract(&ACQUAINTED).unwrap_or_else(|breach| panic!("{breach}"));
    let breach = Contract::of(&LEAKING)
        .check_clause(Clause::PrivateState)
        .unwrap_err();
    assert!(
        breach
            .seen
            .contains("of the values of the request to the third party"),
        "{breach}"
    );
}

/// Counts how transfers and jobs ended.
#[derive(Default)]
struct Endings {
    transfers: BTreeMap<(Route, Ending), u32>,
    jobs: BTreeMap<(Job, Ending), u32>,
    in_line: u32,
}

impl RoundObserver for Endings {
    fn round_finished(&mut self, _round: &RoundRecord, _total: ByDirection<Flow>) {}

    fn happened(&mut self, _round: Option<RoundSpan>, bookings: &[Booking]) {
        for booking in bookings {
            match booking.event {
                LinkEvent::InLine(route) | LinkEvent::Connected(route) => {
                    assert_eq!(
                        route.peer,
                        Peer::Server,
                        "the third party is not behind the server's link"
                    );
                    self.in_line += 1;
                }
                LinkEvent::TransferEnded { route, ending, .. } => {
                    *self.transfers.entry((route, ending)).or_default() += 1;
                }
                LinkEvent::WorkEnded { job, ending, .. } => {
                    *self.jobs.entry((job, ending)).or_default() += 1
                }
                _ => {}
            }
        }
    }
}

/// If this fails, what users exchange with a third party, or the time that it takes them, is
/// missing in their accounts.
#[test]
fn what_is_exchanged_with_a_third_party_belongs_to_the_accounts_of_users() {
    let outcome = run(&acquainted(&["network.server.connections=9"]), 2, &mut ());
    let (mut bytes, mut spent) = (ByDirection::<Flow>::default(), 0);
    for user in outcome.users.as_ref().unwrap() {
        bytes += user.bytes;
        spent += user.account.metered.taking_part_ns;
        assert_eq!(
            (user.account.invited, user.account.completed),
            (3, 3),
            "{user:?}"
        );
    }
    assert_eq!(
        (bytes, spent),
        (outcome.bytes, outcome.network.levels.waiting_users.integral)
    );
    // Frames to and from the third party take none of the server's connections.
    let elsewhere = outcome.third_party_bytes.unwrap();
    let carried = outcome.network.levels.up_bits_per_s.integral / 8_000_000_000;
    let expected = u128::from(outcome.bytes.up.sent - elsewhere.up.sent);
    assert!(
        elsewhere.up.sent > 0 && carried.abs_diff(expected) <= expected / 10_000,
        "{carried} of {expected} bytes"
    );
}

/// If this fails, what goes to and from a third party is not counted, counted twice, or seen by the
/// server.
#[test]
fn what_is_exchanged_with_a_third_party_is_booked_apart_and_in_the_total() {
    let outcome = run(&acquainted(&[]), 2, &mut ());
    assert_finite(&outcome);
    assert_balanced(&outcome);
    let of_round = |round: usize| outcome.rounds[round].third_party_bytes.unwrap();
    assert_eq!(
        of_round(0),
        ByDirection::default(),
        "nobody asks while ratings are counted"
    );
    assert_eq!(
        outcome.rounds[0].bytes.down,
        Flow::default(),
        "nothing is downloaded while ratings are counted"
    );
    // 28 bytes of header, and in the second round no row of a reply: nobody had asked before.
    let (asked, answered) = (of_round(1).up, of_round(1).down);
    assert_eq!(
        (asked.frames, answered.frames, answered.values),
        (40, 40, 0)
    );
    let ratings: u64 = (0..40)
        .map(|user| {
            world(&acquainted(&[]))
                .dataset
                .train_items(UserId(user))
                .len() as u64
        })
        .sum();
    assert_eq!((asked.header, asked.values), (40 * 28, 4 * ratings));
    assert_eq!(
        of_round(2).down.values,
        4 * ratings,
        "everybody asked for the same items before"
    );
    let record = &outcome.rounds[1];
    assert_eq!(
        record.bytes.up.values,
        asked.values + 4 * ratings,
        "p travels back beside the request"
    );
    assert_eq!(record.bytes.down.frames, 80);
    let mut sum = ByDirection::<Flow>::default();
    (0..3).for_each(|round| sum += of_round(round));
    assert_eq!(outcome.third_party_bytes, Some(sum));
    assert!(
        outcome
            .model
            .table(0)
            .as_slice()
            .iter()
            .any(|value| *value > 1.0),
        "replies were not trained on"
    );
}

/// If this fails, a leg takes no time, or takes it twice; or a phase without a download waits for
/// one.
#[test]
fn every_leg_takes_its_time() {
    let mut scenario = acquainted(&[
        "training.participation={ cohort = 1 }",
        "devices.fixed_ms_per_participation=5",
    ]);
    scenario.server.ns_per_row_visit = 500.0;
    let outcome = run(&scenario, 1, &mut ());
    for (round, record) in outcome.rounds.iter().enumerate() {
        let bytes = (record.bytes.up.sent + record.bytes.down.sent) as f64;
        let (transfers, work) = match round {
            // Ten row visits, and an upload.
            0 => (1.0, 10.0),
            // The same rows are visited for the request, and at half the time by the third party.
            _ => (4.0, 1_000.0 + 1.5 * (record.work.finished as f64 - 1_000.0)),
        };
        let expected = 0.005 + transfers * 0.01 + bytes * 1e-6 + work * 1e-6;
        assert!(
            (record.duration_s - expected).abs() < 1e-8,
            "{round}: {} s and not {expected}",
            record.duration_s
        );
    }
    assert!(outcome.durations["request"].count == 2 && outcome.durations["reply"].count == 2);
}

/// If this fails, somebody cannot drop out in one of the legs, or a frame that a fault spoils is
/// not noticed by the peer that receives it.
#[test]
fn dropouts_and_faults_hit_every_leg() {
    let mut endings = Endings::default();
    let slow = [
        "network.dropout=0.6",
        "training.rounds=30",
        "server.ns_per_row_visit=1000000",
        "devices.speed.lognormal.median_ns_per_row_visit=1000000",
    ];
    let outcome = run(&acquainted(&slow), 2, &mut endings);
    assert_balanced(&outcome);
    for route in [Route::DOWNLOAD, Route::REQUEST, Route::REPLY, Route::UPLOAD] {
        assert!(
            endings.transfers.contains_key(&(route, Ending::Lost)),
            "nobody drops out in the {}",
            route.name()
        );
    }
    for job in [Job::Request, Job::Reply, Job::Training] {
        assert!(
            endings.jobs.contains_key(&(job, Ending::Lost)),
            "nobody drops out in the {}",
            job.name()
        );
    }
    for effect in ["\"drop\"", "{ cut_at_byte = 20 }", "\"corrupt\""] {
        let mut endings = Endings::default();
        let fault = format!("faults=[{{ probability = 0.3, effect = {effect} }}]");
        let outcome = run(&acquainted(&[&fault, "training.rounds=4"]), 2, &mut endings);
        assert_balanced(&outcome);
        for route in [Route::REQUEST, Route::REPLY] {
            assert!(
                endings.transfers[&(route, Ending::Lost)] > 5,
                "{effect}: no {} is lost",
                route.name()
            );
        }
    }
}

/// If this fails, an exchange depends on threads or on the order of events within a step, or the
/// server's link carries what does not go through it.
#[test]
fn exchanges_repeat_their_digest_in_every_mode() {
    for mode in [
        &[
            "training.mode={ over-selection = { factor = 1.5 } }",
            "training.participation={ cohort = 10 }",
        ][..],
        &[
            "training.mode={ semi-synchronous = { deadline_s = 0.05 } }",
            "training.participation={ cohort = 10 }",
        ],
        &[
            "network.server={ uplink_mbit_per_s = 1, downlink_mbit_per_s = 1, connections = 3 }",
            "network.dropout=0.3",
        ],
    ] {
        let scenario = acquainted(
            &[
                mode,
                &["training.rounds=5", "devices.preset=\"phone-lognormal\""],
            ]
            .concat(),
        );
        let mut endings = Endings::default();
        let outcome = run(&scenario, 1, &mut endings);
        assert_balanced(&outcome);
        assert_eq!(
            run(&scenario, 3, &mut ()).digest,
            outcome.digest,
            "{mode:?}"
        );
        let has_line = mode[0].contains("connections");
        assert_eq!(endings.in_line > 0, has_line, "{mode:?}");
    }
}

/// If this fails, a participation that was invited before a checkpoint is answered by what the
/// third party learned after it, or what the third party knows is forgotten.
#[test]
fn an_exchange_survives_a_checkpoint_while_its_frames_are_on_their_way() {
    let scenario = acquainted(&[
        "training.rounds=30",
        "training.mode={ fedbuff = { concurrency = 12, buffer = 5 } }",
        "devices.preset=\"phone-lognormal\"",
        "network.rates.lognormal.uplink_log_sigma=1.2",
        "network.dropout=0.1",
    ]);
    let whole = run(&scenario, 2, &mut ());
    let (mut requests, mut replies) = (0, 0);
    let control = RunControl::with_threads(2);
    let mut simulation = Simulation::new(world(&scenario), &control).unwrap();
    for round in 1..30 {
        simulation.step().unwrap();
        let mut saved = Vec::new();
        simulation.save(&mut saved).unwrap();
        simulation =
            Simulation::restore(world(&scenario), &control, Cursor::new(saved.clone())).unwrap();
        let mut again = Vec::new();
        simulation.save(&mut again).unwrap();
        assert!(again == saved, "round {round}: its own checkpoint differs");
        let stopped = Simulation::restore(world(&scenario), &control, Cursor::new(saved))
            .unwrap()
            .finish()
            .unwrap();
        let under_way = stopped.third_party_bytes.unwrap();
        requests += u64::from(under_way.up.in_flight > 0);
        replies += u64::from(under_way.down.in_flight > 0);
    }
    simulation.step().unwrap();
    assert_eq!(simulation.finish().unwrap().digest, whole.digest);
    assert!(
        requests > 3 && replies > 3,
        "checkpoints with requests on their way: {requests}, replies: {replies}"
    );
}
