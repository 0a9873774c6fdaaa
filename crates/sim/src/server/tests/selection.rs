//! Tests of who is invited, and of what happens if nobody is available.

use super::super::roster::SelectionContext;
use super::*;
use crate::Stop;
use fedrecsim_core::Round;
use fedrecsim_data::population::AvailabilityClock;

/// An availability whose gaps are so long that few users are there at a time.
const RARELY: &str = "availability.pattern={ on-off = { mean_on_s = 100, mean_off_s = 2000 } }";

/// Returns the first instant from `at` on when any user is available.
fn anyone_after(clock: &mut AvailabilityClock, at: SimTime) -> Option<SimTime> {
    (0..21)
        .filter_map(|user| clock.next_arrival(UserId(user), at))
        .min()
}

/// Returns the cohorts of this many steps; every participation is lost.
fn cohorts(steps: u32, overrides: &[&str]) -> Vec<Vec<u32>> {
    let limits = ["training.empty_rounds_limit=1000", "training.rounds=1000"];
    let mut talk = Conversation::with(&[overrides, &limits].concat());
    let cohort = |step| {
        let cohort = invited(&talk.begin(step));
        cohort.iter().for_each(|user| drop(talk.lose(*user, step)));
        talk.close();
        cohort
    };
    (0..steps).map(cohort).collect()
}

fn open_participation(download: &Arc<Download>) -> Open {
    Open {
        user: UserId(0),
        invitation: Invitation {
            step: Step(0),
            id: InvitationId(0),
            download: Arc::clone(download),
            sent: SimTime::ZERO,
        },
        began: SimTime::ZERO,
        asked: None,
    }
}

/// If this fails, some users take part more often than others.
#[test]
fn cohorts_are_uniform_over_those_who_can_be_many_or_few() {
    for selection in ["uniform", "never-twice-in-a-row"] {
        let mut server = server(&[&format!("training.client_selection=\"{selection}\"")]);
        let download = Arc::new(Download::first(&server.world).unwrap());
        // No user takes part, or one does, or so many that drawing and checking gives up.
        for busy in [0, 1, 15] {
            let mut open = ByUser::default();
            for user in (0..busy).map(UserId) {
                open.insert(user, open_participation(&download));
            }
            let mut counts = [0u32; 21];
            for invitation_id in 0..4000 {
                // Every other step is left out, so that nobody needs a rest.
                let at = SelectionContext {
                    now: SimTime::ZERO,
                    step: Step(8000 * busy + 2 * invitation_id),
                    invitation_id: InvitationId(invitation_id),
                    open: &open,
                };
                let cohort = server.cohorts.choose(5, at);
                assert!(
                    cohort.len() == 5 && cohort.windows(2).all(|pair| pair[0] < pair[1]),
                    "{cohort:?}"
                );
                cohort.iter().for_each(|user| counts[user.index()] += 1);
                cohort
                    .into_iter()
                    .for_each(|user| server.cohorts.released(user));
            }
            let expected = 4000 * 5 / (21 - busy);
            let within = |count: &u32| (expected * 22 / 25..expected * 28 / 25).contains(count);
            assert!(
                counts[..busy as usize].iter().all(|count| *count == 0),
                "{selection}: {counts:?}"
            );
            assert!(
                counts[busy as usize..].iter().all(within),
                "{selection}: {counts:?}"
            );
        }
        let mut open = ByUser::default();
        for user in (0..19).map(UserId) {
            open.insert(user, open_participation(&download));
        }
        let at = SelectionContext {
            now: SimTime::ZERO,
            step: Step(200_000),
            invitation_id: InvitationId(9000),
            open: &open,
        };
        assert_eq!(
            server.cohorts.choose(2, at),
            [UserId(19), UserId(20)],
            "as many as there are"
        );
    }
}

#[test]
fn nobody_is_invited_twice_in_a_row() {
    let cohorts = cohorts(
        40,
        &[
            "training.participation={ cohort = 10 }",
            "training.client_selection=\"never-twice-in-a-row\"",
        ],
    );
    for pair in cohorts.windows(2) {
        assert_eq!((pair[0].len(), pair[1].len()), (10, 10));
        assert!(
            pair[1].iter().all(|user| !pair[0].contains(user)),
            "{pair:?}"
        );
    }
    assert!(
        cohorts.windows(3).any(|three| three[2] != three[0]),
        "who may be invited is drawn"
    );
}

#[test]
fn round_robin_goes_by_number_and_starts_again_after_the_last() {
    let cohorts = cohorts(
        3,
        &[
            "training.participation={ cohort = 8 }",
            "training.client_selection=\"round-robin\"",
        ],
    );
    assert_eq!(cohorts[0], [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(cohorts[1], [8, 9, 10, 11, 12, 13, 14, 15]);
    assert_eq!(cohorts[2], [0, 1, 2, 16, 17, 18, 19, 20]);
}

/// If this fails, users are picked who are not available, or users who stay longer are passed over.
#[test]
fn who_is_picked_is_there_and_the_longest_available_stay_longest() {
    let half = "availability.pattern={ on-off = { mean_on_s = 100, mean_off_s = 100 } }";
    for selection in [
        "uniform",
        "round-robin",
        "longest-available",
        "never-twice-in-a-row",
        "by-data-size",
    ] {
        let selection = format!("training.client_selection=\"{selection}\"");
        let mut talk =
            Conversation::with(&[half, &selection, "training.participation={ cohort = 3 }"]);
        talk.now = instant(500.0);
        let cohort = invited(&talk.begin(0));
        let mut clock = talk.server.world.population.availability.clock();
        let leaves = |user: u32| (clock.leaves_at(UserId(user), talk.now).unwrap(), user);
        // For a user who is not there, the clock says that it leaves at once.
        let mut stays: Vec<_> = (0..21)
            .map(leaves)
            .filter(|(leaves, _)| *leaves > talk.now)
            .collect();
        assert!(
            (4..18).contains(&stays.len()),
            "about half of them: {stays:?}"
        );
        assert_eq!(cohort.len(), 3, "{selection}");
        assert!(
            cohort
                .iter()
                .all(|user| stays.iter().any(|(_, there)| there == user)),
            "{selection}: {cohort:?}"
        );
        if selection.contains("longest") {
            stays.sort_unstable();
            let mut longest: Vec<u32> = stays.iter().rev().take(3).map(|(_, user)| *user).collect();
            longest.sort_unstable();
            assert_eq!(cohort, longest);
        }
    }
}

#[test]
fn users_are_drawn_in_proportion_to_their_ratings() {
    let mut server = server(&[
        "training.client_selection=\"by-data-size\"",
        "dataset.generator.ratings_log_sigma=1",
    ]);
    let mut counts = [0.0; 21];
    let draws = 20_000;
    for invitation_id in 0..draws {
        let open = ByUser::default();
        let at = SelectionContext {
            now: SimTime::ZERO,
            step: Step(invitation_id),
            invitation_id: InvitationId(invitation_id),
            open: &open,
        };
        let chosen = server.cohorts.choose(1, at);
        counts[chosen[0].index()] += 1.0;
    }
    let sizes: Vec<f64> = (0..21)
        .map(|user| server.world.dataset.train_items(UserId(user)).len() as f64)
        .collect();
    let sum: f64 = sizes.iter().sum();
    assert!(
        sizes.iter().any(|size| *size > 3.0 * sizes[0])
            || sizes.iter().any(|size| 3.0 * size < sizes[0])
    );
    for (count, size) in counts.iter().zip(&sizes) {
        let expected = f64::from(draws) * size / sum;
        assert!(
            (count - expected).abs() < 4.5 * expected.sqrt(),
            "{count} times instead of {expected}"
        );
    }
}

/// If this fails, a device that has no room for the table trains, or a step waits for it.
#[test]
fn devices_without_the_memory_are_not_invited_and_not_waited_for() {
    let classes = "devices.speed.classes=[{ name = \"small\", share = 0.5, ns_per_row_visit = 1, memory_mb = 0.001 }, \
                   { name = \"large\", share = 0.5, ns_per_row_visit = 1, memory_mb = 100 }]";
    for selection in [
        "uniform",
        "round-robin",
        "longest-available",
        "by-data-size",
    ] {
        let selection = format!("training.client_selection=\"{selection}\"");
        let mut talk = Conversation::with(&[classes, &selection]);
        let excluded: Vec<u32> = talk
            .server
            .world
            .excluded
            .iter()
            .map(|user| user.0)
            .collect();
        assert!((3..18).contains(&excluded.len()), "{excluded:?}");
        let orders = talk.begin(0);
        let cohort = invited(&orders);
        assert_eq!(
            cohort,
            (0..21)
                .filter(|user| !excluded.contains(user))
                .collect::<Vec<_>>(),
            "{selection}"
        );
        assert_eq!(orders.alarm, None, "nothing will give them more memory");
        let complete: Vec<bool> = cohort
            .iter()
            .map(|user| talk.lose(*user, 0).step_due)
            .collect();
        assert_eq!(
            complete.iter().position(|complete| *complete),
            Some(cohort.len() - 1),
            "{selection}"
        );
    }
}

/// If this fails, the server looks for users at the wrong time, or never again.
#[test]
fn if_nobody_is_available_the_server_waits_for_the_next_arrival() {
    for mode in [
        "\"synchronous\"",
        "{ fedbuff = { concurrency = 4, buffer = 2 } }",
    ] {
        let mut talk = Conversation::with(&[RARELY, &format!("training.mode={mode}")]);
        let mut clock = talk.server.world.population.availability.clock();
        // This is a second when nobody is there.
        let empty = (0..).map(|second| instant(f64::from(second)));
        let mut anybody = |at| (0..21).any(|user| clock.is_available(UserId(user), at));
        talk.now = empty.into_iter().find(|at| !anybody(*at)).unwrap();
        let orders = talk.begin(0);
        let arrival = anyone_after(&mut clock, talk.now).unwrap();
        assert_eq!(
            (invited(&orders), orders.alarm, orders.step_due),
            (vec![], Some(arrival), false),
            "{mode}"
        );
        talk.now = arrival;
        let rings = talk.news(News::AlarmRings);
        let orders = talk.server.handle(rings, &mut talk.context).unwrap();
        let there = (0..21)
            .filter(|user| clock.is_available(UserId(*user), arrival))
            .collect::<Vec<_>>();
        assert_eq!(invited(&orders), there, "{mode}");
    }
}

/// If this fails, a run whose steps are short fills its calendar with alarms for the same arrival.
#[test]
fn one_alarm_wakes_the_server_however_many_steps_end_before_it() {
    let half = "availability.pattern={ on-off = { mean_on_s = 100, mean_off_s = 100 } }";
    let mut talk = Conversation::with(&[half, "training.mode={ fedasync = { concurrency = 21 } }"]);
    let orders = talk.begin(0);
    let alarm = orders.alarm.unwrap();
    for (step, user) in (0..).zip(invited(&orders)).take(3) {
        let (_, orders) = talk.upload(user, 0, 1.0);
        assert!(orders.step_due);
        talk.close();
        assert_eq!(talk.begin(step + 1).alarm, None, "there is one already");
    }
    talk.now = alarm;
    let rings = talk.news(News::AlarmRings);
    let orders = talk.server.handle(rings, &mut talk.context).unwrap();
    assert_eq!(invited(&orders).len(), 1, "the one who came");
    assert!(
        orders.alarm.is_some_and(|next| next > alarm),
        "and the next is waited for"
    );
}

/// If this fails, a run whose users all need a rest is woken at every arrival until its waiting
/// limit, though nobody who arrives may be picked.
#[test]
fn the_server_does_not_wait_for_users_whom_it_would_not_pick() {
    let half = "availability.pattern={ on-off = { mean_on_s = 100, mean_off_s = 100 } }";
    let mut server = server(&[half, "training.client_selection=\"never-twice-in-a-row\""]);
    let mut clock = server.world.population.availability.clock();
    let open = ByUser::default();
    let (mut now, mut picked) = (SimTime::ZERO, std::collections::BTreeSet::new());
    loop {
        let at = SelectionContext {
            now,
            step: Step(0),
            invitation_id: InvitationId(0),
            open: &open,
        };
        let cohort = server.cohorts.choose(21, at);
        cohort
            .iter()
            .for_each(|user| server.cohorts.released(*user));
        picked.extend(cohort);
        let left = (0..21).map(UserId).filter(|user| !picked.contains(user));
        let next = left.filter_map(|user| clock.next_arrival(user, now)).min();
        assert_eq!(server.cohorts.next_arrival(at), next);
        match next {
            Some(next) => now = next,
            None => break,
        }
    }
    assert_eq!(picked.len(), 21);
    let at = SelectionContext {
        now,
        step: Step(2),
        invitation_id: InvitationId(0),
        open: &open,
    };
    assert!(
        server.cohorts.next_arrival(at).is_some(),
        "by then they have rested"
    );
}

#[test]
fn a_run_ends_if_nobody_is_available_within_the_limit() {
    let mut talk = Conversation::with(&[RARELY, "training.waiting_limit_s=1"]);
    let mut clock = talk.server.world.population.availability.clock();
    // This is a second after which nobody comes for long enough.
    let seconds = (0..).map(|second| instant(f64::from(second)));
    talk.now = { seconds }
        .find(|at| anyone_after(&mut clock, *at).unwrap() > *at + SimDuration::from_secs_f64(1.0))
        .unwrap();
    let began = talk.news(News::StepBegins(Step(0)));
    let error = talk.server.handle(began, &mut talk.context).unwrap_err();
    assert!(
        matches!(error.ended_by(), Some(Stop::NobodyAvailable { round: Round(0), at, .. }) if *at == talk.now),
        "{error}"
    );
}

/// If this fails, the message makes its reader look for a mistake in the availability, where there
/// is none.
#[test]
fn where_all_have_to_rest_the_message_says_so() {
    let rest = "training.client_selection=\"never-twice-in-a-row\"";
    // The check of the scenario refuses this for 21 users; it shows where many of them are away.
    let mut talk = Conversation::with(&[
        "training.mode={ fedbuff = { concurrency = 1, buffer = 10 } }",
        rest,
    ]);
    talk.server.world = small::world(&[
        "training.mode={ fedbuff = { concurrency = 1, buffer = 22 } }",
        "training.rounds=1",
    ]);
    let mut user = invited(&talk.begin(0))[0];
    for invitation_id in 0..20 {
        user = invited(&talk.upload(user, invitation_id, 1.0).1)[0];
    }
    let table = talk.server.table().clone();
    let frame = CodecName::DenseF32.encode(&TableUpdate::whole(table.clone()), &table);
    let last = UploadArrived {
        participant: (UserId(user), InvitationId(20)),
        upload: Upload::encoded(frame, 0.0),
        now: talk.now,
    };
    let error = talk
        .server
        .handle(last, &mut talk.context)
        .unwrap()
        .orders
        .unwrap_err();
    assert!(
        matches!(
            error.ended_by(),
            Some(Stop::NobodyAvailable { resting: 21, .. })
        ),
        "{error}"
    );
    assert!(
        error
            .to_string()
            .ends_with("; 21 users rest (`never-twice-in-a-row`)"),
        "{error}"
    );
}

/// If this fails, an asynchronous run with dropouts has nobody to invite though nobody's update was
/// used, or an update that took many steps is followed by another one of its user in the very next
/// step.
#[test]
fn in_asynchronous_modes_who_was_not_heard_needs_no_rest_and_who_was_late_does() {
    let rest = "training.client_selection=\"never-twice-in-a-row\"";
    let mut talk = Conversation::with(&[
        "training.mode={ fedbuff = { concurrency = 21, buffer = 1 } }",
        rest,
        "training.rounds=9",
    ]);
    assert_eq!(invited(&talk.begin(0)).len(), 21);
    assert_eq!(
        invited(&talk.lose(3, 0)),
        [3],
        "nobody else is free, and nothing of it was used"
    );
    for (step, user) in (0..).zip([5, 6, 7]) {
        assert!(talk.upload(user, 0, 1.0).1.step_due);
        talk.close();
        let back = invited(&talk.begin(step + 1));
        let expected: &[u32] = if step == 0 { &[] } else { &[user - 1] };
        assert_eq!(
            back, expected,
            "who was used in step {step} rests in the next one"
        );
    }
    // User 9 was invited in step 0 and is heard in step 3.
    assert!(talk.upload(9, 0, 1.0).1.step_due);
    talk.close();
    assert!(!invited(&talk.begin(4)).contains(&9));
}

/// If this fails, a semi-synchronous run ends because late updates of one round make everybody rest
/// in the next one.
#[test]
fn a_step_in_which_everybody_rests_ends_and_the_next_but_one_has_its_cohort() {
    let rest = "training.client_selection=\"never-twice-in-a-row\"";
    let mode = "training.mode={ semi-synchronous = { deadline_s = 5 } }";
    let twice_ten = [
        "training.participation={ cohort = 10 }",
        "dataset.generator.users=20",
        "training.rounds=9",
    ];
    let mut talk = Conversation::with(&[&[rest, mode], &twice_ten[..]].concat());
    let slow = invited(&talk.begin(0));
    assert!(talk.ring(5.0).step_due);
    talk.close();
    let fast = invited(&talk.begin(1));
    for (cohort, invitation_id) in [(&slow, 0), (&fast, 1)] {
        cohort
            .iter()
            .for_each(|user| drop(talk.upload(*user, invitation_id, 1.0)));
    }
    assert_eq!(talk.close().aggregated, 20);
    let orders = talk.begin(2);
    assert_eq!(
        (invited(&orders), orders.step_due),
        (vec![], true),
        "all twenty were heard in the step before"
    );
    talk.close();
    assert_eq!(invited(&talk.begin(3)).len(), 10, "the others have rested");
}

/// If this fails, an upload is missing in the books because nobody can be invited after it.
#[test]
fn an_upload_after_which_nobody_comes_is_judged_before_the_run_ends() {
    let mode = "training.mode={ fedbuff = { concurrency = 1, buffer = 2 } }";
    let mut talk = Conversation::with(&[RARELY, "training.waiting_limit_s=1", mode]);
    let mut clock = talk.server.world.population.availability.clock();
    let seconds = || (0..).map(|second| instant(f64::from(second)));
    talk.now = seconds()
        .find(|at| anyone_after(&mut clock, *at) == Some(*at))
        .unwrap();
    let user = invited(&talk.begin(0))[0];
    let limit = SimDuration::from_secs_f64(1.0);
    talk.now = seconds()
        .find(|at| *at > talk.now && anyone_after(&mut clock, *at).unwrap() > *at + limit)
        .unwrap();
    let table = talk.server.table().clone();
    let frame = CodecName::DenseF32.encode(&TableUpdate::whole(table.clone()), &table);
    let arrival = UploadArrived {
        participant: (UserId(user), InvitationId(0)),
        upload: Upload::encoded(frame, 0.0),
        now: talk.now,
    };
    let receipt = talk.server.handle(arrival, &mut talk.context).unwrap();
    assert_eq!(receipt.ending, Ending::Done);
    let error = receipt.orders.unwrap_err();
    assert!(
        matches!(error.ended_by(), Some(Stop::NobodyAvailable { .. })),
        "{error}"
    );
}

/// If this fails, Oort invites more or fewer users than the cohort has places.
#[test]
fn places_are_shared_between_explored_and_known_users() {
    let oort =
        "training.client_selection={ oort = { exploration = 0.5, least_exploration = 0.5 } }";
    let mut server = server(&[oort]);
    for user in 0..12 {
        let report = fedrecsim_model::blocks::Utility {
            loss: 1.0,
            ratings: 10,
        };
        server.cohorts.observe(
            UserId(user),
            report,
            SimDuration::from_secs_f64(1.0),
            Step(0),
        );
    }
    let open = ByUser::default();
    let (mut known, mut explored) = (0, 0);
    for invitation_id in 0..200 {
        let invitation_id = InvitationId(invitation_id);
        let at = SelectionContext {
            now: SimTime::ZERO,
            step: Step(1),
            invitation_id,
            open: &open,
        };
        let cohort = server.cohorts.choose(6, at);
        let distinct: std::collections::BTreeSet<UserId> = cohort.iter().copied().collect();
        assert_eq!((cohort.len(), distinct.len()), (6, 6), "{cohort:?}");
        known += cohort.iter().filter(|user| user.0 < 12).count();
        explored += cohort.iter().filter(|user| user.0 >= 12).count();
        cohort
            .into_iter()
            .for_each(|user| server.cohorts.released(user));
    }
    assert!(
        (500..700).contains(&known) && (500..700).contains(&explored),
        "{known} and {explored}"
    );
}
