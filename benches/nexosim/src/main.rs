//! Measures events end to end beside nexosim, in turn on the same machine; `README.md` says what is
//! compared and how.
//!
//! nexosim: as many actors as users. Each schedules itself after a delay of 1.5 ms on average and
//! then sends one message to a server; that is one event. fedrecsim: rounds in which nobody
//! computes; every participation has three events.

use std::error::Error;
use std::time::{Duration, Instant};

use nexosim::model::{Context, Model, schedulable};
use nexosim::ports::Output;
use nexosim::simulation::{Mailbox, SimInit};
use nexosim::time::MonotonicTime;
use serde::{Deserialize, Serialize};

#[allow(dead_code)]
#[path = "../../simulation/idle.rs"]
mod idle;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Number of measurements of each program for one number of users.
const PAIRS: usize = 3;

/// Mean of the delays that [`Client`] draws, in nanoseconds.
const MEAN_DELAY_NS: u64 = 1_000_000 + (1 << 19);

/// An actor that schedules itself and sends one message whenever its time has come.
#[derive(Serialize, Deserialize)]
pub struct Client {
    server: Output<u32>,
    state: u64,
}

#[Model]
impl Client {
    #[nexosim(init)]
    async fn init(&mut self, context: &Context<Self>) {
        self.schedule(context);
    }

    #[nexosim(schedulable)]
    async fn tick(&mut self, value: u32, context: &Context<Self>) {
        self.server.send(value).await;
        self.schedule(context);
    }
}

impl Client {
    fn schedule(&mut self, context: &Context<Self>) {
        // Knuth's linear congruential generator; only its upper 20 bits are used.
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let delay = Duration::from_nanos(1_000_000 + (self.state >> 44));
        context.schedule_event(delay, schedulable!(Self::tick), 1).expect("the delay is positive");
    }
}

/// An actor that counts what arrives.
#[derive(Default, Serialize, Deserialize)]
pub struct Server {
    arrived: u64,
}

#[Model]
impl Server {
    /// Takes a message.
    pub async fn arrive(&mut self, value: u32) {
        self.arrived += u64::from(value);
    }
}

/// Returns millions of nexosim's events per second with this many actors.
fn nexosim_events(actors: u32, threads: usize) -> Result<f64, Box<dyn Error>> {
    let mut bench = SimInit::with_num_threads(threads);
    let server = Mailbox::new();
    for number in 0..actors {
        let mut client = Client { server: Output::default(), state: u64::from(number) * 7919 + 1 };
        client.server.connect(Server::arrive, &server);
        bench = bench.add_model(client, Mailbox::new(), "client");
    }
    let mut simulation = bench.add_model(Server::default(), server, "server").init(MonotonicTime::EPOCH)?;
    let turns = u64::from((2_000_000 / actors).max(2));
    let start = Instant::now();
    simulation.step_until(Duration::from_nanos(turns * MEAN_DELAY_NS))?;
    Ok(f64::from(actors) * turns as f64 / start.elapsed().as_secs_f64() / 1e6)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Users, and how many of them are in a round: `1000000/10000`, or `10000` for rounds of at most
/// 10,000.
fn parse(argument: &str) -> Option<(u32, u32)> {
    match argument.split_once('/') {
        Some((users, cohort)) => Some((users.parse().ok()?, cohort.parse().ok()?)),
        None => argument.parse().ok().map(|users: u32| (users, users.min(10_000))),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (mut sizes, mut threads) = (Vec::new(), 1);
    while let Some(argument) = arguments.next() {
        if argument == "--threads" {
            threads = arguments.next().ok_or("how many threads?")?.parse()?;
        } else {
            sizes.push(parse(&argument).ok_or_else(|| format!("not a number of users: {argument}"))?);
        }
    }
    if sizes.is_empty() {
        sizes = vec![(10_000, 10_000), (1_000_000, 10_000)];
    }
    for (users, cohort) in sizes {
        // As many events in any case, but for rounds of very many.
        let rounds = (400_000 / cohort).clamp(5, 41);
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..PAIRS {
            ours.push(idle::rounds(users, cohort, rounds as usize));
            theirs.push(nexosim_events(users, threads)?);
        }
        let (ours, theirs) = (median(ours), median(theirs));
        let ratio = ours / theirs;
        println!("{users} users: fedrecsim {ours:.2}, nexosim {theirs:.2} M events/s: {ratio:.2} times");
    }
    Ok(())
}
