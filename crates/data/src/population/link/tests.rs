//! Checks that links have the rates, latencies and times that a scenario states.
#![allow(clippy::unwrap_used)]

use crate::population::columns::Users;
use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::population::tests::sample::{scenario_with, users_of};
use crate::population::{Population, Traces};

fn population(seed: u64) -> Population {
    let network = "preset = \"wifi-2020\"\nrates.lognormal.transfer_log_sigma = 0\ndropout = 0.25";
    users_of(
        &format!("[network]\n{network}\n[devices]\nspeed.lognormal.log_sigma = 0.6\n"),
        seed,
    )
}

#[test]
fn a_transfer_takes_latency_plus_size_over_rate() {
    let link = Link::constant(
        BitsPerSecond::from_mbit_f64(8.0),
        SimDuration::from_millis_f64(20.0),
    );
    let size = Bytes::new(1_000_000);
    let at = |milliseconds| SimTime::ZERO + SimDuration::from_millis_f64(milliseconds);
    assert_eq!(link.arrival(at(100.0), size), at(1_120.0));
    assert_eq!(
        link.carried(size, at(100.0), at(600.0)),
        Bytes::new(500_000)
    );
    assert_eq!(
        link.carried(size, at(100.0), at(1_110.0)),
        size,
        "the rest is on its way"
    );
}

/// If this fails, a transfer over TCP starts before its handshake, or waits for the latency twice.
#[test]
fn a_transfer_over_tcp_takes_its_start_up_and_size_over_the_rate_of_payload() {
    let link = Link::constant(
        BitsPerSecond::from_mbit_f64(8.0),
        SimDuration::from_millis_f64(20.0),
    );
    let link = link.sharing(Sharing::Tcp, None);
    let size = Bytes::new(970_000);
    let at = |milliseconds| SimTime::ZERO + SimDuration::from_millis_f64(milliseconds);
    assert_eq!(
        (link.start_up(), link.latency_after()),
        (SimDuration::from_millis_f64(260.2), SimDuration::ZERO)
    );
    assert_eq!(link.arrival(at(100.0), size), at(1_360.2));
    assert_eq!(link.carried(size, at(100.0), at(360.2)), Bytes::ZERO);
    assert_eq!(
        link.carried(size, at(100.0), at(860.2)),
        Bytes::new(485_000)
    );
}

/// Returns the links of 5 users with the lines of this trace, and their round-trip time of 1 s.
fn traced(lines: &str, sharing: &str, period_s: Option<f64>) -> Population {
    let tables = format!(
        "[network]\nrtt_ms = 1000\nsharing = \"{sharing}\"\nrates.trace = {{ path = \"l.csv\" }}\n"
    );
    let text = format!("user,time_s,down_mbit_per_s,up_mbit_per_s\n{lines}");
    let links = Some(Arc::new(
        LinkTrace::parse(
            (text.as_bytes(), &Users::default()),
            Path::new("l.csv"),
            period_s,
        )
        .unwrap(),
    ));
    Population::new(
        &scenario_with(&tables),
        5,
        &Traces {
            links,
            ..Traces::default()
        },
        Streams::new(1),
    )
    .unwrap()
}

fn up(population: &Population, user: u32) -> Link {
    population.conditions(UserId(user), InvitationId(0)).up
}

fn second(seconds: f64) -> SimTime {
    SimTime::ZERO + SimDuration::from_secs_f64(seconds)
}

/// If this fails, a transfer that spans changes of the rate takes another time than its pieces.
#[test]
fn a_transfer_over_changing_rates_takes_the_time_of_its_pieces() {
    // 8 Mbit/s for 2 s, nothing for 1 s, 16 Mbit/s for 3 s, and again; user 1 has 0.8 Mbit/s
    // always.
    let population = traced(
        "0,0,1,8\n0,2,1,0\n0,3,1,16\n1,0,1,0.8\n",
        "equal",
        Some(6.0),
    );
    let (link, megabyte) = (up(&population, 0), 1_000_000_u64);
    for (began, bytes, sent) in [
        (0.0, megabyte, 1.0),
        (0.0, 2 * megabyte, 2.0),
        (1.0, 3 * megabyte, 4.0),
        (0.0, 8 * megabyte, 6.0),
        (0.0, 10 * megabyte, 8.0),
        (5.0, 4 * megabyte, 8.0),
        (6.5, 3 * megabyte / 2, 8.0),
        (0.0, 80_000 * megabyte, 60_000.0),
        (4.0, 80_000 * megabyte, 60_004.0),
    ] {
        let (arrival, expected) = (
            link.arrival(second(began), Bytes::new(bytes)),
            second(sent + 0.5),
        );
        assert_eq!(arrival, expected, "{bytes} bytes from {began} s");
    }
    for (began, now, bytes) in [
        (0.0, 0.5, 500_000),
        (1.0, 2.5, 1_000_000),
        (1.0, 3.5, 2_000_000),
        (1.0, 2.9, 1_000_000),
        (2.0, 3.0, 0),
        (0.0, 600.0, 800_000_000),
    ] {
        let found = link
            .carried(Bytes::new(u64::MAX), second(began), second(now))
            .get();
        assert_eq!(found, bytes, "bytes from {began} s to {now} s");
    }
    let constant = up(&population, 1);
    assert_eq!(
        constant.arrival(second(7.0), Bytes::new(100_000)),
        second(8.5)
    );
    assert_eq!(constant.changes_after(second(7.0)), None);
    assert_eq!(
        up(&population, 2).share_at(second(3.0)),
        link.share_at(second(3.0)),
        "users begin again"
    );
}

/// If this fails, a link that carries nothing for a day lets a frame pass, at 1 bit/s.
#[test]
fn nothing_moves_while_the_rate_is_zero() {
    let lines = "0,0,8,8\n0,0.02,0,0\n0,86400,8,8\n";
    let (size, began) = (Bytes::new(1_948), second(0.02));
    for (sharing, sent) in [("equal", 86_400.001_948), ("tcp", 86_400.002_008_248)] {
        let link = up(&traced(lines, sharing, None), 0);
        let delay = link.latency_after();
        assert_eq!(link.arrival(began, size), second(sent) + delay, "{sharing}");
        assert_eq!(link.carried(size, began, second(86_400.0)), Bytes::ZERO);
        assert_eq!(
            link.share_at(second(50_000.0)),
            LinkShare::equal(BitsPerSecond::new(0))
        );
    }
}

#[test]
fn rates_have_the_stated_medians_spread_and_correlation() {
    let population = population(1);
    let logs: Vec<(f64, f64)> = (0..20_000)
        .map(|user| {
            let conditions = population.conditions(UserId(user), InvitationId(0));
            let log_mbit =
                |link: &Link| math::ln(link.share_at(SimTime::ZERO).cap.get() as f64 / 1e6);
            (log_mbit(&conditions.down), log_mbit(&conditions.up))
        })
        .collect();
    let count = logs.len() as f64;
    let mean = |values: &dyn Fn(&(f64, f64)) -> f64| logs.iter().map(values).sum::<f64>() / count;
    let (down, up) = (mean(&|log| log.0), mean(&|log| log.1));
    let sigma_down = math::sqrt(mean(&|log| (log.0 - down) * (log.0 - down)));
    let sigma_up = math::sqrt(mean(&|log| (log.1 - up) * (log.1 - up)));
    let correlation = mean(&|log| (log.0 - down) * (log.1 - up)) / (sigma_down * sigma_up);
    // The mean of the logarithm is the logarithm of the median.
    assert!(
        (math::exp(down) - 34.5).abs() < 0.6,
        "median down {}",
        math::exp(down)
    );
    assert!(
        (math::exp(up) - 26.3).abs() < 0.6,
        "median up {}",
        math::exp(up)
    );
    assert!((sigma_down - 0.47).abs() < 0.01 && (sigma_up - 0.68).abs() < 0.015);
    assert!(
        (correlation - 0.45).abs() < 0.02,
        "correlation {correlation}"
    );
}

#[test]
fn conditions_are_the_stated_functions_of_the_users_streams() {
    // The distributions alone would not tell a formula from its mirror image, and every digest
    // depends on the draws.
    let streams = Streams::new(1);
    let conditions = population(1).conditions(UserId(5), InvitationId(2));
    let mut link = streams.stream(Purpose::Link, 5, 0);
    let (first, second) = (link.standard_normal(), link.standard_normal());
    let correlated = 0.45 * first + (1.0 - 0.45 * 0.45_f64).sqrt() * second;
    let close = |rate: BitsPerSecond, mbit: f64| (rate.get() as f64 - mbit * 1e6).abs() < 1.0;
    assert!(close(
        conditions.down.share_at(SimTime::ZERO).cap,
        34.5 * (0.47 * first).exp()
    ));
    assert!(close(
        conditions.up.share_at(SimTime::ZERO).cap,
        26.3 * (0.68 * correlated).exp()
    ));
    assert_eq!(
        conditions.down.latency,
        SimDuration::from_millis_f64(20.0),
        "half a round trip"
    );
    assert_eq!(conditions.up.latency, conditions.down.latency);
    let nanoseconds = 50.0 * (0.6 * streams.stream(Purpose::Device, 5, 0).standard_normal()).exp();
    assert!(
        (conditions.speed.picoseconds_per_row_visit as f64 - 1000.0 * nanoseconds).abs() <= 0.5
    );
}

#[test]
fn dropout_has_its_probability_and_a_uniform_instant() {
    let population = population(1);
    let instants: Vec<f64> = (0..20_000)
        .filter_map(|user| {
            population
                .conditions(UserId(user), InvitationId(3))
                .dropout_at
        })
        .collect();
    let share = instants.len() as f64 / 20_000.0;
    assert!((share - 0.25).abs() < 0.01, "share {share}");
    let early =
        instants.iter().filter(|instant| **instant < 0.5).count() as f64 / instants.len() as f64;
    assert!(
        (early - 0.5).abs() < 0.02,
        "{early} of the dropouts in the first half"
    );
}

#[test]
fn a_users_machine_is_its_own_and_does_not_change_between_rounds() {
    let population = population(1);
    let speed = |user, round| {
        population
            .conditions(UserId(user), InvitationId(round))
            .speed
    };
    assert_eq!(speed(3, 0), speed(3, 9));
    assert_ne!(speed(3, 0), speed(4, 0));
    let rate = |round| {
        population
            .conditions(UserId(3), InvitationId(round))
            .down
            .share_at(SimTime::ZERO)
            .cap
    };
    assert_eq!(
        rate(0),
        rate(9),
        "without transfer variation a user's rate is constant"
    );
}

proptest! {
    /// If this fails, a transfer over a trace takes another time than a bit counter that looks at
    /// every piece, or more or fewer bytes are carried by then.
    #[test]
    fn a_trace_is_followed_exactly(
        lines in prop::collection::vec(
            (1u64..2_000_000_000, prop_oneof![1 => Just(0u64), 3 => 0u64..20_000_000]),
            1..6,
        ),
        began in 0u64..20_000_000_000, size in 0u64..3_000_000, tcp: bool,
    ) {
        let (mut time, mut text) = (0, String::new());
        // Rates are whole bits per second, and at least one of them is not zero.
        for (index, (length, rate)) in lines.iter().enumerate() {
            let rate = rate + u64::from(index == 0);
            text += &format!("0,{}.{:09},1,{}\n", time / 1_000_000_000, time % 1_000_000_000, rate as f64 / 1e6);
            time += length;
        }
        let period_s = time as f64 / 1e9;
        let link = up(&traced(&text, if tcp { "tcp" } else { "equal" }, Some(period_s)), 0);
        let mut at = SimTime::from_nanos(began) + link.start_up();
        let mut left = u128::from(size) * 8_000_000_000;
        let mut pieces = 0;
        while left > 0 && pieces < 100_000 {
            let rate = u128::from(link.share_at(at).cap.get());
            let length = link.changes_after(at).map_or(u64::MAX, |end| end.since(at).as_nanos());
            let needed = if rate == 0 { u128::MAX } else { left.div_ceil(rate) };
            let step = needed.min(u128::from(length)) as u64;
            left = left.saturating_sub(u128::from(step) * rate);
            at = at + SimDuration::from_nanos(step);
            pieces += 1;
        }
        prop_assume!(left == 0);
        let (began, size) = (SimTime::from_nanos(began), Bytes::new(size));
        prop_assert_eq!(link.arrival(began, size), at + link.latency_after());
        prop_assert_eq!(link.carried(size, began, at), size);
        if size > Bytes::ZERO {
            let before = SimTime::from_nanos(at.as_nanos() - 1);
            prop_assert!(link.carried(size, began, before) < size);
        }
    }
}

/// If this fails, an engineer who has made a mistake in a trace of links is not told where it is.
#[test]
fn every_wrong_line_of_a_trace_of_links_is_named() {
    let fault = |lines: &str, period_s| {
        let text = format!("user,time_s,down_mbit_per_s,up_mbit_per_s\n{lines}");
        LinkTrace::parse(
            (text.as_bytes(), &Users::default()),
            Path::new("l.csv"),
            period_s,
        )
        .unwrap_err()
        .to_string()
    };
    for (lines, message) in [
        (
            "",
            "cannot read l.csv: the file holds a header line and nothing else",
        ),
        (
            "0,0,5\n",
            "l.csv:2: expected 4 columns as in the header, found 3",
        ),
        (
            "0,0,5,x\n",
            "l.csv:2: expected 0 or a number from 1e-6 to 1e9 in column `up_mbit_per_s`, found \"x\"",
        ),
        (
            "0,0,-1,5\n",
            "l.csv:2: expected 0 or a number from 1e-6 to 1e9 in column `down_mbit_per_s`, found \"-1\"",
        ),
        // The simulation has no rate between 0 and 1 bit/s.
        (
            "0,0,5,9.9e-7\n",
            "l.csv:2: expected 0 or a number from 1e-6 to 1e9 in column `up_mbit_per_s`, found \"9.9e-7\"",
        ),
        (
            "0,nan,5,5\n",
            "l.csv:2: expected a number from 0 to 1e9 in column `time_s`, found \"nan\"",
        ),
        (
            "0,1.5,5,5\n",
            "l.csv:2: user 0 begins at 1.5 s, and a user's lines begin at 0 s",
        ),
        (
            "0,0,5,5\n1,0,5,5\n0,2,5,5\n0,2,4,4\n",
            "l.csv:5: user 0 has a time of 2 s, which is not after the 2 s in line 4",
        ),
        (
            "0,0,5,5\n2,0,5,5\n",
            "l.csv:3: user 2 stands here, but no line has user 1: users are numbered from 0 without gaps",
        ),
        (
            "0,0,5,0\n0,1,5,0\n",
            "l.csv:2: user 0 has no rate above 0 in column `up_mbit_per_s`",
        ),
        (
            "0,0,0,5\n",
            "l.csv:2: user 0 has no rate above 0 in column `down_mbit_per_s`",
        ),
    ] {
        assert_eq!(fault(lines, None), message);
    }
    let message =
        "l.csv:3: the time of 60 s is not before the end of the period of 60 s (`period_s`)";
    assert_eq!(fault("0,0,5,5\n0,60,5,5\n", Some(60.0)), message);
    let text = "user,time_s,up_mbit_per_s\n0,0,5\n";
    let message = LinkTrace::parse(
        (text.as_bytes(), &Users::default()),
        Path::new("l.csv"),
        None,
    )
    .unwrap_err()
    .to_string();
    assert!(
        message.starts_with("l.csv:1: the header has no column `down_mbit_per_s`"),
        "{message}"
    );
}

/// If this fails, a trace whose period is not stated ends at its last line, or later than one line
/// after it.
#[test]
fn without_a_period_the_last_line_holds_as_long_as_the_one_before() {
    let link = up(&traced("0,0,1,8\n0,2,1,16\n0,5,1,4\n", "equal", None), 0);
    let rates = [0.0, 2.0, 4.9, 5.0, 7.9, 8.0, 10.0, 13.0]
        .map(|at| link.share_at(second(at)).cap.get() as f64 / 1e6);
    assert_eq!(rates, [8.0, 16.0, 16.0, 4.0, 4.0, 8.0, 16.0, 4.0]);
    assert_eq!(link.changes_after(second(8.0)), Some(second(10.0)));
}

/// If this fails, a user named in the ratings file has the link of another one, or a fault of a
/// trace by name does not say whose it is.
#[test]
fn links_may_go_by_the_names_of_the_ratings_file() {
    let names: Vec<Box<str>> = ["Zoë", "7"].map(Into::into).into();
    let parse = |text: &str| {
        let text = format!("name,time_s,down_mbit_per_s,up_mbit_per_s\n{text}");
        let users = Users::of(&names);
        LinkTrace::parse((text.as_bytes(), &users), Path::new("l.csv"), None)
    };
    let trace = Arc::new(parse("7,0,3,4\nnobody,0,9,9\nZoë,0,1e-6,2\nZoë,5,5,0\n").unwrap());
    let rate = |user, direction, second| {
        let at = SimTime::ZERO + SimDuration::from_secs_f64(second);
        let rates = Rates::Traced {
            trace: Arc::clone(&trace),
            user: UserId(user),
            direction,
        };
        rates.at(at).rate.get()
    };
    assert_eq!(rate(0, Direction::Down, 0.0), 1);
    assert_eq!(rate(0, Direction::Up, 6.0), 0);
    assert_eq!(rate(1, Direction::Up, 6.0), 4_000_000);
    let fault = |text: &str| parse(text).unwrap_err().to_string();
    assert_eq!(
        fault("7,0,3,4\nZoë,1,1,2\n"),
        "l.csv:3: user 0 \"Zoë\" begins at 1 s, and a user's lines begin at 0 s"
    );
    assert_eq!(
        fault("Zoë,0,1,2\n7,0,fast,4\n"),
        "l.csv:3: user 1 \"7\": expected 0 or a number from 1e-6 to 1e9 in column `down_mbit_per_s`, found \"fast\""
    );
}
