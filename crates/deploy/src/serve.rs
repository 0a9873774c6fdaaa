//! The server's process.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use actix::System;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::accept::{Greeting, Incoming, accept};
use super::alarm;
use super::connections::{ConnectionId, Connections, Processes};
use super::message::{Digest, Head, LARGEST_GREETING, Message, To};
use super::sorting::{Happened, sort};
use fedrecsim_core::{Error, InvitationId, Result, SimTime, UserId};
use fedrecsim_sim::deployment::{
    Coordinator, Event, Invite, Order, Told, longest_frame, remote_workers,
};
use fedrecsim_sim::outcome::{ByDirection, Flow, RoundRecord};
use fedrecsim_sim::{Outcome, World};

/// What the server's process is given.
pub struct Serving {
    /// The world, with the ratings that the server needs.
    pub world: Arc<World>,
    /// The text of the scenario, which joining processes read.
    pub scenario: String,
    /// The digest of the program that both sides run.
    pub build: Digest,
    /// The digest of the ratings that both sides have read.
    pub data: Digest,
    /// The threads for the server's own work.
    pub threads: usize,
    /// Set this to true to stop the run after what is happening now.
    pub interrupted: Arc<AtomicBool>,
}

/// What the owner of the server is told.
pub enum News<'n> {
    /// The server waits for the processes of these users.
    WaitsFor(&'n str),
    /// All users are there.
    Complete,
    /// A round is over, with the bytes of the run so far.
    Round(&'n RoundRecord, &'n ByDirection<Flow>),
    /// A peer was refused or cut off, for this reason.
    CutOff(&'n str),
}

/// Runs the server over the connections of `listener`, until the run is over, and returns its
/// outcome. `tell` is told what happens.
///
/// # Errors
/// [`Error::Usage`] for a run that starts from another one, errors before the first round, and defects. What ends a run on the way is part of the outcome.
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
    let (incoming, inbox) = unbounded_channel();
    let refused = |reason: io::Error| Error::Usage(format!("cannot start the server: {reason}"));
    let over = Arc::new(AtomicBool::default());
    let here = listener.local_addr().map_err(refused)?;
    let greeting = Arc::new(Greeting {
        scenario: serving.scenario,
        build: serving.build,
        data: serving.data,
        largest: largest_message(&serving.world),
    });
    let (accepting, heard) = (Arc::clone(&over), incoming.clone());
    let acceptor = thread::Builder::new()
        .name("listener".to_owned())
        .spawn(move || accept(&listener, &greeting, &heard, &accepting))
        .map_err(refused)?;
    let rung = incoming.clone();
    let flag = Arc::clone(&serving.interrupted);
    let ring = move || drop(rung.send(Incoming::Alarm));
    let alarm = alarm::start(flag, ring).map_err(refused)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .map_err(refused)?;
    let (world, threads, interrupted) = (serving.world, serving.threads, serving.interrupted);
    let outcome = System::with_tokio_rt(move || runtime).block_on(async {
        let connections = Rc::new(Connections::new(world.dataset.users() as u32));
        let (events, happened) = unbounded_channel();
        let sorted = sort(Rc::clone(&connections), inbox, events);
        actix::spawn(sorted);
        let run = Run {
            connections: Rc::clone(&connections),
            happened,
            began: Instant::now(),
            alarm,
            tell,
            invited: BTreeMap::new(),
            losses: VecDeque::new(),
        };
        let outcome = run.carry_out(world, threads, interrupted).await;
        connections.say_bye();
        outcome
    });
    over.store(true, Ordering::Relaxed);
    // A connection wakes the acceptor, which sees then that the run is over.
    let _ = TcpStream::connect(here);
    let _ = acceptor.join();
    outcome
}

/// Returns the length of the longest message that a device may send: an upload with the whole model
/// in single precision and its positions, or an answer.
fn largest_message(world: &World) -> u32 {
    const OF_A_USER: u64 = 4096;
    let users = world.dataset.users() as u64;
    let answers = u64::from(LARGEST_GREETING) + OF_A_USER * users;
    u32::try_from(longest_frame(world).max(answers)).unwrap_or(u32::MAX)
}

type Participant = (UserId, InvitationId);

/// The run, with its clock.
struct Run<'t> {
    connections: Rc<Connections>,
    happened: UnboundedReceiver<Happened>,
    began: Instant,
    alarm: std::sync::mpsc::Sender<Instant>,
    tell: &'t mut dyn FnMut(News<'_>),
    /// The participations by user, with the connection that the invitation went to.
    invited: BTreeMap<UserId, (Participant, ConnectionId)>,
    /// The losses that follow from a connection that has ended.
    losses: VecDeque<Event>,
}

impl Run<'_> {
    async fn carry_out(
        mut self,
        world: Arc<World>,
        threads: usize,
        interrupted: Arc<AtomicBool>,
    ) -> Result<Outcome> {
        self.wait_for_all(&interrupted).await?;
        self.connections.settle();
        let hosts = Processes(Rc::clone(&self.connections));
        let workers = remote_workers(hosts);
        let flag = Arc::clone(&interrupted);
        let mut coordinator = Coordinator::start(world, threads, flag, workers).await?;
        self.began = Instant::now();
        let mut stopped_by = None;
        while !coordinator.is_over() && stopped_by.is_none() {
            let round = match self.wait_for_all(&interrupted).await {
                Ok(()) => self.round(&mut coordinator).await,
                Err(error) => Err(error),
            };
            if let Err(error) = round {
                if !error.leaves_a_result() {
                    return Err(error);
                }
                stopped_by = Some(error);
            }
        }
        coordinator.finish(self.now(), stopped_by).await
    }

    fn now(&self) -> SimTime {
        SimTime::from_nanos(self.began.elapsed().as_nanos() as u64)
    }

    /// Waits until the processes of all users are there.
    async fn wait_for_all(&mut self, interrupted: &AtomicBool) -> Result<()> {
        let mut told = None;
        while let Some(missing) = self.connections.missing() {
            if interrupted.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            if told.as_ref() != Some(&missing) {
                (self.tell)(News::WaitsFor(&missing));
                told = Some(missing);
            }
            self.connections.came.notified().await;
        }
        if told.is_some() {
            (self.tell)(News::Complete);
        }
        Ok(())
    }

    async fn round(&mut self, coordinator: &mut Coordinator) -> Result<()> {
        let mut orders = coordinator.begin_round(self.now()).await?;
        loop {
            for order in std::mem::take(&mut orders) {
                if self.obey(order) {
                    return Ok(());
                }
            }
            let event = match self.losses.pop_front() {
                Some(event) => event,
                None => match self.happened.recv().await {
                    Some(Happened::Event(event)) => event,
                    Some(Happened::Gone(id)) => {
                        let on = self.invited.values().filter(|(_, on)| *on == id);
                        let lost = on.map(|(participant, _)| *participant);
                        let lost = lost.filter(|lost| coordinator.is_under_way(*lost));
                        let lost = lost.map(|lost| Event::Of(lost, Told::Lost));
                        self.losses.extend(lost);
                        continue;
                    }
                    Some(Happened::CutOff(reason)) => {
                        (self.tell)(News::CutOff(&reason));
                        continue;
                    }
                    None => return Err(Error::Interrupted),
                },
            };
            orders = coordinator.happened(self.now(), event).await?;
        }
    }

    /// Carries out an order, and returns whether the round is over.
    fn obey(&mut self, order: Order) -> bool {
        let to = |(user, invitation): (UserId, InvitationId)| To {
            user: user.0,
            invitation: invitation.0,
        };
        match order {
            Order::Invite(invite) => {
                let Invite {
                    participant,
                    step,
                    number,
                    phase,
                    frame,
                } = invite;
                let head = Head::Invite {
                    to: to(participant),
                    step: step.0,
                    number,
                    phase: phase.0,
                };
                let message = Message::with(head, frame.bytes);
                match self.connections.send(participant.0, message) {
                    Some(id) => drop(self.invited.insert(participant.0, (participant, id))),
                    None => self.losses.push_back(Event::Of(participant, Told::Lost)),
                }
            }
            Order::Reply(participant, frame) => {
                let to = to(participant);
                let message = Message::with(Head::Reply { to }, frame.bytes);
                self.connections.send(participant.0, message);
            }
            Order::Cancel(participant) => {
                let to = to(participant);
                let message = Message::new(Head::Cancel { to });
                self.connections.send(participant.0, message);
            }
            Order::WakeAt(at) => {
                let at = self.began + Duration::from_nanos(at.as_nanos());
                // Its thread ends after this one.
                let _ = self.alarm.send(at);
            }
            Order::RoundOver(record, total) => {
                (self.tell)(News::Round(&record, &total));
                return true;
            }
        }
        false
    }
}
