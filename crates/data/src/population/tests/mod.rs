//! Checks that users have devices and faults as a scenario describes them.
#![allow(clippy::unwrap_used)]

pub(super) mod sample;

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::device_trace::DeviceTrace;
use super::*;
use crate::population::columns::Users;
use fedrecsim_core::legs::Route;
use fedrecsim_core::{Bytes, Direction, PortableDraws, Purpose, SimDuration, SimTime};
use fedrecsim_scenario::{FaultEffect, FaultSpec, FaultUsers, GeneratorSpec};
use sample::{USERS, groups, scenario_with, users_of};

fn share_of(condition: impl Fn(UserId) -> bool) -> f64 {
    (0..USERS).filter(|user| condition(UserId(*user))).count() as f64 / f64::from(USERS)
}

/// Returns the speed of a device that takes this many picoseconds for a row visit, and no time for
/// anything else.
fn visiting(picoseconds_per_row_visit: u64) -> Speed {
    Speed {
        picoseconds_per_row_visit,
        ..Speed::default()
    }
}

#[test]
fn classes_have_their_shares_speeds_and_memories() {
    let population = users_of(
        "[devices]\nmemory.median_mb = 7\n[[devices.speed.classes]]\nname = \"fast\"\nshare = 0.25\nns_per_row_visit = 2\n\
         memory_mb = 9.5\n[[devices.speed.classes]]\nname = \"slow\"\nshare = 0.75\nns_per_row_visit = 30\nlog_sigma = 0.1\n",
        1,
    );
    let fast = share_of(|user| population.device(user).speed.picoseconds_per_row_visit == 2_000);
    assert!((fast - 0.25).abs() < 0.01, "{fast} of the devices are fast");
    let fast = Device {
        speed: visiting(2_000),
        memory: Some(Bytes::new(9_500_000)),
    };
    for user in (0..1000).map(UserId) {
        let device = population.device(user);
        assert_eq!(
            population
                .conditions(user, InvitationId(3))
                .speed
                .picoseconds_per_row_visit,
            device.speed.picoseconds_per_row_visit
        );
        if device != fast {
            assert_eq!(
                device.memory,
                Some(Bytes::new(7_000_000)),
                "what the class does not say"
            );
            assert!(
                (18_000..50_000).contains(&device.speed.picoseconds_per_row_visit),
                "{device:?}"
            );
        }
    }
}

/// If this fails, devices do not go with tastes as the scenario says, or a correlation makes them faster.
#[test]
fn slowness_has_the_stated_correlation_and_the_same_distribution() {
    let lines = "[devices.speed.lognormal]\nmedian_ns_per_row_visit = 1000\nlog_sigma = 0.5\n";
    let mut scenario = scenario_with(lines);
    let mut slowness = |device_correlation: f64| -> Vec<f64> {
        scenario.dataset.generator = Some(GeneratorSpec {
            device_correlation,
            ..GeneratorSpec::default()
        });
        let (traces, streams) = (Traces::default(), Streams::new(1));
        let users = Population::new(&scenario, USERS as usize, &traces, streams).unwrap();
        let of_user = |user| {
            let speed = users.device(UserId(user)).speed;
            (speed.picoseconds_per_row_visit as f64 / 1e6).ln() / 0.5
        };
        (0..USERS).map(of_user).collect()
    };
    let mean_product = |one: &[f64], other: &[f64]| {
        let products = one.iter().zip(other).map(|(one, other)| one * other);
        products.sum::<f64>() / f64::from(USERS)
    };
    let (tastes, without) = (slowness(1.0), slowness(0.0));
    let first = Streams::new(1)
        .stream(Purpose::GeneratedRatings, 7, 0)
        .standard_normal();
    assert!(
        (tastes[7] - first).abs() < 1e-5,
        "{} in place of {first}",
        tastes[7]
    );
    for correlation in [-1.0, -0.5, 0.0, 0.8] {
        let found = slowness(correlation);
        let [with_taste, with_own, square] =
            [&tastes, &without, &found].map(|other| mean_product(&found, other));
        assert!((with_taste - correlation).abs() < 0.03, "{with_taste}");
        let rest = (1.0 - correlation * correlation).sqrt();
        assert!((with_own - rest).abs() < 0.03, "{with_own}");
        assert!((square - 1.0).abs() < 0.03, "a variance of {square}");
    }
}

#[test]
fn memory_is_lognormal_around_its_median_and_no_limit_by_default() {
    let population = users_of("devices.memory = { median_mb = 100, log_sigma = 0.5 }\n", 1);
    let memory = |user| population.device(user).memory.unwrap().get() as f64 / 1e8;
    let below_median = share_of(|user| memory(user) < 1.0);
    let below_one_sigma = share_of(|user| memory(user) < fedrecsim_core::math::exp(0.5));
    assert!((below_median - 0.5).abs() < 0.01 && (below_one_sigma - 0.841).abs() < 0.01);
    assert_eq!(users_of("", 1).device(UserId(0)).memory, None);
}

#[test]
fn memory_and_classes_leave_the_speeds_of_others_where_they_were() {
    // Every digest depends on the streams, so a new key must not move the draws of the old ones.
    let plain = users_of("devices.speed.lognormal = { log_sigma = 0.6 }\n", 1);
    let limited = users_of(
        "devices = { speed.lognormal.log_sigma = 0.6, memory = { median_mb = 5, log_sigma = 1 } }\n",
        1,
    );
    let class = "{ name = \"only\", share = 1, ns_per_row_visit = 50, log_sigma = 0.6 }";
    let classes = users_of(&format!("devices = {{ speed.classes = [{class}] }}\n"), 1);
    for user in (0..100).map(UserId) {
        let speed = plain.device(user).speed.picoseconds_per_row_visit;
        assert_eq!(limited.device(user).speed.picoseconds_per_row_visit, speed);
        assert_eq!(classes.device(user).speed.picoseconds_per_row_visit, speed);
        assert_eq!(
            limited.conditions(user, InvitationId(1)),
            plain.conditions(user, InvitationId(1))
        );
    }
}

#[test]
fn a_trace_of_devices_is_read_in_any_order_and_wraps_round() {
    let trace = DeviceTrace::parse(
        (
            &b"memory_mb,user,ns_per_row_visit\n,1,2.5\r\n\n64, 0 ,\"1e3\"\n"[..],
            &Users::default(),
        ),
        Path::new("d.csv"),
    )
    .unwrap();
    let of = |user| {
        let device = trace.of(UserId(user));
        (device.ns_per_row_visit, device.memory_mb)
    };
    assert_eq!(
        [of(0), of(1), of(2), of(3)],
        [
            (1e3, Some(64.0)),
            (2.5, None),
            (1e3, Some(64.0)),
            (2.5, None)
        ]
    );

    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("d.csv"), "user,ns_per_row_visit\n0,4\n").unwrap();
    let scenario =
        scenario_with("devices = { memory.median_mb = 3, speed.trace = { path = \"d.csv\" } }\n");
    let traces = Traces::read(&scenario, &[], &[folder.path().to_owned()]).unwrap();
    let population = Population::new(&scenario, 5, &traces, Streams::new(1)).unwrap();
    let device = Device {
        speed: visiting(4_000),
        memory: Some(Bytes::new(3_000_000)),
    };
    assert_eq!(population.device(UserId(4)), device);

    let unread = Population::new(&scenario, 5, &Traces::default(), Streams::new(1)).unwrap_err();
    assert!(
        matches!(&unread, Error::Usage(message) if message.contains("d.csv, which was not read")),
        "{unread}"
    );
    let missing = Traces::read(&scenario, &[], &["/nonexistent".into()]).unwrap_err();
    assert_eq!(missing.exit_code(), 2);
    let message =
        "cannot read d.csv: there is no such file; looked for\n  d.csv\n  /nonexistent/d.csv";
    assert_eq!(missing.to_string(), message);

    let elsewhere = folder.path().join("latin.csv");
    std::fs::write(&elsewhere, b"user,ns_per_row_visit\n0,4\n1,\xb5\n").unwrap();
    let absolute = scenario_with(&format!(
        "devices = {{ speed.trace = {{ path = '{}' }} }}\n",
        elsewhere.display()
    ));
    let encoded = Traces::read(&absolute, &[], &[]).unwrap_err();
    assert!(
        encoded
            .to_string()
            .ends_with("latin.csv:3: the line is not UTF-8; save the file as UTF-8"),
        "{encoded}"
    );
}

#[test]
fn every_wrong_line_of_a_trace_of_devices_is_named() {
    let fault = |text: &str| {
        DeviceTrace::parse((text.as_bytes(), &Users::default()), Path::new("d.csv"))
            .unwrap_err()
            .to_string()
    };
    let header = "user,ns_per_row_visit,memory_mb\n";
    for (text, message) in [
        ("", "cannot read d.csv: the file is empty"),
        (
            header,
            "cannot read d.csv: the file holds a header line and nothing else",
        ),
        (
            "user\n0\n",
            "d.csv:1: the header has no column `ns_per_row_visit`; needed: `user`, `ns_per_row_visit`",
        ),
        (
            "0,5\n",
            "d.csv:1: unknown column \"0\": the first line names the columns, separated by commas; known: `user`, \
             `ns_per_row_visit`, `memory_mb`, `ns_per_multiply_add`, `fixed_ms_per_participation`",
        ),
        (
            "user,user\n",
            "d.csv:1: the header names column `user` twice",
        ),
    ] {
        assert_eq!(fault(text), message);
    }
    let speed = "a number greater than 0 and at most 1e12 in column `ns_per_row_visit`";
    for (line, message) in [
        ("0,5", "d.csv:3: expected 3 columns as in the header, found 2".to_owned()),
        ("1.5,5,", "d.csv:3: expected a user's number from 0 in column `user`, found \"1.5\"".to_owned()),
        ("1,0,", format!("d.csv:3: expected {speed}, found \"0\"")),
        ("1,nan,", format!("d.csv:3: expected {speed}, found \"nan\"")),
        ("1,inf,", format!("d.csv:3: expected {speed}, found \"inf\"")),
        ("1,5 ns,", format!("d.csv:3: expected {speed}, found \"5 ns\"")),
        ("1,\"5 ns\",", format!("d.csv:3: expected {speed}, found \"5 ns\"")),
        ("# 1,5,", "d.csv:3: expected a user's number from 0 in column `user`, found \"# 1\"".to_owned()),
        ("1,2e12,", format!("d.csv:3: expected {speed}, found \"2e12\"")),
        ("1,,", format!("d.csv:3: expected {speed}, found nothing")),
        (
            "1,5,-1",
            "d.csv:3: expected a number greater than 0 and at most 1e9 in column `memory_mb`, found \"-1\"".to_owned(),
        ),
        ("0,5,", "d.csv:3: user 0 stands here for the second time; the first is line 2".to_owned()),
        (
            "2,5,",
            "d.csv:3: user 2 stands here, but no line has user 1: users are numbered from 0 without gaps".to_owned(),
        ),
    ] {
        assert_eq!(fault(&format!("{header}0,5,\n{line}\n")), message);
    }
}

fn rule(effect: FaultEffect) -> FaultSpec {
    FaultSpec {
        effect,
        ..FaultSpec::default()
    }
}

fn rules(specs: &[FaultSpec]) -> FaultRules {
    FaultRules::new(specs, USERS, &groups(), Streams::new(1)).unwrap()
}

/// Returns the verdict on the first upload of a user at a second.
fn upload(rules: &FaultRules, user: u32, second: f64) -> Option<Verdict> {
    let at = SimTime::ZERO + SimDuration::from_secs_f64(second);
    rules
        .verdict(UserId(user), InvitationId(0), Route::UPLOAD, at)
        .map(|hit| hit.verdict)
}

#[test]
fn the_first_rule_that_hits_counts_within_its_window_and_direction() {
    assert!(rules(&[]).is_empty() && upload(&rules(&[]), 0, 0.0).is_none());
    let rules = rules(&[
        FaultSpec {
            direction: Some(Direction::Down),
            ..rule(FaultEffect::Drop)
        },
        FaultSpec {
            from_s: 10.0,
            until_s: Some(20.0),
            ..rule(FaultEffect::Delay(0.5))
        },
        FaultSpec {
            users: Some(FaultUsers::Numbers(vec![3, 17])),
            ..rule(FaultEffect::CutAtByte(100))
        },
    ]);
    let delay = Some(Verdict::Delay(SimDuration::from_nanos(500_000_000)));
    let cut = Some(Verdict::CutAt(Bytes::new(100)));
    assert_eq!(
        [9.999, 10.0, 19.999, 20.0].map(|second| upload(&rules, 0, second)),
        [None, delay, delay, None]
    );
    assert_eq!(
        [9.0, 10.0, 20.0].map(|second| upload(&rules, 17, second)),
        [cut, delay, cut]
    );
    let download = rules.verdict(UserId(3), InvitationId(0), Route::DOWNLOAD, SimTime::ZERO);
    assert_eq!(
        download,
        Some(Hit {
            rule: 0,
            verdict: Verdict::Drop
        })
    );
    let upload = rules.verdict(UserId(3), InvitationId(0), Route::UPLOAD, SimTime::ZERO);
    assert_eq!(
        upload.map(|hit| hit.rule),
        Some(2),
        "the number of the rule is that of the scenario"
    );
}

#[test]
fn a_share_of_users_is_the_same_set_all_along_and_differs_by_rule() {
    let share = |effect| FaultSpec {
        users: Some(FaultUsers::Share(0.3)),
        ..rule(effect)
    };
    let first = rules(&[share(FaultEffect::Drop)]);
    let hit = |rules: &FaultRules, user: UserId| upload(rules, user.0, 0.0).is_some();
    assert!((share_of(|user| hit(&first, user)) - 0.3).abs() < 0.01);
    let both = rules(&[share(FaultEffect::Drop), share(FaultEffect::CutAtByte(1))]);
    // As the two sets are drawn independently, 1 - 0.7 * 0.7 of the users are in one of them.
    assert!((share_of(|user| hit(&both, user)) - 0.51).abs() < 0.01);
    for user in (0..100).map(UserId) {
        let later = first.verdict(
            user,
            InvitationId(7),
            Route::DOWNLOAD,
            SimTime::from_nanos(5),
        );
        assert_eq!(later.is_some(), hit(&first, user), "{user}");
    }
}

#[test]
fn a_probability_is_drawn_for_every_transfer_on_its_own() {
    let rules = rules(&[FaultSpec {
        probability: 0.2,
        ..rule(FaultEffect::Corrupt)
    }]);
    let verdict = |user: UserId, invitation, route| {
        rules.verdict(user, InvitationId(invitation), route, SimTime::ZERO)
    };
    let share = share_of(|user| verdict(user, 0, Route::UPLOAD).is_some());
    assert!((share - 0.2).abs() < 0.01, "{share} of the transfers");
    for other in [
        (1, Route::UPLOAD),
        (0, Route::DOWNLOAD),
        (0, Route::REQUEST),
        (0, Route::REPLY),
    ] {
        let both = share_of(|user| {
            verdict(user, 0, Route::UPLOAD).is_some() && verdict(user, other.0, other.1).is_some()
        });
        assert!(
            (both - 0.04).abs() < 0.005,
            "{both} of the users have both: {other:?}"
        );
    }
    let user = (0..)
        .map(UserId)
        .find(|user| verdict(*user, 0, Route::UPLOAD).is_some())
        .unwrap();
    assert_eq!(
        verdict(user, 0, Route::UPLOAD),
        verdict(user, 0, Route::UPLOAD),
        "asked twice"
    );
}

#[test]
fn corruption_turns_any_bit() {
    let rules = rules(&[rule(FaultEffect::Corrupt)]);
    let early = share_of(|user| match upload(&rules, user.0, 0.0) {
        Some(Verdict::Corrupt { draw }) => draw % 8000 < 2000,
        other => panic!("{other:?}"),
    });
    assert!(
        (early - 0.25).abs() < 0.01,
        "{early} in the first quarter of a frame"
    );
}

#[test]
fn a_rule_about_a_user_whom_there_is_not_is_refused() {
    let named = |number| FaultSpec {
        users: Some(FaultUsers::Numbers(vec![number])),
        ..rule(FaultEffect::Drop)
    };
    assert!(FaultRules::new(&[named(4)], 5, &groups(), Streams::new(1)).is_ok());
    let error = FaultRules::new(&[named(0), named(5)], 5, &groups(), Streams::new(1)).unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert_eq!(
        error.to_string(),
        "faults[1].users.numbers has user 5, but there are only 5 users, counted from 0"
    );
}

/// If this fails, participations do not take the time that a class or a trace states for its
/// device.
#[test]
fn devices_take_time_for_multiply_adds_and_for_every_participation() {
    let speeds = |tables: &str| {
        let population = users_of(tables, 1);
        [0, 1, 2].map(|user| population.device(UserId(user)).speed)
    };
    let costs = "ns_per_multiply_add = 0.5\nfixed_ms_per_participation = 20\n";
    for speed in speeds(&format!(
        "[devices]\nspeed.lognormal.median_ns_per_row_visit = 10\nspeed.lognormal.log_sigma = 0.6\n{costs}"
    )) {
        // A slow device is slow at both, but its app starts no later.
        assert!(
            speed
                .picoseconds_per_multiply_add
                .abs_diff(speed.picoseconds_per_row_visit / 20)
                <= 1,
            "{speed:?}"
        );
        assert_eq!(speed.fixed, SimDuration::from_millis_f64(20.0));
    }
    let class = "{ name = \"a\", share = 1, ns_per_row_visit = 8, ns_per_multiply_add = 0.25 }";
    let expected = Speed {
        picoseconds_per_row_visit: 8_000,
        picoseconds_per_multiply_add: 250,
        fixed: SimDuration::from_millis_f64(20.0),
    };
    assert_eq!(
        speeds(&format!("[devices]\nspeed.classes = [{class}]\n{costs}")),
        [expected; 3]
    );

    let text =
        "user,ns_per_row_visit,fixed_ms_per_participation,ns_per_multiply_add\n0,4,7.5,\n1,4,,2\n";
    let folder = tempfile::tempdir().unwrap();
    // A trace may be compressed, as ratings may.
    let file = std::fs::File::create(folder.path().join("d.csv.gz")).unwrap();
    let mut packed = GzEncoder::new(file, Compression::default());
    packed.write_all(text.as_bytes()).unwrap();
    packed.finish().unwrap();
    let scenario = scenario_with(&format!(
        "[devices]\nspeed.trace = {{ path = \"d.csv.gz\" }}\n{costs}"
    ));
    let traces = Traces::read(&scenario, &[], &[folder.path().to_owned()]).unwrap();
    let population = Population::new(&scenario, 5, &traces, Streams::new(1)).unwrap();
    let speed = |user| population.device(UserId(user)).speed;
    assert_eq!(speed(0).fixed, SimDuration::from_millis_f64(7.5));
    assert_eq!(
        (
            speed(0).picoseconds_per_multiply_add,
            speed(1).picoseconds_per_multiply_add
        ),
        (500, 2_000)
    );
    assert_eq!(speed(1).fixed, SimDuration::from_millis_f64(20.0));
}

/// If this fails, somebody has to look up the number of every user of a trace, or a user has the device
/// of another one.
#[test]
fn a_trace_may_have_the_names_of_the_ratings_file() {
    let names: Vec<Box<str>> = ["Zoë", "7", "Ann, Bea"].map(Into::into).into();
    let users = Users::of(&names);
    let parse = |text: &str| DeviceTrace::parse((text.as_bytes(), &users), Path::new("d.csv"));
    let text = "name,ns_per_row_visit\n7,2\nnobody,9\n\"Ann, Bea\",3\nZoë,1\n";
    let trace = parse(text).unwrap();
    let of = |user| trace.of(UserId(user)).ns_per_row_visit;
    assert_eq!([of(0), of(1), of(2)], [1.0, 2.0, 3.0]);
    let fault = |text: &str| parse(text).unwrap_err().to_string();
    assert_eq!(
        fault("name,ns_per_row_visit\nZoe,1\n7,2\nAnn,3\n"),
        "cannot read d.csv: no line is about user 0 \"Zoë\": with a column `name` every user of the run needs one"
    );
    assert!(
        fault(&text.replace("nobody", "7"))
            .contains("d.csv:3: user 1 \"7\" stands here for the second time")
    );
    assert_eq!(
        fault("name,ns_per_row_visit\nnobody,1\n7,fast\n"),
        "d.csv:3: user 1 \"7\": expected a number greater than 0 and at most 1e12 in column \
         `ns_per_row_visit`, found \"fast\""
    );
    assert!(fault("name,user,ns_per_row_visit\n7,0,2\n").contains("unknown column \"name\""));
    let generated = DeviceTrace::parse((text.as_bytes(), &Users::default()), Path::new("d.csv"));
    let generated = generated.unwrap_err().to_string();
    assert!(generated.contains("have numbers alone"), "{generated}");
}
