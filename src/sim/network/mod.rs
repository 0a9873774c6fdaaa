//! The network: owns the clock, turns bytes into time, and decides who is cut off when.
//!
//! A participation goes from its download through its training to its upload; what happens next to it is in the
//! calendar, and what has happened is told to the server and the client, and booked for the metrics. The server says
//! whom to invite, when to wake it and when a round is complete; everything else follows from the clock.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use actix::prelude::*;

use super::by_user::ByUser;
use super::calendar::Calendar;
use super::checkpoints::{CheckpointStore, Save};
use super::directory::Directory;
use super::messages::{
    AlarmRang, BeginStep, Book, BookUnfinished, Booking, CloseStep, FromClient, LinkEvent, Orders, ParticipationLost,
    Participations, RoundEnded, Run, StepsMade, ToClient, UplinkArrived,
};
use super::world::World;
use crate::error::{Error, Result};
use crate::ids::{InvitationId, Round, Step, UserId};
use crate::population::AvailabilityClock;
use crate::stages::{Stage, enter};
use crate::units::SimTime;

mod event;
mod event_handlers;
mod invitations;
mod participation;
mod saved;
mod transfers;

use event::Event;
use participation::Participation;
pub use saved::NetworkState;
use transfers::ServerLink;

/// Bookings that the metrics are told of at once, where a round of many steps has more: some megabytes of them.
const BOOKED_AT_ONCE: usize = 1 << 17;

/// Whom the network talks to.
pub struct Peers {
    /// The server, when a step begins.
    pub begin_step: Recipient<BeginStep>,
    /// The server, when an upload arrives.
    pub uplink_arrived: Recipient<UplinkArrived>,
    /// The server, when a participation is lost.
    pub participation_lost: Recipient<ParticipationLost>,
    /// The server, when it asked to be woken.
    pub alarm_rang: Recipient<AlarmRang>,
    /// The server, when a step is due.
    pub close_step: Recipient<CloseStep>,
    /// Every user.
    pub clients: Rc<Directory>,
    /// The metrics, when much has happened in a round.
    pub book: Recipient<Book>,
    /// The metrics, when a round is over.
    pub round_ended: Recipient<RoundEnded>,
    /// The metrics, when the run ends with transfers on their way.
    pub book_unfinished: Recipient<BookUnfinished>,
    /// The server, for a checkpoint.
    pub save_server: Recipient<Save>,
    /// The metrics, for a checkpoint.
    pub save_metrics: Recipient<Save>,
}

/// The network's actor.
pub struct NetworkActor {
    timeline: Option<Timeline>,
    resumed: Option<NetworkState>,
}

impl NetworkActor {
    /// A network at time zero, or as it was `resumed`. `interrupted` is looked at between events, what is later than
    /// `until` does not happen; `store` is asked after every round whether it wants a checkpoint.
    pub fn new(
        world: Arc<World>,
        workers: Arc<rayon::ThreadPool>,
        peers: Peers,
        (interrupted, until): (Arc<AtomicBool>, Option<SimTime>),
        (resumed, store): (Option<NetworkState>, Box<dyn CheckpointStore>),
    ) -> Self {
        let server_link = ServerLink::new(&world.scenario.network.server);
        let availability = world.population.availability().clock();
        let timeline = Timeline {
            world,
            workers,
            peers,
            interrupted,
            until,
            calendar: Calendar::default(),
            taking_part: ByUser::default(),
            untrained: Vec::new(),
            bookings: Vec::new(),
            losses: Vec::new(),
            counts: Participations::default(),
            server_link,
            availability,
            store,
        };
        Self { timeline: Some(timeline), resumed }
    }
}

impl Actor for NetworkActor {
    type Context = Context<Self>;
}

impl Handler<Run> for NetworkActor {
    type Result = ResponseFuture<Result<()>>;

    fn handle(&mut self, _: Run, _context: &mut Self::Context) -> Self::Result {
        let (timeline, resumed) = (self.timeline.take(), self.resumed.take());
        Box::pin(async move {
            match timeline {
                Some(timeline) => timeline.run(resumed).await,
                None => Err(unanswered("network", "it has run already")),
            }
        })
    }
}

/// The running simulation: the clock, the calendar, and everybody who is taking part.
struct Timeline {
    world: Arc<World>,
    workers: Arc<rayon::ThreadPool>,
    peers: Peers,
    interrupted: Arc<AtomicBool>,
    until: Option<SimTime>,
    calendar: Calendar<Event>,
    /// Who takes part. Boxed, since it is taken and put back at every event.
    taking_part: ByUser<Box<Participation>>,
    /// Those whose training has not been worked out yet, in the order of their invitations; some of them may be gone.
    untrained: Vec<UserId>,
    bookings: Vec<Booking>,
    /// Local losses of the updates that the server took in since its last step.
    losses: Vec<(UserId, InvitationId, f64)>,
    counts: Participations,
    /// `None` if the server's link holds nobody back.
    server_link: Option<ServerLink>,
    availability: AvailabilityClock,
    store: Box<dyn CheckpointStore>,
}

fn unanswered(actor: &'static str, reason: impl ToString) -> Error {
    Error::Actor { actor, reason: reason.to_string() }
}

/// The answer to a question; what passes until it is there is the actors' time, less what other stages take of it.
async fn asked<T>(question: impl Future<Output = std::result::Result<T, MailboxError>>, of: &'static str) -> Result<T> {
    let _stage = enter(Stage::Actors);
    question.await.map_err(|reason| unanswered(of, reason))
}

/// All of `list`; what is left has room for as much again, which the next round will want.
fn emptied<T>(list: &mut Vec<T>) -> Vec<T> {
    let room = Vec::with_capacity(list.len());
    std::mem::replace(list, room)
}

impl Timeline {
    async fn run(mut self, resumed: Option<NetworkState>) -> Result<()> {
        let ended = self.run_rounds(resumed).await;
        self.book_unfinished()?;
        let bookings = std::mem::take(&mut self.bookings);
        asked(self.peers.book_unfinished.send(BookUnfinished { bookings }), "metrics").await??;
        ended
    }

    async fn run_rounds(&mut self, resumed: Option<NetworkState>) -> Result<()> {
        let first = match resumed {
            Some(state) => self.resume(state).await?,
            None => 0,
        };
        for round in first..self.world.scenario.training.rounds {
            self.run_round(Round(round)).await?;
            self.save_if_due(round + 1).await?;
        }
        Ok(())
    }

    async fn run_round(&mut self, round: Round) -> Result<()> {
        let _stage = enter(Stage::Simulate);
        let began = self.calendar.now();
        let mut made = StepsMade::default();
        let steps = self.world.scenario.training.steps_of(round);
        for step in steps.clone() {
            let ends_round = step + 1 == steps.end;
            self.run_step(Step(step), ends_round, &mut made).await?;
        }
        self.end_round(round, began, made).await
    }

    async fn run_step(&mut self, step: Step, ends_round: bool, made: &mut StepsMade) -> Result<()> {
        // A step of nobody has no event to look at it between.
        self.check_interrupted()?;
        let now = self.calendar.now();
        let orders = asked(self.peers.begin_step.send(BeginStep { step, now }), "server").await??;
        let mut due = self.obey(orders).await?;
        while !due {
            self.check_interrupted()?;
            self.check_time()?;
            let Some((now, event)) = self.calendar.pop() else {
                return Err(self.without_end(step));
            };
            due = self.happen(now, event).await?;
        }
        self.end_step(ends_round, made).await
    }

    /// Why nothing is left to happen although the step is not due: somebody's transfer never ends.
    fn without_end(&self, step: Step) -> Error {
        match self.taking_part.keys().first() {
            Some(&user) => Error::TimeOverflow { round: self.world.scenario.training.round_of(step), user },
            None => unanswered("server", "it waits for participations that nobody takes part in"),
        }
    }

    fn check_interrupted(&self) -> Result<()> {
        if self.interrupted.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Stops the run if the next event is later than it is to go.
    fn check_time(&mut self) -> Result<()> {
        let (Some(until), Some(next)) = (self.until, self.calendar.next_time()) else { return Ok(()) };
        if next <= until {
            return Ok(());
        }
        // The clock goes on to there, so that what is under way is left as it is then.
        self.calendar.schedule(until, Event::Alarm);
        self.calendar.pop();
        Err(Error::Stopped { at: until })
    }

    /// Does what the server wants; whether the round is complete.
    async fn obey(&mut self, orders: Orders) -> Result<bool> {
        for time in orders.deadline.into_iter().chain(orders.alarm) {
            self.calendar.schedule(time, Event::Alarm);
        }
        if let Some(invitation) = orders.invitation {
            self.invite(invitation).await?;
        }
        Ok(orders.step_due)
    }

    /// Has the server make its step, and adds up what came of it.
    async fn end_step(&mut self, ends_round: bool, made: &mut StepsMade) -> Result<()> {
        let outcome = asked(self.peers.close_step.send(CloseStep { ends_round }), "server").await??;
        self.give_up(&outcome.given_up).await?;
        self.losses.sort_unstable_by_key(|(user, invitation_id, _)| (*user, *invitation_id));
        made.loss_sum = self.losses.drain(..).fold(made.loss_sum, |sum, (_, _, loss)| sum + loss);
        made.steps += u32::from(outcome.aggregated > 0);
        made.aggregated += outcome.aggregated;
        made.uploads.add_times(&outcome.uploads, 1);
        made.model = outcome.model;
        if self.bookings.len() >= BOOKED_AT_ONCE {
            let bookings = emptied(&mut self.bookings);
            asked(self.peers.book.send(Book { bookings }), "metrics").await??;
        }
        Ok(())
    }

    async fn end_round(&mut self, round: Round, began: SimTime, made: StepsMade) -> Result<()> {
        let ended = RoundEnded {
            round,
            began,
            ended: self.calendar.now(),
            participations: std::mem::take(&mut self.counts),
            made,
            bookings: emptied(&mut self.bookings),
        };
        asked(self.peers.round_ended.send(ended), "metrics").await?
    }

    async fn ask(&self, user: UserId, message: ToClient) -> Result<FromClient> {
        asked(self.peers.clients.send(user, message), "client").await
    }

    /// `time`, unless it is beyond what the clock can show.
    fn within_time(&self, time: SimTime, user: UserId, step: Step) -> Result<SimTime> {
        let round = self.world.scenario.training.round_of(step);
        if time == SimTime::END { Err(Error::TimeOverflow { round, user }) } else { Ok(time) }
    }

    fn book(&mut self, invitation_id: InvitationId, user: UserId, event: LinkEvent) {
        self.bookings.push(Booking { at: self.calendar.now(), invitation_id, user, event });
    }
}
