//! Tests of what each mode waits for, and what becomes of participations that it does not wait for.

use super::*;
use crate::Stop;
use fedrecsim_core::Round;

const COHORT: &str = "training.participation={ cohort = 4 }";

fn mode(mode: &str) -> String {
    format!("training.mode={{ {mode} }}")
}

/// If this fails, an over-selected step waits for more updates than it needs, or for none.
#[test]
fn the_first_uploads_make_an_over_selected_step_due_and_the_rest_is_cancelled() {
    let mut talk = Conversation::with(&[COHORT, &mode("over-selection = { factor = 1.6 }")]);
    let orders = talk.begin(0);
    let cohort = invited(&orders);
    assert_eq!((cohort.len(), orders.deadline), (7, None), "6.4 of them");
    assert!(!talk.lose(cohort[0], 0).step_due);
    let complete: Vec<bool> = cohort[1..5]
        .iter()
        .map(|user| talk.upload(*user, 0, 1.0).1.step_due)
        .collect();
    assert_eq!(complete, [false, false, false, true]);
    let outcome = talk.close();
    assert_eq!(outcome.aggregated, 4);
    assert_eq!(
        outcome
            .cancelled
            .iter()
            .map(|user| user.0)
            .collect::<Vec<_>>(),
        cohort[5..]
    );
    assert!(talk.server.open.is_empty(), "they may be invited again");
}

#[test]
fn an_over_selected_step_with_too_few_left_is_complete_with_the_last() {
    let mut talk = Conversation::with(&[COHORT, &mode("over-selection = { factor = 1.25 }")]);
    let cohort = invited(&talk.begin(0));
    assert!(!talk.lose(cohort[0], 0).step_due);
    assert!(!talk.lose(cohort[1], 0).step_due);
    assert!(!talk.upload(cohort[2], 0, 1.0).1.step_due);
    assert!(!talk.upload(cohort[3], 0, 1.0).1.step_due);
    assert!(talk.upload(cohort[4], 0, 1.0).1.step_due);
}

/// If this fails, an update that arrives late is averaged, or the next step waits for it.
#[test]
fn a_straggler_that_goes_on_is_late_and_delays_no_step() {
    let mut talk = Conversation::with(&[
        COHORT,
        &mode("over-selection = { factor = 1.5, stragglers = \"late\" }"),
    ]);
    let first = invited(&talk.begin(0));
    first[..4]
        .iter()
        .for_each(|user| drop(talk.upload(*user, 0, 1.0)));
    assert_eq!(talk.close().cancelled, []);
    let second = invited(&talk.begin(1));
    assert!(
        !second.contains(&first[4]) && !second.contains(&first[5]),
        "they are at it"
    );
    let late = talk.upload(first[4], 0, 9.0);
    assert_eq!((late.0, late.1.step_due), (Ending::Late, false));
    assert!(!talk.lose(first[5], 0).step_due);
    second[..3]
        .iter()
        .for_each(|user| assert!(!talk.upload(*user, 1, 2.0).1.step_due));
    assert!(talk.upload(second[3], 1, 2.0).1.step_due);
    let outcome = talk.close();
    assert_eq!(outcome.aggregated, 4);
    assert!(
        outcome
            .model
            .as_ref()
            .unwrap()
            .0
            .table(0)
            .as_slice()
            .iter()
            .all(|value| *value == 2.0)
    );
}

/// If this fails, a deadline is missed, counts from a wrong instant, or ends a step other than its
/// own.
#[test]
fn a_step_ends_at_its_deadline_with_the_updates_that_have_arrived() {
    for spec in [
        "over-selection = { factor = 1.5, deadline_s = 10 }",
        "semi-synchronous = { deadline_s = 10 }",
    ] {
        let mut talk = Conversation::with(&[COHORT, &mode(spec)]);
        talk.now = instant(2.0);
        let orders = talk.begin(0);
        assert_eq!(orders.deadline, Some(instant(12.0)), "{spec}");
        let cohort = invited(&orders);
        talk.upload(cohort[0], 0, 1.0);
        assert!(!talk.ring(11.9).step_due, "{spec}");
        assert!(talk.ring(12.0).step_due, "{spec}");
        assert_eq!(talk.close().aggregated, 1, "{spec}");

        assert_eq!(talk.begin(1).deadline, Some(instant(22.0)), "{spec}");
        assert!(!talk.ring(12.0).step_due, "{spec}: that of the step before");
        assert!(talk.ring(22.0).step_due, "{spec}");
        let before = talk.server.table();
        let outcome = talk.close();
        assert_eq!(outcome.aggregated, 0, "{spec}");
        assert!(
            Arc::ptr_eq(outcome.model.as_ref().unwrap().0.table(0), &before),
            "{spec}: nobody finished"
        );
    }
}

/// If this fails, the weight of a stale update is not what the formula says.
#[test]
fn a_late_update_joins_a_semi_synchronous_step_with_the_weight_of_its_staleness() {
    for (weight, expected) in [
        ("\"constant\"", 1.0),
        ("{ polynomial = 2.0 }", 1.0 / 9.0),
        ("{ hinge = { a = 3.0, b = 0 } }", 1.0 / 7.0),
        ("{ hinge = { a = 3.0, b = 1 } }", 1.0 / 4.0),
        ("{ hinge = { a = 3.0, b = 2 } }", 1.0),
    ] {
        let spec = mode(&format!(
            "semi-synchronous = {{ deadline_s = 10, staleness_weight = {weight} }}"
        ));
        let mut talk = Conversation::with(&["training.participation={ cohort = 2 }", &spec]);
        let base = f64::from(talk.server.table().as_slice()[7]);
        let first = invited(&talk.begin(0));
        // The other user of the first cohort misses two steps.
        talk.upload(first[0], 0, 2.0);
        assert!(talk.ring(10.0).step_due);
        assert_eq!(talk.close().cancelled, []);
        for user in invited(&talk.begin(1)) {
            talk.upload(user, 1, 4.0);
        }
        talk.close();
        let third = invited(&talk.begin(2));
        assert_eq!(talk.upload(first[1], 0, 6.0).0, Ending::Done);
        third
            .iter()
            .for_each(|user| drop(talk.upload(*user, 2, 5.0)));
        let outcome = talk.close();
        assert_eq!(outcome.aggregated, 3);
        let stepped = 4.0 + (expected * (6.0 - base) + 1.0 + 1.0) / (expected + 2.0);
        let value = f64::from(outcome.model.as_ref().unwrap().0.table(0).as_slice()[7]);
        assert!(
            (value - stepped).abs() < 1e-6,
            "{weight}: {value} instead of {stepped}"
        );
    }
}

#[test]
fn an_update_later_than_the_maximum_staleness_is_stale() {
    for (maximum, ending) in [(0, Ending::Stale), (1, Ending::Done)] {
        let spec = mode(&format!(
            "semi-synchronous = {{ deadline_s = 10, maximum_staleness = {maximum} }}"
        ));
        let mut talk = Conversation::with(&["training.participation={ cohort = 2 }", &spec]);
        let first = invited(&talk.begin(0));
        talk.upload(first[0], 0, 2.0);
        talk.ring(10.0);
        talk.close();
        let second = invited(&talk.begin(1));
        assert_eq!(talk.upload(first[1], 0, 3.0).0, ending);
        second
            .iter()
            .for_each(|user| drop(talk.upload(*user, 1, 3.0)));
        assert_eq!(talk.close().aggregated, 2 + maximum);
    }
}

/// If this fails, fewer or more users train at a time than the concurrency says, or a buffer is
/// emptied before it is full.
#[test]
fn fedbuff_keeps_its_concurrency_and_steps_when_its_buffer_is_full() {
    let spec = "fedbuff = { concurrency = 3, buffer = 2, server_rate = 0.5, staleness_weight = { polynomial = 1.0 } }";
    let mut talk = Conversation::with(&[&mode(spec)]);
    let base = f64::from(talk.server.table().as_slice()[7]);
    let first = invited(&talk.begin(0));
    assert_eq!(first.len(), 3);
    let (_, orders) = talk.upload(first[0], 0, 1.0);
    let second = invited(&orders);
    assert!(second.len() == 1 && !first[1..].contains(&second[0]) && !orders.step_due);
    let third = invited(&talk.lose(first[1], 0));
    assert_eq!(third.len(), 1, "one who is lost leaves a place, too");
    let (ending, orders) = talk.upload(second[0], 1, 2.0);
    assert_eq!(
        (ending, orders.step_due, orders.invitation.is_none()),
        (Ending::Done, true, true)
    );
    let outcome = talk.close();
    assert_eq!(outcome.aggregated, 2);
    let stepped = base + 0.5 * ((1.0 - base) + (2.0 - base)) / 2.0;
    assert!(
        (f64::from(outcome.model.as_ref().unwrap().0.table(0).as_slice()[7]) - stepped).abs()
            < 1e-6
    );

    let fourth = invited(&talk.begin(1));
    assert_eq!(
        (fourth.len(), talk.server.open.len()),
        (1, 3),
        "the one who completed the step left a place"
    );
    talk.upload(first[2], 0, 3.0);
    assert!(talk.upload(fourth[0], 3, 4.0).1.step_due);
    // The first of the two updates is one step old and counts half.
    let twice = stepped + 0.5 * (0.5 * (3.0 - base) + (4.0 - stepped)) / 2.0;
    let value = f64::from(talk.close().model.unwrap().0.table(0).as_slice()[7]);
    assert!((value - twice).abs() < 1e-6, "{value} instead of {twice}");
}

#[test]
fn fedasync_steps_with_every_update_that_is_not_stale() {
    let spec = "fedasync = { concurrency = 2, mixing = 0.5, staleness_weight = \"constant\", maximum_staleness = 1 }";
    let mut talk = Conversation::with(&[&mode(spec)]);
    let base = f64::from(talk.server.table().as_slice()[7]);
    let old = invited(&talk.begin(0));
    let mut expected = base;
    let (mut user, mut invitation_id) = (old[0], 0);
    for step in 0..2 {
        let (ending, orders) = talk.upload(user, invitation_id, 8.0);
        assert_eq!((ending, orders.step_due), (Ending::Done, true));
        expected = 0.5 * expected + 4.0;
        let value = f64::from(talk.close().model.unwrap().0.table(0).as_slice()[7]);
        assert!(
            (value - expected).abs() < 1e-6,
            "{value} instead of {expected}"
        );
        (user, invitation_id) = (invited(&talk.begin(step + 1))[0], step + 1);
    }
    let (ending, orders) = talk.upload(old[1], 0, 1e6);
    assert_eq!(
        (ending, orders.step_due),
        (Ending::Stale, false),
        "two steps old"
    );
    assert_eq!(invited(&orders).len(), 1, "a place is free again");
}

/// If this fails, an asynchronous run without any arrival never ends.
#[test]
fn an_asynchronous_step_in_which_no_update_ever_arrives_ends_the_run() {
    for (spec, most) in [
        ("fedasync = { concurrency = 2 }", 6),
        ("fedbuff = { concurrency = 2, buffer = 4 }", 12),
    ] {
        let mut talk = Conversation::with(&["training.empty_rounds_limit=3", &mode(spec)]);
        let users = invited(&talk.begin(0));
        let (mut user, mut invitation_id) = (users[0], 0);
        for _ in 0..most - 1 {
            (user, invitation_id) = (
                invited(&talk.lose(user, invitation_id))[0],
                invitation_id + 1,
            );
        }
        let participant = (UserId(user), InvitationId(invitation_id));
        let lost = talk.news(News::ParticipationLost(participant));
        let error = talk.server.handle(lost, &mut talk.context).unwrap_err();
        assert!(
            matches!(error.ended_by(), Some(Stop::NothingArrives { round: Round(0), participations }) if *participations == most)
        );
    }
    // If there is an update in between, the count starts again.
    let mut talk = Conversation::with(&[
        "training.empty_rounds_limit=1",
        &mode("fedasync = { concurrency = 2 }"),
    ]);
    let users = invited(&talk.begin(0));
    let next = invited(&talk.lose(users[0], 0));
    talk.upload(users[1], 0, 1.0);
    talk.close();
    talk.begin(1);
    assert_eq!(invited(&talk.lose(next[0], 1)).len(), 1);
}
