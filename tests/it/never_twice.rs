use std::collections::BTreeMap;

use fedrecsim_core::legs::Route;
use fedrecsim_core::{Error, UserId};
use fedrecsim_scenario::{ClientSelection, Users, too_few_users};
use fedrecsim_sim::outcome::{
    Booking, ByDirection, Ending, Flow, LinkEvent, RoundRecord, RoundSpan,
};
use fedrecsim_sim::{self as sim, Outcome, RoundObserver, RunControl, Stop};

use crate::support::{run, small_with, world};

const NEVER_TWICE: &str = "training.client_selection=\"never-twice-in-a-row\"";

/// Links and devices among which some users are many times slower than others.
const UNEQUAL: [&str; 3] = [
    "network.preset=\"mobile-pessimistic\"",
    "network.dropout=0.3",
    "devices.speed.lognormal.log_sigma=2.0",
];

/// If this fails, a run is refused that would come to its end, or one is begun that has nobody to
/// invite in the middle.
#[test]
fn nobody_twice_in_a_row_is_refused_where_and_only_where_a_round_would_have_nobody() {
    let mut refused = 0;
    for (users, rounds) in [(1_u32, 1), (1, 2), (2, 3), (3, 2), (5, 1), (5, 4)] {
        let generator = format!("dataset.generator.users={users}");
        let rounds = format!("training.rounds={rounds}");
        for concurrency in 1..=users {
            for (buffer, maximum_staleness) in [
                (1, 0),
                (1, 5),
                (2, 0),
                (2, 1),
                (3, 0),
                (3, 1),
                (4, 2),
                (6, 1),
            ] {
                let mode = format!(
                    "training.mode={{ fedbuff = {{ concurrency = {concurrency}, buffer = {buffer}, maximum_staleness = \
                     {maximum_staleness} }} }}"
                );
                let overrides = [&UNEQUAL[..], &[&generator, &rounds, &mode]].concat();
                // The world is made with a selection that passes the check, and then given this
                // one.
                let mut world = world(small_with("fedmf", &overrides));
                world.scenario.training.client_selection = ClientSelection::NeverTwiceInARow;
                let all = Users {
                    all: users,
                    able: users,
                    words: "",
                };
                let is_refused =
                    !too_few_users(&world.scenario.training, &world.policy, Some(all)).is_empty();
                let stopped_by = sim::run(world, &RunControl::with_threads(1), &mut ())
                    .unwrap()
                    .stopped_by;
                let had_nobody = matches!(
                    stopped_by.as_ref().and_then(Error::ended_by),
                    Some(Stop::NobodyAvailable { .. })
                );
                assert!(had_nobody || stopped_by.is_none(), "{stopped_by:?}");
                assert_eq!(had_nobody, is_refused, "{users} users, {rounds}, {mode}");
                refused += u32::from(is_refused);
            }
        }
    }
    assert!((30..80).contains(&refused), "{refused} of 136 are refused");
}

/// Notes the rounds that used an update of each user.
#[derive(Default)]
struct UsedIn {
    rounds: BTreeMap<UserId, Vec<u32>>,
    /// Uses in the round that is open.
    open: Vec<UserId>,
}

impl RoundObserver for UsedIn {
    fn round_finished(&mut self, round: &RoundRecord, _total: ByDirection<Flow>) {
        assert_eq!(self.open.len(), round.aggregated as usize);
        for user in self.open.drain(..) {
            self.rounds.entry(user).or_default().push(round.round);
        }
    }

    fn happened(&mut self, _round: Option<RoundSpan>, bookings: &[Booking]) {
        let used = |booking: &&Booking| {
            let LinkEvent::TransferEnded { route, ending, .. } = booking.event else {
                return false;
            };
            (route, ending) == (Route::UPLOAD, Ending::Done)
        };
        self.open
            .extend(bookings.iter().filter(used).map(|booking| booking.user));
    }
}

/// Runs the small scenario with FedMF, and checks that no update of a user is used in two rounds in
/// a row, or twice in one of them.
fn run_and_check(overrides: &[&str]) -> Outcome {
    let scenario = small_with("fedmf", &[&UNEQUAL[..], &[NEVER_TWICE], overrides].concat());
    let mut used = UsedIn::default();
    let outcome = sim::run(world(scenario), &RunControl::with_threads(2), &mut used).unwrap();
    assert!(
        outcome.stopped_by.is_none(),
        "{overrides:?}: {:?}",
        outcome.stopped_by
    );
    for (user, rounds) in &used.rounds {
        assert!(
            rounds.windows(2).all(|pair| pair[0] + 1 < pair[1]),
            "{overrides:?}: {user} is used in {rounds:?}"
        );
    }
    assert!(
        used.rounds.values().any(|rounds| rounds.len() > 1),
        "somebody takes part again"
    );
    outcome
}

/// If this fails, a slow user whose update is used many steps after its invitation is heard again
/// in the next step.
#[test]
fn no_update_of_a_user_is_used_in_two_steps_in_a_row() {
    for (mode, cohort) in [
        (
            "fedbuff = { concurrency = 20, buffer = 4, maximum_staleness = 1000 }",
            None,
        ),
        ("fedbuff = { concurrency = 4, buffer = 20 }", None),
        (
            "fedasync = { concurrency = 30, maximum_staleness = 1000 }",
            None,
        ),
        (
            "semi-synchronous = { deadline_s = 0.5, maximum_staleness = 50 }",
            Some("{ cohort = 10 }"),
        ),
        (
            "over-selection = { factor = 1.5, stragglers = \"late\" }",
            Some("{ cohort = 10 }"),
        ),
    ] {
        let mode = format!("training.mode={{ {mode} }}");
        let cohort = cohort.map(|cohort| format!("training.participation={cohort}"));
        let overrides: Vec<&str> = [mode.as_str(), "training.rounds=60"]
            .into_iter()
            .chain(cohort.as_deref())
            .collect();
        run_and_check(&overrides);
    }
}

/// If this fails, a run with the least number of users ends in the middle, because users rest after
/// a lost participation.
#[test]
fn the_least_number_of_users_is_enough_with_dropouts() {
    // With a handful of users the default rate, which is made for the mean over many, diverges.
    let rounds = [
        "training.rounds=50",
        "training.empty_rounds_limit=1000",
        "method.fedmf.learning_rate_items=1",
    ];
    for (users, concurrency, buffer, maximum_staleness) in
        [(11, 4, 4, 0), (8, 4, 4, 5), (8, 8, 4, 0), (2, 2, 1, 5)]
    {
        let users = format!("dataset.generator.users={users}");
        let mode = format!(
            "training.mode={{ fedbuff = {{ concurrency = {concurrency}, buffer = {buffer}, maximum_staleness = \
             {maximum_staleness} }} }}"
        );
        let outcome = run_and_check(&[&rounds[..], &[&users, &mode]].concat());
        assert_eq!(outcome.rounds.len(), 50);
        assert!(outcome.rounds.iter().any(|round| round.lost > 0), "{mode}");
    }
}

/// If this fails, the rule costs a run of one step half of its users, though nobody can take part
/// twice there.
#[test]
fn a_single_step_needs_as_many_users_as_it_has_updates() {
    let mode = "training.mode={ fedbuff = { concurrency = 40, buffer = 40 } }";
    assert_eq!(
        run(
            small_with("fedmf", &[NEVER_TWICE, mode, "training.rounds=1"]),
            1
        )
        .rounds[0]
            .aggregated,
        40
    );
}
