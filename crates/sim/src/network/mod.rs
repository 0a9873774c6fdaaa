//! The network, which owns the clock, turns bytes into time, and decides who is lost when.
//!
//! A participation goes from leg to leg: in most methods from its download through its training to
//! its upload. The calendar has what happens next to it. When something has happened, the server
//! and the client are told, and it is booked for the metrics. The server says whom to invite, when
//! to wake it and when a step is complete. Everything else follows from the clock.

use std::slice;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};

use super::by_user::ByUser;
use super::messages::RoundBooked;
use super::outcome::{Booking, GaugesSince, RoundRecord};
use super::resident::unanswered;
use super::rounds::{Peers, Rounds};
use super::stop::Stop;
use super::workers::Pool;
use super::world::World;
use fedrecsim_core::stages::{Stage, enter};
use fedrecsim_core::{Direction, Result, SimTime, Step, UserId};
use fedrecsim_data::population::AvailabilityClock;
use fedrecsim_model::kernel::prefetch;

mod event_handlers;
mod invitations;
mod participation;
mod saved;
mod server_link;
mod shaping;
mod transfers;
mod watch;

use participation::Participation;
pub(crate) use shaping::ShapedLinks;
use transfers::Traffic;

/// An event in the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Event {
    /// The frame that the user's participation sends or waits for has arrived.
    FrameArrived(UserId),
    /// The work that the user's participation was at is done.
    WorkEnded(UserId),
    /// The start-up of the user's transfer on the server's link is over.
    StartUpEnded(UserId),
    /// The user's own link changes its rate during a transfer on the server's link.
    RateChanges(UserId),
    /// The next transfer on the server's link, in this direction, ends.
    TransfersEnded(Direction),
    /// The user drops out, or departs.
    Lost(UserId),
    /// The server is woken, as it has asked.
    Alarm,
}

impl Event {
    /// Returns the user whom it concerns alone.
    fn user(&self) -> Option<UserId> {
        match *self {
            Self::FrameArrived(user)
            | Self::WorkEnded(user)
            | Self::StartUpEnded(user)
            | Self::RateChanges(user)
            | Self::Lost(user) => Some(user),
            Self::TransfersEnded(_) | Self::Alarm => None,
        }
    }
}

/// Prefetching runs ahead by this number of events, or of invited users.
///
/// Events come in the order of time, so participations are visited in an order that misses the near
/// caches. The calendar knows early which come next, so that several can be on their way from
/// memory at once.
const AHEAD: usize = 4;

/// The number of bookings that are sent to the metrics in the middle of a round; some megabytes of
/// them.
const BOOKED_AT_ONCE: usize = 1 << 17;

/// The network. All other actors wait for it, so it needs no mailbox. It is told to go on
/// ([`Self::advance`]) or to write a checkpoint ([`Self::save`]), one at a time.
pub(crate) struct Network {
    world: Arc<World>,
    pool: Pool,
    rounds: Rounds,
    traffic: Traffic,
    /// The participations under way. They are boxed since they are large, and are moved when one
    /// begins or ends.
    taking_part: ByUser<Box<Participation>>,
    availability: AvailabilityClock,
}

impl Network {
    /// Returns a network at time zero. It looks at `interrupted` between events.
    pub(crate) fn new(
        world: Arc<World>,
        pool: Pool,
        peers: Peers,
        interrupted: Arc<AtomicBool>,
    ) -> Self {
        Self {
            traffic: Traffic::new(Arc::clone(&world)),
            availability: world.population.availability.clock(),
            rounds: Rounds::new(Arc::clone(&world), peers, interrupted),
            world,
            pool,
            taking_part: ByUser::default(),
        }
    }

    /// Returns the virtual time.
    pub(crate) fn now(&self) -> SimTime {
        self.traffic.calendar.now()
    }

    /// Returns the counts of the round that is under way.
    pub(crate) fn unfinished(&self) -> RoundRecord {
        self.rounds.unfinished()
    }

    /// Returns how many rounds are over.
    pub(crate) fn rounds(&self) -> u32 {
        self.rounds.over()
    }

    /// Lets time run until the open round is over, or the next one if none is open. Returns `None`
    /// if that is not so by `until`; then everything up to that instant has happened, and the clock
    /// stands at it. In a busy round, `tell` is given bookings on the way.
    ///
    /// # Errors
    /// Everything that ends a run, and defects of the simulator. The network cannot go on after either.
    pub(crate) async fn advance(
        &mut self,
        until: Option<SimTime>,
        tell: &mut dyn FnMut(Vec<Booking>),
    ) -> Result<Option<RoundBooked>> {
        let _stage = enter(Stage::Simulate);
        if until.is_some_and(|until| until < self.now()) {
            return Ok(None);
        }
        self.rounds.open(self.now());
        while let Some(step) = self.rounds.step() {
            if !self.run_step(step, until).await? {
                return Ok(None);
            }
            self.end_step(tell).await?;
        }
        self.end_round().await.map(Some)
    }

    /// Lets time run until the open step is due, and returns whether it is due by `until`.
    async fn run_step(&mut self, step: Step, until: Option<SimTime>) -> Result<bool> {
        // A step without participants has no events, so the interruption is looked for here, too.
        self.rounds.check_interrupted()?;
        let now = self.now();
        self.watch_time_until(now);
        let mut orders = self.rounds.begin_step(now)?.unwrap_or_default();
        loop {
            for time in orders.deadline.into_iter().chain(orders.alarm) {
                self.traffic.calendar.schedule(time, Event::Alarm);
            }
            if let Some((invitation, cohort)) = orders.invitation {
                self.invite(invitation, cohort).await?;
            }
            if orders.step_due {
                return Ok(true);
            }
            self.rounds.check_interrupted()?;
            if !self.next_is_by(until) {
                return Ok(false);
            }
            let (now, event) = self.next_event(step)?;
            self.prefetch_upcoming();
            self.watch_time_until(now);
            if self.needs_trainings(event) {
                self.work_out_trainings().await?;
            }
            orders = self.happen(now, event)?;
        }
    }

    /// Books what is under way at this instant, at which the run ends. Returns what was not booked
    /// before.
    ///
    /// # Errors
    /// Defects of the simulator.
    pub(crate) async fn stop(&mut self) -> Result<Vec<Booking>> {
        self.watch_time_until(self.now());
        self.book_unfinished()?;
        let bookings = std::mem::take(&mut self.traffic.bookings);
        self.rounds.book(bookings).await
    }

    /// Moves the clock to the next event, for which `step` waits.
    ///
    /// # Errors
    /// [`Stop::TimeOverflow`] if it is beyond what the clock can show. Durations saturate, so that
    /// everything beyond the end stands at the end, and nothing else does. The clock does not move
    /// to it: what is under way is booked at the instant of the last event.
    fn next_event(&mut self, step: Step) -> Result<(SimTime, Event)> {
        let calendar = &mut self.traffic.calendar;
        let is_beyond_the_end = calendar.next_time() == Some(SimTime::END);
        if is_beyond_the_end {
            let mut users = calendar
                .pending()
                .into_iter()
                .filter_map(|(_, event)| event.user());
            let round = self.world.scenario.training.round_of(step);
            let user = users.next().map(|user| self.world.dataset.who(user));
            return Err(Stop::TimeOverflow { round, user }.into());
        }
        calendar.pop().ok_or_else(|| {
            unanswered(
                "server",
                "it waits for participations that nobody takes part in",
            )
        })
    }

    /// Returns whether the next event is not later than `until`. If it is later, the clock moves on
    /// to `until`, so that what is under way is left as it is at that instant.
    fn next_is_by(&mut self, until: Option<SimTime>) -> bool {
        let (Some(until), calendar) = (until, &mut self.traffic.calendar) else {
            return true;
        };
        if calendar.next_time().is_none_or(|next| next <= until) {
            return true;
        }
        self.traffic.wait_until(until);
        false
    }

    /// Takes back a list of bookings that is no longer needed, so that the next round's bookings
    /// use its memory.
    pub(crate) fn reuse(&mut self, mut bookings: Vec<Booking>) {
        if self.traffic.bookings.capacity() == 0 {
            bookings.clear();
            self.traffic.bookings = bookings;
        }
    }

    /// Has the server make its step, and ends the participations that it cancels then.
    async fn end_step(&mut self, tell: &mut dyn FnMut(Vec<Booking>)) -> Result<()> {
        let cancelled = self.rounds.end_step()?;
        self.cancel(&cancelled)?;
        if self.traffic.bookings.len() >= BOOKED_AT_ONCE {
            // The rest of the round will need room for as many again.
            let room = Vec::with_capacity(self.traffic.bookings.len());
            let bookings = std::mem::replace(&mut self.traffic.bookings, room);
            tell(self.rounds.book(bookings).await?);
        }
        Ok(())
    }

    /// Counts the time until `now` with what was there in it, before anything changes at that
    /// instant.
    fn watch_time_until(&mut self, now: SimTime) {
        self.traffic.watch_until(now, self.taking_part.len());
    }

    /// Has the changes at the server's link kept from now on, see [`Self::take_changes`].
    pub(crate) fn keep_changes(&mut self) {
        self.traffic.watch.keep_changes();
    }

    /// Returns the changes at the server's link since the last call, if they are kept.
    pub(crate) fn take_changes(&mut self) -> Vec<GaugesSince> {
        self.traffic.watch.take_changes()
    }

    async fn end_round(&mut self) -> Result<RoundBooked> {
        let now = self.now();
        let watched = self.traffic.watch.end_round();
        // The list comes back when it is no longer needed, see [`Self::reuse`].
        let bookings = std::mem::take(&mut self.traffic.bookings);
        self.rounds.end(now, watched, bookings).await
    }

    /// Prefetches the participation that the next event concerns.
    fn prefetch_upcoming(&self) {
        let Some(event) = self.traffic.calendar.upcoming(AHEAD) else {
            return;
        };
        if let Event::WorkEnded(user) = *event {
            self.rounds.peers.workers.expect_end_of_training(user);
        }
        if let Some(user) = event.user() {
            self.prefetch(user);
        }
    }

    /// Asks the processor for the participation of `user`.
    fn prefetch(&self, user: UserId) {
        if let Some(participation) = self.taking_part.get(&user) {
            prefetch(slice::from_ref(&**participation));
        }
    }
}
