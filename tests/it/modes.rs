use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fedrecsim_core::legs::Route;
use fedrecsim_core::{Error, InvitationId, Round, Step, UserId};
use fedrecsim_methods::{Phase, server};
use fedrecsim_model::{Layout, Model, Table};
use fedrecsim_sim::outcome::{
    Booking, ByDirection, Ending, Flow, LinkEvent, RoundRecord, RoundSpan,
};
use fedrecsim_sim::workers::{Device, Download, Invited};
use fedrecsim_sim::{self as sim, Outcome, RoundObserver, RunControl, Stop, World};

use crate::support::{assert_balanced, run, small_with, world};

const WORLDLY: [&str; 3] = [
    "network.preset=\"wifi-2020\"",
    "network.dropout=0.3",
    "devices.preset=\"phone-lognormal\"",
];

const METHODS: [&str; 3] = ["fedrap", "pfedrec", "fedmf"];

/// If this fails, a mode that waits for everybody and needs everybody differs from the synchronous
/// one.
#[test]
fn modes_without_an_effective_deadline_are_synchronous() {
    for method in METHODS {
        for participation in ["\"all\"", "{ cohort = 15 }"] {
            let with = |mode: &str| {
                let participation = format!("training.participation={participation}");
                run(
                    small_with(method, &[&WORLDLY[..], &[&participation, mode]].concat()),
                    2,
                )
            };
            let synchronous = with("training.mode=\"synchronous\"");
            for mode in [
                "semi-synchronous = { deadline_s = 1e9 }",
                "over-selection = { factor = 1.0 }",
            ] {
                let other = with(&format!("training.mode={{ {mode} }}"));
                assert_eq!(other.rounds, synchronous.rounds, "{method}, {mode}");
                assert_eq!(other.digest, synchronous.digest, "{method}, {mode}");
            }
        }
    }
}

/// If this fails, the buffer's mean differs from the synchronous one although all updates are
/// fresh.
#[test]
fn a_buffer_of_fresh_updates_of_everybody_is_a_synchronous_round() {
    for method in METHODS {
        for codec in ["dense-f32", "rows-f32", "sparse-f32"] {
            let with = |mode: &str| {
                let codec = format!("codec.uplink=\"{codec}\"");
                run(
                    small_with(
                        method,
                        &[
                            "training.rounds=1",
                            &codec,
                            &format!("training.mode={mode}"),
                        ],
                    ),
                    2,
                )
            };
            let synchronous = with("\"synchronous\"");
            let buffered = with("{ fedbuff = { concurrency = 40, buffer = 40 } }");
            // Participations that begin at once after an update are still on their way when the
            // last update arrives.
            assert!(
                buffered.rounds[0].invited > 40 && buffered.rounds[0].aggregated == 40,
                "{method}"
            );
            assert_eq!(
                bits(buffered.model.table(0)),
                bits(synchronous.model.table(0)),
                "{method}, {codec}"
            );
            assert_eq!(
                buffered.rounds[0].loss, synchronous.rounds[0].loss,
                "{method}, {codec}"
            );
        }
    }
}

fn bits(table: &Table) -> Vec<u32> {
    table
        .as_slice()
        .iter()
        .map(|value| value.to_bits())
        .collect()
}

/// If this fails, a round that nobody can be invited to ends at the instant at which it begins, or
/// goes on beyond its deadline, and the updates that are under way are late for all rounds.
#[test]
fn a_round_with_a_deadline_that_invites_nobody_waits_for_it() {
    // Everybody is busy for some seconds, or nobody is drawn.
    let slow = "network.rates.lognormal.uplink_median_mbit_per_s=0.05";
    for (participation, expected) in [
        ("{ poisson = 1.0 }", 40),
        ("{ poisson = 1e-9 }", 0),
        ("\"all\"", 40),
    ] {
        let outcome = run(
            small_with(
                "fedmf",
                &[
                    slow,
                    "training.rounds=5",
                    "training.mode={ semi-synchronous = { deadline_s = 1, maximum_staleness = 9 } }",
                    &format!("training.participation={participation}"),
                ],
            ),
            2,
        );
        let ends = outcome.rounds.iter().map(|round| round.virtual_time_s);
        assert_eq!(
            ends.collect::<Vec<_>>(),
            [1.0, 2.0, 3.0, 4.0, 5.0],
            "{participation}"
        );
        let used: u32 = outcome.rounds.iter().map(|round| round.aggregated).sum();
        assert_eq!(used, expected, "{participation}");
    }
}

/// If this fails, rounds of nobody are over before the first user comes, or a round without a draw
/// takes time although nobody is waited for.
#[test]
fn a_round_waits_for_somebody_to_be_there_and_for_nobody_who_is_not_drawn() {
    let away = "faults=[{ effect = \"outage\", from_s = 0, until_s = 50 }]";
    let rounds = |mode: &str, participation: &str| {
        let overrides = [
            away,
            "training.rounds=3",
            &format!("training.mode={mode}"),
            &format!("training.participation={participation}"),
        ];
        run(small_with("fedmf", &overrides), 2).rounds
    };
    for mode in [
        "\"synchronous\"",
        "{ semi-synchronous = { deadline_s = 4 } }",
    ] {
        for participation in ["{ poisson = 0.5 }", "{ cohort = 20 }"] {
            for round in rounds(mode, participation) {
                let is_there = round.virtual_time_s > 50.0 && round.virtual_time_s < 54.0;
                assert!(is_there, "{mode}, {participation}: {round:?}");
                assert!(round.aggregated > 5, "{mode}, {participation}: {round:?}");
            }
        }
    }
    let ends = |mode| {
        let rounds = rounds(mode, "{ poisson = 1e-9 }").into_iter();
        rounds.map(|round| round.virtual_time_s).collect::<Vec<_>>()
    };
    assert_eq!(ends("\"synchronous\""), [50.0, 50.0, 50.0]);
    let with_deadline = ends("{ semi-synchronous = { deadline_s = 4 } }");
    assert_eq!(with_deadline, [54.0, 58.0, 62.0]);
}

/// Trains users one by one, as a program without a clock would do.
struct Loop {
    world: Arc<World>,
    devices: BTreeMap<u32, Box<Device>>,
}

impl Loop {
    fn of(overrides: &[&str], method: &str) -> Self {
        Self {
            world: Arc::new(world(small_with(method, overrides))),
            devices: BTreeMap::new(),
        }
    }

    /// Returns the table that `user` makes of `global`, and its loss.
    fn train(&mut self, user: u32, step: u32, invitation_id: u32, global: &Table) -> (Table, f64) {
        let device = self.devices.remove(&user);
        let world = Arc::clone(&self.world);
        let name = world.method.initial().layout().blocks()[0].name.clone();
        let layout = Layout::of_table(name, global.shape());
        let model = Model::of_tables(layout, [global.clone()]);
        let download = server::Download::Shared(model);
        let download = Download::encode(step, Phase::default(), download, &world).unwrap();
        let invitation_id = InvitationId(invitation_id);
        let invited = Invited::alone(UserId(user), Step(step), invitation_id, &Arc::new(download));
        let invitation = invited.invitation.clone();
        let worked = invited.work_out(device, &world, &AtomicBool::default());
        let (device, upload) = worked.result.unwrap();
        self.devices.insert(user, device);
        let frame = upload.bytes(UserId(user), &invitation, &world).unwrap();
        let layout = self.world.upload_layout(Phase::default(), UserId(user));
        let update = self
            .world
            .uplink
            .decode(&frame, layout, &Model::none())
            .unwrap()
            .blocks
            .remove(0);
        (update.apply(Some(global)).unwrap(), upload.loss)
    }
}

/// If this fails, the asynchronous modes add something of their own to training, as with one client
/// at a time nothing is asynchronous.
#[test]
fn fedbuff_with_one_client_and_a_buffer_of_one_is_sequential_training() {
    let alone = "training.mode={ fedbuff = { concurrency = 1, buffer = 1 } }";
    // There are six steps more than users, so some users train for the second time.
    let overrides = [
        alone,
        "training.client_selection=\"round-robin\"",
        "training.rounds=46",
        "evaluation.every_rounds=46",
    ];
    for method in METHODS {
        let outcome = run(small_with(method, &overrides), 2);
        let mut sequence = Loop::of(&overrides, method);
        let mut global = Table::clone(sequence.world.method.initial().table(0));
        for (step, record) in (0..46).zip(&outcome.rounds) {
            let (table, loss) = sequence.train(step % 40, step, step, &global);
            assert_eq!(
                (record.aggregated, record.loss),
                (1, Some(loss)),
                "{method}, step {step}"
            );
            global = table;
        }
        assert_eq!(bits(outcome.model.table(0)), bits(&global), "{method}");
    }
}

/// Overrides that make links take .015 s, 0.02 s and 0.08 s and devices next to no time, so that a
/// delay decides who is late.
const LATE: [&str; 5] = [
    "training.client_selection=\"round-robin\"",
    "network.rtt_ms=30",
    "network.rates.lognormal.downlink_median_mbit_per_s=8",
    "network.rates.lognormal.uplink_median_mbit_per_s=2",
    "devices.speed.lognormal.median_ns_per_row_visit=1e-3",
];

#[track_caller]
fn assert_close(table: &Table, expected: impl Fn(usize) -> f64) {
    for (index, value) in table.as_slice().iter().enumerate() {
        let expected = expected(index);
        let apart = (f64::from(*value) - expected).abs();
        assert!(
            apart <= 1e-7 * expected.abs().max(1e-3),
            "value {index}: {value} instead of {expected}"
        );
    }
}

/// If this fails, FedAsync mixes otherwise than Xie et al. (2019, algorithm 1) say, or takes a
/// model for older or newer than it is.
#[test]
fn fedasync_mixes_an_update_in_by_its_share_and_its_staleness() {
    // User 1 uploads a millisecond later than user 0. By then the server has made a step and
    // invited user 2.
    let late =
        "faults=[{ effect = { delay_s = 0.001 }, direction = \"up\", users = { numbers = [1] } }]";
    let mode = "training.mode={ fedasync = { concurrency = 2, mixing = 0.6, staleness_weight = { polynomial = 0.5 } } }";
    let overrides = [&LATE[..], &[late, mode, "training.rounds=2"]].concat();
    let outcome = run(small_with("fedmf", &overrides), 2);
    let mut trainings = Loop::of(&overrides, "fedmf");
    let initial = Table::clone(trainings.world.method.initial().table(0));
    let (first, _) = trainings.train(0, 0, 0, &initial);
    let (second, _) = trainings.train(1, 0, 0, &initial);
    let at = |table: &Table, index: usize| f64::from(table.as_slice()[index]);
    let share = 0.6 / 2.0_f64.sqrt();
    assert_close(outcome.model.table(0), |index| {
        let stepped = f64::from((0.4 * at(&initial, index) + 0.6 * at(&first, index)) as f32);
        (1.0 - share) * stepped + share * at(&second, index)
    });
    assert_eq!(outcome.rounds[1].aggregated, 1);
}

/// If this fails, a late update is taken for a fresh one, or the model that it started from is
/// counted.
#[test]
fn a_late_update_joins_the_next_semi_synchronous_round_as_a_weighted_difference() {
    // A round takes .03 + .0193 + .0769 s; user 1 arrives after the first round's deadline and
    // before the second one's.
    let late =
        "faults=[{ effect = { delay_s = 0.03 }, direction = \"up\", users = { numbers = [1] } }]";
    let mode = "training.mode={ semi-synchronous = { deadline_s = 0.14, staleness_weight = { hinge = { a = 3.0, b = 0 } } } }";
    let overrides = [
        &LATE[..],
        &[
            late,
            mode,
            "training.participation={ cohort = 2 }",
            "training.rounds=2",
        ],
    ]
    .concat();
    let outcome = run(small_with("fedmf", &overrides), 2);
    let taken: Vec<_> = outcome
        .rounds
        .iter()
        .map(|round| (round.invited, round.aggregated, round.late))
        .collect();
    assert_eq!(taken, [(2, 1, 0), (2, 3, 0)]);
    assert_balanced(&outcome);
    let mut trainings = Loop::of(&overrides, "fedmf");
    let initial = Table::clone(trainings.world.method.initial().table(0));
    let (first, _) = trainings.train(0, 0, 0, &initial);
    let (late, _) = trainings.train(1, 0, 0, &initial);
    let (third, _) = trainings.train(2, 1, 1, &first);
    let (fourth, _) = trainings.train(3, 1, 1, &first);
    let at = |table: &Table, index: usize| f64::from(table.as_slice()[index]);
    let weight = 1.0 / (3.0 * 1.0 + 1.0);
    assert_close(outcome.model.table(0), |index| {
        let step = |table: &Table, base: &Table| at(table, index) - at(base, index);
        let sum = weight * step(&late, &initial) + step(&third, &first) + step(&fourth, &first);
        at(&first, index) + sum / (weight + 2.0)
    });
}

fn over_selected(mode: &str) -> Outcome {
    let mode = format!("training.mode={{ over-selection = {mode} }}");
    let worldly = [
        "network.preset=\"mobile-pessimistic\"",
        "devices.preset=\"phone-lognormal\"",
        "training.rounds=8",
    ];
    run(
        small_with(
            "fedmf",
            &[
                &worldly[..],
                &["training.participation={ cohort = 10 }", &mode],
            ]
            .concat(),
        ),
        2,
    )
}

/// If this fails, an over-selected round waits for users that it does not need, or does not say
/// what became of them.
#[test]
fn over_selection_takes_the_first_and_gives_the_rest_up() {
    let outcome = over_selected("{ factor = 1.5 }");
    assert_balanced(&outcome);
    let all = over_selected("{ factor = 1.0 }");
    for (round, slow) in outcome.rounds.iter().zip(&all.rounds) {
        assert_eq!(
            (round.invited, round.aggregated, round.cancelled, round.late),
            (15, 10, 5, 0),
            "{round:?}"
        );
        assert_eq!((slow.invited, slow.aggregated, slow.cancelled), (10, 10, 0));
    }
    assert!(outcome.bytes.up.cancelled + outcome.bytes.down.cancelled > 0);
    let time = |outcome: &Outcome| outcome.rounds[7].virtual_time_s;
    assert!(
        time(&outcome) < 0.8 * time(&all),
        "{} s, without over-selection {} s",
        time(&outcome),
        time(&all)
    );
}

/// Counts connections that are given to users who are given up at the same instant.
struct WastedConnections(usize);

impl RoundObserver for WastedConnections {
    fn round_finished(&mut self, _round: &RoundRecord, _total: ByDirection<Flow>) {}

    fn happened(&mut self, _round: Option<RoundSpan>, bookings: &[Booking]) {
        let is_given_up = |connected: &&Booking| {
            let after = bookings
                .iter()
                .filter(|booking| booking.user == connected.user && booking.at == connected.at);
            { after }.any(|booking| {
                matches!(
                    booking.event,
                    LinkEvent::TransferEnded {
                        ending: Ending::Cancelled,
                        ..
                    }
                )
            })
        };
        let connected = bookings
            .iter()
            .filter(|booking| matches!(booking.event, LinkEvent::Connected(_)));
        self.0 += connected.filter(is_given_up).count();
    }
}

/// If this fails, a user who is given up while waiting in line is first given a connection.
#[test]
fn nobody_who_is_given_up_gets_a_connection_that_another_leaves() {
    let mode = "training.mode={ over-selection = { factor = 2.0, deadline_s = 30 } }";
    let server =
        "network.server={ downlink_mbit_per_s = 1, uplink_mbit_per_s = 1, connections = 4 }";
    let scenario = small_with(
        "fedmf",
        &[
            mode,
            server,
            "training.participation={ cohort = 20 }",
            "training.rounds=3",
        ],
    );
    let mut wasted = WastedConnections(0);
    let outcome = sim::run(world(scenario), &RunControl::with_threads(1), &mut wasted).unwrap();
    assert_balanced(&outcome);
    let idle: Vec<_> = outcome.rounds.iter().map(|round| round.cancelled).collect();
    assert!(
        idle.iter().all(|cancelled| *cancelled > 8),
        "more than have a connection: {idle:?}"
    );
    assert_eq!(wasted.0, 0);
}

/// Counts how often an update of each user was used.
#[derive(Default)]
struct Used(BTreeMap<UserId, u32>);

impl RoundObserver for Used {
    fn round_finished(&mut self, _round: &RoundRecord, _total: ByDirection<Flow>) {}

    fn happened(&mut self, _round: Option<RoundSpan>, bookings: &[Booking]) {
        let used = |booking: &&Booking| {
            let LinkEvent::TransferEnded { route, ending, .. } = booking.event else {
                return false;
            };
            (route, ending) == (Route::UPLOAD, Ending::Done)
        };
        for booking in bookings.iter().filter(used) {
            *self.0.entry(booking.user).or_insert(0) += 1;
        }
    }
}

/// If this fails, a user's number decides who waits in line, and an over-selecting server never
/// hears of the last users.
#[test]
fn nobody_is_always_the_last_in_line() {
    let mode = "training.mode={ over-selection = { factor = 2.0 } }";
    let server = "network.server={ connections = 1 }";
    let scenario = small_with(
        "fedmf",
        &[
            mode,
            server,
            "training.participation={ cohort = 20 }",
            "training.rounds=16",
        ],
    );
    let mut used = Used::default();
    sim::run(world(scenario), &RunControl::with_threads(1), &mut used).unwrap();
    let updates = used.0;
    // Everybody is invited sixteen times and is one of the first twenty with probability 1/2. For
    // any of forty users, 0 or 16 of 16 would be far too unlikely.
    assert_eq!(updates.len(), 40, "{updates:?}");
    assert!(
        updates.values().all(|&times| (1..16).contains(&times)),
        "{updates:?}"
    );
}

/// If this fails, stragglers who may go on are cut off, used, or invited before they are done.
#[test]
fn stragglers_who_go_on_are_late() {
    let outcome = over_selected("{ factor = 1.5, stragglers = \"late\" }");
    assert_balanced(&outcome);
    assert!(
        outcome
            .rounds
            .iter()
            .all(|round| (round.invited, round.aggregated, round.cancelled) == (15, 10, 0))
    );
    let late: u32 = outcome.rounds.iter().map(|round| round.late).sum();
    let frame = 28 + 4 * 150 * 32;
    assert!(late > 0);
    assert_eq!(outcome.bytes.up.late, u64::from(late) * frame);
    let unfinished = 8 * 5 - late;
    assert!(
        outcome.bytes.up.in_flight + outcome.bytes.down.in_flight <= u64::from(unfinished) * frame
    );
}

/// If this fails, a deadline that nobody meets changes the model, or a run without any progress
/// goes on forever.
#[test]
fn a_deadline_that_nobody_meets_leaves_empty_rounds_and_too_many_end_the_run() {
    for mode in [
        "over-selection = { deadline_s = 0.001 }",
        "semi-synchronous = { deadline_s = 0.001, maximum_staleness = 0 }",
    ] {
        let mode = format!("training.mode={{ {mode} }}");
        // Three cohorts of thirteen are all that can be invited, as the users of earlier rounds are
        // still busy.
        let few = [
            "training.participation={ cohort = 13 }",
            "training.rounds=5",
            "training.empty_rounds_limit=3",
        ];
        let overrides = [&few[..], &["network.rtt_ms=100", &mode]].concat();
        let world = world(small_with("fedmf", &overrides));
        let initial = Table::clone(world.method.initial().table(0));
        let outcome = sim::run(world, &RunControl::with_threads(2), &mut ()).unwrap();
        assert!(
            matches!(
                outcome.stopped_by.as_ref().and_then(Error::ended_by),
                Some(Stop::NobodyFinished {
                    round: Round(3),
                    steps: 3
                })
            ),
            "{outcome:?}"
        );
        assert_eq!(outcome.rounds.len(), 3);
        for (number, round) in (1..).zip(&outcome.rounds) {
            assert_eq!((round.aggregated, round.loss), (0, None), "{mode}");
            assert!(
                (round.virtual_time_s - 0.001 * f64::from(number)).abs() < 1e-9,
                "{mode}: {}",
                round.virtual_time_s
            );
        }
        assert_eq!(**outcome.model.table(0), initial, "{mode}");
        assert_balanced(&outcome);
    }
}
