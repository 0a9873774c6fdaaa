//! Checks every pattern against what a plain reading of it says.
#![allow(clippy::unwrap_used)]

use crate::population::columns::Users;
use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::population::tests::sample::groups;
use fedrecsim_scenario::{DailySpec, OnOffSpec};

const SECOND: u64 = 1_000_000_000;
const HOUR: u64 = 3600 * SECOND;

fn clock_of(
    pattern: AvailabilityPattern,
    users: u32,
    trace: Option<AvailabilityTrace>,
) -> AvailabilityClock {
    let spec = AvailabilitySpec {
        preset: None,
        pattern,
    };
    let trace = trace.map(Arc::new);
    Arc::new(Availability::new(&spec, &[], users, trace, &groups(), Streams::new(1)).unwrap())
        .clock()
}

fn always() -> AvailabilityClock {
    clock_of(AvailabilityPattern::Always, 10, None)
}

fn on_off(mean_on_s: f64, mean_off_s: f64, users: u32) -> AvailabilityClock {
    clock_of(
        AvailabilityPattern::OnOff(OnOffSpec {
            mean_on_s,
            mean_off_s,
        }),
        users,
        None,
    )
}

fn daily(
    hours_on: f64,
    starts_at_hour: f64,
    jitter_hours: f64,
    utc_offsets: &[f64],
) -> AvailabilityClock {
    let spec = DailySpec {
        hours_on,
        starts_at_hour,
        jitter_hours,
        utc_offsets: utc_offsets.to_vec(),
    };
    clock_of(AvailabilityPattern::Daily(spec), 10_000, None)
}

fn trace(text: &str, period_s: Option<f64>) -> AvailabilityClock {
    let pattern = AvailabilityPattern::Trace {
        path: "a.csv".into(),
        period_s,
    };
    let read = AvailabilityTrace::parse(
        (text.as_bytes(), &Users::default()),
        Path::new("a.csv"),
        period_s,
    )
    .unwrap();
    clock_of(pattern, 10, Some(read))
}

fn at(nanoseconds: u64) -> SimTime {
    SimTime::from_nanos(nanoseconds)
}

/// Returns the stay of user `user` at `second`: whether the user is available, and arrival and end
/// in seconds.
fn asked(
    clock: &mut AvailabilityClock,
    user: u32,
    second: f64,
) -> (bool, Option<f64>, Option<f64>) {
    let (user, at) = (
        UserId(user),
        SimTime::ZERO + fedrecsim_core::SimDuration::from_secs_f64(second),
    );
    let leaves = clock.leaves_at(user, at).map(SimTime::as_secs_f64);
    (
        clock.is_available(user, at),
        clock.next_arrival(user, at).map(SimTime::as_secs_f64),
        leaves,
    )
}

#[test]
fn by_default_everybody_is_there_for_ever() {
    let mut clock = always();
    assert!(clock.availability.is_always());
    assert_eq!(asked(&mut clock, 3, 5.0), (true, Some(5.0), None));
    assert!(
        daily(24.0, 3.0, 1.0, &[]).availability.is_always(),
        "a window that never closes"
    );
    assert!(!daily(23.9, 3.0, 1.0, &[]).availability.is_always());
}

#[test]
fn a_window_opens_at_its_local_hour_every_day() {
    // 22:00 two hours ahead of offset 0 is 20:00 there, and the window that is open at midnight
    // began the day before.
    let mut clock = daily(8.0, 22.0, 0.0, &[2.0]);
    let hours = |clock: &mut AvailabilityClock, hour: f64| {
        let (there, arrival, leaves) = asked(clock, 5, hour * 3600.0);
        (
            there,
            arrival.map(|s| s / 3600.0),
            leaves.map(|s| s / 3600.0),
        )
    };
    assert_eq!(hours(&mut clock, 0.0), (true, Some(0.0), Some(4.0)));
    assert_eq!(
        hours(&mut clock, 4.0),
        (false, Some(20.0), Some(4.0)),
        "the end is not part of the stay"
    );
    assert_eq!(hours(&mut clock, 19.5), (false, Some(20.0), Some(19.5)));
    assert_eq!(hours(&mut clock, 20.0), (true, Some(20.0), Some(28.0)));
    assert_eq!(
        hours(&mut clock, 24.0 * 100.0 + 3.0),
        (true, Some(2403.0), Some(2404.0))
    );
    // The shortest window still holds the instant when it opens.
    let mut shortest = daily(1e-300, 3.0, 0.0, &[0.0]);
    assert_eq!(shortest.next_arrival(UserId(7), at(1)), Some(at(3 * HOUR)));
    assert!(shortest.is_available(UserId(7), at(3 * HOUR)));
    assert_eq!(
        shortest.leaves_at(UserId(7), at(3 * HOUR)),
        Some(at(3 * HOUR + 1))
    );
}

#[test]
fn windows_are_spread_over_time_zones_and_by_jitter() {
    let there = |clock: &mut AvailabilityClock, hour: u64| {
        (0..10_000)
            .filter(|user| clock.is_available(UserId(*user), at(hour * HOUR)))
            .count() as f64
            / 1e4
    };
    // The zones are the whole hours from -11 to 12, so a window of 6 of 24 hours holds a quarter of
    // the users at any time.
    let mut zones = daily(6.0, 22.0, 0.0, &[]);
    for hour in [0, 7, 13, 36] {
        assert!(
            (there(&mut zones, hour) - 0.25).abs() < 0.02,
            "{} at {hour}",
            there(&mut zones, hour)
        );
    }
    // In one zone, windows open between 20:00 and 24:00, so at 22:00 half of them are open.
    let mut jitter = daily(6.0, 22.0, 2.0, &[0.0]);
    assert!((there(&mut jitter, 22) - 0.5).abs() < 0.02);
    assert_eq!((there(&mut jitter, 24), there(&mut jitter, 19)), (1.0, 0.0));
}

#[test]
fn a_trace_is_repeated_from_its_period_on() {
    let text = "user,on,off\n1,0,5\n0,10,20\n0,30,40.5\n1,8,10\n";
    let mut clock = trace(text, Some(100.0));
    assert_eq!(asked(&mut clock, 0, 0.0), (false, Some(10.0), Some(0.0)));
    assert_eq!(
        asked(&mut clock, 0, 19.999),
        (true, Some(19.999), Some(20.0))
    );
    assert_eq!(asked(&mut clock, 0, 20.0), (false, Some(30.0), Some(20.0)));
    assert_eq!(
        asked(&mut clock, 0, 40.5),
        (false, Some(110.0), Some(40.5)),
        "the next time round"
    );
    assert_eq!(
        asked(&mut clock, 2, 335.0),
        (true, Some(335.0), Some(340.5)),
        "user 2 is the first one again"
    );
    assert_eq!(
        asked(&mut clock, 3, 205.0),
        (false, Some(208.0), Some(205.0))
    );
    // Without a period, the trace ends with the last `off` of anybody.
    assert_eq!(
        asked(&mut trace(text, None), 1, 39.0),
        (false, Some(40.5), Some(39.0))
    );
}

/// If this fails, a trace cannot leave a user out who never comes, or has it come after all.
#[test]
fn a_user_without_a_stay_is_never_there() {
    let mut clock = trace("user,on,off\n0,0,5\n1,,\n2,3,9\n", Some(10.0));
    for at in [0.0, 4.0, 9.5, 1e9] {
        assert_eq!(asked(&mut clock, 1, at), (false, None, Some(at)));
    }
    assert_eq!(asked(&mut clock, 2, 11.0), (false, Some(13.0), Some(11.0)));
    let mut nobody = trace("user,on,off\n0,,\n", None);
    assert_eq!(asked(&mut nobody, 0, 7.0), (false, None, Some(7.0)));
}

#[test]
fn stays_without_a_gap_are_one_also_over_the_end_of_the_period() {
    let mut clock = trace("user,on,off\n0,0,3\n0,7,9\n0,9,10\n1,0,4\n1,4,10\n", None);
    assert_eq!(asked(&mut clock, 0, 8.0), (true, Some(8.0), Some(13.0)));
    assert_eq!(asked(&mut clock, 0, 11.0), (true, Some(11.0), Some(13.0)));
    assert_eq!(
        asked(&mut clock, 1, 123.0),
        (true, Some(123.0), None),
        "never leaves"
    );
}

/// If this fails, a trace that another program has written a little differently means something
/// else, or nothing.
#[test]
fn a_trace_means_the_same_however_it_is_written() {
    let parse = |text: &str, period_s| {
        AvailabilityTrace::parse(
            (text.as_bytes(), &Users::default()),
            Path::new("a.csv"),
            period_s,
        )
        .unwrap()
    };
    let expected = parse("user,on,off\n0,0,3\n0,7,10\n1,2,8\n", None);
    for text in [
        "user,on,off\r\n0,0,3\r\n0,7,10\r\n1,2,8\r\n",
        "\u{feff}user,on,off\n0,0,3\n0,7,10\n1,2,8",
        "\n user , on ,off\t\n 0 ,0, 3 \n\n0,7.0,1e1\n  \n1,2,8\n\n",
        "off,user,on\n8,1,2\n3,0,0\n10,0,7\n",
        "user,on,off\n0,0,2\n1,2,8\n0,2,3\n0,7,7.5\n0,7.5,10\n",
        "user,on,off\n+0,-0,3\n00,7,10.0000000001\n1,2,8\n",
    ] {
        assert_eq!(parse(text, None), expected, "{text:?}");
        assert_eq!(
            parse(text, Some(10.0 + 1e-10)),
            expected,
            "{text:?} and its period"
        );
    }
}

#[test]
fn a_trace_without_a_stay_or_with_other_columns_is_refused() {
    let known = "the first line names the columns, separated by commas; known: `user`, `on`, `off`";
    for (text, message) in [
        ("", "cannot read a.csv: the file is empty".to_owned()),
        (" \r\n\n", "cannot read a.csv: the file is empty".to_owned()),
        (
            "user,on,off",
            "cannot read a.csv: the file holds a header line and nothing else".to_owned(),
        ),
        (
            "user,on,off\n\n \n",
            "cannot read a.csv: the file holds a header line and nothing else".to_owned(),
        ),
        ("0,1,2\n", format!("a.csv:1: unknown column \"0\": {known}")),
        (
            "\nuser;on;off\n0;1;2\n",
            format!("a.csv:2: unknown column \"user;on;off\": {known}"),
        ),
        (
            "User,on,off\n0,1,2\n",
            format!("a.csv:1: unknown column \"User\": {known}"),
        ),
        (
            "user,on\n0,1\n",
            "a.csv:1: the header has no column `off`; needed: `user`, `on`, `off`".to_owned(),
        ),
        (
            "user,on,off,on\n",
            "a.csv:1: the header names column `on` twice".to_owned(),
        ),
    ] {
        assert_eq!(
            AvailabilityTrace::parse(
                (text.as_bytes(), &Users::default()),
                Path::new("a.csv"),
                None
            )
            .unwrap_err()
            .to_string(),
            message
        );
    }
}

#[test]
fn every_wrong_line_of_a_trace_is_named() {
    let fault = |lines: &str, period_s| {
        let text = format!("user,on,off\n0,10,20\n{lines}\n");
        AvailabilityTrace::parse(
            (text.as_bytes(), &Users::default()),
            Path::new("a.csv"),
            period_s,
        )
        .unwrap_err()
        .to_string()
    };
    for (line, message) in [
        (
            "1,5,5",
            "a.csv:3: the stay ends at 5 s, which is not after its beginning at 5 s",
        ),
        (
            "1,6,5",
            "a.csv:3: the stay ends at 5 s, which is not after its beginning at 6 s",
        ),
        (
            "0,19.5,30",
            "a.csv:3: user 0 has a stay that begins at 19.5 s, before the one in line 2 has ended at 20 s",
        ),
        (
            "0,1,2",
            "a.csv:3: user 0 has a stay that begins at 1 s, before the one in line 2 has ended at 20 s",
        ),
        (
            "2,1,2",
            "a.csv:3: user 2 stands here, but no line has user 1: users are numbered from 0 without gaps",
        ),
        (
            "1,-1,2",
            "a.csv:3: expected a number from 0 to 1e9 in column `on`, found \"-1\"",
        ),
        (
            "1,1,2e9",
            "a.csv:3: expected a number from 0 to 1e9 in column `off`, found \"2e9\"",
        ),
        (
            "-1,1,2",
            "a.csv:3: expected a user's number from 0 in column `user`, found \"-1\"",
        ),
        (
            "4294967296,1,2",
            "a.csv:3: expected a user's number from 0 in column `user`, found \"4294967296\"",
        ),
        (
            "1,nan,2",
            "a.csv:3: expected a number from 0 to 1e9 in column `on`, found \"nan\"",
        ),
        (
            "1,1,inf",
            "a.csv:3: expected a number from 0 to 1e9 in column `off`, found \"inf\"",
        ),
        (
            "1,1,1e999",
            "a.csv:3: expected a number from 0 to 1e9 in column `off`, found \"1e999\"",
        ),
        (
            "1,,2",
            "a.csv:3: expected a number from 0 to 1e9 in column `on`, found nothing",
        ),
        (
            "0,,",
            "a.csv:3: user 0 has a line without `on` and `off`, which says that it is never there, and 1 more",
        ),
        (
            "1,1,2,",
            "a.csv:3: expected 3 columns as in the header, found 4",
        ),
        (
            "1;1;2",
            "a.csv:3: expected 3 columns as in the header, found 1",
        ),
        (
            "1,1,1.0000000001",
            "a.csv:3: the stay ends at 1.0000000001 s, which is not after its beginning at 1 s",
        ),
        // The error names the line of the file, counting the lines before it.
        (
            "1,1,2\n\n0,15,16",
            "a.csv:5: user 0 has a stay that begins at 15 s, before the one in line 2 has ended at 20 s",
        ),
        (
            "3,1,2\n1,1,2",
            "a.csv:3: user 3 stands here, but no line has user 2: users are numbered from 0 without gaps",
        ),
        (
            "0,1e9,1e9",
            "a.csv:3: the stay ends at 1000000000 s, which is not after its beginning at 1000000000 s",
        ),
    ] {
        assert_eq!(fault(line, None), message);
    }
    let message = "a.csv:3: the stay ends at 31 s, after the period of 30.5 s (`period_s`)";
    assert_eq!(fault("0,30,31", Some(30.5)), message);
    let message = "a.csv:2: the stay ends at 20 s, after the period of 0.0000000001 s (`period_s`)";
    assert_eq!(fault("", Some(1e-10)), message);
}

#[test]
fn on_and_off_have_their_means_and_their_share_from_the_start() {
    let mut clock = on_off(60.0, 180.0, 20_000);
    let there = |clock: &mut AvailabilityClock, second: u64| {
        (0..20_000)
            .filter(|user| clock.is_available(UserId(*user), at(second * SECOND)))
            .count() as f64
            / 2e4
    };
    for second in [0, 100, 1_000_000] {
        let share = there(&mut clock, second);
        assert!(
            (share - 0.25).abs() < 0.01,
            "{share} are there at {second} s"
        );
    }
    // Both are memoryless: from any instant on, the rest of a stay or a gap has the mean of a whole
    // one.
    for second in [0, 777, 86_400] {
        let now = at(second * SECOND);
        let (mut stays, mut gaps) = (Vec::new(), Vec::new());
        for user in (0..20_000).map(UserId) {
            if clock.is_available(user, now) {
                stays.push(clock.leaves_at(user, now).unwrap().since(now).as_secs_f64());
            } else {
                gaps.push(
                    clock
                        .next_arrival(user, now)
                        .unwrap()
                        .since(now)
                        .as_secs_f64(),
                );
            }
        }
        let mean = |lengths: &[f64]| lengths.iter().sum::<f64>() / lengths.len() as f64;
        assert!(
            (mean(&stays) - 60.0).abs() < 3.0,
            "stays of {} s",
            mean(&stays)
        );
        assert!(
            (mean(&gaps) - 180.0).abs() < 5.0,
            "gaps of {} s",
            mean(&gaps)
        );
        let beyond =
            stays.iter().filter(|length| **length > 60.0).count() as f64 / stays.len() as f64;
        assert!(
            (beyond - (-1.0_f64).exp()).abs() < 0.02,
            "{beyond} of the stays are longer than their mean"
        );
    }
}

#[test]
fn on_and_off_remember_as_much_as_the_chain_does() {
    // P(there at t + d | there at t) = p + (1 - p) exp(-d (1/on + 1/off)). With a wrong condition
    // in a bridge, or cells that do not join, the share would be off at some distance.
    let mut clock = on_off(100.0, 100.0, 20_000);
    for (first, distance) in [
        (0_u64, 30_u64),
        (150, 100),
        (190, 20),
        (1_590, 20),
        (399, 250),
        (12_345, 60),
    ] {
        let there: Vec<UserId> = (0..20_000)
            .map(UserId)
            .filter(|user| clock.is_available(*user, at(first * SECOND)))
            .collect();
        let later = at((first + distance) * SECOND);
        let still = there
            .iter()
            .filter(|user| clock.is_available(**user, later))
            .count() as f64
            / there.len() as f64;
        let expected = 0.5 + 0.5 * (-0.02 * distance as f64).exp();
        assert!(
            (still - expected).abs() < 0.015,
            "{still}, not {expected}, {distance} s after {first} s"
        );
    }
}

#[test]
fn absurd_means_and_instants_are_answered_at_once() {
    for (mean_on_s, mean_off_s) in [(1.0, 1.0), (1.0, 1e9), (1e9, 1.0), (1e9, 1e9)] {
        let mut clock = on_off(mean_on_s, mean_off_s, 100);
        for nanoseconds in [0, 1, 1 << 40, 1 << 62, u64::MAX - 1, u64::MAX] {
            let arrival = (0..100)
                .filter_map(|user| clock.next_arrival(UserId(user), at(nanoseconds)))
                .min();
            assert!(arrival.is_none_or(|arrival| arrival >= at(nanoseconds)));
            assert!(
                arrival.is_some() || nanoseconds > u64::MAX / 2,
                "{nanoseconds} ns"
            );
        }
    }
}

fn any_pattern() -> impl Strategy<Value = usize> {
    0..4_usize
}

fn pattern(number: usize) -> AvailabilityClock {
    match number {
        0 => on_off(50.0, 20.0, 10),
        1 => daily(5.0, 22.0, 2.0, &[]),
        2 => trace(
            "user,on,off\n0,0,5\n0,9,100\n1,30,300\n1,301,310\n2,17,18\n",
            Some(320.0),
        ),
        _ => always(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    /// If this fails, a run that is replayed or resumed sees other users come and go.
    #[test]
    fn answers_depend_on_the_instant_and_not_on_the_order_of_questions(
        number in any_pattern(),
        questions in proptest::collection::vec((0..10_u32, 0..200_000_u64), 1..60),
    ) {
        let mut used = pattern(number);
        for (user, second) in questions {
            let (user, now) = (UserId(user), at(second * SECOND / 7));
            let mut fresh = pattern(number);
            prop_assert_eq!(used.next_arrival(user, now), fresh.next_arrival(user, now));
            prop_assert_eq!(used.leaves_at(user, now), fresh.leaves_at(user, now));
        }
    }

    /// If this fails, a client that the server waits for is not there when the clock said so, or
    /// leaves at another time.
    #[test]
    fn the_three_questions_agree(number in any_pattern(), user in 0..10_u32, second in 0..200_000_u64) {
        let (mut clock, user, now) = (pattern(number), UserId(user), at(second * SECOND / 7));
        let there = clock.is_available(user, now);
        let arrival = clock.next_arrival(user, now).unwrap();
        prop_assert_eq!(there, arrival == now);
        prop_assert_eq!(there, clock.leaves_at(user, now) != Some(now));
        prop_assert!(clock.is_available(user, arrival));
        if !there {
            prop_assert!(!clock.is_available(user, at(arrival.as_nanos() - 1)), "gone until it arrives");
            prop_assert!(!clock.is_available(user, at((now.as_nanos() + arrival.as_nanos()) / 2)));
        }
        if let Some(leaves) = clock.leaves_at(user, arrival) {
            prop_assert!(leaves > arrival && !clock.is_available(user, leaves));
            prop_assert!(clock.is_available(user, at(leaves.as_nanos() - 1)));
        }
    }
}
