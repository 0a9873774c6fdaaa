//! The network: owns the clock, turns bytes into time, and decides who is cut off when.
//!
//! A participation is laid out when it starts (download, compute, upload, perhaps a dropout); its next event is in the
//! calendar, and what happens is told to the server and the client, and booked for the metrics.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use actix::prelude::*;
use rayon::prelude::*;

use super::calendar::Calendar;
use super::messages::{
    ASKED_AT_ONCE, BeginRound, BookUnfinished, Booking, CloseRound, Direction, FromClient, Invitation, LinkEvent,
    ParticipationLost, Receipt, RoundEnded, Run, TAKEN_AT_ONCE, ToClient, UplinkArrived, Usefulness,
};
use super::training::{Assignment, Trained};
use super::world::World;
use crate::error::{Error, Result};
use crate::ids::{Round, UserId};
use crate::method::Client;
use crate::population::Conditions;
use crate::stages::{Stage, enter};
use crate::units::{Bytes, SimDuration, SimTime};

/// Whom the network talks to.
pub struct Peers {
    /// The server, when a round begins.
    pub begin_round: Recipient<BeginRound>,
    /// The server, when an upload arrives.
    pub uplink_arrived: Recipient<UplinkArrived>,
    /// The server, when a participation is lost.
    pub participation_lost: Recipient<ParticipationLost>,
    /// The server, when a round is over.
    pub close_round: Recipient<CloseRound>,
    /// Every user, by number.
    pub clients: Arc<[Recipient<ToClient>]>,
    /// The metrics, when a round is over.
    pub round_ended: Recipient<RoundEnded>,
    /// The metrics, when the run stops within a round.
    pub book_unfinished: Recipient<BookUnfinished>,
}

/// The network's actor.
pub struct NetworkActor {
    timeline: Option<Timeline>,
}

impl NetworkActor {
    /// A network at time zero. `interrupted` is looked at between events.
    pub fn new(world: Arc<World>, workers: Arc<rayon::ThreadPool>, peers: Peers, interrupted: Arc<AtomicBool>) -> Self {
        let timeline = Timeline {
            world,
            workers,
            peers,
            interrupted,
            calendar: Calendar::default(),
            participations: BTreeMap::new(),
            bookings: Vec::new(),
            losses: BTreeMap::new(),
            dropped: 0,
        };
        Self { timeline: Some(timeline) }
    }
}

impl Actor for NetworkActor {
    type Context = Context<Self>;
}

impl Handler<Run> for NetworkActor {
    type Result = ResponseFuture<Result<()>>;

    fn handle(&mut self, _: Run, _context: &mut Self::Context) -> Self::Result {
        let timeline = self.timeline.take();
        Box::pin(async move {
            match timeline {
                Some(timeline) => timeline.run().await,
                None => Err(unanswered("network", "it has run already")),
            }
        })
    }
}

/// What the calendar holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    DownloadEnded(UserId),
    TrainingEnded(UserId),
    UploadEnded(UserId),
    DroppedOut(UserId),
}

/// A participation from invitation to upload.
struct Participation {
    round: Round,
    conditions: Conditions,
    started: SimTime,
    download: Phase,
    compute: SimDuration,
    upload: Phase,
    /// The result of training, until its virtual end.
    trained: Option<Box<Trained>>,
    snapshot: Option<Box<dyn Client>>,
    /// The frame on its way to the server.
    uploading: Option<bytes::Bytes>,
    /// When it is cut off, if it is.
    cut: Option<SimTime>,
}

/// A transfer.
#[derive(Clone, Copy)]
struct Phase {
    size: Bytes,
    duration: SimDuration,
}

/// The running simulation: the clock, the calendar, and everybody who is taking part.
struct Timeline {
    world: Arc<World>,
    workers: Arc<rayon::ThreadPool>,
    peers: Peers,
    interrupted: Arc<AtomicBool>,
    calendar: Calendar<Event>,
    /// Boxed, since they go in and out with every event.
    participations: BTreeMap<UserId, Box<Participation>>,
    bookings: Vec<Booking>,
    losses: BTreeMap<UserId, f64>,
    dropped: u32,
}

fn unanswered(actor: &'static str, reason: impl ToString) -> Error {
    Error::Actor { actor, reason: reason.to_string() }
}

/// The answer to a question; what passes until it is there is the actors' time, less what other stages take of it.
async fn asked<T>(question: impl Future<Output = T>) -> T {
    let _stage = enter(Stage::Actors);
    question.await
}

impl Timeline {
    async fn run(mut self) -> Result<()> {
        for round in 0..self.world.scenario.training.rounds {
            if let Err(error) = self.run_round(Round(round)).await {
                let bookings = std::mem::take(&mut self.bookings);
                let booked = self.peers.book_unfinished.send(BookUnfinished { bookings }).await;
                booked.map_err(|reason| unanswered("metrics", reason))??;
                return Err(error);
            }
        }
        Ok(())
    }

    async fn run_round(&mut self, round: Round) -> Result<()> {
        let _stage = enter(Stage::Simulate);
        // A round of nobody has no event to look at it between.
        self.check_interrupted()?;
        let began = self.calendar.now();
        let invitation = asked(self.peers.begin_round.send(BeginRound { round })).await;
        let invitation = invitation.map_err(|reason| unanswered("server", reason))??;
        let invited = invitation.cohort.len() as u32;
        let mut complete = invitation.cohort.is_empty();
        self.invite(round, invitation).await?;
        while !complete {
            self.check_interrupted()?;
            let Some((now, event)) = self.calendar.pop() else {
                return Err(unanswered("server", "it waits for participations that nobody takes part in"));
            };
            complete = self.happen(now, event).await?;
        }
        self.end_round(round, began, invited).await
    }

    fn check_interrupted(&self) -> Result<()> {
        if self.interrupted.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }

    async fn end_round(&mut self, round: Round, began: SimTime, invited: u32) -> Result<()> {
        let outcome = asked(self.peers.close_round.send(CloseRound)).await;
        let outcome = outcome.map_err(|reason| unanswered("server", reason))??;
        let ended = RoundEnded {
            round,
            began,
            ended: self.calendar.now(),
            invited,
            dropped: std::mem::take(&mut self.dropped),
            losses: std::mem::take(&mut self.losses).into_values().collect(),
            outcome,
            bookings: std::mem::take(&mut self.bookings),
        };
        asked(self.peers.round_ended.send(ended)).await.map_err(|reason| unanswered("metrics", reason))?
    }

    /// Starts the downloads of a cohort, and the trainings, whose inputs are fixed from here on.
    async fn invite(&mut self, round: Round, invitation: Invitation) -> Result<()> {
        let now = self.calendar.now();
        let parts = invitation.broadcast.frame().parts;
        let mut assignments = Vec::with_capacity(invitation.cohort.len());
        for users in invitation.cohort.chunks(ASKED_AT_ONCE) {
            let answers = users.iter().map(|&user| {
                let broadcast = Arc::clone(&invitation.broadcast);
                self.peers.clients[user.index()].send(ToClient::Participate { round, broadcast })
            });
            // A question is in its mailbox as soon as it is sent; the answers come while the first is awaited.
            let answers = answers.collect::<Vec<_>>();
            let _stage = enter(Stage::Actors);
            for answer in answers {
                match answer.await.map_err(|reason| unanswered("client", reason))? {
                    FromClient::Assignment(assignment) => assignments.push(assignment),
                    _ => return Err(unanswered("client", "it was invited while it was busy")),
                }
            }
        }
        let size = Bytes::of(invitation.broadcast.bytes());
        for &user in &invitation.cohort {
            self.book(round, user, LinkEvent::Sent(Direction::Down, parts));
        }
        let interrupted = &*self.interrupted;
        let train = |assignment: Box<Assignment>| match interrupted.load(Ordering::Relaxed) {
            true => Err(Error::Interrupted),
            false => Assignment::run(*assignment),
        };
        let waiting = enter(Stage::Wait);
        let trained: Vec<Result<Box<Trained>>> =
            self.workers.install(|| assignments.into_par_iter().with_max_len(TAKEN_AT_ONCE).map(train).collect());
        drop(waiting);
        for (&user, trained) in invitation.cohort.iter().zip(trained) {
            let participation = Box::new(Participation::plan(round, now, size, trained?));
            if participation.upload_ends() == SimTime::from_nanos(u64::MAX) {
                return Err(Error::TimeOverflow { round, user });
            }
            self.schedule(user, participation);
        }
        Ok(())
    }

    /// Puts the first thing that happens to a participation into the calendar.
    fn schedule(&mut self, user: UserId, participation: Box<Participation>) {
        self.schedule_next(user, &participation, participation.download_ends(), Event::DownloadEnded(user));
        self.participations.insert(user, participation);
    }

    /// Schedules `event` at `time`, or the dropout, whichever comes first.
    fn schedule_next(&mut self, user: UserId, participation: &Participation, time: SimTime, event: Event) {
        match participation.cut {
            Some(cut) if cut < time => self.calendar.schedule(cut, Event::DroppedOut(user)),
            _ => self.calendar.schedule(time, event),
        };
    }

    /// Lets `event` happen; whether the open round is complete with it.
    async fn happen(&mut self, now: SimTime, event: Event) -> Result<bool> {
        match event {
            Event::DownloadEnded(user) => self.download_ended(user).map(|()| false),
            Event::TrainingEnded(user) => self.training_ended(user).await.map(|()| false),
            Event::UploadEnded(user) => self.upload_ended(user).await,
            Event::DroppedOut(user) => self.dropped_out(now, user).await,
        }
    }

    fn download_ended(&mut self, user: UserId) -> Result<()> {
        let participation = self.remove(user)?;
        let delivered =
            LinkEvent::Delivered(Direction::Down, Usefulness::Useful, participation.download.duration.as_nanos());
        self.book(participation.round, user, delivered);
        self.schedule_next(user, &participation, participation.training_ends(), Event::TrainingEnded(user));
        self.participations.insert(user, participation);
        Ok(())
    }

    async fn training_ended(&mut self, user: UserId) -> Result<()> {
        let mut participation = self.remove(user)?;
        let trained = participation.trained.take().ok_or_else(|| unanswered("network", "a training ended twice"))?;
        let (parts, loss) = (trained.frame.parts, trained.loss);
        let FromClient::Upload(frame) = self.ask(user, ToClient::TrainingEnded(trained)).await? else {
            return Err(unanswered("client", "it did not upload after training"));
        };
        self.book(participation.round, user, LinkEvent::Computed(participation.compute.as_nanos()));
        self.book(participation.round, user, LinkEvent::Sent(Direction::Up, parts));
        self.losses.insert(user, loss);
        self.schedule_next(user, &participation, participation.upload_ends(), Event::UploadEnded(user));
        participation.uploading = Some(frame);
        self.participations.insert(user, participation);
        Ok(())
    }

    async fn upload_ended(&mut self, user: UserId) -> Result<bool> {
        let mut participation = self.remove(user)?;
        let round = participation.round;
        let frame = participation.uploading.take().ok_or_else(|| unanswered("network", "an upload without a frame"))?;
        let receipt = asked(self.peers.uplink_arrived.send(UplinkArrived { user, round, frame })).await;
        let receipt = receipt.map_err(|reason| unanswered("server", reason))??;
        let nanoseconds = participation.upload.duration.as_nanos();
        self.book(round, user, LinkEvent::Delivered(Direction::Up, receipt.usefulness, nanoseconds));
        Ok(receipt.round_complete)
    }

    async fn dropped_out(&mut self, now: SimTime, user: UserId) -> Result<bool> {
        let mut participation = self.remove(user)?;
        let (round, conditions) = (participation.round, participation.conditions);
        let state = if now < participation.download_ends() {
            let carried = conditions.down.carried(participation.download.size, now.since(participation.started));
            self.book(round, user, LinkEvent::Lost(Direction::Down, carried.get()));
            participation.snapshot.take()
        } else if participation.trained.is_some() {
            // Training that did not end leaves no trace on the device.
            participation.snapshot.take()
        } else {
            let elapsed = now.since(participation.training_ends());
            let carried = conditions.up.carried(participation.upload.size, elapsed);
            self.book(round, user, LinkEvent::Lost(Direction::Up, carried.get()));
            None
        };
        self.losses.remove(&user);
        self.dropped += 1;
        match self.ask(user, ToClient::CutOff(state)).await? {
            FromClient::Done => {}
            _ => return Err(unanswered("client", "it cannot be cut off in its state")),
        }
        let receipt = asked(self.peers.participation_lost.send(ParticipationLost { user, round })).await;
        let Receipt { round_complete, .. } = receipt.map_err(|reason| unanswered("server", reason))?;
        Ok(round_complete)
    }

    async fn ask(&self, user: UserId, message: ToClient) -> Result<FromClient> {
        asked(self.peers.clients[user.index()].send(message)).await.map_err(|reason| unanswered("client", reason))
    }

    fn remove(&mut self, user: UserId) -> Result<Box<Participation>> {
        self.participations.remove(&user).ok_or_else(|| unanswered("network", format!("{user} takes no part")))
    }

    fn book(&mut self, round: Round, user: UserId, event: LinkEvent) {
        self.bookings.push(Booking { round, user, event });
    }
}

impl Participation {
    /// Lays out the phases of a participation that starts at `now`.
    fn plan(round: Round, now: SimTime, size: Bytes, mut trained: Box<Trained>) -> Self {
        let conditions = trained.conditions;
        let download = Phase { size, duration: conditions.down.transfer_time(size) };
        let compute = conditions.compute_time(trained.row_visits);
        let size = Bytes::of(&trained.frame.bytes);
        let upload = Phase { size, duration: conditions.up.transfer_time(size) };
        let whole = download.duration + compute + upload.duration;
        let cut = conditions.dropout_at.map(|share| {
            // In 2^-32 steps, so that the instant is an integer computation.
            now + whole.fraction((share * 4_294_967_296.0) as u64, 1 << 32)
        });
        Self {
            round,
            conditions,
            started: now,
            download,
            compute,
            upload,
            snapshot: trained.snapshot.take(),
            trained: Some(trained),
            uploading: None,
            cut,
        }
    }

    fn download_ends(&self) -> SimTime {
        self.started + self.download.duration
    }

    fn training_ends(&self) -> SimTime {
        self.download_ends() + self.compute
    }

    fn upload_ends(&self) -> SimTime {
        self.training_ends() + self.upload.duration
    }
}
