//! The server's process.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use actix::System;
use tokio::sync::mpsc::unbounded_channel;

use super::accept::{Greeting, Incoming, accept, wake};
use super::alarm;
use super::connections::Connections;
use super::message::{Digest, LARGEST_GREETING};
use super::news::News;
use super::run::{OpenArrivals, Run, Starting};
use super::sorting::sort;
use super::tls::Keys;
use fedrecsim_core::{Error, Result};
use fedrecsim_sim::deployment::{check, longest_frame, longest_question};
use fedrecsim_sim::{Checkpoints, Outcome, World};

/// What the server's process is given.
pub struct Serving {
    /// The world, with the ratings that the server needs.
    pub world: Arc<World>,
    /// The text of the scenario, which joining processes read.
    pub scenario: String,
    /// The digest of the token that both sides know; zeros for none.
    pub token: Digest,
    /// The digest of the program that both sides run.
    pub build: Digest,
    /// The digest of the ratings that both sides have read.
    pub data: Digest,
    /// The threads for the server's own work.
    pub threads: usize,
    /// Set this to true to stop the run after what is happening now.
    pub interrupted: Arc<AtomicBool>,
    /// Where what arrives is written, for a replay.
    pub arrivals: Option<OpenArrivals>,
    /// The checkpoint that the run goes on from, and the place for its own.
    pub checkpoints: Checkpoints,
    /// Whether frames take as long as the links of the scenario say.
    pub shape: bool,
    /// Whether a training takes as long as the device of the scenario needs, where the host is
    /// faster.
    pub pace: bool,
    /// The time after which a silent peer is cut off, [`SILENCE`](crate::SILENCE).
    pub silence: Duration,
    /// The time after which a process is cut off that gives signs of life and owes an answer. An answer
    /// waits for the trainings of its devices, which may be paced.
    pub answer_within: Duration,
    /// What connections are sealed with; `None` for connections in the clear.
    pub keys: Option<Keys>,
}

/// Runs the server over the connections of `listener`, until the run is over, and returns its
/// outcome. `tell` is told what happens.
///
/// # Errors
/// [`Error::Usage`] for a run that starts from another one or cannot be deployed, errors before the
/// first round, and defects. What ends a run on the way is part of the outcome.
pub fn serve(
    serving: Serving,
    listener: TcpListener,
    tell: &mut dyn FnMut(News<'_>),
) -> Result<Outcome> {
    if serving.world.scenario.training.start.is_some() {
        // What users have learned in that run is in its folder, and not on their devices.
        return Err(Error::Usage(
            "training.start: devices of other processes begin with parameters of their own, so that a run in real time \
             cannot start from another one; leave the key out, or take `run`"
                .to_owned(),
        ));
    }
    check(&serving.world)?;
    let (incoming, inbox) = unbounded_channel();
    let refused = |reason: io::Error| Error::Usage(format!("cannot start the server: {reason}"));
    let over = Arc::new(AtomicBool::default());
    let here = listener.local_addr().map_err(refused)?;
    let greeting = Arc::new(Greeting {
        scenario: serving.scenario,
        token: serving.token,
        build: serving.build,
        data: serving.data,
        largest: largest_message(&serving.world),
        longest: longest_message(&serving.world),
        pace: serving.pace,
        silence: serving.silence,
        keys: serving.keys,
        keeps: keeps(&serving.checkpoints, &serving.world),
    });
    let (accepting, heard) = (Arc::clone(&over), incoming.clone());
    let users = serving.world.dataset.users();
    let acceptor = thread::Builder::new()
        .name("listener".to_owned())
        .spawn(move || accept(&listener, &greeting, &heard, (users, &accepting)))
        .map_err(refused)?;
    let rung = incoming.clone();
    let flag = Arc::clone(&serving.interrupted);
    let ring = move || drop(rung.send((Instant::now(), Incoming::Alarm)));
    let alarm = alarm::start(flag, ring).map_err(refused)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(refused)?;
    let (world, threads, interrupted) = (serving.world, serving.threads, serving.interrupted);
    let answer_within = serving.answer_within;
    let (arrivals, shape, checkpoints) = (serving.arrivals, serving.shape, serving.checkpoints);
    let outcome = System::with_tokio_rt(move || runtime).block_on(async {
        let connections = Rc::new(Connections::new(
            world.dataset.users() as u32,
            number_of_run(),
            answer_within,
        ));
        let (events, happened) = unbounded_channel();
        let sorted = sort(Rc::clone(&connections), inbox, events);
        actix::spawn(sorted);
        let run = Run::new(
            Rc::clone(&connections),
            happened,
            checkpoints.store,
            alarm,
            tell,
        );
        let starting = Starting {
            world,
            threads,
            interrupted,
            arrivals,
            resumed: checkpoints.resumed,
            shape,
        };
        let outcome = run.carry_out(starting).await;
        connections.say_bye();
        outcome
    });
    over.store(true, Ordering::Relaxed);
    // An acceptor that cannot be woken ends with this process.
    if wake(here) {
        let _ = acceptor.join();
    }
    outcome
}

/// Returns whether devices will be asked for their part of a checkpoint, or for one that they left.
fn keeps(checkpoints: &Checkpoints, world: &World) -> bool {
    let rounds = 1..world.scenario.training.rounds;
    checkpoints.resumed.is_some()
        || rounds
            .into_iter()
            .any(|round| checkpoints.store.is_due(round))
}

/// Returns a number that no other run has, so that a device never takes what it learned in another
/// one for what it learned in this. No result depends on it.
fn number_of_run() -> u64 {
    RandomState::new().build_hasher().finish() | 1
}

/// Returns the length of the longest message that a device may send: an upload with the whole model
/// in single precision and its positions, or an answer.
fn largest_message(world: &World) -> u32 {
    const OF_A_USER: u64 = 4096;
    let users = world.dataset.users() as u64;
    let answers = u64::from(LARGEST_GREETING) + OF_A_USER * users;
    u32::try_from(longest_frame(world).max(answers)).unwrap_or(u32::MAX)
}

/// Returns the length of the longest message to a process.
pub(crate) fn longest_message(world: &World) -> u32 {
    let longest = u64::from(LARGEST_GREETING) + longest_question(world);
    u32::try_from(longest).unwrap_or(u32::MAX)
}
