//! Measures the speed of the simulated world: the calendar, the shared link, rounds in which nobody
//! computes, rounds of methods, and whole runs at scale. `cargo bench --bench simulation` runs all
//! of it, and `cargo bench --bench simulation scale` one part. For a profiler, the part `rounds`
//! takes a number of users, a cohort and a number of rounds:
//! `cargo bench --bench simulation rounds 1000000 10000 200`.
//!
//! Every figure is the median of several repetitions, except for whole runs, which are made once.
//! Machines are noisy, so compare figures of one run.

use std::process::ExitCode;

#[path = "../common/mod.rs"]
mod common;
mod idle;
mod methods;
mod scale;

use common::median_ns;
use fedrecsim_core::{BitsPerSecond, Bytes, PortableDraws, Purpose, SimTime, Stream, Streams};
use fedrecsim_data::population::LinkShare;
use fedrecsim_sim::{Calendar, FairLink, FlowId};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // With an argument, only the part of that name is run.
    let wanted = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'));
    let is_wanted = |part: &str| wanted.as_deref().is_none_or(|wanted| wanted == part);
    if is_wanted("calendar") {
        for pending in [100, 1_000, 10_000, 100_000, 1_000_000] {
            for delays in [
                Delays::Exponential,
                Delays::Lognormal,
                Delays::Equal,
                Delays::TwoScales,
                Delays::Uniform,
            ] {
                calendar(pending, delays);
            }
        }
    }
    if is_wanted("link") {
        for transfers in [100, 1_000, 10_000, 100_000] {
            for caps in [Caps::Lognormal, Caps::Equal, Caps::NotBinding] {
                link(transfers, caps);
            }
        }
    }
    let numbers: Vec<u32> = std::env::args()
        .filter_map(|argument| argument.parse().ok())
        .collect();
    if let [users, cohort, rounds] = numbers[..] {
        idle::rounds(users, cohort, rounds as usize);
    } else if is_wanted("rounds") {
        for (users, cohort) in [
            (10_000, 10_000),
            (1_000_000, 10_000),
            (10_000, 1_000),
            (100_000, 1_000),
            (1_000_000, 1_000),
        ] {
            idle::rounds(users, cohort, 21);
        }
    }
    if is_wanted("methods") {
        methods::rounds();
    }
    let exceeded = if is_wanted("scale") {
        scale::runs()
    } else {
        Vec::new()
    };
    exceeded
        .iter()
        .for_each(|limit| eprintln!("error: {limit}"));
    if exceeded.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The distribution of how far ahead events are scheduled.
#[derive(Clone, Copy, Debug)]
enum Delays {
    /// Exponential with mean 1 s.
    Exponential,
    /// Lognormal with median 1 s and standard deviation of the logarithm 1.
    Lognormal,
    /// Always 1 s, from the same instant, so that all times are equal.
    Equal,
    /// Exponential, half of the delays with a mean of 1 ms and half with one of an hour.
    TwoScales,
    /// Uniform up to 1 ms, so that some times are equal.
    Uniform,
}

impl Delays {
    /// Draws a delay in nanoseconds.
    fn draw(self, stream: &mut Stream) -> u64 {
        let exponential =
            |stream: &mut Stream, mean_ns: f64| (-mean_ns * stream.open_unit().ln()) as u64;
        match self {
            Self::Exponential => exponential(stream, 1e9),
            Self::Lognormal => stream.lognormal(1e9, 1.0) as u64,
            Self::Equal => 1_000_000_000,
            Self::TwoScales if stream.below(2) == 0 => exponential(stream, 1e6),
            Self::TwoScales => exponential(stream, 3.6e12),
            Self::Uniform => 1 + u64::from(stream.below(1_000_000)),
        }
    }
}

/// An event like one of a simulation, with a kind and a number.
#[derive(Clone, Copy)]
enum Event {
    Ended(u32),
    Began(u32),
}

/// Measures a pop and a push, at a constant number of pending events.
fn calendar(pending: u32, kind: Delays) {
    let mut stream = Streams::new(1).stream(Purpose::Transfer, 0, 0);
    let delays: Vec<u64> = (0..1 << 18).map(|_| kind.draw(&mut stream)).collect();
    let mut calendar = Calendar::default();
    let mut next = 0;
    for event in 0..pending {
        next = (next + 1) % delays.len();
        calendar.schedule(SimTime::from_nanos(delays[next]), Event::Began(event));
    }
    let operations = 2_000_000;
    let mut turn = || {
        for _ in 0..operations {
            let Some((time, Event::Began(event) | Event::Ended(event))) = calendar.pop() else {
                return;
            };
            next = (next + 1) % delays.len();
            calendar.schedule(
                SimTime::from_nanos(time.as_nanos() + delays[next]),
                Event::Ended(event),
            );
        }
    };
    // The first turn brings the calendar from its beginning, where all delays start at once, to its
    // steady state.
    turn();
    let nanoseconds = median_ns(5, turn);
    let per_second = f64::from(operations) / nanoseconds * 1e3;
    println!(
        "{:<52} {per_second:>12.2} M events/s",
        format!("calendar, {pending} pending, {kind:?}")
    );
}

/// The rates of the clients' own links, beside a fair share of 1 Mbit/s or so.
#[derive(Clone, Copy, Debug)]
enum Caps {
    /// Lognormal with median 2 Mbit/s and standard deviation of the logarithm 1, so that some links
    /// bind and no two are equal.
    Lognormal,
    /// 1 Mbit/s for everybody, which the fair share keeps crossing.
    Equal,
    /// 1 Gbit/s for everybody, so that everybody has the fair share.
    NotBinding,
}

/// Measures a transfer that ends and one that starts, at a constant number of transfers, which is
/// what a change of the rates costs.
fn link(transfers: u32, kind: Caps) {
    let mut stream = Streams::new(1).stream(Purpose::Transfer, 0, 0);
    let mut link = FairLink::new(Some(BitsPerSecond::new(u64::from(transfers) * 1_000_000)));
    let mut start = |link: &mut FairLink, now: SimTime, flow: FlowId| {
        let size = Bytes::new(stream.lognormal(1e6, 1.0) as u64);
        let cap = match kind {
            Caps::Lognormal => BitsPerSecond::from_mbit_f64(stream.lognormal(2.0, 1.0)),
            Caps::Equal => BitsPerSecond::new(1_000_000),
            Caps::NotBinding => BitsPerSecond::new(1_000_000_000),
        };
        assert!(
            link.start(now, flow, size, LinkShare::equal(cap)),
            "the number is free"
        );
    };
    for flow in 0..transfers {
        start(&mut link, SimTime::ZERO, FlowId(flow));
    }
    let operations = 50_000;
    let mut turn = || {
        for _ in 0..operations {
            let Some(now) = link.next_end() else { return };
            let Some(flow) = link.take_ended(now) else {
                return;
            };
            start(&mut link, now, flow);
        }
    };
    turn();
    let nanoseconds = median_ns(5, turn) / f64::from(operations);
    println!(
        "{:<52} {nanoseconds:>12.0} ns a start and an end",
        format!("link, {transfers} transfers, {kind:?}")
    );
}
